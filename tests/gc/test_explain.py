"""The story of one address: who has it, what was decided, and what happens next, in each phase."""

from __future__ import annotations

import json
from typing import Any

import pytest

from factories import blue, claim, digest, endpoint, green, pod, pool, reserved_ip, stateful_set
from faults import World, go_on, sweep
from poolwarden.gc.by_hand import restore_by_hand
from poolwarden.gc.examine import examine
from poolwarden.gc.explain import explain
from poolwarden.gc.policy import Ceiling, Policy

A, B = "10.0.0.10", "10.0.0.11"
LEAK = claim("app")
LIVE = pod("live", ips=[B])


def leaking(*others: Any) -> World:
    """A pool with one leak and one record in use."""
    return World(blue({A: LEAK, B: LIVE}), LIVE, endpoint(LIVE, {"eth0": f"{B}@blue"}), *others)


def story(world: World, address: str = A, *pools: str) -> str:
    """What is explained."""
    return "\n".join(explain(examine(world, Policy()), address, pools)[0])


def upcoming(world: World) -> str:
    """The line on what happens next."""
    (line,) = [line for line in story(world).splitlines() if line.startswith("  next")]
    return line.removeprefix("  next").strip()


def spec(world: World, **changes: object) -> None:
    """The operator edits the guard."""
    guard = world.guard("blue")
    world.put({**guard, "spec": guard["spec"] | changes})


def test_what_is_told() -> None:
    """Range, record, digest, endpoint, verdict and message."""
    world = leaking(endpoint("app", {"eth0": f"{A}@blue"}))
    told = story(world)
    for words in (
        f"{A} in spiderpool.blue",
        "inside 10.0.0.10-10.0.0.30",
        '{"pod":"default/app","podUid":"app-uid"}',
        f"digest    {digest(A, LEAK)}",
        "endpoint  default/app (UID app-uid, eth0, node node-1)",
        "verdict   Leaked · OwnerGone, action release",
        "no pod of that UID exists",
    ):
        assert words in told


def test_phase_by_phase() -> None:
    """Before any sweep, sighted, in cooldown, due, and released: each time what comes next, and when."""
    world = leaking()
    assert upcoming(world) == (
        "release (OwnerGone) by gc in mode release, after 600 s of grace and 60 s of cooldown from its first sighting"
    )
    sweep(world)
    assert (
        upcoming(world)
        == "cooldown of 60 s from 2026-01-10T12:10:00Z on, then release (OwnerGone) by gc in mode release"
    )
    assert "ledger    Sighted, first seen 2026-01-10T12:00:00Z" in story(world)
    world.later(minutes=10)
    sweep(world)
    assert upcoming(world) == "release (OwnerGone) by gc in mode release from 2026-01-10T12:11:00Z on"
    world.later(minutes=1)
    assert upcoming(world) == "release (OwnerGone) by gc in mode release from 2026-01-10T12:11:00Z on (due now)"
    sweep(world)
    told = story(world)
    assert "record    none" in told
    assert f"history   released 2026-01-10T12:11:00Z (OwnerGone): {json.dumps(LEAK, separators=(',', ':'))}" in told
    assert upcoming(world) == "free: nothing to do"
    restore_by_hand(world, Policy(), A, "blue", go_on)
    assert ", put back 2026-01-10T12:11:00Z" in story(world)
    assert upcoming(world) == "nothing: gc leaves it alone"


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("Release", "by gc in mode opt-in or release"),
        ("Observe", "nothing: gc leaves it alone"),
    ],
)
def test_modes(mode: str, words: str) -> None:
    """Which `--mode` would act under the pool's guard."""
    world = leaking()
    sweep(world, Ceiling.OBSERVE)
    spec(world, mode=mode)
    assert words in upcoming(world)


def test_address_in_use() -> None:
    """Who shows it is told, and that nothing happens; there is nothing to report."""
    lines, reported = explain(examine(leaking(), Policy()), B, ())
    told = "\n".join(lines)
    assert "shown by  default/live (UID live-uid)" in told
    assert "verdict   InUse · OwnerLive, action none" in told
    assert not reported
    assert explain(examine(leaking(), Policy()), A, ())[1]


def test_retained_address_is_nothing_to_report() -> None:
    """Kept for its StatefulSet."""
    world = World(blue({A: claim("db-0"), B: LIVE}), LIVE, stateful_set("db"))
    lines, reported = explain(examine(world, Policy()), A, ())
    assert "Retained" in "\n".join(lines)
    assert not reported


def test_places() -> None:
    """Free, reserved, outside, in several pools, or in none."""
    world = leaking(
        reserved_ip("10.0.0.20"), green({A: LEAK}), pool("other", "10.0.0.25-10.0.0.40"), pod("app", uid="newer")
    )
    assert "record    none" in story(world, "10.0.0.15")
    assert "but excluded or reserved" in story(world, "10.0.0.20")
    assert "outside 10.0.1.10-10.0.1.30" in story(world, A, "green")
    assert story(world, "10.0.0.26").count(" in spiderpool.") == 2
    assert story(world, "192.0.2.1") == "192.0.2.1 is in no pool that was read"
    assert story(world, A, "other") == f"{A} is in no pool that was read (looked in other)"
