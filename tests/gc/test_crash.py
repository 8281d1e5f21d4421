"""Every call of every sweep dies, fails, conflicts or goes unanswered once: nobody loses an address, and the leaks still go.

Each story is a cluster whose leaks are due after two sweeps. A test takes it to the start of a sweep, lets one thing go
wrong at one call - at each in turn -, and sweeps on until nothing moves any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from itertools import count

import pytest
from msgspec import Struct

from factories import Object, blue, claim, endpoint, green, nad, name_of, pod, pool, stateful_set
from faults import (
    Call,
    Crash,
    Effect,
    When,
    World,
    calls,
    crash_after,
    crash_before,
    endpoints_recorded,
    keeps,
    lost,
    meanwhile,
    nothing_lost,
    outdated,
    refused,
    sweep,
    unanswered,
    unread,
)
from poolwarden.gc.sweep import SweepReport

A, B, C, D = "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"
A6 = "fd00::10"
FIVE = 5
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})
STS = stateful_set("db", replicas=1)
DB_0 = pod("db-0", ips=[D], owner=STS)
ETH0, NET1 = nad("eth0"), nad("net1")


class Story(Struct, frozen=True):
    """A cluster; what must never leave its pools, what must in the end; and what its endpoints list then."""

    objects: tuple[Object, ...]
    kept: Mapping[str, Mapping[str, Object]]
    leaked: Mapping[str, Mapping[str, Object]]
    listed: tuple[tuple[str, str, str], ...]
    whole: bool = True
    """Whether each address that an endpoint lists is recorded from the start."""


def _never_attached() -> Story:
    app = pod("app", ips=[A])
    other = pod("other", ips=[B], nics={"net1": "10.0.1.11"})
    return Story(
        (
            blue({A: app, B: other}),
            green({"10.0.1.10": app, "10.0.1.11": other}),
            ETH0,
            NET1,
            app,
            other,
            endpoint(app, [("eth0", f"{A}@blue"), ("", "10.0.1.10@green")]),
            endpoint(other, {"eth0": f"{B}@blue", "net1": "10.0.1.11@green"}),
        ),
        {"blue": {A: app, B: other}, "green": {"10.0.1.11": other}},
        {"green": {"10.0.1.10": app}},
        (("app", "blue", A), ("other", "blue", B), ("other", "green", "10.0.1.11")),
    )


def _repaired(*broken: Object, records: Mapping[str, Object] | None = None, listed: tuple[str, ...] = ()) -> Story:
    """Nothing but an endpoint is amiss in `blue`."""
    kept = {B: LIVE, **(records or {})}
    return Story(
        (blue(kept), ETH0, LIVE, LIVE_NIC, *broken),
        {"blue": kept},
        {},
        (*(("app", "blue", address) for address in listed), ("live", "blue", B)),
        whole=False,
    )


APP = pod("app", ips=[A])
STORIES = {
    "gone-with-endpoint": Story(
        (blue({A: claim("app"), B: LIVE}), LIVE, LIVE_NIC, endpoint("app", {"eth0": f"{A}@blue"})),
        {"blue": {B: LIVE}},
        {"blue": {A: claim("app")}},
        (("live", "blue", B),),
    ),
    "two-gone": Story(
        (
            blue({A: claim("app"), C: claim("web"), B: LIVE, D: DB_0}),
            LIVE,
            DB_0,
            endpoint("app", {"eth0": f"{A}@blue"}),
            endpoint("web", {"eth0": f"{C}@blue"}),
        ),
        {"blue": {B: LIVE, D: DB_0}},
        {"blue": {A: claim("app"), C: claim("web")}},
        (),
    ),
    "scaled-down": Story(
        (
            blue({A: claim("db-1"), B: LIVE, C: claim("web-0"), D: DB_0}),
            LIVE,
            LIVE_NIC,
            STS,
            stateful_set("web", replicas=1),
            DB_0,
            endpoint(DB_0, {"eth0": f"{D}@blue"}, kind="StatefulSet"),
            endpoint("db-1", {"eth0": f"{A}@blue"}, kind="StatefulSet"),
            endpoint("web-0", {"eth0": f"{C}@blue"}, kind="StatefulSet"),
        ),
        {"blue": {B: LIVE, C: claim("web-0"), D: DB_0}},
        {"blue": {A: claim("db-1")}},
        (("db-0", "blue", D), ("live", "blue", B), ("web-0", "blue", C)),
    ),
    "never-attached": _never_attached(),
    "surplus": Story(
        (blue({A: APP, C: APP, B: LIVE}), ETH0, APP, LIVE, LIVE_NIC, endpoint(APP, {"eth0": f"{A}@blue"})),
        {"blue": {A: APP, B: LIVE}},
        {"blue": {C: APP}},
        (("app", "blue", A), ("live", "blue", B)),
    ),
    "dual-stack": Story(
        (
            blue({A: claim("app"), B: LIVE}),
            pool("six", "fd00::10-fd00::30", {A6: claim("app"), "fd00::11": LIVE}),
            pod("live", ips=[B, "fd00::11"]),
            endpoint(LIVE, {"eth0": [f"{B}@blue", "fd00::11@six"]}),
            endpoint("app", {"eth0": [f"{A}@blue", f"{A6}@six"]}),
        ),
        {"blue": {B: LIVE}, "six": {"fd00::11": LIVE}},
        {"blue": {A: claim("app")}, "six": {A6: claim("app")}},
        (("live", "blue", B), ("live", "six", "fd00::11")),
    ),
    "orphan": _repaired(endpoint("app", {"eth0": f"{A}@blue"})),
    "stale": _repaired(
        APP, endpoint("app", {"eth0": f"{C}@blue"}, uid="old-uid"), records={A: APP}
    ),
    "unnamed": _repaired(APP, endpoint(APP, {"": f"{A}@blue"}), records={A: APP}, listed=(A,)),
    "named-twice": _repaired(
        APP,
        endpoint(APP, [("eth0", f"{A}@blue"), ("eth0", f"{C}@blue")]),
        records={A: APP},
        listed=(A,),
    ),
}  # fmt: skip
NAMES = sorted(STORIES)
SWEEPS = 4
ACTS = 2
THROUGHOUT = {"scaled-down", "stale"}
"""Stories that meet trouble in each of their sweeps; the others only in the one that acts."""


@cache
def beginnings(name: str) -> tuple[World, ...]:
    """The world of a story at the start of each of its sweeps: two to count, one that acts, one that finds all done."""
    world = World(*STORIES[name].objects)
    starts = []
    for _ in range(SWEEPS):
        starts.append(world.copy())
        report = sweep(world)
        assert report.complete, report.problems
        world.later(minutes=11)
    assert not ended(STORIES[name], world, report)
    return tuple(starts)


def begun(name: str, number: int) -> World:
    """A world of its own at the start of a sweep, watched from now on."""
    story = STORIES[name]
    world = beginnings(name)[number].copy()
    world.watchers += [keeps(each, entries) for each, entries in story.kept.items()]
    world.watchers += [nothing_lost(each, entries) for each, entries in story.leaked.items()]
    world.watchers += [endpoints_recorded] if story.whole else []
    return world


def ended(story: Story, world: World, report: SweepReport) -> list[str]:
    """What is not as it should be once a story is over."""
    wrong = [*world.broken, *report.problems]
    for thing in world.objects():
        if thing["kind"] == "SpiderIPPool":
            name = name_of(thing)
            gone = set(story.leaked.get(name, ()))
            wrong += [f"{name} still records {key}" for key in gone & set(world.records(name))]
            if sorted(world.released(name)) != sorted(gone):
                wrong.append(f"{name} says that it released {world.released(name)}, not {sorted(gone)}")
            if world.ledger(name):
                wrong.append(f"{name} still has a ledger: {world.ledger(name)}")
            wrong += [problem for entries in [story.kept.get(name, {})] if (problem := keeps(name, entries)(world))]
    if tuple(sorted(world.listed())) != story.listed:
        wrong.append(f"endpoints list {sorted(world.listed())}")
    return wrong


def sweeps_on(world: World, most: int = 6) -> SweepReport:
    """Fresh sweeps, 11 minutes apart, until one has nothing to write; the last one's report."""
    for _ in range(most):
        world.forget_calls()
        report = sweep(world)
        world.later(minutes=11)
        if not world.made:
            break
    return report


