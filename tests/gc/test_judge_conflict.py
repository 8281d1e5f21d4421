"""Conflict: two users of one address, and addresses in use that a pool does not record."""

import pytest

from factories import (
    Object,
    ago,
    beside,
    blue,
    claim,
    endpoint,
    green,
    nad,
    network_status,
    pod,
    pool,
    reserved_ip,
    said,
    stateful_set,
    told,
    verdict,
    words,
)

A = "10.0.0.10"
HELD_TWICE = "Conflict AddressHeldTwice none"
UNRECORDED = "Conflict InUseUnrecorded none"
IN_USE = "InUse OwnerLive none"
ETH0 = nad("eth0")  # proves that eth0 draws from Spiderpool


def other(**more: object) -> Object:
    """Another pod that has 10.0.0.10 on eth0."""
    return pod("other", **({"ips": [A]} | more))  # type: ignore[arg-type]


# --- two live pods, one of them recorded ----------------------------------------------------------------------------


def test_two_live_pods_use_one_address() -> None:
    """Two live owners of one address: the message names both."""
    web = pod("web", ips=[A])
    found = verdict(A, blue({A: web}), web, other(), ETH0)
    assert words(found) == HELD_TWICE
    assert "default/web (UID web-uid)" in found.message
    assert "default/other (UID other-uid)" in found.message


def test_an_endpoint_proves_that_the_address_is_this_ipams() -> None:
    """Without a NAD that tells, an endpoint with the pod's UID that lists the address proves it."""
    web = pod("web", ips=[A])
    things = (blue({A: web}), web, other())
    assert said(A, *things, endpoint("other", {"eth0": f"{A}@blue"})) == HELD_TWICE
    assert said(A, *things, endpoint("other", {"eth0": f"{A}@blue", "net1": "10.0.0.11@blue"})) == HELD_TWICE
    assert said(A, *things, endpoint("other", {"eth0": f"{A}@blue"}, uid="older-uid")) == IN_USE
    assert said(A, *things, endpoint("other", {"eth0": "10.0.0.11@blue"})) == IN_USE
    assert said(A, *things) == IN_USE


@pytest.mark.parametrize("ipam", ["", "whereabouts"])
def test_a_nad_of_another_ipam_proves_nothing(ipam: str) -> None:
    """An attachment that another IPAM serves, or of which the NAD tells no IPAM, is no use of this pool's address."""
    web = pod("web", ips=[A])
    assert said(A, blue({A: web}), web, other(), nad("eth0", ipam=ipam)) == IN_USE


@pytest.mark.parametrize(
    "user",
    [
        other(phase="Succeeded"),
        other(phase="Failed"),
        other(host_network=True),
        other(ips=["10.0.0.11"]),
        other(ips=(), status="{" + A),
    ],
)
def test_pods_that_are_no_users(user: Object) -> None:
    """A terminal or hostNetwork pod, another address, or one that only stands in a broken status is no second user."""
    web = pod("web", ips=[A])
    assert said(A, blue({A: web}), web, user, ETH0) == IN_USE


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown"])
def test_any_phase_that_is_not_terminal_is_live(phase: str) -> None:
    """A pod lives until it is Succeeded or Failed."""
    web = pod("web", ips=[A])
    assert said(A, blue({A: web}), web, other(phase=phase), ETH0) == HELD_TWICE


def test_isolated_networks_may_hold_the_same_addresses() -> None:
    """An attachment to another master than that of every NAD which shows the pool's records is apart."""
    web, far = pod("web", nics={"net1": A}), pod("other", nics={"net2": A})
    things = (blue({A: web}), web, far, nad("net1", master="eth1"))
    assert said(A, *things, nad("net2", master="eth2", pools=["green"])) == IN_USE
    assert said(A, *things, nad("net2", master="eth1", pools=["green"])) == HELD_TWICE
    assert said(A, *things, nad("net2", master="", pools=["green"])) == HELD_TWICE
    odd = nad("net2", master="eth2", pools=["green"])
    odd["spec"]["config"] = odd["spec"]["config"].replace(
        '"master"', '"Master"'
    )  # Go's plugins read it, others may not
    assert said(A, *things, odd) == HELD_TWICE


