"""Spiderpool's objects, in every form that its versions wrote, as pools, records and endpoints."""

import json
from typing import Any

import msgspec
import pytest

from factories import BLUE, Object, blue, claim, endpoint, pod, pool, reserved_ip
from poolwarden.ipam.endpoint import Endpoint, EndpointAddress, EndpointItem
from poolwarden.ipam.inventory import Inventory
from poolwarden.ipam.objects import Pod
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record, RecordsUnreadable, UnparsedOwner
from poolwarden.ipam.spiderpool import ENDPOINTS, EVERY_ADDRESS, POOLS, RESERVATIONS, Spiderpool

BACKEND = Spiderpool()
A = "10.0.0.10"


def inventory(*objects: Object) -> Inventory:
    """What the backend makes of objects as the API server returns them."""
    by_kind: dict[Any, list[Any]] = {kind: [] for kind in (POOLS, ENDPOINTS, RESERVATIONS)}
    for thing in objects:
        kind = next(kind for kind in by_kind if kind.kind == thing["kind"])
        by_kind[kind].append(msgspec.json.decode(msgspec.json.encode(thing), type=BACKEND.item_type(kind)))
    return BACKEND.inventory(by_kind)


def pool_of(thing: Object, *others: Object) -> Pool:
    """The one pool."""
    (found,) = inventory(thing, *others).pools
    return found


def endpoint_of(thing: Object) -> Endpoint:
    """The one endpoint."""
    (found,) = inventory(thing).endpoints
    return found


def with_allocated(value: object) -> Object:
    """A pool whose allocatedIPs is that value, of whatever type."""
    made = blue()
    made["status"] |= {"allocatedIPs": value}
    return made


def records(value: object) -> tuple[Record, ...]:
    """The records of a pool with that allocatedIPs."""
    found = pool_of(with_allocated(value)).records
    assert isinstance(found, tuple)
    return found


# --- forms of allocatedIPs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [None, "", " ", "null", "{}", {}])
def test_nothing_allocated(value: object) -> None:
    """Absent, null, an empty text or an empty object are no records."""
    assert records(value) == ()


def test_allocated_ips_that_are_absent() -> None:
    """An emptied pool has no such key."""
    assert pool_of(blue()).records == ()


def test_record_since_v0_8_2() -> None:
    """JSON text: address -> pod and UID."""
    (found,) = records('{"10.0.0.10":{"pod":"default/web-0","podUid":"4102bd95"}}')
    assert (found.key, found.address, found.owner) == (A, A, ClaimedOwner("default", "web-0"))
    assert (found.uid, found.interface) == ("4102bd95", "")
    assert found.raw == b'{"pod":"default/web-0","podUid":"4102bd95"}'


def test_record_of_v0_4_to_v0_8_1() -> None:
    """With the interface."""
    (found,) = records('{"10.0.0.10":{"interface":"net1","pod":"default/web-0","podUid":"u"}}')
    assert (found.owner, found.uid, found.interface) == (ClaimedOwner("default", "web-0"), "u", "net1")


def test_record_of_v0_1_to_v0_3() -> None:
    """A real object; the pod's name beside its namespace, no UID."""
    entry = {"containerID": "c", "interface": "eth0", "node": "n", "namespace": "default", "pod": "web-0"}
    (found,) = records({A: entry | {"ownerControllerType": "StatefulSet", "ownerControllerName": "web"}})
    assert (found.owner, found.uid, found.interface) == (ClaimedOwner("default", "web-0"), "", "eth0")


@pytest.mark.parametrize(
    ("entry", "owner"),
    [
        ({"pod": "a/b", "namespace": "c"}, ClaimedOwner("a", "b")),
        ({"pod": "b", "namespace": "a"}, ClaimedOwner("a", "b")),
        ({"pod": "a/b", "podUid": None, "interface": None, "namespace": None}, ClaimedOwner("a", "b")),
        ({"pod": "a/b", "extra": [1, {"x": None}]}, ClaimedOwner("a", "b")),
    ],
)
def test_owner_of_a_record(entry: Object, owner: ClaimedOwner) -> None:
    """`namespace/name` wins over a namespace beside it; null is absent, more keys are of no matter."""
    (found,) = records(json.dumps({A: entry}))
    assert (found.owner, found.uid, found.interface) == (owner, "", "")


