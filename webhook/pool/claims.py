"""Which addresses the other pools of the cluster hold, and whether their networks are known to be apart."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, auto
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache
from typing import Any

from msgspec import Struct

from poolwarden.ipam import neon, spiderpool, whereabouts
from poolwarden.ipam.config_block import CniConfig, ipam_type, parse_cni_config
from poolwarden.ipam.neon import NeonPoolShape
from poolwarden.ipam.neon_config import NeonConfig, is_neon, parse_neon
from poolwarden.ipam.network import parse_plumbing
from poolwarden.ipam.objects import NetworkAttachment
from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.range_config import ConfiguredRange, network_name_of
from poolwarden.ipam.ranges import AddressSet, RangeError, address_set, parse_network
from poolwarden.ipam.whereabouts import WhereaboutsPoolShape
from poolwarden.ipam.whereabouts_config import WhereaboutsConfig, handed_out, parse_whereabouts
from poolwarden.webhook.knowledge import Key, Knowledge, Known
from poolwarden.webhook.pool.address_lists import shown
from poolwarden.webhook.pool.fault import Fault, warned, weight_by

WILDCARDS = frozenset("*?[")
LONGEST_REMEMBERED = 1 << 14
"""Characters of a configuration whose ranges are remembered; real ones are shorter, hostile ones would fill memory."""


class Claim(Struct, frozen=True):
    """Addresses that a pool of another object's hands out; `holder` names that in messages.

    `pool` is namespace and name of the IPPool, the namespace "" while it is not made; `network_name` that of its IPAM.
    """

    holder: str
    addresses: AddressSet
    pool: Key = ("", "")
    network_name: str = ""


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
    network_name: str
    addresses: AddressSet


class Masters:
    """The masters of pools, from attachments that are looked through once."""

    def __init__(self, attachments: Known[NetworkAttachment]) -> None:
        self._attachments = attachments
        self._found: dict[PoolNetworks, frozenset[str]] = {}

    def relation(self, one: PoolNetworks, other: PoolNetworks) -> Networks:
        """Apart only if the attachments of both are known, and all their masters, and none is shared."""
        if not self._attachments.whole:
            bound = set(one.attachments), set(other.attachments)
            return Networks.UNKNOWN if all(bound) and not bound[0] & bound[1] else Networks.TOGETHER
        ours = self._of(one)
        if not ours or "" in ours:
            return Networks.TOGETHER
        theirs = self._of(other)
        apart = theirs and "" not in theirs and not ours & theirs
        return Networks.APART if apart else Networks.TOGETHER

    def _of(self, pool: PoolNetworks) -> frozenset[str]:
        """The masters of the attachments that it is bound to or that name it; "" for one that is not known."""
        if pool not in self._found:
            self._found[pool] = frozenset(self._each(pool))
        return self._found[pool]

    def _each(self, pool: PoolNetworks) -> Iterator[str]:
        attachments = self._attachments.items
        for bound in pool.attachments:
            namespace, slash, name = bound.rpartition("/")
            # Without a namespace it is one of Spiderpool's own, whichever that is: any of that name may be meant.
            meant = [(namespace, name)] if slash else self._by_name.get(name, [])
            found = [attachments[key] for key in meant if key in attachments]
            yield from (parse_plumbing(item.spec.config).master for item in found)
            if not found:
                yield ""
        exact, patterns = self._naming
        yield from exact.get(pool.pool, ())
        yield from (master for pattern, master in patterns if fnmatchcase(pool.pool, pattern))

    @cached_property
    def _by_name(self) -> Mapping[str, list[Key]]:
        keys: dict[str, list[Key]] = defaultdict(list)
        for key in self._attachments.items:
            keys[key[1]].append(key)
        return keys

    @cached_property
    def _naming(self) -> tuple[Mapping[str, set[str]], list[tuple[str, str]]]:
        """Names of pools in the attachments' own settings, each with its masters; and patterns of names."""
        exact: dict[str, set[str]] = defaultdict(set)
        patterns: list[tuple[str, str]] = []
        for item in self._attachments.items.values():
            plumbing = parse_plumbing(item.spec.config)
            for name in plumbing.pools if spiderpool.NAME in plumbing.ipams else ():
                if WILDCARDS & set(name):
                    patterns.append((name, plumbing.master))
                else:
                    exact[name].add(plumbing.master)
        return exact, patterns


