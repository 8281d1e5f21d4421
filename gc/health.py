"""Whether a daemon's sweeps keep up with their schedule: what its probes ask."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from threading import Lock

from msgspec import Struct

Due = Callable[[datetime, int], datetime]
"""When so many sweeps are due, counted from a time."""
LATE_SWEEPS = 3
LEAST_PATIENCE = timedelta(minutes=10)
"""A slow API server must not get a sweep that is due every few seconds killed."""


class _StandsBy(Struct, frozen=True, tag=True):
    """Somebody else leads, or nobody does yet."""


class _Leads(Struct, frozen=True, tag=True):
    """We lead since then, and have finished no sweep yet."""

    since: datetime


class _Swept(Struct, frozen=True, tag=True):
    """Our newest sweep finished then, however it ended."""

    at: datetime


class Health:
    """What the daemon is at; several threads may share it. `clock` is this machine's, UTC."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._clock = clock
        self._lock = Lock()
        self._state: _StandsBy | _Leads | _Swept = _StandsBy()

    def stands_by(self) -> None:
        """The term is over."""
        self._become(_StandsBy())

    def leads(self) -> None:
        """A term begins."""
        self._become(_Leads(self._clock()))

    def swept(self) -> None:
        """A sweep is over, well or not: that it failed is not cured by a restart."""
        self._become(_Swept(self._clock()))

    def _become(self, state: _StandsBy | _Leads | _Swept) -> None:
        with self._lock:
            self._state = state

    def trouble(self, due_after: Due) -> str:
        """Why this process should be restarted, "" if it should not: no sweep finished while several were due."""
        with self._lock:
            state = self._state
        match state:
            case _StandsBy():
                return ""
            case _Leads(since=last) | _Swept(at=last):
                late = self._clock() > max(due_after(last, LATE_SWEEPS), last + LEAST_PATIENCE)
                return f"no sweep has finished since {last:%Y-%m-%dT%H:%M:%SZ}" if late else ""

    @property
    def waiting(self) -> str:
        """Why it is not ready, "" if it is. One that stands by is ready: else none could take over in an update."""
        with self._lock:
            return "the first sweep is under way" if isinstance(self._state, _Leads) else ""
