import threading
import time

import pytest

from poolwarden.cluster.runtime import MACHINE, Abandoned


def test_bounded_answers() -> None:
    """What is done in time is answered, or raised, at once."""
    assert MACHINE.bounded(lambda: 5, seconds=10, stopped=lambda: False) == 5
    assert MACHINE.bounded(lambda: time.sleep(0.3), seconds=10, stopped=lambda: False) is None

    def fail() -> int:
        raise TimeoutError("ours")

    with pytest.raises(TimeoutError, match="ours"):
        MACHINE.bounded(fail, seconds=10, stopped=lambda: False)


@pytest.mark.parametrize(("seconds", "stopped", "why"), [(0.1, False, Abandoned.LATE), (10, True, Abandoned.STOPPED)])
def test_bounded_gives_up(seconds: float, stopped: bool, why: Abandoned) -> None:  # noqa: FBT001
    """Too late, or told to stop: the call is left alone."""
    hang = threading.Event()
    began = time.monotonic()
    assert MACHINE.bounded(lambda: hang.wait(10), seconds=seconds, stopped=lambda: stopped) is why
    assert time.monotonic() - began < 1
    hang.set()


def test_bounded_with_no_time_left() -> None:
    """Seconds that have run out already are none."""
    hang = threading.Event()
    assert MACHINE.bounded(lambda: hang.wait(10), seconds=-1, stopped=lambda: False) is Abandoned.LATE
    hang.set()


def test_identities_differ() -> None:
    """No process takes another's lease for its own, though all have one host's name."""
    assert len({MACHINE.identity() for _ in range(20)}) == 20
