"""A listening socket and what stands behind it."""

import asyncio
import ssl
import time
from contextlib import suppress
from email.utils import formatdate
from socket import socket
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from poolwarden.webhook.server.config import Limits
from poolwarden.webhook.server.connection import Connection

BACKLOG = 2048
"""Connections that wait to be accepted: a worker that starts anew after a crash finds those of the meantime here."""
PAUSE_SECONDS = 0.1
"""Until the next try to accept, while the process has no file left: there is no event that would tell."""


class Listener:
    """A listening socket, an app behind it, and the connections made through it."""

    def __init__(self, app: Any, listening: socket, limits: Limits, most: int) -> None:
        self._listening = listening
        self._limits = limits
        self._most = most
        self._config = Config(
            app,
            log_config=None,
            ws="none",
            lifespan="off",
            interface="asgi3",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.keep_alive,
        )
        self._config.load()
        self._state = ServerState()
        self._with_tls: dict[str, Any] = {}
        self._accepting: asyncio.Task[None] | None = None
        self._handshakes: dict[asyncio.Task[None], None] = {}  # oldest first

    def open(self, context: ssl.SSLContext | None = None) -> None:
        """Begin to accept."""
        self.tick()
        if context:
            self._with_tls = {
                "ssl": context,
                "ssl_handshake_timeout": self._limits.handshake,
                "ssl_shutdown_timeout": self._limits.goodbye,
            }
        self._accepting = asyncio.create_task(self._accept())

    def tick(self) -> None:
        """Set the Date of responses, and end connections whose clients take none. To be called each second."""
        self._state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]
        for connection in self.connections:
            connection.look()

    def close(self) -> None:
        """Accept no more."""
        if self._accepting:
            self._accepting.cancel()
        self._listening.close()

    @property
    def connections(self) -> list[Connection]:
        """The open ones."""
        return [connection for connection in self._state.connections if isinstance(connection, Connection)]

    async def _accept(self) -> None:
        """Take clients on. The loop's own server would keep half-open handshakes where nobody can count or end them."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                client, _ = await loop.sock_accept(self._listening)
            except OSError:  # no file left, or the client is gone again
                await asyncio.sleep(PAUSE_SECONDS)
                continue
            if len(self._handshakes) >= self._limits.handshakes:
                oldest = next(iter(self._handshakes))
                self._handshakes.pop(oldest)
                oldest.cancel()
            task = loop.create_task(self._shake_hands(client))
            self._handshakes[task] = None
            task.add_done_callback(lambda done: self._handshakes.pop(done, None))

    async def _shake_hands(self, client: socket) -> None:
        with suppress(OSError):  # as ssl.SSLError and TimeoutError are: it spoke no TLS, left or was late
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: Connection(self._config, self._state, self._limits, self._admit), client, **self._with_tls
            )

    def _admit(self, newest: Connection) -> bool:
        """Whether there is room for this one, made if need be: at the cost of who has waited longest."""
        if len(self._state.connections) < self._most:
            return True
        others = [connection for connection in self.connections if not connection.owes]
        if not others:
            return False

        def order(connection: Connection) -> tuple[bool, float]:
            # Who never got an answer goes first, unless it is so young that its request may be on its way.
            return connection.proven or newest.since - connection.since < self._limits.young, connection.since

        longest = min(others, key=order)
        self._state.connections.discard(longest)
        longest.transport.abort()
        return True
