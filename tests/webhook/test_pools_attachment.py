"""NetworkAttachmentDefinition."""

from __future__ import annotations

import json
from typing import Any

import pytest

from webhook.pool_objects import NOBODY, Object, judged, knowing, nad, named, spider, written

W: Object = {"type": "whereabouts"}
N: Object = {"ipRanges": [{"range": "10.100.0.0/16"}]}
MANAGER: Object = {"cooldown_period": "70s", "low_ip_count": 50, "target_ip_count": 75, "high_ip_count": 100}


@pytest.mark.parametrize(
    ("config", "answer"),
    [
        ("", "allowed"),
        ("{}", "allowed"),
        (" ", "denied: spec.config: it is no valid JSON"),
        ("{", "denied: spec.config: it is no valid JSON"),
        ("{'type': 'macvlan'}", "denied: spec.config: it is no valid JSON"),
        ("[]", "denied: spec.config: it is no JSON object"),
        ('{"plugins": {}}', "denied: spec.config: plugins is no list of objects"),
        ('{"plugins": [1]}', "denied: spec.config: plugins is no list of objects"),
        (
            '{"plugins": [{"type": "tuning"}, {"ipam": {"type": "whereabouts", "range": "x"}}]}',
            "denied: spec.config plug",
        ),
        ("[" * 100_000, "denied: spec.config: it is no valid JSON"),
        ('{"a": "\\ud800"}', "denied: spec.config: "),
        ('{"type": "bridge", "ipam": "x"}', "denied: spec.config ipam: is no object"),
        ('{"type": "bridge", "ipam": {}}', "allowed"),
        ('{"type": "bridge", "ipam": null}', "allowed"),
        ('{"type": ["macvlan"], "master": "eth 0"}', "allowed"),
        ('{"type": {}, "ipam": {"type": {}}}', "allowed"),
        ('{"TYPE": "macvlan", "Master": "eth 0"}', "denied: spec.config master: interface name 'eth 0' holds ' '"),
        (
            '{"Plugins": [{"IPAM": {"Type": "whereabouts", "Range": "x"}}]}',
            "denied: spec.config plugins[0].ipam.range: 'x'",
        ),
        ('{"type": "macvlan", "IPAM": {"TYPE": "whereabouts", "range": "10.6.0.0/24"}}', "allowed"),
        ('{"type": "macvlan", "master": "eth0.100"}', "allowed"),
        ('{"type": "macvlan", "master": ""}', "allowed"),
        ('{"type": "macvlan", "master": "eth 0"}', "denied: spec.config master: interface name 'eth 0' holds ' '"),
        (
            '{"type": "macvlan", "master": "enp129s0f0np0v12"}',
            "warned: spec.config master: interface name 'enp129s0f0np0",
        ),
        ('{"type": "calico", "master": "a b", "ipam": {"type": "calico-ipam", "range": 5, "manager": 1}}', "allowed"),
    ],
)
def test_a_configuration(config: str, answer: str) -> None:
    """It is JSON as Multus takes it; other plugins' settings are their own affair."""
    assert judged("nad", named("net", "team-a", config=config)).startswith(answer)


