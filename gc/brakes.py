"""The brakes at the last step: a pool in which too much seems leaked is more likely misread than leaking."""

from collections.abc import Iterable

from msgspec import Struct

from poolwarden.gc.policy import Policy
from poolwarden.ipam.verdict import Action, Finding, Verdict

FEW_RECORDS = 3
"""In a pool of up to three records, none in use is nothing unusual."""


class Open(Struct, frozen=True, tag=True):
    """Nothing unusual: releases may go on."""


class Acknowledged(Struct, frozen=True, tag=True):
    """Unusual, and the operator has acknowledged as many candidates."""

    candidates: int
    why: str


class Braked(Struct, frozen=True, tag=True):
    """Unusual: nothing is released in the pool."""

    candidates: int
    why: str


def brake(
    findings: Iterable[Finding], policy: Policy, generation: int, spent_generation: int
) -> Open | Acknowledged | Braked:
    """Judge one pool's findings. `generation` is its guard's, `spent_generation` the one whose acknowledgement is spent."""
    records = in_use = candidates = 0
    for finding in findings:
        if finding.record_digest:
            records += 1
            in_use += finding.verdict is Verdict.IN_USE
            candidates += finding.action is Action.RELEASE
    if candidates * 2 > records:
        why = f"{candidates} of {records} records are candidates for release, more than half"
    elif candidates and not in_use and records > FEW_RECORDS:
        why = f"none of {records} records is in use, {candidates} are candidates for release"
    else:
        return Open()
    if generation > spent_generation and policy.acknowledged_leaks >= candidates:
        return Acknowledged(candidates, f"{why}; acknowledged up to {policy.acknowledged_leaks}")
    return Braked(candidates, f"{why}; set spec.acknowledgedLeaks to {candidates} to let gc go on")
