"""Neon's objects as pools, records and owners, and the writes that hide, show, remove and put back a record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controlplane.client import ApiError
from controlplane.plane import ControlPlane
from factories import Object, pod
from poolwarden.cluster.patches import merge_patch
from poolwarden.ipam.inventory import Change, Stale
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS
from poolwarden.ipam.neon import MACHINES, MARK, POOLS, Neon, NeonMachines, NeonMarks
from poolwarden.ipam.objects import Pod
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record, RecordsUnreadable, UnparsedOwner

BACKEND = Neon()
OWNERS, MARKS = NeonMachines(), NeonMarks()
NAME = "neonvm-10.100.0.0-16"
REF = PoolRef("neon", "system", NAME)
A, B = "10.100.128.5", "10.100.128.6"
KEY_A, KEY_B = "32773", "32774"
CRDS = Path(__file__).parents[1] / "crds" / "neon.yaml"
GUARD = {"resourceVersion": "7", "uid": "pool-uid"}


def entry(owner: str, **more: object) -> Object:
    """An entry as main writes it."""
    return {"id": owner, "podref": "", **more}


def ippool(allocations: object = None, *, name: str = NAME, cidr: str = "10.100.0.0/16", **spec: object) -> Object:
    """A Neon IPPool; `allocations` None leaves them out."""
    metadata = {"name": name, "namespace": "system", "uid": "pool-uid", "resourceVersion": "7"}
    more = {} if allocations is None else {"allocations": allocations}
    return {"kind": "IPPool", "metadata": metadata, "spec": {"range": cidr, **more, **spec}}


def nad(name: str, ipam: object, namespace: str = "system") -> Object:
    """An attachment with that `ipam` block."""
    config = json.dumps({"name": name, "type": "bridge", "ipam": ipam})
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"config": config}}


def raw(thing: object) -> bytes:
    """JSON text."""
    return msgspec.json.encode(thing)


def pool_of(thing: Object, *attachments: Object) -> Pool:
    """The pool that the backend makes of an IPPool."""
    objects = {
        POOLS: [msgspec.json.decode(raw(thing), type=BACKEND.item_type(POOLS))],
        NETWORK_ATTACHMENTS: [
            msgspec.json.decode(raw(item), type=BACKEND.item_type(NETWORK_ATTACHMENTS)) for item in attachments
        ],
    }
    (found,) = BACKEND.inventory(objects).pools
    return found


def records(thing: Object) -> dict[str | None, Record]:
    """The records of an IPPool by address."""
    found = pool_of(thing).records
    assert isinstance(found, tuple), found
    return {record.address: record for record in found}


def record(value: object, key: str = KEY_A) -> Record:
    """The record of one entry."""
    (found,) = records(ippool({key: value})).values()
    return found


def applied(thing: Object, made: Change | Stale) -> Object:
    """The object after a write, which must be one with the right preconditions."""
    assert isinstance(made, Change), made
    assert (made.kind, made.namespace, made.name, made.subresource) == (POOLS, "system", NAME, "")
    assert isinstance(made.body, dict)
    assert made.body["metadata"] == GUARD
    assert set(made.body["spec"]) == {"allocations"}
    changed: Object = merge_patch(thing, made.body)
    return changed


def stale(made: Change | Stale) -> str:
    """Why nothing is written."""
    assert isinstance(made, Stale), made
    return made.message


# --- pools ------------------------------------------------------------------------------------------------------------


def test_pool() -> None:
    """Which it is, and that both ends of its range can be handed out."""
    found = pool_of(ippool({KEY_A: entry("default/vm-1")}))
    assert (found.ref, found.uid, found.resource_version) == (REF, "pool-uid", "7")
    assert str(found.configured) == str(found.ranges) == "10.100.0.0-10.100.255.255"
    assert (found.network, found.networks, found.ambiguous, found.flaws) == ("", (), "", ())


@pytest.mark.parametrize("name", ["10.100.0.0-16", "neonvm-10.100.0.0-16", "mine"])
def test_pools_of_all_names_are_on_one_network(name: str) -> None:
    """`network_name` is only a part of the pool's name: every VM is on the same overlay."""
    assert pool_of(ippool({}, name=name)).network == ""


