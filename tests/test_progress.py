"""What is being done is shown on a terminal while it takes long, and nowhere else."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable

import pytest

from factories import blue, claim, endpoint, pod
from faults import World, go_on, sweep_until_due
from poolwarden.gc.policy import Ceiling
from poolwarden.gc.sweep import Settings, Sweep
from poolwarden.ipam.kinds import PODS
from poolwarden.progress import QUIET_SECONDS, Progress


class Clock:
    """Stands for the timer: it goes off when the test says so, if it was started and not cancelled."""

    daemon = False

    def __init__(self) -> None:
        self.running = False
        self.after = 0.0
        self.call: Callable[[], None] = lambda: None

    def __call__(self, after: float, call: Callable[[], None]) -> Clock:
        """As `threading.Timer` is made."""
        self.after, self.call = after, call
        return self

    def start(self) -> None:
        """Begin to count."""
        self.running = True

    def cancel(self) -> None:
        """Never go off."""
        self.running = False

    def goes_off(self) -> None:
        """The time is over."""
        if self.running:
            self.call()


@pytest.fixture(autouse=True)
def _terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that can move its cursor."""
    monkeypatch.setenv("TERM", "xterm")


def test_what_takes_long() -> None:
    """After a second the present step is told; once all is done the line is cleared."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, shown=True, timer=clock) as progress:
        progress.page(PODS, 1500)
        clock.goes_off()
        assert clock.after == QUIET_SECONDS
    assert "reading pods: 1,500" in stream.getvalue()
    assert stream.getvalue().rstrip("\r").endswith("\x1b[2K")


def test_the_step_changes() -> None:
    """What begins later is told in its place."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, shown=True, timer=clock) as progress:
        clock.goes_off()
        progress.step("releasing")
    assert "releasing" in stream.getvalue()


def test_what_is_quick() -> None:
    """What takes less than a second writes nothing at all."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, shown=True, timer=clock) as progress:
        progress.page(PODS, 1500)
    clock.goes_off()
    assert stream.getvalue() == ""


def test_a_timer_that_goes_off_at_the_end() -> None:
    """One that cannot be cancelled any more shows nothing, or the line would stay for good."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, shown=True, timer=clock):
        pass
    clock.call()
    assert stream.getvalue() == ""


def test_not_on_a_terminal() -> None:
    """Elsewhere nothing is shown, however long it takes."""
    clock, stream = Clock(), io.StringIO()
    with Progress(stream, shown=False, timer=clock) as progress:
        clock.goes_off()
        progress.step("releasing")
    assert stream.getvalue() == ""


def test_an_error_ends_it() -> None:
    """An exception passes through, and the line is cleared."""
    clock, stream = Clock(), io.StringIO()
    progress = Progress(stream, shown=True, timer=clock)
    with contextlib.suppress(RuntimeError), progress:
        clock.goes_off()
        raise RuntimeError
    assert stream.getvalue().rstrip("\r").endswith("\x1b[2K")


def test_a_sweep_tells_its_steps() -> None:
    """A sweep says which pool it writes, of how many, and what for."""
    steps: list[str] = []
    live = pod("live", ips=["10.0.0.11"])
    nic = endpoint(live, {"eth0": "10.0.0.11@blue"})
    world = World(blue({"10.0.0.10": claim("app"), "10.0.0.11": live}), live, nic)
    sweep_until_due(world)
    Sweep(world, Settings(ceiling=Ceiling.RELEASE), go_on, on_step=steps.append).run()
    assert steps == [
        "writing down what was found: pool 1 of 1",
        "releasing and repairing: pool 1 of 1 of spiderpool",
    ]
