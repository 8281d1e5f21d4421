"""Drift: findings about endpoints and about pools themselves, which stand beside those about records."""

import pytest

from factories import (
    MIRROR,
    NOT_GIVEN,
    NOW,
    UNREAD,
    Object,
    ago,
    beside,
    blue,
    claim,
    endpoint,
    green,
    launcher,
    nad,
    network_status,
    node,
    pod,
    pool,
    ref,
    reserved_ip,
    snapshot,
    stateful_set,
    told,
    undecodable,
    virtual_machine,
    words,
)
from poolwarden.cluster.interface import Partial
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Mode, Policies, Policy
from poolwarden.ipam.kinds import NODES, PODS, STATEFUL_SETS
from poolwarden.ipam.ranges import address_set, parse_range
from poolwarden.ipam.spiderpool import ENDPOINTS, POOLS
from poolwarden.ipam.verdict import Finding

A, B = "10.0.0.10", "10.0.0.11"
ETH0, NET1 = nad("eth0"), nad("net1")
STALE = f"{A} Drift EndpointStale repair"
STALE_TOLD = f"{A} Drift EndpointStale none"
ORPHAN = f"{A} Drift EndpointOrphan repair"
ORPHAN_TOLD = f"{A} Drift EndpointOrphan none"


def only(reason: str, *things: Object, **options: object) -> list[str]:
    """The findings of one reason."""
    return [line for line in told(*things, **options) if reason in line]


def one(reason: str, *things: Object) -> Finding:
    """The one finding of a reason."""
    (found,) = [item for item in beside(*things) if item.reason == reason]
    return found


# --- EndpointStale ----------------------------------------------------------------------------------------------------

OLD = endpoint("app", {"eth0": f"{A}@blue"}, uid="old-uid")
NEW = pod("app", ips=[B])


def stale(*things: Object, record: Object | None = None, **options: object) -> list[str]:
    """The stale endpoints of a cluster in which app-uid uses 10.0.0.11."""
    records = {B: claim("app")} | ({A: record} if record else {})
    return only("EndpointStale", blue(records), *things, **options)


def test_endpoint_of_an_older_pod() -> None:
    """Its UID is not the live pod's: it is removed, once its UID's pod is gone and its node vouches for that."""
    assert stale(NEW, OLD) == [STALE]
    found = one("EndpointStale", blue({B: claim("app")}), NEW, OLD)
    assert "old-uid" in found.message
    assert "app-uid" in found.message
    assert (found.subject, found.node, found.owner.uid) == ("default/app", "node-1", "old-uid")  # type: ignore[union-attr]


def test_endpoint_of_the_live_pod() -> None:
    """The right UID is no finding."""
    assert stale(NEW, endpoint("app", {"eth0": f"{B}@blue"})) == []


def test_mirror_pods_endpoint() -> None:
    """A mirror pod's UID changes while its sandbox runs on."""
    assert stale(pod("app", ips=[B], annotations=MIRROR), OLD) == []


def test_entitled_owners_endpoint() -> None:
    """A StatefulSet's endpoint keeps the old UID until the new pod's ADD rewrites it."""
    old = endpoint("web-0", {"eth0": f"{A}@blue"}, uid="old-uid", kind="StatefulSet")
    things = (blue(), pod("web-0", phase="Pending"), old)
    assert only("EndpointStale", *things, stateful_set("web")) == []
    assert only("EndpointStale", *things) == [STALE]


def test_owner_of_which_it_is_not_known_whether_it_is_entitled() -> None:
    """Doubt keeps: it is told, and not removed."""
    old = endpoint("web-0", {"eth0": f"{A}@blue"}, uid="old-uid", kind="StatefulSet")
    assert stale(pod("web-0", phase="Pending"), old, coverage={STATEFUL_SETS: UNREAD}) == [STALE_TOLD]


