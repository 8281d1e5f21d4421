"""PoolGuards by themselves: names, specs, statuses, and what is remembered of nodes and pods."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from factories import NOW, UNREAD, Object, blue, claim, node, pod, ref, snapshot, stamp
from poolwarden.cluster.interface import Complete, Incomplete, Listing, Unreadable
from poolwarden.gc.guard import (
    MOST_RELEASED,
    GuardStatus,
    PoolGuard,
    Recollection,
    Released,
    condition,
    merged_released,
    new_guard,
    read_guards,
    recollect,
    remember,
    status_change,
    unchanged,
)
from poolwarden.gc.policy import Ceiling, Mode, Policies, Policy, Retention, RetentionRule
from poolwarden.gc.snapshot import Memory
from poolwarden.ipam.kinds import NODES
from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.pool_guard import guard_name
from poolwarden.ipam.ranges import address_set, parse_range

BLUE = ref("blue")
CANONICAL = "spiderpool.blue"


def guard(
    spec: Mapping[str, Any] | None = None,
    *,
    name: str = CANONICAL,
    status: Mapping[str, Any] | None = None,
    **meta: Any,
) -> PoolGuard:
    """The guard of `blue`, as the API server returns it."""
    body = new_guard(BLUE)
    metadata = body["metadata"] | {"name": name, "uid": "guard-uid", "resourceVersion": "7", "generation": 1} | meta
    whole = {"metadata": metadata, "spec": body["spec"] | dict(spec or {}), "status": dict(status or {})}
    return msgspec.json.decode(msgspec.json.encode(whole), type=PoolGuard)


def policy(spec: Mapping[str, Any], default: Policy | None = None) -> Policy:
    """The policy of `blue` under that spec."""
    guards = read_guards(Listing((guard(spec),), Complete()), default or Policy())
    assert guards.problems == ()
    return guards.policies.of(BLUE)


# --- names ------------------------------------------------------------------------------------------------------------


def test_canonical_names() -> None:
    """`<ipam>.[<namespace>.]<pool>`."""
    assert guard_name(BLUE) == CANONICAL
    assert guard_name(PoolRef("whereabouts", "kube-system", "net")) == "whereabouts.kube-system.net"


def test_longest_name() -> None:
    """A name of 253 characters stands as it is; one more is cut and hashed."""
    just = PoolRef("spiderpool", "", "p" * (253 - len("spiderpool.")))
    assert guard_name(just) == str(just)
    over = PoolRef("spiderpool", "", just.name + "p")
    assert len(guard_name(over)) == 253
    assert guard_name(over) != str(just)
    assert guard_name(over).startswith("spiderpool.ppp")


def test_over_long_names_stay_unique() -> None:
    """Pools that differ only at the end have different guards, the same pool always the same."""
    names = {guard_name(PoolRef("spiderpool", "", "p" * 260 + end)) for end in ("a", "b", "aa", "")}
    assert len(names) == 4
    again = PoolRef("spiderpool", "", "p" * 260 + "a")
    assert guard_name(again) == guard_name(again)


def test_cut_leaves_a_valid_name() -> None:
    """No dot or dash stands before the hash, where a DNS label would be empty."""
    for place in range(230, 250):
        name = guard_name(PoolRef("spiderpool", "", "p" * (place - len("spiderpool.")) + ".-" * 20))
        assert ".-" not in name
        assert "--" not in name
        assert len(name) <= 253


def test_only_the_canonical_name_counts() -> None:
    """Any other guard of the same pool is ignored, whatever it says."""
    guards = read_guards(Listing((guard({"mode": "Release"}, name="mine"), guard()), Complete()), Policy())
    assert guards.policies.of(BLUE) == Policy()
    assert [item.metadata.name for item in guards.ignored] == ["mine"]
    assert guards.by_pool[BLUE].canonical


def test_new_guard_says_only_which_pool() -> None:
    """Gc writes no spec field but poolRef, and marks what it made."""
    assert new_guard(PoolRef("whereabouts", "kube-system", "net"))["spec"] == {
        "poolRef": {"ipam": "whereabouts", "namespace": "kube-system", "name": "net"}
    }
    assert new_guard(BLUE)["spec"] == {"poolRef": {"ipam": "spiderpool", "name": "blue"}}
    assert guard().untouched


@pytest.mark.parametrize("meta", [{"generation": 2}, {"labels": None}, {"labels": {"team": "a"}}], ids=str)
def test_touched_guards(meta: dict[str, Any]) -> None:
    """A guard whose spec was edited, or that somebody else made, is not ours to delete."""
    assert not guard(**meta).untouched


# --- specs ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, {}),
        ({"mode": "Off"}, {"mode": Mode.OFF}),
        ({"mode": "Observe"}, {"mode": Mode.OBSERVE}),
        ({"mode": "Release"}, {"mode": Mode.RELEASE}),
        ({"graceSeconds": 0}, {"grace": 0}),
        ({"graceSeconds": 604800}, {"grace": 604800}),
        ({"cooldownSeconds": 5}, {"cooldown": 5}),
        ({"maxReleasesPerSweep": 0}, {"max_releases": 0}),
        ({"maxReleasePercent": 100}, {"max_release_percent": 100}),
        ({"acknowledgedLeaks": 7}, {"acknowledged_leaks": 7}),
        ({"finishedPods": "Release"}, {"release_finished_pods": True}),
        ({"finishedPods": "Keep"}, {"release_finished_pods": False}),
        ({"nodeEvidence": "Ignore"}, {"node_evidence_required": False}),
        ({"nodeEvidence": "Required"}, {"node_evidence_required": True}),
        ({"ignoreNamespaces": ["infra"]}, {"ignore_namespaces": frozenset({"infra"})}),
        (
            {"keep": ["10.0.0.5", "10.0.0.10-10.0.0.20", "fd00::5"]},
            {"keep": address_set(map(parse_range, ["10.0.0.5", "10.0.0.10-10.0.0.20", "fd00::5"]))},
        ),
        ({"retention": {}}, {"retention": Retention()}),
        (
            {"retention": {"statefulSets": {"policy": "ReleaseAlways"}}},
            {"retention": Retention(RetentionRule.RELEASE_ALWAYS)},
        ),
        (
            {"retention": {"statefulSets": {"policy": "ReleaseAfter", "afterSeconds": 86400}}},
            {"retention": Retention(RetentionRule.RELEASE_AFTER, 86400)},
        ),
    ],
    ids=str,
)
def test_each_field(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    """Each field of a spec is its policy's; an absent one takes the program's default."""
    for default in (Policy(), Policy(grace=1, cooldown=2, max_releases=3, release_finished_pods=True)):
        assert policy(spec, default) == msgspec.structs.replace(default, **expected)


@pytest.mark.parametrize("keep", ["10.0.0.300", "10.0.0.20-10.0.0.10", "10.0.0.0/24", "web", ""])
def test_keep_that_cannot_be_parsed(keep: str) -> None:
    """A guard whose keep list cannot be read counts as Off, and is told."""
    guards = read_guards(Listing((guard({"mode": "Release", "keep": [keep]}),), Complete()), Policy())
    assert guards.policies.of(BLUE).mode is Mode.OFF
    assert len(guards.problems) == 1
    assert "PoolGuard spiderpool.blue counts as mode Off" in guards.problems[0]


@pytest.mark.parametrize("name", ["10.0.0.0-24", "a" * 300])
def test_guard_of_a_pool_in_a_namespace_that_cannot_be_decoded(name: str) -> None:
    """It is known by the name that a pool's guard has, in whatever namespace the pool is, and however long its name."""
    pool = PoolRef("whereabouts", "kube-system", name)
    broken = Unreadable("", guard_name(pool), "poolguards", "Expected `int`, got `str`", b"{}")
    guards = read_guards(Listing((), Complete(), (broken,)), Policy(mode=Mode.RELEASE))
    assert guards.policies.of(pool).mode is Mode.OFF
    assert guards.policies.of(PoolRef("whereabouts", "other", name)).mode is Mode.RELEASE


