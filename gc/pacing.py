"""Waiting between tries: exponential, with jitter and a cap, and over at once when the program is told to stop."""

from collections.abc import Callable, Iterator
from random import random

import msgspec
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
    """Every backoff of a sweep, by what it paces; `--backoff` replaces fields of one.

    Attributes:
        write: a conditional write that another writer made stale. Five tries a sweep: that writer has long finished by
            then, and the next sweep comes anyway.
        verify: what is read again after a release, until it can be told what came of it.
    """

    write: Backoff = Backoff(duration=0.05, cap=1.0)
    verify: Backoff = Backoff()


class BackoffError(ValueError):
    """A text that changes no backoff; the message names it and what is allowed."""


MOST_STEPS = 100
LONGEST_PAUSE = 3600.0
_ALLOWED = "allowed is KEY:FIELD=NUMBER,... with one of the keys {keys} and the fields {fields}"


def overridden(backoffs: Backoffs, text: str) -> Backoffs:
    """The backoffs with fields of one replaced: `verify:initialDelay=1,duration=2,factor=1.5,jitter=0.5,steps=4`.

    Times are seconds of at most an hour, steps 1 to 100, factor from 1 on, jitter 0 to 1.

    Raises:
        BackoffError: no such text.
    """
    key, _, changes = text.partition(":")
    names = dict(zip(Backoff.__struct_encode_fields__, Backoff.__struct_fields__, strict=True))
    allowed = _ALLOWED.format(keys=", ".join(Backoffs.__struct_fields__), fields=", ".join(names))
    given = [change.partition("=")[::2] for change in changes.split(",")]
    if key not in Backoffs.__struct_fields__ or not all(name in names for name, _ in given):
        raise BackoffError(f"{text!r} is no backoff; {allowed}")
    values: dict[str, float] = {}
    for name, value in given:
        try:
            number = float(value)
        except ValueError:
            number = -1.0
        least, most = _BOUNDS.get(name, (0.0, LONGEST_PAUSE))
        if not least <= number <= most or (name == "steps" and not number.is_integer()):
            raise BackoffError(
                f"{name}={value!r} in {text!r} is not allowed; needed: a number from {least:g} to {most:g}"
            )
        values[names[name]] = int(number) if name == "steps" else number
    return msgspec.structs.replace(backoffs, **{key: msgspec.structs.replace(getattr(backoffs, key), **values)})


_BOUNDS = {"steps": (1.0, float(MOST_STEPS)), "factor": (1.0, 100.0), "jitter": (0.0, 1.0)}


def tries(backoff: Backoff, wait: Callable[[float], bool]) -> Iterator[int]:
    """Number the tries, waiting before each as the backoff says; ends early when `wait` says that the program stops."""
    for step in range(backoff.steps):
        pause = min(backoff.cap, backoff.duration * backoff.factor ** (step - 1)) if step else backoff.initial_delay
        if pause and wait(pause * (1 - backoff.jitter * random())):  # noqa: S311 - jitter
            return
        yield step
