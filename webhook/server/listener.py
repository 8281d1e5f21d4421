"""A listening socket and what stands behind it."""

import asyncio
import ssl
import time
from email.utils import formatdate
from socket import socket
from typing import Any

from uvicorn.config import Config
from uvicorn.server import ServerState

from poolwarden.webhook.server.config import Limits
from poolwarden.webhook.server.connection import Connection

BACKLOG = 2048
"""Connections that wait to be accepted: a worker that starts anew after a crash finds those of the meantime here."""


class Listener:
    """A listening socket, an app behind it, and the connections made through it."""

    def __init__(self, app: Any, listening: socket, limits: Limits) -> None:
        self._listening = listening
        self._limits = limits
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
        self._server: asyncio.Server | None = None

    async def open(self, context: ssl.SSLContext | None = None) -> None:
        """Begin to accept."""
        self.tick()
        with_tls: dict[str, Any] = {}
        if context:
            with_tls = {
                "ssl": context,
                "ssl_handshake_timeout": self._limits.handshake,
                "ssl_shutdown_timeout": self._limits.goodbye,
            }
        self._server = await asyncio.get_running_loop().create_server(
            lambda: Connection(self._config, self._state, self._limits),
            sock=self._listening,
            backlog=BACKLOG,
            **with_tls,
        )

    def tick(self) -> None:
        """Set the Date of responses."""
        self._state.default_headers = [(b"date", formatdate(time.time(), usegmt=True).encode())]

    def close(self) -> None:
        """Accept no more."""
        if self._server:
            self._server.close()

    @property
    def connections(self) -> list[Connection]:
        """The open ones."""
        return [connection for connection in self._state.connections if isinstance(connection, Connection)]
