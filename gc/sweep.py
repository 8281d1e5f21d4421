"""One sweep over all pools: read, judge, count, mark, release, verify, report.

Each pool and each step stands alone: what fails is collected, said, and never stops the rest. The writes of one pool
are its guard's status with the Releasing marks, then endpoints and the pool itself, then its guard's status without them.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from datetime import datetime
from functools import partial

import msgspec
import structlog
from msgspec import Struct

from poolwarden.cluster.interface import Absent, Cluster, Deleted, Found, Unread, WriteOutcome, Written
from poolwarden.gc.brakes import Braked
from poolwarden.gc.course import Course, conflict_line, conflicts_told, course_of, plan
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.examine import Judged, PoolReport, by_pool, examine, pool_reports, pools_of
from poolwarden.gc.guard import (
    PoolGuard,
    Recollection,
    Released,
    condition,
    new_guard,
    recollect,
    status_change,
    unchanged,
)
from poolwarden.gc.ledger import Entry, bounded
from poolwarden.gc.live import LiveReads
from poolwarden.gc.notice import Notice, NoticeReason
from poolwarden.gc.pacing import Backoffs
from poolwarden.gc.policy import Ceiling, Policy, Watermarks
from poolwarden.gc.rebalance import (
    Exhausted,
    Extend,
    Fixed,
    NotRebalanced,
    Rebalanced,
    Rebalancer,
    Stock,
    done_says,
    singles,
)
from poolwarden.gc.release import NO_OBJECTION, Kept, Objection, Outcome, Releaser, Result, Taken, Task
from poolwarden.gc.repair import NotDone, Repair, RepairOutcome, repair
from poolwarden.gc.reserving import mend_reservation, reserve
from poolwarden.gc.snapshot import Snapshot, covers
from poolwarden.gc.timing import UNTIMED, Step, StepOutcome, Timers
from poolwarden.ipam.pool import Pool, PoolRef, RecordsUnreadable
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.ranges import AddressRange, AddressSet, RangeError, address_set, parse_range
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Action, Finding, NoOwner, OwnerId, Reason

log = structlog.get_logger()


class Settings(Struct, frozen=True):
    """What `gc` was told on its command line. `ipams` are names; none means all that are installed."""

    ceiling: Ceiling = Ceiling.OBSERVE
    default: Policy = Policy()
    max_releases: int = 50
    ipams: tuple[str, ...] = ()
    backoffs: Backoffs = Backoffs()


TOGETHER = 25
"""Pools released from on one reading of their owners: enough to be quick, few enough that it is fresh for the last."""
NO_PODS = "no pod at all was read: that is taken for a misreading, and nothing was done"


OnStep = Callable[[str], None]
"""Told what a sweep does now, in words for people."""


def unheard(_step: str) -> None:
    """Nobody wants to know."""


class NotReleased(Struct, frozen=True):
    """A release by hand that did not come to a write, and why."""

    why: str


class SweepReport(Struct, frozen=True):
    """What a sweep found and did. `problems` are lines for people; `capped` counts what was due, but beyond the limits."""

    at: datetime
    pools: tuple[PoolReport, ...]
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]
    released: tuple[tuple[PoolRef, Result], ...] = ()
    repaired: tuple[tuple[PoolRef, Repair], ...] = ()
    notices: tuple[Notice, ...] = ()
    braked: tuple[tuple[PoolRef, str], ...] = ()
    capped: int = 0

    @property
    def complete(self) -> bool:
        """Whether every part of the sweep could be done."""
        return not self.problems

    def with_problems(self, problems: Iterable[str]) -> "SweepReport":
        """The same report, with these problems."""
        return msgspec.structs.replace(self, problems=tuple(dict.fromkeys(problems)))


class Sweep:
    """One run of gc. `wait` sleeps that many seconds and says whether the program stops; `before` is remembered.

    `on_step` may be called often: before each pool that is written.
    """

    def __init__(
        self,
        cluster: Cluster,
        settings: Settings,
        wait: Callable[[float], bool],
        before: Recollection = Recollection(),  # noqa: B008 - frozen
        on_step: OnStep = unheard,
        timers: Timers = UNTIMED,
    ) -> None:
        self.cluster = cluster
        self.on_step = on_step
        self.timers = timers
        self.settings = settings
        self.wait = wait
        self.recollection = before
        self.problems: list[str] = []
        self.released: list[tuple[PoolRef, Result]] = []
        self.repaired: list[tuple[PoolRef, Repair]] = []
        self.notices: list[Notice] = []
        self.capped = 0
        self._live_uids: frozenset[str] = frozenset()

    def run(self) -> SweepReport:
        """Sweep all pools once."""
        judged = examine(
            self.cluster, self.settings.default, self.settings.ipams, self.recollection, timers=self.timers
        )
        self.problems += judged.problems
        self._live_uids = _live_uids(judged.snapshot)
        courses: list[Course] = []
        if judged.snapshot.pods.items:
            findings = by_pool(judged.findings)
            pools = pools_of(judged.snapshot)
            for pool in pools:
                courses += self._planned(judged, pool, findings.get(pool.ref, []))
            self._cap(courses)
            with self._timed(Step.RELEASE):
                self._mark(courses)
                self._act(judged, courses)
            with self._timed(Step.REBALANCE):
                self._rebalance(judged, courses)
            self._tend_guards(judged, {pool.ref for pool in pools})
        else:
            self.problems.append(NO_PODS)
        for course in courses:
            self._tell_news(course)
        self.recollection = recollect(self.recollection, judged.snapshot, judged.at)
        return SweepReport(
            judged.at,
            pool_reports(
                judged,
                {course.pool.ref: bounded(course.entries) for course in courses},
                {course.pool.ref: course.pool for course in courses},
            ),
            judged.findings,
            tuple(dict.fromkeys(self.problems)),
            tuple(self.released),
            tuple(self.repaired),
            tuple(self.notices),
            tuple((course.pool.ref, course.brake.why) for course in courses if isinstance(course.brake, Braked)),
            self.capped,
        )

    def release_one(self, judged: Judged, pool: Pool, finding: Finding) -> Result | NotReleased:
        """Release one judged record now, by hand: marked, condemned by live reads, verified and written down like any."""
        self._live_uids = _live_uids(judged.snapshot)
        course = course_of(judged, pool, by_pool(judged.findings)[pool.ref])
        for _ in range(2):  # an IPAM whose records must be hidden first takes two steps
            self.released.clear()
            course.take(finding, judged.at)
            self._mark([course])
            self._act(judged, [course])
            if not any(result.outcome is Outcome.HIDDEN for _, result in self.released):
                break
        digest = finding.record_digest
        fate = next((result for _, result in self.released if result.entry.record_digest == digest), None)
        return fate or NotReleased("; ".join(self.problems) or "nothing was done")

    @contextmanager
    def _timed(self, step: Step) -> Iterator[None]:
        """Time a step; it fails if it adds a problem."""
        before = len(self.problems)
        with self.timers.step(step) as timer:
            yield
            if len(self.problems) > before:
                timer.finish(StepOutcome.FAILURE)

    @contextmanager
    def _alone(self, ref: PoolRef) -> Iterator[None]:
        """Let a defect of ours in one pool be that pool's problem, and no other's."""
        try:
            yield
        except Exception as error:
            log.exception("pool failed", pool=ref.name)
            self.problems.append(f"{ref.name}: a defect of poolwarden: {type(error).__name__}: {error}")

    def _planned(self, judged: Judged, pool: Pool, findings: list[Finding]) -> Iterator[Course]:
        """A pool's course, or, where counting its findings fails by a defect of ours, one that can only be resized."""
        with self._alone(pool.ref):
            yield plan(judged, pool, findings, self.settings.ceiling)
            return
        with self._alone(pool.ref):
            bare = course_of(judged, pool, findings)
            bare.unplanned = True
            yield bare

    # --- before anything is touched -------------------------------------------------------------------------------

    def _cap(self, courses: Iterable[Course]) -> None:
        """At most so many writes per pool and in all, oldest first."""
        left = self.settings.max_releases
        for course in courses:
            due = len(course.due)
            course.due = course.due[: min(left, course.policy.most_releases(course.pool.ranges.size))]
            self.capped += due - len(course.due)
            left -= len(course.due)

    def _mark(self, courses: Sequence[Course]) -> None:
        """Persist this sweep's findings with the marks of what is due; what has no mark is not released."""
        for at, course in enumerate(courses, 1):
            self.on_step(f"writing down what was found: pool {at:,} of {len(courses):,}")
            if course.off or course.unplanned:
                continue
            with self._alone(course.pool.ref):
                course.mark_due(self.cluster.now().replace(microsecond=0))
                if self._write_status(course):
                    course.marked = course.marks()
                elif course.due:
                    self.problems.append(f"{course.pool.ref.name}: nothing was released, since it could not be marked")

    def _write_status(self, course: Course) -> bool:
        """Make the guard if there is none, and its status what this sweep found; whether it now stands so."""
        if course.guard is None and BACKENDS[course.pool.ref.ipam].many_pools and not course.has_news:
            return True
        if course.guard is None:
            made = self.cluster.create(POOL_GUARDS, new_guard(course.pool.ref))
            if not isinstance(made, Written):
                return self._failed(f"PoolGuard of {course.pool.ref.name}", made)
            course.guard = msgspec.json.decode(made.raw, type=PoolGuard)
        now = self.cluster.now().replace(microsecond=0)
        status = course.status_now(now)
        if unchanged(course.guard.status, status, now):
            return True
        body = status_change(course.guard, status)
        outcome = self.cluster.patch(POOL_GUARDS, body, name=course.guard.metadata.name, subresource="status")
        if not isinstance(outcome, Written):
            return self._failed(f"PoolGuard {course.guard.metadata.name}", outcome)
        course.guard = msgspec.json.decode(outcome.raw, type=PoolGuard)
        course.status = course.guard.status
        return True

    def _failed(self, what: str, outcome: WriteOutcome) -> bool:
        self.problems.append(f"{what} could not be written: {getattr(outcome, 'message', 'it is gone')}")
        return False

    # --- acting ---------------------------------------------------------------------------------------------------

    def _act(self, judged: Judged, courses: Sequence[Course]) -> None:
        kept = _kept(judged.snapshot, courses)
        by_ref = {course.pool.ref: course for course in courses}

        def ask(ref: PoolRef) -> Objection:
            course = by_ref.get(ref)
            return self._objection(course) if course is not None else Objection(f"pool {ref.name} is not swept")

        for backend in judged.backends:
            mine = [c for c in courses if c.pool.ref.ipam == backend.name and self._has_work(c)]
            if not mine:
                continue
            live = LiveReads(self.cluster, backend, judged.snapshot)
            releaser = Releaser(live, judged.guards.policies, kept, ask, self.wait, self.settings.backoffs, self.timers)
            beside = _beside(Evidence(judged.snapshot, backend, judged.at))
            for at in range(0, len(mine), TOGETHER):
                if self.wait(0):
                    self.problems.append("the program was told to end; the next sweep goes on")
                    return
                self.on_step(f"releasing and repairing: pool {at + 1:,} of {len(mine):,} of {backend.name}")
                self._act_on(mine[at : at + TOGETHER], releaser, beside)

    def _has_work(self, course: Course) -> bool:
        return bool(
            course.marked
            or course.revived
            or course.unreserved
            or (course.vanished and course.policy.may_release(self.settings.ceiling))
        )

    def _objection(self, course: Course) -> Objection:
        """What keeps us from writing to a pool on marks that were set under its guard's settings."""
        if not course.by_hand and not course.policy.may_release(self.settings.ceiling):
            return Objection(f"gc may not write to pool {course.pool.ref.name}")
        if course.guard is None:
            return Objection(f"pool {course.pool.ref.name} has no PoolGuard yet")
        match self.cluster.get(POOL_GUARDS, PoolGuard, name=course.guard.metadata.name):
            case Found(item=now) if (now.metadata.uid, now.spec) == (course.guard.metadata.uid, course.guard.spec):
                return NO_OBJECTION
            case Found() | Absent():
                course.superseded = True
                return Objection("its PoolGuard has changed since it was marked; the next sweep heeds it")
            case Unread(message=message):
                return Objection(f"its PoolGuard cannot be read: {message}", unread=True)

    def _act_on(
        self, courses: Sequence[Course], releaser: Releaser, beside: Mapping[PoolRef, AbstractSet[PoolRef]]
    ) -> None:
        """Release and repair in several pools: their owners are read once for all of them, straight before the writes."""
        tasks: list[Task] = []
        for course in courses:
            ref = course.pool.ref
            with self._alone(ref):
                self._revive(course, releaser)
                self._reserve_again(course, releaser)
                self._finish(course, releaser)
                actions = {entry.record_digest: finding.action for entry, finding in course.due}
                entries = tuple(e for e in course.marked if actions[e.record_digest] is Action.RELEASE)
                if entries:
                    tasks.append(Task(ref, entries, tuple(sorted(beside.get(ref, ())))))
        results = self._release(releaser, tasks)
        for course in courses:
            with self._alone(course.pool.ref):
                for result in results.get(course.pool.ref, ()):
                    self._settle(course, result)
                self._repair(course, releaser)
                if not course.superseded and not self._write_status(course):
                    self.problems.append(
                        f"{course.pool.ref.name}: what was done could not be written down; the next sweep finds it"
                    )

    def _release(self, releaser: Releaser, tasks: Sequence[Task]) -> dict[PoolRef, list[Result]]:
        """Release in all these pools, or, if that fails by a defect of ours, in each by itself."""
        if len(tasks) > 1:
            try:
                return releaser.release(tasks)
            except Exception as error:
                log.exception("releasing together failed; each pool is taken by itself")
                self.problems.append(f"a defect of poolwarden: {type(error).__name__}: {error}")
        results: dict[PoolRef, list[Result]] = {}
        for task in tasks:
            with self._alone(task.ref):
                results |= releaser.release([task])
        return results

    def _repair(self, course: Course, releaser: Releaser) -> None:
        findings = {entry.record_digest: finding for entry, finding in course.due}
        for entry in course.marked:
            finding = findings[entry.record_digest]
            if finding.action is Action.REPAIR:
                namespace, _, name = finding.subject.partition("/")
                reserved = finding.reason is Reason.RESERVATION_ORPHAN
                mend = partial(mend_reservation, wait=self.wait) if reserved else repair
                done = mend(
                    releaser.live,
                    releaser.policies,
                    course.pool.ref,
                    entry,
                    (namespace, name),
                    lambda pool: releaser.ask(pool).why,
                )
                self._settle_repair(course, done)

    def _revive(self, course: Course, releaser: Releaser) -> None:
        """Take our mark off records whose owner lives after all: no other write of the pool waits for it."""
        if not course.revived or course.by_hand or releaser.ask(course.pool.ref).why:
            return
        done = releaser.show(course.pool.ref, course.revived)
        names = ", ".join(record.address or record.key for record in course.revived)
        if isinstance(done, NotDone):
            self.problems.append(f"{course.pool.ref.name}: the marks of {names} could not be taken off: {done.why}")
        else:
            self._tell(course, NoticeReason.ADDRESS_RESTORED, f"{names}: its owner lives, so our mark was taken off")

    def _reserve_again(self, course: Course, releaser: Releaser) -> None:
        """Make reservations again that we took away while an ADD that had seen them was still under way."""
        ref = course.pool.ref
        if not course.unreserved or course.by_hand or releaser.ask(ref).why:
            return
        for record in course.unreserved:
            done = reserve(releaser.live, ref, record)
            if isinstance(done, NotDone):
                self.problems.append(f"{ref.name}: {record.address} has no reservation: {done.why}")

    def _finish(self, course: Course, releaser: Releaser) -> None:
        """Releases that were made, but never verified, since their sweep ended first: verify them now."""
        if not course.vanished or course.by_hand or releaser.ask(course.pool.ref).why:
            return
        backend, ref = releaser.live.backend, course.pool.ref
        why = "taken out by a sweep that ended before it could say so"
        gone = [
            Taken(ref, entry, backend.record(entry.address or "", entry.record.encode()), why)
            for entry in course.vanished
        ]
        for result in releaser.settle(gone).get(ref, ()):
            self._settle(course, result)

    def _settle(self, course: Course, result: Result) -> None:
        """Write down, log and tell what became of one marked record."""
        entry = result.entry
        self.released.append((course.pool.ref, result))
        self._log("release", course, entry, result.outcome, result.message)
        if result.left:
            self.problems.append(f"{course.pool.ref.name}: {entry.address} was released, but {result.left}")
        match result.outcome:
            case Outcome.HIDDEN:
                course.hidden(entry, self.cluster.now().replace(microsecond=0))
            case Outcome.RELEASED:
                course.settled(entry, released=self._released(entry, result), left_pool=True)
                self._tell(course, NoticeReason.ADDRESS_RELEASED, f"{entry.address} released: {result.message}", entry)
            case Outcome.RESTORED:
                course.settled(entry)
                self._tell(course, NoticeReason.ADDRESS_RESTORED, f"{entry.address} put back: {result.message}", entry)
            case Outcome.GONE | Outcome.KEPT:
                course.settled(entry)
                self._tell(
                    course, NoticeReason.RELEASE_SKIPPED, f"{entry.address} not released: {result.message}", entry
                )
            case Outcome.DEFERRED:
                course.unmark(entry)
                self._tell(course, NoticeReason.RELEASE_SKIPPED, f"{entry.address} not yet: {result.message}", entry)
                if result.unread:
                    self.problems.append(f"{course.pool.ref.name}: {entry.address} must wait: {result.message}")
            case Outcome.FAILED:
                course.unmark(entry)
                self._fail(course, entry, result)
            case Outcome.UNVERIFIED:
                self._fail(course, entry, result)

    def _fail(self, course: Course, entry: Entry, result: Result) -> None:
        self.problems.append(f"{course.pool.ref.name}: {entry.address}: {result.message}")
        self._tell(course, NoticeReason.RELEASE_FAILED, f"{entry.address}: {result.message}", entry)

    def _released(self, entry: Entry, result: Result) -> Released:
        return Released(
            address=entry.address or "",
            record=result.raw.decode(),
            record_digest=entry.record_digest,
            reason=entry.reason,
            released_at=self.cluster.now().replace(microsecond=0),
            owner=entry.owner,
        )

    def _settle_repair(self, course: Course, done: Repair) -> None:
        self.repaired.append((course.pool.ref, done))
        self._log("repair", course, done.entry, done.outcome, done.message)
        if done.outcome in {RepairOutcome.FAILED, RepairOutcome.DEFERRED}:
            course.unmark(done.entry)
            self.problems.append(f"{course.pool.ref.name}: {done.entry.reason} was not repaired: {done.message}")
            self._tell(course, NoticeReason.RELEASE_FAILED, f"repair failed: {done.message}", done.entry)
            return
        course.settled(done.entry)
        if done.outcome is RepairOutcome.REPAIRED:
            note = f"{done.entry.reason} repaired: {done.message}"
            self._tell(course, NoticeReason.ENDPOINT_REPAIRED, note, done.entry)

    # --- rebalancing ----------------------------------------------------------------------------------------------

    def _rebalance(self, judged: Judged, courses: Sequence[Course]) -> None:
        """Resize the pools whose guard wants a stock of free addresses; what fails here never was cleanup's business."""
        for backend in judged.backends:
            mine = [c for c in courses if c.pool.ref.ipam == backend.name and not c.off]
            mine = [c for c in mine if isinstance(c.policy.free, Watermarks)]
            if not mine or self.wait(0):
                continue
            evidence = Evidence(judged.snapshot, backend, judged.at)
            live = LiveReads(self.cluster, backend, judged.snapshot)
            rebalancer = Rebalancer(live, evidence, self.wait, self.settings.backoffs)
            for at, course in enumerate(mine, 1):
                self.on_step(f"resizing: pool {at:,} of {len(mine):,} of {backend.name}")
                with self._alone(course.pool.ref):
                    self._resize(course, rebalancer)

    def _resize(self, course: Course, rebalancer: Rebalancer) -> None:
        marks = course.policy.free
        assert isinstance(marks, Watermarks)

        def mark(planned: AddressSet) -> bool:
            course.extended = tuple(map(str, planned.ranges))
            return self._write_status(course)

        stock = Stock(marks, course.policy.reserve, self._extended(course), singles(course.pending))
        done = rebalancer.rebalance(course.pool, stock, forbidden=lambda: self._objection(course).why, mark=mark)
        course.extended = tuple(map(str, done.extended.ranges))
        name, says = course.pool.ref.name, done_says(done, marks)
        match done:
            case Rebalanced(plan=step, pool=resized):
                course.pool = resized
                course.rebalanceable = (True, "Rebalanced", says)
                grown = isinstance(step, Extend)
                self._tell(course, NoticeReason.POOL_EXTENDED if grown else NoticeReason.POOL_SHRUNK, says)
            case NotRebalanced(plan=step, failed=failed):
                course.rebalanceable = (not failed, "Failed" if failed else type(step).__name__, says)
                if failed:
                    self.problems.append(f"{name}: the pool could not be resized: {done.why}")
            case Fixed():
                course.rebalanceable = (False, "RangesFixed", says)
        short = isinstance(done, Fixed) and done.short
        short |= isinstance(done, NotRebalanced) and isinstance(done.plan, Exhausted)
        if short and not any((c.type, c.message) == ("Rebalanceable", says) for c in course.before.conditions):
            self._tell(course, NoticeReason.POOL_NEARLY_EXHAUSTED, says)
        log.info("rebalance", ipam=course.pool.ref.ipam, pool=name, detail=says)
        if not course.superseded and not self._write_status(course):
            self.problems.append(f"{name}: what the pool has from its reserve could not be written down")

    def _extended(self, course: Course) -> AddressSet:
        """What the guard says that the pool has from its reserve; what of it cannot be read is not ours."""
        ranges: list[AddressRange] = []
        for text in course.extended:
            try:
                ranges.append(parse_range(text))
            except RangeError as error:
                self.problems.append(f"PoolGuard of {course.pool.ref.name}: status.extended: {error}; it is left out")
        return address_set(ranges)

    # --- guards of pools that are gone, guards under other names --------------------------------------------------

    def _tend_guards(self, judged: Judged, present: set[PoolRef]) -> None:
        for guard in judged.guards.ignored:
            self._note(guard, "Ignored", "NotCanonical", "a guard of another name is heeded for this pool", status=True)
        if judged.problems:
            return  # only complete sweeps count towards forgetting a pool
        for ref, guard in judged.guards.by_pool.items():
            backend = BACKENDS.get(ref.ipam)
            if ref in present or backend is None or backend not in judged.backends:
                continue
            if not covers(judged.snapshot.coverage[backend.pool_kind], ref.namespace):
                continue
            if not any(item.reason == "PoolAbsent" for item in guard.status.conditions):
                self._note(guard, "Complete", "PoolAbsent", f"pool {ref.name} does not exist", status=False)
            elif guard.untouched:
                self._delete(guard)

    def _delete(self, guard: PoolGuard) -> None:
        meta = guard.metadata
        outcome = self.cluster.delete(POOL_GUARDS, name=meta.name, uid=meta.uid, resource_version=meta.resource_version)
        if not isinstance(outcome, Written | Deleted):
            self._failed(f"PoolGuard {meta.name}", outcome)

    def _note(self, guard: PoolGuard, kind: str, reason: str, message: str, *, status: bool) -> None:
        old = guard.status.conditions
        if any(item.type == kind and item.reason == reason for item in old):
            return
        now, generation = self.cluster.now().replace(microsecond=0), guard.metadata.generation
        new = condition(old, kind, status=status, reason=reason, message=message, now=now, generation=generation)
        conditions = (*(item for item in old if item.type != kind), new)
        body = status_change(guard, msgspec.structs.replace(guard.status, conditions=conditions))
        outcome = self.cluster.patch(POOL_GUARDS, body, name=guard.metadata.name, subresource="status")
        if not isinstance(outcome, Written):
            self._failed(f"PoolGuard {guard.metadata.name}", outcome)

    # --- telling --------------------------------------------------------------------------------------------------

    def _tell_news(self, course: Course) -> None:
        """What was not so at the last sweep: new leaks, new conflicts, no free address any more, a brake that closed."""
        if course.off:
            return
        for finding in course.detected:
            self._tell(course, NoticeReason.LEAK_DETECTED, finding.message, finding)
        before = {item.type: item for item in course.before.conditions}
        known = before["Conflicted"].message.split("\n") if "Conflicted" in before else []
        for finding in conflicts_told(course.findings):
            if conflict_line(finding) not in known:
                self._tell(course, NoticeReason.ADDRESS_CONFLICT, finding.message, finding)
        was = before.get("Exhausted")
        for now in (item for item in course.status.conditions if item.type == "Exhausted"):
            news = was is None or (was.reason, was.message) != (now.reason, now.message)
            told = {"NoFreeAddress": NoticeReason.POOL_EXHAUSTED, "NearlyExhausted": NoticeReason.POOL_NEARLY_EXHAUSTED}
            if news and now.reason in told:
                self._tell(course, told[now.reason], now.message)
        if isinstance(course.brake, Braked) and (
            "Braked" not in before or before["Braked"].message != course.brake.why
        ):
            self._tell(course, NoticeReason.SWEEP_BRAKED, course.brake.why)

    def _tell(self, course: Course, reason: NoticeReason, note: str, about: Entry | Finding | None = None) -> None:
        owner: OwnerId | NoOwner = NoOwner()
        if about is not None and about.owner is not None and not isinstance(about.owner, NoOwner):
            owner = OwnerId(about.owner.kind, about.owner.namespace, about.owner.name, about.owner.uid)
        lives = isinstance(owner, OwnerId) and owner.uid in self._live_uids
        self.notices.append(Notice(course.pool.ref, course.pool.uid, reason, note, owner, lives))

    @staticmethod
    def _log(what: str, course: Course, entry: Entry, outcome: str, detail: str) -> None:
        log.log(
            logging.ERROR if outcome in {Outcome.FAILED, Outcome.UNVERIFIED} else logging.INFO,
            what,
            outcome=outcome,
            ipam=course.pool.ref.ipam,
            pool=course.pool.ref.name,
            address=entry.address,
            owner=f"{entry.owner.namespace}/{entry.owner.name}" if entry.owner else "",
            uid=entry.owner.uid if entry.owner else "",
            reason=entry.reason,
            first_seen=entry.first_seen.isoformat(),
            detail=detail,
        )


