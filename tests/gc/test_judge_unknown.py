"""Unknown: what cannot be read, or makes no sense, is kept."""

import pytest

from factories import (
    FORBIDDEN,
    MIRROR,
    NOT_GIVEN,
    UNREAD,
    Object,
    ago,
    beside,
    blue,
    claim,
    endpoint,
    green,
    nad,
    network_status,
    node,
    pod,
    pool,
    reserved_ip,
    said,
    stateful_set,
    told,
    undecodable,
    verdict,
    words,
)
from poolwarden.cluster.interface import Coverage, NotInstalled, Partial
from poolwarden.gc.policy import Policy
from poolwarden.ipam.kinds import (
    NODES,
    PODS,
    STATEFUL_SETS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    Kind,
)
from poolwarden.ipam.spiderpool import ENDPOINTS, POOLS, RESERVATIONS
from poolwarden.ipam.verdict import NoOwner

A = "10.0.0.10"
INCOMPLETE = "Unknown EvidenceIncomplete none"
GONE = blue({A: claim("app")})


# --- the owner itself -----------------------------------------------------------------------------------------------


def test_owner_that_cannot_be_decoded() -> None:
    """A pod that cannot be decoded exists: its record is kept, though its UID cannot be compared."""
    assert said(A, GONE, undecodable(pod("app"))) == INCOMPLETE
    found = verdict(A, blue({A: claim("app", "old-uid")}), undecodable(pod("app")))
    assert words(found) == INCOMPLETE
    assert "default/app" in found.message.partition("not known")[2]


def test_undecodable_pod_of_another_name_decides_nothing() -> None:
    """Only the record's own owner matters: another pod that cannot be decoded keeps nothing but its addresses."""
    assert said(A, GONE, undecodable(pod("other"))) == "Leaked OwnerGone release"


@pytest.mark.parametrize("status", ["{", '{"a": 1}', "[{}, 5]", '[{"interface": "eth0", "ips": ["10.0.0.1000"]}]'])
def test_corrupt_network_status_of_the_owner(status: str) -> None:
    """A network-status that cannot be read says nothing about the owner's addresses."""
    app = pod("app", status=status)
    found = verdict(A, blue({A: app}), app)
    assert words(found) == INCOMPLETE
    assert "default/app (UID app-uid)" in found.message


def test_corrupt_network_status_under_its_old_name() -> None:
    """Older Multus writes `networks-status`."""
    app = pod("app", annotations={"k8s.v1.cni.cncf.io/networks-status": "{"})
    assert said(A, blue({A: app}), app) == INCOMPLETE


def test_missing_network_status_is_no_doubt() -> None:
    """A network-status that is missing alone is no incomplete evidence: a starting pod has none."""
    app = pod("app")
    assert said(A, blue({A: app}), app, nad("eth0")) == "InUse OwnerLive none"


# --- lists ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [PODS, ENDPOINTS])
@pytest.mark.parametrize("coverage", [UNREAD, FORBIDDEN, NOT_GIVEN, Partial(frozenset({"other"}))])
def test_absence_needs_complete_lists_of_pods_and_endpoints(kind: Kind, coverage: Coverage) -> None:
    """An owner is absent only from a complete list, and its endpoint must be known before its record goes."""
    assert said(A, GONE, coverage={kind: coverage}) == INCOMPLETE


@pytest.mark.parametrize("kind", [PODS, ENDPOINTS])
@pytest.mark.parametrize("coverage", [Partial(frozenset({"default"})), NotInstalled()])
def test_lists_of_the_owners_namespace_suffice(kind: Kind, coverage: Coverage) -> None:
    """A list that was read to its end in the owner's namespace proves that it is absent there."""
    assert said(A, GONE, coverage={kind: coverage}) == "Leaked OwnerGone release"


