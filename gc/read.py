"""Reading a snapshot, in the order that keeps it honest.

Pools first, then what stands beside them, endpoints, owners, what may retain them, and nodes: a record seen at T is judged only by owners read
after T, so a pod that starts meanwhile can only make an address more used, never less.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import structlog

from poolwarden.cluster.interface import Cluster, Coverage, Doubt, Found, Incomplete, Listing, NotInstalled, Unreadable
from poolwarden.gc.snapshot import Memory, Snapshot
from poolwarden.ipam.holder import Holder
from poolwarden.ipam.inventory import Backend, Holders, Inventory, PodOwners, endpoint_kinds
from poolwarden.ipam.kinds import (
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    Kind,
)
from poolwarden.ipam.objects import Machine, NetworkAttachment, Node, Pod, StatefulSet
from poolwarden.ipam.pool import PoolRef, Record
from poolwarden.ipam.registry import BACKENDS

log = structlog.get_logger()


def read_snapshot(cluster: Cluster, backends: Iterable[Backend], memory: Memory) -> Snapshot:
    """Everything that the given IPAMs' records are judged by. Unread kinds are told by their coverage, never by a short list."""
    chosen = tuple(backends)
    objects: dict[Kind, Listing[Any]] = {}
    for kinds in (
        (b.pool_kind for b in chosen),
        (k for b in chosen for k in b.aside if k != NETWORK_ATTACHMENTS),
        (k for b in chosen for k in endpoint_kinds(b)),
    ):
        for kind in kinds:
            objects[kind] = cluster.list(kind, _type_of(kind, chosen))
    attachments = objects[NETWORK_ATTACHMENTS] = cluster.list(NETWORK_ATTACHMENTS, NetworkAttachment)
    holders = read_holders(cluster)
    pods = cluster.list(PODS, Pod)  # after the holders: a pod that runs one which is gone was there before it went
    stateful_sets = cluster.list(STATEFUL_SETS, StatefulSet)
    machines = cluster.list(VIRTUAL_MACHINES, Machine)
    machine_instances = cluster.list(VIRTUAL_MACHINE_INSTANCES, Machine)
    nodes = cluster.list(NODES, Node)
    inventories = {backend.name: _inventory(backend, objects) for backend in chosen}
    coverage = {kind: listing.coverage for kind, listing in objects.items() if kind != NETWORK_ATTACHMENTS}
    coverage |= {
        backend.pool_kind: made for backend in chosen if isinstance(made := inventories[backend.name], Incomplete)
    }
    return Snapshot(
        inventories=tuple(made for made in inventories.values() if isinstance(made, Inventory)),
        coverage=coverage,
        unreadable={kind: objects[kind].unreadable for kind in coverage},
        pods=pods,
        stateful_sets=stateful_sets,
        machines=machines,
        machine_instances=machine_instances,
        nodes=nodes,
        attachments=attachments,
        memory=memory,
        holders=holders,
    )


def read_holders(cluster: Cluster) -> Mapping[Kind, Listing[Holder]]:
    """The owners that are no pods, of every IPAM that is known: each vetoes the addresses that it shows, in whatever pool."""
    found = {}
    for backend in BACKENDS.values():
        if not isinstance(backend.owners, PodOwners):
            kind = backend.owners.kind
            found[kind] = as_holders(backend.owners, cluster.list(kind, backend.item_type(kind)))
    return found


def as_holders(owners: Holders, listing: Listing[Any]) -> Listing[Holder]:
    """The same list, as domain objects; a defect of ours in reading one must not stop other IPAMs."""
    try:
        return Listing(tuple(map(owners.holder, listing.items)), listing.coverage, listing.unreadable)
    except Exception as error:
        log.exception("reading failed", kind=owners.kind.kind)
        why = f"{owners.kind.plural}: a defect of poolwarden: {type(error).__name__}: {error}"
        return Listing((), Incomplete(Doubt.BROKEN, why), listing.unreadable)


def installed(backends: Sequence[Backend], snapshot: Snapshot) -> tuple[Backend, ...]:
    """Those IPAMs whose pools the cluster serves, or may serve."""
    return tuple(b for b in backends if not isinstance(snapshot.coverage[b.pool_kind], NotInstalled))


def reread_pools(cluster: Cluster, backend: Backend, refs: Iterable[PoolRef]) -> Mapping[PoolRef, Mapping[str, Record]]:
    """The records of pools as they are now, by address; a pool that cannot be read is left out."""
    later: dict[PoolRef, Mapping[str, Record]] = {}
    for ref in refs:
        found = cluster.get(
            backend.pool_kind, backend.item_type(backend.pool_kind), name=ref.name, namespace=ref.namespace
        )
        if isinstance(found, Found):
            pool = backend.inventory({backend.pool_kind: [found.item]}).pools[0]
            later[ref] = {record.address: record for record in pool.readable_records if record.address is not None}
    return later


def with_later(snapshot: Snapshot, later: Mapping[PoolRef, Mapping[str, Record]]) -> Snapshot:
    """The snapshot with pools that were read once more, after its pods."""
    return msgspec.structs.replace(snapshot, later={**snapshot.later, **later})


def unread(snapshot: Snapshot) -> tuple[str, ...]:
    """One line for each kind or object that should have been read and was not, files without a kind aside."""
    listings: tuple[tuple[Coverage, tuple[Unreadable, ...]], ...] = (
        *((coverage, snapshot.unreadable.get(kind, ())) for kind, coverage in snapshot.coverage.items()),
        *((listing.coverage, listing.unreadable) for listing in _listings(snapshot)),
    )
    lines = [c.message for c, _ in listings if isinstance(c, Incomplete) and c.doubt is not Doubt.NOT_GIVEN]
    lines += [
        f"{broken.where}: {broken.name} cannot be read: {broken.error}" for _, items in listings for broken in items
    ]
    return tuple(dict.fromkeys(lines))


def _listings(snapshot: Snapshot) -> tuple[Listing[Any], ...]:
    """The listings that carry their own coverage."""
    owners = (snapshot.pods, snapshot.stateful_sets, snapshot.machines, snapshot.machine_instances)
    return (*owners, snapshot.nodes, snapshot.attachments, *snapshot.holders.values())


def _type_of(kind: Kind, backends: Sequence[Backend]) -> type[Any]:
    return next(b.item_type(kind) for b in backends if kind in (b.pool_kind, *endpoint_kinds(b), *b.aside))


def _inventory(backend: Backend, objects: Mapping[Kind, Listing[Any]]) -> Inventory | Incomplete:
    """One IPAM's objects; a defect of ours in reading them must not stop the other IPAMs."""
    kinds = (backend.pool_kind, *endpoint_kinds(backend), *backend.aside)
    try:
        return backend.inventory({kind: objects[kind].items for kind in kinds})
    except Exception as error:
        log.exception("reading failed", ipam=backend.name)
        return Incomplete(Doubt.BROKEN, f"{backend.name}: a defect of poolwarden: {type(error).__name__}: {error}")
