"""What Multus says of a pod's NICs."""

import json

import pytest

from poolwarden.ipam.network import (
    Attachment,
    Attachments,
    AttachmentsUnreadable,
    NetworkStatus,
    NoStatus,
    Plumbing,
    StatusEntry,
    StatusUnreadable,
    addresses_in,
    parse_network_status,
    parse_networks,
    parse_plumbing,
)

# --- network-status -----------------------------------------------------------------------------------------------------


def test_network_status_as_multus_writes_it() -> None:
    """Indented JSON with more keys than we read; the default network's name may be a CNI configuration's."""
    text = """[{
        "name": "k8s-pod-network", "interface": "eth0", "ips": ["10.0.0.5", "FD00::5"], "mac": "02:00:00:00:00:01",
        "default": true, "dns": {}, "gateway": ["10.0.0.1"]
    },{
        "name": "kube-system/net1", "interface": "net1", "ips": ["10.0.1.5/24"], "dns": {},
        "device-info": {"type": "pci", "version": "1.0.0", "pci": {"pci-address": "0000:af:06.0"}}
    }]"""
    assert parse_network_status(text) == NetworkStatus(
        (
            StatusEntry("k8s-pod-network", "eth0", ("10.0.0.5", "fd00::5"), default=True),
            StatusEntry("kube-system/net1", "net1", ("10.0.1.5",), default=False),
        )
    )


@pytest.mark.parametrize("text", [None, "", "  ", "\n"])
def test_no_network_status(text: str | None) -> None:
    """An absent or blank annotation is none."""
    assert parse_network_status(text) == NoStatus()


@pytest.mark.parametrize(
    ("text", "entries"),
    [
        ("[]", ()),
        ("[{}]", (StatusEntry("", "", (), default=False),)),
        ('[{"interface": "eth0", "ips": null}]', (StatusEntry("", "eth0", (), default=False),)),
        ('[{"interface": "eth0", "ips": []}]', (StatusEntry("", "eth0", (), default=False),)),
    ],
)
def test_entries_that_say_little(text: str, entries: tuple[StatusEntry, ...]) -> None:
    """Missing keys are empty."""
    assert parse_network_status(text) == NetworkStatus(entries)


@pytest.mark.parametrize(
    ("text", "ips"),
    [
        ("{", ()),
        ("null", ()),
        ("{}", ()),
        ("[null]", ()),
        ('["10.0.0.5"]', ("10.0.0.5",)),
        ('[{"ips": "10.0.0.5"}]', ("10.0.0.5",)),
        ('[{"ips": ["10.0.0.5", "10.0.0.256"]}]', ("10.0.0.5",)),
        ('[{"ips": ["10.0.0.5/99"]}]', ("10.0.0.5",)),
        ('[{"ips": [""]}]', ()),
        ('[{"interface": 5}]', ()),
        ('[{"ips": ["10.0.0.5", "fd00::5"', ("10.0.0.5", "fd00::5")),
        ('[{"ips": ["10.0.0.5"]}] trailing', ("10.0.0.5",)),
    ],
)
def test_unreadable_network_status(text: str, ips: tuple[str, ...]) -> None:
    """Whatever is no list of entries; what addresses still stand in it are told."""
    found = parse_network_status(text)
    assert isinstance(found, StatusUnreadable)
    assert found.problem
    assert found.ips == ips


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("10.0.0.5", ("10.0.0.5",)),
        ("x 10.0.0.5, FD00::5; 10.0.0.5.", ("10.0.0.5", "fd00::5")),
        ("10.0.0.5/24", ("10.0.0.5",)),
        ("fe80::1%eth0", ("fe80::1",)),
        ("v1.2.3", ()),
        ("02:00:00:00:00:01", ()),
        ("::ffff:10.0.0.5", ("10.0.0.5",)),
        (json.dumps(json.dumps({"ips": ["10.0.0.5"]})), ("10.0.0.5",)),
    ],
)
def test_addresses_in_a_text(text: str, expected: tuple[str, ...]) -> None:
    """Every address once, canonical, in the order in which they stand."""
    assert addresses_in(text) == expected


# --- the networks annotation --------------------------------------------------------------------------------------------

