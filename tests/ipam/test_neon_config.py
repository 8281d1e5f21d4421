"""The configuration of Neon's IPAM, with and without its Manager."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.ipam.neon_config import (
    DurationError,
    Manager,
    NeonConfig,
    NeonConfigRefused,
    Unmanaged,
    is_neon,
    parse_go_duration,
    parse_neon,
)

COUNTS = {"low_ip_count": 50, "target_ip_count": 75, "high_ip_count": 100}
MANAGER = {"cooldown_period": "70s", **COUNTS}
RANGES = [{"range": "10.100.0.0/16", "range_start": "10.100.128.0"}]


def read(**ipam: Any) -> NeonConfig:
    """A configuration that is taken."""
    config = parse_neon(ipam)
    assert isinstance(config, NeonConfig), config
    return config


def test_the_form_with_a_manager() -> None:
    """As Neon's own manifest has it; both ends of a range are handed out."""
    config = read(network_name="neonvm", manager=MANAGER, ipRanges=RANGES)
    assert config.manager == Manager(70.0, 50, 75, 100)
    assert [f"{item.pool}: {item.addresses}" for item in config.ranges] == [
        "neonvm-10.100.0.0-16: 10.100.128.0-10.100.255.255"
    ]
    assert config.remarks == ()


def test_the_flat_form() -> None:
    """Of old: without manager, its range before the listed ones."""
    config = read(range="10.1.0.7/30", exclude=["10.1.0.6"], ipRanges=[{"range": "10.2.0.0/31"}])
    assert config.manager == Unmanaged()
    assert [f"{item.pool}: {item.addresses}" for item in config.ranges] == [
        "10.1.0.4-30: 10.1.0.4-10.1.0.5,10.1.0.7",
        "10.2.0.0-31: 10.2.0.0-10.2.0.1",
    ]


@pytest.mark.parametrize(
    ("ipam", "found"),
    [
        ({"manager": MANAGER}, "ipam.ipRanges: there is no range"),
        ({"ipRanges": []}, "ipam.ipRanges: there is no range"),
        ({"ipRanges": [{"range": "x"}]}, "ipam.ipRanges[0].range: 'x' is no network"),
        ({"range": "x"}, "ipam.range: 'x' is no network"),
        (
            {"ipRanges": [{"range": "10.1.0.0/24", "range_start": "10.2.0.1"}]},
            "ipam.ipRanges[0].range_start: '10.2.0.1'",
        ),
        (
            {"ipRanges": [{"range": "10.1.0.0/24", "range_start": "10.1.0.9", "range_end": "10.1.0.8"}]},
            "ipam.ipRanges[0].range_end: the range is reversed",
        ),
        ({"ipRanges": [{"range": "10.1.0.0/24", "exclude": ["x"]}]}, "ipam.ipRanges[0].exclude[0]: 'x' is neither"),
        ({"ipRanges": [{"range": "fd00::/64"}], "manager": MANAGER}, "ipam.ipRanges[0].range: fd00::/64 is IPv6"),
        ({"ipRanges": RANGES, "manager": {}}, "ipam.manager.low_ip_count: 0 is not allowed; it must be greater than 0"),
        ({"ipRanges": RANGES, "manager": COUNTS}, "ipam.manager.cooldown_period: '' is no duration; allowed is a form"),
        (
            {"ipRanges": RANGES, "manager": {**MANAGER, "cooldown_period": 10}},
            "ipam.manager.cooldown_period: 10 is not",
        ),
        (
            {"ipRanges": RANGES, "manager": {**MANAGER, "cooldown_period": "10"}},
            "ipam.manager.cooldown_period: '10' is",
        ),
        (
            {"ipRanges": RANGES, "manager": {**MANAGER, "cooldown_period": "-1m"}},
            "ipam.manager.cooldown_period: '-1m' is",
        ),
        (
            {"ipRanges": RANGES, "manager": {**MANAGER, "low_ip_count": 76}},
            "ipam.manager.low_ip_count: low must be less than or equal to target, but low is 76 and target 75",
        ),
        (
            {"ipRanges": RANGES, "manager": {**MANAGER, "high_ip_count": 74}},
            "ipam.manager.high_ip_count: high must be greater than or equal to target, but high is 74 and target 75",
        ),
        ({"ipRanges": RANGES, "manager": {**MANAGER, "high_ip_count": "9"}}, "ipam.manager.high_ip_count: '9' is not"),
        ({"ipRanges": RANGES, "manager": []}, "ipam.manager: a list is not allowed; needed: an object"),
        ({"ipRanges": RANGES, "network_name": 5}, "ipam.network_name: 5 is not allowed; needed: a string"),
    ],
)
def test_what_is_refused(ipam: dict[str, Any], found: str) -> None:
    """The controller does not start with it, or it cannot mean what it says; the key is named."""
    config = parse_neon(ipam)
    assert isinstance(config, NeonConfigRefused)
    assert [fault for fault in config.faults if f"{fault.key}: {fault.text}".startswith(found)]


