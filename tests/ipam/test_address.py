"""One spelling per address."""

import re
from ipaddress import ip_address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from poolwarden.ipam.address import (
    AddressError,
    address_of,
    canonical,
    canonical_host,
    family_of,
    number_of,
    parse_address,
    parse_number,
    sort_key,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.5", "10.0.0.5"),
        ("FD00:0:0::00A", "fd00::a"),
        ("fd00:0:0:0:0:0:0:1", "fd00::1"),
        ("::ffff:10.0.0.5", "10.0.0.5"),
        ("::FFFF:0A00:0005", "10.0.0.5"),
        ("::", "::"),
    ],
)
def test_canonical_spelling(text: str, expected: str) -> None:
    """Dotted IPv4, compressed lower-case IPv6, and IPv4-mapped addresses as IPv4, as Go prints them."""
    assert canonical(text) == expected
    assert canonical_host(text) == expected


NO_ADDRESSES = ["", " ", "10.0.0", "10.0.0.256", "010.0.0.1", "10.0.0.5 ", "a", "fd00::g", ":::", "fe80::1%eth0", "5"]


@pytest.mark.parametrize("text", [*NO_ADDRESSES, "10.0.0.5/24"])
def test_texts_that_are_no_address(text: str) -> None:
    """An address has neither mask, zone nor blanks; the error names the text."""
    with pytest.raises(AddressError) as error:
        canonical(text)
    assert repr(text) in str(error.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10.0.0.5/24", "10.0.0.5"),
        ("10.0.0.5/0", "10.0.0.5"),
        ("10.0.0.5/32", "10.0.0.5"),
        ("FD00::5/64", "fd00::5"),
        ("fd00::5/128", "fd00::5"),
    ],
)
def test_mask_is_dropped(text: str, expected: str) -> None:
    """An address with a mask is that address."""
    assert canonical_host(text) == expected


@pytest.mark.parametrize(
    "text",
    [*NO_ADDRESSES, "10.0.0.5/", "10.0.0.5/33", "fd00::5/129", "10.0.0.5/-1", "10.0.0.5/a", "10.0.0.5/24/24", "/24"],
)
def test_masks_that_are_none(text: str) -> None:
    """A mask is a number that fits the family."""
    with pytest.raises(AddressError):
        canonical_host(text)


def test_mask_of_thousands_of_digits() -> None:
    """However long, it is no mask."""
    with pytest.raises(AddressError):
        canonical_host("10.0.0.5/" + "1" * 5000)


def test_non_ascii_digits_are_no_mask() -> None:
    """Python would take them for numbers."""
    with pytest.raises(AddressError):
        canonical_host("10.0.0.5/\N{ARABIC-INDIC DIGIT TWO}")


@given(st.ip_addresses())
def test_numbers_and_back(address: object) -> None:
    """A canonical address is its family and number."""
    text = canonical(str(address))
    assert address_of(family_of(text), number_of(text)) == text
    assert canonical(text) == text
    assert ip_address(text).version == family_of(text)


LIKE = st.text(alphabet="0123456789abcdefABCDEFg.:%- ٣\ud800", max_size=12) | st.builds(
    "{}{}{}".format,
    st.sampled_from(["", ":", "::", "::ffff:", "1:2:3:4:5:6:7:"]),
    st.ip_addresses() | st.text(alphabet="0123456789abcdef.:", max_size=10),
    st.sampled_from(["", ":", "::", ":0", "%eth0"]),
)


@given(LIKE)
@example("::ffff:a00:5")
@example("::ffff:0:0")
@example(":::")
@example("1::2::3")
@example("::+1")
@example("::0_1")
@example("1:2:3:4:5:6:7::")
@example("1:2:3:4:5:6:7:8::")
@example("00001::")
def test_fast_reading_is_right(text: str) -> None:
    """The number of just those texts that are addresses, and the same error for others."""
    try:
        expected = parse_address(text)
    except AddressError as error:
        with pytest.raises(AddressError, match=re.escape(str(error))):
            parse_number(text)
    else:
        assert parse_number(text) == (expected.version, int(expected))


@given(st.lists(st.ip_addresses(v=4)))
def test_order_is_by_number(addresses: list[object]) -> None:
    """Not as texts: .9 comes before .10."""
    texts = [str(address) for address in addresses]
    assert sorted(texts, key=sort_key) == sorted(texts, key=ip_address)


def test_order_of_families_and_of_none() -> None:
    """First what has no address, then IPv4, then IPv6."""
    mixed = ["::1", "10.0.0.10", None, "0.0.0.0", "10.0.0.9"]
    assert sorted(mixed, key=sort_key) == [None, "0.0.0.0", "10.0.0.9", "10.0.0.10", "::1"]