@pytest.mark.parametrize(
    "things",
    [
        (NEW, OLD, pod("other", uid="old-uid")),
        (NEW, OLD, pod("other", nics={"net1": A})),
        (NEW, OLD, node("node-1", ready=False)),
        (NEW, OLD, node("node-2")),
        (NEW, endpoint("app", {"eth0": f"{A}@blue"}, uid="old-uid", node=""), node("node-2", ready=False)),
        (NEW, OLD, undecodable(green())),
        (NEW, OLD, green("{", allocated=1)),
    ],
)
def test_stale_endpoint_that_is_only_told(things: tuple[Object, ...]) -> None:
    """Its UID's pod lives, somebody shows its address, its node does not vouch, or a pool may record it: it stays."""
    assert stale(*things) == [STALE_TOLD]


def test_stale_endpoint_with_a_record() -> None:
    """While a record carries its UID it goes with that record, endpoint first."""
    assert stale(NEW, OLD, record=claim("app", "old-uid")) == [STALE_TOLD]
    assert stale(NEW, OLD, record=claim("other", "old-uid")) == [STALE_TOLD]


def test_stale_endpoint_on_a_fenced_or_ignored_node() -> None:
    """The node evidence is that of records."""
    assert stale(NEW, OLD, node("node-1", ready=False, fenced=True)) == [STALE]
    ignore = Policy(node_evidence_required=False)
    assert stale(NEW, OLD, node("node-1", ready=False), policy=ignore) == [STALE]
    assert stale(NEW, OLD, coverage={NODES: UNREAD}) == [STALE_TOLD]


def test_stale_endpoint_while_pools_are_not_all_known() -> None:
    """A pool that was not read may record it."""
    assert stale(NEW, OLD, coverage={POOLS: UNREAD}) == [STALE_TOLD]


def test_stale_endpoint_while_pods_are_not_all_known() -> None:
    """That nobody shows its address is not known."""
    assert stale(NEW, OLD, coverage={PODS: UNREAD}) == [STALE_TOLD]


def test_stale_endpoint_whose_items_cannot_be_read() -> None:
    """What it lists is not known: it stays."""
    broken = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.0.300@blue"}, uid="old-uid")
    assert stale(NEW, broken) == [STALE_TOLD]


def test_stale_endpoint_of_which_one_address_is_shown() -> None:
    """One NIC's address in use is enough to keep it."""
    old = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.0.12@blue"}, uid="old-uid")
    assert stale(NEW, old) == [STALE]
    assert stale(NEW, old, pod("other", nics={"net1": "10.0.0.12"})) == [STALE_TOLD]


def test_endpoint_without_uid() -> None:
    """Nothing says whose it is."""
    assert stale(NEW, endpoint("app", {"eth0": f"{A}@blue"}, uid="")) == []


# --- EndpointOrphan ---------------------------------------------------------------------------------------------------


def orphan(*things: Object, **options: object) -> list[str]:
    """The orphans of a cluster with an endpoint that lists 10.0.0.10."""
    return only("EndpointOrphan", blue(), endpoint("app", {"eth0": f"{A}@blue"}), *things, **options)


def test_endpoint_without_pod_and_record() -> None:
    """Nobody needs it, and a new pod of that name is kept from starting by it (#4867)."""
    assert orphan() == [ORPHAN]
    assert "app-uid" in one("EndpointOrphan", blue(), endpoint("app", {"eth0": f"{A}@blue"})).message


def test_after_a_del_it_is_normal_while_the_pod_object_lives() -> None:
    """Without record and finalizer, it waits for its pod's object to go."""
    ending = pod("app", phase="Succeeded")
    done = endpoint("app", {"eth0": f"{A}@blue"}, finalizers=())
    assert told(blue(), ending, done) == []
    assert told(blue(), pod("app", deadline=ago(minutes=-1)), done) == []


@pytest.mark.parametrize(
    "things",
    [
        (green({"10.0.1.10": claim("app")}),),
        (green({"10.0.1.10": claim("other", "app-uid")}),),
        (pod("other", uid="app-uid"),),
        (undecodable(pod("app")),),
        (undecodable(green()),),
        (green("{", allocated=1),),
        (virtual_machine("app"),),
        (launcher("app", phase="Pending"),),
    ],
)
def test_what_makes_it_no_orphan(things: tuple[Object, ...]) -> None:
    """A record of its UID, a pod of its UID, a VM that it is for, or anything that could not be read."""
    assert orphan(*things) == []


