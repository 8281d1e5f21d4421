"""What a process has seen of pods protects their addresses after a forced deletion, whatever befell the sweeps between."""

from __future__ import annotations

import pytest

from factories import Object, ago, blue, endpoint, node, pod, stateful_set, undecodable
from faults import World, calls, go_on, sweep, unread
from poolwarden.gc.guard import Recollection
from poolwarden.gc.policy import Ceiling
from poolwarden.gc.sweep import Settings, Sweep

A, B = "10.0.0.10", "10.0.0.11"
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})
SLOW = pod("app", grace=3600, node="node-2", ips=[A])


class Process:
    """A gc that runs sweep after sweep, 5 minutes apart, and remembers."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memory = Recollection()

    def sweeps(self, number: int = 1) -> None:
        """So many sweeps."""
        for _ in range(number):
            one = Sweep(self.world, Settings(Ceiling.RELEASE), go_on, self.memory)
            one.run()
            self.memory = one.recollection
            self.world.later(minutes=5)


def started(owner: Object = SLOW, *others: Object) -> tuple[World, Process]:
    """A process that has seen the owner run on node-2, with an hour of grace."""
    world = World(blue({A: owner, B: LIVE}), LIVE, LIVE_NIC, node(), node("node-2"), owner, *others)
    process = Process(world)
    process.sweeps()
    return world, process


KINDS = ["Pod", "StatefulSet", "SpiderEndpoint", "SpiderIPPool", "Node", "PoolGuard"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("early", [True, False], ids=["before-the-deletion", "after-it"])
def test_grace_outlives_a_list_that_failed(kind: str, early: bool) -> None:  # noqa: FBT001 - a table
    """A sweep that could not read something forgets no pod: its containers may run for an hour after a forced deletion."""
    world, process = started()
    if not early:
        world.remove("Pod", "app")
    world.on(calls("list", kind), unread)
    process.sweeps()
    world.remove("Pod", "app")
    process.sweeps(9)
    assert A in world.records("blue")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("early", [True, False], ids=["before-the-deletion", "after-it"])
def test_node_outlives_a_list_that_failed(kind: str, early: bool) -> None:  # noqa: FBT001 - a table
    """Nor does it forget where the pod ran: a node that falls silent much later still keeps the address."""
    world, process = started()
    if not early:
        world.remove("Pod", "app")
    world.on(calls("list", kind), unread)
    process.sweeps()
    world.remove("Pod", "app")
    process.sweeps(3)
    world.put(node("node-2", ready=False, since=ago(minutes=-20)))
    process.sweeps(20)
    assert A in world.records("blue")


@pytest.mark.parametrize("how", ["undecodable", "unparsable"])
def test_grace_outlives_a_pool_that_cannot_be_read(how: str) -> None:
    """A pool that cannot be read for once may name the pod: nothing is forgotten meanwhile."""
    world, process = started()
    world.remove("Pod", "app")
    whole = world.thing("SpiderIPPool", "blue")
    broken = {**whole, "status": {**whole["status"], "allocatedIPs": "{"}}
    world.put(undecodable(whole) if how == "undecodable" else broken)
    process.sweeps()
    world.put(whole)
    process.sweeps(9)
    assert A in world.records("blue")


def scaled_down_later(process: Process, world: World) -> None:
    """The set still entitles the pod when it is deleted by force, and does not some sweeps later."""
    world.remove("Pod", "db-0")
    process.sweeps(2)
    world.put(stateful_set("db", replicas=0))


def test_grace_outlives_retention() -> None:
    """A pod whose address was retained for a while had its grace, too."""
    world, process = started(pod("db-0", grace=3600, node="node-2"), stateful_set("db"))
    scaled_down_later(process, world)
    process.sweeps(8)
    assert A in world.records("blue")


def test_node_outlives_retention() -> None:
    """And ran somewhere."""
    world, process = started(pod("db-0", node="node-2"), stateful_set("db"))
    scaled_down_later(process, world)
    process.sweeps(2)
    world.put(node("node-2", ready=False, since=ago(minutes=-25)))
    process.sweeps(8)
    assert A in world.records("blue")


@pytest.mark.parametrize("restart", [False, True])
def test_the_hour_ends(restart: bool) -> None:  # noqa: FBT001 - a table
    """Once its grace is over, and its node answers, the address goes, in this process or the next."""
    world, process = started()
    world.remove("Pod", "app")
    process.sweeps(3)
    if restart:
        process.memory = Recollection()
    process.sweeps(9)
    assert A in world.records("blue")
    process.sweeps(3)
    assert A not in world.records("blue")


def test_first_sweep_of_a_process_knows_nothing() -> None:
    """Without memory, ledger or endpoint the least grace holds."""
    world = World(blue({A: SLOW, B: LIVE}), LIVE, LIVE_NIC, node(), node("node-2"))
    for _ in range(3):
        sweep(world)
        world.later(minutes=11)
    assert A not in world.records("blue")
