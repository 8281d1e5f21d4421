"""What a sweep and an audit print for people."""

from __future__ import annotations

from factories import blue, claim, endpoint, green, pod, pool
from faults import World, calls, refused, sweep, sweep_until_due
from poolwarden.gc.examine import examine, kept_ledgers, pool_reports
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.report import audit_report, audit_table, columns, sweep_lines
from poolwarden.gc.sweep import SweepReport

A, B = "10.0.0.10", "10.0.0.11"
LEAK = claim("app")
LIVE = pod("live", ips=[B])


def leaking() -> World:
    """A pool with one leak and one record in use."""
    return World(blue({A: LEAK, B: LIVE}), LIVE, endpoint(LIVE, {"eth0": f"{B}@blue"}))


def table(world: World) -> str:
    """The audit of a world, as a table."""
    judged = examine(world, Policy())
    return audit_table(audit_report(judged, pool_reports(judged, kept_ledgers(judged)), complete=not judged.problems))


def text(report: SweepReport, *, may_release: bool = True) -> list[str]:
    """A sweep's lines."""
    return sweep_lines(report, may_release=may_release)


def test_sweep_by_sweep() -> None:
    """Each sweep says what it found, what waits until when, and what it freed."""
    world = leaking()
    counts, waits = text(sweep(world))
    assert counts.startswith("1 pool, 2 records: 1 finding, 1 leaked")
    assert waits == "  blue 10.0.0.10  waits for release, grace until 2026-01-10T12:10:00Z"
    world.later(minutes=11)
    assert text(sweep(world))[1:] == ["  blue 10.0.0.10  waits for release, cooldown until 2026-01-10T12:12:00Z"]
    world.later(minutes=1)
    (line,) = text(sweep(world))[1:]
    assert line.startswith("  blue 10.0.0.10  Released: 10.0.0.10 is recorded for default/app (UID app-uid)")


def test_observe_says_so() -> None:
    """In observe mode the last line says that nothing was touched."""
    report = sweep(leaking(), Ceiling.OBSERVE)
    assert text(report, may_release=False)[-1] == "Mode observe: no IPAM object was touched."


def test_failures_and_repairs_are_told() -> None:
    """So is what failed, and what was mended."""
    world = leaking()
    world.put(endpoint("gone", {"eth0": "10.0.0.20@blue"}))
    sweep_until_due(world)
    world.on(calls("patch", "SpiderIPPool"), refused)
    lines = text(sweep(world))
    assert any("blue 10.0.0.10  Failed: refused by an admission webhook" in line for line in lines)
    assert any("blue EndpointOrphan  Repaired: " in line for line in lines)


def test_table() -> None:
    """Pools in aligned columns, findings with their messages, and a summary."""
    lines = table(leaking()).splitlines()
    assert lines[:2] == [
        "IPAM         POOL   SIZE   ALLOCATED   UNKNOWN   COOLDOWN   FREE   FINDINGS",
        "spiderpool   blue   21     2           0         0          19     1",
    ]
    assert lines[3] == "blue 10.0.0.10  Leaked · OwnerGone  -> release"
    assert lines[-1] == "1 Leaked; 1 address would be released."


def test_unreadable_pool() -> None:
    """Unknown states are question marks, and the table says that it is not the whole story."""
    told = table(World(blue("{"), green({"10.0.1.11": LIVE}), LIVE))
    assert "spiderpool   blue    21     ?           ?         ?          ?" in told
    assert "Not everything could be read" in told


def test_healthy() -> None:
    """Nothing amiss is said in three words."""
    live = pod("live", ips=[B])
    assert table(World(blue({B: live}), live, endpoint(live, {"eth0": f"{B}@blue"}))).endswith("Nothing to report.")


def test_ipv6_sizes() -> None:
    """A /64 is told to the last address."""
    told = table(World(pool("six", "fd00::-fd00::ffff:ffff:ffff:ffff"), LIVE))
    assert "18446744073709551616" in told


def test_columns() -> None:
    """No trailing blanks."""
    assert columns([("a", "b"), ("long", "x")]) == "a      b\nlong   x"
