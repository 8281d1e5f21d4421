"""How long the steps of a sweep take, and how they end. Pure: who wants to know is given by the caller."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum


class Step(StrEnum):
    """A part of a sweep; documented in docs/metrics.md."""

    READ = "read"
    JUDGE = "judge"
    RELEASE = "release"
    VERIFY = "verify"
    REBALANCE = "rebalance"
    REPORT = "report"


class StepOutcome(StrEnum):
    """How it ended."""

    SUCCESS = "success"
    FAILURE = "failure"  # a part of it could not be done
    CRASH = "crash"  # an exception left it


OnFinish = Callable[[Step, StepOutcome, float], None]
"""Told how a step ended, and after how many seconds."""


def unheard(_step: Step, _outcome: StepOutcome, _seconds: float, /) -> None:
    """Nobody wants to know."""


class Timer:
    """Runs from the start; its first finish counts, later ones are ignored."""

    def __init__(self, step: Step, on_finish: OnFinish, clock: Callable[[], float]) -> None:
        self._step = step
        self._on_finish = on_finish
        self._clock = clock
        self._began = clock()
        self._over = False

    def finish(self, outcome: StepOutcome) -> None:
        """The step is over, if it was not before."""
        if not self._over:
            self._over = True
            self._on_finish(self._step, outcome, self._clock() - self._began)


class Timers:
    """Times steps. `clock` is monotonic, in seconds."""

    def __init__(self, on_finish: OnFinish = unheard, clock: Callable[[], float] = time.monotonic) -> None:
        self._on_finish = on_finish
        self._clock = clock

    @contextmanager
    def step(self, step: Step) -> Iterator[Timer]:
        """Time what is done within: a success, unless it finishes the timer otherwise, or an exception leaves it."""
        timer = Timer(step, self._on_finish, self._clock)
        try:
            yield timer
        except BaseException:
            timer.finish(StepOutcome.CRASH)
            raise
        timer.finish(StepOutcome.SUCCESS)


UNTIMED = Timers()