@pytest.mark.parametrize(
    ("ipam", "answer"),
    [
        ({"type": "host-local", "ranges": [[{"subnet": "x"}]], "manager": {}}, "allowed"),
        ({"type": "static", "addresses": [{"address": "x"}]}, "allowed"),
        ({"type": "dhcp"}, "allowed"),
        ({**W, "range": "10.6.0.0/24"}, "allowed"),
        ({**W, "range": "10.6.0.7/24"}, "warned: spec.config ipam.range: '10.6.0.7/24' has host bits; versions differ"),
        (
            {**W, "range": "10.6.0.0/24", "range_strat": "10.6.0.9"},
            "warned: spec.config ipam.range_strat: whereabouts ign",
        ),
        (
            {**W, "ipRanges": [{"range": "10.6.0.0/24", "network_name": "x"}]},
            "warned: spec.config ipam.ipRanges[0].network",
        ),
        (
            {**W, "Range": "10.6.0.0/24", "RANGE_START": "10.7.0.1"},
            "denied: spec.config ipam.range_start: '10.7.0.1' lies",
        ),
        ({**N, "manager": MANAGER}, "allowed"),
        (N, "allowed"),
        (
            {**N, "manager": {**MANAGER, "low_ip_count": 80}},
            "denied: spec.config ipam.manager.low_ip_count: low must be le",
        ),
        (
            {**N, "manager": {**MANAGER, "high_ip_count": 70}},
            "denied: spec.config ipam.manager.high_ip_count: high must be",
        ),
        (
            {**N, "manager": {**MANAGER, "cooldown_period": "10s"}},
            "warned: spec.config ipam.manager.cooldown_period: '10s'",
        ),
        (
            {"ipRanges": [{"range": "10.6.0.0/24", "network_name": "x"}]},
            "warned: spec.config ipam.ipRanges[0].network_name",
        ),
        ({"type": "spiderpool"}, "allowed"),
        (
            {"type": "spiderpool", "default_ipv4_ippools": []},
            "warned: spec.config ipam.default_ipv4_ippools: Spiderpool ig",
        ),
        (
            {"type": "spiderpool", "default_ipv4_ippool": "blue"},
            "denied: spec.config ipam.default_ipv4_ippool: a string is",
        ),
        (
            {"type": "spiderpool", "default_ipv4_ippool": ["gone"]},
            "warned: spec.config ipam.default_ipv4_ippool[0]: there",
        ),
        (
            {"type": "spiderpool", "default_ipv6_ippool": ["blue"]},
            "denied: spec.config ipam.default_ipv6_ippool[0]: Spider",
        ),
        ({"type": "spiderpool", "default_ipv4_ippool": ["b*"]}, "allowed"),
        (
            {"type": "spiderpool", "default_ipv4_ippool": ["x*"]},
            "warned: spec.config ipam.default_ipv4_ippool[0]: 'x*' mat",
        ),
        (
            {"type": "spiderpool", "clean_gateway": "yes"},
            "denied: spec.config ipam.clean_gateway: a string is not allowed; n",
        ),
    ],
)
def test_the_settings_of_an_ipam(ipam: Any, answer: str) -> None:
    """What its plugin would refuse is refused, what it would skip in silence is told."""
    assert judged("nad", nad(ipam), knowledge=knowing(pools=[spider()])).startswith(answer)


def test_overlap_with_another_ipam_warns() -> None:
    """And is told once for what is new."""
    cluster = knowing(pools=[spider(ips=["10.6.0.5-10.6.0.9"])])
    inside = nad({**W, "range": "10.6.0.0/24"})
    assert judged("nad", inside, knowledge=cluster).startswith(
        "warned: spec.config ipam: SpiderIPPool blue hands out 10.6.0.5-10.6.0.9, too"
    )
    assert judged("nad", nad({**W, "range": "10.6.0.0/24", "exclude": ["10.6.0.0/28"]}), knowledge=cluster) == "allowed"
    assert judged("nad", nad({**W, "range": "10.6.0.0/24", "log_level": "debug"}), inside, cluster) == "allowed"


def test_overlap_in_keys_of_another_case_warns() -> None:
    """Go reads them all the same, in the object under review and in those that are known."""
    folded = named("net", "team-a", config='{"IPAM": {"Type": "whereabouts", "Range": "10.6.0.0/24"}}')
    pool = spider(ips=["10.6.0.5"])
    assert judged("nad", folded, knowledge=knowing(pools=[pool])).startswith(
        "warned: spec.config ipam: SpiderIPPool blue"
    )
    assert judged("pool", pool, knowledge=knowing(nads=[folded])).startswith("warned: spec.ips: the whereabouts range")


def test_one_ipam_does_not_overlap_itself() -> None:
    """A whereabouts range is not told that its own pool holds its addresses, nor other attachments of it."""
    own = {"whereabouts": [named("10.6.0.0-24", "kube-system", range="10.6.0.0/24")]}
    cluster = knowing(**own, nads=[nad({**W, "range": "10.6.0.0/24"}, "other")])
    assert judged("nad", nad({**W, "range": "10.6.0.0/24"}), knowledge=cluster) == "allowed"


@pytest.mark.parametrize("config", ["{", '{"ipam": {"type": "whereabouts", "range": "x", "typo": 1}}'])
def test_an_old_fault_stays(config: str) -> None:
    """A label can be put on a NAD that was wrong before."""
    old = named("net", "team-a", config=config)
    new: Object = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert judged("nad", new, old, NOBODY) == "allowed"


def test_it_is_never_rewritten() -> None:
    """Neither canonical nor sorted, but keys are offsets from the range as written."""
    config = json.dumps({"type": "macvlan", "master": " eth1 ", "ipam": {**W, "range": "FD00:20:0:0::/64"}})
    obj = named("net", "team-a", config=config)
    assert written("nad", obj) == obj
