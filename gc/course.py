"""One pool's way through a sweep: what its ledger says after this sweep's findings, what is due, and its guard's status."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta

import msgspec

from poolwarden.gc.brakes import Acknowledged, Braked, Open, brake
from poolwarden.gc.examine import Judged, cooling
from poolwarden.gc.guard import (
    FindingCounts,
    GuardCondition,
    GuardStatus,
    NodeSince,
    PoolGuard,
    Released,
    addresses_of,
    condition,
    merged_released,
)
from poolwarden.gc.ledger import Entry, Phase, advance, bounded, digest_of, due, later, sighted
from poolwarden.gc.policy import Ceiling, Mode, Policy, Unbalanced
from poolwarden.gc.snapshot import covers
from poolwarden.gc.states import States, Uncounted, count
from poolwarden.ipam.inventory import NoHiding
from poolwarden.ipam.pool import ClaimedOwner, Pool, Record, RecordsUnreadable
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Action, Finding, OwnerId, Reason, Verdict

NEARLY = 10
"""A pool of which less than one in so many addresses is free is nearly exhausted."""
UNRESERVED = timedelta(hours=1)
"""An ADD that began before a release has long ended after this time."""
MOST_BLOCKING = 10
"""Records that the condition Exhausted names; more are counted."""
LONGEST_TOLD = 100
"""Conflicts that the condition Conflicted names, and that Events tell; more are counted."""


class Course:
    """One pool in one sweep. Made by `plan`; the sweep then marks, acts, and takes the status that is left.

    `guard` and `before` are the guard and its status as last read or written (`before`: at the start of the sweep).
    """

    def __init__(
        self, pool: Pool, policy: Policy, guard: PoolGuard | None, status: GuardStatus, findings: list[Finding]
    ) -> None:
        self.pool = pool
        self.policy = policy
        self.guard = guard
        self.status = status
        self.before = status
        self.findings = findings
        self.entries: list[Entry] = list(status.ledger)
        self.vanished: list[Entry] = []
        self.detected: tuple[Finding, ...] = ()
        self.due: list[tuple[Entry, Finding]] = []
        self.marked: list[Entry] = []
        self.revived: list[Record] = []
        """Records that carry our mark, and whose owner lives after all."""
        self.brake: Open | Acknowledged | Braked = Open()
        self.nodes_gone: tuple[NodeSince, ...] = status.nodes_gone
        self.nodes_silent: tuple[NodeSince, ...] = status.nodes_silent
        self.by_hand = False
        self._ripe = True
        self.superseded = False
        """Whether an operator has changed the guard since it was marked: then nothing more is written in this sweep."""
        self.unreserved: list[Record] = []
        """Records that took over an address which we released a short while ago, and that lack a reservation."""
        self.extended = status.extended
        """What the pool has from its guard's reserve."""
        self.unplanned = False
        """Whether a defect of ours kept its findings from being counted: then nothing is marked or released."""
        self.rebalanceable: tuple[bool, str, str] | None = None
        """The condition Rebalanceable of this sweep; until it is known, that of the one before stands."""
        self._released: list[Released] = []
        self._gone: set[str] = set()
        self._omitted = 0

    @property
    def off(self) -> bool:
        """Whether the operator wants gc to leave the pool alone, its guard included."""
        return self.policy.mode is Mode.OFF

    @property
    def pending(self) -> list[str]:
        """Addresses of records that are on their way out, or have gone without having been verified."""
        out = (e for e in (*self.entries, *self.vanished) if e.phase in {Phase.COOLDOWN, Phase.RELEASING})
        return [entry.address for entry in out if entry.address is not None]

    @property
    def has_news(self) -> bool:
        """Whether there is anything to remember or to tell of the pool."""
        quiet = {Verdict.IN_USE, Verdict.RETAINED}
        return bool(self.entries) or any(finding.verdict not in quiet for finding in self.findings)

    def take(self, finding: Finding, now: datetime) -> None:
        """Make this finding, and nothing else, due: by an operator's hand, without grace or cooldown.

        Its entry is due at no time, so that a mark which outlives us is a first sighting to the next sweep.
        """
        self.by_hand = True
        known = next((item for item in self.entries if item.record_digest == digest_of(finding)), None)
        entry = msgspec.structs.replace(known or sighted(finding, now), reason=finding.reason, due_at=None)
        self.entries = [*(item for item in self.entries if item.record_digest != entry.record_digest), entry]
        self.due = [(entry, finding)]

    def mark_due(self, now: datetime) -> None:
        """Mark what is due as Releasing, each with its record's text."""
        records = {record.digest: record.raw.decode() for record in self.pool.readable_records}
        wanted = {entry.record_digest for entry, _ in self.due}
        # What is only hidden now has its whole cooldown before it, even if this sweep cannot say so any more.
        until = {} if self._ripe else {"due_at": later(now, self.policy.cooldown)}
        self.entries = [
            msgspec.structs.replace(
                entry, phase=Phase.RELEASING, last_counted=now, record=records.get(entry.record_digest, ""), **until
            )
            if entry.record_digest in wanted
            else entry
            for entry in self.entries
        ]

    def unmark(self, entry: Entry) -> None:
        """Take a mark back: the entry stands again where it stood before."""
        before = next((item for item, _ in self.due if item.record_digest == entry.record_digest), entry)
        self.entries = [before if item.record_digest == entry.record_digest else item for item in self.entries]

    def hidden(self, entry: Entry, now: datetime) -> None:
        """Note that an entry's record is hidden: from now on it cools down, with the record's text beside it."""
        cooling = msgspec.structs.replace(entry, phase=Phase.COOLDOWN, due_at=later(now, self.policy.cooldown))
        self.entries = [cooling if item.record_digest == entry.record_digest else item for item in self.entries]

    def marks(self) -> list[Entry]:
        """The entries marked in this sweep."""
        wanted = {entry.record_digest for entry, _ in self.due}
        return [entry for entry in self.entries if entry.record_digest in wanted]

    def settled(self, entry: Entry, *, released: Released | None = None, left_pool: bool = False) -> None:
        """Take an entry off the ledger, and note what was released."""
        self.entries = [item for item in self.entries if item.record_digest != entry.record_digest]
        self.vanished = [item for item in self.vanished if item.record_digest != entry.record_digest]
        if released is not None:
            self._released.append(released)
        if left_pool:
            self._gone.add(entry.record_digest)

    def status_now(self, now: datetime) -> GuardStatus:
        """The status that this sweep leaves so far; by hand, all but the one record's entry stays as it was."""
        ledger = bounded((*self.entries, *self.vanished))
        if self.by_hand:
            both = merged_released(self.status.released, self._released)
            self._released = []
            return msgspec.structs.replace(self.status, ledger=ledger.entries, released=both, pool_uid=self.pool.uid)
        left = [finding for finding in self.findings if finding.record_digest not in self._gone]
        verdicts = [finding.verdict for finding in left]
        released, self._released = merged_released(self.status.released, self._released), []
        states = count(self.pool, left, cooling(ledger.entries))
        return GuardStatus(
            observed_at=now,
            pool_uid=self.pool.uid,
            addresses=addresses_of(states),
            findings=FindingCounts(
                leaked=verdicts.count(Verdict.LEAKED),
                conflict=verdicts.count(Verdict.CONFLICT),
                drift=verdicts.count(Verdict.DRIFT),
                unknown=verdicts.count(Verdict.UNKNOWN),
            ),
            ledger=ledger.entries,
            ledger_omitted=self._omitted + ledger.omitted,
            released=released,
            nodes_gone=self.nodes_gone,
            nodes_silent=self.nodes_silent,
            extended=self.extended,
            spent_generation=self._spent_generation(),
            conditions=self._conditions(states, now),
        )

    def advance(self, judged: Judged, ceiling: Ceiling) -> None:
        """Count this sweep's findings and find what is due under that ceiling."""
        # Whole seconds, as the API server's own clock has them: fractions differ from one client to the next.
        now = judged.at.replace(microsecond=0)
        step = advance(self.entries, self.findings, self.policy, now)
        self.vanished = _vanished(self.entries, self.findings)
        self.entries = list(step.ledger.entries)
        self._omitted = step.ledger.omitted
        held = judged.snapshot.memory.held  # what an operator put back is no news to anybody
        self.detected = tuple(f for f in step.detected if (self.pool.ref, f.record_digest) not in held)
        self._wait_for_nodes(judged)
        self.brake = brake_of(judged, self.pool, self.findings)
        if self.policy.may_release(ceiling):
            self.revived = self._revived()
            self.unreserved = self._unreserved(now)
            if not isinstance(self.brake, Braked):
                self.due = self._due(now)

    def _due(self, now: datetime) -> list[tuple[Entry, Finding]]:
        """What is due: to be taken out, or else, where a record must be hidden first, all that begins its cooldown."""
        ripe = due(self.entries, self.findings, now)
        if isinstance(BACKENDS[self.pool.ref.ipam].hiding, NoHiding):
            return ripe
        marked = {record.digest for record in self.pool.readable_records if record.hidden}
        hidden = [(entry, finding) for entry, finding in ripe if entry.record_digest in marked]
        if hidden:
            return hidden
        self._ripe = False
        begun = due(self.entries, self.findings, datetime.max.replace(tzinfo=UTC))
        return [(entry, finding) for entry, finding in begun if entry.record_digest not in marked]

    def _unreserved(self, now: datetime) -> list[Record]:
        lacking = {f.address for f in self.findings if f.reason is Reason.RESERVATION_MISSING}
        recent = {
            (item.address, item.owner.namespace, item.owner.name)
            for item in self.status.released
            if item.address in lacking and item.owner is not None and now - item.released_at < UNRESERVED
        }
        return [
            record
            for record in self.pool.readable_records
            if isinstance(record.owner, ClaimedOwner)
            and (record.address, record.owner.namespace, record.owner.name) in recent
        ]

    def _revived(self) -> list[Record]:
        lives = {finding.record_digest for finding in self.findings if finding.verdict is Verdict.IN_USE}
        return [record for record in self.pool.readable_records if record.hidden and record.digest in lives]

    def _wait_for_nodes(self, judged: Judged) -> None:
        """Remember the nodes that records wait for, or may have to: absent ones, and those that are not Ready."""
        nodes = judged.snapshot.nodes
        if not covers(nodes.coverage, "") or doubts_of(self.findings):
            return  # what is remembered stays until a sweep without doubt can tell
        ref, memory, now = self.pool.ref, judged.snapshot.memory, judged.at.replace(microsecond=0)
        there = {node.metadata.name: node for node in nodes.items}
        unreadable = {item.name for item in nodes.unreadable}
        wanted = {entry.node for entry in self.entries} | {f.node for f in self.findings if _left_behind(f)}
        wanted |= {name for finding in self.findings for name in finding.waits_for}
        absent = sorted(wanted - set(there) - unreadable - {""})
        gone = (memory.nodes_gone.get((ref, name)) or memory.vanished.get(name, now) for name in absent)
        self.nodes_gone = tuple(map(NodeSince, absent, gone))
        # Where it is not known where an owner ran, each silent node counts, fenced or not: a taint may be taken off.
        lost = any(_left_behind(finding) and not finding.node for finding in self.findings)
        lost |= any(not entry.node for entry in self.entries)
        silent = sorted(name for name, node in there.items() if not node.ready) if lost else []
        since = (memory.nodes_silent.get((ref, name)) or there[name].not_ready_since or now for name in silent)
        self.nodes_silent = tuple(map(NodeSince, silent, since))

    def _exhausted(self, states: States | Uncounted) -> Iterator[tuple[str, bool, str, str]]:
        """The condition Exhausted; none of a pool whose records cannot be counted."""
        match states:
            case States(size=size, free=0) if size:
                yield "Exhausted", True, "NoFreeAddress", exhaustion(self.findings)
            case States(size=size, free=free) if free * NEARLY < size:
                yield "Exhausted", False, "NearlyExhausted", f"less than a tenth of {size} addresses is free"
            case States():
                yield "Exhausted", False, "FreeAddresses", "there are free addresses"
            case Uncounted():
                pass

    def _spent_generation(self) -> int:
        """An acknowledgement is spent when Braked clears; the next one needs a new spec generation."""
        cleared = self._was_braked and isinstance(self.brake, Open) and not self._in_doubt
        if cleared and self.policy.acknowledged_leaks and self.guard is not None:
            return self.guard.metadata.generation
        return self.status.spent_generation

    @property
    def _was_braked(self) -> bool:
        return any(item.type == "Braked" and item.status == "True" for item in self.before.conditions)

    @property
    def _in_doubt(self) -> bool:
        """Whether the records in doubt could close the brake: then fewer candidates are no sign of fewer leaks."""
        records = [finding for finding in self.findings if finding.record_digest]
        doubtful = sum(finding.reason is Reason.EVIDENCE_INCOMPLETE for finding in records)
        candidates = sum(finding.action is Action.RELEASE for finding in records)
        return isinstance(self.pool.records, RecordsUnreadable) or (
            doubtful > 0 and (candidates + doubtful) * 2 > len(records)
        )

    def _conditions(self, states: States | Uncounted, now: datetime) -> tuple[GuardCondition, ...]:
        generation = self.guard.metadata.generation if self.guard is not None else 0
        old = self.status.conditions
        doubts = doubts_of(self.findings)
        conflicts = told_conflicts(self.findings)
        match self.brake:
            case Open():
                braked, reason, why = False, "Open", "nothing unusual"
            case Acknowledged(why=why):
                braked, reason = True, "Acknowledged"
            case Braked(why=why):
                braked, reason = True, "TooManyLeaks"
        fresh = [
            condition(old, kind, status=status, reason=word, message=message, now=now, generation=generation)
            for kind, status, word, message in (
                (
                    "Complete",
                    not doubts,
                    "EvidenceIncomplete" if doubts else "AllRead",
                    doubts or "all evidence was read",
                ),
                *self._exhausted(states),
                ("Conflicted", bool(conflicts), "AddressConflict" if conflicts else "NoConflict", conflicts or "none"),
                ("Braked", braked, reason, why),
            )
        ]
        if self._was_braked and self._in_doubt and isinstance(self.brake, Open):
            fresh = [item for item in fresh if item.type != "Braked"]
        if self.rebalanceable is not None:
            able, word, message = self.rebalanceable
            fresh.append(
                condition(
                    old, "Rebalanceable", status=able, reason=word, message=message, now=now, generation=generation
                )
            )
        elif isinstance(self.policy.free, Unbalanced):
            old = tuple(item for item in old if item.type != "Rebalanceable")
        names = {item.type for item in fresh}
        return (*fresh, *(item for item in old if item.type not in names))


