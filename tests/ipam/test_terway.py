"""Terway's Nodes and NodeRuntimes as pools, records and proofs of removal, and the conditional writes on a Node."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import Object
from poolwarden.cluster.patches import merge_patch
from poolwarden.ipam.inventory import Backend, Change, PodOwners, Stale
from poolwarden.ipam.objects import Pod, PodAnnotations, PodMetadata
from poolwarden.ipam.pool import (
    ClaimedOwner,
    Leaving,
    Pool,
    PoolRef,
    Record,
    RecordsUnreadable,
    Removals,
    UnparsedOwner,
    canonical_text,
    digest_of,
    digest_of_invalid,
)
from poolwarden.ipam.terway import POOLS, RUNTIMES, Terway

BACKEND: Backend = Terway()
REF = PoolRef("terway", "", "node-1")
A, B, C, P = "172.16.3.11", "172.16.3.12", "172.16.3.13", "172.16.3.100"
SIX = "2408:4005::11"
EARLY, LATE = "2026-01-10T07:12:33Z", "2026-01-10T09:20:41Z"

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(["Valid", "InUse", A, "a/b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=5) | st.sampled_from(["ipv4", "status", "podID", "ip", A]), inner, max_size=4
        )
    ),
    max_leaves=8,
)


def entry(ip: str = A, pod: str = "", uid: str = "", **changes: Any) -> Object:
    """The value of one address, idle unless it names a pod."""
    owner = {key: value for key, value in (("podID", pod), ("podUID", uid)) if value}
    return {"ip": ip, "ipName": "ip-7fpj", "primary": False, "status": "Valid"} | owner | changes


def held(ip: str = A, **changes: Any) -> Object:
    """The value of an address that a pod holds."""
    return entry(ip, "shop/order", "order-uid", **changes)


def eni(*entries: Object, **changes: Any) -> Object:
    """An interface in use with these addresses, in the map of their family, by their `ip`."""
    made: Object = {"id": "eni-1", "status": "InUse", "primaryIPAddress": P, "securityGroupIDs": ["sg-1"]}
    for item in entries:
        made.setdefault("ipv6" if ":" in item["ip"] else "ipv4", {})[item["ip"]] = item
    return made | changes


def node(*entries: Object, **interfaces: object) -> Object:
    """Terway's Node with these addresses on `eni-1`, or with these interfaces."""
    found: object = interfaces or {"eni-1": eni(*entries)}
    return with_interfaces(found)


def with_interfaces(interfaces: object) -> Object:
    """Terway's Node with this value as its interfaces."""
    return {
        "apiVersion": "network.alibabacloud.com/v1beta1",
        "kind": "Node",
        "metadata": {"name": "node-1", "uid": "node-1-uid", "resourceVersion": "7"},
        "spec": {"pool": {"maxPoolSize": 5}},
        "status": {"lastModifiedTime": EARLY, "networkInterfaces": interfaces},
    }


def runtime(pods: object, name: str = "node-1") -> Object:
    """A NodeRuntime."""
    metadata = {"name": name, "uid": f"{name}-runtime-uid", "resourceVersion": "9"}
    return {"apiVersion": "network.alibabacloud.com/v1beta1", "kind": "NodeRuntime", "metadata": metadata} | {
        "spec": {},
        "status": {"pods": pods},
    }


def seen(**times: object) -> Object:
    """What a NodeRuntime says of a pod: state -> time."""
    return {"podID": "shop/order", "status": {state: {"lastUpdateTime": time} for state, time in times.items()}}


def raw(thing: object) -> bytes:
    """The JSON text of a value."""
    return msgspec.json.encode(thing, order="sorted")


def pools(*objects: Object) -> tuple[Pool, ...]:
    """What the backend makes of objects as the API server returns them."""
    by_kind: dict[Any, list[Any]] = {POOLS: [], RUNTIMES: []}
    for thing in objects:
        kind = next(kind for kind in by_kind if kind.kind == thing["kind"])
        by_kind[kind].append(msgspec.json.decode(raw(thing), type=BACKEND.item_type(kind)))
    return BACKEND.inventory(by_kind).pools


