"""Rule 8: one bad object, pool or IPAM never stops the others, and the sweep says so."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from factories import Object, name_of
from faults import Effect, World, calls, cut, forbidden, kind_of, refused, unread
from poolwarden.gc.sweep import SweepReport
from poolwarden.ipam.inventory import Backend, endpoint_kinds, holder_kinds
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS, NODES, PODS, Kind
from poolwarden.ipam.pool import Record
from poolwarden.ipam.registry import BACKENDS

from .house import FOURS, House, street
from .stage import leak, sweeps

DEFECT = "a defect of poolwarden"


def released(world: World) -> set[str]:
    """The IPAMs of which the leak is gone."""
    return {house.ipam for house in FOURS if house.addresses[0] not in house.entries(world)}


def in_use(world: World) -> set[str]:
    """The IPAMs that still record what is in use."""
    return {house.ipam for house in FOURS if house.addresses[1] in house.entries(world)}


ALL = {house.ipam for house in FOURS}
fours = pytest.mark.parametrize("house", FOURS, ids=str)


def test_all_four() -> None:
    """In one cluster each of them is released from, and nothing is amiss."""
    world = World(*street())
    reports = sweeps(world, 4)
    assert [report.problems for report in reports] == [()] * 4
    assert (released(world), in_use(world)) == (ALL, ALL)


OWN = [
    (house, kind)
    for house in FOURS
    for backend in [BACKENDS[house.ipam]]
    for kind in dict.fromkeys((backend.pool_kind, *endpoint_kinds(backend), *backend.aside, *holder_kinds(backend)))
    if kind != NETWORK_ATTACHMENTS
]


def _id(value: object) -> str:
    return value.kubectl_name if isinstance(value, Kind) else str(value)


@pytest.mark.parametrize("effect", [unread, forbidden, cut(0)], ids=["unread", "forbidden", "cut"])
@pytest.mark.parametrize(("house", "kind"), OWN, ids=_id)
def test_list_of_one_ipam_fails(house: House, kind: Kind, effect: Effect) -> None:
    """What belongs to one IPAM stops that one, and is told; the other three are released from."""
    world = World(*street())
    world.on(calls("list", kind_of(kind)), effect, times=999)
    reports = sweeps(world, 4)
    assert released(world) == ALL - {house.ipam}
    assert in_use(world) == ALL
    assert all(any(kind.kind in line for line in report.problems) for report in reports)


@pytest.mark.parametrize("effect", [unread, forbidden, cut(0)], ids=["unread", "forbidden", "cut"])
@pytest.mark.parametrize("kind", [PODS, NODES, NETWORK_ATTACHMENTS], ids=_id)
def test_list_that_all_need_fails(kind: Kind, effect: Effect) -> None:
    """Pods and Nodes stop all of them, NetworkAttachmentDefinitions those whose pools they configure."""
    world = World(*street())
    world.on(calls("list", kind_of(kind)), effect, times=999)
    reports = sweeps(world, 4)
    needs = {ipam for ipam in ALL if kind in {PODS, NODES, *BACKENDS[ipam].aside}}
    assert released(world) == ALL - needs
    assert not any(report.complete for report in reports)


GARBAGE: dict[str, Callable[[Object], Object]] = {
    "undecodable": lambda pool: {**pool, "metadata": {**pool["metadata"], "creationTimestamp": "yesterday"}},
    "spec": lambda pool: {**pool, "spec": [1], "status": "x"},
    "ranges": lambda pool: {
        **pool,
        "spec": {**pool["spec"], "range": "nonsense", "ips": ["nonsense"]},
        "status": {**pool.get("status", {}), "networkInterfaces": [3]},
    },
    "records": lambda pool: {
        **pool,
        "spec": {**pool["spec"], "allocations": "nonsense"},
        "status": {"allocatedIPs": "{", "networkInterfaces": {"eni-1": {"status": "InUse", "ipv4": 7}}},
    },
}


@pytest.mark.parametrize("what", GARBAGE)
@fours
def test_garbage_in_one_ipam(house: House, what: str) -> None:
    """A pool that is garbage is not touched, and stops no other IPAM."""
    world = World(*street())
    broken = GARBAGE[what](house.stored(world))
    world.put(broken)
    reports = sweeps(world, 4)
    now = next(item for item in world.of_kind(house.kind))
    assert {key: now[key] for key in ("spec", "status") if key in now} == {
        key: broken[key] for key in ("spec", "status") if key in broken
    }
    others = [each for each in FOURS if each is not house]
    assert not [each.ipam for each in others if each.addresses[0] in each.entries(world)]
    assert told(reports, house.ref.name)


def raising(*_: Any, **__: Any) -> Any:
    """A defect."""
    raise RuntimeError("broken here")


@pytest.mark.parametrize("method", ["inventory", "without_records", "record", "nics_drawing_from"])
@fours
def test_backend_that_raises(monkeypatch: pytest.MonkeyPatch, house: House, method: str) -> None:
    """A defect of ours in one IPAM's module is told, and stops no other IPAM."""
    monkeypatch.setattr(type(BACKENDS[house.ipam]), method, raising)
    world = World(*street())
    reports = sweeps(world, 4)
    others = ALL - {house.ipam}
    assert released(world) >= others
    assert in_use(world) == ALL
    if house.ipam not in released(world):
        assert any(DEFECT in line or "broken here" in line for report in reports for line in report.problems)


