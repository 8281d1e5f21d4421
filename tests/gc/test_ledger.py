"""The ledger by itself: when a sighting counts, what stops or resets its clock, and what is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import NOW, ref
from poolwarden.gc.ledger import (
    MOST_ENTRIES,
    Advance,
    Entry,
    Phase,
    advance,
    bounded,
    digest_of,
    due,
    later,
    sighted,
)
from poolwarden.gc.policy import Policy, Retention, RetentionRule
from poolwarden.ipam.verdict import Action, Finding, NoOwner, OwnerId, Reason, Verdict

A = "10.0.0.10"
OWNER = OwnerId("Pod", "default", "app", "app-uid")
FAR = datetime.max.replace(tzinfo=UTC)


def leak(**more: Any) -> Finding:
    """OwnerGone about a record with digest `d`, to be released."""
    fields: dict[str, Any] = {
        "pool": ref("blue"),
        "address": A,
        "verdict": Verdict.LEAKED,
        "reason": Reason.OWNER_GONE,
        "action": Action.RELEASE,
        "message": "it leaked",
        "owner": OWNER,
        "record_digest": "d",
    }
    return Finding(**(fields | more))


def unknown(reason: Reason = Reason.EVIDENCE_INCOMPLETE, **more: Any) -> Finding:
    """Unknown about the same record."""
    return leak(verdict=Verdict.UNKNOWN, reason=reason, action=Action.NONE, **more)


def told(finding: Finding) -> Finding:
    """The same finding where nothing may be done about it."""
    return msgspec.structs.replace(finding, action=Action.NONE)


def at(seconds: float) -> datetime:
    """So many seconds after NOW."""
    return NOW + timedelta(seconds=seconds)


def counted(*sightings: tuple[float, Finding | None], policy: Policy | None = None) -> tuple[Entry, ...]:
    """The ledger after these sightings, each at so many seconds; None: the record is gone."""
    entries: tuple[Entry, ...] = ()
    for seconds, finding in sightings:
        entries = step(entries, finding, seconds, policy).ledger.entries
    return entries


def step(entries: tuple[Entry, ...], finding: Finding | None, seconds: float, policy: Policy | None = None) -> Advance:
    """One more sweep."""
    return advance(entries, [finding] if finding else [], policy or Policy(), at(seconds))


def only(*sightings: tuple[float, Finding | None], policy: Policy | None = None) -> Entry:
    """The one entry after these sightings."""
    (entry,) = counted(*sightings, policy=policy)
    return entry


def phases(*sightings: tuple[float, Finding | None], policy: Policy | None = None) -> list[str]:
    """The phase of the entry after each sighting, "" where there is none."""
    told = []
    for number in range(len(sightings)):
        entries = counted(*sightings[: number + 1], policy=policy)
        told.append(entries[0].phase.value if entries else "")
    return told


def is_due(entry: Entry, seconds: float, finding: Finding | None = None) -> bool:
    """Whether an entry is due at so many seconds."""
    return bool(due([entry], [finding or leak()], at(seconds)))


# --- from first sighting to release -----------------------------------------------------------------------------------


def test_first_sighting() -> None:
    """A new leak is sighted, its grace runs from now, and nothing is due, however late it is."""
    entry = only((0, leak(node="node-1", min_grace=30)))
    assert entry == Entry(
        A,
        "d",
        entry.owner,
        "OwnerGone",
        NOW,
        NOW,
        Phase.SIGHTED,
        at(600),
        "node-1",
        30,
    )
    assert msgspec.to_builtins(entry.owner) == {
        "kind": "Pod",
        "namespace": "default",
        "name": "app",
        "uid": "app-uid",
    }
    assert not is_due(entry, 10**6)


def test_two_sightings_a_grace_apart() -> None:
    """Exactly the grace apart is enough, a second less is not, however many sweeps lie in between."""
    assert phases((0, leak()), (300, leak()), (599, leak())) == ["Sighted"] * 3
    assert phases((0, leak()), (600, leak())) == ["Sighted", "Cooldown"]


def test_cooldown_runs_from_the_second_sighting() -> None:
    """The record stays for the cooldown after the sweep that counted it, and is due exactly then."""
    entry = only((0, leak()), (700, leak()))
    assert (entry.phase, entry.last_counted, entry.due_at) == (Phase.COOLDOWN, at(700), at(760))
    assert entry.first_seen == NOW
    assert not is_due(entry, 759)
    assert is_due(entry, 760)


def test_cooldown_is_not_begun_anew_by_later_sweeps() -> None:
    """Sweeps within the cooldown leave it as it is."""
    assert only((0, leak()), (700, leak()), (720, leak())) == only((0, leak()), (700, leak()))


def test_no_grace_and_no_cooldown() -> None:
    """With neither, two sightings are still needed, at two sweeps."""
    hasty = Policy(grace=0, cooldown=0)
    assert not is_due(only((0, leak()), policy=hasty), 0)
    assert is_due(only((0, leak()), (0, leak()), policy=hasty), 0)


def test_grace_of_the_owner() -> None:
    """The owner's terminationGracePeriodSeconds, where longer, is waited for, and kept in the entry."""
    long = leak(min_grace=3600)
    assert phases((0, long), (700, long), (3599, long), (3600, long)) == ["Sighted"] * 3 + ["Cooldown"]
    assert only((0, long)).min_grace_seconds == 3600
    assert only((0, long)).due_at == at(3600)


