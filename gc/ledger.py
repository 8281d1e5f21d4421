"""The ledger: which records were sighted as leaked, since when, and what is due. Pure; kept in `PoolGuard.status`.

A record goes Sighted -> Cooldown -> Releasing, each step at a later sweep than the one before it (a cooldown of zero
aside). Unknown stops the clock where it is; InUse, Conflict or a change of the record ends it.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec import Struct

from poolwarden.gc.policy import Policy, RetentionRule
from poolwarden.ipam.objects import Timestamp
from poolwarden.ipam.verdict import Action, Finding, OwnerId, Reason, Verdict

MOST_ENTRIES = 500
"""An entry takes about 400 bytes; etcd refuses objects above 1.5 MiB."""


class Phase(StrEnum):
    """Where a record is on its way out."""

    RETAINED = "Retained"
    SIGHTED = "Sighted"
    COOLDOWN = "Cooldown"
    RELEASING = "Releasing"


class LedgerOwner(Struct, frozen=True):
    """The owner that a record claims."""

    kind: str
    namespace: str
    name: str
    uid: str


class Entry(Struct, frozen=True, rename="camel", omit_defaults=True):
    """One line of the ledger.

    `first_seen` is the first sighting of the record without a proven owner; `last_counted` when its phase began (for
    Sighted: when this verdict and reason began to count); `due_at` when the phase ends, None while it cannot end.
    `min_grace_seconds` is the owner's termination grace, where it was seen. `record` is the record's raw JSON, while it
    is being released or is hidden in its pool.
    """

    address: str | None
    record_digest: str
    owner: LedgerOwner | None
    reason: str
    first_seen: Timestamp
    last_counted: Timestamp
    phase: Phase
    due_at: Timestamp | None = None
    node: str = ""
    min_grace_seconds: int = 0
    record: str = ""


REPAIRED = frozenset(
    {
        Reason.ENDPOINT_STALE,
        Reason.ENDPOINT_ORPHAN,
        Reason.INTERFACE_DUPLICATED,
        Reason.INTERFACE_EMPTY,
        Reason.RESERVATION_ORPHAN,
    }
)
"""Reasons whose action is a repair, of an endpoint or a reservation; every other entry is a record on its way out."""


class Ledger(Struct, frozen=True):
    """A pool's entries, oldest first; `omitted` more were not kept."""

    entries: tuple[Entry, ...] = ()
    omitted: int = 0


class Advance(Struct, frozen=True):
    """The ledger after a sweep's findings, and the leaks that are new in it."""

    ledger: Ledger
    detected: tuple[Finding, ...]


def advance(old: Sequence[Entry], findings: Iterable[Finding], policy: Policy, now: datetime) -> Advance:
    """Count this sweep's sightings of one pool. `now` is the API server's clock."""
    before = {entry.record_digest: entry for entry in old}
    entries: dict[str, Entry] = {}
    detected: list[Finding] = []
    for finding in findings:
        digest = digest_of(finding)
        if not digest or digest in entries:
            continue
        previous = before.get(digest)
        entry = _next(previous, finding, policy, now)
        if entry is None:
            continue
        entries[digest] = entry
        told = previous is not None and previous.phase is not Phase.RETAINED and previous.reason == entry.reason
        if finding.verdict is Verdict.LEAKED and not told:
            detected.append(finding)
    ledger = bounded(entries.values())
    if len(before) >= MOST_ENTRIES:
        # What has no place in a full ledger would be news in every sweep.
        kept = {entry.record_digest for entry in ledger.entries}
        detected = [finding for finding in detected if digest_of(finding) in kept]
    return Advance(ledger, tuple(detected))


def later(time: datetime, seconds: int) -> datetime:
    """A time moved on; one beyond all calendars is their end."""
    try:
        return time + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.max.replace(tzinfo=UTC)


def digest_of(finding: Finding) -> str:
    """What the ledger knows a finding by: its record's digest, or its endpoint's; "" for a finding about a pool."""
    return finding.record_digest or finding.subject_digest


def due(entries: Iterable[Entry], findings: Iterable[Finding], now: datetime) -> list[tuple[Entry, Finding]]:
    """The entries whose cooldown is over and whose finding of this sweep still asks for action, oldest first."""
    wanted = {digest_of(finding): finding for finding in findings if finding.action is not Action.NONE}
    return [
        (entry, wanted[entry.record_digest])
        for entry in entries
        if entry.phase is Phase.COOLDOWN
        and entry.record_digest in wanted
        and entry.due_at is not None
        and entry.due_at <= now
    ]


