"""Live reads for a handful of records: the evidence of a snapshot, taken again straight before a write.

Order: pools (by the caller), owners, what may retain them, endpoints, nodes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from poolwarden.cluster.interface import (
    Absent,
    Cluster,
    Complete,
    Found,
    Listing,
    NotInstalled,
    Unread,
    Unreadable,
)
from poolwarden.gc.snapshot import Snapshot
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.inventory import Backend, Inventory
from poolwarden.ipam.kinds import NODES, PODS, STATEFUL_SETS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, Kind
from poolwarden.ipam.objects import Machine, Node, Pod, StatefulSet
from poolwarden.ipam.pool import Pool, PoolRef, RecordsUnreadable

Key = tuple[str, str]


class LiveReads:
    """Reads for one IPAM during one sweep."""

    def __init__(
        self,
        cluster: Cluster,
        backend: Backend,
        nominated_by: Snapshot,
    ) -> None:
        self.cluster = cluster
        self.backend = backend
        self.nominated_by = nominated_by
        self._edited: dict[Key, tuple[str, Endpoint]] = {}

    def pool(self, ref: PoolRef) -> Found[Any] | Absent | Unread:
        """A pool as it is now."""
        kind = self.backend.pool_kind
        return self.cluster.get(kind, self.backend.item_type(kind), name=ref.name, namespace=ref.namespace)

    def decoded_pool(self, raw: bytes) -> Pool:
        """A pool from the JSON text that a read or write returned."""
        kind = self.backend.pool_kind
        return self.backend.inventory({kind: [msgspec.json.decode(raw, type=self.backend.item_type(kind))]}).pools[0]

    def endpoint(self, key: Key) -> Found[Any] | Absent | Unread:
        """An endpoint as it is now."""
        kind = self.backend.endpoint_kind
        return self.cluster.get(kind, self.backend.item_type(kind), name=key[1], namespace=key[0])

    def decoded_endpoint(self, item: Any) -> Endpoint:
        """The domain object of a decoded endpoint."""
        return self.backend.inventory({self.backend.endpoint_kind: [item]}).endpoints[0]

    def edited(self, before: Endpoint, resource_version: str) -> None:
        """Remember our own edit of an endpoint: it is a fence, and must not read as news when we judge again."""
        self._edited[before.key] = (resource_version, before)

    def is_our_edit(self, endpoint: Endpoint) -> bool:
        """Whether nobody but we has written the endpoint since it was judged."""
        return self._edited.get(endpoint.key, ("", endpoint))[0] == endpoint.resource_version

    def snapshot(
        self,
        inventory: Inventory,
        keys: Iterable[Key],
        nodes: Iterable[str],
        aside: Mapping[Kind, Listing[Any]],
        *,
        as_judged: bool = True,
    ) -> Snapshot:
        """All that a verdict on these owners (namespace, name) rests on, as it is now.

        `inventory` holds the pools just read, `aside` what else they hang on. The other pools stand beside with their ranges, without records: they tell
        which NICs are this IPAM's. Pods, endpoints and machines are
        listed whole, for the veto. With `as_judged`, an endpoint that only we have
        edited stands as it was judged.
        """
        wanted = sorted(keys)
        pods = self.cluster.list(PODS, Pod)
        owners = self._get_all(PODS, Pod, wanted)
        stems = [(namespace, name.rpartition("-")[0]) for namespace, name in wanted]
        stateful_sets = self._get_all(STATEFUL_SETS, StatefulSet, stems)
        was = self.nominated_by
        machines = self._machines(VIRTUAL_MACHINES, was.machines, wanted)
        instances = self._machines(VIRTUAL_MACHINE_INSTANCES, was.machine_instances, wanted)
        kind = self.backend.endpoint_kind
        item = self.backend.item_type(kind)
        listed = self.cluster.list(kind, item)
        found = _overlaid(listed, self._get_all(kind, item, wanted), wanted, _key_of)
        endpoints = self.backend.inventory({kind: found.items}).endpoints
        seen = tuple(map(self._before_our_edit, endpoints)) if as_judged else endpoints
        owners_nodes = {endpoint.node for endpoint in endpoints if endpoint.key in set(wanted)}
        where = {*nodes, *owners_nodes, *(pod.spec.node_name for pod in owners.items)}
        pools = (*inventory.pools, *self._other_pools({pool.ref for pool in inventory.pools}))
        return Snapshot(
            inventories=(Inventory(inventory.ipam, pools, seen),),
            coverage={
                self.backend.pool_kind: was.coverage[self.backend.pool_kind],
                kind: found.coverage,
                **{which: listing.coverage for which, listing in aside.items()},
            },
            unreadable={
                self.backend.pool_kind: was.unreadable.get(self.backend.pool_kind, ()),
                kind: found.unreadable,
                **{which: listing.unreadable for which, listing in aside.items()},
            },
            pods=_overlaid(pods, owners, wanted, _key_of),
            stateful_sets=stateful_sets,
            machines=machines,
            machine_instances=instances,
            nodes=self._nodes(self.cluster.list(NODES, Node), where),
            attachments=was.attachments,
            memory=was.memory,
        )

    def _nodes(self, listed: Listing[Node], names: Iterable[str]) -> Listing[Node]:
        keys = [("", name) for name in sorted(names)]
        return _overlaid(listed, self._get_all(NODES, Node, keys), keys, _key_of)

    def _machines(self, kind: Kind, listed: Listing[Machine], keys: Sequence[Key]) -> Listing[Machine]:
        """All machines, for the veto; those of these names read once more, one by one."""
        if isinstance(listed.coverage, NotInstalled):
            return listed
        return _overlaid(self.cluster.list(kind, Machine), self._get_all(kind, Machine, keys), keys, _key_of)

    def _other_pools(self, read: AbstractSet[PoolRef]) -> list[Pool]:
        """The pools of the nomination that were not read again: ranges alone, unless their records are in doubt anyway."""
        known = (pool for inventory in self.nominated_by.inventories for pool in inventory.pools)
        return [
            pool if isinstance(pool.records, RecordsUnreadable) else msgspec.structs.replace(pool, records=())
            for pool in known
            if pool.ref.ipam == self.backend.name and pool.ref not in read
        ]

    def _get_all(self, kind: Kind, item: type[Any], keys: Iterable[Key]) -> Listing[Any]:
        """Objects by name, as a list; one that could not be read is unreadable, which leaves the others as they are."""
        items: list[Any] = []
        unread: list[Unreadable] = []
        for namespace, name in dict.fromkeys(keys):
            if not name:
                continue
            match self.cluster.get(kind, item, name=name, namespace=namespace):
                case Found(item=found):
                    items.append(found)
                case Unread(message=message):
                    unread.append(Unreadable(namespace, name, kind.plural, message, b""))
                case Absent():
                    pass
        return Listing(tuple(items), Complete(), tuple(unread))

    def _before_our_edit(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint as it was judged, if nobody but we has written it since."""
        version, before = self._edited.get(endpoint.key, ("", endpoint))
        return before if version == endpoint.resource_version else endpoint


def _key_of(item: Any) -> Key:
    return item.metadata.namespace, item.metadata.name


def _overlaid(
    listed: Listing[Any], now: Listing[Any], keys: Iterable[Key], key_of: Callable[[Any], Key]
) -> Listing[Any]:
    """A list in which the objects of these names are as they were read one by one, or gone."""
    read = set(keys)
    items = tuple(item for item in listed.items if key_of(item) not in read)
    unread = tuple(item for item in listed.unreadable if (item.namespace, item.name) not in read)
    return Listing((*items, *now.items), listed.coverage, (*unread, *now.unreadable))
