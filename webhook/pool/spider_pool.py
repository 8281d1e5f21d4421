"""Rules about SpiderIPPool and SpiderReservedIP.

What Spiderpool's own webhook checks as well (`pkg/ippoolmanager`) is checked here where it
lets something pass: a single reversed range, pools without its label, addresses that other IPAMs hand out.
"""

from collections.abc import Iterator

from msgspec import Raw, Struct, field

from poolwarden.ipam.address import AddressError, parse_address
from poolwarden.ipam.pool import ClaimedOwner, RecordsUnreadable
from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, parse_network
from poolwarden.ipam.spiderpool import NAME, PoolSpec, records_in
from poolwarden.webhook.patch import Operation, pointer
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.address_lists import canonical_list, list_faults, mixed_families, set_of
from poolwarden.webhook.pool.claims import PoolNetworks, foreign_overlaps, spider_overlaps
from poolwarden.webhook.pool.fault import Fault, warned
from poolwarden.webhook.pool.scene import Scene

MOST_LEAVING = 5
"""Addresses in use that a denial names."""


class RouteText(Struct, frozen=True, gc=False):
    """An item of spec.routes."""

    dst: str = ""
    gw: str = ""


class PoolText(PoolSpec, frozen=True, rename="camel", dict=True):
    """SpiderIPPool.spec, as far as rules look at it."""

    routes: tuple[RouteText, ...] | None = None


class Records(Struct, frozen=True, gc=False):
    """SpiderIPPool.status."""

    allocated_ips: Raw = field(name="allocatedIPs", default=Raw(b"null"))


class SpiderPool(Struct, frozen=True, gc=False):
    """A SpiderIPPool."""

    spec: PoolText = PoolText()
    status: Records = Records()


class ReservedText(Struct, frozen=True, rename="camel", gc=False):
    """SpiderReservedIP.spec."""

    ip_version: int | None = None
    ips: tuple[str, ...] | None = None


class SpiderReserved(Struct, frozen=True, gc=False):
    """A SpiderReservedIP."""

    spec: ReservedText = ReservedText()


def pool_edits(pool: SpiderPool, before: SpiderPool) -> Iterator[Operation]:
    """Lists that were written anew and hold no fault are made canonical."""
    lists = (("ips", pool.spec.ips, before.spec.ips), ("excludeIPs", pool.spec.exclude_ips, before.spec.exclude_ips))
    for key, texts, old in lists:
        if texts and texts != old:
            yield from _canonical(key, texts, _subnet(pool.spec.subnet))


def pool_faults(pool: SpiderPool, _scene: Scene) -> Iterator[Fault]:
    """What is wrong with a pool by itself."""
    spec = pool.spec
    within = _subnet(spec.subnet)
    yield from _subnet_faults(spec)
    for key, texts in (("spec.ips", spec.ips or ()), ("spec.excludeIPs", spec.exclude_ips or ())):
        yield from list_faults(key, texts, within)
        if not within:
            yield from mixed_families(key, texts)
    yield from _gateway_faults(pool, within)
    yield from _route_faults(spec.routes or (), within)


def pool_changes(pool: SpiderPool, before: SpiderPool, scene: Scene) -> Iterator[Fault]:
    """What adding or taking away addresses does, or another network."""
    added, lost = pool.spec.addresses - before.spec.addresses, before.spec.addresses - pool.spec.addresses
    now, then = (PoolNetworks(scene.name, one.spec.multus_name or ()) for one in (pool, before))
    yield from spider_overlaps("spec.ips", added, now, scene.knowledge)
    if set(now.attachments) != set(then.attachments):
        kept = pool.spec.addresses - added
        old = set(spider_overlaps("spec.ips", kept, then, scene.knowledge))
        overlaps = spider_overlaps("spec.ips", kept, now, scene.knowledge)
        yield from (fault for fault in overlaps if fault not in old)
    yield from foreign_overlaps("spec.ips", added, NAME, scene.knowledge)
    if lost.ranges:
        yield from _leaving(lost, before)


def reserved_edits(reserved: SpiderReserved, before: SpiderReserved) -> Iterator[Operation]:
    """The list, if it was written anew and holds no fault, is made canonical."""
    texts = reserved.spec.ips
    if texts and texts != before.spec.ips:
        yield from _canonical("ips", texts)


