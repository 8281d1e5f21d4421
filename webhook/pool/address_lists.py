"""Lists of addresses and ranges (`ips`, `excludeIPs`, `keep`, `reserve`): what is wrong with them, and their one form."""

from collections.abc import Iterable, Iterator, Sequence

from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, address_set, parse_range
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.fault import Fault, Weight

MOST_SHOWN = 2
"""Ranges that a message shows of a set."""


def list_faults(
    where: str, texts: Iterable[str], within: Sequence[Network] = (), outside: Weight = Weight.REFUSE
) -> Iterator[Fault]:
    """What cannot be read, or lies outside the network if one is given."""
    for at, text in enumerate(texts):
        try:
            found = parse_range(text)
        except RangeError as error:
            yield Fault(f"{where}[{at}]", str(error))
            continue
        for network in within:
            family = network.addresses.family
            if found.family != family:
                yield Fault(
                    f"{where}[{at}]", f"{quoted(text)} is IPv{found.family}, but {network} is IPv{family}", outside
                )
            elif found not in network:
                yield Fault(f"{where}[{at}]", f"{quoted(text)} is not within {network}", outside)


def mixed_families(where: str, texts: Iterable[str]) -> Iterator[Fault]:
    """Items of another family than that of the first one that can be read."""
    known = ((at, text, found) for at, text in enumerate(texts) for found in _readable((text,)))
    for _, _, first in known:
        for at, text, found in known:
            if found.family != first.family:
                yield Fault(
                    f"{where}[{at}]", f"{quoted(text)} is IPv{found.family}, but the first is IPv{first.family}"
                )


def canonical_list(texts: Sequence[str], within: Sequence[Network] = (), *, mixed: bool = True) -> tuple[str, ...]:
    """The same addresses canonical, merged and sorted.

    The list as it is where a part of it cannot be read, lies outside the network if one is given, or is of another
    family than the rest unless that is allowed.
    """
    try:
        found = address_set(map(parse_range, texts)).ranges
    except RangeError:
        return tuple(texts)
    fits = all(item in network for network in within for item in found)
    fits = fits and (mixed or not found or found[0].family == found[-1].family)
    return tuple(map(str, found)) if fits else tuple(texts)


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
