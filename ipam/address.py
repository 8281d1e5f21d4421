"""Canonical IP addresses: one spelling per address, so that equal addresses are equal strings."""

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Literal

Family = Literal[4, 6]
V4: Family = 4
V6: Family = 6


LONGEST_MASK = 3  # digits of /128


class AddressError(ValueError):
    """A text that is no IP address; the message names it."""


@lru_cache(maxsize=65536)
def parse_address(text: str) -> IPv4Address | IPv6Address:
    """Read an address without mask or zone. An IPv4-mapped IPv6 address is the IPv4 address, as Go's `net.IP` prints it.

    Raises:
        AddressError: `text` is no IP address.
    """
    try:
        address = ip_address(text)
    except ValueError:
        raise AddressError(f"{text!r} is no IP address") from None
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            raise AddressError(f"{text!r} has a zone; an address without one is needed")
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
    return address


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
        raise AddressError(f"{text!r} has no valid mask")
    return canonical(host)


def family_of(address: str) -> Family:
    """4 or 6, of a canonical address."""
    return V6 if ":" in address else V4


def number_of(address: str) -> int:
    """The canonical address as an integer."""
    return int(parse_address(address))


def address_of(family: Family, number: int) -> str:
    """The canonical address of a family and integer."""
    return str(IPv4Address(number) if family == V4 else IPv6Address(number))


def sort_key(address: str | None) -> tuple[int, int]:
    """Order of findings: those about the pool itself (no address) first, then by family and number."""
    return (0, 0) if address is None else (family_of(address), number_of(address))
