"""Whereabouts: IPPool, OverlappingRangeIPReservation and NodeSlicePool (`whereabouts.cni.cncf.io/v1alpha1`).

Facts: github.com/k8snetworkplumbingwg/whereabouts v0.9.4, `pkg/api/whereabouts.cni.cncf.io/v1alpha1`,
`pkg/storage/kubernetes/ipam.go` (names, offsets, writes), `pkg/node-controller` (slices), `pkg/iphelpers`. The keys of
`allocations` are offsets from the range as written, so a range is never rewritten. Records have no UID; `ifname` came with
v0.8, `podref` with v0.5.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw, Struct

from poolwarden.ipam.address import (
    V4,
    V6,
    AddressError,
    address_of,
    brief,
    canonical,
    family_of,
    number_of,
)
from poolwarden.ipam.config_block import NoCniConfig, ipam_type, parse_cni_config
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
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS, Kind
from poolwarden.ipam.network import UNDECODABLE
from poolwarden.ipam.objects import Metadata, NetworkAttachment, Pod
from poolwarden.ipam.pool import (
    ClaimedOwner,
    Pool,
    PoolFlaw,
    PoolRef,
    Record,
    RecordsUnreadable,
    UnparsedOwner,
    canonical_text,
    digest_of,
    digest_of_invalid,
    parse_owner,
)
from poolwarden.ipam.range_config import ConfiguredRange, named_networks, network_name_of, pool_name
from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, address_set, parse_network
from poolwarden.ipam.reservation import Reservation
from poolwarden.ipam.whereabouts_config import PLUGIN, SMALLEST, WhereaboutsConfig, handed_out, parse_whereabouts

NAME = "whereabouts"
GROUP, VERSION = "whereabouts.cni.cncf.io", "v1alpha1"
POOLS = Kind(GROUP, VERSION, "ippools", "IPPool", namespaced=True)
RESERVATIONS = Kind(GROUP, VERSION, "overlappingrangeipreservations", "OverlappingRangeIPReservation", namespaced=True)
NODE_SLICES = Kind(GROUP, VERSION, "nodeslicepools", "NodeSlicePool", namespaced=True)

DEFAULT_INTERFACE = "eth0"
LONGEST_ADDRESS = 39  # characters: eight groups of four digits, and the signs between
MOST_REMOVED = 3000
"""Records that one patch removes, by two operations each: the API server takes 10,000."""
_LARGEST = {V4: (1 << 32) - 1, V6: (1 << 128) - 1}
_OFFSETS = 1 << 63  # keys are read as int64
_WRAPPED = 1 << 64  # and added as uint64
_CANONICAL_OFFSET = re.compile("0|[1-9][0-9]{0,18}")
_READABLE_OFFSET = re.compile(r"(?P<sign>[+-]?)0*(?P<digits>[0-9]{1,39})")


class WhereaboutsPoolSpec(Struct, frozen=True, gc=False):
    """IPPool.spec, allocations left unread."""

    range: str = ""


class WhereaboutsPoolShape(Struct, frozen=True, gc=False):
    """What a whereabouts IPPool is meant to be, without its records."""

    metadata: Metadata
    spec: WhereaboutsPoolSpec = WhereaboutsPoolSpec()


class WhereaboutsPool(Struct, frozen=True, gc=False):
    """A whereabouts IPPool; what it says is read late, so that one that says nonsense is still a pool."""

    metadata: Metadata
    spec: Raw = Raw(b"{}")


class WhereaboutsReservation(Struct, frozen=True, gc=False):
    """An OverlappingRangeIPReservation: its name is the address."""

    metadata: Metadata
    spec: Raw = Raw(b"{}")


class NodeSlice(Struct, frozen=True, rename="camel", gc=False):
    """An item of NodeSlicePool.status.allocations; no node has a free slice."""

    node_name: str = ""
    slice_range: str = ""


class NodeSliceStatus(Struct, frozen=True, gc=False):
    """NodeSlicePool.status."""

    allocations: tuple[NodeSlice, ...] | None = None


class NodeSlicePool(Struct, frozen=True, gc=False):
    """A NodeSlicePool: each node's part of a range, with an IPPool of its own."""

    metadata: Metadata
    status: NodeSliceStatus | None = None