def test_shorter_grace_than_the_policy() -> None:
    """The policy's grace is the least."""
    assert phases((0, leak(min_grace=1)), (599, leak(min_grace=1))) == ["Sighted", "Sighted"]


def test_grace_that_grows_meanwhile() -> None:
    """What counts is the grace at the second sighting: one that turns out longer is waited for from the first."""
    entry = only((0, leak()), (600, leak(min_grace=900)))
    assert (entry.phase, entry.due_at, entry.min_grace_seconds) == (Phase.SIGHTED, at(900), 900)


def test_policy_edited_meanwhile() -> None:
    """A longer grace in the guard holds from the next sweep on."""
    entries = counted((0, leak()))
    now = step(entries, leak(), 700, Policy(grace=1200)).ledger.entries
    assert (now[0].phase, now[0].due_at) == (Phase.SIGHTED, at(1200))


# --- what stops the clock, and what ends it ---------------------------------------------------------------------------


@pytest.mark.parametrize("verdict", [Verdict.IN_USE, Verdict.CONFLICT, Verdict.RETAINED])
def test_verdict_that_resets(verdict: Verdict) -> None:
    """InUse, Conflict and Retained end the clock; the next sighting is a first one."""
    other = leak(verdict=verdict, action=Action.NONE)
    assert phases((0, leak()), (300, other), (700, leak()), (1299, leak()), (1300, leak())) == [
        "Sighted",
        "",
        "Sighted",
        "Sighted",
        "Cooldown",
    ]
    assert phases((0, leak()), (700, leak()), (800, other)) == ["Sighted", "Cooldown", ""]
    assert only((0, leak()), (300, other), (700, leak())).first_seen == at(700)


def test_changed_record() -> None:
    """Another digest is another record: its clock starts anew, and the old entry goes."""
    entry = only((0, leak()), (700, leak(record_digest="e")))
    assert (entry.record_digest, entry.phase, entry.first_seen) == ("e", Phase.SIGHTED, at(700))


def test_record_that_left() -> None:
    """A record that is gone leaves no entry, so that the same record later is a first sighting."""
    assert phases((0, leak()), (300, None), (700, leak())) == ["Sighted", "", "Sighted"]


def test_other_reason() -> None:
    """The same verdict for another reason counts anew, with the first sighting remembered."""
    entry = only((0, leak()), (700, leak(reason=Reason.OWNER_REPLACED)))
    assert (entry.phase, entry.reason, entry.first_seen) == (Phase.SIGHTED, "OwnerReplaced", NOW)
    assert (entry.last_counted, entry.due_at) == (at(700), at(1300))
    cooling = only((0, leak()), (700, leak()), (710, leak(reason=Reason.OWNER_REPLACED)))
    assert cooling.phase is Phase.SIGHTED


@pytest.mark.parametrize("phase", [0, 1])
def test_unknown_neither_counts_nor_resets(phase: int) -> None:
    """The entry stays as it was, and is not due while doubt lasts."""
    before = [(0, leak()), (700, leak())][: phase + 1]
    assert counted(*before, (10**5, unknown())) == counted(*before)
    assert not is_due(counted((0, leak()), (700, leak()))[0], 10**6, unknown())


