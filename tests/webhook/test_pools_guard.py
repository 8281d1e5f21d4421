"""PoolGuard."""

from __future__ import annotations

from typing import Any

import pytest

from webhook.pool_objects import Object, guard, judged, knowing, nad, named, spider, written

BLUE = spider(ips=["10.6.0.10-10.6.0.20"])
RED = spider("red", ips=["10.6.0.30-10.6.0.40"])
CLUSTER = knowing(pools=[BLUE, RED])


@pytest.mark.parametrize(
    ("spec", "answer"),
    [
        ({}, "allowed"),
        ({"freeAddresses": {"low": 5, "target": 20, "high": 50}}, "allowed"),
        ({"freeAddresses": {"low": 20, "target": 20, "high": 20}}, "allowed"),
        (
            {"freeAddresses": {"low": 25, "target": 20, "high": 50}},
            "denied: spec.freeAddresses.low: low must be less than or equal to target, but low is 25 and target is 20",
        ),
        (
            {"freeAddresses": {"low": 5, "target": 20, "high": 10}},
            "denied: spec.freeAddresses.high: high must be greater than or equal to target, but high is 10 and target",
        ),
        ({"freeAddresses": {"low": 5, "high": 4}}, "denied: spec.freeAddresses.low: low must be less than or equal to"),
        ({"freeAddresses": {"low": 0}}, "denied: spec.freeAddresses.low: 0 is not allowed; allowed: 1 to 2147483647"),
        (
            {"freeAddresses": {"low": "5"}},
            "denied: spec.freeAddresses.low: '5' is not allowed; allowed: a whole number",
        ),
        (
            {"freeAddresses": {"low": 5.5}},
            "denied: spec.freeAddresses.low: 5.5 is not allowed; allowed: a whole number",
        ),
        ({"freeAddresses": []}, "denied: spec.freeAddresses: a list is not allowed; allowed: an object or null"),
        ({"graceSeconds": -1}, "denied: spec.graceSeconds: -1 is not allowed; allowed: 0 to 604800"),
        ({"graceSeconds": 604801}, "denied: spec.graceSeconds: 604801 is not allowed"),
        ({"graceSeconds": 10**30}, "denied: spec.graceSeconds: 1000000000000000000000000000000 is not allowed"),
        ({"cooldownSeconds": -5}, "denied: spec.cooldownSeconds: -5 is not allowed"),
        (
            {"cooldownSeconds": 14},
            "warned: spec.cooldownSeconds: 14 is shorter than the 15 s that two leaders of gc may",
        ),
        ({"cooldownSeconds": 15}, "allowed"),
        (
            {"cooldownSeconds": 0},
            "warned: spec.cooldownSeconds: 0 has an address used again at once, although two lead",
        ),
        ({"graceSeconds": 0}, "warned: spec.graceSeconds: 0 has a leak released at the second sweep that sees it"),
        ({"graceSeconds": 1}, "allowed"),
        ({"maxReleasePercent": 0}, "denied: spec.maxReleasePercent: 0 is not allowed; allowed: 1 to 100"),
        ({"maxReleasesPerSweep": 10001}, "denied: spec.maxReleasesPerSweep: 10001 is not allowed; allowed: 0 to 10000"),
        ({"acknowledgedLeaks": -1}, "denied: spec.acknowledgedLeaks: -1 is not allowed"),
        ({"mode": "Off"}, "allowed"),
        ({"mode": False}, "denied: spec.mode: false is not allowed; allowed: a string or null (YAML reads Off, No,"),
        ({"mode": "off"}, "denied: spec.mode: 'off' is not allowed; allowed: Off, Observe, Release"),
        ({"finishedPods": "Drop"}, "denied: spec.finishedPods: 'Drop' is not allowed; allowed: Keep, Release"),
        ({"nodeEvidence": ""}, "denied: spec.nodeEvidence: '' is not allowed; allowed: Required, Ignore"),
        (
            {"retention": {"statefulSets": {"policy": "ReleaseAfter"}}},
            "denied: spec.retention.statefulSets.afterSeconds: is required by policy ReleaseAfter",
        ),
        (
            {"retention": {"statefulSets": {"afterSeconds": 5}}},
            "denied: spec.retention.statefulSets.afterSeconds: is allowed only with policy ReleaseAfter",
        ),
        ({"retention": {"statefulSets": {"policy": "ReleaseAfter", "afterSeconds": 5}}}, "allowed"),
        ({"keep": ["10.6.0.5", "10.6.0.20-10.6.0.9"]}, "denied: spec.keep[1]: '10.6.0.20-10.6.0.9' is reversed"),
        ({"keep": ["web-0"]}, "denied: spec.keep[0]: 'web-0': its start is no IP address"),
        ({"reserve": ["10.6.0.50-10.6.0.60"]}, "allowed"),
        ({"reserve": ["10.6.0.15"]}, "allowed"),
        ({"reserve": ["10.6.1.5"]}, "denied: spec.reserve[0]: '10.6.1.5' is not within 10.6.0.0/24"),
        ({"reserve": ["10.6.0.x"]}, "denied: spec.reserve[0]: '10.6.0.x' is no IP address"),
        (
            {"reserve": ["10.6.0.35-10.6.0.50"]},
            "denied: spec.reserve: SpiderIPPool red holds 10.6.0.35-10.6.0.40, too",
        ),
    ],
)
def test_a_guard(spec: Object, answer: str) -> None:
    """Numbers in order and bounds, words from their lists, ranges that can be read and belong to no other pool."""
    assert judged("guard", guard(**spec), knowledge=CLUSTER).startswith(answer)