@pytest.mark.parametrize(
    "entry",
    [
        {},
        {"pod": None},
        {"pod": ""},
        {"pod": "web-0"},
        {"pod": "a/b/c"},
        {"pod": "/b"},
        {"pod": "a/"},
        {"pod": "b", "namespace": ""},
        {"pod": "", "namespace": "a"},
        {"pod": ["a/b"]},
        {"pod": "a/b", "podUid": 5},
        None,
        [],
        "a/b",
        5,
    ],
)
def test_owner_that_cannot_be_parsed(entry: object) -> None:
    """It is told with what stands there; the record is still one, with its digest."""
    (found,) = records(json.dumps({A: entry}))
    assert isinstance(found.owner, UnparsedOwner)
    assert found.owner.problem
    assert found.uid == ""
    assert (found.address, len(found.digest)) == (A, 16)


def test_a_long_entry_is_cut_in_messages() -> None:
    """A problem fits a line."""
    (found,) = records(json.dumps({A: ["x" * 500]}))
    assert isinstance(found.owner, UnparsedOwner)
    assert len(found.owner.problem) < 200


@pytest.mark.parametrize("value", ["{", "[]", '"x"', "5", '{"a":}', [], 5, True, '{"10.0.0.10":{"pod":"a/b"}'])
def test_records_that_cannot_be_parsed(value: object) -> None:
    """Nothing is known of any record then, and the pool is there all the same."""
    found = pool_of(with_allocated(value))
    assert isinstance(found.records, RecordsUnreadable)
    assert "allocatedIPs" in found.records.problem
    assert found.readable_records == ()
    assert found.ranges.size == 21


@pytest.mark.parametrize(
    ("key", "address"),
    [(A, A), ("FD00:0::A", "fd00::a"), ("::ffff:10.0.0.10", A), ("web", None), ("10.0.0.10/24", None), ("", None)],
)
def test_keys(key: str, address: str | None) -> None:
    """Addresses are canonical; a key that is none stays as it is written."""
    (found,) = records(json.dumps({key: claim("app")}))
    assert (found.key, found.address) == (key, address)


def test_digest_is_of_everything_in_a_record() -> None:
    """Key, owner, UID, and what we do not read: any change is another digest, its place and neighbours are not."""
    entry = claim("app")
    changed = [claim("app", "x"), claim("app2", "app-uid"), entry | {"interface": "eth0"}, entry | {"new": 1}]
    digests = {records(json.dumps({A: value}))[0].digest for value in [entry, *changed]}
    digests |= {records(json.dumps({"10.0.0.11": entry}))[0].digest}
    assert len(digests) == 6
    neighbours = records(json.dumps({"10.0.0.11": claim("other"), A: entry}))
    assert neighbours[1].digest == records(json.dumps({A: entry}))[0].digest


# --- pools --------------------------------------------------------------------------------------------------------------


def test_pool() -> None:
    """Name, identity and networks."""
    found = pool_of(blue({A: claim("app")}, multus=["kube-system/net1", "no-namespace"]))
    assert found.ref == PoolRef("spiderpool", "", "blue")
    assert (found.uid, found.resource_version) == ("blue-uid", "7")
    assert found.networks == ("kube-system/net1", "no-namespace")
    assert found.flaws == ()


def test_ranges_of_a_pool() -> None:
    """`ips` less `excludeIPs` are its own; what SpiderReservedIPs take away it does not hand out."""
    thing = blue(exclude=["10.0.0.10-10.0.0.12", "10.0.0.30"])
    found = pool_of(thing, reserved_ip("10.0.0.13", "10.0.0.99"), reserved_ip("10.0.0.20-10.0.0.22", name="more"))
    assert str(found.configured) == "10.0.0.13-10.0.0.29"
    assert str(found.ranges) == "10.0.0.14-10.0.0.19,10.0.0.23-10.0.0.29"


def test_reserved_ranges_that_cannot_be_read() -> None:
    """They reserve nothing; the others do."""
    assert pool_of(blue(), reserved_ip("10.0.0.9-10.0.0.1", A)).ranges.size == 20


@pytest.mark.parametrize(
    ("spec", "usable"),
    [
        ({"subnet": "10.0.0.0/24", "gateway": "10.0.0.1"}, "10.0.0.0,10.0.0.2-10.0.0.12,10.0.0.14-10.0.0.255"),
        ({"subnet": "fd00::/126", "ipVersion": 6, "gateway": "fd00::1"}, "fd00::,fd00::2-fd00::3"),
        ({"subnet": "", "ipVersion": 6}, "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"),
        (
            {"subnet": "10.0.0.0/33", "ipVersion": 4, "gateway": "0.0.0.0"},
            "0.0.0.1-10.0.0.12,10.0.0.14-255.255.255.255",
        ),
        ({"subnet": "10.0.0.12/31", "gateway": "unreadable"}, "10.0.0.12"),
    ],
)
def test_what_a_pool_may_not_get(spec: Object, usable: str) -> None:
    """Its gateway, what is reserved, and all outside its subnet, or of the other family where that cannot be read."""
    thing = blue()
    thing["spec"] |= spec
    left = EVERY_ADDRESS - pool_of(thing, reserved_ip("10.0.0.13")).unusable
    assert str(left) == usable


