"""What others may do at the worst moment: whoever has an address keeps it, and what stands beside its record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import pytest

from factories import NOW, Object, pod, stamp
from faults import Call, World, calls, sweep, then, unread
from poolwarden.gc.policy import Policy

from .house import BYSTANDER, House, NeonHouse, SpiderpoolHouse, TerwayHouse, WhereaboutsHouse, made, runtime
from .stage import Stage, sweeps

WHEREABOUTS, NEON, TERWAY = WhereaboutsHouse(4), NeonHouse(4), TerwayHouse(4)
ALL = Policy(max_release_percent=100)


# --- Terway: one address on two interfaces of a node ----------------------------------------------------------------


def two_interfaces(first: Object, second: Object, *others: Object) -> World:
    """A node whose first address stands with these entries on both of its interfaces; two more are in use."""
    _, b, c, *_ = TERWAY.addresses
    used = {address: TERWAY.live(name, address) for address, name in ((b, "used"), (c, "used-too"))}
    slots = {TERWAY.addresses[0]: first} | {address: TERWAY.entry(address, owner) for address, owner in used.items()}
    interfaces = {
        "eni-1": {"id": "eni-1", "status": "InUse", "ipv4": slots},
        "eni-2": {"id": "eni-2", "status": "InUse", "ipv4": {TERWAY.addresses[0]: second}},
    }
    item = made(TERWAY.kind, "node-1", spec={}, status={"networkInterfaces": interfaces})
    return World(item, runtime({"gone": "deleted"}), *used.values(), BYSTANDER, *others)


def on(world: World, interface: str) -> Object:
    """The entry of the first address on an interface."""
    entry: Object = TERWAY.stored(world)["status"]["networkInterfaces"][interface]["ipv4"][TERWAY.addresses[0]]
    return entry


def test_address_that_another_interface_records_for_a_live_pod() -> None:
    """It is not freed on the one interface while the other one records it for a pod that shows nothing yet."""
    a, *_ = TERWAY.addresses
    starting = pod("starting", phase="Pending", networks="", status="")
    world = two_interfaces(TERWAY.entry(a, "gone"), TERWAY.entry(a, starting), starting)
    sweeps(world, 4)
    assert on(world, "eni-1") == TERWAY.entry(a, "gone")


def test_one_record_on_two_interfaces() -> None:
    """Two records that are equal to the letter are told apart, so that every sweep is complete."""
    entry = TERWAY.entry(TERWAY.addresses[0], "gone")
    reports = sweeps(two_interfaces(entry, entry), 5)
    assert [report.problems for report in reports] == [()] * 5


# --- whereabouts: steps of an ADD between our calls -----------------------------------------------------------------


def test_add_that_has_seen_the_reservation_before_it_was_deleted() -> None:
    """It makes none, since it found its own: it has one in the end, lest another pool hand out the address as well."""
    a, *_ = WHEREABOUTS.addresses
    world = Stage(WHEREABOUTS).due()
    owner = WHEREABOUTS.live("app", a, uid="newer")

    def finish() -> None:
        stored = WHEREABOUTS.stored(world)
        entries = {**stored["spec"]["allocations"], "1": WHEREABOUTS.entry(a, owner)}
        world.put({**stored, "spec": {**stored["spec"], "allocations": entries}}, owner)

    def delete(_call: Call, make: Callable[[], Any]) -> Any:
        outcome = make()
        world.on(calls("list", "IPPool"), then(finish))  # the next look at the pools is the last one
        return outcome

    world.on(calls("delete", "OverlappingRangeIPReservation"), delete)
    sweeps(world, 4)
    assert WHEREABOUTS.entries(world)[a] == WHEREABOUTS.entry(a, owner)
    assert a in dict(WHEREABOUTS.companions(world))


@pytest.mark.parametrize(
    ("nics", "sandbox", "kept"),
    [({}, "sandbox", True), ({"net2": "10.6.0.3"}, "sandbox", True), ({"net2": "10.6.0.3"}, "earlier", False)],
    ids=["its-only-nic", "one-of-two", "other-sandbox"],
)
def test_nic_that_may_be_plugged_in_again(nics: Mapping[str, str], sandbox: str, *, kept: bool) -> None:
    """An ADD for the same sandbox takes its record over without a write: such a record of a live pod is not freed."""
    a, b, c, *_ = WHEREABOUTS.addresses
    unplugged = {"id": sandbox, "podref": "default/app", "ifname": "net1"}
    plugged = {c: {"id": "sandbox", "podref": "default/app", "ifname": "net2"}} if nics else {}
    app = pod("app", ips=["172.31.0.9"], nics=nics)
    world = WHEREABOUTS.world({b: WHEREABOUTS.live("live", b)}, app, more={a: unplugged, **plugged})
    sweeps(world, 4)
    assert (a in WHEREABOUTS.entries(world)) is kept


# --- Neon -----------------------------------------------------------------------------------------------------------


def runner(name: str, machine_uid: str, *, leaves: bool = False) -> Object:
    """A runner pod of the machine `app` with that UID, which may have a day left to end."""
    deadline = stamp(NOW + timedelta(days=1)) if leaves else None
    made_pod = pod(name, ips=["172.31.0.4"], status="", networks="", deadline=deadline, grace=86400)
    owner = {"apiVersion": "vm.neon.tech/v1", "kind": "VirtualMachine", "name": "app", "uid": machine_uid}
    made_pod["metadata"] |= {"labels": {"vm.neon.tech/name": "app"}, "ownerReferences": [owner | {"controller": True}]}
    return made_pod


@pytest.mark.parametrize("leaves", [True, False], ids=["earlier-runner", "none"])
def test_runner_of_an_earlier_machine(*, leaves: bool) -> None:
    """Its guest still has the earlier machine's address, whichever address a new machine of that name runs with."""
    a, b, c, *_ = NEON.addresses
    records = {b: NEON.live("app", b, uid="new"), c: NEON.live("live", c)}
    earlier = [runner("app-1", "old", leaves=True)] if leaves else []
    world = NEON.world(records, *earlier, runner("app-2", "new"), more={a: NEON.entry(a, "app")})
    sweeps(world, 4)
    assert (a in NEON.entries(world)) is leaves


