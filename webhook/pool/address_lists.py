"""Lists of addresses and ranges (`ips`, `excludeIPs`, `keep`, `reserve`): what is wrong with them, and their one form."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, address_set, parse_range
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.fault import Fault, Weight

MOST_SHOWN = 3
"""Ranges that a message shows of a set."""


def list_faults(
    where: str, texts: Iterable[str], within: Sequence[Network] = (), outside: Weight = Weight.REFUSE
) -> Iterator[Fault]:
    """What cannot be read, or lies outside the network if one is given."""
    for at, text in enumerate(texts):
        place = f"{where}[{at}]"
        try:
            found = parse_range(text)
        except RangeError as error:
            yield Fault(place, str(error))
            continue
        for network in within:
            family = network.addresses.family
            if found.family != family:
                yield Fault(place, f"{quoted(text)} is IPv{found.family}, but {network} is IPv{family}", outside)
            elif found not in network:
                yield Fault(place, f"{quoted(text)} is not within {network}", outside)


def mixed_families(where: str, texts: Iterable[str]) -> Iterator[Fault]:
    """Items of another family than that of the first one that can be read."""
    known = [(at, text, found) for at, text in enumerate(texts) for found in _readable((text,))]
    for at, text, found in known[1:]:
        if found.family != known[0][2].family:
            yield Fault(
                f"{where}[{at}]", f"{quoted(text)} is IPv{found.family}, but the first is IPv{known[0][2].family}"
            )


def canonical_list(texts: Sequence[str]) -> tuple[str, ...]:
    """The same addresses canonical, merged and sorted; the list as it is where a part of it cannot be read."""
    try:
        return tuple(map(str, address_set(map(parse_range, texts)).ranges))
    except RangeError:
        return tuple(texts)


@lru_cache(maxsize=8192)
def set_of(texts: tuple[str, ...] | None, without: tuple[str, ...] | None = None) -> AddressSet:
    """The addresses of a list, less those of another; what cannot be read holds none."""
    return address_set(_readable(texts or ())) - address_set(_readable(without or ()))


def shown(addresses: AddressSet) -> str:
    """A set for a message, cut after a few ranges."""
    more = len(addresses.ranges) - MOST_SHOWN
    text = ", ".join(map(str, addresses.ranges[:MOST_SHOWN]))
    return f"{text} and {more} more" if more > 0 else text


def _readable(texts: Iterable[str]) -> Iterator[AddressRange]:
    for text in texts:
        try:
            yield parse_range(text)
        except RangeError:
            continue