def test_addresses_that_odd_keys_may_stand_for() -> None:
    """Go reads signs and leading zeros: whose such a key is, is not certain, and so for whom its address is kept."""
    found = pool_of(ippool({"032773": entry("default/vm-1"), "+5": entry("default/vm-2"), "x": entry("default/vm-3")}))
    assert str(found.doubtful) == "10.100.0.5,10.100.128.5"


PLAIN = {"range": "10.100.0.0/16", "range_start": "10.100.128.0", "range_end": "10.100.255.254"}


@pytest.mark.parametrize(
    ("blocks", "ranges"),
    [
        ([{"type": "whereabouts", "network_name": "neonvm", "ipRanges": [PLAIN]}], "10.100.128.0-10.100.255.254"),
        ([{"network_name": "neonvm", **PLAIN}], "10.100.128.0-10.100.255.254"),
        (
            [{"network_name": "neonvm", "ipRanges": [{"range": "10.100.7.9/16", "exclude": ["10.100.128.0/17"]}]}],
            "10.100.0.0-10.100.127.255",
        ),
        (
            [
                {"network_name": "neonvm", "range": "10.100.0.0/16", "range_end": "10.100.0.9"},
                {"network_name": "neonvm", "range": "10.100.0.0/16", "range_start": "10.100.255.0"},
            ],
            "10.100.0.0-10.100.0.9,10.100.255.0-10.100.255.255",
        ),
        ([{"network_name": "other", "ipRanges": [PLAIN]}], "10.100.0.0-10.100.255.255"),
        ([{"ipRanges": [PLAIN]}], "10.100.0.0-10.100.255.255"),
        ([{"network_name": "neonvm", "ipRanges": [{**PLAIN, "range": "10.100.0.0/17"}]}], "10.100.0.0-10.100.255.255"),
        ([{"network_name": "neonvm", "ipRanges": [PLAIN], "manager": {}}], "10.100.0.0-10.100.255.255"),
        ([[], None, "x", 5], "10.100.0.0-10.100.255.255"),
    ],
)
def test_ranges_that_attachments_configure(blocks: list[object], ranges: str) -> None:
    """The union of what they say of the pool of that name; where none does that can be read, the whole range."""
    found = pool_of(ippool({}), *(nad(f"nad-{at}", block) for at, block in enumerate(blocks)))
    assert str(found.ranges) == ranges
    assert str(found.configured) == "10.100.0.0-10.100.255.255"
    named = tuple(f"system/nad-{at}" for at in range(len(blocks)))
    assert found.networks == (() if found.ranges == found.configured else named)


def test_size_of_the_ranges_of_a_public_case() -> None:
    """range_start and range_end make the size."""
    found = pool_of(ippool({}), nad("vms", {"type": "whereabouts", "network_name": "neonvm", "ipRanges": [PLAIN]}))
    assert found.ranges.size == 32767


def test_attachments_of_another_namespace() -> None:
    """Neon makes a pool beside its attachment, so that one elsewhere speaks of another pool of that name."""
    found = pool_of(ippool({}), nad("vms", {"network_name": "neonvm", "ipRanges": [PLAIN]}, "elsewhere"))
    assert (found.ranges, found.networks) == (found.configured, ())


@pytest.mark.parametrize("config", ["", "{", "[]", '{"ipam": 5}', '{"plugins": 5}'])
def test_attachments_that_cannot_be_read(config: str) -> None:
    """They say nothing of any pool."""
    attachment = nad("vms", {}) | {"spec": {"config": config}}
    assert pool_of(ippool({}), attachment).ranges.size == 2**16


@pytest.mark.parametrize("cidr", ["", "10.100.0.0", "x/16", "10.100.0.0/33"])
def test_a_range_that_cannot_be_read(cidr: str) -> None:
    """Without it no offset has an address; the pool's name tells which it may hold."""
    found = pool_of(ippool({KEY_A: entry("default/vm-1")}, cidr=cidr))
    assert isinstance(found.records, RecordsUnreadable)
    assert "spec.range" in found.records.problem
    assert [flaw.kind for flaw in found.flaws] == ["RangeInvalid"]
    assert (str(found.configured), found.ranges.size) == ("10.100.0.0-10.100.255.255", 0)


@pytest.mark.parametrize("allocations", [[], "x", 5, True, [{"id": "default/vm-1"}]])
def test_records_that_cannot_be_read(allocations: object) -> None:
    """Nothing is known of any of them."""
    found = pool_of(ippool(allocations))
    assert isinstance(found.records, RecordsUnreadable)
    assert "spec.allocations" in found.records.problem
    assert found.ranges.size == 2**16


