"""Keeping a stock of free addresses against what may stand in its way: two guards, races, crashes, doubt, hostile values."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from factories import Object, claim, endpoint, nad, pod, pool, reserved_ip, undecodable, virtual_machine_instance
from faults import (
    Call,
    Crash,
    Effect,
    World,
    calls,
    crash_after,
    crash_before,
    cut,
    forbidden,
    meanwhile,
    not_leader,
    outdated,
    refused,
    sweep,
    unread,
)
from poolwarden.cluster.api_server import Opener
from poolwarden.cluster.interface import Outdated
from poolwarden.gc.policy import Ceiling
from poolwarden.gc.schedule import Gc, LeaseSettings
from poolwarden.gc.sweep import Settings, SweepReport
from poolwarden.ipam.inventory import Change
from poolwarden.ipam.ranges import AddressRange, AddressSet, address_set, parse_range
from poolwarden.ipam.spiderpool import SpiderRanges

POOL_WRITE = calls("patch", "SpiderIPPool", sub="")
STATUS_WRITE = calls("patch", "PoolGuard", sub="status")
OWN = "10.0.0.10-10.0.0.19"
STOCK = {"freeAddresses": {"low": 2, "target": 4, "high": 6}, "reserve": ["10.0.0.40-10.0.0.49"]}


def guard(name: str = "blue", status: Object | None = None, **spec: Any) -> Object:
    """The guard of a SpiderIPPool, with a stock unless these settings say otherwise."""
    made: Object = {
        "apiVersion": "poolwarden.dev/v1alpha1",
        "kind": "PoolGuard",
        "metadata": {"name": f"spiderpool.{name}", "uid": f"guard-{name}", "resourceVersion": "7", "generation": 2},
        "spec": {"poolRef": {"ipam": "spiderpool", "name": name}, **STOCK, **spec},
    }
    return made | ({"status": {"poolUID": f"{name}-uid", **status}} if status else {})


def filled(name: str, ips: str, used: int) -> list[Object]:
    """A pool of which so many addresses are used, with its pods and endpoints."""
    first = parse_range(ips).first
    addresses = [str(AddressRange(4, first + at, first + at)) for at in range(used)]
    pods = [pod(f"{name}-{at}", ips=[address]) for at, address in enumerate(addresses)]
    nics = [endpoint(one, {"eth0": f"{address}@{name}"}) for address, one in zip(addresses, pods, strict=True)]
    return [pool(name, ips, dict(zip(addresses, pods, strict=True))), *pods, *nics]


def short(*things: Object, used: int = 9, **spec: Any) -> World:
    """Blue, of whose ten addresses one is free: it wants three from the reserve."""
    return World(*filled("blue", OWN, used), *things, guard(**spec))


def long(*things: Object, ips: tuple[str, ...] = (OWN, "10.0.0.40-10.0.0.42"), **status: Any) -> World:
    """Blue, of whose addresses all are free: what it has from the reserve is to go back."""
    extended = {"extended": ["10.0.0.40-10.0.0.42"], **status}
    return World(pool("blue", ips), pod("live"), *things, guard(status=extended))


def ips(world: World, name: str = "blue") -> list[str]:
    """The ranges of a pool."""
    return list(world.thing("SpiderIPPool", name)["spec"]["ips"])


def held(world: World, name: str = "blue") -> AddressSet:
    """The addresses of a pool."""
    return address_set(map(parse_range, ips(world, name)))


def extended(world: World, name: str = "blue") -> AddressSet:
    """What a guard says its pool has from the reserve."""
    return address_set(map(parse_range, world.status(name)["extended"]))


def addresses(*texts: str) -> AddressSet:
    """Ranges as a set."""
    return address_set(map(parse_range, texts))


def with_spec(world: World, name: str = "blue", **spec: Any) -> None:
    """The operator edits a pool."""
    thing = world.thing("SpiderIPPool", name)
    world.put({**thing, "spec": thing["spec"] | spec})


def drained(world: World) -> None:
    """All pods of blue but one end, with all they had."""
    gone = [f"blue-{at}" for at in range(1, 9)]
    world.record("blue", {f"10.0.0.{at + 10}": None for at in range(1, 9)})
    world.remove("SpiderEndpoint", *gone)
    world.remove("Pod", *gone)


# --- addresses of others ----------------------------------------------------------------------------------------------


def test_one_reserve_of_two_guards_is_not_given_twice() -> None:
    """The webhook only warns of a reserve that two guards name: in one sweep the first write must count for the second."""
    world = World(*filled("blue", OWN, 9), *filled("green", "10.0.1.10-10.0.1.19", 9), guard("blue"), guard("green"))
    sweep(world)
    assert (held(world, "blue") & held(world, "green")).ranges == ()


def test_addresses_of_another_ipams_pool_are_not_added() -> None:
    """Whereabouts hands them out: the same address would be given to two pods."""
    other = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": "10.0.0.40-29", "namespace": "kube-system", "uid": "w-uid", "resourceVersion": "7"},
        "spec": {"range": "10.0.0.40/29", "allocations": {}},
    }
    world = short(other)
    sweep(world)
    assert (held(world) & addresses("10.0.0.41-10.0.0.46")).ranges == ()


def test_an_address_that_another_pool_records_outside_its_ranges_is_not_added() -> None:
    """Its operator has narrowed the other pool while the address is held; its owner does not show it yet."""
    starting = pod("starting", phase="Pending")
    world = short(pool("twin", "10.0.3.1-10.0.3.9", {"10.0.0.40": starting}), starting)
    sweep(world)
    assert "10.0.0.40" not in held(world)


@pytest.mark.parametrize("spoil", [undecodable, lambda thing: {**thing, "spec": {**thing["spec"], "ips": "x"}}])
def test_nothing_is_added_while_a_pool_cannot_be_decoded(spoil: Callable[[Object], Object]) -> None:
    """What it hands out is not known: it may be the very reserve."""
    world = short(spoil(pool("twin", "10.0.0.40-10.0.0.44")))
    sweep(world)
    assert ips(world) == [OWN]


def test_nothing_is_added_while_a_pools_ranges_cannot_be_read() -> None:
    """One item of the other pool's ips is no range: what it hands out is not known."""
    world = short(pool("twin", ["10.0.3.1", "10.0.0.40 to 10.0.0.44"]))
    sweep(world)
    assert ips(world) == [OWN]


