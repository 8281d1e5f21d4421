"""Keeping a stock of free addresses: between low and high watermarks, from and to a reserve that the operator names.

Apart from cleanup: neither waits for the other, nor is skipped with it. Below low a pool is extended until target are
free, above high it gives back until target are left: both strictly, so that a pool that hovers is not written at every
allocation. Only what was added here is ever given back.
"""

from collections.abc import Iterable

from msgspec import Struct

from poolwarden.cluster.interface import Absent, Deleted, Failed, Found, Outdated, Unread, Written
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.live import LiveReads
from poolwarden.gc.pacing import Backoffs, tries
from poolwarden.gc.policy import Watermarks
from poolwarden.gc.release import Wait
from poolwarden.gc.repair import write
from poolwarden.ipam.address import V4, V6, number_of
from poolwarden.ipam.inventory import FixedRanges, Ranges, Stale
from poolwarden.ipam.pool import Pool, PoolRef, RecordsUnreadable
from poolwarden.ipam.ranges import AddressRange, AddressSet, address_set

MOST_SHOWN = 5
"""Ranges that a message names."""


class Extend(Struct, frozen=True, tag=True):
    """Free addresses are below low: these come from the reserve. `short` tells that they do not reach target."""

    addresses: AddressSet
    short: bool


class Shrink(Struct, frozen=True, tag=True):
    """Free addresses are above high: these go back to the reserve."""

    addresses: AddressSet


class Balanced(Struct, frozen=True, tag=True):
    """Nothing is to be done; `why` is for a message."""

    why: str


class Exhausted(Struct, frozen=True, tag=True):
    """Free addresses are below low, and the reserve has none left."""

    why: str


Plan = Extend | Shrink | Balanced | Exhausted


def plan(pool: Pool, marks: Watermarks, reserve: AddressSet, extended: AddressSet, used: AddressSet) -> Plan:
    """What a pool needs. `extended` is what it got from the reserve; `used` are addresses that somebody has or shows."""
    free = (pool.ranges - used).size
    if free < marks.low:
        spare = reserve - pool.configured - pool.unusable - used
        taken = spare.first(marks.target - free)
        if not taken.ranges:
            return Exhausted(f"{free} addresses are free, fewer than low ({marks.low}), and the reserve is used up")
        return Extend(taken, short=free + taken.size < marks.target)
    if free > marks.high:
        back = ((extended & pool.ranges) - used).last(free - marks.target)
        if back.ranges:
            return Shrink(back)
        return Balanced(
            f"{free} addresses are free, more than high ({marks.high}), but none of them is from the reserve"
        )
    return Balanced(f"{free} addresses are free")


def in_use(pool: Pool, evidence: Evidence) -> AddressSet:
    """Every address that the pool records, that anybody shows or that an endpoint lists."""
    recorded = (record.address for record in pool.readable_records if record.address is not None)
    return singles((*recorded, *evidence.shown, *evidence.listed))


def singles(addresses: Iterable[str]) -> AddressSet:
    """Canonical addresses as a set."""
    return address_set(
        AddressRange(V6 if ":" in address else V4, number := number_of(address), number) for address in addresses
    )


class Rebalanced(Struct, frozen=True, tag=True):
    """The pool was written: `extended` is what it has from the reserve now."""

    plan: Extend | Shrink
    extended: AddressSet


class NotRebalanced(Struct, frozen=True, tag=True):
    """It was not, and why; `failed` tells that it should have been."""

    plan: Plan
    why: str
    failed: bool = False


class Fixed(Struct, frozen=True, tag=True):
    """Its ranges are not ours to change; `why` says what to change instead."""

    why: str


