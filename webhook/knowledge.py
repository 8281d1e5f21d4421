"""What is known of the cluster while an object is reviewed: networks and pools, as last heard.

Immutable, so that a review sees one state; the rim (watches, or files) makes a new one when something changes.
"""

from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from msgspec import Struct

from poolwarden.cluster.interface import Complete, Partial
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS, Kind
from poolwarden.ipam.neon import POOLS as NEON_POOLS
from poolwarden.ipam.neon import NeonPoolShape
from poolwarden.ipam.objects import Metadata, NetworkAttachment
from poolwarden.ipam.pool_guard import POOL_GUARDS, GuardPoolRef
from poolwarden.ipam.spiderpool import (
    MULTUS_CONFIGS,
    RESERVATIONS,
    PoolShape,
    SpiderMultusConfig,
    SpiderReservedIP,
)
from poolwarden.ipam.spiderpool import POOLS as SPIDER_POOLS
from poolwarden.ipam.whereabouts import POOLS as WHEREABOUTS_POOLS
from poolwarden.ipam.whereabouts import WhereaboutsPoolShape

T = TypeVar("T")
Key = tuple[str, str]
"""Namespace ("" for cluster-scoped kinds) and name."""

NOT_READ = "has not been read"
_MOST_NAMES = 3  # in one warning

NOWHERE = Partial(frozenset())
"""No namespace was read to its end, or what was read is old."""


class Known(Struct, Generic[T], frozen=True):
    """All objects of one kind, by namespace and name.

    `doubt` says why the collection may lack some or be old ("" if it is whole and fresh): then rules that rest on it
    warn instead of refusing.

    Attributes:
        items: the objects that could be read.
        doubt: one line for people.
        read: where every object is in `items` or `unreadable`, whatever the doubt about others.
        unreadable: objects that exist but cannot be decoded.
    """

    items: Mapping[Key, T]
    doubt: str = ""
    read: Complete | Partial = NOWHERE
    unreadable: frozenset[Key] = frozenset()

    @property
    def whole(self) -> bool:
        """Whether what is not in it does not exist."""
        return not self.doubt

    @property
    def fresh(self) -> bool:
        """Whether what is in it is as it is now, even if others are missing."""
        return self.whole or self.read != NOWHERE

    def lacks(self, key: Key) -> bool:
        """Whether an object is known not to exist."""
        if key in self.items or key in self.unreadable:
            return False
        return self.whole or isinstance(self.read, Complete) or key[0] in self.read.namespaces


class GuardSpec(Struct, frozen=True, gc=False, rename="camel"):
    """PoolGuard.spec, as far as rules about other objects need it."""

    pool_ref: GuardPoolRef
    reserve: tuple[str, ...] | None = None


class Guard(Struct, frozen=True, gc=False):
    """A PoolGuard."""

    metadata: Metadata
    spec: GuardSpec


class Knowledge(Struct, frozen=True):
    """Everything that rules may know beside the object under review."""

    attachments: Known[NetworkAttachment] = Known({}, NOT_READ)
    multus_configs: Known[SpiderMultusConfig] = Known({}, NOT_READ)
    spider_pools: Known[PoolShape] = Known({}, NOT_READ)
    spider_reservations: Known[SpiderReservedIP] = Known({}, NOT_READ)
    whereabouts_pools: Known[WhereaboutsPoolShape] = Known({}, NOT_READ)
    neon_pools: Known[NeonPoolShape] = Known({}, NOT_READ)
    guards: Known[Guard] = Known({}, NOT_READ)


SOURCES: Mapping[str, tuple[Kind, type[Any]]] = {
    "attachments": (NETWORK_ATTACHMENTS, NetworkAttachment),
    "multus_configs": (MULTUS_CONFIGS, SpiderMultusConfig),
    "spider_pools": (SPIDER_POOLS, PoolShape),
    "spider_reservations": (RESERVATIONS, SpiderReservedIP),
    "whereabouts_pools": (WHEREABOUTS_POOLS, WhereaboutsPoolShape),
    "neon_pools": (NEON_POOLS, NeonPoolShape),
    "guards": (POOL_GUARDS, Guard),
}
"""Each field of `Knowledge`: the kind it holds, and the narrow Struct that its objects are decoded to."""


def cannot_be_read(kind: str, errors: Mapping[Key, str]) -> str:
    """The doubt that unreadable objects cast on their kind, "" if there are none; `kind` as kubectl names it."""
    if not errors:
        return ""
    names = sorted("/".join(filter(None, key)) for key in errors)
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return f"{kind} cannot be read: {shown} ({next(iter(errors.values()))})"
