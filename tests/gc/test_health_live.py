"""A pool's health as an operator sees it, on a real API server with real controllers: full, leaking, extended, shrunk."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from ipaddress import IPv4Address
from typing import Any

import pytest

from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from controlplane.server import free_ports
from spiderpool_agent import GROUP, Agent

from . import test_gc_live as live
from .test_gc_live import (
    MANIFESTS,
    QUICK,
    daemon,
    eventually,
    fetched,
    holder,
    pods_of,
    poolwarden,
    run,
    sweep,
    workload,
)

Object = dict[str, Any]
RANGE = "10.11.0.10-10.11.0.21"
SIZE = 12
"""The smallest size but one at which one free address is less than a tenth."""
GUARDS = "/apis/poolwarden.dev/v1alpha1/poolguards"
STOCK: Object = {
    "freeAddresses": {"low": 2, "target": 3, "high": 4},
    "reserve": ["10.11.0.100-10.11.0.109"],
}
EXTENDED = "10.11.0.100-10.11.0.102"
"""What a full pool gets from that reserve."""
EXHAUSTION = {"PoolNearlyExhausted", "PoolExhausted"}
RESIZING = {"PoolExtended", "PoolShrunk"}
APP = "app"
REFUSED = ("patch", "spiderippools")
"""Verb and resource."""

definitions = live.crds
agent = live.agent
leaking = live.leaking


@pytest.fixture(scope="module")
def crds(definitions: None, control_plane: ControlPlane) -> None:  # noqa: ARG001 - they must be there
    """The kinds that gc reads are served: for a moment after they are established the API server asks to come again."""
    control_plane.kubectl("get", "spiderippools,spiderendpoints,poolguards", "--all-namespaces")


# --- the cluster ------------------------------------------------------------------------------------------------------


def path_of(pool: str) -> str:
    """Where a pool is."""
    return f"{GROUP}/spiderippools/{pool}"


def ips_of(plane: ControlPlane, pool: str) -> list[str]:
    """The pool's spec.ips."""
    ips: list[str] = plane.request("GET", path_of(pool))["spec"]["ips"]
    return ips


def version_of(plane: ControlPlane, pool: str) -> str:
    """What every write of the pool changes."""
    return str(plane.request("GET", path_of(pool))["metadata"]["resourceVersion"])


def addresses_of(plane: ControlPlane, pool: str) -> Iterator[str]:
    """What the pool can hand out, in the order in which this agent does."""
    for item in ips_of(plane, pool):
        first, _, last = item.partition("-")
        numbers = range(int(IPv4Address(first)), int(IPv4Address(last or first)) + 1)
        yield from (str(IPv4Address(number)) for number in numbers)


def scale(agent: Agent, pool: str, replicas: int) -> None:
    """Scale the Deployment: CNI ADD of new pods at the pool's first free addresses, CNI DEL of those that go."""
    agent.plane.kubectl("scale", f"deployment/{APP}", f"--replicas={replicas}", f"--namespace={agent.namespace}")

    def settled() -> bool:
        path = f"/api/v1/namespaces/{agent.namespace}/pods?labelSelector=app%3D{APP}"
        return len(agent.plane.request("GET", path)["items"]) == len(pods_of(agent, APP)) == replicas

    eventually(f"{replicas} pods", settled)
    pods = {pod["metadata"]["name"] for pod in pods_of(agent, APP)}
    for name in set(agent.endpoints()) - pods:
        remove(agent, pool, name)
    for name in sorted(pods - set(agent.endpoints())):
        taken = agent.records(pool)
        run(agent, name, pool, next(item for item in addresses_of(agent.plane, pool) if item not in taken))


def remove(agent: Agent, pool: str, name: str) -> None:
    """CNI DEL of a pod: its record goes, then its endpoint."""
    subject = f"{agent.namespace}/{name}"
    left = {address: record for address, record in agent.records(pool).items() if record["pod"] != subject}
    agent.set_records(pool, left)
    path = f"{GROUP}/namespaces/{agent.namespace}/spiderendpoints/{name}"
    agent.plane.request("PATCH", path, {"metadata": {"finalizers": None}})
    # Kubernetes' own garbage collector may be first.
    kind = "spiderendpoints.spiderpool.spidernet.io"
    agent.plane.kubectl("delete", kind, name, f"--namespace={agent.namespace}", "--ignore-not-found")


