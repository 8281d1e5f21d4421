"""A range in the configuration of whereabouts or of Neon's IPAM: both use the same keys.

Source: whereabouts v0.9.4 and neondatabase/autoscaling, `RangeConfiguration`.
"""

from collections.abc import Iterator

from msgspec import Struct

from poolwarden.ipam.address import AddressError, address_of, brief, parse_number
from poolwarden.ipam.config_block import MOST_ITEMS, Block
from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, parse_network

RANGE_KEYS = frozenset({"range", "range_start", "range_end", "exclude"})


class ConfiguredRange(Struct, frozen=True):
    """A range: `pool` names its IPPool, `addresses` are those that can be handed out."""

    network: Network
    addresses: AddressSet
    pool: str


def without_padding(text: str) -> str:
    """An address or address/prefix without leading zeros in decimal parts, which `ParseIPSloppy` of k8s.io/utils skips."""
    host, slash, mask = text.partition("/")
    head, colon, tail = host.rpartition(":")
    if "." in tail:
        tail = ".".join(map(_unpadded, tail.split(".")))
    return f"{head}{colon}{tail}{slash}{_unpadded(mask)}"


def read_bounds(block: Block, network: Network, outer: AddressRange, *, sloppy: bool = False) -> AddressRange:
    """From range_start to range_end, as far as they lie in `outer`; all of it where they are absent or wrong.

    `sloppy` if the reader takes leading zeros, and passes over in silence what is no address.
    """
    own = network.addresses
    first = _edge(block, "range_start", network, own.first, sloppy=sloppy)
    last = _edge(block, "range_end", network, own.last, sloppy=sloppy)
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
    own = network.addresses
    wrong = 0
    for at, text in enumerate(block.texts("exclude")):
        try:
            found = parse_network(text).addresses if "/" in text else _single(text)
        except ValueError:
            wrong += 1
            block.fault(f"exclude[{at}]", f"{brief(text)} is neither an address nor address/prefix")
            if wrong == MOST_ITEMS:
                return
            continue
        if found.family != own.family or found.last < own.first or own.last < found.first:
            block.remark(f"exclude[{at}]", f"{brief(text)} excludes nothing: it lies outside {network}")
        yield found


def _single(text: str) -> AddressRange:
    family, number = parse_number(text)
    return AddressRange(family, number, number)


def check_routes(block: Block) -> None:
    """`routes` as CNI's libraries take them: `dst` a CIDR, `gw` an address if there is one."""
    for item in block.blocks("routes"):
        destination, via = item.text("dst"), item.text("gw")
        if not _is_network(destination):
            item.fault("dst", f"{brief(destination)} is no network; allowed: address/prefix")
        if via and not _is_address(via):
            item.fault("gw", f"{brief(via)} is no IP address")
        for key in ("mtu", "advmss", "priority", "table", "scope"):
            item.number(key)


def check_dns(block: Block) -> None:
    """`dns` as CNI's libraries take it."""
    dns = block.block("dns")
    dns.text("domain")
    for key in ("nameservers", "search", "options"):
        dns.texts(key)


def check_gateway(block: Block) -> None:
    """`gateway`, an address if there is one; leading zeros are skipped."""
    text = block.text("gateway")
    if text and not _is_address(without_padding(text)):
        block.fault("gateway", f"{brief(text)} is no IP address")


def check_addresses(block: Block) -> None:
    """`addresses`, each with an address and its mask, in which leading zeros are skipped, and perhaps a gateway."""
    for item in block.blocks("addresses"):
        text, via = item.text("address"), item.text("gateway")
        if not _is_network(without_padding(text)):
            item.fault("address", f"{brief(text)} is no address/prefix")
        if via and not _is_address(via):
            item.fault("gateway", f"{brief(via)} is no IP address")


def pool_name(network: Network, network_name: str) -> str:
    """The name of the IPPool that the IPAM makes for a range."""
    text = str(network).replace(":", "-").replace("/", "-")
    return f"{network_name}-{text}" if network_name else text


def network_name_of(pool: str, network: Network) -> str:
    """The `network_name` for which an IPAM has made an IPPool of this name; one named otherwise is on a network of its own."""
    plain = pool_name(network, "")
    return "" if pool == plain else pool.removesuffix(f"-{plain}")


def named_networks(pool: str) -> Iterator[Network]:
    """What the name of an IPPool tells of its range, `[<network_name>-][<node>-]<range>`: the longest reading first."""
    host, _, prefix = pool.rpartition("-")
    for at in (0, *(at + 1 for at, char in enumerate(host) if char == "-")):
        text = host[at:] if "." in host[at:] else host[at:].replace("-", ":")
        try:
            yield parse_network(f"{text}/{prefix}")
        except RangeError:
            continue


def read_overwritten(block: Block, *, sloppy: bool) -> None:
    """`range_start` and `range_end` beside a range that says both itself."""
    for key in ("range_start", "range_end"):
        text = block.text(key)
        if text and not sloppy and not _is_address(text):
            block.fault(key, f"{brief(text)} is no IP address")
        elif text:
            block.remark(key, "does nothing: the range beside it says first and last address itself")


def _edge(block: Block, key: str, network: Network, default: int, *, sloppy: bool) -> int:
    text = block.text(key)
    if not text:
        return default
    try:
        family, number = parse_number(without_padding(text) if sloppy else text)
    except AddressError as error:
        if sloppy:
            block.remark(key, f"{brief(text)} {error.reason}, and is passed over in silence: the range is not cut")
        else:
            block.fault(key, f"{brief(text)} {error.reason}")
        return default
    if AddressRange(family, number, number) not in network:
        block.fault(key, f"{brief(text)} lies outside {network}")
        return default
    return number


def _unpadded(digits: str) -> str:
    return digits.lstrip("0") or digits[-1:]


def _is_address(text: str) -> bool:
    try:
        parse_number(text)
    except AddressError:
        return False
    return True


def _is_network(text: str) -> bool:
    try:
        parse_network(text)
    except RangeError:
        return False
    return True