def hit(world: World, when: When, number: int, effect: Effect) -> bool:
    """One sweep in which the call of that number, of those that match, goes wrong; whether there was such a call."""
    world.forget_calls()
    world.on(when, effect, nth=number + 1)
    with suppress(Crash):
        sweep(world)
    struck = len(world.tried(when)) > number
    world.later(minutes=11)
    return struck


def each_call(name: str, when: When, effect: Effect) -> Iterator[tuple[str, World]]:
    """A world for each call of a story's sweeps that matches, in which that call went wrong."""
    for number in range(SWEEPS) if name in THROUGHOUT else (ACTS,):
        for at in count():
            world = begun(name, number)
            if not hit(world, when, at, effect):
                break
            yield f"sweep {number}, {world.tried(when)[at]} (number {at})", world


def reads(call: Call) -> bool:
    """Calls that change nothing."""
    return not call.writes


def sparing(world: World) -> list[str]:
    """What the newest sweep of a world wrote too much; records put back (which leave more of them) apart."""
    wrong = []
    for thing in world.objects():
        if thing["kind"] == "SpiderIPPool":
            write = calls("patch", "SpiderIPPool", name_of(thing))
            tries = [call.body["status"]["allocatedIPCount"] for call in world.tried(write)]
            made = [call.body["status"]["allocatedIPCount"] for call in filter(write, world.made)]
            if tries and (tries.count(min(tries)) > FIVE or made.count(min(tries)) > 1):
                wrong.append(f"{name_of(thing)} was written {made} in tries {tries}")
    return wrong