def _live_uids(snapshot: Snapshot) -> frozenset[str]:
    """The UIDs of all pods and holders that exist."""
    holders = (holder.uid for listing in snapshot.holders.values() for holder in listing.items)
    return frozenset((*(pod.metadata.uid for pod in snapshot.pods.items), *holders))


def _kept(snapshot: Snapshot, courses: Iterable[Course]) -> Kept:
    """What holds a record that is not being released."""
    releasing = {(course.pool.ref, entry.record_digest) for course in courses for entry in course.marked}
    uids: set[str] = set()
    addresses: set[str] = set()
    unreadable: set[str] = set()
    for pool in pools_of(snapshot):
        if isinstance(pool.records, RecordsUnreadable):
            unreadable.add(pool.ref.name)
        for record in pool.readable_records:
            if (pool.ref, record.digest) not in releasing:
                uids.add(record.uid)
                addresses.add(record.address or "")
    endpoints = (endpoint for inventory in snapshot.inventories for endpoint in inventory.endpoints)
    uids |= {e.owner_uid for e in endpoints if e.items_unread or any(item.pool in unreadable for item in e.addresses)}
    return Kept(frozenset(uids), frozenset(addresses))


def _beside(evidence: Evidence) -> dict[PoolRef, set[PoolRef]]:
    """For each pool the others that share addresses with it, by their ranges or by what they record."""
    beside: dict[PoolRef, set[PoolRef]] = {ref: set(others) for ref, others in evidence.overlaps().items()}
    holders: dict[str, set[PoolRef]] = {}
    for pool in evidence.pools:
        for record in pool.readable_records:
            if record.address is not None:
                holders.setdefault(record.address, set()).add(pool.ref)
    for refs in holders.values():
        if len(refs) > 1:
            for ref in refs:
                beside.setdefault(ref, set()).update(refs - {ref})
    return beside
