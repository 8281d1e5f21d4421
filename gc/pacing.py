"""Waiting between tries: exponential, with full jitter and a cap, and over at once when the program is told to stop."""

from collections.abc import Callable, Iterator
from random import uniform

from msgspec import Struct


class Backoff(Struct, frozen=True):
    """`first` and `cap` are seconds; `steps` the number of tries."""

    first: float
    factor: float
    cap: float
    steps: int


WRITE = Backoff(first=0.05, factor=2.0, cap=1.0, steps=5)
"""Five tries a sweep: another writer of the same pool has long finished by then, and the next sweep comes anyway."""

VERIFY = Backoff(first=0.1, factor=2.0, cap=2.0, steps=5)


def tries(backoff: Backoff, wait: Callable[[float], bool]) -> Iterator[int]:
    """Number the tries, waiting before each but the first; ends early when `wait` says that the program stops."""
    for step in range(backoff.steps):
        if step and wait(uniform(0, min(backoff.cap, backoff.first * backoff.factor ** (step - 1)))):  # noqa: S311 - jitter
            return
        yield step