def test_an_attachment_that_may_draw_from_the_pool_is_not_apart() -> None:
    """Another master proves nothing where NAD or pod name the pool."""
    web, far = pod("web", nics={"net1": A}), pod("other", nics={"net2": A})
    things = (blue({A: web}), web, nad("net1", master="eth1"))
    for pools in (["blue"], ["green", "bl*"]):
        assert said(A, *things, far, nad("net2", master="eth2", pools=pools)) == HELD_TWICE
    for key in ("ippools", "ippool"):
        asks = pod("other", nics={"net2": A}, annotations={f"ipam.spidernet.io/{key}": '[{"ipv4":["blue"]}]'})
        assert said(A, *things, asks, nad("net2", master="eth2", pools=["green"])) == HELD_TWICE


def test_the_owner_need_not_show_its_address_for_a_conflict() -> None:
    """An address recorded for a live pod that another one uses is in use unrecorded, even while the owner starts."""
    starting = pod("web", phase="Pending")
    found = verdict(A, blue({A: starting}), starting, other(), ETH0)
    assert words(found) == UNRECORDED
    assert "web-uid" in found.message
    assert "other-uid" in found.message


def test_the_recorded_user_needs_no_proof() -> None:
    """The owner by UID that shows its address is its user, whatever its network is called."""
    web = pod("web", ips=[A])
    late = pod("late", ips=[A])
    found = verdict(A, blue({A: web}), web, late, endpoint(late, {"eth0": f"{A}@blue"}))
    assert words(found) == HELD_TWICE


# --- terminating pods -----------------------------------------------------------------------------------------------

IN_GRACE = ago(minutes=-1)


def test_a_terminating_pod_whose_del_is_done_uses_nothing_any_more() -> None:
    """Spiderpool takes the finalizer off a terminating pod's endpoint once its DEL is done; its address may be reused."""
    web, going = pod("web", ips=[A]), other(deadline=IN_GRACE)
    assert said(A, blue({A: web}), web, going, ETH0, endpoint(going, {}, finalizers=())) == IN_USE


@pytest.mark.parametrize(
    ("deadline", "found"),
    [
        (IN_GRACE, endpoint("other", {})),
        (None, endpoint("other", {}, finalizers=())),
        (IN_GRACE, endpoint("other", {}, uid="older-uid", finalizers=())),
        (IN_GRACE, endpoint("another", {}, finalizers=())),
    ],
)
def test_only_that_says_that_a_del_is_done(deadline: str | None, found: Object) -> None:
    """A finalizer, a pod that is not being deleted, an endpoint of another UID, or none: the pod still has its address."""
    web = pod("web", ips=[A])
    assert said(A, blue({A: web}), web, other(deadline=deadline), ETH0, found) == HELD_TWICE


def test_a_terminating_pod_whose_del_is_done_is_not_unrecorded() -> None:
    """The record of a pod whose DEL is done is gone, and rightly so."""
    going = other(deadline=IN_GRACE)
    assert told(blue(), going, ETH0, endpoint(going, {"eth0": f"{A}@blue"}, finalizers=())) == []
    assert told(blue(), going, ETH0, endpoint(going, {"eth0": f"{A}@blue"})) == [f"{A} {UNRECORDED}"]


# --- recorded for nobody who lives ----------------------------------------------------------------------------------


def test_a_live_pod_uses_an_address_that_is_recorded_for_another() -> None:
    """The record's owner is gone, but a live pod uses the address: no leak, a conflict, whose message names both."""
    found = verdict(A, blue({A: claim("gone")}), other(), ETH0)
    assert words(found) == UNRECORDED
    assert "gone-uid" in found.message
    assert "default/other (UID other-uid)" in found.message


