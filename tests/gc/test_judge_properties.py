"""What holds for every cluster, however its pods, records, endpoints, sets and nodes stand to one another."""

import cProfile
import json
import pstats
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from factories import (
    MIRROR,
    NETWORK_STATUS,
    NOW,
    UNREAD,
    Object,
    ago,
    blue,
    claim,
    endpoint,
    findings,
    green,
    nad,
    name_of,
    network_status,
    node,
    pod,
    snapshot,
    stateful_set,
    uid,
    undecodable,
    virtual_machine,
)
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies, Policy
from poolwarden.ipam.kinds import PODS, Kind
from poolwarden.ipam.spiderpool import ENDPOINTS, POOLS
from poolwarden.ipam.verdict import Action, Finding, OwnerId, Verdict

ADDRESSES = [f"10.0.0.{number}" for number in range(10, 14)]
NAMES = ["web-0", "web-1", "app", "job"]
UIDS = [f"{name}-uid" for name in NAMES] + ["older-uid"]
NODES = ["node-1", "node-2", ""]
POLICIES = [Policy(), Policy(release_finished_pods=True, node_evidence_required=False)]
EXCEPTED = {"OwnerFinished", "OwnerOverdue"}  # whose own pod may show the address

address_lists = st.lists(st.sampled_from(ADDRESSES), max_size=2, unique=True)
statuses = st.one_of(
    st.none(),
    st.just(""),
    st.just("{"),
    st.sampled_from(ADDRESSES).map(lambda address: f'[{{"ips": ["{address}"'),
    st.dictionaries(st.sampled_from(["eth0", "net1"]), address_lists).map(network_status),
)
ends = st.sampled_from([None, ago(seconds=5), ago(hours=1), ago(hours=1)])
containers = st.dictionaries(st.sampled_from(["main", "sidecar"]), ends)


def uid_for(name: str) -> st.SearchStrategy[str]:
    """Mostly the UID of the pod of that name, sometimes another's."""
    return st.sampled_from([f"{name}-uid"] * 5 + ["older-uid", *UIDS])


@st.composite
def pods(draw: Callable[..., Any]) -> list[Object]:
    """Pods of different names and UIDs, in every phase."""
    names = draw(st.lists(st.sampled_from(NAMES), unique=True))
    uids = draw(st.just(names) | st.permutations(NAMES))
    return [
        pod(
            name,
            uid=f"{identity}-uid",
            ips=draw(address_lists),
            status=draw(statuses),
            networks=draw(st.sampled_from([None, "net1", "a/b/c"])),
            phase=draw(st.sampled_from(["Pending", "Running", "Running", "Succeeded", "Failed", "Unknown"])),
            ready=draw(st.booleans()),
            node=draw(st.sampled_from(NODES)),
            deadline=draw(st.sampled_from([None, None, ago(minutes=-1), ago(minutes=1)])),
            restart=draw(st.sampled_from(["Always", "Never"])),
            host_network=draw(st.booleans()),
            sandbox=draw(st.sampled_from([None, True, False])),
            containers=draw(containers),
            annotations=draw(st.sampled_from([{}, {}, MIRROR])),
        )
        for name, identity in zip(names, uids, strict=False)
    ]


claims = st.sampled_from(NAMES).flatmap(lambda name: st.builds(claim, st.just(name), uid_for(name) | st.just("")))
records = st.dictionaries(
    st.sampled_from([*ADDRESSES, "10.0.0.99", "nonsense"]), claims | claims | st.just({"pod": "nonsense"})
)
items = st.dictionaries(
    st.sampled_from(["eth0", "net1", ""]), st.sampled_from(ADDRESSES).map(lambda address: f"{address}@blue")
)


@st.composite
def clusters(draw: Callable[..., Any]) -> list[Object]:
    """Small clusters in every state that we can think of."""
    owners = draw(st.lists(st.sampled_from(NAMES), unique=True))
    finalizers = st.sampled_from([(), ("spiderpool.spidernet.io",)])
    endpoints = [
        endpoint(
            name,
            draw(items),
            uid=draw(uid_for(name)),
            node=draw(st.sampled_from(NODES)),
            kind=draw(st.sampled_from(["Pod", "StatefulSet", "VirtualMachineInstance"])),
            finalizers=draw(finalizers),
        )
        for name in owners
    ]
    sets = [stateful_set("web", replicas=count) for count in draw(st.lists(st.integers(0, 2), max_size=1))]
    nodes = [
        node(name, ready=draw(st.booleans()), fenced=draw(st.booleans()))
        for name in draw(st.lists(st.sampled_from(NODES[:2]), unique=True))
    ]
    extras = draw(st.lists(st.sampled_from([nad("eth0"), nad("net1"), virtual_machine("app")]), unique_by=str))
    things = [*draw(pods()), blue(draw(records)), *endpoints, *sets, *nodes, *extras]
    broken = draw(st.sets(st.integers(0, 30), max_size=2))
    return [undecodable(thing) if at in broken else thing for at, thing in enumerate(things)]