def test_a_record_of_its_name_is_not_its_own() -> None:
    """The UID decides: another UID's record needs another endpoint."""
    assert orphan(green({"10.0.1.10": claim("app", "other-uid")})) == [ORPHAN]


def test_endpoint_of_a_static_pod_is_no_orphan() -> None:
    """A static pod, whose top controller is its Node, runs on without a mirror."""
    static = endpoint("app", {"eth0": f"{A}@blue"}, kind="Node")
    assert only("EndpointOrphan", blue(), static) == []


@pytest.mark.parametrize("kind", [PODS, POOLS])
def test_no_orphan_without_complete_lists(kind: object) -> None:
    """Absence is proven by complete lists only."""
    assert orphan(coverage={kind: UNREAD}) == []


def test_entitled_owners_endpoint_is_no_orphan() -> None:
    """A StatefulSet's pod that will come back finds its addresses in the endpoint."""
    kept = endpoint("web-0", {"eth0": f"{A}@blue"}, kind="StatefulSet")
    assert only("EndpointOrphan", blue(), kept, stateful_set("web")) == []
    assert only("EndpointOrphan", blue(), kept, coverage={STATEFUL_SETS: NOT_GIVEN}) == []
    assert only("EndpointOrphan", blue(), kept) == [ORPHAN]


@pytest.mark.parametrize(
    "things", [(pod("other", nics={"net1": A}),), (node("node-1", ready=False),), (node("node-2"),)]
)
def test_orphan_that_is_only_told(things: tuple[Object, ...]) -> None:
    """Somebody shows its address, or its node does not vouch: it stays."""
    assert orphan(*things) == [ORPHAN_TOLD]


def test_orphan_of_a_pool_that_is_gone() -> None:
    """No policy says that it may be removed: it is told."""
    lost = endpoint("app", {"eth0": f"{A}@lost"})
    assert only("EndpointOrphan", blue(), lost) == [ORPHAN_TOLD]
    assert only("EndpointOrphan", blue(), endpoint("app", {})) == ["None Drift EndpointOrphan none"]


def test_every_pool_of_an_endpoint_must_allow_its_removal() -> None:
    """An endpoint is an object of each pool that it draws from: a guard that says Observe keeps it."""
    both = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.1.10@green"})
    observed = Policies(Policy(), {ref("green"): Policy(mode=Mode.OBSERVE)})
    found = judge(snapshot(blue(), green(), both), observed, NOW)
    assert [words(item) for item in found] == ["Drift EndpointOrphan none"]


@pytest.mark.parametrize(
    "guard",
    [
        Policy(mode=Mode.OFF),
        Policy(keep=address_set([parse_range("10.0.1.10")])),
        Policy(ignore_namespaces=frozenset({"default"})),
    ],
)
def test_every_guard_of_an_endpoint_counts(guard: Policy) -> None:
    """Mode, keep list, namespaces and node evidence of each pool that it lists."""
    both = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.1.10@green"})
    assert only("EndpointOrphan", blue(), green(), both) == [ORPHAN]
    assert only("EndpointOrphan", blue(), green(), both, policy=Policies(Policy(), {ref("green"): guard})) == [
        ORPHAN_TOLD
    ]


def test_node_evidence_of_every_pool_of_an_endpoint() -> None:
    """One guard that ignores it does not speak for the other."""
    both = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.1.10@green"})
    ignore = Policies(Policy(), {ref("blue"): Policy(node_evidence_required=False)})
    assert only("EndpointOrphan", blue(), green(), both, node(ready=False), policy=ignore) == [ORPHAN_TOLD]