class _Spec(Struct, frozen=True, gc=False):
    """IPPool.spec."""

    range: Any = None
    allocations: Raw = Raw(b"null")


class _Entry(Struct, frozen=True, gc=False):
    """The value of an allocation, or the spec of a reservation."""

    podref: str | None = None
    ifname: str | None = None
    id: str | None = None


_POOL = msgspec.json.Decoder(WhereaboutsPool)
_SPEC = msgspec.json.Decoder(_Spec)
_ENTRIES = msgspec.json.Decoder(dict[str, Raw])
_ENTRY = msgspec.json.Decoder(_Entry)


class _Unreadable(Struct, frozen=True, gc=False):
    """A spec.range from which no address can be counted."""

    problem: str


class _Sliced(Struct, frozen=True, gc=False):
    """A slice of the NodeSlicePool `pool`, and the node that has it ("" for a free one)."""

    pool: str
    node: str


class _Place(Struct, frozen=True, gc=False):
    """Where a pool belongs: its network_name, and the NodeSlicePool that it is a slice of ("" if of none)."""

    network: str
    slices: str


class _Configured(Struct, frozen=True):
    """Ranges that a NetworkAttachmentDefinition configures for one pool, or for the slices of one NodeSlicePool."""

    attachment: str
    network: str
    ranges: tuple[ConfiguredRange, ...]
    overlapping: bool


class _Attachments(Struct, frozen=True):
    """What the NetworkAttachmentDefinitions say.

    Attributes:
        by_pool: what they configure, by the name of the IPPool.
        by_slices: the same for nodes' slices, by the name of the NodeSlicePool.
        unnamed: NodeSlicePools whose network has no network_name.
        given: there is any.
        telling: each says for which pools it is, none leaves that to a file on the nodes or cannot be read.
    """

    by_pool: Mapping[str, Sequence[_Configured]]
    by_slices: Mapping[str, Sequence[_Configured]]
    unnamed: frozenset[str]
    given: bool
    telling: bool


class WhereaboutsReservations:
    """Its reservations, as the plugin makes them beside a record."""

    kind = RESERVATIONS

    def reservation_for(self, pool: Pool, record: Record) -> tuple[str, Mapping[str, Any]]:
        """Named after the address, in the pool's namespace and network."""
        name = reservation_name(record.address or record.key, pool.network)
        return pool.ref.namespace, _new_reservation(name, record.owner, record.interface)

    def again(self, reservation: Reservation) -> tuple[str, Mapping[str, Any]]:
        """Under the name that it had, without the container's id: no version since v0.8 reads that."""
        return reservation.namespace, _new_reservation(reservation.name, reservation.owner, reservation.interface)