def exhaustion(findings: Iterable[Finding]) -> str:
    """Why not one address is free, with the records that block it though nobody is seen to use them."""
    blocking = [f for f in findings if f.reason is Reason.NAME_LIVE and isinstance(f.owner, OwnerId)]
    if not blocking:
        return "no address is free"
    told = ", ".join(f"{f.address} ({f.owner})" for f in blocking[:MOST_BLOCKING])
    more = f" and {len(blocking) - MOST_BLOCKING} more" if len(blocking) > MOST_BLOCKING else ""
    return f"no address is free; recorded by name for pods that live, but are not seen to use them: {told}{more}"


def course_of(judged: Judged, pool: Pool, findings: list[Finding]) -> Course:
    """A pool's course before this sweep's findings are counted."""
    guard = judged.guards.by_pool.get(pool.ref)
    ours = guard is not None and guard.status.pool_uid in {"", pool.uid}
    status = guard.status if guard is not None and ours else GuardStatus()
    if guard is not None and not ours:
        # An acknowledgement was given for the leaks of the pool that is gone.
        status = GuardStatus(spent_generation=guard.metadata.generation)
    return Course(pool, judged.guards.policies.of(pool.ref), guard, status, findings)


def plan(judged: Judged, pool: Pool, findings: list[Finding], ceiling: Ceiling) -> Course:
    """The course of one pool. A pool that is Off, or whose records cannot be read, keeps its ledger as it is."""
    course = course_of(judged, pool, findings)
    if not course.off and not isinstance(pool.records, RecordsUnreadable):
        course.advance(judged, ceiling)
    return course


