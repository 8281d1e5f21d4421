"""`release` and `restore`: what an operator does to one address, under every guard but grace and cooldown."""

from collections.abc import Callable, Iterator
from datetime import datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from poolwarden.cluster.interface import Cluster, Doubt, Incomplete, Written
from poolwarden.gc.brakes import Braked
from poolwarden.gc.course import brake_of
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.examine import Judged, by_pool, examine, pools_of
from poolwarden.gc.guard import PoolGuard, Released, status_change
from poolwarden.gc.live import LiveReads
from poolwarden.gc.notice import Notice, NoticeReason
from poolwarden.gc.policy import Policy
from poolwarden.gc.release import Outcome, restore
from poolwarden.gc.repair import NotDone
from poolwarden.gc.sweep import NO_PODS, NotReleased, Settings, Sweep
from poolwarden.ipam.inventory import Backend
from poolwarden.ipam.pool import Pool, Record
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Action, Finding, OwnerId


class Guard(StrEnum):
    """The guard that refused."""

    POOL = "Pool"
    RECORD = "Record"
    DIGEST = "Digest"
    VERDICT = "Verdict"
    CAP = "Cap"
    BRAKE = "Brake"
    LIVE_READ = "LiveRead"
    IN_USE = "InUse"
    HISTORY = "History"


class Did(Struct, frozen=True, tag=True):
    """It was done; `notices` are for Events."""

    message: str
    notices: tuple[Notice, ...] = ()


class Refused(Struct, frozen=True, tag=True):
    """A guard said no."""

    guard: Guard
    message: str


class CouldNot(Struct, frozen=True, tag=True):
    """It could not be done, or not be judged."""

    message: str


ByHand = Did | Refused | CouldNot
Wait = Callable[[float], bool]


class Proposal(Struct, frozen=True):
    """A record that every guard lets go, before the operator has said yes."""

    judged: Judged
    pool: Pool
    finding: Finding


def propose(
    cluster: Cluster, default: Policy, address: str, pool_name: str, digest: str
) -> Proposal | Refused | CouldNot:
    """Judge one record for release by hand. `digest` must be the record's, as `explain` shows it."""
    judged = examine(cluster, default, heed_restored=False)
    pool = _pool(judged, pool_name)
    if not isinstance(pool, Pool):
        return pool
    record = _record(pool, address, digest)
    if not isinstance(record, Record):
        return record
    findings = by_pool(judged.findings)[pool.ref]
    finding = next(item for item in findings if item.record_digest == digest)
    if finding.needs:
        return CouldNot(finding.message)
    if finding.action is not Action.RELEASE:
        return Refused(Guard.VERDICT, f"{finding.verdict} · {finding.reason}: {finding.message}")
    if not judged.snapshot.pods.items:
        return CouldNot(NO_PODS)
    policy = judged.guards.policies.of(pool.ref)
    if not policy.most_releases(pool.ranges.size):
        return Refused(Guard.CAP, "its PoolGuard says maxReleasesPerSweep: 0")
    state = brake_of(judged, pool, findings)
    return Refused(Guard.BRAKE, state.why) if isinstance(state, Braked) else Proposal(judged, pool, finding)


def release_by_hand(cluster: Cluster, default: Policy, proposal: Proposal, wait: Wait) -> ByHand:
    """Release what was proposed, if the live reads still say so."""
    sweep = Sweep(cluster, Settings(default=default), wait)
    fate = sweep.release_one(proposal.judged, proposal.pool, proposal.finding)
    if isinstance(fate, NotReleased):
        return CouldNot(fate.why)
    match fate.outcome:
        case Outcome.RELEASED:
            return Did(f"{proposal.finding.address} released from {proposal.pool.ref.name}", tuple(sweep.notices))
        case Outcome.FAILED | Outcome.DEFERRED | Outcome.UNVERIFIED | Outcome.HIDDEN:
            return CouldNot(fate.message)
        case Outcome.KEPT | Outcome.GONE | Outcome.RESTORED:
            return Refused(Guard.LIVE_READ, fate.message)