def pool_of(thing: Object, *others: Object) -> Pool:
    """The one pool."""
    (found,) = pools(thing, *others)
    return found


def records(thing: Object) -> tuple[Record, ...]:
    """The records of a Node."""
    found = pool_of(thing).records
    assert isinstance(found, tuple), found
    return found


def record(value: object, key: str = A) -> Record:
    """The record that one entry is."""
    (found,) = records(node(**{"eni-1": eni() | {"ipv4": {key: value}}}))
    return found


def confirmed(thing: Object, *runtimes: Object) -> frozenset[str]:
    """The UIDs whose removal is confirmed to a pool."""
    removals = pool_of(thing, *runtimes).removals
    assert isinstance(removals, Removals)
    return removals.confirmed


# --- pools ----------------------------------------------------------------------------------------------------------


def test_a_pool() -> None:
    """One per Node, of the same name, whose owners all run on the Kubernetes node of that name."""
    found = pool_of(node(held()))
    assert (found.ref, found.uid, found.resource_version, found.node) == (REF, "node-1-uid", "7", "node-1")
    assert (found.flaws, found.networks, found.network, found.ambiguous, found.leaving) == ((), (), "", "", ())


@pytest.mark.parametrize("status", [{}, {"networkInterfaces": None}, {"networkInterfaces": {}}])
def test_a_node_without_interfaces(status: Object) -> None:
    """An empty pool."""
    found = pool_of(node() | {"status": status})
    assert (found.records, str(found.configured), str(found.ranges), found.removals) == (
        (),
        "",
        "",
        Removals(frozenset()),
    )


def test_a_node_without_status() -> None:
    """An empty pool."""
    thing = node()
    del thing["status"]
    assert pool_of(thing).records == ()


def test_addresses_of_all_interfaces_and_both_families() -> None:
    """Every interface and both maps count."""
    found = pool_of(node(**{"eni-1": eni(entry(A), held(SIX)), "eni-2": eni(held(B))}))
    assert str(found.configured) == str(found.ranges) == f"{A}-{B},{SIX}"
    assert [item.key for item in found.readable_records] == [f"eni-1/ipv6/{SIX}", f"eni-2/ipv4/{B}"]


@pytest.mark.parametrize(
    ("interface", "ranges"),
    [
        (eni(entry(A)), A),
        (eni(entry(A, primary=True)), A),
        (eni(held(A)), A),
        (eni(entry(A, status="Invalid")), ""),
        (eni(entry(A, status="Deleting")), ""),
        (eni(entry(A, status="Other")), ""),
        (eni(entry(A), status="Attaching"), ""),
        (eni(entry(A), status="Deleting"), ""),
        (eni(entry(A), status=""), ""),
        (eni(entry(A), unschedulable=True), ""),
        (eni(entry(A), unschedulable=False), A),
        (eni(held(A, status="Invalid")), A),
        (eni(held(A, status="Deleting")), A),
        (eni(held(A), status="Detaching"), A),
        (eni(held(A), unschedulable=True), A),
    ],
)
def test_addresses_that_can_be_handed_out(interface: Object, ranges: str) -> None:
    """Valid ones, the primary one too, of an interface in use; a recorded one is never outside. All are configured."""
    found = pool_of(node(**{"eni-1": interface}))
    assert (str(found.configured), str(found.ranges)) == (A, ranges)


def test_prefixes() -> None:
    """Valid ones of both families are handed out by the daemon, which writes no entry: they are claimed."""
    found = pool_of(
        node(
            **{
                "eni-1": eni(
                    ipv4Prefix=[
                        {"prefix": "10.0.0.0/28", "status": "Valid"},
                        {"prefix": "10.0.1.0/28", "status": "Frozen"},
                    ],
                    ipv6Prefix=[
                        {"prefix": "2408::/80", "status": "Valid"},
                        {"prefix": "2409::/80", "status": "Deleting"},
                    ],
                ),
                "eni-2": eni(ipv4Prefix=[{"prefix": "10.0.2.0/28", "status": "Valid"}], status="Attaching"),
            }
        )
    )
    assert str(found.ranges) == "10.0.0.0-10.0.0.15,2408::-2408::ffff:ffff:ffff"
    assert str(found.configured) == "10.0.0.0-10.0.0.15,10.0.2.0-10.0.2.15,2408::-2408::ffff:ffff:ffff"
    assert (found.claimed, found.flaws, found.records) == (found.configured, (), ())


