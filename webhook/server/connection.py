"""One client's connection: uvicorn's HTTP/1.1, and bounds where uvicorn has none."""

import asyncio
from typing import Any

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from poolwarden.webhook.server.config import Limits


class Connection(HttpToolsProtocol):
    """Ends by itself when the client is silent, slow or endless. The time of a body is bounded by who reads it."""

    def __init__(self, config: Config, state: ServerState, limits: Limits) -> None:
        super().__init__(config, state, app_state={}, _loop=asyncio.get_running_loop())
        self._limits = limits
        self._in_head = False
        self._taken = 0
        self._overdue: asyncio.TimerHandle | None = None

    @property
    def idle(self) -> bool:
        """Whether no request is on its way."""
        return not self._in_head and (self.cycle is None or self.cycle.response_complete)

    @property
    def fresh(self) -> bool:
        """Whether it never carried a request."""
        return not self._in_head and self.cycle is None

    def close(self) -> None:
        """End in good order, once what was written is sent."""
        if not self.transport.is_closing():
            self.transport.close()

    def connection_made(self, transport: Any) -> None:
        """The handshake is done. uvicorn starts its keep-alive clock only after a response: a silent client stayed."""
        super().connection_made(transport)
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        super().connection_lost(exc)
        self._unset_keepalive_if_required()
        self._on_time()

    def data_received(self, data: bytes) -> None:
        """Something came: part of a request's header or body."""
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
        """A request begins."""
        self._in_head = True
        self._taken = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """A request's header is there: the app takes over."""
        self._in_head = False
        super().on_headers_complete()

    def _on_time(self) -> None:
        if self._overdue is not None:
            self._overdue.cancel()
            self._overdue = None