def test_endpoint_that_lists_an_address_recorded_for_nobody_that_can_be_told() -> None:
    """A record whose owner cannot be parsed may be the endpoint's."""
    odd = blue({A: {"pod": "nonsense"}})
    assert only("EndpointOrphan", odd, endpoint("app", {"eth0": f"{A}@blue"})) == []
    assert only("EndpointStale", odd, NEW, OLD) == [STALE_TOLD]
    more = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.0.12@blue"}, uid="old-uid")
    assert only("EndpointStale", odd, NEW, more) == [STALE_TOLD]
    assert only("EndpointStale", blue({A: claim("x", "x-uid")}), NEW, OLD) == [STALE]
    assert only("EndpointOrphan", blue({B: {"pod": "nonsense"}}), endpoint("app", {"eth0": f"{A}@blue"})) == [ORPHAN]


def test_orphan_without_uid_is_only_told() -> None:
    """Nothing says whose it was."""
    assert only("EndpointOrphan", blue(), endpoint("app", {"eth0": f"{A}@blue"}, uid="")) == [ORPHAN_TOLD]


# --- InterfaceDuplicated ----------------------------------------------------------------------------------------------

TWICE = endpoint("app", [("net1", f"{A}@blue"), ("net1", f"{B}@blue"), ("eth0", "10.0.0.12@blue")])


def duplicated(*things: Object, **options: object) -> list[str]:
    """The duplicates of a cluster whose pools record what TWICE lists."""
    records = dict.fromkeys((A, B, "10.0.0.12"), claim("app"))
    return only("InterfaceDuplicated", blue(records), *things, ETH0, NET1, **options)


def test_nic_named_twice() -> None:
    """A NIC has one item: where it is proven which one is right, the other is dropped (#2901)."""
    owner = pod("app", ips=["10.0.0.12"], nics={"net1": B})
    assert duplicated(owner, TWICE) == [f"{A} Drift InterfaceDuplicated repair"]
    found = one("InterfaceDuplicated", blue({A: owner}), owner, TWICE, ETH0, NET1)
    assert "net1" in found.message
    assert "app-uid" in found.message
    assert found.interface == "net1"


def test_exact_repetition() -> None:
    """Two equal items that are right are one too many."""
    owner = pod("app", ips=["10.0.0.12"], nics={"net1": A})
    same = endpoint("app", [("net1", f"{A}@blue"), ("net1", f"{A}@blue"), ("eth0", "10.0.0.12@blue")])
    assert duplicated(owner, same) == [f"{A} Drift InterfaceDuplicated repair"]


@pytest.mark.parametrize(
    "owner",
    [
        pod("app", ips=["10.0.0.12"], nics={"net1": B}, ready=False),
        pod("app", ips=["10.0.0.12"], nics={"net1": B}, networks="kube-system/net1@net1,kube-system/more"),
        pod("app", ips=["10.0.0.12"], nics={"net1": "10.0.0.13"}),
        pod("app", ips=["10.0.0.12"], nics={"net1": [A, B]}),
        pod("app", phase="Pending"),
        pod("app", phase="Succeeded"),
    ],
)
def test_duplicates_that_are_only_told(owner: Object) -> None:
    """The pod is not Running and Ready with a complete status, or shows none of the two, or both."""
    assert [line.rpartition(" ")[2] for line in duplicated(owner, TWICE)] == ["none"]


def test_the_wrong_item_is_told_wherever_it_stands() -> None:
    """The finding is filed under the item that is to go."""
    owner = pod("app", ips=["10.0.0.12"], nics={"net1": A})
    assert duplicated(owner, TWICE) == [f"{B} Drift InterfaceDuplicated repair"]


def test_one_address_from_two_pools_is_no_proof() -> None:
    """Two different items with the very address that the NIC shows: which is right is not proven."""
    owner = pod("app", ips=["10.0.0.12"], nics={"net1": A})
    both = endpoint("app", [("net1", f"{A}@blue"), ("net1", f"{A}@green"), ("eth0", "10.0.0.12@blue")])
    assert [line.rpartition(" ")[2] for line in duplicated(owner, both, green())] == ["none"]


