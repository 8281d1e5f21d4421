"""SpiderMultusConfig."""

from __future__ import annotations

import pytest

from webhook.pool_objects import Object, judged, knowing, named, spider, written

CLUSTER = knowing(pools=[spider(), spider("six", "fd00::/64")])
BOND = {"name": "bond0", "mode": 1}


def macvlan(**block: object) -> Object:
    """A configuration of that kind; `eth1` is its master."""
    return {"cniType": "macvlan", "macvlan": {"master": ["eth1"], **block}}


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        (macvlan(), "allowed"),
        (macvlan(master=["eth0.100"]), "allowed"),
        (macvlan(master=[]), "denied: spec.macvlan.master: is empty"),
        (macvlan(master=None), "denied: spec.macvlan.master: is empty"),
        (macvlan(master=[""]), "denied: spec.macvlan.master[0]: an interface name must not be empty"),
        (
            macvlan(master=["eth1234567890123"]),
            "warned: spec.macvlan.master[0]: interface name 'eth1234567890123' has 16",
        ),
        (macvlan(master=["a/b"]), "denied: spec.macvlan.master[0]: interface name 'a/b' holds '/'"),
        (macvlan(master=["eth%d"]), "denied: spec.macvlan.master[0]: interface name 'eth%d' holds '%'"),
        (macvlan(master="eth1"), "denied: spec.macvlan.master: 'eth1' is not allowed; allowed: a list or null"),
        (
            macvlan(master=["eth1", "eth2"]),
            "denied: spec.macvlan.bond: is required where there are several masters (2)",
        ),
        (macvlan(master=["eth1", "eth2"], bond=BOND), "allowed"),
        (macvlan(master=["eth1", "eth1"], bond=BOND), "denied: spec.macvlan.master[1]: 'eth1' stands twice"),
        (
            macvlan(master=["eth1", "eth2"], bond={"mode": 1}),
            "denied: spec.macvlan.bond.name: an interface name must not",
        ),
        (macvlan(bond={**BOND, "mode": 7}), "denied: spec.macvlan.bond.mode: 7 is not allowed; allowed: 0 to 6"),
        (macvlan(vlanID=4094), "allowed"),
        (macvlan(vlanID=4095), "denied: spec.macvlan.vlanID: 4095 is not allowed; allowed: 0 to 4094"),
        (macvlan(vlanID=-1), "denied: spec.macvlan.vlanID: -1 is not allowed"),
        (macvlan(vlanID="5"), "denied: spec.macvlan.vlanID: '5' is not allowed; allowed: a whole number or null"),
        (
            macvlan(master=["enp129s0f0np0"], vlanID=100),
            "denied: spec.macvlan.vlanID: 100 makes the interface enp129s0f0np0.100: interface name",
        ),
        (
            {"cniType": "ipvlan", "ipvlan": {"master": ["enp129s0f0np0"], "vlanID": 100}},
            "denied: spec.ipvlan.vlanID: 100 makes the interface enp129s0f0np0.100: interface name",
        ),
        (
            {"cniType": "vlan", "vlan": {"master": ["enp129s0f0np0"], "vlanID": 100}},
            "warned: spec.vlan.vlanID: 100 makes the interface enp129s0f0np0.100: interface name",
        ),
        (
            {"cniType": "vlan", "vlan": {"master": ["eth1234567890123"], "vlanID": 100}},
            "warned: spec.vlan.master[0]: interface name 'eth1234567890123' has 16",
        ),
        (macvlan(master=["eth1234567890123"], vlanID=1), "denied: spec.macvlan.master[0]: interface name 'eth12345678"),
        (macvlan(master=["eth1234567890123"], vlanID=0), "warned: spec.macvlan.master[0]: interface name 'eth12345678"),
        (macvlan(master=["eth1234567890123"], bond=BOND), "denied: spec.macvlan.master[0]: interface name 'eth1234567"),
        (macvlan(ippools={"ipv4": ["blue"], "ipv6": ["six"]}), "allowed"),
        (macvlan(ippools={"ipv4": ["gone"]}), "warned: spec.macvlan.ippools.ipv4[0]: there is no SpiderIPPool 'gone'"),
        (
            macvlan(ippools={"ipv4": ["six"]}),
            "denied: spec.macvlan.ippools.ipv4[0]: SpiderIPPool 'six' is IPv6; allowed",
        ),
        (
            {**macvlan(ippools={"ipv4": ["blue"]}), "disableIPAM": True},
            "warned: spec.macvlan.ippools: does nothing where spec.disableIPAM is true",
        ),
        ({"cniType": "macvlan"}, "denied: spec.macvlan: is required where cniType is macvlan"),
        ({"cniType": "macvlan", "macvlan": None}, "denied: spec.macvlan: is required where cniType is macvlan"),
        ({**macvlan(), "ipvlan": {"master": [" "]}}, "allowed"),
        (
            {"cniType": "vlan", "vlan": {"master": ["."]}},
            "denied: spec.vlan.master[0]: interface name '.' is not allowed",
        ),
        ({"cniType": "ipoib", "ipoib": {"master": "ib0"}}, "allowed"),
        ({"cniType": "ipoib", "ipoib": {}}, "denied: spec.ipoib.master: an interface name must not be empty"),
        ({"cniType": "sriov", "sriov": {"vlanID": 5000}}, "denied: spec.sriov.vlanID: 5000 is not allowed"),
        (
            {"cniType": "ib-sriov", "ibsriov": {"ippools": {"ipv6": ["blue"]}}},
            "denied: spec.ibsriov.ippools.ipv6[0]: Sp",
        ),
        ({"cniType": "ovs", "ovs": {"vlan": -1}}, "denied: spec.ovs.vlan: -1 is not allowed"),
        ({"cniType": "ovs", "ovs": {"bridge": "br1"}}, "allowed"),
        ({"cniType": "ovs", "ovs": {}}, "allowed"),
        ({"cniType": "ovs", "ovs": {"bridge": "br/1"}}, "denied: spec.ovs.bridge: interface name 'br/1' holds '/'"),
        ({**macvlan(), "coordinator": {"podDefaultRouteNIC": "net1"}}, "allowed"),
        ({**macvlan(), "coordinator": {"podDefaultRouteNIC": ""}}, "allowed"),
        ({**macvlan(), "coordinator": {"mode": "auto"}}, "allowed"),
        (
            {**macvlan(), "coordinator": {"podDefaultRouteNIC": "net%d"}},
            "denied: spec.coordinator.podDefaultRouteNIC: interface name 'net%d' holds '%'",
        ),
        (
            {"coordinator": {"podDefaultRouteNIC": "a23456789012345x"}},
            "denied: spec.coordinator.podDefaultRouteNIC: interface name 'a23456789012345x' has 16 bytes",
        ),
        (
            {"cniType": "bridge"},
            "denied: spec.cniType: 'bridge' is not allowed; allowed: macvlan, ipvlan, vlan, ipoib,",
        ),
        ({}, "allowed"),
        ({"customCNI": ""}, "allowed"),
        ({"customCNI": '{"type": "x"}'}, "allowed"),
        ({"customCNI": "{"}, "denied: spec.customCNI: it is no valid JSON"),
        (
            {"customCNI": '{"type": "bridge", "ipam": {"type": "whereabouts", "range": "10.6.0.0"}}'},
            "denied: spec.customCNI ipam.range: '10.6.0.0' has no valid prefix",
        ),
        (
            {"chainCNIJsonData": ['{"type": "tuning"}', "x"]},
            "denied: spec.chainCNIJsonData[1]: it is no valid JSON",
        ),
    ],
)
def test_a_configuration(spec: Object, answer: str) -> None:
    """The block that fits cniType must be able to work on a host."""
    assert judged("config", named("smc", "kube-system", **spec), knowledge=CLUSTER).startswith(answer)