@pytest.mark.parametrize("thing", [ippool(), ippool({}), ippool(managed=None), ippool(allocations=None)])
def test_no_records(thing: Object) -> None:
    """Absent, null and empty are one."""
    assert (pool_of(thing).records, pool_of(thing).claimed.size) == ((), 0)


def test_managed_addresses() -> None:
    """They are claimed, beside the records that an older version left; a key that is no address claims none."""
    managed: Object = {
        "10.100.128.0": {},
        "10.100.128.1": {},
        "10.100.128.9": {},
        "x": {},
        "10.100.128.7/16": {},
        "": {},
    }
    found = pool_of(ippool({KEY_A: entry("default/vm-1")}, managed=managed))
    assert str(found.claimed) == "10.100.128.0-10.100.128.1,10.100.128.9"
    assert [item.address for item in found.readable_records] == [A]


@pytest.mark.parametrize("managed", [[], "x", 5])
def test_managed_addresses_that_cannot_be_read(managed: object) -> None:
    """Any address may be claimed then, so nothing is said of the records either."""
    found = pool_of(ippool({KEY_A: entry("default/vm-1")}, managed=managed))
    assert isinstance(found.records, RecordsUnreadable)
    assert "spec.managed" in found.records.problem


# --- records ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cidr", "key", "address"),
    [
        ("10.100.0.0/16", "0", "10.100.0.0"),
        ("10.100.0.0/16", KEY_A, A),
        ("10.100.0.0/16", "65535", "10.100.255.255"),
        ("10.100.0.0/16", "65536", None),
        ("10.100.0.0/16", "00", None),
        ("10.100.0.0/16", "05", None),
        ("10.100.0.0/16", "-1", None),
        ("10.100.0.0/16", "+5", None),
        ("10.100.0.0/16", " 5", None),
        ("10.100.0.0/16", "5\n", None),
        ("10.100.0.0/16", "\u0665", None),
        ("10.100.0.0/16", "", None),
        ("10.100.0.0/16", A, None),
        ("10.100.0.0/16", "9" * 5000, None),
        ("10.100.0.7/16", "1", "10.100.0.8"),
        ("10.100.0.7/16", "65529", None),
        ("FD00::/64", "10", "fd00::a"),
        ("fd00::/64", str(2**63 - 1), "fd00::7fff:ffff:ffff:ffff"),
        ("fd00::/64", str(2**63), None),
    ],
)
def test_keys(cidr: str, key: str, address: str | None) -> None:
    """Offsets as Neon writes them, from the range as written; any other key has no address."""
    assert list(records(ippool({key: entry("default/vm-1")}, cidr=cidr))) == [address]


@pytest.mark.parametrize("cidr", ["10.100.0.7/16", "fd00::1/64"])
def test_a_range_with_host_bits(cidr: str) -> None:
    """Neon writes how far an address lies from the one written, on either side."""
    assert cidr.partition("/")[0] in pool_of(ippool({}, cidr=cidr)).ambiguous


@pytest.mark.parametrize(
    ("value", "owner"),
    [
        (entry("default/vm-1"), ClaimedOwner("default", "vm-1")),
        ({"id": "default/vm-1"}, ClaimedOwner("default", "vm-1")),
        (entry("a/compute-1.x", more=[1]), ClaimedOwner("a", "compute-1.x")),
    ],
)
def test_owner_of_a_record(value: object, owner: ClaimedOwner) -> None:
    """`id` is namespace/name, and there is neither UID nor interface."""
    found = record(value)
    assert (found.owner, found.uid, found.interface, found.hidden) == (owner, "", "", False)


@pytest.mark.parametrize(
    "value",
    [
        *({"id": name} for name in ("", "vm-1", "a/b/c", "/b", "a/", "a b/c", "A/b", "a/-b", f"{MARK}{MARK}a/b")),
        *({"id": name} for name in (None, 5, ["a/b"])),
        {},
        {"podref": "default/vm-1"},
        None,
        [],
        "default/vm-1",
        5,
        "x" * 500,
    ],
)
def test_owner_that_cannot_be_parsed(value: object) -> None:
    """The record is there all the same, and the reason fits a line."""
    found = record(value)
    assert isinstance(found.owner, UnparsedOwner)
    assert len(found.owner.problem) < 250
    assert (found.address, len(found.digest)) == (A, 16)