@pytest.mark.parametrize(
    ("ipam", "key"),
    [
        ({"ipRanges": [{"range": "10.1.0.0/24", "network_name": "x"}]}, "ipam.ipRanges[0].network_name"),
        ({"ipRanges": RANGES, "exclude": ["10.1.0.0/30"]}, "ipam.exclude"),
        ({"ipRanges": RANGES, "range_start": "10.1.0.1"}, "ipam.range_start"),
        ({"ipRanges": RANGES, "manager": {**MANAGER, "cooldown_period": "10s"}}, "ipam.manager.cooldown_period"),
        ({"ipRanges": RANGES, "manager": {**MANAGER, "max_ip_count": 7}}, "ipam.manager.max_ip_count"),
        ({"ipRanges": [{**RANGES[0], "exclude": ["10.100.200.1"]}], "manager": MANAGER}, "ipam.ipRanges[0].exclude"),
        ({"range": "10.1.0.0/24", "manager": MANAGER}, "ipam.range"),
        ({"ipRanges": RANGES, "ipranges2": 1}, "ipam.ipranges2"),
    ],
)
def test_what_is_told(ipam: dict[str, Any], key: str) -> None:
    """What is ignored, or shorter than is safe."""
    assert [remark.key for remark in read(**ipam).remarks] == [key]


@pytest.mark.parametrize(
    ("ipam", "answer"),
    [
        ({"manager": {}}, True),
        ({"ipRanges": []}, True),
        ({"range": "10.1.0.0/24", "network_name": "ipam-demo"}, True),
        ({"type": "", "iprANGES": []}, True),
        ({"type": "neon", "manager": {"Low_IP_Count": 1}}, True),
        ({"type": "whereabouts", "ipRanges": []}, False),
        ({"type": "host-local", "manager": {}}, False),
        ({}, False),
        ({"subnet": "10.1.0.0/24"}, False),
    ],
)
def test_whose_settings_they_are(ipam: dict[str, Any], answer: bool) -> None:  # noqa: FBT001
    """Neon's name no plugin, since Neon reads them itself."""
    assert is_neon(ipam) is answer


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("10s", 10),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("0", 0),
        ("+5ms", 0.005),
        ("-2s", -2),
        (".5s", 0.5),
        ("1.s", 1),
        ("3µs", 3e-6),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    """As Go writes them."""
    assert parse_go_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "10", "s", ".s", "1d", "1s ", " 1s", "--1s", "1e3s", "9999999h", "1" * 5000 + "s", "٣s"]
)
def test_no_durations(text: str) -> None:
    """What Go refuses."""
    with pytest.raises(DurationError):
        parse_go_duration(text)


@given(st.text(alphabet="0123456789.hmsnuµ+-", max_size=12))
def test_no_duration_raises_anything_else(text: str) -> None:
    """A number of seconds, or the one error."""
    try:
        assert isinstance(parse_go_duration(text), float)
    except DurationError as error:
        assert repr(text) in str(error)  # noqa: PT017 - either outcome is right