def test_unknown_is_no_second_sighting() -> None:
    """A leak, then doubt for long, then a leak: the two leaks are the sightings, a grace apart."""
    assert phases((0, leak()), (700, unknown()), (701, leak())) == ["Sighted", "Sighted", "Cooldown"]


def test_unknown_alone_makes_no_entry() -> None:
    """Doubt about a record that was never sighted is no first sighting."""
    assert counted((0, unknown())) == ()


def test_silent_node_is_remembered() -> None:
    """A record whose node is silent has an entry that can never be due, but tells its node; the count starts after."""
    entry = only((0, unknown(Reason.NODE_UNREACHABLE, node="node-1")))
    assert (entry.phase, entry.due_at, entry.node) == (Phase.SIGHTED, None, "node-1")
    assert phases((0, unknown(Reason.NODE_UNREACHABLE)), (5000, leak()), (5599, leak()), (5600, leak())) == [
        "Sighted",
        "Sighted",
        "Sighted",
        "Cooldown",
    ]


def test_node_is_not_forgotten() -> None:
    """Where a later finding does not know the node, the ledger still does."""
    assert only((0, leak(node="node-1")), (300, leak())).node == "node-1"
    assert only((0, leak(node="node-1")), (700, leak())).node == "node-1"
    assert only((0, leak(node="node-1")), (300, unknown())).node == "node-1"
    assert only((0, leak(node="node-1")), (300, leak(reason=Reason.OWNER_REPLACED))).node == "node-1"


def test_leak_about_which_nothing_may_be_done() -> None:
    """It has an entry without a due time; once something may be done, its grace starts."""
    entry = only((0, told(leak())))
    assert (entry.phase, entry.due_at) == (Phase.SIGHTED, None)
    allowed = only((0, told(leak())), (5000, leak()))
    assert (allowed.phase, allowed.first_seen, allowed.due_at) == (Phase.SIGHTED, NOW, at(5600))
    again = only((0, leak()), (700, leak()), (800, told(leak())))
    assert (again.phase, again.due_at) == (Phase.SIGHTED, None)
    assert not is_due(only((0, leak()), (700, leak())), 10**6, told(leak()))


@pytest.mark.parametrize("reason", [Reason.ENDPOINT_ORPHAN, Reason.INTERFACE_EMPTY])
def test_repair_counts_like_a_release(reason: Reason) -> None:
    """Repairs obey the same two sightings; an endpoint is known by its own digest."""
    drift = leak(
        verdict=Verdict.DRIFT,
        reason=reason,
        action=Action.REPAIR,
        record_digest="",
        subject="default/app",
        subject_digest="s",
    )
    assert digest_of(drift) == "s"
    assert phases((0, drift), (599, drift), (600, drift)) == ["Sighted", "Sighted", "Cooldown"]
    assert is_due(only((0, drift), (600, drift)), 660, drift)


def test_drift_that_nothing_repairs() -> None:
    """Drift without an action, and findings about a pool itself, have no entry."""
    drift = leak(verdict=Verdict.DRIFT, reason=Reason.ENDPOINT_MISSING, action=Action.NONE)
    assert counted((0, drift)) == ()
    assert counted((0, leak(record_digest=""))) == ()


# --- a mark that outlived its sweep -----------------------------------------------------------------------------------


def releasing(**more: Any) -> Entry:
    """An entry that was due and marked at 800 s."""
    entry = only((0, leak()), (700, leak()))
    marked = msgspec.structs.replace(entry, phase=Phase.RELEASING, last_counted=at(800), record="{}")
    return msgspec.structs.replace(marked, **more)


def test_mark_is_judged_anew() -> None:
    """After our death the mark is no licence: it stands in cooldown, due only if this sweep's finding says so."""
    (entry,) = step((releasing(),), leak(), 900).ledger.entries
    assert (entry.phase, entry.record, entry.due_at) == (Phase.COOLDOWN, "", at(760))
    (doubted,) = step((releasing(),), unknown(), 900).ledger.entries
    assert (doubted.phase, doubted.record) == (Phase.COOLDOWN, "")
    assert not is_due(doubted, 900, unknown())
    assert step((releasing(),), leak(verdict=Verdict.IN_USE, action=Action.NONE), 900).ledger.entries == ()


