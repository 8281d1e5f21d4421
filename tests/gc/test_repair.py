"""Repairs of endpoints: after two sightings, on exactly the object judged, and never where live reads say otherwise."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest

from factories import Object, blue, claim, endpoint, green, nad, node, pod, stateful_set
from faults import World, calls, keeps, meanwhile, outdated, refused, sweep, sweep_until_due, unread
from poolwarden.gc.policy import Ceiling
from poolwarden.gc.repair import RepairOutcome
from poolwarden.gc.sweep import SweepReport

A, B, C = "10.0.0.10", "10.0.0.11", "10.0.0.12"
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})
APP = pod("app", ips=[A])
ENDPOINT_WRITE = calls("write", "SpiderEndpoint")


def world(*things: Object, records: dict[str, Object] | None = None) -> World:
    """The pool `blue` with a live pod beside what a test brings."""
    made = World(blue({B: LIVE, **(records or {})}), nad("eth0"), LIVE, LIVE_NIC, *things)
    made.watchers.append(keeps("blue", {B: LIVE, **(records or {})}))
    return made


def orphan() -> World:
    """An endpoint without pod and record."""
    return world(endpoint("gone", {"eth0": f"{A}@blue"}))


def stale() -> World:
    """An endpoint of an older pod of a live pod's name."""
    return world(APP, endpoint("app", {"eth0": f"{C}@blue"}, uid="older"), records={A: APP})


def unnamed() -> World:
    """A live pod's endpoint whose NIC has no name."""
    return world(APP, endpoint(APP, {"": f"{A}@blue"}), records={A: APP})


def twice() -> World:
    """A live pod's endpoint that names its NIC twice."""
    return world(APP, endpoint(APP, [("eth0", f"{A}@blue"), ("eth0", f"{C}@blue")]), records={A: APP})


ALL: list[Callable[[], World]] = [orphan, stale, unnamed, twice]


def nics(made: World, name: str) -> list[tuple[str, str]]:
    """Interface and address of each item of an endpoint."""
    items = made.thing("SpiderEndpoint", name)["status"]["current"]["ips"]
    return [(item["interface"], item["ipv4"].partition("/")[0]) for item in items]


def mended(made: World) -> bool:
    """Whether nothing but endpoints in order is left."""
    left = {thing["metadata"]["name"] for thing in made.objects() if thing["kind"] == "SpiderEndpoint"}
    return left == {"live"} or (left == {"live", "app"} and nics(made, "app") == [("eth0", A)])


def repairs(report: SweepReport) -> list[RepairOutcome]:
    """What became of repairs."""
    return [done.outcome for _, done in report.repaired]


@pytest.mark.parametrize("build", ALL)
def test_after_two_sightings(build: Callable[[], World]) -> None:
    """Each endpoint is mended once grace and cooldown are over, marked before it is written, told, and forgotten."""
    made = build()
    sweep_until_due(made)
    assert not mended(made)
    (before,) = made.status("blue")["ledger"]
    assert before["phase"] == "Cooldown"
    report = sweep(made)
    assert mended(made)
    assert (report.complete, repairs(report)) == (True, [RepairOutcome.REPAIRED])
    assert [notice.reason.value for notice in report.notices] == ["EndpointRepaired"]
    mark, *_ = (call for call in made.calls if call.writes)
    assert (mark.kind, mark.body["status"]["ledger"][0]["phase"]) == ("PoolGuard", "Releasing")
    assert made.ledger("blue") == {}
    assert not made.tried(calls("write", "SpiderIPPool"))
    assert made.broken == []
    made.later(minutes=11)
    made.forget_calls()
    assert not sweep(made).repaired
    assert not made.tried(ENDPOINT_WRITE)


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("ceiling", [Ceiling.OBSERVE, Ceiling.OPT_IN])
def test_modes(build: Callable[[], World], ceiling: Ceiling) -> None:
    """Repairs obey the mode as releases do."""
    made = build()
    for _ in range(4):
        sweep(made, ceiling)
        made.later(minutes=11)
    assert not made.tried(ENDPOINT_WRITE)