def test_items_of_no_address_are_no_proof() -> None:
    """A NIC that shows none has no right item."""
    owner = pod("app", ips=["10.0.0.12"], nics={"net1": ()})
    bare = endpoint("app", [("net1", ()), ("net1", f"{A}@blue"), ("eth0", "10.0.0.12@blue")])
    assert duplicated(owner, bare) == ["None Drift InterfaceDuplicated none"]


def test_duplicate_whose_address_somebody_uses() -> None:
    """An item is not dropped while a pod shows what it lists."""
    owner = pod("app", ips=["10.0.0.12"], nics={"net1": B})
    assert duplicated(owner, TWICE, pod("other", nics={"net1": A})) == [f"{A} Drift InterfaceDuplicated none"]


@pytest.mark.parametrize("reason", ["InterfaceDuplicated", "InterfaceEmpty"])
def test_edits_obey_every_guard_of_an_endpoint(reason: str) -> None:
    """An endpoint is an object of each pool that it draws from."""
    observe = Policies(Policy(), {ref("green"): Policy(mode=Mode.OBSERVE)})
    nics = [("eth0", "10.0.1.10@green"), ("net1", f"{A}@blue"), ("net1", f"{B}@blue"), ("", "10.0.0.12@blue")]
    owner = pod("app", ips=["10.0.1.10"], nics={"net1": B, "net2": "10.0.0.12"})
    things = (blue(), green(), owner, endpoint(owner, nics), ETH0, NET1)
    assert [line.rpartition(" ")[2] for line in only(reason, *things)] == ["repair"]
    assert [line.rpartition(" ")[2] for line in only(reason, *things, policy=observe)] == ["none"]


def test_duplicates_of_an_entitled_owner_are_only_told() -> None:
    """A fixed-IP owner's endpoint is never edited while it is entitled."""
    owner = pod("web-0", ips=["10.0.0.12"], nics={"net1": B})
    twice = endpoint(owner, [("net1", f"{A}@blue"), ("net1", f"{B}@blue"), ("eth0", "10.0.0.12@blue")])
    assert duplicated(owner, twice, stateful_set("web")) == [f"{A} Drift InterfaceDuplicated none"]
    assert duplicated(owner, twice) == [f"{A} Drift InterfaceDuplicated repair"]


def test_nic_named_once_or_not_at_all() -> None:
    """Several unnamed items are no duplicates of one another."""
    owner = pod("app", ips=["10.0.0.12"])
    assert duplicated(owner, endpoint("app", [("", f"{A}@blue"), ("", f"{B}@blue"), ("eth0", "10.0.0.12@blue")])) == []


# --- InterfaceEmpty ---------------------------------------------------------------------------------------------------

UNNAMED = endpoint("app", {"eth0": f"{A}@blue", "": f"{B}@blue"})
EMPTY = f"{B} Drift InterfaceEmpty repair"


def empty(owner: Object, *things: Object, items: Object = UNNAMED) -> list[str]:
    """The unnamed NICs of a cluster whose pool records both addresses of the endpoint."""
    return only("InterfaceEmpty", blue({A: claim("app"), B: claim("app")}), owner, items, *things, ETH0, NET1)


def test_nic_whose_name_is_proven() -> None:
    """Network-status shows the unnamed item's address on net1."""
    owner = pod("app", ips=[A], nics={"net1": B})
    assert empty(owner) == [EMPTY]
    assert "net1" in one("InterfaceEmpty", blue(), owner, UNNAMED, ETH0, NET1).message


@pytest.mark.parametrize(
    "owner",
    [
        pod("app", ips=[A], nics={"net1": B}, ready=False),
        pod("app", ips=[A], nics={"net1": B}, phase="Pending", ready=True),
        pod("app", ips=[A], nics={"net1": B}, networks="kube-system/net1@net1,kube-system/more"),
        pod("app", ips=[A], nics={"net1": "10.0.0.12"}),
        pod("app", ips=[A]),
    ],
)
def test_unnamed_nic_that_is_legal(owner: Object) -> None:
    """While the pod attaches, and where nothing shows the address, "" is legal: no finding."""
    assert empty(owner) == []