class Rebalancer:
    """Rebalancing in one sweep, for one IPAM. `wait` sleeps that many seconds and says whether the program stops."""

    def __init__(self, live: LiveReads, evidence: Evidence, wait: Wait, backoffs: Backoffs) -> None:
        self.live = live
        self.evidence = evidence
        self.wait = wait
        self.backoffs = backoffs

    def rebalance(
        self, ref: PoolRef, marks: Watermarks, reserve: AddressSet, extended: AddressSet, *, forbidden: str
    ) -> Rebalanced | NotRebalanced | Fixed:
        """Plan on the pool as it is now, and write it unless that is `forbidden` (why, "" if it is not)."""
        why = "the program is stopping"
        for _ in tries(self.backoffs.write, self.wait):
            done = self._try(ref, marks, reserve, extended, forbidden=forbidden)
            if not isinstance(done, Outdated):
                return done
            why = done.message
        return NotRebalanced(Balanced(""), why, failed=True)

    def _try(
        self, ref: PoolRef, marks: Watermarks, reserve: AddressSet, extended: AddressSet, *, forbidden: str
    ) -> Rebalanced | NotRebalanced | Fixed | Outdated:
        ranges = self.live.backend.ranges
        if isinstance(ranges, FixedRanges):
            return Fixed(ranges.advice)
        found = self.live.pool(ref)
        if not isinstance(found, Found):
            message = found.message if isinstance(found, Unread) else f"pool {ref.name} is gone"
            return NotRebalanced(Balanced(""), message, failed=isinstance(found, Unread))
        objection = ranges.objection(found.raw)
        if objection:
            return Fixed(objection)
        pool = self.live.decoded_pool(found.raw, self.live.aside())
        if isinstance(pool.records, RecordsUnreadable):
            return NotRebalanced(Balanced(""), pool.records.problem, failed=True)
        wanted = plan(pool, marks, reserve - self._elsewhere(ref), extended, in_use(pool, self.evidence))
        if isinstance(wanted, Balanced | Exhausted):
            return NotRebalanced(wanted, wanted.why)
        why = forbidden or (self._doubt() if isinstance(wanted, Shrink) else "")
        return NotRebalanced(wanted, why) if why else self._write(ranges, found.raw, wanted, extended)

    def _write(
        self, ranges: Ranges, raw: bytes, wanted: Extend | Shrink, extended: AddressSet
    ) -> Rebalanced | NotRebalanced | Outdated:
        nothing, addresses = AddressSet(), wanted.addresses
        if isinstance(wanted, Extend):
            change, after = ranges.with_ranges(raw, addresses, nothing), extended | addresses
        else:
            change, after = ranges.with_ranges(raw, nothing, addresses), extended - addresses
        if isinstance(change, Stale):
            return NotRebalanced(wanted, change.message, failed=True)
        match write(self.live, change):
            case Written():
                return Rebalanced(wanted, after)
            case Outdated() as stale:
                return stale
            case Failed(message=message):
                return NotRebalanced(wanted, message, failed=True)
            case Absent() | Deleted():
                return NotRebalanced(wanted, "the pool is gone")

    def _elsewhere(self, ref: PoolRef) -> AddressSet:
        """What other pools hand out: two pools with one address would be a conflict."""
        others = (item for pool in self.evidence.pools if pool.ref != ref for item in pool.configured.ranges)
        return address_set(others)

    def _doubt(self) -> str:
        """Why somebody may use an address that nobody is seen to use; an address goes only without such doubt."""
        needs = self.evidence.needs_for_release("")
        unread = self.evidence.unreadable_pods or self.evidence.unreadable_endpoints
        return needs[0].message if needs else "not every pod and endpoint can be read" if unread else ""


def done_says(done: Rebalanced | NotRebalanced | Fixed) -> str:
    """One line for people."""
    if isinstance(done, Fixed) or isinstance(done.plan, Balanced | Exhausted):
        return done.why
    step = done.plan
    to = "added from the reserve" if isinstance(step, Extend) else "given back to the reserve"
    if isinstance(done, NotRebalanced):
        return f"{shown(step.addresses)} would be {to}, but {done.why}"
    more = "; it has no more" if isinstance(step, Extend) and step.short else ""
    return f"{step.addresses.size} addresses {to} ({shown(step.addresses)}){more}"


def shown(addresses: AddressSet) -> str:
    """Ranges for a message; of many the first few."""
    texts = [str(item) for item in addresses.ranges]
    return ", ".join(texts[:MOST_SHOWN]) + (f" and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else "")
