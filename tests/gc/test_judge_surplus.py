"""SurplusForOwner and NeverAttached: what a live owner holds and can use with no NIC that it has."""

import json

import pytest

from factories import (
    NETWORKS,
    Object,
    ago,
    blue,
    claim,
    digest,
    endpoint,
    green,
    launcher,
    nad,
    network_status,
    pod,
    pool,
    ref,
    said,
    stateful_set,
    verdict,
    virtual_machine_instance,
    words,
)
from poolwarden.gc.snapshot import Memory

A, B, C, D = "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"
DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
IN_USE = "InUse OwnerLive none"
TOLD = "Leaked SurplusForOwner none"
SURPLUS = "Leaked SurplusForOwner release"
ETH0, NET1 = nad("eth0"), nad("net1")


def app(**more: object) -> Object:
    """A pod that uses 10.0.0.10 on eth0."""
    return pod("app", **({"ips": [A]} | more))  # type: ignore[arg-type]


NAMED = endpoint("app", {"eth0": f"{A}@blue"})


def judged(owner: Object, *things: Object, address: str = B, held: tuple[str, ...] = (A, B)) -> str:
    """What is said of one of the addresses that the owner holds in `blue`."""
    return said(address, blue(dict.fromkeys(held, owner)), owner, *things)


# --- more addresses than NICs -----------------------------------------------------------------------------------------


def test_surplus_of_a_proven_owner() -> None:
    """Running and Ready, each NIC named in its endpoint with the address that it shows: the others go."""
    owner = app()
    found = verdict(B, blue({A: owner, B: owner}), owner, NAMED, ETH0)
    assert words(found) == SURPLUS
    assert A in found.message
    assert "default/app (UID app-uid)" in found.message
    assert judged(owner, NAMED, ETH0, address=A) == IN_USE


def test_one_address_is_never_surplus() -> None:
    """A single one may be the next ADD's answer, though the owner shows another."""
    owner = app()
    assert judged(owner, NAMED, ETH0, held=(B,)) == IN_USE


@pytest.mark.parametrize(
    ("owner", "things"),
    [
        (app(ready=False), (NAMED, ETH0)),
        (app(phase="Pending", ready=True), (NAMED, ETH0)),
        (app(phase="Unknown", ready=True), (NAMED, ETH0)),
        (app(networks="kube-system/other"), (NAMED, ETH0, nad("other", ipam="dhcp"))),
        (app(status=""), (NAMED, ETH0)),
        (app(), (ETH0,)),
        (app(), (endpoint("app", {"eth0": f"{A}@blue"}, uid="older-uid"), ETH0)),
        (app(), (endpoint("app", {"": f"{A}@blue"}), ETH0)),
        (app(), (endpoint("app", {"net1": f"{A}@blue"}), ETH0)),
        (app(), (endpoint("app", {"eth0": f"{C}@blue"}), ETH0)),
        (app(), (endpoint("app", {"eth0": f"{A}@blue", "net1": f"{B}@blue"}, uid="older-uid"), ETH0)),
        (app(nics={"net1": ()}), (NAMED, ETH0, nad("net1", master="eth9"), nad("x"))),
        # Its next ADD may drop the endpoint and take the surplus record, by a write that changes nothing (simulation, seed 43).
        (app(), (endpoint("app", {"eth0": f"{A}@blue"}, kind="StatefulSet"), ETH0)),
    ],
)
def test_surplus_that_is_only_told(owner: Object, things: tuple[Object, ...]) -> None:
    """Each part of the proof is needed to release; without it the surplus is told: it goes when the pod ends."""
    third = (A, B, C) if "net1" in owner["metadata"]["annotations"].get(NETWORKS, "") else (A, B)
    found = verdict(B, blue(dict.fromkeys(third, owner)), owner, *things)
    assert words(found) == TOLD
    assert f"deleting it frees {len(third) - 1} addresses" in found.message


def test_surplus_that_the_endpoint_lists() -> None:
    """A re-ADD would be answered with it. Under a NIC that is attached it is told."""
    listed = endpoint("app", [("eth0", f"{A}@blue"), ("eth0", f"{B}@blue")])
    assert judged(app(), listed, ETH0) == TOLD


