"""Faults between gc and a real API server: no live address is freed, nothing is lost, the next sweep goes on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from controlplane.plane import ControlPlane
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.transport import Answer, NoAnswer, Request, Response
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.sweep import Settings, Sweep, SweepReport
from spiderpool_agent import GROUP, Agent

Object = dict[str, Any]
Fault = Callable[[Request, Callable[[], Answer]], Answer | None]
ROOT = Path(__file__).parents[2]
NOW = Settings(ceiling=Ceiling.RELEASE, default=Policy(grace=0, cooldown=0, max_release_percent=100))
LIMITS = Limits(qps=1000, burst=1000, attempts=2, backoff_base=0.01, backoff_cap=0.05, read_timeout=5, read_deadline=5)
LEAK, LIVE = "10.8.0.10", "10.8.0.11"


class Faulty:
    """The real transport with a fault between: it may answer in the server's place, before or after the server did."""

    def __init__(self, plane: ControlPlane) -> None:
        self.real = KubeTransport(kubeconfig=str(plane.kubeconfig()))
        self.fault: Fault = lambda _request, _send: None
        self.writes: list[str] = []

    def send(self, request: Request) -> Answer:
        """One exchange, with whatever the fault makes of it."""
        if request.method != "GET" and "/events" not in request.path and "poolguards" not in request.path:
            self.writes.append(f"{request.method} {request.path.rpartition('/v2beta1/')[2]}")
        answer = self.fault(request, lambda: self.real.send(request))
        return self.real.send(request) if answer is None else answer


def refused(status: int, reason: str, message: str = "injected", **headers: str) -> Response:
    """A Kubernetes Status of the API server."""
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": status,
        "reason": reason,
        "message": message,
    }
    return Response(status, json.dumps(body).encode(), {"content-type": "application/json", **headers})


def once(wanted: Callable[[Request], bool], answer: Fault) -> Fault:
    """A fault of the first request that is wanted."""
    done = Event()

    def fault(request: Request, send: Callable[[], Answer]) -> Answer | None:
        if done.is_set() or not wanted(request):
            return None
        done.set()
        return answer(request, send)

    return fault


def reads(kind: str) -> Callable[[Request], bool]:
    """Whether a request lists or gets a kind."""
    return lambda request: request.method == "GET" and f"/{kind}" in request.path


def writes(kind: str) -> Callable[[Request], bool]:
    """Whether a request writes a kind."""
    return lambda request: request.method != "GET" and f"/{kind}" in request.path


@pytest.fixture
def world(control_plane: ControlPlane, namespace: str, bare_node: str) -> Iterator[tuple[Agent, str]]:
    """A pool of two records: one of a pod that was force-deleted without CNI DEL, one of a pod that runs."""
    crds = sorted((ROOT / "tests" / "crds").glob("*.yaml"))
    control_plane.kubectl("apply", "--server-side", *(f"--filename={path}" for path in crds))
    control_plane.kubectl("apply", f"--filename={ROOT / 'manifests' / 'crd' / 'poolguards.yaml'}")
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
    agent = Agent(control_plane, namespace)
    pool = f"faults-{namespace}"
    agent.make_pool(pool, "10.8.0.10-10.8.0.19")
    for name, address in (("gone-0", LEAK), ("lives", LIVE), ("lives-too", "10.8.0.12")):
        spec = {"nodeName": bare_node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}
        control_plane.request(
            "POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec}
        )
        agent.add(
            control_plane.request("GET", f"/api/v1/namespaces/{namespace}/pods/{name}"), {"eth0": (pool, address)}
        )
        control_plane.run_pod(namespace, name, ips=[address])
    control_plane.force_delete_pod(namespace, "gone-0")
    yield agent, pool
    for name in agent.endpoints():
        path = f"{GROUP}/namespaces/{namespace}/spiderendpoints/{name}"
        control_plane.request("PATCH", path, {"metadata": {"finalizers": None}})
        if control_plane.find(path):
            control_plane.request("DELETE", path)
    if control_plane.find(f"{GROUP}/spiderippools/{pool}"):
        control_plane.request("PATCH", f"{GROUP}/spiderippools/{pool}", {"metadata": {"finalizers": None}})
        control_plane.request("DELETE", f"{GROUP}/spiderippools/{pool}")
    control_plane.request("DELETE", "/apis/poolwarden.dev/v1alpha1/poolguards")


