"""What the two programs export, taken from real scrapes: every series of ours, and its labels."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client.parser import text_string_to_metric_families

from factories import blue, claim, pod
from faults import World, sweep
from poolwarden.gc.metrics import GcMetrics
from poolwarden.gc.timing import Step
from poolwarden.webhook.answer import Allowed
from poolwarden.webhook.server.metrics import Metrics

OURS = "poolwarden_"


def _scraped(text: bytes) -> dict[str, frozenset[str]]:
    families = text_string_to_metric_families(text.decode())
    samples = [sample for family in families for sample in family.samples if sample.name.startswith(OURS)]
    return {sample.name: frozenset(sample.labels) for sample in samples}


def _of_gc() -> dict[str, frozenset[str]]:
    """What gc exports after a leak was found and released."""
    metrics = GcMetrics()
    world = World(blue({"10.0.0.10": claim("app"), "10.0.0.99": claim("outside")}), pod("other"))
    for _ in range(3):
        metrics.swept(sweep(world))
        world.later(minutes=11)
    with metrics.timers.step(Step.READ):
        pass
    return _scraped(metrics.text())


def _of_webhook() -> dict[str, frozenset[str]]:
    """What the webhook exports after a review, with certificates."""
    metrics = Metrics()
    metrics.expect(("/mutate-pods",), lambda: 0.0)
    metrics.answered("/mutate-pods", "CREATE", Allowed, 0.001)
    metrics.certificate_ends("serving", 0.0)
    return _scraped(metrics.text())


OF_GC = _of_gc()
OF_WEBHOOK = _of_webhook()
EXPORTED: Mapping[str, frozenset[str]] = OF_GC | OF_WEBHOOK