def pod_at(agent: Agent, pool: str, address: str) -> str:
    """The name of the pod that an address is recorded for."""
    return str(agent.records(pool)[address]["pod"].partition("/")[2])


def costs(agent: Agent, name: str, cost: int) -> None:
    """How late the Deployment gives up a pod when it is scaled down."""
    annotations = {"controller.kubernetes.io/pod-deletion-cost": str(cost)}
    path = f"/api/v1/namespaces/{agent.namespace}/pods/{name}"
    agent.plane.request("PATCH", path, {"metadata": {"annotations": annotations}})


# --- what an operator sees --------------------------------------------------------------------------------------------


def guard_of(pool: str) -> str:
    """The name of a pool's PoolGuard."""
    return f"spiderpool.{pool}"


def status_of(plane: ControlPlane, pool: str) -> Object:
    """The status of the pool's guard, {} while there is none."""
    found = plane.find(f"{GUARDS}/{guard_of(pool)}")
    status: Object = found.get("status", {}) if found else {}
    return status


def condition_of(plane: ControlPlane, pool: str, kind: str) -> tuple[str, str, str]:
    """Status, reason and message of a condition of the pool's guard, blank while it has none."""
    conditions = status_of(plane, pool).get("conditions", ())
    return next(((c["status"], c["reason"], c["message"]) for c in conditions if c["type"] == kind), ("", "", ""))


def column(plane: ControlPlane, pool: str, title: str) -> str:
    """What `kubectl get poolguards` shows in a column up to LEAKED; the first that may be blank comes after it."""
    head, row = plane.kubectl("get", "poolguards", guard_of(pool)).stdout.splitlines()
    return dict(zip(head.split(), row.split(), strict=False))[title]


def reasons(plane: ControlPlane, pool: str, of: set[str]) -> list[str]:
    """The reasons, of these, of the Events about the pool, sorted; one for each time it was told."""
    printed = plane.kubectl("events", "--for", f"spiderippool/{pool}", "--output=json").stdout
    events = json.loads(printed)["items"] if printed else []
    return sorted(event["reason"] for event in events if event["reason"] in of)


def are_told(plane: ControlPlane, pool: str, expected: list[str]) -> bool:
    """Whether the Events about a pool that fills up are these."""
    return reasons(plane, pool, EXHAUSTION) == expected


def counts(page: str, pool: str, **states: int) -> bool:
    """Whether a daemon's metrics count so many addresses of the pool in these states."""
    series = f'poolwarden_pool_addresses{{ipam="spiderpool",namespace="",pool="{pool}",state="%s"}} %.1f'
    return {series % item for item in states.items()} <= set(fetched(f"{page}/metrics")[1].splitlines())


@pytest.fixture
def filling(agent: Agent, node: str) -> tuple[Agent, str]:
    """A pool of 12, of which ten are in use by the pods of a Deployment that run on kwok."""
    pool = f"pool-{agent.namespace}"
    agent.make_pool(pool, RANGE)
    workload(agent, "Deployment", APP, node, 0)
    scale(agent, pool, SIZE - 2)
    return agent, pool


@pytest.fixture
def full(filling: tuple[Agent, str]) -> tuple[Agent, str]:
    """The same pool without a free address, as a sweep has seen it."""
    agent, pool = filling
    scale(agent, pool, SIZE)
    sweep(agent.plane, "observe")
    assert condition_of(agent.plane, pool, "Exhausted")[:2] == ("True", "NoFreeAddress")
    return agent, pool


@pytest.fixture
def stocked(full: tuple[Agent, str]) -> tuple[Agent, str]:
    """The same full pool, whose guard has watermarks and a reserve from now on."""
    agent, pool = full
    agent.plane.request("PATCH", f"{GUARDS}/{guard_of(pool)}", {"spec": STOCK})
    return agent, pool


# --- full, and no longer ----------------------------------------------------------------------------------------------


