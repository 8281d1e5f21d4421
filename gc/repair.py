"""Writes to endpoints: removing one whole, taking addresses out, naming a NIC - each on exactly the object judged.

Deleting names uid and resourceVersion; the finalizer goes by a second write under resourceVersion; then the endpoint is
read until it is seen gone. So an agent that writes a re-created pod's endpoint meanwhile makes us stop, never the agent
fail on an object that vanished under it ("Precondition failed: UID in precondition").
"""

from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from enum import StrEnum
from typing import Any

import msgspec
from msgspec import Struct

from poolwarden.cluster.interface import (
    Absent,
    Deleted,
    Failed,
    Found,
    Listing,
    Outdated,
    PatchType,
    Unread,
    Unreadable,
    WriteOutcome,
    Written,
)
from poolwarden.gc.drift import shown_by_nic
from poolwarden.gc.evidence import Evidence
from poolwarden.gc.judge import judge
from poolwarden.gc.ledger import Entry, digest_of
from poolwarden.gc.live import NOTHING_ASIDE, Key, LiveReads
from poolwarden.gc.policy import Policies
from poolwarden.ipam.endpoint import Endpoint
from poolwarden.ipam.inventory import Change, Inventory, Stale
from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.verdict import Action, Finding, Reason

_Edit = Callable[[bytes], Change | Stale]


class Done(Struct, frozen=True, tag=True):
    """The endpoint is as wanted (or gone, where that was wanted)."""


class NotDone(Struct, frozen=True, tag=True):
    """It is not, and why."""

    why: str


def remove_endpoint(live: LiveReads, endpoint: Endpoint) -> Done | NotDone:
    """Delete exactly this endpoint, take our IPAM's finalizer off, and see it gone."""
    outcome = _remove(live, endpoint)
    if isinstance(outcome, Done):
        live.removed(endpoint)
    return outcome


def _remove(live: LiveReads, endpoint: Endpoint) -> Done | NotDone:
    if not endpoint.terminating:
        outcome = live.cluster.delete(
            endpoint.kind,
            name=endpoint.name,
            namespace=endpoint.namespace,
            uid=endpoint.uid,
            resource_version=endpoint.resource_version,
        )
        if not isinstance(outcome, Written):
            return _done(outcome, endpoint)
    match live.endpoint(endpoint.key):
        case Absent():
            return Done()
        case Unread(message=message):
            return NotDone(message)
        case Found(item=item, raw=raw):
            now = live.decoded_endpoint(item)
            if (now.uid, now.owner_uid) != (endpoint.uid, endpoint.owner_uid):
                return NotDone(f"{_name(endpoint)} is another one now")
            return _drop_finalizer(live, endpoint, raw)


def _drop_finalizer(live: LiveReads, endpoint: Endpoint, raw: bytes) -> Done | NotDone:
    change = live.endpoints.without_finalizer(raw)
    if isinstance(change, Stale):
        return NotDone(change.message)
    outcome = write(live, change)
    if not isinstance(outcome, Written):
        return _done(outcome, endpoint)
    match live.endpoint(endpoint.key):
        case Absent():
            return Done()
        case Unread(message=message):
            return NotDone(message)
        case Found(item=item):
            held = live.decoded_endpoint(item).uid == endpoint.uid
            return NotDone(f"{_name(endpoint)} is still held by another finalizer") if held else Done()


def take_out(live: LiveReads, endpoint: Endpoint, addresses: AbstractSet[str]) -> Done | NotDone:
    """Take addresses out of an endpoint, if it is still as it was judged, or as we left it."""
    now = live.endpoint(endpoint.key)
    if isinstance(now, Found):
        left = live.decoded_endpoint(now.item)
        if live.is_our_edit(left) and not any(item.address in addresses for item in left.addresses):
            return Done()
    return _edit(live, endpoint, lambda raw: live.endpoints.without_items(raw, endpoint.owner_uid, addresses))


def write(live: LiveReads, change: Change) -> WriteOutcome:
    """Make a conditional write."""
    return live.cluster.patch(
        change.kind,
        change.body,
        name=change.name,
        namespace=change.namespace,
        subresource=change.subresource,
        type=PatchType.MERGE if isinstance(change.body, Mapping) else PatchType.JSON,
    )


def _edit(live: LiveReads, endpoint: Endpoint, edit: _Edit) -> Done | NotDone:
    match live.endpoint(endpoint.key):
        case Absent():
            return Done()
        case Unread(message=message):
            return NotDone(message)
        case Found(item=item, raw=raw):
            now = live.decoded_endpoint(item)
            if now.resource_version != endpoint.resource_version and not live.is_our_edit(now):
                return NotDone(f"{_name(endpoint)} has changed")
            change = edit(raw)
            if isinstance(change, Stale):
                return NotDone(change.message)
            outcome = write(live, change)
            if not isinstance(outcome, Written):
                return _done(outcome, endpoint)
            after = msgspec.json.decode(outcome.raw, type=type(item))
            live.edited(endpoint, live.decoded_endpoint(after).resource_version)
            return Done()


