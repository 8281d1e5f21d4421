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
    Doubt,
    Found,
    Incomplete,
    Listing,
    NotInstalled,
    Unread,
    Unreadable,
)
from poolwarden.gc.read import as_holders, read_holders
from poolwarden.gc.snapshot import Snapshot
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.holder import Holder
from poolwarden.ipam.inventory import (
    Backend,
    Endpoints,
    Inventory,
    NoEndpoints,
    PodOwners,
    endpoint_kinds,
    reservation_kinds,
)
from poolwarden.ipam.kinds import (
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    Kind,
)
from poolwarden.ipam.objects import Machine, Node, Pod, StatefulSet
from poolwarden.ipam.pool import Pool, PoolRef, RecordsUnreadable

Key = tuple[str, str]
Aside = Mapping[Kind, Listing[Any]]
"""What stands beside the pools (`Backend.aside`)."""
NOTHING_ASIDE: Aside = {}


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
        self._removed: set[str] = set()

    def pool(self, ref: PoolRef) -> Found[Any] | Absent | Unread:
        """A pool as it is now."""
        kind = self.backend.pool_kind
        return self.cluster.get(kind, self.backend.item_type(kind), name=ref.name, namespace=ref.namespace)

    def aside(self) -> Aside:
        """What stands beside the pools and decides on their records, as it is now: all but reservations."""
        kinds = [kind for kind in self.backend.aside if kind not in reservation_kinds(self.backend)]
        return {kind: self.cluster.list(kind, self.backend.item_type(kind)) for kind in kinds}

    def with_reservations(self) -> Aside:
        """The same with the reservations: there are as many as records, so only who writes them reads them."""
        kinds = reservation_kinds(self.backend)
        return {**self.aside(), **{kind: self.cluster.list(kind, self.backend.item_type(kind)) for kind in kinds}}

    def inventory(self, pools: Iterable[Any], aside: Aside) -> Inventory:
        """Domain objects from decoded pools and what stands beside them."""
        return self.backend.inventory(
            {self.backend.pool_kind: tuple(pools), **{kind: listing.items for kind, listing in aside.items()}}
        )

    def decoded_pool(self, raw: bytes, aside: Aside = NOTHING_ASIDE) -> Pool:
        """A pool from the JSON text that a read or write returned."""
        item = msgspec.json.decode(raw, type=self.backend.item_type(self.backend.pool_kind))
        return self.inventory([item], aside).pools[0]

    def everything(self, aside: Aside) -> Inventory | Unread:
        """All pools of the IPAM as they are now, and what stands beside them as it was read."""
        kind = self.backend.pool_kind
        listing: Listing[Any] = self.cluster.list(kind, self.backend.item_type(kind))
        if listing.unreadable or isinstance(listing.coverage, Incomplete):
            return Unread(Doubt.BROKEN, f"not all pools of {self.backend.name} can be read")
        return self.inventory(listing.items, aside)

    @property
    def endpoints(self) -> Endpoints:
        """The writes to endpoints; asked only where there is one."""
        found = self.backend.endpoints
        assert not isinstance(found, NoEndpoints), "an IPAM without endpoints has none to write"
        return found

    def endpoint(self, key: Key) -> Found[Any] | Absent | Unread:
        """An endpoint as it is now."""
        kind = self.endpoints.kind
        return self.cluster.get(kind, self.backend.item_type(kind), name=key[1], namespace=key[0])

    def decoded_endpoint(self, item: Any) -> Endpoint:
        """The domain object of a decoded endpoint."""
        return self.backend.inventory({self.endpoints.kind: [item]}).endpoints[0]

    def edited(self, before: Endpoint, resource_version: str) -> None:
        """Remember our own edit of an endpoint: it is a fence, and must not read as news when we judge again."""
        self._edited[before.key] = (resource_version, before)

    def removed(self, endpoint: Endpoint) -> None:
        """Remember that an endpoint was seen gone: another pool's release, judged on the same reading, may ask for it."""
        self._removed.add(endpoint.uid)

    def is_removed(self, endpoint: Endpoint) -> bool:
        """Whether we have seen it gone."""
        return endpoint.uid in self._removed

    def is_our_edit(self, endpoint: Endpoint) -> bool:
        """Whether nobody but we has written the endpoint since it was judged."""
        return self._edited.get(endpoint.key, ("", endpoint))[0] == endpoint.resource_version

    def snapshot(
        self,
        inventory: Inventory,
        keys: Iterable[Key],
        nodes: Iterable[str],
        aside: Aside,
        *,
        as_judged: bool = True,
    ) -> Snapshot:
        """All that a verdict on these owners (namespace, name) rests on, as it is now.

        `inventory` holds the pools just read, `aside` what else they hang on. The other pools stand beside with their
        ranges, without records: they tell which NICs are this IPAM's. Pods, endpoints, machines and holders are listed
        whole, for the veto. With `as_judged`, an endpoint that only we have edited stands as it was judged.
        """
        wanted = sorted(keys)
        holders = self._holders(wanted)
        # After the holders: a pod that runs one which is gone was there before it went.
        pods = self.cluster.list(PODS, Pod)
        owners = self._get_all(PODS, Pod, wanted)
        stems = [(namespace, name.rpartition("-")[0]) for namespace, name in wanted]
        stateful_sets = self._get_all(STATEFUL_SETS, StatefulSet, stems)
        was = self.nominated_by
        machines = self._machines(VIRTUAL_MACHINES, was.machines, wanted)
        instances = self._machines(VIRTUAL_MACHINE_INSTANCES, was.machine_instances, wanted)
        beside = {kind: listing for kind, listing in aside.items() if kind != NETWORK_ATTACHMENTS}
        for kind in endpoint_kinds(self.backend):
            item = self.backend.item_type(kind)
            beside[kind] = _overlaid(self.cluster.list(kind, item), self._get_all(kind, item, wanted), wanted, _key_of)
        endpoints = self.backend.inventory(
            {kind: beside[kind].items for kind in endpoint_kinds(self.backend)}
        ).endpoints
        seen = tuple(map(self._before_our_edit, endpoints)) if as_judged else endpoints
        owners_nodes = {endpoint.node for endpoint in endpoints if endpoint.key in set(wanted)}
        where = {*nodes, *owners_nodes, *(pod.spec.node_name for pod in owners.items)}
        pools = (*inventory.pools, *self._other_pools({pool.ref for pool in inventory.pools}))
        return Snapshot(
            inventories=(Inventory(inventory.ipam, pools, seen, inventory.reservations),),
            coverage={
                self.backend.pool_kind: was.coverage[self.backend.pool_kind],
                **{kind: listing.coverage for kind, listing in beside.items()},
            },
            unreadable={
                self.backend.pool_kind: was.unreadable.get(self.backend.pool_kind, ()),
                **{kind: listing.unreadable for kind, listing in beside.items()},
            },
            pods=_overlaid(pods, owners, wanted, _key_of),
            stateful_sets=stateful_sets,
            machines=machines,
            machine_instances=instances,
            nodes=self._nodes(self.cluster.list(NODES, Node), where),
            attachments=aside.get(NETWORK_ATTACHMENTS, was.attachments),
            memory=was.memory,
            holders=holders,
        )

    def _holders(self, keys: Sequence[Key]) -> Mapping[Kind, Listing[Holder]]:
        """All owners that are no pods, for the veto; of this IPAM those of these names read once more, one by one."""
        listed = dict(read_holders(self.cluster))
        owners = self.backend.owners
        if not isinstance(owners, PodOwners):
            now = as_holders(owners, self._get_all(owners.kind, self.backend.item_type(owners.kind), keys))
            listed[owners.kind] = _overlaid(listed[owners.kind], now, keys, lambda holder: holder.key)
        return listed

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
    """A list in which the objects of these names are as they were read one by one, or gone.

    One that could not be read again stays as it was listed as well: what it shows still vetoes.
    """
    read = set(keys) - {(item.namespace, item.name) for item in now.unreadable}
    items = tuple(item for item in listed.items if key_of(item) not in read)
    unread = tuple(item for item in listed.unreadable if (item.namespace, item.name) not in read)
    return Listing((*items, *now.items), listed.coverage, (*unread, *now.unreadable))