def shown(thing: Object) -> set[str]:
    """The addresses of the universe that a pod shows, found without the code under test."""
    if thing["kind"] != "Pod" or thing["status"]["phase"] in {"Succeeded", "Failed"}:
        return set()
    text = thing["metadata"]["annotations"].get(NETWORK_STATUS, "") + json.dumps(thing["status"]["podIPs"])
    return {address for address in ADDRESSES if address in text}


def released(found: list[Finding]) -> list[Finding]:
    """Those that are to be released."""
    return [item for item in found if item.action is Action.RELEASE]


@given(clusters(), st.sampled_from(POLICIES))
@settings(deadline=None, max_examples=150)
def test_no_address_that_a_pod_shows_is_released(cluster: list[Object], policy: Policy) -> None:
    """Save for the overdue or finished owner itself, by UID."""
    for item in released(findings(*cluster, policy=policy)):
        users = {uid(thing) for thing in cluster if item.address in shown(thing)}
        assert users <= (owners(item, cluster) if item.reason in EXCEPTED else set())


def owners(item: Finding, cluster: list[Object]) -> set[str]:
    """The UID of a record's owner: of the pod of its name, if the record has none."""
    owner = item.owner
    assert isinstance(owner, OwnerId)
    named = {uid(thing) for thing in cluster if thing["kind"] == "Pod" and name_of(thing) == owner.name}
    return {owner.uid} if owner.uid else named


@given(clusters(), st.sampled_from(POLICIES))
@settings(deadline=None, max_examples=100)
def test_no_address_that_another_uids_endpoint_lists_is_released(cluster: list[Object], policy: Policy) -> None:
    """Its IPAM could hand it out again without a write; only the owner's own endpoint may list it."""
    found = released(findings(*cluster, policy=policy))
    for thing in cluster:
        if thing["kind"] == "SpiderEndpoint" and thing["metadata"]["finalizers"]:  # without it a DEL may have left it
            current = thing["status"]["current"]
            listed = {item["ipv4"].partition("/")[0] for item in current["ips"]}
            assert {owner_uid(item) for item in found if item.address in listed} <= {current["uid"]}


def owner_uid(item: Finding) -> str:
    """The UID that the record names."""
    assert isinstance(item.owner, OwnerId)
    return item.owner.uid


@given(clusters(), st.sampled_from(POLICIES), st.sampled_from([PODS, ENDPOINTS, POOLS]))
@settings(deadline=None, max_examples=150)
def test_nothing_is_written_on_half_a_list(cluster: list[Object], policy: Policy, kind: Kind) -> None:
    """Any pod may show, any endpoint list and any pool record the address."""
    assert released(findings(*cluster, policy=policy, coverage={kind: UNREAD})) == []


@given(clusters(), st.sampled_from(POLICIES))
@settings(deadline=None, max_examples=150)
def test_a_record_with_the_uid_of_a_pod_is_released_for_four_reasons(cluster: list[Object], policy: Policy) -> None:
    """Its owner ended, should have, or cannot use the address; whoever is gone has no pod."""
    pods_by_uid = {uid(thing) for thing in cluster if thing["kind"] == "Pod"}
    for item in released(findings(*cluster, policy=policy)):
        exists = owner_uid(item) in pods_by_uid
        assert exists or item.reason not in {*EXCEPTED, "SurplusForOwner", "NeverAttached"} or not owner_uid(item)
        assert not exists or item.reason not in {"OwnerGone", "OwnerReplaced"}


@given(clusters())
@settings(deadline=None, max_examples=100)
def test_every_record_has_exactly_one_finding(cluster: list[Object]) -> None:
    """None is forgotten, none judged twice; only leaks are released, only drift is repaired."""
    found = findings(*cluster)
    readable = [t for t in cluster if t["kind"] == "SpiderIPPool" and t["metadata"]["creationTimestamp"] != "yesterday"]
    keys = [key for thing in readable for key in json.loads(thing["status"].get("allocatedIPs", "{}"))]
    assert len([item for item in found if item.record_digest]) == len(keys)
    assert {item.verdict for item in released(found)} <= {Verdict.LEAKED}
    assert {item.verdict for item in found if item.action is Action.REPAIR} <= {Verdict.DRIFT}


