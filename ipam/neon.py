"""Neon autoscaling: IPPool and VirtualMachine (`vm.neon.tech/v1`).

Facts: github.com/neondatabase/autoscaling, `neonvm/apis/neonvm/v1`, `pkg/neonvm/ipam` (main, and the branch with the
Manager), `pkg/neonvm/controllers/vm_controller.go`. Keys of `allocations` are offsets from the range, so a range is never
rewritten. `managed` belongs to a Manager that keeps its own list in memory, so it is never written.

A new VirtualMachine is given the entry whose `id` is its name, if there is one, by an update that changes nothing. That
is why an entry is hidden before it is removed: with our mark its `id` names nobody, and its address stays taken.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec
from msgspec import Raw, Struct, field
from msgspec.structs import replace

from poolwarden.ipam.address import (
    LONGEST_SHOWN,
    AddressError,
    address_of,
    brief,
    canonical_host,
    number_of,
    parse_number,
)
from poolwarden.ipam.config_block import CniConfig, parse_cni_config
from poolwarden.ipam.holder import Holder
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
from poolwarden.ipam.neon_config import NeonConfig, parse_neon
from poolwarden.ipam.network import UNDECODABLE, addresses_in
from poolwarden.ipam.objects import Metadata, NetworkAttachment, Pod
from poolwarden.ipam.pool import (
    ClaimedOwner,
    Pool,
    PoolFlaw,
    PoolRef,
    Record,
    RecordsUnreadable,
    UnparsedOwner,
    digest_of,
    digest_of_invalid,
    parse_owner,
)
from poolwarden.ipam.range_config import ConfiguredRange, named_networks
from poolwarden.ipam.ranges import AddressRange, AddressSet, Network, RangeError, address_set, parse_network

NAME = "neon"
MARK = "poolwarden.dev:"
"""Stands before the `id` of a hidden entry. A namespace has no colon, so that no VirtualMachine's `id` begins like it."""

POOLS = Kind("vm.neon.tech", "v1", "ippools", "IPPool", namespaced=True)
MACHINES = Kind("vm.neon.tech", "v1", "virtualmachines", "VirtualMachine", namespaced=True)

_OFFSET = re.compile("0|[1-9][0-9]{0,18}")
_READ_BY_GO = re.compile("([+-]?)0*([0-9]{1,19})")
_LARGEST_OFFSET = (1 << 63) - 1  # Neon reads keys as int64


class NeonPoolSpec(Struct, frozen=True, gc=False):
    """IPPool.spec as far as its range."""

    range: str = ""


class NeonPoolShape(Struct, frozen=True, gc=False):
    """What a Neon IPPool is meant to be, without its records, which can be a megabyte."""

    metadata: Metadata
    spec: NeonPoolSpec = NeonPoolSpec()


class NeonRecordsSpec(NeonPoolSpec, frozen=True, gc=False):
    """IPPool.spec. Versions without a Manager write only `allocations`, the one with it only `managed`."""

    allocations: Raw = Raw(b"null")
    managed: Raw = Raw(b"null")


class NeonPool(Struct, frozen=True, gc=False):
    """A Neon IPPool."""

    metadata: Metadata
    spec: NeonRecordsSpec = NeonRecordsSpec()


class NeonMachineSpec(Struct, frozen=True, rename="camel", gc=False):
    """VirtualMachine.spec, as far as it says whether a VM that has ended starts again."""

    restart_policy: str = "Always"


class NeonMachineStatus(Struct, frozen=True, gc=False):
    """VirtualMachine.status, as far as it says whether the VM runs, and with which overlay address."""

    phase: str = ""
    extra_net_ip: str = field(name="extraNetIP", default="")


class NeonMachine(Struct, frozen=True, gc=False):
    """A Neon VirtualMachine."""

    metadata: Metadata
    spec: NeonMachineSpec = NeonMachineSpec()
    status: NeonMachineStatus = NeonMachineStatus()


class _Entry(Struct, frozen=True, gc=False):
    """The value of an entry of allocations; its `podref` is always empty."""

    id: str


class _Allocations(Struct, frozen=True):
    """The entries of a pool by key, and the network that keys are offsets of."""

    pool: NeonPool
    network: Network
    entries: Mapping[str, Raw]


class _Ids(Struct, frozen=True):
    """The `id` of entries of a pool, without our mark, by key."""

    pool: NeonPool
    by_key: Mapping[str, str]


_POOL = msgspec.json.Decoder(NeonPool)
_OBJECT = msgspec.json.Decoder(dict[str, Raw])
_ENTRY = msgspec.json.Decoder(_Entry)


