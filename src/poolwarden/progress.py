"""What is being done, on the last line of a terminal while it takes long; gone once it is done."""

from collections.abc import Callable
from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self, TextIO

from poolwarden.cluster.interface import Resource

if TYPE_CHECKING:
    from rich.status import Status

QUIET_SECONDS = 1.0
"""What is done sooner needs no progress."""


class Alarm(Protocol):
    """What calls something after a while, in a thread of its own, unless it is cancelled before."""

    daemon: bool

    def start(self) -> None:
        """Begin to count."""
        ...

    def cancel(self) -> None:
        """Never call."""
        ...


class Progress:
    """A spinner on `stream`, if `shown`. Its methods may be called from any thread, and cost nothing where none is shown."""

    def __init__(
        self, stream: TextIO, *, shown: bool, timer: Callable[[float, Callable[[], None]], Alarm] = Timer
    ) -> None:
        self._stream = stream
        self._shown = shown
        self._timer = timer(QUIET_SECONDS, self._begin)
        self._timer.daemon = True
        self._lock = Lock()
        self._text = "reading"
        self._over = False
        self._status: Status | None = None

    def __enter__(self) -> Self:
        if self._shown:
            self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._status is not None:
                self._status.stop()

    def page(self, resource: Resource, items: int) -> None:
        """A page of a list has come; `items` are those read of it so far."""
        self.step(f"reading {resource.plural}: {items:,}")

    def step(self, text: str) -> None:
        """Something else begins."""
        with self._lock:
            self._text = text
            if self._status is not None:
                self._status.update(text)

    def _begin(self) -> None:
        from rich.console import Console  # noqa: PLC0415 - only what takes long needs it
        from rich.status import Status  # noqa: PLC0415

        console = Console(file=self._stream, force_terminal=True, markup=False, highlight=False)
        with self._lock:
            if not self._over:
                self._status = Status(self._text, console=console)
                self._status.start()