@given(clusters(), st.data())
@settings(deadline=None, max_examples=100)
def test_the_order_of_lists_decides_no_verdict(cluster: list[Object], data: st.DataObject) -> None:
    """The API server lists in an order of its own: what is found of each record and endpoint is the same."""
    shuffled = data.draw(st.permutations(cluster))
    assert sorted(map(essence, findings(*cluster))) == sorted(map(essence, findings(*shuffled)))


def essence(finding: Finding) -> tuple[str, ...]:
    """A finding without its message."""
    fields = (finding.pool, finding.address, finding.verdict, finding.reason, finding.action)
    return (*map(str, fields), finding.record_digest, finding.subject, finding.interface)


@given(clusters(), st.data())
@settings(deadline=None, max_examples=100)
def test_the_order_of_lists_decides_no_word(cluster: list[Object], data: st.DataObject) -> None:
    """Findings come in one order and say the same, so that reports and events change only with the cluster."""
    shuffled = data.draw(st.permutations(cluster))
    assert findings(*cluster) == findings(*shuffled)


@given(clusters())
@settings(deadline=None, max_examples=30)
def test_judging_is_pure(cluster: list[Object]) -> None:
    """The same snapshot gives the same findings."""
    taken = snapshot(*cluster)
    assert judge(taken, Policies(), NOW) == judge(taken, Policies(), NOW)


jsons = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(ADDRESSES),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["name", "interface", "ips", "default", "type", "ipam", "plugins"]), inner)
    ),
    max_leaves=8,
)
garbage = st.text(max_size=30) | jsons.map(json.dumps) | jsons.map(lambda value: json.dumps([value])[:-2])


@given(garbage, garbage, garbage, garbage, garbage)
@settings(deadline=None, max_examples=150)
def test_no_text_stops_the_judge(status: str, networks: str, ippools: str, config: str, allocated: str) -> None:
    """Annotations, CNI configurations and records are what users wrote; a plain leak beside them is found."""
    notes = {"ipam.spidernet.io/ippools": ippools, "v1.multus-cni.io/default-network": networks}
    odd = pod("odd", status=status, networks=networks, annotations=notes)
    plumbing = nad("net1")
    plumbing["spec"]["config"] = config
    leaks = blue({"10.0.0.20": claim("gone"), "10.0.0.21": odd, "10.0.0.22": odd})
    broken = green(allocated, allocated=1) | {"metadata": {"name": "broken", "uid": "broken-uid"}}
    found = findings(odd, plumbing, leaks, broken, endpoint("odd", {"eth0": "10.0.0.21@blue"}))
    assert "OwnerGone" in {item.reason for item in found if item.address == "10.0.0.20"}


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
@settings(deadline=None)
def test_no_address_stops_the_judge(pod_ip: str, item: str, key: str) -> None:
    """Nor do addresses that are none."""
    odd = pod("odd", ips=[pod_ip], status="")
    records = blue({"10.0.0.20": claim("gone"), key: claim(odd)})
    lists = endpoint(odd, {"eth0": "10.0.0.21@blue"})
    lists["status"]["current"]["ips"][0]["ipv4"] = item
    assert "OwnerGone" in {found.reason for found in findings(odd, records, lists) if found.address == "10.0.0.20"}


def calls(size: int) -> int:
    """How many calls it takes to judge so many records of live and gone owners."""
    live = [pod(f"live-{n}", ips=[f"10.1.{n // 250}.{n % 250}"]) for n in range(size)]
    entries = {thing["status"]["podIP"]: thing for thing in live}
    entries |= {f"10.2.{n // 250}.{n % 250}": claim(f"gone-{n}") for n in range(size)}
    pools = blue(entries, total=1) | {}
    pools["spec"]["ips"] = ["10.1.0.0-10.2.255.255"]
    lists = [endpoint(thing, {"eth0": f"{thing['status']['podIP']}@blue"}) for thing in live]
    taken = snapshot(pools, *live, *lists, node(), node("node-2", ready=False), nad("eth0"))
    profile = cProfile.Profile()
    profile.runcall(judge, taken, Policies(), NOW)
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


def test_work_grows_with_the_number_of_objects() -> None:
    """Twice the objects take about twice the calls."""
    calls(10)  # fills caches
    assert calls(400) < 2.2 * calls(200)