def test_addresses_are_not_claimed() -> None:
    """Of those with an entry the entry tells to whom they are given."""
    assert str(pool_of(node(entry(A), held(B))).claimed) == ""


@pytest.mark.parametrize(
    "broken", [None, 5, {"prefix": "10.0.0.0", "status": "Valid"}, {"prefix": 1}, {"status": "Valid"}]
)
def test_a_prefix_that_cannot_be_read(broken: object) -> None:
    """It hands out nothing and is told; the records stay readable."""
    good = {"prefix": "10.0.0.0/28", "status": "Valid"}
    found = pool_of(node(**{"eni-1": eni(held(A), ipv4Prefix=[broken, good])}))
    assert str(found.ranges) == f"10.0.0.0-10.0.0.15,{A}"
    assert ([flaw.kind for flaw in found.flaws], len(found.readable_records)) == (["RangeInvalid"], 1)
    assert "eni-1" in found.flaws[0].message


# --- records --------------------------------------------------------------------------------------------------------


def test_a_record() -> None:
    """Keyed by interface, family and key; `raw` is the entry in canonical form, and of it and the address is the digest."""
    text = '{"status":"Valid", "podID":"shop/order","podUID":"order-uid","ip":"172.16.3.11","new":[1.50]}'
    wire = raw(node()).replace(b'"eni-1":{', f'"eni-1":{{"ipv4":{{"{A}":{text}}},'.encode())
    decoded = msgspec.json.decode(wire, type=BACKEND.item_type(POOLS))
    (found,) = BACKEND.inventory({POOLS: [decoded]}).pools[0].readable_records
    assert found == Record(
        key=f"eni-1/ipv4/{A}",
        address=A,
        owner=ClaimedOwner("shop", "order"),
        uid="order-uid",
        interface="",
        raw=canonical_text(text.encode()),
        digest=digest_of(A, canonical_text(text.encode())),
    )


@pytest.mark.parametrize(
    "idle",
    [entry(), entry(primary=True), entry(podID="", podUID=""), entry(podID=None, podUID=None), entry(status="Invalid")],
)
def test_entries_without_pod_are_no_records(idle: Object) -> None:
    """Idle and primary addresses are nobody's."""
    assert records(node(idle)) == ()


@pytest.mark.parametrize(
    ("status", "lost", "leaving"),
    [("Valid", False, False), ("Invalid", True, False), ("Deleting", False, True), ("Other", False, False)],
)
def test_status_of_a_record(status: str, lost: object, leaving: object) -> None:
    """Invalid is lost, Deleting is leaving; it is a record all the same."""
    value = held(status=status)
    found = pool_of(node(value))
    (only,) = found.readable_records
    assert (only.lost, only.owner) == (lost, ClaimedOwner("shop", "order"))
    assert found.leaving == ((Leaving(A, digest_of(A, raw(value))),) if leaving else ())


def test_idle_addresses_leave_too() -> None:
    """An entry that Terway gives back to the cloud need not name a pod; one without address says nothing."""
    nameless = {"": entry("", status="Deleting")}
    found = pool_of(node(**{"eni-1": eni() | {"ipv4": {A: entry(status="Deleting"), **nameless}}}))
    assert ([item.address for item in found.leaving], found.records) == ([A], ())


