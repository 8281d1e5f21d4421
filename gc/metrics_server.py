"""Metrics and probes of a daemon, in the clear: `/metrics`, `/healthz`, `/readyz`."""

import socket
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Lock, Thread
from typing import Any

import structlog
from msgspec import Struct
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

log = structlog.get_logger()

DEADLINE = 10.0
"""Seconds from a connection to the end of its answer, however busily its client says nothing, or takes nothing."""
MOST_CONNECTIONS = 32
"""Each holds a thread: kubelet, Prometheus and a few people; the oldest goes before another comes."""
WAITING_CONNECTIONS = 128
"""Of a burst, as many are kept by the kernel; one that it drops is tried again after a second at the earliest."""
LOOK_SECONDS = 0.5
"""Between two looks for connections beyond their deadline."""


class Page(Struct, frozen=True):
    """An answer."""

    text: bytes
    status: HTTPStatus = HTTPStatus.OK
    content_type: str = "text/plain; charset=utf-8"


class Unbound(Struct, frozen=True, tag=True):
    """Nothing is served, and why."""

    reason: str


Pages = Mapping[str, Callable[[], Page]]


def metrics_page(text: bytes) -> Page:
    """Series in Prometheus' text form."""
    return Page(text, content_type=CONTENT_TYPE_PLAIN_0_0_4)


def probe_page(trouble: str) -> Page:
    """A probe's answer: 200 without trouble, else 503 that says which."""
    return Page(f"{trouble}\n".encode(), HTTPStatus.SERVICE_UNAVAILABLE) if trouble else Page(b"ok\n")


class Served(Struct, frozen=True, tag=True):
    """The pages are served, until the process ends. `port` is the one that is listened at."""

    port: int


def serve(bind: str, pages: Pages, *, deadline: float = DEADLINE) -> Served | Unbound:
    """Serve pages at HOST:PORT (an IPv6 address in brackets), in threads that keep no process alive."""
    host, _, port = bind.rpartition(":")
    try:
        server = _server(host.strip("[]"), int(port), pages, deadline)
    except OSError as error:
        return Unbound(f"{bind}: {error.strerror or error}")
    Thread(target=server.serve_forever, args=(LOOK_SECONDS,), name="metrics", daemon=True).start()
    return Served(server.server_address[1])


class Connections:
    """The open connections, oldest first. One that must go is shut down: its thread then meets the end of its input."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._lock = Lock()  # none is closed while it is being shut down: its number may be another file's by then
        self._since: dict[socket.socket, float] = {}

    def add(self, connection: socket.socket) -> None:
        """One more; the oldest goes if they are too many."""
        with self._lock:
            self._since[connection] = time.monotonic()
            for oldest in list(self._since)[:-MOST_CONNECTIONS]:
                self._end(oldest)

    def look(self) -> None:
        """End those that are beyond their deadline."""
        overdue = time.monotonic() - self._deadline
        with self._lock:
            for connection in [one for one, since in self._since.items() if since < overdue]:
                self._end(connection)

    def remove(self, connection: socket.socket) -> None:
        """It is about to be closed."""
        with self._lock:
            self._since.pop(connection, None)

    def _end(self, connection: socket.socket) -> None:
        del self._since[connection]
        with suppress(OSError):  # the client was quicker
            connection.shutdown(socket.SHUT_RDWR)


def _server(host: str, port: int, pages: Pages, deadline: float) -> ThreadingHTTPServer:
    connections = Connections(deadline)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            page = pages.get(self.path.partition("?")[0], _not_found)()
            self.send_response(page.status)
            self.send_header("Content-Type", page.content_type)
            self.send_header("Content-Length", str(len(page.text)))
            self.end_headers()
            self.wfile.write(page.text)

        def log_message(self, *_: object) -> None:
            """Scrapes and probes are no news."""

    class Server(ThreadingHTTPServer):
        address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        daemon_threads = True
        request_queue_size = WAITING_CONNECTIONS

        def process_request(self, request: socket.socket, client_address: Any) -> None:  # type: ignore[override]
            connections.add(request)
            super().process_request(request, client_address)

        def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
            connections.remove(request)
            super().shutdown_request(request)

        def service_actions(self) -> None:
            connections.look()

        def handle_error(self, *_: object) -> None:
            """A client that leaves in the middle is no news either, but a defect of ours is."""
            error = sys.exception()
            if not isinstance(error, OSError):
                log.error("no answer to a scrape or a probe", exc_info=error)

        def server_bind(self) -> None:
            TCPServer.server_bind(self)  # without the look-up of our own host name between

    return Server((host, port), Handler)


def _not_found() -> Page:
    return Page(b"there are /metrics, /healthz and /readyz\n", HTTPStatus.NOT_FOUND)
