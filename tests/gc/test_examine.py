"""Reading and judging: conflicts are confirmed by a later look at the pool, and what could not be read is named."""

from __future__ import annotations

import pytest

from factories import blue, claim, endpoint, green, nad, pod, pool, undecodable
from faults import World, calls, cut, meanwhile, sweep, unread
from poolwarden.gc.examine import examine, kept_ledgers, needs_of, pools_of
from poolwarden.gc.policy import Policy
from poolwarden.ipam.verdict import Verdict

A, B = "10.0.0.10", "10.0.0.11"
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})


def conflicts(world: World) -> list[str]:
    """The reasons of conflicts."""
    return [item.reason.value for item in examine(world, Policy()).findings if item.verdict is Verdict.CONFLICT]


def starting() -> World:
    """A pool without the record of the pod that shows 10.0.0.11."""
    return World(blue(), LIVE, LIVE_NIC, nad("eth0"))


def test_unrecorded_use() -> None:
    """A pod that shows an address of a pool that does not record it, twice read, is a conflict."""
    world = starting()
    assert conflicts(world) == ["InUseUnrecorded"]
    assert [str(call) for call in world.tried(calls("get"))] == ["get SpiderIPPool blue"]


def test_pod_whose_add_came_between_the_reads() -> None:
    """Recorded by the time the pool is read again: no conflict."""
    world = starting()
    world.on(calls("list", "Pod"), meanwhile(lambda: world.record("blue", {B: LIVE})))
    assert conflicts(world) == []


def test_second_look_that_fails() -> None:
    """What cannot be read again is told as it was found, and gc does nothing about it."""
    world = starting()
    world.on(calls("get", "SpiderIPPool"), unread)
    assert conflicts(world) == ["InUseUnrecorded"]


def test_nothing_suspicious_is_read_twice() -> None:
    """An ordinary pool is listed, and no more."""
    world = World(blue({B: LIVE}), LIVE, LIVE_NIC)
    examine(world, Policy())
    assert not world.tried(calls("get"))
    assert not world.tried(calls("write"))


@pytest.mark.parametrize("kind", ["SpiderIPPool", "SpiderEndpoint", "Pod", "StatefulSet", "Node", "PoolGuard"])
def test_list_that_failed_is_named(kind: str) -> None:
    """Each list that could not be read is a problem, once."""
    world = World(blue({A: claim("app"), B: LIVE}), LIVE)
    world.on(calls("list", kind), unread)
    problems = examine(world, Policy()).problems
    assert f"{kind} cannot be read" in " ".join(problems)
    assert len(problems) == len(set(problems))


def test_broken_list_and_broken_object_are_named() -> None:
    """A list that broke off, and an object that cannot be decoded."""
    world = World(blue({B: LIVE}), undecodable(green()), LIVE)
    world.on(calls("list", "Pod"), cut(0))
    problems = " ".join(examine(world, Policy()).problems)
    assert "the list of Pod broke off" in problems
    assert "green" in problems


def test_needs_are_said_once() -> None:
    """A hundred records that lack the same evidence have one line."""
    world = World(pool("blue", "10.0.0.1-10.0.0.200", {f"10.0.0.{n}": claim(f"app-x{n}") for n in range(1, 101)}), LIVE)
    world.on(calls("list", "Node"), unread)
    assert len(needs_of(examine(world, Policy()).findings)) == 1


def test_pools_in_order() -> None:
    """Pools are sorted by their references."""
    world = World(green(), blue(), LIVE)
    assert [item.ref.name for item in pools_of(examine(world, Policy()).snapshot)] == ["blue", "green"]


def test_ledger_of_an_earlier_pool() -> None:
    """A pool that was made anew has no ledger yet."""
    world = World(blue({A: claim("app"), B: LIVE}), LIVE)
    sweep(world)
    assert [len(item.entries) for item in kept_ledgers(examine(world, Policy())).values()] == [1]
    anew = blue({A: claim("app"), B: LIVE})
    anew["metadata"]["uid"] = "newer"
    world.put(anew)
    assert kept_ledgers(examine(world, Policy())) == {}
