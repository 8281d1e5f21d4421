"""Points in time as Kubernetes writes them: RFC 3339 text, and aware datetimes in UTC here."""

import re
from datetime import UTC, datetime

# RFC 3339 section 5.6; Go's encoder writes up to nine digits of a second, a datetime keeps six.
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\d)[Tt](\d\d:\d\d:\d\d)(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def utc_now() -> datetime:
    """This machine's wall clock."""
    return datetime.now(UTC)


def parse_time(text: str) -> datetime:
    """An RFC 3339 time as an aware datetime in UTC, cut to microseconds.

    Raises:
        ValueError: it is no RFC 3339 time (a time without offset is none), or no day of the calendar.
    """
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no RFC 3339 time, such as 2026-01-31T12:00:00Z")
    day, time, fraction, offset = match.groups(default="")
    try:
        return datetime.fromisoformat(f"{day}T{time}{fraction[:7]}{offset.upper()}").astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is no time: {error}") from None


def format_time(when: datetime) -> str:
    """As `metav1.Time` is written: whole seconds, cut off; UTC."""
    return f"{_utc(when).isoformat(timespec='seconds')}Z"


def format_micro_time(when: datetime) -> str:
    """As `metav1.MicroTime` is written: always six digits of a second; UTC."""
    return f"{_utc(when).isoformat(timespec='microseconds')}Z"


def _utc(when: datetime) -> datetime:
    if when.tzinfo is None:
        raise ValueError(f"{when} has no time zone")
    return when.astimezone(UTC).replace(tzinfo=None)