def reserved_faults(reserved: SpiderReserved, _scene: Scene) -> Iterator[Fault]:
    """What is wrong with a reservation."""
    texts = reserved.spec.ips or ()
    yield from list_faults("spec.ips", texts)
    yield from mixed_families("spec.ips", texts)
    version = reserved.spec.ip_version
    families = {item.family for item in set_of(texts).ranges} if version is not None else set()
    if version not in {None, 4, 6}:
        yield Fault("spec.ipVersion", f"{version} is not allowed; allowed: 4 or 6")
    elif version is not None and len(families) == 1 and version not in families:
        yield Fault("spec.ipVersion", f"{version} is not allowed: the addresses in spec.ips are IPv{families.pop()}")


def _canonical(key: str, texts: tuple[str, ...], within: tuple[Network, ...] = ()) -> Iterator[Operation]:
    plain = canonical_list(texts, within, mixed=False)
    if plain != texts:
        yield Operation(pointer("spec", key), list(plain))


def _subnet(text: str) -> tuple[Network, ...]:
    """The subnet, none if it cannot be read."""
    try:
        return (parse_network(text),)
    except RangeError:
        return ()


def _subnet_faults(spec: PoolText) -> Iterator[Fault]:
    try:
        network = parse_network(spec.subnet)
    except RangeError as error:
        yield Fault("spec.subnet", str(error))
        return
    if spec.subnet != str(network):
        yield Fault("spec.subnet", f"{quoted(spec.subnet)} is not the canonical form; write {network}")
    if spec.ip_version not in {None, network.addresses.family}:
        wanted = network.addresses.family
        yield Fault("spec.ipVersion", f"{spec.ip_version} is not allowed: {network} is IPv{wanted}; allowed: {wanted}")


def _gateway_faults(pool: SpiderPool, within: tuple[Network, ...]) -> Iterator[Fault]:
    text = pool.spec.gateway
    if not text:
        return
    yield from (Fault("spec.gateway", problem) for problem in _address_problems(text, within))
    try:
        inside = str(parse_address(text)) in pool.spec.addresses
    except AddressError:
        return
    if inside:
        yield Fault(
            "spec.gateway",
            f"{quoted(text)} is one of spec.ips: a pod could get it; take it out of ips, or add it to excludeIPs",
        )


def _route_faults(routes: tuple[RouteText, ...], within: tuple[Network, ...]) -> Iterator[Fault]:
    seen: set[Network] = set()
    for at, route in enumerate(routes):
        where = f"spec.routes[{at}]"
        yield from (Fault(f"{where}.gw", problem) for problem in _address_problems(route.gw, within))
        try:
            destination = parse_network(route.dst)
        except RangeError as error:
            yield Fault(f"{where}.dst", str(error))
            continue
        for network in within:
            if destination.addresses.family != network.addresses.family:
                yield Fault(f"{where}.dst", f"{quoted(route.dst)} is of another family than {network}")
        if destination.prefix == 0:
            yield Fault(f"{where}.dst", f"{quoted(route.dst)} is the default route; use spec.gateway for that")
        if destination in seen:
            yield Fault(f"{where}.dst", f"{quoted(route.dst)} has a route already; allowed is one for each network")
        seen.add(destination)


def _address_problems(text: str, within: tuple[Network, ...]) -> Iterator[str]:
    """What is wrong with an address that must lie in the subnet, if that is known."""
    try:
        address = parse_address(text)
    except AddressError as error:
        yield f"{error}; allowed: an address within the subnet, without a mask"
        return
    for network in within:
        family = network.addresses.family
        if address.version != family:
            yield f"{quoted(text)} is IPv{address.version}, but {network} is IPv{family}"
        elif AddressRange(family, int(address), int(address)) not in network:
            yield f"{quoted(text)} is not within {network}"


def _leaving(lost: AddressSet, before: SpiderPool) -> Iterator[Fault]:
    """Addresses that are recorded and would not belong to the pool any more."""
    leaving = records_in(lost, before.status.allocated_ips)
    if isinstance(leaving, RecordsUnreadable):
        yield warned("spec.ips", f"whether an address in use leaves the pool is not known: {leaving.problem}")
        return
    for record in leaving[:MOST_LEAVING]:
        owner = record.owner
        user = f"pod {owner.namespace}/{owner.name}" if isinstance(owner, ClaimedOwner) else "an unknown owner"
        yield Fault("spec.ips", f"{record.address} is in use by {user} and cannot leave the pool")
    if len(leaving) > MOST_LEAVING:
        yield Fault("spec.ips", f"{len(leaving) - MOST_LEAVING} more addresses in use cannot leave the pool")
