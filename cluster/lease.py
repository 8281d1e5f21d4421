"""Leadership by a coordination.k8s.io/v1 Lease: which of several processes may write.

As in client-go's tools/leaderelection/leaderelection.go, clocks of different machines are never compared. Another's
lease has expired when it has not changed for its duration by our monotonic clock; ours counts for `renew_deadline`, less
than its duration, from before our last renewal was sent. So we stop before another begins, whatever hangs.
"""

import random
from collections.abc import Callable
from threading import Lock
from typing import Any

from msgspec import Struct

from poolwarden.cluster.clock import format_micro_time
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.guard import Allowed, Denied, Permission
from poolwarden.cluster.interface import (
    Absent,
    Cluster,
    Deleted,
    Failed,
    Found,
    Outdated,
    Unread,
    WriteOutcome,
    Written,
)
from poolwarden.cluster.kinds import LEASES
from poolwarden.cluster.pacing import Stop
from poolwarden.cluster.runtime import MACHINE, Runtime, Task

_JITTER = 1.2  # of the retry period, so that candidates do not ask in step (client-go: JitterFactor)


class Terms(Struct, frozen=True):
    """The times of a lease, in seconds; client-go's defaults.

    Attributes:
        duration: how long others leave an unchanged lease alone.
        renew_deadline: how long we take ourselves for the leader after a renewal.
        retry_period: between attempts to acquire or renew.

    Raises:
        ValueError: the times do not leave room for one another.
    """

    duration: int = 15
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        if not self.duration > self.renew_deadline > self.retry_period * _JITTER > 0:
            raise ValueError(f"a lease needs duration > renew deadline > {_JITTER} x retry period > 0, not {self}")

    @property
    def limits(self) -> Limits:
        """For the `ApiServer` of a candidate: an attempt that hangs leaves time for another before the deadline."""
        quarter = self.renew_deadline / 4
        return Limits(connect_timeout=quarter, read_timeout=quarter, read_deadline=2 * quarter, attempts=2)


class Leading(Struct, frozen=True, tag=True):
    """We hold the lease."""


class HeldBy(Struct, frozen=True, tag=True):
    """Another holds the lease. `alive`: it has renewed while we watched."""

    holder: str
    alive: bool


class Unclear(Struct, frozen=True, tag=True):
    """We do not hold the lease, and who does is not known; `reason` is one line for people."""

    reason: str


Claim = Leading | HeldBy | Unclear


class Released(Struct, frozen=True, tag=True):
    """A successor may begin at once."""


class NotReleased(Struct, frozen=True, tag=True):
    """A successor waits until the lease has expired, if it was ours at all."""

    reason: str