# --- records of any IPAM --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("house", [WHEREABOUTS, SpiderpoolHouse(4)], ids=str)
def test_owner_that_can_be_listed_but_not_read(house: House) -> None:
    """What the list showed of it is not forgotten: an address that it shows is not freed, whatever record it is in."""
    a, b, *others = house.addresses
    live = {address: house.live(f"live-{address}", address) for address in others[:4]}
    world = house.world({a: "app", b: "gone", **live})
    sweeps(world, 2, default=ALL)
    again = house.live("app", b, uid="newer")
    world.on(calls("list", "Pod"), then(lambda: world.put(again)))
    world.on(calls("get", "Pod", "app"), unread, times=9)
    world.watchers.append(lambda seen: "" if b in house.entries(seen) else f"{b} is free, though app shows it")
    sweep(world, default=ALL)
    assert world.broken == []


def written_like(house: House) -> World:
    """A pool in which a key that stands for no address is written like one whose record is a leak, with its very entry."""
    a, b, *_ = house.addresses
    world = house.world({a: "app", b: house.live("live", b)})
    stored = house.stored(world)
    more = {a: house.entry(a, "app"), "5x": house.entry(a, "app"), "5y": house.entry(b, "live")}
    world.put({**stored, "spec": {**stored["spec"], "allocations": {**stored["spec"]["allocations"], **more}}})
    return world


@pytest.mark.parametrize("house", [WHEREABOUTS, NEON], ids=str)
def test_key_that_is_written_like_an_address(house: House) -> None:
    """It is another record than that of the address: it stays, and the leak is freed."""
    a, *_ = house.addresses
    world = written_like(house)
    sweeps(world, 8)
    keys = house.stored(world)["spec"]["allocations"].keys()
    assert (a in keys, "1" in keys) == (True, False)
