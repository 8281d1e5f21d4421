from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.cluster.runtime import Machine
from poolwarden.cluster.server_clock import ServerClock

NOON = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


class Ours(Machine):
    """Our monotonic clock."""

    def __init__(self) -> None:
        self.now = 77.0

    def monotonic(self) -> float:
        """Seconds."""
        return self.now


def header(time: datetime) -> str:
    """As a server writes its `Date`."""
    return format_datetime(time, usegmt=True)


def test_nothing_heard() -> None:
    """Until an answer came the time is our wall clock's."""
    clock = ServerClock(Ours())
    assert not clock.heard_from
    assert abs(clock.now() - datetime.now(UTC)) < timedelta(seconds=5)


@pytest.mark.parametrize("date", ["", "noon", "Sat, 99 Jan 2026 12:00:00 GMT"])
def test_no_date(date: str) -> None:
    """What is no date tells nothing."""
    clock = ServerClock(Ours())
    clock.heard(date, sent_at=77)
    assert not clock.heard_from


def test_moves_on() -> None:
    """Between answers the time goes on as our monotonic clock does."""
    ours = Ours()
    clock = ServerClock(ours)
    clock.heard(header(NOON), sent_at=ours.now)
    ours.now += 12.5
    assert clock.now() == NOON + timedelta(seconds=12.5)


@given(st.lists(st.tuples(st.floats(0, 5), st.floats(0, 40), st.floats(0, 40)), min_size=1, max_size=30))
def test_never_ahead_and_never_back(answers: list[tuple[float, float, float]]) -> None:
    """However long requests and answers take, we are never ahead of a steady clock, and never step back."""
    ours = Ours()
    clock = ServerClock(ours)
    before = datetime.min.replace(tzinfo=UTC)
    for pause, request, answer in answers:
        ours.now += pause
        sent_at = ours.now
        ours.now += request
        told = NOON + timedelta(seconds=ours.now)
        ours.now += answer
        clock.heard(header(told.replace(microsecond=0)), sent_at=sent_at)
        behind = NOON + timedelta(seconds=ours.now) - clock.now()
        assert timedelta(microseconds=-9) <= behind < timedelta(seconds=1 + answer, microseconds=9)
        assert clock.now() >= before
        before = clock.now()


@pytest.mark.parametrize("step", [timedelta(minutes=-5), timedelta(minutes=5)])
def test_follows_a_server_that_was_set(step: timedelta) -> None:
    """When the server's clock is set anew we follow it, back as well as forth."""
    clock = ServerClock(Ours())
    clock.heard(header(NOON), sent_at=77)
    clock.heard(header(NOON + step), sent_at=77)
    assert timedelta(0) <= clock.now() - (NOON + step) <= timedelta(seconds=1)