@pytest.mark.parametrize("coverage", [UNREAD, FORBIDDEN, NOT_GIVEN])
def test_absence_needs_all_pools(coverage: Coverage) -> None:
    """A pool that was not read may record the address for somebody who lives."""
    assert said(A, GONE, coverage={POOLS: coverage}) == INCOMPLETE


def test_reservations_that_exist_but_cannot_be_read() -> None:
    """They may put the address out of range, where nothing is freed; a dump without any has none."""
    assert said(A, GONE, coverage={RESERVATIONS: FORBIDDEN}) == INCOMPLETE
    assert said(A, GONE, coverage={RESERVATIONS: UNREAD}) == INCOMPLETE
    assert said(A, GONE, undecodable(reserved_ip("10.9.9.9"))) == INCOMPLETE
    assert said(A, GONE, coverage={RESERVATIONS: NOT_GIVEN}) == "Leaked OwnerGone release"


@pytest.mark.parametrize("kind", [PODS, ENDPOINTS])
def test_replacement_needs_complete_lists_too(kind: Kind) -> None:
    """That the name carries another UID is no proof of anything else in an incomplete list."""
    assert said(A, GONE, pod("app", uid="app-uid-2"), coverage={kind: UNREAD}) == INCOMPLETE


def test_message_and_command_of_what_is_missing() -> None:
    """The finding carries what would complete the evidence."""
    found = verdict(A, GONE, coverage={PODS: NOT_GIVEN, ENDPOINTS: Partial(frozenset({"other"}))})
    assert "nothing of it was given" in found.message
    assert [item.command for item in found.needs] == [
        "kubectl get it",
        "kubectl get spiderendpoints.spiderpool.spidernet.io --namespace default -o yaml",
    ]


@pytest.mark.parametrize("kind", [PODS, ENDPOINTS, STATEFUL_SETS, NODES, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES])
def test_a_live_owner_needs_no_list(kind: Kind) -> None:
    """Whoever is seen alive is alive, however little else was read."""
    web = pod("web-0", ips=[A])
    assert said(A, blue({A: web}), web, coverage={kind: UNREAD}) == "InUse OwnerLive none"


@pytest.mark.parametrize("kind", [PODS, ENDPOINTS])
def test_a_finished_owner_needs_lists(kind: Kind) -> None:
    """To release the address of an owner that exists, too, takes all pods (one may show it) and all endpoints."""
    app = pod("app", phase="Failed")
    finished = Policy(release_finished_pods=True)
    assert said(A, blue({A: app}), app, coverage={kind: UNREAD}, policy=finished) == INCOMPLETE


@pytest.mark.parametrize("kind", [PODS, ENDPOINTS])
def test_an_overdue_owner_needs_lists(kind: Kind) -> None:
    """An overdue owner's address may be shown by a pod that was not read; its endpoint must go first."""
    app = pod("app", deadline=ago(minutes=5), containers={"main": ago(minutes=6)})
    assert said(A, blue({A: app}), app, coverage={kind: UNREAD}) == INCOMPLETE


def test_surplus_needs_the_list_of_pods() -> None:
    """A surplus address may be shown by a pod that was not read."""
    app = pod("app", ips=["10.0.0.11"])
    things = (blue({A: app, "10.0.0.11": app}), app, endpoint(app, {"eth0": "10.0.0.11@blue"}))
    assert said(A, *things) == "Leaked SurplusForOwner release"
    assert verdict(A, *things, coverage={PODS: UNREAD}).action == "none"


def test_a_phantom_needs_the_list_of_pods() -> None:
    """The address of a NIC that was never attached may be shown by a pod that was not read."""
    app = pod("app", ips=[A])
    items = {"eth0": f"{A}@blue", "": "10.0.1.10@green"}
    things = (blue({A: app}), green({"10.0.1.10": app}), app, endpoint(app, items))
    assert said("10.0.1.10", *things, pool="green") == "Leaked NeverAttached release"
    assert verdict("10.0.1.10", *things, pool="green", coverage={PODS: UNREAD}).action == "none"