def test_nothing_is_known_of_what_a_pool_may_not_get() -> None:
    """Neither subnet nor family."""
    thing = blue()
    thing["spec"] |= {"subnet": "", "ipVersion": None}
    assert pool_of(thing).unusable.ranges == ()


def test_large_pool() -> None:
    """A /64 is counted exactly, without a list of its addresses."""
    found = pool_of(pool("six", "fd00::-fd00::ffff:ffff:ffff:ffff", total=2**64))
    assert found.ranges.size == 2**64
    assert found.flaws == ()


@pytest.mark.parametrize("field", ["ips", "excludeIPs", "multusName"])
@pytest.mark.parametrize("value", [None, []])
def test_absent_fields(field: str, value: object) -> None:
    """null, empty and absent are one."""
    thing = blue()
    thing["spec"][field] = value
    expected = 0 if field == "ips" else 21
    thing["status"]["totalIPCount"] = expected
    found = pool_of(thing)
    assert (found.configured.size, found.networks, found.flaws) == (expected, (), ())


@pytest.mark.parametrize(
    ("ips", "exclude", "size"),
    [
        (["10.0.0.9-10.0.0.5"], [], 0),
        (["10.0.0.1-10.0.0.5", "x"], [], 5),
        (["10.0.0.1-10.0.0.5"], ["10.0.0.4-10.0.0.2"], 5),
        (["10.0.0.0/24"], [], 0),
    ],
)
def test_ranges_that_hand_out_nothing(ips: list[str], exclude: list[str], size: int) -> None:
    """They are told, count nothing, and say nothing about totalIPCount."""
    found = pool_of(pool("blue", ips, exclude=exclude, total=77))
    assert found.configured.size == size
    assert [flaw.kind for flaw in found.flaws] == ["RangeInvalid"]


@pytest.mark.parametrize(
    ("allocated", "total", "told"),
    [
        (1, 21, []),
        (0, 21, ["allocatedIPCount is 0, but 1 addresses are recorded"]),
        (-1, 21, ["allocatedIPCount is -1"]),
        (None, 21, ["allocatedIPCount is absent"]),
        (1, 20, ["totalIPCount is 20", "21 addresses"]),
        (1, None, ["totalIPCount is absent"]),
    ],
)
def test_counts_of_a_pool_with_records(allocated: int | None, total: int | None, told: list[str]) -> None:
    """Counts must be those of records and addresses."""
    thing = blue({A: claim("app")})
    thing["status"] |= {"allocatedIPCount": allocated, "totalIPCount": total}
    text = " ".join(flaw.message for flaw in pool_of(thing).flaws)
    assert [part for part in told if part not in text] == []
    assert bool(text) == bool(told)


@pytest.mark.parametrize(
    ("allocated", "total", "flaws"), [(None, None, 0), (0, 21, 0), (1, 21, 1), (0, 20, 1), (None, 20, 1)]
)
def test_counts_of_an_empty_pool(allocated: int | None, total: int | None, flaws: int) -> None:
    """A pool that the controller has not counted yet is no finding."""
    thing = blue()
    thing["status"] = {"allocatedIPCount": allocated, "totalIPCount": total}
    assert len(pool_of(thing).flaws) == flaws


def test_counts_of_unreadable_records() -> None:
    """Where records cannot be read there is nothing to compare."""
    assert pool_of(blue("{", allocated=9, total=9)).flaws == ()


def test_pool_without_status() -> None:
    """A pool that was just created."""
    thing = blue()
    del thing["status"]
    assert (pool_of(thing).records, pool_of(thing).flaws) == ((), ())


# --- endpoints ----------------------------------------------------------------------------------------------------------


