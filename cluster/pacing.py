"""How fast to ask, how long to wait between attempts, and what ends a wait at once."""

import random
from collections.abc import Callable
from threading import Lock
from typing import Protocol

_MOST_DOUBLINGS = 64  # far beyond any cap; 1024 make no float any more


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