@pytest.mark.parametrize("build", ALL)
def test_caps(build: Callable[[], World]) -> None:
    """A sweep that may release nothing repairs nothing."""
    made = build()
    for _ in range(4):
        sweep(made, max_releases=0)
        made.later(minutes=11)
    assert not made.tried(ENDPOINT_WRITE)


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("kind", ["SpiderEndpoint", "Pod"])
def test_live_read_that_fails(build: Callable[[], World], kind: str) -> None:
    """Doubt keeps: what cannot be read again is not mended, and is in the next sweep."""
    made = build()
    sweep_until_due(made)
    made.on(calls("get", kind), unread)
    report = sweep(made)
    assert not made.tried(ENDPOINT_WRITE)
    assert RepairOutcome.REPAIRED not in repairs(report)
    for _ in range(3):
        made.later(minutes=11)
        sweep(made)
    assert mended(made)


@pytest.mark.parametrize("build", ALL)
def test_pools_that_cannot_be_listed(build: Callable[[], World]) -> None:
    """An endpoint may go only if no pool at all records its owner; the clock stands, and the sweep says so."""
    made = build()
    sweep_until_due(made)
    made.on(calls("list", "SpiderIPPool"), unread, nth=2)
    report = sweep(made)
    assert not made.tried(ENDPOINT_WRITE)
    assert (repairs(report), report.complete) == ([RepairOutcome.DEFERRED], False)
    assert list(made.ledger("blue").values()) == ["Cooldown"]
    sweep(made)
    assert mended(made)


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("effect", [outdated, refused])
def test_write_that_fails(build: Callable[[], World], effect: Any) -> None:
    """A conflict or refusal is told; the next sweep mends it."""
    made = build()
    sweep_until_due(made)
    made.on(ENDPOINT_WRITE, effect)
    report = sweep(made)
    assert (repairs(report), report.complete) == ([RepairOutcome.FAILED], False)
    assert [notice.reason.value for notice in report.notices] == ["ReleaseFailed"]
    assert not mended(made)
    made.later(minutes=1)
    sweep(made)
    assert mended(made)


def at_each_call(build: Callable[[], World], change: Callable[[World], object]) -> list[tuple[str, bool, World]]:
    """For each call of the sweep that mends: its name, whether it precedes the first write, and the world changed there."""
    start = build()
    sweep_until_due(start)
    made: list[tuple[str, bool, World]] = []
    for at in count():
        twin = start.copy()
        twin.on(calls(), meanwhile(lambda twin=twin: change(twin)), nth=at + 1)  # type: ignore[misc]
        sweep(twin)
        if len(twin.calls) <= at:
            return made
        writes = [number for number, call in enumerate(twin.calls) if ENDPOINT_WRITE(call)]
        made.append((f"at call {at} ({twin.calls[at]})", at <= min(writes, default=at), twin))
    return made


@pytest.mark.parametrize("build", [orphan, stale])
def test_agent_that_takes_the_endpoint(build: Callable[[], World]) -> None:
    """An endpoint that the agent rewrites for a new pod, at whatever moment before our write, stays as the agent left it."""

    def take(made: World) -> None:
        name = "gone" if made.has("SpiderEndpoint", "gone") or not made.has("Pod", "app") else "app"
        new = pod(name, uid="newest", ips=[C])
        made.record("blue", {C: new})
        made.put(new, endpoint(new, {"eth0": f"{C}@blue"}))

    for where, before, made in at_each_call(build, take):
        if before:
            taken = [thing for thing in made.objects() if thing["kind"] == "SpiderEndpoint"]
            assert any(thing["status"]["current"]["uid"] == "newest" for thing in taken), where
            assert not any("deletionTimestamp" in thing["metadata"] for thing in taken), where
        assert C in made.records("blue"), where


def test_record_that_comes_for_the_orphan() -> None:
    """An endpoint whose owner is recorded again, in whatever pool, before our last look stays."""

    def build() -> World:
        made = orphan()
        made.put(green())
        return made

    for where, _, made in at_each_call(build, lambda made: made.record("green", {"10.0.1.10": claim("gone")})):
        listed = [number for number, call in enumerate(made.calls) if calls("list", "SpiderIPPool")(call)]
        if int(where.split()[2]) <= listed[-1]:
            assert made.has("SpiderEndpoint", "gone"), where


