"""gc as an operator runs it, on a real API server with real controllers, beside what Spiderpool's agent writes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest

from controlplane.plane import ControlPlane
from controlplane.server import free_ports
from spiderpool_agent import GROUP, Agent

Object = dict[str, Any]
CRDS = Path(__file__).parents[1] / "crds"
MANIFESTS = Path(__file__).parents[2] / "manifests"
DEADLINE = 60.0
QUICK = ("--grace", "1s", "--cooldown", "1s")


@pytest.fixture(scope="module")
def crds(control_plane: ControlPlane) -> None:
    """The kinds that gc reads are installed."""
    control_plane.kubectl("apply", "--server-side", *(f"--filename={path}" for path in sorted(CRDS.glob("*.yaml"))))
    control_plane.kubectl("apply", f"--filename={MANIFESTS / 'crd' / 'poolguards.yaml'}")
    names = ["crd/spiderippools.spiderpool.spidernet.io", "crd/spiderendpoints.spiderpool.spidernet.io"]
    control_plane.kubectl(
        "wait", "--for=condition=Established", "--timeout=30s", *names, "crd/poolguards.poolwarden.dev"
    )


@pytest.fixture
def agent(crds: None, control_plane: ControlPlane, namespace: str) -> Iterator[Agent]:  # noqa: ARG001 - it must be first
    """Spiderpool's part; its pools and endpoints are gone after the test, so that no other test's sweep meets them."""
    agent = Agent(control_plane, namespace)
    yield agent
    for name in agent.endpoints():
        path = f"{GROUP}/namespaces/{namespace}/spiderendpoints/{name}"
        control_plane.request("PATCH", path, {"metadata": {"finalizers": None}})
        if control_plane.find(path):
            control_plane.request("DELETE", path)
    for pool in control_plane.request("GET", f"{GROUP}/spiderippools")["items"]:
        path = f"{GROUP}/spiderippools/{pool['metadata']['name']}"
        control_plane.request("PATCH", path, {"metadata": {"finalizers": None}})
        control_plane.request("DELETE", path)
    control_plane.request("DELETE", "/apis/poolwarden.dev/v1alpha1/poolguards")


def poolwarden(plane: ControlPlane, *arguments: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
    """Run the program as an operator would; its output is in the result."""
    command = [sys.executable, "-m", "poolwarden", *arguments, "--kubeconfig", str(plane.kubeconfig(user))]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def sweep(plane: ControlPlane, mode: str, *more: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
    """One sweep with a short grace and cooldown."""
    done = poolwarden(plane, "gc", "--once", "--mode", mode, *QUICK, "--lease-duration", "3s", *more, user=user)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Wait until it holds, or fail."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.2)
    pytest.fail(f"not within {DEADLINE:.0f} s: {what}")


def status_of(address: str) -> list[Object]:
    """A network-status whose default network is Spiderpool's."""
    return [{"name": "kube-system/macvlan", "interface": "eth0", "ips": [address], "default": True, "dns": {}}]


def run(agent: Agent, name: str, pool: str, address: str) -> Object:
    """Let a pod start: CNI ADD, then Running at its address."""
    path = f"/api/v1/namespaces/{agent.namespace}/pods/{name}"
    eventually(f"pod {name}", lambda: agent.plane.find(path) is not None)
    agent.add(agent.plane.request("GET", path), {"eth0": (pool, address)})
    return agent.plane.run_pod(agent.namespace, name, ips=[address], network_status=status_of(address))