def test_surplus_of_an_endpoint_that_cannot_be_read() -> None:
    """An item that makes no sense leaves open what else the endpoint lists."""
    broken = endpoint("app", {"eth0": f"{A}@blue", "net1": "10.0.0.300@blue"})
    assert judged(app(), broken, ETH0) == TOLD


def test_while_the_owner_shows_none_each_is_surplus() -> None:
    """Five retries of a Pending pod (#4295): any of them may become its address, so none is freed."""
    starting = pod("app", phase="Pending")
    five = (A, B, C, D, "10.0.0.14")
    for address in five:
        assert judged(starting, address=address, held=five) == TOLD
    found = verdict(A, blue(dict.fromkeys(five, starting)), starting)
    assert "deleting it frees 5 addresses" in found.message
    assert "uses none of them" in found.message


@pytest.mark.parametrize("address", [A, B])
def test_two_nics_may_have_two_addresses_of_one_pool(address: str) -> None:
    """Two records of one UID are no surplus where two NICs draw from the pool (v0.9.7)."""
    owner = app(nics={"net1": B})
    assert judged(owner, ETH0, NET1, address=address) == IN_USE
    assert judged(app(networks="kube-system/net1@net1"), ETH0, NET1, address=address) == IN_USE
    starting = pod("app", phase="Pending", networks="kube-system/net1")
    assert judged(starting, ETH0, NET1, address=address) == IN_USE


def test_three_addresses_for_two_nics() -> None:
    """The third is surplus: told while nothing is shown, freed once both NICs are proven to use the others."""
    starting = pod("app", phase="Pending", networks="kube-system/net1")
    assert judged(starting, ETH0, NET1, address=C, held=(A, B, C)) == TOLD
    running = app(nics={"net1": B})
    both = endpoint(running, {"eth0": f"{A}@blue", "net1": f"{B}@blue"})
    assert judged(running, both, ETH0, NET1, address=C, held=(A, B, C)) == SURPLUS
    for address in (A, B):
        assert judged(running, both, ETH0, NET1, address=address, held=(A, B, C)) == IN_USE


def test_nics_of_other_ipams_do_not_count() -> None:
    """A second NIC that another IPAM serves, or whose addresses lie in no pool, can use no address of this one."""
    two = app(nics={"net1": "192.168.0.9"})
    assert judged(two, NAMED, ETH0, nad("net1", ipam="dhcp")) == SURPLUS
    assert judged(two, NAMED, ETH0) == SURPLUS
    starting = pod("app", phase="Pending", networks="kube-system/net1")
    assert judged(starting, ETH0, nad("net1", ipam="dhcp")) == TOLD
    assert judged(starting, ETH0, nad("net1", ipam="")) == IN_USE


def test_default_network_of_another_ipam() -> None:
    """eth0 counts, unless the pod's default network is another IPAM's."""
    notes = {DEFAULT_NETWORK: "kube-system/calico"}
    starting = pod("app", phase="Pending", networks="kube-system/net1", annotations=notes)
    assert judged(starting, NET1, nad("calico", ipam="calico-ipam")) == TOLD
    assert judged(starting, NET1, nad("calico", ipam="spiderpool")) == IN_USE
    assert judged(starting, NET1) == IN_USE
    odd = pod("app", phase="Pending", networks="kube-system/net1", annotations={DEFAULT_NETWORK: "a/b/c"})
    assert judged(odd, NET1) == IN_USE


def test_networks_that_cannot_be_read_may_be_any_number() -> None:
    """No number of addresses is too many for a pod of which it is not known what it asks for."""
    many = (A, B, C, D)
    assert judged(pod("app", phase="Pending", networks="a/b/c"), held=many) == IN_USE