def _done(outcome: WriteOutcome, endpoint: Endpoint) -> Done | NotDone:
    """What a write other than a plain success means for an endpoint that should change or go."""
    match outcome:
        case Deleted() | Absent() | Written():
            return Done()
        case Outdated(message) | Failed(message=message):
            return NotDone(f"{_name(endpoint)}: {message}")


def _name(endpoint: Endpoint) -> str:
    return f"endpoint {endpoint.namespace}/{endpoint.name}"


# --- repairs ----------------------------------------------------------------------------------------------------------


class RepairOutcome(StrEnum):
    """What became of a marked repair."""

    REPAIRED = "Repaired"
    KEPT = "Kept"  # the live reads did not confirm the finding
    DEFERRED = "Deferred"  # they could not tell, or the pool's guard has changed
    FAILED = "Failed"


class Repair(Struct, frozen=True):
    """One marked repair's fate."""

    entry: Entry
    outcome: RepairOutcome
    message: str


def repair(
    live: LiveReads, policies: Policies, ref: PoolRef, entry: Entry, key: Key, ask: Callable[[PoolRef], str]
) -> Repair:
    """Mend one endpoint (namespace, name), once live reads confirm what the entry says of it.

    `ask` says why a pool must not be written now ("" if it may): each pool that the endpoint draws from is asked.
    """
    # An endpoint may go only if no pool at all records its owner.
    everything = live.everything(NOTHING_ASIDE)
    if isinstance(everything, Unread):
        return Repair(entry, RepairOutcome.DEFERRED, everything.message)
    pools = everything.pools
    snapshot = live.snapshot(Inventory(ref.ipam, pools), {key}, {entry.node}, NOTHING_ASIDE)
    now = live.cluster.now()
    findings = [
        f for f in judge(snapshot, policies, now) if digest_of(f) == entry.record_digest and f.reason == entry.reason
    ]
    unread = {*_keys(snapshot.pods), *_keys(snapshot.stateful_sets), *_keys(snapshot.machines)}
    unread |= {
        *_keys(snapshot.machine_instances),
        *(pair for each in snapshot.unreadable.values() for pair in _named(each)),
    }
    if unread & {key, (key[0], key[1].rpartition("-")[0])}:
        return Repair(entry, RepairOutcome.DEFERRED, f"what decides on {key[0]}/{key[1]} could not be read")
    if not findings or findings[0].action is not Action.REPAIR:
        why = findings[0].message if findings else "the endpoint has changed, or is in order"
        return Repair(entry, RepairOutcome.KEPT, why)
    evidence = Evidence(snapshot, live.backend, now)
    names = {item.pool for item in evidence.endpoints[key].addresses}
    concerned = sorted({ref, *(pool.ref for pool in pools if pool.ref.name in names)})
    objection = next((why for why in map(ask, concerned) if why), "")
    if objection:
        return Repair(entry, RepairOutcome.DEFERRED, objection)
    outcome = _mend(live, evidence, evidence.endpoints[key], findings[0])
    if isinstance(outcome, NotDone):
        return Repair(entry, RepairOutcome.FAILED, outcome.why)
    return Repair(entry, RepairOutcome.REPAIRED, findings[0].message)


def _named(broken: Iterable[Unreadable]) -> set[Key]:
    return {(item.namespace, item.name) for item in broken}


def _keys(listing: Listing[Any]) -> set[Key]:
    """The names of a listing's objects that could not be read."""
    return _named(listing.unreadable)


def _mend(live: LiveReads, evidence: Evidence, endpoint: Endpoint, finding: Finding) -> Done | NotDone:
    if finding.reason in {Reason.ENDPOINT_STALE, Reason.ENDPOINT_ORPHAN}:
        return remove_endpoint(live, endpoint)
    shown = shown_by_nic(evidence.nics(evidence.pods[endpoint.key]))
    if finding.reason is Reason.INTERFACE_EMPTY:
        names = {finding.address: shown[finding.address]} if finding.address in shown else {}
        return _edit(live, endpoint, lambda raw: live.endpoints.with_interfaces(raw, endpoint.owner_uid, names))
    nic = {address for address, name in shown.items() if name == finding.interface}
    return _edit(
        live,
        endpoint,
        lambda raw: live.endpoints.without_duplicates(raw, endpoint.owner_uid, finding.interface, nic),
    )