@pytest.mark.parametrize("name", ["blue", "team.blue"])
def test_guard_that_cannot_be_decoded(name: str) -> None:
    """Doubt keeps: its pool is Off, whatever the default, and the problem names it and the error."""
    broken = Unreadable("", f"spiderpool.{name}", "poolguards", "Expected `int`, got `str`", b"{}")
    guards = read_guards(Listing((), Complete(), (broken,)), Policy(mode=Mode.RELEASE))
    assert guards.policies.of(ref(name)).mode is Mode.OFF
    assert guards.policies.of(ref("other")).mode is Mode.RELEASE
    assert guards.problems == (
        f"PoolGuard spiderpool.{name} cannot be read and counts as mode Off: Expected `int`, got `str`",
    )


@pytest.mark.parametrize(
    "spec",
    [
        {"mode": "release"},
        {"graceSeconds": -1},
        {"graceSeconds": 604801},
        {"cooldownSeconds": "60"},
        {"maxReleasePercent": 101},
        {"maxReleasesPerSweep": -1},
        {"finishedPods": "Always"},
        {"nodeEvidence": "Maybe"},
        {"retention": {"statefulSets": {"policy": "Never"}}},
        {"retention": {"statefulSets": {"policy": "ReleaseAfter", "afterSeconds": 366 * 86400}}},
        {"keep": "10.0.0.5"},
    ],
    ids=str,
)
def test_values_that_are_not_allowed(spec: dict[str, Any]) -> None:
    """What the definition would refuse is never decoded into a policy."""
    with pytest.raises(msgspec.ValidationError):
        guard(spec)


