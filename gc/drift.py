"""Findings that stand beside the records': about pools themselves, and about endpoints."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import timedelta

from poolwarden.gc.evidence import (
    CompleteStatus,
    Entitled,
    Evidence,
    IncompleteStatus,
    NodeGood,
    NodeSilent,
    NotEntitled,
    Shower,
    segments,
    uid_text,
)
from poolwarden.gc.policy import Mode, Policies
from poolwarden.gc.snapshot import covers
from poolwarden.ipam.address import sort_key
from poolwarden.ipam.endpoint import Endpoint, EndpointItem
from poolwarden.ipam.inventory import endpoint_kinds
from poolwarden.ipam.objects import Pod
from poolwarden.ipam.pool import ClaimedOwner, Leaving, Pool, PoolRef, RecordsUnreadable, UnparsedOwner
from poolwarden.ipam.reservation import Reservation
from poolwarden.ipam.verdict import Action, Finding, Need, NoOwner, OwnerId, Reason, Verdict

LONGEST_REMOVAL = timedelta(hours=1)
SETTLED = timedelta(seconds=60)
"""An ADD writes record and endpoint within a second; a pod this old that has only one of them is no ADD in progress."""


def pool_findings(evidence: Evidence) -> Iterator[Finding]:
    """What is wrong with pools as such; the address is None."""
    for broken in evidence.snapshot.unreadable.get(evidence.backend.pool_kind, ()):
        ref = PoolRef(evidence.backend.name, broken.namespace, broken.name)
        yield _about_pool(
            ref, Verdict.UNKNOWN, Reason.EVIDENCE_INCOMPLETE, f"pool {broken.name} cannot be read: {broken.error}"
        )
    for pool in evidence.pools:
        if isinstance(pool.records, RecordsUnreadable):
            message = f"the records of {pool.ref.name} cannot be read: {pool.records.problem}"
            yield _about_pool(pool.ref, Verdict.UNKNOWN, Reason.EVIDENCE_INCOMPLETE, message)
        for flaw in pool.flaws:
            yield _about_pool(pool.ref, Verdict.DRIFT, Reason(flaw.kind), f"{pool.ref.name}: {flaw.message}")
        for leaving in pool.leaving:
            yield _leaving(evidence, pool, leaving)
    for ref, others in evidence.overlaps().items():
        apart = all(evidence.networks_apart(ref, other) for other in others)
        names = ", ".join(sorted(other.name for other in others))
        message = f"ranges of {ref.name} overlap those of {names}" + (
            ", on networks known to be apart" if apart else ""
        )
        yield _about_pool(ref, Verdict.DRIFT if apart else Verdict.CONFLICT, Reason.POOLS_OVERLAP, message)


def overlaps_across(pools: Iterable[Pool]) -> Iterator[Finding]:
    """Pools of different IPAMs whose ranges overlap: each may hand out what another one has given."""
    found: dict[PoolRef, set[PoolRef]] = defaultdict(set)
    for together in segments(pools)[1]:
        if len({pool.ref.ipam for pool in together}) > 1:
            for pool in together:
                found[pool.ref].update(other.ref for other in together if other.ref.ipam != pool.ref.ipam)
    for ref, others in found.items():
        names = ", ".join(f"{other.name} ({other.ipam})" for other in sorted(others))
        message = f"ranges of {ref.name} overlap those of {names}, which another IPAM hands out"
        yield _about_pool(ref, Verdict.DRIFT, Reason.POOLS_OVERLAP, message)


def _leaving(evidence: Evidence, pool: Pool, leaving: Leaving) -> Finding:
    """An address that its IPAM is taking away: no finding, but remembered, until it has taken too long."""
    since = evidence.snapshot.memory.first_seen.get((pool.ref, leaving.digest), evidence.now)
    late = evidence.now - since > LONGEST_REMOVAL
    said = f"{pool.ref.name} has been removing {leaving.address} since {since:%Y-%m-%dT%H:%M:%SZ}"
    return Finding(
        pool.ref,
        leaving.address,
        Verdict.DRIFT if late else Verdict.IN_USE,
        Reason.DELETION_STUCK if late else Reason.BEING_REMOVED,
        Action.NONE,
        said,
        subject_digest=leaving.digest,
    )


def reservation_findings(evidence: Evidence, policies: Policies) -> Iterator[Finding]:
    """Reservations without a record, and records without the reservation that keeps other pools off their address."""
    kind = evidence.backend.pool_kind
    if evidence.snapshot.unreadable.get(kind):
        return  # what such a pool records is not known
    recorded: dict[tuple[str, str], list[PoolRef]] = defaultdict(list)
    for pool in evidence.pools:
        for record in pool.readable_records:
            if record.address is not None:
                recorded[pool.network, record.address].append(pool.ref)
    reserved = {(item.network, item.address) for item in evidence.reservations}
    for item in evidence.reservations:
        # A pool of which it is not certain what it records may record it.
        unsure = any(pool.ambiguous and item.address in pool.configured for pool in evidence.pools if item.address)
        unsure |= not covers(evidence.snapshot.coverage[kind], item.namespace)
        if item.address is not None and not unsure and not recorded.get((item.network, item.address)):
            yield _orphan_reservation(evidence, policies, item, item.address)
    yield from _missing_reservations(evidence, reserved)


def _orphan_reservation(evidence: Evidence, policies: Policies, item: Reservation, address: str) -> Finding:
    same = [pool for pool in evidence.pools if pool.network == item.network]
    covering = [pool for pool in same if address in pool.configured]
    unread = any(isinstance(pool.records, RecordsUnreadable) or pool.ambiguous for pool in same)
    named = item.owner if isinstance(item.owner, ClaimedOwner) else None
    ref = next((pool.ref for pool in (*covering, *same)), PoolRef(evidence.backend.name, item.namespace, ""))
    keeps = "" if covering else "no pool of its network has that address"
    keeps = keeps or ("a pool of its network cannot be read" if unread else "")
    keeps = keeps or next((f"{shower.who} shows the address" for shower in evidence.shown.get(address, ())), "")
    keeps = keeps or _absence_doubt(evidence, named) or _node_doubt(evidence, policies, ref, item.digest)
    message = f"reservation {item.name} keeps {address}, which no pool of its network records"
    return Finding(
        ref,
        address,
        Verdict.DRIFT,
        Reason.RESERVATION_ORPHAN,
        Action.NONE if keeps else Action.REPAIR,
        f"{message}; kept, since {keeps}" if keeps else message,
        owner=OwnerId("Pod", named.namespace, named.name, "") if named else NoOwner(),
        interface=item.interface,
        subject=f"{item.namespace}/{item.name}",
        subject_digest=item.digest,
    )


def _absence_doubt(evidence: Evidence, owner: ClaimedOwner | None) -> str:
    """Why the owner of a reservation may still be there, "" if it is proven absent."""
    if owner is None:
        return "it names no pod"
    needs = evidence.needs_for_release(owner.namespace)
    if needs:
        return needs[0].message
    key = (owner.namespace, owner.name)
    return (
        f"pod {owner.namespace}/{owner.name} exists" if key in evidence.pods or key in evidence.unreadable_pods else ""
    )


def _node_doubt(evidence: Evidence, policies: Policies, ref: PoolRef, digest: str) -> str:
    """Why a container may run on where nobody sees it, "" if none can."""
    policy = policies.of(ref)
    if not policy.node_evidence_required:
        return ""
    first_seen = evidence.snapshot.memory.first_seen.get((ref, digest), evidence.now)
    match evidence.node_evidence(ref, "", first_seen, policy.node_gone_grace):
        case NodeGood():
            return ""
        case NodeSilent(why=why) | Need(message=why):
            return why


def _missing_reservations(evidence: Evidence, reserved: AbstractSet[tuple[str, str | None]]) -> Iterator[Finding]:
    """Only where some of a network's records have one: else the IPAM was told to do without."""
    networks = {network for network, _ in reserved}
    for pool in evidence.pools:
        if pool.network not in networks or not pool.reserves or not evidence.reservations_known:
            continue
        for record in pool.readable_records:
            address = record.address
            if address is None or pool.ambiguous or address not in pool.ranges or (pool.network, address) in reserved:
                continue
            owner = record.owner if isinstance(record.owner, ClaimedOwner) else None
            pod = evidence.pods.get((owner.namespace, owner.name)) if owner is not None else None
            if pod is not None and _coming_or_going(evidence, pod):
                continue
            yield Finding(
                pool.ref,
                address,
                Verdict.DRIFT,
                Reason.RESERVATION_MISSING,
                Action.NONE,
                f"{address} is recorded in {pool.ref.name} without a reservation: another pool of its network may hand it out",
                owner=OwnerId("Pod", owner.namespace, owner.name, record.uid) if owner is not None else NoOwner(),
                interface=record.interface,
            )