class NeonMachines:
    """VirtualMachines as owners."""

    kind = MACHINES

    def holder(self, item: NeonMachine) -> Holder:
        """The VM that a VirtualMachine is.

        Only Running is settled: one that is being prepared, scaled or migrated may be about to change. A VM that has ended
        and is to be restarted comes back with the address in its status, and without asking for it.
        """
        metadata, shown = item.metadata, item.status.extra_net_ip
        addresses: tuple[str, ...]
        try:
            addresses, legible = (canonical_host(shown),), True
        except AddressError:
            addresses, legible = addresses_in(shown), False
        return Holder(
            kind=MACHINES,
            namespace=metadata.namespace,
            name=metadata.name,
            uid=metadata.uid,
            addresses=addresses,
            settled=item.status.phase == "Running" and metadata.deletion_timestamp is None and legible,
            live=not _ended_for_good(item.status.phase, item.spec.restart_policy),
        )

    def runs(self, pod: Pod) -> str:
        """The VM of an unfinished runner pod, which outlives its VirtualMachine: that is gone once the address is released."""
        labels = pod.metadata.labels
        return "" if labels is None or pod.terminal else labels.neon_machine or ""


class NeonMarks:
    """Hiding and showing entries: Neon compares an `id` as a whole, and keeps an address taken whatever its `id`."""

    def hide(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """Mark exactly these records: each must still be there as it was judged, and not be hidden."""
        found = _ids(raw, records, hidden=False)
        if isinstance(found, Stale):
            return found
        return _change(found.pool, {key: {"id": f"{MARK}{name}"} for key, name in found.by_key.items()})

    def show(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """Take our mark off exactly these records: each must still be there as it was judged, and be hidden."""
        found = _ids(raw, records, hidden=True)
        if isinstance(found, Stale):
            return found
        return _change(found.pool, {key: {"id": name} for key, name in found.by_key.items()})


class Neon:
    """The Neon backend."""

    name = NAME
    pool_kind = POOLS
    aside: tuple[Kind, ...] = (NETWORK_ATTACHMENTS,)
    limits: tuple[Kind, ...] = ()
    proofs: tuple[Kind, ...] = ()
    status_kinds: tuple[Kind, ...] = (MACHINES,)
    keeps_addresses = False
    one_address_per_family = True
    many_pools = False
    ipam_types = frozenset({NAME})
    owners: Holders | PodOwners = NeonMachines()
    endpoints: Endpoints | NoEndpoints = NoEndpoints()
    reservations: Reservations | NoReservations = NoReservations()
    hiding: Hiding | NoHiding = NeonMarks()
    ranges: Ranges | FixedRanges = FixedRanges(
        "its range stands in the NetworkAttachmentDefinition of neonvm-controller: widen range_end there and restart it"
    )

    _types: Mapping[Kind, type[Any]] = {
        POOLS: NeonPool,
        MACHINES: NeonMachine,
        NETWORK_ATTACHMENTS: NetworkAttachment,
    }

    def item_type(self, kind: Kind) -> type[Any]:
        """The narrow Struct of one of its kinds."""
        return self._types[kind]

    def inventory(self, objects: Mapping[Kind, Sequence[Any]]) -> Inventory:
        """Domain objects from decoded ones."""
        configured = _configured(objects.get(NETWORK_ATTACHMENTS, ()))
        return Inventory(
            NAME,
            tuple(
                pool_of(item, configured.get((item.metadata.namespace, item.metadata.name), ()))
                for item in objects.get(POOLS, ())
            ),
        )

    def record(self, address: str, raw: bytes) -> Record:
        """The record that an entry of allocations was; which offset it had is not told."""
        return record_of(address, address, raw)

    def nics_drawing_from(self, pod: Pod, pool: str, nics: int) -> int:  # noqa: ARG002 - no annotation tells
        """No annotation names a pool of Neon's."""
        return nics

    def without_records(self, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        """Remove exactly these records: each must still be there as it was judged, and be hidden.

        An entry that can be found may belong to a new VM of that name by now: Neon hands it out with an update that
        changes nothing, so that the pool's resourceVersion does not tell.
        """
        found = _ids(raw, records, hidden=True)
        return found if isinstance(found, Stale) else _change(found.pool, dict.fromkeys(found.by_key))

    def with_record(self, raw: bytes, ref: PoolRef, address: str, record: bytes) -> Change | Stale:
        """Put a released record back, without our mark; refused where Neon reads an entry of that address."""
        kept = _allocations(_POOL.decode(raw))
        if isinstance(kept, RecordsUnreadable):
            return Stale(kept.problem)
        offset = _offset_of(kept.network, address)
        if offset is None:
            return Stale(f"{address} is not in the range of {ref.name}")
        if any(_as_neon_reads(key) == offset for key in kept.entries):
            return Stale(f"{address} has a record in {ref.name} again")
        entry = record_of(address, address, record)
        if isinstance(entry.owner, UnparsedOwner):
            return Stale(entry.owner.problem)
        return _change(kept.pool, {str(offset): msgspec.json.decode(entry.raw)})


def pool_of(wire: NeonPool, configured: Sequence[tuple[str, ConfiguredRange]]) -> Pool:
    """The pool that an IPPool is, given the ranges that attachments (`namespace/name`) configure for it."""
    managed = _object("spec.managed", wire.spec.managed)
    pool = Pool(
        ref=PoolRef(NAME, wire.metadata.namespace, wire.metadata.name),
        uid=wire.metadata.uid,
        resource_version=wire.metadata.resource_version,
        configured=AddressSet(),
        ranges=AddressSet(),
        records=managed if isinstance(managed, RecordsUnreadable) else records_of(wire),
        networks=tuple(dict.fromkeys(name for name, _ in configured)),
        claimed=AddressSet() if isinstance(managed, RecordsUnreadable) else _readable(managed),
    )
    try:
        network = parse_network(wire.spec.range)
    except RangeError as error:
        # What it was made for, as its name tells: any address of that may be recorded.
        named = address_set(network.addresses for network in islice(named_networks(wire.metadata.name), 1))
        return replace(pool, configured=named, flaws=(PoolFlaw("RangeInvalid", f"spec.range: {error}"),))
    whole = address_set((network.addresses,))
    return replace(
        pool,
        configured=whole,
        ranges=address_set(part for _, item in configured for part in item.addresses.ranges) if configured else whole,
        ambiguous=_ambiguity(network),
        doubtful=_doubtful(network, pool),
    )


def _doubtful(network: Network, pool: Pool) -> AddressSet:
    """The addresses for which keys may stand that Neon reads, but would not write, or counts in either direction."""
    keys = [record.key for record in pool.readable_records if record.address is None or not network.exact]
    offsets = [offset for offset in map(_as_neon_reads, keys) if offset is not None]
    starts = {network.written, network.addresses.first}
    numbers = {start + sign * offset for offset in offsets for start in starts for sign in (1, -1)}
    own = network.addresses
    return address_set(AddressRange(own.family, n, n) for n in numbers if own.first <= n <= own.last)


def records_of(wire: NeonPool) -> tuple[Record, ...] | RecordsUnreadable:
    """The records of an IPPool."""
    kept = _allocations(wire)
    if isinstance(kept, RecordsUnreadable):
        return kept
    return tuple(record_of(key, _address_of(kept.network, key), bytes(value)) for key, value in kept.entries.items())


def record_of(key: str, address: str | None, raw: bytes) -> Record:
    """The record that an entry of allocations is; its text and digest are those of the entry without our mark."""
    hidden, text = False, raw
    try:
        entry = _OBJECT.decode(raw)
        name = _ENTRY.decode(raw).id
        hidden = name.startswith(MARK)
        name = name.removeprefix(MARK)
        # Sorted as the API server sorts keys, so that hiding and showing an entry leaves its text as it was.
        text = msgspec.json.encode({**entry, "id": Raw(msgspec.json.encode(name))}, order="sorted")
        owner = _claimed_owner(name)
    except UNDECODABLE as error:
        start = raw[: LONGEST_SHOWN + 1].decode("utf-8", "replace")
        owner = UnparsedOwner(f"its entry {brief(start)} cannot be parsed: {error}")
    return Record(
        key=key,
        address=address,
        owner=owner,
        uid="",
        interface="",
        raw=text,
        digest=digest_of_invalid(key, text) if address is None else digest_of(address, text),
        hidden=hidden,
    )


def _claimed_owner(name: str) -> ClaimedOwner | UnparsedOwner:
    owner = parse_owner(name)
    return owner if isinstance(owner, ClaimedOwner) else UnparsedOwner(f"its id {owner.problem}")


def _ended_for_good(phase: str, restart_policy: str) -> bool:
    """Whether neonvm-controller starts the VM no more."""
    match phase:
        case "Succeeded":
            return restart_policy in {"Never", "OnFailure"}
        case "Failed":
            return restart_policy == "Never"
        case _:
            return False


def _configured(
    attachments: Iterable[NetworkAttachment],
) -> Mapping[tuple[str, str], Sequence[tuple[str, ConfiguredRange]]]:
    """The ranges that attachments configure, by namespace and name of the pool that Neon makes for them.

    Whatever type the `ipam` block names: Neon reads no type, and Multus wants one.
    """
    found: dict[tuple[str, str], list[tuple[str, ConfiguredRange]]] = defaultdict(list)
    for item in attachments:
        parsed = parse_cni_config(item.spec.config)
        plugins = parsed.plugins if isinstance(parsed, CniConfig) else ()
        for _, plugin in plugins:
            block = plugin.get("ipam")
            config = parse_neon(block) if isinstance(block, dict) else None
            for configured in config.ranges if isinstance(config, NeonConfig) else ():
                pool = (item.metadata.namespace, configured.pool)
                found[pool].append((f"{item.metadata.namespace}/{item.metadata.name}", configured))
    return found


def _allocations(wire: NeonPool) -> _Allocations | RecordsUnreadable:
    entries = _object("spec.allocations", wire.spec.allocations)
    if isinstance(entries, RecordsUnreadable):
        return entries
    try:
        return _Allocations(wire, parse_network(wire.spec.range), entries)
    except RangeError as error:
        return RecordsUnreadable(f"the addresses of its records are not known: spec.range: {error}")


def _object(path: str, value: Raw) -> dict[str, Raw] | RecordsUnreadable:
    """The members of an object; null counts as empty."""
    if bytes(value) == b"null":
        return {}
    try:
        return {key: item.copy() for key, item in _OBJECT.decode(value).items()}
    except UNDECODABLE as error:
        return RecordsUnreadable(f"{path} cannot be parsed: {error}")


def _readable(managed: Iterable[str]) -> AddressSet:
    """The keys that are addresses."""

    def single(text: str) -> Iterable[AddressRange]:
        try:
            family, number = parse_number(text)
        except AddressError:
            return ()
        return (AddressRange(family, number, number),)

    return address_set(item for text in managed for item in single(text))


def _ambiguity(network: Network) -> str:
    """Neon counts from the address as written, and when it writes a map, as far as an address is off in either direction."""
    if network.exact:
        return ""
    written = address_of(network.addresses.family, network.written)
    return f"its range has host bits: an offset may count up or down from {written}; {network} has one meaning"


def _address_of(network: Network, key: str) -> str | None:
    """The address of a key, None if Neon would not write the key, or the address lies outside the network."""
    if not _OFFSET.fullmatch(key) or int(key) > _LARGEST_OFFSET:
        return None
    number = network.written + int(key)
    return address_of(network.addresses.family, number) if number <= network.addresses.last else None


def _as_neon_reads(key: str) -> int | None:
    """The offset that Go's `strconv.ParseInt` reads, None if it reads none: other keys than those written are heeded, too."""
    found = _READ_BY_GO.fullmatch(key)
    return int(found[1] + found[2]) if found else None


def _offset_of(network: Network, address: str) -> int | None:
    """The offset of a canonical address, None if it has none."""
    offset = number_of(address) - network.written
    return offset if _address_of(network, str(offset)) == address else None


def _ids(raw: bytes, records: Sequence[Record], *, hidden: bool) -> _Ids | Stale:
    """The `id` of each of these records without our mark; each must be there as it was judged, and hidden or not."""
    kept = _allocations(_POOL.decode(raw))
    if isinstance(kept, RecordsUnreadable):
        return Stale(kept.problem)
    by_key: dict[str, str] = {}
    for record in records:
        if record.address is None or not isinstance(record.owner, ClaimedOwner):
            return Stale(f"{record.key} has no address or no owner that can be read")
        key = str(_offset_of(kept.network, record.address))
        value = kept.entries.get(key)
        found = None if value is None else record_of(key, record.address, bytes(value))
        if found is None or found.digest != record.digest:
            return Stale(f"{record.address} is no longer recorded as it was judged")
        if found.hidden != hidden:
            return Stale(f"the entry of {record.address} {'is not hidden' if hidden else 'is hidden already'}")
        by_key[key] = f"{record.owner.namespace}/{record.owner.name}"
    return _Ids(kept.pool, by_key)


def _change(pool: NeonPool, allocations: Mapping[str, Any]) -> Change:
    """A merge patch of these entries that only takes effect on the very object that was read."""
    metadata = pool.metadata
    body = {
        "metadata": {"resourceVersion": metadata.resource_version, "uid": metadata.uid},
        "spec": {"allocations": allocations},
    }
    return Change(POOLS, metadata.namespace, metadata.name, "", body)
