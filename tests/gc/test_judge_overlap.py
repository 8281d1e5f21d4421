"""Pools whose ranges overlap: one address, two pools that may hand it out."""

import pytest

from factories import (
    UNREAD,
    Object,
    ago,
    beside,
    blue,
    claim,
    endpoint,
    green,
    nad,
    node,
    pod,
    pool,
    said,
    stateful_set,
    told,
    undecodable,
    verdict,
    words,
)
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS

A = "10.0.0.10"
FREE = "Leaked OwnerGone release"
UNRECORDED = "Conflict InUseUnrecorded none"
GONE = claim("gone")


def twin(records: dict[str, Object] | None = None, ips: str = "10.0.0.5-10.0.0.12") -> Object:
    """A pool that overlaps `blue` from .10 to .12."""
    return pool("twin", ips, records)


# --- the pools themselves ---------------------------------------------------------------------------------------------


def test_two_pools_that_overlap() -> None:
    """Each is told, and each names the other."""
    found = beside(blue(), twin())
    assert [(item.pool.name, item.address, words(item)) for item in found] == [
        ("blue", None, "Conflict PoolsOverlap none"),
        ("twin", None, "Conflict PoolsOverlap none"),
    ]
    assert "twin" in found[0].message
    assert "blue" in found[1].message


@pytest.mark.parametrize("ips", ["10.0.0.5-10.0.0.9", "10.0.0.31-10.0.0.40", "fd00::10-fd00::30"])
def test_pools_side_by_side(ips: str) -> None:
    """Neighbours and other families do not overlap."""
    assert told(blue(), twin(ips=ips)) == []


@pytest.mark.parametrize("ips", ["10.0.0.30-10.0.0.40", "10.0.0.1-10.0.0.10", "10.0.0.15", "10.0.0.1-10.0.0.99"])
def test_one_shared_address_is_an_overlap(ips: str) -> None:
    """At either end, inside, or all of it."""
    assert len(told(blue(), twin(ips=ips))) == 2


def test_excluded_addresses_do_not_overlap() -> None:
    """What a pool excludes it does not hand out."""
    assert told(blue(exclude=["10.0.0.10-10.0.0.12"]), twin()) == []


def test_three_pools() -> None:
    """Each names all that it overlaps with; a pool apart from them is not told."""
    third = pool("third", "10.0.0.12-10.0.0.20")
    found = {item.pool.name: item.message for item in beside(blue(), twin(), third, green())}
    assert set(found) == {"blue", "twin", "third"}
    assert "third" in found["blue"]
    assert "twin" in found["blue"]


def networks(**masters: str) -> tuple[Object, ...]:
    """Two overlapping pools with a live pod each, on net1 and net2, and the NADs of these."""
    one, two = pod("one", nics={"net1": "10.0.0.20"}), pod("two", nics={"net2": "10.0.0.6"})
    nads = [nad(name, master=master) for name, master in masters.items()]
    endpoints = endpoint(one, {"net1": "10.0.0.20@blue"}), endpoint(two, {"net2": "10.0.0.6@twin"})
    return (blue({A: GONE, "10.0.0.20": one}), twin({A: claim("live"), "10.0.0.6": two}), one, two, *endpoints, *nads)


LIVE = pod("live", phase="Pending", created=ago(seconds=5))


def test_overlap_on_networks_that_are_apart() -> None:
    """Isolated networks may hold the same addresses: a drift, and each pool's records stand alone."""
    things = (*networks(net1="eth1", net2="eth2"), LIVE)
    assert told(*things) == ["None Drift PoolsOverlap none"] * 2
    assert {"apart" in item.message for item in beside(*things)} == {True}
    unsure = told(*things, coverage={NETWORK_ATTACHMENTS: UNREAD})
    assert unsure == ["None Conflict PoolsOverlap none"] * 2
    assert said(A, *things) == FREE


def test_address_that_a_pod_on_a_network_apart_has_from_its_own_pool() -> None:
    """Isolated networks may hold the same addresses: both in use, and a leak in the one is free there."""
    one, two = pod("one", nics={"net1": A}), pod("two", nics={"net2": A})
    live = pod("live", nics={"net1": "10.0.0.20"})
    nets = (nad("net1", master="eth1"), nad("net2", master="eth2"))
    theirs = (twin({A: two}), two, endpoint(two, {"net2": f"{A}@twin"}), *nets)
    assert said(A, blue({A: one}), one, endpoint(one, {"net1": f"{A}@blue"}), *theirs) == "InUse OwnerLive none"
    leak = blue({A: GONE, "10.0.0.20": live})
    assert said(A, leak, live, endpoint(live, {"net1": "10.0.0.20@blue"}), *theirs) == FREE


def test_overlap_with_one_pool_that_is_apart_and_one_that_is_not() -> None:
    """One pool on the same network is enough for a conflict."""
    things = (*networks(net1="eth1", net2="eth2"), LIVE, pool("third", "10.0.0.11"))
    found = {item.pool.name: words(item) for item in beside(*things) if item.address is None}
    assert found["blue"] == "Conflict PoolsOverlap none"


@pytest.mark.parametrize("ips", ["10.0.0.20", "10.0.0.6"])
def test_overlap_with_a_pool_of_which_no_network_is_known(ips: str) -> None:
    """A pool without live records is not proven apart from any."""
    found = list(beside(*networks(net1="eth1", net2="eth2"), LIVE, pool("fresh", ips)))
    assert {words(item) for item in found if item.pool.name == "fresh"} == {"Conflict PoolsOverlap none"}