def ippools(text: str, **more: object) -> Object:
    """A starting pod with two NICs and that ippools annotation."""
    notes = {"ipam.spidernet.io/ippools": text}
    return pod("app", phase="Pending", networks="kube-system/net1", annotations=notes, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('[{"ipv4":["blue"]},{"ipv4":["green"]}]', TOLD),
        ('[{"interface":"eth0","ipv4":["blue"]},{"interface":"net1","ipv4":["blue"]}]', IN_USE),
        ('[{"ipv4":["blue"]},{"ipv4":["green","blue"]}]', IN_USE),
        ('[{"ipv4":["blue"]},{"ipv4":["bl*"]}]', IN_USE),
        ('[{"ipv4":["blue"]},{"ipv6":["blue"]}]', IN_USE),
        ('[{"ipv4":["blue"]},{}]', TOLD),
        ("[]", TOLD),
        ('[{"ipv4":"blue"}]', IN_USE),
        ("{", IN_USE),
    ],
)
def test_ippools_say_which_nics_draw_from_the_pool(text: str, expected: str) -> None:
    """`ippools` gives each NIC its own pools; one that cannot be read tells nothing."""
    assert judged(ippools(text), ETH0, NET1) == expected


def test_every_nic_must_be_named_in_the_endpoint() -> None:
    """With one of two NICs missing there, a later ADD may be answered with the surplus."""
    two = app(nics={"net1": B})
    assert judged(two, NAMED, ETH0, NET1, address=C, held=(A, B, C)) == TOLD


def test_nic_of_which_one_address_lies_in_a_pool() -> None:
    """Where no NAD tells, a NIC with any address of this IPAM's may draw from it."""
    two = app(nics={"net1": ["192.168.0.9", C]})
    assert judged(two, NAMED, ETH0) == IN_USE


def test_ippool_gives_every_nic_the_same_pools() -> None:
    """`ippool` is that of whichever NIC is attached."""
    notes = {"ipam.spidernet.io/ippool": '{"ipv4":["blue"]}'}
    starting = pod("app", phase="Pending", networks="kube-system/net1", annotations=notes)
    assert judged(starting, ETH0, NET1) == IN_USE


def test_pools_and_families_count_apart() -> None:
    """One address in each of two pools, or one of each family, is no surplus."""
    owner = pod("app", phase="Pending")
    six = pool("six", "fd00::10-fd00::1f", {"fd00::10": owner})
    things = (blue({A: owner}), green({"10.0.1.10": owner}), six, owner)
    assert said(A, *things) == IN_USE
    assert said("10.0.1.10", *things, pool="green") == IN_USE
    assert said("fd00::10", *things, pool="six") == IN_USE


def test_other_owners_do_not_count() -> None:
    """Only records of the same UID add up."""
    owner, other = pod("app", phase="Pending"), pod("other", phase="Pending")
    assert said(A, blue({A: owner, B: other}), owner, other) == IN_USE
    assert said(A, blue({A: owner, B: claim("app", "old-uid")}), owner) == IN_USE


def test_records_without_uid_are_no_surplus() -> None:
    """Nothing says that they are of one pod."""
    record = claim("app", "")
    assert said(A, blue({A: record, B: record}), pod("app", phase="Pending")) == "InUse NameLive none"


@pytest.mark.parametrize("owner", [app(deadline=ago(minutes=-1)), pod("app", phase="Failed", containers={})])
def test_an_owner_that_ends_has_no_surplus(owner: Object) -> None:
    """All its records go with it."""
    assert judged(owner, NAMED, ETH0) == IN_USE


def test_surplus_of_a_stateful_sets_pod() -> None:
    """The entitlement is to one address a NIC; the surplus is nobody's."""
    owner = pod("web-0", ips=[A])
    things = (blue({A: owner, B: owner}), owner, endpoint(owner, {"eth0": f"{A}@blue"}), ETH0, stateful_set("web"))
    assert said(B, *things) == SURPLUS


def test_surplus_that_a_virtual_machine_shows() -> None:
    """A guest may have the address that no pod shows."""
    machine = virtual_machine_instance("vm", ips=[B])
    assert judged(app(), NAMED, ETH0, machine) == TOLD