def test_name_that_another_item_has_already() -> None:
    """It is told; naming it as well would make a duplicate."""
    owner = pod("app", ips=[A], nics={"net1": B})
    items = endpoint("app", [("eth0", f"{A}@blue"), ("net1", "10.0.0.12@blue"), ("", f"{B}@blue")])
    assert empty(owner, items=items) == [f"{B} Drift InterfaceEmpty none"]


def test_unnamed_nic_of_an_entitled_owner_is_only_told() -> None:
    """Likewise for a StatefulSet's pod: its next ADD rewrites the endpoint."""
    owner = pod("web-0", ips=[A], nics={"net1": B})
    items = endpoint(owner, {"eth0": f"{A}@blue", "": f"{B}@blue"})
    assert only("InterfaceEmpty", blue(), owner, items, ETH0, NET1, stateful_set("web")) == [
        f"{B} Drift InterfaceEmpty none"
    ]


def test_both_families_must_be_on_one_nic() -> None:
    """An unnamed item whose two addresses are on two NICs, or of which one is nowhere, has no proven name."""
    items = endpoint("app", {"eth0": f"{A}@blue", "": (f"{B}@blue", "fd00::10@six")})
    assert empty(pod("app", ips=[A], nics={"net1": [B, "fd00::10"]}), items=items) == [EMPTY]
    assert empty(pod("app", ips=[A], nics={"net1": B, "net2": "fd00::10"}), items=items) == []
    assert empty(pod("app", ips=[A], nics={"net1": B}), items=items) == []


def test_address_on_two_nics_names_neither() -> None:
    """Which of the two an unnamed item is, is not proven."""
    assert empty(pod("app", ips=[A, B], nics={"net1": B})) == []


def test_two_unnamed_items_of_one_nic() -> None:
    """Both are told, and neither is named: one of them would be a duplicate."""
    items = endpoint("app", [("eth0", f"{A}@blue"), ("", f"{B}@blue"), ("", "10.0.0.12@blue")])
    owner = pod("app", ips=[A], nics={"net1": [B, "10.0.0.12"]})
    assert [line.rpartition(" ")[2] for line in empty(owner, items=items)] == ["none", "none"]


def test_item_of_no_address() -> None:
    """An unnamed item without addresses names nothing."""
    assert empty(pod("app", ips=[A]), items=endpoint("app", {"eth0": f"{A}@blue", "": ()})) == []


# --- AddressOnTwoInterfaces, PoolMissing ------------------------------------------------------------------------------

TWO_NICS = f"{A} Drift AddressOnTwoInterfaces none"


def test_one_address_on_two_nics() -> None:
    """Two NICs of a pod on one pool get one shared address (v1.1.2): told, never freed."""
    owner = pod("app", ips=[A], nics={"net1": A})
    shared = endpoint("app", {"eth0": f"{A}@blue", "net1": f"{A}@blue"})
    assert only("AddressOnTwoInterfaces", blue({A: owner}), owner, shared) == [TWO_NICS]
    found = one("AddressOnTwoInterfaces", blue({A: owner}), owner, shared)
    assert "eth0 and net1" in found.message
    assert (found.interface, found.subject, found.address) == ("eth0", "default/app", A)


def test_addresses_of_no_pool_are_none_of_ours() -> None:
    """Another IPAM's address on two NICs is no finding."""
    owner = pod("app", ips=["192.168.0.9"], nics={"net1": "192.168.0.9"})
    assert told(blue(), owner) == []


def test_one_family_on_two_nics() -> None:
    """Each address of a NIC counts."""
    owner = pod("app", ips=[A])
    dual = endpoint("app", {"net1": (f"{A}@blue", "fd00::10@blue")})
    assert only("AddressOnTwoInterfaces", blue({A: owner}), owner, dual) == [TWO_NICS]


