"""The no-op admission webhook, to measure ours beside, and clients that post reviews as the API server does, and pods."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.client import NAMESPACES
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
    result = _post(program, url, authority, review, connections, seconds, timeout)
    answers = result["answers"]
    return Load(
        result["requests"],
        answers.get("allowed", 0),
        answers.get("denied", 0),
        result["errors"],
        result["answers_per_second"],
        **result["milliseconds"],
    )


def create_pods(
    program: Path, kubeconfig: Path, namespace: str, pod: Path, *, connections: int, seconds: float
) -> tuple[float, Mapping[str, int]]:
    """Creates the pod in the file, which has a generateName, over and over; how many a second, and errors by kind."""
    config = json.loads(kubeconfig.read_text())
    cluster = config["clusters"][0]["cluster"]
    url = f"{cluster['server']}{NAMESPACES}/{namespace}/pods"
    token = config["users"][0]["user"]["token"]
    result = _post(program, url, cluster["certificate-authority"], pod, connections, seconds, TOKEN=token)
    return result["answers_per_second"], result["errors"]


def _post(
    program: Path,
    url: str,
    authority: Path,
    body: Path,
    connections: int,
    seconds: float,
    timeout: float = 10,
    **environment: str,
) -> Object:
    """Runs a program that posts; what it printed."""
    flags = {
        "url": url,
        "ca": authority,
        "body": body,
        "connections": connections,
        "seconds": seconds,
        "timeout": f"{timeout}s",
    }
    command = [str(program), *(f"-{name}={value}" for name, value in flags.items())]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds + timeout + 30, env=environment, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{program.name}: {done.stderr.strip()}")
    printed: Object = json.loads(done.stdout)
    return printed
