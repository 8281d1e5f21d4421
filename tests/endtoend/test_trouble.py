"""What the API server does while the webhook is down, slow, restarting, talks nonsense, is expired, or changes its CA."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Self

import pytest

from controlplane.client import ApiError
from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from endtoend.conftest import ACCOUNT, spider_pool
from endtoend.objects import NAMED, PODS, UNNAMED, Object, annotations_of, pod
from endtoend.program import Program, running
from manifests.shipped import overlay, registered, shipped_webhooks
from poolwarden.certs.issue import certificate_pem, key_pem, new_ca, new_leaf
from poolwarden.certs.keep import keep, keep_to_the_end
from poolwarden.certs.settings import Settings
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.kube_transport import KubeTransport

POOLS = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools"
NOBODY = "https://127.0.0.1:1"
Answer = Callable[[Object], bytes]


def try_pod(plane: ControlPlane) -> dict[str, str]:
    """The annotations that a new pod would be stored with."""
    return annotations_of(plane.request("POST", f"{PODS}?dryRun=All", pod(UNNAMED)))


def try_pool(plane: ControlPlane) -> None:
    """A pool that nothing is wrong with."""
    plane.request("POST", f"{POOLS}?dryRun=All", json.loads(spider_pool("p9", 9)))


@contextmanager
def answering(folder: Path, answer: Answer) -> Iterator[tuple[str, bytes]]:
    """A webhook that gives these answers: its URL, and the CA that vouches for it."""
    now = datetime.now(UTC)
    ca = new_ca(now, timedelta(hours=1))
    leaf = new_leaf(ca, ["127.0.0.1"], now, timedelta(hours=1))
    pair = folder / "pair.pem"
    pair.write_bytes(key_pem(leaf.key) + certificate_pem(leaf.certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pair)

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = answer(review["request"])
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: object) -> None:
            """A client that left is what some tests are about."""

    with Server(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{server.server_port}", certificate_pem(ca.certificate)
        server.shutdown()
        thread.join()


def hurried(configurations: list[Object]) -> list[Object]:
    """With the shortest patience that there is."""
    for configuration in configurations:
        for webhook in configuration["webhooks"]:
            webhook["timeoutSeconds"] = 1
    return configurations


@contextmanager
def in_trouble(plane: ControlPlane, folder: Path, url: str, ca: bytes, *, strict: bool) -> Iterator[None]:
    """The shipped webhooks, registered at that URL."""
    kustomization = overlay(folder, *(["strict"] if strict else []))
    with registered(plane, hurried(shipped_webhooks(plane, url, ca, folder=kustomization))):
        yield


def late(released: Event) -> Answer:
    """An answer that comes after nobody waits for it any more."""

    def answer(_: Object) -> bytes:
        released.wait(10)
        return b"{}"

    return answer


def response(request: Object, **more: object) -> bytes:
    """An AdmissionReview."""
    body = {"uid": request["uid"], "allowed": True, **more}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body}).encode()


NONSENSE: dict[str, Answer] = {
    "no JSON": lambda _: b"hello",
    "no response": lambda _: b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
    "another review's uid": lambda request: response(request | {"uid": "other"}),
    "half a patch": lambda request: response(request, patchType="JSONPatch"),
}


def check_both_policies(plane: ControlPlane, folder: Path, url: str, ca: bytes, fragment: str) -> None:
    """By default pods pass as they are and pools are refused; strict refuses pods, too."""
    with in_trouble(plane, folder, url, ca, strict=False):
        assert try_pod(plane) == UNNAMED
        with pytest.raises(ApiError, match=fragment) as pool:
            try_pool(plane)
        assert pool.value.status == 500
    with in_trouble(plane, folder, url, ca, strict=True), pytest.raises(ApiError, match=fragment) as refused:
        try_pod(plane)
    assert refused.value.status == 500


def test_down(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Nobody listens."""
    ca = certificate_pem(new_ca(datetime.now(UTC), timedelta(hours=1)).certificate)
    check_both_policies(control_plane, tmp_path, NOBODY, ca, "connection refused")


