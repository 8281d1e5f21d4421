"""Taking records out of a pool: condemned by live reads, under compare-and-swap, verified, and put back if wrong.

Every entry that comes here was marked Releasing, and the mark persisted. Order of one try: the pool is read; then the
owners, their endpoints, what may retain them and the nodes; the same judge that nominated the records judges them
again on that evidence alone; endpoints go first; then one write takes all approved records out of the pool, naming what
was read; reservations go last. Where we die between any two of these calls, a record is left that is found again: an
endpoint never outlives its record, and a reservation without a record blocks its address until it is found.

An IPAM that hands an owner of the same name its record without a write (`Backend.hiding`) is released from in two steps:
when cooldown begins the record is hidden under compare-and-swap, and its owner read again; only a hidden one is taken out.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum

import msgspec
from msgspec import Struct

from poolwarden.cluster.interface import (
    Absent,
    Deleted,
    Failed,
    Found,
    Outdated,
    Unread,
    WriteOutcome,
    Written,
)
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.judge import judge
from poolwarden.gc.ledger import Entry
from poolwarden.gc.live import Aside, Key, LiveReads
from poolwarden.gc.pacing import VERIFY, WRITE, tries
from poolwarden.gc.policy import Policies
from poolwarden.gc.repair import Done, NotDone, remove_endpoint, take_out, write
from poolwarden.gc.reserving import reserve, unreserve
from poolwarden.gc.snapshot import Snapshot
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.inventory import Hiding, Inventory, NoHiding, Stale
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record, RecordsUnreadable
from poolwarden.ipam.verdict import Action, Finding, Reason, Verdict

RECENT_MARK = timedelta(minutes=15)
"""Three sweeps: a mark this young was set by the sweep that died, and what happened since is its doing."""


class Outcome(StrEnum):
    """What became of a marked record."""

    RELEASED = "Released"
    HIDDEN = "Hidden"  # marked in its pool, so that its cooldown can begin
    GONE = "Gone"  # the record had changed or was not there any more
    KEPT = "Kept"  # the live reads say otherwise: the clock starts anew
    DEFERRED = "Deferred"  # the live reads could not tell, or the pool's guard has changed: the clock stands
    RESTORED = "Restored"  # taken out, and put back since the owner turned out to live
    UNVERIFIED = "Unverified"  # taken out, perhaps, but what came of it could not be read: the mark stays
    FAILED = "Failed"


class Result(Struct, frozen=True):
    """One marked record's fate.

    `raw` is the record as it was taken out; `unread` tells that a read failed, `left` what beside it could not be done.
    """

    entry: Entry
    outcome: Outcome
    message: str
    raw: bytes = b""
    unread: bool = False
    left: str = ""


class Kept(Struct, frozen=True):
    """What has a record that is not being released: endpoints of such a UID, or with such an address, must not go whole."""

    uids: frozenset[str]
    addresses: frozenset[str]


class Objection(Struct, frozen=True):
    """Why a pool must not be written now, though it was marked; `unread` if its guard could not be read."""

    why: str
    unread: bool = False


NO_OBJECTION = Objection("")
Asks = Callable[[PoolRef], Objection]
"""Asks a pool's guard once more, straight before a write."""


class _Case(Struct, frozen=True):
    """A marked record that the live reads condemned again."""

    entry: Entry
    record: Record
    finding: Finding


class _Live(Struct, frozen=True):
    """A pool as read straight before a release: its text, its marked records, and the evidence on their owners."""

    ref: PoolRef
    raw: bytes
    records: Mapping[str, Record]
    snapshot: Snapshot
    aside: Aside


class _Attempt(Struct, frozen=True):
    """What one try settled, and which entries need another one."""

    results: tuple[Result, ...]
    left: tuple[Entry, ...] = ()
    why: str = ""


