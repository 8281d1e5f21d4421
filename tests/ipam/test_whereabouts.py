"""Whereabouts' objects, in every form that its versions wrote, as pools, records and reservations, and the writes."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import Object, pod
from poolwarden.cluster.patches import Mismatch, Patched, json_patch
from poolwarden.ipam.inventory import Backend, Change, Inventory, NoReservations, PodOwners, Stale
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS
from poolwarden.ipam.objects import Pod
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record, RecordsUnreadable, UnparsedOwner
from poolwarden.ipam.reservation import Reservation
from poolwarden.ipam.whereabouts import NODE_SLICES, POOLS, RESERVATIONS, Whereabouts, reservation_name

BACKEND: Backend = Whereabouts()
V4_POOL, V6_POOL = "10.6.0.0-24", "fd00---64"
ENTRY = {"id": "c1", "podref": "default/app", "ifname": "net1"}
LARGEST = (1 << 63) - 1

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def thing(kind: str, name: str, namespace: str = "kube-system", **rest: Any) -> Object:
    """An object of whereabouts' group."""
    metadata = {"name": name, "namespace": namespace, "uid": f"{name}-uid", "resourceVersion": "7"}
    return {"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": kind, "metadata": metadata, **rest}


def ippool(entries: Any = None, range_: Any = "10.6.0.0/24", name: str = V4_POOL) -> Object:
    """An IPPool."""
    return thing("IPPool", name, spec={"range": range_, "allocations": {} if entries is None else entries})


def reservation(name: str, **spec: Any) -> Object:
    """An OverlappingRangeIPReservation."""
    return thing("OverlappingRangeIPReservation", name, spec=spec)


def slices(name: str, **nodes: str) -> Object:
    """A NodeSlicePool: node -> slice; `_` is no node."""
    allocations = [{"nodeName": node.strip("_").replace("_", "-"), "sliceRange": part} for node, part in nodes.items()]
    return thing(
        "NodeSlicePool", name, spec={"range": "10.6.0.0/24", "sliceSize": "/26"}, status={"allocations": allocations}
    )


def nad(name: str = "blue", config: Any = None, **ipam: Any) -> Object:
    """A NetworkAttachmentDefinition whose IPAM is whereabouts, unless `config` is another text."""
    plugin = {"name": "cfg", "type": "macvlan", "ipam": {"type": "whereabouts", **ipam}}
    spec = {"config": json.dumps(plugin) if config is None else config}
    metadata = {"name": name, "namespace": "team-a"}
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata,
        "spec": spec,
    }


def inventory(*objects: Object) -> Inventory:
    """What the backend makes of objects as the API server returns them; kinds of which there is none are not given."""
    by_kind: dict[Any, list[Any]] = {}
    for item in objects:
        kind = next(
            kind for kind in (POOLS, RESERVATIONS, NODE_SLICES, NETWORK_ATTACHMENTS) if kind.kind == item["kind"]
        )
        decoded = msgspec.json.decode(msgspec.json.encode(item), type=BACKEND.item_type(kind))
        by_kind.setdefault(kind, []).append(decoded)
    return BACKEND.inventory(by_kind)


def pool_of(made: Object, *others: Object) -> Pool:
    """The one pool."""
    (found,) = inventory(made, *others).pools
    return found


def records(entries: Any, **more: Any) -> tuple[Record, ...]:
    """The records of a pool with these allocations."""
    found = pool_of(ippool(entries, **more)).records
    assert isinstance(found, tuple), found
    return found


def reserved(name: str, *others: Object, **spec: Any) -> Reservation:
    """The one reservation."""
    (found,) = inventory(reservation(name, **spec), *others).reservations
    return found


# --- the backend ------------------------------------------------------------------------------------------------------


def test_its_records_name_pods() -> None:
    """And a pod does not say which pools it draws from."""
    assert isinstance(BACKEND.owners, PodOwners)
    made = msgspec.convert(pod("app"), Pod)
    assert BACKEND.nics_drawing_from(made, V4_POOL, 3) == 3


def test_nothing_given() -> None:
    """A kind that is not there is as one without objects."""
    assert BACKEND.inventory({}) == Inventory("whereabouts", ())


# --- keys -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "range_", "address"),
    [
        ("0", "10.6.0.0/24", "10.6.0.0"),
        ("7", "10.6.0.0/24", "10.6.0.7"),
        ("300", "10.6.0.0/24", "10.6.1.44"),
        ("7", "10.6.0.5/24", "10.6.0.12"),
        ("7", "::ffff:10.6.0.0/120", "10.6.0.7"),
        ("4124966911", "10.34.0.0/24", "255.255.255.255"),
        ("4124966912", "10.34.0.0/24", None),
        ("10", "fd00::/64", "fd00::a"),
        (str(LARGEST), "fd00::/64", "fd00::7fff:ffff:ffff:ffff"),
        (str(LARGEST + 1), "fd00::/64", None),
        ("1", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/120", None),
        (str(0xFFFF_0A06_0007), "::/64", "10.6.0.7"),
        ("18446463705355360228", "10.6.0.0/24", None),
        *((key, "10.6.0.0/24", None) for key in ("01", "00", "-1", "+1", "abc", "", " 1", "1\n", "1.0", "1e1", "0x1")),
        *((key, "10.6.0.0/24", None) for key in ("٣", "²", "1_0", "4294967295", "9" * 5000, "-0")),
    ],
)
def test_keys(key: str, range_: str, address: str | None) -> None:
    """Only a canonical int64 is an offset, counted from the address that the range is written with."""
    (found,) = records({key: ENTRY}, range_=range_)
    assert (found.key, found.address) == (key, address)