def test_address_that_the_endpoint_has_on_another_nic() -> None:
    """Endpoint and network-status together name two."""
    owner = pod("app", ips=[A])
    assert only("AddressOnTwoInterfaces", blue({A: owner}), owner, endpoint("app", {"net1": f"{A}@blue"})) == [TWO_NICS]
    assert only("AddressOnTwoInterfaces", blue({A: owner}), owner, endpoint("app", {"": f"{A}@blue"})) == []
    assert only("AddressOnTwoInterfaces", blue({A: owner}), owner, endpoint("app", {"eth0": f"{A}@blue"})) == []
    other_nic = endpoint("app", {"eth0": f"{A}@blue", "net1": f"{B}@blue"})
    assert only("AddressOnTwoInterfaces", blue({A: owner}), owner, other_nic) == []


def test_one_address_on_two_nics_without_an_endpoint() -> None:
    """The network-status of a pod alone shows it as well."""
    owner = pod("app", ips=[A], nics={"net1": A})
    assert only("AddressOnTwoInterfaces", blue({A: owner}), owner) == [TWO_NICS]


def test_pool_that_an_endpoint_names_and_that_is_gone() -> None:
    """Told with the pool's name; a pool that could not be read is not gone."""
    owner, lost = pod("app", ips=[A]), endpoint("app", {"eth0": f"{A}@lost"})
    (found,) = [finding for finding in beside(blue(), owner, lost) if finding.reason == "PoolMissing"]
    assert (words(found), found.address, found.pool.name) == ("Drift PoolMissing none", A, "lost")
    assert "lost" in found.message
    assert only("PoolMissing", blue(), owner, lost, coverage={POOLS: UNREAD}) == []
    assert only("PoolMissing", blue(), owner, lost, undecodable(pool("lost", A))) == []
    assert only("PoolMissing", blue(), owner, endpoint("app", {"eth0": f"{A}@"})) == []


def test_pool_that_is_gone_under_a_nic_of_both_families() -> None:
    """The finding is filed under the address whose pool is gone."""
    half = endpoint("app", {"eth0": (f"{A}@blue", "fd00::10@lost")})
    assert only("PoolMissing", blue(), pod("app", ips=[A]), half) == ["fd00::10 Drift PoolMissing none"]


# --- EndpointMissing --------------------------------------------------------------------------------------------------

MISSING = f"{A} Drift EndpointMissing none"


def test_live_pod_with_a_record_and_no_endpoint() -> None:
    """Its next ADD finds the record by UID (#2517): told, never freed."""
    owner = pod("app", phase="Pending")
    assert told(blue({A: owner}), owner) == [MISSING]
    found = one("EndpointMissing", blue({A: owner}), owner)
    assert "app-uid" in found.message
    assert found.subject == "default/app"


def test_it_is_told_once_a_pod() -> None:
    """However many records the pod holds, at the lowest of the first pool."""
    owner = pod("app", phase="Pending", networks="net1")
    things = (blue({B: owner, A: owner}), green({"10.0.1.10": owner}), owner)
    assert only("EndpointMissing", *things) == [MISSING]


@pytest.mark.parametrize(
    ("owner", "things"),
    [
        (pod("app"), (endpoint("app", {"eth0": f"{A}@blue"}),)),
        (pod("app"), (undecodable(endpoint("app", {})),)),
        (pod("app", phase="Failed", containers={}), ()),
        (pod("app", deadline=ago(minutes=-1)), ()),
        (pod("app", created=ago(seconds=59)), ()),
    ],
)
def test_no_endpoint_is_missing(owner: Object, things: tuple[Object, ...]) -> None:
    """There is one, it cannot be read, the pod has ended or is ending, or its first ADD may be under way."""
    assert only("EndpointMissing", blue({A: owner}), owner, *things) == []


def test_endpoint_is_missing_a_minute_after_the_pods_creation() -> None:
    """An ADD writes record and endpoint within a second."""
    owner = pod("app", created=ago(seconds=60))
    assert told(blue({A: owner}), owner) == [MISSING]


