"""Rule 5: two sightings of the same record, `grace` apart; then cooldown; then a mark; then the release."""

from __future__ import annotations

import pytest

from faults import Crash, calls, crash_before, cut, refused, sweep
from poolwarden.gc.policy import Policy

from .house import House
from .stage import Stage, about, leak, outcomes, sweeps, touches_ipam


def test_whole_history(house: House) -> None:
    """Sighted, cooldown, released: gone from pool and ledger, noted, and the record in use untouched."""
    world = house.world(leak(house))
    first, second, *_ = house.addresses
    before = house.entries(world)
    report = sweep(world)
    assert (report.problems, world.ledger(house.ref)) == ((), {first: "Sighted"})
    assert about(report, house, first).reason == "OwnerGone"
    assert about(report, house, second).verdict == "InUse"
    world.later(minutes=11)
    sweep(world)
    assert world.ledger(house.ref) == {first: "Cooldown"}
    assert house.shown(world) == before
    world.later(minutes=11)
    report = sweep(world)
    assert house.entries(world) == {second: before[second]}
    assert (world.ledger(house.ref), world.released(house.ref)) == ({}, [first])
    assert (report.problems, outcomes(report)) == ((), ["Released"])
    assert {name for name, _ in house.companions(world)} <= {second.replace(":", "-")}


def test_grace(house: House) -> None:
    """However many sightings there are, nothing begins to cool down before they span the grace."""
    first, *_ = house.addresses
    world = house.world(leak(house))
    for _ in range(4):
        sweep(world)
        world.later(minutes=3, seconds=19)
        assert world.ledger(house.ref) == {first: "Sighted"}
    sweep(world)
    assert world.ledger(house.ref) == {first: "Cooldown"}


def test_cooldown(house: House) -> None:
    """From the second sighting on the record stays for all of its cooldown, whichever sweeps come in between."""
    first, *_ = house.addresses
    patient = Policy(cooldown=3600)
    world = house.world(leak(house))
    sweeps(world, 2, default=patient)
    for _ in range(4):
        sweep(world, default=patient)
        world.later(minutes=11)
        assert world.ledger(house.ref) == {first: "Cooldown"}
        assert first in house.entries(world)
    sweeps(world, 2, default=patient)
    assert first not in house.entries(world)


def test_no_cooldown(house: House) -> None:
    """A cooldown of zero is no reason to release a record at its first sighting, or to mark and remove it in one sweep."""
    hasty = Policy(cooldown=0)
    world = house.world(leak(house))
    sweeps(world, 1, default=hasty)
    assert house.addresses[0] in house.entries(world)
    world.forget_calls()
    sweeps(world, 1, default=hasty)
    assert len(world.tried(house.write)) <= 1
    assert (house.addresses[0] in house.entries(world)) is house.hides


def test_change_of_the_record_resets(stage: Stage) -> None:
    """A record written anew for another owner that is gone, too, is sighted from the start."""
    house, world = stage.house, stage.due()
    first, *_ = house.addresses
    world.put(*house.beside({first: "newcomer"}))
    house.record(world, first, "newcomer")
    report = sweep(world)
    assert not world.tried(touches_ipam)
    assert world.ledger(house.ref) == {first: "Sighted"}
    assert about(report, house, first).owner.name == "newcomer"  # type: ignore[union-attr]


def test_owner_that_lives_again_resets(stage: Stage) -> None:
    """InUse ends the matter: after it the sightings begin anew."""
    house, world = stage.house, stage.due()
    first, *_ = house.addresses
    world.put(house.live("app", first))
    sweep(world)
    assert world.ledger(house.ref) == {}
    world.remove_of(house.owners, "app")
    world.later(minutes=11)
    sweep(world)
    assert world.ledger(house.ref) == {first: "Sighted"}
    assert first in house.entries(world)


def test_unknown_neither_counts_nor_resets(stage: Stage) -> None:
    """A sweep that reads but one of the owners leaves the clock where it is; nothing leaves the pool while it lasts."""
    house, world = stage.house, stage.due()
    first, *_ = house.addresses
    world.on(calls("list", house.owner_calls), cut(1), times=99)
    stood = world.ledger(house.ref)
    sweeps(world, 3)
    assert world.ledger(house.ref) == stood
    assert not world.tried(touches_ipam)
    calm = world.copy()
    sweep(calm)
    assert (first in house.entries(calm)) is not stage.removes
    assert bool(calm.tried(touches_ipam))


def test_no_release_without_a_mark(stage: Stage) -> None:
    """Where the mark cannot be persisted nothing is written, and the sweep says so."""
    world = stage.due()
    world.on(calls("patch", "PoolGuard"), refused)
    report = sweep(world)
    assert not world.tried(touches_ipam)
    assert not report.complete


def test_the_mark_comes_first(stage: Stage) -> None:
    """The record's text stands in the guard, as Releasing, before the pool is touched."""
    house, world = stage.house, stage.due()
    sweep(world)
    mark = world.index(calls("patch", "PoolGuard"))
    (entry,) = world.calls[mark].body["status"]["ledger"]
    assert (entry["phase"], entry["address"]) == ("Releasing", house.addresses[0])
    assert entry["record"]
    assert mark < world.index(house.write)


def test_mark_that_outlived_its_sweep_is_judged_anew(stage: Stage) -> None:
    """We die between mark and write; whoever needs the record by then keeps it, and no word of the mark is left."""
    house, world = stage.house, stage.due()
    first, *_ = house.addresses
    before = house.shown(world)
    world.on(calls("get", house.pool_calls), crash_before)
    with pytest.raises(Crash):
        sweep(world)
    assert world.ledger(house.ref) == {first: "Releasing"}
    world.put(house.live("app", first))
    sweeps(world, 2)
    assert house.entries(world) == before
    assert world.ledger(house.ref) == {}
