"""What an operator allows, for one pool: the program's defaults under the fields of its PoolGuard."""

from collections.abc import Mapping
from enum import StrEnum

import msgspec
from msgspec import Struct

from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.pool_guard import guard_name
from poolwarden.ipam.ranges import AddressSet


class Mode(StrEnum):
    """What gc may do in a pool (`PoolGuard.spec.mode`)."""

    OFF = "Off"
    OBSERVE = "Observe"
    RELEASE = "Release"


class Ceiling(StrEnum):
    """`--mode`: the most that gc does anywhere."""

    OBSERVE = "observe"
    OPT_IN = "opt-in"
    RELEASE = "release"


class RetentionRule(StrEnum):
    """How long a fixed-IP owner's address is kept for it."""

    WHILE_ENTITLED = "WhileEntitled"
    RELEASE_ALWAYS = "ReleaseAlways"
    RELEASE_AFTER = "ReleaseAfter"


class Retention(Struct, frozen=True):
    """`after` are seconds since the owner was first seen absent, for RELEASE_AFTER."""

    rule: RetentionRule = RetentionRule.WHILE_ENTITLED
    after: int = 0


class Watermarks(Struct, frozen=True, tag=True):
    """How many addresses shall be free: below `low` the pool is extended, above `high` it gives back, each to `target`."""

    low: int
    target: int
    high: int


class Unbalanced(Struct, frozen=True, tag=True):
    """The pool is never resized."""


class Policy(Struct, frozen=True):
    """The settings of one pool. Durations in seconds; `mode` is None where the guard leaves it to `--mode`."""

    mode: Mode | None = None
    grace: int = 600
    cooldown: int = 60
    max_releases: int = 50
    max_release_percent: int = 20
    acknowledged_leaks: int = 0
    release_finished_pods: bool = False
    node_evidence_required: bool = True
    node_gone_grace: int = 1800
    retention: Retention = Retention()
    keep: AddressSet = AddressSet()
    ignore_namespaces: frozenset[str] = frozenset()
    free: Watermarks | Unbalanced = Unbalanced()
    reserve: AddressSet = AddressSet()

    def may_release(self, ceiling: Ceiling) -> bool:
        """Whether gc may write to the pool's IPAM objects under that ceiling."""
        if ceiling is Ceiling.OBSERVE:
            return False
        return self.mode is Mode.RELEASE or (ceiling is Ceiling.RELEASE and self.mode is None)

    def most_releases(self, pool_size: int) -> int:
        """The most records that may leave the pool in one sweep: at least one, unless `max_releases` is 0."""
        return min(self.max_releases, max(1, pool_size * self.max_release_percent // 100))


class Policies(Struct, frozen=True):
    """The default, the pools that have a guard of their own, and the names of guards that cannot be read."""

    default: Policy = Policy()
    by_pool: Mapping[PoolRef, Policy] = {}
    unread: frozenset[str] = frozenset()

    def of(self, pool: PoolRef) -> Policy:
        """The policy of a pool. One whose guard cannot be read is Off: doubt keeps."""
        if self.unread and guard_name(pool) in self.unread:
            return msgspec.structs.replace(self.default, mode=Mode.OFF)
        return self.by_pool.get(pool, self.default)