def workload(agent: Agent, kind: str, name: str, node: str, replicas: int) -> None:
    """A StatefulSet or Deployment whose pods run on a node."""
    body: Object = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "nodeName": node,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [{"name": "c", "image": "i"}],
                },
            },
        },
    }
    if kind == "StatefulSet":
        body["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
    plural = f"{kind.lower()}s"
    agent.plane.request("POST", f"/apis/apps/v1/namespaces/{agent.namespace}/{plural}", body)


def pods_of(agent: Agent, app: str) -> list[Object]:
    """The pods of a workload that are not being deleted."""
    path = f"/api/v1/namespaces/{agent.namespace}/pods?labelSelector=app%3D{app}"
    items = agent.plane.request("GET", path)["items"]
    return [pod for pod in items if not pod["metadata"].get("deletionTimestamp")]


@pytest.fixture
def leaking(agent: Agent, bare_node: str) -> tuple[Agent, str, str]:
    """A pool of 20 in which a StatefulSet (.10, .11) and a Deployment (.12 to .15) run, and what was done to them.

    web-1 was deleted and re-created, with another UID and no ADD yet; a pod of the Deployment (.12) was force-deleted
    without CNI DEL. Returns the agent, the pool's name and the node's.
    """
    pool = f"pool-{agent.namespace}"
    agent.make_pool(pool, "10.9.0.10-10.9.0.29")
    workload(agent, "StatefulSet", "web", bare_node, 2)
    workload(agent, "Deployment", "app", bare_node, 4)
    for at, name in enumerate(("web-0", "web-1")):
        run(agent, name, pool, f"10.9.0.{10 + at}")
    eventually("four pods of the Deployment", lambda: len(pods_of(agent, "app")) == 4)
    apps = sorted(pod["metadata"]["name"] for pod in pods_of(agent, "app"))
    for at, name in enumerate(apps):
        run(agent, name, pool, f"10.9.0.{12 + at}")
    old = agent.plane.request("GET", f"/api/v1/namespaces/{agent.namespace}/pods/web-1")["metadata"]["uid"]
    agent.plane.force_delete_pod(agent.namespace, "web-1")
    agent.plane.force_delete_pod(agent.namespace, apps[0])

    def recreated() -> bool:
        found = agent.plane.find(f"/api/v1/namespaces/{agent.namespace}/pods/web-1")
        return found is not None and found["metadata"]["uid"] != old

    eventually("web-1 under another UID", recreated)
    return agent, pool, bare_node


def test_observe_reports_and_frees_nothing_then_release_frees_exactly_the_leak(
    leaking: tuple[Agent, str, str],
) -> None:
    """Observe mode touches no IPAM object; release mode frees what leaked, and nothing else; restore brings it back."""
    agent, pool, _ = leaking
    plane = agent.plane
    before = agent.records(pool)
    audit = json.loads(poolwarden(plane, "audit", "-o", "json", "--pool", pool).stdout)
    assert [(f["address"], f["verdict"], f["action"]) for f in audit["findings"]] == [
        ("10.9.0.12", "Leaked", "release")
    ]
    assert audit["complete"] is True

    sweep(plane, "observe")
    assert agent.records(pool) == before
    guard = f"spiderpool.{pool}"
    eventually(
        "cooldown in observe mode",
        lambda: sweep(plane, "observe").returncode == 0 and _phase(plane, guard) == "Cooldown",
    )
    assert agent.records(pool) == before

    eventually(
        "the leak to be freed",
        lambda: sweep(plane, "release").returncode == 0 and "10.9.0.12" not in agent.records(pool),
    )
    assert agent.records(pool) == {address: record for address, record in before.items() if address != "10.9.0.12"}
    assert agent.count(pool) == len(before) - 1
    assert before["10.9.0.12"]["pod"].partition("/")[2] not in agent.endpoints()
    assert "web-1" in agent.endpoints()

    told = plane.kubectl("get", "poolguards", guard).stdout
    assert told.split("\n")[0].split() == [
        "NAME",
        "IPAM",
        "POOL",
        "SIZE",
        "ALLOCATED",
        "UNKNOWN",
        "COOLDOWN",
        "FREE",
        "LEAKED",
        "MODE",
        "AGE",
    ]
    events = events_of(plane, pool)
    assert "LeakDetected" in events
    assert "AddressReleased" in events
    assert events.count("LeakDetected") == 1

    back = poolwarden(plane, "restore", "10.9.0.12", "--pool", pool)
    assert back.returncode == 0, back.stderr
    assert agent.records(pool) == before
    sweep(plane, "release")
    assert agent.records(pool) == before


def test_restore_refuses_an_address_that_somebody_took(leaking: tuple[Agent, str, str]) -> None:
    """A released address that was handed out again is not taken back."""
    agent, pool, _ = leaking
    plane = agent.plane
    eventually(
        "the leak to be freed",
        lambda: sweep(plane, "release").returncode == 0 and "10.9.0.12" not in agent.records(pool),
    )
    new = next(pod for pod in pods_of(agent, "app") if pod["metadata"]["name"] not in agent.endpoints())
    agent.record(pool, "10.9.0.12", new)
    refused = poolwarden(plane, "restore", "10.9.0.12", "--pool", pool)
    assert refused.returncode == 1
    assert "InUse" in refused.stderr
    assert new["metadata"]["name"] in refused.stderr


def test_a_leak_on_a_node_that_does_not_answer_is_kept(leaking: tuple[Agent, str, str]) -> None:
    """A container on a partitioned node may serve on: the record is kept, and the message names the node."""
    agent, pool, node = leaking
    before = agent.records(pool)
    agent.plane.set_node_ready(node, False)
    audit = poolwarden(agent.plane, "audit", "-o", "json", "--pool", pool)
    finding = next(f for f in json.loads(audit.stdout)["findings"] if f["address"] == "10.9.0.12")
    assert (finding["verdict"], finding["reason"], finding["action"]) == ("Unknown", "NodeUnreachable", "none")
    assert node in finding["message"]
    for _ in range(4):
        sweep(agent.plane, "release")
    assert agent.records(pool) == before


def test_the_rights_in_the_manifests_are_enough(leaking: tuple[Agent, str, str]) -> None:
    """Observing and releasing work with exactly the rights that manifests/ grants; those to observe release nothing."""
    agent, pool, _ = leaking
    plane = agent.plane
    plane.kubectl("apply", f"--filename={MANIFESTS / 'namespace.yaml'}")
    # Without the webhook: its configurations would meet every test.
    plane.kubectl("apply", "-k", str(MANIFESTS / "rbac"))
    account = "system:serviceaccount:poolwarden:poolwarden-gc"
    lease = ("--lease-namespace", "poolwarden", "--lease-duration", "3s")
    sweep(plane, "observe", *lease, user=account)
    before = agent.records(pool)

    def refused() -> bool:
        done = poolwarden(plane, "gc", "--once", "--mode", "release", *QUICK, *lease, user=account)
        # Kubernetes' own garbage collector may have deleted the endpoint first: then its finalizer is left to us.
        refusals = ("cannot delete spiderendpoints", "cannot patch spiderendpoints")
        return done.returncode == 2 and any(refusal in done.stderr for refusal in refusals)

    eventually("a release to be refused for want of rights", refused)
    assert agent.records(pool) == before
    plane.kubectl("apply", "-k", str(MANIFESTS / "components" / "release"))

    def freed() -> bool:
        done = poolwarden(plane, "gc", "--once", "--mode", "release", *QUICK, *lease, user=account)
        return done.returncode == 0 and "10.9.0.12" not in agent.records(pool)

    try:
        eventually("the leak to be freed", freed)
    finally:
        plane.kubectl("delete", "-k", str(MANIFESTS / "components" / "release"))


def _phase(plane: ControlPlane, guard: str) -> str:
    found = plane.request("GET", f"/apis/poolwarden.dev/v1alpha1/poolguards/{guard}")
    ledger = found["status"]["ledger"]
    return str(ledger[0]["phase"]) if ledger else ""


# --- two processes ----------------------------------------------------------------------------------------------------


def daemon(plane: ControlPlane, *more: str, metrics: str = "127.0.0.1:0") -> subprocess.Popen[str]:
    """A gc daemon that sweeps each second."""
    command = [sys.executable, "-m", "poolwarden", "gc", "--interval", "1s", "--mode", "release", *QUICK, *more]
    command += ["--metrics-bind", metrics]
    command += ["--lease-duration", "3s", "--kubeconfig", str(plane.kubeconfig())]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)


