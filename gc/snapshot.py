"""Everything that one judgement rests on, as it was read."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from poolwarden.cluster.interface import Complete, Coverage, Incomplete, Listing, NotInstalled, Partial, Unreadable
from poolwarden.ipam.inventory import Inventory
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Machine, NetworkAttachment, Node, Pod, StatefulSet
from poolwarden.ipam.pool import PoolRef


class Memory(Struct, frozen=True):
    """What earlier sweeps saw, from the ledgers and from this process.

    `first_seen` and `nodes` are by pool and record digest; `absent_since` tells since when a retained record's owner
    has been absent; `held` are digests that an operator restored; `graces` are termination graces (seconds) by pod UID.
    """

    first_seen: Mapping[tuple[PoolRef, str], datetime] = {}
    absent_since: Mapping[tuple[PoolRef, str], datetime] = {}
    nodes: Mapping[tuple[PoolRef, str], str] = {}
    nodes_gone: Mapping[str, datetime] = {}
    held: frozenset[tuple[PoolRef, str]] = frozenset()
    graces: Mapping[str, int] = {}


class Snapshot(Struct, frozen=True):
    """All evidence, in the order in which it was read: pools, endpoints, owners, what may retain them, nodes.

    `coverage` and `unreadable` speak of the kinds of pools and endpoints; the listings carry their own. `later` are the
    records (address -> UID) of pools that were read once more, after the pods.
    """

    inventories: tuple[Inventory, ...]
    coverage: Mapping[Kind, Coverage]
    unreadable: Mapping[Kind, tuple[Unreadable, ...]]
    pods: Listing[Pod]
    stateful_sets: Listing[StatefulSet]
    machines: Listing[Machine]
    machine_instances: Listing[Machine]
    nodes: Listing[Node]
    attachments: Listing[NetworkAttachment]
    memory: Memory = Memory()
    later: Mapping[PoolRef, Mapping[str, str]] = {}


def covers(coverage: Coverage, namespace: str) -> bool:
    """Whether the absence of an object from that namespace ("" for cluster-scoped kinds) proves that there is none."""
    match coverage:
        case Complete() | NotInstalled():
            return True
        case Partial(namespaces):
            return namespace in namespaces
        case Incomplete():
            return False
