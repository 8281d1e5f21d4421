"""Reading a snapshot, in the order that keeps it honest.

Pools first, then endpoints, owners, what may retain them, and nodes: a record seen at T is judged only by owners read
after T, so a pod that starts meanwhile can only make an address more used, never less.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from poolwarden.cluster.interface import Cluster, Coverage, Doubt, Found, Incomplete, Listing, NotInstalled, Unreadable
from poolwarden.gc.snapshot import Memory, Snapshot
from poolwarden.ipam.inventory import Backend, Inventory
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
from poolwarden.ipam.pool import PoolRef


def read_snapshot(cluster: Cluster, backends: Iterable[Backend], memory: Memory) -> Snapshot:
    """Everything that the given IPAMs' records are judged by. Unread kinds are told by their coverage, never by a short list."""
    chosen = tuple(backends)
    objects: dict[Kind, Listing[Any]] = {}
    for kinds in (
        (b.pool_kind for b in chosen),
        (k for b in chosen for k in b.aside),
        (b.endpoint_kind for b in chosen),
    ):
        for kind in kinds:
            objects[kind] = cluster.list(kind, _type_of(kind, chosen))
    pods = cluster.list(PODS, Pod)
    stateful_sets = cluster.list(STATEFUL_SETS, StatefulSet)
    machines = cluster.list(VIRTUAL_MACHINES, Machine)
    machine_instances = cluster.list(VIRTUAL_MACHINE_INSTANCES, Machine)
    nodes = cluster.list(NODES, Node)
    attachments = cluster.list(NETWORK_ATTACHMENTS, NetworkAttachment)
    return Snapshot(
        inventories=tuple(_inventory(backend, objects) for backend in chosen),
        coverage={kind: listing.coverage for kind, listing in objects.items()},
        unreadable={kind: listing.unreadable for kind, listing in objects.items()},
        pods=pods,
        stateful_sets=stateful_sets,
        machines=machines,
        machine_instances=machine_instances,
        nodes=nodes,
        attachments=attachments,
        memory=memory,
    )


def installed(backends: Sequence[Backend], snapshot: Snapshot) -> tuple[Backend, ...]:
    """Those IPAMs whose pools the cluster serves, or may serve."""
    return tuple(b for b in backends if not isinstance(snapshot.coverage[b.pool_kind], NotInstalled))


def reread_pools(cluster: Cluster, backend: Backend, refs: Iterable[PoolRef]) -> Mapping[PoolRef, Mapping[str, str]]:
    """The records (address -> UID) of pools as they are now; a pool that cannot be read is left out."""
    later: dict[PoolRef, Mapping[str, str]] = {}
    for ref in refs:
        found = cluster.get(
            backend.pool_kind, backend.item_type(backend.pool_kind), name=ref.name, namespace=ref.namespace
        )
        if isinstance(found, Found):
            pool = backend.inventory({backend.pool_kind: [found.item]}).pools[0]
            later[ref] = {record.address: record.uid for record in pool.readable_records if record.address is not None}
    return later


def with_later(snapshot: Snapshot, later: Mapping[PoolRef, Mapping[str, str]]) -> Snapshot:
    """The snapshot with pools that were read once more, after its pods."""
    return msgspec.structs.replace(snapshot, later={**snapshot.later, **later})


def unread(snapshot: Snapshot) -> tuple[str, ...]:
    """One line for each kind or object that should have been read and was not, files without a kind aside."""
    listings: tuple[tuple[Coverage, tuple[Unreadable, ...]], ...] = (
        *((coverage, snapshot.unreadable.get(kind, ())) for kind, coverage in snapshot.coverage.items()),
        *(
            (listing.coverage, listing.unreadable)
            for listing in (
                snapshot.pods,
                snapshot.stateful_sets,
                snapshot.machines,
                snapshot.machine_instances,
                snapshot.nodes,
                snapshot.attachments,
            )
        ),
    )
    lines = [c.message for c, _ in listings if isinstance(c, Incomplete) and c.doubt is not Doubt.NOT_GIVEN]
    lines += [
        f"{broken.where}: {broken.name} cannot be read: {broken.error}" for _, items in listings for broken in items
    ]
    return tuple(dict.fromkeys(lines))


def _type_of(kind: Kind, backends: Sequence[Backend]) -> type[Any]:
    return next(b.item_type(kind) for b in backends if kind in (b.pool_kind, b.endpoint_kind, *b.aside))


def _inventory(backend: Backend, objects: Mapping[Kind, Listing[Any]]) -> Inventory:
    kinds = (backend.pool_kind, backend.endpoint_kind, *backend.aside)
    return backend.inventory({kind: objects[kind].items for kind in kinds})
