"""Pools and their records, whatever IPAM wrote them."""

import re
from hashlib import blake2b
from typing import Literal

import msgspec
from msgspec import Struct

from poolwarden.ipam.address import brief
from poolwarden.ipam.network import UNDECODABLE
from poolwarden.ipam.ranges import AddressSet


class PoolRef(Struct, frozen=True, order=True, gc=False):
    """Names a pool. `namespace` is "" for cluster-scoped pools."""

    ipam: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return ".".join(part for part in (self.ipam, self.namespace, self.name) if part)

    @property
    def spellings(self) -> frozenset[str]:
        """What people may call it: `name`, `namespace/name`, or the name of its PoolGuard."""
        return frozenset({self.name, f"{self.namespace}/{self.name}" if self.namespace else self.name, str(self)})


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
    `sandbox` is the one that it was made for, "" where the IPAM stores none. `raw` is the entry's value as JSON text, `digest` a short hash of everything in it. `lost` tells that the IPAM has
    lost the address, though the owner may still use it; `hidden` that the entry carries our mark, by which its IPAM does
    not find it for an owner of the same name (`raw` and `digest` are those of the entry without the mark).
    """

    key: str
    address: str | None
    owner: ClaimedOwner | UnparsedOwner
    uid: str
    interface: str
    raw: bytes
    digest: str
    lost: bool = False
    hidden: bool = False
    sandbox: str = ""

    def names(self, namespace: str, name: str, uid: str) -> bool:
        """Whether it is recorded for that owner: by UID, or by name where the IPAM stores no UID."""
        if self.uid:
            return self.uid == uid
        return isinstance(self.owner, ClaimedOwner) and (self.owner.namespace, self.owner.name) == (namespace, name)


class RecordsUnreadable(Struct, frozen=True, gc=False):
    """The pool's records cannot be parsed; nothing may be said or done about any of them."""

    problem: str


class PoolFlaw(Struct, frozen=True, gc=False):
    """Something wrong with the pool itself: a range that hands out nothing, a count that differs."""

    kind: Literal["RangeInvalid", "CountMismatch", "AttachmentMissing"]
    message: str


class Leaving(Struct, frozen=True, gc=False):
    """An address that the IPAM is taking out of the pool, and a short hash of its entry."""

    address: str
    digest: str


class Removals(Struct, frozen=True, tag=True, gc=False):
    """The IPAM itself tells when a pod's NIC is gone: `confirmed` are the UIDs of pods of which it has said so."""

    confirmed: frozenset[str]


class NoRemovals(Struct, frozen=True, tag=True, gc=False):
    """The IPAM tells nothing of the kind; that the pod is gone is proof enough."""


class Pool(Struct, frozen=True, gc=False):
    """A set of addresses that an IPAM hands out.

    `configured` are its own ranges, `ranges` what it can hand out of them (less excludes and reservations).
    `networks` are the NetworkAttachmentDefinitions that it is bound to, as namespace/name or name, empty if none is named.

    Attributes:
        network: what the IPAM's own configuration calls its network ("" for the unnamed one): pools of networks of
            different names are isolated from each other.
        reserves: whether a reservation beside each record keeps other pools of the network off its address.
        node: where all its owners run, "" if they run anywhere.
        ambiguous: why its offsets mean different addresses to different versions of the IPAM, "" if they do not.
        claimed: addresses that a controller gives to owners without a record; only the owners' status tells to whom.
        doubtful: addresses for which entries may stand that cannot be read, or not with certainty.
        leaving: addresses that are being taken away from it.
        unusable: addresses that its ranges may not get, or that it would not hand out of them: excluded, reserved, its
            gateway, outside its subnet.
    """

    ref: PoolRef
    uid: str
    resource_version: str
    configured: AddressSet
    ranges: AddressSet
    records: tuple[Record, ...] | RecordsUnreadable
    flaws: tuple[PoolFlaw, ...] = ()
    networks: tuple[str, ...] = ()
    network: str = ""
    reserves: bool = False
    node: str = ""
    ambiguous: str = ""
    removals: Removals | NoRemovals = NoRemovals()
    claimed: AddressSet = AddressSet()
    doubtful: AddressSet = AddressSet()
    leaving: tuple[Leaving, ...] = ()
    unusable: AddressSet = AddressSet()

    @property
    def readable_records(self) -> tuple[Record, ...]:
        """The records, none if they cannot be read."""
        return () if isinstance(self.records, RecordsUnreadable) else self.records


_OBJECT_NAME = re.compile("[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?")


def parse_owner(text: str) -> ClaimedOwner | UnparsedOwner:
    """The owner of a reference `namespace/name`, both possible names of Kubernetes objects: no other can exist."""
    parts = text.split("/")
    if len(parts) != 2 or not all(map(_OBJECT_NAME.fullmatch, parts)):  # noqa: PLR2004 - namespace and name
        return UnparsedOwner(f"{brief(text)} is not of the form namespace/name")
    return ClaimedOwner(*parts)


def canonical_text(raw: bytes) -> bytes:
    """The same JSON in the API server's form, whoever printed it: members sorted, no blanks; what is no JSON as it is."""
    try:
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted")
    except UNDECODABLE:
        return raw


def digest_of(key: str, raw: bytes) -> str:
    """A short hash (16 hex digits) of everything in a record: its key, or where it stands for an address, that."""
    return blake2b(key.encode() + b"\0" + raw, digest_size=8).hexdigest()


def digest_of_invalid(key: str, raw: bytes) -> str:
    """The same for an entry whose key stands for no address, though it may be written like one."""
    return digest_of(f"key {key}", raw)
