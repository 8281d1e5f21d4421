"""One client's connection: uvicorn's HTTP/1.1, and bounds where uvicorn has none."""

import asyncio
from collections.abc import Callable
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from poolwarden.webhook.server.config import Limits


class SurplusError(Exception):
    """A request came before the last one was answered. Stops the parser."""


class Connection(HttpToolsProtocol):
    """Ends by itself when the client is silent, slow, endless or deaf. The time of a body is bounded by who reads it.

    Attributes:
        since: when it last got further, in the event loop's time: it was made, or a request began, came in, was answered.
        proven: whether a request was ever answered on it.
    """

    def __init__(
        self, config: Config, state: ServerState, limits: Limits, admit: Callable[["Connection"], bool]
    ) -> None:
        super().__init__(config, state, app_state={}, _loop=asyncio.get_running_loop())
        self._limits = limits
        self._admit = admit
        self._in_head = False
        self._taken = 0
        self._deaf = False
        self._overdue: asyncio.TimerHandle | None = None
        self._unsent_since: float | None = None
        self.since = self.loop.time()
        self.proven = False

    @property
    def idle(self) -> bool:
        """Whether no request is on its way."""
        return not self._in_head and (self.cycle is None or self.cycle.response_complete)

    @property
    def fresh(self) -> bool:
        """Whether it never carried a request."""
        return not self._in_head and self.cycle is None

    @property
    def owes(self) -> bool:
        """Whether a request came, and its answer is not sent yet."""
        return self._answering or self.transport.get_write_buffer_size() > 0

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete and not self.cycle.more_body

    def close(self) -> None:
        """End in good order, once what was written is sent."""
        if not self.transport.is_closing():
            self.transport.close()

    def look(self) -> None:
        """Abort if what was written is not sent in time, the goodbye included. To be called each second.

        uvicorn waits for the client without end, and so does a transport that is to close.
        """
        if not self.transport.get_write_buffer_size() and not self.transport.is_closing():
            self._unsent_since = None
        elif self._unsent_since is None:
            self._unsent_since = self.loop.time()
        elif self.loop.time() - self._unsent_since > self._limits.send:
            self.transport.abort()

    def connection_made(self, transport: Any) -> None:
        """The handshake is done. uvicorn starts its keep-alive clock only after a response: a silent client stayed."""
        self.since = self.loop.time()
        if not self._admit(self):
            self.transport = transport
            transport.abort()
            return
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._on_time()

    def data_received(self, data: bytes) -> None:
        """Something came: part of a request's header or body."""
        if self._deaf:  # who reads the last request's body resumes reading
            self.flow.pause_reading()
            return
        self._taken += len(data)
        if self._taken > self._limits.taken_bytes:
            self.transport.abort()
            return
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_head and self._taken > self._limits.head_bytes:
            self.send_400_response("The header is too large.")
        elif self._in_head or self.cycle is None or self.cycle.response_complete:
            # A header that is not complete, or the rest of a body that we answered without reading it.
            if self._overdue is None:
                self._overdue = self.loop.call_later(self._limits.head, self.close)
        else:
            self._on_time()

    def on_message_begin(self) -> None:
        """A request begins. uvicorn would queue one after another while the last is being answered, without bound."""
        if self.cycle is not None and not self.cycle.response_complete:
            raise SurplusError
        self._in_head = True
        self._taken = 0
        self.since = self.loop.time()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request's header is there: the app takes over."""
        self._in_head = False
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """A request is there."""
        self.since = self.loop.time()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """A request is answered."""
        self.since = self.loop.time()
        self.proven = True
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """What came cannot be read, or must not come now. The answer to a request in flight is still sent, as the last.

        No client of ours sends a request before it has its answer to the one before.
        """
        if self._answering:
            self._deaf = True
            self.cycle.keep_alive = False
            self.flow.pause_reading()
        elif self.cycle is not None and self.cycle.response_started and not self.cycle.response_complete:
            self.transport.abort()
        else:
            super().send_400_response(msg)

    def _on_time(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
