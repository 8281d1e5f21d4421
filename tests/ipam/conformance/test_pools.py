"""Pools that vanish, come back under the same name, are empty, full, or hold garbage; and every address is counted once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from factories import Object, node, pod, undecodable
from faults import World, calls, meanwhile, sweep, unread
from poolwarden.gc.states import States

from .house import SIZE, House
from .stage import FOUR_STAGES, Stage, at_each_call, in_time, leak, sweeps, touches_ipam


def test_pool_that_vanishes_before_our_write(stage: Stage) -> None:
    """Gone between mark and write: nothing is written, nothing is made again, and no sweep trips over it."""
    house, world = stage.house, stage.due()
    world.on(calls("get", "PoolGuard"), meanwhile(lambda: world.remove_of(house.kind, house.ref.name)))
    sweep(world)
    world.later(minutes=11)
    sweeps(world, 2)
    assert not world.of_kind(house.kind)
    assert not [call for call in world.made if touches_ipam(call) and call.kind == house.pool_calls]
    assert world.released(house.ref) == []


@pytest.mark.parametrize("stage", FOUR_STAGES, ids=str)
def test_pool_that_vanishes_at_any_call(stage: Stage) -> None:
    """At whatever call of the sweep."""
    house = stage.house
    for at, world in at_each_call(stage, lambda world: world.remove_of(house.kind, house.ref.name)):
        where = f"gone at call {at} ({world.calls[at]})"
        reports = sweeps(world, 2)
        assert not world.of_kind(house.kind), where
        assert all("defect" not in line for report in reports for line in report.problems), where
        assert not [call for call in world.made if call.verb == "create" and touches_ipam(call)], where


@pytest.mark.parametrize("stage", FOUR_STAGES, ids=str)
def test_pool_of_the_same_name_is_another_pool(stage: Stage) -> None:
    """Made anew with another UID: its records were neither judged nor sighted, and wait their whole time."""
    house = stage.house
    first, *_ = house.addresses
    made_anew = house.pool({address: house.entry(address, owner) for address, owner in leak(house).items()})
    made_anew["metadata"]["uid"] = "newer"
    for at, world in at_each_call(stage, lambda world: world.put(made_anew)):
        if not in_time(world, at, house.write, before=lambda call: call.verb == "none"):
            continue
        where = f"made anew at call {at} ({world.calls[at]})"
        before = house.entry(first, "app")
        assert house.entries(world).get(first) == before, where
        sweep(world)
        assert house.entries(world).get(first) == before, where


@pytest.mark.parametrize("entry", [7, None, [], {}, "text", {"id": 7, "podref": 7, "pod": 7, "podID": 7}], ids=repr)
def test_garbage_record_beside_a_leak(house: House, entry: Any) -> None:
    """A record that nobody can read is told and stays as it is; the leak beside it goes."""
    addresses = house.addresses
    text = {"id": "nonsense", "podref": "nonsense", "pod": "nonsense", "podID": "nonsense"}
    world = house.world(leak(house), more={addresses[4]: text if entry == {} else entry})
    before = house.stored(world)
    sweeps(world, 4)
    now = house.stored(world)
    assert _without(now, house, addresses[0]) == _without(before, house, addresses[0])
    assert addresses[0] not in house.entries(world)
    assert world.released(house.ref) == [addresses[0]]


def _without(stored: Object, house: House, address: str) -> dict[str, Any]:
    """The entries but one; where null cannot be an entry, it is none."""
    return {key: value for key, value in house.entries_of(stored).items() if key != address and value is not None}


def test_key_that_is_no_address(house: House) -> None:
    """An entry under a key that nobody can read is told, and stays."""
    world = house.world(leak(house), more={"nonsense": house.entry(house.addresses[5], "lost")})
    reports = sweeps(world, 4)
    assert house.addresses[0] not in house.entries(world)
    assert "nonsense" in house.entries(world)
    (told,) = (f for f in reports[0].findings if f.pool == house.ref and f.record_digest and f.address is None)
    assert (told.verdict, told.reason) == ("Unknown", "RecordInvalid")


def test_empty_pool(house: House) -> None:
    """Nothing to judge, nothing to write, eight free."""
    world = house.world({})
    for report in sweeps(world, 3):
        assert (report.problems, [f for f in report.findings if f.pool == house.ref]) == ((), [])
        assert states(report, house) == States(SIZE, 0, 0, 0, SIZE)
    assert not world.tried(touches_ipam)


def test_full_pool(house: House) -> None:
    """All in use: no finding, none free."""
    world = house.world({address: house.live(f"live{n}", address) for n, address in enumerate(house.addresses)})
    for report in sweeps(world, 3):
        assert report.problems == ()
        assert {f.verdict for f in report.findings if f.pool == house.ref and f.record_digest} == {"InUse"}
        assert states(report, house) == States(SIZE, SIZE, 0, 0, 0)
    assert not world.tried(touches_ipam)


def test_full_pool_of_leaks_is_emptied_slowly(house: House) -> None:
    """A full pool with three leaks gets its addresses back, one a sweep by the share of a fifth, and no other."""
    records = {address: house.live(f"live{n}", address) for n, address in enumerate(house.addresses[:5])}
    world = house.world({**records, **{address: f"app-x{address[-1]}" for address in house.addresses[5:]}})
    for _ in range(10):
        before = len(house.entries(world))
        sweep(world)
        world.later(minutes=11)
        assert before - len(house.entries(world)) in {0, 1}
    assert set(house.entries(world)) == set(records)


def states(report: Any, house: House) -> States:
    """The count of the pool."""
    (pool,) = (item for item in report.pools if item.pool.ref == house.ref)
    found = pool.states
    assert isinstance(found, States)
    return found


def test_states_through_a_history(house: House) -> None:
    """Allocated, then in cooldown, then free; each address in just one state, in the report and in the guard."""
    world = house.world(leak(house))
    counts = [states(report, house) for report in sweeps(world, 4)]
    assert counts == [
        States(SIZE, 2, 0, 0, 6),
        States(SIZE, 1, 0, 1, 6),
        counts[2],
        States(SIZE, 1, 0, 0, 7),
    ]
    said = world.guard(house.ref)["status"]["addresses"]
    assert said == {"size": "8", "allocated": "1", "unknown": "0", "cooldown": "0", "free": "7"}


TROUBLE: dict[str, Callable[[World, House], object]] = {
    "unread": lambda world, house: world.on(calls("list", house.owner_calls), unread, times=99),
    "silent": lambda world, _house: world.put(node(ready=False)),
    "shown": lambda world, house: world.put(house.live("other", house.addresses[5])),
    "twice": lambda world, house: world.put(house.live("other", house.addresses[1])),
    "undecodable": lambda world, house: world.put(undecodable(house.live("app", house.addresses[0]))),
    "vetoed": lambda world, house: world.put(pod("other", ips=[house.addresses[0]])),
    "replaced": lambda world, house: house.add_again(world, "app"),
}


@pytest.mark.parametrize("trouble", TROUBLE)
def test_states_sum_to_the_size(house: House, trouble: str) -> None:
    """Whatever is amiss: four states, one sum, in the report and in the guard."""
    world = house.world(leak(house), more={house.addresses[6]: {"id": "x", "podref": "x", "pod": "x", "podID": "x"}})
    sweeps(world, 1)
    TROUBLE[trouble](world, house)
    for _ in range(3):
        report = sweep(world)
        world.later(minutes=11)
        found = states(report, house)
        assert found.size == SIZE
        assert found.allocated + found.unknown + found.cooldown + found.free == SIZE
        assert min(found.allocated, found.unknown, found.cooldown, found.free) >= 0
        said = world.guard(house.ref)["status"]["addresses"]
        assert sum(int(said[key]) for key in ("allocated", "unknown", "cooldown", "free")) == int(said["size"]) == SIZE