def brake_of(judged: Judged, pool: Pool, findings: Iterable[Finding]) -> Open | Acknowledged | Braked:
    """Whether too much seems leaked in a pool, by its findings."""
    guard = judged.guards.by_pool.get(pool.ref)
    generation = guard.metadata.generation if guard is not None else 0
    spent = guard.status.spent_generation if guard is not None else 0
    if guard is not None and guard.status.pool_uid not in {"", pool.uid}:
        spent = generation  # it was given for the leaks of the pool that is gone
    return brake(findings, judged.guards.policies.of(pool.ref), generation, spent)


def told_conflicts(findings: Iterable[Finding]) -> str:
    """The conflicts as the condition Conflicted tells them, a line each; "" if there are none."""
    lines = [conflict_line(finding) for finding in findings if finding.verdict is Verdict.CONFLICT]
    more = [f"and {len(lines) - LONGEST_TOLD} more"] if len(lines) > LONGEST_TOLD else []
    return "\n".join((*lines[:LONGEST_TOLD], *more))


def conflicts_told(findings: Iterable[Finding]) -> list[Finding]:
    """Those conflicts that the condition has room for: what it cannot remember would be news in every sweep."""
    return [finding for finding in findings if finding.verdict is Verdict.CONFLICT][:LONGEST_TOLD]


def conflict_line(finding: Finding) -> str:
    """One conflict, in a line."""
    return " ".join(f"{finding.reason}: {finding.message}".split())


def doubts_of(findings: Iterable[Finding]) -> str:
    """What a pool's verdicts lacked, in one line; "" if nothing."""
    doubts: dict[str, None] = {}
    for finding in findings:
        if finding.address is None and finding.verdict is Verdict.UNKNOWN:
            doubts[finding.message] = None
        doubts |= {need.message: None for need in finding.needs}
    return "; ".join(doubts)[:1024]


def _vanished(old: Iterable[Entry], findings: Iterable[Finding]) -> list[Entry]:
    """Entries marked Releasing by a sweep that ended before it could say so, whose record is gone."""
    present = {digest_of(finding) for finding in findings}
    return [e for e in old if e.phase is Phase.RELEASING and e.record and e.record_digest not in present]


def _left_behind(finding: Finding) -> bool:
    """Whether a finding says that a record's owner is gone, so that its node matters."""
    return finding.action is Action.RELEASE or finding.reason is Reason.NODE_UNREACHABLE
