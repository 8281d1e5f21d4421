"""Waiting between tries: exponential, with jitter and a cap, and over at once when the program is told to stop."""

from collections.abc import Callable, Iterator
from random import random

from msgspec import Struct


class Backoff(Struct, frozen=True, rename="camel"):
    """How one kind of step is tried again. Times are in seconds.

    Attributes:
        initial_delay: before the first try.
        duration: before the second try.
        factor: by which each wait is longer than the one before it.
        jitter: from 0 to 1, the share of each wait that chance decides.
        steps: the number of tries.
        cap: the longest wait.
    """

    initial_delay: float = 0.0
    duration: float = 0.1
    factor: float = 2.0
    jitter: float = 1.0
    steps: int = 5
    cap: float = 2.0


class Backoffs(Struct, frozen=True):
    """Every backoff of a sweep, by what it paces; `--backoff KEY=...` replaces fields of one.

    Attributes:
        write: a conditional write that another writer made stale. Five tries a sweep: that writer has long finished by
            then, and the next sweep comes anyway.
        verify: what is read again after a release, until it can be told what came of it.
    """

    write: Backoff = Backoff(duration=0.05, cap=1.0)
    verify: Backoff = Backoff()


def tries(backoff: Backoff, wait: Callable[[float], bool]) -> Iterator[int]:
    """Number the tries, waiting before each as the backoff says; ends early when `wait` says that the program stops."""
    for step in range(backoff.steps):
        pause = min(backoff.cap, backoff.duration * backoff.factor ** (step - 1)) if step else backoff.initial_delay
        if pause and wait(pause * (1 - backoff.jitter * random())):  # noqa: S311 - jitter
            return
        yield step
