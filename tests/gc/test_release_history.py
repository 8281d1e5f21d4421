"""Whole releases that meet trouble: they end as they should, and no trouble outlives its cause."""

import pytest

from factories import Object, blue, claim, endpoint, green, nad, pod
from faults import Crash, World, calls, crash_after, outdated, sweep, sweep_until_due, unread

A = "10.0.0.10"
LEAK = claim("app")
LIVE = pod("live", ips=["10.0.0.11"])


def never_attached(*others: Object) -> World:
    """10.0.1.10 of `green` lies in the endpoint of a healthy pod, under no interface; its eth0 is from `blue`."""
    app = pod("app", ips=["10.0.0.12"])
    other = pod("other", ips=["10.0.0.11"], nics={"net1": "10.0.1.11"})
    return World(
        blue({"10.0.0.12": app, "10.0.0.11": other}),
        green({"10.0.1.10": app, "10.0.1.11": other}),
        *others,
        nad("net1"),
        app,
        other,
        endpoint(app, [("eth0", "10.0.0.12@blue"), ("", "10.0.1.10@green")]),
        endpoint(other, {"eth0": "10.0.0.11@blue", "net1": "10.0.1.11@green"}),
    )


def sweeps(world: World, number: int) -> None:
    """So many sweeps, 11 minutes apart."""
    for _ in range(number):
        sweep(world)
        world.later(minutes=11)


def test_never_attached_beside_a_nic_of_another_pool() -> None:
    """The live reads must see a pod's other NICs as the nomination saw them, else it is never released."""
    world = never_attached()
    sweeps(world, 3)
    assert set(world.records("green")) == {"10.0.1.11"}
    assert sorted(world.listed()) == [
        ("app", "blue", "10.0.0.12"),
        ("other", "blue", "10.0.0.11"),
        ("other", "green", "10.0.1.11"),
    ]


def test_never_attached_whose_pool_write_meets_a_conflict() -> None:
    """Our own edit of the endpoint is no news: the second try goes on, for the next sweep would find the owner live."""
    world = never_attached(nad("eth0"))
    sweeps(world, 2)
    world.on(calls("patch", "SpiderIPPool"), outdated)
    report = sweep(world)
    assert report.complete, report.problems
    assert set(world.records("green")) == {"10.0.1.11"}


def test_live_read_that_fails_does_not_reset_the_clock() -> None:
    """Unknown neither counts nor resets: the sweep after a failed live read releases."""
    world = World(blue({A: LEAK, "10.0.0.11": LIVE}), LIVE)
    sweep_until_due(world)
    world.on(calls("get", "Pod"), unread)
    sweep(world)
    assert world.records("blue").get(A) == LEAK
    world.later(minutes=1)
    sweep(world)
    assert A not in world.records("blue")


def test_address_handed_out_after_a_crash() -> None:
    """After our own crash the freed address may belong to a new pod; the old mark ends there, and later sweeps are clean."""
    world = World(blue({A: LEAK, "10.0.0.11": LIVE}), LIVE, nad("eth0"))
    sweep_until_due(world)
    world.on(calls("patch", "SpiderIPPool"), crash_after)
    with pytest.raises(Crash):
        sweep(world)
    new = pod("new", ips=[A])
    world.put(new, endpoint(new, {"eth0": f"{A}@blue"}))
    world.record("blue", {A: new})
    sweeps(world, 2)
    report = sweep(world)
    assert report.complete, report.problems
    assert world.ledger("blue") == {}
    assert world.records("blue").get(A) == claim(new)


def test_guard_with_a_number_beyond_all_time() -> None:
    """One absurd guard never stops the others: its pool is left alone and told, the next one is swept."""
    world = World(
        blue({A: LEAK, "10.0.0.11": LIVE}),
        green({"10.0.1.10": claim("app"), "10.0.1.11": LIVE}),
        LIVE,
    )
    sweep(world)
    guard = world.guard("blue")
    world.put({**guard, "spec": guard["spec"] | {"graceSeconds": 10**15}})
    world.later(minutes=11)
    sweep(world)
    assert world.ledger("green") == {"10.0.1.10": "Cooldown"}


def test_never_attached_of_a_pod_without_another_record() -> None:
    """A running owner's endpoint never goes whole, though no record of it be kept: just the item leaves it."""
    world = never_attached(nad("eth0"))
    world.record("blue", {"10.0.0.12": None})
    sweeps(world, 3)
    assert set(world.records("green")) == {"10.0.1.11"}
    assert not world.tried(calls("delete", "SpiderEndpoint"))
    assert ("app", "blue", "10.0.0.12") in set(world.listed())
