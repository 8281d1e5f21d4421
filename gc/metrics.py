"""What gc counts: a picture of the newest sweep and the sums of all, turned into series at each scrape.

Pools and findings are those of the newest sweep, with what it released taken off, as the status of PoolGuards has them;
so the series of a pool or a reason that is gone are gone as well, and a process that leads no more shows none of them.
Sizes are exact integers until here; Prometheus' numbers are floats, so that those above 2^53 are rounded.
"""

import time
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from itertools import accumulate
from threading import Lock

from msgspec import Struct
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from poolwarden.gc.examine import PoolReport, cooling
from poolwarden.gc.ledger import digest_of
from poolwarden.gc.release import Outcome
from poolwarden.gc.report import is_reported
from poolwarden.gc.states import States, Uncounted, count
from poolwarden.gc.sweep import SweepReport
from poolwarden.gc.timing import Step, StepOutcome, Timers
from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.verdict import Action, Finding, Reason, Verdict

BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
"""Seconds: from the judgement of a small cluster to a whole interval."""
POOL = ("ipam", "namespace", "pool")
STATES = ("allocated", "unknown", "cooldown", "free")
SKIPPED = {Outcome.GONE: "gone", Outcome.KEPT: "kept", Outcome.DEFERRED: "deferred"}
"""Outcomes of marked records of which none was taken out, and none should have been."""
BRAKED, CAPPED = "braked", "capped"


class _Group(Struct):
    """The findings of one pool, verdict and reason. `oldest` is when the first of them that still holds was seen."""

    number: int
    oldest: datetime


class _Took(Struct):
    """How long a step took, by outcome: how many times fell into each bucket (the last: above all), and their sum."""

    buckets: list[int]
    seconds: float = 0.0


_Key = tuple[PoolRef, Verdict, Reason]
_Sums = dict[tuple[str, ...], int]


class _Seen(Struct, frozen=True):
    """What the newest sweep left. `at` is the API server's clock, `moment` our monotonic one at the same time."""

    at: datetime
    moment: float
    states: Mapping[PoolRef, States]
    groups: Mapping[_Key, _Group]


