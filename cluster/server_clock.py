"""The API server's clock, as heard from the `Date` headers of its answers."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import lru_cache
from threading import Lock

from poolwarden.cluster.runtime import Runtime

_SECOND = timedelta(seconds=1)


@lru_cache(maxsize=2)
def _parsed(date: str) -> datetime:
    """The time of a `Date` header; answers of one second say the same."""
    return parsedate_to_datetime(date).astimezone(UTC)


class ServerClock:
    """Moves on by our monotonic clock between answers, so that a wrong or adjusted wall clock here does not matter.

    It may be behind the server's, by less than a second and the time that an answer took, but is never ahead.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._lock = Lock()
        self._heard = False
        self._origin = datetime.min.replace(tzinfo=UTC)  # what the server's clock showed when ours showed 0

    @property
    def heard_from(self) -> bool:
        """Whether any answer told the time yet."""
        return self._heard

    def heard(self, date: str, *, sent_at: float) -> None:
        """Take the `Date` of an answer that has just arrived to a request of `sent_at`; what is no date is ignored."""
        try:
            told = _parsed(date)
        except ValueError:
            return
        # The server's clock stood in the second `told` at some moment since the request was sent: that bounds the
        # origin from both sides, and an estimate within the bounds is as good as any.
        earliest = told - timedelta(seconds=self._runtime.monotonic())
        latest = told + _SECOND - timedelta(seconds=sent_at)
        with self._lock:
            self._origin = min(max(self._origin, earliest), latest) if self._heard else earliest
            self._heard = True

    def now(self) -> datetime:
        """The server's time; our wall clock while nothing was heard."""
        if not self._heard:
            return self._runtime.utc_now()
        return self._origin + timedelta(seconds=self._runtime.monotonic())