@pytest.mark.parametrize(
    "masters", [{"net1": "eth1", "net2": "eth1"}, {"net1": "eth1", "net2": ""}, {"net1": "eth1"}, {}]
)
def test_overlap_on_networks_that_are_not_proven_apart(masters: dict[str, str]) -> None:
    """One master, or one that is not known: a conflict."""
    things = (*networks(**masters), LIVE)
    assert told(*things) == ["None Conflict PoolsOverlap none"] * 2
    assert {"apart" in item.message for item in beside(*things)} == {False}
    assert said(A, *things) == UNRECORDED


# --- their records ------------------------------------------------------------------------------------------------------


def test_leak_that_the_other_pool_records_for_a_live_owner() -> None:
    """Freed here, it would be handed out beside the other pool's owner; the message names pool and owner."""
    things = (blue({A: GONE}), twin({A: LIVE}), LIVE)
    found = verdict(A, *things)
    assert words(found) == UNRECORDED
    for text in ("gone-uid", "twin", "default/live"):
        assert text in found.message
    assert said(A, *things, pool="twin") == "InUse OwnerLive none"


def test_leak_in_both_pools() -> None:
    """Recorded for nobody who lives in either, it is free in both."""
    assert said(A, blue({A: GONE}), twin({A: claim("gone-too")})) == FREE
    assert said(A, blue({A: GONE}), twin({A: claim("gone-too")}), pool="twin") == FREE


def test_leak_that_the_other_pool_does_not_record() -> None:
    """An overlap alone keeps nothing."""
    assert said(A, blue({A: GONE}), twin()) == FREE


def test_leak_that_the_other_pool_keeps_for_somebody() -> None:
    """Not Leaked is enough: retained, or of whom nothing is known."""
    assert said(A, blue({A: GONE}), twin({A: claim("web-0")}), stateful_set("web")) == UNRECORDED
    assert said(A, blue({A: GONE}), twin({A: {"pod": "nonsense"}})) == UNRECORDED
    lost = endpoint("lost", {}, node="node-9")
    assert said(A, blue({A: GONE}), twin({A: claim("lost")}), lost, node("node-1")) == UNRECORDED


def test_leak_that_anyone_shows() -> None:
    """In a pool that overlaps another, a pod that shows the address may have it from there."""
    other = pod("other", ips=[A])
    found = verdict(A, blue({A: GONE}), twin(), other)
    assert words(found) == UNRECORDED
    assert "default/other" in found.message
    assert said(A, blue({A: GONE}), green(), other) == "Leaked OwnerGone none"


def test_leak_that_is_shown_on_another_network() -> None:
    """An attachment that is proven apart from the record's pool shows another address."""
    near, far = pod("near", nics={"net1": "10.0.0.20"}), pod("far", nics={"net2": A})
    things = (blue({A: GONE, "10.0.0.20": near}), twin(), near, far, nad("net1", master="eth1"))
    assert said(A, *things, nad("net2", master="eth2", ipam="dhcp")) == FREE
    assert said(A, *things, nad("net2", master="eth1", ipam="dhcp")) == UNRECORDED


def test_a_pod_without_uid_is_not_the_owner_without_uid() -> None:
    """Nothing ties the two: somebody shows the address."""
    other = pod("other", ips=[A])
    del other["metadata"]["uid"]
    assert said(A, blue({A: claim("gone", "")}), twin(), other) == UNRECORDED


def test_leak_that_an_undecodable_pool_may_record() -> None:
    """What stands in a pool that cannot be decoded may be its record."""
    assert said(A, blue({A: GONE}), undecodable(twin({A: LIVE}))) == "Unknown EvidenceIncomplete none"
    assert said(A, blue({A: GONE}), undecodable(green({"10.0.1.10": LIVE}))) == FREE


def test_a_pool_without_overlap_is_judged_as_ever() -> None:
    """Two pools that overlap do not touch a third one's records."""
    assert said("10.0.1.10", blue(), twin(), green({"10.0.1.10": GONE}), pool="green") == FREE


def test_retained_record_that_the_other_pool_gave_to_a_live_owner() -> None:
    """A StatefulSet's pod will come back to an address that somebody else has."""
    things = (blue({A: claim("web-0")}), stateful_set("web"), twin({A: LIVE}), LIVE)
    assert said(A, *things) == UNRECORDED


def test_record_without_node_evidence_that_the_other_pool_gave_to_a_live_owner() -> None:
    """Also where the node of the gone owner does not answer, two pools have given one address."""
    lost = endpoint("gone", {}, node="node-9")
    assert said(A, blue({A: GONE}), lost, twin({A: LIVE}), LIVE) == UNRECORDED


def test_leak_while_the_other_pools_records_cannot_be_read() -> None:
    """Doubt keeps: what cannot be read may say that the address is somebody's."""
    broken = twin()
    broken["status"] |= {"allocatedIPs": "{", "allocatedIPCount": 1}
    assert verdict(A, blue({A: GONE}), broken).action == "none"


def test_overdue_owner_in_a_pool_that_overlaps() -> None:
    """The owner by UID is excepted here as it is in the veto: nobody else shows the address."""
    late = pod("app", ips=[A], deadline=ago(minutes=5), containers={"main": ago(hours=1)}, sandbox=False)
    assert said(A, blue({A: late}), twin(), late) == "Leaked OwnerOverdue release"