def test_endpoint_that_cannot_be_decoded() -> None:
    """Without the owner's endpoint neither its node nor what must go first is known."""
    found = verdict(A, GONE, undecodable(endpoint("app", {})))
    assert words(found) == INCOMPLETE
    assert "endpoint default/app" in found.message
    assert said(A, GONE, undecodable(endpoint("other", {}))) == "Leaked OwnerGone release"


def test_endpoint_whose_items_cannot_be_read() -> None:
    """Likewise if what it lists makes no sense."""
    odd = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.0.300@blue"})
    found = verdict(A, GONE, odd)
    assert words(found) == INCOMPLETE
    assert "endpoint cannot be read" in found.message
    assert "10.0.0.300" in found.message


@pytest.mark.parametrize("coverage", [UNREAD, FORBIDDEN, NOT_GIVEN, Partial(frozenset({"other"}))])
def test_stateful_sets_are_needed_where_a_name_ends_in_an_ordinal(coverage: Coverage) -> None:
    """A name that ends in an ordinal may be that of a StatefulSet's pod, whose address is kept."""
    gaps = {STATEFUL_SETS: coverage}
    assert said(A, blue({A: claim("web-0")}), coverage=gaps) == INCOMPLETE
    assert said(A, blue({A: claim("web-x")}), coverage=gaps) == "Leaked OwnerGone release"
    assert said(A, blue({A: claim("web-0x")}), coverage=gaps) == "Leaked OwnerGone release"
    assert said(A, blue({A: claim("-0")}), coverage=gaps) == "Leaked OwnerGone release"


def test_stateful_sets_are_needed_where_an_endpoint_names_one() -> None:
    """Spiderpool noted in the endpoint that a StatefulSet owns the pod."""
    things = (blue({A: claim("web-x")}), endpoint("web-x", {}, kind="StatefulSet"))
    assert said(A, *things, coverage={STATEFUL_SETS: UNREAD}) == INCOMPLETE
    assert said(A, *things) == "Leaked OwnerGone release"


def test_stateful_sets_of_the_owners_namespace_suffice() -> None:
    """A list that was read to its end in that namespace proves that there is no such set."""
    gaps = {STATEFUL_SETS: Partial(frozenset({"default"}))}
    assert said(A, blue({A: claim("web-0")}), coverage=gaps) == "Leaked OwnerGone release"


def test_stateful_set_that_cannot_be_decoded() -> None:
    """Its replicas are not known, so its pods' addresses are kept; other sets' pods do not matter to it."""
    assert said(A, blue({A: claim("web-0")}), undecodable(stateful_set("web"))) == INCOMPLETE
    assert said(A, blue({A: claim("db-0")}), undecodable(stateful_set("web"))) == "Leaked OwnerGone release"


def test_a_set_that_does_not_entitle_decides_nothing_in_a_broken_list() -> None:
    """A set that was read says only what it says: the list is still needed to its end."""
    gaps = {STATEFUL_SETS: UNREAD}
    assert said(A, blue({A: claim("web-1")}), stateful_set("web"), coverage=gaps) == INCOMPLETE
    assert said(A, blue({A: claim("web-0")}), stateful_set("web"), coverage=gaps) == (
        "Retained StatefulSetEntitled none"
    )


@pytest.mark.parametrize("kind", [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES])
@pytest.mark.parametrize("coverage", [NOT_GIVEN, Partial(frozenset({"other"}))])
def test_machines_are_needed_where_a_name_or_an_endpoint_suggests_one(kind: Kind, coverage: Coverage) -> None:
    """KubeVirt's kinds are evidence where the name is a launcher's or the endpoint says VM; elsewhere they need not be."""
    gaps = {kind: coverage}
    machine = blue({A: claim("vm")})
    for top in ("VirtualMachineInstance", "VirtualMachine"):
        assert said(A, machine, endpoint("vm", {}, kind=top), coverage=gaps) == INCOMPLETE
    assert said(A, blue({A: claim("virt-launcher-vm-x")}), coverage=gaps) == INCOMPLETE
    assert said(A, machine, endpoint("vm", {}, kind="ReplicaSet"), coverage=gaps) == "Leaked OwnerGone release"