def test_a_pool_that_fills_up_is_seen_everywhere(filling: tuple[Agent, str]) -> None:
    """Nearly exhausted, then exhausted: each told once in Events, and shown by condition, kubectl get and metrics."""
    agent, pool = filling
    plane = agent.plane
    page = f"http://127.0.0.1:{free_ports(1)[0]}"
    process = daemon(plane, "--lease-name", f"gc-{agent.namespace}", metrics=page.removeprefix("http://"))
    expected: tuple[tuple[int, str, str, list[str]], ...] = (
        (SIZE - 2, "False", "FreeAddresses", []),
        (SIZE - 1, "False", "NearlyExhausted", ["PoolNearlyExhausted"]),
        (SIZE, "True", "NoFreeAddress", ["PoolExhausted", "PoolNearlyExhausted"]),
    )
    try:
        for used, exhausted, reason, told in expected:
            scale(agent, pool, used)
            # Counted when the sweep is over: what it had to write was written before.
            eventually(
                f"{used} addresses in the metrics", partial(counts, page, pool, allocated=used, free=SIZE - used)
            )
            assert condition_of(plane, pool, "Exhausted")[:2] == (exhausted, reason)
            shown = {title: column(plane, pool, title) for title in ("SIZE", "ALLOCATED", "FREE")}
            assert shown == {"SIZE": str(SIZE), "ALLOCATED": str(used), "FREE": str(SIZE - used)}
            eventually("Events of it", partial(are_told, plane, pool, told))
        sweep(plane, "observe", "--lease-name", f"other-{agent.namespace}")
        assert reasons(plane, pool, EXHAUSTION) == ["PoolExhausted", "PoolNearlyExhausted"]
    finally:
        process.kill()
        process.communicate()


def test_kubectl_waits_until_leaked_records_are_freed(full: tuple[Agent, str]) -> None:
    """Pods that were force-deleted without CNI DEL block a full pool until grace and cooldown are over, and no longer."""
    agent, pool = full
    plane = agent.plane
    before = agent.records(pool)
    leaked = {"10.11.0.12", "10.11.0.15"}
    slow = ("--grace", "3s", "--cooldown", "3s")
    for address in leaked:
        agent.plane.force_delete_pod(agent.namespace, pod_at(agent, pool, address))
    deleted = time.monotonic()
    with ThreadPoolExecutor(1) as others:
        wait = ("wait", "--for=condition=Exhausted=false", f"poolguard/{guard_of(pool)}", "--timeout=60s")
        waiting = others.submit(plane.kubectl, *wait)

        def freed() -> bool:
            sweep(plane, "release", *slow)
            left = agent.records(pool)
            if left == before:
                assert not waiting.done()
            return len(left) < SIZE

        eventually("the leaks to be freed", freed)
        took = time.monotonic() - deleted
        assert waiting.result().returncode == 0
    assert agent.records(pool) == {address: record for address, record in before.items() if address not in leaked}
    assert took > 5  # both begin at a whole second
    assert condition_of(plane, pool, "Exhausted")[:2] == ("False", "FreeAddresses")
    assert column(plane, pool, "FREE") == "2"


# --- a stock of free addresses ----------------------------------------------------------------------------------------


def test_a_full_pool_is_extended_and_shrinks_back(stocked: tuple[Agent, str]) -> None:
    """From the reserve up to target; back down to it once pods are gone, but for what a pod still holds."""
    agent, pool = stocked
    plane = agent.plane
    sweep(plane, "release")
    assert ips_of(plane, pool) == [RANGE, EXTENDED]
    assert status_of(plane, pool)["extended"] == [EXTENDED]
    assert condition_of(plane, pool, "Rebalanceable")[0] == "True"
    assert reasons(plane, pool, RESIZING) == ["PoolExtended"]

    scale(agent, pool, SIZE + 1)  # two are free: not below low
    assert "10.11.0.100" in agent.records(pool)
    sweep(plane, "release")
    assert ips_of(plane, pool) == [RANGE, EXTENDED]
    assert (column(plane, pool, "SIZE"), column(plane, pool, "FREE")) == ("15", "2")
    assert condition_of(plane, pool, "Exhausted")[:2] == ("False", "FreeAddresses")

    costs(agent, pod_at(agent, pool, "10.11.0.100"), 100)
    scale(agent, pool, 11)  # four are free: not above high
    sweep(plane, "release")
    assert ips_of(plane, pool) == [RANGE, EXTENDED]
    scale(agent, pool, 9)
    assert "10.11.0.100" in agent.records(pool)
    sweep(plane, "release")
    assert ips_of(plane, pool) == [RANGE, "10.11.0.100"]
    assert status_of(plane, pool)["extended"] == ["10.11.0.100"]
    assert reasons(plane, pool, RESIZING) == ["PoolExtended", "PoolShrunk"]

    costs(agent, pod_at(agent, pool, "10.11.0.100"), -100)
    scale(agent, pool, 8)
    sweep(plane, "release")
    assert ips_of(plane, pool) == [RANGE]
    assert status_of(plane, pool).get("extended", []) == []
    sweep(plane, "release")  # nothing of its own is ever given back
    assert ips_of(plane, pool) == [RANGE]
    assert (column(plane, pool, "SIZE"), column(plane, pool, "FREE")) == ("12", "4")
    assert reasons(plane, pool, RESIZING) == ["PoolExtended", "PoolShrunk", "PoolShrunk"]