@given(st.integers(0, 2**64), st.sampled_from(["10.6.0.0/24", "fd00::/64", "255.255.255.0/24", "ffff::/16"]))
def test_keys_are_offsets(offset: int, range_: str) -> None:
    """The address is the base plus the key, wherever that is an address."""
    base = ipaddress.ip_network(range_).network_address
    number = int(base) + offset
    exists = offset <= LARGEST and number < 1 << base.max_prefixlen
    (found,) = records({str(offset): ENTRY}, range_=range_)
    assert found.address == (str(type(base)(number)) if exists else None)


# --- values, by version -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("entry", "owner", "interface"),
    [
        (ENTRY, ClaimedOwner("default", "app"), "net1"),
        ({"id": "c1", "podref": "default/app"}, ClaimedOwner("default", "app"), ""),
        ({"podref": "a/b", "ifname": None, "new": [1, {"x": None}]}, ClaimedOwner("a", "b"), ""),
        ({"id": "c1"}, "absent", ""),
        ({"id": "c1", "podref": "", "ifname": "eth0"}, "absent", "eth0"),
        ({"id": "c1", "podref": None}, "absent", ""),
        ({"podref": "app", "ifname": "net1"}, "'app' is not of the form namespace/name", "net1"),
        ({"podref": "a/b/c"}, "'a/b/c' is not", ""),
        ({"podref": "/b"}, "'/b' is not", ""),
        ({"podref": "a/"}, "'a/' is not", ""),
        ({"podref": 5}, "cannot be parsed", ""),
        ({"podref": "a/b", "ifname": []}, "cannot be parsed", ""),
        (None, "cannot be parsed", ""),
        ("a/b", "cannot be parsed", ""),
        (["x" * 500], "cannot be parsed", ""),
    ],
)
def test_owner_of_a_record(entry: Any, owner: ClaimedOwner | str, interface: str) -> None:
    """With ifname since v0.8, with podref since v0.5; what names no pod is still a record."""
    (found,) = records({"7": entry})
    assert (found.uid, found.interface, found.address) == ("", interface, "10.6.0.7")
    assert found.raw == msgspec.json.encode(entry, order="sorted")
    if isinstance(owner, str):
        assert isinstance(found.owner, UnparsedOwner)
        assert owner in found.owner.problem
        assert len(found.owner.problem) < 200
    else:
        assert found.owner == owner


@pytest.mark.parametrize("allocations", [None, {}])
def test_no_records(allocations: Any) -> None:
    """Null and an empty map are no records."""
    assert pool_of(thing("IPPool", V4_POOL, spec={"range": "10.6.0.0/24", "allocations": allocations})).records == ()


def test_allocations_that_are_absent() -> None:
    """They are none."""
    assert pool_of(thing("IPPool", V4_POOL, spec={"range": "10.6.0.0/24"})).records == ()


@pytest.mark.parametrize("allocations", [[], "{}", 5, True, [{"7": ENTRY}]])
def test_allocations_that_are_no_map(allocations: Any) -> None:
    """Nothing is known of any record; the ranges still are."""
    found = pool_of(ippool(allocations))
    assert isinstance(found.records, RecordsUnreadable)
    assert "spec.allocations" in found.records.problem
    assert found.ranges.size == 254


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"range": "x", "allocations": {"7": ENTRY}}, "spec.range 'x' is no network; allowed: address/prefix"),
        ({"range": "10.6.0.0", "allocations": {}}, "spec.range '10.6.0.0' has no valid prefix; allowed: /0 to /32"),
        ({"range": 5}, "spec.range is no string; allowed: address/prefix"),
        ({"allocations": {"7": ENTRY}}, "spec.range is absent; allowed: address/prefix"),
        (None, "spec cannot be parsed"),
        ([], "spec cannot be parsed"),
    ],
)
def test_range_that_cannot_be_read(spec: Any, problem: str) -> None:
    """Its records mean no addresses, and it hands out none, but its name tells which it may hold; the fault is told."""
    found = pool_of(thing("IPPool", V4_POOL, spec=spec))
    assert isinstance(found.records, RecordsUnreadable)
    assert found.records.problem.startswith(problem)
    assert (str(found.configured), found.ranges.size) == ("10.6.0.1-10.6.0.254", 0)
    assert [(flaw.kind, flaw.message) for flaw in found.flaws] == [("RangeInvalid", found.records.problem)]


