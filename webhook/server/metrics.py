"""What the webhook counts. Never by pod or namespace: the number of series is fixed."""

from collections.abc import Callable, Iterable

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.exposition import CONTENT_TYPE_PLAIN_0_0_4

from poolwarden.webhook.answer import Allowed, Answer, Denied, Errored, Patched
from poolwarden.webhook.review import Operation

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
"""Seconds: our answers take less than the first; the last is kube-apiserver's default timeout."""
VERDICTS: dict[type[Answer], str] = {Allowed: "allowed", Patched: "patched", Denied: "denied", Errored: "error"}
NO_REVIEW = ""
"""The operation of a request that was no review."""
TEXT = CONTENT_TYPE_PLAIN_0_0_4


class Metrics:
    """The series, with their labels looked up once: a look-up per review costs more than the review's JSON."""

    def __init__(self) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call] # a second series for each, which nobody asks for
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)  # memory, CPU, open connections
        self._requests = Counter(
            "poolwarden_admission_requests_total",
            "Reviews answered.",
            ("path", "operation", "verdict"),
            registry=self.registry,
        )
        self._durations = Histogram(
            "poolwarden_admission_duration_seconds",
            "From the end of a review's header to our answer.",
            ("path",),
            buckets=BUCKETS,
            registry=self.registry,
        )
        self._in_flight = Gauge("poolwarden_admission_in_flight", "Reviews being answered.", registry=self.registry)
        self._not_after = Gauge(
            "poolwarden_certificate_not_after_seconds",
            "When the certificate ends, as Unix time.",
            ("certificate",),
            registry=self.registry,
        )
        self._counters: dict[tuple[str, str, str], Counter] = {}
        self._timers: dict[str, Histogram] = {}

    def expect(self, paths: Iterable[str], in_flight: Callable[[], float]) -> None:
        """Show the series of these paths from the start, so that a first error is an increase."""
        self._in_flight.set_function(in_flight)
        for path in paths:
            self._timers[path] = self._durations.labels(path)
            for operation in (*(operation.value for operation in Operation), NO_REVIEW):
                for verdict in VERDICTS.values():
                    if operation != NO_REVIEW or verdict == VERDICTS[Errored]:
                        labels = (path, operation, verdict)
                        self._counters[labels] = self._requests.labels(*labels)

    def answered(self, path: str, operation: str, verdict: type[Answer], seconds: float) -> None:
        """Count one answer on an expected path."""
        self._counters[path, operation, VERDICTS[verdict]].inc()
        self._timers[path].observe(seconds)

    def certificate_ends(self, certificate: str, at: float) -> None:
        """Say when a certificate ends: `serving`, `ca`."""
        self._not_after.labels(certificate).set(at)

    def certificate_unknown(self, certificate: str) -> None:
        """Say nothing more of a certificate."""
        self._not_after.remove(certificate)

    def counts(self) -> dict[tuple[str, str], int]:
        """Answers so far, by path and verdict."""
        totals: dict[tuple[str, str], int] = {}
        for family in self._requests.collect():
            for sample in family.samples:
                key = sample.labels["path"], sample.labels["verdict"]
                totals[key] = totals.get(key, 0) + int(sample.value)
        return totals

    def text(self) -> bytes:
        """All series in Prometheus' text form."""
        return generate_latest(self.registry)