def test_a_record_from_its_address() -> None:
    """From the text of its entry alone comes the digest that the pool's record has."""
    for value in (entry("default/vm-1"), {"podref": "", "id": "default/vm-1", "x": 1.50}, None, 5):
        kept = record(value)
        again = BACKEND.record(A, kept.raw)
        assert (again.address, again.owner, again.raw, again.digest) == (A, kept.owner, kept.raw, kept.digest)


def test_digest_is_of_everything_in_a_record() -> None:
    """Address, owner and what we do not read; not the order of its fields."""
    base = entry("default/vm-1")
    others = [
        entry("default/vm-2"),
        entry("default/vm-1", x=1),
        {"id": "default/vm-1"},
        entry("default/vm-1") | {"podref": "x"},
    ]
    assert len({record(value).digest for value in [base, *others]} | {record(base, KEY_B).digest}) == 6
    assert record(dict(reversed(base.items()))).digest == record(base).digest


@pytest.mark.parametrize("owner", ["default/vm-1", "no owner"])
def test_a_hidden_record(owner: str) -> None:
    """Our mark tells that it is hidden, and nothing else of it differs."""
    plain, hidden = record(entry(owner, x=[None])), record(entry(MARK + owner, x=[None]))
    assert (plain.hidden, hidden.hidden) == (False, True)
    assert (hidden.raw, hidden.digest) == (plain.raw, plain.digest)
    assert MARK.encode() not in hidden.raw
    assert isinstance(hidden.owner, type(plain.owner))


# --- owners -----------------------------------------------------------------------------------------------------------


def machine(phase: str, address: str = A, *, restart: str = "Never", deleting: bool = False) -> Any:
    """A decoded VirtualMachine."""
    metadata = {"name": "vm-1", "namespace": "default", "uid": "vm-uid"}
    metadata |= {"deletionTimestamp": "2026-01-10T11:00:00Z"} if deleting else {}
    status = {"phase": phase, "extraNetIP": address, "extraNetMask": "255.255.0.0", "restartCount": 0}
    spec = {"restartPolicy": restart, "guest": {}}
    return msgspec.json.decode(
        raw({"metadata": metadata, "spec": spec, "status": status}), type=BACKEND.item_type(MACHINES)
    )


def test_holder() -> None:
    """Which VM it is."""
    found = OWNERS.holder(machine("Running"))
    assert (found.kind, found.key, found.uid) == (MACHINES, ("default", "vm-1"), "vm-uid")
    assert str(found) == "VirtualMachine default/vm-1 (UID vm-uid)"


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("", ()),
        (A, (A,)),
        (f"{A}/16", (A,)),
        ("FD00::A", ("fd00::a",)),
        (f"{A}/99", (A,)),
        (f"{A},{B}", (A, B)),
        ("none", ()),
    ],
)
def test_addresses_of_a_holder(text: str, addresses: tuple[str, ...]) -> None:
    """With or without a mask; whatever stands in a text that is neither counts, but settles nothing."""
    found = OWNERS.holder(machine("Running", text))
    assert found.addresses == addresses
    assert found.settled is (text in {A, f"{A}/16", "FD00::A"})


@pytest.mark.parametrize(
    ("phase", "settled"),
    [
        ("Running", True),
        *((phase, False) for phase in ("", "Pending", "Succeeded", "Failed", "PreMigrating", "Migrating", "Scaling")),
    ],
)
def test_a_settled_holder(phase: str, settled: bool) -> None:  # noqa: FBT001
    """It runs, is not being deleted, and is about to change nothing."""
    assert OWNERS.holder(machine(phase)).settled is settled
    assert not OWNERS.holder(machine(phase, deleting=True)).settled


@pytest.mark.parametrize(
    ("phase", "restart", "live"),
    [
        ("Running", "Never", True),
        ("Scaling", "Never", True),
        ("", "Never", True),
        ("Succeeded", "Never", False),
        ("Failed", "Never", False),
        ("Succeeded", "OnFailure", False),
        ("Failed", "OnFailure", True),
        ("Succeeded", "Always", True),
        ("Failed", "Always", True),
        ("Failed", "Whatever", True),
    ],
)
def test_a_live_holder(phase: str, restart: str, live: bool) -> None:  # noqa: FBT001
    """One that has ended and will be restarted keeps the address in its status."""
    assert OWNERS.holder(machine(phase, restart=restart)).live is live