@pytest.mark.parametrize(
    ("name", "held"),
    [
        ("10.6.0.0-29", "10.6.0.1-10.6.0.6"),
        ("blue-10.6.0.0-29", "10.6.0.1-10.6.0.6"),
        ("blue-worker-1-10.6.0.0-29", "10.6.0.1-10.6.0.6"),
        ("fd00--8-125", "fd00::9-fd00::e"),
        ("blue-fd00--8-125", "fd00::9-fd00::e"),
        ("mine", ""),
    ],
)
def test_what_the_name_of_a_pool_tells_of_its_range(name: str, held: str) -> None:
    """Where the range itself cannot be read."""
    assert str(pool_of(ippool(range_="x", name=name)).configured) == held


@pytest.mark.parametrize(
    ("range_", "keys", "doubtful"),
    [
        ("10.6.0.0/24", ["7", "07", "+8", "x"], "10.6.0.7-10.6.0.8"),
        ("10.6.0.5/24", ["7"], "10.6.0.7,10.6.0.12"),
        ("10.6.0.0/24", ["7"], ""),
    ],
)
def test_addresses_that_keys_may_stand_for(range_: str, keys: list[str], doubtful: str) -> None:
    """Odd keys are read by some versions; offsets from a range with host bits have two meanings."""
    assert str(pool_of(ippool(dict.fromkeys(keys, ENTRY), range_=range_)).doubtful) == doubtful


def test_network_of_a_pool_whose_range_cannot_be_read() -> None:
    """What an attachment that names it says."""
    nads = [nad(range="10.6.0.0/24"), nad("blue", range="10.6.0.0/24", network_name="blue")]
    found = [pool_of(ippool(range_="x", name=name), *nads) for name in (V4_POOL, "blue-10.6.0.0-24", "gone")]
    assert [pool.network for pool in found] == ["", "blue", ""]
    assert [pool.networks for pool in found] == [("team-a/blue",), ("team-a/blue",), ()]


@given(JSON, JSON, st.dictionaries(st.text(max_size=4), JSON, max_size=3))
def test_garbage_never_raises(spec: Any, range_: Any, entries: dict[str, Any]) -> None:
    """Whatever the values are; the pool beside it is read all the same."""
    good = ippool({"7": ENTRY}, name="good")
    for bad in (thing("IPPool", "bad", spec=spec), ippool(entries, range_), ippool(entries), ippool(spec)):
        pools = inventory(bad, good, reservation("10.6.0.7", x=spec)).pools
        assert [record.address for record in pools[1].readable_records] == ["10.6.0.7"]
        outcome = BACKEND.without_records(msgspec.json.encode(bad), pools[0].readable_records)
        if not isinstance(pools[0].records, RecordsUnreadable):
            assert patched(bad, outcome)["spec"].get("allocations") in ({}, None)


# --- digests ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("entry", [ENTRY, {"id": "c1"}, None, ["x"], {"podref": "a/b", "z": 1.50}])
@pytest.mark.parametrize(("key", "range_"), [("7", "10.6.0.0/24"), ("7", "10.6.0.5/24"), ("7", "fd00::/64")])
def test_record_from_its_address_and_value(entry: Any, key: str, range_: str) -> None:
    """It has the digest, the owner and the interface that the inventory gave it."""
    (found,) = records({key: entry}, range_=range_)
    assert found.address is not None
    again = BACKEND.record(found.address, found.raw)
    assert msgspec.structs.replace(again, key=key) == found


def test_digest_is_of_everything_in_a_record() -> None:
    """Address, container, pod, interface, and what we do not read: any change is another digest."""
    changed = [{**ENTRY, key: "other"} for key in (*ENTRY, "new")]
    digests = {records({"7": entry})[0].digest for entry in (ENTRY, *changed)}
    digests |= {records({"8": ENTRY})[0].digest, records({"07": ENTRY})[0].digest}
    digests |= {records({"7": ENTRY}, range_="10.7.0.0/24")[0].digest}
    assert len(digests) == 8
    assert all(len(digest) == 16 for digest in digests)


# --- ranges and networks ----------------------------------------------------------------------------------------------


def test_pool() -> None:
    """Name and identity; without an attachment, all but network and broadcast address is handed out."""
    found = pool_of(ippool({"7": ENTRY}))
    assert found.ref == PoolRef("whereabouts", "kube-system", V4_POOL)
    assert (found.uid, found.resource_version) == (f"{V4_POOL}-uid", "7")
    assert str(found.configured) == str(found.ranges) == "10.6.0.1-10.6.0.254"
    assert (found.networks, found.network, found.node, found.ambiguous, found.flaws) == ((), "", "", "", ())


@pytest.mark.parametrize("range_", ["10.6.0.0/31", "10.6.0.0/32", "fd00::/127"])
def test_range_that_hands_out_nothing(range_: str) -> None:
    """There is no address but network and broadcast address."""
    found = pool_of(ippool({"1": ENTRY}, range_))
    assert found.ranges.size == 0
    assert [flaw.kind for flaw in found.flaws] == ["RangeInvalid"]
    assert len(found.readable_records) == 1


def test_range_with_host_bits() -> None:
    """Versions differ in what offsets count from; here it is the address as written."""
    found = pool_of(ippool({"7": ENTRY}, "10.6.0.5/24"))
    assert found.ambiguous == (
        "spec.range 10.6.0.5/24 has host bits: some versions count offsets from 10.6.0.5, others from 10.6.0.0"
    )
    assert str(found.configured) == "10.6.0.1-10.6.0.254"


