"""The world changes at each call of the sweep that releases: whoever needs the address in time, has it in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from factories import (
    Object,
    blue,
    claim,
    endpoint,
    launcher,
    node,
    pod,
    pool,
    stateful_set,
    virtual_machine,
    virtual_machine_instance,
)
from faults import When, World, calls, endpoints_recorded, keeps, meanwhile, sweep, sweep_until_due
from poolwarden.gc.policy import Policy

A, B, C = "10.0.0.10", "10.0.0.11", "10.0.0.12"
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})
Change = Callable[[World], object]


def due(leak: Object, *others: Object, **options: Any) -> World:
    """A pool with one leak that is due, beside one record in use."""
    world = World(blue({A: leak, B: LIVE}), LIVE, LIVE_NIC, *others)
    sweep_until_due(world, **options)
    return world


def scaled_down() -> World:
    """db-0, of a set without replicas, with its endpoint."""
    nic = endpoint("db-0", {"eth0": f"{A}@blue"}, kind="StatefulSet")
    return due(claim("db-0"), stateful_set("db", replicas=0), nic)


def gone() -> World:
    """A pod of no set, without endpoint."""
    return due(claim("app"))


def gone_with_endpoint() -> World:
    """A pod of no set, with its endpoint."""
    return due(claim("app"), endpoint("app", {"eth0": f"{A}@blue"}))


def at_each_call(build: Callable[[], World], change: Change, **options: Any) -> Iterator[tuple[int, World]]:
    """A world for each call of the sweep that releases, changed straight before that call, and swept to the end."""
    start = build()
    for at in count():
        world = start.copy()
        world.watchers += [keeps("blue", {B: LIVE})]
        world.on(calls(), meanwhile(lambda world=world: change(world)), nth=at + 1)  # type: ignore[misc]
        sweep(world, **options)
        if len(world.calls) <= at:
            break
        yield at, world


def in_time(world: World, at: int, when: When, before: When = lambda _call: False) -> bool:
    """Whether a change at that call precedes the last call that matches (and comes before the first of `before`)."""
    indices = [number for number, call in enumerate(world.calls) if when(call)]
    ends = [number for number, call in enumerate(world.calls) if before(call)]
    return at <= max((number for number in indices if not ends or number < ends[0]), default=-1)


POOL_WRITE = calls("patch", "SpiderIPPool")


def test_owner_entitled_again() -> None:
    """A StatefulSet that is scaled up while we still read keeps, or gets back, its pod's address."""
    seen = set()
    for at, world in at_each_call(scaled_down, lambda world: world.put(stateful_set("db", replicas=1))):
        kept = A in world.records("blue")
        seen.add(kept)
        if in_time(world, at, calls("get", "StatefulSet")):
            assert kept, f"scaled up at call {at} ({world.calls[at]}), and not kept"
            assert world.records("blue")[A] == claim("db-0")
        assert world.broken == []
    assert seen == {True, False}


def add_again(world: World) -> None:
    """The set's new pod comes, and Spiderpool's agent answers its ADD from the endpoint, or allocates anew."""
    new = pod("db-0", uid="newer", ips=[A] if world.has("SpiderEndpoint", "db-0") else [C])
    nic = endpoint(new, {"eth0": f"{new['status']['podIP']}@blue"}, kind="StatefulSet")
    if new["status"]["podIP"] == C or A in world.records("blue"):
        world.record("blue", {new["status"]["podIP"]: new})
    world.put(stateful_set("db", replicas=1), new, nic)


def test_pod_that_comes_back() -> None:
    """However the agent's ADD falls between our calls, the new pod's address is recorded for it, then and ever after."""
    for at, world in at_each_call(scaled_down, add_again):
        where = f"ADD at call {at} ({world.calls[at]})"
        new = world.thing("Pod", "db-0")
        address = new["status"]["podIP"]
        for _ in range(3):
            assert world.records("blue").get(address) == claim(new), where
            assert ("db-0", "blue", address) in set(world.listed()), where
            assert endpoints_recorded(world) == "", where
            world.later(minutes=11)
            sweep(world)