@pytest.mark.parametrize(
    ("key", "ip", "address"),
    [
        (A, A, A),
        (A, "", A),
        (A, None, A),
        (A, f"::ffff:{A}", A),
        ("2408:4005:0::11", SIX.upper(), SIX),
        (A, B, None),
        (A, "x", None),
        ("ip-7fpj", A, None),
        ("ip-7fpj", "", None),
        (f"{A}/20", "", None),
    ],
)
def test_address_of_a_record(key: str, ip: str | None, address: str | None) -> None:
    """Key and `ip` must agree, whatever their spelling; two that differ are no address, and in no range."""
    value = held() | {"ip": ip}
    found = pool_of(node(**{"eni-1": eni() | {"ipv4": {key: value}}}))
    (only,) = found.readable_records
    assert (only.address, only.key) == (address, f"eni-1/ipv4/{key}")
    wanted = digest_of(address, raw(value)) if address else digest_of_invalid(only.key, raw(value))
    assert only.digest == wanted
    assert str(found.configured) == str(found.ranges) == (address or "")


@pytest.mark.parametrize("pod", ["", "order", "/order", "shop/", "a/b/c", "/"])
def test_owner_that_cannot_be_parsed(pod: str) -> None:
    """A podID of another form, or a podUID alone, leaves the owner unknown."""
    found = record(entry(pod=pod, uid="order-uid"))
    assert isinstance(found.owner, UnparsedOwner)
    assert found.owner.problem
    assert found.uid == "order-uid"


def test_a_record_without_uid() -> None:
    """As versions before podUID wrote it."""
    found = record(entry(pod="shop/order"))
    assert (found.owner, found.uid) == (ClaimedOwner("shop", "order"), "")


@pytest.mark.parametrize("broken", [None, 5, "x", [], {"podID": 5}, {"ip": []}, {"status": {}, "x": "y" * 500}])
def test_an_entry_that_cannot_be_read(broken: object) -> None:
    """It is a record of nobody known; the others are read."""
    found = records(node(**{"eni-1": eni(held(B)) | {"ipv4": {A: broken, B: held(B)}}}))
    assert [item.address for item in found] == [A, B]
    assert isinstance(found[0].owner, UnparsedOwner)
    assert 0 < len(found[0].owner.problem) < 250
    assert (found[0].uid, found[0].lost, found[0].digest) == ("", False, digest_of(A, raw(broken)))
    assert found[1].owner == ClaimedOwner("shop", "order")


def test_one_address_on_two_interfaces() -> None:
    """Both are records."""
    found = records(node(**{"eni-1": eni(held(A)), "eni-2": eni(entry(A, "shop/cart", "cart-uid"))}))
    assert [(item.key, item.address, item.uid) for item in found] == [
        (f"eni-1/ipv4/{A}", A, "order-uid"),
        (f"eni-2/ipv4/{A}", A, "cart-uid"),
    ]


@pytest.mark.parametrize(
    "broken", [None, 5, [], {"ipv4": []}, {"ipv4": {}, "ipv6": 1}, {"status": 7}, {"ipv4Prefix": {}}]
)
def test_an_interface_that_cannot_be_read(broken: object) -> None:
    """Nothing may be said of any record; what the others can hand out is known."""
    found = pool_of(node(**{"eni-1": broken, "eni-2": eni(held(B), entry(C, status="Deleting"))}))
    assert isinstance(found.records, RecordsUnreadable)
    assert "eni-1" in found.records.problem
    assert (str(found.configured), str(found.ranges)) == (f"{B}-{C}", B)
    assert [item.address for item in found.leaving] == [C]


@pytest.mark.parametrize("broken", [5, "x", [], True])
def test_interfaces_that_cannot_be_read(broken: object) -> None:
    """Nothing may be said of any record; other Nodes are read."""
    other = node(held(A))
    other["metadata"] = {"name": "node-2"}
    first, second = pools(with_interfaces(broken), other)
    assert isinstance(first.records, RecordsUnreadable)
    assert len(second.readable_records) == 1


def test_record_from_its_address_and_value() -> None:
    """The same as in the pool, but for its place."""
    for value in (held(), held(status="Invalid"), entry(uid="order-uid"), 5):
        found = record(value)
        again = BACKEND.record(A, raw(value))
        assert again == msgspec.structs.replace(found, key=A)


