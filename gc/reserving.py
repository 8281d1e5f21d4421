"""Reservations beside records: taken away after their record, kept or made again for whoever took the address over.

Order: the record leaves its pool, then all pools of the network are read, then the reservation is deleted by uid and
resourceVersion, then the pools are read again. An ADD that takes a freed address over finds the old reservation under its
own pod's name and makes no new one: seen before the delete, the reservation stays; seen after it, it is made again. Where
we die before the delete, a reservation without a record is left, which blocks its address and is found again as
ReservationOrphan; after it, at worst a record without a reservation, which is told as ReservationMissing.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from poolwarden.cluster.interface import Failed, Incomplete, Outdated, Unread, Written
from poolwarden.gc.judge import judge
from poolwarden.gc.ledger import Entry, digest_of
from poolwarden.gc.live import Aside, Key, LiveReads
from poolwarden.gc.policy import Policies
from poolwarden.gc.repair import Done, NotDone, Repair, RepairOutcome
from poolwarden.ipam.inventory import NoReservations, Reservations
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record, RecordsUnreadable
from poolwarden.ipam.reservation import Reservation
from poolwarden.ipam.verdict import Action

A_MOMENT = 0.5
"""Seconds. An ADD writes its reservation this soon after its record: of two who make it, one fails."""
_Wait = Callable[[float], bool]


def unreserve(live: LiveReads, left: Sequence[tuple[PoolRef, Record]], wait: _Wait) -> Mapping[PoolRef, str]:
    """Take away the reservations of records that have just left their pools; for each pool what could not be done."""
    kinds = live.backend.reservations
    if isinstance(kinds, NoReservations) or not left:
        return {}
    aside = live.with_reservations()
    now = live.everything(aside)
    coverage = aside[kinds.kind].coverage
    if isinstance(now, Unread) or isinstance(coverage, Incomplete):
        why = now.message if isinstance(now, Unread) else getattr(coverage, "message", "")
        return dict.fromkeys((ref for ref, _ in left), f"the reservations stay: {why}")
    pools = {pool.ref: pool for pool in now.pools}
    by_place = {(item.namespace, item.name): item for item in now.reservations}
    recorded, unsure = _recorded(now.pools), _unsure(now.pools)
    doomed = {}
    for ref, record in left:
        if ref not in pools:
            continue
        namespace, body = kinds.reservation_for(pools[ref], record)
        found = by_place.get((namespace, body["metadata"]["name"]))
        # Under another name it is somebody else's; an address that is recorded again needs it.
        if found is None or found.owner != record.owner or found.network in unsure:
            continue
        if (found.network, found.address) not in recorded:
            doomed[ref, found.name] = found
    problems = _take_away(live, kinds, list(doomed.values()), aside, wait)
    return {ref: problems[found.name] for (ref, _), found in doomed.items() if found.name in problems}


def _take_away(
    live: LiveReads, kinds: Reservations, doomed: Sequence[Reservation], aside: Aside, wait: _Wait
) -> dict[str, str]:
    """Delete reservations, unless they have changed, and look after them; what could not be done, by name."""
    problems: dict[str, str] = {}
    for item in doomed:
        outcome = live.cluster.delete(
            kinds.kind,
            name=item.name,
            namespace=item.namespace,
            uid=item.uid,
            resource_version=item.resource_version,
        )
        if isinstance(outcome, Failed):
            problems[item.name] = f"its reservation could not be removed: {outcome.message}"
    return problems | _made_again(live, kinds, doomed, aside, wait) if doomed else problems


def _made_again(
    live: LiveReads, kinds: Reservations, doomed: Iterable[Reservation], aside: Aside, wait: _Wait
) -> dict[str, str]:
    """Make those reservations again whose owner took the address over meanwhile, or of which that is not known.

    `aside` tells which pools are of which network, and may be older. Another owner finds no reservation under its name,
    and makes its own.
    """
    now = live.everything(aside)
    if isinstance(now, Unread):
        needed = [(item, kinds.again(item)) for item in doomed]
    else:
        recorded, unsure = _recorded(now.pools), _unsure(now.pools)
        takers = [(item, recorded.get((item.network, item.address))) for item in doomed]
        needed = [(item, kinds.again(item)) for item, taker in takers if taker is None and item.network in unsure]
        needed += [
            (item, kinds.reservation_for(*taker)) for item, taker in takers if taker and taker[1].owner == item.owner
        ]
    if needed:
        wait(A_MOMENT)
    problems: dict[str, str] = {}
    for item, (namespace, body) in needed:
        outcome = live.cluster.create(kinds.kind, body, namespace=namespace)
        if not isinstance(outcome, Written | Outdated):
            said = outcome.message if isinstance(outcome, Failed) else "refused"
            problems[item.name] = f"its reservation is needed again, and could not be made: {said}"
    return problems


def _unsure(pools: Iterable[Pool]) -> frozenset[str]:
    """The networks of pools of which it is not certain what they record."""
    return frozenset(pool.network for pool in pools if pool.ambiguous or isinstance(pool.records, RecordsUnreadable))


def _recorded(pools: Iterable[Pool]) -> dict[tuple[str, str | None], tuple[Pool, Record]]:
    """Every recorded address of every network, with its pool and a record of it."""
    return {(pool.network, record.address): (pool, record) for pool in pools for record in pool.readable_records}


def reserve(live: LiveReads, ref: PoolRef, record: Record) -> Done | NotDone:
    """Make the reservation of a record that is about to be put back, where its network has such."""
    kinds = live.backend.reservations
    if isinstance(kinds, NoReservations):
        return Done()
    now = live.everything(live.with_reservations())
    if isinstance(now, Unread):
        return NotDone(now.message)
    pool = next((pool for pool in now.pools if pool.ref == ref), None)
    if pool is None:
        return NotDone(f"pool {ref.name} is gone")
    used = any(item.network == pool.network for item in now.reservations)
    empty = not any(other.readable_records for other in now.pools if other.network == pool.network)
    if not pool.reserves or not (used or empty):
        return Done()
    namespace, body = kinds.reservation_for(pool, record)
    name = body["metadata"]["name"]
    there = next((item for item in now.reservations if (item.namespace, item.name) == (namespace, name)), None)
    if there is not None:
        mine = there.owner == record.owner
        return Done() if mine else NotDone(f"the address is reserved for {_owner_name(there)}")
    outcome = live.cluster.create(kinds.kind, body, namespace=namespace)
    if isinstance(outcome, Written):
        return Done()
    return NotDone(f"its reservation could not be made: {getattr(outcome, 'message', 'refused')}")


def _owner_name(reservation: Reservation) -> str:
    owner = reservation.owner
    return f"{owner.namespace}/{owner.name}" if isinstance(owner, ClaimedOwner) else "an owner that cannot be read"


def mend_reservation(
    live: LiveReads,
    policies: Policies,
    ref: PoolRef,
    entry: Entry,
    key: Key,
    ask: Callable[[PoolRef], str],
    *,
    wait: _Wait,
) -> Repair:
    """Take away a reservation (namespace, name) without a record, once live reads confirm what the entry says of it.

    `ask` says why the pool must not be written now ("" if it may).
    """
    kinds = live.backend.reservations
    aside = live.with_reservations()
    now = live.everything(aside)
    if isinstance(now, Unread) or isinstance(kinds, NoReservations):
        why = now.message if isinstance(now, Unread) else f"{ref.ipam} has no reservations"
        return Repair(entry, RepairOutcome.DEFERRED, why)
    found = next((item for item in now.reservations if (item.namespace, item.name) == key), None)
    if found is None:
        return Repair(entry, RepairOutcome.KEPT, "the reservation is gone")
    owners = {(found.owner.namespace, found.owner.name)} if isinstance(found.owner, ClaimedOwner) else set()
    snapshot = live.snapshot(now, owners, (), aside)
    if not snapshot.pods.items:
        return Repair(entry, RepairOutcome.DEFERRED, "no pod at all was read, which is taken for a misreading")
    findings = judge(snapshot, policies, live.cluster.now())
    finding = next((f for f in findings if digest_of(f) == entry.record_digest and f.reason == entry.reason), None)
    if finding is None or finding.action is not Action.REPAIR:
        return Repair(entry, RepairOutcome.KEPT, finding.message if finding else "the reservation has changed")
    objection = ask(ref)
    if objection:
        return Repair(entry, RepairOutcome.DEFERRED, objection)
    problems = _take_away(live, kinds, [found], aside, wait)
    if problems:
        return Repair(entry, RepairOutcome.FAILED, problems[found.name])
    return Repair(entry, RepairOutcome.REPAIRED, finding.message)
