"""Rules about the IPPools of whereabouts and Neon: objects that their IPAM makes and writes at every ADD.

Its own writes change records, never the range, and pass. The keys of `allocations` are offsets from the range as
written, so a range with records must stay as it is.
"""

from collections.abc import Callable, Iterator

from msgspec import Raw, Struct

from poolwarden.ipam import neon, whereabouts
from poolwarden.ipam.ranges import AddressSet, Network, RangeError, address_set, parse_network
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.claims import foreign_overlaps
from poolwarden.webhook.pool.fault import Fault, warned
from poolwarden.webhook.pool.scene import Scene


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
    yield from _changes(pool, before, scene, whereabouts.NAME, whereabouts.handed_out)


def neon_changes(pool: RangePool, before: RangePool, scene: Scene) -> Iterator[Fault]:
    """What another range does to a Neon IPPool."""
    yield from _changes(pool, before, scene, neon.NAME, lambda network: address_set((network.addresses,)))


def _changes(
    pool: RangePool, before: RangePool, scene: Scene, ipam: str, handed_out: Callable[[Network], AddressSet]
) -> Iterator[Fault]:
    text, old = pool.spec.range, before.spec.range
    if text == old:
        return
    try:
        network = parse_network(text)
    except RangeError as error:
        yield Fault("spec.range", str(error))
        return
    records = len(before.spec.allocations or ()) + len(before.spec.managed or ())
    if records and not _same(network, old):
        yield Fault(
            "spec.range",
            f"{quoted(text)} instead of {quoted(old)} is not allowed: the pool's {records} records count from the range "
            "as it was and would mean other addresses; make a new pool, or wait until this one is empty",
        )
    if not network.exact:
        yield warned("spec.range", f"{quoted(text)} has host bits; versions differ in what they count from: {network}")
    yield from foreign_overlaps("spec.range", handed_out(network), ipam, scene.knowledge)


def _same(network: Network, old: str) -> bool:
    """Whether the old text is another spelling of the same range."""
    try:
        return parse_network(old) == network
    except RangeError:
        return False
