"""`release` by hand: grace and cooldown are skipped, no other guard is, and `restore` undoes it."""

from __future__ import annotations

from itertools import count

from faults import World, calls, go_on, meanwhile, sweep
from poolwarden.gc.by_hand import ByHand, Did, Guard, Proposal, Refused, propose, release_by_hand, restore_by_hand
from poolwarden.gc.policy import Policy

from .house import House
from .stage import about, leak, sweeps, touches_ipam


def by_hand(house: House, world: World, address: str, digest: str) -> ByHand:
    """Release one record; what came of it."""
    proposal = propose(world, Policy(), address, str(house.ref), digest)
    return release_by_hand(world, Policy(), proposal, go_on) if isinstance(proposal, Proposal) else proposal


def test_release_and_restore(house: House) -> None:
    """Released at its first sighting, whatever steps its IPAM needs, and put back exactly; gc then leaves it alone."""
    first, second, *_ = house.addresses
    world = house.world(leak(house))
    original = house.content(world)
    digest = about(sweep(world), house, first).record_digest
    assert isinstance(by_hand(house, world, first, digest), Did)
    assert set(house.entries(world)) == {second}
    assert (world.released(house.ref), world.ledger(house.ref)) == ([first], {})
    assert isinstance(restore_by_hand(world, Policy(), first, str(house.ref), go_on), Did)
    assert house.content(world) == original
    sweeps(world, 4)
    assert house.content(world) == original


def test_record_in_use(house: House) -> None:
    """Refused, and nothing is written."""
    _, second, *_ = house.addresses
    world = house.world(leak(house))
    digest = about(sweep(world), house, second).record_digest
    fate = by_hand(house, world, second, digest)
    assert isinstance(fate, Refused)
    assert fate.guard is Guard.VERDICT
    assert not world.tried(touches_ipam)


def test_another_record(house: House) -> None:
    """A digest that is not the record's is refused."""
    first, *_ = house.addresses
    world = house.world(leak(house))
    fate = by_hand(house, world, first, "0123456789abcdef")
    assert isinstance(fate, Refused)
    assert fate.guard is Guard.DIGEST


def test_owner_that_comes_back_meanwhile(house: House) -> None:
    """Refused by the live reads: the record is as it was."""
    first, *_ = house.addresses
    world = house.world(leak(house))
    original = house.content(world)
    digest = about(sweep(world), house, first).record_digest
    world.on(calls("get", house.pool_calls), meanwhile(lambda: world.put(house.live("app", first))))
    fate = by_hand(house, world, first, digest)
    assert isinstance(fate, Refused)
    assert fate.guard is Guard.LIVE_READ
    assert house.content(world) == original


def test_restore_that_somebody_overtakes(house: House) -> None:
    """Whoever gets the address while we put its old record back has it in the end, at whatever call that happens."""
    first, *_ = house.addresses
    new = house.live("new", first)
    start = house.world(leak(house))
    sweeps(start, 3)
    for at in count():
        world = start.copy()
        world.on(calls(), meanwhile(lambda world=world: house.hand_over(world, first, new)), nth=at + 1)  # type: ignore[misc]
        restore_by_hand(world, Policy(), first, str(house.ref), go_on)
        if len(world.calls) <= at:
            break
        assert house.entries(world).get(first) == house.entry(first, new), f"at call {at} ({world.calls[at]})"
