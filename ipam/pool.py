"""Pools and their records, whatever IPAM wrote them."""

from hashlib import blake2b
from typing import Literal

from msgspec import Struct

from poolwarden.ipam.ranges import AddressSet


class PoolRef(Struct, frozen=True, order=True, gc=False):
    """Names a pool. `namespace` is "" for cluster-scoped pools."""

    ipam: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return ".".join(part for part in (self.ipam, self.namespace, self.name) if part)


class ClaimedOwner(Struct, frozen=True, tag=True, gc=False):
    """The owner that a record names."""

    namespace: str
    name: str


class UnparsedOwner(Struct, frozen=True, tag=True, gc=False):
    """An owner reference that cannot be parsed; `problem` says why."""

    problem: str


class Record(Struct, frozen=True, gc=False):
    """One entry of a pool.

    `address` is canonical, None if the key is no address. `uid` and `interface` are "" where the IPAM stores none.
    `raw` is the entry's value as JSON text, `digest` a short hash of key and value.
    """

    key: str
    address: str | None
    owner: ClaimedOwner | UnparsedOwner
    uid: str
    interface: str
    raw: bytes
    digest: str


class RecordsUnreadable(Struct, frozen=True, gc=False):
    """The pool's records cannot be parsed; nothing may be said or done about any of them."""

    problem: str


class PoolFlaw(Struct, frozen=True, gc=False):
    """Something wrong with the pool itself: a range that hands out nothing, a count that differs."""

    kind: Literal["RangeInvalid", "CountMismatch"]
    message: str


class Pool(Struct, frozen=True, gc=False):
    """A set of addresses that an IPAM hands out.

    `configured` are its own ranges, `ranges` what it can hand out of them (less excludes and reservations).
    `networks` are the NetworkAttachmentDefinitions that it is bound to, as namespace/name or name, empty if none is named.
    """

    ref: PoolRef
    uid: str
    resource_version: str
    configured: AddressSet
    ranges: AddressSet
    records: tuple[Record, ...] | RecordsUnreadable
    flaws: tuple[PoolFlaw, ...] = ()
    networks: tuple[str, ...] = ()

    @property
    def readable_records(self) -> tuple[Record, ...]:
        """The records, none if they cannot be read."""
        return () if isinstance(self.records, RecordsUnreadable) else self.records


def digest_of(key: str, raw: bytes) -> str:
    """A short hash (16 hex digits) of everything in a record."""
    return blake2b(key.encode() + b"\0" + raw, digest_size=8).hexdigest()