def test_slow(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The answer would come later than the API server waits."""
    released = Event()
    with answering(tmp_path, late(released)) as (url, ca):
        check_both_policies(control_plane, tmp_path, url, ca, "context deadline exceeded|Timeout")
        released.set()


@pytest.mark.parametrize("kind", NONSENSE)
def test_nonsense(control_plane: ControlPlane, tmp_path: Path, kind: str) -> None:
    """An answer that is none counts as none."""
    with answering(tmp_path, NONSENSE[kind]) as (url, ca):
        check_both_policies(control_plane, tmp_path, url, ca, "failed calling webhook")


def test_a_patch_that_does_not_apply_fails_whatever_the_policy(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Why ours replace only what is there: failurePolicy Ignore would not save the pod."""
    patch = base64.b64encode(b'[{"op":"remove","path":"/metadata/annotations/nowhere"}]').decode()

    def answer(request: Object) -> bytes:
        return response(request, patchType="JSONPatch", patch=patch)

    with answering(tmp_path, answer) as (url, ca), in_trouble(control_plane, tmp_path, url, ca, strict=False):
        with pytest.raises(ApiError) as failed:
            try_pod(control_plane)
        assert failed.value.status == 500


def test_expired(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The API server does not talk to a certificate that has ended; a new one in the Secret mends it."""
    program = Program(tmp_path / "mount", control_plane.kubeconfig(ACCOUNT))
    with running(program):
        good = program.ca
        program.issue(good, expired=True)
        wait_for(
            "the expired certificate to be served", lambda: program.served() not in ("", None) and _is_old(program)
        )
        check_both_policies(control_plane, tmp_path, program.url, program.authority, "expired")
        program.ca = good
        program.issue(good)
        with registered(control_plane, shipped_webhooks(control_plane, program.url, program.authority)):
            wait_for("names again", lambda: try_pod(control_plane) == NAMED)


def _is_old(program: Program) -> bool:
    from cryptography import x509  # noqa: PLC0415 - beside its only use

    return x509.load_pem_x509_certificate(program.served().encode()).not_valid_after_utc < datetime.now(UTC)


class Load:
    """Pods made by several clients without a pause, and what became of them."""

    def __init__(self, plane: ControlPlane, clients: int = 3) -> None:
        self._plane = plane
        self._stop = Event()
        self._lock = Lock()
        self.named = 0
        self.unnamed = 0
        self.failed: list[str] = []
        self._threads = [Thread(target=self._run, daemon=True) for _ in range(clients)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                stored = try_pod(self._plane)
            except ApiError as error:
                with self._lock:
                    self.failed.append(str(error))
                continue
            with self._lock:
                self.named += stored == NAMED
                self.unnamed += stored == UNNAMED

    def more(self, count: int) -> None:
        """Wait for that many more named pods."""
        wanted = self.named + count
        wait_for("more named pods", lambda: self.named >= wanted, 60)


def test_restarting(control_plane: ControlPlane, tmp_path: Path) -> None:
    """By default nobody is refused, whenever the pod comes; those that come in between are stored as they are."""
    program = Program(tmp_path / "mount", control_plane.kubeconfig(ACCOUNT))
    with (
        running(program),
        registered(control_plane, shipped_webhooks(control_plane, program.url, program.authority)),
        Load(control_plane) as load,
    ):
        load.more(20)
        assert program.stop() == 0
        between = load.unnamed
        wait_for("pods without us", lambda: load.unnamed > between)
        program.start()
        load.more(20)
    assert load.failed == []


class Kubelet:
    """Keeps a mounted Secret as it is stored, a moment later."""

    def __init__(self, plane: ControlPlane, program: Program) -> None:
        self._plane = plane
        self._program = program
        self._stop = Event()
        self._before: Object = {}
        self._thread = Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self.sync()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def sync(self) -> None:
        """Once."""
        secret = self._plane.request("GET", "/api/v1/namespaces/poolwarden/secrets/poolwarden-webhook-tls")["data"]
        if secret != self._before:
            self._program.mount.put(base64.b64decode(secret["tls.crt"]), base64.b64decode(secret["tls.key"]))
            self._before = secret

    def _run(self) -> None:
        while not self._stop.wait(0.5):
            self.sync()


def test_the_ca_is_rotated_twice_under_load_without_a_failed_admission(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Strict, so that one call that failed would be one pod refused."""
    # The waits are those of a cluster whose API server and kubelet take no longer than ours.
    settings = Settings("poolwarden", extra_names=("127.0.0.1",), propagation=3, retirement=4)
    cluster = ApiServer(KubeTransport(kubeconfig=str(control_plane.kubeconfig())))
    program = Program(tmp_path / "mount", control_plane.kubeconfig(ACCOUNT))
    pause = Event().wait
    keep(cluster, settings, pause)
    webhooks = shipped_webhooks(control_plane, program.url, program.authority, folder=overlay(tmp_path, "strict"))
    with Kubelet(control_plane, program), running(program), registered(control_plane, webhooks):
        keep_to_the_end(cluster, settings, pause, lambda _: None)
        wait_for("our own CA to be trusted", lambda: _is_named(control_plane))
        seen = [program.served()]
        with Load(control_plane) as load:
            for _ in range(2):
                load.more(10)
                keep(cluster, settings, pause, rotate=True)
                keep_to_the_end(cluster, settings, pause, lambda _: None)
                wait_for("the new certificate", lambda: program.served() not in seen)
                seen.append(program.served())
                load.more(10)
        assert load.failed == []
        assert load.unnamed == 0
    assert len(set(seen)) == 3


def _is_named(plane: ControlPlane) -> bool:
    try:
        return try_pod(plane) == NAMED
    except ApiError:
        return False