def test_what_another_field_manager_applies_is_left_alone(stocked: tuple[Agent, str]) -> None:
    """Where spec.ips is server-side-applied, the condition says by whom, and nothing is written until it no longer is."""
    agent, pool = stocked
    plane = agent.plane

    def applied(**spec: Any) -> None:
        body = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": pool}}
        command = ("apply", "--server-side", "--field-manager=gitops", "--filename=-")
        plane.kubectl(*command, input=json.dumps(body | {"spec": {"subnet": "10.11.0.0/24", **spec}}))

    applied(ips=[RANGE])
    version = version_of(plane, pool)
    sweep(plane, "release")
    assert version_of(plane, pool) == version
    able, reason, message = condition_of(plane, pool, "Rebalanceable")
    assert (able, reason) == ("False", "RangesFixed")
    assert "gitops" in message
    assert reasons(plane, pool, RESIZING) == []

    applied()
    sweep(plane, "release")
    assert ips_of(plane, pool) == [RANGE, EXTENDED]
    assert condition_of(plane, pool, "Rebalanceable")[0] == "True"


def test_who_only_observes_says_what_he_would_do(stocked: tuple[Agent, str]) -> None:
    """In observe mode, the program's or the guard's, and without consent in opt-in mode, the pool is not written."""
    agent, pool = stocked
    plane = agent.plane
    version = version_of(plane, pool)
    for ceiling, mode in (("observe", None), ("observe", "Release"), ("opt-in", None), ("release", "Observe")):
        plane.request("PATCH", f"{GUARDS}/{guard_of(pool)}", {"spec": {"mode": mode}})
        sweep(plane, ceiling)
        assert version_of(plane, pool) == version, (ceiling, mode)
        assert f"{EXTENDED} would be added" in condition_of(plane, pool, "Rebalanceable")[2]
        assert status_of(plane, pool).get("extended", []) == []
    assert reasons(plane, pool, RESIZING) == []
    plane.request("PATCH", f"{GUARDS}/{guard_of(pool)}", {"spec": {"mode": "Release"}})
    sweep(plane, "opt-in")
    assert ips_of(plane, pool) == [RANGE, EXTENDED]


def test_the_right_to_resize_is_the_component_rebalance(stocked: tuple[Agent, str]) -> None:
    """Without it the refusal names verb and resource, and the rest of the sweep is done; with it the pool is extended."""
    agent, pool = stocked
    plane = agent.plane
    component = str(MANIFESTS / "components" / "rebalance")
    plane.kubectl("apply", f"--filename={MANIFESTS / 'namespace.yaml'}")
    plane.kubectl("apply", "-k", str(MANIFESTS / "rbac"))
    lease = ("--lease-namespace", "poolwarden", "--lease-duration", "3s")

    def resize() -> subprocess.CompletedProcess[str]:
        account = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc"
        return poolwarden(plane, "gc", "--once", "--mode", "release", *QUICK, *lease, user=account)

    def refused() -> bool:
        done = resize()
        return done.returncode == 2 and set(re.findall(r'cannot (\w+) resource "([^"]+)"', done.stderr)) == {REFUSED}

    version = version_of(plane, pool)
    eventually("the resizing, and nothing else, to be refused", refused)
    able, reason, message = condition_of(plane, pool, "Rebalanceable")
    assert (able, reason) == ("False", "Failed")
    assert "cannot patch spiderippools.spiderpool.spidernet.io" in message
    assert version_of(plane, pool) == version
    plane.kubectl("apply", "-k", component)
    try:
        eventually("the pool to be extended", lambda: resize().returncode == 0)
        assert ips_of(plane, pool) == [RANGE, EXTENDED]
        assert reasons(plane, pool, RESIZING) == ["PoolExtended"]
    finally:
        plane.kubectl("delete", "-k", component)


