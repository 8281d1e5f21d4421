"""From evidence to verdicts: a pure function, without I/O and without a clock.

The order is that of the design: for each record Unknown (evidence), Conflict, InUse, Retained, Leaked - NodeUnreachable
and OwnerStuck stand in Leaked's place - and within a class that of its table. Whatever the verdict, an address that
somebody shows, that the operator keeps, or that `restore` put back has action none.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from functools import cached_property

import msgspec
from msgspec import Struct

from poolwarden.gc.drift import endpoint_findings, overlaps_across, pool_findings, reservation_findings
from poolwarden.gc.evidence import (
    CompleteStatus,
    Entitled,
    Evidence,
    IncompleteStatus,
    NodeGood,
    NodeSilent,
    NoHolder,
    Shower,
    UnreadableHolder,
    party_of,
    uid_text,
)
from poolwarden.gc.policy import Mode, Policies, RetentionRule
from poolwarden.gc.snapshot import Snapshot
from poolwarden.ipam.address import Family, family_of, sort_key
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.holder import Holder
from poolwarden.ipam.inventory import Backend, PodOwners, endpoint_kinds
from poolwarden.ipam.network import NoStatus
from poolwarden.ipam.objects import ContainerStatus, Pod
from poolwarden.ipam.pool import ClaimedOwner, Pool, PoolRef, Record, RecordsUnreadable, Removals, UnparsedOwner
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Action, Finding, Need, NoOwner, OwnerId, Reason, Verdict


def judge(snapshot: Snapshot, policy: Policies, now: datetime) -> list[Finding]:
    """All findings of a snapshot, ordered by pool, then address (none first): one for each record, drift beside them.

    `now` is the API server's clock. Linear in the number of objects, but for the sort.
    """
    findings = [
        finding
        for name in dict.fromkeys(inventory.ipam for inventory in snapshot.inventories)
        if _has_objects(snapshot, BACKENDS[name])
        for finding in _Judge(snapshot, BACKENDS[name], policy, now).findings()
    ]
    findings += overlaps_across(pool for inventory in snapshot.inventories for pool in inventory.pools)
    return sorted(findings, key=_order)


def _has_objects(snapshot: Snapshot, backend: Backend) -> bool:
    """Whether there is anything of an IPAM to judge: indexing all pods for one that is not installed would be waste."""
    kinds = (backend.pool_kind, *endpoint_kinds(backend))
    return any(snapshot.unreadable.get(kind) for kind in kinds) or any(
        item.pools or item.endpoints or item.reservations for item in snapshot.inventories if item.ipam == backend.name
    )


def _order(finding: Finding) -> tuple[object, ...]:
    """By pool, then address (none first), the record's own finding before what stands beside it."""
    beside = (not finding.record_digest, finding.reason, finding.subject, finding.message)
    return (finding.pool, sort_key(finding.address), *beside)


class _Present(Struct, frozen=True, tag=True):
    """The owner exists: a pod with the record's UID (or, for a record without one, of its name)."""

    pod: Pod


class _Replaced(Struct, frozen=True, tag=True):
    """The owner's name now belongs to another pod."""

    pod: Pod


class _Held(Struct, frozen=True, tag=True):
    """The owner, which is no pod, exists or is still run by a pod; `who` names it, `party` is who it is to others."""

    who: str
    party: str


class _Moved(Struct, frozen=True, tag=True):
    """The owner, which is no pod, is proven to use another address."""

    holder: Holder


class _Gone(Struct, frozen=True, tag=True):
    """No pod (or holder) has the owner's UID or name."""


class _Unreadable(Struct, frozen=True, tag=True):
    """The owner exists, but cannot be read."""

    problem: str


_Owner = _Present | _Replaced | _Held | _Moved | _Gone | _Unreadable
_Key = tuple[str, str]