def hand_out(world: World) -> None:
    """The IPAM's own DEL frees the address, and a new pod gets it."""
    new = pod("new", ips=[A])
    world.record("blue", {A: new})
    world.put(new, endpoint(new, {"eth0": f"{A}@blue"}))


@pytest.mark.parametrize("build", [gone, gone_with_endpoint, scaled_down])
def test_address_that_is_handed_out(build: Callable[[], World]) -> None:
    """A record that changed hands is another record: whenever that happens, the new owner keeps it, without a trace."""
    for at, world in at_each_call(build, hand_out):
        where = f"handed out at call {at} ({world.calls[at]})"
        for _ in range(4):
            assert world.records("blue").get(A) == claim("new"), where
            assert world.has("SpiderEndpoint", "new"), where
            world.later(minutes=11)
            report = sweep(world)
        assert report.complete, report.problems
        assert world.ledger("blue") == {}, where


def test_address_that_somebody_shows() -> None:
    """An address that any pod shows before our last look is in its pool in the end, whoever the record names."""
    seen = set()
    for at, world in at_each_call(gone, lambda world: world.put(pod("other", ips=[A]))):
        kept = A in world.records("blue")
        seen.add(kept)
        if in_time(world, at, calls("list", "Pod")):
            assert kept, f"shown at call {at} ({world.calls[at]}), and not kept"
    assert seen == {True, False}


@pytest.mark.parametrize(
    "change",
    [
        lambda world: world.put(node(ready=False)),
        lambda world: world.remove("Node", "node-1"),
    ],
    ids=["silent", "gone"],
)
def test_node_that_falls_silent(change: Change) -> None:
    """The node evidence is read again: where it is missing by then, nothing is written."""
    seen = set()
    for at, world in at_each_call(gone_with_endpoint, change):
        written = bool(world.tried(POOL_WRITE))
        seen.add(written)
        endpoint_write = calls("write", "SpiderEndpoint")
        if in_time(world, at, calls("get", "Node"), before=endpoint_write):
            assert not written, f"silent at call {at} ({world.calls[at]})"
            assert not world.tried(endpoint_write)
    assert seen == {True, False}


def edit_guard(**spec: object) -> Change:
    """The operator edits the guard."""

    def change(world: World) -> None:
        guard = world.guard("blue")
        generation = guard["metadata"]["generation"] + 1
        world.put({**guard, "spec": guard["spec"] | spec, "metadata": guard["metadata"] | {"generation": generation}})

    return change


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "Off"},
        {"mode": "Observe"},
        {"keep": [A]},
        {"ignoreNamespaces": ["default"]},
        {"maxReleasesPerSweep": 0},
    ],
    ids=str,
)
def test_operator_who_says_stop(spec: dict[str, object]) -> None:
    """Brakes at the last step: what the guard says at its last reading holds."""
    seen = set()
    for at, world in at_each_call(gone_with_endpoint, edit_guard(**spec)):
        written = bool(world.tried(POOL_WRITE))
        seen.add(written)
        if in_time(world, at, calls("get", "PoolGuard")):
            assert not written, f"said at call {at} ({world.calls[at]})"
            assert world.has("SpiderEndpoint", "app")
    assert seen == {True, False}


def test_guard_that_is_deleted() -> None:
    """The marks go with the guard, and what has no mark is not released."""
    for at, world in at_each_call(gone, lambda world: world.remove("PoolGuard", "spiderpool.blue")):
        if in_time(world, at, calls("get", "PoolGuard")):
            assert not world.tried(POOL_WRITE), f"deleted at call {at} ({world.calls[at]})"


