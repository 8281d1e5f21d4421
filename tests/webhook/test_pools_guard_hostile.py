"""A PoolGuard's reserve that can never be added."""

from __future__ import annotations

import pytest

from webhook.pool_objects import guard, judged, knowing, spider

POOL = spider(ips=["10.6.0.10-10.6.0.20"], gateway="10.6.0.1", excludeIPs=["10.6.0.30-10.6.0.39"])


@pytest.mark.parametrize(
    ("reserve", "answer"),
    [
        ("10.6.0.1", "denied: spec.reserve[0]: '10.6.0.1' is the gateway of SpiderIPPool blue"),
        ("10.6.0.1-10.6.0.9", "warned: spec.reserve[0]: '10.6.0.1-10.6.0.9' holds the gateway 10.6.0.1 of the pool"),
        ("10.6.0.38-10.6.0.45", "warned: spec.reserve[0]: 10.6.0.38-10.6.0.39 is in excludeIPs of the pool"),
        ("10.6.0.2-10.6.0.9", "allowed"),
    ],
)
def test_the_gateway_is_no_reserve(reserve: str, answer: str) -> None:
    """Spiderpool refuses a pool whose ips hold its gateway: said while the operator still looks."""
    assert judged("guard", guard(reserve=[reserve]), knowledge=knowing(pools=[POOL])).startswith(answer)


def test_an_old_gateway_is_no_ground_to_refuse() -> None:
    """The pool as it is known may have changed meanwhile."""
    told = judged("guard", guard(reserve=["10.6.0.1"]), knowledge=knowing("out of date", pools=[POOL]))
    assert told.startswith("warned: spec.reserve[0]: '10.6.0.1' is the gateway")


@pytest.mark.parametrize("gateway", [None, "", "none"])
def test_a_pool_without_gateway(gateway: str | None) -> None:
    """Nothing is left out."""
    cluster = knowing(pools=[spider(ips=["10.6.0.10-10.6.0.20"], gateway=gateway)])
    assert judged("guard", guard(reserve=["10.6.0.1"]), knowledge=cluster) == "allowed"
