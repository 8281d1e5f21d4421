"""How tries are paced, and how an operator changes that."""

import pytest

from poolwarden.gc.pacing import Backoff, BackoffError, Backoffs, overridden, tries


def waits(backoff: Backoff) -> list[float]:
    """The seconds that are waited before each try."""
    waited: list[float] = []

    def wait(seconds: float) -> bool:
        waited.append(seconds)
        return False

    return [waited.pop() if waited else 0.0 for _ in tries(backoff, wait)]


def test_waits_grow_up_to_the_cap() -> None:
    """The initial delay, then the duration, each later wait longer by the factor, none longer than the cap."""
    paced = Backoff(initial_delay=1.0, duration=2.0, factor=1.5, jitter=0.0, steps=6, cap=6.0)
    assert waits(paced) == [1.0, 2.0, 3.0, 4.5, 6.0, 6.0]


def test_no_wait_before_the_first_try_unless_it_is_wanted() -> None:
    """Without an initial delay the first try is made at once."""
    assert waits(Backoff(jitter=0.0, steps=2)) == [0.0, 0.1]


def test_jitter_is_the_share_that_chance_decides() -> None:
    """With a jitter of a half, a wait is between half of it and all of it."""
    found = [waits(Backoff(duration=1.0, jitter=0.5, steps=2))[1] for _ in range(200)]
    assert 0.5 <= min(found) < 0.7
    assert 0.8 < max(found) <= 1.0


def test_stopping_ends_the_tries() -> None:
    """A program that is told to stop makes no further try."""
    assert list(tries(Backoff(), lambda _: True)) == [0]


def test_fields_of_one_backoff_are_replaced() -> None:
    """What is not named stays; the other backoffs stay."""
    changed = overridden(Backoffs(), "verify:initialDelay=1,duration=2,factor=1.5,jitter=0.5,steps=4")
    assert changed.write == Backoffs().write
    assert changed.verify == Backoff(initial_delay=1.0, duration=2.0, factor=1.5, jitter=0.5, steps=4)


@pytest.mark.parametrize(
    "text",
    [
        *("", "verify", "verify:", "read:steps=2", "verify:tries=2", "verify:steps", "verify:steps=", "verify:steps=0"),
        *("verify:steps=2.5", "verify:steps=101", "verify:jitter=1.1", "verify:factor=0.5", "verify:duration=-1"),
        *("verify:duration=nan", "verify:duration=inf", "verify:duration=3601", "verify:steps=2,", "write:cap=x"),
    ],
)
def test_what_changes_no_backoff(text: str) -> None:
    """The message names the text and what is allowed."""
    with pytest.raises(BackoffError, match=r"is no backoff; allowed|is not allowed; needed") as error:
        overridden(Backoffs(), text)
    assert repr(text) in str(error.value)
