"""An API server whose watches are scripts, played in the one thread of the test."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from cluster.scripted import FakeServer, FakeTime
from poolwarden.cluster.interface import Doubt
from poolwarden.cluster.transport import Answer, Ended, NoAnswer, Request, Stream

CUT = NoAnswer("ProtocolError: Connection broken", sent=True, doubt=Doubt.BROKEN)
TIMED_OUT = NoAnswer("ReadTimeoutError: Read timed out.", sent=True)
REFUSED = NoAnswer("NewConnectionError: connection refused", sent=False)

Piece = bytes | Ended | NoAnswer | Callable[[], object]


class FakeStream:
    """Gives its pieces, calls those that are callables, and ends in good order."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.closed = False
        self._pieces = list(pieces)

    def read(self) -> bytes | Ended | NoAnswer:
        """The next piece."""
        while self._pieces:
            piece = self._pieces.pop(0)
            if not callable(piece):
                return piece
            piece()
        return Ended()

    def close(self) -> None:
        """Remember that it was closed."""
        self.closed = True

    def cut(self) -> None:
        """Nobody waits here."""


class FakeWatches(FakeServer):
    """Gives one watch after the other the script told by `watches`; then the time is over."""

    def __init__(self, time: FakeTime) -> None:
        super().__init__()
        self.watched: list[Request] = []
        self.streams: list[FakeStream] = []
        self.on_stream: Callable[[], None] = lambda: None
        self._time = time
        self._scripts: list[Sequence[Piece] | Answer] = []

    def watches(self, *scripts: Sequence[Piece] | Answer) -> None:
        """What the next watches are answered, one after the other."""
        self._scripts = list(scripts)

    def stream(self, request: Request) -> Stream | Answer:
        """Open a watch."""
        if not self._scripts:
            self._time.stopped = True
            return REFUSED
        self.watched.append(request)
        self.on_stream()
        script = self._scripts.pop(0)
        if isinstance(script, Answer):
            return script
        self.streams.append(FakeStream(script))
        return self.streams[-1]

    @property
    def versions(self) -> list[str]:
        """From which version each watch went on."""
        return [request.query["resourceVersion"] for request in self.watched]


def line(kind: str, body: Any) -> bytes:
    """One event of a watch."""
    return msgspec.json.encode({"type": kind, "object": body}) + b"\n"


def thing(name: str, version: int, **rest: Any) -> dict[str, Any]:
    """An object."""
    return {"metadata": {"name": name, "namespace": "blue", "resourceVersion": str(version)}} | rest


def bookmark(version: int) -> bytes:
    """As the API server sends it once a minute."""
    return line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": str(version), "creationTimestamp": None}})


def error(code: int, message: str) -> bytes:
    """The last line of a watch that the server gives up."""
    body = {"kind": "Status", "metadata": {}, "status": "Failure", "message": message, "code": code}
    return line("ERROR", body)


def at_pauses(time: FakeTime, look: Callable[[], object]) -> None:
    """Look whenever time has passed."""
    passed = len(time.waits)

    def on_wait() -> None:
        nonlocal passed
        if len(time.waits) > passed:
            passed = len(time.waits)
            look()

    time.on_wait = on_wait
