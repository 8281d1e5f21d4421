"""The breaker of one pool: what is unusual, to the record, and what an acknowledgement lets go."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import ref
from poolwarden.gc.brakes import Acknowledged, Braked, Open, brake
from poolwarden.gc.policy import Policy
from poolwarden.ipam.verdict import Action, Finding, Reason, Verdict


def findings(leaks: int, in_use: int = 0, other: int = 0, *, told: int = 0, beside: int = 0) -> list[Finding]:
    """So many records: candidates, in use, Unknown, leaked without an action; and findings about no record."""
    rows = [
        *([(Verdict.LEAKED, Action.RELEASE)] * leaks),
        *([(Verdict.IN_USE, Action.NONE)] * in_use),
        *([(Verdict.UNKNOWN, Action.NONE)] * other),
        *([(Verdict.LEAKED, Action.NONE)] * told),
    ]
    records = [
        Finding(ref("blue"), "10.0.0.10", verdict, Reason.OWNER_GONE, action, "", record_digest=f"d{number}")
        for number, (verdict, action) in enumerate(rows)
    ]
    drift = Finding(ref("blue"), None, Verdict.DRIFT, Reason.ENDPOINT_ORPHAN, Action.REPAIR, "", subject_digest="s")
    return records + [drift] * beside


def braked(*counts: int, policy: Policy | None = None, generation: int = 1, spent: int = 0, **more: int) -> bool:
    """Whether a pool of these findings is braked."""
    return isinstance(brake(findings(*counts, **more), policy or Policy(), generation, spent), Braked)


@pytest.mark.parametrize(
    ("leaks", "in_use", "expected"),
    [(1, 1, False), (2, 1, True), (2, 2, False), (3, 2, True), (5, 5, False), (6, 5, True), (50, 50, False)],
)
def test_more_than_half(leaks: int, in_use: int, expected: bool) -> None:  # noqa: FBT001 - a table
    """Exactly half of the records may go, one more may not."""
    assert braked(leaks, in_use) is expected


def test_a_single_leaked_record() -> None:
    """One record that is all of its pool is more than half."""
    assert braked(1)


@pytest.mark.parametrize(
    ("leaks", "unknown", "expected"), [(1, 1, False), (1, 2, False), (1, 3, True), (2, 2, True), (1, 9, True)]
)
def test_nobody_in_use(leaks: int, unknown: int, expected: bool) -> None:  # noqa: FBT001 - a table
    """No record in use is unusual in a pool of more than three records."""
    assert braked(leaks, 0, unknown) is expected
    assert not braked(leaks, 1, unknown + leaks)


def test_nothing_to_release() -> None:
    """A pool without candidates is never braked, though nobody uses it."""
    assert not braked(0, 0, 9)
    assert not braked(0)
    assert not braked(0, told=9)


def test_only_records_are_counted() -> None:
    """Findings about endpoints and pools are neither records nor candidates; a leak of which nothing comes is a record."""
    assert not braked(1, 1, beside=9)
    assert braked(2, 1, beside=9)
    assert not braked(2, 1, told=1)


def test_acknowledged_up_to_the_number() -> None:
    """The operator's number must reach the candidates; the brake says how many there are."""
    closed = brake(findings(6, 2), Policy(acknowledged_leaks=5), 1, 0)
    assert isinstance(closed, Braked)
    assert closed.candidates == 6
    assert "set spec.acknowledgedLeaks to 6" in closed.why
    assert "6 of 8 records" in closed.why
    for number in (6, 7):
        state = brake(findings(6, 2), Policy(acknowledged_leaks=number), 1, 0)
        assert isinstance(state, Acknowledged)
        assert (state.candidates, f"up to {number}" in state.why) == (6, True)


def test_spent_acknowledgement() -> None:
    """One that is spent serves no more, until the spec has a newer generation."""
    policy = Policy(acknowledged_leaks=9)
    assert braked(6, 2, policy=policy, generation=3, spent=3)
    assert braked(6, 2, policy=policy, generation=2, spent=3)
    assert not braked(6, 2, policy=policy, generation=4, spent=3)


def test_open_needs_no_acknowledgement() -> None:
    """In an ordinary pool an acknowledgement changes nothing, spent or not."""
    assert brake(findings(1, 5), Policy(acknowledged_leaks=9), 3, 3) == Open()


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20))
def test_breaker_by_its_rule(leaks: int, in_use: int, other: int) -> None:
    """Braked exactly where candidates exceed half, or nobody of more than three uses the pool that has candidates."""
    records = leaks + in_use + other
    assert braked(leaks, in_use, other) == (leaks > records / 2 or (leaks > 0 and in_use == 0 and records > 3))
