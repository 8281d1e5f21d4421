"""Read and judge, and nothing else: what `audit`, `explain` and every sweep begin with."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

import msgspec
from msgspec import Struct

from poolwarden.cluster.interface import Cluster, Doubt, Incomplete, Listing
from poolwarden.gc.guard import Guards, PoolGuard, Recollection, read_guards, remember
from poolwarden.gc.judge import judge
from poolwarden.gc.ledger import Entry, Ledger, Phase
from poolwarden.gc.policy import Policy
from poolwarden.gc.read import installed, read_snapshot, reread_pools, unread, with_later
from poolwarden.gc.snapshot import Memory, Snapshot
from poolwarden.gc.states import States, Uncounted, count
from poolwarden.gc.timing import UNTIMED, Step, StepOutcome, Timers
from poolwarden.ipam.inventory import Backend
from poolwarden.ipam.pool import Pool, PoolRef
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Finding, Reason


class Judged(Struct, frozen=True):
    """A snapshot and what was found in it. `problems` are lines for people: what could not be read, or was missing."""

    at: datetime
    guards: Guards
    backends: tuple[Backend, ...]
    snapshot: Snapshot
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]


class PoolReport(Struct, frozen=True):
    """One pool, counted."""

    pool: Pool
    states: States | Uncounted
    findings: tuple[Finding, ...]
    ledger: Ledger


def examine(
    cluster: Cluster,
    default: Policy,
    ipams: Sequence[str] = (),
    before: Recollection = Recollection(),  # noqa: B008 - frozen
    *,
    heed_restored: bool = True,
    timers: Timers = UNTIMED,
) -> Judged:
    """Read everything and judge it. `ipams` are names (none: all installed ones), `before` what this process remembers.

    A record that `restore` put back is held against gc (`heed_restored`), not against an operator's own hand.

    A conflict of unrecorded use is confirmed by reading its pool once more: a pod whose ADD came between the two reads
    is no conflict.
    """
    chosen = [BACKENDS[name] for name in ipams or BACKENDS]
    with timers.step(Step.READ) as timer:
        guard_list: Listing[PoolGuard] = cluster.list(POOL_GUARDS, PoolGuard)
        guards = read_guards(guard_list, default)
        snapshot = read_snapshot(cluster, chosen, Memory())
        at = cluster.now()
        if guards.problems or isinstance(guard_list.coverage, Incomplete) or unread(snapshot):
            timer.finish(StepOutcome.FAILURE)
    memory = remember(guards, snapshot, before, at)
    memory = memory if heed_restored else msgspec.structs.replace(memory, held=frozenset())
    snapshot = msgspec.structs.replace(snapshot, memory=memory)
    with timers.step(Step.JUDGE):
        findings = judge(snapshot, guards.policies, at)
    suspects = {f.pool for f in findings if f.reason in {Reason.IN_USE_UNRECORDED, Reason.ADDRESS_HELD_TWICE}}
    if suspects:
        with timers.step(Step.READ):
            for backend in chosen:
                known = {pool.ref for pool in pools_of(snapshot) if pool.ref.ipam == backend.name}
                refs = sorted(suspects & known)
                snapshot = with_later(snapshot, reread_pools(cluster, backend, refs))
        with timers.step(Step.JUDGE):
            findings = judge(snapshot, guards.policies, at)
    backends = installed(chosen, snapshot)
    problems = [*guards.problems, *unread(snapshot)]
    match guard_list.coverage:
        case Incomplete(doubt, message) if doubt is not Doubt.NOT_GIVEN:
            problems.append(message)
        case _:
            pass
    absent = [name for name in ipams if BACKENDS[name] not in backends]
    problems += [f"{name}: its custom resources are not installed here" for name in absent]
    if not pools_of(snapshot) and not problems:
        problems += _nothing_checked(chosen, backends, snapshot)
    problems += needs_of(findings)
    return Judged(at, guards, backends, snapshot, tuple(findings), tuple(dict.fromkeys(problems)))


def _nothing_checked(chosen: Sequence[Backend], backends: Sequence[Backend], snapshot: Snapshot) -> list[str]:
    """Why there is not one pool: no IPAM that we know is there, or none was given; no problem if there just is none."""
    if not backends:
        return [f"no IPAM that poolwarden knows is installed here (looked for: {', '.join(b.name for b in chosen)})"]
    unread = [c for backend in backends if isinstance(c := snapshot.coverage[backend.pool_kind], Incomplete)]
    return [
        f"nothing was checked: {c.message}" + (f"; complete it with: {c.command}" * bool(c.command)) for c in unread
    ]


def needs_of(findings: Iterable[Finding]) -> list[str]:
    """One line for each piece of evidence that a verdict lacked, and for each pool that cannot be read."""
    lines: dict[str, None] = {}
    for finding in findings:
        for item in finding.needs:
            lines[f"{item.message}; complete it with: {item.command}" if item.command else item.message] = None
        if finding.address is None and finding.reason is Reason.EVIDENCE_INCOMPLETE:
            lines[finding.message] = None
    return list(lines)


def pools_of(snapshot: Snapshot) -> list[Pool]:
    """Every pool of a snapshot, by reference."""
    pools = (pool for inventory in snapshot.inventories for pool in inventory.pools)
    return sorted(pools, key=lambda pool: pool.ref)


def by_pool(findings: Iterable[Finding]) -> dict[PoolRef, list[Finding]]:
    """Findings by the pool that they are filed under."""
    sorted_out: dict[PoolRef, list[Finding]] = {}
    for finding in findings:
        sorted_out.setdefault(finding.pool, []).append(finding)
    return sorted_out


def pool_reports(
    judged: Judged,
    ledgers: Mapping[PoolRef, Ledger],
    now: Mapping[PoolRef, Pool] = {},
) -> tuple[PoolReport, ...]:
    """Each pool with its states, its findings and its ledger; `now` are those that were resized since."""
    findings = by_pool(judged.findings)
    return tuple(
        PoolReport(
            pool,
            count(pool, findings.get(pool.ref, ()), cooling(ledgers.get(pool.ref, Ledger()).entries)),
            tuple(findings.get(pool.ref, ())),
            ledgers.get(pool.ref, Ledger()),
        )
        for pool in (now.get(pool.ref, pool) for pool in pools_of(judged.snapshot))
    )


def kept_ledgers(judged: Judged) -> dict[PoolRef, Ledger]:
    """The ledgers as the guards keep them; none for a pool that was deleted and made anew."""
    uids = {pool.ref: pool.uid for pool in pools_of(judged.snapshot)}
    return {
        ref: Ledger(guard.status.ledger, guard.status.ledger_omitted)
        for ref, guard in judged.guards.by_pool.items()
        if guard.status.pool_uid in {"", uids.get(ref)}
    }


def cooling(entries: Iterable[Entry]) -> frozenset[str]:
    """The digests of records in cooldown."""
    return frozenset(entry.record_digest for entry in entries if entry.phase in {Phase.COOLDOWN, Phase.RELEASING})
