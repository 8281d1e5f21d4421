"""After the write: gone is gone, doubt is read again and stays marked, and whoever came back gets the record back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from factories import Object, blue, claim, endpoint, green, nad, node, pod, stateful_set
from faults import (
    Call,
    Crash,
    When,
    World,
    calls,
    crash_after,
    lost,
    meanwhile,
    outdated,
    refused,
    sweep,
    sweep_until_due,
    then,
    unanswered,
    unread,
)
from poolwarden.gc.release import Outcome
from poolwarden.gc.sweep import SweepReport

A, B, C = "10.0.0.10", "10.0.0.11", "10.0.0.12"
LEAK = claim("app")
LIVE = pod("live", ips=[B])
POOL_WRITE = calls("patch", "SpiderIPPool")


def due(leak: Object = LEAK, *others: Object) -> World:
    """A pool with one leak that is due."""
    world = World(blue({A: leak, B: LIVE}), LIVE, endpoint(LIVE, {"eth0": f"{B}@blue"}), *others)
    sweep_until_due(world)
    return world


def scaled_down() -> World:
    """db-0 of a set without replicas, which is scaled up straight after the write."""
    world = due(claim("db-0"), stateful_set("db", replicas=0))
    world.on(POOL_WRITE, then(lambda: world.put(stateful_set("db", replicas=1))))
    return world


def after_the_write(world: World, verb: str, kind: str) -> When:
    """Calls of this verb and kind once the pool has been written."""
    return lambda call: calls(verb, kind)(call) and bool(list(filter(POOL_WRITE, world.made)))


def outcomes(report: SweepReport) -> list[Outcome]:
    """What became of the marked records."""
    return [result.outcome for _, result in report.released]


READS = [
    ("list", "Pod"),
    ("get", "Pod"),
    ("get", "SpiderEndpoint"),
    ("list", "SpiderReservedIP"),
    ("list", "Node"),
    ("get", "Node"),
]


@pytest.mark.parametrize(("verb", "kind"), READS)
def test_read_that_fails_once(verb: str, kind: str) -> None:
    """Verification tries again: a leak is released by one write, and never put back for want of a read."""
    world = due(LEAK, endpoint("app", {"eth0": f"{A}@blue"}))
    world.on(after_the_write(world, verb, kind), unread)
    report = sweep(world)
    assert outcomes(report) == [Outcome.RELEASED]
    assert len(list(filter(POOL_WRITE, world.made))) == 1
    assert world.released("blue") == [A]


@pytest.mark.parametrize(("verb", "kind"), READS)
def test_read_that_fails_throughout(verb: str, kind: str) -> None:
    """While it cannot be read the mark stays, nothing is told as released, and the next sweep ends it."""
    world = due(LEAK, endpoint("app", {"eth0": f"{A}@blue"}))
    world.on(after_the_write(world, verb, kind), unread, times=99)
    report = sweep(world)
    assert outcomes(report) == [Outcome.UNVERIFIED]
    assert (world.ledger("blue"), world.released("blue")) == ({A: "Releasing"}, [])
    assert not report.complete
    calm = world.copy()
    calm.later(minutes=5)
    assert sweep(calm).complete
    assert (calm.ledger("blue"), calm.released("blue")) == ({}, [A])
    assert A not in calm.records("blue")


def test_owner_that_came_back() -> None:
    """RESTORED: put back by gc itself, told, off the ledger, not among what was released, and so not held."""
    world = scaled_down()
    report = sweep(world)
    assert outcomes(report) == [Outcome.RESTORED]
    assert world.records("blue")[A] == claim("db-0")
    assert [notice.reason.value for notice in report.notices] == ["AddressRestored"]
    assert (world.ledger("blue"), world.released("blue")) == ({}, [])
    world.put(stateful_set("db", replicas=0))
    for _ in range(3):
        world.later(minutes=11)
        sweep(world)
    assert A not in world.records("blue")


@pytest.mark.parametrize("effect", [outdated, refused, lost, unanswered])
def test_putting_back_meets_trouble(effect: Any) -> None:
    """A conflict, refusal or lost answer while putting back: the owner has its record in the end, once."""
    world = scaled_down()
    world.on(POOL_WRITE, effect, nth=2)
    for _ in range(3):
        sweep(world)
        world.later(minutes=5)
    assert world.records("blue") == {A: claim("db-0"), B: claim(LIVE)}
    assert world.ledger("blue") == {}


def test_putting_back_an_address_that_was_given_away() -> None:
    """An address that the IPAM has handed out meanwhile stays its new owner's; the old mark ends."""
    world = due(claim("db-0"), stateful_set("db", replicas=0))
    new = pod("new", ips=[A])

    def both() -> None:
        world.put(stateful_set("db", replicas=1), new, endpoint(new, {"eth0": f"{A}@blue"}))
        world.record("blue", {A: new})

    world.on(POOL_WRITE, then(both))
    for _ in range(3):
        world.forget_calls()
        sweep(world)
        world.later(minutes=5)
        assert world.records("blue")[A] == claim(new)
    assert world.ledger("blue") == {}


