"""One HTTP exchange with the API server, or an answer without end, as the client above it sees it.

The seam between the rules of reading and writing (`api_server`) and the network: a fault-injecting transport stands
here in tests.
"""

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct, field

from poolwarden.cluster.interface import Doubt


class Request(Struct, frozen=True):
    """What is sent. `path` is percent-encoded and starts with "/"; time-outs are in seconds.

    `read_timeout` bounds each wait for bytes, not the whole answer.
    """

    method: str
    path: str
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    body: bytes = b""
    connect_timeout: float = 5.0
    read_timeout: float = 30.0


class Response(Struct, frozen=True):
    """A whole answer, whatever its status; header names are in lower case."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


class NoAnswer(Struct, frozen=True):
    """No whole answer came.

    Attributes:
        message: one line for people.
        sent: the server may have received the request, and acted on it.
        doubt: `UNAVAILABLE`; `BROKEN` for an answer that ended early; `NOT_ALLOWED` when we were told to stop.
        final: asking again cannot help (no usable configuration, or stopping).
    """

    message: str
    sent: bool
    doubt: Doubt = field(default=Doubt.UNAVAILABLE)
    final: bool = False


Answer = Response | NoAnswer


class Transport(Protocol):
    """Carries requests; several threads may use it at once."""

    def send(self, request: Request) -> Answer:
        """One exchange: never repeated, no redirect followed, nothing raised for what a network can do."""
        ...


class Ended(Struct, frozen=True, tag=True):
    """The server ended its answer, and in good order."""


class Stream(Protocol):
    """The body of an answer that goes on; one thread reads and closes it."""

    def read(self) -> bytes | Ended | NoAnswer:
        """The next bytes, at least one, as soon as they arrive. Nothing is raised; after an end there is only the end."""
        ...

    def close(self) -> None:
        """Give it up, with its connection."""
        ...

    def cut(self) -> None:
        """End a `read` that waits. The one thing that another thread may do."""
        ...


class StreamingTransport(Transport, Protocol):
    """Carries watches too."""

    def stream(self, request: Request) -> Stream | Answer:
        """As `send`, but the body of a 200 is still to be read."""
        ...
