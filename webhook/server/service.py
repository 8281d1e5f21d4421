"""The webhook in its process: two listeners, what answers them, and how it all starts and ends."""

import asyncio
from contextlib import suppress
from socket import socket
from typing import Any

import structlog
from a2wsgi import WSGIMiddleware
from flask import Flask

from poolwarden.webhook.server.app import App
from poolwarden.webhook.server.config import Application, Make, ServerConfig
from poolwarden.webhook.server.lifecycle import Lifecycle
from poolwarden.webhook.server.listener import Listener
from poolwarden.webhook.server.log import place
from poolwarden.webhook.server.metrics import Metrics
from poolwarden.webhook.server.pages import pages, plain_pages
from poolwarden.webhook.server.tls import ServingCertificate

PAGE_THREADS = 4
"""Kubelet, Prometheus and a person or two at once."""
POLL_SECONDS = 0.05

_log = structlog.get_logger()


class Service:
    """All parts together, from start to end."""

    def __init__(self, config: ServerConfig, make: Make, tls: socket, plain: socket) -> None:
        self._limits = limits = config.limits
        self._make = make
        self.stop = asyncio.Event()
        self.failed = False
        self._metrics = metrics = Metrics()
        self._certificate = certificate = ServingCertificate(
            config.tls_cert, config.tls_key, lambda at: metrics.certificate_ends("serving", at)
        )
        self._lifecycle = lifecycle = Lifecycle(certificate.reasons)

        def ends() -> str:
            return certificate.not_after

        self._app = App(_asgi(pages(lifecycle, metrics, ends)), lifecycle, metrics, limits)
        self._tls = Listener(self._app, tls, limits, limits.connections)
        self._plain = Listener(_asgi(plain_pages(lifecycle, metrics, ends)), plain, limits, limits.page_connections)
        self._application = Application({})
        self._setting_up: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Accept connections, and set up what answers them meanwhile."""
        self._certificate.look()
        self._plain.open()
        self._tls.open(self._certificate.context)
        self._setting_up = asyncio.create_task(self._set_up())

    def tick(self) -> None:
        """What is to do every second."""
        self._certificate.look()
        self._tls.tick()
        self._plain.tick()

    async def _set_up(self) -> None:
        try:
            self._application = await asyncio.to_thread(self._make, self._metrics)
        except Exception as error:  # noqa: BLE001 - whatever it is, there is nothing to serve
            _log.error("set_up_failed", error=type(error).__name__, message=str(error), at=place(error.__traceback__))
            self.failed = True
            self.stop.set()
            return
        self._app.serve(self._application.answerers)
        self._lifecycle.serve(self._application)
        _log.info("serving")

    async def drain(self) -> None:
        """Stop in good order: not ready; then nothing new; then what is in flight is finished."""
        self._lifecycle.drain()
        if not self.failed:
            _log.info("draining")
            await asyncio.sleep(self._limits.linger)
            self._tls.close()
            await self._finish()
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.to_thread(self._application.close), self._limits.goodbye)
        _log.info("stopped")

    async def _finish(self) -> None:
        loop = asyncio.get_running_loop()
        settled = loop.time() + self._limits.settle
        overdue = settled + self._limits.finish
        while loop.time() < settled or (self._tls.connections and loop.time() < overdue):
            for connection in self._tls.connections:
                if connection.idle and (loop.time() >= settled or not connection.fresh):
                    connection.close()
            await asyncio.sleep(POLL_SECONDS)


def _asgi(app: Flask) -> Any:
    return WSGIMiddleware(app.wsgi_app, workers=PAGE_THREADS)  # type: ignore[arg-type] # the same, said otherwise
