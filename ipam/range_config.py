"""A range in the configuration of whereabouts or of Neon's IPAM: both use the same keys.

Source: whereabouts v0.9.4 and neondatabase/autoscaling, `RangeConfiguration`.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct

from poolwarden.ipam.address import AddressError, address_of, canonical, canonical_host, family_of, parse_address
from poolwarden.ipam.config_block import Block
from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, address_set, parse_network

RANGE_KEYS = frozenset({"range", "range_start", "range_end", "exclude"})


class ConfiguredRange(Struct, frozen=True):
    """A range: `pool` names its IPPool, `addresses` are those that can be handed out."""

    network: Network
    addresses: AddressSet
    pool: str


def read_bounds(block: Block, network: Network, outer: AddressRange) -> AddressRange:
    """From range_start to range_end, as far as they lie in `outer`; all of it where they are absent or wrong."""
    own = network.addresses
    first, last = _edge(block, "range_start", network, own.first), _edge(block, "range_end", network, own.last)
    if last < first:
        start, end = (address_of(outer.family, number) for number in (first, last))
        block.fault("range_end", f"the range is reversed: {end} comes before {start}")
    return bounded(outer, first, last)


def bounded(outer: AddressRange, first: int, last: int) -> AddressRange:
    """From first to last; either counts only if it lies in what it would cut (whereabouts' `GetIPRange`)."""
    start = first if outer.first <= first <= outer.last else outer.first
    return AddressRange(outer.family, start, last if start <= last <= outer.last else outer.last)


def read_excludes(block: Block, network: Network) -> Iterator[AddressRange]:
    """The `exclude` entries, each a CIDR or an address."""
    for at, text in enumerate(block.texts("exclude")):
        key = f"exclude[{at}]"
        try:
            found = parse_network(text if "/" in text else f"{text}/{128 if ':' in text else 32}").addresses
        except RangeError:
            block.fault(key, f"{text!r} is neither an address nor address/prefix")
            continue
        if not (address_set((found,)) & address_set((network.addresses,))).ranges:
            block.remark(key, f"{text!r} excludes nothing: it lies outside {network}")
        yield found


def check_routes(block: Block) -> None:
    """`routes` as CNI's libraries take them: `dst` a CIDR, `gw` an address if there is one."""
    for item in block.blocks("routes"):
        destination, via = item.text("dst"), item.text("gw")
        if not _readable(canonical_host, destination) or "/" not in destination:
            item.fault("dst", f"{destination!r} is no network; allowed: address/prefix")
        if via and not _readable(canonical, via):
            item.fault("gw", f"{via!r} is no IP address")


def check_gateway(block: Block) -> None:
    """`gateway`, an address if there is one."""
    text = block.text("gateway")
    if text and not _readable(canonical, text):
        block.fault("gateway", f"{text!r} is no IP address")


def check_addresses(block: Block) -> None:
    """`addresses`, each with an address and its mask."""
    for item in block.blocks("addresses"):
        text = item.text("address")
        if "/" not in text or not _readable(canonical_host, text):
            item.fault("address", f"{text!r} is no address/prefix")


def pool_name(network: Network, network_name: str) -> str:
    """The name of the IPPool that the IPAM makes for a range."""
    text = str(network).replace(":", "-").replace("/", "-")
    return f"{network_name}-{text}" if network_name else text


def _edge(block: Block, key: str, network: Network, default: int) -> int:
    text = block.text(key)
    if not text:
        return default
    try:
        address = parse_address(text)
    except AddressError as error:
        block.fault(key, str(error))
        return default
    if AddressRange(family_of(str(address)), int(address), int(address)) not in network:
        block.fault(key, f"{text!r} lies outside {network}")
        return default
    return int(address)


def _readable(read: Callable[[str], str], text: str) -> bool:
    try:
        read(text)
    except AddressError:
        return False
    return True