@pytest.mark.parametrize(
    ("name", "range_", "network"),
    [
        (V4_POOL, "10.6.0.0/24", ""),
        ("blue-10.6.0.0-24", "10.6.0.0/24", "blue"),
        ("a-b-10.6.0.0-24", "10.6.0.0/24", "a-b"),
        (V6_POOL, "fd00::/64", ""),
        ("2001-1---116", "2001:1::/116", ""),
        ("blue-fd00-1--10-124", "fd00:1::10/124", "blue"),
        ("byhand", "10.6.0.0/24", "byhand"),
        ("10.6.0.0-24", "10.6.0.5/24", ""),
    ],
)
def test_network_of_a_pool(name: str, range_: str, network: str) -> None:
    """It stands before the range in the pool's name; one that is named otherwise is on a network of its own."""
    assert pool_of(ippool(range_=range_, name=name)).network == network


@pytest.mark.parametrize(
    ("nads", "ranges", "networks"),
    [
        ([nad(range="10.6.0.0/24")], "10.6.0.1-10.6.0.254", ("team-a/blue",)),
        ([nad(range="10.6.0.9/24")], "10.6.0.1-10.6.0.254", ("team-a/blue",)),
        ([nad(range="10.6.0.0/24", range_start="10.6.0.10", range_end="10.6.0.20")], "10.6.0.10-10.6.0.20", None),
        ([nad(range="10.6.0.10-10.6.0.20/24", exclude=["10.6.0.12/30"])], "10.6.0.10-10.6.0.11,10.6.0.16-10.6.0.20", None),
        ([nad(ipRanges=[{"range": "10.9.0.0/24"}, {"range": "10.6.0.0/24", "range_end": "10.6.0.9"}])], "10.6.0.1-10.6.0.9", None),
        (
            [nad("a", range="10.6.0.1-10.6.0.5/24"), nad("b", range="10.6.0.4-10.6.0.9/24")],
            "10.6.0.1-10.6.0.9",
            ("team-a/a", "team-a/b"),
        ),
        (
            [nad(ipRanges=[{"range": "10.6.0.1-10.6.0.5/24"}, {"range": "10.6.0.9-10.6.0.9/24"}])],
            "10.6.0.1-10.6.0.5,10.6.0.9",
            ("team-a/blue",),
        ),
        ([nad(range="10.6.0.0/24", network_name="blue")], "10.6.0.1-10.6.0.254", ()),
        ([nad(range="10.6.0.0/25")], "10.6.0.1-10.6.0.254", ()),
        ([nad(range="10.6.0.0/24", range_end="10.7.0.1")], "10.6.0.1-10.6.0.254", ()),
        ([nad(config="{")], "10.6.0.1-10.6.0.254", ()),
        ([nad(config='{"type": "macvlan", "ipam": {"type": "dhcp", "range": "10.6.0.0/24"}}')], "10.6.0.1-10.6.0.254", ()),
        ([nad(config='{"type": "macvlan", "ipam": "whereabouts"}')], "10.6.0.1-10.6.0.254", ()),
        (
            [
                nad(
                    config='{"plugins": [{"type": "tuning"}, {"type": "macvlan",'
                    ' "IPAM": {"Type": "whereabouts", "range": "10.6.0.3-10.6.0.4/24"}}]}'
                )
            ],
            "10.6.0.3-10.6.0.4",
            ("team-a/blue",),
        ),
    ],
)  # fmt: skip
def test_attachments_that_configure_a_pool(nads: list[Object], ranges: str, networks: tuple[str, ...] | None) -> None:
    """What they say together is handed out; one that is refused, or is for another pool, says nothing."""
    found = pool_of(ippool(), *nads)
    assert str(found.ranges) == ranges
    assert found.networks == (("team-a/blue",) if networks is None else networks)
    assert str(found.configured) == "10.6.0.1-10.6.0.254"


@pytest.mark.parametrize(
    ("nads", "reserves"),
    [
        ([], True),
        ([nad(range="10.6.0.0/24")], True),
        ([nad(range="10.6.0.0/24", enable_overlapping_ranges=True)], True),
        ([nad(range="10.6.0.0/24", enable_overlapping_ranges=False)], False),
        ([nad("a", range="10.6.0.0/24"), nad("b", range="10.6.0.0/24", enable_overlapping_ranges=False)], False),
        ([nad("a", range="10.6.0.0/24"), nad("b", range="10.9.0.0/24", enable_overlapping_ranges=False)], True),
    ],
)
def test_reservations_beside_records(nads: list[Object], reserves: bool) -> None:  # noqa: FBT001 - a table
    """Each record has one, unless an attachment that configures the pool says otherwise."""
    assert pool_of(ippool(), *nads).reserves is reserves


# --- slices of nodes --------------------------------------------------------------------------------------------------

SLICED = {"range": "10.6.0.0/24", "node_slice_size": "/26"}
SLICE = "10.6.0.64/26"