def test_what_is_not_proven_to_be_this_ipams_is_a_leak_that_is_kept() -> None:
    """Without proof it stays a leak, vetoed by the pod that shows the address."""
    assert said(A, blue({A: claim("gone")}), other()) == "Leaked OwnerGone none"


def test_two_live_pods_use_an_address_recorded_for_a_third() -> None:
    """Two users stay two users if the record names neither."""
    assert said(A, blue({A: claim("gone")}), other(), pod("late", ips=[A]), ETH0) == HELD_TWICE


def test_conflict_comes_before_retained() -> None:
    """A StatefulSet's pod that restarts finds its address taken: that is told, not that it is kept."""
    things = (blue({A: claim("web-0")}), stateful_set("web"))
    assert said(A, *things) == "Retained StatefulSetEntitled none"
    assert said(A, *things, other(), ETH0) == UNRECORDED


def test_conflict_comes_before_node_evidence() -> None:
    """Likewise for a record whose owner's node does not answer."""
    things = (blue({A: claim("gone")}), endpoint("gone", {}, node="lost"))
    assert said(A, *things) == "Unknown NodeUnreachable none"
    assert said(A, *things, other(), ETH0) == UNRECORDED


def test_two_live_pods_use_an_address_recorded_without_uid() -> None:
    """The pod of the record's name is its user, though nothing else proves that the address is this IPAM's."""
    web, late = pod("web", ips=[A]), pod("late", ips=[A])
    found = verdict(A, blue({A: claim("web", "")}), web, late, endpoint(late, {"eth0": f"{A}@blue"}))
    assert words(found) == HELD_TWICE
    assert "no UID" in found.message


# --- not recorded at all --------------------------------------------------------------------------------------------


def test_address_in_use_that_no_pool_records() -> None:
    """The worst class: the pool may hand the address out again. The message names the pod."""
    (found,) = [item for item in beside(blue(), other(), ETH0) if item.address == A]
    assert words(found) == UNRECORDED
    assert "default/other (UID other-uid) uses 10.0.0.10" in found.message
    assert (found.pool.name, found.record_digest) == ("blue", "")
    assert (found.owner.namespace, found.owner.name, found.owner.uid) == ("default", "other", "other-uid")  # type: ignore[union-attr]


def test_pod_ips_alone_show_use_where_an_endpoint_proves_it() -> None:
    """A pod without network-status that has the address in podIPs uses it."""
    plain = other(status="")
    assert told(blue(), plain, endpoint(plain, {"eth0": f"{A}@blue"})) == [f"{A} {UNRECORDED}"]


def test_further_nics_count() -> None:
    """An address on net1 is in use as well, though podIPs do not have it."""
    two = pod("other", ips=["10.9.9.9"], nics={"net1": A})
    assert told(blue(), two, nad("net1")) == [f"{A} {UNRECORDED}"]


def test_two_pods_use_an_address_that_no_pool_records() -> None:
    """Two users of an unrecorded address are named both."""
    (found,) = beside(blue(), other(), pod("late", ips=[A]), ETH0)
    assert words(found) == HELD_TWICE
    assert "other-uid" in found.message
    assert "late-uid" in found.message
    assert "both use 10.0.0.10" in found.message


@pytest.mark.parametrize(
    "things",
    [
        (blue(), other()),
        (blue(), other(), nad("eth0", ipam="host-local")),
        (blue(), other(phase="Succeeded"), ETH0),
        (blue(), other(host_network=True), ETH0),
        (blue(), other(ips=["10.0.0.9"]), ETH0),
        (blue(exclude=[A]), other(), ETH0),
        (blue(), reserved_ip(A), other(), ETH0),
        (other(), ETH0),
    ],
)
def test_what_is_no_unrecorded_use(things: tuple[Object, ...]) -> None:
    """Not proven this IPAM's, another IPAM's, not live, or no address that the pool could hand out."""
    assert [line for line in told(*things) if "Conflict" in line] == []