@pytest.mark.parametrize("kind", [VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES])
@pytest.mark.parametrize("coverage", [FORBIDDEN, UNREAD])
def test_machines_that_exist_but_may_not_be_read(kind: Kind, coverage: Coverage) -> None:
    """Where KubeVirt's kinds are served but cannot be listed, any name may be a VM's."""
    assert said(A, GONE, coverage={kind: coverage}) == INCOMPLETE


def test_kubevirt_that_is_not_installed() -> None:
    """Kinds that the API server does not serve retain nothing."""
    gaps = {VIRTUAL_MACHINES: NotInstalled(), VIRTUAL_MACHINE_INSTANCES: NotInstalled()}
    things = (blue({A: claim("vm")}), endpoint("vm", {}, kind="VirtualMachineInstance"))
    assert said(A, *things, coverage=gaps) == "Leaked OwnerGone release"


def test_nodes_that_cannot_be_listed() -> None:
    """Without nodes there is no node evidence; a pool that ignores it needs none."""
    assert said(A, GONE, coverage={NODES: UNREAD}) == INCOMPLETE
    assert said(A, GONE, coverage={NODES: UNREAD}, policy=Policy(node_evidence_required=False)) == (
        "Leaked OwnerGone release"
    )


def test_stuck_owner_and_nodes_that_cannot_be_listed() -> None:
    """A list that decides and could not be read is incomplete evidence, no statement about a node."""
    app = pod("app", deadline=ago(minutes=5))
    found = verdict(A, blue({A: app}), app, coverage={NODES: UNREAD})
    assert words(found) == INCOMPLETE
    assert "the list broke off" in found.message


# --- records that make no sense -------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["", "10.0.0", "10.0.0.10/24", "web-0", "10.0.0.10-10.0.0.11", "fe80::1%eth0"])
def test_key_that_is_no_address(key: str) -> None:
    """A record whose key is no address has no address; it is told and never freed."""
    assert said(None, blue({key: claim("app")})) == "Unknown RecordInvalid none"


@pytest.mark.parametrize(
    "entry",
    [
        claim("app") | {"pod": "app"},
        claim("app") | {"pod": "default/app/x"},
        claim("app") | {"pod": "/app"},
        claim("app") | {"pod": "default/"},
        claim("app") | {"pod": ""},
        {"podUid": "app-uid"},
        {},
        {"pod": 5, "podUid": "app-uid"},
        {"pod": "default/app", "podUid": 5},
    ],
)
def test_owner_that_cannot_be_parsed(entry: Object) -> None:
    """An owner that is not `namespace/name` with a textual UID is nobody's to free."""
    found = verdict(A, blue({A: entry}))
    assert words(found) == "Unknown RecordInvalid none"
    assert A in found.message
    assert found.owner == NoOwner()


@pytest.mark.parametrize("entry", ["5", "null", '"default/app"', "[]"])
def test_entry_that_is_no_object(entry: str) -> None:
    """Whatever stands at an address, it is told as what it is."""
    assert said(A, blue(f'{{"{A}":{entry}}}', allocated=1)) == "Unknown RecordInvalid none"


def test_one_bad_record_does_not_stop_the_rest() -> None:
    """The well-formed leak beside a bad record is found."""
    records = {A: {"pod": "app"}, "10.0.0.11": claim("app")}
    assert said("10.0.0.11", blue(records)) == "Leaked OwnerGone release"