@pytest.mark.parametrize(
    ("name", "others", "network", "networks"),
    [
        ("node-1-10.6.0.64-26", [slices("cfg", node_1=SLICE), nad(**SLICED)], "", ("team-a/blue",)),
        ("blue-node-1-10.6.0.64-26", [slices("blue", node_1=SLICE), nad(**SLICED, network_name="blue")], "blue", ("team-a/blue",)),
        ("node-1-10.6.0.64-26", [slices("cfg", node_1=SLICE)], "", ()),
        ("blue-node-1-10.6.0.64-26", [slices("blue", node_1=SLICE)], "blue", ()),
        (
            "cfg-node-1-10.6.0.64-26",
            [slices("cfg", node_1=SLICE), nad("a", **SLICED), nad("b", **SLICED, network_name="cfg")],
            "cfg",
            ("team-a/a", "team-a/b"),
        ),
        # The slice is free again, or another node's.
        ("node-9-10.6.0.64-26", [slices("cfg", _=SLICE), nad(**SLICED)], "", ("team-a/blue",)),
        ("cfg-9-10.6.0.64-26", [slices("cfg", node_1=SLICE), nad(**SLICED)], "", ("team-a/blue",)),
        ("blue-node-9-10.6.0.64-26", [slices("blue", node_1=SLICE), nad(**SLICED, network_name="blue")], "blue", ("team-a/blue",)),
        (
            "blue-2-node-9-10.6.0.64-26",
            [slices("blue", node_1=SLICE), slices("blue-2", node_1=SLICE), nad(**SLICED, network_name="blue-2")],
            "blue-2",
            ("team-a/blue",),
        ),
        # A node named like the NodeSlicePool.
        ("cfg-1-10.6.0.64-26", [slices("cfg", cfg_1=SLICE), nad(**SLICED)], "", ("team-a/blue",)),
        # No slice.
        ("blue-10.6.0.64-26", [slices("blue", node_1=SLICE), nad(**SLICED, network_name="blue")], "blue", ()),
        ("green-10.6.0.64-26", [slices("blue", node_1=SLICE), nad(**SLICED, network_name="blue")], "green", ()),
        ("green-10.6.0.64-26", [slices("cfg", node_1=SLICE), nad(**SLICED), nad("g", range=SLICE, network_name="green")], "green", ("team-a/g",)),
        ("node-1-10.6.0.64-26", [slices("cfg", node_1="10.6.0.0/26"), nad(**SLICED)], "node-1", ()),
        ("node-1-10.6.0.64-26", [slices("cfg", node_1="x"), nad(**SLICED)], "node-1", ()),
        ("10.6.0.64-26", [slices("cfg", node_1=SLICE), nad(**SLICED)], "", ()),
    ],
)  # fmt: skip
def test_slices_of_nodes(name: str, others: list[Object], network: str, networks: tuple[str, ...]) -> None:
    """[<network_name>-]<node>-<slice>: all slices are on one network, and configured by the whole's attachments."""
    found = pool_of(ippool(range_=SLICE, name=name), *others)
    assert (found.network, found.networks) == (network, networks)


@pytest.mark.parametrize(
    ("slice_", "more", "ranges"),
    [
        ("10.6.0.64/26", {}, "10.6.0.65-10.6.0.126"),
        ("10.6.0.64/26", {"exclude": ["10.6.0.70"], "range_end": "10.6.0.99"}, "10.6.0.65-10.6.0.126"),
        ("10.6.0.64/26", {"range": "10.6.0.64/27"}, "10.6.0.65-10.6.0.94"),
        ("10.6.0.64/26", {"range": "10.7.0.0/24"}, ""),
    ],
)
def test_ranges_of_slices(slice_: str, more: dict[str, Any], ranges: str) -> None:
    """A node hands out its slice, as far as the range goes: there the plugin passes over bounds and excludes."""
    name = f"node-1-{slice_.replace('/', '-')}"
    found = pool_of(ippool(range_=slice_, name=name), slices("cfg", node_1=slice_), nad(**{**SLICED, **more}))
    assert str(found.ranges) == ranges


def test_the_whole_range_of_slices_configures_no_pool() -> None:
    """A pool named after the whole range is not drawn from."""
    assert pool_of(ippool(), slices("cfg", node_1=SLICE), nad(**SLICED)).networks == ()


def test_node_slice_pool_without_status() -> None:
    """It has no slices yet."""
    statuses: list[Object] = [{}, {"status": None}, {"status": {}}, {"status": {"allocations": None}}]
    for status in statuses:
        made = thing("NodeSlicePool", "cfg", spec={}, **status)
        assert pool_of(ippool(range_=SLICE, name="node-1-10.6.0.64-26"), made).network == "node-1"


# --- pools whose attachment is gone -----------------------------------------------------------------------------------

OTHER = nad("other", range="10.9.0.0/24")
GONE = "no NetworkAttachmentDefinition configures this pool any more"


