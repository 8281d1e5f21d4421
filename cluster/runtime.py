"""What the program has of the machine that it runs on: clocks, sleep, tasks beside its own, and a name of its own.

The one seam for time and concurrency: where a machine is simulated, time passes only when everybody waits.
"""

import secrets
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from datetime import datetime
from enum import Enum
from threading import Event, Thread
from typing import Protocol, TypeVar

from poolwarden.cluster.clock import utc_now
from poolwarden.cluster.pacing import Stop

T = TypeVar("T")

_POLL_SECONDS = 0.1  # how soon a wait for the network notices that the program is stopping


class Abandoned(Enum):
    """Why a call was given up."""

    LATE = "late"
    STOPPED = "stopped"


class Signal(Stop, Protocol):
    """A `Stop` that we set ourselves."""

    def set(self) -> None:
        """For good; whoever waits goes on."""
        ...


class Task(Protocol):
    """What was spawned."""

    def join(self, timeout: float) -> None:
        """Wait until it has ended, for `timeout` seconds at most."""
        ...


class Runtime(Protocol):
    """A machine, as one process sees it; several threads may share it. Times are in seconds."""

    def monotonic(self) -> float:
        """A clock that nobody sets, from any start."""
        ...

    def utc_now(self) -> datetime:
        """The wall clock, which may be wrong, and may be set at any moment."""
        ...

    def sleep(self, seconds: float) -> None:
        """Do nothing for so long."""
        ...

    def event(self) -> Signal:
        """Not set yet."""
        ...

    def spawn(self, run: Callable[[], None], name: str) -> Task:
        """Run beside what runs already. Nobody awaits it at the end of the program."""
        ...

    def bounded(self, call: Callable[[], T], *, seconds: float, stopped: Callable[[], bool]) -> T | Abandoned:
        """What `call` returns; or why it was given up, after `seconds` or soon after `stopped` says so.

        A call that is given up goes on, and nobody awaits it: what it sends may still arrive.
        """
        ...

    def identity(self) -> str:
        """A new name that no process has or had: not that of its pod, in which containers restart."""
        ...


class Machine:
    """The real one."""

    def monotonic(self) -> float:
        """See `Runtime`."""
        return time.monotonic()

    def utc_now(self) -> datetime:
        """See `Runtime`."""
        return utc_now()

    def sleep(self, seconds: float) -> None:
        """See `Runtime`."""
        time.sleep(seconds)

    def event(self) -> Signal:
        """See `Runtime`."""
        return Event()

    def spawn(self, run: Callable[[], None], name: str) -> Task:
        """In a daemon thread."""
        thread = Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread

    def bounded(self, call: Callable[[], T], *, seconds: float, stopped: Callable[[], bool]) -> T | Abandoned:
        """In a daemon thread.

        Socket time-outs bound each wait for bytes, but neither a name server's silence nor an answer that drips in.
        """
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001 - it is raised in the thread that waits
                future.set_exception(error)

        self.spawn(run, "request")
        deadline = self.monotonic() + seconds
        while not wait((future,), max(0.0, min(_POLL_SECONDS, seconds))).done:
            if stopped():
                return Abandoned.STOPPED
            if self.monotonic() >= deadline:
                return Abandoned.LATE
        return future.result()

    def identity(self) -> str:
        """The host's name, and chance."""
        return f"{socket.gethostname()}_{secrets.token_hex(4)}"


MACHINE = Machine()