class _Judge:
    """One backend's records against one snapshot."""

    def __init__(self, snapshot: Snapshot, backend: Backend, policies: Policies, now: datetime) -> None:
        self.evidence = Evidence(snapshot, backend, now)
        self.backend = backend
        self.memory = snapshot.memory
        self.later = snapshot.later
        self.policies = policies
        self.now = now

    def findings(self) -> Iterator[Finding]:
        """Every finding, unordered."""
        verdicts = {
            (pool.ref, record.key): self._verdict(pool, record)
            for pool in self.evidence.pools
            for record in pool.readable_records
        }
        for (ref, _), finding in self._with_overlaps(verdicts):
            yield self._allowed(ref, finding)
        yield from self._unrecorded()
        for finding in (
            *pool_findings(self.evidence),
            *endpoint_findings(self.evidence, verdicts.values(), self.policies),
            *reservation_findings(self.evidence, self.policies),
        ):
            yield self._allowed(finding.pool, finding)

    # --- one record -----------------------------------------------------------------------------------------------

    def _verdict(self, pool: Pool, record: Record) -> Finding:
        case = _Case(self, pool, record)
        try:
            return case.finding()
        except Exception as error:  # noqa: BLE001 - a defect of ours in one record must not stop the others
            return case.defect(f"{type(error).__name__}: {error}")

    # --- what stands over all verdicts ----------------------------------------------------------------------------

    def _allowed(self, ref: PoolRef, finding: Finding) -> Finding:
        """The finding with its action, unless the operator's policy ends the matter."""
        if finding.action is Action.NONE:
            return finding
        policy = self.policies.of(ref)
        namespace = finding.owner.namespace if isinstance(finding.owner, OwnerId) else ""
        why = ""
        if finding.address is not None and finding.address in policy.keep:
            why = "its PoolGuard's keep list holds the address"
        elif namespace in policy.ignore_namespaces:
            why = f"its PoolGuard ignores namespace {namespace}"
        elif policy.mode in {Mode.OBSERVE, Mode.OFF}:
            why = f"its PoolGuard says mode {policy.mode}"
        elif (ref, finding.record_digest) in self.memory.held:
            why = "an operator restored this record; it is kept until it changes or is released by hand"
        return (
            msgspec.structs.replace(finding, action=Action.NONE, message=f"{finding.message}; {why}")
            if why
            else finding
        )

    # --- addresses in use that no pool records --------------------------------------------------------------------

    @cached_property
    def _recorded(self) -> Mapping[str, list[tuple[Pool, Record]]]:
        recorded: dict[str, list[tuple[Pool, Record]]] = defaultdict(list)
        for pool in self.evidence.pools:
            for record in pool.readable_records:
                if record.address is not None:
                    recorded[record.address].append((pool, record))
        return recorded

    def _unrecorded(self) -> Iterator[Finding]:
        for address, showers in self.evidence.shown.items():
            for pool in self.evidence.pools_at(address):
                if isinstance(pool.records, RecordsUnreadable) or address not in pool.ranges or pool.ambiguous:
                    continue
                if any(where.ref == pool.ref for where, _ in self._recorded.get(address, ())):
                    continue
                users = [user for user in self.users(pool, address, showers) if self._drawn_from(pool, address, user)]
                if users:
                    yield self._without_record(pool, address, users)

    def _drawn_from(self, pool: Pool, address: str, user: Shower) -> bool:
        """Whether the address is this pool's to record: no other pool records it for the user, or is named for it."""
        if user.pod is not None and any(
            record.names(*user.pod.key, user.uid) for _, record in self._recorded.get(address, ())
        ):
            return False
        if not self.evidence.draws_from(user, pool, address):
            return False
        endpoint = self.evidence.endpoint_of(user.pod) if user.pod else None
        listed = {item.pool for item in endpoint.addresses if item.address == address} if endpoint else set()
        named = listed & {known.ref.name for known in self.evidence.pools_at(address)}
        return not named or pool.ref.name in named

    def _without_record(self, pool: Pool, address: str, users: list[Shower]) -> Finding:
        """An address in use without a record: a conflict, unless a controller gives such addresses to one owner each."""
        first = users[0]
        twice = len({user.party for user in users}) > 1
        who = " and ".join(user.who for user in users)
        verb = "uses" if not twice else "all use" if len(users) > 2 else "both use"  # noqa: PLR2004 - both are two
        if not twice and address in pool.claimed:
            said = f"{who} {verb} {address}, which its controller has claimed from {pool.ref.name}"
            return Finding(
                pool.ref, address, Verdict.IN_USE, Reason.OWNER_LIVE, Action.NONE, said, owner=_owner_of(first)
            )
        return Finding(
            pool.ref,
            address,
            Verdict.CONFLICT,
            Reason.ADDRESS_HELD_TWICE if twice else Reason.IN_USE_UNRECORDED,
            Action.NONE,
            f"{who} {verb} {address}, but {pool.ref.name} has no record of it and may hand it out again",
            owner=_owner_of(first),
            interface=first.interface,
        )

    def users(self, pool: Pool, address: str, showers: Iterable[Shower], claimed: str = "") -> list[Shower]:
        """Live owners that use an address on this IPAM's network, each once; `claimed` is the record's UID.

        A pod whose ADD came after its pool was read is no user without a record: `later` shows the record.
        """
        later = self.later.get(pool.ref, {}).get(address)
        found: dict[object, Shower] = {}
        for shower in showers:
            pod = shower.pod
            if not shower.live or self.evidence.apart(shower, pool.ref, address):
                continue
            mine = bool(claimed) and shower.uid == claimed
            if pod is not None and (
                (not mine and later is not None and later.names(*pod.key, shower.uid)) or self._deleted_by_cni(pod)
            ):
                continue
            if mine or self.evidence.proven_ours(shower, pool, address):
                found.setdefault(pod.key if pod is not None else shower.party, shower)
        return list(found.values())

    def _deleted_by_cni(self, pod: Pod) -> bool:
        """Whether a terminating pod's DEL is done: Spiderpool then takes the finalizer off its endpoint."""
        endpoint = self.evidence.endpoint_of(pod)
        return pod.metadata.deletion_timestamp is not None and endpoint is not None and not endpoint.finalizers

    # --- overlapping pools ----------------------------------------------------------------------------------------

    def _with_overlaps(
        self, verdicts: dict[tuple[PoolRef, str], Finding]
    ) -> Iterator[tuple[tuple[PoolRef, str], Finding]]:
        """A record that names nobody live, for an address that another pool gave to somebody, is a conflict."""
        overlaps = self.evidence.overlaps()
        for (ref, key), finding in verdicts.items():
            nobody = finding.verdict in {Verdict.LEAKED, Verdict.RETAINED} or finding.reason is Reason.NODE_UNREACHABLE
            conflict = finding
            if nobody and finding.address is not None:
                conflict = self._elsewhere(ref, key, finding, overlaps.get(ref, set()), verdicts)
            yield (ref, key), conflict

    def _elsewhere(
        self,
        ref: PoolRef,
        key: str,
        finding: Finding,
        overlapping: set[PoolRef],
        verdicts: Mapping[tuple[PoolRef, str], Finding],
    ) -> Finding:
        """What other pools say of an address whose record names nobody live."""
        address = finding.address or ""
        for pool, record in self._recorded.get(address, ()):
            elsewhere = verdicts.get((pool.ref, record.key))
            same = (pool.ref, record.key) == (ref, key)
            if same or elsewhere is None or self.evidence.networks_apart(ref, pool.ref):
                continue
            if elsewhere.verdict is not Verdict.LEAKED:
                return self._as_overlap(finding, f"{pool.ref.name} records it for {elsewhere.owner}, too")
        unread = [
            pool.ref.name
            for pool in self.evidence.pools_at(address)
            if pool.ref != ref
            and (isinstance(pool.records, RecordsUnreadable) or address in pool.doubtful)
            and not self.evidence.networks_apart(ref, pool.ref)
        ]
        unread += [self.evidence.unreadable_pools[address]] if address in self.evidence.unreadable_pools else []
        if unread:
            message = f"{finding.message}; but pool {unread[0]}, which may record the address as well, cannot be read"
            return msgspec.structs.replace(
                finding,
                verdict=Verdict.UNKNOWN,
                reason=Reason.EVIDENCE_INCOMPLETE,
                action=Action.NONE,
                message=message,
            )
        for shower in self.evidence.shown.get(address, ()) if overlapping else ():
            if shower.uid != self._uid_of(finding) and not self.evidence.apart(shower, ref, address):
                return self._as_overlap(finding, f"its range overlaps another pool's and {shower.who} shows it")
        return finding

    @staticmethod
    def _uid_of(finding: Finding) -> str:
        """The UID of a finding's owner, which may show its own address; no pod's if there is none."""
        return finding.owner.uid or "-" if isinstance(finding.owner, OwnerId) else "-"

    @staticmethod
    def _as_overlap(finding: Finding, why: str) -> Finding:
        return msgspec.structs.replace(
            finding,
            verdict=Verdict.CONFLICT,
            reason=Reason.IN_USE_UNRECORDED,
            action=Action.NONE,
            message=f"{finding.message}; but {why}",
        )

    @cached_property
    def holdings(self) -> Mapping[tuple[PoolRef, str, Family], frozenset[str]]:
        """The addresses that each UID holds, by pool and family."""
        held: dict[tuple[PoolRef, str, Family], set[str]] = defaultdict(set)
        for address, places in self._recorded.items():
            for pool, record in places:
                if record.uid:
                    held[pool.ref, record.uid, family_of(address)].add(address)
        return {key: frozenset(addresses) for key, addresses in held.items()}