def restore_by_hand(cluster: Cluster, default: Policy, address: str, pool_name: str, wait: Wait) -> ByHand:
    """Put the record of an address that gc released last back, if nobody has or shows the address."""
    judged = examine(cluster, default)
    pool = _pool(judged, pool_name)
    if not isinstance(pool, Pool):
        return pool
    guard = judged.guards.by_pool.get(pool.ref)
    past = [item for item in guard.status.released if item.address == address] if guard is not None else []
    if guard is None or not past or past[-1].restored_at is not None:
        return Refused(Guard.HISTORY, f"gc has released no record of {address} in {pool_name} that is not back already")
    if guard.status.pool_uid != pool.uid:
        return Refused(Guard.HISTORY, f"{address} was released from an earlier pool named {pool_name}")
    backend = BACKENDS[pool.ref.ipam]
    namespace = past[-1].owner.namespace if past[-1].owner else ""
    unread = _unread(judged, backend, namespace)
    if unread:
        return CouldNot(f"whether {address} is in use is not known: {unread}")
    users = next(_users(judged, backend, pool, address, past[-1]), "")
    if users:
        return Refused(Guard.IN_USE, users)
    done = restore(LiveReads(cluster, backend, judged.snapshot), pool.ref, address, past[-1].record.encode(), wait)
    if isinstance(done, NotDone):
        return CouldNot(done.why)
    digest = backend.record(address, past[-1].record.encode()).digest
    noted = _note_restored(cluster, guard, past[-1], digest, cluster.now().replace(microsecond=0))
    if not isinstance(noted, Did):
        return noted
    notice = Notice(pool.ref, pool.uid, NoticeReason.ADDRESS_RESTORED, f"{noted.message}, by hand")
    return Did(noted.message, (notice,))


def _note_restored(cluster: Cluster, guard: PoolGuard, item: Released, digest: str, now: datetime) -> ByHand:
    """Write down that the record is back, so that gc holds it. Its digest may be another: its key is canonical now."""
    back = msgspec.structs.replace(item, restored_at=now, record_digest=digest)
    released = tuple(back if entry == item else entry for entry in guard.status.released)
    body = status_change(guard, msgspec.structs.replace(guard.status, released=released))
    outcome = cluster.patch(POOL_GUARDS, body, name=guard.metadata.name, subresource="status")
    was = item.owner
    owner = str(OwnerId(was.kind, was.namespace, was.name, was.uid)) if was else item.record
    done = f"{item.address} is recorded for {owner} again"
    if isinstance(outcome, Written):
        return Did(done)
    return CouldNot(f"{done}, but its PoolGuard could not be told, so gc will judge it as any other record")


def _unread(judged: Judged, backend: Backend, namespace: str) -> str:
    """What could not be read of all that may show, list or record an address; "" if nothing."""
    needs = Evidence(judged.snapshot, backend, judged.at).needs_for_release(namespace)
    machines = (judged.snapshot.machines.coverage, judged.snapshot.machine_instances.coverage)
    refused = [c.message for c in machines if isinstance(c, Incomplete) and c.doubt is not Doubt.NOT_GIVEN]
    return next(iter([*(need.message for need in needs), *refused]), "")


def _users(judged: Judged, backend: Backend, pool: Pool, address: str, item: Released) -> Iterator[str]:
    """Who has the address or shows it, the record's own owner aside."""
    owner = item.owner.uid if item.owner is not None else ""
    evidence = Evidence(judged.snapshot, backend, judged.at)
    for other in pools_of(judged.snapshot):
        if other.ref.ipam == pool.ref.ipam and not evidence.networks_apart(pool.ref, other.ref):
            for record in other.readable_records:
                if record.address == address:
                    yield f"{other.ref.name} records {address} for {record.raw.decode('utf-8', 'replace')}"
    for shower in evidence.shown.get(address, ()):
        if not (owner and shower.uid == owner) and not evidence.apart(shower, pool.ref, address):
            yield f"{shower.who} shows {address}"
    for listed in evidence.listed.get(address, ()):
        if (not listed.uid or listed.uid != owner) and not evidence.lists_apart(listed, pool.ref):
            yield f"the endpoint of {listed.who} lists {address}"


def _pool(judged: Judged, name: str) -> Pool | Refused | CouldNot:
    found = [pool for pool in pools_of(judged.snapshot) if name in pool.ref.spellings]
    if len(found) == 1:
        return found[0]
    if found:
        return Refused(Guard.POOL, f"{name} names several pools: {', '.join(str(pool.ref) for pool in found)}")
    if judged.problems:
        return CouldNot(f"pool {name} was not found, and not everything could be read: {judged.problems[0]}")
    return Refused(Guard.POOL, f"there is no pool {name}")


def _record(pool: Pool, address: str, digest: str) -> Record | Refused:
    records = [record for record in pool.readable_records if record.address == address]
    if not records:
        return Refused(Guard.RECORD, f"{pool.ref.name} has no record of {address}")
    found = next((record for record in records if record.digest == digest), None)
    if found is None:
        held = ", ".join(record.digest for record in records)
        return Refused(Guard.DIGEST, f"the record of {address} has digest {held}, not {digest}")
    return found