class Releaser:
    """Releases of one sweep, for one IPAM.

    `wait` sleeps that many seconds and says whether the program stops.
    """

    def __init__(
        self,
        live: LiveReads,
        policies: Policies,
        kept: Kept,
        ask: Asks,
        wait: Callable[[float], bool],
    ) -> None:
        self.live = live
        self.policies = policies
        self.kept = kept
        self.ask = ask
        self.wait = wait

    def release(self, ref: PoolRef, entries: Sequence[Entry], beside: Iterable[PoolRef] = ()) -> list[Result]:
        """Take the marked records out of a pool. `beside` are pools that share addresses with it: they are read again."""
        left = list(entries)
        results: list[Result] = []
        why = "the program is stopping"
        for _ in tries(WRITE, self.wait):
            attempt = self._attempt(ref, left, tuple(beside))
            results += attempt.results
            left, why = list(attempt.left), attempt.why
            if not left:
                return results
        return results + [Result(entry, Outcome.FAILED, why) for entry in left]

    def _attempt(self, ref: PoolRef, entries: Sequence[Entry], beside: Sequence[PoolRef]) -> _Attempt:
        live = self._read(ref, entries, beside)
        if isinstance(live, _Attempt):
            return live
        results, condemned = self._condemn(live, entries)
        objection = self.ask(ref) if condemned else NO_OBJECTION
        if objection.why:
            deferred = (Result(c.entry, Outcome.DEFERRED, objection.why, unread=objection.unread) for c in condemned)
            return _Attempt((*results, *deferred))
        ready, blocked = self._clear_endpoints(live, condemned)
        results += blocked
        if not ready:
            return _Attempt(tuple(results))
        hiding = self.live.backend.hiding
        if not isinstance(hiding, NoHiding) and not all(case.record.hidden for case in ready):
            attempt = self._hide(hiding, live, ready)
            return _Attempt((*results, *attempt.results), attempt.left, attempt.why)
        left = tuple(case.entry for case in ready)
        change = self.live.backend.without_records(live.raw, [case.record for case in ready])
        if isinstance(change, Stale):
            return _Attempt(tuple(results), left, change.message)
        outcome = write(self.live, change)
        if isinstance(outcome, Outdated):
            return _Attempt(tuple(results), left, outcome.message)
        return _Attempt((*results, *self._settled(live, ready, outcome)))

    def _settled(self, live: _Live, ready: Sequence[_Case], outcome: WriteOutcome) -> list[Result]:
        match outcome:
            case Written(raw):
                return self._verified(live.ref, ready, self.live.decoded_pool(raw))
            case Failed(message=message, uncertain=True):
                return self._after_doubt(live, ready, message)
            case Failed(message=message) | Outdated(message):
                return [Result(case.entry, Outcome.FAILED, message) for case in ready]
            case Absent() | Deleted():
                return [Result(case.entry, Outcome.GONE, "the pool is gone") for case in ready]

    # --- hiding first, where an IPAM needs it ---------------------------------------------------------------------

    def _hide(self, hiding: Hiding, live: _Live, ready: Sequence[_Case]) -> _Attempt:
        """Mark records, then read their owners again: one that was there all the time gets its record back."""
        bare = [case for case in ready if not case.record.hidden]
        results = [
            Result(case.entry, Outcome.DEFERRED, "a pool is written once a sweep")
            for case in ready
            if case.record.hidden
        ]
        left = tuple(case.entry for case in bare)
        change = hiding.hide(live.raw, [case.record for case in bare])
        if isinstance(change, Stale):
            return _Attempt(tuple(results), left, change.message)
        match write(self.live, change):
            case Outdated(message):
                return _Attempt(tuple(results), left, message)
            case Written(raw):
                return _Attempt((*results, *self._hidden(live, bare, raw)))
            case Failed(message=message, uncertain=uncertain):
                # If it was made after all, its cooldown must not be shorter for it: the mark tells when it began.
                outcome = Outcome.UNVERIFIED if uncertain else Outcome.FAILED
                return _Attempt((*results, *(Result(case.entry, outcome, message) for case in bare)))
            case Absent() | Deleted():
                return _Attempt((*results, *(Result(case.entry, Outcome.GONE, "the pool is gone") for case in bare)))

    def _hidden(self, live: _Live, cases: Sequence[_Case], raw: bytes) -> list[Result]:
        """What became of records that were just marked. The mark alone does no harm, so doubt leaves it."""
        pool = self.live.decoded_pool(raw, live.aside)
        keys = _owner_keys(case.record for case in cases)
        nodes = {case.entry.node for case in cases}
        findings = self._judged(self.live.snapshot(Inventory(live.ref.ipam, (pool,)), keys, nodes, live.aside))
        needed = {
            case.record.digest: finding.message
            for case in cases
            if (finding := findings.get((live.ref, case.record.digest))) is not None
            and finding.verdict is Verdict.IN_USE
        }
        back = self.show(live.ref, [case.record for case in cases if case.record.digest in needed])
        return [self._hidden_result(case, needed.get(case.record.digest, ""), back) for case in cases]

    @staticmethod
    def _hidden_result(case: _Case, needed: str, back: Done | NotDone) -> Result:
        if not needed:
            return Result(case.entry, Outcome.HIDDEN, case.finding.message)
        if isinstance(back, Done):
            return Result(case.entry, Outcome.RESTORED, needed, case.record.raw)
        return Result(
            case.entry, Outcome.UNVERIFIED, f"its mark should be taken off ({needed}), but was not: {back.why}"
        )

    def show(self, ref: PoolRef, records: Sequence[Record]) -> Done | NotDone:
        """Take our mark off records that are needed after all."""
        hiding = self.live.backend.hiding
        if not records or isinstance(hiding, NoHiding):
            return Done()
        why = "the program is stopping"
        for _ in tries(WRITE, self.wait):
            found = self.live.pool(ref)
            if isinstance(found, Absent):
                return Done()
            if isinstance(found, Unread):
                why = found.message
                continue
            change = hiding.show(found.raw, records)
            if isinstance(change, Stale):
                return NotDone(change.message)
            match write(self.live, change):
                case Written() | Absent() | Deleted():
                    return Done()
                case Outdated(message) | Failed(message=message):
                    why = message
        return NotDone(why)

    # --- live reads -----------------------------------------------------------------------------------------------

    def _read(self, ref: PoolRef, entries: Sequence[Entry], beside: Sequence[PoolRef]) -> _Live | _Attempt:
        found = self.live.pool(ref)
        if isinstance(found, Absent) or (isinstance(found, Found) and self._another(ref, found.raw)):
            return _Attempt(tuple(Result(entry, Outcome.GONE, "the pool is gone") for entry in entries))
        others = [self.live.pool(other) for other in beside]
        unread = [read.message for read in (found, *others) if isinstance(read, Unread)]
        if isinstance(found, Unread) or unread:
            return _Attempt(tuple(Result(entry, Outcome.DEFERRED, unread[0], unread=True) for entry in entries))
        items = [found.item, *(other.item for other in others if isinstance(other, Found))]
        aside = self.live.aside()
        inventory = self.live.inventory(items, aside)
        pool = inventory.pools[0]
        wanted = {entry.record_digest for entry in entries}
        records = {record.digest: record for record in pool.readable_records if record.digest in wanted}
        addresses = {record.address for record in records.values()}
        # Another pool's record of the same address is judged as well, so its owner must be known as well.
        same = [record for each in inventory.pools for record in each.readable_records if record.address in addresses]
        nodes = {entry.node for entry in entries}
        snapshot = self.live.snapshot(inventory, _owner_keys(same), nodes, aside)
        return _Live(ref, found.raw, records, snapshot, aside)

    def _another(self, ref: PoolRef, raw: bytes) -> bool:
        """Whether a pool was deleted and made anew since it was judged: its records were not."""
        judged = (pool for inventory in self.live.nominated_by.inventories for pool in inventory.pools)
        return all(pool.uid != self.live.decoded_pool(raw).uid for pool in judged if pool.ref == ref)

    def _condemn(self, live: _Live, entries: Sequence[Entry]) -> tuple[list[Result], list[_Case]]:
        """Those entries whose record is unchanged and whose verdict and reason still hold; the others' fate."""
        if not live.snapshot.pods.items:
            nobody = "no pod at all was read, which is taken for a misreading"
            return [Result(entry, Outcome.DEFERRED, nobody, unread=True) for entry in entries], []
        findings = self._judged(live.snapshot)
        results: list[Result] = []
        condemned: list[_Case] = []
        for entry in entries:
            record = live.records.get(entry.record_digest)
            finding = findings.get((live.ref, entry.record_digest))
            if record is None or finding is None:
                results.append(Result(entry, Outcome.GONE, "the record has changed or is gone"))
            elif finding.action is Action.RELEASE and finding.reason == entry.reason:
                condemned.append(_Case(entry, record, finding))
            else:
                outcome = Outcome.DEFERRED if finding.verdict is Verdict.UNKNOWN else Outcome.KEPT
                unread = finding.reason is Reason.EVIDENCE_INCOMPLETE
                said = f"{finding.verdict} ({finding.reason}): {finding.message}"
                results.append(Result(entry, outcome, said, unread=unread))
        return results, condemned

    def _judged(self, snapshot: Snapshot) -> dict[tuple[PoolRef, str], Finding]:
        findings = judge(snapshot, self.policies, self.live.cluster.now())
        return {(finding.pool, finding.record_digest): finding for finding in findings if finding.record_digest}

    # --- endpoints first ------------------------------------------------------------------------------------------

    def _clear_endpoints(self, live: _Live, condemned: Sequence[_Case]) -> tuple[list[_Case], list[Result]]:
        """Take condemned addresses out of their owners' endpoints; what cannot be taken out is not released."""
        endpoints = {e.key: e for inventory in live.snapshot.inventories for e in inventory.endpoints}
        by_endpoint: dict[Key, list[_Case]] = {}
        ready: list[_Case] = []
        blocked: list[Result] = []
        for case in condemned:
            endpoint = endpoints.get(_owner_key(case.record))
            if (
                endpoint is None
                or endpoint.owner_uid != case.record.uid
                or case.finding.reason is Reason.SURPLUS_FOR_OWNER
            ):
                ready.append(case)
            else:
                by_endpoint.setdefault(endpoint.key, []).append(case)
        evidence = Evidence(live.snapshot, self.live.backend, self.live.cluster.now()) if by_endpoint else None
        for key, cases in by_endpoint.items():
            assert evidence is not None
            match self._clear(evidence, live.ref, endpoints[key], cases):
                case Done():
                    ready += cases
                case NotDone(why):
                    blocked += [Result(case.entry, Outcome.FAILED, why) for case in cases]
        return ready, blocked

    def _clear(self, evidence: Evidence, acting: PoolRef, endpoint: Endpoint, cases: Sequence[_Case]) -> Done | NotDone:
        """Remove an endpoint whole if nothing that it lists stays, and every other pool agrees; else these items."""
        running = any(case.finding.reason is Reason.NEVER_ATTACHED for case in cases)
        listed = {item.address for item in endpoint.addresses}
        refs = {pool.ref for pool in evidence.pools if any(item.pool == pool.ref.name for item in endpoint.addresses)}
        whole = (
            not running
            and endpoint.owner_uid not in self.kept.uids
            and not listed & self.kept.addresses
            and not any(s.uid != endpoint.owner_uid for address in listed for s in evidence.shown.get(address, ()))
            and not any(self.ask(ref).why for ref in sorted(refs - {acting}))
        )
        if whole:
            return remove_endpoint(self.live, endpoint)
        addresses = {case.record.address for case in cases if case.record.address is not None}
        return take_out(self.live, endpoint, addresses) if listed & addresses else Done()

    # --- verify ---------------------------------------------------------------------------------------------------

    def _after_doubt(self, live: _Live, ready: Sequence[_Case], message: str) -> list[Result]:
        """A write whose fate is unknown: read the pool until it tells."""
        for _ in tries(VERIFY, self.wait):
            found = self.live.pool(live.ref)
            if isinstance(found, Absent):
                return [Result(case.entry, Outcome.GONE, "the pool is gone") for case in ready]
            if isinstance(found, Found):
                still = f"{message}; the record is still there, but the write may yet land"
                return self._verified(live.ref, ready, self.live.decoded_pool(found.raw), Outcome.UNVERIFIED, still)
        return [
            Result(case.entry, Outcome.UNVERIFIED, f"{message}; whether it was made is not known") for case in ready
        ]

    def _verified(
        self,
        ref: PoolRef,
        ready: Sequence[_Case],
        pool: Pool,
        otherwise: Outcome = Outcome.FAILED,
        still: str = "the record is still there after the write",
    ) -> list[Result]:
        """What the write left: gone is gone, but an owner that lives after all gets its record back."""
        if isinstance(pool.records, RecordsUnreadable):
            return [Result(case.entry, Outcome.UNVERIFIED, pool.records.problem) for case in ready]
        there = {record.digest for record in pool.records}
        results = [Result(case.entry, otherwise, still) for case in ready if case.record.digest in there]
        gone = [case for case in ready if case.record.digest not in there]
        messages = {case.record.digest: case.finding.message for case in gone}
        return results + self.settle(ref, [(case.entry, case.record) for case in gone], messages)

    def settle(self, ref: PoolRef, gone: Sequence[tuple[Entry, Record]], messages: Mapping[str, str]) -> list[Result]:
        """What becomes of records that have left a pool, once it and their owners have been read again."""
        if not gone:
            return []
        fates: dict[str, _Fate] = {}
        for _ in tries(VERIFY, self.wait):
            fates = self._fates(ref, gone)
            if not any(isinstance(fate, _Unclear) for fate in fates.values()):
                break
        results: list[Result] = []
        out: list[Record] = []
        for entry, record in gone:
            match fates.get(record.digest, _Unclear("the program is stopping")):
                case _StaysOut():
                    out.append(record)
                    results.append(Result(entry, Outcome.RELEASED, messages[record.digest], record.raw))
                case _Unclear(why):
                    results.append(Result(entry, Outcome.UNVERIFIED, f"taken out, but not verified: {why}"))
                case _ComesBack(why):
                    results.append(self._put_back(ref, entry, record, why))
        left = unreserve(self.live, ref, out)
        told = next((at for at, result in enumerate(results) if result.outcome is Outcome.RELEASED), 0)
        return [
            msgspec.structs.replace(item, left=left) if at == told and left else item for at, item in enumerate(results)
        ]

    def _fates(self, ref: PoolRef, gone: Sequence[tuple[Entry, Record]]) -> "dict[str, _Fate]":
        """The same judge, as if the records were still there: who would need one of them?"""
        found = self.live.pool(ref)
        if isinstance(found, Unread):
            return {record.digest: _Unclear(found.message) for _, record in gone}
        if isinstance(found, Absent) or self._another(ref, found.raw):
            return {record.digest: _StaysOut() for _, record in gone}
        aside = self.live.aside()
        pool = self.live.decoded_pool(found.raw, aside)
        if isinstance(pool.records, RecordsUnreadable):
            return {record.digest: _Unclear(pool.records.problem) for _, record in gone}
        taken = {record.address for record in pool.readable_records}
        virtual = msgspec.structs.replace(pool, records=(*pool.readable_records, *(record for _, record in gone)))
        nodes = {entry.node for entry, _ in gone}
        keys = _owner_keys(record for _, record in gone)
        snapshot = self.live.snapshot(Inventory(ref.ipam, (virtual,)), keys, nodes, aside, as_judged=False)
        findings = self._judged(snapshot)
        evidence = Evidence(snapshot, self.live.backend, self.live.cluster.now())
        fates: dict[str, _Fate] = {}
        for entry, record in gone:
            finding = findings.get((ref, record.digest))
            address = record.address or ""
            if finding is None or finding.reason is Reason.EVIDENCE_INCOMPLETE:
                fates[record.digest] = _Unclear(finding.message if finding else "it could not be judged")
            elif record.address in taken:
                fates[record.digest] = _StaysOut()  # handed out again: there is nothing to put back
            elif entry.reason in {Reason.NEVER_ATTACHED, Reason.SURPLUS_FOR_OWNER}:
                # Their owner lives anyway; what would need the record is a NIC or an endpoint that has the address.
                used = evidence.shown.get(address) or evidence.listed.get(address)
                fates[record.digest] = _ComesBack(f"{address} is in use") if used else _StaysOut()
            elif finding.action is Action.RELEASE or (self._stale(entry) and finding.verdict is not Verdict.IN_USE):
                fates[record.digest] = _StaysOut()
            else:
                fates[record.digest] = _ComesBack(finding.message)
        return fates

    def _stale(self, entry: Entry) -> bool:
        """Whether a mark is so old that its record may have gone by its IPAM's own doing, long before its owner's return."""
        return self.live.cluster.now() - entry.last_counted > RECENT_MARK

    def _put_back(self, ref: PoolRef, entry: Entry, record: Record, why: str) -> Result:
        """Restore a record that somebody needs, unless the operator has said stop meanwhile: then the mark waits."""
        objection = self.ask(ref)
        if objection.why:
            return Result(entry, Outcome.UNVERIFIED, f"it should be put back ({why}), but {objection.why}")
        match restore(self.live, ref, record.address or record.key, record.raw, self.wait):
            case Done():
                return Result(entry, Outcome.RESTORED, why, record.raw)
            case NotDone(problem):
                return Result(entry, Outcome.UNVERIFIED, f"it should be put back ({why}), but could not be: {problem}")


