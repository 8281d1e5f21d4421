"""The configuration of Neon autoscaling's IPAM in a NAD, with and without its Manager.

Facts: github.com/neondatabase/autoscaling, `pkg/neonvm/ipam` (main, and the branch with the Manager).
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from poolwarden.ipam.address import V4, brief
from poolwarden.ipam.config_block import Block, Notes, Remark
from poolwarden.ipam.range_config import (
    RANGE_KEYS,
    ConfiguredRange,
    check_dns,
    check_routes,
    pool_name,
    read_bounds,
    read_excludes,
)
from poolwarden.ipam.ranges import RangeError, address_set, parse_network

KEYS = RANGE_KEYS | {"type", "routes", "ipRanges", "dns", "network_name", "networknamespace", "manager"}
MANAGER_KEYS = frozenset({"cooldown_period", "low_ip_count", "target_ip_count", "high_ip_count"})
LEASE_SECONDS = 60
"""The lease of neonvm-controller (`--leader-elect` settings of its deployment): so long may a former leader go on."""

_NANOSECONDS = {
    "ns": 1,
    "us": 10**3,
    "µs": 10**3,
    "μs": 10**3,
    "ms": 10**6,
    "s": 10**9,
    "m": 60 * 10**9,
    "h": 3600 * 10**9,
}
_PART = re.compile(r"(?P<number>[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30})(?P<unit>ns|us|µs|μs|ms|s|m|h)")
_LONGEST = (1 << 63) - 1  # nanoseconds of Go's time.Duration


class Manager(Struct, frozen=True, tag=True):
    """`ipam.manager`: addresses are claimed in batches, `low` to `high` of them free."""

    cooldown_seconds: float
    low: int
    target: int
    high: int


class Unmanaged(Struct, frozen=True, tag=True):
    """The configuration has no `manager`: each address is claimed by itself."""


class NeonConfig(Struct, frozen=True, tag=True):
    """A configuration that neonvm-controller takes; `remarks` tell what it ignores."""

    ranges: tuple[ConfiguredRange, ...]
    network_name: str
    manager: Manager | Unmanaged
    remarks: tuple[Remark, ...]


class NeonConfigRefused(Struct, frozen=True, tag=True):
    """A configuration with which neonvm-controller does not start, or that cannot mean what it says."""

    faults: tuple[Remark, ...]
    remarks: tuple[Remark, ...]


class DurationError(ValueError):
    """A text that is no duration."""


def is_neon(ipam: Mapping[str, Any]) -> bool:
    """Whether an `ipam` block is for Neon: it names no plugin, since Neon reads it itself, and has Neon's keys."""
    keys = {key.casefold(): value for key, value in ipam.items()}
    manager = keys.get("manager")
    if isinstance(manager, dict) and {key.casefold() for key in manager} & MANAGER_KEYS:
        return True
    return not keys.get("type") and any(key.casefold() in keys for key in ("manager", "ipRanges", "range"))


def parse_neon(ipam: Mapping[str, Any], path: str = "ipam") -> NeonConfig | NeonConfigRefused:
    """Read the `ipam` block of a NAD; `path` is its place, for messages. The flat form is read as main reads it."""
    notes = Notes()
    block = Block(ipam, path, notes)
    block.note_unknown(KEYS, "Neon's IPAM")
    managed, flat = block.has("manager"), bool(block.text("range"))
    manager = _manager(block.block("manager")) if managed else Unmanaged()
    network_name = block.text("network_name")
    listed = block.blocks("ipRanges")
    for item in listed:
        item.note_unknown(RANGE_KEYS, "Neon's IPAM (in ipRanges)")
        if managed and item.has("exclude"):
            item.remark("exclude", "is read but never heeded by the IPAM that has a manager")
    if flat and managed:
        block.remark("range", "the IPAM that has a manager ignores ranges outside ipRanges; write it there")
    for key in ("range_start", "range_end", "exclude"):
        if not flat and block.has(key):
            block.remark(key, "does nothing without a range beside it")
    if not flat and not listed:
        block.fault("ipRanges", "there is no range; needed: a list with at least one")
    sources = ((block,) if flat else ()) + listed
    ranges = tuple(found for item in sources for found in _range(item, network_name, managed=managed))
    check_routes(block)
    check_dns(block)
    if notes.faults:
        return NeonConfigRefused(notes.faults, notes.remarks)
    return NeonConfig(ranges, network_name, manager, notes.remarks)


def parse_go_duration(text: str) -> float:
    """Seconds of a text like `10s`, `1m30s` or `1.5h` (Go's `time.ParseDuration`).

    Raises:
        DurationError: no such text, or longer than Go can hold.
    """
    sign, body = (-1, text[1:]) if text.startswith("-") else (1, text.removeprefix("+"))
    if body == "0":
        return 0.0
    nanoseconds, at = 0.0, 0
    while part := _PART.match(body, at):
        nanoseconds += float(part["number"]) * _NANOSECONDS[part["unit"]]
        at = part.end()
    if not body or at < len(body) or nanoseconds > _LONGEST:
        raise DurationError(f"{brief(text)} is no duration; allowed is a form like 30s, 5m or 1m30s")
    return sign * nanoseconds / 10**9


def _manager(block: Block) -> Manager:
    block.note_unknown(MANAGER_KEYS, "Neon's IPAM (in manager)")
    low, target, high = (block.number(f"{name}_ip_count") for name in ("low", "target", "high"))
    for name, count in (("low", low), ("target", target), ("high", high)):
        if count <= 0:
            block.fault(f"{name}_ip_count", f"{count} is not allowed; it must be greater than 0")
    if low > target > 0:
        block.fault("low_ip_count", f"low must be less than or equal to target, but low is {low} and target {target}")
    if 0 < high < target:
        block.fault(
            "high_ip_count", f"high must be greater than or equal to target, but high is {high} and target {target}"
        )
    return Manager(_cooldown(block), low, target, high)


def _cooldown(block: Block) -> float:
    text = block.text("cooldown_period")
    try:
        seconds = parse_go_duration(text)
    except DurationError as error:
        block.fault("cooldown_period", str(error))
        return 0.0
    if seconds < 0:
        block.fault("cooldown_period", f"{brief(text)} is negative; it must be 0 or longer")
    elif seconds < LEASE_SECONDS:
        block.remark(
            "cooldown_period",
            f"{brief(text)} is shorter than the controller's lease ({LEASE_SECONDS}s): a former leader may still give out "
            "an address that the new one takes for free",
        )
    return seconds


def _range(block: Block, network_name: str, *, managed: bool) -> Iterator[ConfiguredRange]:
    try:
        network = parse_network(block.text("range"))
    except RangeError as error:
        block.fault("range", str(error))
        return
    if managed and network.addresses.family != V4:
        block.fault("range", f"{network} is IPv6; the IPAM that has a manager takes IPv4 only")
    bounds = read_bounds(block, network, network.addresses)
    excluded = address_set(() if managed else read_excludes(block, network))
    yield ConfiguredRange(network, address_set((bounds,)) - excluded, pool_name(network, network_name))
