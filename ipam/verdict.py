"""Verdicts: what was found about one record, endpoint or pool, why, and what may be done."""

from enum import StrEnum

from msgspec import Struct

from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.pool import PoolRef


class Verdict(StrEnum):
    """The class of a finding."""

    IN_USE = "InUse"
    RETAINED = "Retained"
    UNKNOWN = "Unknown"
    LEAKED = "Leaked"
    CONFLICT = "Conflict"
    DRIFT = "Drift"


class Reason(StrEnum):
    """Why; stable words, documented in docs/reasons.md."""

    # Unknown
    EVIDENCE_INCOMPLETE = "EvidenceIncomplete"
    RECORD_INVALID = "RecordInvalid"
    OUT_OF_RANGE = "OutOfRange"
    STATIC_POD = "StaticPod"
    REMOVAL_UNCONFIRMED = "RemovalUnconfirmed"
    RANGE_AMBIGUOUS = "RangeAmbiguous"
    NODE_UNREACHABLE = "NodeUnreachable"
    OWNER_STUCK = "OwnerStuck"
    # Conflict
    ADDRESS_LOST = "AddressLost"
    ADDRESS_HELD_TWICE = "AddressHeldTwice"
    IN_USE_UNRECORDED = "InUseUnrecorded"
    POOLS_OVERLAP = "PoolsOverlap"  # Drift between networks that are known to be apart
    # InUse
    OWNER_LIVE = "OwnerLive"
    NAME_LIVE = "NameLive"  # the record has no UID: a pod of that name lives, and may be another than it was made for
    BEING_REMOVED = "BeingRemoved"  # an address on its way out of its pool: remembered, and no finding for an hour
    # Retained
    STATEFUL_SET_ENTITLED = "StatefulSetEntitled"
    VIRTUAL_MACHINE_ENTITLED = "VirtualMachineEntitled"
    # Leaked
    OWNER_GONE = "OwnerGone"
    OWNER_REPLACED = "OwnerReplaced"
    OWNER_FINISHED = "OwnerFinished"
    OWNER_OVERDUE = "OwnerOverdue"
    SURPLUS_FOR_OWNER = "SurplusForOwner"
    NEVER_ATTACHED = "NeverAttached"
    # Drift
    ENDPOINT_STALE = "EndpointStale"
    ENDPOINT_ORPHAN = "EndpointOrphan"
    INTERFACE_DUPLICATED = "InterfaceDuplicated"
    INTERFACE_EMPTY = "InterfaceEmpty"
    ENDPOINT_MISSING = "EndpointMissing"
    COUNT_MISMATCH = "CountMismatch"
    RANGE_INVALID = "RangeInvalid"
    ADDRESS_ON_TWO_INTERFACES = "AddressOnTwoInterfaces"
    POOL_MISSING = "PoolMissing"
    ATTACHMENT_MISSING = "AttachmentMissing"
    RESERVATION_ORPHAN = "ReservationOrphan"
    RESERVATION_MISSING = "ReservationMissing"
    DELETION_STUCK = "DeletionStuck"


class Action(StrEnum):
    """What gc in release mode does about a finding once all clocks have run out."""

    NONE = "none"
    RELEASE = "release"
    REPAIR = "repair"


class OwnerId(Struct, frozen=True, gc=False):
    """The owner that a record or endpoint claims. `uid` is "" where the IPAM stores none."""

    kind: str
    namespace: str
    name: str
    uid: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" + (f" (UID {self.uid})" if self.uid else "")


class NoOwner(Struct, frozen=True, gc=False):
    """The finding speaks of no owner: a pool itself, or a record whose owner cannot be parsed."""


class Need(Struct, frozen=True, gc=False):
    """Evidence that was wanted and not read. `namespace` is "" for cluster-scoped kinds and for all namespaces."""

    kind: Kind
    namespace: str
    message: str
    command: str


class Finding(Struct, frozen=True, gc=False):
    """One verdict.

    `address` is canonical, None for a finding about the pool itself. `record_digest` is "" unless the finding is
    about a record; `subject` and `subject_digest` tell the endpoint that a finding is about ("" otherwise). `node` is where the owner last ran, "" if unknown.
    `waits_for` are nodes whose silence keeps the record. `min_grace` are seconds that the two sightings must be apart at
    least.
    """

    pool: PoolRef
    address: str | None
    verdict: Verdict
    reason: Reason
    action: Action
    message: str
    owner: OwnerId | NoOwner = NoOwner()
    interface: str = ""
    record_digest: str = ""
    subject: str = ""
    subject_digest: str = ""
    node: str = ""
    waits_for: tuple[str, ...] = ()
    min_grace: int = 0
    needs: tuple[Need, ...] = ()