@pytest.mark.parametrize("build", [unnamed, twice])
def test_pod_that_changes_its_mind(build: Callable[[], World]) -> None:
    """An item is mended only while the pod shows what proves it."""
    for where, _, made in at_each_call(build, lambda made: made.put(pod("app", ips=[A], ready=False))):
        shown = [number for number, call in enumerate(made.calls) if calls("get", "Pod")(call)]
        if shown and int(where.split()[2]) <= shown[-1]:
            assert not made.tried(ENDPOINT_WRITE), where


@pytest.mark.parametrize("build", [orphan, stale])
def test_node_that_falls_silent(build: Callable[[], World]) -> None:
    """Removing an endpoint needs good node evidence, read again."""
    made = build()
    sweep_until_due(made)
    made.put(node(ready=False))
    sweep(made)
    assert not made.tried(ENDPOINT_WRITE)
    for where, _, twin in at_each_call(build, lambda made: made.put(node(ready=False))):
        reads = [number for number, call in enumerate(twin.calls) if calls("get", "Node")(call)]
        if reads and int(where.split()[2]) <= reads[-1]:
            assert not twin.tried(ENDPOINT_WRITE), where


@pytest.mark.parametrize("build", ALL)
@pytest.mark.parametrize("spec", [{"mode": "Observe"}, {"mode": "Off"}], ids=str)
def test_operator_who_says_stop(build: Callable[[], World], spec: dict[str, object]) -> None:
    """What the guard says straight before the write holds; the clock stands."""
    made = build()
    sweep_until_due(made)

    def change() -> None:
        guard = made.guard("blue")
        made.put({**guard, "spec": guard["spec"] | spec})

    made.on(calls("get", "Node"), meanwhile(change))
    report = sweep(made)
    assert not made.tried(ENDPOINT_WRITE)
    assert repairs(report) == [RepairOutcome.DEFERRED]


def test_entitled_owners_endpoint() -> None:
    """A StatefulSet's endpoint is never removed nor edited while the set entitles it, though its UID be the old one."""
    new = pod("db-0", uid="newer", phase="Pending")
    nic = endpoint("db-0", {"eth0": f"{A}@blue"}, kind="StatefulSet")
    made = world(stateful_set("db"), new, nic, records={A: claim("db-0")})
    for _ in range(6):
        sweep(made)
        made.later(minutes=11)
    assert not made.tried(ENDPOINT_WRITE)
    assert nics(made, "db-0") == [("eth0", A)]


def test_endpoint_held_by_another_finalizer() -> None:
    """Only our IPAM's finalizer is taken off: an endpoint that another holds is told, and its record stays."""
    nic = endpoint("app", {"eth0": f"{A}@blue"}, finalizers=["spiderpool.spidernet.io", "example.com/mine"])
    made = World(blue({A: claim("app"), B: LIVE}), LIVE, LIVE_NIC, nic)
    sweep_until_due(made)
    report = sweep(made)
    assert not report.complete
    assert "still held by another finalizer" in " ".join(report.problems)
    assert made.thing("SpiderEndpoint", "app")["metadata"]["finalizers"] == ["example.com/mine"]
    assert A in made.records("blue")
    made.remove("SpiderEndpoint", "app")
    made.later(minutes=11)
    sweep(made)
    assert A not in made.records("blue")


def test_endpoint_that_is_already_terminating() -> None:
    """One that somebody deleted, and that only its finalizer holds, is not deleted again: the finalizer goes."""
    made = World(
        blue({A: claim("app"), B: LIVE}), LIVE, LIVE_NIC, endpoint("app", {"eth0": f"{A}@blue"}, deleting=True)
    )
    sweep_until_due(made)
    assert sweep(made).complete
    assert not made.tried(calls("delete", "SpiderEndpoint"))
    assert not made.has("SpiderEndpoint", "app")
    assert A not in made.records("blue")