def test_mark_with_another_reason() -> None:
    """A mark for a reason that no longer holds is a first sighting."""
    (entry,) = step((releasing(),), leak(reason=Reason.OWNER_REPLACED), 900).ledger.entries
    assert (entry.phase, entry.due_at) == (Phase.SIGHTED, at(1500))


def test_mark_by_hand_is_no_sighting() -> None:
    """A mark that an operator's release left is due at no time: to gc it is a first sighting, in need of its grace."""
    (entry,) = step((releasing(due_at=None),), leak(), 900).ledger.entries
    assert (entry.phase, entry.due_at) == (Phase.SIGHTED, at(1500))
    assert not is_due(releasing(due_at=None), 10**6)


def test_sighted_by_hand_is_not_due() -> None:
    """The entry of a release by hand that failed does not count."""
    assert sighted(leak(), NOW).due_at is None
    (entry,) = step((sighted(leak(), NOW),), leak(), 10**5).ledger.entries
    assert entry.phase is Phase.SIGHTED


def test_releasing_is_never_due() -> None:
    """Only what stands in cooldown at this sweep is due."""
    assert not is_due(releasing(), 10**6)


# --- what is kept, and told -------------------------------------------------------------------------------------------


def many(number: int) -> list[Entry]:
    """So many entries, each first seen a second after the one before."""
    entry = only((0, leak()))
    return [msgspec.structs.replace(entry, record_digest=f"d{n}", first_seen=at(n)) for n in range(number)]


def test_at_most_500_entries() -> None:
    """The oldest 500 are kept, the others are counted."""
    entries = many(MOST_ENTRIES + 3)
    ledger = bounded(reversed(entries))
    assert ledger.entries == tuple(entries[:500])
    assert ledger.omitted == 3
    assert bounded(entries[:500]).omitted == 0


def test_releasing_is_never_dropped() -> None:
    """A mark stays, though it be the newest."""
    entries = many(MOST_ENTRIES + 2)
    newest = msgspec.structs.replace(entries[-1], phase=Phase.RELEASING)
    ledger = bounded([*entries[:-1], newest])
    assert newest in ledger.entries
    assert len(ledger.entries) == 500
    assert ledger.omitted == 2
    marks = [msgspec.structs.replace(entry, phase=Phase.RELEASING) for entry in entries]
    assert bounded(marks).entries == tuple(marks)


def test_advance_is_bounded() -> None:
    """A sweep that finds more leaks than the ledger holds keeps 500 and says how many it did not."""
    findings = [leak(record_digest=f"d{number}") for number in range(503)]
    step = advance((), findings, Policy(), NOW)
    assert (len(step.ledger.entries), step.ledger.omitted) == (500, 3)


def test_what_is_detected() -> None:
    """A leak is news at its first sighting, and with another reason; not again, and not while it is Unknown."""
    first = step((), leak(), 0)
    assert first.detected == (leak(),)
    assert step(first.ledger.entries, leak(), 300).detected == ()
    assert step(first.ledger.entries, leak(reason=Reason.OWNER_REPLACED), 300).detected != ()
    assert step((), unknown(Reason.NODE_UNREACHABLE), 0).detected == ()
    assert step((), told(leak()), 0).detected == (told(leak()),)


def test_leak_after_a_silent_node_is_news() -> None:
    """A record of which only its node's silence was known is told as leaked once it is."""
    entries = step((), unknown(Reason.NODE_UNREACHABLE), 0).ledger.entries
    assert step(entries, leak(), 600).detected == (leak(),)


def test_due_is_oldest_first() -> None:
    """What is due comes in the order of the ledger, which is by first sighting."""
    findings = [leak(record_digest=name) for name in "abc"]
    entries = advance((), findings[2:], Policy(), NOW).ledger.entries
    entries = advance(entries, findings, Policy(), at(1)).ledger.entries
    entries = advance(entries, findings, Policy(), at(700)).ledger.entries
    assert [entry.record_digest for entry, _ in due(entries, findings, at(800))] == ["c", "a", "b"]


def test_owner_that_cannot_be_parsed() -> None:
    """An entry without an owner has none."""
    assert only((0, leak(owner=NoOwner()))).owner is None


# --- retention --------------------------------------------------------------------------------------------------------