@pytest.mark.parametrize("outside", ["10.0.0.9", "10.0.0.31", "fd00::10"])
def test_address_outside_the_ranges(outside: str) -> None:
    """An address that the pool does not hand out is told and never freed."""
    found = verdict(outside, blue({outside: claim("app")}))
    assert words(found) == "Unknown OutOfRange none"
    assert f"{outside} is recorded for default/app (UID app-uid)" in found.message
    assert "outside its ranges" in found.message


def test_excluded_address() -> None:
    """Excluded addresses are outside the pool's ranges."""
    excluding = blue({A: claim("app")}, exclude=[A])
    assert said(A, excluding) == "Unknown OutOfRange none"


def test_reserved_address() -> None:
    """So are those that a SpiderReservedIP takes from every pool."""
    found = verdict(A, GONE, reserved_ip("10.0.0.5-10.0.0.10"))
    assert words(found) == "Unknown OutOfRange none"
    assert "reserved" in found.message
    assert said(A, GONE, reserved_ip("10.0.0.5-10.0.0.9")) == "Leaked OwnerGone release"


def test_address_outside_the_ranges_of_a_live_owner() -> None:
    """Out of range comes before in use: the pool may be shrinking under a running pod."""
    app = pod("app", ips=["10.0.0.9"])
    assert said("10.0.0.9", blue({"10.0.0.9": app}), app) == "Unknown OutOfRange none"


# --- static pods ----------------------------------------------------------------------------------------------------


def test_mirror_pod_with_another_uid() -> None:
    """A static pod's mirror changes its UID while the sandbox runs on: nothing is proven."""
    found = verdict(A, blue({A: claim("app", "old-uid")}), pod("app", annotations=MIRROR))
    assert words(found) == "Unknown StaticPod none"
    assert "old-uid" in found.message
    assert "app-uid" in found.message


def test_mirror_pod_with_the_same_uid() -> None:
    """A mirror pod with the record's UID lives like any other."""
    app = pod("app", annotations=MIRROR)
    assert said(A, blue({A: app}), app) == "InUse OwnerLive none"


def test_static_pod_without_a_mirror() -> None:
    """Its kubelet runs it on though the API server has no mirror of it: its endpoint says that a Node owns it."""
    static = endpoint("app", {"eth0": f"{A}@blue"}, kind="Node")
    assert said(A, GONE, static) == "Unknown StaticPod none"
    other = endpoint("app", {"eth0": "10.0.0.11@blue"}, uid="other-uid", kind="Node")
    assert said(A, GONE, other) == "Leaked OwnerGone release"
    assert said(A, blue({A: claim("app", "old-uid")}), pod("app"), other) == "Leaked OwnerReplaced release"


def test_pod_with_another_uid_that_is_no_mirror() -> None:
    """Any other pod whose name carries another UID has replaced the owner."""
    assert said(A, blue({A: claim("app", "old-uid")}), pod("app")) == "Leaked OwnerReplaced release"


# --- pools that cannot be read --------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["{", "[]", '"x"', f'{{"{A}":'])
def test_records_that_cannot_be_parsed(text: str) -> None:
    """Nothing is said about the records of such a pool, nor that an address in use is unrecorded; the pool is told."""
    app = pod("app", ips=["10.0.0.11"])
    things = (blue(text, allocated=1), green({"10.0.1.10": claim("gone")}), app, nad("eth0"))
    found = beside(*things)
    assert [(item.address, item.pool.name, words(item)) for item in found] == [(None, "blue", INCOMPLETE)]
    assert said("10.0.1.10", *things, pool="green") == "Leaked OwnerGone release"


def test_pool_that_cannot_be_decoded() -> None:
    """A pool of which nothing is known is told; the others are judged."""
    things = (undecodable(blue({A: claim("app")})), green({"10.0.1.10": claim("gone")}))
    assert told(*things) == [f"None {INCOMPLETE}"]
    assert said("10.0.1.10", *things, pool="green") == "Leaked OwnerGone release"