def end_of(where: str, name: str, world: World) -> list[str]:
    """What is wrong in the end of a story in which something went wrong."""
    return [f"{where}: {problem}" for problem in (*sparing(world), *ended(STORIES[name], world, sweeps_on(world)))]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("effect", [crash_before, crash_after])
def test_crash_at_every_call(name: str, effect: Effect) -> None:
    """Wherever we die, nobody loses an address, nothing is lost, and fresh sweeps end the story as if we had not."""
    wrong = [line for where, world in each_call(name, calls(), effect) for line in end_of(where, name, world)]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("effect", [outdated, refused, lost, unanswered])
def test_every_write_goes_wrong_once(name: str, effect: Effect) -> None:
    """A conflict, a refusal, a write that was or was not made: five tries, one write that succeeds, the same end."""
    wrong = [line for where, world in each_call(name, calls("write"), effect) for line in end_of(where, name, world)]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_every_read_fails_once(name: str) -> None:
    """Doubt keeps: a sweep in which something could not be read releases later, never wrongly."""
    wrong = [line for where, world in each_call(name, reads, unread) for line in end_of(where, name, world)]
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_two_crashes_in_a_row(name: str) -> None:
    """Dying at any write, and the sweep that takes over dying at any of its own, still loses nothing."""
    wrong = []
    writes = calls("write")
    for where, first in each_call(name, writes, crash_after):
        for at in count():
            world = first.copy()
            world.watchers += first.watchers
            if not hit(world, writes, at, crash_after):
                break
            wrong += end_of(f"{where}, then {world.tried(writes)[at]} (number {at})", name, world)
    assert wrong == []


@pytest.mark.parametrize("name", NAMES)
def test_two_sweeps_at_once(name: str) -> None:
    """Leadership is no fence: a whole sweep of another process between any two calls of ours does no harm."""
    wrong = []
    for at in count():
        world = begun(name, ACTS)
        world.on(calls(), meanwhile(lambda world=world: sweep(world)), nth=at + 1)  # type: ignore[misc]
        mine = sweep(world)
        if len(world.calls) <= at:
            break
        world.later(minutes=11)
        last = sweeps_on(world)
        wrong += [f"between, at call {at}: {problem}" for problem in ended(STORIES[name], world, last)]
        assert mine.at <= last.at
    assert wrong == []