def test_surplus_while_no_nic_is_this_ipams() -> None:
    """A pod whose only NIC another IPAM serves proves nothing about where its ADDs would find their answer."""
    calico = pod("app", ips=["192.168.0.9"])
    assert judged(calico, endpoint("app", {}), nad("eth0", ipam="calico-ipam")) == TOLD


def test_surplus_of_a_virtual_machine() -> None:
    """A VM's endpoint carries the VM's name and the launcher's UID."""
    runs = launcher("vm", ips=[A], uid="launcher-uid")
    record = claim("vm", "launcher-uid")
    mine = endpoint("vm", {"eth0": f"{A}@blue"}, uid="launcher-uid", kind="VirtualMachineInstance")
    assert said(B, blue({A: record, B: record}), runs, mine, ETH0) == SURPLUS


# --- NICs that no attachment took -------------------------------------------------------------------------------------

GREEN_A = "10.0.1.10"
PHANTOM = "Leaked NeverAttached release"
UNNAMED = {"eth0": f"{A}@blue", "": f"{GREEN_A}@green"}


def phantom(owner: Object, items: object = UNNAMED, *things: Object, uid: str = "app-uid") -> str:
    """What is said of the address in `green` that the endpoint lists for a NIC which the pod does not have."""
    nets = things or (ETH0, NET1)
    mine = endpoint("app", items, uid=uid)  # type: ignore[arg-type]
    return said(GREEN_A, blue({A: owner}), green({GREEN_A: owner}), owner, mine, *nets, pool="green")


@pytest.mark.parametrize("interface", ["", "net1", "net2"])
def test_item_that_no_attachment_took(interface: str) -> None:
    """Unnamed or of a name that network-status does not have, while all that the pod asks for is up (#711)."""
    assert phantom(app(), {"eth0": f"{A}@blue", interface: f"{GREEN_A}@green"}) == PHANTOM


def test_message_about_an_item_that_no_attachment_took() -> None:
    """The finding names the interface, if it has one."""
    owner = app()
    mine = endpoint(owner, {"eth0": f"{A}@blue", "net7": f"{GREEN_A}@green"})
    found = verdict(GREEN_A, blue({A: owner}), green({GREEN_A: owner}), owner, mine, ETH0, pool="green")
    assert found.interface == "net7"
    assert "for interface net7 that no attachment ever took" in found.message
    unnamed = endpoint(owner, {"eth0": f"{A}@blue", "": f"{GREEN_A}@green"})
    found = verdict(GREEN_A, blue({A: owner}), green({GREEN_A: owner}), owner, unnamed, ETH0, pool="green")
    assert "for an unnamed interface that no attachment ever took" in found.message


@pytest.mark.parametrize(
    "owner",
    [
        app(ready=False),
        app(phase="Pending", ready=True),
        app(deadline=ago(minutes=-1)),
        app(networks="kube-system/net1"),
        app(status=""),
        app(networks="a/b/c"),
        app(nics={"net1": GREEN_A}),
        app(nics={"net1": ()}),
    ],
)
def test_owner_that_may_still_attach_it(owner: Object) -> None:
    """Each part of the proof is needed: else the item may be the next ADD's, and its address is in use."""
    assert phantom(owner) == IN_USE


@pytest.mark.parametrize(
    "items",
    [
        {"": f"{GREEN_A}@green"},
        {"eth0": f"{B}@blue", "": f"{GREEN_A}@green"},
        [("", f"{A}@blue"), ("", f"{GREEN_A}@green")],
        {"net5": f"{A}@blue", "": f"{GREEN_A}@green"},
        {"eth0": (f"{A}@blue", f"{GREEN_A}@green")},
        {"eth0": f"{A}@blue", "": f"{GREEN_A}@green", "net5": "10.0.0.300@blue"},
    ],
)
def test_endpoint_that_does_not_say_so(items: object) -> None:
    """Every NIC of this IPAM must be named in the endpoint with its address."""
    assert phantom(app(), items) == IN_USE


