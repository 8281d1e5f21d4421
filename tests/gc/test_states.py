"""Counting: each address of a pool is in one state, and the states sum to its size."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from factories import ref
from poolwarden.gc.guard import addresses_of
from poolwarden.gc.states import States, Uncounted, count
from poolwarden.ipam.pool import Pool, RecordsUnreadable
from poolwarden.ipam.ranges import address_set, parse_range
from poolwarden.ipam.verdict import Action, Finding, Reason, Verdict

TEN = address_set([parse_range("10.0.0.10-10.0.0.19")])
BLUE = Pool(ref("blue"), "uid", "1", TEN, TEN, ())
A, B, C, D, OUTSIDE = "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13", "10.0.9.9"


def found(address: str | None, verdict: Verdict, digest: str = "") -> Finding:
    """A finding; about a record if it has a digest."""
    return Finding(ref("blue"), address, verdict, Reason.OWNER_GONE, Action.NONE, "", record_digest=digest)


def test_each_state() -> None:
    """Cooling is cooldown, Unknown is unknown, every other record is allocated, the rest is free."""
    findings = [
        found(A, Verdict.IN_USE, "a"),
        found(B, Verdict.LEAKED, "b"),
        found(C, Verdict.LEAKED, "c"),
        found(D, Verdict.UNKNOWN, "d"),
        found("10.0.0.14", Verdict.RETAINED, "e"),
        found("10.0.0.15", Verdict.CONFLICT, "f"),
    ]
    assert count(BLUE, findings, frozenset({"c"})) == States(10, 4, 1, 1, 4)


def test_empty_pool() -> None:
    """Without records all is free."""
    assert count(BLUE, [], frozenset()) == States(10, 0, 0, 0, 10)


def test_outside_the_ranges() -> None:
    """A record outside the ranges, or that is no address, is in no state."""
    findings = [
        found(OUTSIDE, Verdict.UNKNOWN, "a"),
        found(None, Verdict.UNKNOWN, "b"),
        found(OUTSIDE, Verdict.LEAKED, "c"),
    ]
    assert count(BLUE, findings, frozenset({"c"})) == States(10, 0, 0, 0, 10)


def test_in_use_but_unrecorded() -> None:
    """An address that a live pod uses without a record counts as unknown, once."""
    assert count(BLUE, [found(A, Verdict.CONFLICT), found(A, Verdict.CONFLICT)], frozenset()) == States(10, 0, 1, 0, 9)


def test_drift_is_no_state() -> None:
    """What is said of endpoints counts nothing."""
    assert count(BLUE, [found(A, Verdict.DRIFT)], frozenset()) == States(10, 0, 0, 0, 10)


def test_doubt_before_cooldown() -> None:
    """A record in cooldown that has become Unknown is unknown."""
    assert count(BLUE, [found(A, Verdict.UNKNOWN, "a")], frozenset({"a"})) == States(10, 0, 1, 0, 9)


def test_records_that_cannot_be_read() -> None:
    """Then only the size is told, and the states are null."""
    broken = msgspec.structs.replace(BLUE, records=RecordsUnreadable("no JSON"))
    assert count(broken, [], frozenset()) == Uncounted(10)
    told = addresses_of(Uncounted(10))
    assert msgspec.to_builtins(told) == dict.fromkeys(("allocated", "unknown", "cooldown", "free")) | {"size": "10"}


def test_beyond_int64() -> None:
    """A /64 is exact, in decimal."""
    ranges = address_set([parse_range("fd00::-fd00::ffff:ffff:ffff:ffff")])
    six = msgspec.structs.replace(BLUE, configured=ranges, ranges=ranges)
    told = addresses_of(count(six, [found("fd00::1", Verdict.IN_USE, "a")], frozenset()))
    assert (told.size, told.allocated, told.free) == ("18446744073709551616", "1", "18446744073709551615")


addresses = st.sampled_from([f"10.0.0.{number}" for number in range(8, 22)] + [OUTSIDE, "fd00::1"])
anything = st.builds(
    found, st.one_of(st.none(), addresses), st.sampled_from(list(Verdict)), st.sampled_from(["", "a", "b", "c", "d"])
)


@given(st.lists(anything, max_size=30), st.frozensets(st.sampled_from("abcd")))
def test_states_sum_to_the_size(findings: list[Finding], cooling: frozenset[str]) -> None:
    """Whatever is found, no address is in two states, none is in none, and no number is negative."""
    states = count(BLUE, findings, cooling)
    assert isinstance(states, States)
    numbers = (states.allocated, states.unknown, states.cooldown, states.free)
    assert sum(numbers) == states.size == 10
    assert min(numbers) >= 0