@pytest.mark.parametrize(
    "things",
    [(pod("other", ips=[A]),), (pod("other", nics={"net1": A}),), (pod("other", ips=[A]), nad("eth0"))],
    ids=["podIPs", "nic", "podIPs-of-a-known-network"],
)
def test_address_that_somebody_shows_by_then(things: tuple[Object, ...]) -> None:
    """An address that a pod shows when we look again is in use: its record is put back, whoever it names."""
    world = due()
    world.on(POOL_WRITE, then(lambda: world.put(*things)))
    report = sweep(world)
    assert A in world.records("blue")
    assert outcomes(report) == [Outcome.RESTORED]


def test_endpoint_that_lists_it_by_then() -> None:
    """An endpoint of that name that has the address when we look again would hand it out unrecorded: it is put back."""
    world = due()
    new = pod("app", uid="newer", phase="Pending")
    world.on(POOL_WRITE, then(lambda: world.put(new, endpoint(new, {"eth0": f"{A}@blue"}))))
    sweep(world)
    assert A in world.records("blue")


def test_node_that_falls_silent_by_then() -> None:
    """A node that is not Ready when we look again may run the owner still: its record is put back."""
    world = due(LEAK, endpoint("app", {"eth0": f"{A}@blue"}))
    world.on(POOL_WRITE, then(lambda: world.put(node(ready=False))))
    sweep(world)
    assert A in world.records("blue")


N = "10.0.1.10"


def surplus() -> World:
    """The pod app uses 10.0.0.12 of `blue` and holds 10.0.0.10 besides."""
    app = pod("app", ips=[C])
    world = World(
        blue({A: app, C: app, B: LIVE}),
        LIVE,
        endpoint(LIVE, {"eth0": f"{B}@blue"}),
        app,
        nad("eth0"),
        endpoint(app, {"eth0": f"{C}@blue"}),
    )
    sweep_until_due(world)
    return world


def never_attached() -> World:
    """The pod app uses 10.0.0.12; 10.0.1.10 of `green` lies in its endpoint, under no interface."""
    app, more = pod("app", ips=[C]), pod("more")
    world = World(
        blue({C: app, B: LIVE}),
        green({N: app, "10.0.1.12": LIVE, "10.0.1.13": more}),
        LIVE,
        more,
        endpoint(LIVE, {"eth0": f"{B}@blue"}),
        app,
        nad("eth0"),
        endpoint(app, [("eth0", f"{C}@blue"), ("", f"{N}@green")]),
    )
    sweep_until_due(world)
    return world


@pytest.mark.parametrize(("build", "name", "address"), [(surplus, "blue", A), (never_attached, "green", N)])
@pytest.mark.parametrize("how", ["shown", "listed", "not at all"])
def test_living_owner_that_takes_it_by_then(build: Callable[[], World], name: str, address: str, how: str) -> None:
    """A live owner's NIC or endpoint that has the address when we look again needs its record; else it stays out."""
    world = build()
    held = world.records(name)[address]

    def take() -> None:
        if how == "shown":
            world.put(pod("app", ips=[C], nics={"net1": address}))
        if how == "listed":
            world.put(endpoint(pod("app"), {"eth0": f"{C}@blue", "net1": f"{address}@{name}"}))

    world.on(POOL_WRITE, then(take))
    report = sweep(world)
    assert outcomes(report) == [Outcome.RELEASED if how == "not at all" else Outcome.RESTORED]
    assert world.records(name).get(address) == (None if how == "not at all" else held)


