"""By hand beside gc: neither undoes, nor loses, what the other has begun."""

from __future__ import annotations

from typing import Any

import pytest

from factories import Object, blue, claim, digest, endpoint, pod, stateful_set
from faults import (
    Crash,
    World,
    calls,
    crash_after,
    crash_before,
    go_on,
    meanwhile,
    nothing_lost,
    refused,
    sweep,
    sweep_until_due,
    unread,
)
from poolwarden.gc.by_hand import (
    CouldNot,
    Did,
    Guard,
    Proposal,
    Refused,
    propose,
    release_by_hand,
    restore_by_hand,
)
from poolwarden.gc.policy import Policy

A, B, C = "10.0.0.10", "10.0.0.11", "10.0.0.12"
LEAK, OTHER = claim("app"), claim("web")
LIVE, MORE = pod("live", ips=[B]), pod("more", ips=["10.0.0.13"])
POOL_WRITE = calls("patch", "SpiderIPPool")


def leaking(*others: Object, **records: Object) -> World:
    """Two leaks beside two records in use."""
    entries = {A: LEAK, B: LIVE, C: OTHER, "10.0.0.13": MORE, **records}
    world = World(blue(entries), LIVE, MORE, *others)
    world.watchers.append(nothing_lost("blue", {A: LEAK, C: OTHER}))
    return world


def by_hand(world: World, address: str = C, record: Object = OTHER) -> object:
    """Release one record by hand; what came of it."""
    proposal = propose(world, Policy(), address, "blue", digest(address, record))
    return release_by_hand(world, Policy(), proposal, go_on) if isinstance(proposal, Proposal) else proposal


def restored(world: World, address: str = A) -> object:
    """Restore by hand; what came of it."""
    return restore_by_hand(world, Policy(), address, "blue", go_on)


def change(world: World, **spec: object) -> None:
    """The operator edits the guard."""
    guard = world.guard("blue")
    generation = guard["metadata"]["generation"] + 1
    world.put({**guard, "spec": guard["spec"] | spec, "metadata": guard["metadata"] | {"generation": generation}})


def died_after_the_write(*others: Object, leak: Object = LEAK) -> World:
    """Gc has taken 10.0.0.10 out, and died before it could say so."""
    world = World(blue({A: leak, B: LIVE, C: OTHER, "10.0.0.13": MORE}), LIVE, MORE, *others)
    sweep_until_due(world)
    world.on(POOL_WRITE, crash_after)
    with pytest.raises(Crash):
        sweep(world, max_releases=1)
    assert set(world.records("blue")) == {B, C, "10.0.0.13"}
    assert world.ledger("blue")[A] == "Releasing"
    return world


# --- beside gc --------------------------------------------------------------------------------------------------------


def test_by_hand_keeps_a_mark_that_outlived_its_sweep() -> None:
    """Another record's unfinished release stays in the ledger: it is gc's to verify and to note."""
    world = died_after_the_write()
    assert isinstance(by_hand(world), Did)
    assert world.ledger("blue").get(A) == "Releasing"
    world.later(minutes=5)
    sweep(world)
    assert sorted(world.released("blue")) == [A, C]


def test_owner_that_came_back_meanwhile() -> None:
    """So an owner that is entitled again gets its record back, whatever was released by hand in between."""
    world = died_after_the_write(stateful_set("db", replicas=0), leak=claim("db-0"))
    by_hand(world)
    world.put(stateful_set("db", replicas=1))
    world.later(minutes=5)
    sweep(world)
    assert world.records("blue").get(A) == claim("db-0")


def test_by_hand_in_the_midst_of_a_sweep() -> None:
    """Released by hand between gc's mark and its write: both go, and both can be put back."""
    world = leaking()
    sweep_until_due(world)
    world.on(calls("get", "SpiderIPPool"), meanwhile(lambda: by_hand(world)))
    sweep(world, max_releases=1)
    assert world.broken == []
    world.later(minutes=5)
    sweep(world)
    assert sorted(world.released("blue")) == [A, C]


def test_restore_in_the_midst_of_a_sweep() -> None:
    """Restored by hand while gc releases another record: gc's is noted by the next sweep at the latest."""
    world = leaking()
    sweep_until_due(world)
    sweep(world, max_releases=1)
    assert world.released("blue") == [A]
    world.later(minutes=5)
    world.on(calls("get", "SpiderIPPool"), meanwhile(lambda: restored(world)))
    sweep(world)
    world.later(minutes=5)
    sweep(world)
    assert world.broken == []
    assert world.released("blue") == [A, C]
    assert world.records("blue")[A] == LEAK


