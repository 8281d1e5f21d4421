"""Evidence: a snapshot, indexed. Its indexes answer as a look at everything would."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from factories import (
    NOW,
    UNREAD,
    Object,
    blue,
    claim,
    endpoint,
    launcher,
    nad,
    network_status,
    pod,
    pool,
    snapshot,
    undecodable,
)
from poolwarden.cluster.interface import NotInstalled
from poolwarden.gc.evidence import CompleteStatus, Evidence, IncompleteStatus, split_ordinal
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.spiderpool import NAME

A, B = "10.0.0.10", "10.0.0.11"


def evidence(*things: Object) -> Evidence:
    """The evidence of a cluster."""
    return Evidence(snapshot(*things), BACKENDS[NAME], NOW)


# --- pools by address ---------------------------------------------------------------------------------------------------

numbers = st.integers(0, 12)
spans = st.tuples(numbers, numbers).map(lambda pair: f"10.0.0.{min(pair)}-10.0.0.{max(pair)}")
pools = st.lists(st.lists(spans, max_size=3), max_size=4).map(
    lambda lists: [pool(f"pool-{at}", spans, total=0) for at, spans in enumerate(lists)]
)


def members(thing: Object) -> set[int]:
    """The last numbers of a pool's addresses."""
    ends = [[int(end.rpartition(".")[2]) for end in text.split("-")] for text in thing["spec"]["ips"]]
    return {number for first, last in ends for number in range(first, last + 1)}


@given(pools)
@settings(deadline=None)
def test_pools_that_hold_an_address(things: list[Object]) -> None:
    """Every pool whose ranges hold it, and no other."""
    found = evidence(*things)
    for number in range(14):
        names = {held.ref.name for held in found.pools_at(f"10.0.0.{number}")}
        assert names == {thing["metadata"]["name"] for thing in things if number in members(thing)}
    assert found.pools_at("fd00::1") == ()


@given(pools)
@settings(deadline=None)
def test_pools_that_overlap(things: list[Object]) -> None:
    """Each pair that shares an address, both ways."""
    pairs = {(ref.name, other.name) for ref, others in evidence(*things).overlaps().items() for other in others}
    assert pairs == {
        (one["metadata"]["name"], two["metadata"]["name"])
        for one in things
        for two in things
        if one is not two and members(one) & members(two)
    }


def test_the_last_address_of_ipv4() -> None:
    """Ranges may end where a family ends; IPv6 begins anew."""
    found = evidence(pool("all", "255.255.255.0-255.255.255.255"), pool("six", "::-::ff"))
    assert [held.ref.name for held in found.pools_at("255.255.255.255")] == ["all"]
    assert [held.ref.name for held in found.pools_at("::")] == ["six"]
    assert found.pools_at("0.0.0.0") == ()


# --- a pod's NICs -------------------------------------------------------------------------------------------------------


def nics(thing: Object, *others: Object) -> CompleteStatus | IncompleteStatus:
    """What is known of a pod's NICs."""
    found = evidence(thing, *others)
    return found.nics(found.pods["default", thing["metadata"]["name"]])


@pytest.mark.parametrize(
    "thing",
    [
        pod("app", ips=[A]),
        pod("app", ips=[A], nics={"net1": B}),
        pod("app", ips=[A], nics={"net1": B}, networks="kube-system/net1"),
        pod("app", ips=[A], nics={"x": B}, networks="kube-system/x"),
        pod("app", ips=[A], nics={"net1": (), "net2": B}, networks="other@net1,more@net2"),
        pod("app", ips=[A], nics={"net1": B}, networks='[{"name":"net1","namespace":"kube-system"}]'),
        pod("app", ips=[A], nics={"more": B}, networks=""),
        pod("app", status=network_status({"net1": B, "eth0": A}), networks="net1"),
    ],
)
def test_complete_network_status(thing: Object) -> None:
    """It lists every attachment that is asked for, by interface or by network, and the default one."""
    assert isinstance(nics(thing), CompleteStatus)