class _StaysOut(Struct, frozen=True, tag=True):
    """Nobody needs the record."""


class _ComesBack(Struct, frozen=True, tag=True):
    """Somebody does, and why."""

    why: str


class _Unclear(Struct, frozen=True, tag=True):
    """What decides could not be read."""

    why: str


_Fate = _StaysOut | _ComesBack | _Unclear


def restore(
    live: LiveReads, ref: PoolRef, address: str, record: bytes, wait: Callable[[float], bool]
) -> Done | NotDone:
    """Put a released record back into its pool while the address has none."""
    # Before the record: an address without a reservation may be handed out by another pool of its network.
    reserved = reserve(live, ref, live.backend.record(address, record))
    return reserved if isinstance(reserved, NotDone) else _record_again(live, ref, address, record, wait)


def _record_again(
    live: LiveReads, ref: PoolRef, address: str, record: bytes, wait: Callable[[float], bool]
) -> Done | NotDone:
    why = "the program is stopping"
    uncertain = False
    for _ in tries(WRITE, wait):
        found = live.pool(ref)
        if isinstance(found, Absent):
            return NotDone(f"pool {ref.name} is gone")
        if isinstance(found, Unread):
            why = found.message
            continue
        if uncertain and any(_is(r, address, record) for r in live.decoded_pool(found.raw).readable_records):
            return Done()  # our own write, whose answer was lost
        change = live.backend.with_record(found.raw, ref, address, record)
        if isinstance(change, Stale):
            return NotDone(change.message)
        match write(live, change):
            case Written():
                return Done()
            case Outdated(message):
                why = message
            case Failed(message=message, uncertain=lost):
                why, uncertain = message, uncertain or lost
            case Absent() | Deleted():
                return NotDone(f"pool {ref.name} is gone")
    return NotDone(why)


def _is(record: Record, address: str, raw: bytes) -> bool:
    """Whether a record is that of the address, and says the same (the API server may order its members otherwise)."""
    return record.address == address and msgspec.json.decode(record.raw) == msgspec.json.decode(raw)


def _owner_key(record: Record) -> Key:
    owner = record.owner
    return (owner.namespace, owner.name) if isinstance(owner, ClaimedOwner) else ("", "")


def _owner_keys(records: Iterable[Record]) -> set[Key]:
    return {key for key in map(_owner_key, records) if key != ("", "")}
