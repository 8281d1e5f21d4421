"""Rule 4: nominated from lists, condemned by live reads; whatever changes before the last look is heeded."""

from __future__ import annotations

import pytest

from factories import node, pod
from faults import When, World, calls, sweep
from poolwarden.ipam import terway
from poolwarden.ipam.kinds import PODS

from .house import House, TerwayHouse, runtime
from .stage import FOUR_STAGES, Change, Stage, at_each_call, in_time, sweeps

four_stages = pytest.mark.parametrize("stage", FOUR_STAGES, ids=str)


@four_stages
def test_owner_that_comes_back(stage: Stage) -> None:
    """An owner that is there at our last look has its record, as it was and without our mark; so it is for ever after."""
    house = stage.house
    first, *_ = house.addresses
    before = house.entry(first, "app")
    look = calls("get", house.owner_calls, "app")
    assert stage.looks(look)
    seen = set()
    for at, world in at_each_call(stage, lambda world: world.put(house.live("app", first))):
        where = f"back at call {at} ({world.calls[at]})"
        kept = first in house.entries(world)
        seen.add(kept)
        if in_time(world, at, look, before=house.write):
            assert kept, where
            assert not any(house.write(call) for call in world.made), where
        if kept:
            sweeps(world, 3)
            assert house.entries(world)[first] == before, where
            assert world.ledger(house.ref) == {}, where
    assert seen == ({True, False} if stage.removes else {True})


@four_stages
def test_owner_that_is_made_anew(stage: Stage) -> None:
    """Its agent gives it an address, the old one where the IPAM does so: that address is its own in every later sweep."""
    house = stage.house
    given: list[str] = []
    for at, world in at_each_call(stage, lambda world: given.append(house.add_again(world, "app"))):
        where = f"made anew at call {at} ({world.calls[at]})"
        address = given[-1]
        owner = house.live("app", address, uid="newer")
        for _ in range(4):
            assert house.shown(world).get(address) == house.entry(address, owner), where
            _companion(house, world, address, where)
            sweep(world)
            world.later(minutes=11)
        assert house.entries(world)[address] == house.entry(address, owner), where


def _companion(house: House, world: World, address: str, where: str) -> None:
    """What the IPAM keeps beside each record is there, for the owner that the record names."""
    for name, spec in house.companions(world):
        if name == address.replace(":", "-"):
            assert spec["podref"] == "default/app", where
            return
    assert not house.companions(world), f"{where}: {address} has no reservation"


@four_stages
def test_address_that_is_handed_over(stage: Stage) -> None:
    """A record that changed hands is another record: the new owner keeps it whenever that happens, without a trace."""
    house = stage.house
    first, *_ = house.addresses
    new = house.live("new", first)
    for at, world in at_each_call(stage, lambda world: house.hand_over(world, first, new)):
        where = f"handed over at call {at} ({world.calls[at]})"
        for _ in range(4):
            assert house.entries(world).get(first) == house.entry(first, new), where
            report = sweep(world)
            world.later(minutes=11)
        assert report.problems == (), where
        assert world.ledger(house.ref) == {}, where


@four_stages
def test_address_that_somebody_shows(stage: Stage) -> None:
    """Whoever shows the address before our last look: it is in its pool in the end."""
    house = stage.house
    first, *_ = house.addresses
    assert stage.looks(calls("list", "Pod"))
    seen = set()
    for at, world in at_each_call(stage, lambda world: world.put(pod("other", ips=[first]))):
        kept = first in house.entries(world)
        seen.add(kept)
        if in_time(world, at, calls("list", "Pod"), before=house.write):
            assert kept, f"shown at call {at} ({world.calls[at]})"
    assert seen == ({True, False} if stage.removes else {True})


def silent(world: World) -> None:
    """The node stops to answer."""
    world.put(node(ready=False))


def not_removed(world: World) -> None:
    """Terway's daemon sees the pod again."""
    world.put(runtime({"app": "initial"}))


def untold(world: World) -> None:
    """Terway's daemon has told nothing at all."""
    world.remove_of(terway.RUNTIMES, "node-1")


def runs_on(world: World) -> None:
    """A pod that runs the Neon machine, of which there is no object."""
    runner = pod("app-runner")
    runner["metadata"]["labels"] = {"vm.neon.tech/name": "app"}
    world.put(runner)


EVIDENCE: list[tuple[Stage, Change, When]] = [
    *((stage, silent, calls("list", "Node")) for stage in FOUR_STAGES),
    *(
        (stage, change, calls("list", "NodeRuntime.network.alibabacloud.com"))
        for stage in FOUR_STAGES
        if isinstance(stage.house, TerwayHouse)
        for change in (not_removed, untold)
    ),
    *((stage, runs_on, calls("list", "Pod")) for stage in FOUR_STAGES if stage.house.owners != PODS),
]


@pytest.mark.parametrize(
    ("stage", "change", "when"), EVIDENCE, ids=lambda value: getattr(value, "__name__", str(value))
)
def test_what_made_it_releasable(stage: Stage, change: Change, when: When) -> None:
    """Node, proof of removal, a pod that runs the machine: read once more, and nothing is written where it is missing."""
    house = stage.house
    first, *_ = house.addresses
    assert stage.looks(when)
    seen = set()
    for at, world in at_each_call(stage, change):
        entry = house.entries(world).get(first)
        done = entry is None if stage.removes else entry != house.entry(first, "app")
        seen.add(done)
        if in_time(world, at, when, before=house.write):
            assert not done, f"at call {at} ({world.calls[at]})"
    assert seen == {True, False}


STOPS: dict[str, dict[str, object]] = {
    "off": {"mode": "Off"},
    "observe": {"mode": "Observe"},
    "ignored": {"ignoreNamespaces": ["default"]},
    "cap": {"maxReleasesPerSweep": 0},
    "keep": {"keep": ["10.0.0.0/8", "172.16.0.0/12"]},
}


@pytest.mark.parametrize("spec", STOPS)
@four_stages
def test_operator_who_says_stop(stage: Stage, spec: str) -> None:
    """Brakes at the last step: what the guard says at its last reading holds."""
    house = stage.house
    assert stage.looks(calls("get", "PoolGuard"))
    seen = set()
    for at, world in at_each_call(stage, lambda world: world.set_guard(house.ref, **STOPS[spec])):
        written = bool(world.tried(house.write))
        seen.add(written)
        if in_time(world, at, calls("get", "PoolGuard"), before=house.write):
            assert not written, f"said at call {at} ({world.calls[at]})"
    assert seen == {True, False}
