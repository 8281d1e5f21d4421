"""A server that runs in a process of its own, and clients for it."""

import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import Any

import msgspec

from controlplane.server import free_ports, wait_for

from .pairs import Mount, p256, pem

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
PROGRAM = Path(__file__).with_name("served.py")
TESTS = Path(__file__).parents[2]
JSON = {"Content-Type": "application/json"}
PATIENCE = 10
"""Seconds for anything that should come at once."""


def review(wish: str = "patch", *, secret: str = "") -> bytes:
    """An AdmissionReview of an object that says how to judge it."""
    request = {
        "uid": UID,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "object": {"wish": wish, "secret": secret},
    }
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})


def head(length: int, path: str = "/mutate-pods") -> bytes:
    """The header of a review."""
    return (
        f"POST {path} HTTP/1.1\r\nHost: webhook\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
    ).encode()


class Reply:
    """A response, read to its end."""

    def __init__(self, response: HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()
        self.closes = response.will_close

    @property
    def json(self) -> Any:
        """The body, decoded."""
        return msgspec.json.decode(self.text)


class Webhook:
    """The server under test, started; with a certificate named `first`, unless it is not to be mounted yet."""

    def __init__(self, folder: Path, *, mounted: bool = True, **told: Any) -> None:
        self.folder = folder
        self.tls, self.plain = free_ports(2)
        self.mount = Mount(folder)
        if mounted:
            self.mount.put(*pem("first", p256()))
        self.log_file = folder / "log"
        arguments = {"folder": str(folder), "tls": self.tls, "plain": self.plain, **told}
        # A session of its own: what is sent to its group does not reach us.
        with self.log_file.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(PROGRAM), msgspec.json.encode(arguments).decode()],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": str(TESTS)},
            )

    @property
    def log(self) -> str:
        """All that was logged so far."""
        return self.log_file.read_text()

    def context(self) -> ssl.SSLContext:
        """A client that trusts what is mounted now."""
        return ssl.create_default_context(cafile=str(self.mount.cert))

    def connect(self, context: ssl.SSLContext | None = None, *, seconds: float = PATIENCE) -> ssl.SSLSocket:
        """A connection with its handshake done, and this much patience in all it does."""
        return self._wrap(socket.create_connection(("127.0.0.1", self.tls), timeout=seconds), context)

    def connect_plain(self) -> socket.socket:
        """A connection to the port of pages."""
        return socket.create_connection(("127.0.0.1", self.plain), timeout=PATIENCE)

    def connect_narrow(self, *, tls: bool) -> socket.socket:
        """A connection that takes hardly anything while nobody reads from it."""
        raw = socket.socket()
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        raw.settimeout(PATIENCE)
        raw.connect(("127.0.0.1", self.tls if tls else self.plain))
        return self._wrap(raw, None) if tls else raw

    @contextmanager
    def keep_alive(self) -> Iterator[HTTPSConnection]:
        """A connection for several requests."""
        connection = HTTPSConnection("127.0.0.1", self.tls, timeout=PATIENCE, context=self.context())
        try:
            yield connection
        finally:
            connection.close()

    def post(
        self, body: Any, path: str = "/mutate-pods", headers: dict[str, str] = JSON, method: str = "POST"
    ) -> Reply:
        """One request over a connection of its own."""
        with self.keep_alive() as connection:
            return ask(connection, body, path, headers, method)

    def get(self, path: str) -> Reply:
        """A page, from the plain port."""
        connection = HTTPConnection("127.0.0.1", self.plain, timeout=PATIENCE)
        try:
            connection.request("GET", path)
            return Reply(connection.getresponse())
        finally:
            connection.close()

    def readiness(self) -> str:
        """What /readyz says, "" while nobody answers."""
        try:
            return self.get("/readyz").text
        except (OSError, HTTPException):
            return ""

    def wait_ready(self) -> None:
        """Until it would be sent reviews."""
        wait_for("the server to be ready", lambda: self._alive() and "[-]" not in (self.readiness() or "[-]"))

    def metric(self, series: str) -> float:
        """The value of one series; 0 if it is not there."""
        lines = self.get("/metrics").text.splitlines()
        return next((float(line.rpartition(" ")[2]) for line in lines if line.startswith(f"{series} ")), 0.0)

    def worker(self) -> int:
        """The process id of the serving process; 0 while there is none."""
        return next(iter(self.children()), 0)

    def children(self) -> list[int]:
        """The process ids of all that the supervisor started."""
        text = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        return [int(word) for word in text.split()]

    def memory(self) -> int:
        """MiB that the serving process has in memory."""
        status = Path(f"/proc/{self.worker()}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) >> 10

    def stop(self) -> int:
        """End it in good order; its exit status."""
        self.process.terminate()
        return self.process.wait(20)

    def kill(self) -> None:
        """End whatever is left of it."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _wrap(self, raw: socket.socket, context: ssl.SSLContext | None) -> ssl.SSLSocket:
        try:
            return (context or self.context()).wrap_socket(raw, server_hostname="127.0.0.1")
        except BaseException:
            raw.close()
            raise

    def _alive(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended: {self.log}")
        return True


def ask(
    connection: HTTPConnection,
    body: Any,
    path: str = "/mutate-pods",
    headers: dict[str, str] = JSON,
    method: str = "POST",
) -> Reply:
    """One request over this connection."""
    connection.request(method, path, body, headers)
    return Reply(connection.getresponse())


def closed_by_server(connection: socket.socket) -> bool:
    """Whether the server ends this connection, in time."""
    connection.settimeout(PATIENCE)
    try:
        while connection.recv(65536):
            pass
    except (ConnectionError, ssl.SSLEOFError):
        return True
    except TimeoutError:
        return False
    return True
