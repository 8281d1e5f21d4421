"""The whole story of one address: who recorded it, who shows it, what was decided and what happens next."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from poolwarden.gc.brakes import Braked
from poolwarden.gc.course import brake_of
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.examine import Judged, kept_ledgers
from poolwarden.gc.ledger import Entry, Ledger, Phase, digest_of
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.ipam.pool import ClaimedOwner, Pool, Record
from poolwarden.ipam.reservation import Reservation
from poolwarden.ipam.verdict import Action, Finding, Verdict


def explain(judged: Judged, address: str, pools: Sequence[str]) -> tuple[list[str], bool]:
    """The story of a canonical address in the pools of these names (none: all), line by line, and whether there is a finding to report."""
    lines: list[str] = []
    reported = False
    for backend in judged.backends:
        evidence = Evidence(judged.snapshot, backend, judged.at)
        for pool in evidence.pools:
            records = [record for record in pool.readable_records if record.address == address]
            findings = [f for f in judged.findings if f.pool == pool.ref and f.address == address]
            if pools and not pool.ref.spellings & set(pools):
                continue
            if not records and not findings and address not in pool.configured:
                continue
            reported |= any(f.verdict not in {Verdict.IN_USE, Verdict.RETAINED} for f in findings)
            lines += [""] * bool(lines)
            lines += _story(judged, evidence, pool, address, records, findings)
    if not lines:
        return [f"{address} is in no pool that was read" + (f" (looked in {', '.join(pools)})" if pools else "")], False
    return lines, reported


def _story(
    judged: Judged, evidence: Evidence, pool: Pool, address: str, records: Sequence[Record], findings: Sequence[Finding]
) -> Iterator[str]:
    policy = judged.guards.policies.of(pool.ref)
    ledger = kept_ledgers(judged).get(pool.ref, Ledger())
    yield f"{address} in {pool.ref}"
    yield f"  range     {_range(pool, address)}"
    yield from _recorded(evidence, pool, address, records)
    yield from _holders(evidence, address)
    for finding in findings:
        yield f"  verdict   {finding.verdict} · {finding.reason}, action {finding.action}"
        yield f"            {finding.message}"
    for released in _released(judged, pool, address):
        yield f"  history   {released}"
    for entry in ledger.entries:
        if entry.address == address:
            yield f"  ledger    {entry.phase}, first seen {entry.first_seen:%Y-%m-%dT%H:%M:%SZ}"
    entries = [entry for entry in ledger.entries if entry.address == address]
    for wanted in [finding for finding in findings if finding.action is not Action.NONE]:
        mine = [entry for entry in entries if entry.record_digest == digest_of(wanted)]
        yield f"  next      {_next(wanted, mine, policy, judged.at)}"
        state = brake_of(judged, pool, [f for f in judged.findings if f.pool == pool.ref])
        if isinstance(state, Braked):
            yield f"  braked    {state.why}"
    if all(finding.action is Action.NONE for finding in findings):
        yield "  next      nothing: gc leaves it alone" if records or findings else "  next      free: nothing to do"


def _recorded(evidence: Evidence, pool: Pool, address: str, records: Sequence[Record]) -> Iterator[str]:
    for record in records:
        yield f"  record    {record.raw.decode('utf-8', 'replace')}"
        yield f"  digest    {record.digest}"
        if record.hidden:
            yield "  hidden    it carries poolwarden's mark: its IPAM does not find it for an owner of that name"
    if not records:
        yield "  record    none"
    for reservation in evidence.reservations:
        if (reservation.network, reservation.address) == (pool.network, address):
            yield f"  reserved  by {reservation.namespace}/{reservation.name} for {_owner_name(reservation)}"


def _owner_name(reservation: Reservation) -> str:
    owner = reservation.owner
    return f"{owner.namespace}/{owner.name}" if isinstance(owner, ClaimedOwner) else "nobody that can be read"


def _holders(evidence: Evidence, address: str) -> Iterator[str]:
    for shower in evidence.shown.get(address, ()):
        via = f"network {shower.network}, interface {shower.interface}" if shower.network else "podIPs or status"
        yield f"  shown by  {shower.who} ({via})"
    for endpoint in evidence.endpoints.values():
        for item in endpoint.items:
            if any(listed.address == address for listed in item.addresses):
                nic = item.interface or "no interface name"
                yield f"  endpoint  {endpoint.namespace}/{endpoint.name} (UID {endpoint.owner_uid}, {nic}, node {endpoint.node})"


def _range(pool: Pool, address: str) -> str:
    if address in pool.ranges:
        return f"inside {pool.ranges}"
    if address in pool.configured:
        return f"inside {pool.configured}, but excluded or reserved"
    return f"outside {pool.configured}"


def _released(judged: Judged, pool: Pool, address: str) -> Iterator[str]:
    guard = judged.guards.by_pool.get(pool.ref)
    for item in guard.status.released if guard is not None else ():
        if item.address == address:
            back = f", put back {item.restored_at:%Y-%m-%dT%H:%M:%SZ}" if item.restored_at else ""
            yield f"released {item.released_at:%Y-%m-%dT%H:%M:%SZ} ({item.reason}): {item.record}{back}"


def _next(wanted: Finding, entries: Sequence[Entry], policy: Policy, now: datetime) -> str:
    modes = [mode.value for mode in Ceiling if policy.may_release(mode)]
    where = f"by gc in mode {' or '.join(modes)}" if modes else "by no gc: the pool's guard forbids it"
    what = f"{wanted.action} ({wanted.reason}) {where}"
    if not entries:
        grace = max(policy.grace, wanted.min_grace)
        return f"{what}, after {grace} s of grace and {policy.cooldown} s of cooldown from its first sighting"
    entry = entries[0]
    if entry.due_at is None:
        return f"{what}, once its grace has begun to count"
    if entry.phase is Phase.SIGHTED:
        return f"cooldown of {policy.cooldown} s from {entry.due_at:%Y-%m-%dT%H:%M:%SZ} on, then {what}"
    late = " (due now)" if entry.due_at <= now else ""
    return f"{what} from {entry.due_at:%Y-%m-%dT%H:%M:%SZ} on{late}"