class GcMetrics(Collector):
    """The series of one process; several threads may share it. `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._seen: _Seen | None = None
        self._first_seen: Mapping[Hashable, datetime] = {}
        self._last_success = 0.0
        self._sweeps: _Sums = {(outcome.value,): 0 for outcome in StepOutcome}
        self._releases: _Sums = {}
        self._skipped: _Sums = {(reason,): 0 for reason in (*SKIPPED.values(), BRAKED, CAPPED)}
        self._conflicts = 0
        self._took: dict[tuple[str, str], _Took] = {}
        self.timers = Timers(self._finished, clock)
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU, open files
        self.registry.register(self)

    # --- told by the sweeps ---------------------------------------------------------------------------------------

    def swept(self, report: SweepReport) -> None:
        """A sweep is over."""
        released = [(ref, result) for ref, result in report.released if result.outcome not in SKIPPED]
        gone = {(ref, result.entry.record_digest) for ref, result in released if result.outcome is Outcome.RELEASED}
        braked = {ref for ref, _ in report.braked}
        held_back = sum(f.action is Action.RELEASE and f.pool in braked for f in report.findings)
        sightings = self._sightings(report, gone)
        groups: dict[_Key, _Group] = {}
        first_seen: dict[Hashable, datetime] = {}
        for finding, since in sightings:
            key = _identity(finding)
            first_seen[key] = min(since, first_seen.get(key, since))
            group = groups.setdefault((finding.pool, finding.verdict, finding.reason), _Group(0, since))
            group.number += 1
            group.oldest = min(group.oldest, since)
        counted = ((pool.pool.ref, _left(pool, gone)) for pool in report.pools)
        states = {ref: left for ref, left in counted if isinstance(left, States)}
        outcome = StepOutcome.SUCCESS if report.complete else StepOutcome.FAILURE
        with self._lock:
            self._seen = _Seen(report.at, self._clock(), states, groups)
            self._first_seen = first_seen
            if report.complete:
                self._last_success = report.at.timestamp()
            _add(self._sweeps, outcome)
            for ref, result in released:
                _add(self._releases, ref.ipam, result.entry.reason, result.outcome.lower())
            for _, result in report.released:
                if result.outcome in SKIPPED:
                    _add(self._skipped, SKIPPED[result.outcome])
            _add(self._skipped, BRAKED, number=held_back)
            _add(self._skipped, CAPPED, number=report.capped)

    def _sightings(self, report: SweepReport, gone: AbstractSet[tuple[PoolRef, str]]) -> list[tuple[Finding, datetime]]:
        """Each finding to report, and since when it is known: from its ledger, or else from this process's memory."""
        ledgers = {(pool.pool.ref, e.record_digest): e.first_seen for pool in report.pools for e in pool.ledger.entries}
        sightings: list[tuple[Finding, datetime]] = []
        for finding in report.findings:
            if is_reported(finding) and (finding.pool, finding.record_digest) not in gone:
                known = ledgers.get((finding.pool, digest_of(finding))) or self._first_seen.get(_identity(finding))
                sightings.append((finding, known or report.at))
        return sightings

    def crashed(self) -> None:
        """A sweep ended by an exception; what the one before it saw stays."""
        with self._lock:
            _add(self._sweeps, StepOutcome.CRASH)

    def stands_by(self) -> None:
        """The term is over: what we saw of pools is another process's to tell from now on."""
        with self._lock:
            self._seen = None
            self._first_seen = {}

    def conflicted(self) -> None:
        """A write met an object that had changed since it was read."""
        with self._lock:
            self._conflicts += 1

    def _finished(self, step: Step, outcome: StepOutcome, seconds: float) -> None:
        with self._lock:
            took = self._took.setdefault((step.value, outcome.value), _Took([0] * (len(BUCKETS) + 1)))
            took.buckets[bisect_left(BUCKETS, seconds)] += 1
            took.seconds += seconds

    # --- told to a scrape -----------------------------------------------------------------------------------------

    def text(self) -> bytes:
        """All series in Prometheus' text form."""
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        """All series as they are now, of one moment."""
        with self._lock:
            families = [*self._of_pools(), *self._of_sweeps()]
        yield from families

    def _of_pools(self) -> Iterator[Metric]:
        addresses = GaugeMetricFamily(
            "poolwarden_pool_addresses",
            "Addresses of a pool in a state; they sum to its size.",
            labels=(*POOL, "state"),
        )
        findings = GaugeMetricFamily(
            "poolwarden_pool_findings", "Findings of the newest sweep.", labels=(*POOL, "verdict", "reason")
        )
        ages = GaugeMetricFamily(
            "poolwarden_oldest_finding_age_seconds",
            "Since when the oldest of these findings is known.",
            labels=(*POOL, "verdict", "reason"),
        )
        seen = self._seen
        if seen is not None:
            now = seen.at + timedelta(seconds=self._clock() - seen.moment)
            for ref, states in seen.states.items():
                for state in STATES:
                    addresses.add_metric((*_labels(ref), state), getattr(states, state))
            for (ref, verdict, reason), group in seen.groups.items():
                labels = (*_labels(ref), verdict.value, reason.value)
                findings.add_metric(labels, group.number)
                ages.add_metric(labels, max(0.0, (now - group.oldest).total_seconds()))
        yield from (addresses, findings, ages)

    def _of_sweeps(self) -> Iterator[Metric]:
        durations = HistogramMetricFamily(
            "poolwarden_sweep_step_duration_seconds", "How long a step of a sweep took.", labels=("step", "outcome")
        )
        for labels, took in self._took.items():
            bounds = (*(str(bound) for bound in BUCKETS), "+Inf")
            durations.add_metric(labels, list(zip(bounds, accumulate(took.buckets), strict=True)), took.seconds)
        yield durations
        yield GaugeMetricFamily(
            "poolwarden_last_success_timestamp_seconds",
            "When the newest sweep without a problem judged, as Unix time; 0 if none did yet.",
            value=self._last_success,
        )
        yield _counter("poolwarden_sweeps", "Sweeps.", ("outcome",), self._sweeps)
        yield _counter(
            "poolwarden_releases", "Records tried to be released.", ("ipam", "reason", "outcome"), self._releases
        )
        yield _counter(
            "poolwarden_skipped", "Records not released though they seemed leaked.", ("reason",), self._skipped
        )
        yield CounterMetricFamily(
            "poolwarden_write_conflicts",
            "Writes refused since the object had changed since it was read.",
            value=self._conflicts,
        )


def _left(report: PoolReport, gone: AbstractSet[tuple[PoolRef, str]]) -> States | Uncounted:
    """A pool's states without what this sweep released."""
    left = [finding for finding in report.findings if (finding.pool, finding.record_digest) not in gone]
    return count(report.pool, left, cooling(report.ledger.entries))


def _identity(finding: Finding) -> Hashable:
    """By what a finding is known again in the next sweep; several about the pool itself, of one reason, share it."""
    owner = (finding.address, finding.interface, finding.owner)
    return finding.pool, finding.verdict, finding.reason, digest_of(finding) or owner


def _labels(ref: PoolRef) -> tuple[str, str, str]:
    return ref.ipam, ref.namespace, ref.name


def _add(sums: _Sums, *labels: str, number: int = 1) -> None:
    sums[labels] = sums.get(labels, 0) + number


def _counter(name: str, documentation: str, labels: tuple[str, ...], sums: _Sums) -> Metric:
    family = CounterMetricFamily(name, documentation, labels=labels)
    for values, number in sums.items():
        family.add_metric(values, number)
    return family