@pytest.mark.parametrize(
    ("entries", "nads", "gone"),
    [
        ({"7": ENTRY}, [OTHER], True),
        ({"7": ENTRY}, [nad(config='{"type": "macvlan", "ipam": {"type": "dhcp"}}')], True),
        ({"7": ENTRY}, [], False),
        ({"7": ENTRY}, [OTHER, nad(range="10.6.0.0/24")], False),
        ({}, [OTHER], False),
        ([], [OTHER], False),
        ({"7": ENTRY, "8": {**ENTRY, "ifname": "eth0"}}, [OTHER], False),
        ({"7": ENTRY, "8": {"id": "c", "podref": "a/b"}}, [OTHER], False),
        # One that may be for this pool after all.
        ({"7": ENTRY}, [OTHER, nad(config="{")], False),
        ({"7": ENTRY}, [OTHER, nad(config="")], False),
        ({"7": ENTRY}, [OTHER, nad(range="10.6.0.0/24", exclude=["x"])], False),
        ({"7": ENTRY}, [OTHER, nad()], False),
        ({"7": ENTRY}, [OTHER, nad(**SLICED)], False),
        ({"7": ENTRY}, [OTHER, nad(**SLICED), slices("cfg", node_1=SLICE)], True),
    ],
)
def test_attachment_that_is_missing(entries: Any, nads: list[Object], gone: bool) -> None:  # noqa: FBT001 - a table
    """Told of a pool with records on further interfaces only, where every attachment says for which pools it is."""
    found = pool_of(ippool(entries), *nads)
    assert [(flaw.kind, flaw.message) for flaw in found.flaws] == ([("AttachmentMissing", GONE)] if gone else [])


# --- reservations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "address", "network"),
    [
        ("10.6.0.7", "10.6.0.7", ""),
        ("blue-10.6.0.7", "10.6.0.7", "blue"),
        ("a-b-10.6.0.7", "10.6.0.7", "a-b"),
        ("2001-db8--5", "2001:db8::5", ""),
        ("2001-db8--0", "2001:db8::", ""),
        ("blue-2001-db8--5", "2001:db8::5", "blue"),
        ("blue---1", "::1", "blue"),
        ("blue---0", "::", "blue"),
        ("1-2-3-4-5-6-7-8", "1:2:3:4:5:6:7:8", ""),
        ("2001-db8-0-0-0-0-0-5", None, ""),
        ("2001-db8--", None, ""),
        ("010.6.0.7", None, ""),
        ("x", None, ""),
        ("blue-10.6.0", None, ""),
        ("-" * 253, None, ""),
        ("a-" * 100_000, None, ""),
    ],
)
def test_names_of_reservations(name: str, address: str | None, network: str) -> None:
    """The network's name, and the address with - for each colon; what the plugin would not write is no address."""
    found = reserved(name, podref="a/b")
    assert (found.address, found.network) == (address, network)


@pytest.mark.parametrize(
    ("pools", "address", "network"),
    [
        ({}, "fd00:1::5", ""),
        ({"fd00-1---16": "1::/16"}, "1::5", "fd00"),
        ({"fd00-1---64": "fd00:1::/64", "fd00-1---16": "1::/16"}, "fd00:1::5", ""),
        ({"fd00-2---64": "fd00:2::/64", "fd00-1---64": "1::/64"}, "1::5", "fd00"),
        ({"fd00-10.6.0.0-24": "10.6.0.0/24"}, "1::5", "fd00"),
        ({"10.6.0.0-24": "10.6.0.0/24"}, "fd00:1::5", ""),
    ],
)
def test_names_that_can_be_read_in_two_ways(pools: dict[str, str], address: str, network: str) -> None:
    """An address that a pool of that network holds, else a network that has pools, else no network_name."""
    found = reserved("fd00-1--5", *(ippool(range_=range_, name=name) for name, range_ in pools.items()))
    assert (found.address, found.network) == (address, network)


@given(st.ip_addresses(), st.sampled_from(["", "blue", "a-b", "fd00"]))
def test_every_name_can_be_read_back(address: ipaddress.IPv4Address | ipaddress.IPv6Address, network: str) -> None:
    """Given a pool of that network around the address."""
    host = address if address.version == 4 else address.ipv4_mapped or address
    around = str(ipaddress.ip_network((host, host.max_prefixlen - 8), strict=False))
    pool = ippool(range_=around, name="-".join(filter(None, (network, around.replace(":", "-").replace("/", "-")))))
    found = reserved(reservation_name(str(host), network), pool)
    assert (found.address, found.network) == (str(host), network)


def test_reservation() -> None:
    """Identity, owner and interface; versions before v0.8 wrote a containerid, and no ifname."""
    found = reserved("10.6.0.7", podref="default/app", ifname="net1")
    assert (found.namespace, found.name, found.uid, found.resource_version) == (
        "kube-system",
        "10.6.0.7",
        "10.6.0.7-uid",
        "7",
    )
    assert (found.owner, found.interface) == (ClaimedOwner("default", "app"), "net1")
    old = reserved("10.6.0.7", podref="default/app", containerid="c1")
    assert (old.owner, old.interface) == (ClaimedOwner("default", "app"), "")
    assert isinstance(reserved("10.6.0.7", containerid="c1").owner, UnparsedOwner)
    assert isinstance(
        inventory(thing("OverlappingRangeIPReservation", "x", spec=5)).reservations[0].owner, UnparsedOwner
    )


