"""Rules about the IPPools of whereabouts and Neon: objects that their IPAM makes and writes at every ADD.

Its own writes change records, never the range, and pass. The keys of `allocations` are offsets from the range as
written, so a range with records must stay as it is.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Raw, Struct

from poolwarden.ipam import neon, whereabouts
from poolwarden.ipam.address import address_of
from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, address_set, parse_network
from poolwarden.ipam.whereabouts_config import handed_out
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.address_lists import set_of
from poolwarden.webhook.pool.claims import foreign_overlaps
from poolwarden.webhook.pool.fault import Fault, warned
from poolwarden.webhook.pool.scene import Scene

_DIGITS = 39
"""Of the largest offset in IPv6; a longer key is no offset."""


class RangeText(Struct, frozen=True, gc=False):
    """IPPool.spec; `managed` is Neon's, keyed by address."""

    range: str = ""
    allocations: dict[str, Raw] | None = None
    managed: dict[str, Raw] | None = None


class RangePool(Struct, frozen=True, gc=False):
    """An IPPool of either IPAM."""

    spec: RangeText = RangeText()


def whereabouts_changes(pool: RangePool, before: RangePool, scene: Scene) -> Iterator[Fault]:
    """What another range does to a whereabouts IPPool."""
    yield from _changes(pool, before, scene, whereabouts.NAME, handed_out)


def neon_changes(pool: RangePool, before: RangePool, scene: Scene) -> Iterator[Fault]:
    """What another range does to a Neon IPPool."""
    yield from _changes(pool, before, scene, neon.NAME, lambda network: address_set((network.addresses,)))


def _changes(
    pool: RangePool, before: RangePool, scene: Scene, ipam: str, served: Callable[[Network], AddressSet]
) -> Iterator[Fault]:
    text, old = pool.spec.range, before.spec.range
    if text == old:
        return
    try:
        network = parse_network(text)
    except RangeError as error:
        yield Fault("spec.range", str(error))
        return
    yield from _record_faults(network, text, before.spec)
    if not network.exact:
        yield warned("spec.range", f"{quoted(text)} has host bits; versions differ in what they count from: {network}")
    yield from foreign_overlaps("spec.range", served(network), ipam, scene.knowledge)


def _record_faults(network: Network, text: str, before: RangeText) -> Iterator[Fault]:
    """Records that would mean other addresses, or lie outside. Offsets count from the base; `managed` has addresses."""
    instead = f"{quoted(text)} instead of {quoted(before.range)} is not allowed"
    try:
        old = parse_network(before.range)
    except RangeError:
        if before.allocations:
            yield Fault("spec.range", f"{instead}: from where its {len(before.allocations)} records count is not known")
        return
    own = network.addresses
    if before.allocations and (old.addresses.family, old.written) != (own.family, network.written):
        base = address_of(old.addresses.family, old.written)
        told = f"its {len(before.allocations)} records count from {base} and would mean other addresses"
        yield Fault("spec.range", f"{instead}: {told}; make a new pool, or wait until this one is empty")
        return
    recorded = (AddressRange(own.family, number, number) for number in _numbers(old, before.allocations or ()))
    for item in (*recorded, *set_of(tuple(before.managed or ())).ranges):
        if item in old and item not in network:
            yield Fault("spec.range", f"{instead}: {item} is recorded and would lie outside")
            return


def _numbers(network: Network, keys: Iterable[str]) -> Iterator[int]:
    """The addresses of records; a key that is no offset tells none."""
    for key in keys:
        if key.isascii() and key.isdigit() and len(key) <= _DIGITS:
            yield network.written + int(key)
