"""What `audit` and `gc` print: one JSON object (a contract), the same as YAML, or tables for people."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from poolwarden.gc.examine import Judged, PoolReport
from poolwarden.gc.ledger import REPAIRED, Entry, Phase
from poolwarden.gc.release import Outcome
from poolwarden.gc.states import States, Uncounted
from poolwarden.gc.sweep import SweepReport
from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.verdict import Action, Finding, OwnerId, Verdict


def is_reported(finding: Finding) -> bool:
    """Whether a finding is one to report: a record that is simply InUse or Retained is not."""
    return finding.verdict not in {Verdict.IN_USE, Verdict.RETAINED}


def audit_report(judged: Judged, pools: Sequence[PoolReport], *, complete: bool) -> dict[str, Any]:
    """The AuditReport (`poolwarden.dev/v1alpha1`) of a judgement, in builtin types; absent values are None."""
    first_seen = {
        (report.pool.ref, entry.record_digest): entry.first_seen for report in pools for entry in report.ledger.entries
    }
    return {
        "apiVersion": "poolwarden.dev/v1alpha1",
        "kind": "AuditReport",
        "generatedAt": _time(judged.at),
        "complete": complete,
        "pools": [_pool(report) for report in pools],
        "findings": [_finding(finding, first_seen) for finding in reported(judged, pools)],
    }


def reported(judged: Judged, pools: Sequence[PoolReport]) -> list[Finding]:
    """The findings of an AuditReport, in its order: those to report about these pools, or about none that was read."""
    shown = {report.pool.ref for report in pools}
    known = {pool.ref for inventory in judged.snapshot.inventories for pool in inventory.pools}
    return [f for f in judged.findings if is_reported(f) and (f.pool in shown or f.pool not in known)]


def _pool(report: PoolReport) -> dict[str, Any]:
    ref = report.pool.ref
    match report.states:
        case States(size, allocated, unknown, cooldown, free):
            states = {"size": size, "allocated": allocated, "unknown": unknown, "cooldown": cooldown, "free": free}
        case Uncounted(size):
            states = {"size": size, **dict.fromkeys(("allocated", "unknown", "cooldown", "free"))}  # type: ignore[dict-item]
    return {
        "ipam": ref.ipam,
        "namespace": ref.namespace or None,
        "name": ref.name,
        **states,
        "findings": sum(map(is_reported, report.findings)),
    }


def _finding(finding: Finding, first_seen: Mapping[tuple[PoolRef, str], datetime]) -> dict[str, Any]:
    owner = finding.owner
    seen = first_seen.get((finding.pool, finding.record_digest or finding.subject_digest))
    return {
        "ipam": finding.pool.ipam,
        "poolNamespace": finding.pool.namespace or None,
        "pool": finding.pool.name or None,
        "address": finding.address,
        "interface": finding.interface or None,
        "owner": {"kind": owner.kind, "namespace": owner.namespace, "name": owner.name, "uid": owner.uid or None}
        if isinstance(owner, OwnerId)
        else None,
        "verdict": finding.verdict.value,
        "reason": finding.reason.value,
        "message": finding.message,
        "firstSeen": _time(seen) if seen else None,
        "action": finding.action.value,
    }


def _time(time: datetime) -> str:
    return time.replace(microsecond=0).isoformat().replace("+00:00", "Z")


def audit_table(report: Mapping[str, Any]) -> str:
    """An AuditReport for people: pools, then findings, each with its message under it."""
    pools = [("IPAM", "POOL", "SIZE", "ALLOCATED", "UNKNOWN", "COOLDOWN", "FREE", "FINDINGS")]
    for pool in report["pools"]:
        name = f"{pool['namespace']}/{pool['name']}" if pool["namespace"] else pool["name"]
        states = (pool[key] for key in ("size", "allocated", "unknown", "cooldown", "free", "findings"))
        pools.append((pool["ipam"], name, *("?" if value is None else str(value) for value in states)))
    blocks = [columns(pools)] if report["pools"] else []
    if report["findings"]:
        blocks.append("\n".join(_finding_lines(report["findings"])))
    return "\n\n".join([*blocks, *conclusion(report)])


def conclusion(report: Mapping[str, Any]) -> list[str]:
    """What an AuditReport comes to: whether it is the whole story, and how much was found."""
    lines = []
    if not report["complete"]:
        lines.append("Not everything could be read: what is not told here is not known to be in order.")
    if report["complete"] and not report["pools"]:
        lines.append("There is not one pool: nothing was checked.")
    elif report["complete"] or report["findings"]:
        lines.append(_summary(report["findings"]))
    return lines


def _finding_lines(findings: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for finding in findings:
        where = f"{finding['pool'] or '-'} {finding['address'] or '(pool)'}"
        action = "" if finding["action"] == Action.NONE else f"  -> {finding['action']}"
        yield f"{where}  {finding['verdict']} · {finding['reason']}{action}"
        yield f"    {finding['message']}"


def _summary(findings: Sequence[Mapping[str, Any]]) -> str:
    if not findings:
        return "Nothing to report."
    counts = {
        verdict: sum(f["verdict"] == verdict for f in findings)
        for verdict in ("Leaked", "Conflict", "Drift", "Unknown")
    }
    told = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    release = sum(finding["action"] == Action.RELEASE for finding in findings)
    return f"{told}; {release} address{'es' if release != 1 else ''} would be released."


def sweep_lines(report: SweepReport, *, may_release: bool) -> list[str]:
    """A sweep for people, line by line: what it found, what waits and for what, what it freed and what it did not."""
    findings = [finding for finding in report.findings if is_reported(finding)]
    leaked = sum(finding.verdict is Verdict.LEAKED for finding in findings)
    done = [result.outcome for _, result in report.released]
    released = done.count(Outcome.RELEASED)
    records = sum(len(pool.pool.readable_records) for pool in report.pools)
    read = f"{_counted(len(report.pools), 'pool')}, {_counted(records, 'record')}"
    hidden = done.count(Outcome.HIDDEN)
    fates = f"{released} released, {f'{hidden} hidden first, ' * bool(hidden)}{len(done) - released - hidden} not"
    found = f"{_counted(len(findings), 'finding')}, {leaked} leaked; {fates}"
    lines = [f"{read}: {found}"]
    lines += [
        _waiting(pool, entry, report.at) for pool in report.pools for entry in pool.ledger.entries if entry.due_at
    ]
    lines += [
        f"  {ref.name} {result.entry.address}  {result.outcome}: {result.message}" for ref, result in report.released
    ]
    lines += [f"  {ref.name} {item.entry.reason}  {item.outcome}: {item.message}" for ref, item in report.repaired]
    lines += [f"  {ref.name} is braked: {why}" for ref, why in report.braked]
    if not may_release:
        lines.append("Mode observe: no IPAM object was touched.")
    return lines


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _waiting(pool: PoolReport, entry: Entry, now: datetime) -> str:
    """What an entry waits for, and until when."""
    assert entry.due_at is not None
    what = f"repair ({entry.reason})" if entry.reason in REPAIRED else "release"
    phase = "grace" if entry.phase is Phase.SIGHTED else "cooldown"
    when = f"{phase} until {_time(entry.due_at)}" if entry.due_at > now else f"due since {_time(entry.due_at)}"
    return f"  {pool.pool.ref.name} {entry.address}  waits for {what}, {when}"


def columns(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text, aligned as `kubectl get` does."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)