@pytest.mark.parametrize(
    ("when", "effect"),
    [
        (calls("list", "Pod"), cut(9)),
        (calls("list", "SpiderEndpoint"), unread),
        (calls("list", "SpiderIPPool"), cut(1)),
        (calls("list", "SpiderReservedIP"), unread),
    ],
    ids=["pods", "endpoints", "pools", "reserved"],
)
def test_nothing_is_added_in_doubt(when: Callable[[Call], bool], effect: Effect) -> None:
    """The lists are not complete: who uses the reserve cannot be told."""
    user = pod("zz-user", ips=["10.0.0.40"])
    world = short(user, pool("twin", "10.0.0.41-10.0.0.44"), reserved_ip("10.0.0.45"))
    world.on(when, effect, times=9)
    sweep(world)
    assert ips(world) == [OWN]


def test_reserved_addresses_that_cannot_be_listed_again_are_not_taken_for_free() -> None:
    """The list is whole at first, and fails straight before the write: ten addresses are reserved, none is free to go."""
    world = long(reserved_ip("10.0.0.12-10.0.0.19"))  # free: .10, .11 and what was added, in all five
    world.on(calls("list", "SpiderReservedIP"), unread, nth=2, times=9)
    sweep(world)
    assert ips(world) == [OWN, "10.0.0.40-10.0.0.42"]


# --- addresses that would never work ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reserve",
    [["10.0.0.40-10.0.0.49"], ["9.9.9.1-9.9.9.9", "10.0.0.41-10.0.0.49"], ["10.0.0.41-10.0.0.42", "fd00::1-fd00::9"]],
    ids=["gateway", "subnet", "family"],
)
def test_what_spiderpool_refuses_is_left_out(reserve: list[str]) -> None:
    """The gateway, what lies outside the subnet or is of another family: asked for them, its webhook refuses each try."""
    world = short(reserve=reserve)
    with_spec(world, gateway="10.0.0.40", subnet="10.0.0.0/24")
    sweep(world)
    more = held(world) - addresses(OWN)
    assert "10.0.0.40" not in more
    assert (more & addresses("9.9.9.0-9.9.9.255", "::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")).ranges == ()
    assert more.ranges