@pytest.mark.parametrize(
    ("mode", "observe", "opt_in", "release"),
    [
        (None, False, False, True),
        (Mode.OFF, False, False, False),
        (Mode.OBSERVE, False, False, False),
        (Mode.RELEASE, False, True, True),
    ],
)
def test_mode_under_ceiling(mode: Mode | None, observe: bool, opt_in: bool, release: bool) -> None:  # noqa: FBT001
    """`--mode` is the ceiling: opt-in asks for Release, release for anything but Observe and Off."""
    allowed = [Policy(mode=mode).may_release(ceiling) for ceiling in Ceiling]
    assert allowed == [observe, opt_in, release]


@pytest.mark.parametrize(
    ("size", "percent", "most", "expected"),
    [
        (254, 20, 50, 50),
        (254, 19, 50, 48),
        (254, 1, 50, 2),
        (99, 1, 50, 1),
        (4, 20, 50, 1),
        (0, 20, 50, 1),
        (254, 20, 7, 7),
        (254, 20, 0, 0),
        (2**64, 20, 50, 50),
        (10, 100, 50, 10),
    ],
)
def test_most_releases(size: int, percent: int, most: int, expected: int) -> None:
    """`max(1, floor(share x size))`, never above the guard's own cap; a cap of 0 lets none go."""
    assert Policy(max_releases=most, max_release_percent=percent).most_releases(size) == expected


def test_policies() -> None:
    """A pool without a guard has the default's."""
    own = Policy(grace=1)
    assert Policies(Policy(), {BLUE: own}).of(BLUE) is own
    assert Policies(Policy(), {BLUE: own}).of(ref("green")) == Policy()


# --- statuses ---------------------------------------------------------------------------------------------------------


def test_unchanged_status() -> None:
    """Nothing but observedAt differs, and that is younger than half an hour: no write."""
    old = GuardStatus(observed_at=NOW)
    for minutes, expected in ((0, True), (29, True), (30, False)):
        now = NOW + timedelta(minutes=minutes)
        assert unchanged(old, GuardStatus(observed_at=now), now) is expected
    assert not unchanged(old, GuardStatus(observed_at=NOW, ledger_omitted=1), NOW)
    assert not unchanged(GuardStatus(), GuardStatus(observed_at=NOW), NOW)