def test_digest_of_a_reservation() -> None:
    """Name, UID and all that it says."""
    made = reservation("10.6.0.7", podref="a/b")
    others = [
        reservation("10.6.0.8", podref="a/b"),
        reservation("10.6.0.7", podref="a/c"),
        reservation("10.6.0.7", podref="a/b", ifname="net1"),
        {**made, "metadata": made["metadata"] | {"uid": "new"}},
        {**made, "metadata": made["metadata"] | {"namespace": "other"}},
    ]
    assert len({inventory(item).reservations[0].digest for item in (made, *others)}) == 6
    later = {**made, "metadata": made["metadata"] | {"resourceVersion": "8"}}
    assert inventory(later).reservations[0].digest == inventory(made).reservations[0].digest


@pytest.mark.parametrize(
    ("entry", "range_", "pool", "name", "spec"),
    [
        (ENTRY, "10.6.0.0/24", V4_POOL, "10.6.0.7", {"podref": "default/app", "ifname": "net1"}),
        ({"podref": "a/b"}, "10.6.0.0/24", "blue-10.6.0.0-24", "blue-10.6.0.7", {"podref": "a/b"}),
        ({"podref": "a/b"}, "fd00::/64", V6_POOL, "fd00--7", {"podref": "a/b"}),
        ({"podref": "a/b"}, "fd00::/64", "blue-fd00---64", "blue-fd00--7", {"podref": "a/b"}),
    ],
)
def test_reservation_for_a_record(entry: Object, range_: str, pool: str, name: str, spec: Object) -> None:
    """As the plugin makes it, and it is read as the reservation of that address."""
    found = pool_of(ippool({"7": entry}, range_, pool))
    (record,) = found.readable_records
    assert not isinstance(BACKEND.reservations, NoReservations)
    assert BACKEND.reservations.kind == RESERVATIONS
    namespace, made = BACKEND.reservations.reservation_for(found, record)
    assert namespace == "kube-system"
    assert made == {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "OverlappingRangeIPReservation",
        "metadata": {"name": name},
        "spec": spec,
    }
    again = reserved(name, ippool(range_=range_, name=pool), **spec)
    assert (again.address, again.network, again.owner) == (record.address, found.network, record.owner)
    assert BACKEND.reservations.again(again) == (namespace, made)


# --- removing records -------------------------------------------------------------------------------------------------


def change(made: Change | Stale) -> Change:
    """The write, which must be one."""
    assert isinstance(made, Change), made
    return made


def operations(made: Change | Stale) -> tuple[Object, ...]:
    """The JSON patch of a write, which must be one."""
    body = change(made).body
    assert isinstance(body, tuple)
    return body


def patched(thing: Object, made: Change | Stale) -> Object:
    """The object after the write."""
    outcome = json_patch(thing, operations(made))
    assert isinstance(outcome, Patched), outcome
    assert isinstance(outcome.value, dict)
    return outcome.value


def without(judged: Object, *keys: str, now: Object | None = None) -> Change | Stale:
    """The write that removes records as judged from the pool as it is `now`."""
    chosen = [record for record in pool_of(judged).readable_records if record.key in keys]
    assert len(chosen) == len(keys)
    return BACKEND.without_records(msgspec.json.encode(now or judged), chosen)


def test_remove_records() -> None:
    """One patch: the object's UID is tested, and each exact value before it is removed; nothing else is touched."""
    other, odd = {"id": "c2", "podref": "x/y"}, {"id": "c3", "podref": "a/b", "new": [1, {"z": None}]}
    made = ippool({"7": ENTRY, "8": other, "a~/b": odd, "9": odd})
    write = change(without(made, "7", "a~/b"))
    assert (write.kind, write.namespace, write.name, write.subresource) == (POOLS, "kube-system", V4_POOL, "")
    assert list(write.body) == [
        {"op": "test", "path": "/metadata/uid", "value": f"{V4_POOL}-uid"},
        {"op": "test", "path": "/spec/allocations/7", "value": ENTRY},
        {"op": "remove", "path": "/spec/allocations/7"},
        {"op": "test", "path": "/spec/allocations/a~0~1b", "value": odd},
        {"op": "remove", "path": "/spec/allocations/a~0~1b"},
    ]
    assert patched(made, write) == ippool({"8": other, "9": odd})


def test_remove_the_last_record() -> None:
    """The map stays, as the schema wants it."""
    made = ippool({"7": ENTRY})
    assert patched(made, without(made, "7")) == ippool({})


@pytest.mark.parametrize("entry", [{**ENTRY, "id": "c2"}, {"id": "c1", "podref": "default/app"}, {**ENTRY, "new": 1}])
def test_a_record_that_changes_under_the_write(entry: Object) -> None:
    """A re-ADD that only changes the container makes the patch fail as a whole."""
    made = ippool({"7": ENTRY, "8": ENTRY})
    body = operations(without(made, "7", "8"))
    assert isinstance(json_patch(ippool({"7": entry, "8": ENTRY}), body), Mismatch)
    assert isinstance(json_patch(ippool({"8": ENTRY}), body), Mismatch)
    replaced = ippool({"7": ENTRY, "8": ENTRY})
    replaced["metadata"]["uid"] = "new"
    assert isinstance(json_patch(replaced, body), Mismatch)


