"""Rule 7: after the write everything is read again; who came back has its record again; `restore` puts back the very record."""

from __future__ import annotations

import pytest

from faults import Effect, calls, go_on, lost, outdated, refused, sweep, then, unanswered, unread
from poolwarden.gc.by_hand import Did, Refused, restore_by_hand
from poolwarden.gc.policy import Policy

from .house import House
from .stage import Stage, leak, outcomes, sweeps


def test_owner_that_came_back(stage: Stage) -> None:
    """It is there straight after the write: the pool is as before, the mark is gone, and nothing counts as released."""
    house = stage.house
    original = house.content(house.world(leak(house)))
    first, *_ = house.addresses
    world = stage.due()
    world.on(house.write, then(lambda: world.put(house.live("app", first))))
    report = sweep(world)
    assert outcomes(report) == ["Restored"]
    assert house.content(world) == original
    assert (world.ledger(house.ref), world.released(house.ref)) == ({}, [])


@pytest.mark.parametrize("effect", [outdated, refused, lost, unanswered])
def test_putting_back_meets_trouble(stage: Stage, effect: Effect) -> None:
    """A conflict, refusal or lost answer while putting back: the owner has its record in the end."""
    house = stage.house
    original = house.content(house.world(leak(house)))
    first, *_ = house.addresses
    world = stage.due()
    world.on(house.write, then(lambda: world.put(house.live("app", first))))
    world.on(house.write, effect, nth=2)
    sweeps(world, 3)
    assert house.content(world) == original
    assert world.ledger(house.ref) == {}


def test_address_that_is_handed_out_after_the_write(house: House) -> None:
    """Whoever has it by then keeps it: the owner that came back is not put in its place."""
    first, *_ = house.addresses
    new = house.live("new", first)

    def both() -> None:
        house.hand_over(world, first, new)
        world.put(house.live("app", first))

    world = Stage(house).due()
    world.on(house.write, then(both))
    sweep(world)
    assert house.entries(world)[first] == house.entry(first, new)
    report = sweep(world)
    assert any(f.verdict == "Conflict" and f.address == first for f in report.findings)
    assert house.entries(world)[first] == house.entry(first, new)


def test_verification_that_cannot_be_read(stage: Stage) -> None:
    """While it cannot be read the mark stays and nothing is told as released; a later sweep ends it."""
    house, world = stage.house, stage.due()
    first, second, *_ = house.addresses
    written = lambda call: calls("get", house.pool_calls)(call) and any(map(house.write, world.made))  # noqa: E731
    owners = lambda call: calls("list", house.owner_calls)(call) and any(map(house.write, world.made))  # noqa: E731
    world.on(written, unread, times=99)
    world.on(owners, unread, times=99)
    sweep(world)
    assert world.released(house.ref) == []
    assert world.ledger(house.ref).keys() == {first}
    calm = world.copy()
    calm.later(minutes=11)
    sweeps(calm, 3)
    assert (calm.ledger(house.ref), calm.released(house.ref)) == ({}, [first])
    assert set(house.entries(calm)) == {second}


def test_restore_by_hand(house: House) -> None:
    """Exactly the record that was there, and what its IPAM keeps beside it."""
    world = house.world(leak(house))
    original = house.content(world)
    first, *_ = house.addresses
    sweeps(world, 3)
    assert first not in house.entries(world)
    done = restore_by_hand(world, Policy(), first, str(house.ref), go_on)
    assert isinstance(done, Did), done
    assert house.content(world) == original
    sweeps(world, 4)
    assert house.content(world) == original


def test_restore_of_an_address_that_is_taken(house: House) -> None:
    """Refused: nobody loses a record to a former owner."""
    first, *_ = house.addresses
    new = house.live("new", first)
    world = house.world(leak(house))
    sweeps(world, 3)
    house.hand_over(world, first, new)
    now = house.content(world)
    assert isinstance(restore_by_hand(world, Policy(), first, str(house.ref), go_on), Refused)
    assert house.content(world) == now


def test_restore_of_an_address_that_is_in_use(house: House) -> None:
    """Refused as well where somebody uses it without a record."""
    first, *_ = house.addresses
    world = house.world(leak(house))
    sweeps(world, 3)
    world.put(house.live("new", first))
    now = house.content(world)
    assert isinstance(restore_by_hand(world, Policy(), first, str(house.ref), go_on), Refused)
    assert house.content(world) == now
