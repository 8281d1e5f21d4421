"""Doubt keeps: where something could not be read, or an endpoint still lists the address, nothing is freed."""

from collections.abc import Callable
from typing import Any

import pytest

from factories import Object, claim, endpoint, pod, pool, reserved_ip, stateful_set, undecodable
from faults import (
    Call,
    Crash,
    World,
    calls,
    crash_after,
    cut,
    endpoints_recorded,
    keeps,
    lost,
    meanwhile,
    sweep,
    sweep_until_due,
    then,
    unread,
)
from poolwarden.gc.release import Outcome

A = "10.0.0.10"
LEAK = claim("app")
LIVE = pod("live", ips=["10.0.0.11"])
STARTING = pod("starting", phase="Pending")


def leaking(*others: Object, name: str = "blue", leak: Object = LEAK) -> World:
    """A pool with one leak and one record in use."""
    return World(pool(name, "10.0.0.10-10.0.0.30", {A: leak, "10.0.0.11": LIVE}), LIVE, *others)


def sweeps(world: World, number: int = 4) -> None:
    """So many sweeps, far enough apart for a leak to be released; what fails in them is not the matter here."""
    for _ in range(number):
        sweep(world)
        world.later(minutes=11)


def test_pool_list_that_broke_off() -> None:
    """A pool that was not listed may overlap this one and have given the address away: a partial list keeps."""
    other = pool("other", "10.0.0.10-10.0.0.15", {A: STARTING})
    world = leaking(other, STARTING, name="a")
    world.on(calls("list", "SpiderIPPool"), cut(1), times=99)
    sweeps(world)
    assert world.records("a").get(A) == LEAK


@pytest.mark.parametrize(
    "other",
    [
        undecodable(pool("other", "10.0.0.10-10.0.0.15", {A: STARTING})),
        pool("other", "10.0.0.10-10.0.0.15", '{"10.0.0.10": {"pod": "default/starting"'),
    ],
    ids=["undecodable", "broken-records"],
)
def test_overlapping_pool_that_cannot_be_read(other: Object) -> None:
    """An overlapping pool whose records are not known may have given the address to a pod that shows nothing yet."""
    world = leaking(other, STARTING)
    sweeps(world)
    assert world.records("blue").get(A) == LEAK


def test_reservations_that_cannot_be_read() -> None:
    """A reserved address is never freed, so none is while reservations cannot be listed."""
    world = leaking(reserved_ip(A))
    world.on(calls("list", "SpiderReservedIP"), unread, times=99)
    sweeps(world)
    assert world.records("blue").get(A) == LEAK


def test_endpoint_of_which_one_item_cannot_be_read() -> None:
    """An endpoint outlives no record: one that cannot be read whole may list the address, and keeps it."""
    world = leaking(endpoint("app", [("eth0", f"{A}@blue"), ("net1", "10.0.0.300@blue")]))
    sweeps(world)
    assert A in world.records("blue") or not world.has("SpiderEndpoint", "app")


def test_record_without_uid_whose_endpoint_lists_the_address() -> None:
    """The endpoint of that name is the only thing that would hand the address out again: it never outlives the record."""
    leak = claim("app", "")
    world = leaking(endpoint("app", {"eth0": f"{A}@blue"}, uid="app-uid"), leak=leak)
    world.watchers.append(endpoints_recorded)
    sweeps(world)
    assert world.broken == []


# --- what follows the write -----------------------------------------------------------------------------------------


def scaled_down() -> World:
    """db-1 is due for release, and entitled again straight after the write that takes its record out."""
    world = leaking(stateful_set("db", replicas=0), leak=claim("db-0"))
    sweep_until_due(world)
    world.on(calls("patch", "SpiderIPPool"), then(lambda: world.put(stateful_set("db", replicas=1))))
    return world


def after_the_write(world: World, verb: str, kind: str) -> Callable[[Call], bool]:
    """Calls of this verb and kind once the pool has been written."""
    return lambda call: calls(verb, kind)(call) and bool(world.tried(calls("patch", "SpiderIPPool")))


def test_owner_entitled_again_after_the_write() -> None:
    """An owner that came back between the last read and the verification gets its record back."""
    world = scaled_down()
    sweep(world)
    assert world.records("blue").get(A) == claim("db-0")


@pytest.mark.parametrize("kind", ["Pod", "StatefulSet"])
def test_verification_that_cannot_read(kind: str) -> None:
    """While it is not known whether the owner came back, the mark stays, and the next sweep puts the record back."""
    world = scaled_down()
    world.on(after_the_write(world, "get", kind), unread)
    sweep(world)
    world.later(minutes=11)
    sweep(world)
    assert world.records("blue").get(A) == claim("db-0")


def test_verification_after_a_crash_that_cannot_read() -> None:
    """The sweep that takes over a mark whose record is gone must know, too, before it forgets."""
    world = leaking(stateful_set("db", replicas=0), leak=claim("db-0"))
    sweep_until_due(world)
    world.on(calls("patch", "SpiderIPPool"), crash_after)
    with pytest.raises(Crash):
        sweep(world)
    world.put(stateful_set("db", replicas=1))
    world.later(minutes=11)
    world.on(calls("get", "Pod"), unread)
    sweep(world)
    world.later(minutes=11)
    sweep(world)
    assert world.records("blue").get(A) == claim("db-0")


def test_pool_that_cannot_be_parsed_after_a_write_in_doubt() -> None:
    """Records that cannot be read are not gone: nothing is told as released, and the mark stays."""
    world = leaking()
    sweep_until_due(world)

    def garbled(call: Call, make: Callable[[], Any]) -> Any:
        thing = world.thing("SpiderIPPool", "blue")
        world.put({**thing, "status": {**thing["status"], "allocatedIPs": "{"}})
        return lost(call, make)

    world.on(calls("patch", "SpiderIPPool"), garbled)
    report = sweep(world)
    assert [result.outcome for _, result in report.released] == [Outcome.UNVERIFIED]
    assert world.released("blue") == []
    assert world.ledger("blue") == {A: "Releasing"}


def test_live_records_are_never_touched_meanwhile() -> None:
    """Whatever happens to the leak, the record beside it stays as it is after every single write."""
    world = leaking()
    world.watchers.append(keeps("blue", {"10.0.0.11": LIVE}))
    sweeps(world)
    assert world.broken == []
    assert world.records("blue") == {"10.0.0.11": claim(LIVE)}


def test_owner_that_the_live_read_finds() -> None:
    """Kept: the mark goes, it is told, and should the owner go again its clock starts anew."""
    world = leaking()
    sweep_until_due(world)
    world.on(calls("get", "SpiderIPPool"), meanwhile(lambda: world.put(pod("app"))))
    report = sweep(world)
    assert [result.outcome for _, result in report.released] == [Outcome.KEPT]
    assert [notice.reason.value for notice in report.notices] == ["ReleaseSkipped"]
    assert report.complete
    assert world.ledger("blue") == {}
    world.remove("Pod", "app")
    world.later(minutes=1)
    sweep(world)
    assert world.ledger("blue") == {A: "Sighted"}