def test_record_of_an_entry_that_names_no_pod() -> None:
    """Nobody known."""
    assert isinstance(BACKEND.record(A, raw(entry())).owner, UnparsedOwner)


# --- proofs of removal ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "gone"),
    [
        (seen(deleted=LATE, initial=EARLY), True),
        (seen(deleted=LATE), True),
        (seen(deleted="2026-01-10T08:00:00Z", initial="2026-01-10T08:30:00+01:00"), True),
        (seen(initial=EARLY), False),
        (seen(deleted=EARLY, initial=LATE), False),
        (seen(deleted=LATE, initial=LATE), False),
        (seen(deleted=LATE, initial="2026-01-10T10:20:41+01:00"), False),
        (seen(deleted=LATE, initial="yesterday"), False),
        (seen(deleted="2026-01-10T09:20:41"), False),
        (seen(deleted=None, initial=EARLY), False),
        (seen(deleted=LATE, initial=None), False),
        (seen(deleted=LATE, restored=EARLY), False),
        (seen(gone=LATE), False),
        (seen(), False),
        ({"podID": "shop/order"}, False),
        ({"status": {"deleted": None}}, False),
        (None, False),
        (5, False),
    ],
)
def test_removal(said: object, gone: object) -> None:
    """Confirmed if the newest state is `deleted`; what leaves a doubt about that confirms nothing."""
    assert confirmed(node(), runtime({"order-uid": said})) == (frozenset({"order-uid"}) if gone else frozenset())


def test_removal_is_told_by_the_runtime_of_the_same_name() -> None:
    """Another node's says nothing, and no NodeRuntime proves nothing."""
    pods = {"order-uid": seen(deleted=LATE)}
    assert confirmed(node(held()), runtime(pods, "node-2")) == frozenset()
    assert confirmed(node(held())) == frozenset()
    decoded = msgspec.json.decode(raw(node(held())), type=BACKEND.item_type(POOLS))
    assert BACKEND.inventory({POOLS: [decoded]}).pools[0].removals == Removals(frozenset())


@pytest.mark.parametrize("pods", [None, 5, [], {}])
def test_a_runtime_that_tells_of_no_pods(pods: object) -> None:
    """Absent or unreadable, it proves nothing; nor does one without status."""
    assert confirmed(node(), runtime(pods)) == frozenset()
    assert confirmed(node(), {**runtime(pods), "status": {}}) == frozenset()


def test_one_unreadable_pod_takes_nothing_from_another() -> None:
    """Each is read by itself."""
    assert confirmed(node(), runtime({"a": 5, "b": seen(deleted=LATE)})) == {"b"}


def test_no_uid_is_never_removed() -> None:
    """A record without UID is nobody's whose removal a NodeRuntime could tell."""
    assert confirmed(node(), runtime({"": seen(deleted=LATE)})) == frozenset()


def test_runtimes_of_a_cluster() -> None:
    """A node that tells of the DEL, one that saw the pod only start, one that tells nothing."""
    order, cart = "267ce2be-4e19-43b8-82d2-979453b301f4", "174541fd-3dc4-44a5-969e-2fb93133482a"
    told = runtime({order: seen(deleted=LATE, initial=EARLY), cart: seen(initial=EARLY)})
    assert confirmed(node(), told) == {order}
    untold = runtime({order: seen(initial=EARLY), cart: seen(initial=EARLY)})
    assert confirmed(node(), untold) == frozenset()


# --- writes ---------------------------------------------------------------------------------------------------------


def without(thing: Object, *addresses: str, now: Object | None = None) -> Change | Stale:
    """The write that removes records as judged in `thing` from the Node as it is `now`."""
    judged = [item for item in records(thing) if item.address in addresses]
    assert len(judged) >= len(addresses)
    return BACKEND.without_records(raw(now or thing), judged)


def put(thing: Object, value: object, address: str = A) -> Change | Stale:
    """The write that puts a released record back."""
    return BACKEND.with_record(raw(thing), REF, address, raw(value))