def spider_overlaps(where: str, added: AddressSet, own: PoolNetworks, knowledge: Knowledge) -> Iterator[Fault]:
    """Addresses that another SpiderIPPool holds: refused, unless the networks are apart or may be."""
    pools = knowledge.spider_pools
    if not added.ranges:
        return
    if not pools.whole:
        yield warned(where, f"overlap with other SpiderIPPools could not be checked in full: {pools.doubt}")
    masters = Masters(knowledge.attachments)
    for (_, name), pool in pools.items.items():
        shared = added & pool.spec.addresses if name != own.pool else AddressSet()
        if not shared.ranges:
            continue
        said = f"SpiderIPPool {name} holds {shown(shared)}, too"
        match masters.relation(own, PoolNetworks(name, pool.spec.multus_name or ())):
            case Networks.TOGETHER:
                yield Fault(where, f"{said}; an address may be in one pool only", weight_by(pools))
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
            yield warned(where, f"{claim.holder} hands out {shown(shared)}, too: harmless on isolated networks only")


def sibling_overlaps(where: str, added: AddressSet, own: PoolRef, knowledge: Knowledge) -> Iterator[Fault]:
    """Addresses that another pool of the same IPAM hands out: refused where both have the same network_name."""
    if not added.ranges:
        return
    pools = knowledge.whereabouts_pools if own.ipam == whereabouts.NAME else knowledge.neon_pools
    claims = tuple(_range_claims(own.ipam, pools, knowledge))
    mine = {claim.network_name for claim in claims if _is_of(claim, own)}
    for claim in claims:
        shared = added & claim.addresses if not _is_of(claim, own) else AddressSet()
        if not shared.ranges:
            continue
        said = f"{claim.holder} hands out {shown(shared)}, too"
        if claim.network_name in mine:
            weight = weight_by(pools, knowledge.attachments)
            yield Fault(where, f"{said}, on the same network; allowed: addresses of no other pool", weight)
        else:
            yield warned(where, f"{said}: harmless on isolated networks only")


def _is_of(claim: Claim, pool: PoolRef) -> bool:
    namespace, name = claim.pool
    return name == pool.name and namespace in {"", pool.namespace}


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
    if ipam_type(ipam) == whereabouts.NAME:
        config = parse_whereabouts(ipam)
        if isinstance(config, WhereaboutsConfig):
            yield from _claimed(whereabouts.NAME, config.network_name, config.ranges)
    elif is_neon(ipam):
        settings = parse_neon(ipam)
        if isinstance(settings, NeonConfig):
            yield from _claimed(neon.NAME, settings.network_name, settings.ranges)


def _claimed(ipam: str, network_name: str, ranges: Iterable[ConfiguredRange]) -> Iterator[ConfiguredClaim]:
    return (ConfiguredClaim(ipam, item.pool, network_name, item.addresses) for item in ranges)


def _foreign_claims(own_ipam: str, knowledge: Knowledge) -> Iterator[Claim]:
    """What every IPAM but one's own hands out."""
    if own_ipam != spiderpool.NAME:
        for (_, name), pool in knowledge.spider_pools.items.items():
            yield Claim(f"SpiderIPPool {name}", pool.spec.addresses)
    if own_ipam != whereabouts.NAME:
        yield from _range_claims(whereabouts.NAME, knowledge.whereabouts_pools, knowledge)
    if own_ipam != neon.NAME:
        yield from _range_claims(neon.NAME, knowledge.neon_pools, knowledge)


def _range_claims(
    ipam: str, pools: Known[WhereaboutsPoolShape] | Known[NeonPoolShape], knowledge: Knowledge
) -> Iterator[Claim]:
    """A pool that attachments configure hands out what those say; without any, its whole range.

    What is configured for a pool that is not made yet will be handed out, too.
    """
    configured: dict[str, list[tuple[str, ConfiguredClaim]]] = defaultdict(list)
    for (namespace, name), attachment in knowledge.attachments.items.items():
        for item in configured_claims(attachment.spec.config):
            if item.ipam == ipam:
                configured[item.pool].append((f"{namespace}/{name}", item))
    for (namespace, name), made in pools.items.items():
        said = configured.pop(name, [])
        whole, network_name = _made(ipam, name, made.spec.range)
        addresses = address_set(item for _, part in said for item in part.addresses.ranges) if said else whole
        holder = f"{ipam} IPPool {namespace}/{name} ({made.spec.range})"
        yield Claim(holder, addresses, (namespace, name), network_name)
    for attachment_name, item in (part for parts in configured.values() for part in parts):
        holder = f"the {ipam} range of NetworkAttachmentDefinition {attachment_name}"
        yield Claim(holder, item.addresses, ("", item.pool), item.network_name)


def _made(ipam: str, pool: str, text: str) -> tuple[AddressSet, str]:
    """All that an IPPool can hand out, and the network_name that its own name tells."""
    try:
        network = parse_network(text)
    except RangeError:
        return AddressSet(), pool
    whole = handed_out(network) if ipam == whereabouts.NAME else address_set((network.addresses,))
    return whole, network_name_of(pool, network)