def test_by_hand_counts_nothing_for_others() -> None:
    """A release by hand is a sighting of its pool, but no licence: other records keep their clocks."""
    world = leaking()
    sweep(world)
    world.later(minutes=5)
    assert isinstance(by_hand(world), Did)
    assert world.ledger("blue") == {A: "Sighted"}
    assert world.records("blue")[A] == LEAK


# --- every guard but grace and cooldown -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "guard"),
    [
        ({"keep": [C]}, Guard.VERDICT),
        ({"ignoreNamespaces": ["default"]}, Guard.VERDICT),
        ({"maxReleasesPerSweep": 0}, Guard.CAP),
    ],
    ids=str,
)
def test_guards_hold_the_hand(spec: dict[str, Any], guard: Guard) -> None:
    """keep, ignoreNamespaces and a cap of 0 refuse, by name."""
    world = leaking()
    sweep(world)
    change(world, **spec)
    fate = by_hand(world)
    assert isinstance(fate, Refused)
    assert fate.guard is guard
    assert world.records("blue")[C] == OTHER


def test_pool_that_is_off() -> None:
    """Off means that gc leaves the pool alone: a refusal that says so, not a failure without a word."""
    world = leaking()
    sweep(world)
    change(world, mode="Off")
    fate = by_hand(world)
    assert world.records("blue")[C] == OTHER
    assert isinstance(fate, Refused)
    assert "Off" in fate.message


def test_braked_pool() -> None:
    """More than half of the records: refused, until acknowledged."""
    world = World(blue({A: LEAK, C: OTHER, B: LIVE}), LIVE)
    sweep(world)
    fate = by_hand(world)
    assert isinstance(fate, Refused)
    assert fate.guard is Guard.BRAKE
    change(world, acknowledgedLeaks=2)
    assert isinstance(by_hand(world), Did)


def test_owner_that_lives() -> None:
    """A record in use is refused, with the reason."""
    fate = by_hand(leaking(), B, LIVE)
    assert isinstance(fate, Refused)
    assert "OwnerLive" in fate.message


def test_owner_that_comes_before_the_write() -> None:
    """What the live reads see refuses, as the guard LiveRead, and nothing is written."""
    world = leaking()
    proposal = propose(world, Policy(), C, "blue", digest(C, OTHER))
    assert isinstance(proposal, Proposal)
    world.put(pod("web"))
    world.forget_calls()
    fate = release_by_hand(world, Policy(), proposal, go_on)
    assert isinstance(fate, Refused)
    assert fate.guard is Guard.LIVE_READ
    assert not world.tried(POOL_WRITE)


def test_record_that_changed_after_the_proposal() -> None:
    """The digest names what the operator saw: another record of the address is not released."""
    world = leaking()
    proposal = propose(world, Policy(), C, "blue", digest(C, OTHER))
    assert isinstance(proposal, Proposal)
    world.record("blue", {C: claim("web", "newer")})
    assert isinstance(release_by_hand(world, Policy(), proposal, go_on), Refused)
    assert world.records("blue")[C] == claim("web", "newer")


def test_pool_made_anew_after_the_proposal() -> None:
    """A pool of that name with another UID was not judged: it is refused, however alike its record is."""
    world = leaking()
    proposal = propose(world, Policy(), C, "blue", digest(C, OTHER))
    assert isinstance(proposal, Proposal)
    anew = blue({C: OTHER, B: LIVE, "10.0.0.13": MORE})
    anew["metadata"]["uid"] = "newer"
    world.put(anew)
    fate = release_by_hand(world, Policy(), proposal, go_on)
    assert world.records("blue").get(C) == OTHER
    assert not isinstance(fate, Did)


@pytest.mark.parametrize("kind", ["Pod", "SpiderEndpoint", "SpiderIPPool"])
def test_list_that_failed(kind: str) -> None:
    """What could not be read is no refusal, and no release."""
    world = leaking()
    world.on(calls("list", kind), unread)
    assert isinstance(by_hand(world), CouldNot)
    assert world.records("blue")[C] == OTHER


def test_mark_that_could_not_be_written() -> None:
    """By hand as well: no release without a mark."""
    world = leaking()
    sweep(world)
    world.on(calls("patch", "PoolGuard"), refused)
    assert isinstance(by_hand(world), CouldNot)
    assert not world.tried(POOL_WRITE)