@pytest.mark.parametrize(
    ("thing", "why"),
    [
        (pod("app", ips=[A], networks="kube-system/net1"), "lacks kube-system/net1 (net1)"),
        (pod("app", ips=[A], nics={"net1": B}, networks="a@net1,a@net2"), "lacks default/a (net2)"),
        (pod("app", ips=[A], nics={"net1": B}, networks="kube-system/net1,kube-system/net1"), "lacks kube-system/net1"),
        (pod("app", status=network_status({"net1": B}), networks="net1"), "lacks the default network"),
        (pod("app", status="[]"), "lacks the default network"),
        (pod("app", ips=[A], networks="a/b/c"), "networks annotation cannot be read"),
        (pod("app", status="{"), "network-status cannot be read"),
        (pod("app", ips=[A], status="", networks="net1"), "no network-status"),
        (pod("app"), "no network-status"),
        (pod("app", ips=[A], status="", networks="eth0"), "no network-status"),
    ],
)
def test_incomplete_network_status(thing: Object, why: str) -> None:
    """And why it is, for messages."""
    found = nics(thing)
    assert isinstance(found, IncompleteStatus)
    assert why in found.why


@pytest.mark.parametrize("default", ["", ', "default": true'])
def test_one_entry_stands_for_one_attachment(default: str) -> None:
    """eth0 is no attachment that the annotation asks for, whether it is marked as the default or not."""
    status = f'[{{"name": "kube-system/eth0", "interface": "eth0"{default}}}]'
    assert isinstance(nics(pod("app", status=status, networks="kube-system/eth0")), IncompleteStatus)
    assert isinstance(nics(pod("app", status=status)), CompleteStatus)


def test_another_attachment_is_none_that_was_asked_for() -> None:
    """Neither its interface nor its network fits."""
    other = pod("app", ips=[A], nics={"net7": B}, networks="kube-system/net1")
    assert isinstance(nics(other), IncompleteStatus)


def test_pod_ips_stand_for_eth0_without_multus_only() -> None:
    """One NAD anywhere, readable or not, is Multus."""
    plain = pod("app", ips=[A], status="")
    found = nics(plain)
    assert isinstance(found, CompleteStatus)
    assert [(entry.interface, entry.ips) for entry in found.entries] == [("eth0", (A,))]
    assert isinstance(nics(plain, nad("any")), IncompleteStatus)
    assert isinstance(nics(plain, undecodable(nad("any"))), IncompleteStatus)
    without = Evidence(snapshot(plain, coverage={NETWORK_ATTACHMENTS: NotInstalled()}), BACKENDS[NAME], NOW)
    assert isinstance(without.nics(without.pods["default", "app"]), CompleteStatus)
    unread = Evidence(snapshot(plain, coverage={NETWORK_ATTACHMENTS: UNREAD}), BACKENDS[NAME], NOW)
    assert isinstance(unread.nics(unread.pods["default", "app"]), IncompleteStatus)


# --- whose endpoint it is -----------------------------------------------------------------------------------------------


def test_endpoint_of_a_pod() -> None:
    """Under its own name or its machine's, and only with its UID."""
    runs, plain = launcher("vm", uid="launcher-uid"), pod("app")
    of_machine, own = endpoint("vm", {}, uid="launcher-uid"), endpoint("app", {})
    found = evidence(runs, plain, of_machine, own)
    by_name = {thing.metadata.name: found.endpoint_of(thing) for thing in found.pods.values()}
    assert [by_name[name].name for name in ("virt-launcher-vm-a", "app")] == ["vm", "app"]  # type: ignore[union-attr]
    found = evidence(runs, plain, endpoint("vm", {}, uid="x"), endpoint("app", {}, uid="x"))
    assert [found.endpoint_of(thing) for thing in found.pods.values()] == [None, None]
    del plain["metadata"]["uid"]
    found = evidence(plain, endpoint("app", {}, uid=""))
    assert [found.endpoint_of(thing) for thing in found.pods.values()] == [None]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("web-0", ("web", 0)),
        ("a-b-12", ("a-b", 12)),
        ("web", ("", None)),
        ("web-", ("web", None)),
        ("-1", ("", None)),
        ("web-1a", ("web", None)),
        ("web-\N{ARABIC-INDIC DIGIT TWO}", ("web", None)),
        ("web-" + "9" * 5000, ("web", None)),
        ("web-2147483647", ("web", 2147483647)),
        ("web-12345678901", ("web", None)),
    ],
)
def test_names_that_end_in_an_ordinal(name: str, expected: tuple[str, int | None]) -> None:
    """The stem is the set's name; an ordinal is an int32."""
    assert split_ordinal(name) == expected


def test_addresses_are_indexed_by_who_shows_them() -> None:
    """In one order, whatever the order of the lists."""
    first, second = pod("first", ips=[A]), pod("second", nics={"net1": A})
    for things in ((first, second), (second, first)):
        shown = evidence(*things, blue({A: claim("x")})).shown[A]
        assert [(shower.who.partition(" ")[0], shower.interface) for shower in shown] == [
            ("default/first", "eth0"),
            ("default/second", "net1"),
        ]
