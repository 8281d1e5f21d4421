"""How fast to ask, how long to wait between attempts, and how to stop waiting at once."""

import random
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from enum import Enum
from threading import Lock, Thread
from typing import Protocol, TypeVar

T = TypeVar("T")

_MOST_DOUBLINGS = 64  # far beyond any cap; 1024 make no float any more
_POLL_SECONDS = 0.1  # how soon a wait for the network notices that the program is stopping


class Stop(Protocol):
    """What `threading.Event` offers: set once when the program is told to end."""

    def is_set(self) -> bool:
        """Whether the program was told to end."""
        ...

    def wait(self, timeout: float) -> bool:
        """Sleep for `timeout` seconds or until set; true if set."""
        ...


class TokenBucket:
    """Allows `qps` requests per second on average and `burst` at once; several threads may share one."""

    def __init__(self, qps: float, burst: int, monotonic: Callable[[], float]) -> None:
        self._qps = qps
        self._burst = burst
        self._monotonic = monotonic
        self._lock = Lock()
        self._tokens = float(burst)
        self._counted_at = monotonic()

    def take(self) -> float:
        """Take a token, perhaps one of the future; returns the seconds to wait until it is there."""
        with self._lock:
            now = self._monotonic()
            self._tokens = min(self._burst, self._tokens + (now - self._counted_at) * self._qps) - 1
            self._counted_at = now
            return max(0.0, -self._tokens / self._qps)


def backoff(failures: int, *, base: float, cap: float) -> float:
    """Seconds to wait after that many failures in a row (at least one): exponential and capped, with full jitter.

    Full jitter (anything from nothing to the whole) spreads clients best:
    https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/
    """
    doublings = min(failures - 1, _MOST_DOUBLINGS)
    return random.uniform(0, min(cap, base * 2**doublings))  # noqa: S311 - spreads load, hides nothing


class Abandoned(Enum):
    """Why a call was given up."""

    LATE = "late"
    STOPPED = "stopped"


def abandonable(call: Callable[[], T], *, seconds: float, stopped: Callable[[], bool]) -> T | Abandoned:
    """What `call` returns; or why it was given up, after `seconds` or soon after `stopped` says so.

    The call goes on in a daemon thread that nobody awaits: socket time-outs bound each wait for bytes, but neither a
    name server's silence nor an answer that drips in.
    """
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
            future.set_exception(error)

    Thread(target=run, name="request", daemon=True).start()
    deadline = time.monotonic() + seconds
    while not wait((future,), max(0.0, min(_POLL_SECONDS, seconds))).done:
        if stopped():
            return Abandoned.STOPPED
        if time.monotonic() >= deadline:
            return Abandoned.LATE
    return future.result()