class Whereabouts:
    """The whereabouts backend."""

    name = NAME
    pool_kind = POOLS
    aside: tuple[Kind, ...] = (RESERVATIONS, NODE_SLICES, NETWORK_ATTACHMENTS)
    limits: tuple[Kind, ...] = (NODE_SLICES,)
    proofs: tuple[Kind, ...] = ()
    status_kinds: tuple[Kind, ...] = ()
    keeps_addresses = False
    one_address_per_family = False
    many_pools = False
    ipam_types = frozenset({PLUGIN})
    owners: Holders | PodOwners = PodOwners()
    endpoints: Endpoints | NoEndpoints = NoEndpoints()
    reservations: Reservations | NoReservations = WhereaboutsReservations()
    hiding: Hiding | NoHiding = NoHiding()
    ranges: Ranges | FixedRanges = FixedRanges(
        "its ranges stand in NetworkAttachmentDefinitions: widen range_end there, or add a range to ipRanges"
    )

    _types: Mapping[Kind, type[Any]] = {
        POOLS: WhereaboutsPool,
        RESERVATIONS: WhereaboutsReservation,
        NODE_SLICES: NodeSlicePool,
        NETWORK_ATTACHMENTS: NetworkAttachment,
    }

    def item_type(self, kind: Kind) -> type[Any]:
        """The narrow Struct of one of its kinds."""
        return self._types[kind]

    def inventory(self, objects: Mapping[Kind, Sequence[Any]]) -> Inventory:
        """Domain objects from decoded ones."""
        slices = _slices(objects.get(NODE_SLICES, ()))
        sliced = {item.pool for found in slices.values() for item in found}
        attachments = _attachments(objects.get(NETWORK_ATTACHMENTS, ()), sliced)
        pools = tuple(_pool_of(item, slices, attachments) for item in objects.get(POOLS, ()))
        ranges: dict[str, list[AddressRange]] = defaultdict(list)
        for pool in pools:
            ranges[pool.network] += pool.configured.ranges
        held = {network: address_set(parts) for network, parts in ranges.items()}
        reservations = tuple(_reservation_of(item, held) for item in objects.get(RESERVATIONS, ()))
        return Inventory(NAME, pools, reservations=reservations)

    def record(self, address: str, raw: bytes) -> Record:
        """The record that an allocation was; its key follows from the address."""
        return _record_of(address, address, raw)

    def nics_drawing_from(self, pod: Pod, pool: str, nics: int) -> int:  # noqa: ARG002 - the interface's
        """A pod does not name pools; any NIC may draw from any."""
        return nics

    def without_records(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """Remove exactly these records: each must still have the value that was judged, whatever else is written beside.

        The plugin's own writes carry a resourceVersion and come again, so nobody has to wait for anybody.
        """
        if len(records) > MOST_REMOVED:
            return Stale(f"{len(records)} records are too many for one write; allowed: {MOST_REMOVED}")
        pool = _POOL.decode(raw)
        network, entries = _read(pool.spec)
        if isinstance(network, _Unreadable):
            return Stale(network.problem)
        if isinstance(entries, RecordsUnreadable):
            return Stale(entries.problem)
        operations = list(_guards({"uid": pool.metadata.uid}))
        for record in records:
            kept = entries.get(record.key)
            if kept is None or _digest(record.key, _address(network, record.key), bytes(kept)) != record.digest:
                return Stale(f"{record.address or record.key} is no longer recorded as it was judged")
            path = _pointer(record.key)
            try:
                operations += (_test(path, msgspec.json.decode(kept)), {"op": "remove", "path": path})
            except UNDECODABLE as error:
                return Stale(f"the record of {record.address or record.key} cannot be compared: {error}")
        return _change(pool.metadata, operations)

    def with_record(self, raw: bytes, ref: PoolRef, address: str, record: bytes) -> Change | Stale:
        """Put a released record back; refused where the address has a record of whatever spelling."""
        pool = _POOL.decode(raw)
        network, entries = _read(pool.spec)
        if isinstance(network, _Unreadable):
            return Stale(network.problem)
        if isinstance(entries, RecordsUnreadable):
            return Stale(entries.problem)
        if not network.exact:
            return Stale(_ambiguity(network))
        number = number_of(address)
        offset = number - network.written
        if AddressRange(family_of(address), number, number) not in network or offset >= _OFFSETS:
            return Stale(f"{address} cannot be recorded in {ref.name}: its range is {network}")
        if any(number in _meant(network, key) for key in entries):
            return Stale(f"{address} has a record in {ref.name} again")
        try:
            value = msgspec.json.decode(record)
        except UNDECODABLE as error:
            return Stale(f"the record of {address} cannot be written: {error}")
        guards = _guards({"uid": pool.metadata.uid, "resourceVersion": pool.metadata.resource_version})
        key = str(offset)
        # An empty map is written whole: it may be absent or null, and then has no place for a key.
        path, added = (_pointer(key), value) if entries else ("/spec/allocations", {key: value})
        return _change(pool.metadata, (*guards, {"op": "add", "path": path, "value": added}))


def reservation_name(address: str, network: str) -> str:
    """The name of the reservation of a canonical address (`NormalizeIP`)."""
    text = (f"{address}0" if address.endswith(":") else address).replace(":", "-")
    return f"{network}-{text}" if network else text


def _new_reservation(name: str, owner: ClaimedOwner | UnparsedOwner, interface: str) -> Mapping[str, Any]:
    spec = {"podref": f"{owner.namespace}/{owner.name}" if isinstance(owner, ClaimedOwner) else ""}
    return {
        "apiVersion": RESERVATIONS.api_version,
        "kind": RESERVATIONS.kind,
        "metadata": {"name": name},
        "spec": spec | ({"ifname": interface} if interface else {}),
    }


def _pool_of(
    wire: WhereaboutsPool, slices: Mapping[AddressRange, Sequence[_Sliced]], attachments: _Attachments
) -> Pool:
    """The pool that an IPPool is."""
    name = wire.metadata.name
    network, entries = _read(wire.spec)
    ref = PoolRef(NAME, wire.metadata.namespace, name)
    identity = (ref, wire.metadata.uid, wire.metadata.resource_version)
    if isinstance(network, _Unreadable):
        return Pool(
            *identity,
            # What it was made for, as its name tells: any address of that may be recorded.
            configured=next(map(handed_out, named_networks(name)), AddressSet()),
            ranges=AddressSet(),
            records=RecordsUnreadable(network.problem),
            flaws=(PoolFlaw("RangeInvalid", network.problem),),
            networks=_names(attachments.by_pool.get(name, ())),
            network=next((item.network for item in attachments.by_pool.get(name, ())), ""),
        )
    place = _place(name, network, slices.get(network.addresses, ()), attachments)
    own = handed_out(network)
    configured = attachments.by_slices.get(place.slices, ()) if place.slices else attachments.by_pool.get(name, ())
    records = entries if isinstance(entries, RecordsUnreadable) else tuple(_records(network, entries))
    return Pool(
        *identity,
        configured=own,
        ranges=_ranges(own, configured, sliced=bool(place.slices)) if configured else own,
        records=records,
        flaws=tuple(_flaws(network, records, attachments, configured)),
        networks=_names(configured),
        network=place.network,
        reserves=all(item.overlapping for item in configured),
        ambiguous="" if network.exact else _ambiguity(network),
        doubtful=_doubtful(network, entries),
    )


def _names(configured: Iterable[_Configured]) -> tuple[str, ...]:
    """The attachments, each once."""
    return tuple(dict.fromkeys(item.attachment for item in configured))


def _ranges(own: AddressSet, configured: Iterable[_Configured], *, sliced: bool) -> AddressSet:
    """What the attachments let the plugin hand out. On slices it passes over range_start, range_end and exclude."""
    found = [item for part in configured for item in part.ranges]
    if sliced:
        return address_set(part for item in found for part in (own & handed_out(item.network)).ranges)
    return address_set(part for item in found for part in item.addresses.ranges)


def _flaws(
    network: Network,
    records: tuple[Record, ...] | RecordsUnreadable,
    attachments: _Attachments,
    configured: Sequence[_Configured],
) -> Iterator[PoolFlaw]:
    if network.addresses.size < SMALLEST:
        told = "has no address but network and broadcast address, which are never handed out"
        yield PoolFlaw("RangeInvalid", f"spec.range {network} {told}")
    interfaces = frozenset() if isinstance(records, RecordsUnreadable) else {record.interface for record in records}
    # On the default interface whereabouts is configured by a file on the nodes, and needs no attachment.
    by_attachment = interfaces and not interfaces & {"", DEFAULT_INTERFACE}
    if attachments.given and attachments.telling and not configured and by_attachment:
        yield PoolFlaw("AttachmentMissing", "no NetworkAttachmentDefinition configures this pool any more")


def _doubtful(network: Network, entries: Mapping[str, Raw] | RecordsUnreadable) -> AddressSet:
    """The addresses for which keys may stand that are no canonical numbers, or count from an uncertain start."""
    if isinstance(entries, RecordsUnreadable):
        return AddressSet()
    family, exact = network.addresses.family, network.exact
    keys = [key for key in entries if not exact or _address(network, key) is None]
    numbers = {number for key in keys for number in _meant(network, key)}
    numbers |= set() if exact else {number - network.written + network.addresses.first for number in numbers}
    return address_set(AddressRange(family, n, n) for n in numbers if 0 <= n <= _LARGEST[family])


def _place(name: str, network: Network, slices: Sequence[_Sliced], attachments: _Attachments) -> _Place:
    """The network of a pool, from its name: [<network_name>-][<node>-]<range>."""
    plain = pool_name(network, "")
    for item in slices:
        if item.node and name == f"{item.pool}-{item.node}-{plain}":
            return _Place(item.pool, item.pool)
        if item.node and name == f"{item.node}-{plain}":
            return _Place("", item.pool)
    if name not in attachments.by_pool and name.endswith(f"-{plain}"):
        # The node that the pool was made for has lost its slice since.
        named = [item.pool for item in slices if item.pool not in attachments.unnamed]
        for pool in named:
            if name.startswith(f"{pool}-") and name != f"{pool}-{plain}":
                return _Place(pool, pool)
        for pool in (item.pool for item in slices if item.pool in attachments.unnamed):
            return _Place("", pool)
    return _Place(network_name_of(name, network), "")


def _slices(pools: Iterable[NodeSlicePool]) -> Mapping[AddressRange, Sequence[_Sliced]]:
    """The slices of all NodeSlicePools, by their addresses; the longest names of pools first."""
    found: dict[AddressRange, list[_Sliced]] = defaultdict(list)
    for pool in sorted(pools, key=lambda item: len(item.metadata.name), reverse=True):
        for item in (pool.status and pool.status.allocations) or ():
            try:
                network = parse_network(item.slice_range)
            except RangeError:
                continue
            found[network.addresses].append(_Sliced(pool.metadata.name, item.node_name))
    return found


def _attachments(items: Sequence[NetworkAttachment], sliced: set[str]) -> _Attachments:
    """What NetworkAttachmentDefinitions say; `sliced` are the names of NodeSlicePools."""
    by_pool: dict[str, list[_Configured]] = defaultdict(list)
    by_slices: dict[str, list[_Configured]] = defaultdict(list)
    unnamed: set[str] = set()
    telling = True
    for item in items:
        config = parse_cni_config(item.spec.config)
        if isinstance(config, NoCniConfig):
            telling = False
            continue
        telling = telling and not config.passed_over
        attachment = f"{item.metadata.namespace}/{item.metadata.name}"
        for _, plugin in config.plugins:
            ipam = plugin.get("ipam")
            if not isinstance(ipam, dict) or ipam_type(ipam) != PLUGIN:
                continue
            said = parse_whereabouts(ipam)
            if not isinstance(said, WhereaboutsConfig) or not said.ranges:
                telling = False
            elif said.sliced:
                name = said.network_name or str(plugin.get("name", ""))
                by_slices[name].append(_Configured(attachment, said.network_name, said.ranges, said.overlapping))
                unnamed |= set() if said.network_name else {name}
                telling = telling and name in sliced
            else:
                for part in said.ranges:
                    by_pool[part.pool].append(_Configured(attachment, said.network_name, (part,), said.overlapping))
    return _Attachments(by_pool, by_slices, frozenset(unnamed), given=bool(items), telling=telling)


def _read(spec: Raw) -> tuple[Network | _Unreadable, Mapping[str, Raw] | RecordsUnreadable]:
    """The range and the allocations of a spec."""
    try:
        wire = _SPEC.decode(spec)
    except UNDECODABLE as error:
        problem = f"spec cannot be parsed: {error}"
        return _Unreadable(problem), RecordsUnreadable(problem)
    return _network(wire.range), _entries(wire.allocations)


def _network(value: object) -> Network | _Unreadable:
    if not isinstance(value, str):
        return _Unreadable(f"spec.range is {'absent' if value is None else 'no string'}; allowed: address/prefix")
    try:
        return parse_network(value)
    except RangeError as error:
        return _Unreadable(f"spec.range {error}")


def _entries(allocations: Raw) -> Mapping[str, Raw] | RecordsUnreadable:
    if bytes(allocations) == b"null":
        return {}
    try:
        return {key: value.copy() for key, value in _ENTRIES.decode(allocations).items()}
    except UNDECODABLE as error:
        return RecordsUnreadable(f"spec.allocations cannot be parsed: {error}")


def _ambiguity(network: Network) -> str:
    family = network.addresses.family
    written, first = address_of(family, network.written), address_of(family, network.addresses.first)
    return f"spec.range {written}/{network.prefix} has host bits: some versions count offsets from {written}, others from {first}"


def _records(network: Network, entries: Mapping[str, Raw]) -> Iterator[Record]:
    return (_record_of(key, _address(network, key), bytes(value)) for key, value in entries.items())


def _record_of(key: str, address: str | None, raw: bytes) -> Record:
    """The record that an allocation is."""
    owner, interface = _claim(raw)
    raw = canonical_text(raw)
    return Record(
        key=key,
        address=address,
        owner=owner,
        uid="",
        interface=interface,
        raw=raw,
        digest=_digest(key, address, raw),
        sandbox=_sandbox(raw),
    )


def _sandbox(raw: bytes) -> str:
    """The id of the sandbox that an allocation was made for."""
    try:
        return _ENTRY.decode(raw).id or ""
    except UNDECODABLE:
        return ""


def _digest(key: str, address: str | None, text: bytes) -> str:
    raw = canonical_text(text)
    return digest_of_invalid(key, raw) if address is None else digest_of(address, raw)


def _claim(raw: bytes) -> tuple[ClaimedOwner | UnparsedOwner, str]:
    """The pod that an allocation or reservation names, and its interface."""
    try:
        wire = _ENTRY.decode(raw)
    except UNDECODABLE as error:
        return UnparsedOwner(f"its entry {brief(raw.decode('utf-8', 'replace'))} cannot be parsed: {error}"), ""
    if not wire.podref:
        return UnparsedOwner("its pod reference is absent; needed: of the form namespace/name"), wire.ifname or ""
    owner = parse_owner(wire.podref)
    if isinstance(owner, UnparsedOwner):
        owner = UnparsedOwner(f"its pod reference {owner.problem}")
    return owner, wire.ifname or ""


def _address(network: Network, key: str) -> str | None:
    """The address that a key stands for, None if it is no canonical number or leads out of the family's addresses."""
    if not _CANONICAL_OFFSET.fullmatch(key):
        return None
    offset, family = int(key), network.addresses.family
    number = network.written + offset
    if offset >= _OFFSETS or number > _LARGEST[family]:
        return None
    return address_of(family, number) if family == V4 else canonical(address_of(family, number))


def _meant(network: Network, key: str) -> tuple[int, ...]:
    """The numbers of all addresses that some version may read in a key: signs and leading zeros are taken, -1 wraps."""
    found = _READABLE_OFFSET.fullmatch(key)
    if not found:
        return ()
    offset = int(f"{found['sign']}{found['digits']}")
    return network.written + offset, network.written + offset % _WRAPPED


def _reservation_of(wire: WhereaboutsReservation, held: Mapping[str, AddressSet]) -> Reservation:
    """The reservation that an object is; `held` are the addresses of the pools of each network."""
    metadata = wire.metadata
    owner, interface = _claim(bytes(wire.spec))
    address, network = _reserved(metadata.name, held)
    return Reservation(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        address=address,
        network=network,
        owner=owner,
        interface=interface,
        digest=digest_of(f"{metadata.namespace}/{metadata.name}", metadata.uid.encode() + b"\0" + bytes(wire.spec)),
    )


def _reserved(name: str, held: Mapping[str, AddressSet]) -> tuple[str | None, str]:
    """Address and network_name from a reservation's name.

    `fd00-1--5` is fd00:1::5, or 1::5 of the network fd00: whichever a pool holds, else whichever network has pools.
    """
    readings = list(_readings(name))
    if not readings:
        return None, ""

    def known(reading: tuple[str, str]) -> tuple[bool, bool]:
        address, network = reading
        return address in held.get(network, AddressSet()), network in held

    return max(readings, key=known) if len(readings) > 1 else readings[0]


def _readings(name: str) -> Iterator[tuple[str, str]]:
    """Every address and network_name of which this is the reservation's name."""
    starts = (0, *(at + 1 for at, char in enumerate(name) if char == "-"))
    for start in (at for at in starts if len(name) - at <= LONGEST_ADDRESS):
        text, network = name[start:], name[: max(0, start - 1)]
        try:
            address = canonical(text if "." in text else text.replace("-", ":"))
        except AddressError:
            continue
        if reservation_name(address, network) == name:
            yield address, network


def _pointer(key: str) -> str:
    """The path of an allocation (RFC 6901)."""
    return f"/spec/allocations/{key.replace('~', '~0').replace('/', '~1')}"


def _test(path: str, value: object) -> Mapping[str, Any]:
    return {"op": "test", "path": path, "value": value}


def _guards(metadata: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
    """Tests that it is the very object that was read; one from a file may carry neither UID nor resourceVersion."""
    return (_test(f"/metadata/{key}", value) for key, value in metadata.items() if value)


def _change(metadata: Metadata, operations: Sequence[Mapping[str, Any]]) -> Change:
    return Change(POOLS, metadata.namespace, metadata.name, "", tuple(operations))
