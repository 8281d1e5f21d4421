"""A snapshot, indexed: who shows an address, what a pod's NICs are, whether a node or a workload vouches for something.

Everything here is built in one pass over the snapshot and answered in constant time. No verdicts are made here.
"""

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from functools import cached_property

from msgspec import Struct

from poolwarden.cluster.interface import Complete, Coverage, Doubt, Incomplete, Listing, NotInstalled, Partial
from poolwarden.gc.snapshot import Snapshot, covers
from poolwarden.ipam.address import AddressError, canonical_host, sort_key
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.holder import Holder
from poolwarden.ipam.inventory import Backend, PodOwners, endpoint_kinds, holder_kinds, reservation_kinds
from poolwarden.ipam.kinds import (
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    Kind,
)
from poolwarden.ipam.network import (
    Attachments,
    AttachmentsUnreadable,
    NetworkStatus,
    NoStatus,
    Plumbing,
    StatusEntry,
    StatusUnreadable,
    addresses_in,
    parse_network_status,
    parse_networks,
    parse_plumbing,
)
from poolwarden.ipam.objects import Machine, Node, Pod, StatefulSet
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record
from poolwarden.ipam.reservation import Reservation
from poolwarden.ipam.verdict import Need

UNKNOWN_NODE_WINDOW = timedelta(minutes=5)
"""A node that fell silent this long after the first sighting cannot be where the pod was left behind."""


LONGEST_ORDINAL = 10
"""Digits of an int32."""

Key = tuple[str, str]
"""Namespace and name."""


class Shower(Struct, frozen=True, gc=False):
    """Someone who shows an address.

    `pod` is None for a machine, a holder or an object that could not be read. `network` is the attachment's as
    network-status names it, "" if only podIPs (or a machine's status) tell. `holder` is None for all but holders.
    """

    who: str
    uid: str
    pod: Pod | None
    interface: str
    network: str
    live: bool
    holder: Holder | None = None

    @property
    def party(self) -> str:
        """Who holds an address: a pod, or a machine, whose pods share it while it migrates."""
        if self.holder is not None:
            return str(self.holder)
        return party_of(self.pod) if self.pod is not None else self.uid


class Listed(Struct, frozen=True, order=True, gc=False):
    """An endpoint that lists an address: its owner's UID ("" if it cannot be read), its name for messages, its pool."""

    uid: str
    who: str
    pool: str


class CompleteStatus(Struct, frozen=True, tag=True):
    """Every NIC of a pod, as its network-status shows them."""

    entries: tuple[StatusEntry, ...]


class IncompleteStatus(Struct, frozen=True, tag=True):
    """A pod's NICs are not all known; `why` is for a message."""

    why: str


class NodeGood(Struct, frozen=True, tag=True):
    """The owner's node answers, is fenced, or has been gone long enough."""


class NodeSilent(Struct, frozen=True, tag=True):
    """A container may run on where nobody can see it; `why` names a node, `nodes` are all that keep the record."""

    nodes: tuple[str, ...]
    why: str


class UnreadableHolder(Struct, frozen=True, tag=True):
    """An owner that is no pod exists, or may exist, but cannot be read."""

    problem: str


class NoHolder(Struct, frozen=True, tag=True):
    """No owner of that name was read, nor a pod that runs one."""


class Entitled(Struct, frozen=True, tag=True):
    """A workload entitles a fixed-IP owner; `by` names it."""

    by: str
    machine: bool = False


class NotEntitled(Struct, frozen=True, tag=True):
    """No workload entitles it."""


def uid_text(pod: Pod) -> str:
    """A pod as messages name it."""
    return f"{pod.metadata.namespace}/{pod.metadata.name} (UID {pod.metadata.uid})"


def party_of(pod: Pod) -> str:
    """Who holds a pod's addresses: the pod, or the KubeVirt machine that it runs."""
    if pod.machine:
        return f"vmi:{pod.metadata.namespace}/{pod.machine}"
    return pod.metadata.uid or f"{pod.metadata.namespace}/{pod.metadata.name}"