# --- giving back ------------------------------------------------------------------------------------------------------


def test_an_address_whose_key_is_no_address_is_not_given_back() -> None:
    """`10.0.0.42/24` is a record of 10.0.0.42 to whoever wrote it; doubt keeps."""
    world = long()
    world.record("blue", {"10.0.0.42/24": claim("app", "app-uid")})
    sweep(world)
    assert "10.0.0.42" in held(world)


def test_an_address_whose_release_is_not_verified_yet_is_not_given_back() -> None:
    """It was taken out, and may still have to be put back: outside the pool's ranges that were no record any more."""
    entry = {
        "address": "10.0.0.42",
        "recordDigest": "0123456789abcdef",
        "owner": {"kind": "Pod", "namespace": "default", "name": "app", "uid": "app-uid"},
        "node": "node-1",
        "reason": "OwnerGone",
        "firstSeen": "2026-01-10T11:00:00Z",
        "lastCounted": "2026-01-10T11:50:00Z",
        "phase": "Releasing",
        "dueAt": "2026-01-10T11:55:00Z",
        "record": json.dumps(claim("app")),
    }
    world = long(ledger=[entry])
    world.on(calls("get", "Pod"), unread, times=99)
    world.on(calls("list", "Pod"), unread, nth=2, times=99)
    sweep(world)
    assert world.ledger("blue") == {"10.0.0.42": "Releasing"}, "the release is not settled"
    assert "10.0.0.42" in held(world)


def test_an_address_that_a_machine_may_show_is_not_given_back() -> None:
    """KubeVirt's machines cannot be listed: one of them may use an address that no pod shows and nobody records."""
    world = long(virtual_machine_instance("vm", ips=["10.0.0.42"]))
    world.on(calls("list", "VirtualMachineInstance"), forbidden, times=9)
    sweep(world)
    assert "10.0.0.42" in held(world)


def test_what_the_operator_added_himself_stays() -> None:
    """He took our addresses out of the pool, and later gives it some of them for good."""
    world = long(ips=("10.0.0.10-10.0.0.13",))
    sweep(world)
    assert (extended(world) - held(world)).ranges == (), "nothing that the pool does not have"
    with_spec(world, ips=["10.0.0.10-10.0.0.13", "10.0.0.40-10.0.0.45"])
    sweep(world)
    assert held(world) == addresses("10.0.0.10-10.0.0.13", "10.0.0.40-10.0.0.45")


def test_a_pool_made_anew_during_the_sweep_is_left_alone() -> None:
    """Its addresses are its operator's, whatever its namesake had from the reserve."""
    world = long()

    def made_anew() -> None:
        thing = world.thing("SpiderIPPool", "blue")
        world.put({**thing, "metadata": {**thing["metadata"], "uid": "another-uid"}})

    world.on(calls("get", "SpiderIPPool"), meanwhile(made_anew))
    sweep(world)
    assert ips(world) == [OWN, "10.0.0.40-10.0.0.42"]


# --- what it has from the reserve is never forgotten ------------------------------------------------------------------


@pytest.mark.parametrize(
    "effect",
    [crash_before, outdated, not_leader, refused],
    ids=["crash", "guard edited meanwhile", "leadership lost", "refused"],
)
def test_what_was_added_is_known_though_it_could_not_be_written_down(effect: Effect) -> None:
    """The pool is written, its guard is not: once the pods are gone, what was added still goes back."""
    world = short()
    world.on(STATUS_WRITE, effect, nth=3)  # the first two, which say what was found and what will be added, come before
    with suppress(Crash):
        sweep(world)
    assert held(world) != addresses(OWN)
    world.later(minutes=1)
    sweep(world)
    drained(world)
    world.later(minutes=1)
    sweep(world)
    assert held(world) == addresses(OWN)


