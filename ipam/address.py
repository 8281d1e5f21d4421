"""Canonical IP addresses: one spelling per address, so that equal addresses are equal strings."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

Family = Literal[4, 6]
V4: Family = 4
V6: Family = 6


LONGEST_MASK = 3  # digits of /128
LONGEST_SHOWN = 80
"""Characters that a message quotes of a text: a hostile one may be megabytes long."""
_OCTETS = {str(number): number for number in range(256)}
_V6_CHARACTERS, _GROUPS, _GROUP_DIGITS = "0123456789abcdefABCDEF:", 8, 4
_MAPPED, _MAPPED_SHIFT = 0xFFFF, 32  # ::ffff:0:0/96


class AddressError(ValueError):
    """A text that is no IP address; the message names it, `reason` is the message without it."""

    def __init__(self, text: str = "", reason: str = "is no IP address") -> None:
        super().__init__(f"{brief(text)} {reason}")
        self.reason = reason


def brief(text: str) -> str:
    """A text for a message: quoted, and cut if it is long."""
    return repr(text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…")


@lru_cache(maxsize=65536)
def parse_address(text: str) -> IPv4Address | IPv6Address:
    """Read an address without mask or zone. An IPv4-mapped IPv6 address is the IPv4 address, as Go's `net.IP` prints it.

    Raises:
        AddressError: `text` is no IP address.
    """
    try:
        address = ip_address(text)
    except ValueError:
        raise AddressError(text) from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise AddressError(text, "has a zone; an address without one is needed")
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
    return address


def parse_number(text: str) -> tuple[Family, int]:
    """Family and integer of an address that `parse_address` would read; several times as fast, since lists are long.

    Raises:
        AddressError: `text` is no IP address.
    """
    if "." not in text and ":" in text and (number := _number_v6(text)) >> _MAPPED_SHIFT not in {0, _MAPPED}:
        return V6, number
    try:
        one, two, three, four = text.split(".")
        return V4, _OCTETS[one] << 24 | _OCTETS[two] << 16 | _OCTETS[three] << 8 | _OCTETS[four]
    except (ValueError, KeyError):
        address = parse_address(text)
    return (V4 if isinstance(address, IPv4Address) else V6), int(address)


def _number_v6(text: str) -> int:
    """The integer of an IPv6 address of hexadecimal groups, 0 for a text that needs a closer look."""
    if text.strip(_V6_CHARACTERS):
        return 0
    head, double, tail = text.partition("::")
    first, last = head.split(":") if head else [], tail.split(":") if tail else []
    gap = _GROUPS - len(first) - len(last)
    groups = [*first, *(["0"] * gap), *last]
    if (gap < 1 if double else gap) or not all(0 < len(group) <= _GROUP_DIGITS for group in groups):
        return 0
    return int("".join([group.zfill(_GROUP_DIGITS) for group in groups]), 16)


@lru_cache(maxsize=65536)
def canonical(text: str) -> str:
    """The one spelling of an address: dotted IPv4, compressed lower-case IPv6.

    Raises:
        AddressError: `text` is no IP address.
    """
    return str(parse_address(text))


def canonical_host(text: str) -> str:
    """Like `canonical`, for an address that may carry a mask (`10.0.0.5/24`), which is dropped.

    Raises:
        AddressError: `text` is neither an address nor address/mask.
    """
    host, slash, mask = text.partition("/")
    if not slash:
        return canonical(host)
    address = parse_address(host)
    if slash and not (
        mask.isascii() and mask.isdigit() and len(mask) <= LONGEST_MASK and int(mask) <= address.max_prefixlen
    ):
        raise AddressError(text, "has no valid mask")
    return canonical(host)


def family_of(address: str) -> Family:
    """4 or 6, of a canonical address."""
    return V6 if ":" in address else V4


def number_of(address: str) -> int:
    """The canonical address as an integer."""
    return int(parse_address(address))


def address_of(family: Family, number: int) -> str:
    """The canonical address of a family and integer."""
    if family == V4:
        return f"{number >> 24}.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return str(IPv6Address(number))


def sort_key(address: str | None) -> tuple[int, int]:
    """Order of findings: those about the pool itself (no address) first, then by family and number."""
    return (0, 0) if address is None else (family_of(address), number_of(address))