def test_endpoint() -> None:
    """Whose it is, where it ran, and its NICs with addresses without mask."""
    thing = endpoint(
        "web-0", {"eth0": (f"{A}@blue", "FD00::A@six"), "": "10.0.1.10@green"}, uid="u", node="n1", kind="StatefulSet"
    )
    found = endpoint_of(thing)
    assert (found.key, found.owner_uid, found.node) == (("default", "web-0"), "u", "n1")
    assert (found.owner_kind, found.owner_name) == ("StatefulSet", "web")
    assert (found.uid, found.resource_version) == ("web-0-endpoint-uid", "7")
    assert (found.finalizers, found.terminating, found.items_unread) == (("spiderpool.spidernet.io",), False, "")
    assert found.items == (
        EndpointItem("eth0", (EndpointAddress(A, "blue"), EndpointAddress("fd00::a", "six"))),
        EndpointItem("", (EndpointAddress("10.0.1.10", "green"),)),
    )
    assert [item.address for item in found.addresses] == [A, "fd00::a", "10.0.1.10"]


def test_endpoint_that_is_being_deleted() -> None:
    """Its deletionTimestamp says so."""
    assert endpoint_of(endpoint("app", {}, deleting=True)).terminating


def test_endpoint_without_finalizers() -> None:
    """Absent finalizers are none."""
    thing = endpoint("app", {})
    del thing["metadata"]["finalizers"]
    assert endpoint_of(thing).finalizers == ()


@pytest.mark.parametrize("ips", [None, []])
def test_endpoint_of_no_nic(ips: object) -> None:
    """An empty list is left by a "release conflict IPs" call."""
    thing = endpoint("app", {})
    thing["status"]["current"]["ips"] = ips
    assert (endpoint_of(thing).items, endpoint_of(thing).items_unread) == ((), "")


@pytest.mark.parametrize("value", ["x", "10.0.0.300/24", "10.0.0.5/99", "10.0.0.5/"])
def test_endpoint_whose_address_cannot_be_read(value: str) -> None:
    """What it lists is not known then, and why is told."""
    thing = endpoint("app", {"eth0": f"{A}@blue"})
    thing["status"]["current"]["ips"][0]["ipv4"] = value
    assert endpoint_of(thing).items_unread


@pytest.mark.parametrize("status", [{}, {"current": None}])
def test_endpoint_without_current(status: Object) -> None:
    """It says nothing about anybody."""
    found = endpoint_of(endpoint("app", {}) | {"status": status})
    assert (found.owner_uid, found.node, found.items) == ("", "", ())
    assert found.items_unread


def test_item_without_pool_or_with_null() -> None:
    """Null is absent; a blank interface is none."""
    thing = endpoint("app", {" ": f"{A}@blue"})
    thing["status"]["current"]["ips"][0] |= {"ipv4Pool": None, "ipv6": None, "ipv6Pool": None}
    assert endpoint_of(thing).items == (EndpointItem("", (EndpointAddress(A, ""),)),)


def test_digest_of_an_endpoint() -> None:
    """It changes with whose it is and what it lists, not with its resourceVersion."""
    one = endpoint("app", {"eth0": f"{A}@blue"})
    later = endpoint("app", {"eth0": f"{A}@blue"})
    later["metadata"]["resourceVersion"] = "8"
    others = [
        endpoint("app", {"eth0": f"{A}@blue"}, uid="x"),
        endpoint("app", {"net1": f"{A}@blue"}),
        endpoint("app", {}),
    ]
    assert endpoint_of(one).digest == endpoint_of(later).digest
    assert len({endpoint_of(thing).digest for thing in [one, *others]}) == 4


# --- which NICs draw from a pool ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, 3),
        ("{", 3),
        ('{"ipv4":["blue"]}', 3),
        ('[{"ipv4":["blue"]},{"ipv4":["green"]}]', 1),
        ('[{"ipv4":["blue"]},{"ipv6":["blue"]}]', 2),
        ('[{"interface":"net1","ipv4":["green","blue"],"cleangateway":true}]', 1),
        ('[{"ipv4":["b*"]},{"ipv4":["*"]},{"ipv4":["?reen"]}]', 2),
        ("[]", 0),
        ('[{"ipv4":null}]', 0),
    ],
)
def test_nics_drawing_from_a_pool(text: str | None, expected: int) -> None:
    """Each item of `ippools` is a NIC; wildcards count; what cannot be read tells nothing."""
    notes = {} if text is None else {"ipam.spidernet.io/ippools": text}
    decoded = msgspec.json.decode(msgspec.json.encode(pod("app", annotations=notes)), type=Pod)
    assert BACKEND.nics_drawing_from(decoded, "blue", 3) == expected


def test_range_that_the_factories_call_blue() -> None:
    """21 addresses, as real pools of the dumps have."""
    assert str(pool_of(blue()).configured) == BLUE
