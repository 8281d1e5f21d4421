"""A webhook that allows everything and remembers what it was asked."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

from poolwarden.certs.issue import certificate_pem, key_pem, new_ca, new_leaf

HOUR = timedelta(hours=1)


@dataclass
class Recorder:
    """Where it listens, who vouches for it, and the paths it was asked at since the last look."""

    url: str
    ca: bytes
    _paths: list[str] = field(default_factory=list)

    def note(self, path: str) -> None:
        """One more review."""
        self._paths.append(path)

    def taken(self) -> list[str]:
        """The paths, each once, in order; from now on only later ones count.

        The API server patches what it has cached, and asks anew where the stored object turns out to be newer.
        """
        paths, self._paths = self._paths, []
        return list(dict.fromkeys(paths))


@contextmanager
def recording(folder: Path) -> Iterator[Recorder]:
    """Serves over TLS on a port of the loopback address."""
    now = datetime.now(UTC)
    ca = new_ca(now, HOUR)
    leaf = new_leaf(ca, ["127.0.0.1"], now, HOUR)
    pair = folder / "recorder.pem"
    pair.write_bytes(key_pem(leaf.key) + certificate_pem(leaf.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            recorder.note(self.path.partition("?")[0])
            answer = review | {"response": {"uid": review["request"]["uid"], "allowed": True}}
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        recorder = Recorder(f"https://127.0.0.1:{server.server_port}", certificate_pem(ca.certificate))
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield recorder
        server.shutdown()
        thread.join()