IN_DEFAULT = "default"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, []),
        ("", []),
        ("net", [("default/net", "net1")]),
        ("a,b", [("default/a", "net1"), ("default/b", "net2")]),
        (" a , kube-system/b ", [("default/a", "net1"), ("kube-system/b", "net2")]),
        ("a@x,b", [("default/a", "x"), ("default/b", "net2")]),
        ("kube-system/a@x", [("kube-system/a", "x")]),
        ('[{"name":"a"}]', [("default/a", "net1")]),
        ('[{"name":"a","namespace":"n"}]', [("n/a", "net1")]),
        ('[{"name":"a","interface":"x"},{"name":"b"}]', [("default/a", "x"), ("default/b", "net2")]),
        ('[{"name":"a","interfaceRequest":"y"}]', [("default/a", "y")]),
        ('[{"name":"a","interface":"x","interfaceRequest":"y"}]', [("default/a", "x")]),
        ('[\n  {"name": "a", "ips": ["10.0.0.5/24"]}\n]', [("default/a", "net1")]),
        ("[]", []),
    ],
)
def test_networks_that_a_pod_asks_for(text: str | None, expected: list[tuple[str, str]]) -> None:
    """Both forms; unnamed ones are named by their position, counted from 1, as Multus does."""
    assert parse_networks(text, IN_DEFAULT) == Attachments(tuple(Attachment(*item) for item in expected))


@pytest.mark.parametrize(
    "text", ["a/b/c", "a@b@c", "a,,b", ",", " ", "[", '{"name":"a"}', '["a"]', '[{"name":5}]', '"a"']
)
def test_unreadable_networks(text: str) -> None:
    """What Multus would refuse is told, not guessed."""
    found = parse_networks(text, IN_DEFAULT)
    assert isinstance(found, AttachmentsUnreadable)
    assert found.problem


# --- CNI configurations -------------------------------------------------------------------------------------------------


W = {"type": "whereabouts"}


@pytest.mark.parametrize(
    ("config", "ipams", "master", "silent"),
    [
        ({"type": "macvlan", "master": "eth1", "ipam": {"type": "spiderpool"}}, {"spiderpool"}, "eth1", False),
        ({"Type": "macvlan", "MASTER": "eth1", "IPAM": {"Type": "whereabouts"}}, {"whereabouts"}, "", False),
        ({"master": "eth1", "Master": "eth2", "ipam": {"type": "a"}, "IPAM": {"type": "b"}}, {"a", "b"}, "", False),
        (
            {"plugins": [{"master": "eth1", "ipam": {"type": "a"}}], "Plugins": [{"master": "eth2"}]},
            {"a"},
            "",
            False,
        ),
        (
            {"plugins": [{"master": "eth1", "ipam": {"type": "spiderpool"}}, {"type": "tuning"}]},
            {"spiderpool"},
            "eth1",
            False,
        ),
        ({"Plugins": [{"ipam": {"type": "a"}}, {"ipam": {"type": "b"}, "master": "eth2"}]}, {"a", "b"}, "", False),
        ({"plugins": [{"type": "ifacer"}, {"type": "macvlan", "ipam": W}]}, {"whereabouts"}, "", False),
        ({"plugins": [{"type": "bridge"}, {"type": "x", "ipam": W}]}, {"whereabouts"}, "", True),
        ({"type": "flannel", "delegate": {"ipam": {"type": "spiderpool"}}}, set(), "", True),
        ({"type": "flannel", "ipam": W, "Delegate": {}}, {"whereabouts"}, "", True),
        ({"type": "multus", "ipam": W, "delegates": [{}]}, {"whereabouts"}, "", True),
        ({"type": "macvlan"}, set(), "", True),
        ({"type": ["macvlan"], "ipam": "x"}, set(), "", True),
        ({"type": "ovs", "ipam": {}}, set(), "", True),
        ({"type": "ovs", "ipam": {"type": 5}, "master": 7}, set(), "", True),
        ({"type": {}, "ipam": {"type": {}}, "master": ["x"]}, set(), "", True),
        ({"master": ""}, set(), "", True),
        ({"plugins": "x", "ipam": {"type": "a"}}, {"a"}, "", False),
        ({"plugins": ["x", None]}, set(), "", True),
    ],
)
def test_what_a_nad_tells(config: object, ipams: set[str], master: str, silent: bool) -> None:  # noqa: FBT001
    """The types of its IPAMs and the first master, of a configuration or a list of plugins; keys as Go matches them."""
    assert parse_plumbing(json.dumps(config)) == Plumbing(frozenset(ipams), master, silent=silent)


@pytest.mark.parametrize("config", ["", "{", "x", "[]", "null", '"x"'])
def test_configuration_that_cannot_be_read(config: str) -> None:
    """It tells nothing, and that is told."""
    assert parse_plumbing(config) == Plumbing(readable=False)
