"""Taking records out of a pool: condemned by live reads, under compare-and-swap, verified, and put back if wrong.

Every entry that comes here was marked Releasing, and the mark persisted. Order of one try: the pool is read; then the
owners, their endpoints, what may retain them and the nodes; the same judge that nominated the records judges them
again on that evidence alone; endpoints go first; then one write takes all approved records out of the pool, naming what
was read; reservations go last. Where we die between any two of these calls, a record is left that is found again: an
endpoint never outlives its record, and a reservation without a record blocks its address until it is found.

An IPAM that hands an owner of the same name its record without a write (`Backend.hiding`) is released from in two steps:
when cooldown begins the record is hidden under compare-and-swap, and its owner read again; only a hidden one is taken out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from functools import partial
from typing import Any, TypeVar

import msgspec
import structlog
from msgspec import Struct

from poolwarden.cluster.interface import (
    Absent,
    Deleted,
    Failed,
    Found,
    Outdated,
    Unread,
    Written,
)
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.judge import judge
from poolwarden.gc.ledger import Entry
from poolwarden.gc.live import Aside, Key, LiveReads
from poolwarden.gc.pacing import Backoffs, tries
from poolwarden.gc.policy import Policies
from poolwarden.gc.repair import Done, NotDone, remove_endpoint, take_out, write
from poolwarden.gc.reserving import reserve, unreserve
from poolwarden.gc.snapshot import Snapshot
from poolwarden.gc.timing import UNTIMED, Step, StepOutcome, Timers
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.inventory import Hiding, Inventory, NoHiding, Stale
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record, RecordsUnreadable
from poolwarden.ipam.verdict import Action, Finding, Reason, Verdict

log = structlog.get_logger()

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

    `raw` is the record as it was taken out; `unread` tells that a read failed or was not made, `left` what beside it could not be done.
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
Wait = Callable[[float], bool]
"""Sleeps that many seconds and says whether the program stops."""
Asks = Callable[[PoolRef], Objection]
"""Asks a pool's guard once more, straight before a write."""


class Task(Struct, frozen=True):
    """The marked records of one pool. `beside` are pools that share addresses with it: they are read again with it."""

    ref: PoolRef
    entries: tuple[Entry, ...]
    beside: tuple[PoolRef, ...] = ()


class _Case(Struct, frozen=True):
    """A marked record that the live reads condemned again."""

    entry: Entry
    record: Record
    finding: Finding


class Taken(Struct, frozen=True):
    """A record that has left its pool; `message` says why it might."""

    ref: PoolRef
    entry: Entry
    record: Record
    message: str


class _Read(Struct, frozen=True):
    """A pool as read straight before a release: its text, and its decoded object with those of the pools beside it."""

    task: Task
    raw: bytes
    items: tuple[Any, ...]


class _Live(Struct, frozen=True):
    """Several pools as just read: the evidence on the owners of their marked records, and what the judge says of them."""

    pools: Mapping[PoolRef, Pool]
    aside: Aside
    snapshot: Snapshot
    findings: Mapping[tuple[PoolRef, str], Finding]


class _Attempt(Struct, frozen=True):
    """What one try settled for a pool, which records left it, and which entries need another try."""

    results: tuple[Result, ...] = ()
    taken: tuple[Taken, ...] = ()
    left: tuple[Entry, ...] = ()
    why: str = ""


