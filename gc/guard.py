"""PoolGuard: an operator's settings for one pool, and gc's memory of it (`poolguards.poolwarden.dev/v1alpha1`)."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from poolwarden.cluster.interface import Listing, Partial
from poolwarden.gc.ledger import Entry, LedgerOwner, Phase
from poolwarden.gc.policy import Mode, Policies, Policy, Retention, RetentionRule, Unbalanced, Watermarks
from poolwarden.gc.snapshot import Memory, RecordKey, Snapshot, covers
from poolwarden.gc.states import States, Uncounted
from poolwarden.ipam.objects import Metadata, Timestamp
from poolwarden.ipam.pool import ClaimedOwner, PoolRef, Record, RecordsUnreadable
from poolwarden.ipam.pool_guard import POOL_GUARDS, GuardPoolRef, guard_name
from poolwarden.ipam.ranges import AddressSet, RangeError, address_set, parse_range
from poolwarden.ipam.verdict import Reason

MADE_BY = "poolwarden.dev/made-by"
REFRESH = timedelta(minutes=30)
"""An otherwise unchanged status is written again after this long, so that `observedAt` tells that gc lives."""
MOST_RELEASED = 100
RECENT = 2 * REFRESH
"""A status older than this is no memory of nodes: they may have come back and gone again unseen."""


Seconds = Annotated[int, Meta(ge=0, le=7 * 86400)]
"""A duration that a guard may set; the definition in manifests/crd has the same bounds."""
LONGEST_RETENTION = 365 * 86400


class SetRetention(Struct, frozen=True, rename="camel"):
    """spec.retention.statefulSets."""

    policy: RetentionRule = RetentionRule.WHILE_ENTITLED
    after_seconds: Annotated[int, Meta(ge=0, le=LONGEST_RETENTION)] = 0


class GuardRetention(Struct, frozen=True, rename="camel"):
    """spec.retention."""

    stateful_sets: SetRetention = SetRetention()


class FreeAddresses(Struct, frozen=True):
    """spec.freeAddresses."""

    low: Annotated[int, Meta(ge=1)]
    target: Annotated[int, Meta(ge=1)]
    high: Annotated[int, Meta(ge=1)]


class GuardSpec(Struct, frozen=True, rename="camel"):
    """spec: what is None takes the program's default."""

    pool_ref: GuardPoolRef
    mode: Mode | None = None
    grace_seconds: Seconds | None = None
    cooldown_seconds: Seconds | None = None
    max_releases_per_sweep: Annotated[int, Meta(ge=0)] | None = None
    max_release_percent: Annotated[int, Meta(ge=0, le=100)] | None = None
    acknowledged_leaks: Annotated[int, Meta(ge=0)] | None = None
    finished_pods: Literal["Keep", "Release"] | None = None
    node_evidence: Literal["Required", "Ignore"] | None = None
    retention: GuardRetention | None = None
    keep: tuple[str, ...] | None = None
    ignore_namespaces: tuple[str, ...] | None = None
    free_addresses: FreeAddresses | None = None
    reserve: tuple[str, ...] | None = None


class Addresses(Struct, frozen=True):
    """status.addresses: decimal strings, since a /64 overflows an int64; None where they cannot be counted."""

    size: str | None = None
    allocated: str | None = None
    unknown: str | None = None
    cooldown: str | None = None
    free: str | None = None


class FindingCounts(Struct, frozen=True):
    """status.findings."""

    leaked: int = 0
    conflict: int = 0
    drift: int = 0
    unknown: int = 0


class Released(Struct, frozen=True, rename="camel"):
    """A record that gc took out of the pool, and what `restore` puts back."""

    address: str
    record: str
    record_digest: str
    reason: str
    released_at: Timestamp
    owner: LedgerOwner | None = None
    restored_at: Timestamp | None = None


class NodeSince(Struct, frozen=True):
    """A node that records wait for, absent (`nodesGone`) or not Ready (`nodesSilent`) since."""

    name: str
    since: Timestamp


