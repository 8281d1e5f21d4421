"""Every call of every sweep of a release dies, fails, conflicts or goes unanswered once: nobody loses an address, and it ends.

Rule 10 beside it: leadership lost at any write, and another process's sweep between any two calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from itertools import count

import pytest

from factories import Object
from faults import (
    Call,
    Crash,
    Effect,
    When,
    World,
    calls,
    crash_after,
    crash_before,
    lost,
    meanwhile,
    not_leader,
    outdated,
    refused,
    sweep,
    unanswered,
    unread,
)

from .house import FOURS, House
from .stage import outcomes, sweeps, touches_ipam

SWEEPS = 3
FIVE = 5
fours = pytest.mark.parametrize("house", FOURS, ids=str)


def history(house: House) -> dict[str, Object | str]:
    """Two leaks beside three records in use."""
    addresses = house.addresses
    live = {addresses[n]: house.live(f"live{n}", addresses[n]) for n in range(3)}
    return {**live, addresses[3]: "app", addresses[4]: "web"}


@cache
def beginnings(house: House) -> tuple[World, ...]:
    """The world at the start of each sweep of its release."""
    world = house.world(history(house))
    starts = []
    for _ in range(SWEEPS + 2):
        starts.append(world.copy())
        report = sweep(world)
        assert report.complete, report.problems
        world.later(minutes=11)
    return tuple(starts)


def begun(house: House, number: int) -> World:
    """A world of its own at the start of a sweep, watched from now on."""
    world = beginnings(house)[number].copy()
    kept = {address: house.entry(address, owner) for address, owner in history(house).items() if owner not in GONE}
    gone = {a: house.entry(a, owner) for a, owner in history(house).items() if owner in GONE}

    def keeps(world: World) -> str:
        entries = house.entries(world)
        return "; ".join(f"{address} is lost" for address, entry in kept.items() if entries.get(address) != entry)

    def can_be_put_back(world: World) -> str:
        """What has left the pool stands in the ledger or among what was released."""
        left = gone.keys() - house.entries(world).keys()
        known = {*world.ledger(house.ref), *world.released(house.ref)}
        return "; ".join(f"{address} cannot be put back" for address in sorted(left - known))

    world.watchers += [keeps, can_be_put_back]
    return world


GONE = ("app", "web")


def ended(house: House, world: World) -> list[str]:
    """What is not as it should be once the history is over."""
    wrong = list(world.broken)
    gone = {address for address, owner in history(house).items() if owner in GONE}
    kept = {address: house.entry(address, owner) for address, owner in history(house).items() if owner not in GONE}
    if house.entries(world) != kept:
        wrong.append(f"the pool records {house.entries(world)}")
    if set(world.released(house.ref)) != gone or len(world.released(house.ref)) != len(gone):
        wrong.append(f"released is said to be {world.released(house.ref)}")
    if world.ledger(house.ref):
        wrong.append(f"there still is a ledger: {world.ledger(house.ref)}")
    names = {name for name, _ in house.companions(world)}
    if names and names != {address.replace(":", "-") for address in kept}:
        wrong.append(f"beside the pool stand {names}")
    return wrong


def sweeps_on(world: World, most: int = 9) -> None:
    """Fresh sweeps, eleven minutes apart, until one has nothing to write but what it may write anyway."""
    for _ in range(most):
        world.forget_calls()
        report = sweep(world)
        world.later(minutes=11)
        if report.complete and not world.made:
            return


def sparing(house: House, world: World) -> list[str]:
    """What the newest sweep wrote too much: five tries, one success; putting back, which leaves more, apart."""
    tried, made = len(world.tried(house.write)), len(list(filter(house.write, world.made)))
    return [f"{made} writes in {tried} tries"] if tried > FIVE or made > 1 else []


def each_call(house: House, when: When, effect: Effect) -> Iterator[tuple[str, World]]:
    """A world for each call of each sweep that matches, in which that call went wrong."""
    for number in range(SWEEPS + 1):
        for at in count():
            world = begun(house, number)
            world.on(when, effect, nth=at + 1)
            with suppress(Crash):
                sweep(world)
            if len(world.tried(when)) <= at:
                break
            world.later(minutes=11)
            yield f"sweep {number}, {world.tried(when)[at]} (number {at})", world


def reads(call: Call) -> bool:
    """Calls that change nothing."""
    return not call.writes


def wrong_ends(house: House, when: When, effect: Effect) -> list[str]:
    """What is wrong in the end, wherever the effect struck."""
    wrong = []
    for where, world in each_call(house, when, effect):
        wrong += [f"{where}: {problem}" for problem in sparing(house, world)]
        sweeps_on(world)
        wrong += [f"{where}: {problem}" for problem in ended(house, world)]
    return wrong


@pytest.mark.parametrize("effect", [crash_before, crash_after])
@fours
def test_crash_at_every_call(house: House, effect: Effect) -> None:
    """Wherever we die, nobody loses an address, nothing is lost, and fresh sweeps end as if we had not."""
    assert wrong_ends(house, calls(), effect) == []


@pytest.mark.parametrize("effect", [outdated, refused, lost, unanswered, not_leader])
@fours
def test_every_write_goes_wrong_once(house: House, effect: Effect) -> None:
    """A conflict, a refusal, a write that was or was not made, or that was not allowed any more: the same end."""
    assert wrong_ends(house, calls("write"), effect) == []


@fours
def test_every_read_fails_once(house: House) -> None:
    """Doubt keeps: a sweep in which something could not be read releases later, never wrongly."""
    assert wrong_ends(house, reads, unread) == []


@fours
def test_two_crashes_in_a_row(house: House) -> None:
    """Dying at any write, and the sweep that takes over dying at any of its own, still loses nothing."""
    wrong = []
    writes = calls("write")
    for where, first in each_call(house, writes, crash_after):
        for at in count():
            world = first.copy()
            world.watchers += first.watchers
            world.on(writes, crash_after, nth=at + 1)
            with suppress(Crash):
                sweep(world)
            if len(world.tried(writes)) <= at:
                break
            world.later(minutes=11)
            sweeps_on(world)
            wrong += [f"{where}, then number {at}: {problem}" for problem in ended(house, world)]
    assert not wrong, "\n".join(wrong)


@fours
def test_leadership_lost_at_any_write(house: House) -> None:
    """From some write on none is allowed any more: what is done stays done, and the next leader's sweeps end it."""
    wrong = []
    for number in range(SWEEPS + 1):
        for at in count():
            world = begun(house, number)
            world.on(calls("write"), not_leader, nth=at + 1, times=999)
            report = sweep(world)
            tried = world.tried(calls("write"))
            if len(tried) <= at:
                break
            where = f"sweep {number}, from {tried[at]} on"
            wrong += [f"{where}: {call} was made" for call in world.made[at:]]
            wrong += [] if not report.complete else [f"{where}: not told"]
            done = {"Released", "Hidden"} & set(outcomes(report))
            wrong += [f"{where}: said to be {done}"] if done and not any(map(house.write, world.made)) else []
            fresh = world.copy()
            fresh.watchers += world.watchers
            fresh.later(minutes=11)
            sweeps_on(fresh)
            wrong += [f"{where}: {problem}" for problem in (*world.broken, *ended(house, fresh))]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("house", FOURS, ids=str)
def test_two_sweeps_at_once(house: House) -> None:
    """Leadership is no fence: a whole sweep of another process between any two calls of ours does no harm."""
    wrong = []
    for number in range(1, SWEEPS + 1):
        for at in count():
            world = begun(house, number)
            world.on(calls(), meanwhile(lambda world=world: sweep(world)), nth=at + 1)  # type: ignore[misc]
            sweep(world)
            if len(world.calls) <= at:
                break
            world.later(minutes=11)
            sweeps_on(world)
            wrong += [f"sweep {number}, at call {at}: {problem}" for problem in ended(house, world)]
    assert not wrong, "\n".join(wrong)


@fours
def test_a_history_without_trouble(house: House) -> None:
    """What the tests above compare with."""
    world = begun(house, 0)
    sweeps(world, 8)
    assert ended(house, world) == []
    assert world.made
    world.forget_calls()
    sweep(world)
    assert not world.tried(touches_ipam)
