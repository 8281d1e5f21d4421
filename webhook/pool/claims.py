"""Which addresses the other pools of the cluster hold, and whether their networks are known to be apart."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any

from msgspec import Struct

from poolwarden.ipam import neon, spiderpool, whereabouts
from poolwarden.ipam.config_block import CniConfig, parse_cni_config
from poolwarden.ipam.neon import NeonPool
from poolwarden.ipam.network import parse_plumbing
from poolwarden.ipam.objects import NetworkAttachment
from poolwarden.ipam.ranges import AddressSet, RangeError, address_set, parse_network
from poolwarden.ipam.spiderpool import SpiderIPPool
from poolwarden.ipam.whereabouts import WhereaboutsPool
from poolwarden.webhook.knowledge import Knowledge, Known
from poolwarden.webhook.pool.address_lists import set_of, shown
from poolwarden.webhook.pool.fault import Fault, warned, weight_by

LONGEST_REMEMBERED = 1 << 14
"""Characters of a configuration whose ranges are remembered; real ones are shorter, hostile ones would fill memory."""


class Claim(Struct, frozen=True):
    """Addresses that an object of another IPAM hands out; `holder` names it in messages."""

    holder: str
    addresses: AddressSet


class Networks(Enum):
    """What is known of the networks of two pools."""

    TOGETHER = auto()
    APART = auto()
    UNKNOWN = auto()


class PoolNetworks(Struct, frozen=True):
    """What says on which networks a SpiderIPPool lies: its own name, and the attachments that it is bound to."""

    pool: str
    attachments: tuple[str, ...]


class ConfiguredClaim(Struct, frozen=True):
    """Addresses that a NetworkAttachmentDefinition's configuration hands out; `pool` names the IPPool they come from."""

    ipam: str
    pool: str
    addresses: AddressSet


def spider_overlaps(where: str, added: AddressSet, own: PoolNetworks, knowledge: Knowledge) -> Iterator[Fault]:
    """Addresses that another SpiderIPPool holds: refused, unless the networks are apart or may be."""
    pools = knowledge.spider_pools
    if not added.ranges:
        return
    if not pools.whole:
        yield warned(where, f"overlap with other SpiderIPPools could not be checked in full: {pools.doubt}")
    for (_, name), pool in pools.items.items():
        shared = added & addresses_of(pool) if name != own.pool else AddressSet()
        if not shared.ranges:
            continue
        said = f"{shown(shared)} also belong to SpiderIPPool {name}"
        match relation(own, networks_of(pool), knowledge):
            case Networks.TOGETHER:
                rest = "an address may be in one pool only"
                yield Fault(where, f"{said}; {rest}", weight_by(pools))
            case Networks.APART:
                yield warned(where, f"{said}, on another network")
            case Networks.UNKNOWN:
                yield warned(where, f"{said}; whether that is another network is not known")


def foreign_overlaps(where: str, added: AddressSet, own_ipam: str, knowledge: Knowledge) -> Iterator[Fault]:
    """Addresses that another IPAM hands out as well: a warning, since isolated networks may overlap by intent."""
    if not added.ranges:
        return
    for claim in _foreign_claims(own_ipam, knowledge):
        shared = added & claim.addresses
        if shared.ranges:
            yield warned(where, f"{shown(shared)} overlap {claim.holder}: harmless on isolated networks only")


def addresses_of(pool: SpiderIPPool) -> AddressSet:
    """What a SpiderIPPool can hand out, reservations apart."""
    return set_of(pool.spec.ips, pool.spec.exclude_ips)


def networks_of(pool: SpiderIPPool) -> PoolNetworks:
    """What says on which networks a known pool lies."""
    return PoolNetworks(pool.metadata.name, pool.spec.multus_name or ())


def relation(one: PoolNetworks, other: PoolNetworks, knowledge: Knowledge) -> Networks:
    """Apart only if the attachments of both are known, and all their masters, and none is shared."""
    attachments = knowledge.attachments
    if not attachments.whole:
        bound = set(one.attachments), set(other.attachments)
        return Networks.UNKNOWN if all(bound) and not bound[0] & bound[1] else Networks.TOGETHER
    ours, theirs = _masters(one, attachments), _masters(other, attachments)
    apart = ours and theirs and "" not in ours | theirs and not ours & theirs
    return Networks.APART if apart else Networks.TOGETHER