class Evidence:
    """One snapshot, indexed, for one backend's pools."""

    def __init__(self, snapshot: Snapshot, backend: Backend, now: datetime) -> None:
        self.snapshot = snapshot
        self.backend = backend
        self.now = now
        inventories = [item for item in snapshot.inventories if item.ipam == backend.name]
        self.pools: tuple[Pool, ...] = tuple(
            sorted((pool for item in inventories for pool in item.pools), key=lambda pool: pool.ref)
        )
        self.endpoints: dict[Key, Endpoint] = {
            endpoint.key: endpoint for item in inventories for endpoint in item.endpoints
        }
        self.pods: dict[Key, Pod] = {pod.key: pod for pod in snapshot.pods.items}
        self.pods_by_uid: dict[str, Pod] = {pod.metadata.uid: pod for pod in snapshot.pods.items if pod.metadata.uid}
        self.unreadable_pods = {(item.namespace, item.name): item.error for item in snapshot.pods.unreadable}
        self.unreadable_uids = {uid: item.error for item in snapshot.pods.unreadable for uid in _uids_in(item.raw)}
        self.reservations: tuple[Reservation, ...] = tuple(r for item in inventories for r in item.reservations)
        self._by_ref = {pool.ref: pool for pool in self.pools}
        self._bound: dict[str, list[Pool]] = defaultdict(list)
        for pool in self.pools:
            for network in pool.networks:
                self._bound[network].append(pool)
        self.unreadable_endpoints = {
            (item.namespace, item.name): item.error
            for kind in endpoint_kinds(backend)
            for item in snapshot.unreadable.get(kind, ())
        }
        self._plumbing: dict[str, Plumbing] = {
            f"{item.metadata.namespace}/{item.metadata.name}": parse_plumbing(item.spec.config)
            for item in snapshot.attachments.items
        }
        self._statuses: dict[Key, NetworkStatus | NoStatus | StatusUnreadable] = {}
        self.unreadable_statuses: dict[Key, str] = {}
        self.shown: dict[str, list[Shower]] = defaultdict(list)
        for address, shower in self._showers():
            self.shown[address].append(shower)
        for showers in self.shown.values():
            if len(showers) > 1:
                showers.sort(key=lambda shower: (shower.who, shower.interface, shower.network))

    # --- who shows what -------------------------------------------------------------------------------------------

    def status(self, pod: Pod) -> NetworkStatus | NoStatus | StatusUnreadable:
        """The pod's network-status, parsed once."""
        if pod.key not in self._statuses:
            notes = pod.annotations
            text = notes.network_status if (notes.network_status or "").strip() else notes.old_network_status
            status = self._statuses[pod.key] = parse_network_status(text)
            if isinstance(status, StatusUnreadable):
                self.unreadable_statuses[pod.key] = status.problem
        return self._statuses[pod.key]

    def _showers(self) -> Iterator[tuple[str, Shower]]:
        for pod in self.snapshot.pods.items:
            if pod.terminal:
                self.status(pod)  # whether it can be read decides on its own record
            else:
                yield from self._shown_by_pod(pod)
        for machine in (*self.snapshot.machines.items, *self.snapshot.machine_instances.items):
            yield from self._shown_by_machine(machine)
        for listing in self.snapshot.holders.values():
            for holder in listing.items:
                shower = Shower(str(holder), holder.uid, None, "", "", holder.live, holder)
                yield from ((address, shower) for address in holder.addresses)
        others = (broken for listing in self.snapshot.holders.values() for broken in listing.unreadable)
        for broken in (*self.snapshot.pods.unreadable, *self.snapshot.machine_instances.unreadable, *others):
            shower = Shower(f"{broken.namespace}/{broken.name} (unreadable)", "", None, "", "", live=False)
            yield from ((address, shower) for address in addresses_in(broken.raw.decode("utf-8", "replace")))

    def _shown_by_pod(self, pod: Pod) -> Iterator[tuple[str, Shower]]:
        who, uid, live = uid_text(pod), pod.metadata.uid, not pod.host_network
        status = self.status(pod)
        on_default: set[str] = set()
        match status:
            case NetworkStatus(entries):
                for entry in entries:
                    if entry.default or entry.interface == "eth0":
                        on_default.update(entry.ips)
                    for address in entry.ips:
                        yield address, Shower(who, uid, pod, entry.interface, entry.network, live)
            case StatusUnreadable(ips=ips):
                for address in ips:
                    yield address, Shower(who, uid, pod, "", "", live=False)
            case NoStatus():
                pass
        yield from self._shown_by_the_old_key(pod)
        for address in self.pod_addresses(pod):
            if address not in on_default:
                yield address, Shower(who, uid, pod, "eth0", "", live)

    @staticmethod
    def _shown_by_the_old_key(pod: Pod) -> Iterator[tuple[str, Shower]]:
        """What network-status shows under its old key, beside the new one: it may know of NICs that that does not."""
        notes = pod.annotations
        if notes.old_network_status and notes.network_status:
            for address in addresses_in(notes.old_network_status):
                yield address, Shower(uid_text(pod), pod.metadata.uid, pod, "", "", live=False)

    def pod_addresses(self, pod: Pod) -> tuple[str, ...]:
        """The pod's podIPs, canonical."""
        return tuple(address for text in pod.ips for address in self._addresses(text))

    def _shown_by_machine(self, machine: Machine) -> Iterator[tuple[str, Shower]]:
        who = f"virtual machine {machine.metadata.namespace}/{machine.metadata.name}"
        for text in machine.ips:
            for address in self._addresses(text):
                yield address, Shower(who, machine.metadata.uid, None, "", "", live=False)

    @staticmethod
    def _addresses(text: str) -> Iterable[str]:
        try:
            return (canonical_host(text),)
        except AddressError:
            return addresses_in(text)

    @cached_property
    def listed(self) -> dict[str, list[Listed]]:
        """Who lists an address: what an endpoint lists, a later ADD may be answered with, without a write to any pool.

        Of an endpoint that cannot be decoded, every address in its text counts.
        """
        found: dict[str, list[Listed]] = defaultdict(list)
        for endpoint in self.endpoints.values():
            if self._deleted_by_cni(endpoint):
                continue
            who = f"{endpoint.namespace}/{endpoint.name} (UID {endpoint.owner_uid})"
            for item in endpoint.addresses:
                found[item.address].append(Listed(endpoint.owner_uid, who, item.pool))
        for broken in (item for k in endpoint_kinds(self.backend) for item in self.snapshot.unreadable.get(k, ())):
            for address in addresses_in(broken.raw.decode("utf-8", "replace")):
                found[address].append(Listed("", f"{broken.namespace}/{broken.name} (unreadable)", ""))
        for holders in found.values():
            holders.sort()
        return found

    def lists_apart(self, listed: Listed, pool: PoolRef) -> bool:
        """Whether an endpoint has the address from another pool, on a network proven to be apart."""
        other = next((known.ref for known in self.pools if known.ref.name == listed.pool), pool)
        return other != pool and self.networks_apart(pool, other)

    @cached_property
    def _recorded(self) -> frozenset[str | Key]:
        """The UIDs of all records; of records without one, namespace and name."""
        records = [record for pool in self.pools for record in pool.readable_records]
        keys = (
            (record.owner.namespace, record.owner.name)
            for record in records
            if not record.uid and isinstance(record.owner, ClaimedOwner)
        )
        return frozenset((*(record.uid for record in records if record.uid), *keys))

    def _deleted_by_cni(self, endpoint: Endpoint) -> bool:
        """Whether an endpoint is what a DEL leaves while the pod object stays: no finalizer, no record, a pod that ended."""
        pod = self.pods_by_uid.get(endpoint.owner_uid)
        ended = pod is not None and (pod.terminal or pod.metadata.deletion_timestamp is not None)
        return ended and not endpoint.finalizers and not self._recorded & {endpoint.owner_uid, endpoint.key}

    def endpoint_of(self, pod: Pod) -> Endpoint | None:
        """The endpoint written for a pod: under its own name, or its virtual machine's; None if there is none of its UID."""
        for key in (pod.key, (pod.metadata.namespace, pod.machine)):
            endpoint = self.endpoints.get(key)
            if endpoint is not None and endpoint.owner_uid and endpoint.owner_uid == pod.metadata.uid:
                return endpoint
        return None

    @cached_property
    def reservations_known(self) -> bool:
        """Whether the absence of a reservation proves that there is none."""
        kinds = reservation_kinds(self.backend)
        return all(
            covers(self._coverage(kind), pool.ref.namespace) and not self.snapshot.unreadable.get(kind)
            for kind in kinds
            for pool in self.pools
        )

    # --- owners that are no pods ----------------------------------------------------------------------------------

    @cached_property
    def _holders(self) -> dict[Key, Holder]:
        kinds = holder_kinds(self.backend)
        return {item.key: item for kind in kinds for item in self._holder_list(kind).items}

    def _holder_list(self, kind: Kind) -> Listing[Holder]:
        return self.snapshot.holders.get(kind, Listing((), NotInstalled()))

    @cached_property
    def _unreadable_holders(self) -> dict[Key, str]:
        listings = map(self._holder_list, holder_kinds(self.backend))
        return {(item.namespace, item.name): item.error for listing in listings for item in listing.unreadable}

    @cached_property
    def _runners(self) -> dict[Key, list[Pod]]:
        """Unfinished pods, by the holder that they run."""
        owners, found = self.backend.owners, defaultdict(list)
        for pod in () if isinstance(owners, PodOwners) else sorted(self.snapshot.pods.items, key=lambda pod: pod.key):
            name = "" if isinstance(owners, PodOwners) else owners.runs(pod)
            if name:
                found[pod.metadata.namespace, name].append(pod)
        return found

    def stray_runners(self, holder: Holder) -> list[Pod]:
        """Unfinished pods that run an earlier one of that name, as their owner references tell."""

        def others(pod: Pod) -> bool:
            mine = [item.uid for item in pod.metadata.owner_references or () if item.kind == holder.kind.kind]
            return bool(mine) and holder.uid not in mine

        return list(filter(others, self._runners.get(holder.key, ())))

    def holder(self, key: Key) -> Holder | Pod | UnreadableHolder | NoHolder:
        """The owner of that name that is no pod, or a pod that still runs one of that name."""
        if key in self._unreadable_holders:
            return UnreadableHolder(f"{key[0]}/{key[1]} cannot be read: {self._unreadable_holders[key]}")
        if key in self._holders:
            return self._holders[key]
        if self._runners.get(key):
            return self._runners[key][0]
        for broken in self.snapshot.pods.unreadable:
            if broken.namespace == key[0] and key[1].encode() in broken.raw:
                return UnreadableHolder(f"pod {broken.namespace}/{broken.name} cannot be read, and may run {key[1]}")
        return NoHolder()

    # --- networks -------------------------------------------------------------------------------------------------

    def plumbing(self, network: str) -> Plumbing:
        """What the NAD of that name tells; nothing if it is not known."""
        return self._plumbing.get(network, Plumbing())

    def may_be_ours(self, network: str, ips: Iterable[str] = ()) -> bool:
        """Whether an attachment may draw from this IPAM.

        A NAD that names another IPAM says no; so do, where no NAD tells, addresses that lie in no pool of this IPAM.
        """
        ipams = self.plumbing(network).ipams
        if ipams:
            return bool(ipams & self.backend.ipam_types)
        listed = tuple(ips)
        return not listed or any(self.pools_at(address) for address in listed)

    def _ours(self, nics: CompleteStatus) -> list[StatusEntry]:
        """The NICs that may draw from this IPAM."""
        return [entry for entry in nics.entries if self.may_be_ours(entry.network, entry.ips)]

    # --- pools ----------------------------------------------------------------------------------------------------

    @cached_property
    def _segments(self) -> tuple[list[tuple[int, int]], list[tuple[Pool, ...]]]:
        return segments(self.pools)

    def pools_at(self, address: str) -> tuple[Pool, ...]:
        """The pools whose own ranges hold an address."""
        starts, covering = self._segments
        at = bisect_right(starts, sort_key(address)) - 1
        return covering[at] if at >= 0 else ()

    def overlaps(self) -> dict[PoolRef, set[PoolRef]]:
        """For each pool the others whose own ranges hold one of its addresses."""
        found: dict[PoolRef, set[PoolRef]] = defaultdict(set)
        for pools in self._segments[1]:
            if len(pools) > 1:
                for pool in pools:
                    found[pool.ref].update(other.ref for other in pools if other.ref != pool.ref)
        return found

    def proven_ours(self, shower: Shower, pool: Pool, address: str) -> bool:
        """Whether an attachment is proven to be this IPAM's.

        That is by its NAD, its kind, an endpoint of the same UID, or because the pool's addresses are its node's own.
        """
        if pool.node and shower.pod is not None and not shower.network and shower.pod.spec.node_name == pool.node:
            return True
        if shower.holder is not None:
            return shower.holder.kind in holder_kinds(self.backend)
        if self.plumbing(shower.network).ipams & self.backend.ipam_types:
            return True
        endpoint = self.endpoint_of(shower.pod) if shower.pod else None
        return endpoint is not None and any(item.address == address for item in endpoint.addresses)

    @cached_property
    def masters(self) -> dict[PoolRef, frozenset[str]]:
        """For each pool the masters of the NADs that show its records or name it ("" among them: one is not known)."""
        return {pool.ref: frozenset(self._masters_of(pool)) for pool in self.pools}

    def _masters_of(self, pool: Pool) -> Iterator[str]:
        for network in pool.networks:
            # Without a namespace it is one of the IPAM's own, whichever that is: any of that name may be meant.
            same = [name for name in self._plumbing if name == network or name.endswith(f"/{network}")]
            yield from (self.plumbing(name).master for name in same or [network])
        for plumbing in self._plumbing.values():
            if plumbing.ipams & self.backend.ipam_types and _names(plumbing.pools, pool.ref.name):
                yield plumbing.master
        for record in pool.readable_records:
            for shower in self.shown.get(record.address or "", ()):
                if shower.pod is not None and record.names(*shower.pod.key, shower.uid):
                    yield self.plumbing(shower.network).master

    def apart(self, shower: Shower, pool: PoolRef, address: str) -> bool:
        """Whether the attachment is proven to lie on another network than the pool.

        That is another master than every one's, or an address that a pool of a network of another name records for it:
        what a NAD says now does not tell where an address came from before it was changed. Nothing is proven of a pod
        that asks for the pool by its annotations, or while not all NADs are known.
        """
        return self._other_network(shower, pool, address) or self._other_master(shower, pool)

    def _other_network(self, shower: Shower, ref: PoolRef, address: str) -> bool:
        pool, pod = self._by_ref.get(ref), shower.pod
        if pool is None or pod is None or not self._names_known:
            return False
        return any(
            other.network != pool.network and address in other.configured and other.ref in self._holding(address, pod)
            for other in self.pools
        )

    def _holding(self, address: str, pod: Pod) -> frozenset[PoolRef]:
        """The pools that record an address for a pod."""
        return frozenset(
            where.ref
            for where, record in self._recorded_at.get(address, ())
            if record.names(*pod.key, pod.metadata.uid)
        )

    @cached_property
    def _recorded_at(self) -> dict[str, list[tuple[Pool, Record]]]:
        found: dict[str, list[tuple[Pool, Record]]] = defaultdict(list)
        for pool in self.pools:
            for record in pool.readable_records:
                if record.address is not None:
                    found[record.address].append((pool, record))
        return found

    @cached_property
    def _names_known(self) -> bool:
        """Whether what tells the networks' names was read whole."""
        kinds = [kind for kind in self.backend.aside if kind not in reservation_kinds(self.backend)]
        return not any(isinstance(self._coverage(kind), Incomplete) for kind in kinds) and not any(
            self.snapshot.unreadable.get(kind) for kind in kinds
        )

    def same_sandbox(self, pod: Pod, record: Record) -> bool:
        """Whether another record, of an address that the pod shows, was made for the same sandbox: it is this pod's.

        An ADD for the same sandbox takes a record over without a write.
        """
        if not record.sandbox:
            return False
        return any(
            other.sandbox == record.sandbox and other.names(*pod.key, pod.metadata.uid)
            for address in self._shown_by.get(pod.key, ())
            for _, other in self._recorded_at.get(address, ())
        )

    @cached_property
    def _shown_by(self) -> dict[Key, list[str]]:
        """The addresses that each pod shows."""
        found: dict[Key, list[str]] = defaultdict(list)
        for address, showers in self.shown.items():
            for shower in showers:
                if shower.pod is not None:
                    found[shower.pod.key].append(address)
        return found

    def recorded_elsewhere(self, pool: PoolRef, address: str) -> str:
        """Whom another IPAM records the address for, if that owner exists and is not seen to use it on another network.

        "" if there is none: then no other IPAM has given it to anybody who has yet to show it.
        """
        others = (item for item in self.snapshot.inventories if item.ipam != self.backend.name)
        pools = (other for item in others for other in item.pools if address in other.configured)
        for other in pools:
            for record in other.readable_records:
                if record.address == address and self._may_come(record, pool, address):
                    return f"{other.ref.name} ({other.ref.ipam}) records it for an owner that exists: {record.raw.decode()}"
        return ""

    def _may_come(self, record: Record, pool: PoolRef, address: str) -> bool:
        owner = record.owner
        if not isinstance(owner, ClaimedOwner):
            return True
        key = (owner.namespace, owner.name)
        pod = self.pods_by_uid.get(record.uid) or self.pods.get(key)
        if pod is None:
            holders = (holder for listing in self.snapshot.holders.values() for holder in listing.items)
            return any(holder.key == key for holder in holders)
        mine = [s for s in self.shown.get(address, ()) if s.pod is not None and s.pod.key == pod.key]
        return not mine or not all(self.apart(shower, pool, address) for shower in mine)

    def draws_from(self, shower: Shower, pool: Pool, address: str) -> bool:
        """Whether an attachment may have that address from that pool, as far as its NAD tells."""
        bound = self._bound.get(shower.network, ())
        return (not bound or any(other.ref == pool.ref for other in bound)) and address not in self.plumbing(
            shower.network
        ).static

    def shares_network(self, shower: Shower, pool: PoolRef, address: str) -> bool:
        """Whether another IPAM has given the address to that attachment, and on the pool's network: the same master."""
        master, known = self.plumbing(shower.network).master, self.masters.get(pool, frozenset())
        if not self._all_attachments_known or not master or known != {master} or shower.pod is None:
            return False
        return any(
            record.address == address and record.names(*shower.pod.key, shower.uid)
            for inventory in self.snapshot.inventories
            if inventory.ipam != self.backend.name
            for other in inventory.pools
            if address in other.configured
            for record in other.readable_records
        )

    def _other_master(self, shower: Shower, pool: PoolRef) -> bool:
        plumbing = self.plumbing(shower.network)
        bound = [other.ref for other in self._bound.get(shower.network, ())]
        if pool in bound or (
            self._bound and not bound and plumbing.ipams & self.backend.ipam_types and not plumbing.pools
        ):
            return False  # it draws from this pool, or may, since its ranges stand in a file on the nodes
        known = self.masters.get(pool, frozenset())
        if not self._all_attachments_known or not plumbing.master or not known or "" in known:
            return False
        notes = shower.pod.annotations if shower.pod is not None else None
        if notes is not None and any(pool.name in (text or "") for text in (notes.ippools, notes.ippool)):
            return False
        return plumbing.master not in known

    @cached_property
    def _all_attachments_known(self) -> bool:
        listing = self.snapshot.attachments
        return not isinstance(listing.coverage, Incomplete) and not listing.unreadable

    def networks_apart(self, one: PoolRef, other: PoolRef) -> bool:
        """Whether two pools are proven to lie on different networks."""
        pools = [self._by_ref[ref] for ref in (one, other) if ref in self._by_ref]
        if self._names_known and len({pool.network for pool in pools}) > 1:
            return True
        ours, theirs = self.masters.get(one, frozenset()), self.masters.get(other, frozenset())
        return (
            self._all_attachments_known
            and bool(ours)
            and bool(theirs)
            and "" not in ours | theirs
            and not ours & theirs
        )

    # --- a pod's NICs ---------------------------------------------------------------------------------------------

    @cached_property
    def multus_absent(self) -> bool:
        """Whether the cluster is known to have no Multus: no NAD kind, or not one NAD."""
        listing = self.snapshot.attachments
        if isinstance(listing.coverage, NotInstalled):
            return True
        return not isinstance(listing.coverage, Incomplete) and not listing.items and not listing.unreadable

    def nics(self, pod: Pod) -> CompleteStatus | IncompleteStatus:
        """All NICs of a pod, if its network-status lists the default one and each that it asks for."""
        asked = parse_networks(pod.annotations.networks, pod.metadata.namespace)
        status = self.status(pod)
        match asked, status:
            case AttachmentsUnreadable(problem), _:
                return IncompleteStatus(f"its networks annotation cannot be read: {problem}")
            case _, StatusUnreadable(problem):
                return IncompleteStatus(f"its network-status cannot be read: {problem}")
            case Attachments(items), NetworkStatus(entries):
                return self._complete(items, entries)
            case Attachments(()), NoStatus() if self.multus_absent and pod.ips:
                return CompleteStatus((StatusEntry("", "eth0", self.pod_addresses(pod), default=True),))
            case _:
                return IncompleteStatus("it has no network-status")

    @staticmethod
    def _complete(asked: Iterable[object], entries: tuple[StatusEntry, ...]) -> CompleteStatus | IncompleteStatus:
        if not any(entry.default or entry.interface == "eth0" for entry in entries):
            return IncompleteStatus("its network-status lacks the default network")
        left = [entry for entry in entries if not (entry.default or entry.interface == "eth0")]
        for attachment in asked:
            interface, network = getattr(attachment, "interface", ""), getattr(attachment, "network", "")
            match = next((e for e in left if e.interface == interface), None) or next(
                (e for e in left if e.network == network), None
            )
            if match is None:
                return IncompleteStatus(f"its network-status lacks {network} ({interface})")
            left.remove(match)
        return CompleteStatus(entries)

    def nic_count(self, pod: Pod) -> int:
        """The most NICs of a pod that may draw from this IPAM."""
        nics = self.nics(pod)
        if isinstance(nics, CompleteStatus):
            return len({entry.interface for entry in self._ours(nics)})
        asked = parse_networks(pod.annotations.networks, pod.metadata.namespace)
        if isinstance(asked, AttachmentsUnreadable):
            return 1 << 16  # nothing is known: no number of addresses is too many
        default = parse_networks(pod.annotations.default_network, pod.metadata.namespace)
        defaults = default.items if isinstance(default, Attachments) else ()
        ours = sum(self.may_be_ours(item.network) for item in asked.items)
        return ours + (1 if not defaults or self.may_be_ours(defaults[0].network) else 0)

    def endpoint_agrees(self, pod: Pod, nics: CompleteStatus, endpoint: Endpoint) -> bool:
        """Whether an endpoint names every NIC of this IPAM with the very addresses that network-status shows."""
        listed = {(item.interface, address.address) for item in endpoint.items for address in item.addresses}
        ours = self._ours(nics)
        return (
            endpoint.owner_uid == pod.metadata.uid
            and not endpoint.items_unread
            and bool(ours)
            and all(entry.ips for entry in ours)
            and all((entry.interface, address) in listed for entry in ours for address in entry.ips)
        )

    # --- workloads ------------------------------------------------------------------------------------------------

    @cached_property
    def _stateful_sets(self) -> dict[tuple[str, str], StatefulSet]:
        return {(item.metadata.namespace, item.metadata.name): item for item in self.snapshot.stateful_sets.items}

    @cached_property
    def _unreadable_sets(self) -> dict[Key, str]:
        return {(item.namespace, item.name): item.error for item in self.snapshot.stateful_sets.unreadable}

    @cached_property
    def _machines(self) -> dict[Key, str]:
        listings = (
            (self.snapshot.machine_instances, "VirtualMachineInstance"),
            (self.snapshot.machines, "VirtualMachine"),
        )
        return {
            key: f"{kind} {key[0]}/{key[1]}"
            for listing, kind in listings
            for key in (
                *((item.metadata.namespace, item.metadata.name) for item in listing.items),
                # One that cannot be decoded exists all the same; one that could not be read (no text) may not.
                *((item.namespace, item.name) for item in listing.unreadable if item.raw),
            )
        }

    @cached_property
    def _launchers(self) -> dict[tuple[str, str], Pod]:
        """Live virt-launcher pods by the VMI that owns them."""
        return {
            (pod.metadata.namespace, pod.machine): pod
            for pod in sorted(self.snapshot.pods.items, key=lambda pod: pod.key)
            if not pod.terminal and pod.machine
        }

    def stateful_set(self, namespace: str, name: str) -> tuple[StatefulSet, int] | None:
        """The StatefulSet whose pod of that name would be, and the pod's ordinal; None if there is none."""
        stem, ordinal = split_ordinal(name)
        found = self._stateful_sets.get((namespace, stem)) if ordinal is not None else None
        return None if found is None or ordinal is None else (found, ordinal)

    def entitlement(self, namespace: str, name: str) -> Entitled | NotEntitled | Need:
        """Whether a fixed-IP workload still wants an owner of that name, or what must be read to know."""
        if not self.backend.keeps_addresses:
            return NotEntitled()
        key = (namespace, name)
        if key in self._machines:
            return Entitled(self._machines[key], machine=True)
        if key in self._launchers:
            return Entitled(f"virt-launcher pod {uid_text(self._launchers[key])}", machine=True)
        found = self.stateful_set(namespace, name)
        if found is not None and found[0].entitles(found[1]):
            return Entitled(f"StatefulSet {namespace}/{found[0].metadata.name}")
        return self._entitlement_unread(namespace, name)

    def _entitlement_unread(self, namespace: str, name: str) -> NotEntitled | Need:
        stem, ordinal = split_ordinal(name)
        endpoint = self.endpoints.get((namespace, name))
        kind = endpoint.owner_kind if endpoint else ""
        if ordinal is not None or kind == "StatefulSet":
            sets = self.snapshot.stateful_sets.coverage
            if (namespace, stem) in self._unreadable_sets:
                why = self._unreadable_sets[namespace, stem]
                return Need(STATEFUL_SETS, "", f"StatefulSet {namespace}/{stem} cannot be read: {why}", "")
            if not covers(sets, namespace):
                return need(STATEFUL_SETS, namespace, sets)
        machine = kind in {"VirtualMachine", "VirtualMachineInstance"} or name.startswith("virt-launcher-")
        for listing, which in (
            (self.snapshot.machine_instances, VIRTUAL_MACHINE_INSTANCES),
            (self.snapshot.machines, VIRTUAL_MACHINES),
        ):
            coverage = listing.coverage
            refused = isinstance(coverage, Incomplete) and coverage.doubt is not Doubt.NOT_GIVEN
            if (machine or refused) and not covers(coverage, namespace):
                return need(which, namespace, coverage)
            broken = [item for item in listing.unreadable if (item.namespace, item.name) == (namespace, name)]
            if broken:
                return Need(which, "", f"{which.kind} {namespace}/{name} cannot be read: {broken[0].error}", "")
        return NotEntitled()

    # --- nodes ----------------------------------------------------------------------------------------------------

    @cached_property
    def _nodes(self) -> dict[str, Node]:
        return {node.metadata.name: node for node in self.snapshot.nodes.items}

    @cached_property
    def _silent_nodes(self) -> tuple[tuple[str, datetime | None], ...]:
        """Nodes that do not answer and are not fenced, and since when."""
        silent = [
            (node.metadata.name, node.not_ready_since)
            for node in self.snapshot.nodes.items
            if not node.ready and not node.fenced
        ]
        return tuple(
            sorted([*silent, *((item.name, None) for item in self.snapshot.nodes.unreadable)], key=lambda n: n[0])
        )

    def node_of(self, pool: PoolRef, record: Record) -> str:
        """The node on which a record's owner last ran, "" if nothing that carries the record's UID tells it."""
        if pool in self._by_ref and self._by_ref[pool].node:
            return self._by_ref[pool].node
        pod = self.pods_by_uid.get(record.uid) if record.uid else None
        if pod is not None and pod.spec.node_name:
            return pod.spec.node_name
        owner = record.owner
        endpoint = self.endpoints.get((getattr(owner, "namespace", ""), getattr(owner, "name", "")))
        if endpoint is not None and record.uid and endpoint.owner_uid == record.uid and endpoint.node:
            return endpoint.node
        memory = self.snapshot.memory
        return memory.nodes.get((pool, record.digest), "") or memory.node_of.get(record.uid, "")

    def node_answers(self, name: str) -> bool:
        """Whether a node exists, answers or is fenced."""
        node = self._nodes.get(name)
        return node is not None and (node.ready or node.fenced)

    def node_evidence(
        self, pool: PoolRef, node: str, first_seen: datetime, gone_grace: int
    ) -> NodeGood | NodeSilent | Need:
        """Whether nothing can run on where the owner ran (`node` "": not known where)."""
        coverage = self.snapshot.nodes.coverage
        if not covers(coverage, ""):
            return need(NODES, "", coverage)
        unread = [item for item in self.snapshot.nodes.unreadable if not item.raw and node in {"", item.name}]
        if unread:
            return Need(NODES, "", f"node {unread[0].name} could not be read: {unread[0].error}", "")
        grace = timedelta(seconds=gone_grace)
        return self._known_node(pool, node, grace) if node else self._any_node(pool, first_seen, grace)

    def gone_since(self, pool: PoolRef, node: str) -> datetime:
        """Since when an absent node is known to be gone; now, if that is news."""
        memory = self.snapshot.memory
        known = (memory.nodes_gone.get((pool, node)), memory.vanished.get(node))
        return min((time for time in known if time is not None), default=self.now)

    def silent_since(self, pool: PoolRef, node: str, reported: datetime | None) -> datetime | None:
        """Since when a node has not been Ready: its condition may have changed from False to Unknown in between."""
        known = self.snapshot.memory.nodes_silent.get((pool, node))
        return min((time for time in (known, reported) if time is not None), default=None)

    def _known_node(self, pool: PoolRef, name: str, grace: timedelta) -> NodeGood | NodeSilent:
        if self.node_answers(name):
            return NodeGood()
        if name in self._nodes or any(item.name == name for item in self.snapshot.nodes.unreadable):
            return NodeSilent((name,), f"node {name}, where it last ran, is not Ready")
        since = self.gone_since(pool, name)
        if self.now - since >= grace:
            return NodeGood()
        return NodeSilent((name,), f"node {name}, where it last ran, is gone since {since:%H:%M:%S}Z only")

    def _any_node(self, pool: PoolRef, first_seen: datetime, grace: timedelta) -> NodeGood | NodeSilent:
        limit = first_seen + UNKNOWN_NODE_WINDOW
        silent = [
            name
            for name, reported in self._silent_nodes
            if (since := self.silent_since(pool, name, reported)) is None or since < limit
        ]
        memory = self.snapshot.memory
        candidates = {name for where, name in memory.nodes_gone if where == pool} | set(memory.vanished)
        gone = [
            name
            for name in sorted(candidates - set(self._nodes))
            if (since := self.gone_since(pool, name)) < limit and self.now - since < grace
        ]
        if not silent and not gone:
            return NodeGood()
        what = f"node {silent[0]} is not Ready" if silent else f"node {gone[0]} is gone for less than {grace}"
        return NodeSilent((*silent, *gone), f"it is not known where it ran, and {what}")

    # --- completeness ---------------------------------------------------------------------------------------------

    def needs_for_release(self, namespace: str) -> tuple[Need, ...]:
        """What is missing to let a record go: who else shows or lists its address, who else records it, its owner's absence.

        Reservations that were merely not given decide nothing that a dump's reader does not see.
        """
        pools = self._coverage(self.backend.pool_kind)
        if self.backend.pool_kind.namespaced and isinstance(pools, Partial):
            pools = Complete()  # pools were given, and they stand in other namespaces than their owners
        kinds = [
            (PODS, self.snapshot.pods.coverage),
            *((kind, self._coverage(kind)) for kind in endpoint_kinds(self.backend)),
            (self.backend.pool_kind, pools),
            *((kind, self._holder_list(kind).coverage) for kind in holder_kinds(self.backend)),
        ]
        unserved = [
            kind for kind in holder_kinds(self.backend) if isinstance(self._holder_list(kind).coverage, NotInstalled)
        ]
        missing = [need(kind, namespace, coverage) for kind, coverage in kinds if not covers(coverage, namespace)]
        # Pools of owners that cannot exist: more likely their kind is served no more for now.
        missing += [Need(kind, "", f"{kind.kind}s, which own the addresses, are not served", "") for kind in unserved]
        for kind in self.backend.aside:
            coverage = self._coverage(kind)
            if isinstance(coverage, Incomplete) and coverage.doubt is not Doubt.NOT_GIVEN:
                missing.append(need(kind, "", coverage))
        missing += [
            Need(kind, "", f"{kind.kind} {broken.name} cannot be read: {broken.error}", "")
            for kind in self.backend.limits
            for broken in self.snapshot.unreadable.get(kind, ())
        ]
        return tuple(missing)

    def proofs_needed(self) -> tuple[Need, ...]:
        """The lists that prove removals, as far as they are missing."""
        coverages = ((kind, self._coverage(kind)) for kind in self.backend.proofs)
        return tuple(need(kind, "", coverage) for kind, coverage in coverages if not covers(coverage, ""))

    def nodes_needed(self) -> tuple[Need, ...]:
        """The list of nodes, if it is missing."""
        coverage = self.snapshot.nodes.coverage
        return () if covers(coverage, "") else (need(NODES, "", coverage),)

    def _coverage(self, kind: Kind) -> Coverage:
        if kind == NETWORK_ATTACHMENTS:
            return self.snapshot.attachments.coverage
        return self.snapshot.coverage.get(kind, NotInstalled())

    @cached_property
    def unreadable_pools(self) -> dict[str, str]:
        """Addresses that stand in pools which cannot be decoded, by the name of such a pool."""
        broken = self.snapshot.unreadable.get(self.backend.pool_kind, ())
        return {a: item.name for item in broken for a in addresses_in(item.raw.decode("utf-8", "replace"))}