@pytest.mark.parametrize(
    "effect",
    [crash_before, outdated, not_leader, refused],
    ids=["crash", "guard edited meanwhile", "leadership lost", "refused"],
)
def test_nothing_is_added_that_could_not_be_written_down(effect: Effect) -> None:
    """First the guard, then the pool; the next sweep, which can write both, extends it."""
    world = short()
    world.on(STATUS_WRITE, effect, nth=2)
    with suppress(Crash):
        sweep(world)
    assert held(world) == addresses(OWN)
    sweep(world)
    assert extended(world) == held(world) - addresses(OWN) == addresses("10.0.0.40-10.0.0.42")


def test_what_was_planned_but_never_added_is_the_operators_to_add() -> None:
    """We died between the two writes; a sweep later the guard names nothing that the pool does not have."""
    world = short()
    world.on(POOL_WRITE, crash_before)
    with suppress(Crash):
        sweep(world)
    assert extended(world) == addresses("10.0.0.40-10.0.0.42")
    drained(world)
    sweep(world)
    assert extended(world) == addresses()
    with_spec(world, ips=[OWN, "10.0.0.40-10.0.0.42"])
    sweep(world)
    assert held(world) == addresses(OWN, "10.0.0.40-10.0.0.42")


def test_what_was_added_is_known_after_a_crash_at_once() -> None:
    """The process dies with the pool written."""
    world = short()
    world.on(POOL_WRITE, crash_after)
    with suppress(Crash):
        sweep(world)
    drained(world)
    sweep(world)
    assert held(world) == addresses(OWN)


def test_an_operator_who_edits_the_guard_between_two_tries_is_heeded() -> None:
    """The first try met a conflict; before the second he switched gc off."""
    world = short()

    def off(_call: Call, _make: Callable[[], Any]) -> Any:
        world.set_guard("blue", mode="Off")
        return Outdated("somebody else has written it")

    world.on(POOL_WRITE, off)
    sweep(world)
    assert ips(world) == [OWN]


# --- hostile sizes ----------------------------------------------------------------------------------------------------


def test_what_was_added_fits_its_guard() -> None:
    """status.extended holds 1,000 ranges (manifests/crd): with more, the whole status is refused, and what was added lost."""
    busy = {f"10.0.{8 + at // 128}.{2 * (at % 128)}": claim(f"app-{at}") for at in range(1100)}
    owners = [pod(f"app-{at}", ips=[address]) for at, address in enumerate(busy)]
    added = "10.0.8.0-10.0.16.255"
    world = World(
        pool("blue", ["10.0.0.10", added], busy),
        *owners,
        guard(
            status={"extended": [added]},
            reserve=[added],
            freeAddresses={"low": 1, "target": 2, "high": 3},
        ),
    )
    report = sweep(world)
    assert report.complete, report.problems
    assert len(world.status("blue")["extended"]) <= 1000


def test_a_pool_of_many_ranges_is_written_in_time() -> None:
    """20,000 single addresses, of which each second one goes: not 20,000 times 10,000 steps."""
    texts = [f"10.{at // 16384}.{at // 128 % 128}.{2 * (at % 128)}" for at in range(20_000)]
    gone = address_set(map(parse_range, texts[1::2]))
    raw = json.dumps(pool("blue", texts, total=0)).encode()
    began = time.monotonic()
    change = SpiderRanges().with_ranges(raw, AddressSet(), gone)
    took = time.monotonic() - began
    assert isinstance(change, Change)
    assert took < 2


def test_a_status_that_somebody_spoilt_is_no_defect() -> None:
    """status.extended is anybody's text who may write it: said as what it is, and the rest of the pool goes on."""
    world = long(extended=["10.0.0.42-10.0.0.40"])
    report = sweep(world)
    assert not [problem for problem in report.problems if "defect" in problem]


# --- beside cleanup ---------------------------------------------------------------------------------------------------


def test_a_pool_that_cannot_be_resized_does_not_keep_guards_of_others() -> None:
    """A guard whose pool is gone is told of, and goes, however often Spiderpool refuses to extend another pool."""
    world = short(guard("gone", status={"observedAt": "2026-01-10T11:59:00Z"}))
    world.on(POOL_WRITE, refused, times=99)
    sweep(world)
    conditions = {item["type"]: item["reason"] for item in world.status("gone").get("conditions", ())}
    assert conditions.get("Complete") == "PoolAbsent"


