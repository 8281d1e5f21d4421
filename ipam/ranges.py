"""Sets of addresses as sorted, disjoint intervals: a /64 costs as much as a single address."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator

from msgspec import Struct

from poolwarden.ipam.address import (
    LONGEST_MASK,
    AddressError,
    Family,
    address_of,
    family_of,
    number_of,
    parse_address,
)


class RangeError(ValueError):
    """A text that is no range; the message names it and what is allowed."""


class AddressRange(Struct, frozen=True, order=True):
    """An inclusive range of one family, as numbers; never empty."""

    family: Family
    first: int
    last: int

    @property
    def size(self) -> int:
        """Number of addresses, exact."""
        return self.last - self.first + 1

    def __str__(self) -> str:
        first = address_of(self.family, self.first)
        return first if self.first == self.last else f"{first}-{address_of(self.family, self.last)}"


def parse_range(text: str) -> AddressRange:
    """Read `address` or `address-address`, the grammar of Spiderpool's `ips` and of a PoolGuard's `keep` and `reserve`.

    Raises:
        RangeError: no range, two families, or its end before its start.
    """
    first_text, dash, last_text = text.partition("-")
    try:
        first = parse_address(first_text.strip())
        last = parse_address(last_text.strip()) if dash else first
    except AddressError as error:
        raise RangeError(f"{text!r}: {error}; allowed: an address, or first-last") from None
    if first.version != last.version:
        raise RangeError(f"{text!r} mixes IPv4 and IPv6; both ends must be of one family")
    if int(last) < int(first):
        raise RangeError(f"{text!r} is reversed: its end comes before its start")
    return AddressRange(family_of(str(first)), int(first), int(last))


class Network(Struct, frozen=True):
    """A CIDR: all its addresses, and the one that it was written with."""

    addresses: AddressRange
    prefix: int
    written: int

    @property
    def exact(self) -> bool:
        """Whether it was written with its first address, that is, without host bits."""
        return self.written == self.addresses.first

    def __contains__(self, item: AddressRange) -> bool:
        """Whether a range lies in it as a whole."""
        own = self.addresses
        return own.family == item.family and own.first <= item.first and item.last <= own.last

    def __str__(self) -> str:
        return f"{address_of(self.addresses.family, self.addresses.first)}/{self.prefix}"


def parse_network(text: str) -> Network:
    """Read `address/prefix` as Go's `net.ParseCIDR` does, host bits allowed.

    Raises:
        RangeError: no such text.
    """
    host, slash, mask = text.partition("/")
    try:
        address = parse_address(host)
    except AddressError:
        raise RangeError(f"{text!r} is no network; allowed: address/prefix") from None
    bits = address.max_prefixlen
    if not (slash and mask.isascii() and mask.isdigit() and len(mask) <= LONGEST_MASK and int(mask) <= bits):
        raise RangeError(f"{text!r} has no valid prefix; allowed: /0 to /{bits} behind an IPv{address.version} address")
    free = (1 << bits - int(mask)) - 1
    written = int(address)
    return Network(AddressRange(family_of(str(address)), written & ~free, written | free), int(mask), written)


class AddressSet(Struct, frozen=True):
    """Addresses of both families. `ranges` are sorted, disjoint and not adjacent; build with `address_set`."""

    ranges: tuple[AddressRange, ...] = ()

    @property
    def size(self) -> int:
        """Number of addresses, exact (a /64 has 2**64)."""
        return sum(item.size for item in self.ranges)

    def __contains__(self, address: str) -> bool:
        """Whether a canonical address belongs to the set; O(log n)."""
        family, number = family_of(address), number_of(address)
        at = bisect_right(self.ranges, (family, number), key=lambda item: (item.family, item.first)) - 1
        return at >= 0 and self.ranges[at].family == family and number <= self.ranges[at].last

    def __sub__(self, other: "AddressSet") -> "AddressSet":
        """The addresses of this set that are not in the other; linear in both."""
        return AddressSet(tuple(_subtract(self.ranges, other.ranges)))

    def __and__(self, other: "AddressSet") -> "AddressSet":
        """The addresses in both sets."""
        return self - (self - other)

    def __str__(self) -> str:
        return ",".join(map(str, self.ranges))


def address_set(ranges: Iterable[AddressRange]) -> AddressSet:
    """The union of ranges, merged and sorted."""
    merged: list[AddressRange] = []
    for item in sorted(ranges):
        if merged and merged[-1].family == item.family and item.first <= merged[-1].last + 1:
            before = merged.pop()
            merged.append(AddressRange(item.family, before.first, max(before.last, item.last)))
        else:
            merged.append(item)
    return AddressSet(tuple(merged))


def _subtract(ranges: Iterable[AddressRange], holes: tuple[AddressRange, ...]) -> Iterator[AddressRange]:
    """What is left of sorted, disjoint `ranges` once sorted, disjoint `holes` are cut out."""
    at = 0
    for item in ranges:
        first = item.first
        while at < len(holes) and (holes[at].family, holes[at].last) < (item.family, first):
            at += 1
        hole = at
        while hole < len(holes) and holes[hole].family == item.family and holes[hole].first <= item.last:
            if holes[hole].first > first:
                yield AddressRange(item.family, first, holes[hole].first - 1)
            first = max(first, holes[hole].last + 1)
            hole += 1
        if first <= item.last:
            yield AddressRange(item.family, first, item.last)