PARTS = [
    (house, part, method)
    for house in FOURS
    for part, methods in {
        "hiding": ["hide", "show"],
        "owners": ["holder", "runs"],
        "reservations": ["reservation_for", "again"],
        "endpoints": ["without_items", "without_finalizer"],
    }.items()
    for method in methods
    if hasattr(getattr(BACKENDS[house.ipam], part), method)
]


@pytest.mark.parametrize(("house", "part", "method"), PARTS, ids=str)
def test_part_of_a_backend_that_raises(monkeypatch: pytest.MonkeyPatch, house: House, part: str, method: str) -> None:
    """The same for what only some IPAMs have: marks, owners that are no pods, reservations, endpoints."""
    monkeypatch.setattr(type(getattr(BACKENDS[house.ipam], part)), method, raising)
    world = World(*street())
    reports = sweeps(world, 4)
    assert released(world) >= ALL - {house.ipam}
    assert in_use(world) == ALL
    if house.ipam not in released(world):
        assert any(DEFECT in line or "broken here" in line for report in reports for line in report.problems)


@fours
def test_write_that_one_ipam_refuses(house: House) -> None:
    """A pool that cannot be written is told, and stops no other."""
    world = World(*street())
    world.on(calls("write", house.pool_calls), refused, times=99)
    reports = sweeps(world, 4)
    assert released(world) == ALL - {house.ipam}
    assert any("refused" in line for line in reports[-1].problems)


@pytest.mark.parametrize("what", GARBAGE)
def test_broken_pool_beside_a_leak(house: House, what: str) -> None:
    """A pool of the same IPAM that cannot be read is told; the leak beside it goes."""
    world = house.world(leak(house), GARBAGE[what](house.pool({}, "other")))
    reports = sweeps(world, 4)
    assert house.addresses[0] not in house.entries(world)
    assert house.addresses[1] in house.entries(world)
    assert told(reports, "other")


def told(reports: list[SweepReport], name: str) -> bool:
    """Whether a pool was spoken of, as a problem or a finding."""
    return any(name in line for r in reports for line in r.problems) or any(
        f.pool.name == name for r in reports for f in r.findings
    )


@pytest.mark.parametrize("effect", [unread, refused], ids=["unread", "refused"])
@pytest.mark.parametrize("failing", ["first", "second"])
def test_two_pools_of_which_one_fails(house: House, failing: str, effect: Effect) -> None:
    """Of two pools with a leak each, one fails at every live read or write; the other is released from."""
    world = house.world(leak(house), *house.other())
    names = {"first": house.ref.name, "second": "other"}
    world.on(calls("get" if effect is unread else "patch", house.pool_calls, names[failing]), effect, times=99)
    reports = sweeps(world, 4)
    records = {name_of(pool): len(house.entries_of(pool)) for pool in world.of_kind(house.kind)}
    assert records == {name: 2 if name == names[failing] else 1 for name in names.values()}
    assert not reports[-1].complete
    calm = world.copy()
    assert all(report.complete for report in sweeps(calm, 3))
    assert {len(house.entries_of(pool)) for pool in calm.of_kind(house.kind)} == {1}


@pytest.mark.parametrize("failing", ["first", "second"])
def test_defect_in_one_pool_of_two(monkeypatch: pytest.MonkeyPatch, house: House, failing: str) -> None:
    """A defect of ours in one pool's release is that pool's problem; the other's is made, verified and noted."""
    backend = type(BACKENDS[house.ipam])
    made = backend.without_records
    name, other = (house.ref.name, "other") if failing == "first" else ("other", house.ref.name)

    def one_raises(self: Backend, raw: bytes, records: Sequence[Record]) -> Any:
        return raising() if json.loads(raw)["metadata"]["name"] == name else made(self, raw, records)

    monkeypatch.setattr(backend, "without_records", one_raises)
    world = house.world(leak(house), *house.other())
    reports = sweeps(world, 3)
    assert {name_of(p): len(house.entries_of(p)) for p in world.of_kind(house.kind)} == {name: 2, other: 1}
    assert len(world.released(msgspec.structs.replace(house.ref, name=other))) == 1
    assert world.ledger(msgspec.structs.replace(house.ref, name=other)) == {}
    assert any(DEFECT in line and line.startswith(f"{name}:") for line in reports[-1].problems)
