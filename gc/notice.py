"""What gc tells about objects: the reasons of its Events, and who they are about."""

from enum import StrEnum

from msgspec import Struct

from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.verdict import NoOwner, OwnerId


class NoticeReason(StrEnum):
    """Reasons of Events; documented in docs/events.md."""

    LEAK_DETECTED = "LeakDetected"
    ADDRESS_RELEASED = "AddressReleased"
    ADDRESS_RESTORED = "AddressRestored"
    RELEASE_FAILED = "ReleaseFailed"
    RELEASE_SKIPPED = "ReleaseSkipped"
    ADDRESS_CONFLICT = "AddressConflict"
    ENDPOINT_REPAIRED = "EndpointRepaired"
    POOL_NEARLY_EXHAUSTED = "PoolNearlyExhausted"
    POOL_EXHAUSTED = "PoolExhausted"
    POOL_EXTENDED = "PoolExtended"
    POOL_SHRUNK = "PoolShrunk"
    SWEEP_BRAKED = "SweepBraked"

    @property
    def warns(self) -> bool:
        """Whether its Event is a Warning."""
        return self not in {
            NoticeReason.ADDRESS_RELEASED,
            NoticeReason.ADDRESS_RESTORED,
            NoticeReason.ENDPOINT_REPAIRED,
            NoticeReason.POOL_EXTENDED,
            NoticeReason.POOL_SHRUNK,
        }


class Notice(Struct, frozen=True):
    """One thing to tell about a pool. `owner` is named as related object where it still lives."""

    pool: PoolRef
    pool_uid: str
    reason: NoticeReason
    note: str
    owner: OwnerId | NoOwner = NoOwner()
    owner_lives: bool = False