class _Spec(Struct, frozen=True, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str
    resource_version: str


class _Lease(Struct, frozen=True):
    metadata: _Metadata
    spec: _Spec = _Spec()


class Candidate:
    """One process's part in the election of a leader: single steps, each of one or two requests.

    `cluster` must let it write before it leads (no guard that asks for leadership), and should have the limits of
    `terms`. `identity` must be unique to this process, not to its pod: the lease is ours where it names us. Once lost,
    leadership stays lost: whoever wants to lead again reads the cluster again, as a new candidate.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        namespace: str,
        name: str,
        identity: str,
        terms: Terms = Terms(),  # noqa: B008 - frozen
        runtime: Runtime = MACHINE,
    ) -> None:
        self.terms = terms
        self._cluster = cluster
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._runtime = runtime
        self._lock = Lock()
        self._led = False
        self._lost = False
        self._held_until = 0.0
        self._seen: _Spec | None = None
        self._seen_at = 0.0
        self._alive = False

    def held(self) -> bool:
        """Whether we lead now: no I/O, and false for good once the renew deadline has passed."""
        with self._lock:
            return self._is_held()

    def guard(self) -> Permission:
        """Leave to write, for the `ApiServer` that works under this leadership."""
        return Allowed() if self.held() else Denied(f"not the leader: lease {self._namespace}/{self._name}")

    def claim(self) -> Claim:
        """Acquire the lease if it is free, released or expired; renew it if it is ours."""
        if self._lost or (self._led and not self.held()):
            return Unclear("leadership was lost")
        lease = self._cluster.get(LEASES, _Lease, name=self._name, namespace=self._namespace)
        match lease:
            case Found():
                return self._claim(lease.item)
            case Absent() if self._led:
                return self._taken_away("the lease was deleted")
            case Absent():
                sent_at = self._runtime.monotonic()
                return self._claimed(self._create(), sent_at)
            case Unread():
                return Unclear(lease.message)

    def release(self) -> Released | NotReleased:
        """Lead no longer, and let a successor begin at once."""
        held = self.held()
        self._lose()
        if not held:
            return NotReleased("we do not lead")
        lease = self._cluster.get(LEASES, _Lease, name=self._name, namespace=self._namespace)
        if isinstance(lease, Unread):
            return NotReleased(lease.message)
        if isinstance(lease, Absent) or lease.item.spec.holder_identity != self._identity:
            return NotReleased("the lease is not ours any more")
        now = format_micro_time(self._cluster.now())
        # What client-go leaves behind (`release` there), so that its candidates take over at once, too.
        spec = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": now, "renewTime": now}
        outcome = self._patch(lease.item, spec)
        return Released() if isinstance(outcome, Written) else NotReleased(_message(outcome))

    def _claim(self, lease: _Lease) -> Claim:
        holder = lease.spec.holder_identity or ""
        self._watch(lease.spec)
        if self._led and holder != self._identity:
            return self._taken_away(f"{holder or 'nobody'} is named by the lease")
        duration = lease.spec.lease_duration_seconds or self.terms.duration
        if holder not in ("", self._identity) and self._runtime.monotonic() < self._seen_at + duration:
            return HeldBy(holder, alive=self._alive)
        now = format_micro_time(self._cluster.now())
        spec: dict[str, Any] = {**self._own_spec(), "renewTime": now}
        if holder != self._identity:
            spec |= {"acquireTime": now, "leaseTransitions": (lease.spec.lease_transitions or 0) + 1}
        sent_at = self._runtime.monotonic()
        return self._claimed(self._patch(lease, spec), sent_at)

    def _taken_away(self, how: str) -> Unclear:
        """Somebody else may have led since our last renewal, though nobody who keeps the rules."""
        self._lose()
        return Unclear(how)

    def _lose(self) -> None:
        with self._lock:
            self._lost = True

    def _watch(self, spec: _Spec) -> None:
        """Remember since when, by our clock, the lease says what it says."""
        if spec == self._seen:
            return
        self._alive = self._seen is not None
        self._seen, self._seen_at = spec, self._runtime.monotonic()

    def _create(self) -> WriteOutcome:
        now = format_micro_time(self._cluster.now())
        body = {
            "apiVersion": LEASES.api_version,
            "kind": LEASES.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {**self._own_spec(), "acquireTime": now, "renewTime": now, "leaseTransitions": 0},
        }
        return self._cluster.create(LEASES, body, namespace=self._namespace)

    def _own_spec(self) -> dict[str, Any]:
        return {"holderIdentity": self._identity, "leaseDurationSeconds": self.terms.duration}

    def _patch(self, lease: _Lease, spec: dict[str, Any]) -> WriteOutcome:
        body = {"metadata": {"resourceVersion": lease.metadata.resource_version}, "spec": spec}
        return self._cluster.patch(LEASES, body, name=self._name, namespace=self._namespace)

    def _claimed(self, outcome: WriteOutcome, sent_at: float) -> Claim:
        if not isinstance(outcome, Written):
            return Unclear(_message(outcome))
        with self._lock:
            held_until = sent_at + self.terms.renew_deadline
            too_late = self._runtime.monotonic() >= held_until or (self._led and not self._is_held())
            if too_late:
                return Unclear("the lease was written too late to lead by it")
            self._led = True
            self._held_until = held_until
            return Leading()

    def _is_held(self) -> bool:
        self._lost = self._lost or (self._led and self._runtime.monotonic() >= self._held_until)
        return self._led and not self._lost


class Leadership:
    """A candidate that renews its lease in the background from when it leads until it is released or lost.

    `lost` is set, and `on_lost` called from another thread with the reason, when leadership was lost, though perhaps
    some seconds after `held` has turned false: that alone decides on writes.
    """

    def __init__(
        self,
        candidate: Candidate,
        *,
        on_lost: Callable[[str], None],
        runtime: Runtime = MACHINE,
    ) -> None:
        self.lost = runtime.event()
        self._candidate = candidate
        self._on_lost = on_lost
        self._runtime = runtime
        self._ended = runtime.event()
        self._renewing: Task | None = None

    def acquire(self, stop: Stop, *, told: Callable[[HeldBy | Unclear], None]) -> Leading | Unclear:
        """Wait until we lead, or until `stop` is set; `told` hears what we wait for whenever that changes."""
        before: Claim = Leading()
        while True:
            claim = self._candidate.claim()
            if isinstance(claim, Leading):
                self._renewing = self._runtime.spawn(self._renew, "lease")
                return claim
            if claim != before:
                told(claim)
            before = claim
            if stop.wait(self._pause()):
                return Unclear("stopping")

    def try_acquire(self, stop: Stop) -> Claim:
        """Lead, or say who does: at once if the lease is free or was released, soon if its holder shows to be alive.

        A holder that shows nothing is waited for until its lease has expired, but no longer than our own duration.
        """
        terms = self._candidate.terms
        until = self._runtime.monotonic() + terms.duration + terms.retry_period
        while True:
            claim = self._candidate.claim()
            match claim:
                case Leading():
                    self._renewing = self._runtime.spawn(self._renew, "lease")
                    return claim
                case HeldBy(alive=True):
                    return claim
            if self._runtime.monotonic() >= until or stop.wait(self._pause()):
                return claim

    def release(self) -> Released | NotReleased:
        """Lead no longer, and let a successor begin at once. The caller has stopped writing before."""
        self._ended.set()
        if self._renewing is not None:
            self._renewing.join(self._candidate.terms.renew_deadline)
        return self._candidate.release()

    def _renew(self) -> None:
        why = ""
        while not self._ended.wait(self._candidate.terms.retry_period):
            try:
                claim = self._candidate.claim()
            except Exception as error:  # noqa: BLE001 - even a fault of our own must be told as what it is: leadership lost
                claim = Unclear(f"{type(error).__name__}: {error}")
            # The first failure is the cause, what follows its consequence.
            why = (why or claim.reason) if isinstance(claim, Unclear) else ""
            if not self._candidate.held() and not self._ended.is_set():
                self.lost.set()
                self._on_lost(why)
                return

    def _pause(self) -> float:
        return self._candidate.terms.retry_period * random.uniform(1, _JITTER)  # noqa: S311 - spreads load, hides nothing


def _message(outcome: Deleted | Outdated | Absent | Failed) -> str:
    match outcome:
        case Outdated() | Failed():
            return outcome.message
        case Absent() | Deleted():
            return "the lease is gone"