def test_a_use_on_another_network_is_none_of_this_pools() -> None:
    """Where the pool's records are all on one master, another master's attachment is another network's."""
    web, far = pod("web", nics={"net1": "10.0.0.11"}), pod("far", nics={"net2": A})
    things = (blue({"10.0.0.11": web}), web, far, nad("net1", master="eth1"))
    assert told(*things, nad("net2", master="eth2", pools=["green"])) == ["10.0.0.11 Drift EndpointMissing none"]
    assert f"{A} {UNRECORDED}" in told(*things, nad("net2", master="eth1"))


def test_a_record_that_came_after_the_pods_adds_up() -> None:
    """A pod whose ADD came after its pool was read is recorded in the pool as read again: no conflict."""
    assert told(blue(), other(), ETH0, later={"blue": {A: "other-uid"}}) == []
    assert told(blue(), other(), ETH0, later={"blue": {A: "late-uid"}}) == [f"{A} {UNRECORDED}"]
    assert told(blue(), other(), ETH0, later={"green": {A: "other-uid"}}) == [f"{A} {UNRECORDED}"]


def test_a_record_that_changed_hands_after_the_pods() -> None:
    """If the address was given to the pod that shows it meanwhile, the old record is a leak that is kept this time."""
    things = (blue({A: claim("gone")}), other(), ETH0)
    assert said(A, *things, later={"blue": {A: "other-uid"}}) == "Leaked OwnerGone none"


def test_the_pool_that_the_endpoint_names_has_to_record_it() -> None:
    """Where two pools hold the address, only the one that the endpoint names is told."""
    twin = pool("twin", "10.0.0.10-10.0.0.12")
    things = (blue(), twin, other(), endpoint("other", {"eth0": f"{A}@twin"}))
    found = [item.pool.name for item in beside(*things) if item.address == A]
    assert found == ["twin"]


def test_a_pool_that_the_endpoint_names_and_that_is_gone_records_nothing() -> None:
    """A pool that was made anew under another name: whichever pool holds the address has to record it."""
    assert f"{A} {UNRECORDED}" in told(blue(), other(), ETH0, endpoint("other", {"eth0": f"{A}@lost"}))


def test_an_address_that_another_pool_records_for_the_pod() -> None:
    """Recorded for its user by an overlapping pool, the address is recorded."""
    twin = pool("twin", "10.0.0.10-10.0.0.12", {A: claim("other")})
    found = [words(item) for item in beside(blue(), twin, other(), ETH0) if item.address == A]
    assert UNRECORDED not in found


def test_what_the_endpoint_says_of_other_addresses() -> None:
    """That the pod's other NIC draws from another pool is no word about this address."""
    things = (blue(), green({"10.0.1.10": other()}), other(), endpoint("other", {"net1": "10.0.1.10@green"}), ETH0)
    assert f"{A} {UNRECORDED}" in told(*things)


def test_ipv6_in_whatever_spelling() -> None:
    """Addresses are compared, not texts."""
    six = pool("six", "fd00::10-fd00::1f")
    shows = other(ips=(), status=network_status({"eth0": "FD00:0::0010"}))
    assert told(six, shows, ETH0) == [f"fd00::10 {UNRECORDED}"]
    recorded = pool("six", "fd00::10-fd00::1f", {"fd00:0:0::10": claim("other")})
    assert said("fd00::10", recorded, shows, ETH0, pool="six") == IN_USE


def test_one_finding_for_one_record() -> None:
    """An address is told once per pool: in the record's own finding, if there is one."""
    web = pod("web", ips=[A], nics={"net1": "10.0.1.10"})
    things = (blue({A: web}), green({"10.0.1.10": web}), web, other(), ETH0, endpoint(web, {"eth0": f"{A}@blue"}))
    assert [item for item in beside(*things) if item.verdict == "Conflict"] == []
