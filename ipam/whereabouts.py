"""Whereabouts: IPPool (`whereabouts.cni.cncf.io/v1alpha1`) as far as its range, and its configuration in a NAD.

Facts: github.com/k8snetworkplumbingwg/whereabouts v0.9.4, `pkg/api/whereabouts.cni.cncf.io/v1alpha1/types.go`,
`pkg/config`, `pkg/types`, `pkg/iphelpers`. Keys of `allocations` are offsets from the range as written, so a range is
never rewritten.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from poolwarden.ipam.config_block import Block, Notes, Remark
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Metadata
from poolwarden.ipam.range_config import (
    RANGE_KEYS,
    ConfiguredRange,
    bounded,
    check_addresses,
    check_gateway,
    check_routes,
    pool_name,
    read_bounds,
    read_excludes,
)
from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, address_set, parse_network

NAME = "whereabouts"
POOLS = Kind("whereabouts.cni.cncf.io", "v1alpha1", "ippools", "IPPool", namespaced=True)

_TEXTS = (
    *("name", "datastore", "node_slice_size", "log_file", "log_level", "reconciler_cron_expression"),
    *("etcd_host", "etcd_username", "etcd_password", "etcd_key_file", "etcd_cert_file", "etcd_ca_cert_file"),
    *("configuration_path", "podname", "podnamespace"),
)
_NUMBERS = ("leader_lease_duration", "leader_renew_deadline", "leader_retry_period", "sleep_for_race")
_FLAGS = ("enable_overlapping_ranges",)
_BLOCKS = ("dns", "kubernetes")
KEYS = RANGE_KEYS.union(
    *(_TEXTS, _NUMBERS, _FLAGS, _BLOCKS), {"type", "routes", "addresses", "ipRanges", "gateway", "network_name"}
)
"""`IPAMConfig` and what its `UnmarshalJSON` takes beside, by type."""
SMALLEST = 4
"""Addresses. Network and broadcast address are never handed out; a range without any other fails (`HasUsableIPs`)."""


class WhereaboutsPoolSpec(Struct, frozen=True, gc=False):
    """IPPool.spec, allocations left unread."""

    range: str = ""


class WhereaboutsPool(Struct, frozen=True, gc=False):
    """A whereabouts IPPool."""

    metadata: Metadata
    spec: WhereaboutsPoolSpec = WhereaboutsPoolSpec()


class WhereaboutsConfig(Struct, frozen=True, tag=True):
    """A configuration that the plugin takes; `remarks` tell what it ignores, or what versions read differently."""

    ranges: tuple[ConfiguredRange, ...]
    network_name: str
    remarks: tuple[Remark, ...]


class WhereaboutsConfigRefused(Struct, frozen=True, tag=True):
    """A configuration that the plugin refuses, or that cannot mean what it says."""

    faults: tuple[Remark, ...]
    remarks: tuple[Remark, ...]


def parse_whereabouts(ipam: Mapping[str, Any], path: str = "ipam") -> WhereaboutsConfig | WhereaboutsConfigRefused:
    """Read the `ipam` block of a CNI configuration whose type is whereabouts; `path` is its place, for messages."""
    notes = Notes()
    block = Block(ipam, path, notes)
    block.note_unknown(KEYS, NAME)
    network_name = block.text("network_name")
    listed = block.blocks("ipRanges")
    for item in listed:
        item.note_unknown(RANGE_KEYS, f"{NAME} (in ipRanges)")
    ranges = tuple(
        found for item in (*((block,) if block.text("range") else ()), *listed) for found in _range(item, network_name)
    )
    if not ranges and not notes.faults and not block.has("addresses"):
        block.remark("range", "is absent: without one in whereabouts' own configuration file, no NIC gets an address")
    _check_rest(block)
    if notes.faults:
        return WhereaboutsConfigRefused(notes.faults, notes.remarks)
    return WhereaboutsConfig(ranges, network_name, notes.remarks)


def handed_out(network: Network) -> AddressSet:
    """What whereabouts hands out of a range: neither network nor broadcast address."""
    own = network.addresses
    return address_set((AddressRange(own.family, own.first + 1, own.last - 1),) if own.size >= SMALLEST else ())


def _range(block: Block, network_name: str) -> Iterator[ConfiguredRange]:
    """The range of a block, unless it cannot be read. `first-last/prefix` says range_start and range_end as well."""
    text = block.text("range")
    first_text, dash, cidr = text.partition("-")
    try:
        network = parse_network(cidr if dash else text)
        start = parse_network(f"{first_text}/{network.prefix}") if dash else network
    except RangeError as error:
        block.fault("range", f"{error}, or first-last/prefix")
        return
    if network.addresses.size < SMALLEST:
        block.fault("range", f"{text!r} has no address but network and broadcast address, which are never handed out")
        return
    outer = handed_out(network).ranges[0]
    bounds = read_bounds(block, network, outer)
    if dash:
        bounds = bounded(outer, start.written, network.written)
        if start.addresses != network.addresses:
            block.fault("range", f"{text!r}: {first_text} lies outside {network}")
        elif network.written < start.written:
            block.fault("range", f"{text!r} is reversed: its end comes before its start")
    elif not network.exact:
        block.remark("range", f"{text!r} has host bits; versions differ in what they count from, write {network}")
    excluded = address_set(read_excludes(block, network))
    yield ConfiguredRange(network, address_set((bounds,)) - excluded, pool_name(network, network_name))


def _check_rest(block: Block) -> None:
    """What does not bear on the ranges, but makes the plugin fail where it cannot be read."""
    check_gateway(block)
    check_addresses(block)
    check_routes(block)
    for read, keys in ((block.text, _TEXTS), (block.number, _NUMBERS), (block.flag, _FLAGS), (block.block, _BLOCKS)):
        for key in keys:
            read(key)
