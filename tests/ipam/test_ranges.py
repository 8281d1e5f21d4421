"""Sets of addresses, against Python's own sets."""

from ipaddress import IPv4Address, IPv6Address, ip_interface

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poolwarden.ipam.address import Family
from poolwarden.ipam.ranges import (
    AddressRange,
    AddressSet,
    RangeError,
    address_set,
    parse_network,
    parse_range,
)

EDGE = 20  # numbers from 0 to here, of both families


def spans(first: int = 0, last: int = EDGE) -> st.SearchStrategy[AddressRange]:
    """Small ranges of either family."""
    pairs = st.tuples(st.sampled_from([4, 6]), st.integers(first, last), st.integers(first, last))
    return pairs.map(lambda item: AddressRange(family(item[0]), min(item[1:]), max(item[1:])))


def family(number: int) -> Family:
    """4 or 6."""
    return 6 if number == 6 else 4


def members(ranges: list[AddressRange]) -> set[str]:
    """Every address, one by one."""
    return {
        str((IPv4Address if item.family == 4 else IPv6Address)(number))
        for item in ranges
        for number in range(item.first, item.last + 1)
    }


EVERYTHING = [str(kind(number)) for kind in (IPv4Address, IPv6Address) for number in range(EDGE + 3)]
lists = st.lists(spans(), max_size=6)


def listed(found: AddressSet) -> set[str]:
    """The members of a set, found by asking for each."""
    return {address for address in EVERYTHING if address in found}


@given(lists)
def test_union(ranges: list[AddressRange]) -> None:
    """Membership and size are those of the set of all addresses."""
    found = address_set(ranges)
    assert listed(found) == members(ranges)
    assert found.size == len(members(ranges))


@given(lists)
def test_ranges_are_sorted_disjoint_and_not_adjacent(ranges: list[AddressRange]) -> None:
    """One form for one set."""
    found = address_set(ranges)
    for one, two in zip(found.ranges, found.ranges[1:], strict=False):
        assert one.family < two.family or one.last + 1 < two.first
    assert address_set(reversed(found.ranges)) == found


@given(lists, lists)
def test_difference(ranges: list[AddressRange], holes: list[AddressRange]) -> None:
    """What is in the one and not in the other."""
    found = address_set(ranges) - address_set(holes)
    assert listed(found) == members(ranges) - members(holes)
    assert found.size == len(members(ranges) - members(holes))
    assert found == address_set(found.ranges)


@given(lists, lists)
def test_intersection(ranges: list[AddressRange], others: list[AddressRange]) -> None:
    """What is in both."""
    found = address_set(ranges) & address_set(others)
    assert listed(found) == members(ranges) & members(others)


def test_large_sets_are_exact() -> None:
    """A /64 less one address, and all of IPv6, to the last address."""
    prefix = address_set([parse_range("fd00::-fd00::ffff:ffff:ffff:ffff")])
    assert prefix.size == 2**64
    left = prefix - address_set([parse_range("fd00::1:0:0")])
    assert left.size == 2**64 - 1
    assert "fd00::1:0:0" not in left
    assert "fd00::1:0:1" in left
    assert address_set([parse_range("::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")]).size == 2**128
    assert address_set([parse_range("0.0.0.0-255.255.255.255")]).size == 2**32


def test_families_are_apart() -> None:
    """The same number in the other family is another address."""
    four = address_set([parse_range("0.0.0.1-0.0.0.9")])
    assert "::1" not in four
    assert (four - address_set([parse_range("::1-::9")])) == four


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("10.0.0.5-10.0.0.9", "10.0.0.5-10.0.0.9"),
        ("10.0.0.5-10.0.0.5", "10.0.0.5"),
        (" 10.0.0.5 - 10.0.0.9 ", "10.0.0.5-10.0.0.9"),
        ("FD00::5-fd00::00a", "fd00::5-fd00::a"),
        ("::ffff:10.0.0.5-10.0.0.6", "10.0.0.5-10.0.0.6"),
    ],
)
def test_ranges_as_written(text: str, expected: str) -> None:
    """An address or first-last, in any spelling."""
    assert str(parse_range(text)) == expected
    assert str(address_set([parse_range(text)])) == expected


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.0.0.9-10.0.0.5", "reversed"),
        ("10.0.0.5-fd00::5", "mixes"),
        ("10.0.0.0/24", "first-last"),
        ("10.0.0.5-10.0.0.6-10.0.0.7", "first-last"),
        ("10.0.0.5-", "first-last"),
        ("-10.0.0.5", "first-last"),
        ("", "first-last"),
        ("x", "first-last"),
    ],
)
def test_texts_that_are_no_range(text: str, why: str) -> None:
    """The error names the text and what is wrong with it."""
    with pytest.raises(RangeError) as error:
        parse_range(text)
    assert repr(text) in str(error.value)
    assert why in str(error.value)


