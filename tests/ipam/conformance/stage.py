"""The scene of most tests: one leak that is due, beside one record in use, of every IPAM, in every sweep that writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Any

from factories import Object
from faults import Call, When, World, calls, meanwhile, sweep
from poolwarden.gc.release import Outcome
from poolwarden.gc.sweep import SweepReport
from poolwarden.ipam.verdict import Finding

from .house import FOURS, HOUSES, House, Owner

Change = Callable[[World], object]


@dataclass(frozen=True)
class Stage:
    """A house before the sweep that follows `before` others, eleven minutes apart, and that writes to its pool."""

    house: House
    before: int = 2

    def __str__(self) -> str:
        return f"{self.house}-hides" if self.house.hides and self.before == 1 else str(self.house)

    @property
    def removes(self) -> bool:
        """Whether the sweep takes records out, not only marks them."""
        return self.before == 2

    def due(self, *others: Object, records: Mapping[str, Owner] | None = None, **options: Any) -> World:
        """A cluster in which the leak of the first address is due; calls are counted from here."""
        world = self.house.world(records or leak(self.house), *others)
        for _ in range(self.before):
            report = sweep(world, **options)
            assert report.complete, report.problems
            world.later(minutes=11)
        world.forget_calls()
        return world

    def looks(self, when: When) -> bool:
        """Whether the sweep makes such a call between its mark and its write: its last look at what it reads."""
        world = self.due()
        sweep(world)
        mark, write = world.index(calls("patch", "PoolGuard")), world.index(self.house.write)
        return any(map(when, world.calls[mark:write]))


STAGES = (*map(Stage, HOUSES), *(Stage(house, 1) for house in HOUSES if house.hides))
FOUR_STAGES = tuple(stage for stage in STAGES if stage.house in FOURS)
"""Those of one family, for tests of every call: the family has no part in the order of calls."""


def leak(house: House) -> dict[str, Owner]:
    """A leak at the first address beside a record in use."""
    first, second, *_ = house.addresses
    return {first: "app", second: house.live("live", second)}


def touches_ipam(call: Call) -> bool:
    """Calls that would change an object of an IPAM."""
    return call.writes and call.kind != "PoolGuard"


def about(report: SweepReport, house: House, address: str) -> Finding:
    """The finding about the record of an address."""
    (found,) = (f for f in report.findings if f.pool == house.ref and f.address == address and f.record_digest)
    return found


def outcomes(report: SweepReport) -> list[Outcome]:
    """What became of the marked records."""
    return [result.outcome for _, result in report.released]


def sweeps(world: World, number: int, **options: Any) -> list[SweepReport]:
    """So many sweeps, eleven minutes apart."""
    reports = []
    for _ in range(number):
        reports.append(sweep(world, **options))
        world.later(minutes=11)
    return reports


def at_each_call(stage: Stage, change: Change, *others: Object) -> Iterator[tuple[int, World]]:
    """A world for each call of the sweep that writes, changed straight before that call."""
    start = stage.due(*others)
    for at in count():
        world = start.copy()
        world.on(calls(), meanwhile(lambda world=world: change(world)), nth=at + 1)  # type: ignore[misc]
        sweep(world)
        if len(world.calls) <= at:
            break
        world.later(minutes=11)
        yield at, world


def in_time(world: World, at: int, when: When, before: When) -> bool:
    """Whether a change at that call precedes the last call of `when` that comes before the first of `before`."""
    end = next((number for number, call in enumerate(world.calls) if before(call)), len(world.calls))
    return at <= max((number for number, call in enumerate(world.calls[:end]) if when(call)), default=-1)
