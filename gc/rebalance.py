"""Keeping a stock of free addresses: between low and high watermarks, from and to a reserve that the operator names.

Apart from cleanup: neither waits for the other, nor is skipped with it. Below low a pool is extended until target are
free, above high it gives back until target are left: both strictly, so that a pool that hovers is not written at every
allocation. Only what was added here is ever given back.

What is about to be added is written down in the pool's guard first, then the pool is written: where we die in between, the
guard names addresses that the pool does not have, and those are taken off its list when the pool is read again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from poolwarden.cluster.interface import (
    Absent,
    Coverage,
    Deleted,
    Doubt,
    Failed,
    Found,
    Incomplete,
    Listing,
    NotInstalled,
    Outdated,
    Unread,
    Unreadable,
    Written,
)
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.live import Aside, LiveReads
from poolwarden.gc.pacing import Backoffs, tries
from poolwarden.gc.policy import Watermarks
from poolwarden.gc.release import Wait
from poolwarden.gc.repair import write
from poolwarden.ipam.address import V4, V6, number_of
from poolwarden.ipam.inventory import FixedRanges, Ranges, Stale
from poolwarden.ipam.kinds import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, Kind
from poolwarden.ipam.network import addresses_in
from poolwarden.ipam.pool import Pool, Record, RecordsUnreadable
from poolwarden.ipam.ranges import AddressRange, AddressSet, address_set
from poolwarden.ipam.registry import BACKENDS

MOST_SHOWN = 5
"""Ranges that a message names."""
MOST_RANGES = 1000
"""Ranges that `PoolGuard.status.extended` holds, by its schema."""


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


class Stock(Struct, frozen=True):
    """What a pool's guard wants (`marks`, `reserve`), and what it says that the pool has from there (`extended`).

    `pending` are addresses whose release has begun: a record of them may have to come back.
    """

    marks: Watermarks
    reserve: AddressSet
    extended: AddressSet
    pending: AddressSet = AddressSet()


def plan(pool: Pool, marks: Watermarks, reserve: AddressSet, extended: AddressSet, used: AddressSet) -> Plan:
    """What a pool needs. `extended` is what it got from the reserve; `used` are addresses that somebody has or shows."""
    free = (pool.ranges - used).size
    if free < marks.low:
        spare = reserve - pool.configured - pool.unusable - used
        taken = _fitting(extended, spare.first(marks.target - free))
        if taken.ranges:
            return Extend(taken, short=free + taken.size < marks.target)
        why = f"the pool has {MOST_RANGES} ranges from it, and no more can be written down" if spare.ranges else ""
        return Exhausted(f"{scarce(marks)}, and the reserve is used up{f': {why}' if why else ''}")
    if free > marks.high:
        back = ((extended & pool.ranges) - used).last(free - marks.target)
        while back.ranges and (excess := len((extended - back).ranges) - MOST_RANGES) > 0:
            back = AddressSet(back.ranges[excess:])
        if back.ranges:
            return Shrink(back)
        return Balanced(f"{free} addresses are free, more than high ({marks.high}), but none of them can be given back")
    return Balanced(f"{free} addresses are free")


def _fitting(extended: AddressSet, taken: AddressSet) -> AddressSet:
    """As much of what is taken as can be written down beside what there is."""
    if len((extended | taken).ranges) <= MOST_RANGES:
        return taken
    return AddressSet(taken.ranges[: max(0, MOST_RANGES - len(extended.ranges))])


def scarce(marks: Watermarks) -> str:
    """That a pool is short of free addresses, in words that do not change with each of them."""
    return f"fewer addresses are free than low ({marks.low})"


def in_use(pools: Iterable[Pool]) -> AddressSet:
    """Every address that the pools record, may record, or have given away without a record."""
    used = AddressSet()
    recorded: list[str] = []
    for pool in pools:
        recorded += (address for record in pool.readable_records for address in _addresses_of(record))
        used |= pool.claimed | pool.doubtful
    return used | singles(recorded)


def _addresses_of(record: Record) -> Iterable[str]:
    """Its address; where its key is none, whatever addresses stand in it: doubt keeps."""
    return (record.address,) if record.address is not None else addresses_in(record.key)


def singles(addresses: Iterable[str]) -> AddressSet:
    """Canonical addresses as a set."""
    return address_set(
        AddressRange(V6 if ":" in address else V4, number := number_of(address), number) for address in addresses
    )


class Rebalanced(Struct, frozen=True, tag=True):
    """The pool was written, and is now `pool`; `extended` is what it has from the reserve."""

    plan: Extend | Shrink
    extended: AddressSet
    pool: Pool


class NotRebalanced(Struct, frozen=True, tag=True):
    """It was not, and why; `failed` tells that it should have been. `extended` is what it has, or may have by now."""

    plan: Plan
    why: str
    extended: AddressSet
    failed: bool = False


class Fixed(Struct, frozen=True, tag=True):
    """Its ranges are not ours to change; `why` says what to change instead, `short` that it is needed."""

    why: str
    extended: AddressSet
    short: bool


Done = Rebalanced | NotRebalanced | Fixed
Forbidden = Callable[[], str]
"""Asks, straight before each write, why the pool must not be written; "" if it may."""
Mark = Callable[[AddressSet], bool]
"""Writes down what the pool will have from its reserve; whether that now stands so."""


class _Now(Struct, frozen=True):
    """A pool as just read, with what limits it, and what it has from its reserve as it stands."""

    ranges: Ranges
    raw: bytes
    pool: Pool
    aside: Aside
    stock: Stock


class Rebalancer:
    """Rebalancing in one sweep, for one IPAM. `wait` sleeps that many seconds and says whether the program stops."""

    def __init__(self, live: LiveReads, evidence: Evidence, wait: Wait, backoffs: Backoffs) -> None:
        self.live = live
        self.evidence = evidence
        self.snapshot = evidence.snapshot
        self.wait = wait
        self.backoffs = backoffs

    def rebalance(self, judged: Pool, stock: Stock, *, forbidden: Forbidden, mark: Mark) -> Done:
        """Plan on the pool as it is now, and write it, unless that is forbidden."""
        why = "the program is stopping"
        for _ in tries(self.backoffs.write, self.wait):
            done = self._try(judged, stock, forbidden, mark)
            if not isinstance(done, Outdated):
                return done
            why = done.message
        return NotRebalanced(Balanced(""), why, stock.extended, failed=True)

    def _try(self, judged: Pool, stock: Stock, forbidden: Forbidden, mark: Mark) -> Done | Outdated:
        ranges = self.live.backend.ranges
        if isinstance(ranges, FixedRanges):
            return Fixed(ranges.advice, stock.extended, self._is_short(judged, stock))
        found = self.live.pool(judged.ref)
        if not isinstance(found, Found):
            message = found.message if isinstance(found, Unread) else f"pool {judged.ref.name} is gone"
            return NotRebalanced(Balanced(""), message, stock.extended, failed=isinstance(found, Unread))
        aside = self.live.aside()
        pool = self.live.decoded_pool(found.raw, aside)
        if pool.uid != judged.uid:
            return NotRebalanced(Balanced(""), "it was deleted and made anew meanwhile", stock.extended)
        # What somebody took out of the pool is his: should he add it again, it is not ours to give back.
        stock = msgspec.structs.replace(stock, extended=stock.extended & pool.configured)
        objection = ranges.objection(found.raw)
        if objection:
            return Fixed(objection, stock.extended, self._is_short(pool, stock))
        unread = [why for kind, made in aside.items() for why in _faults(kind, made.coverage, made.unreadable)]
        unread += [pool.records.problem] if isinstance(pool.records, RecordsUnreadable) else []
        if unread:
            return NotRebalanced(Balanced(""), unread[0], stock.extended, failed=True)
        return self._resize(_Now(ranges, found.raw, pool, aside, stock), forbidden, mark)

    def _resize(self, now: _Now, forbidden: Forbidden, mark: Mark) -> Done | Outdated:
        wanted = self._wanted(now, ())
        if isinstance(wanted, Balanced | Exhausted):
            return NotRebalanced(wanted, wanted.why, now.stock.extended)
        why = self._doubt() or forbidden()
        if why:
            return NotRebalanced(wanted, why, now.stock.extended)
        return self._shrink(now, wanted) if isinstance(wanted, Shrink) else self._extend(now, wanted, forbidden, mark)

    def _wanted(self, now: _Now, others: Iterable[Pool]) -> Plan:
        """The plan for a pool, given all pools as they were judged and `others` as they are now."""
        stock, pools = now.stock, [pool for pool in (*self._pools, *others) if pool.ref != now.pool.ref]
        used = self._used | in_use((now.pool, *others)) | stock.pending
        elsewhere = address_set(item for pool in pools for item in pool.configured.ranges)
        return plan(now.pool, stock.marks, stock.reserve - elsewhere, stock.extended, used)

    def _extend(
        self, now: _Now, first: Extend, forbidden: Forbidden, mark: Mark
    ) -> Rebalanced | NotRebalanced | Outdated:
        extended = now.stock.extended
        everything = self.live.everything(now.aside)
        if isinstance(everything, Unread):
            return NotRebalanced(first, everything.message, extended, failed=True)
        # Another guard's pool may have got the same addresses a moment ago.
        wanted = self._wanted(now, everything.pools)
        if not isinstance(wanted, Extend):
            return NotRebalanced(first, "others have them by now", extended)
        after = extended | wanted.addresses
        if not mark(after):
            return NotRebalanced(wanted, "that could not be written down", extended, failed=True)
        why = forbidden()
        if why:
            return NotRebalanced(wanted, why, extended)
        # A write that may land yet must be known of.
        return self._written(now, wanted, after, uncertain=after)

    def _shrink(self, now: _Now, wanted: Shrink) -> Rebalanced | NotRebalanced | Outdated:
        extended = now.stock.extended
        return self._written(now, wanted, extended - wanted.addresses, uncertain=extended)

    def _written(
        self, now: _Now, wanted: Extend | Shrink, after: AddressSet, *, uncertain: AddressSet
    ) -> Rebalanced | NotRebalanced | Outdated:
        nothing, extended = AddressSet(), now.stock.extended
        added, removed = (wanted.addresses, nothing) if isinstance(wanted, Extend) else (nothing, wanted.addresses)
        change = now.ranges.with_ranges(now.raw, added, removed)
        if isinstance(change, Stale):
            return NotRebalanced(wanted, change.message, extended, failed=True)
        match write(self.live, change):
            case Written(raw):
                return Rebalanced(wanted, after, self.live.decoded_pool(raw, now.aside))
            case Outdated() as stale:
                return stale
            case Failed(message=message, uncertain=lost):
                return NotRebalanced(wanted, message, uncertain if lost else extended, failed=True)
            case Absent() | Deleted():
                return NotRebalanced(wanted, "the pool is gone", extended)

    @cached_property
    def _pools(self) -> list[Pool]:
        """Every pool of every IPAM, as it was judged."""
        return [pool for inventory in self.snapshot.inventories for pool in inventory.pools]

    @cached_property
    def _used(self) -> AddressSet:
        """Every address that any pool records, that anybody shows or that an endpoint lists."""
        return in_use(self._pools) | singles((*self.evidence.shown, *self.evidence.listed))

    def _is_short(self, pool: Pool, stock: Stock) -> bool:
        return (pool.ranges - self._used - stock.pending).size < stock.marks.low

    def _doubt(self) -> str:
        """Why somebody may have an address that nobody is seen to have; without such doubt alone is a pool resized."""
        return next(self._doubts(), "")

    def _doubts(self) -> Iterator[str]:
        yield from (need.message for need in self.evidence.needs_for_release(""))
        if self.evidence.unreadable_pods or self.evidence.unreadable_endpoints:
            yield "not every pod and endpoint can be read"
        owners: Mapping[Kind, Listing[Any]] = {
            VIRTUAL_MACHINES: self.snapshot.machines,
            VIRTUAL_MACHINE_INSTANCES: self.snapshot.machine_instances,
            **self.snapshot.holders,
        }
        for kind in (backend.pool_kind for backend in BACKENDS.values()):
            coverage = self.snapshot.coverage.get(kind, NotInstalled())
            yield from _faults(kind, coverage, self.snapshot.unreadable.get(kind, ()))
        for kind, listing in owners.items():
            yield from _faults(kind, listing.coverage, listing.unreadable)
        for pool in self._pools:
            yield from (f"pool {pool.ref.name}: {f.message}" for f in pool.flaws if f.kind == "RangeInvalid")


def _faults(kind: Kind, coverage: Coverage, unreadable: Iterable[Unreadable]) -> Iterator[str]:
    """What of a kind should have been read and was not."""
    if isinstance(coverage, Incomplete) and coverage.doubt is not Doubt.NOT_GIVEN:
        yield coverage.message
    yield from (f"{kind.kind} {broken.name} cannot be read: {broken.error}" for broken in unreadable)


def done_says(done: Done, marks: Watermarks) -> str:
    """One line for people."""
    if isinstance(done, Fixed):
        return f"{scarce(marks)}; {done.why}" if done.short else done.why
    step = done.plan
    if isinstance(step, Balanced | Exhausted):
        return done.why if isinstance(done, NotRebalanced) else step.why
    to = "added from the reserve" if isinstance(step, Extend) else "given back to the reserve"
    if isinstance(done, NotRebalanced):
        return f"{shown(step.addresses)} would be {to}, but {done.why}"
    more = "; it has no more" if isinstance(step, Extend) and step.short else ""
    return f"{step.addresses.size} addresses {to} ({shown(step.addresses)}){more}"


def shown(addresses: AddressSet) -> str:
    """Ranges for a message; of many the first few."""
    texts = [str(item) for item in addresses.ranges]
    return ", ".join(texts[:MOST_SHOWN]) + (f" and {len(texts) - MOST_SHOWN} more" if len(texts) > MOST_SHOWN else "")