def test_set_as_text() -> None:
    """Ranges in order, by commas; the empty set is empty."""
    ranges = [parse_range(text) for text in ("10.0.0.9", "10.0.0.1-10.0.0.3", "10.0.0.4", "fd00::1")]
    assert str(address_set(ranges)) == "10.0.0.1-10.0.0.4,10.0.0.9,fd00::1"
    assert str(AddressSet()) == ""
    assert AddressSet().size == 0
    assert "10.0.0.1" not in AddressSet()


@given(st.ip_addresses(v=4) | st.ip_addresses(v=6), st.integers(0, 128))
def test_network(address: IPv4Address | IPv6Address, prefix: int) -> None:
    """As Python reads an interface, all addresses of its network included."""
    prefix = min(prefix, address.max_prefixlen)
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return
    found, expected = parse_network(f"{address}/{prefix}"), ip_interface(f"{address}/{prefix}")
    assert str(found) == str(expected.network)
    assert found.addresses == parse_range(f"{expected.network[0]}-{expected.network[-1]}")
    assert found.exact == (expected.ip == expected.network[0])
    assert found.addresses in found
    assert found.written == int(address)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("::ffff:10.0.0.0/120", "10.0.0.0/24"),
        ("::ffff:10.0.0.5/96", "0.0.0.0/0"),
        ("::ffff:10.0.0.5/128", "10.0.0.5/32"),
        ("::ffff:10.0.0.0/95", "::fffe:0:0/95"),
        ("::ffff:10.0.0.0/24", "::/24"),
        ("::FFFF:a00:0/120", "10.0.0.0/24"),
    ],
)
def test_mapped_network(text: str, expected: str) -> None:
    """Within ::ffff:0:0/96 it is an IPv4 network, as Go prints it."""
    assert str(parse_network(text)) == expected


@pytest.mark.parametrize("many", [40_000, 2])
def test_intersection_of_few_with_many(many: int) -> None:
    """Each of the few is looked up, in both orders, at both ends and between."""
    large = address_set(AddressRange(4, n, n) for n in range(10, 10 + 2 * many, 2))
    few = address_set(
        [AddressRange(4, 0, 9), AddressRange(4, 11, 11), AddressRange(4, 12, 12), AddressRange(6, 12, 12)]
    )
    ends = address_set([AddressRange(4, 10, 10), AddressRange(4, 8 + 2 * many, 99 + 2 * many)])
    assert str(few & large) == str(large & few) == "0.0.0.12"
    assert (ends & large).size == (large & ends).size == 2
    assert large & large == large
    assert (large & AddressSet()) == (AddressSet() & large) == AddressSet()


@pytest.mark.parametrize("text", ["9" * 100_000, "9" * 100_000 + "-1", "1-" * 50_000, "x" * 100_000 + "/5"])
def test_long_texts_are_cut(text: str) -> None:
    """A message shows the start of what it is about."""
    for parse in (parse_range, parse_network):
        with pytest.raises(RangeError) as error:
            parse(text)
        assert len(str(error.value)) < 200


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "10.0.0.0",
        "10.0.0.0/",
        "10.0.0.0/33",
        "fd00::/129",
        "10.0.0.0/255.0.0.0",
        "10.0.0.0/-1",
        "/8",
        "10.0.0.0/٣",
    ],
)
def test_no_network(text: str) -> None:
    """The message names the text."""
    with pytest.raises(RangeError, match="allowed"):
        parse_network(text)


def test_what_lies_in_a_network() -> None:
    """A range as a whole, of the same family."""
    network = parse_network("0.0.0.0/24")
    assert parse_range("0.0.0.0-0.0.0.255") in network
    assert parse_range("0.0.0.255-0.0.1.0") not in network
    assert parse_range("::1") not in network