def test_status_is_written_under_precondition() -> None:
    """A status names the very guard that was read."""
    body = status_change(guard(), GuardStatus(observed_at=NOW))
    assert body["metadata"] == {"resourceVersion": "7", "uid": "guard-uid"}
    assert set(body) == {"metadata", "status"}
    assert {"ledger", "released", "nodesGone", "nodesSilent", "conditions"} <= set(body["status"])


def test_transition_time() -> None:
    """LastTransitionTime moves only with the status; reason, message and generation follow at once."""
    later = NOW + timedelta(hours=1)
    first = condition((), "Braked", status=True, reason="A", message="a", now=NOW, generation=1)
    same = condition((first,), "Braked", status=True, reason="B", message="b", now=later, generation=2)
    assert (same.last_transition_time, same.reason, same.message, same.observed_generation) == (NOW, "B", "b", 2)
    turned = condition((first,), "Braked", status=False, reason="B", message="b", now=later, generation=2)
    assert (turned.status, turned.last_transition_time) == ("False", later)
    other = condition((first,), "Complete", status=True, reason="B", message="b", now=later, generation=2)
    assert other.last_transition_time == later


def released(number: int, *, back: bool = False) -> Released:
    """A release."""
    return Released(f"10.0.0.{number}", "{}", f"d{number}", "OwnerGone", NOW, restored_at=NOW if back else None)


def test_the_last_hundred_releases() -> None:
    """The newest hundred are kept, oldest first; what was put back stays longest, for gc holds it."""
    assert merged_released([released(1)], [released(2)]) == (released(1), released(2))
    many = [released(number) for number in range(MOST_RELEASED + 5)]
    assert merged_released(many[:100], many[100:]) == tuple(many[5:])
    held = released(0, back=True)
    assert merged_released([held, *many[1:100]], many[100:]) == (held, *many[6:])


# --- what is remembered -----------------------------------------------------------------------------------------------


def recall(memory: Recollection | None = None, *objects: Object, now: datetime = NOW, **status: Any) -> Memory:
    """What the judge is told under a guard with that status and the process's memory."""
    whole = {"observedAt": stamp(NOW - timedelta(minutes=10)), "poolUID": "blue-uid"} | status
    guards = read_guards(Listing((guard(status=whole),), Complete()), Policy())
    return remember(guards, snapshot(blue(), *objects), memory or Recollection(), now)


GONE: dict[str, Any] = {"nodesGone": [{"name": "node-9", "since": stamp(NOW - timedelta(hours=1))}]}
SILENT: dict[str, Any] = {"nodesSilent": [{"name": "node-2", "since": stamp(NOW - timedelta(hours=1))}]}
HOUR_AGO = NOW - timedelta(hours=1)


def test_node_that_is_gone() -> None:
    """A recent guard's word counts, for its own pool, and until the node is back."""
    assert recall(None, node(), **GONE).nodes_gone == {(BLUE, "node-9"): HOUR_AGO}
    assert recall(None, node("node-9"), **GONE).nodes_gone == {}


def test_node_that_is_silent() -> None:
    """Silence is remembered while the node is there and not Ready."""
    assert recall(None, node("node-2", ready=False), **SILENT).nodes_silent == {(BLUE, "node-2"): HOUR_AGO}
    assert recall(None, node("node-2"), **SILENT).nodes_silent == {}
    assert recall(None, node(), **SILENT).nodes_silent == {}


@pytest.mark.parametrize(("minutes", "counts"), [(59, True), (60, False)])
def test_old_status_is_no_memory_of_nodes(minutes: int, counts: bool) -> None:  # noqa: FBT001 - a table
    """In an hour without a sweep a node may have come back and gone again; that it was silent only keeps."""
    seen = stamp(NOW - timedelta(minutes=minutes))
    silent = node("node-2", ready=False)
    memory = recall(None, silent, observedAt=seen, **GONE, **SILENT)
    assert bool(memory.nodes_gone) is counts
    assert memory.nodes_silent