@pytest.mark.parametrize(
    "now",
    [
        ippool({}),
        ippool({"8": ENTRY}),
        ippool({"07": ENTRY}),
        ippool({"7": {**ENTRY, "id": "c2"}}),
        ippool({"7": ENTRY}, "10.7.0.0/24"),
        ippool({"7": ENTRY}, "x"),
        ippool([]),
        thing("IPPool", V4_POOL, spec=5),
    ],
)
def test_a_record_that_has_changed_before(now: Object) -> None:
    """Gone, another value, or another address under the key: nothing may be written."""
    assert isinstance(without(ippool({"7": ENTRY}), "7", now=now), Stale)


@pytest.mark.parametrize(("count", "fits"), [(3000, True), (3001, False)])
def test_many_records(count: int, fits: bool) -> None:  # noqa: FBT001 - a table
    """One patch has at most 10,000 operations."""
    made = ippool({str(at): ENTRY for at in range(1, count + 1)}, "10.0.0.0/16")
    assert isinstance(without(made, *made["spec"]["allocations"]), Change if fits else Stale)


def test_an_object_from_a_file() -> None:
    """It may carry no UID; there is nothing to test then but the records."""
    made = ippool({"7": ENTRY})
    del made["metadata"]["uid"]
    assert patched(made, without(made, "7"))["spec"]["allocations"] == {}


# --- putting a record back --------------------------------------------------------------------------------------------

REF = PoolRef("whereabouts", "kube-system", V4_POOL)
RAW = msgspec.json.encode(ENTRY)


def restored(now: Object, address: str = "10.6.0.7", raw: bytes = RAW) -> Change | Stale:
    """The write that puts a record back."""
    return BACKEND.with_record(msgspec.json.encode(now), REF, address, raw)


@pytest.mark.parametrize(
    ("spec", "address", "key"),
    [
        ({"range": "10.6.0.0/24", "allocations": {"8": ENTRY}}, "10.6.0.7", "7"),
        ({"range": "10.6.0.0/24", "allocations": {}}, "10.6.0.7", "7"),
        ({"range": "10.6.0.0/24", "allocations": None}, "10.6.0.7", "7"),
        ({"range": "10.6.0.0/24"}, "10.6.0.7", "7"),
        ({"range": "fd00::/64", "allocations": {"8": ENTRY}}, "fd00::a", "10"),
        ({"range": "fd00::/64"}, "fd00::7fff:ffff:ffff:ffff", str(LARGEST)),
    ],
)
def test_put_a_record_back(spec: Object, address: str, key: str) -> None:
    """At its offset, with its exact value; what else is there stays, and the object must be the very one that was read."""
    made = thing("IPPool", V4_POOL, spec=spec)
    write = change(restored(made, address))
    after = patched(made, write)
    assert after["spec"]["allocations"] == {**(spec.get("allocations") or {}), key: ENTRY}
    found = next(record for record in pool_of(after).readable_records if record.address == address)
    assert found.digest == BACKEND.record(address, RAW).digest
    for field in ("uid", "resourceVersion"):
        other = {**made, "metadata": made["metadata"] | {field: "new"}}
        assert isinstance(json_patch(other, operations(write)), Mismatch)


@pytest.mark.parametrize(
    ("now", "address", "why"),
    [
        (ippool({"7": {"id": "c9"}}), "10.6.0.7", "has a record"),
        (ippool({"07": ENTRY}), "10.6.0.7", "has a record"),
        (ippool({"+7": ENTRY}), "10.6.0.7", "has a record"),
        (ippool({"0" * 5000 + "7": ENTRY}), "10.6.0.7", "has a record"),
        (ippool({"-1": ENTRY}, "fd00::/64"), "fd00::ffff:ffff:ffff:ffff", "cannot be recorded"),
        (ippool({"-18446744073709551609": ENTRY}, "fd00::/64"), "fd00::7", "has a record"),
        (ippool(), "10.7.0.7", "its range is 10.6.0.0/24"),
        (ippool(), "fd00::7", "its range is"),
        (ippool(range_="fd00::/64"), "fd00::8000:0:0:0", "cannot be recorded"),
        (ippool(range_="10.6.0.5/24"), "10.6.0.7", "has host bits"),
        (ippool(range_="x"), "10.6.0.7", "spec.range"),
        (ippool([]), "10.6.0.7", "spec.allocations"),
    ],
)
def test_a_record_that_cannot_be_put_back(now: Object, address: str, why: str) -> None:
    """The address has a record under some spelling, or no key of this pool's means it."""
    made = restored(now, address)
    assert isinstance(made, Stale)
    assert why in made.message


def test_other_keys_do_not_block() -> None:
    """What is no number has no address."""
    made = ippool({"abc": ENTRY, "": ENTRY, "1_0": ENTRY, "9" * 5000: ENTRY, "8": ENTRY})
    assert patched(made, restored(made))["spec"]["allocations"]["7"] == ENTRY


@pytest.mark.parametrize("raw", [b"", b"{", b"\xff", b"[" * 100_000])
def test_a_record_that_is_no_json(raw: bytes) -> None:
    """It came from a ledger that somebody may have edited."""
    assert isinstance(restored(ippool(), raw=raw), Stale)