@pytest.mark.parametrize(
    ("name", "pool_ref", "answer"),
    [
        ("spiderpool.blue", {"ipam": "spiderpool", "name": "blue", "namespace": None}, "allowed"),
        (
            "x",
            {"ipam": "calico", "name": "blue"},
            "denied: spec.poolRef.ipam: 'calico' is not allowed; allowed: spiderpo",
        ),
        (
            "x",
            {"name": "blue"},
            "denied: spec.poolRef.ipam: '' is not allowed; allowed: spiderpool, whereabouts, neon,",
        ),
        ("x", {"ipam": "spiderpool"}, "denied: spec.poolRef.name: is empty"),
        (
            "spiderpool.blue",
            {"ipam": "spiderpool", "name": "blue", "namespace": "a"},
            "denied: spec.poolRef.namespace: 'a' is not allowed: pools of spiderpool are cluster-scoped",
        ),
        (
            "whereabouts.p",
            {"ipam": "whereabouts", "name": "p"},
            "denied: spec.poolRef.namespace: is required: pools of",
        ),
        (
            "my-guard",
            {"ipam": "spiderpool", "name": "blue"},
            "warned: metadata.name: gc heeds no guard of this pool but spiderpool.blue; this one is 'my-guard'",
        ),
        (
            "spiderpool.gone",
            {"ipam": "spiderpool", "name": "gone"},
            "warned: spec.poolRef: there is no such pool as spiderpool.gone",
        ),
        ("terway.node-1", {"ipam": "terway", "name": "node-1"}, "allowed"),
        ("x", "blue", "denied: spec.poolRef: 'blue' is not allowed; allowed: an object"),
    ],
)
def test_the_pool_of_a_guard(name: str, pool_ref: Object | str, answer: str) -> None:
    """It is named as its IPAM names pools, and the guard as gc heeds it."""
    assert judged("guard", named(name, poolRef=pool_ref), knowledge=CLUSTER).startswith(answer)


def test_the_pool_may_not_change() -> None:
    """A namespace of null is none, and no change."""
    null = {"ipam": "spiderpool", "name": "blue", "namespace": None}
    assert judged("guard", named("spiderpool.blue", poolRef=null), guard(), CLUSTER) == "allowed"
    changed = {"ipam": "spiderpool", "name": "red"}
    assert judged("guard", named("spiderpool.blue", poolRef=changed), guard(), CLUSTER).startswith(
        "denied: spec.poolRef: 'spiderpool.red' instead of 'spiderpool.blue': poolRef is immutable"
    )


def test_reserve_of_a_pool_with_a_range() -> None:
    """A whereabouts pool's range is its subnet."""
    cluster = knowing(whereabouts=[named("10.6.0.0-24", "kube-system", range="10.6.0.0/24")])
    ref = {"ipam": "whereabouts", "namespace": "kube-system", "name": "10.6.0.0-24"}
    obj = named("whereabouts.kube-system.10.6.0.0-24", poolRef=ref, reserve=["10.6.0.1-10.6.2.1"])
    assert judged("guard", obj, knowledge=cluster).startswith(
        "denied: spec.reserve[0]: '10.6.0.1-10.6.2.1' is not within 10.6.0.0/24"
    )


def test_reserve_in_another_guard_or_ipam_warns() -> None:
    """Both may mean it."""
    other = guard("red", reserve=["10.6.0.60-10.6.0.70"])
    whereabouts = named("w", "kube-system", range="10.6.0.64/28")
    told = judged(
        "guard",
        guard(reserve=["10.6.0.65"]),
        knowledge=knowing(pools=[BLUE, RED], guards=[other, guard(reserve=["10.6.0.65"])], whereabouts=[whereabouts]),
    )
    assert told.startswith(
        "warned: spec.reserve: whereabouts IPPool kube-system/w (10.6.0.64/28) hands out 10.6.0.65, too"
    )
    assert told.endswith("| spec.reserve: PoolGuard spiderpool.red reserves 10.6.0.65, too")


