"""IPPools of whereabouts and Neon, and what holds for all kinds."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from poolwarden.ipam.kinds import PODS, Kind
from poolwarden.webhook.answer import Allowed
from poolwarden.webhook.pool.pools import mutate_pool, validate_pool
from poolwarden.webhook.review import NULL, Operation
from webhook.pool_objects import (
    KINDS,
    NOBODY,
    SETTINGS,
    Object,
    guard,
    judged,
    knowing,
    named,
    request,
    spider,
    written,
)

RECORD = {"7": {"id": "x", "podref": "a/b"}}


def ippool(text: Any, allocations: Object | None = None, **spec: Any) -> Object:
    """An IPPool."""
    return named("p", "kube-system", range=text, allocations=allocations or {}, **spec)


@pytest.mark.parametrize("kind", ["whereabouts", "neon"])
@pytest.mark.parametrize(
    ("new", "old", "answer"),
    [
        (ippool("10.6.0.0/24"), None, "allowed"),
        (ippool("10.6.0.0/24", RECORD), None, "allowed"),
        (ippool("10.6.0.0/24", RECORD), ippool("10.6.0.0/24"), "allowed"),
        (ippool("nonsense", RECORD), ippool("nonsense"), "allowed"),
        (
            ippool("10.5.0.0/23", RECORD),
            ippool("10.6.0.0/24", RECORD),
            "denied: spec.range: '10.5.0.0/23' instead of '10.6.0.0/24' is not allowed: its 1 records count from 10.6",
        ),
        (
            ippool("10.6.0.0/30"),
            ippool("10.6.0.0/24", RECORD),
            "denied: spec.range: '10.6.0.0/30' instead of '10.6.0.0/24' is not allowed: 10.6.0.7 is recorded",
        ),
        (ippool("10.6.0.0/29"), ippool("10.6.0.0/24", RECORD), "allowed"),
        (ippool("10.6.0.0/16", RECORD), ippool("10.6.0.0/24", RECORD), "allowed"),
        (
            ippool("fd00::/64", RECORD),
            ippool("0.0.0.0/24", RECORD),
            "denied: spec.range: 'fd00::/64' instead of '0.0.0.0/24'",
        ),
        (ippool("10.6.0.0/25"), ippool("10.6.0.0/24", {"x": {}, "-1": {}, "9999": {}, "9" * 5000: {}}), "allowed"),
        (ippool("10.6.0.0/23"), ippool("10.6.0.0/24"), "allowed"),
        (ippool("fd00::/64", RECORD), ippool("FD00::/64", RECORD), "allowed"),
        (
            ippool("10.6.0.0/24", RECORD),
            ippool("nonsense", RECORD),
            "denied: spec.range: '10.6.0.0/24' instead of 'nonsens",
        ),
        (ippool("10.6.0.5/24"), None, "warned: spec.range: '10.6.0.5/24' has host bits"),
        (ippool("10.6.0.0"), None, "denied: spec.range: '10.6.0.0' has no valid prefix"),
        (ippool(5), None, "denied: spec.range: 5 is not allowed; allowed: a string"),
        (ippool("10.7.0.0/24"), None, "warned: spec.range: SpiderIPPool blue hands out 10.7.0.5, too"),
    ],
)
def test_a_range(kind: str, new: Object, old: Object | None, answer: str) -> None:
    """Records count from the range as written: it stays while there are any. All else that agents write passes."""
    cluster = knowing(pools=[spider(subnet="10.7.0.0/24", ips=["10.7.0.5"])])
    assert judged(kind, new, old, cluster).startswith(answer)
    assert written(kind, new, old) == new


def test_managed_addresses_of_neon_hold_its_range() -> None:
    """They are addresses, so the base of the range may change as long as it holds them."""
    old = ippool("10.6.0.0/24", managed={"10.6.0.7": {}, "x": {}})
    assert judged("neon", ippool("10.7.0.0/24", managed={"10.6.0.7": {}}), old) == (
        "denied: spec.range: '10.7.0.0/24' instead of '10.6.0.0/24' is not allowed: 10.6.0.7 is recorded and would lie "
        "outside"
    )
    assert judged("neon", ippool("10.6.0.4/30", managed={"10.6.0.7": {}}), old) == "allowed"


BAD = {
    "pool": spider(subnet="x", ips=["10.6.0.2", "10.6.0.1"]),
    "reserved": named("r", ips=["x"]),
    "config": named("c", "a", cniType="macvlan", macvlan={"master": [" a"], "vlanID": -1}),
    "nad": named("n", "a", config="{"),
    "whereabouts": ippool("x"),
    "neon": ippool("x"),
    "guard": guard(keep=["10.6.0.2", "10.6.0.1"], graceSeconds=-1),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_no_lasting_write_passes(kind: str) -> None:
    """An object being deleted, a subresource, a deletion; and what is refused otherwise."""
    obj = BAD[kind]
    assert judged(kind, obj).startswith("denied")
    going = {**obj, "metadata": {**obj["metadata"], "deletionTimestamp": "2026-01-10T12:00:00Z"}}
    deletion = request(KINDS[kind], obj, object=NULL, old_object=request(KINDS[kind], obj).object)
    for asked in (
        request(KINDS[kind], going, obj),
        request(KINDS[kind], going),
        request(KINDS[kind], obj, obj, sub_resource="status"),
        request(KINDS[kind], obj, operation=Operation.DELETE),
        request(KINDS[kind], obj, operation=Operation.CONNECT),
        deletion,
    ):
        assert validate_pool(asked, NOBODY, SETTINGS) == Allowed()
        assert mutate_pool(asked, NOBODY, SETTINGS) == Allowed()


def test_unknown_kinds_pass() -> None:
    """Also one of a known name and another group."""
    for kind in (PODS, Kind("crd.projectcalico.org", "v1", "ippools", "IPPool", namespaced=False)):
        asked = request(kind, {"spec": {"range": "x"}})
        assert validate_pool(asked, NOBODY, SETTINGS) == Allowed()
        assert mutate_pool(asked, NOBODY, SETTINGS) == Allowed()


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_written_is_told(kind: str) -> None:
    """In a warning, and in the audit log."""
    answer = mutate_pool(request(KINDS[kind], BAD[kind]), NOBODY, SETTINGS)
    if kind == "guard":
        assert answer.audit == {"normalised": "spec.keep"}  # type: ignore[union-attr]
        assert answer.warnings == ('spec.keep is written as ["10.6.0.1-10.6.0.2"]',)  # type: ignore[union-attr]
    elif kind == "config":
        assert answer.warnings == ('spec.macvlan.master is written as ["a"]',)  # type: ignore[union-attr]
    elif kind != "pool":
        assert answer == Allowed()


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize(
    "text",
    ["null", "5", '"x"', "[]", "{", '{"metadata": 5}', '{"spec": null}', '{"spec": "\\ud800"}', f'{{"x": {DEEP}}}'],
    ids=range(9),
)
@pytest.mark.parametrize("kind", KINDS)
def test_no_object_at_all(kind: str, text: str) -> None:
    """What is no object of the kind is answered, too."""
    asked = request(KINDS[kind], {}, object=Raw(text.encode()))
    assert mutate_pool(asked, NOBODY, SETTINGS) == Allowed()
    validate_pool(asked, NOBODY, SETTINGS)