def applied(made: Change | Stale, thing: Object) -> Object:
    """What the write makes of the Node."""
    assert isinstance(made, Change), made
    assert (made.kind, made.namespace, made.name, made.subresource) == (POOLS, "", "node-1", "status")
    assert isinstance(made.body, dict)
    assert made.body["metadata"] == {"resourceVersion": "7", "uid": "node-1-uid"}
    assert made.body.keys() == {"metadata", "status"}
    found = merge_patch(thing, json.loads(raw(made.body)))
    assert isinstance(found, dict)
    return found


def test_remove_records() -> None:
    """Both fields go, as Terway itself leaves an idle address; all else stays."""
    thing = node(**{"eni-1": eni(entry(P, primary=True), held(A), held(B), held(SIX)), "eni-2": eni(held(C))})
    left = node(**{"eni-1": eni(entry(P, primary=True), entry(A), held(B), entry(SIX)), "eni-2": eni(entry(C))})
    assert applied(without(thing, A, C, SIX), thing) == left


@pytest.mark.parametrize("value", [held(status="Invalid"), held(status="Deleting"), held(extra=[None, 1.5])])
def test_remove_a_record_of_any_status(value: Object) -> None:
    """Its status, and what newer versions add, are Terway's business."""
    thing = node(value)
    idle = {key: item for key, item in value.items() if key not in {"podID", "podUID"}}
    assert applied(without(thing, A), thing) == node(idle)


def test_remove_one_of_two_records_of_an_address() -> None:
    """The one that was judged, by its place."""
    thing = node(**{"eni-1": eni(held(A)), "eni-2": eni(held(A))})
    made = BACKEND.without_records(raw(thing), records(thing)[1:])
    assert applied(made, thing) == node(**{"eni-1": eni(held(A)), "eni-2": eni(entry(A))})


@pytest.mark.parametrize(
    "now",
    [
        node(entry(A), held(B)),
        node(entry(A, "shop/order", "new-uid"), held(B)),
        node(entry(A, "shop/other", "order-uid"), held(B)),
        node(held(A, status="Deleting"), held(B)),
        node(held(B)),
        node(**{"eni-2": eni(held(A), held(B))}),
        node(**{"eni-1": eni(held(A), held(B)), "eni-2": None}),
        with_interfaces(5),
        with_interfaces({}),
    ],
)
def test_record_that_is_not_as_it_was_judged(now: Object) -> None:
    """Freed, taken over, changed, moved, gone, or unreadable: nothing is written."""
    thing = node(held(A), held(B))
    assert isinstance(without(thing, A, now=now), Stale)
    assert isinstance(without(thing, B, A, now=now), Stale)


def test_stale_says_which_record() -> None:
    """For people."""
    made = without(node(held(A)), A, now=node())
    assert isinstance(made, Stale)
    assert A in made.message


def test_two_entries_of_one_record_key() -> None:
    """A key that stands for two entries names neither."""
    value = held(A)
    thing = node(**{"a/ipv4/b": eni() | {"ipv4": {"c": value}}, "a": eni() | {"ipv4": {"b/ipv4/c": value}}})
    assert isinstance(BACKEND.without_records(raw(thing), records(thing)[:1]), Stale)


@pytest.mark.parametrize("value", [held(), entry(pod="shop/order"), entry(uid="order-uid"), held(status="Invalid")])
def test_put_a_record_back(value: Object) -> None:
    """The pod as it was recorded; everything else as it is now."""
    now = node(entry(A, ipName="ip-new", new=1), held(B))
    owner = {key: value[key] for key in ("podID", "podUID") if key in value}
    assert applied(put(now, value), now) == node(entry(A, ipName="ip-new", new=1) | owner, held(B))


def test_put_back_what_was_released() -> None:
    """Release and restore end where they began, on whichever interface the address is by then."""
    thing = node(held(A), held(SIX))
    (first, second) = records(thing)
    freed = applied(without(thing, A, SIX), thing)
    half = applied(BACKEND.with_record(raw(freed), REF, A, first.raw), freed)
    assert applied(BACKEND.with_record(raw(half), REF, SIX, second.raw), half) == thing
    moved = node(**{"eni-2": eni(entry(A))})
    assert applied(put(moved, held()), moved) == node(**{"eni-2": eni(held(A))})


