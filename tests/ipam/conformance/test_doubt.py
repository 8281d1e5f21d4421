"""Rules 1 to 3: doubt keeps, whoever shows an address keeps it, UID not name, and records are judged by later owners."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from factories import Object, ago, pod, undecodable, virtual_machine_instance
from faults import Effect, When, calls, cut, forbidden, kind_of, sweep, unread
from poolwarden.ipam.inventory import endpoint_kinds, holder_kinds, reservation_kinds
from poolwarden.ipam.kinds import NODES, PODS, Kind
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Action

from .house import HOUSES, House, NeonHouse, WhereaboutsHouse
from .stage import STAGES, Stage, about, leak, outcomes, sweeps, touches_ipam


def evidence(house: House) -> tuple[Kind, ...]:
    """The kinds without which nothing may be released from its pools."""
    backend = BACKENDS[house.ipam]
    return (backend.pool_kind, *endpoint_kinds(backend), *backend.aside, *holder_kinds(backend), PODS, NODES)


def _id(value: object) -> str:
    return value.kubectl_name if isinstance(value, Kind) else str(value)


LISTS = [(stage, kind) for stage in STAGES for kind in dict.fromkeys(evidence(stage.house))]


# --- 1: doubt ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("effect", [unread, forbidden, cut(0), cut(1)], ids=["unread", "forbidden", "empty", "cut"])
@pytest.mark.parametrize(("stage", "kind"), LISTS, ids=_id)
def test_list_that_is_not_whole(stage: Stage, kind: Kind, effect: Effect) -> None:
    """Not read, not allowed, or broken off: no write, the record is Unknown if it is seen at all, and the sweep says so."""
    house, world = stage.house, stage.due()
    before = house.entries(world)
    world.on(calls("list", kind_of(kind)), effect, times=99)
    report = sweep(world)
    assert not world.tried(touches_ipam)
    assert house.entries(world) == before
    assert not report.complete
    reasons = {(f.verdict, f.reason) for f in report.findings if f.address == house.addresses[0] and f.record_digest}
    assert reasons <= {("Unknown", "EvidenceIncomplete")}


@pytest.mark.parametrize(
    ("stage", "kind"), [(s, k) for s, k in LISTS if k not in reservation_kinds(BACKENDS[s.house.ipam])], ids=_id
)
def test_read_that_fails_once_marked(stage: Stage, kind: Kind) -> None:
    """The same for the reads straight before the write: what decides must be whole once more."""
    house, world = stage.house, stage.due()
    before = house.entries(world)
    again, nth = (calls("get", kind_of(kind)), 1) if kind == house.kind else (calls("list", kind_of(kind)), 2)
    world.on(again, unread, nth=nth, times=99)
    report = sweep(world)
    assert len(world.tried(again)) >= nth
    assert house.entries(world) == before
    assert not world.tried(touches_ipam)
    assert outcomes(report) == ["Deferred"]
    assert not report.complete


def test_owner_that_cannot_be_decoded(stage: Stage) -> None:
    """An owner that is there, and of which nothing can be read, keeps its record: Unknown."""
    house = stage.house
    first, *_ = house.addresses
    world = stage.due()
    world.put(undecodable(house.live("app", first)))
    report = sweep(world)
    assert not world.tried(touches_ipam)
    assert about(report, house, first).verdict == "Unknown"


def test_owner_whose_status_cannot_be_parsed(stage: Stage) -> None:
    """Nor does an owner lose its record whose own account of its addresses is garbage."""
    house = stage.house
    first, *_ = house.addresses
    before = house.shown(world := stage.due())
    world.put(house.garbled("app", first))
    (report, *_) = sweeps(world, 3)
    assert about(report, house, first).verdict == ("InUse" if house.owners != PODS else "Unknown")
    assert house.shown(world) == before


SHOWERS: dict[str, Callable[[str], Object]] = {
    "pod": lambda address: pod("other", ips=[address]),
    "nic": lambda address: pod("other", ips=["172.31.0.200"], nics={"net7": address}),
    "pending": lambda address: pod("other", ips=[address], phase="Pending"),
    "stuck": lambda address: pod("other", ips=[address], deadline=ago(hours=1)),
    "host": lambda address: pod("other", ips=[address], host_network=True),
    "garbled": lambda address: pod("other", status=f'[{{"ips": ["{address}"'),
    "undecodable": lambda address: undecodable(pod("other", ips=[address])),
    "kubevirt": lambda address: virtual_machine_instance("other", ips=[address]),
    "neon": lambda address: NeonHouse(4).live("other", address),
    "neon-undecodable": lambda address: undecodable(NeonHouse(4).live("other", address)),
}


@pytest.mark.parametrize("who", SHOWERS)
def test_address_that_somebody_else_shows(stage: Stage, who: str) -> None:
    """Whoever the record names: an address that any pod or machine shows is not freed, nor marked for it."""
    house, world = stage.house, stage.due()
    first, *_ = house.addresses
    before = house.entries(world)
    world.put(SHOWERS[who](first))
    for report in sweeps(world, 3):
        assert about(report, house, first).action is Action.NONE
    assert house.entries(world) == before
    assert not world.tried(touches_ipam)


# --- 2: UID, not name -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("house", [h for h in HOUSES if h.by_uid], ids=str)
@pytest.mark.parametrize("starting", [True, False])
def test_same_name_with_another_uid(house: House, *, starting: bool) -> None:
    """Where records carry UIDs, another owner of that name has no part in the record, even while it starts."""
    first, _, third, *_ = house.addresses
    new = house.live("app", "" if starting else third, uid="newer")
    records = leak(house) | ({} if starting else {third: new})
    world = house.world(records, *([new] if starting else []))
    (report, *_) = sweeps(world, 3)
    assert about(report, house, first).reason == "OwnerReplaced"
    assert set(house.entries(world)) == records.keys() - {first}


@pytest.mark.parametrize("house", [h for h in HOUSES if not h.by_uid], ids=str)
def test_owner_of_the_name_that_starts(house: House) -> None:
    """Where they carry none, a live owner of that name keeps the record: it may be the very one."""
    first, *_ = house.addresses
    world = house.world(leak(house), house.live("app", uid="newer"))
    for report in sweeps(world, 3):
        assert about(report, house, first).verdict == "InUse"
    assert first in house.entries(world)
    assert not world.tried(touches_ipam)


@pytest.mark.parametrize("house", [h for h in HOUSES if not h.by_uid], ids=str)
def test_owner_of_the_name_that_is_proven_elsewhere(house: House) -> None:
    """Until it is proven to use another address."""
    first, _, third, *_ = house.addresses
    records = {**leak(house), third: house.live("app", third, uid="newer")}
    world = house.world(records)
    (report, *_) = sweeps(world, 3)
    assert about(report, house, first).reason == "OwnerReplaced"
    assert set(house.entries(world)) == records.keys() - {first}
    if isinstance(house, WhereaboutsHouse):
        assert {name for name, _ in house.companions(world)} == {a.replace(":", "-") for a in list(records)[1:]}


@pytest.mark.parametrize("house", HOUSES, ids=str)
def test_uid_of_a_running_owner_decides(house: House) -> None:
    """An owner that starts, without any address yet, keeps the record that is its own."""
    first, *_ = house.addresses
    world = house.world(leak(house), house.live("app"))
    for report in sweeps(world, 3):
        assert about(report, house, first).verdict == "InUse"
    assert first in house.entries(world)


# --- 3: the order of reading ------------------------------------------------------------------------------------------


def test_pools_are_listed_before_owners(house: House) -> None:
    """A record is judged by owners that were read later; a holder's pods are read after the holders."""
    world = house.world(leak(house))
    sweep(world)
    order = list(dict.fromkeys((house.pool_calls, house.owner_calls, "Pod")))
    indices = [world.index(calls("list", kind)) for kind in order]
    assert indices == sorted(indices)
    assert max(indices[1:]) < world.index(calls("list", "Node"))


def test_pools_are_read_before_owners_again(stage: Stage) -> None:
    """So it is straight before the write: mark, pool, owner, all pods, nodes, guard, write, and then the owner again."""
    house, world = stage.house, stage.due()
    sweep(world)

    def after(when: When, index: int) -> int:
        return next(at for at, call in enumerate(world.calls) if at > index and when(call))

    at = world.index(calls("patch", "PoolGuard"))
    for verb, kind in [("get", house.pool_calls), ("get", house.owner_calls), ("list", "Node"), ("get", "PoolGuard")]:
        at = after(calls(verb, kind), at)
    assert at < world.index(house.write)
    assert after(calls("get", house.owner_calls), world.index(house.write))
    listed = [number for number, call in enumerate(world.calls) if calls("list", "Pod")(call)]
    assert any(after(calls("get", house.pool_calls), 0) < number < world.index(house.write) for number in listed)