_Step = TypeVar("_Step")


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
        backoffs: Backoffs = Backoffs(),  # noqa: B008 - frozen
        timers: Timers = UNTIMED,
    ) -> None:
        self.live = live
        self.timers = timers
        self.policies = policies
        self.kept = kept
        self.ask = ask
        self.wait = wait
        self.backoffs = backoffs

    def release(self, tasks: Sequence[Task]) -> dict[PoolRef, list[Result]]:
        """Take the marked records out of their pools, one write a pool; who owns them is read once for all."""
        left, why = list(tasks), dict.fromkeys((task.ref for task in tasks), "the program is stopping")
        results: dict[PoolRef, list[Result]] = {task.ref: [] for task in tasks}
        for turn in tries(self.backoffs.write, self.wait):
            try:
                attempts = self._attempt(left)
            except Exception as error:
                if not turn:
                    raise  # nothing was written yet
                log.exception("releasing again failed")
                why |= dict.fromkeys(why, f"a defect of poolwarden: {type(error).__name__}: {error}")
                break
            for ref, attempt in attempts.items():
                results[ref] += attempt.results
                why[ref] = attempt.why
            left = [msgspec.structs.replace(t, entries=e) for t in left if (e := attempts[t.ref].left)]
            if not left:
                break
        for task in left:
            results[task.ref] += [Result(entry, Outcome.FAILED, why[task.ref]) for entry in task.entries]
        return results

    def _attempt(self, tasks: Sequence[Task]) -> dict[PoolRef, _Attempt]:
        reads = {task.ref: self._alone(task, partial(self._read, task)) for task in tasks}
        attempts = {ref: read for ref, read in reads.items() if isinstance(read, _Attempt)}
        pools = [read for read in reads.values() if isinstance(read, _Read)]
        if pools:
            live = self._look(pools)
            attempts |= {read.task.ref: self._alone(read.task, partial(self._write, read, live)) for read in pools}
        taken = [item for attempt in attempts.values() for item in attempt.taken]
        try:
            settled = self.settle(taken)
        except Exception as error:
            log.exception("verifying failed")
            why = f"taken out, but not verified, by a defect of poolwarden: {type(error).__name__}: {error}"
            settled = {item.ref: [] for item in taken}
            for item in taken:
                settled[item.ref].append(Result(item.entry, Outcome.UNVERIFIED, why))
        for ref, results in settled.items():
            attempt = attempts[ref]
            attempts[ref] = msgspec.structs.replace(attempt, results=(*attempt.results, *results))
        return attempts

    def _alone(self, task: Task, step: Callable[[], _Step]) -> _Step | _Attempt:
        """One pool's part of a try; a defect of ours in it is that pool's problem, and no other's."""
        if self.wait(0):
            stopping = "the program is stopping"
            return _Attempt(tuple(Result(entry, Outcome.DEFERRED, stopping, unread=True) for entry in task.entries))
        try:
            return step()
        except Exception as error:
            log.exception("release failed", pool=task.ref.name)
            why = f"a defect of poolwarden: {type(error).__name__}: {error}"
            return _Attempt(tuple(Result(entry, Outcome.UNVERIFIED, why) for entry in task.entries))

    def _write(self, read: _Read, live: _Live) -> _Attempt:
        ref = read.task.ref
        results, condemned = self._condemn(ref, live, read.task.entries)
        objection = self.ask(ref) if condemned else NO_OBJECTION
        if objection.why:
            deferred = (Result(c.entry, Outcome.DEFERRED, objection.why, unread=objection.unread) for c in condemned)
            return _Attempt((*results, *deferred))
        ready, blocked = self._clear_endpoints(ref, live, condemned)
        results += blocked
        if not ready:
            return _Attempt(tuple(results))
        hiding = self.live.backend.hiding
        if not isinstance(hiding, NoHiding):
            now = self.live.cluster.now()
            # Marked to be hidden, and another process did so meanwhile: its cooldown is still before it.
            early = [case for case in ready if case.record.hidden and later_than(case.entry.due_at, now)]
            results += [Result(case.entry, Outcome.DEFERRED, "it was hidden just now") for case in early]
            ready = [case for case in ready if case not in early]
            if not ready:
                return _Attempt(tuple(results))
        if isinstance(hiding, NoHiding) or all(case.record.hidden for case in ready):
            attempt = self._take_out(read, ready)
        else:
            attempt = self._hide(hiding, read, live, ready)
        return msgspec.structs.replace(attempt, results=(*results, *attempt.results))

    def _take_out(self, read: _Read, ready: Sequence[_Case]) -> _Attempt:
        left = tuple(case.entry for case in ready)
        change = self.live.backend.without_records(read.raw, [case.record for case in ready])
        if isinstance(change, Stale):
            return _Attempt(left=left, why=change.message)
        match write(self.live, change):
            case Written(raw):
                return self._verified(read.task.ref, ready, self.live.decoded_pool(raw))
            case Outdated(message):
                return _Attempt(left=left, why=message)
            case Failed(message=message, uncertain=True):
                return self._after_doubt(read.task.ref, ready, message)
            case Failed(message=message):
                return _Attempt(tuple(Result(case.entry, Outcome.FAILED, message) for case in ready))
            case Absent() | Deleted():
                return _Attempt(tuple(Result(case.entry, Outcome.GONE, "the pool is gone") for case in ready))

    # --- hiding first, where an IPAM needs it ---------------------------------------------------------------------

    def _hide(self, hiding: Hiding, read: _Read, live: _Live, ready: Sequence[_Case]) -> _Attempt:
        """Mark records, then read their owners again: one that was there all the time gets its record back."""
        bare = [case for case in ready if not case.record.hidden]
        results = [
            Result(case.entry, Outcome.DEFERRED, "a pool is written once a sweep")
            for case in ready
            if case.record.hidden
        ]
        left = tuple(case.entry for case in bare)
        change = hiding.hide(read.raw, [case.record for case in bare])
        if isinstance(change, Stale):
            return _Attempt(tuple(results), left=left, why=change.message)
        match write(self.live, change):
            case Outdated(message):
                return _Attempt(tuple(results), left=left, why=message)
            case Written(raw):
                return _Attempt((*results, *self._hidden(read.task.ref, live, bare, raw)))
            case Failed(message=message, uncertain=uncertain):
                # If it was made after all, its cooldown must not be shorter for it: the mark tells when it began.
                outcome = Outcome.UNVERIFIED if uncertain else Outcome.FAILED
                return _Attempt((*results, *(Result(case.entry, outcome, message) for case in bare)))
            case Absent() | Deleted():
                return _Attempt((*results, *(Result(case.entry, Outcome.GONE, "the pool is gone") for case in bare)))

    def _hidden(self, ref: PoolRef, live: _Live, cases: Sequence[_Case], raw: bytes) -> list[Result]:
        """What became of records that were just marked. The mark alone does no harm, so doubt leaves it."""
        pool = self.live.decoded_pool(raw, live.aside)
        keys = _owner_keys(case.record for case in cases)
        nodes = {case.entry.node for case in cases}
        findings = self._judged(self.live.snapshot(Inventory(ref.ipam, (pool,)), keys, nodes, live.aside))
        needed = {
            case.record.digest: finding.message
            for case in cases
            if (finding := findings.get((ref, case.record.digest))) is not None and finding.verdict is Verdict.IN_USE
        }
        back = self.show(ref, [case.record for case in cases if case.record.digest in needed])
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
        for _ in tries(self.backoffs.write, self.wait):
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

    def _read(self, task: Task) -> _Read | _Attempt:
        ref = task.ref
        found = self.live.pool(ref)
        if isinstance(found, Absent) or (isinstance(found, Found) and self._another(ref, found.raw)):
            return _Attempt(tuple(Result(entry, Outcome.GONE, "the pool is gone") for entry in task.entries))
        others = [self.live.pool(other) for other in task.beside]
        unread = [read.message for read in (found, *others) if isinstance(read, Unread)]
        if isinstance(found, Unread) or unread:
            return _Attempt(tuple(Result(entry, Outcome.DEFERRED, unread[0], unread=True) for entry in task.entries))
        beside = (other.item for other in others if isinstance(other, Found))
        return _Read(task, found.raw, (found.item, *beside))

    def _look(self, reads: Sequence[_Read]) -> _Live:
        """Read, after the pools, all that decides on their marked records, and judge."""
        aside = self.live.aside()
        # Of a pool that also stands beside another one, the read counts whose text will be written.
        items = {_name_of(item): item for read in reads for item in read.items}
        items |= {_name_of(read.items[0]): read.items[0] for read in reads}
        inventory = self.live.inventory(items.values(), aside)
        pools = {pool.ref: pool for pool in inventory.pools}
        wanted = {(read.task.ref, entry.record_digest) for read in reads for entry in read.task.entries}
        addresses = {
            record.address
            for pool in inventory.pools
            for record in pool.readable_records
            if (pool.ref, record.digest) in wanted
        }
        # Another pool's record of the same address is judged as well, so its owner must be known as well.
        same = [record for each in inventory.pools for record in each.readable_records if record.address in addresses]
        nodes = {entry.node for read in reads for entry in read.task.entries}
        snapshot = self.live.snapshot(inventory, _owner_keys(same), nodes, aside)
        return _Live(pools, aside, snapshot, self._judged(snapshot))

    def _another(self, ref: PoolRef, raw: bytes) -> bool:
        """Whether a pool was deleted and made anew since it was judged: its records were not."""
        judged = (pool for inventory in self.live.nominated_by.inventories for pool in inventory.pools)
        return all(pool.uid != self.live.decoded_pool(raw).uid for pool in judged if pool.ref == ref)

    def _condemn(self, ref: PoolRef, live: _Live, entries: Sequence[Entry]) -> tuple[list[Result], list[_Case]]:
        """Those entries whose record is unchanged and whose verdict and reason still hold; the others' fate."""
        if not live.snapshot.pods.items:
            nobody = "no pod at all was read, which is taken for a misreading"
            return [Result(entry, Outcome.DEFERRED, nobody, unread=True) for entry in entries], []
        records = {record.digest: record for record in live.pools[ref].readable_records}
        results: list[Result] = []
        condemned: list[_Case] = []
        for entry in entries:
            record = records.get(entry.record_digest)
            finding = live.findings.get((ref, entry.record_digest))
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

    def _clear_endpoints(
        self, ref: PoolRef, live: _Live, condemned: Sequence[_Case]
    ) -> tuple[list[_Case], list[Result]]:
        """Take condemned addresses out of their owners' endpoints; what cannot be taken out is not released."""
        endpoints = {e.key: e for inventory in live.snapshot.inventories for e in inventory.endpoints}
        by_endpoint: dict[Key, list[_Case]] = {}
        ready: list[_Case] = []
        blocked: list[Result] = []
        for case in condemned:
            endpoint = endpoints.get(_owner_key(case.record))
            if (
                endpoint is None
                or self.live.is_removed(endpoint)
                or endpoint.owner_uid != case.record.uid
                or case.finding.reason is Reason.SURPLUS_FOR_OWNER
            ):
                ready.append(case)
            else:
                by_endpoint.setdefault(endpoint.key, []).append(case)
        evidence = Evidence(live.snapshot, self.live.backend, self.live.cluster.now()) if by_endpoint else None
        for key, cases in by_endpoint.items():
            assert evidence is not None
            match self._clear(evidence, ref, endpoints[key], cases):
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

    def _after_doubt(self, ref: PoolRef, ready: Sequence[_Case], message: str) -> _Attempt:
        """A write whose fate is unknown: read the pool until it tells."""
        for _ in tries(self.backoffs.verify, self.wait):
            found = self.live.pool(ref)
            if isinstance(found, Absent):
                return _Attempt(tuple(Result(case.entry, Outcome.GONE, "the pool is gone") for case in ready))
            if isinstance(found, Found):
                still = f"{message}; the record is still there, but the write may yet land"
                return self._verified(ref, ready, self.live.decoded_pool(found.raw), Outcome.UNVERIFIED, still)
        unknown = f"{message}; whether it was made is not known"
        return _Attempt(tuple(Result(case.entry, Outcome.UNVERIFIED, unknown) for case in ready))

    def _verified(
        self,
        ref: PoolRef,
        ready: Sequence[_Case],
        pool: Pool,
        otherwise: Outcome = Outcome.FAILED,
        still: str = "the record is still there after the write",
    ) -> _Attempt:
        """What the write left: what is gone has yet to be settled."""
        if isinstance(pool.records, RecordsUnreadable):
            return _Attempt(tuple(Result(case.entry, Outcome.UNVERIFIED, pool.records.problem) for case in ready))
        there = {(record.key, record.digest) for record in pool.records}
        left = {(case.record.key, case.record.digest) for case in ready} & there
        return _Attempt(
            tuple(
                Result(case.entry, otherwise, still) for case in ready if (case.record.key, case.record.digest) in left
            ),
            tuple(
                Taken(ref, case.entry, case.record, case.finding.message)
                for case in ready
                if (case.record.key, case.record.digest) not in left
            ),
        )

    def settle(self, taken: Sequence[Taken]) -> dict[PoolRef, list[Result]]:
        """What becomes of records that have left their pools, once those and their owners have been read again.

        Gone is gone, but an owner that lives after all gets its record back.
        """
        if not taken:
            return {}
        with self.timers.step(Step.VERIFY) as timer:
            results = self._settled(taken)
            if any(result.outcome is Outcome.UNVERIFIED for settled in results.values() for result in settled):
                timer.finish(StepOutcome.FAILURE)
            return results

    def _settled(self, taken: Sequence[Taken]) -> dict[PoolRef, list[Result]]:
        fates: dict[tuple[PoolRef, str], _Fate] = {}
        for _ in tries(self.backoffs.verify, self.wait):
            fates = self._fates(taken)
            if not any(isinstance(fate, _Unclear) for fate in fates.values()):
                break
        results: dict[PoolRef, list[Result]] = {item.ref: [] for item in taken}
        out: list[tuple[PoolRef, Record]] = []
        for item in taken:
            match fates.get((item.ref, item.record.digest), _Unclear("the program is stopping")):
                case _StaysOut():
                    out.append((item.ref, item.record))
                    result = Result(item.entry, Outcome.RELEASED, item.message, item.record.raw)
                case _Unclear(why):
                    result = Result(item.entry, Outcome.UNVERIFIED, f"taken out, but not verified: {why}")
                case _ComesBack(why):
                    result = self._put_back(item.ref, item.entry, item.record, why)
            results[item.ref].append(result)
        for ref, left in unreserve(self.live, out, self.wait).items():
            at = next(at for at, result in enumerate(results[ref]) if result.outcome is Outcome.RELEASED)
            results[ref][at] = msgspec.structs.replace(results[ref][at], left=left)
        return results

    def _fates(self, taken: Sequence[Taken]) -> "dict[tuple[PoolRef, str], _Fate]":
        """The same judge, as if the records were still there: who would need one of them?"""
        fates: dict[tuple[PoolRef, str], _Fate] = {}
        found = {ref: self.live.pool(ref) for ref in dict.fromkeys(item.ref for item in taken)}
        aside = self.live.aside()
        now: dict[PoolRef, Pool] = {}
        for item in taken:
            read = found[item.ref]
            at = (item.ref, item.record.digest)
            if isinstance(read, Unread):
                fates[at] = _Unclear(read.message)
            elif isinstance(read, Absent) or self._another(item.ref, read.raw):
                fates[at] = _StaysOut()
            else:
                pool = now.get(item.ref) or self.live.decoded_pool(read.raw, aside)
                now[item.ref] = pool
                if isinstance(pool.records, RecordsUnreadable):
                    fates[at] = _Unclear(pool.records.problem)
        open_ = [item for item in taken if (item.ref, item.record.digest) not in fates]
        return fates | (self._judged_fates(open_, now, aside) if open_ else {})

    def _judged_fates(
        self, taken: Sequence[Taken], now: Mapping[PoolRef, Pool], aside: Aside
    ) -> "dict[tuple[PoolRef, str], _Fate]":
        gone: dict[PoolRef, list[Record]] = {}
        for item in taken:
            gone.setdefault(item.ref, []).append(item.record)
        virtual = tuple(
            msgspec.structs.replace(now[ref], records=(*now[ref].readable_records, *records))
            for ref, records in gone.items()
        )
        nodes = {item.entry.node for item in taken}
        keys = _owner_keys(item.record for item in taken)
        inventory = Inventory(self.live.backend.name, virtual)
        snapshot = self.live.snapshot(inventory, keys, nodes, aside, as_judged=False)
        findings = self._judged(snapshot)
        evidence = Evidence(snapshot, self.live.backend, self.live.cluster.now())
        addresses = {ref: {record.address for record in now[ref].readable_records} for ref in gone}
        return {
            (item.ref, item.record.digest): self._fate(
                item,
                findings.get((item.ref, item.record.digest)),
                evidence,
                taken=item.record.address in addresses[item.ref],
            )
            for item in taken
        }

    def _fate(self, item: Taken, finding: Finding | None, evidence: Evidence, *, taken: bool) -> "_Fate":
        address = item.record.address or ""
        if finding is None or finding.reason is Reason.EVIDENCE_INCOMPLETE:
            return _Unclear(finding.message if finding else "it could not be judged")
        if taken:
            return _StaysOut()  # handed out again: there is nothing to put back
        if item.entry.reason in {Reason.NEVER_ATTACHED, Reason.SURPLUS_FOR_OWNER}:
            # Their owner lives anyway; what would need the record is a NIC or an endpoint that has the address.
            used = evidence.shown.get(address) or evidence.listed.get(address)
            return _ComesBack(f"{address} is in use") if used else _StaysOut()
        if finding.action is Action.RELEASE or (self._stale(item.entry) and finding.verdict is not Verdict.IN_USE):
            return _StaysOut()
        return _ComesBack(finding.message)

    def _stale(self, entry: Entry) -> bool:
        """Whether a mark is so old that its record may have gone by its IPAM's own doing, long before its owner's return."""
        return self.live.cluster.now() - entry.last_counted > RECENT_MARK

    def _put_back(self, ref: PoolRef, entry: Entry, record: Record, why: str) -> Result:
        """Restore a record that somebody needs, unless the operator has said stop meanwhile: then the mark waits."""
        objection = self.ask(ref)
        if objection.why:
            return Result(entry, Outcome.UNVERIFIED, f"it should be put back ({why}), but {objection.why}")
        match restore(self.live, ref, record.address or record.key, record.raw, self.wait, self.backoffs):
            case Done():
                return Result(entry, Outcome.RESTORED, why, record.raw)
            case NotDone(problem):
                found = self.live.pool(ref)
                records = self.live.decoded_pool(found.raw).readable_records if isinstance(found, Found) else ()
                if any(other.address == record.address for other in records):
                    return Result(entry, Outcome.RELEASED, f"taken out, and handed out again since ({why})", record.raw)
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
    live: LiveReads,
    ref: PoolRef,
    address: str,
    record: bytes,
    wait: Callable[[float], bool],
    backoffs: Backoffs = Backoffs(),  # noqa: B008 - frozen
) -> Done | NotDone:
    """Put a released record back into its pool while the address has none."""
    # Before the record: an address without a reservation may be handed out by another pool of its network.
    reserved = reserve(live, ref, live.backend.record(address, record))
    return (
        reserved
        if isinstance(reserved, NotDone)
        else _record_again(live, ref, address, record, tries(backoffs.write, wait))
    )


def _record_again(live: LiveReads, ref: PoolRef, address: str, record: bytes, turns: Iterator[int]) -> Done | NotDone:
    why = "the program is stopping"
    uncertain = False
    for _ in turns:
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


def later_than(time: datetime | None, now: datetime) -> bool:
    """Whether there is such a time, and it is still to come."""
    return time is not None and time > now


def _name_of(item: Any) -> Key:
    return item.metadata.namespace, item.metadata.name


def _is(record: Record, address: str, raw: bytes) -> bool:
    """Whether a record is that of the address, and says the same (the API server may order its members otherwise)."""
    return record.address == address and msgspec.json.decode(record.raw) == msgspec.json.decode(raw)


def _owner_key(record: Record) -> Key:
    owner = record.owner
    return (owner.namespace, owner.name) if isinstance(owner, ClaimedOwner) else ("", "")


def _owner_keys(records: Iterable[Record]) -> set[Key]:
    return {key for key in map(_owner_key, records) if key != ("", "")}