def test_doubt_about_pools() -> None:
    """A pool that is not known is not said to be absent; a family that may be old refuses nothing."""
    cluster = knowing("is old", pools=[spider("six", "fd00::/64")])
    obj = named("smc", "a", **macvlan(ippools={"ipv4": ["gone", "six", "x*"]}))
    assert judged("config", obj, knowledge=cluster) == (
        "warned: spec.macvlan.ippools.ipv4[1]: SpiderIPPool 'six' is IPv6; allowed here: IPv4"
    )


def test_blanks_round_names_go() -> None:
    """Of masters and bonds; a name that stays bad is left for the refusal to quote."""
    obj = named(
        "smc",
        "a",
        cniType="macvlan",
        macvlan={"master": [" eth1", "eth2\t", " a b "], "bond": {"name": " bond0 ", "mode": 1}},
        ipoib={"master": "ib0 "},
        vlan={"master": ["eth3"]},
        ovs={"bridge": " br1"},
        coordinator={"podDefaultRouteNIC": "net1 ", "mode": "auto"},
    )
    assert written("config", obj) == named(
        "smc",
        "a",
        cniType="macvlan",
        macvlan={"master": ["eth1", "eth2", " a b "], "bond": {"name": "bond0", "mode": 1}},
        ipoib={"master": "ib0"},
        vlan={"master": ["eth3"]},
        ovs={"bridge": "br1"},
        coordinator={"podDefaultRouteNIC": "net1", "mode": "auto"},
    )


def test_an_old_fault_stays() -> None:
    """Another master may be added to a configuration that was wrong before."""
    old = named("smc", "a", **macvlan(master=["a/b"], vlanID=9999))
    assert (
        judged("config", named("smc", "a", **macvlan(master=["eth1", "a/b"], vlanID=9999, bond=BOND)), old) == "allowed"
    )