def _coming_or_going(evidence: Evidence, pod: Pod) -> bool:
    """Whether an ADD or DEL may be under way, between record and reservation."""
    created = pod.metadata.creation_timestamp
    young = created is not None and evidence.now - created < SETTLED
    return young or pod.metadata.deletion_timestamp is not None


def _about_pool(ref: PoolRef, verdict: Verdict, reason: Reason, message: str) -> Finding:
    return Finding(ref, None, verdict, reason, Action.NONE, message)


def endpoint_findings(evidence: Evidence, verdicts: Iterable[Finding], policies: Policies) -> Iterator[Finding]:
    """What is wrong with endpoints, or with their absence. `verdicts` are those of all records."""
    drift = _Endpoints(evidence, policies)
    for endpoint in evidence.endpoints.values():
        yield from drift.about(endpoint)
    yield from drift.on_two_interfaces()
    yield from drift.missing(verdicts)


class _Endpoints:
    def __init__(self, evidence: Evidence, policies: Policies) -> None:
        self.evidence = evidence
        self.policies = policies
        self.pools = {pool.ref.name: pool for pool in evidence.pools}
        self.records_by_uid: Counter[str] = Counter()
        self.invalid: set[str] = set()
        for pool in evidence.pools:
            for record in pool.readable_records:
                self.records_by_uid[record.uid] += 1
                if isinstance(record.owner, UnparsedOwner) and record.address is not None:
                    self.invalid.add(record.address)
        snapshot = evidence.snapshot
        kind = evidence.backend.pool_kind
        self.pools_known = (
            covers(snapshot.coverage[kind], "")
            and not snapshot.unreadable.get(kind)
            and not any(isinstance(pool.records, RecordsUnreadable) for pool in evidence.pools)
        )

    # --- endpoints and their pods ---------------------------------------------------------------------------------

    def about(self, endpoint: Endpoint) -> Iterator[Finding]:
        """The findings about one endpoint."""
        yield from self._pools_missing(endpoint)
        pod = self.evidence.pods.get(endpoint.key)
        if pod is None:
            yield from self._orphan(endpoint)
        elif pod.metadata.uid != endpoint.owner_uid:
            yield from self._stale(endpoint, pod)
        else:
            yield from self._own(endpoint, pod)

    def _stale(self, endpoint: Endpoint, pod: Pod) -> Iterator[Finding]:
        entitlement = self.evidence.entitlement(*endpoint.key)
        if pod.mirror or not endpoint.owner_uid or isinstance(entitlement, Entitled):
            return
        removable = isinstance(entitlement, NotEntitled) and self._removable(endpoint)
        message = (
            f"endpoint {_name(endpoint)} is that of UID {endpoint.owner_uid}, but the pod is now UID {pod.metadata.uid}"
        )
        yield self._finding(endpoint, Reason.ENDPOINT_STALE, message, repair=removable)

    def _orphan(self, endpoint: Endpoint) -> Iterator[Finding]:
        evidence = self.evidence
        covered = covers(evidence.snapshot.pods.coverage, endpoint.namespace)
        if not covered or endpoint.key in evidence.unreadable_pods or not self.pools_known:
            return
        if self.records_by_uid[endpoint.owner_uid] or endpoint.owner_uid in evidence.pods_by_uid:
            return
        if any(item.address in self.invalid for item in endpoint.addresses):
            return
        if endpoint.owner_kind == "Node" or not isinstance(evidence.entitlement(*endpoint.key), NotEntitled):
            return
        message = f"endpoint {_name(endpoint)} (UID {endpoint.owner_uid}) has neither pod nor record"
        yield self._finding(endpoint, Reason.ENDPOINT_ORPHAN, message, repair=self._removable(endpoint))

    def _removable(self, endpoint: Endpoint) -> bool:
        """Whether nothing can need the endpoint: its pod is gone, its node vouches, no record and no NIC goes with it.

        Each pool that it draws from must allow it.
        """
        evidence = self.evidence
        if not endpoint.owner_uid or endpoint.owner_uid in evidence.pods_by_uid or not self.pools_known:
            return False
        if self.records_by_uid[endpoint.owner_uid] or endpoint.items_unread:
            return False
        if any(item.address in self.invalid for item in endpoint.addresses):
            return False  # recorded for nobody that can be told: it may be this endpoint's
        if not covers(evidence.snapshot.pods.coverage, endpoint.namespace):
            return False
        if any(evidence.shown.get(item.address) for item in endpoint.addresses):
            return False
        return self._writable(endpoint) and all(self._node_vouches(ref, endpoint) for ref in self._refs(endpoint))

    def _refs(self, endpoint: Endpoint) -> set[PoolRef]:
        """The pools that an endpoint draws from: it is an object of each of them."""
        return {self.pools[item.pool].ref for item in endpoint.addresses if item.pool in self.pools}

    def _writable(self, endpoint: Endpoint) -> bool:
        """Whether the policy of every pool that an endpoint draws from lets it be written."""
        policies = [self.policies.of(ref) for ref in self._refs(endpoint)]
        return not any(
            policy.mode in {Mode.OFF, Mode.OBSERVE}
            or endpoint.namespace in policy.ignore_namespaces
            or any(item.address in policy.keep for item in endpoint.addresses)
            for policy in policies
        )

    def _node_vouches(self, ref: PoolRef, endpoint: Endpoint) -> bool:
        policy, evidence = self.policies.of(ref), self.evidence
        if not policy.node_evidence_required:
            return True
        good = evidence.node_evidence(ref, endpoint.node, evidence.now, policy.node_gone_grace)
        return isinstance(good, NodeGood)

    # --- the NICs of a live pod -----------------------------------------------------------------------------------

    def _own(self, endpoint: Endpoint, pod: Pod) -> Iterator[Finding]:
        names = {item.interface for item in endpoint.items}
        if "" not in names and len(names) == len(endpoint.items):
            return  # each NIC has a name of its own, as almost everywhere
        nics = self.evidence.nics(pod)
        proven = pod.running_and_ready and isinstance(nics, CompleteStatus)
        free = isinstance(self.evidence.entitlement(*endpoint.key), NotEntitled)
        editable = proven and free and self._writable(endpoint)
        shown = shown_by_nic(nics)
        yield from self._duplicated(endpoint, pod, shown, editable=editable)
        yield from self._unnamed(endpoint, pod, shown, proven=proven, editable=editable)

    def _duplicated(self, endpoint: Endpoint, pod: Pod, shown: dict[str, str], *, editable: bool) -> Iterator[Finding]:
        by_name: dict[str, list[EndpointItem]] = defaultdict(list)
        for item in endpoint.items:
            by_name[item.interface].append(item)
        for name, items in by_name.items():
            if not name or len(items) == 1:
                continue
            right = _right_item(items, shown, name)
            message = f"endpoint {_name(endpoint)} names {name} {len(items)} times; {uid_text(pod)} has one such NIC"
            wrong = [item for item in items if item not in right]
            used = any(self.evidence.shown.get(listed.address) for item in wrong for listed in item.addresses)
            repair = editable and bool(right) and not used
            yield self._finding(
                endpoint, Reason.INTERFACE_DUPLICATED, message, repair=repair, item=wrong[0] if wrong else items[-1]
            )

    def _unnamed(
        self, endpoint: Endpoint, pod: Pod, shown: dict[str, str], *, proven: bool, editable: bool
    ) -> Iterator[Finding]:
        named = Counter(item.interface for item in endpoint.items)
        unnamed = [(item, _one_interface(item, shown)) for item in endpoint.items if not item.interface]
        named.update(name for _, name in unnamed if name)
        for item, name in unnamed if proven else ():
            if name:
                message = f"endpoint {_name(endpoint)} names no interface for {item.addresses[0].address}; {uid_text(pod)} has it on {name}"
                repair = editable and named[name] == 1
                yield self._finding(endpoint, Reason.INTERFACE_EMPTY, message, repair=repair, item=item)

    def on_two_interfaces(self) -> Iterator[Finding]:
        """Addresses that one pod has on two NICs, by its network-status or its endpoint."""
        for address, showers in self.evidence.shown.items():
            if len(showers) == 1 and self._one_nic(showers[0]):
                continue
            names: dict[tuple[str, str], set[str]] = defaultdict(set)
            for shower in showers:
                if shower.pod is not None:
                    names[shower.pod.key].add(shower.interface)
            for key, shown in names.items():
                pod, endpoint = self.evidence.pods[key], self.evidence.endpoint_of(self.evidence.pods[key])
                items = [
                    item
                    for item in (endpoint.items if endpoint is not None else ())
                    if any(listed.address == address for listed in item.addresses)
                ]
                every = sorted((shown | {item.interface for item in items}) - {""})
                where = self.evidence.pools_at(address)
                if len(every) > 1 and where:
                    yield Finding(
                        where[0].ref,
                        address,
                        Verdict.DRIFT,
                        Reason.ADDRESS_ON_TWO_INTERFACES,
                        Action.NONE,
                        f"{uid_text(pod)} has {address} on {' and '.join(every)}",
                        owner=OwnerId("Pod", *key, pod.metadata.uid),
                        interface=every[0],
                        subject=f"{key[0]}/{key[1]}",
                    )

    def _one_nic(self, shower: Shower) -> bool:
        """Whether the only one who shows an address has one NIC by its endpoint as well, as almost everywhere."""
        endpoint = self.evidence.endpoints.get(shower.pod.key) if shower.pod is not None else None
        return endpoint is not None and len(endpoint.items) == 1 and endpoint.items[0].interface == shower.interface

    # --- pools that are gone, endpoints that are missing ----------------------------------------------------------

    def _pools_missing(self, endpoint: Endpoint) -> Iterator[Finding]:
        snapshot = self.evidence.snapshot
        kind = self.evidence.backend.pool_kind
        if not covers(snapshot.coverage[kind], ""):
            return
        unread = {item.name for item in snapshot.unreadable.get(kind, ())}
        for item in endpoint.items:
            for address in item.addresses:
                if address.pool and address.pool not in self.pools and address.pool not in unread:
                    message = f"endpoint {_name(endpoint)} has {address.address} from pool {address.pool}, which does not exist"
                    yield self._finding(
                        endpoint, Reason.POOL_MISSING, message, repair=False, item=item, address=address.address
                    )

    def missing(self, verdicts: Iterable[Finding]) -> Iterator[Finding]:
        """Live pods that hold a record but no endpoint, told once a pod."""
        told: set[str] = set()
        for finding in sorted(verdicts, key=lambda item: (item.pool, sort_key(item.address))):
            owner = finding.owner
            if not isinstance(owner, OwnerId) or owner.uid in told or finding.verdict is Verdict.CONFLICT:
                continue
            pod = self.evidence.pods_by_uid.get(owner.uid)
            if pod is None or not self._lacks_endpoint(pod, (owner.namespace, owner.name)):
                continue
            told.add(owner.uid)
            message = f"{uid_text(pod)} holds a record in {finding.pool.name}, but has no endpoint"
            yield Finding(
                finding.pool,
                finding.address,
                Verdict.DRIFT,
                Reason.ENDPOINT_MISSING,
                Action.NONE,
                message,
                owner=owner,
                subject=f"{owner.namespace}/{owner.name}",
            )

    def _lacks_endpoint(self, pod: Pod, key: tuple[str, str]) -> bool:
        evidence = self.evidence
        kinds = endpoint_kinds(evidence.backend)
        covered = bool(kinds) and all(covers(evidence.snapshot.coverage[kind], key[0]) for kind in kinds)
        created = pod.metadata.creation_timestamp
        return (
            covered
            and key not in evidence.endpoints
            and key not in evidence.unreadable_endpoints
            and not pod.terminal
            and pod.metadata.deletion_timestamp is None
            and (created is None or evidence.now - created >= SETTLED)
        )

    # --- findings -------------------------------------------------------------------------------------------------

    def _place(
        self, endpoint: Endpoint, item: EndpointItem | None = None, address: str = ""
    ) -> tuple[PoolRef, str | None]:
        """The pool and address that a finding about an endpoint is filed under: those of the item, or of its first NIC."""
        addresses = item.addresses if item is not None else endpoint.addresses
        chosen = next((a for a in addresses if not address or a.address == address), None)
        if chosen is None:
            return PoolRef(endpoint.ipam, "", ""), None
        known: Pool | None = self.pools.get(chosen.pool)
        return known.ref if known else PoolRef(endpoint.ipam, "", chosen.pool), chosen.address

    def _finding(
        self,
        endpoint: Endpoint,
        reason: Reason,
        message: str,
        *,
        repair: bool,
        item: EndpointItem | None = None,
        address: str = "",
    ) -> Finding:
        ref, place = self._place(endpoint, item, address)
        return Finding(
            ref,
            place,
            Verdict.DRIFT,
            reason,
            Action.REPAIR if repair and ref.name in self.pools else Action.NONE,
            message,
            owner=OwnerId("Pod", endpoint.namespace, endpoint.name, endpoint.owner_uid) if endpoint.name else NoOwner(),
            interface=item.interface if item is not None else "",
            subject=f"{endpoint.namespace}/{endpoint.name}",
            subject_digest=endpoint.digest,
            node=endpoint.node,
        )


def _name(endpoint: Endpoint) -> str:
    return f"{endpoint.namespace}/{endpoint.name}"


def shown_by_nic(nics: CompleteStatus | IncompleteStatus) -> dict[str, str]:
    """The interface of each address that exactly one NIC of a pod shows; none while its NICs are not all known."""
    if isinstance(nics, IncompleteStatus):
        return {}
    names: dict[str, set[str]] = defaultdict(set)
    for entry in nics.entries:
        for address in entry.ips:
            names[address].add(entry.interface)
    return {address: next(iter(found)) for address, found in names.items() if len(found) == 1}


def _right_item(items: Iterable[EndpointItem], shown: dict[str, str], name: str) -> list[EndpointItem]:
    """The one item that has just the addresses which that NIC shows; empty unless there is exactly one such."""
    nic = {address for address, interface in shown.items() if interface == name}
    right = {item for item in items if nic and {listed.address for listed in item.addresses} == nic}
    return list(right) if len(right) == 1 else []


def _one_interface(item: EndpointItem, shown: dict[str, str]) -> str:
    """The interface that shows every address of an item, "" if none does."""
    names = {shown.get(address.address, "") for address in item.addresses}
    return names.pop() if len(names) == 1 else ""