class _Case:
    """One record on trial."""

    def __init__(self, judge: _Judge, pool: Pool, record: Record) -> None:
        owner = record.owner
        self.judge = judge
        self.evidence = judge.evidence
        self.pool = pool
        self.record = record
        self.now = judge.now
        self.policy = judge.policies.of(pool.ref)
        self.address = record.address or ""
        self.key: _Key = (owner.namespace, owner.name) if isinstance(owner, ClaimedOwner) else ("", "")
        self.endpoint = self._own_endpoint()
        self.interface = self._interface()

    def finding(self) -> Finding:
        """The first row of the design's table that holds."""
        record, claimed = self.record, self.record.owner
        if record.address is None:
            return self._say(
                Verdict.UNKNOWN,
                Reason.RECORD_INVALID,
                f"the key {record.key!r} of {self.pool.ref.name} is no IP address",
            )
        if isinstance(claimed, UnparsedOwner):
            return self._say(
                Verdict.UNKNOWN,
                Reason.RECORD_INVALID,
                f"{record.address} has no owner that can be parsed: {claimed.problem}",
            )
        if self.pool.ambiguous:
            message = f"{self._recorded_for} in {self.pool.ref.name}, but which address that is is not certain: {self.pool.ambiguous}"
            return self._say(Verdict.UNKNOWN, Reason.RANGE_AMBIGUOUS, message)
        if record.address not in self.pool.ranges:
            outside = "excluded or reserved" if record.address in self.pool.configured else "outside its ranges"
            message = f"{self._recorded_for} in {self.pool.ref.name}, but the address is {outside}; it is never freed"
            return self._say(Verdict.UNKNOWN, Reason.OUT_OF_RANGE, message)
        owner = self._owner(claimed)
        doubt = self._doubt(claimed, owner)
        if doubt is not None:
            return doubt
        conflict = self._conflict(owner)
        if conflict is not None:
            return conflict
        match owner:
            case _Present(pod) if self._lives(pod):
                return self._living(pod)
            case _Held(who):
                return self._say(Verdict.IN_USE, Reason.OWNER_LIVE, f"{self._recorded_for}; {who} exists")
            case _:
                return self._ended(claimed, owner)

    # --- who it is ------------------------------------------------------------------------------------------------

    def _own_endpoint(self) -> Endpoint | None:
        """The endpoint written for the record's owner, by UID."""
        found = self.evidence.endpoints.get(self.key)
        return found if found is not None and self.record.uid and found.owner_uid == self.record.uid else None

    def _interface(self) -> str:
        """The NIC that the record or its owner's endpoint names, "" if neither does."""
        if self.record.interface or self.endpoint is None:
            return self.record.interface
        items = self.endpoint.items
        return next((i.interface for i in items for a in i.addresses if a.address == self.address), "")

    @property
    def _kind(self) -> str:
        """The kind of object that the IPAM's records name."""
        owners = self.judge.backend.owners
        return "Pod" if isinstance(owners, PodOwners) else owners.kind.kind

    @property
    def _recorded_for(self) -> str:
        uid = f"UID {self.record.uid}" if self.record.uid else "no UID"
        nic = f", interface {self.interface}" if self.interface else ""
        return f"{self.address} is recorded for {self.key[0]}/{self.key[1]} ({uid}{nic})"

    def _holder(self) -> _Owner:
        """The owner of the record's name that is no pod."""
        match self.evidence.holder(self.key):
            case UnreadableHolder(problem):
                return _Unreadable(problem)
            case NoHolder():
                return _Gone()
            case Pod() as pod:
                # The machine's own object is gone; the pod that runs it is not.
                return _Held(f"{uid_text(pod)}, which runs it,", party_of(pod))
            case Holder() as holder:
                family = family_of(self.address)
                others = [item for item in holder.addresses if family_of(item) == family]
                if holder.settled and others and self.address not in others:
                    strays = self.evidence.stray_runners(holder)
                    if strays:
                        return _Held(f"{uid_text(strays[0])}, which runs an earlier one,", party_of(strays[0]))
                    return _Moved(holder)
                return _Held(str(holder), str(holder))

    def _owner(self, claimed: ClaimedOwner) -> _Owner:
        if not isinstance(self.judge.backend.owners, PodOwners):
            return self._holder()
        uid = self.record.uid
        if self.key in self.evidence.unreadable_pods or uid in self.evidence.unreadable_uids:
            why = self.evidence.unreadable_pods.get(self.key) or self.evidence.unreadable_uids[uid]
            return _Unreadable(f"pod {claimed.namespace}/{claimed.name} cannot be read: {why}")
        by_name = self.evidence.pods.get(self.key)
        if not uid and by_name is not None:
            # Without a UID a live pod of the name keeps the record, until it is proven to use another address.
            return _Replaced(by_name) if self._uses_another(by_name) else _Present(by_name)
        by_uid = self.evidence.pods_by_uid.get(uid)
        if by_uid is not None:
            return _Present(by_uid)
        return _Gone() if by_name is None else _Replaced(by_name)

    # --- Unknown --------------------------------------------------------------------------------------------------

    def _doubt(self, claimed: ClaimedOwner, owner: _Owner) -> Finding | None:
        match owner:
            case _Unreadable(problem):
                return self._incomplete(problem)
            case _Present(pod):
                problem = self.evidence.unreadable_statuses.get(pod.key, "")
                if problem:
                    return self._incomplete(f"the network-status of {uid_text(pod)} cannot be read: {problem}")
                return None
            case _Held():
                return None
            case _Replaced(pod) if pod.mirror:
                message = (
                    f"{self._recorded_for}, a static pod whose UID is now {pod.metadata.uid}: its sandbox may run on"
                )
                return self._say(Verdict.UNKNOWN, Reason.STATIC_POD, message)
            case _Gone() if self.endpoint is not None and self.endpoint.owner_kind == "Node":
                message = f"{self._recorded_for}, a static pod without a mirror: its kubelet may run it on"
                return self._say(Verdict.UNKNOWN, Reason.STATIC_POD, message)
            case _:
                return self._unproven_absence(claimed)

    def _unproven_absence(self, claimed: ClaimedOwner) -> Finding | None:
        """Unknown, if what was read does not prove that nobody can need the record; None if it does."""
        needs = self.evidence.needs_for_release(claimed.namespace)
        if needs:
            return self._incomplete("; ".join(item.message for item in needs), needs)
        if self.key in self.evidence.unreadable_endpoints:
            why = self.evidence.unreadable_endpoints[self.key]
            return self._incomplete(f"endpoint {self.key[0]}/{self.key[1]} cannot be read: {why}")
        if self.endpoint is not None and self.endpoint.items_unread:
            return self._incomplete(f"its endpoint cannot be read: {self.endpoint.items_unread}")
        return None

    def defect(self, what: str) -> Finding:
        """What is said of a record that we failed to judge."""
        message = f"the record of {self.record.key!r} could not be judged, by a defect of poolwarden ({what})"
        lacks = Need(self.judge.backend.pool_kind, "", message, "")
        return self._say(Verdict.UNKNOWN, Reason.EVIDENCE_INCOMPLETE, message, needs=(lacks,))

    def _incomplete(self, why: str, needs: tuple[Need, ...] = ()) -> Finding:
        message = f"{self._recorded_for}; whether it is in use is not known: {why}"
        return self._say(Verdict.UNKNOWN, Reason.EVIDENCE_INCOMPLETE, message, needs=needs)

    # --- Conflict -------------------------------------------------------------------------------------------------

    def _conflict(self, owner: _Owner) -> Finding | None:
        if self.record.lost and isinstance(owner, _Present) and self._lives(owner.pod):
            message = f"{self._recorded_for}, which lives, but the address is gone from {self.pool.ref.name}'s network"
            return self._say(Verdict.CONFLICT, Reason.ADDRESS_LOST, message)
        claimed_uid = owner.pod.metadata.uid if isinstance(owner, _Present) else self.record.uid
        showers = self.evidence.shown.get(self.address, ())
        if claimed_uid and all(shower.uid == claimed_uid for shower in showers):
            return None  # nobody else shows it, as almost everywhere
        users = self.judge.users(self.pool, self.address, showers, claimed_uid)
        if isinstance(owner, _Present) and any(user.uid == claimed_uid for user in users):
            # Whoever has it from another IPAM, on the very network, has it as well.
            users += [
                s
                for s in showers
                if s.live and s not in users and self.evidence.shares_network(s, self.pool.ref, self.address)
            ]
        parties = {user.party: user for user in users}
        mine = _party_of(owner, claimed_uid)
        others = [user for party, user in parties.items() if party not in {mine, f"vmi:{self.key[0]}/{self.key[1]}"}]
        if not others:
            return None
        who = " and ".join(user.who for user in users)
        if len(parties) > 1:
            message = f"{self._recorded_for}, and {who} all use it at once"
            return self._say(Verdict.CONFLICT, Reason.ADDRESS_HELD_TWICE, message)
        message = f"{self._recorded_for}, but {who} uses it: {self.pool.ref.ipam} may free it under a live pod"
        return self._say(Verdict.CONFLICT, Reason.IN_USE_UNRECORDED, message)

    # --- InUse, and what a live owner does not need ---------------------------------------------------------------

    def _lives(self, pod: Pod) -> bool:
        deadline = pod.metadata.deletion_timestamp
        if deadline is not None:
            return self.now <= deadline
        return not (pod.terminal and self._finished_for_good(pod))

    def _living(self, pod: Pod) -> Finding:
        if pod.metadata.deletion_timestamp is None and not pod.terminal:
            surplus = self._surplus(pod) or self._never_attached(pod)
            if surplus is not None:
                return surplus
        lives = f"{self._recorded_for}, which lives ({pod.status.phase})"
        if not self.record.uid and not self._shown_by(pod):
            return self._say(Verdict.IN_USE, Reason.NAME_LIVE, f"{lives} and is not proven to use another address")
        return self._say(Verdict.IN_USE, Reason.OWNER_LIVE, lives)

    def _surplus(self, pod: Pod) -> Finding | None:
        held = self.judge.holdings.get((self.pool.ref, self.record.uid, family_of(self.address)), frozenset())
        if len(held) <= 1 or self._shown_by(pod):
            return None
        nics = self.evidence.nic_count(pod)
        usable = max(1, min(nics, self.judge.backend.nics_drawing_from(pod, self.pool.ref.name, nics)))
        if len(held) <= usable:
            return None
        shown = [
            address for address in held if any(s.uid == pod.metadata.uid for s in self.evidence.shown.get(address, ()))
        ]
        uses = f"can use {usable} and uses {', '.join(sorted(shown, key=sort_key)) or 'none of them'}"
        message = (
            f"{self._recorded_for}, one of {len(held)} addresses of {self.pool.ref.name} that this pod holds; it {uses}"
        )
        proof = self._surplus_proof(pod)
        if proof:
            message += f". Freed when the pod ends ({proof}); deleting it frees {len(held) - len(shown)} addresses"
            return self._say(Verdict.LEAKED, Reason.SURPLUS_FOR_OWNER, message)
        return self._release(Reason.SURPLUS_FOR_OWNER, message)

    def _shown_by(self, pod: Pod) -> bool:
        return any(s.pod is not None and s.pod.key == pod.key for s in self.evidence.shown.get(self.address, ()))

    def _surplus_proof(self, pod: Pod) -> str:
        """What is missing to prove that no NIC and no later ADD can use the address; "" if nothing is."""
        nics = self.evidence.nics(pod)
        if not pod.running_and_ready:
            return "it is not Running and Ready"
        if isinstance(nics, IncompleteStatus):
            return nics.why
        if self.endpoint is None or not self.evidence.endpoint_agrees(pod, nics, self.endpoint):
            return "its endpoint does not name each of its NICs with the address that network-status shows"
        if any(item.address == self.address for item in self.endpoint.addresses):
            return "its endpoint lists the address"
        return self._set_aside

    @property
    def _set_aside(self) -> str:
        """Why a next ADD may not be answered from the endpoint; "" if it is sure to be.

        Spiderpool's `releaseStsOutdatedIPIfNeed` drops a StatefulSet pod's endpoint when its pools seem to have changed, as
        those of NICs without names always do. The ADD then takes any record of the pod's UID, by a write that changes nothing.
        """
        static = self.endpoint is not None and self.endpoint.owner_kind == "StatefulSet"
        return "a StatefulSet's pod, whose next ADD may leave its endpoint aside" if static else ""

    def _never_attached(self, pod: Pod) -> Finding | None:
        endpoint = self.endpoint
        if endpoint is None or self._shown_by(pod) or not pod.running_and_ready:
            return None
        nics = self.evidence.nics(pod)
        if not isinstance(nics, CompleteStatus):
            return None
        if not self.evidence.endpoint_agrees(pod, nics, endpoint):
            return None
        item = next((i for i in endpoint.items for a in i.addresses if a.address == self.address), None)
        if item is None and (self.pool.ref, self.record.digest) not in self.judge.memory.fenced:
            return None
        name = item.interface if item is not None else ""
        if name and any(entry.interface == name for entry in nics.entries):
            return None
        nic = f"interface {name}" if name else "an unnamed interface"
        message = f"{self._recorded_for} for {nic} that no attachment ever took: all its NICs are up without it"
        if self._set_aside:
            message += f". Freed when the pod ends ({self._set_aside})"
            return self._say(Verdict.LEAKED, Reason.NEVER_ATTACHED, message)
        return self._release(Reason.NEVER_ATTACHED, message)

    # --- Retained and Leaked --------------------------------------------------------------------------------------

    def _ended(self, claimed: ClaimedOwner, owner: _Owner) -> Finding:
        entitlement = self.evidence.entitlement(claimed.namespace, claimed.name)
        if isinstance(entitlement, Need):
            return self._incomplete(entitlement.message, (entitlement,))
        if isinstance(entitlement, Entitled) and self._kept_for(entitlement, owner):
            return self._retained(entitlement)
        match owner:
            case _Present(pod) if pod.metadata.deletion_timestamp is not None:
                return self._overdue(pod)
            case _Present(pod):
                return self._finished(pod)
            case _:
                return self._left_behind(owner)

    def _retained(self, entitlement: Entitled) -> Finding:
        message = f"{self._recorded_for}; kept, since {entitlement.by} entitles it"
        reason = Reason.VIRTUAL_MACHINE_ENTITLED if entitlement.machine else Reason.STATEFUL_SET_ENTITLED
        return self._say(Verdict.RETAINED, reason, message)

    def _kept_for(self, entitlement: Entitled, owner: _Owner) -> bool:
        """Whether an entitled owner's address is kept: by policy, and until its next pod is proven to use another."""
        if entitlement.machine:
            return True  # a pod that happens to have a machine's name proves nothing about the machine
        if isinstance(owner, _Replaced) and self._uses_another(owner.pod):
            return False
        retention = self.policy.retention
        if retention.rule is RetentionRule.RELEASE_AFTER:
            absent = self.judge.memory.absent_since.get((self.pool.ref, self.record.digest), self.now)
            return self.now - absent < timedelta(seconds=retention.after)
        return retention.rule is RetentionRule.WHILE_ENTITLED

    def _uses_another(self, pod: Pod) -> bool:
        """Whether the pod that has the owner's name is proven to use another address in the record's place."""
        nics = self.evidence.nics(pod)
        if not pod.running_and_ready or not isinstance(nics, CompleteStatus) or self._shown_by(pod):
            return False
        if isinstance(self.evidence.status(pod), NoStatus) and not self.judge.backend.one_address_per_family:
            return False
        default = next((entry for entry in nics.entries if entry.default), nics.entries[0])
        if not set(default.ips) & set(self.evidence.pod_addresses(pod)):
            return False
        family = family_of(self.address)
        same = (
            [entry for entry in nics.entries if entry.interface == self.interface] if self.interface else nics.entries
        )
        ours = [entry for entry in same if self.evidence.may_be_ours(entry.network, entry.ips)]
        if not self.record.uid and (
            self.evidence.same_sandbox(pod, self.record) or not (ours or pod.annotations.networks)
        ):
            return False  # it is of this very sandbox; or the NIC is not one that the pod asked for, and may be a default one
        return all(any(family_of(address) == family for address in entry.ips) for entry in ours)

    def _finished_for_good(self, pod: Pod) -> bool:
        """Whether a Succeeded or Failed pod's containers ended longer than `grace` ago and will not be started again."""
        if pod.status.phase == "Succeeded" and pod.spec.restart_policy == "Always":
            return False
        ended = _ended_at(pod)
        return ended is not None and self.now - ended > timedelta(seconds=self.policy.grace)

    def _finished(self, pod: Pod) -> Finding:
        message = f"{self._recorded_for}, which {pod.status.phase.lower()} and will not start again"
        if self.policy.release_finished_pods:
            return self._release(Reason.OWNER_FINISHED, message, excepted=pod.metadata.uid, pod=pod)
        message += "; kept, since finishedPods is Keep"
        return self._say(Verdict.LEAKED, Reason.OWNER_FINISHED, message)

    def _overdue(self, pod: Pod) -> Finding:
        deadline = pod.metadata.deletion_timestamp
        late = f"{self._recorded_for}, which should have ended by {deadline:%Y-%m-%dT%H:%M:%SZ}"
        no_sandbox = not pod.ips or pod.condition("PodReadyToStartContainers") == "False"
        if _all_terminated(pod) and no_sandbox:
            message = f"{late}; its containers have ended and its sandbox is gone"
            return self._release(Reason.OWNER_OVERDUE, message, excepted=pod.metadata.uid, pod=pod)
        node = pod.spec.node_name
        missing = self.evidence.nodes_needed()
        if missing:
            return self._incomplete(missing[0].message, missing)
        if node and not self.evidence.node_answers(node):
            message = f"{late}, but node {node} is not Ready or gone: it may run on"
            grace = self._min_grace(pod)
            return self._say(
                Verdict.UNKNOWN, Reason.NODE_UNREACHABLE, message, node=node, waits_for=(node,), min_grace=grace
            )
        message = f"{late}, but its containers or its sandbox may still run"
        return self._say(Verdict.UNKNOWN, Reason.OWNER_STUCK, message, node=node, min_grace=self._min_grace(pod))

    def _unconfirmed(self) -> Finding | None:
        """Unknown, while the IPAM's own proof of removal is missing."""
        removals = self.pool.removals
        if not isinstance(removals, Removals) or self.record.uid in removals.confirmed:
            return None
        missing = self.evidence.proofs_needed()
        if missing:
            return self._incomplete(missing[0].message, missing)
        message = f"{self._recorded_for}, and no node has reported that its network was taken down"
        return self._say(Verdict.UNKNOWN, Reason.REMOVAL_UNCONFIRMED, message)

    def _left_behind(self, owner: _Owner) -> Finding:
        unconfirmed = self._unconfirmed()
        if unconfirmed is not None:
            return unconfirmed
        ref, digest = self.pool.ref, self.record.digest
        node = self.evidence.node_of(ref, self.record)
        if self.policy.node_evidence_required:
            first_seen = self.judge.memory.first_seen.get((ref, digest), self.now)
            evidence = self.evidence.node_evidence(ref, node, first_seen, self.policy.node_gone_grace)
            match evidence:
                case Need():
                    return self._incomplete(evidence.message, (evidence,))
                case NodeSilent(nodes, why):
                    message = f"{self._recorded_for}, whose pod is gone, but {why}: a container may run on there"
                    grace = self._min_grace(owner.pod if isinstance(owner, _Replaced) else None)
                    return self._say(
                        Verdict.UNKNOWN, Reason.NODE_UNREACHABLE, message, node=node, waits_for=nodes, min_grace=grace
                    )
                case NodeGood():
                    pass
        if isinstance(owner, _Replaced):
            return self._release(Reason.OWNER_REPLACED, self._replaced_message(owner.pod), node=node, pod=owner.pod)
        if isinstance(owner, _Moved):
            shown = ", ".join(owner.holder.addresses)
            return self._release(
                Reason.OWNER_REPLACED, f"{self._recorded_for}, but {owner.holder} runs with {shown}", node=node
            )
        what = "pod" if isinstance(self.judge.backend.owners, PodOwners) else self._kind
        whose = "of that UID" if self.record.uid else "of that name"
        return self._release(Reason.OWNER_GONE, f"{self._recorded_for}, but no {what} {whose} exists", node=node)

    def _replaced_message(self, pod: Pod) -> str:
        created = pod.metadata.creation_timestamp
        when = f" at {created:%Y-%m-%dT%H:%M:%SZ}" if created else ""
        shown = self.evidence.pod_addresses(pod)
        uses = f"which uses {', '.join(shown)}" if shown else f"which is {pod.status.phase} and shows no address"
        return f"{self._recorded_for}, but that pod was replaced{when} by UID {pod.metadata.uid}, {uses}"

    # --- findings -------------------------------------------------------------------------------------------------

    def _release(
        self, reason: Reason, message: str, *, excepted: str = "", node: str = "", pod: Pod | None = None
    ) -> Finding:
        """A leak that may be released, unless somebody shows or may be given the address (`excepted`: the owner's UID)."""
        claimed = self.record.owner
        doubt = self._unproven_absence(claimed) if isinstance(claimed, ClaimedOwner) else None
        doubt = doubt or self._unconfirmed()
        if doubt is not None:
            return doubt
        action = Action.RELEASE
        for shower in self.evidence.shown.get(self.address, ()):
            if not (excepted and shower.uid == excepted) and not self.evidence.apart(
                shower, self.pool.ref, self.address
            ):
                action, message = Action.NONE, f"{message}; kept, since {shower.who} shows the address"
                break
        elsewhere = self.evidence.recorded_elsewhere(self.pool.ref, self.address) if action is Action.RELEASE else ""
        if elsewhere:
            action, message = Action.NONE, f"{message}; kept, since {elsewhere}"
        for listed in self.evidence.listed.get(self.address, ()):
            other = not listed.uid or listed.uid != self.record.uid
            if other and not self.evidence.lists_apart(listed, self.pool.ref):
                action, message = Action.NONE, f"{message}; kept, since the endpoint of {listed.who} lists the address"
                break
        return self._say(Verdict.LEAKED, reason, message, action=action, node=node, min_grace=self._min_grace(pod))

    def _min_grace(self, pod: Pod | None) -> int:
        """The owner's terminationGracePeriodSeconds, as far as it, its successor or its StatefulSet tells."""
        memory = self.judge.memory
        named = self.record.uid or f"{self.key[0]}/{self.key[1]}"
        known = [memory.graces.get(named, 0), memory.min_graces.get((self.pool.ref, self.record.digest), 0)]
        if pod is not None:
            known.append(pod.grace)
        found = self.evidence.stateful_set(*self.key)
        if found is not None:
            known.append(found[0].grace)
        return max(known)

    def _say(
        self,
        verdict: Verdict,
        reason: Reason,
        message: str,
        *,
        action: Action = Action.NONE,
        node: str = "",
        waits_for: tuple[str, ...] = (),
        min_grace: int = 0,
        needs: tuple[Need, ...] = (),
    ) -> Finding:
        parsed = isinstance(self.record.owner, ClaimedOwner)
        return Finding(
            self.pool.ref,
            self.record.address,
            verdict,
            reason,
            action,
            message,
            owner=OwnerId(self._kind, *self.key, self.record.uid) if parsed else NoOwner(),
            interface=self.interface if parsed else self.record.interface,
            record_digest=self.record.digest,
            node=node,
            waits_for=waits_for,
            min_grace=min_grace,
            needs=needs,
        )