def bounded(entries: Iterable[Entry]) -> Ledger:
    """At most 500 entries: those being released, then the oldest."""
    ordered = sorted(entries, key=lambda entry: (entry.first_seen, entry.address or "", entry.record_digest))
    releasing = [entry for entry in ordered if entry.phase is Phase.RELEASING]
    others = [entry for entry in ordered if entry.phase is not Phase.RELEASING]
    others.sort(key=lambda entry: entry.due_at is None)  # what will never be due must not crowd out what will
    room = max(0, MOST_ENTRIES - len(releasing))
    kept = sorted(
        (*releasing, *others[:room]), key=lambda entry: (entry.first_seen, entry.address or "", entry.record_digest)
    )
    return Ledger(tuple(kept), len(others[room:]))


def sighted(finding: Finding, now: datetime) -> Entry:
    """The entry of a first sighting that does not count yet."""
    return _entry(finding, now, now, Phase.SIGHTED, None)


def _next(previous: Entry | None, finding: Finding, policy: Policy, now: datetime) -> Entry | None:
    """The entry that a finding leaves; None if it leaves none."""
    match finding.verdict, finding.action:
        case Verdict.UNKNOWN, _:
            return _waiting(previous, finding, now)
        case Verdict.RETAINED, _ if policy.retention.rule is RetentionRule.RELEASE_AFTER:
            since = previous.first_seen if previous is not None and previous.phase is Phase.RETAINED else now
            return _entry(finding, since, since, Phase.RETAINED, None)
        case (Verdict.LEAKED, _) | (Verdict.DRIFT, Action.REPAIR):
            return _counted(previous, finding, policy, now)
        case _ if finding.reason in {Reason.BEING_REMOVED, Reason.DELETION_STUCK}:
            return previous or sighted(finding, now)
        case _:
            return None


def _waiting(previous: Entry | None, finding: Finding, now: datetime) -> Entry | None:
    """Unknown neither counts nor resets; but a container that may run on has its whole grace before it, once it ends."""
    if finding.reason in {Reason.NODE_UNREACHABLE, Reason.OWNER_STUCK}:
        if previous is not None and previous.reason == finding.reason:
            node = finding.node or previous.node
            return msgspec.structs.replace(previous, node=node, min_grace_seconds=_least_grace(previous, finding))
        first = previous.first_seen if previous is not None else now
        entry = _entry(finding, first, now, Phase.SIGHTED, None, node=previous.node if previous is not None else "")
        return msgspec.structs.replace(entry, min_grace_seconds=_least_grace(previous, finding))
    if previous is None:
        return None
    phase = Phase.COOLDOWN if previous.phase is Phase.RELEASING else previous.phase
    return msgspec.structs.replace(previous, phase=phase, node=finding.node or previous.node, record="")


def _least_grace(previous: Entry | None, finding: Finding) -> int:
    return max(finding.min_grace, previous.min_grace_seconds if previous is not None else 0)


def _counted(previous: Entry | None, finding: Finding, policy: Policy, now: datetime) -> Entry:
    grace = max(policy.grace, finding.min_grace)
    wanted = finding.action is not Action.NONE
    first = previous.first_seen if previous is not None else now
    node = finding.node or (previous.node if previous is not None else "")
    same = previous is not None and previous.reason == finding.reason and (previous.due_at is not None) == wanted
    if previous is None or not same or previous.phase is Phase.RETAINED:
        return _entry(finding, first, now, Phase.SIGHTED, later(now, grace) if wanted else None, node=node)
    if not wanted:
        return msgspec.structs.replace(previous, phase=Phase.SIGHTED, node=node, record="")
    if previous.phase is Phase.SIGHTED and now < later(previous.last_counted, grace):
        return _entry(
            finding, first, previous.last_counted, Phase.SIGHTED, later(previous.last_counted, grace), node=node
        )
    if previous.phase is Phase.SIGHTED:
        return _entry(finding, first, now, Phase.COOLDOWN, later(now, policy.cooldown), node=node)
    # A Releasing mark that outlived its sweep is judged anew: it stands where it stood before the mark.
    record = previous.record if previous.phase is Phase.COOLDOWN else ""
    return msgspec.structs.replace(previous, phase=Phase.COOLDOWN, node=node, record=record)


def _entry(
    finding: Finding, first_seen: datetime, counted: datetime, phase: Phase, due_at: datetime | None, *, node: str = ""
) -> Entry:
    owner = finding.owner
    return Entry(
        finding.address,
        digest_of(finding),
        LedgerOwner(owner.kind, owner.namespace, owner.name, owner.uid) if isinstance(owner, OwnerId) else None,
        finding.reason,
        first_seen,
        counted,
        phase,
        due_at,
        node or finding.node,
        finding.min_grace,
    )