class GuardCondition(Struct, frozen=True, rename="camel"):
    """metav1.Condition."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: Timestamp
    observed_generation: int = 0


class GuardStatus(Struct, frozen=True, rename="camel"):
    """status."""

    observed_at: Timestamp | None = None
    pool_uid: str = msgspec.field(name="poolUID", default="")
    addresses: Addresses = Addresses()
    findings: FindingCounts = FindingCounts()
    ledger: tuple[Entry, ...] = ()
    ledger_omitted: int = 0
    released: tuple[Released, ...] = ()
    nodes_gone: tuple[NodeSince, ...] = ()
    nodes_silent: tuple[NodeSince, ...] = ()
    extended: tuple[str, ...] = ()
    spent_generation: int = 0
    conditions: tuple[GuardCondition, ...] = ()


class GuardMetadata(Metadata, frozen=True, rename="camel"):
    """metav1.ObjectMeta, with the labels that tell who made a guard."""

    labels: dict[str, str] | None = None


class PoolGuard(Struct, frozen=True):
    """A PoolGuard."""

    metadata: GuardMetadata
    spec: GuardSpec
    status: GuardStatus = GuardStatus()

    @property
    def ref(self) -> PoolRef:
        """The pool it guards."""
        return self.spec.pool_ref.ref

    @property
    def canonical(self) -> bool:
        """Whether it has the one name that is heeded for its pool."""
        return self.metadata.name == guard_name(self.ref)

    @property
    def untouched(self) -> bool:
        """Whether gc made it and nobody has changed its spec since."""
        return bool(self.metadata.labels) and self.metadata.generation <= 1 and MADE_BY in (self.metadata.labels or {})


def new_guard(ref: PoolRef) -> dict[str, Any]:
    """The guard that gc makes for a pool that has none: it says nothing but which pool."""
    return {
        "apiVersion": POOL_GUARDS.api_version,
        "kind": POOL_GUARDS.kind,
        "metadata": {"name": guard_name(ref), "labels": {MADE_BY: "gc"}},
        "spec": {
            "poolRef": {"ipam": ref.ipam, **({"namespace": ref.namespace} if ref.namespace else {}), "name": ref.name}
        },
    }


class Guards(Struct, frozen=True):
    """The guards that count, by pool; those with another name for the same pool; and what is wrong with any."""

    by_pool: Mapping[PoolRef, PoolGuard]
    ignored: tuple[PoolGuard, ...]
    policies: Policies
    problems: tuple[str, ...]


def read_guards(listing: Listing[PoolGuard], default: Policy) -> Guards:
    """Sort guards and turn their specs into policies. A pool whose guard cannot be read is Off: doubt keeps."""
    by_pool = {guard.ref: guard for guard in listing.items if guard.canonical}
    problems: list[str] = []
    policies: dict[PoolRef, Policy] = {}
    for ref, guard in by_pool.items():
        policies[ref] = _policy(guard, default, problems)
    problems += [
        f"PoolGuard {broken.name} cannot be read and counts as mode Off: {broken.error}"
        for broken in listing.unreadable
    ]
    ignored = tuple(guard for guard in listing.items if not guard.canonical)
    unread = frozenset(broken.name for broken in listing.unreadable)
    return Guards(by_pool, ignored, Policies(default, policies, unread), tuple(problems))


def _policy(guard: PoolGuard, default: Policy, problems: list[str]) -> Policy:
    spec = guard.spec
    try:
        keep = address_set(map(parse_range, spec.keep or ()))
    except RangeError as error:
        problems.append(f"PoolGuard {guard.metadata.name} counts as mode Off: spec.keep: {error}")
        return msgspec.structs.replace(default, mode=Mode.OFF)
    free, reserve = _stock(guard, problems)
    given: dict[str, Any] = {
        "mode": spec.mode,
        "grace": spec.grace_seconds,
        "cooldown": spec.cooldown_seconds,
        "max_releases": spec.max_releases_per_sweep,
        "max_release_percent": spec.max_release_percent,
        "acknowledged_leaks": spec.acknowledged_leaks,
        "release_finished_pods": None if spec.finished_pods is None else spec.finished_pods == "Release",
        "node_evidence_required": None if spec.node_evidence is None else spec.node_evidence != "Ignore",
        "ignore_namespaces": None if spec.ignore_namespaces is None else frozenset(spec.ignore_namespaces),
        "keep": keep,
        "free": free,
        "reserve": reserve,
    }
    if spec.retention is not None:
        sets = spec.retention.stateful_sets
        given["retention"] = Retention(sets.policy, sets.after_seconds)
    return msgspec.structs.replace(default, **{field: value for field, value in given.items() if value is not None})


def _stock(guard: PoolGuard, problems: list[str]) -> tuple[Watermarks | Unbalanced, AddressSet]:
    """How many addresses shall be free, and from where; a mistake in either leaves the pool as it is."""
    marks = guard.spec.free_addresses
    try:
        reserve = address_set(map(parse_range, guard.spec.reserve or ()))
    except RangeError as error:
        problems.append(f"PoolGuard {guard.metadata.name}: the pool is not resized: spec.reserve: {error}")
        return Unbalanced(), AddressSet()
    if marks is None:
        return Unbalanced(), reserve
    if not marks.low <= marks.target <= marks.high:
        problems.append(
            f"PoolGuard {guard.metadata.name}: the pool is not resized: spec.freeAddresses: "
            f"low ({marks.low}) must be less than or equal to target ({marks.target}), and that to high ({marks.high})"
        )
        return Unbalanced(), reserve
    return Watermarks(marks.low, marks.target, marks.high), reserve


class Recollection(Struct, frozen=True):
    """What one process remembers from sweep to sweep.

    `graces` and `node_of` are by pod UID (termination grace in seconds, by namespace/name as well for records without a
    UID; where it runs), `nodes` the names of all nodes
    at the last sweep, which was `at`, `vanished` since when a node that was there is not.
    """

    graces: Mapping[str, int] = {}
    node_of: Mapping[str, str] = {}
    nodes: frozenset[str] = frozenset()
    vanished: Mapping[str, datetime] = {}
    at: datetime | None = None

    def without_nodes(self) -> "Recollection":
        """The same, but for nodes, which may have come and gone while nobody looked."""
        return msgspec.structs.replace(self, nodes=frozenset(), vanished={})


def recollect(before: Recollection, snapshot: Snapshot, now: datetime) -> Recollection:
    """What to remember after a sweep: its pods and nodes, and of earlier pods those that a record still names.

    Nothing is forgotten for what could not be read.
    """
    if before.at is None or now - before.at > RECENT:
        before = before.without_nodes()
    pools = [pool for inventory in snapshot.inventories for pool in inventory.pools]
    records = [record for pool in pools for record in pool.readable_records]
    named = {record.uid for record in records} | {_by_name(record) for record in records if not record.uid}
    all_read = (
        not any(isinstance(pool.records, RecordsUnreadable) for pool in pools)
        and not any(snapshot.unreadable.values())
        and all(covers(coverage, "") or isinstance(coverage, Partial) for coverage in snapshot.coverage.values())
    )
    graces = {uid: grace for uid, grace in before.graces.items() if uid in named or not all_read}
    node_of = {uid: node for uid, node in before.node_of.items() if uid in named or not all_read}
    for pod in snapshot.pods.items:
        graces[pod.metadata.uid] = pod.grace
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if name in named:  # of all pods of the name the longest
            graces[name] = max(pod.grace, before.graces.get(name, 0))
        if pod.spec.node_name:
            node_of[pod.metadata.uid] = pod.spec.node_name
    if not covers(snapshot.nodes.coverage, ""):
        return Recollection(graces, node_of, before.nodes, before.vanished, now)
    nodes = {node.metadata.name for node in snapshot.nodes.items} | {item.name for item in snapshot.nodes.unreadable}
    vanished = {name: before.vanished.get(name, now) for name in (before.nodes | set(before.vanished)) - nodes}
    return Recollection(graces, node_of, frozenset(nodes), vanished, now)


def _by_name(record: Record) -> str:
    """The owner of a record without a UID, as `Recollection.graces` knows it."""
    owner = record.owner
    return f"{owner.namespace}/{owner.name}" if isinstance(owner, ClaimedOwner) else ""


def remember(guards: Guards, snapshot: Snapshot, before: Recollection, now: datetime) -> Memory:
    """What ledgers and process know, for the judge.

    The ledger of a pool that was deleted and made anew is not its. What a guard says of nodes counts while it is recent,
    and only until the node is back.
    """
    uids = {pool.ref: pool.uid for inventory in snapshot.inventories for pool in inventory.pools}
    there = {node.metadata.name: node for node in snapshot.nodes.items}
    known = recollect(before, snapshot, now)
    first_seen: dict[RecordKey, datetime] = {}
    absent_since: dict[RecordKey, datetime] = {}
    nodes: dict[RecordKey, str] = {}
    graces: dict[RecordKey, int] = {}
    gone: dict[tuple[PoolRef, str], datetime] = {}
    silent: dict[tuple[PoolRef, str], datetime] = {}
    held: set[RecordKey] = set()
    fenced: set[RecordKey] = set()
    for ref, guard in guards.by_pool.items():
        status = guard.status
        if uids.get(ref, status.pool_uid) != status.pool_uid:
            continue
        for entry in status.ledger:
            key = (ref, entry.record_digest)
            absent_since[key] = entry.first_seen
            nodes[key] = entry.node
            graces[key] = entry.min_grace_seconds
            if entry.phase is not Phase.RETAINED:
                first_seen[key] = entry.first_seen
            if entry.reason == Reason.NEVER_ATTACHED and entry.phase in {Phase.COOLDOWN, Phase.RELEASING}:
                fenced.add(key)
        held |= {(ref, item.record_digest) for item in status.released if item.restored_at is not None}
        # Too long a memory of silence only keeps; too long a memory of absence would free.
        silent |= {
            (ref, node.name): node.since
            for node in status.nodes_silent
            if node.name in there and not there[node.name].ready
        }
        if status.observed_at is not None and now - status.observed_at < RECENT:
            gone |= {(ref, node.name): node.since for node in status.nodes_gone if node.name not in there}
    return Memory(
        first_seen=first_seen,
        absent_since=absent_since,
        nodes=nodes,
        min_graces=graces,
        held=frozenset(held),
        fenced=frozenset(fenced),
        nodes_gone=gone,
        nodes_silent=silent,
        graces=known.graces,
        node_of=known.node_of,
        vanished=known.vanished,
    )


def addresses_of(states: States | Uncounted) -> Addresses:
    """States as the status carries them."""
    match states:
        case Uncounted(size):
            return Addresses(size=str(size))
        case States(size, allocated, unknown, cooldown, free):
            return Addresses(str(size), str(allocated), str(unknown), str(cooldown), str(free))


def status_change(guard: PoolGuard, status: GuardStatus) -> dict[str, Any]:
    """The merge patch that makes a guard's status this one, if the guard has not changed since it was read."""
    wire: dict[str, Any] = msgspec.to_builtins(status, str_keys=True)
    return {
        "metadata": {"resourceVersion": guard.metadata.resource_version, "uid": guard.metadata.uid},
        "status": wire,
    }


def unchanged(old: GuardStatus, new: GuardStatus, now: datetime) -> bool:
    """Whether a status need not be written: nothing but `observedAt` differs, and that is recent enough."""
    recent = old.observed_at is not None and now - old.observed_at < REFRESH
    return recent and msgspec.structs.replace(new, observed_at=old.observed_at) == old


def condition(
    old: Iterable[GuardCondition], kind: str, *, status: bool, reason: str, message: str, now: datetime, generation: int
) -> GuardCondition:
    """A condition whose lastTransitionTime moves only when its status does."""
    word = "True" if status else "False"
    before = next((item for item in old if item.type == kind), None)
    since = before.last_transition_time if before is not None and before.status == word else now
    return GuardCondition(kind, word, reason, message, since, generation)


def merged_released(old: Iterable[Released], new: Iterable[Released]) -> tuple[Released, ...]:
    """The newest hundred releases, oldest first; those put back stay longest, since gc holds their records."""
    both = (*old, *new)
    spare = len(both) - MOST_RELEASED
    dropped = {id(item) for item in [item for item in both if item.restored_at is None][: max(0, spare)]}
    return tuple(item for item in both if id(item) not in dropped)[-MOST_RELEASED:]