def holder(plane: ControlPlane, lease: str) -> str:
    """Who holds a lease, "" if nobody."""
    found = plane.find(f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{lease}")
    return str(found["spec"].get("holderIdentity") or "") if found else ""


def events_of(plane: ControlPlane, pool: str) -> str:
    """The Events about a pool."""
    return plane.kubectl("events", "--for", f"spiderippool/{pool}").stdout


@pytest.mark.parametrize(("how", "least", "most"), [(signal.SIGKILL, 2.0, 10.0), (signal.SIGTERM, 0.0, 3.0)])
def test_another_process_takes_over(
    leaking: tuple[Agent, str, str], how: signal.Signals, least: float, most: float
) -> None:
    """Of two gc processes one sweeps; when it is killed the other takes over, at once if it could say goodbye."""
    agent, pool, _ = leaking
    plane = agent.plane
    before = agent.records(pool)
    lease = f"gc-{agent.namespace}"
    first = daemon(plane, "--max-releases", "0", "--lease-name", lease)
    second: subprocess.Popen[str] | None = None
    try:
        eventually("the first to lead", lambda: bool(holder(plane, lease)))
        leader = holder(plane, lease)
        second = daemon(plane, "--lease-name", lease)
        once = poolwarden(plane, "gc", "--once", "--lease-duration", "3s", "--lease-name", lease)
        assert once.returncode == 0
        assert leader in once.stdout + once.stderr
        assert holder(plane, lease) == leader
        first.send_signal(how)
        killed = time.monotonic()
        first.wait(timeout=10)
        eventually("the second to lead", lambda: holder(plane, lease) not in {"", leader})
        took = time.monotonic() - killed
        assert least < took < most
        eventually("the leak to be freed", lambda: "10.9.0.12" not in agent.records(pool))
        assert agent.records(pool) == {a: r for a, r in before.items() if a != "10.9.0.12"}
        # Events are sent when the sweep is over.
        eventually("the release to be told", lambda: events_of(plane, pool).count("AddressReleased") > 0)
        assert events_of(plane, pool).count("AddressReleased") == 1
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.communicate()


def fetched(url: str) -> tuple[int, str]:
    """Status and text of a page; 0 while nobody listens."""
    try:
        with urlopen(url, timeout=5) as response:
            return response.status, response.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except URLError as error:
        return 0, str(error)


def is_ready(page: str) -> bool:
    """Whether a daemon's readiness probe succeeds."""
    return fetched(f"{page}/readyz")[0] == 200


def test_a_daemon_serves_its_metrics(leaking: tuple[Agent, str, str]) -> None:
    """A daemon that leads shows its pools and is ready; one that waits for the lease is ready, and shows none."""
    agent, pool, _ = leaking
    plane, lease = agent.plane, f"gc-metrics-{agent.namespace}"
    pages = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
    processes: list[subprocess.Popen[str]] = []
    try:
        for page in pages:
            processes.append(daemon(plane, "--lease-name", lease, metrics=page.removeprefix("http://")))
            eventually("it to be ready", partial(is_ready, page))
            eventually("somebody to lead", lambda: bool(holder(plane, lease)))
        eventually(
            "a sweep", lambda: 'poolwarden_sweeps_total{outcome="success"} 0.0' not in fetched(f"{pages[0]}/metrics")[1]
        )
        shown = fetched(f"{pages[0]}/metrics")[1]
        assert f'pool="{pool}"' in shown
        assert 'poolwarden_sweep_step_duration_seconds_count{outcome="success",step="report"}' in shown
        assert [fetched(f"{page}/healthz") for page in pages] == [(200, "ok\n")] * 2
        assert 'pool="' not in fetched(f"{pages[1]}/metrics")[1]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