def of_range(ipam: str, pool: str, **spec: Any) -> Object:
    """A guard of an IPPool."""
    return named(f"{ipam}.a.{pool}", poolRef={"ipam": ipam, "namespace": "a", "name": pool}, **spec)


INNER: Object = {"range": "10.0.0.128/25"}


@pytest.mark.parametrize("ipam", ["whereabouts", "neon"])
@pytest.mark.parametrize(
    ("pools", "ipam_block", "reserve", "answer"),
    [
        (["10.0.0.0-24"], None, "10.0.0.130", "allowed"),
        (["10.0.0.0-24", "10.0.0.128-25"], None, "10.0.0.5", "allowed"),
        (["10.0.0.0-24", "10.0.0.128-25"], None, "10.0.0.130", "denied: spec.reserve: {} IPPool a/10.0.0.128-25 (10.0"),
        (
            ["10.0.0.0-24", "red-10.0.0.128-25"],
            None,
            "10.0.0.130",
            "warned: spec.reserve: {} IPPool a/red-10.0.0.128-25",
        ),
        (
            ["red-10.0.0.0-24", "red-10.0.0.128-25"],
            None,
            "10.0.0.130",
            "denied: spec.reserve: {} IPPool a/red-10.0.0.128-25 (10.0.0.128/25) hands out 10.0.0.130, too, on the same",
        ),
        (
            ["10.0.0.0-24"],
            INNER,
            "10.0.0.130",
            "denied: spec.reserve: the {} range of NetworkAttachmentDefinition team-a",
        ),
        (["10.0.0.0-24"], {**INNER, "exclude": ["10.0.0.130"]}, "10.0.0.130", "allowed"),
        (
            ["10.0.0.0-24"],
            {**INNER, "network_name": "red"},
            "10.0.0.130",
            "warned: spec.reserve: the {} range of NetworkAttachmentDefinition team-a/net hands out 10.0.0.130, too: harm",
        ),
    ],
)
def test_reserve_in_another_pool_of_its_ipam(
    ipam: str, pools: list[str], ipam_block: Object | None, reserve: str, answer: str
) -> None:
    """Refused on the same network; another network_name is another network. What the attachment says counts."""
    made = [named(name, "a", range=f"{name.removeprefix('red-').replace('-', '/')}") for name in pools]
    kind = {"type": "whereabouts"} if ipam == "whereabouts" else {}
    nads = [nad({**kind, **ipam_block})] if ipam_block else []
    cluster = knowing(**{ipam: made}, nads=nads)
    told = judged("guard", of_range(ipam, pools[0], reserve=[reserve]), knowledge=cluster)
    assert told.startswith(answer.format(ipam))


def test_doubt_about_siblings_warns() -> None:
    """A pool that may be old refuses nothing, nor does an attachment."""
    made = [named("10.0.0.0-24", "a", range="10.0.0.0/24"), named("10.0.0.128-25", "a", range="10.0.0.128/25")]
    told = judged(
        "guard",
        of_range("whereabouts", "10.0.0.0-24", reserve=["10.0.0.130"]),
        knowledge=knowing("is old", whereabouts=made),
    )
    assert told.startswith("warned: spec.reserve: whereabouts IPPool a/10.0.0.128-25")


def test_doubt_about_pools_warns() -> None:
    """A subnet that may be old refuses nothing, and no pool is said to be absent."""
    cluster = knowing("is old", pools=[BLUE])
    assert judged("guard", guard(reserve=["10.6.1.5"]), knowledge=cluster).startswith(
        "warned: spec.reserve[0]: '10.6.1.5'"
    )
    assert judged("guard", guard("gone"), knowledge=cluster) == "allowed"


def test_only_what_changes_is_judged() -> None:
    """A guard that was wrong before can be labelled, and mended in part."""
    old = guard(freeAddresses={"low": 25, "target": 20}, graceSeconds=-1, reserve=["10.6.1.5"])
    assert judged("guard", old, old, CLUSTER) == "allowed"
    assert (
        judged("guard", guard(freeAddresses={"low": 25, "target": 20}, reserve=["10.6.1.5"]), old, CLUSTER) == "allowed"
    )
    assert judged("guard", guard(freeAddresses={"low": 26, "target": 20}), old, CLUSTER).startswith("denied")


def test_lists_are_written_in_one_form() -> None:
    """Both families may stand in `keep`."""
    obj = guard(keep=["fd00::2", "10.6.0.2", "fd00::1", "10.6.0.1"], reserve=["10.6.0.9-10.6.0.9"])
    assert written("guard", obj) == guard(keep=["10.6.0.1-10.6.0.2", "fd00::1-fd00::2"], reserve=["10.6.0.9"])
    wrong = guard(keep=["10.6.0.2", "10.6.0.1", "x"])
    assert written("guard", wrong) == wrong