def test_a_virtual_machine_that_was_just_created() -> None:
    """It has no status, shows no address, and lives."""
    wire = msgspec.json.decode(b'{"metadata": {"name": "vm-1"}}', type=BACKEND.item_type(MACHINES))
    found = OWNERS.holder(wire)
    assert (found.addresses, found.settled, found.live) == ((), False, True)


@pytest.mark.parametrize(
    ("phase", "labels", "name"),
    [
        ("Running", {"vm.neon.tech/name": "vm-1", "app": "x"}, "vm-1"),
        ("Pending", {"vm.neon.tech/name": "vm-1"}, "vm-1"),
        ("Succeeded", {"vm.neon.tech/name": "vm-1"}, ""),
        ("Failed", {"vm.neon.tech/name": "vm-1"}, ""),
        ("Running", {"app": "x"}, ""),
        ("Running", None, ""),
    ],
)
def test_what_a_pod_runs(phase: str, labels: dict[str, str] | None, name: str) -> None:
    """The VM that its label names, until it has finished."""
    thing = pod("runner", phase=phase)
    thing["metadata"]["labels"] = labels
    assert OWNERS.runs(msgspec.json.decode(raw(thing), type=Pod)) == name


# --- writes -----------------------------------------------------------------------------------------------------------


def two(first: str = "default/vm-1", second: str = "default/vm-2") -> Object:
    """A pool with two records, one of which has a field that we do not know, and addresses of a manager."""
    return ippool({KEY_A: entry(first, x=[None]), KEY_B: entry(second)}, managed={"10.100.0.1": {}})


def test_hide_and_show() -> None:
    """The `id` alone changes, to one that names nobody, and back to what it was."""
    thing = two()
    judged = records(thing)[A]
    hidden = applied(thing, MARKS.hide(raw(thing), [judged]))
    assert hidden["spec"] == two(f"{MARK}default/vm-1")["spec"]
    found = records(hidden)
    assert (found[A].hidden, found[B].hidden) == (True, False)
    assert (found[A].digest, found[A].owner) == (judged.digest, judged.owner)
    assert applied(hidden, MARKS.show(raw(hidden), [judged])) == thing


def test_hide_several() -> None:
    """All in one write."""
    thing = two()
    hidden = applied(thing, MARKS.hide(raw(thing), list(records(thing).values())))
    assert [item.hidden for item in records(hidden).values()] == [True, True]


def test_remove_hidden_records() -> None:
    """Their keys go, everything else stays; the last one leaves the empty map that the CRD requires."""
    thing = two(f"{MARK}default/vm-1", f"{MARK}default/vm-2")
    found = records(thing)
    left = applied(thing, BACKEND.without_records(raw(thing), [found[A]]))
    assert left["spec"]["allocations"] == {KEY_B: thing["spec"]["allocations"][KEY_B]}
    assert left["spec"]["managed"] == {"10.100.0.1": {}}
    none = applied(thing, BACKEND.without_records(raw(thing), list(found.values())))
    assert none["spec"]["allocations"] == {}


def test_remove_a_record_that_can_be_found() -> None:
    """Refused, though nothing of it has changed: a new VM of its name may have it."""
    thing = two(f"{MARK}default/vm-1")
    assert f"{B} is not hidden" in stale(BACKEND.without_records(raw(thing), list(records(thing).values())))


@pytest.mark.parametrize(
    ("now", "why"),
    [
        (ippool({}), "no longer recorded"),
        (ippool(), "no longer recorded"),
        (ippool({KEY_A: entry("default/vm-9", x=[None])}), "no longer recorded"),
        (ippool({KEY_A: entry("default/vm-1", x=[1])}), "no longer recorded"),
        (ippool({KEY_A: 5}), "no longer recorded"),
        (ippool({KEY_B: entry("default/vm-1", x=[None])}), "no longer recorded"),
        (ippool({KEY_A: entry("default/vm-1", x=[None])}, cidr="10.101.0.0/16"), "no longer recorded"),
        (ippool({KEY_A: entry("default/vm-1", x=[None])}, cidr="fd00::/64"), "no longer recorded"),
        (ippool([]), "spec.allocations"),
        (ippool({}, cidr="x"), "spec.range"),
    ],
)
@pytest.mark.parametrize("marked", [False, True])
def test_writes_on_a_pool_that_has_changed(now: Object, why: str, marked: bool) -> None:  # noqa: FBT001
    """Whatever was judged must be there still."""
    judged = [records(two(f"{MARK if marked else ''}default/vm-1"))[A]]
    for write in (MARKS.hide, MARKS.show, BACKEND.without_records):
        assert why in stale(write(raw(now), judged))


