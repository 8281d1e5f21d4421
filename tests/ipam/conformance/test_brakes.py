"""Rule 9: mode, caps, keep lists, the breaker, and a cluster in which no pod was read."""

from __future__ import annotations

import pytest

from faults import World, sweep
from poolwarden.gc.policy import Ceiling, Mode, Policy

from .house import BYSTANDER, House
from .stage import Stage, leak, sweeps, touches_ipam


def mostly_leaking(house: House) -> World:
    """Four leaks beside one record in use."""
    first, *others = house.addresses[:5]
    return house.world({first: house.live("live", first), **{address: f"app-x{address[-1]}" for address in others}})


@pytest.mark.parametrize("ceiling", [Ceiling.OBSERVE, Ceiling.OPT_IN])
def test_ceiling(house: House, ceiling: Ceiling) -> None:
    """Observe writes to no IPAM; opt-in to no pool whose guard does not say Release."""
    world = house.world(leak(house))
    sweeps(world, 4, ceiling=ceiling)
    assert not world.tried(touches_ipam)


def test_opt_in(house: House) -> None:
    """And to one whose guard does."""
    world = house.world(leak(house))
    sweeps(world, 1, ceiling=Ceiling.OPT_IN)
    world.set_guard(house.ref, mode="Release")
    sweeps(world, 3, ceiling=Ceiling.OPT_IN)
    assert house.addresses[0] not in house.entries(world)


@pytest.mark.parametrize("mode", [Mode.OFF, Mode.OBSERVE])
def test_mode_of_the_pool(stage: Stage, mode: Mode) -> None:
    """Whatever is due: a guard that says Off or Observe ends it."""
    house, world = stage.house, stage.due()
    world.set_guard(house.ref, mode=mode.value)
    sweeps(world, 3)
    assert not world.tried(touches_ipam)
    assert house.addresses[0] in house.entries(world)


def test_kept_addresses_and_namespaces(stage: Stage) -> None:
    """`keep` and `ignoreNamespaces` end the matter for theirs, and for no other address."""
    house, world = stage.house, stage.due()
    first, *_ = house.addresses
    for spec in ({"keep": [first]}, {"ignoreNamespaces": ["default"]}):
        held = world.copy()
        held.set_guard(house.ref, **spec)
        sweeps(held, 3)
        assert first in house.entries(held), str(spec)
        assert not held.tried(touches_ipam), str(spec)
    world.set_guard(house.ref, keep=[house.addresses[-1]], ignoreNamespaces=["other"])
    sweeps(world, 4)
    assert first not in house.entries(world)


@pytest.mark.parametrize(
    ("percent", "most", "expected"), [(20, 50, 1), (50, 50, 3), (100, 2, 2), (100, 50, 3), (0, 50, 1)]
)
def test_caps(house: House, percent: int, most: int, expected: int) -> None:
    """Per pool max(1, floor(share x size)) of eight addresses, and so many in all: in whatever step a sweep is."""
    addresses = house.addresses
    live = {addresses[n]: house.live(f"live{n}", addresses[n]) for n in range(4)}
    world = house.world({**live, **{addresses[n]: f"app{n}" for n in range(4, 7)}})
    left = []
    for _ in range(4 if house.hides else 3):
        sweep(world, default=Policy(max_release_percent=percent), max_releases=most)
        world.later(minutes=11)
        left.append(len(house.entries(world)))
    assert left[:3] == [7, 7, 7 - expected]


def test_breaker(house: House) -> None:
    """More than half of the records: nothing is released until the operator acknowledges that number."""
    world = mostly_leaking(house)
    sweeps(world, 4)
    assert not world.tried(touches_ipam)
    (braked,) = (item for item in world.status(house.ref)["conditions"] if item["type"] == "Braked")
    assert braked["status"] == "True"
    world.set_guard(house.ref, acknowledgedLeaks=3)
    sweeps(world, 2)
    assert not world.tried(touches_ipam)
    world.set_guard(house.ref, acknowledgedLeaks=4)
    sweeps(world, 9)
    assert set(house.entries(world)) == {house.addresses[0]}


def test_no_pod_at_all(stage: Stage) -> None:
    """Zero pods in the whole cluster are a misreading: nothing is done, and the sweep says so."""
    world = stage.due()
    world.remove("Pod", "bystander", "live")
    assert not [item for item in world.objects() if item["kind"] == "Pod"]
    report = sweep(world)
    assert not world.tried(lambda call: call.writes)
    assert not report.complete
    world.put(BYSTANDER)
    assert sweep(world).complete
