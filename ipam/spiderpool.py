"""Spiderpool: SpiderIPPool, SpiderReservedIP and SpiderEndpoint (`spiderpool.spidernet.io/v2beta1`).

Facts: github.com/spidernet-io/spiderpool, `pkg/ippoolmanager`, `pkg/workloadendpointmanager`, `pkg/ipam`; forms of
`allocatedIPs` by version as in its change log (object map up to v0.3, JSON text since v0.4, without `interface` since
v0.8.2). Release order: endpoint, then record - Spiderpool's own is the reverse, but an endpoint without a record makes
its agent hand out an address that no pool records, while a record without an endpoint is harmless and found again.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Raw, Struct, field

from poolwarden.ipam.address import AddressError, canonical, canonical_host, parse_number
from poolwarden.ipam.endpoint import Endpoint, EndpointAddress, EndpointItem
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
from poolwarden.ipam.network import UNDECODABLE, addresses_in
from poolwarden.ipam.objects import Metadata, OwnerReference, Pod
from poolwarden.ipam.pool import (
    ClaimedOwner,
    Pool,
    PoolFlaw,
    PoolRef,
    Record,
    RecordsUnreadable,
    UnparsedOwner,
    digest_of,
)
from poolwarden.ipam.ranges import AddressRange, AddressSet, RangeError, address_set, parse_network, parse_range

NAME = "spiderpool"
GROUP = "spiderpool.spidernet.io"
VERSION = "v2beta1"
FINALIZER = GROUP
EVERY_ADDRESS = address_set(parse_network(text).addresses for text in ("0.0.0.0/0", "::/0"))

POOLS = Kind(GROUP, VERSION, "spiderippools", "SpiderIPPool", namespaced=False)
ENDPOINTS = Kind(GROUP, VERSION, "spiderendpoints", "SpiderEndpoint", namespaced=True)
RESERVATIONS = Kind(GROUP, VERSION, "spiderreservedips", "SpiderReservedIP", namespaced=False)
MULTUS_CONFIGS = Kind(GROUP, VERSION, "spidermultusconfigs", "SpiderMultusConfig", namespaced=True)


class PoolSpec(Struct, frozen=True, rename="camel", dict=True):
    """SpiderIPPool.spec; what it says of addresses is read once, and forgotten with it."""

    subnet: str = ""
    ip_version: int | None = None
    gateway: str | None = None
    ips: tuple[str, ...] | None = None
    exclude_ips: tuple[str, ...] | None = field(name="excludeIPs", default=None)
    multus_name: tuple[str, ...] | None = None

    @cached_property
    def addresses(self) -> AddressSet:
        """What the pool can hand out, reservations apart; what cannot be read holds none."""
        return address_set(_ranges(self.ips, [])) - address_set(_ranges(self.exclude_ips, []))

    @cached_property
    def refused(self) -> AddressSet:
        """What Spiderpool takes into no `ips` of this pool: the gateway, and what its subnet or its family leaves out."""
        try:
            fitting = [parse_network(self.subnet).addresses]
        except RangeError:
            fitting = [item for item in EVERY_ADDRESS.ranges if self.ip_version in {None, item.family}]
        return (EVERY_ADDRESS - address_set(fitting)) | self.gateways

    @cached_property
    def gateways(self) -> AddressSet:
        """The gateway, none if it cannot be read."""
        try:
            family, number = parse_number(self.gateway or "")
        except AddressError:
            return AddressSet()
        return AddressSet((AddressRange(family, number, number),))


class PoolShape(Struct, frozen=True, gc=False):
    """What a SpiderIPPool is meant to be, without its records, which can be megabytes."""

    metadata: Metadata
    spec: PoolSpec = PoolSpec()


class PoolStatus(Struct, frozen=True, rename="camel", gc=False):
    """SpiderIPPool.status; `allocated_ips` in whatever form the version that wrote it has."""

    allocated_ips: Raw = field(name="allocatedIPs", default=Raw(b"null"))
    allocated_ip_count: int | None = field(name="allocatedIPCount", default=None)
    total_ip_count: int | None = field(name="totalIPCount", default=None)


class SpiderIPPool(PoolShape, frozen=True, gc=False):
    """A SpiderIPPool."""

    status: PoolStatus = PoolStatus()


class ReservedSpec(Struct, frozen=True, gc=False):
    """SpiderReservedIP.spec."""

    ips: tuple[str, ...] | None = None


class SpiderReservedIP(Struct, frozen=True, gc=False):
    """A SpiderReservedIP: addresses that no pool hands out any more."""

    metadata: Metadata
    spec: ReservedSpec = ReservedSpec()


class MultusConfigSpec(Struct, frozen=True, rename="camel", gc=False):
    """SpiderMultusConfig.spec, as far as it says which IPAM the network will use."""

    cni_type: str = "custom"
    disable_ipam: bool = field(name="disableIPAM", default=False)
    custom_cni: str | None = field(name="customCNI", default=None)


class SpiderMultusConfig(Struct, frozen=True, gc=False):
    """A SpiderMultusConfig: Spiderpool makes a NetworkAttachmentDefinition of the same name from it."""

    metadata: Metadata
    spec: MultusConfigSpec = MultusConfigSpec()


class EndpointNic(Struct, frozen=True, gc=False):
    """An item of SpiderEndpoint.status.current.ips."""

    interface: str = ""
    ipv4: str | None = None
    ipv6: str | None = None
    ipv4_pool: str | None = field(name="ipv4Pool", default=None)
    ipv6_pool: str | None = field(name="ipv6Pool", default=None)


class EndpointCurrent(Struct, frozen=True, gc=False):
    """SpiderEndpoint.status.current."""

    uid: str = ""
    node: str = ""
    ips: tuple[EndpointNic, ...] | None = None


class EndpointStatus(Struct, frozen=True, rename="camel", gc=False):
    """SpiderEndpoint.status."""

    current: EndpointCurrent | None = None
    owner_controller_type: str = ""
    owner_controller_name: str = ""


class SpiderEndpoint(Struct, frozen=True, gc=False):
    """A SpiderEndpoint."""

    metadata: Metadata
    status: EndpointStatus = EndpointStatus()


class _PoolsItem(Struct, frozen=True, gc=False):
    """An item of the Pod annotation `ipam.spidernet.io/ippools`, or the value of `ipam.spidernet.io/ippool`."""

    ipv4: tuple[str, ...] | None = None
    ipv6: tuple[str, ...] | None = None


class _ManagedFields(Struct, frozen=True, rename="camel", gc=False):
    """metav1.ManagedFieldsEntry."""

    manager: str = ""
    operation: str = ""
    fields_v1: Any = field(name="fieldsV1", default=None)


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


class _Applied(Struct, frozen=True, gc=False):
    """The annotation in which kubectl keeps what it applied."""

    last_applied: str | None = field(name=LAST_APPLIED, default=None)


class _OwnedMetadata(Struct, frozen=True, rename="camel", gc=False):
    """metav1.ObjectMeta, as far as it tells who decides on an object."""

    owner_references: tuple[OwnerReference, ...] | None = None
    managed_fields: tuple[_ManagedFields, ...] | None = None
    annotations: _Applied | None = None


class _Owned(Struct, frozen=True, gc=False):
    """An object, and who decides on it."""

    metadata: _OwnedMetadata = _OwnedMetadata()


_OWNED = msgspec.json.Decoder(_Owned)
_POOL = msgspec.json.Decoder(SpiderIPPool)
_ENTRIES = msgspec.json.Decoder(dict[str, Raw])
_POOLS_ITEMS = msgspec.json.Decoder(list[_PoolsItem])


class _Entry(Struct, frozen=True, rename="camel", gc=False):
    """The value of one allocatedIPs entry, in all forms that Spiderpool ever wrote."""

    pod: str | None = None
    pod_uid: str | None = None
    namespace: str | None = None
    interface: str | None = None


_ENTRY = msgspec.json.Decoder(_Entry)


class SpiderRanges:
    """`spec.ips` of a SpiderIPPool."""

    def objection(self, raw: bytes) -> str:
        """A SpiderSubnet that owns the pool, or whoever applies `spec.ips`, would undo our change."""
        pool = _OWNED.decode(raw).metadata
        if any(item.kind == "SpiderSubnet" for item in pool.owner_references or ()):
            return "a SpiderSubnet owns the pool: its ips are changed there"
        for entry in pool.managed_fields or ():
            if entry.operation == "Apply" and _names_ips(entry.fields_v1):
                return f"field manager {entry.manager} applies spec.ips: change them there"
        if pool.annotations is not None and _applied_ips(pool.annotations.last_applied):
            return f"spec.ips is applied by kubectl (annotation {LAST_APPLIED}): change them there"
        return ""

    def with_ranges(self, raw: bytes, added: AddressSet, removed: AddressSet) -> Change | Stale:
        """Items that hold nothing of what is removed stay to the letter; what is added comes last."""
        pool = _POOL.decode(raw)
        kept: list[str] = []
        for text in pool.spec.ips or ():
            try:
                item = parse_range(text)
            except RangeError as error:
                return Stale(f"spec.ips of {pool.metadata.name} cannot be read: {error}")
            whole = address_set([item])
            lost = whole & removed  # looked up: to subtract would walk all that is removed for each item
            kept += map(str, (whole - lost).ranges) if lost.ranges else [text]
        ips = [*kept, *map(str, added.ranges)]
        if not ips:
            return Stale(f"nothing would be left of spec.ips of {pool.metadata.name}")
        return _change(POOLS, pool.metadata, "", {"spec": {"ips": ips}})


class SpiderEndpoints:
    """SpiderEndpoints, and the writes to them."""

    kind = ENDPOINTS

    def without_items(self, raw: bytes, owner_uid: str, addresses: AbstractSet[str]) -> Change | Stale:
        """Take addresses out of an endpoint; a NIC that keeps neither family leaves it whole."""

        def left(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
            taken = [
                family
                for family in ("ipv4", "ipv6")
                if isinstance(text := item.get(family), str) and _host_or_text(text) in addresses
            ]
            gone = {key for family in taken for key in (family, f"{family}Pool", f"{family}Gateway")}
            kept = {key: value for key, value in item.items() if key not in gone}
            if not taken or kept.get("ipv4") or kept.get("ipv6"):
                yield kept

        return _endpoint_change(raw, owner_uid, lambda items: [kept for item in items for kept in left(item)])

    def with_interfaces(self, raw: bytes, owner_uid: str, names: Mapping[str, str]) -> Change | Stale:
        """Name the unnamed NICs whose address is given."""

        def named(item: dict[str, Any]) -> dict[str, Any]:
            name = next((names[host] for host in sorted(_hosts(item)) if host in names), "")
            return {**item, "interface": name} if name and not item.get("interface") else item

        return _endpoint_change(raw, owner_uid, lambda items: [named(item) for item in items])

    def without_duplicates(
        self, raw: bytes, owner_uid: str, interface: str, addresses: AbstractSet[str]
    ) -> Change | Stale:
        """Of the items that name one NIC keep the one with just these addresses."""

        def kept(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
            result: list[dict[str, Any]] = []
            right = False
            for item in items:
                if (item.get("interface") or "").strip() != interface:
                    result.append(item)
                elif not right and _hosts(item) == addresses:
                    right = True
                    result.append(item)
            return result

        return _endpoint_change(raw, owner_uid, kept)

    def without_finalizer(self, raw: bytes) -> Change | Stale:
        """Let a terminating endpoint go; other finalizers stay and hold it."""
        endpoint = msgspec.json.decode(raw, type=SpiderEndpoint)
        if endpoint.metadata.deletion_timestamp is None:
            return Stale(f"endpoint {endpoint.metadata.namespace}/{endpoint.metadata.name} is not being deleted")
        others = [name for name in endpoint.metadata.finalizers or () if name != FINALIZER]
        return _change(ENDPOINTS, endpoint.metadata, "", {"metadata": {"finalizers": others or None}})


class Spiderpool:
    """The Spiderpool backend."""

    name = NAME
    pool_kind = POOLS
    aside: tuple[Kind, ...] = (RESERVATIONS,)
    limits: tuple[Kind, ...] = (RESERVATIONS,)
    proofs: tuple[Kind, ...] = ()
    status_kinds: tuple[Kind, ...] = (POOLS,)
    keeps_addresses = True
    one_address_per_family = True
    many_pools = False
    ipam_types = frozenset({"spiderpool"})
    owners: Holders | PodOwners = PodOwners()
    endpoints: Endpoints | NoEndpoints = SpiderEndpoints()
    reservations: Reservations | NoReservations = NoReservations()
    hiding: Hiding | NoHiding = NoHiding()
    ranges: Ranges | FixedRanges = SpiderRanges()

    _types: Mapping[Kind, type[Any]] = {
        POOLS: SpiderIPPool,
        ENDPOINTS: SpiderEndpoint,
        RESERVATIONS: SpiderReservedIP,
    }

    def item_type(self, kind: Kind) -> type[Any]:
        """The narrow Struct of one of its kinds."""
        return self._types[kind]

    def inventory(self, objects: Mapping[Kind, Sequence[Any]]) -> Inventory:
        """Domain objects from decoded ones."""
        reserved = address_set(
            item for reservation in objects.get(RESERVATIONS, ()) for item in _ranges(reservation.spec.ips, [])
        )
        return Inventory(
            NAME,
            tuple(pool_of(item, reserved) for item in objects.get(POOLS, ())),
            tuple(endpoint_of(item) for item in objects.get(ENDPOINTS, ())),
        )

    def record(self, address: str, raw: bytes) -> Record:
        """The record that an entry of allocatedIPs was."""
        return record_of((address, Raw(raw)))

    def nics_drawing_from(self, pod: Pod, pool: str, nics: int) -> int:
        """`ippools` gives each NIC its own list of pools; every other source applies to whichever NIC is attached."""
        text = pod.annotations.ippools
        if text is None:
            return nics
        try:
            items = _POOLS_ITEMS.decode(text)
        except UNDECODABLE:
            return nics
        return sum(any(fnmatchcase(pool, name) for name in (*(i.ipv4 or ()), *(i.ipv6 or ()))) for i in items)

    def without_records(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """Remove exactly these records: each must still be there as it was judged, UID and all."""
        pool = _POOL.decode(raw)
        entries = _entries(pool.status.allocated_ips)
        if isinstance(entries, RecordsUnreadable):
            return Stale(entries.problem)
        for record in records:
            kept = entries.get(record.key)
            if kept is None or digest_of(record.key, bytes(kept)) != record.digest:
                return Stale(f"{record.key} is no longer recorded as it was judged")
        gone = {record.key for record in records}
        return _pool_change(pool, {key: value for key, value in entries.items() if key not in gone}, gone)

    def with_record(self, raw: bytes, ref: PoolRef, address: str, record: bytes) -> Change | Stale:
        """Put a released record back; refused where the address has a record of whatever spelling."""
        pool = _POOL.decode(raw)
        entries = _entries(pool.status.allocated_ips)
        if isinstance(entries, RecordsUnreadable):
            return Stale(entries.problem)
        if any(_canonical_key(key) == address for key in entries):
            return Stale(f"{address} has a record in {ref.name} again")
        return _pool_change(pool, {**entries, address: Raw(record)}, frozenset())


def pool_of(wire: SpiderIPPool, reserved: AddressSet) -> Pool:
    """The pool that a SpiderIPPool is, given all reserved addresses."""
    problems: list[str] = []
    excluded = address_set(_ranges(wire.spec.exclude_ips, problems))
    configured = address_set(_ranges(wire.spec.ips, problems)) - excluded
    records = records_of(wire.status.allocated_ips)
    flaws = [PoolFlaw("RangeInvalid", problem) for problem in problems]
    if not isinstance(records, RecordsUnreadable):
        flaws += _count_flaws(
            wire.status, len(records), configured.size if not problems else wire.status.total_ip_count
        )
    return Pool(
        ref=PoolRef(NAME, "", wire.metadata.name),
        uid=wire.metadata.uid,
        resource_version=wire.metadata.resource_version,
        configured=configured,
        ranges=configured - reserved,
        records=records,
        flaws=tuple(flaws),
        networks=wire.spec.multus_name or (),
        unusable=excluded | wire.spec.refused | reserved,
    )


def records_of(allocated: Raw) -> tuple[Record, ...] | RecordsUnreadable:
    """The records of status.allocatedIPs, in whatever form it has."""
    entries = _entries(allocated)
    return entries if isinstance(entries, RecordsUnreadable) else tuple(map(record_of, entries.items()))


def records_in(addresses: AddressSet, allocated: Raw) -> tuple[Record, ...] | RecordsUnreadable:
    """The records of status.allocatedIPs whose address is in a set."""
    entries = _entries(allocated)
    if isinstance(entries, RecordsUnreadable):
        return entries
    found = {key: address for key in entries if (address := _canonical_key(key)) is not None}
    return tuple(record_of((key, entries[key])) for key, address in found.items() if address in addresses)


def record_of(entry: tuple[str, Raw]) -> Record:
    """The record that an entry of allocatedIPs is."""
    key, value = entry
    raw = bytes(value)
    try:
        wire = _ENTRY.decode(raw)
        owner = _claimed_owner(wire)
    except UNDECODABLE as error:
        wire, owner = _Entry(), UnparsedOwner(f"its entry {_shown(raw)} cannot be parsed: {error}")
    return Record(
        key=key,
        address=_canonical_key(key),
        owner=owner,
        uid=wire.pod_uid or "",
        interface=wire.interface or "",
        raw=raw,
        digest=digest_of(key, raw),
    )


def endpoint_of(wire: SpiderEndpoint) -> Endpoint:
    """The endpoint that a SpiderEndpoint is."""
    current = wire.status.current
    items, problem = _endpoint_items(current.ips or ()) if current else ((), "it has no status.current")
    return Endpoint(
        ipam=NAME,
        kind=ENDPOINTS,
        namespace=wire.metadata.namespace,
        name=wire.metadata.name,
        uid=wire.metadata.uid,
        resource_version=wire.metadata.resource_version,
        owner_uid=current.uid if current else "",
        node=current.node if current else "",
        owner_kind=wire.status.owner_controller_type,
        owner_name=wire.status.owner_controller_name,
        items=items,
        finalizers=wire.metadata.finalizers or (),
        terminating=wire.metadata.deletion_timestamp is not None,
        items_unread=problem,
    )


def _names_ips(fields: Any) -> bool:
    """Whether a field set holds spec.ips, or all of spec."""
    spec = fields.get("f:spec") if isinstance(fields, dict) else None
    return isinstance(spec, dict) and (not spec or "f:ips" in spec)


def _applied_ips(text: str | None) -> bool:
    """Whether a manifest that kubectl applied says anything of spec.ips; one that cannot be read may."""
    try:
        manifest = msgspec.json.decode(text or "{}")
    except UNDECODABLE:
        return True
    spec = manifest.get("spec") if isinstance(manifest, dict) else None
    return isinstance(spec, dict) and "ips" in spec


def _ranges(texts: Iterable[str] | None, problems: list[str]) -> Iterator[AddressRange]:
    """The ranges that can be read; the others hand out nothing and are told."""
    for text in texts or ():
        try:
            yield parse_range(text)
        except RangeError as error:
            problems.append(str(error))


def _count_flaws(status: PoolStatus, records: int, size: int | None) -> Iterator[PoolFlaw]:
    """Counts that differ, or are absent while there is something to count."""
    if status.allocated_ip_count != records and (records or status.allocated_ip_count is not None):
        told = "absent" if status.allocated_ip_count is None else status.allocated_ip_count
        yield PoolFlaw("CountMismatch", f"status.allocatedIPCount is {told}, but {records} addresses are recorded")
    if status.total_ip_count != size and (records or status.total_ip_count is not None):
        told = "absent" if status.total_ip_count is None else status.total_ip_count
        yield PoolFlaw(
            "CountMismatch", f"status.totalIPCount is {told}, but spec.ips less excludeIPs has {size} addresses"
        )


def _entries(allocated: Raw) -> dict[str, Raw] | RecordsUnreadable:
    """The entries of allocatedIPs: JSON text of an object, an object, or nothing (null, "", "{}")."""
    if bytes(allocated) == b"null":
        return {}
    try:
        if bytes(allocated).startswith(b'"'):
            text = msgspec.json.decode(allocated, type=str)
            entries = _ENTRIES.decode(text) if text.strip() not in ("", "null") else {}
        else:
            entries = _ENTRIES.decode(allocated)
    except UNDECODABLE as error:
        return RecordsUnreadable(f"status.allocatedIPs cannot be parsed: {error}")
    return {key: value.copy() for key, value in entries.items()}


def _claimed_owner(entry: _Entry) -> ClaimedOwner | UnparsedOwner:
    """`pod` is namespace/name; up to v0.3 it was the name alone, beside `namespace`."""
    pod = entry.pod or ""
    parts = pod.split("/") if entry.namespace is None or "/" in pod else [entry.namespace, pod]
    if len(parts) != 2 or not all(parts):  # noqa: PLR2004 - namespace and name
        return UnparsedOwner(f"its pod reference {pod!r} is not of the form namespace/name")
    return ClaimedOwner(*parts)


def _endpoint_items(nics: Iterable[EndpointNic]) -> tuple[tuple[EndpointItem, ...], str]:
    """The NICs as far as their addresses can be read, and what is wrong with the others ("" if nothing)."""
    problems: list[str] = []

    def addresses(nic: EndpointNic) -> Iterator[EndpointAddress]:
        for text, pool in ((nic.ipv4, nic.ipv4_pool), (nic.ipv6, nic.ipv6_pool)):
            try:
                hosts: tuple[str, ...] = (canonical_host(text),) if text else ()
            except AddressError as error:
                problems.append(str(error))
                hosts = addresses_in(text or "")
            yield from (EndpointAddress(host, pool or "") for host in hosts)

    items = tuple(EndpointItem(nic.interface.strip(), tuple(addresses(nic))) for nic in nics)
    return items, "; ".join(problems)


def _canonical_key(key: str) -> str | None:
    try:
        return canonical(key)
    except AddressError:
        return None


def _host_or_text(text: str) -> str:
    try:
        return canonical_host(text)
    except AddressError:
        return text


def _hosts(item: dict[str, Any]) -> set[str]:
    """The addresses of an endpoint's item."""
    return {_host_or_text(text) for key in ("ipv4", "ipv6") if isinstance(text := item.get(key), str)}