@pytest.mark.parametrize(
    "now",
    [
        node(),
        node(entry(B)),
        node(held(A)),
        node(entry(A, pod="shop/cart")),
        node(entry(A, uid="cart-uid")),
        node(entry(A, status="Deleting")),
        node(entry(A, status="Invalid")),
        node(**{"eni-1": eni() | {"ipv4": {A: 5}}}),
        node(**{"eni-1": eni(entry(A)), "eni-2": eni(held(A))}),
        node(**{"eni-1": eni(entry(A)), "eni-2": eni(entry(A))}),
        node(**{"eni-1": eni(entry(A)), "eni-2": 5}),
        with_interfaces(5),
    ],
)
def test_address_that_cannot_be_bound_again(now: Object) -> None:
    """Gone, taken, not valid, in two places or unreadable: nothing is written."""
    assert isinstance(put(now, held()), Stale)


@pytest.mark.parametrize("value", [entry(), 5, None, {"podID": 5}, {}])
def test_released_record_that_names_no_pod(value: object) -> None:
    """Nothing is written."""
    assert isinstance(put(node(entry(A)), value), Stale)


def test_put_back_beside_an_older_entry() -> None:
    """Where the address is idle twice, the valid one is meant."""
    now = node(**{"eni-1": eni(entry(A, status="Deleting")), "eni-2": eni(entry(A))})
    made = applied(put(now, held()), now)
    assert made == node(**{"eni-1": eni(entry(A, status="Deleting")), "eni-2": eni(held(A))})


# --- garbage --------------------------------------------------------------------------------------------------------


@given(
    interfaces=st.dictionaries(st.text(max_size=5), st.builds(lambda v: eni(ipv4=v), JSON) | JSON, max_size=3),
    pods=JSON,
)
def test_garbage_is_a_pool(interfaces: object, pods: object) -> None:
    """Whatever a Node and its NodeRuntime say, they are a pool, its records can be removed or are stale."""
    thing = with_interfaces(interfaces)
    found = pool_of(thing, runtime(pods))
    assert found.ranges - found.configured == type(found.ranges)()
    for item in found.readable_records:
        assert item.address is None or item.address in found.ranges
        assert isinstance(BACKEND.without_records(raw(thing), [item]), Change | Stale)
        if item.address is not None:
            assert BACKEND.record(item.address, item.raw).digest == item.digest
    assert isinstance(put(thing, pods), Change | Stale)


@given(value=JSON)
def test_garbage_entry_is_a_record(value: object) -> None:
    """So is each entry by itself."""
    assert BACKEND.record(A, raw(value)).raw == raw(value)


@pytest.mark.parametrize(
    "text", [b'{"podID":"\\ud800/a"}', b"[" * 5000, b"{", b"\xff", b"", b'{"ip":"\\ud800","podID":"a/b"}']
)
def test_text_that_is_no_json(text: bytes) -> None:
    """Released records are kept as text, which may be damaged."""
    assert isinstance(BACKEND.record(A, text).owner, UnparsedOwner | ClaimedOwner)
    assert isinstance(BACKEND.with_record(raw(node(entry(A))), REF, A, text), Change | Stale)


# --- what Terway does not do ----------------------------------------------------------------------------------------


def test_nics_of_a_pod() -> None:
    """No annotation tells which Node a NIC draws from."""
    pod = Pod(PodMetadata("order", annotations=PodAnnotations(ippools="[]")))
    assert BACKEND.nics_drawing_from(pod, "node-1", 2) == 2


def test_kinds() -> None:
    """Both are cluster-scoped; only Nodes are pools, and pods their owners."""
    assert {kind.kubectl_name for kind in (BACKEND.pool_kind, *BACKEND.aside)} == {
        "nodes.network.alibabacloud.com",
        "noderuntimes.network.alibabacloud.com",
    }
    assert not any(kind.namespaced for kind in BACKEND.status_kinds)
    assert (BACKEND.limits, BACKEND.owners) == ((), PodOwners())