def test_pool_made_anew() -> None:
    """A pool of the same name with another UID is another pool: its records were not judged, nor sighted twice."""

    def anew(world: World) -> None:
        made = blue({A: claim("app"), B: LIVE})
        made["metadata"]["uid"] = "newer"
        world.put(made)

    for at, world in at_each_call(gone, anew):
        if not in_time(world, at, POOL_WRITE):
            continue
        where = f"made anew at call {at} ({world.calls[at]})"
        assert A in world.records("blue"), where
        world.later(minutes=5)
        sweep(world)
        assert A in world.records("blue"), where


def test_overlapping_pool_whose_record_comes() -> None:
    """A pool that shares addresses is read again as well: what it records for another by then is kept."""

    def build() -> World:
        world = World(blue({A: claim("app"), B: LIVE}), pool("other", "10.0.0.10-10.0.0.15"), LIVE, LIVE_NIC)
        sweep_until_due(world)
        return world

    def give(world: World) -> None:
        starting = pod("starting", phase="Pending")
        world.put(starting)
        world.record("other", {A: starting})

    seen = set()
    for at, world in at_each_call(build, give):
        kept = A in world.records("blue")
        seen.add(kept)
        assert not world.tried(POOL_WRITE) or world.tried(calls("get", "SpiderIPPool", "other"))
        if in_time(world, at, calls("get", "SpiderIPPool", "other"), before=POOL_WRITE):
            assert kept, f"recorded at call {at} ({world.calls[at]})"
    assert seen == {True, False}


def test_endpoint_that_another_pod_takes() -> None:
    """An endpoint of another UID that lists the address vetoes its release; it never loses its record."""

    def take(world: World) -> None:
        new = pod("app", uid="newer", phase="Pending")
        world.put(new, endpoint(new, {"eth0": f"{A}@blue"}))

    for at, world in at_each_call(gone_with_endpoint, take):
        if in_time(world, at, calls("get", "SpiderEndpoint"), before=POOL_WRITE):
            where = f"taken at call {at} ({world.calls[at]})"
            assert A in world.records("blue"), where
            assert world.has("SpiderEndpoint", "app"), where


def test_owner_that_runs_out_of_grace_only_now() -> None:
    """The live reads judge with the same policy: a longer default grace is heeded there as well."""
    patient = Policy(grace=3600)
    world = World(blue({A: claim("app"), B: LIVE}), LIVE, LIVE_NIC)
    for _ in range(3):
        sweep(world, default=patient)
        world.later(minutes=11)
    assert world.ledger("blue") == {A: "Sighted"}
    assert not world.tried(POOL_WRITE)


def test_owner_that_is_replaced_only_now() -> None:
    """Another reason than that of the two sightings is no sighting: the clock starts anew."""
    seen = set()
    for at, world in at_each_call(gone, lambda world: world.put(pod("app", uid="newer", ips=[C]))):
        kept = A in world.records("blue")
        seen.add(kept)
        if in_time(world, at, calls("get", "Pod"), before=POOL_WRITE):
            assert kept, f"replaced at call {at} ({world.calls[at]})"
    assert seen == {True, False}


def machine_gone() -> World:
    """A record of a KubeVirt machine that is gone: it names the machine and carries its launcher pod's UID."""
    return due(claim("vm", "virt-launcher-vm-a-uid"))


@pytest.mark.parametrize(
    ("thing", "when"),
    [
        (virtual_machine("vm"), calls("get", "VirtualMachine")),
        (virtual_machine_instance("vm"), calls("get", "VirtualMachineInstance")),
        (launcher("vm", ips=[A]), calls("list", "Pod")),
        (launcher("vm", phase="Pending"), calls("list", "Pod")),
    ],
    ids=["vm", "vmi", "launcher", "launcher-without-address"],
)
def test_machine_that_comes_back(thing: Object, when: When) -> None:
    """A machine, its instance or its launcher pod that is there at our last look keeps the address, or gets it back."""
    seen = set()
    for at, world in at_each_call(machine_gone, lambda world: world.put(thing)):
        kept = A in world.records("blue")
        seen.add(kept)
        if in_time(world, at, when):
            assert kept, f"back at call {at} ({world.calls[at]})"
    assert seen == {True, False}