def sweep(transport: Faulty) -> SweepReport:
    """One sweep without grace and cooldown: the second one releases."""
    return Sweep(ApiServer(transport, limits=LIMITS), NOW, Event().wait).run()


@pytest.fixture
def due(world: tuple[Agent, str]) -> tuple[Agent, str, Faulty]:
    """The leak has been sighted: the next sweep would release it."""
    agent, pool = world
    transport = Faulty(agent.plane)
    report = sweep(transport)
    assert report.complete, report.problems
    return agent, pool, transport


def recovers(agent: Agent, pool: str, transport: Faulty) -> None:
    """Without the fault, gc frees exactly the leak within three sweeps."""
    transport.fault = lambda _request, _send: None
    for _ in range(3):
        if LEAK in agent.records(pool):
            sweep(transport)
    assert set(agent.records(pool)) == {LIVE, "10.8.0.12"}
    assert agent.count(pool) == 2
    report = sweep(transport)
    assert report.complete, report.problems


def test_without_a_fault_the_second_sweep_releases(due: tuple[Agent, str, Faulty]) -> None:
    """One pool write, and before it the endpoint and its finalizer: nothing else is written."""
    agent, pool, transport = due
    report = sweep(transport)
    assert report.complete, report.problems
    assert set(agent.records(pool)) == {LIVE, "10.8.0.12"}
    endpoint = f"namespaces/{agent.namespace}/spiderendpoints/gone-0"
    pod_gone = [f"PATCH {endpoint}", f"PATCH spiderippools/{pool}/status"]
    # Kubernetes' own garbage collector may have deleted the endpoint first: then only its finalizer is left to us.
    assert transport.writes in (pod_gone, [f"DELETE {endpoint}", *pod_gone])


@pytest.mark.parametrize("kind", ["spiderippools", "spiderendpoints", "pods", "statefulsets", "nodes"])
@pytest.mark.parametrize(
    "answer",
    [
        refused(500, "InternalError"),
        refused(403, "Forbidden", "pods is forbidden: no verb list"),
        Response(200, b'{"kind":"PodList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"na'),
        NoAnswer("connection reset", sent=True),
    ],
    ids=["500", "403", "broken-half-way", "reset"],
)
def test_a_list_that_cannot_be_read_releases_nothing(due: tuple[Agent, str, Faulty], kind: str, answer: Answer) -> None:
    """A list that is refused or breaks off is incomplete evidence: named, counted, nothing written; then gc goes on."""
    agent, pool, transport = due
    before = agent.records(pool)
    transport.writes.clear()
    transport.fault = lambda request, _send: answer if reads(kind)(request) else None
    report = sweep(transport)
    assert not report.complete
    assert any(kind.rstrip("s") in problem.lower() for problem in report.problems), report.problems
    assert transport.writes == []
    assert agent.records(pool) == before
    recovers(agent, pool, transport)


def test_too_many_requests_are_waited_out(due: tuple[Agent, str, Faulty]) -> None:
    """A 429 with Retry-After is repeated for reads: the sweep goes on as if nothing had been."""
    agent, pool, transport = due
    busy = refused(429, "TooManyRequests", **{"retry-after": "1"})
    transport.fault = once(reads("pods"), lambda _request, _send: busy)
    report = sweep(transport)
    assert report.complete, report.problems
    assert LEAK not in agent.records(pool)


def test_a_writer_beside_us_is_not_overwritten(due: tuple[Agent, str, Faulty]) -> None:
    """Spiderpool hands out another address between our read and our write: both changes stand."""
    agent, pool, transport = due
    pod = agent.plane.request("GET", f"/api/v1/namespaces/{agent.namespace}/pods/lives")

    def add_first(_request: Request, send: Callable[[], Answer]) -> Answer:
        agent.record(pool, "10.8.0.19", pod)
        return send()

    transport.fault = once(writes("spiderippools"), add_first)
    report = sweep(transport)
    assert report.complete, report.problems
    assert set(agent.records(pool)) == {LIVE, "10.8.0.12", "10.8.0.19"}
    assert sum(path.endswith("/status") for path in transport.writes) == 2