def test_endpoint_first() -> None:
    """By hand as well: the endpoint goes before the record, marked before either."""
    world = leaking(endpoint("web", {"eth0": f"{C}@blue"}))
    assert isinstance(by_hand(world), Did)
    assert not world.has("SpiderEndpoint", "web")
    mark = world.index(calls("patch", "PoolGuard"))
    assert mark < world.index(calls("delete", "SpiderEndpoint")) < world.index(POOL_WRITE)
    assert world.released("blue") == [C]


def test_held_record_is_released_by_hand() -> None:
    """What was restored is held against gc, not against an operator."""
    world = leaking()
    assert isinstance(by_hand(world), Did)
    assert isinstance(restored(world, C), Did)
    assert isinstance(by_hand(world), Did)
    assert C not in world.records("blue")


# --- restore ----------------------------------------------------------------------------------------------------------


def released() -> World:
    """10.0.0.12 has been released."""
    world = leaking()
    assert isinstance(by_hand(world), Did)
    return world


@pytest.mark.parametrize(
    "things",
    [
        (pod("other", ips=[C]),),
        (pod("other", nics={"net1": C}),),
        (endpoint("other", {"eth0": f"{C}@blue"}),),
        (pod("other"), endpoint("web", {"eth0": f"{C}@blue"}, uid="newer")),
    ],
    ids=["podIPs", "nic", "endpoint", "newer-endpoint"],
)
def test_address_that_somebody_has(things: tuple[Object, ...]) -> None:
    """Shown or listed by anyone but the record's own owner: refused as InUse, and nothing is written."""
    world = released()
    world.put(*things)
    world.forget_calls()
    fate = restored(world, C)
    assert isinstance(fate, Refused)
    assert fate.guard is Guard.IN_USE
    assert not world.tried(calls("write"))


def test_address_that_is_recorded_again() -> None:
    """Recorded for another, in this pool or any other: refused."""
    world = released()
    world.record("blue", {C: pod("new")})
    assert isinstance(restored(world, C), Refused)
    assert world.records("blue")[C] == claim("new")


def test_record_that_comes_between_read_and_write() -> None:
    """Compare-and-swap: what the IPAM wrote meanwhile stands."""
    world = released()
    world.on(POOL_WRITE, meanwhile(lambda: world.record("blue", {C: pod("new")})))
    assert not isinstance(restored(world, C), Did)
    assert world.records("blue")[C] == claim("new")


def test_owner_that_shows_its_own_address() -> None:
    """The owner itself is no obstacle: it is the one that needs its record back."""
    world = released()
    world.put(pod("web", ips=[C]))
    assert isinstance(restored(world, C), Did)
    assert world.records("blue")[C] == OTHER


def test_pods_that_could_not_be_listed() -> None:
    """Whether it is in use must be known."""
    world = released()
    world.on(calls("list", "Pod"), unread)
    assert isinstance(restored(world, C), CouldNot)
    assert C not in world.records("blue")


def test_pool_that_was_made_anew() -> None:
    """A record of an earlier pool is not put into its successor."""
    world = released()
    anew = blue({B: LIVE})
    anew["metadata"]["uid"] = "newer"
    world.put(anew)
    fate = restored(world, C)
    assert isinstance(fate, Refused)
    assert fate.guard is Guard.HISTORY


def test_never_released() -> None:
    """What gc did not release it cannot put back."""
    world = leaking()
    sweep(world)
    for address in (A, "10.0.0.29"):
        fate = restored(world, address)
        assert isinstance(fate, Refused)
        assert fate.guard is Guard.HISTORY


@pytest.mark.parametrize("effect", [crash_before, crash_after])
def test_death_by_hand_is_no_sighting(effect: Any) -> None:
    """A mark that a release by hand left behind gives gc no short cut: the record has its grace, or is noted as gone."""
    world = leaking()
    proposal = propose(world, Policy(), C, "blue", digest(C, OTHER))
    assert isinstance(proposal, Proposal)
    world.on(POOL_WRITE, effect)
    with pytest.raises(Crash):
        release_by_hand(world, Policy(), proposal, go_on)
    assert world.ledger("blue")[C] == "Releasing"
    for _ in range(3):
        world.later(minutes=1)
        sweep(world)
    gone = effect is crash_after
    assert (C not in world.records("blue")) is gone
    assert world.released("blue") == ([C] if gone else [])
    assert world.ledger("blue").get(C) == (None if gone else "Sighted")
