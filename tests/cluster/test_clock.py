from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.cluster.clock import format_micro_time, format_time, parse_time

NOON = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("2026-01-10T12:00:00Z", NOON),
        ("2026-01-10t12:00:00z", NOON),
        ("2026-01-10T14:00:00+02:00", NOON),
        ("2026-01-10T12:00:00.5Z", NOON + timedelta(milliseconds=500)),
        ("2026-01-10T12:00:00.000001Z", NOON + timedelta(microseconds=1)),
        ("2026-01-10T12:00:00.123456789Z", NOON + timedelta(microseconds=123456)),
    ],
)
def test_parse(text: str, time: datetime) -> None:
    """Every form of RFC 3339 is read, nanoseconds cut to microseconds, and comes out in UTC."""
    assert parse_time(text) == time
    assert parse_time(text).tzinfo is UTC


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-10",
        "2026-01-10T12:00:00",
        "2026-01-10 12:00:00Z",
        "2026-01-10T12:00Z",
        "2026-02-30T12:00:00Z",
        "2026-01-10T12:00:60Z",
        "2026-01-10T12:00:00+0200",
        "2026-01-10T12:00:00+99:00",
        "2026-01-10T12:00:00Z\n",
        "٢٠٢٦-01-10T12:00:00Z",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_parse_refuses(text: str) -> None:
    """What is no RFC 3339 time is an error that quotes it; a time without offset is none."""
    with pytest.raises(ValueError, match=r"no (RFC 3339 )?time") as error:
        parse_time(text)
    assert repr(text) in str(error.value)


def test_format() -> None:
    """A Time has whole seconds, cut off; a MicroTime always six digits; both are in UTC."""
    time = datetime(2026, 1, 10, 13, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=1)))
    assert format_time(time) == "2026-01-10T12:00:00Z"
    assert format_micro_time(time) == "2026-01-10T12:00:00.999999Z"
    assert format_micro_time(NOON) == "2026-01-10T12:00:00.000000Z"


def test_format_refuses_naive_times() -> None:
    """A time without zone could mean any; it is not written."""
    with pytest.raises(ValueError, match="no time zone"):
        format_time(NOON.replace(tzinfo=None))


@given(st.datetimes(timezones=st.just(UTC)))
def test_micro_time_keeps_the_instant(time: datetime) -> None:
    """Writing a MicroTime and reading it loses nothing."""
    assert parse_time(format_micro_time(time)) == time