def test_endpoint_of_a_pod_of_unknown_age_is_missing() -> None:
    """A pod that does not say when it was created is not taken for a new one."""
    owner = pod("app")
    del owner["metadata"]["creationTimestamp"]
    assert told(blue({A: owner}), owner) == [MISSING]


def test_endpoints_that_were_not_read_are_not_missing() -> None:
    """Absence needs a complete list of that namespace."""
    owner = pod("app")
    assert told(blue({A: owner}), owner, coverage={ENDPOINTS: Partial(frozenset({"app"}))}) == []
    assert told(blue({A: owner}), owner, coverage={ENDPOINTS: Partial(frozenset({"default"}))}) == [MISSING]
    assert told(blue({A: owner}), owner, coverage={ENDPOINTS: UNREAD}) == []


def test_machine_whose_endpoint_has_its_name() -> None:
    """A VM's endpoint is named like the VM, not like the launcher pod."""
    runs, record = launcher("vm", uid="launcher-uid"), blue({A: claim("vm", "launcher-uid")})
    assert told(record, runs) == [MISSING]
    assert told(record, runs, endpoint("vm", {"eth0": f"{A}@blue"}, uid="launcher-uid")) == []


# --- pools --------------------------------------------------------------------------------------------------------------

COUNTS = "None Drift CountMismatch none"


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, []),
        ({"allocated": 2}, [COUNTS]),
        ({"allocated": 0}, [COUNTS]),
        ({"allocated": -1}, [COUNTS]),
        ({"total": 20}, [COUNTS]),
        ({"total": 20, "allocated": 5}, [COUNTS, COUNTS]),
    ],
)
def test_counts_that_differ(counts: dict[str, int], expected: list[str]) -> None:
    """`allocatedIPCount` is the number of records, `totalIPCount` that of addresses (#3771, #1797, #1166)."""
    assert told(blue({A: claim("gone")}, **counts)) == expected


def test_message_about_counts() -> None:
    """The finding names the pool and both numbers."""
    (found,) = beside(blue({A: claim("gone")}, allocated=7))
    assert found.address is None
    for text in ("blue", "7", "1"):
        assert text in found.message


@pytest.mark.parametrize("field", ["allocatedIPCount", "totalIPCount"])
def test_counts_that_are_absent(field: str) -> None:
    """Absent counts are told where there is something to count (#1010)."""
    counted, fresh = blue({A: claim("gone")}), blue()
    del counted["status"][field]
    del fresh["status"][field]
    assert told(counted) == [COUNTS]
    assert told(fresh) == []


def test_excluded_addresses_are_not_counted_but_reserved_ones_are() -> None:
    """As Spiderpool counts: excludes are subtracted from the total, SpiderReservedIPs are not."""
    assert told(blue({A: claim("gone")}, exclude=["10.0.0.30"]), reserved_ip("10.0.0.20")) == []


@pytest.mark.parametrize("text", ["10.0.0.9-10.0.0.5", "10.0.0.0/24", "10.0.0.5-fd00::1", "x", "10.0.0.5-", ""])
def test_range_that_hands_out_nothing(text: str) -> None:
    """Reversed, of two families, or no range at all: told, and it counts nothing."""
    assert told(pool("blue", ["10.0.0.10-10.0.0.12", text], {A: claim("gone")})) == ["None Drift RangeInvalid none"]
    assert told(blue({A: claim("gone")}, exclude=[text])) == ["None Drift RangeInvalid none"]


def test_empty_pool_is_no_finding() -> None:
    """A pool may have no addresses at all."""
    assert told(pool("blue", [])) == []


def test_network_status_of_an_own_endpoint_needs_no_nad() -> None:
    """Without any NAD the pod's own status decides what is unnamed."""
    owner = pod("app", ips=[A], status=network_status({"eth0": A, "net1": B}))
    assert only("InterfaceEmpty", blue({A: owner, B: owner}), owner, UNNAMED) == [EMPTY]