def test_the_record_is_rewritten_for_a_live_pod_between_read_and_write(due: tuple[Agent, str, Faulty]) -> None:
    """The leaked address is given to a live pod in the last moment: it is kept."""
    agent, pool, transport = due
    pod = agent.plane.request("GET", f"/api/v1/namespaces/{agent.namespace}/pods/lives")

    def give_away(_request: Request, send: Callable[[], Answer]) -> Answer:
        agent.record(pool, LEAK, pod)
        return send()

    transport.fault = once(writes("spiderippools"), give_away)
    sweep(transport)
    assert agent.records(pool)[LEAK]["podUid"] == pod["metadata"]["uid"]


@pytest.mark.parametrize("fate", ["made", "not-made"])
@pytest.mark.parametrize("kind", ["spiderippools", "spiderendpoints", "poolguards"])
def test_a_write_whose_answer_is_lost(due: tuple[Agent, str, Faulty], kind: str, fate: str) -> None:
    """Whether it was made is found out by reading; either way the leak goes, once, and nothing else does."""
    agent, pool, transport = due

    def lost(_request: Request, send: Callable[[], Answer]) -> Answer:
        if fate == "made":
            send()
        return NoAnswer("time-out", sent=True)

    transport.fault = once(writes(kind), lost)
    sweep(transport)
    assert {LIVE, "10.8.0.12"} <= set(agent.records(pool))
    recovers(agent, pool, transport)


def test_the_pool_is_gone_between_read_and_write(due: tuple[Agent, str, Faulty]) -> None:
    """A pool that is deleted under us is no problem of the sweep's, and takes its marks with it."""
    agent, pool, transport = due

    def delete_first(_request: Request, send: Callable[[], Answer]) -> Answer:
        agent.plane.request("PATCH", f"{GROUP}/spiderippools/{pool}", {"metadata": {"finalizers": None}})
        agent.plane.request("DELETE", f"{GROUP}/spiderippools/{pool}")
        return send()

    transport.fault = once(writes("spiderippools"), delete_first)
    report = sweep(transport)
    assert report.complete, report.problems
    assert agent.plane.find(f"{GROUP}/spiderippools/{pool}") is None


def test_the_server_is_down(due: tuple[Agent, str, Faulty]) -> None:
    """Nobody answers: the sweep says so and writes nothing; when the server is back, gc goes on where it was."""
    agent, pool, transport = due
    before = agent.records(pool)
    transport.writes.clear()
    agent.plane.stop_apiserver()
    try:
        report = sweep(transport)
    finally:
        agent.plane.start_apiserver()
    assert not report.complete
    assert transport.writes == []
    assert agent.records(pool) == before
    recovers(agent, pool, transport)


class Crash(BaseException):
    """Our own end, at a moment of the test's choosing."""


def crash_after(number: int) -> Fault:
    """The program ends right after so many requests were answered."""
    answered = iter(range(number))

    def fault(_request: Request, send: Callable[[], Answer]) -> Answer:
        answer = send()
        if next(answered, None) is None:
            raise Crash
        return answer

    return fault


def test_we_die_between_any_two_requests(due: tuple[Agent, str, Faulty]) -> None:
    """Wherever a sweep ends, the next ones free the leak and nothing else."""
    agent, pool, transport = due
    for step in range(1000):
        transport.fault = crash_after(step)
        try:
            sweep(transport)
        except Crash:
            assert {LIVE, "10.8.0.12"} <= set(agent.records(pool))
            continue
        break
    assert step > 10
    recovers(agent, pool, transport)


def test_a_clock_that_is_off_does_no_harm(due: tuple[Agent, str, Faulty], monkeypatch: pytest.MonkeyPatch) -> None:
    """Times are the API server's: with our clock an hour off, grace is neither shorter nor longer."""
    agent, pool, transport = due
    from poolwarden.cluster import clock  # noqa: PLC0415 - the one place that reads our own clock

    honest = clock.utc_now
    monkeypatch.setattr(clock, "utc_now", lambda: honest() + timedelta(hours=1))
    cluster = ApiServer(transport, limits=LIMITS)
    slow = Settings(ceiling=Ceiling.RELEASE, default=Policy(grace=1800, cooldown=0))
    Sweep(cluster, slow, Event().wait).run()
    assert LEAK in agent.records(pool)
    guard = agent.plane.request("GET", f"/apis/poolwarden.dev/v1alpha1/poolguards/spiderpool.{pool}")
    assert [entry["phase"] for entry in guard["status"]["ledger"]] == ["Sighted"]
    assert abs(cluster.now() - honest()) < timedelta(minutes=1)