# --- a mark that outlived its sweep, and whose record is gone ----------------------------------------------------------


def died(leak: Object, *others: Object) -> World:
    """We died straight after the write."""
    world = due(leak, *others)
    world.on(POOL_WRITE, crash_after)
    with pytest.raises(Crash):
        sweep(world)
    return world


@pytest.mark.parametrize(("minutes", "back"), [(5, True), (15, True), (16, False)])
def test_owner_entitled_again_after_our_death(minutes: int, back: bool) -> None:  # noqa: FBT001 - a table
    """A mark of up to 15 minutes is our own doing, and made good; an older record may have gone by its IPAM's own DEL."""
    world = died(claim("db-0"), stateful_set("db", replicas=0))
    world.put(stateful_set("db", replicas=1))
    world.later(minutes=minutes)
    sweep(world)
    assert (A in world.records("blue")) is back
    assert world.ledger("blue") == {}


def test_owner_that_lives_long_after_our_death() -> None:
    """An owner that is live by UID gets its record back, however old the mark is."""
    world = died(LEAK)
    world.put(pod("app"))
    world.later(minutes=50)
    sweep(world)
    assert world.records("blue").get(A) == LEAK


def test_guard_that_says_stop_after_our_death() -> None:
    """A pool that is Observe by then is not written; its mark waits."""
    world = died(claim("db-0"), stateful_set("db", replicas=0))
    world.put(stateful_set("db", replicas=1))
    guard = world.guard("blue")
    world.put({**guard, "spec": guard["spec"] | {"mode": "Observe"}})
    world.forget_calls()
    sweep(world)
    assert not world.tried(POOL_WRITE)
    assert world.ledger("blue") == {A: "Releasing"}


def test_ledger_that_is_full_keeps_the_mark() -> None:
    """A mark whose record is gone is among those that are never dropped."""
    world = died(LEAK)
    guard = world.guard("blue")
    (mark,) = guard["status"]["ledger"]
    older = {**mark, "phase": "Sighted", "firstSeen": "2026-01-01T00:00:00Z", "record": ""}
    ledger = [*({**older, "recordDigest": f"d{number}"} for number in range(500)), mark]
    world.put({**guard, "status": {**guard["status"], "ledger": ledger}})
    sweep(world)
    assert world.released("blue") == [A]


# --- writes in doubt --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("effect", "outcome"), [(unanswered, Outcome.RELEASED), (lost, Outcome.UNVERIFIED)])
def test_write_whose_answer_never_came(effect: Any, outcome: Outcome) -> None:
    """The pool tells whether it was made: released if so; else it may yet land, so the mark stays for the next sweep."""
    world = due()
    world.on(POOL_WRITE, effect)
    report = sweep(world)
    assert outcomes(report) == [outcome]
    assert (A in world.records("blue")) is (outcome is Outcome.UNVERIFIED)
    assert len(world.tried(POOL_WRITE)) == 1
    world.later(minutes=1)
    sweep(world)
    assert world.released("blue") == [A]


def test_pool_that_cannot_be_read_after_a_write_in_doubt() -> None:
    """Unverified: the mark stays, and the sweep that can read ends it, as released or as due again."""
    for effect in (unanswered, lost):
        world = due()
        world.on(POOL_WRITE, effect)
        reads: Callable[[Call], bool] = lambda call, world=world: (  # type: ignore[misc]  # noqa: E731
            calls("get", "SpiderIPPool")(call) and bool(world.tried(POOL_WRITE))
        )
        world.on(reads, unread, times=99)
        report = sweep(world)
        assert outcomes(report) == [Outcome.UNVERIFIED]
        assert world.ledger("blue") == {A: "Releasing"}
        calm = world.copy()
        for _ in range(2):
            calm.later(minutes=5)
            sweep(calm)
        assert calm.released("blue") == [A]
        assert A not in calm.records("blue")


def test_pool_that_is_deleted() -> None:
    """A pool that goes takes its records along: nothing is told as released."""
    world = due()
    world.on(POOL_WRITE, meanwhile(lambda: world.remove("SpiderIPPool", "blue")))
    report = sweep(world)
    assert outcomes(report) == [Outcome.GONE]
    assert world.released("blue") == []
