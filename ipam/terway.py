"""Terway in centralised mode: Node and NodeRuntime (`network.alibabacloud.com/v1beta1`), one pool per node.

Facts: github.com/AliyunContainerService/terway, `pkg/apis/network.alibabacloud.com/v1beta1`, `pkg/utils`
(`RuntimeFinalStatus`) and `pkg/controller/multi-ip/node`: `releasePodNotFound` empties podID and podUID,
`assignIPFromLocalPool` hands out each Valid address without podID, the primary one too, of an interface InUse. In
prefix mode the node's daemon hands out addresses by itself, and no entry tells to whom. Both fields are `omitempty`, so
that Terway reads and writes "" as an absent key. Daemons older than v1.11.3 report no removal, and Terway then releases
without proof; here doubt keeps.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw, Struct, field

from poolwarden.ipam.address import AddressError, address_of, brief, parse_number
from poolwarden.ipam.inventory import (
    Change,
    Endpoints,
    FixedRanges,
    Hiding,
    Holders,
    Inventory,
    NoEndpoints,
    NoHiding,
    NoReservations,
    PodOwners,
    Ranges,
    Reservations,
    Stale,
)
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.network import UNDECODABLE
from poolwarden.ipam.objects import Metadata, Pod, Timestamp
from poolwarden.ipam.pool import (
    ClaimedOwner,
    Leaving,
    Pool,
    PoolFlaw,
    PoolRef,
    Record,
    RecordsUnreadable,
    Removals,
    UnparsedOwner,
    canonical_text,
    digest_of,
    digest_of_invalid,
    parse_owner,
)
from poolwarden.ipam.ranges import AddressRange, RangeError, address_set, parse_network

NAME = "terway"
GROUP = "network.alibabacloud.com"
VERSION = "v1beta1"

POOLS = Kind(GROUP, VERSION, "nodes", "Node", namespaced=False)
RUNTIMES = Kind(GROUP, VERSION, "noderuntimes", "NodeRuntime", namespaced=False)

IN_USE = "InUse"
"""Status of an interface that is attached to its node."""
VALID, INVALID, DELETING = "Valid", "Invalid", "Deleting"
"""Status of an address: usable; gone in the cloud while a pod has it; about to be given back to the cloud."""


class TerwayNodeStatus(Struct, frozen=True, rename="camel", gc=False):
    """Node.status: interfaces by their ID, each read by itself."""

    network_interfaces: Raw = Raw(b"null")


class TerwayNode(Struct, frozen=True, gc=False):
    """A Node of Terway, named like the Kubernetes node."""

    metadata: Metadata
    status: TerwayNodeStatus = TerwayNodeStatus()


class NodeRuntimeStatus(Struct, frozen=True, gc=False):
    """NodeRuntime.status: what the daemon saw of pods, by their UID, each read by itself."""

    pods: Raw = Raw(b"null")


class NodeRuntime(Struct, frozen=True, gc=False):
    """A NodeRuntime, named like the Kubernetes node."""

    metadata: Metadata
    status: NodeRuntimeStatus = NodeRuntimeStatus()


class _Seen(Struct, frozen=True, rename="camel", gc=False):
    """When the daemon last saw a pod in one state."""

    last_update_time: Timestamp


class _PodRuntime(Struct, frozen=True, gc=False):
    """An entry of NodeRuntime.status.pods."""

    status: dict[Literal["initial", "deleted"], _Seen]


class _Interface(Struct, frozen=True, rename="camel", gc=False):
    """An entry of status.networkInterfaces; `unschedulable` ones hand out nothing more."""

    status: str = ""
    unschedulable: bool | None = None
    ipv4: dict[str, Raw] | None = None
    ipv6: dict[str, Raw] | None = None
    ipv4_prefix: tuple[Raw, ...] | None = field(name="ipv4Prefix", default=None)
    ipv6_prefix: tuple[Raw, ...] | None = field(name="ipv6Prefix", default=None)


class _Prefix(Struct, frozen=True, gc=False):
    """An item of `ipv4Prefix` or `ipv6Prefix`."""

    prefix: str = ""
    status: str = ""


class _Entry(Struct, frozen=True, gc=False):
    """The value of one address."""

    ip: str | None = None
    status: str | None = None
    pod_id: str | None = field(name="podID", default=None)
    pod_uid: str | None = field(name="podUID", default=None)


class _Idle(Struct, frozen=True, tag=True, gc=False):
    """An entry that names no pod."""


class _Slot(Struct, frozen=True, gc=False):
    """An entry in its place: interface, family, key. `attached` tells whether the interface hands out addresses."""

    path: tuple[str, ...]
    raw: bytes
    address: str | None
    owner: ClaimedOwner | UnparsedOwner | _Idle
    uid: str = ""
    status: str = ""
    attached: bool = False

    @property
    def name(self) -> str:
        """The key of its record."""
        return "/".join(self.path)

    @property
    def digest(self) -> str:
        """A short hash of everything in it."""
        return digest_of_invalid(self.name, self.raw) if self.address is None else digest_of(self.address, self.raw)


class _Content(Struct, frozen=True, gc=False):
    """All that can be read of a Node. `valid` and `attached` are prefixes; `unreadable` says what cannot be read."""

    slots: tuple[_Slot, ...]
    valid: tuple[AddressRange, ...]
    attached: tuple[AddressRange, ...]
    flaws: tuple[PoolFlaw, ...]
    unreadable: str


_NODE = msgspec.json.Decoder(TerwayNode)
_RAWS = msgspec.json.Decoder(dict[str, Raw] | None)
_INTERFACE = msgspec.json.Decoder(_Interface)
_ENTRY = msgspec.json.Decoder(_Entry)
_PREFIX = msgspec.json.Decoder(_Prefix)
_POD_RUNTIME = msgspec.json.Decoder(_PodRuntime)


class Terway:
    """The Terway backend."""

    name = NAME
    pool_kind = POOLS
    aside: tuple[Kind, ...] = (RUNTIMES,)
    limits: tuple[Kind, ...] = ()
    proofs: tuple[Kind, ...] = (RUNTIMES,)
    status_kinds: tuple[Kind, ...] = (POOLS, RUNTIMES)
    keeps_addresses = False
    one_address_per_family = True
    many_pools = True
    ipam_types = frozenset({"terway"})
    owners: Holders | PodOwners = PodOwners()
    endpoints: Endpoints | NoEndpoints = NoEndpoints()
    reservations: Reservations | NoReservations = NoReservations()
    hiding: Hiding | NoHiding = NoHiding()
    ranges: Ranges | FixedRanges = FixedRanges(
        "its addresses come from the cloud: change maxPoolSize or minPoolSize in ConfigMap eni-config, or the vSwitches"
    )

    _types: Mapping[Kind, type[Any]] = {POOLS: TerwayNode, RUNTIMES: NodeRuntime}

    def item_type(self, kind: Kind) -> type[Any]:
        """The narrow Struct of one of its kinds."""
        return self._types[kind]

    def inventory(self, objects: Mapping[Kind, Sequence[Any]]) -> Inventory:
        """Domain objects from decoded ones; a node without NodeRuntime has told of no removal."""
        confirmed = {item.metadata.name: confirmed_in(item) for item in objects.get(RUNTIMES, ())}
        return Inventory(
            NAME,
            tuple(pool_of(item, confirmed.get(item.metadata.name, frozenset())) for item in objects.get(POOLS, ())),
        )

    def record(self, address: str, raw: bytes) -> Record:
        """The record that an entry was."""
        return _record(_slot((address,), raw))

    def nics_drawing_from(self, pod: Pod, pool: str, nics: int) -> int:  # noqa: ARG002 - no annotation tells
        """Terway has no annotation that names a Node."""
        return nics

    def without_records(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """Empty both fields of exactly these entries, as Terway does; each must still be there as it was judged."""
        node = _NODE.decode(raw)
        content = _content(node)
        if content.unreadable:
            return Stale(content.unreadable)
        freed: list[_Slot] = []
        for record in records:
            found = [slot for slot in content.slots if slot.name == record.key]
            if [slot.digest for slot in found] != [record.digest]:
                return Stale(f"{record.address or record.key} is no longer recorded as it was judged")
            freed += found
        return _change(node, freed, {"podID": None, "podUID": None})

    def with_record(self, raw: bytes, ref: PoolRef, address: str, record: bytes) -> Change | Stale:
        """Bind a released address to its pod again, on whichever interface it is now, if it is idle and valid."""
        node = _NODE.decode(raw)
        content = _content(node)
        binding = _binding(record)
        if content.unreadable or not binding:
            return Stale(content.unreadable or f"the released record {_shown(record)} names no pod")
        found = [slot for slot in content.slots if slot.address == address]
        if not all(isinstance(slot.owner, _Idle) for slot in found):
            return Stale(f"{address} has a record in {ref.name} again")
        valid = [slot for slot in found if slot.status == VALID]
        if len(valid) != 1:
            return Stale(f"{address} is a valid address of {len(valid)} interfaces of {ref.name}, not of one")
        return _change(node, valid, binding)


def pool_of(wire: TerwayNode, confirmed: frozenset[str]) -> Pool:
    """The pool that a Node is, given the UIDs of pods of which its daemon has said that they are gone."""
    content = _content(wire)
    recorded = [slot for slot in content.slots if not isinstance(slot.owner, _Idle)]
    usable = [slot for slot in content.slots if slot.attached and slot.status == VALID]
    return Pool(
        ref=PoolRef(NAME, "", wire.metadata.name),
        uid=wire.metadata.uid,
        resource_version=wire.metadata.resource_version,
        configured=address_set([*_addresses(content.slots), *content.valid]),
        ranges=address_set([*_addresses(recorded), *_addresses(usable), *content.attached]),
        records=RecordsUnreadable(content.unreadable) if content.unreadable else tuple(map(_record, recorded)),
        flaws=content.flaws,
        node=wire.metadata.name,
        removals=Removals(confirmed),
        claimed=address_set(content.valid),
        leaving=tuple(
            Leaving(slot.address, slot.digest)
            for slot in content.slots
            if slot.status == DELETING and slot.address is not None
        ),
    )


def confirmed_in(wire: NodeRuntime) -> frozenset[str]:
    """The UIDs of pods whose newest state is `deleted`; one whose states cannot be told apart is not among them.

    Nor is "": a record without UID is never confirmed.
    """
    try:
        pods = _RAWS.decode(wire.status.pods) or {}
    except UNDECODABLE:
        return frozenset()
    return frozenset(uid for uid, raw in pods.items() if uid and _removed(raw))


def _removed(raw: Raw) -> bool:
    try:
        seen = _POD_RUNTIME.decode(raw).status
    except UNDECODABLE:
        return False
    if "deleted" not in seen:
        return False
    return "initial" not in seen or seen["initial"].last_update_time < seen["deleted"].last_update_time


def _content(wire: TerwayNode) -> _Content:
    """What a Node says, interface by interface: one that cannot be read takes nothing from the others."""
    slots: list[_Slot] = []
    valid: list[AddressRange] = []
    attached: list[AddressRange] = []
    flaws: list[PoolFlaw] = []
    unreadable: list[str] = []
    try:
        interfaces = _RAWS.decode(wire.status.network_interfaces) or {}
    except UNDECODABLE as error:
        interfaces = {}
        unreadable.append(f"status.networkInterfaces cannot be parsed: {error}")
    for name, raw in interfaces.items():
        try:
            interface = _INTERFACE.decode(raw)
        except UNDECODABLE as error:
            unreadable.append(f"interface {brief(name)} cannot be parsed: {error}")
            continue
        hands_out = interface.status == IN_USE and not interface.unschedulable
        slots += _slots(name, interface, attached=hands_out)
        prefixes = list(_valid_prefixes(name, interface, flaws))
        valid += prefixes
        attached += prefixes if hands_out else ()
    return _Content(tuple(slots), tuple(valid), tuple(attached), tuple(flaws), "; ".join(unreadable))


def _slots(name: str, interface: _Interface, *, attached: bool) -> Iterator[_Slot]:
    for family, entries in (("ipv4", interface.ipv4), ("ipv6", interface.ipv6)):
        for key, raw in (entries or {}).items():
            yield _slot((name, family, key), bytes(raw), attached=attached)


def _slot(path: tuple[str, ...], text: bytes, *, attached: bool = False) -> _Slot:
    raw = canonical_text(text)
    try:
        entry = _ENTRY.decode(raw)
    except UNDECODABLE as error:
        problem = UnparsedOwner(f"its entry {_shown(raw)} cannot be parsed: {error}")
        return _Slot(path, raw, _canonical(path[-1]), problem)
    address = _canonical(path[-1])
    if entry.ip and entry.ip != path[-1] and _canonical(entry.ip) != address:
        address = None
    return _Slot(path, raw, address, _owner(entry), entry.pod_uid or "", entry.status or "", attached)


def _owner(entry: _Entry) -> ClaimedOwner | UnparsedOwner | _Idle:
    if not entry.pod_id and not entry.pod_uid:
        return _Idle()
    owner = parse_owner(entry.pod_id or "")
    return owner if isinstance(owner, ClaimedOwner) else UnparsedOwner(f"its podID {owner.problem}")


def _record(slot: _Slot) -> Record:
    return Record(
        key=slot.name,
        address=slot.address,
        owner=UnparsedOwner("it names no pod") if isinstance(slot.owner, _Idle) else slot.owner,
        uid=slot.uid,
        interface="",
        raw=slot.raw,
        digest=slot.digest,
        lost=slot.status == INVALID,
    )


def _valid_prefixes(name: str, interface: _Interface, flaws: list[PoolFlaw]) -> Iterator[AddressRange]:
    """The prefixes in use; one that cannot be read hands out nothing and is told."""
    for raw in (*(interface.ipv4_prefix or ()), *(interface.ipv6_prefix or ())):
        try:
            prefix = _PREFIX.decode(raw)
            if prefix.status == VALID:
                yield parse_network(prefix.prefix).addresses
        except (*UNDECODABLE, RangeError) as error:
            flaws.append(PoolFlaw("RangeInvalid", f"a prefix of interface {brief(name)} cannot be read: {error}"))


def _addresses(slots: Iterable[_Slot]) -> Iterator[AddressRange]:
    for slot in slots:
        if slot.address is not None:
            family, number = parse_number(slot.address)
            yield AddressRange(family, number, number)


def _canonical(text: str) -> str | None:
    try:
        return address_of(*parse_number(text))
    except AddressError:
        return None


def _binding(record: bytes) -> dict[str, str]:
    """What a released entry said of its pod, nothing if it cannot be read."""
    try:
        entry = _ENTRY.decode(record)
    except UNDECODABLE:
        return {}
    return {key: value for key, value in (("podID", entry.pod_id), ("podUID", entry.pod_uid)) if value}


def _shown(raw: bytes) -> str:
    return brief(raw.decode("utf-8", "replace"))


def _change(node: TerwayNode, slots: Iterable[_Slot], value: Mapping[str, str | None]) -> Change:
    """A merge patch of these entries that only takes effect on the very object that was read."""
    interfaces: dict[str, dict[str, dict[str, Mapping[str, str | None]]]] = {}
    for interface, family, key in (slot.path for slot in slots):
        interfaces.setdefault(interface, {}).setdefault(family, {})[key] = value
    metadata = {"resourceVersion": node.metadata.resource_version, "uid": node.metadata.uid}
    body = {"status": {"networkInterfaces": interfaces}, "metadata": metadata}
    return Change(POOLS, "", node.metadata.name, "status", body)