def _owner_of(user: Shower) -> OwnerId | NoOwner:
    """A user of an address, as findings name it."""
    if user.pod is not None:
        return OwnerId("Pod", *user.pod.key, user.uid)
    return OwnerId(user.holder.kind.kind, *user.holder.key, user.uid) if user.holder is not None else NoOwner()


def _party_of(owner: _Owner, uid: str) -> str:
    """Who a record's owner is to others that use its address."""
    match owner:
        case _Present(pod):
            return party_of(pod)
        case _Held(party=party):
            return party
        case _Moved(holder):
            return str(holder)
        case _:
            return uid


def _statuses(pod: Pod) -> Iterator[ContainerStatus]:
    status = pod.status
    for group in (status.container_statuses, status.init_container_statuses, status.ephemeral_container_statuses):
        yield from group or ()


def _all_terminated(pod: Pod) -> bool:
    """Whether every container of the spec, init and ephemeral ones included, reports that it is terminated."""
    spec = pod.spec
    wanted = {
        c.name for group in (spec.containers, spec.init_containers, spec.ephemeral_containers) for c in group or ()
    }
    terminated = {s.name for s in _statuses(pod) if s.state is not None and s.state.terminated is not None}
    reported = {s.name for s in _statuses(pod)}
    return bool(reported) and wanted <= terminated and reported <= terminated


def _ended_at(pod: Pod) -> datetime | None:
    """When the last container ended; None unless all are terminated and one says when."""
    if not _all_terminated(pod):
        return None
    times = [s.state.terminated.finished_at for s in _statuses(pod) if s.state and s.state.terminated]
    return max((time for time in times if time is not None), default=None)
