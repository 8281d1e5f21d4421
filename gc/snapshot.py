"""Everything that one judgement rests on, as it was read."""

from collections.abc import Mapping
from datetime import datetime

from msgspec import Struct

from poolwarden.cluster.interface import Complete, Coverage, Incomplete, Listing, NotInstalled, Partial, Unreadable
from poolwarden.ipam.holder import Holder
from poolwarden.ipam.inventory import Inventory
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Machine, NetworkAttachment, Node, Pod, StatefulSet
from poolwarden.ipam.pool import PoolRef, Record

RecordKey = tuple[PoolRef, str]
"""A pool and a record's digest."""


class Memory(Struct, frozen=True):
    """What earlier sweeps saw, from the ledgers and from this process.

    By record: `first_seen`, the first sighting without a proven owner; `absent_since`, since when a retained record's
    owner has been absent; `nodes`, where its owner ran; `min_graces`, its termination grace in seconds; `held`, those
    that an operator restored; `fenced`, those whose item we took out of a live pod's endpoint. By pool and node name:
    `nodes_gone` and `nodes_silent`, since when. By pod UID, from this process alone: `graces` (by namespace/name as well,
    for records without a UID) and `node_of`; by node name `vanished`: nodes that were there at an earlier sweep of this
    process.
    """

    first_seen: Mapping[RecordKey, datetime] = {}
    absent_since: Mapping[RecordKey, datetime] = {}
    nodes: Mapping[RecordKey, str] = {}
    min_graces: Mapping[RecordKey, int] = {}
    held: frozenset[RecordKey] = frozenset()
    fenced: frozenset[RecordKey] = frozenset()
    nodes_gone: Mapping[tuple[PoolRef, str], datetime] = {}
    nodes_silent: Mapping[tuple[PoolRef, str], datetime] = {}
    graces: Mapping[str, int] = {}
    node_of: Mapping[str, str] = {}
    vanished: Mapping[str, datetime] = {}


class Snapshot(Struct, frozen=True):
    """All evidence, in the order in which it was read: pools, endpoints, owners, what may retain them, nodes.

    `coverage` and `unreadable` speak of the kinds of pools and endpoints; the listings carry their own. `holders` are the
    owners that are no pods, of every IPAM, by kind. `later` are the records, by address, of pools that were read once
    more, after the pods.
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
    later: Mapping[PoolRef, Mapping[str, Record]] = {}
    holders: Mapping[Kind, Listing[Holder]] = {}


def covers(coverage: Coverage, namespace: str) -> bool:
    """Whether the absence of an object from that namespace ("" for cluster-scoped kinds) proves that there is none."""
    match coverage:
        case Complete() | NotInstalled():
            return True
        case Partial(namespaces):
            return namespace in namespaces
        case Incomplete():
            return False
