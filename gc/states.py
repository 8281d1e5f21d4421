"""Counting: each address of a pool is in exactly one state, and the states sum to the pool's size."""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from msgspec import Struct

from poolwarden.ipam.pool import Pool, RecordsUnreadable
from poolwarden.ipam.verdict import Finding, Verdict


class States(Struct, frozen=True, tag=True):
    """How many addresses of a pool are in each state; exact, even for a /64."""

    size: int
    allocated: int
    unknown: int
    cooldown: int
    free: int


class Uncounted(Struct, frozen=True, tag=True):
    """The pool's records cannot be read: only its size is known (0 = not even that)."""

    size: int


def count(pool: Pool, findings: Iterable[Finding], cooling: AbstractSet[str]) -> States | Uncounted:
    """The states of a pool, given its findings and the digests of records in cooldown.

    A record outside the ranges is in no state; an address in use but unrecorded is unknown.
    """
    size = pool.ranges.size
    if isinstance(pool.records, RecordsUnreadable):
        return Uncounted(size)
    unknown: set[str] = set()
    cooldown: set[str] = set()
    recorded: set[str] = set()
    for finding in findings:
        address = finding.address
        if address is None or address not in pool.ranges:
            continue
        if finding.record_digest:
            recorded.add(address)
            if finding.verdict is Verdict.UNKNOWN:
                unknown.add(address)
            elif finding.record_digest in cooling:
                cooldown.add(address)
        elif finding.verdict is Verdict.CONFLICT:
            unknown.add(address)
        elif finding.verdict is Verdict.IN_USE:
            recorded.add(address)  # claimed by a controller, and in use without a record
    cooldown -= unknown
    used = len(recorded | unknown)
    return States(size, used - len(unknown) - len(cooldown), len(unknown), len(cooldown), size - used)