def test_a_pool_whose_cleanup_fails_is_resized(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of ours in counting findings is cleanup's business alone."""

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    world = short()
    monkeypatch.setattr("poolwarden.gc.course.advance", broken)
    sweep(world)
    assert ips(world) == [OWN, "10.0.0.40-10.0.0.42"]


def told_of_scarcity(report: SweepReport) -> list[str]:
    """What Events tell of pools that have few addresses left."""
    return [notice.note for notice in report.notices if notice.reason.value == "PoolNearlyExhausted"]


def test_a_reserve_that_is_used_up_is_told_once() -> None:
    """In an Event, since nobody reads conditions until pods fail."""
    world = short(reserve=["10.0.0.10"])
    assert told_of_scarcity(sweep(world)) == ["fewer addresses are free than low (2), and the reserve is used up"]
    assert told_of_scarcity(sweep(world)) == []


def test_ranges_that_stand_elsewhere_are_told_in_an_event() -> None:
    """Where the ranges are in no object that we may write, an Event and a condition say what to change, once it is short."""
    other: Object = {
        "apiVersion": "whereabouts.cni.cncf.io/v1alpha1",
        "kind": "IPPool",
        "metadata": {"name": "10.0.0.40-29", "namespace": "kube-system", "uid": "w-uid", "resourceVersion": "7"},
        "spec": {"range": "10.0.0.40/29", "allocations": {}},
    }
    mine = guard("x")
    mine["metadata"]["name"] = "whereabouts.kube-system.10.0.0.40-29"
    mine["spec"]["poolRef"] = {"ipam": "whereabouts", "namespace": "kube-system", "name": "10.0.0.40-29"}
    world = World(other, pod("live"), mine)
    assert not told_of_scarcity(sweep(world))
    other = world.thing("IPPool", "10.0.0.40-29")
    other["spec"]["allocations"] = {str(at): {"id": f"c{at}", "podref": "default/live"} for at in range(1, 6)}
    world.put(other)
    report = sweep(world)
    assert not told_of_scarcity(sweep(world)), "once"
    status = world.thing("PoolGuard", "whereabouts.kube-system.10.0.0.40-29")["status"]
    (message,) = [item["message"] for item in status["conditions"] if item["type"] == "Rebalanceable"]
    assert message.startswith("fewer addresses are free than low (2); ")
    assert told_of_scarcity(report) == [message]


def test_an_exhausted_pool_that_was_extended_is_not_told_to_be_exhausted() -> None:
    """What a sweep released is taken off its counts, and so is what it added: else the alert fires over a pool with free addresses."""
    world = short(used=10)
    report = sweep(world)
    assert held(world).size == 14
    assert (world.status("blue")["addresses"]["size"], world.status("blue")["addresses"]["free"]) == ("14", "4")
    conditions = {item["type"]: item["status"] for item in world.status("blue")["conditions"]}
    assert conditions["Exhausted"] == "False"
    assert "PoolExhausted" not in {notice.reason.value for notice in report.notices}


# --- what is told -----------------------------------------------------------------------------------------------------


def nobody(**_: Any) -> Any:
    """An opener that nothing asks."""
    raise AssertionError


def test_what_cannot_be_remembered_is_not_told_each_sweep() -> None:
    """No guard can be written (a right is missing): a leak and a conflict are news once, not every five minutes."""
    opener: Opener = nobody
    gc = Gc(opener, Settings(Ceiling.OBSERVE), LeaseSettings("poolwarden", "poolwarden-gc", 15))
    one, two = pod("one", ips=["10.0.0.10"]), pod("two", ips=["10.0.0.10"])
    world = World(pool("blue", OWN, {"10.0.0.10": one, "10.0.0.11": claim("gone")}), one, two, nad("eth0"))
    world.on(calls("create", "PoolGuard"), refused, times=99)

    def told() -> list[tuple[str, str]]:
        report: SweepReport = sweep(world, Ceiling.OBSERVE)
        world.later(minutes=5)
        return sorted({(notice.reason.value, notice.note) for notice in gc._news(report.notices)})  # noqa: SLF001 - a whole daemon needs a lease

    assert [reason for reason, _ in told()] == ["AddressConflict", "LeakDetected"]
    assert told() == []
