"""Metrics and probes of a daemon, in the clear: `/metrics`, `/healthz`, `/readyz`."""

import socket
import sys
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from threading import Thread

import structlog
from msgspec import Struct
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

log = structlog.get_logger()

IDLE_SECONDS = 10.0
"""After which a client that says nothing, or takes nothing, is left."""


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


def serve(bind: str, pages: Pages) -> Served | Unbound:
    """Serve pages at HOST:PORT (an IPv6 address in brackets), in threads that keep no process alive."""
    host, _, port = bind.rpartition(":")
    try:
        server = _server(host.strip("[]"), int(port), pages)
    except OSError as error:
        return Unbound(f"{bind}: {error.strerror or error}")
    Thread(target=server.serve_forever, name="metrics", daemon=True).start()
    return Served(server.server_address[1])


def _server(host: str, port: int, pages: Pages) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        timeout = IDLE_SECONDS

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