def test_a_defect_of_ours_stops_one_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """A record that we fail to judge is kept and told; the others are judged."""

    def fail(_: object) -> None:
        raise LookupError

    monkeypatch.setattr("poolwarden.gc.judge.uid_text", fail)
    odd = pod("odd", status="{")
    things = (blue({A: claim("app"), "10.0.0.11": odd}), odd)
    found = verdict("10.0.0.11", *things, defects=True)
    assert words(found) == INCOMPLETE
    assert "LookupError" in found.message
    assert said(A, *things, defects=True) == "Leaked OwnerGone release"


# --- garbage that users can write -----------------------------------------------------------------------------------

DEEP = "[" * 100_000


@pytest.mark.parametrize("status", ['[{"x":' + DEEP, '[{"ips": ["10.0.0.9/' + "1" * 5000 + '"]}]'])
def test_hostile_network_status(status: str) -> None:
    """Whatever a pod's annotation holds, it is unreadable at worst, and the others are judged."""
    assert said(A, GONE, pod("evil", status=status)) == "Leaked OwnerGone release"


def test_hostile_networks_annotation() -> None:
    """Likewise for the networks that a pod asks for."""
    evil = pod("evil", ips=["10.0.0.11"], networks='[{"x":' + DEEP)
    assert said(A, blue({A: claim("app"), "10.0.0.11": evil}), evil) == "Leaked OwnerGone release"


@pytest.mark.parametrize("config", [DEEP, '{"ipam": {"type": []}}', '{"plugins": 5, "ipam": 5}', "{", "null", "[5]"])
def test_hostile_network_attachment(config: str) -> None:
    """A NAD whose CNI configuration cannot be read tells nothing."""
    evil = nad("evil")
    evil["spec"]["config"] = config
    assert said(A, GONE, evil) == "Leaked OwnerGone release"


def test_hostile_records_and_pools_annotation() -> None:
    """A pool's records that cannot be parsed are told, whatever they are; the other pool is judged."""
    things = (blue('{"10.0.0.10":' + DEEP, allocated=1), green({"10.0.1.10": claim("app")}))
    assert said("10.0.1.10", *things, pool="green") == "Leaked OwnerGone release"
    evil = pod("evil", annotations={"ipam.spidernet.io/ippools": '[{"x":' + DEEP})
    assert said(A, blue({A: evil, "10.0.0.11": evil}), evil).startswith("Leaked SurplusForOwner")


def test_hostile_ordinal() -> None:
    """A name that ends in thousands of digits is no reason to stop."""
    assert said(A, blue({A: claim("web-" + "9" * 5000)}), stateful_set("web")) == "Leaked OwnerGone release"


def test_pods_without_uid_are_not_one_pod() -> None:
    """Files may hold pods without UID; each shows its own addresses."""
    first, second = pod("first", ips=["10.0.0.12"]), pod("second", nics={"net1": A})
    for thing in (first, second):
        del thing["metadata"]["uid"]
    assert verdict(A, GONE, first, second).action == "none"


def test_pods_without_uid_use_addresses_all_the_same() -> None:
    """One that shows an unrecorded address is told if it is proven this IPAM's; two are two."""
    first, second = pod("first", ips=[A]), pod("second", ips=[A])
    for thing in (first, second):
        del thing["metadata"]["uid"]
    assert told(blue(), first) == []
    assert told(blue(), first, nad("eth0")) == [f"{A} Conflict InUseUnrecorded none"]
    assert told(blue(), first, second, nad("eth0")) == [f"{A} Conflict AddressHeldTwice none"]
    twin = pool("twin", A, {A: claim("other", "")})
    assert f"{A} Conflict InUseUnrecorded none" in told(blue(), twin, first, nad("eth0"))


def test_status_of_an_old_name_is_used_where_there_is_no_new_one() -> None:
    """The annotation's old name counts as well."""
    other = pod("other", annotations={"k8s.v1.cni.cncf.io/networks-status": network_status({"net1": A})})
    assert verdict(A, GONE, other, node()).action == "none"
