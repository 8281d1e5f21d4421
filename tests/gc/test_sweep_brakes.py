"""The brakes of whole sweeps: breaker, caps, mode and keep, heeded at the last step."""

import pytest

from factories import Object, blue, claim, pod, stateful_set
from faults import World, calls, meanwhile, sweep, sweep_until_due, unread

A = "10.0.0.10"
LIVE = pod("live", ips=["10.0.0.11"])
LEAKS = {f"10.0.0.{last}": claim(f"app-x{last}") for last in range(12, 20)}


def mostly_leaking(**metadata: str) -> Object:
    """A pool of which all records but one are leaks."""
    made = blue({**LEAKS, "10.0.0.11": LIVE})
    made["metadata"] |= metadata
    return made


def acknowledge(world: World, number: int) -> None:
    """The operator acknowledges so many leaks."""
    change(world, acknowledgedLeaks=number)


def change(world: World, **spec: object) -> None:
    """The operator edits a guard's spec."""
    guard = world.guard("blue")
    generation = guard["metadata"]["generation"] + 1
    world.put({**guard, "spec": guard["spec"] | spec, "metadata": guard["metadata"] | {"generation": generation}})


def sweeps(world: World, number: int) -> None:
    """So many sweeps, 11 minutes apart."""
    for _ in range(number):
        sweep(world)
        world.later(minutes=11)


def test_acknowledgement_lets_a_braked_pool_go_on() -> None:
    """Braked until the operator acknowledges the number of candidates, then released up to the caps."""
    world = World(mostly_leaking(), LIVE)
    sweeps(world, 4)
    assert set(LEAKS) <= set(world.records("blue"))
    acknowledge(world, len(LEAKS))
    sweeps(world, 3)
    assert set(world.records("blue")) == {"10.0.0.11"}


def test_spent_acknowledgement_does_not_serve_a_pool_made_anew() -> None:
    """An acknowledgement is spent once Braked clears; the next one needs a new spec generation, in whatever pool."""
    world = World(mostly_leaking(), LIVE)
    sweep(world)
    acknowledge(world, len(LEAKS))
    sweeps(world, 5)
    assert set(world.records("blue")) == {"10.0.0.11"}
    world.put(mostly_leaking(uid="made-anew"))
    sweeps(world, 5)
    assert set(LEAKS) <= set(world.records("blue"))


@pytest.mark.parametrize("spec", [{"mode": "Observe"}, {"mode": "Off"}, {"keep": [A]}], ids=str)
def test_guard_changed_between_mark_and_write(spec: dict[str, object]) -> None:
    """Mode and keep are heeded at the last step: what the operator says after the mark still stops the release."""
    world = World(blue({A: claim("app"), "10.0.0.11": LIVE}), LIVE)
    sweep_until_due(world)
    world.on(calls("get", "SpiderIPPool"), meanwhile(lambda: change(world, **spec)))
    sweep(world)
    assert A in world.records("blue")


@pytest.mark.parametrize("kind", ["Pod", "StatefulSet", "Node"])
def test_doubt_spends_no_acknowledgement(kind: str) -> None:
    """Braked does not clear because a list failed: an acknowledgement that was given still serves the next sweep."""
    world = World(mostly_leaking(), LIVE, *([stateful_set("db")] if kind == "StatefulSet" else []))
    sweeps(world, 2)
    acknowledge(world, len(LEAKS))
    sweeps(world, 1)
    left = len(world.records("blue"))
    assert 1 < left < len(LEAKS) + 1
    world.on(calls("list", kind), unread)
    sweeps(world, 4)
    assert set(world.records("blue")) == {"10.0.0.11"}


def test_unreadable_records_spend_no_acknowledgement() -> None:
    """Nor because the pool could not be parsed for once."""
    world = World(mostly_leaking(), LIVE)
    sweeps(world, 2)
    acknowledge(world, len(LEAKS))
    whole = world.thing("SpiderIPPool", "blue")
    world.put({**whole, "status": {**whole["status"], "allocatedIPs": "{"}})
    sweeps(world, 1)
    world.put(whole)
    sweeps(world, 4)
    assert set(world.records("blue")) == {"10.0.0.11"}