def _shown(raw: bytes) -> str:
    """The start of an entry, for a message."""
    text = raw.decode("utf-8", "replace")
    return text if len(text) <= 80 else text[:79] + "…"  # noqa: PLR2004 - a line of a terminal


def _pool_change(pool: SpiderIPPool, entries: Mapping[str, Raw], gone: AbstractSet[str]) -> Change:
    """The status as Spiderpool itself would write it: count = number of keys, null instead of an empty object.

    An object-form map (up to v0.3) is patched key by key, since a merge patch adds to an object.
    """
    whole: Any = msgspec.json.encode(entries).decode() if entries else None
    if entries and bytes(pool.status.allocated_ips).startswith(b"{"):
        whole = dict.fromkeys(gone) | {key: msgspec.json.decode(value) for key, value in entries.items()}
    status = {"allocatedIPs": whole, "allocatedIPCount": len(entries)}
    return _change(POOLS, pool.metadata, "status", {"status": status})


def _endpoint_change(
    raw: bytes, owner_uid: str, edit: Callable[[list[dict[str, Any]]], list[dict[str, Any]]]
) -> Change | Stale:
    """A write of `status.current.ips` as edited, if the endpoint is still that owner's."""
    wire: dict[str, Any] = msgspec.json.decode(raw)
    endpoint = msgspec.json.decode(raw, type=SpiderEndpoint)
    current = endpoint.status.current
    if current is None or current.uid != owner_uid:
        return Stale(
            f"endpoint {endpoint.metadata.namespace}/{endpoint.metadata.name} is no longer that of UID {owner_uid}"
        )
    items = wire["status"]["current"].get("ips") or []
    edited = edit(items)
    if edited == items:
        return Stale(f"endpoint {endpoint.metadata.namespace}/{endpoint.metadata.name} needs no change")
    return _change(ENDPOINTS, endpoint.metadata, "", {"status": {"current": {"ips": edited}}})


def _change(kind: Kind, metadata: Metadata, subresource: str, body: dict[str, Any]) -> Change:
    """A merge patch that only takes effect on the very object that was read."""
    precondition = {"resourceVersion": metadata.resource_version, "uid": metadata.uid}
    body = {**body, "metadata": {**body.get("metadata", {}), **precondition}}
    return Change(kind, metadata.namespace, metadata.name, subresource, body)
