"""What one IPAM's objects say, and the interface that every IPAM's module offers."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from msgspec import Struct

from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Pod
from poolwarden.ipam.pool import Pool, PoolRef, Record


class Inventory(Struct, frozen=True):
    """All pools and endpoints of one IPAM."""

    ipam: str
    pools: tuple[Pool, ...]
    endpoints: tuple[Endpoint, ...] = ()


class Change(Struct, frozen=True):
    """A conditional write: a merge patch that carries the resourceVersion and UID of what was judged."""

    kind: Kind
    namespace: str
    name: str
    subresource: str
    body: Mapping[str, Any]


class Stale(Struct, frozen=True):
    """The object no longer says what was judged; nothing may be written on that judgement."""

    message: str


class Backend(Protocol):
    """What differs between IPAMs. No method does I/O."""

    name: str
    pool_kind: Kind
    endpoint_kind: Kind
    aside: tuple[Kind, ...]
    """Kinds without which pools can still be read (reservations)."""
    status_kinds: tuple[Kind, ...]
    """Its kinds whose status is a subresource."""
    keeps_addresses: bool
    """Whether fixed-IP owners exist: whether a workload's address outlives its pod."""
    ipam_types: frozenset[str]
    """The `ipam.type` of CNI configurations that draw from these pools."""

    def item_type(self, kind: Kind) -> type[Any]:
        """The narrow Struct of one of its kinds."""
        ...

    def inventory(self, objects: Mapping[Kind, Sequence[Any]]) -> Inventory:
        """Domain objects from decoded ones."""
        ...

    def record(self, key: str, raw: bytes) -> Record:
        """The record that an entry of a pool is: its key, and its value as JSON text."""
        ...

    def nics_drawing_from(self, pod: Pod, pool: str, nics: int) -> int:
        """How many of a pod's `nics` NICs may draw from a pool, as far as its annotations tell; `nics` if they do not."""
        ...

    def without_items(self, raw: bytes, owner_uid: str, addresses: AbstractSet[str]) -> Change | Stale:
        """The write that takes these addresses out of an endpoint, read straight before as `raw`."""
        ...

    def with_interfaces(self, raw: bytes, owner_uid: str, names: Mapping[str, str]) -> Change | Stale:
        """The write that names an endpoint's unnamed NICs: address -> interface."""
        ...

    def without_duplicates(
        self, raw: bytes, owner_uid: str, interface: str, addresses: AbstractSet[str]
    ) -> Change | Stale:
        """The write that leaves, of the items that name one NIC, the one with just these addresses."""
        ...

    def without_finalizer(self, raw: bytes) -> Change | Stale:
        """The write that takes the IPAM's finalizer off a terminating endpoint."""
        ...

    def without_records(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """The write that removes exactly these records from a pool, read straight before as `raw`."""
        ...

    def with_record(self, raw: bytes, ref: PoolRef, address: str, record: bytes) -> Change | Stale:
        """The write that puts a released record back, if its address has none."""
        ...
