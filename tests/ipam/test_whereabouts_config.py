"""The configuration of whereabouts, read as v0.9.4 reads it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.ipam.whereabouts_config import WhereaboutsConfig, WhereaboutsConfigRefused, parse_whereabouts

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def handed_out(**ipam: Any) -> list[str]:
    """What each range hands out, with the name of its IPPool."""
    config = parse_whereabouts({"type": "whereabouts", **ipam})
    assert isinstance(config, WhereaboutsConfig), config
    return [f"{item.pool}: {item.addresses}" for item in config.ranges]


def faults(**ipam: Any) -> list[str]:
    """Why it is refused."""
    config = parse_whereabouts({"type": "whereabouts", **ipam})
    assert isinstance(config, WhereaboutsConfigRefused), config
    return [f"{fault.key}: {fault.text}" for fault in config.faults]


def remarks(**ipam: Any) -> list[str]:
    """What is told of one that is taken."""
    config = parse_whereabouts({"type": "whereabouts", **ipam})
    assert isinstance(config, WhereaboutsConfig), config
    return [f"{remark.key}: {remark.text}" for remark in config.remarks]


@pytest.mark.parametrize(
    ("ipam", "found"),
    [
        ({"range": "10.6.0.0/29"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.3/29"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"RANGE": "10.6.0.0/29"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.0/30", "network_name": "blue"}, ["blue-10.6.0.0-30: 10.6.0.1-10.6.0.2"]),
        ({"range": "FD00:20:0:0::/64"}, ["fd00-20---64: fd00:20::1-fd00:20::ffff:ffff:ffff:fffe"]),
        ({"range": "10.6.0.4-10.6.0.9/24"}, ["10.6.0.0-24: 10.6.0.4-10.6.0.9"]),
        ({"range": "10.6.0.0-10.6.0.255/24"}, ["10.6.0.0-24: 10.6.0.1-10.6.0.254"]),
        ({"range": "10.6.0.0/24", "range_start": "10.6.0.250"}, ["10.6.0.0-24: 10.6.0.250-10.6.0.254"]),
        ({"range": "10.6.0.0/24", "range_end": "10.6.0.2"}, ["10.6.0.0-24: 10.6.0.1-10.6.0.2"]),
        (
            {"range": "10.6.0.0/24", "range_start": "10.6.0.0", "range_end": "10.6.0.3"},
            ["10.6.0.0-24: 10.6.0.1-10.6.0.3"],
        ),
        (
            {"range": "10.6.0.0/29", "range_start": "10.6.0.0", "range_end": "10.6.0.0"},
            ["10.6.0.0-29: 10.6.0.1-10.6.0.6"],
        ),
        ({"range": "10.6.0.0/29", "range_start": "10.6.0.7"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.0-10.6.0.0/29"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.0/29", "exclude": ["10.6.0.5/30", "10.6.0.2"]}, ["10.6.0.0-29: 10.6.0.1,10.6.0.3"]),
        (
            {"range": "10.6.0.0/30", "ipRanges": [{"range": "fd00::/126"}, {"range": "10.7.0.0/30"}]},
            ["10.6.0.0-30: 10.6.0.1-10.6.0.2", "fd00---126: fd00::1-fd00::2", "10.7.0.0-30: 10.7.0.1-10.7.0.2"],
        ),
        ({"addresses": [{"address": "10.6.0.9/24", "gateway": "10.6.0.1"}]}, []),
        ({"addresses": [{"address": "010.006.0.9/024"}]}, []),
        ({"range": "010.006.000.0/29"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.0/0029"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "::ffff:10.6.0.0/125"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.04-10.06.0.9/24"}, ["10.6.0.0-24: 10.6.0.4-10.6.0.9"]),
        ({"range": "10.6.0.0/24", "range_start": "10.6.0.0250"}, ["10.6.0.0-24: 10.6.0.250-10.6.0.254"]),
        (
            {"range": "10.6.0.0/24", "range_end": "10.6.0.002", "gateway": "010.6.0.1"},
            ["10.6.0.0-24: 10.6.0.1-10.6.0.2"],
        ),
        ({"ipRanges": [{"range": "010.6.0.0/29"}]}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.0/29", "range_start": "abc", "range_end": "x"}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
        ({"range": "10.6.0.4-10.6.0.9/24", "range_start": "10.9.0.1"}, ["10.6.0.0-24: 10.6.0.4-10.6.0.9"]),
        (
            {"range": "10.6.0.0/29", "routes": [{"dst": "::ffff:10.0.0.0/120"}, {"dst": "::/0", "mtu": 9}]},
            ["10.6.0.0-29: 10.6.0.1-10.6.0.6"],
        ),
        ({"range": "10.6.0.0/29", "dns": {"nameservers": ["x"], "domain": "x"}}, ["10.6.0.0-29: 10.6.0.1-10.6.0.6"]),
    ],
)
def test_what_is_handed_out(ipam: dict[str, Any], found: list[str]) -> None:
    """Neither network nor broadcast address, nothing outside the bounds, nothing excluded."""
    assert handed_out(**ipam) == found


@pytest.mark.parametrize(
    ("ipam", "found"),
    [
        ({"range": "x"}, "ipam.range: 'x' is no network; allowed: address/prefix, or first-last/prefix"),
        ({"range": "10.6.0.0"}, "ipam.range: '10.6.0.0' has no valid prefix"),
        ({"range": "10.6.0.0/33"}, "ipam.range: '10.6.0.0/33' has no valid prefix; allowed: /0 to /32"),
        ({"range": 5}, "ipam.range: 5 is not allowed; needed: a string"),
        ({"range": "10.6.0.0/31"}, "ipam.range: '10.6.0.0/31' has no address but network and broadcast address"),
        ({"range": "10.6.0.9-10.6.0.4/24"}, "ipam.range: '10.6.0.9-10.6.0.4/24' is reversed"),
        ({"range": "10.7.0.1-10.6.0.4/24"}, "ipam.range: '10.7.0.1-10.6.0.4/24': 10.7.0.1 lies outside 10.6.0.0/24"),
        ({"range": "::1-0.0.0.4/24"}, "ipam.range: '::1-0.0.0.4/24': ::1 lies outside 0.0.0.0/24"),
        ({"range": "x-10.6.0.4/24"}, "ipam.range: 'x-10.6.0.4/24': its start is no IP address"),
        ({"range": "10.6.0.0/24", "range_start": "10.7.0.1"}, "ipam.range_start: '10.7.0.1' lies outside 10.6.0.0/24"),
        ({"range": "10.6.0.0/24", "range_start": "fd00::1"}, "ipam.range_start: 'fd00::1' lies outside 10.6.0.0/24"),
        ({"range": "::/64", "range_end": "0.0.0.1"}, "ipam.range_end: '0.0.0.1' lies outside ::/64"),
        (
            {"ipRanges": [{"range": "10.6.0.0/24", "range_end": "x"}]},
            "ipam.ipRanges[0].range_end: 'x' is no IP address",
        ),
        (
            {"range": "10.6.0.0/24", "range_start": "10.6.0.9", "range_end": "10.6.0.4"},
            "ipam.range_end: the range is reversed: 10.6.0.4 comes before 10.6.0.9",
        ),
        ({"range": "10.6.0.0/24", "exclude": ["x"]}, "ipam.exclude[0]: 'x' is neither an address nor address/prefix"),
        ({"range": "10.6.0.0/24", "exclude": "10.6.0.1"}, "ipam.exclude: a string is not allowed; needed: a list of"),
        ({"range": "10.6.0.0/24", "exclude": [1]}, "ipam.exclude[0]: a number is not allowed; needed: strings"),
        ({"ipRanges": [{"range": "10.6.0.0/24"}, {}]}, "ipam.ipRanges[1].range: '' is no network"),
        (
            {"range": "10.6.0.0/24", "range_start": "10.07.0.1"},
            "ipam.range_start: '10.07.0.1' lies outside 10.6.0.0/24",
        ),
        ({"range": "10.6.0.0/24", "exclude": ["010.6.0.1"]}, "ipam.exclude[0]: '010.6.0.1' is neither an address nor"),
        (
            {"ipRanges": [{"range": "10.6.0.0/24", "range_start": "10.6.0.01"}]},
            "ipam.ipRanges[0].range_start: '10.6.0.01' is no IP",
        ),
        (
            {"ipRanges": [{"range": "10.6.0.4-10.6.0.9/24", "range_end": "x"}]},
            "ipam.ipRanges[0].range_end: 'x' is no IP address",
        ),
        ({"range": "10.6.0.0/24", "range_start": 5}, "ipam.range_start: 5 is not allowed; needed: a string"),
        ({"range": "10.6.0.0-10.6.0.9/24", "range_start": 5}, "ipam.range_start: 5 is not allowed; needed: a string"),
        (
            {"range": "10.6.0.0/24", "dns": {"nameservers": "x"}},
            "ipam.dns.nameservers: a string is not allowed; needed:",
        ),
        ({"range": "10.6.0.0/24", "dns": {"domain": []}}, "ipam.dns.domain: a list is not allowed; needed: a string"),
        ({"range": "10.6.0.0/24", "dns": []}, "ipam.dns: a list is not allowed; needed: an object"),
        ({"range": "10.6.0.0/24", "kubernetes": {"kubeconfig": 5}}, "ipam.kubernetes.kubeconfig: a number is not"),
        ({"range": "10.6.0.0/24", "routes": [{"dst": "::/0", "mtu": "x"}]}, "ipam.routes[0].mtu: a string is not"),
        (
            {"range": "10.6.0.0/24", "routes": [{"dst": "010.0.0.0/8"}]},
            "ipam.routes[0].dst: '010.0.0.0/8' is no network",
        ),
        (
            {"addresses": [{"address": "10.6.0.1/24", "gateway": "x"}]},
            "ipam.addresses[0].gateway: 'x' is no IP address",
        ),
        ({"ipRanges": {}}, "ipam.ipRanges: an object is not allowed; needed: a list of objects"),
        ({"range": "10.6.0.0/24", "gateway": "10.6.0.1/24"}, "ipam.gateway: '10.6.0.1/24' is no IP address"),
        ({"addresses": [{"address": "10.6.0.1"}]}, "ipam.addresses[0].address: '10.6.0.1' is no address/prefix"),
        ({"range": "10.6.0.0/24", "routes": [{"dst": "x"}]}, "ipam.routes[0].dst: 'x' is no network"),
        ({"range": "10.6.0.0/24", "routes": [{"dst": "0.0.0.0/0", "gw": "x"}]}, "ipam.routes[0].gw: 'x' is no IP"),
        (
            {"range": "10.6.0.0/24", "sleep_for_race": True},
            "ipam.sleep_for_race: a boolean is not allowed; needed: a whole",
        ),
        (
            {"range": "10.6.0.0/24", "enable_overlapping_ranges": "no"},
            "ipam.enable_overlapping_ranges: a string is not",
        ),
    ],
)
def test_what_is_refused(ipam: dict[str, Any], found: str) -> None:
    """The plugin fails on it, or silently takes another range than is written; the key is named."""
    assert [fault for fault in faults(**ipam) if fault.startswith(found)]


@pytest.mark.parametrize(
    ("ipam", "found"),
    [
        ({"range": "10.6.0.0/24"}, []),
        ({"range": "10.6.0.0/24", "Log_File": "/x", "kubernetes": {"kubeconfig": "/x"}, "gateway": None}, []),
        ({"range": "10.6.0.9-10.6.0.12/24"}, []),
        ({"range": "10.6.0.9/24"}, ["ipam.range: '10.6.0.9/24' has host bits"]),
        (
            {"range": "10.6.0.0/24", "range_strat": "x"},
            ["ipam.range_strat: whereabouts ignores this key, is range_start"],
        ),
        ({"range": "10.6.0.0/24", "zzz": 1}, ["ipam.zzz: whereabouts ignores this key"]),
        ({"range": "10.6.0.0/24", "exclude": ["10.7.0.0/30"]}, ["ipam.exclude[0]: '10.7.0.0/30' excludes nothing"]),
        (
            {"ipRanges": [{"range": "10.6.0.0/24", "network_name": "x"}]},
            ["ipam.ipRanges[0].network_name: whereabouts (in"],
        ),
        ({}, ["ipam.range: is absent"]),
        (
            {"range": "10.6.0.0/24", "range_start": "abc"},
            ["ipam.range_start: 'abc' is no IP address, and is passed over in silence"],
        ),
        (
            {"range": "10.6.0.4-10.6.0.9/24", "range_start": "10.6.0.1", "range_end": "x"},
            [
                "ipam.range_start: does nothing: the range beside it",
                "ipam.range_end: does nothing: the range beside it",
            ],
        ),
        (
            {"ipRanges": [{"range": "10.6.0.0/24"}], "exclude": ["10.6.0.1"], "range_end": "10.6.0.9"},
            ["ipam.range_end: does nothing without a range", "ipam.exclude: does nothing without a range"],
        ),
        ({"range": "10.7.0.0/24", "ipRanges": [{"range": "10.6.0.0/24"}], "exclude": ["10.7.0.1"]}, []),
        ({"ipRanges": [{"range": "10.6.0.0/24"}] * 1001}, ["ipam.ipRanges: only the first 1000 items are judged"]),
    ],
)
def test_what_is_told(ipam: dict[str, Any], found: list[str]) -> None:
    """Keys that are skipped in silence, ranges that versions read differently, and what has no effect."""
    told = remarks(**ipam)
    assert len(told) == len(found)
    assert all(one.startswith(start) for one, start in zip(told, found, strict=True))


@pytest.mark.parametrize(
    ("ipam", "overlapping", "sliced", "static"),
    [
        ({}, True, False, []),
        ({"enable_overlapping_ranges": None, "node_slice_size": ""}, True, False, []),
        ({"enable_overlapping_ranges": True, "node_slice_size": "/26"}, True, True, []),
        ({"Enable_Overlapping_Ranges": False, "addresses": []}, False, False, []),
        (
            {"addresses": [{"address": "10.6.0.9/24"}, {"address": "FD00:0::9/64"}, {"address": "010.6.0.8/024"}]},
            True,
            False,
            ["10.6.0.8", "10.6.0.9", "fd00::9"],
        ),
        ({"addresses": [{"address": "::ffff:10.6.0.9/120"}]}, True, False, ["10.6.0.9"]),
    ],
)
def test_what_else_is_said(ipam: dict[str, Any], overlapping: bool, sliced: bool, static: list[str]) -> None:  # noqa: FBT001 - a table
    """Reservations unless they are turned off, slices of nodes, and addresses that are recorded nowhere."""
    config = parse_whereabouts({"type": "whereabouts", "range": "10.6.0.0/24", **ipam})
    assert isinstance(config, WhereaboutsConfig)
    assert (config.overlapping, config.sliced, sorted(config.static)) == (overlapping, sliced, static)


def test_many_unknown_keys_cost_no_time() -> None:
    """Only some are told."""
    assert len(remarks(range="10.6.0.0/24", **{f"key{n}" * 100: n for n in range(20_000)})) == 10
    assert len(remarks(ipRanges=[{"range": "10.6.0.0/24", "zz": 1}] * 900)) == 10


@given(st.dictionaries(st.sampled_from(["range", "Range", "ipRanges", "exclude", "range_start", "routes", "x"]), JSON))
def test_nothing_raises(ipam: dict[str, Any]) -> None:
    """Whatever the values are."""
    assert parse_whereabouts(ipam)
