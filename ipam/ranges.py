"""Sets of addresses as sorted, disjoint intervals: a /64 costs as much as a single address."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from operator import attrgetter

from msgspec import Struct

from poolwarden.ipam.address import (
    LONGEST_MASK,
    V4,
    V6,
    AddressError,
    Family,
    address_of,
    brief,
    family_of,
    number_of,
    parse_number,
)

_BITS = {V4: 32, V6: 128}
_MAPPED, _MAPPED_BITS = 0xFFFF << 32, 96  # ::ffff:0:0/96
_FAR = 16
"""From so many times as many ranges on, looking each up is faster than walking both sets."""


class RangeError(ValueError):
    """A text that is no range; the message names it and what is allowed."""


class AddressRange(Struct, frozen=True, order=True, gc=False):
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
    part = "its start " if dash else ""
    try:
        family, first = parse_number(first_text.strip())
        if not dash:
            return AddressRange(family, first, first)
        part = "its end "
        other, last = parse_number(last_text.strip())
    except AddressError as error:
        raise RangeError(
            f"{brief(text)}{':' * bool(part)} {part}{error.reason}; allowed: an address, or first-last"
        ) from None
    if family != other:
        raise RangeError(f"{brief(text)} mixes IPv4 and IPv6; both ends must be of one family")
    if last < first:
        raise RangeError(f"{brief(text)} is reversed: its end comes before its start")
    return AddressRange(family, first, last)


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
    """Read `address/prefix` as Go's `net.ParseCIDR` does, host bits allowed. `::ffff:10.0.0.0/120` is 10.0.0.0/24.

    Raises:
        RangeError: no such text.
    """
    host, slash, mask = text.partition("/")
    try:
        family, written = parse_number(host)
    except AddressError:
        raise RangeError(f"{brief(text)} is no network; allowed: address/prefix") from None
    mapped = family == V4 and ":" in host
    bits = _BITS[V6] if mapped else _BITS[family]
    if not (slash and mask.isascii() and mask.isdigit() and len(mask) <= LONGEST_MASK and int(mask) <= bits):
        raise RangeError(f"{brief(text)} has no valid prefix; allowed: /0 to /{bits} behind an IPv{family} address")
    prefix = int(mask)
    if mapped and prefix >= _MAPPED_BITS:
        prefix, bits = prefix - _MAPPED_BITS, _BITS[V4]
    elif mapped:
        family, written = V6, _MAPPED | written
    free = (1 << bits - prefix) - 1
    return Network(AddressRange(family, written & ~free, written | free), prefix, written)


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
        """The addresses in both sets; where one is much the smaller, linear in that and logarithmic in the other."""
        small, large = sorted((self.ranges, other.ranges), key=len)
        large = _within(large, small)
        small = _within(small, large)
        walk = _looked_up if len(small) * _FAR < len(large) else _merged
        return AddressSet(tuple(walk(small, large)))

    def __or__(self, other: "AddressSet") -> "AddressSet":
        """The addresses of either set."""
        return address_set((*self.ranges, *other.ranges))

    def first(self, number: int) -> "AddressSet":
        """The lowest `number` addresses, all if there are fewer; IPv4 before IPv6."""
        return AddressSet(tuple(_cut(self.ranges, number)))

    def last(self, number: int) -> "AddressSet":
        """The highest `number` addresses, all if there are fewer."""
        return self - self.first(max(0, self.size - number))

    def __str__(self) -> str:
        return ",".join(map(str, self.ranges))


def address_set(ranges: Iterable[AddressRange]) -> AddressSet:
    """The union of ranges, merged and sorted."""
    merged: list[AddressRange] = []
    # Twice by numbers: comparing whole ranges takes ten times as long.
    ordered = sorted(sorted(ranges, key=attrgetter("first")), key=attrgetter("family"))
    if not ordered:
        return AddressSet()
    current = ordered[0]
    for item in islice(ordered, 1, None):
        if item.first > current.last + 1 or item.family != current.family:
            merged.append(current)
            current = item
        elif item.last > current.last:
            current = AddressRange(item.family, current.first, item.last)
    return AddressSet((*merged, current))


def _cut(ranges: Iterable[AddressRange], number: int) -> Iterator[AddressRange]:
    """The first `number` addresses of sorted ranges."""
    for item in ranges:
        if number <= 0:
            return
        yield item if item.size <= number else AddressRange(item.family, item.first, item.first + number - 1)
        number -= item.size


def _start(item: AddressRange) -> tuple[Family, int]:
    return item.family, item.first


def _end(item: AddressRange) -> tuple[Family, int]:
    return item.family, item.last


def _within(ranges: tuple[AddressRange, ...], others: Sequence[AddressRange]) -> tuple[AddressRange, ...]:
    """Of sorted, disjoint ranges those that lie between the first and the last of others."""
    if not ranges or not others:
        return ()
    if _end(ranges[-1]) < _start(others[0]) or _end(others[-1]) < _start(ranges[0]):
        return ()
    begin = bisect_left(ranges, _start(others[0]), key=_end)
    return ranges[begin : bisect_right(ranges, _end(others[-1]), key=_start)]


def _looked_up(few: Iterable[AddressRange], many: Sequence[AddressRange]) -> Iterator[AddressRange]:
    """What is in both, each of the few looked up among the many."""
    for item in few:
        begin = bisect_left(many, _start(item), key=_end)
        yield from _merged((item,), many[begin : bisect_right(many, _end(item), begin, key=_start)])


def _merged(ranges: Sequence[AddressRange], others: Sequence[AddressRange]) -> Iterator[AddressRange]:
    """What is in both of two sorted, disjoint lists, walked side by side."""
    one = two = 0
    while one < len(ranges) and two < len(others):
        item, other = ranges[one], others[two]
        if item.family == other.family and item.first <= other.last and other.first <= item.last:
            first, last = max(item.first, other.first), min(item.last, other.last)
            whole = first == item.first and last == item.last
            yield item if whole else AddressRange(item.family, first, last)
        if _end(item) < _end(other):
            one += 1
        else:
            two += 1


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