def test_hide_and_show_twice() -> None:
    """What is already as wanted is no longer as it was judged."""
    plain, hidden = two(), two(f"{MARK}default/vm-1")
    assert "hidden already" in stale(MARKS.hide(raw(hidden), [records(plain)[A]]))
    assert "is not hidden" in stale(MARKS.show(raw(plain), [records(plain)[A]]))


@pytest.mark.parametrize("allocations", [{"x": entry("default/vm-1")}, {KEY_A: entry("nobody")}, {KEY_A: 5}])
def test_records_that_are_never_written(allocations: Object) -> None:
    """Those without an address, or without an owner that can be read."""
    thing = ippool(allocations)
    for write in (MARKS.hide, MARKS.show, BACKEND.without_records):
        assert "no address or no owner" in stale(write(raw(thing), list(records(thing).values())))


@pytest.mark.parametrize("marked", [False, True])
def test_put_a_record_back(marked: bool) -> None:  # noqa: FBT001
    """At its offset, and so that Neon finds it, however it was when it was kept."""
    whole = two()
    kept = records(two(f"{MARK if marked else ''}default/vm-1"))[A].raw
    bare = ippool({KEY_B: entry("default/vm-2")}, managed={"10.100.0.1": {}})
    back = applied(bare, BACKEND.with_record(raw(bare), REF, A, kept))
    assert back["spec"]["allocations"][KEY_A]["id"] == "default/vm-1"
    assert set(back["spec"]["allocations"]) == set(whole["spec"]["allocations"])
    assert back["spec"]["managed"] == {"10.100.0.1": {}}
    assert records(back)[A].digest == records(whole)[A].digest


@pytest.mark.parametrize("thing", [ippool(), ippool(allocations=None), ippool({})])
def test_put_a_record_back_into_an_empty_pool(thing: Object) -> None:
    """With or without a map."""
    kept = raw(entry("default/vm-1"))
    assert list(records(applied(thing, BACKEND.with_record(raw(thing), REF, A, kept)))) == [A]


@pytest.mark.parametrize("key", [KEY_A, f"0{KEY_A}", f"+{KEY_A}", f"{'0' * 5000}{KEY_A}"])
def test_an_address_that_has_a_record_again(key: str) -> None:
    """Under any key that Neon reads as its offset."""
    thing = ippool({key: entry("default/vm-2")})
    assert f"{A} has a record" in stale(BACKEND.with_record(raw(thing), REF, A, raw(entry("default/vm-1"))))


@pytest.mark.parametrize(
    ("thing", "address", "kept", "why"),
    [
        (ippool({}), "10.101.0.1", entry("default/vm-1"), "not in the range"),
        (ippool({}), "fd00::1", entry("default/vm-1"), "not in the range"),
        (ippool({}, cidr="10.100.200.0/16"), A, entry("default/vm-1"), "not in the range"),
        (ippool([]), A, entry("default/vm-1"), "spec.allocations"),
        (ippool({}), A, entry("nobody"), "namespace/name"),
        (ippool({}), A, 5, "cannot be parsed"),
    ],
)
def test_what_is_not_put_back(thing: Object, address: str, kept: object, why: str) -> None:
    """An address outside the range, or an entry that is none."""
    assert why in stale(BACKEND.with_record(raw(thing), REF, address, raw(kept)))


# --- garbage ----------------------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from([f"{MARK}a/b", "a/b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4) | st.just("id"), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.text(max_size=6) | st.integers(-5, 70000).map(str)


