"""The no-op admission webhook, to measure ours beside, and the client that posts reviews as the API server does."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.kubelet import Object
from controlplane.server import Server, free_ports


@dataclass(frozen=True)
class Tls:
    """Files in PEM: the serving certificate with its key, and the CA that made it."""

    certificate: Path
    key: Path
    authority: Path


@dataclass(frozen=True)
class Load:
    """What came of many reviews; latencies are those of the answered ones, TLS handshakes apart."""

    requests: int
    allowed: int
    denied: int
    errors: Mapping[str, int]  # by kind: "connection refused", "timeout", "status 500" ...
    per_second: float  # answered ones
    p50: float  # milliseconds
    p90: float
    p99: float
    max: float


@contextmanager
def noop_webhook(program: Path, folder: Path, tls: Tls, patch: Sequence[Object] = ()) -> Iterator[tuple[str, int]]:
    """Runs the webhook that allows everything; yields its URL and its process id.

    The patch, if any, is in every answer to a path that begins with ``/mutate``.
    """
    (port,) = free_ports(1)
    url = f"https://127.0.0.1:{port}"
    command = [str(program), f"-listen=127.0.0.1:{port}", f"-certificate={tls.certificate}", f"-key={tls.key}"]
    server = Server([*command, *([f"-patch={json.dumps(patch)}"] if patch else [])], folder / "noop-webhook.log")
    server.start()
    try:
        server.wait_until(lambda: url in server.log.read_text())
        assert server.pid
        yield url, server.pid
    finally:
        server.stop()


def post_reviews(
    program: Path, url: str, authority: Path, review: Path, *, connections: int, seconds: float, timeout: float = 10
) -> Load:
    """Posts the AdmissionReview in the file, each time with another uid, on so many connections for so long."""
    flags = {
        "url": url,
        "ca": authority,
        "body": review,
        "connections": connections,
        "seconds": seconds,
        "timeout": f"{timeout}s",
    }
    command = [str(program), *(f"-{name}={value}" for name, value in flags.items())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + timeout + 30, check=False)
    if done.returncode:
        raise RuntimeError(f"review-load: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return Load(
        result["requests"],
        result["allowed"],
        result["denied"],
        result["errors"],
        result["reviews_per_second"],
        **result["milliseconds"],
    )
