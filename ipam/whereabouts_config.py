"""The configuration of whereabouts in a NetworkAttachmentDefinition, read as the plugin reads it.

Facts: github.com/k8snetworkplumbingwg/whereabouts v0.9.4, `pkg/config`, `pkg/types`, `pkg/iphelpers`.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from poolwarden.ipam.address import AddressError, address_of, brief, parse_number
from poolwarden.ipam.config_block import Block, Notes, Remark
from poolwarden.ipam.range_config import (
    RANGE_KEYS,
    ConfiguredRange,
    bounded,
    check_addresses,
    check_dns,
    check_gateway,
    check_routes,
    pool_name,
    read_bounds,
    read_excludes,
    read_overwritten,
    without_padding,
)
from poolwarden.ipam.ranges import (
    AddressRange,
    AddressSet,
    Network,
    RangeError,
    address_set,
    parse_network,
)

PLUGIN = "whereabouts"
"""The `ipam.type` of a CNI configuration."""

_TEXTS = (
    *("name", "datastore", "node_slice_size", "log_file", "log_level", "reconciler_cron_expression"),
    *("etcd_host", "etcd_username", "etcd_password", "etcd_key_file", "etcd_cert_file", "etcd_ca_cert_file"),
    *("configuration_path", "podname", "podnamespace"),
)
_NUMBERS = ("leader_lease_duration", "leader_renew_deadline", "leader_retry_period", "sleep_for_race")
_FLAGS = ("enable_overlapping_ranges",)
_BLOCKS = ("dns", "kubernetes")
_KUBERNETES = ("kubeconfig", "k8s_api_root")
KEYS = RANGE_KEYS.union(
    *(_TEXTS, _NUMBERS, _FLAGS, _BLOCKS), {"type", "routes", "addresses", "ipRanges", "gateway", "network_name"}
)
"""`IPAMConfig` and what its `UnmarshalJSON` takes beside, by type."""
SMALLEST = 4
"""Addresses. Network and broadcast address are never handed out; a range without any other fails (`HasUsableIPs`)."""


class WhereaboutsConfig(Struct, frozen=True, tag=True):
    """A configuration that the plugin takes; `remarks` tell what it ignores, or what versions read differently.

    Attributes:
        overlapping: a reservation is made for each address, beside its record.
        sliced: each node draws from a slice of the range, which has an IPPool of its own.
        static: addresses that pods get and that are recorded nowhere, canonical.
    """

    ranges: tuple[ConfiguredRange, ...]
    network_name: str
    remarks: tuple[Remark, ...]
    overlapping: bool = True
    sliced: bool = False
    static: frozenset[str] = frozenset()


class WhereaboutsConfigRefused(Struct, frozen=True, tag=True):
    """A configuration that the plugin refuses, or that cannot mean what it says."""

    faults: tuple[Remark, ...]
    remarks: tuple[Remark, ...]


def parse_whereabouts(ipam: Mapping[str, Any], path: str = "ipam") -> WhereaboutsConfig | WhereaboutsConfigRefused:
    """Read the `ipam` block of a CNI configuration whose type is whereabouts; `path` is its place, for messages."""
    notes = Notes()
    block = Block(ipam, path, notes)
    block.note_unknown(KEYS, PLUGIN)
    network_name = block.text("network_name")
    flat, listed = bool(block.text("range")), block.blocks("ipRanges")
    for item in listed:
        item.note_unknown(RANGE_KEYS, f"{PLUGIN} (in ipRanges)")
    for key in ("range_start", "range_end", "exclude"):
        if listed and not flat and block.has(key):
            block.remark(key, "does nothing without a range beside it; write it in the items of ipRanges")
    ranges = (
        *(_range(block, network_name, sloppy=True) if flat else ()),
        *(found for item in listed for found in _range(item, network_name, sloppy=False)),
    )
    if not ranges and not notes.faults and not block.has("addresses"):
        block.remark("range", "is absent: without one in whereabouts' own configuration file, no NIC gets an address")
    _check_rest(block)
    if notes.faults:
        return WhereaboutsConfigRefused(notes.faults, notes.remarks)
    overlapping = not block.has("enable_overlapping_ranges") or block.flag("enable_overlapping_ranges")
    sliced = bool(block.text("node_slice_size"))
    return WhereaboutsConfig(ranges, network_name, notes.remarks, overlapping, sliced, frozenset(_static(block)))


def handed_out(network: Network) -> AddressSet:
    """What whereabouts hands out of a range: neither network nor broadcast address."""
    own = network.addresses
    return address_set((AddressRange(own.family, own.first + 1, own.last - 1),) if own.size >= SMALLEST else ())


def _range(block: Block, network_name: str, *, sloppy: bool) -> Iterator[ConfiguredRange]:
    """The range of a block, unless it cannot be read. `first-last/prefix` says range_start and range_end as well.

    Leading zeros in it are always skipped, those in range_start and range_end only where `sloppy`.
    """
    text = block.text("range")
    first_text, dash, cidr = text.partition("-")
    try:
        network = parse_network(without_padding(cidr if dash else text))
        family, first = (
            parse_number(without_padding(first_text)) if dash else (network.addresses.family, network.written)
        )
    except RangeError as error:
        block.fault("range", f"{error}, or first-last/prefix")
        return
    except AddressError as error:
        block.fault("range", f"{brief(text)}: its start {error.reason}; allowed: address/prefix, or first-last/prefix")
        return
    if network.addresses.size < SMALLEST:
        shown = brief(text)
        block.fault("range", f"{shown} has no address but network and broadcast address, which are never handed out")
        return
    outer = handed_out(network).ranges[0]
    if dash:
        read_overwritten(block, sloppy=sloppy)
        bounds = bounded(outer, first, network.written)
        if AddressRange(family, first, first) not in network:
            block.fault("range", f"{brief(text)}: {address_of(family, first)} lies outside {network}")
        elif network.written < first:
            block.fault("range", f"{brief(text)} is reversed: its end comes before its start")
    else:
        bounds = read_bounds(block, network, outer, sloppy=sloppy)
        if not network.exact:
            shown = brief(text)
            block.remark("range", f"{shown} has host bits; versions differ in what they count from, write {network}")
    excluded = address_set(read_excludes(block, network))
    yield ConfiguredRange(network, address_set((bounds,)) - excluded, pool_name(network, network_name))


def _static(block: Block) -> Iterator[str]:
    """The addresses of a configuration without faults."""
    for item in block.blocks("addresses"):
        network = parse_network(without_padding(item.text("address")))
        yield address_of(network.addresses.family, network.written)


def _check_rest(block: Block) -> None:
    """What does not bear on the ranges, but makes the plugin fail where it cannot be read."""
    check_gateway(block)
    check_addresses(block)
    check_routes(block)
    check_dns(block)
    kubernetes = block.block("kubernetes")
    reads = ((block.text, _TEXTS), (block.number, _NUMBERS), (block.flag, _FLAGS), (kubernetes.text, _KUBERNETES))
    for read, keys in reads:
        for key in keys:
            read(key)