def test_item_that_we_took_out_already() -> None:
    """The item leaves the endpoint first; the record is then still that of a NIC which no attachment took."""
    owner, record = app(), claim("app")
    things = (blue({A: owner}), green({GREEN_A: record}), owner, NAMED, ETH0)
    fenced = Memory(fenced=frozenset({(ref("green"), digest(GREEN_A, record))}))
    assert said(GREEN_A, *things, pool="green", memory=fenced) == PHANTOM
    assert said(GREEN_A, *things, pool="green") == IN_USE
    other = Memory(fenced=frozenset({(ref("blue"), digest(GREEN_A, record))}))
    assert said(GREEN_A, *things, pool="green", memory=other) == IN_USE


def test_endpoint_of_another_uid() -> None:
    """An older pod's endpoint says nothing about this one's NICs."""
    assert phantom(app(), uid="older-uid") == IN_USE


def test_interface_that_another_ipam_serves() -> None:
    """A NIC of that name is there: that it is served by another IPAM is no proof that the item was never taken."""
    owner = app(nics={"net1": "192.168.0.9"})
    items = {"eth0": f"{A}@blue", "net1": f"{GREEN_A}@green"}
    assert phantom(owner, items, ETH0, nad("net1", ipam="dhcp")) == IN_USE


def test_nic_without_a_name_in_the_status() -> None:
    """An attachment that has no name, and another IPAM, is not the unnamed item's."""
    nics = [{"interface": "eth0", "ips": [A], "default": True}, {"name": "kube-system/x", "ips": ["192.168.0.9"]}]
    owner = app(status=json.dumps(nics), networks="kube-system/x")
    assert phantom(owner, UNNAMED, ETH0, nad("x", ipam="dhcp")) == PHANTOM


def test_address_that_another_ipam_gave_as_well() -> None:
    """The pod shows the address, on whatever NIC: it is in use."""
    owner = app(nics={"net1": GREEN_A})
    assert phantom(owner, UNNAMED, ETH0, nad("net1", ipam="dhcp", master="eth9")) == IN_USE


def test_a_phantom_of_a_stateful_sets_pod_stays() -> None:
    """Its next ADD may drop the endpoint, fence and all, and take the record by a write that changes nothing."""
    owner = app()
    records = blue({A: owner}), green({GREEN_A: owner})
    nic = endpoint(owner, UNNAMED, kind="StatefulSet")
    assert said(GREEN_A, *records, owner, nic, ETH0, pool="green") == "Leaked NeverAttached none"


def test_phantom_with_both_families() -> None:
    """Both addresses of an unnamed item are judged, each in its pool."""
    owner = app()
    six = pool("six", "fd00::10-fd00::1f", {"fd00::10": owner})
    mine = endpoint(owner, {"eth0": f"{A}@blue", "": (f"{GREEN_A}@green", "fd00::10@six")})
    things = (blue({A: owner}), green({GREEN_A: owner}), six, owner, mine, ETH0)
    assert said(GREEN_A, *things, pool="green") == PHANTOM
    assert said("fd00::10", *things, pool="six") == PHANTOM


def test_unnamed_item_that_is_attached() -> None:
    """A NIC that network-status shows with that address was taken; only its name is missing."""
    owner = app(nics={"net1": GREEN_A})
    assert phantom(owner) == IN_USE


def test_phantom_in_the_pool_of_the_real_nic() -> None:
    """Two items of one pool, one NIC: the second goes as never attached, for the endpoint lists it."""
    owner = app()
    mine = endpoint(owner, {"eth0": f"{A}@blue", "": f"{B}@blue"})
    found = verdict(B, blue({A: owner, B: owner}), owner, mine, ETH0)
    assert found.verdict == "Leaked"
    assert "10.0.0.11" in found.message


def test_network_status_by_another_order() -> None:
    """The order of NICs in status and endpoint is of no matter."""
    owner = app(status=network_status({"net1": "10.0.0.12", "eth0": A}), networks="kube-system/net1@net1")
    items = {"": f"{GREEN_A}@green", "net1": "10.0.0.12@blue", "eth0": f"{A}@blue"}
    assert phantom(owner, items) == PHANTOM