ENTRY = {
    "address": "10.0.0.10",
    "recordDigest": "d",
    "reason": "NeverAttached",
    "firstSeen": stamp(HOUR_AGO),
    "lastCounted": stamp(HOUR_AGO),
    "phase": "Cooldown",
    "node": "node-1",
    "minGraceSeconds": 90,
    "owner": None,
}


def test_ledger_of_this_pool() -> None:
    """The judge learns of each entry: since when, on which node, with what grace, and whether its item is fenced."""
    memory = recall(ledger=[ENTRY])
    key = (BLUE, "d")
    assert memory.first_seen == memory.absent_since == {key: HOUR_AGO}
    assert memory.nodes == {key: "node-1"}
    assert memory.min_graces == {key: 90}
    assert memory.fenced == {key}
    assert recall(ledger=[ENTRY | {"phase": "Sighted"}]).fenced == frozenset()
    assert recall(ledger=[ENTRY | {"reason": "OwnerGone"}]).fenced == frozenset()
    retained = recall(ledger=[ENTRY | {"phase": "Retained"}])
    assert (retained.first_seen, retained.absent_since) == ({}, {key: HOUR_AGO})


def test_pool_made_anew_has_no_memory() -> None:
    """The ledger, nodes and held records of a pool of the same name with another UID are not its own."""
    memory = recall(poolUID="older", ledger=[ENTRY], **GONE)
    assert memory == Memory(graces=memory.graces, node_of=memory.node_of)


def test_restored_records_are_held() -> None:
    """A digest that was put back is held; one that was released is not."""
    item = {
        "address": "10.0.0.10",
        "record": "{}",
        "recordDigest": "d",
        "reason": "OwnerGone",
        "releasedAt": stamp(NOW),
    }
    assert recall(released=[item]).held == frozenset()
    assert recall(released=[item | {"restoredAt": stamp(NOW)}]).held == {(BLUE, "d")}


def test_pods_that_were_seen() -> None:
    """A process remembers grace and node of pods, and of gone ones those that a record names."""
    first = recollect(Recollection(), snapshot(pod("app", grace=90), pod("web", node="node-2")), NOW)
    assert first.graces == {"app-uid": 90, "web-uid": 30}
    assert first.node_of == {"app-uid": "node-1", "web-uid": "node-2"}
    named = blue({"10.0.0.10": claim("app")})
    second = recollect(first, snapshot(named, pod("other", node="")), NOW)
    assert second.graces == {"app-uid": 90, "other-uid": 30}
    assert second.node_of == {"app-uid": "node-1"}


def test_node_that_vanishes() -> None:
    """A process knows since when a node is gone that was there, and forgets it once it is back."""
    first = recollect(Recollection(), snapshot(node("node-1"), node("node-2")), NOW)
    assert first.nodes == {"node-1", "node-2"}
    ten, twenty = NOW + timedelta(minutes=10), NOW + timedelta(minutes=20)
    second = recollect(first, snapshot(node("node-1")), ten)
    assert second.vanished == {"node-2": ten}
    third = recollect(second, snapshot(node("node-1")), twenty)
    assert third.vanished == {"node-2": ten}
    back = recollect(third, snapshot(node("node-1"), node("node-2")), twenty)
    assert back.vanished == {}
    assert recall(first, node("node-1"), now=ten).vanished == {"node-2": ten}


def test_nodes_that_could_not_be_listed() -> None:
    """A list that failed makes no node vanish, nor come back."""
    first = recollect(Recollection(), snapshot(node("node-1"), node("node-2")), NOW)
    unread: dict[Any, Incomplete] = {NODES: UNREAD}
    assert recollect(first, snapshot(coverage=unread), NOW) == Recollection({}, {}, first.nodes, {}, NOW)