@given(
    st.dictionaries(KEYS, JSON, max_size=4) | JSON,
    JSON,
    st.sampled_from(["10.100.0.0/16", "10.100.0.9/16", "fd00::/64", "0.0.0.0/0", "::/0"]) | st.text(max_size=12),
    JSON,
)
def test_garbage_never_raises(allocations: object, managed: object, cidr: str, ipam: object) -> None:
    """One bad pool stops nobody, and what can be written back is what was read."""
    thing = ippool(allocations, cidr=cidr, managed=managed)
    found = pool_of(thing, nad("vms", ipam))
    assert found.ref == REF
    for item in found.readable_records:
        assert item.address is None or item.address in found.configured
        if item.address is not None:
            assert BACKEND.record(item.address, item.raw).digest == item.digest
        made = (MARKS.show if item.hidden else MARKS.hide)(raw(thing), [item])
        assert isinstance(made, Change) is (item.address is not None and isinstance(item.owner, ClaimedOwner))


def test_schema_lets_our_mark_pass() -> None:
    """An `id` is any text, an IPPool has no status to write, a VirtualMachine's is a subresource."""
    crds = {crd["spec"]["names"]["kind"]: crd["spec"]["versions"][0] for crd in yaml.safe_load_all(CRDS.read_text())}
    spec = crds["IPPool"]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    assert spec["allocations"]["additionalProperties"]["properties"]["id"] == {"type": "string"}
    assert {kind for kind, version in crds.items() if "status" in version.get("subresources", {})} == {
        kind.kind for kind in BACKEND.status_kinds
    }


# --- on a real API server ---------------------------------------------------------------------------------------------


def served(plane: ControlPlane) -> ControlPlane:
    """The control plane, once it serves Neon's kinds."""
    plane.kubectl("apply", "--server-side", f"--filename={CRDS}")
    plane.kubectl("wait", "--for=condition=Established", f"--filename={CRDS}")
    return plane


@pytest.mark.controlplane
def test_records_on_a_real_api_server(control_plane: ControlPlane, namespace: str) -> None:
    """A record keeps its digest while it is hidden and shown, an update that changes nothing keeps the version."""
    plane = served(control_plane)
    thing = ippool({KEY_A: {"podref": "", "id": "default/vm-1"}, KEY_B: entry("default/vm-2")})
    thing |= {"apiVersion": POOLS.api_version, "metadata": {"name": NAME, "namespace": namespace}}
    path = f"/apis/{POOLS.api_version}/namespaces/{namespace}/{POOLS.plural}"
    plane.request("POST", path, thing)

    def read() -> tuple[bytes, Record]:
        kept = raw(plane.find(f"{path}/{NAME}"))
        return kept, records(msgspec.json.decode(kept))[A]

    def patch(made: Change | Stale) -> None:
        assert isinstance(made, Change), made
        assert isinstance(made.body, dict)
        plane.request("PATCH", f"{path}/{NAME}", made.body)

    before, judged = read()
    plane.request("PUT", f"{path}/{NAME}", msgspec.json.decode(before))
    assert read()[0] == before
    patch(MARKS.hide(before, [judged]))
    hidden, found = read()
    assert (found.hidden, found.digest, found.raw) == (True, judged.digest, judged.raw)
    with pytest.raises(ApiError, match="409"):
        patch(MARKS.hide(before, [judged]))
    patch(MARKS.show(hidden, [judged]))
    shown, found = read()
    assert found == judged
    patch(MARKS.hide(shown, [judged]))
    patch(BACKEND.without_records(read()[0], [judged]))
    left = plane.find(f"{path}/{NAME}")
    assert left is not None
    assert left["spec"]["allocations"] == {KEY_B: entry("default/vm-2")}
    patch(BACKEND.with_record(raw(left), REF, A, judged.raw))
    assert read()[1] == judged


@pytest.mark.controlplane
def test_a_machine_on_a_real_api_server(control_plane: ControlPlane, namespace: str) -> None:
    """Its status is written beside it, as Neon's controller does."""
    plane = served(control_plane)
    status = {"status": {"phase": "Running", "extraNetIP": f"{A}/16", "restartCount": 0}}
    thing = {"apiVersion": MACHINES.api_version, "kind": MACHINES.kind, "spec": {"guest": {}}, **status}
    path = f"/apis/{MACHINES.api_version}/namespaces/{namespace}/{MACHINES.plural}"
    created = plane.request("POST", path, thing | {"metadata": {"name": "vm-1", "namespace": namespace}})
    assert "status" not in created
    assert created["spec"]["restartPolicy"] == "Always"
    written = plane.request("PATCH", f"{path}/vm-1/status", status)
    found = OWNERS.holder(msgspec.json.decode(raw(written), type=BACKEND.item_type(MACHINES)))
    assert (found.addresses, found.settled) == ((A,), True)
