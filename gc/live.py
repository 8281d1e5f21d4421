"""Live reads for a handful of records: the evidence of a snapshot, taken again straight before a write.

Order: pools (by the caller), owners, what may retain them, endpoints, nodes.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from poolwarden.cluster.interface import (
    Absent,
    Cluster,
    Complete,
    Coverage,
    Found,
    Incomplete,
    Listing,
    NotInstalled,
    Unread,
)
from poolwarden.gc.snapshot import Snapshot
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.inventory import Backend, Inventory
from poolwarden.ipam.kinds import NODES, PODS, STATEFUL_SETS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES, Kind
from poolwarden.ipam.objects import Machine, Node, Pod, StatefulSet
from poolwarden.ipam.pool import Pool, PoolRef

FRESH = 10.0
"""Seconds for which one list of pods and nodes serves the writes of a sweep. Each owner and node concerned is read once
more anyway; the lists are for the veto, and an address that its IPAM hands out meanwhile changes the record, which the
write would see."""

Key = tuple[str, str]


class LiveReads:
    """Reads for one IPAM during one sweep."""

    def __init__(
        self,
        cluster: Cluster,
        backend: Backend,
        nominated_by: Snapshot,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.cluster = cluster
        self.backend = backend
        self.nominated_by = nominated_by
        self.monotonic = monotonic
        self._lists: tuple[float, Listing[Pod], Listing[Node]] | None = None
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

    def snapshot(
        self,
        inventory: Inventory,
        keys: Iterable[Key],
        nodes: Iterable[str],
        coverage: Mapping[Kind, Coverage],
    ) -> Snapshot:
        """All that a verdict on these owners (namespace, name) rests on, as it is now; `inventory` holds the pools just read."""
        wanted = sorted(keys)
        pods, listed_nodes = self._fresh_lists()
        owners = self._get_all(PODS, Pod, wanted)
        stems = [(namespace, name.rpartition("-")[0]) for namespace, name in wanted]
        stateful_sets = self._get_all(STATEFUL_SETS, StatefulSet, stems)
        was = self.nominated_by
        machines = self._machines(VIRTUAL_MACHINES, was.machines, wanted)
        instances = self._machines(VIRTUAL_MACHINE_INSTANCES, was.machine_instances, wanted)
        kind = self.backend.endpoint_kind
        found = self._get_all(kind, self.backend.item_type(kind), wanted)
        endpoints = self.backend.inventory({kind: found.items}).endpoints
        where = {*nodes, *(endpoint.node for endpoint in endpoints), *(pod.spec.node_name for pod in owners.items)}
        return Snapshot(
            inventories=(Inventory(inventory.ipam, inventory.pools, tuple(map(self._before_our_edit, endpoints))),),
            coverage={self.backend.pool_kind: Complete(), kind: found.coverage, **coverage},
            unreadable={},
            pods=_overlaid(pods, owners, wanted, lambda pod: pod.key),
            stateful_sets=stateful_sets,
            machines=machines,
            machine_instances=instances,
            nodes=self._nodes(listed_nodes, where),
            attachments=was.attachments,
            memory=was.memory,
        )

    def _nodes(self, listed: Listing[Node], names: Iterable[str]) -> Listing[Node]:
        keys = [("", name) for name in sorted(names)]
        return _overlaid(listed, self._get_all(NODES, Node, keys), keys, lambda node: ("", node.metadata.name))

    def _machines(self, kind: Kind, listed: Listing[Machine], keys: Sequence[Key]) -> Listing[Machine]:
        """The machines of these names as they are now, beside the others as they were listed (for the veto)."""
        if isinstance(listed.coverage, NotInstalled):
            return listed
        now = self._get_all(kind, Machine, keys)
        return _overlaid(listed, now, keys, lambda machine: (machine.metadata.namespace, machine.metadata.name))

    def _get_all(self, kind: Kind, item: type[Any], keys: Iterable[Key]) -> Listing[Any]:
        """Objects by name, as a list that is complete only if each answer was one."""
        items: list[Any] = []
        coverage: Coverage = Complete()
        for namespace, name in dict.fromkeys(keys):
            if not name:
                continue
            match self.cluster.get(kind, item, name=name, namespace=namespace):
                case Found(item=found):
                    items.append(found)
                case Unread(doubt, message):
                    coverage = Incomplete(doubt, message)
                case Absent():
                    pass
        return Listing(tuple(items), coverage)

    def _fresh_lists(self) -> tuple[Listing[Pod], Listing[Node]]:
        at = self.monotonic()
        if self._lists is None or at - self._lists[0] > FRESH:
            self._lists = (at, self.cluster.list(PODS, Pod), self.cluster.list(NODES, Node))
        return self._lists[1], self._lists[2]

    def _before_our_edit(self, endpoint: Endpoint) -> Endpoint:
        """The endpoint as it was judged, if nobody but we has written it since."""
        version, before = self._edited.get(endpoint.key, ("", endpoint))
        return before if version == endpoint.resource_version else endpoint


def _overlaid(
    listed: Listing[Any], now: Listing[Any], keys: Iterable[Key], key_of: Callable[[Any], Key]
) -> Listing[Any]:
    """A list in which the objects of these names are as they were read one by one, or gone."""
    read = set(keys)
    others = tuple(item for item in listed.items if key_of(item) not in read)
    coverage = now.coverage if isinstance(now.coverage, Incomplete) else listed.coverage
    return Listing((*others, *now.items), coverage, listed.unreadable)