def test_release_after_remembers_since_when_the_owner_is_absent() -> None:
    """Under ReleaseAfter a Retained record has an entry of its own, which is never due, from the first absence on."""
    policy = Policy(retention=Retention(RetentionRule.RELEASE_AFTER, 3600))
    retained = leak(verdict=Verdict.RETAINED, reason=Reason.STATEFUL_SET_ENTITLED, action=Action.NONE)
    entry = only((0, retained), (1800, retained), policy=policy)
    assert (entry.phase, entry.first_seen, entry.due_at) == (Phase.RETAINED, NOW, None)
    freed = only((0, retained), (3600, leak()), policy=policy)
    assert (freed.phase, freed.first_seen, freed.due_at) == (Phase.SIGHTED, NOW, at(4200))
    assert step(counted((0, retained), policy=policy), leak(), 3600, policy).detected == (leak(),)


def test_retention_without_a_limit_needs_no_entry() -> None:
    """WhileEntitled and ReleaseAlways count nothing."""
    retained = leak(verdict=Verdict.RETAINED, action=Action.NONE)
    for rule in (RetentionRule.WHILE_ENTITLED, RetentionRule.RELEASE_ALWAYS):
        assert counted((0, retained), policy=Policy(retention=Retention(rule))) == ()


def test_owner_that_returned_meanwhile() -> None:
    """An owner that was live in between is absent anew."""
    policy = Policy(retention=Retention(RetentionRule.RELEASE_AFTER, 3600))
    retained = leak(verdict=Verdict.RETAINED, action=Action.NONE)
    live = leak(verdict=Verdict.IN_USE, action=Action.NONE)
    assert only((0, retained), (60, live), (120, retained), policy=policy).first_seen == at(120)


# --- numbers beyond all time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [10**12, 10**15, 10**30])
def test_no_overflow(seconds: int) -> None:
    """An absurd grace or cooldown is the end of all calendars, not an error."""
    assert later(NOW, seconds) == FAR
    assert only((0, leak()), policy=Policy(grace=seconds)).due_at == FAR
    assert only((0, leak()), (700, leak()), policy=Policy(cooldown=seconds)).due_at == FAR
    assert only((0, leak(min_grace=seconds)), (700, leak(min_grace=seconds))).phase is Phase.SIGHTED


sightings = st.lists(
    st.tuples(
        st.integers(0, 400),
        st.sampled_from(
            [
                leak(),
                told(leak()),
                leak(reason=Reason.OWNER_REPLACED),
                leak(min_grace=900),
                unknown(),
                unknown(Reason.NODE_UNREACHABLE),
                leak(verdict=Verdict.IN_USE, action=Action.NONE),
                leak(verdict=Verdict.RETAINED, action=Action.NONE),
                leak(verdict=Verdict.CONFLICT, action=Action.NONE),
                leak(record_digest="e"),
                None,
            ]
        ),
    ),
    max_size=12,
)


@given(sightings)
def test_what_is_due_was_sighted_twice(history: list[tuple[int, Finding | None]]) -> None:
    """Whatever was seen: due means the same digest, verdict and reason twice, grace + cooldown ago, unbroken but for doubt."""
    entries: tuple[Entry, ...] = ()
    seconds = 0
    since: tuple[Finding, int] | None = None
    for passed, finding in history:
        seconds += passed
        entries = step(entries, finding, seconds).ledger.entries
        if finding is None or finding.verdict is not Verdict.UNKNOWN:
            plain = msgspec.structs.replace(finding, min_grace=0) if finding else None
            if plain is None or plain.action is not Action.RELEASE:
                since = None
            elif since is None or since[0] != plain:
                since = (plain, seconds)
        for entry, _ in due(entries, [finding] if finding else [], at(seconds)):
            assert finding is not None
            assert finding.action is Action.RELEASE
            assert since is not None
            assert seconds - since[1] >= 660
            assert entry.phase is Phase.COOLDOWN


def test_leaks_beyond_the_ledger_are_no_news_every_sweep() -> None:
    """Nothing is said twice for an unchanged finding, though the ledger be full."""
    findings = [leak(record_digest=f"d{number}") for number in range(503)]
    first = advance((), findings, Policy(), NOW)
    assert len(first.detected) == 503
    assert advance(first.ledger.entries, findings, Policy(), at(300)).detected == ()