# --- a cooldown outlives its process ----------------------------------------------------------------------------------

LEAK = "10.9.0.12"
SECOND = timedelta(seconds=1)
"""By so much a clock of whole seconds may be behind."""


def moment(text: str) -> datetime:
    """A time of the API server."""
    return datetime.fromisoformat(text)


def cools(plane: ControlPlane, pool: str) -> bool:
    """Whether the leak is in its cooldown."""
    return any(e["address"] == LEAK and e["phase"] == "Cooldown" for e in status_of(plane, pool).get("ledger", ()))


def due_at(plane: ControlPlane, pool: str) -> datetime:
    """When that cooldown ends."""
    return next(moment(e["dueAt"]) for e in status_of(plane, pool)["ledger"] if e["address"] == LEAK)


def test_a_cooldown_goes_on_in_the_next_process(leaking: tuple[Agent, str, str]) -> None:
    """Each sweep is a process of its own: none releases before the time that an earlier one wrote down, the next does."""
    agent, pool, _ = leaking
    plane = agent.plane
    slow = ("--cooldown", "6s")
    eventually("the cooldown", lambda: sweep(plane, "release", *slow).returncode == 0 and cools(plane, pool))
    due = due_at(plane, pool)
    early = 0
    while True:
        began = datetime.now(UTC)
        sweep(plane, "release", *slow)
        if LEAK not in agent.records(pool):
            break
        assert began < due + SECOND
        assert column(plane, pool, "COOLDOWN") == "1"
        assert due_at(plane, pool) == due
        early += 1
    assert early
    assert due <= moment(status_of(plane, pool)["released"][-1]["releasedAt"])
    assert datetime.now(UTC) > due - SECOND
    assert column(plane, pool, "COOLDOWN") == "0"


def test_a_cooldown_goes_on_under_the_next_leader(leaking: tuple[Agent, str, str]) -> None:
    """Another process takes the lease in the middle of a cooldown: it counts it, keeps its end, and releases then."""
    agent, pool, _ = leaking
    plane, lease, cooldown = agent.plane, f"gc-{agent.namespace}", timedelta(seconds=20)
    before = agent.records(pool)
    pages = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
    more = ("--cooldown", f"{cooldown.seconds}s", "--lease-name", lease)
    first = daemon(plane, *more, metrics=pages[0].removeprefix("http://"))
    second: subprocess.Popen[str] | None = None
    try:
        eventually("the first to lead", lambda: bool(holder(plane, lease)))
        leader = holder(plane, lease)
        second = daemon(plane, *more, metrics=pages[1].removeprefix("http://"))
        eventually("the cooldown", lambda: cools(plane, pool))
        due = due_at(plane, pool)
        assert column(plane, pool, "COOLDOWN") == "1"
        time.sleep(5)  # how late a release may come below, the time of the takeover apart
        first.kill()
        first.wait(timeout=10)
        eventually("the second to lead", lambda: holder(plane, lease) not in {"", leader})
        found = plane.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{lease}")
        taken_over = moment(found["spec"]["acquireTime"])
        eventually("it to count the cooldown", lambda: counts(pages[1], pool, cooldown=1))
        assert agent.records(pool) == before
        assert due_at(plane, pool) == due
        eventually("the leak to be freed", lambda: LEAK not in agent.records(pool))
        eventually("it to be noted", lambda: bool(status_of(plane, pool).get("released")))
        released = moment(status_of(plane, pool)["released"][-1]["releasedAt"])
        assert taken_over < due <= released < taken_over + cooldown
        assert agent.records(pool) == {address: record for address, record in before.items() if address != LEAK}
    finally:
        for process in filter(None, (first, second)):
            process.kill()
            process.communicate()