def segments(pools: Iterable[Pool]) -> tuple[list[tuple[int, int]], list[tuple[Pool, ...]]]:
    """Where each set of pools begins, as (family, number), and the pools from there on: one sweep over all ranges."""
    edges: dict[tuple[int, int], list[tuple[Pool, int]]] = defaultdict(list)
    for pool in pools:
        for item in pool.configured.ranges:
            edges[item.family, item.first].append((pool, 1))
            edges[item.family, item.last + 1].append((pool, -1))
    starts, covering = [], []
    current: dict[PoolRef, Pool] = {}
    for edge in sorted(edges):
        for pool, step in sorted(edges[edge], key=lambda change: change[1]):
            if step < 0:
                del current[pool.ref]
            else:
                current[pool.ref] = pool
        starts.append(edge)
        covering.append(tuple(current.values()))
    return starts, covering


_UID = re.compile(rb'"uid"\s*:\s*"([^"]+)"')


def _uids_in(raw: bytes) -> list[str]:
    """Every UID in an object's text, its own among them: enough to tell that it may be somebody's."""
    return [uid.decode("utf-8", "replace") for uid in _UID.findall(raw)]


def _names(patterns: Iterable[str], pool: str) -> bool:
    """Whether one of these names, which may hold shell wildcards, is the pool's."""
    return any(fnmatchcase(pool, pattern) for pattern in patterns)


def split_ordinal(name: str) -> tuple[str, int | None]:
    """A StatefulSet pod's name as its set's name and its ordinal (an int32); None if it has none."""
    stem, _, ordinal = name.rpartition("-")
    if stem and ordinal.isascii() and ordinal.isdigit() and len(ordinal) <= LONGEST_ORDINAL:
        return stem, int(ordinal)
    return stem, None


def need(kind: Kind, namespace: str, coverage: Coverage) -> Need:
    """The evidence that a coverage lacks, with the command that would complete a dump."""
    if isinstance(coverage, Incomplete):
        return Need(kind, "", coverage.message, coverage.command)
    command = f"kubectl get {kind.kubectl_name} --namespace {namespace} -o yaml"
    return Need(kind, namespace, f"no {kind.plural} of namespace {namespace} were given", command)
