"""What one IPAM's objects say, and the interface that every IPAM's module offers."""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from msgspec import Struct

from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.holder import Holder
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Pod
from poolwarden.ipam.pool import Pool, PoolRef, Record
from poolwarden.ipam.ranges import AddressSet
from poolwarden.ipam.reservation import Reservation


class Inventory(Struct, frozen=True):
    """All pools, endpoints and reservations of one IPAM."""

    ipam: str
    pools: tuple[Pool, ...]
    endpoints: tuple[Endpoint, ...] = ()
    reservations: tuple[Reservation, ...] = ()


class Change(Struct, frozen=True):
    """A conditional write.

    A mapping as `body` is a merge patch that carries the resourceVersion and UID of what was judged; a sequence is a JSON
    patch, in which a `test` of the exact value judged precedes each change.
    """

    kind: Kind
    namespace: str
    name: str
    subresource: str
    body: Mapping[str, Any] | Sequence[Mapping[str, Any]]


class Stale(Struct, frozen=True):
    """The object no longer says what was judged; nothing may be written on that judgement."""

    message: str


class Endpoints(Protocol):
    """The endpoints of an IPAM that has them, and the writes to one. `raw` is an endpoint, read straight before."""

    @property
    def kind(self) -> Kind:
        """Their kind."""
        ...

    def without_items(self, raw: bytes, owner_uid: str, addresses: AbstractSet[str]) -> Change | Stale:
        """The write that takes these addresses out."""
        ...

    def with_interfaces(self, raw: bytes, owner_uid: str, names: Mapping[str, str]) -> Change | Stale:
        """The write that names unnamed NICs: address -> interface."""
        ...

    def without_duplicates(
        self, raw: bytes, owner_uid: str, interface: str, addresses: AbstractSet[str]
    ) -> Change | Stale:
        """The write that leaves, of the items that name one NIC, the one with just these addresses."""
        ...

    def without_finalizer(self, raw: bytes) -> Change | Stale:
        """The write that takes the IPAM's finalizer off a terminating endpoint."""
        ...


class NoEndpoints(Struct, frozen=True, tag=True):
    """The IPAM has no objects about single pods."""


class Reservations(Protocol):
    """The reservations of an IPAM that has them. They are made and deleted, never changed."""

    @property
    def kind(self) -> Kind:
        """Their kind."""
        ...

    def reservation_for(self, pool: Pool, record: Record) -> tuple[str, Mapping[str, Any]]:
        """The namespace of the reservation that belongs to a record, and the object as its IPAM would make it."""
        ...

    def again(self, reservation: Reservation) -> tuple[str, Mapping[str, Any]]:
        """The same for a reservation that has been deleted."""
        ...


class NoReservations(Struct, frozen=True, tag=True):
    """The IPAM reserves no addresses beside its pools for single owners."""


class Hiding(Protocol):
    """The marks of an IPAM that finds an owner's record by name, and then hands it out without a write."""

    def hide(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """The write that marks exactly these records of a pool, read straight before as `raw`."""
        ...

    def show(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """The write that takes our mark off these records again."""
        ...


class NoHiding(Struct, frozen=True, tag=True):
    """Whoever takes a record over writes it, and so makes our compare-and-swap fail."""


class Holders(Protocol):
    """The owners of an IPAM whose records name something else than pods."""

    @property
    def kind(self) -> Kind:
        """What its records name."""
        ...

    def holder(self, item: Any) -> Holder:
        """The domain object of a decoded one."""
        ...

    def runs(self, pod: Pod) -> str:
        """The name of the holder, in the pod's namespace, that this pod runs; "" if it runs none."""
        ...


class PodOwners(Struct, frozen=True, tag=True):
    """Its records name pods."""


class Ranges(Protocol):
    """The ranges of an IPAM whose pools hold them, and the write that changes them. `raw` is a pool, just read."""

    def objection(self, raw: bytes) -> str:
        """Why they are not ours to change, "" if they are."""
        ...

    def with_ranges(self, raw: bytes, added: AddressSet, removed: AddressSet) -> Change | Stale:
        """The write that adds and removes these addresses; what its author wrote of others stays as it is."""
        ...


class FixedRanges(Struct, frozen=True, tag=True):
    """The ranges of its pools stand elsewhere; `advice` says what to change there."""

    advice: str


class Backend(Protocol):
    """What differs between IPAMs. No method does I/O."""

    name: str
    pool_kind: Kind
    aside: tuple[Kind, ...]
    """Kinds without which pools can still be read: reservations, configurations, proofs of removal."""
    limits: tuple[Kind, ...]
    """Those of `aside` that bear on every pool: while one of their objects cannot be read, nothing is released."""
    proofs: tuple[Kind, ...]
    """Those of `aside` that prove removals (`Pool.removals`): a list that is missing is no missing proof."""
    status_kinds: tuple[Kind, ...]
    """Its kinds whose status is a subresource."""
    keeps_addresses: bool
    """Whether fixed-IP owners exist: whether a workload's address outlives its pod."""
    one_address_per_family: bool
    """Whether a pod gets one address per family, so that `podIPs` alone tell which it does not use."""
    many_pools: bool
    """Whether clusters have thousands of its pools, so that only those with a finding get a PoolGuard."""
    ipam_types: frozenset[str]
    """The `ipam.type` of CNI configurations that draw from these pools."""
    owners: Holders | PodOwners
    endpoints: Endpoints | NoEndpoints
    reservations: Reservations | NoReservations
    hiding: Hiding | NoHiding
    ranges: Ranges | FixedRanges

    def item_type(self, kind: Kind) -> type[Any]:
        """The narrow Struct of one of its kinds: of `pool_kind`, `aside`, `endpoints` or `owners`."""
        ...

    def inventory(self, objects: Mapping[Kind, Sequence[Any]]) -> Inventory:
        """Domain objects from decoded ones: of `pool_kind`, `aside` and `endpoints`, as far as they are given."""
        ...

    def record(self, address: str, raw: bytes) -> Record:
        """The record that an entry of a pool was, from its address and its value as JSON text."""
        ...

    def nics_drawing_from(self, pod: Pod, pool: str, nics: int) -> int:
        """How many of a pod's `nics` NICs may draw from a pool, as far as its annotations tell; `nics` if they do not."""
        ...

    def without_records(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """The write that removes exactly these records from a pool, read straight before as `raw`."""
        ...

    def with_record(self, raw: bytes, ref: PoolRef, address: str, record: bytes) -> Change | Stale:
        """The write that puts a released record back, if its address has none."""
        ...


def endpoint_kinds(backend: Backend) -> tuple[Kind, ...]:
    """The kind of its endpoints, none if it has none."""
    return () if isinstance(backend.endpoints, NoEndpoints) else (backend.endpoints.kind,)


def holder_kinds(backend: Backend) -> tuple[Kind, ...]:
    """The kind of its owners, none if they are pods."""
    return () if isinstance(backend.owners, PodOwners) else (backend.owners.kind,)


def reservation_kinds(backend: Backend) -> tuple[Kind, ...]:
    """The kind of its reservations, none if it has none."""
    return () if isinstance(backend.reservations, NoReservations) else (backend.reservations.kind,)