def configured_claims(config: str) -> tuple[ConfiguredClaim, ...]:
    """The ranges of whereabouts and of Neon in a CNI configuration."""
    return _remembered_claims(config) if len(config) <= LONGEST_REMEMBERED else _claims_of(config)


def _claims_of(config: str) -> tuple[ConfiguredClaim, ...]:
    parsed = parse_cni_config(config)
    plugins = parsed.plugins if isinstance(parsed, CniConfig) else ()
    blocks = [ipam for _, plugin in plugins if isinstance(ipam := plugin.get("ipam"), dict)]
    return tuple(claim for ipam in blocks for claim in _configured(ipam))


_remembered_claims = lru_cache(maxsize=4096)(_claims_of)


def _configured(ipam: Mapping[str, Any]) -> Iterator[ConfiguredClaim]:
    if ipam.get("type") == whereabouts.NAME:
        config = whereabouts.parse_whereabouts(ipam)
        if isinstance(config, whereabouts.WhereaboutsConfig):
            yield from (ConfiguredClaim(whereabouts.NAME, item.pool, item.addresses) for item in config.ranges)
    elif neon.is_neon(ipam):
        settings = neon.parse_neon(ipam)
        if isinstance(settings, neon.NeonConfig):
            yield from (ConfiguredClaim(neon.NAME, item.pool, item.addresses) for item in settings.ranges)


def _foreign_claims(own_ipam: str, knowledge: Knowledge) -> Iterator[Claim]:
    """What every IPAM but one's own hands out."""
    if own_ipam != spiderpool.NAME:
        for (_, name), pool in knowledge.spider_pools.items.items():
            yield Claim(f"SpiderIPPool {name}", addresses_of(pool))
    if own_ipam != whereabouts.NAME:
        yield from _range_claims(whereabouts.NAME, knowledge.whereabouts_pools, knowledge)
    if own_ipam != neon.NAME:
        yield from _range_claims(neon.NAME, knowledge.neon_pools, knowledge)


def _range_claims(ipam: str, pools: Known[WhereaboutsPool] | Known[NeonPool], knowledge: Knowledge) -> Iterator[Claim]:
    """A pool that attachments configure hands out what those say; without any, its whole range.

    What is configured for a pool that is not made yet will be handed out, too.
    """
    configured: dict[str, list[tuple[str, AddressSet]]] = defaultdict(list)
    for (namespace, name), attachment in knowledge.attachments.items.items():
        for item in configured_claims(attachment.spec.config):
            if item.ipam == ipam:
                configured[item.pool].append((f"{namespace}/{name}", item.addresses))
    for (namespace, name), made in pools.items.items():
        said = [addresses for _, addresses in configured.pop(name, [])]
        addresses = address_set(item for part in said for item in part.ranges) if said else _whole(ipam, made)
        yield Claim(f"{ipam} IPPool {namespace}/{name} ({made.spec.range})", addresses)
    for attachment_name, addresses in (part for parts in configured.values() for part in parts):
        holder = f"the {ipam} range of NetworkAttachmentDefinition {attachment_name} ({shown(addresses)})"
        yield Claim(holder, addresses)


def _whole(ipam: str, pool: WhereaboutsPool | NeonPool) -> AddressSet:
    try:
        network = parse_network(pool.spec.range)
    except RangeError:
        return AddressSet()
    return whereabouts.handed_out(network) if ipam == whereabouts.NAME else address_set((network.addresses,))


def _masters(own: PoolNetworks, attachments: Known[NetworkAttachment]) -> frozenset[str]:
    """The masters of the attachments that the pool is bound to or that name it; "" for one that is not known."""
    return frozenset(_each_master(own, attachments.items))


def _each_master(own: PoolNetworks, attachments: Mapping[tuple[str, str], NetworkAttachment]) -> Iterator[str]:
    for bound in own.attachments:
        namespace, slash, name = bound.rpartition("/")
        # Without a namespace it is one of Spiderpool's own, whichever that is: any of that name may be meant.
        meant: Iterable[tuple[str, str]] = (
            [(namespace, name)] if slash else [key for key in attachments if key[1] == name]
        )
        found = [attachments[key] for key in meant if key in attachments]
        yield from (parse_plumbing(item.spec.config).master for item in found)
        if not found:
            yield ""
    for item in attachments.values():
        plumbing = parse_plumbing(item.spec.config)
        if spiderpool.NAME in plumbing.ipams and any(fnmatchcase(own.pool, name) for name in plumbing.pools):
            yield plumbing.master
