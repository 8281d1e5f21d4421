"""One HTTP exchange with the API server, as the client above it sees it.

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
