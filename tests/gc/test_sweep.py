"""Sweeps over a cluster in files, with time moved by hand: from the first sighting to the end, and what stops it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from factories import Object, ago, blue, claim, digest, endpoint, green, nad, node, pod, pool, stateful_set, undecodable
from faults import (
    Call,
    Crash,
    World,
    calls,
    crash_after,
    cut,
    go_on,
    outdated,
    refused,
    sweep,
    sweep_until_due,
    unread,
)
from poolwarden.gc.by_hand import Did, restore_by_hand
from poolwarden.gc.guard import Recollection
from poolwarden.gc.notice import NoticeReason
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.release import Outcome
from poolwarden.gc.sweep import NO_PODS, Settings, Sweep, SweepReport

A, B, C, D = "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.0.13"
LEAK = claim("app")
LIVE = pod("live", ips=[B])
LIVE_NIC = endpoint(LIVE, {"eth0": f"{B}@blue"})
NIC = endpoint("app", {"eth0": f"{A}@blue"})
POOL_WRITE = calls("patch", "SpiderIPPool")
ENDPOINT_WRITE = calls("write", "SpiderEndpoint")
GUARD_WRITE = calls("write", "PoolGuard")


def leaking(*others: Object) -> World:
    """A pool with one leak and one record in use."""
    return World(blue({A: LEAK, B: LIVE}), LIVE, LIVE_NIC, *others)


def with_spec(world: World, pool_name: str = "blue", **spec: object) -> None:
    """The operator edits a guard's spec."""
    guard = world.guard(pool_name)
    generation = guard["metadata"]["generation"] + 1
    world.put({**guard, "spec": guard["spec"] | spec, "metadata": guard["metadata"] | {"generation": generation}})


def sweeps(world: World, number: int, **options: Any) -> list[SweepReport]:
    """So many sweeps, 11 minutes apart."""
    reports = []
    for _ in range(number):
        reports.append(sweep(world, **options))
        world.later(minutes=11)
    return reports


def said(report: SweepReport) -> list[str]:
    """The reasons of what was told."""
    return [notice.reason.value for notice in report.notices]


def outcomes(report: SweepReport) -> list[Outcome]:
    """What became of the marked records."""
    return [result.outcome for _, result in report.released]


def conditions(world: World, name: str = "blue") -> dict[str, Object]:
    """The conditions of a guard."""
    return {item["type"]: item for item in world.status(name)["conditions"]}


# --- from first sighting to the end -----------------------------------------------------------------------------------


def test_whole_history() -> None:
    """Sighted, cooldown, marked, endpoint first, one pool write, verified, forgotten, and noted for restore."""
    world = leaking(NIC)
    assert world.ledger("blue") == {}
    first = sweep(world)
    assert world.ledger("blue") == {A: "Sighted"}
    assert said(first) == ["LeakDetected"]
    world.later(minutes=9)
    sweep(world)
    assert world.ledger("blue") == {A: "Sighted"}
    world.later(minutes=1)
    second = sweep(world)
    assert (world.ledger("blue"), said(second)) == ({A: "Cooldown"}, [])
    assert world.status("blue")["addresses"] == {
        "size": "21",
        "allocated": "1",
        "unknown": "0",
        "cooldown": "1",
        "free": "19",
    }
    world.later(seconds=59)
    sweep(world)
    assert world.ledger("blue") == {A: "Cooldown"}
    assert not world.tried(lambda call: call.writes and call.kind != "PoolGuard")
    world.later(seconds=1)
    world.forget_calls()
    third = sweep(world)
    assert world.records("blue") == {B: claim(LIVE)}
    assert not world.has("SpiderEndpoint", "app")
    assert (third.complete, said(third), outcomes(third)) == (True, ["AddressReleased"], [Outcome.RELEASED])
    assert world.ledger("blue") == {}
    (released,) = world.status("blue")["released"]
    assert {key: value for key, value in released.items() if value is not None} == {
        "address": A,
        "record": json.dumps(LEAK, separators=(",", ":")),
        "recordDigest": digest(A, LEAK),
        "reason": "OwnerGone",
        "releasedAt": "2026-01-10T12:11:00Z",
        "owner": {"kind": "Pod", "namespace": "default", "name": "app", "uid": "app-uid"},
    }
    assert world.status("blue")["addresses"]["free"] == "20"


def test_order_of_the_calls_of_a_release() -> None:
    """Mark, then the live reads, then the endpoint, then one write of the pool, then the verification, then the guard."""
    world = leaking(NIC)
    sweep_until_due(world)
    sweep(world)
    mark, *_, done = (number for number, call in enumerate(world.calls) if GUARD_WRITE(call))
    (entry,) = world.calls[mark].body["status"]["ledger"]
    assert (entry["phase"], entry["record"]) == ("Releasing", json.dumps(LEAK, separators=(",", ":")))
    firsts = [
        mark,
        world.index(calls("get", "SpiderIPPool")),
        world.index(calls("get", "Pod")),
        world.index(calls("get", "SpiderEndpoint")),
        world.index(calls("get", "PoolGuard")),
        world.index(calls("delete", "SpiderEndpoint")),
        world.index(calls("patch", "SpiderEndpoint")),
        world.index(POOL_WRITE),
        max(number for number, call in enumerate(world.calls) if calls("get", "Pod")(call)),
        done,
    ]
    assert firsts == sorted(firsts)
    assert len(set(firsts)) == len(firsts)
    assert len(world.tried(POOL_WRITE)) == 1
    reads = [number for number, call in enumerate(world.calls) if calls("get", "Node")(call)]
    assert any(mark < number < world.index(ENDPOINT_WRITE) for number in reads)


def test_writes_name_what_was_judged() -> None:
    """Compare-and-swap: the pool under its resourceVersion, the endpoint under UID and resourceVersion."""
    world = leaking(NIC)
    sweep_until_due(world)
    version = world.thing("SpiderIPPool", "blue")["metadata"]["resourceVersion"]
    nic = world.thing("SpiderEndpoint", "app")["metadata"]
    sweep(world)
    (write,) = world.tried(POOL_WRITE)
    assert write.body["metadata"]["resourceVersion"] == version
    assert write.subresource == "status"
    (deletion,) = world.tried(calls("delete", "SpiderEndpoint"))
    assert deletion.body == {"uid": nic["uid"], "resourceVersion": nic["resourceVersion"]}
    (finalizer,) = world.tried(calls("patch", "SpiderEndpoint"))
    assert finalizer.body["metadata"]["resourceVersion"] not in {"", nic["resourceVersion"]}
    assert all("resourceVersion" in call.body["metadata"] for call in world.tried(calls("patch", "PoolGuard")))


def test_read_order_of_the_nomination() -> None:
    """Pools, then endpoints, then pods, then what may retain them, then nodes: a record is judged by later owners only."""
    world = leaking()
    sweep(world)
    order = ["PoolGuard", "SpiderIPPool", "SpiderReservedIP", "SpiderEndpoint", "Pod", "StatefulSet", "Node"]
    listed = [call.kind for call in world.tried(calls("list")) if call.kind in order]
    assert listed == order


def test_no_release_without_a_mark() -> None:
    """Where the mark could not be persisted, nothing is released, and the sweep says so."""
    world = leaking(NIC)
    sweep_until_due(world)
    world.on(calls("patch", "PoolGuard"), refused)
    report = sweep(world)
    assert not world.tried(lambda call: POOL_WRITE(call) or ENDPOINT_WRITE(call))
    assert any("nothing was released, since it could not be marked" in line for line in report.problems)
    assert not report.complete


def test_one_write_for_all_records_of_a_pool() -> None:
    """Three leaks of a pool leave it in one write, each with its own note."""
    world = World(blue({A: LEAK, B: LIVE, C: claim("web"), D: claim("job"), "10.0.0.14": pod("x"), "10.0.0.15": pod("y")}),
                  LIVE, pod("x"), pod("y"))  # fmt: skip
    sweep_until_due(world)
    sweep(world)
    assert set(world.records("blue")) == {B, "10.0.0.14", "10.0.0.15"}
    assert len(world.tried(POOL_WRITE)) == 1
    assert world.released("blue") == [A, C, D]


# --- modes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ceiling", "mode", "freed"),
    [
        (Ceiling.OBSERVE, None, False),
        (Ceiling.OBSERVE, "Release", False),
        (Ceiling.OPT_IN, None, False),
        (Ceiling.OPT_IN, "Observe", False),
        (Ceiling.OPT_IN, "Off", False),
        (Ceiling.OPT_IN, "Release", True),
        (Ceiling.RELEASE, None, True),
        (Ceiling.RELEASE, "Observe", False),
        (Ceiling.RELEASE, "Off", False),
        (Ceiling.RELEASE, "Release", True),
    ],
)
def test_mode_and_ceiling(ceiling: Ceiling, mode: str | None, freed: bool) -> None:  # noqa: FBT001 - a table
    """`--mode` is the most that is done; observe touches no IPAM object, opt-in only pools that say Release."""
    world = leaking(NIC)
    sweep(world, ceiling)
    if mode:
        with_spec(world, mode=mode)
    sweeps(world, 4, ceiling=ceiling)
    assert (A not in world.records("blue")) is freed
    touched = {call.kind for call in world.calls if call.writes}
    assert touched == ({"PoolGuard", "SpiderIPPool", "SpiderEndpoint"} if freed else {"PoolGuard"})


def test_observe_writes_only_guards() -> None:
    """Whatever is amiss, observe mode creates guards and writes their status, and nothing else."""
    world = World(
        blue({A: LEAK, B: LIVE, C: claim("db-0")}),
        LIVE,
        stateful_set("db", replicas=0),
        NIC,
        endpoint("orphan", {"eth0": "10.0.0.20@blue"}),
        endpoint(LIVE, {"": f"{B}@blue"}),
    )
    sweeps(world, 6, ceiling=Ceiling.OBSERVE)
    written = [call for call in world.calls if call.writes]
    assert written
    assert {(call.verb, call.kind, call.subresource) for call in written} == {
        ("create", "PoolGuard", ""),
        ("patch", "PoolGuard", "status"),
    }
    assert all("spec" not in call.body for call in written if call.verb == "patch")


def test_observe_with_a_mark_that_outlived_its_sweep() -> None:
    """A release of which we died is not finished in observe mode: not even the owner's record is put back."""
    world = leaking(stateful_set("db", replicas=0))
    world.record("blue", {A: None, C: claim("db-0")})
    sweep_until_due(world)
    world.on(POOL_WRITE, crash_after)
    with pytest.raises(Crash):
        sweep(world)
    world.put(stateful_set("db", replicas=1))
    world.forget_calls()
    sweeps(world, 3, ceiling=Ceiling.OBSERVE)
    assert {call.kind for call in world.calls if call.writes} <= {"PoolGuard"}
    assert C not in world.records("blue")
    assert world.ledger("blue") == {C: "Releasing"}
    sweep(world)
    assert world.ledger("blue") == {}


def test_mark_under_observe_is_never_made() -> None:
    """In observe mode no entry goes beyond cooldown, and what would be released is told."""
    world = leaking()
    sweeps(world, 5, ceiling=Ceiling.OBSERVE)
    assert world.ledger("blue") == {A: "Cooldown"}


def test_guard_that_is_off() -> None:
    """Off leaves pool and guard alone: the status stays as it was."""
    world = leaking()
    sweep(world)
    with_spec(world, mode="Off")
    before = world.guard("blue")
    world.forget_calls()
    reports = sweeps(world, 4)
    assert world.guard("blue") == before
    assert not world.tried(calls("write"))
    assert all(not report.notices for report in reports)


# --- the two sightings, in whole sweeps -------------------------------------------------------------------------------


def test_owner_that_is_seen_in_between() -> None:
    """A pod of that UID in between resets the clock: the next leak is a first sighting."""
    world = leaking()
    sweeps(world, 2)
    world.put(pod("app"))
    sweeps(world, 1)
    assert world.ledger("blue") == {}
    world.remove("Pod", "app")
    sweeps(world, 1)
    assert world.ledger("blue") == {A: "Sighted"}
    assert A in world.records("blue")


@pytest.mark.parametrize("kind", ["Pod", "StatefulSet", "SpiderEndpoint", "Node", "SpiderIPPool"])
def test_list_that_failed_in_between(kind: str) -> None:
    """Doubt keeps and neither counts nor resets: the sweep after it goes on where the clock stood."""
    world = leaking() if kind != "StatefulSet" else leaking(stateful_set("db", replicas=0))
    if kind == "StatefulSet":
        world.record("blue", {A: claim("db-0")})
    sweep_until_due(world)
    before = world.ledger("blue")
    world.on(calls("list", kind), unread)
    report = sweep(world)
    assert not report.complete
    assert not world.tried(POOL_WRITE)
    assert world.ledger("blue") == before == {A: "Cooldown"}
    assert sweep(world).complete
    assert A not in world.records("blue")


def test_list_that_broke_off() -> None:
    """A partial list of pods proves nobody absent."""
    world = leaking(pod("app"))
    for _ in range(5):
        world.on(calls("list", "Pod"), cut(1))
        assert not sweep(world).complete
        world.later(minutes=11)
    assert A in world.records("blue")
    assert not world.tried(POOL_WRITE)


def test_record_that_changes_every_time() -> None:
    """The same address with another record is another record, however often."""
    world = leaking()
    for number in range(5):
        world.record("blue", {A: claim("app", f"uid-{number}")})
        sweeps(world, 1)
        assert world.ledger("blue") == {A: "Sighted"}
    assert A in world.records("blue")


def test_grace_of_a_pod_that_was_seen() -> None:
    """After a forced deletion the containers may run for the pod's own grace: this process waits for it, and so does the next."""
    world = leaking(pod("app", grace=3600))
    settings = Settings(Ceiling.RELEASE)
    memory = Recollection()
    for number in range(3):
        one = Sweep(world, settings, go_on, memory)
        one.run()
        memory = one.recollection
        world.later(minutes=11)
        if number == 0:
            world.remove("Pod", "app")
    assert world.status("blue")["ledger"][0]["minGraceSeconds"] == 3600
    sweeps(world, 3)  # another process
    assert A in world.records("blue")
    world.later(minutes=20)
    sweeps(world, 2)
    assert A not in world.records("blue")


def test_node_of_a_pod_that_was_seen() -> None:
    """A process remembers where a pod ran: a node that fell silent keeps its address, though nothing else tells the node."""
    world = leaking(pod("app", node="node-2"), node(), node("node-2"))
    first = Sweep(world, Settings(Ceiling.RELEASE), go_on)
    first.run()
    world.remove("Pod", "app")
    world.later(minutes=11)
    second = Sweep(world, Settings(Ceiling.RELEASE), go_on, first.recollection)
    second.run()
    assert [entry["node"] for entry in world.status("blue")["ledger"]] == ["node-2"]
    world.put(node("node-2", ready=False, since=ago(minutes=-12)))
    reports = sweeps(world, 5)
    assert A in world.records("blue")
    (finding,) = [item for item in reports[-1].findings if item.address == A and item.record_digest]
    assert (finding.reason.value, "node-2" in finding.message) == ("NodeUnreachable", True)


def test_node_that_is_gone_for_half_an_hour() -> None:
    """A node's absence proves something only after nodeGoneGrace, kept in the guard from sweep to sweep."""
    world = leaking(NIC, node("other"))
    sweeps(world, 1)
    assert [item["name"] for item in world.status("blue")["nodesGone"]] == ["node-1"]
    assert world.ledger("blue") == {A: "Sighted"}
    sweeps(world, 2)
    assert A in world.records("blue")
    assert world.status("blue")["ledger"][0].get("dueAt") is None
    sweeps(world, 4)
    assert A not in world.records("blue")


def test_pool_made_anew() -> None:
    """A pool of the same name with another UID starts a new ledger, and its predecessor's releases are not its own."""
    world = leaking()
    sweeps(world, 2)
    assert world.ledger("blue") == {A: "Cooldown"}
    anew = blue({A: LEAK, B: LIVE})
    anew["metadata"]["uid"] = "newer"
    world.put(anew)
    sweeps(world, 1)
    assert world.ledger("blue") == {A: "Sighted"}
    assert world.status("blue")["poolUID"] == "newer"
    assert A in world.records("blue")


# --- brakes and caps --------------------------------------------------------------------------------------------------

USERS = [pod(f"user-{number}", ips=[f"10.0.0.{number}"]) for number in range(20, 30)]


def many(leaks: int, **options: Any) -> World:
    """A pool of 21 addresses with so many leaks (at most eleven), from .10 on, beside ten records in use."""
    places = [*range(10, 20), 30]
    records = {f"10.0.0.{place}": claim(f"app-x{place}") for place in places[:leaks]}
    users = {user["status"]["podIP"]: user for user in USERS}
    return World(blue({**records, **users}), *USERS, **options)


def test_cap_per_pool() -> None:
    """A fifth of 21 addresses are four: so many leave in a sweep, the others in the next, none twice."""
    world = many(9)
    sweep_until_due(world)
    for left in (5, 1, 0):
        world.forget_calls()
        report = sweep(world)
        assert report.complete
        assert len(world.records("blue")) == 10 + left
        assert len(world.tried(POOL_WRITE)) == 1
        world.later(minutes=1)


def test_oldest_first() -> None:
    """Caps let the oldest leaks go first."""
    world = many(0)
    world.record("blue", {D: claim("older")})
    sweep(world)
    world.later(minutes=1)
    world.record("blue", {A: claim("newer"), B: claim("newer-still")})
    sweep(world)
    world.later(minutes=11)
    sweep(world)
    world.later(minutes=11)
    sweep(world, max_releases=1)
    assert D not in world.records("blue")
    assert {A, B} <= set(world.records("blue"))


def test_cap_per_sweep() -> None:
    """`--max-releases` counts over all pools."""
    world = World(
        blue({A: LEAK, C: claim("web"), B: LIVE, D: pod("d")}),
        green({"10.0.1.10": claim("job"), "10.0.1.11": LIVE}),
        LIVE,
        pod("d"),
    )
    sweep_until_due(world)
    sweep(world, max_releases=2)
    assert world.released("blue") == [A, C]
    assert world.released("green") == []
    sweep(world, max_releases=2)
    assert world.released("green") == ["10.0.1.10"]


@pytest.mark.parametrize("number", [0, 1])
def test_no_releases_at_all(number: int) -> None:
    """A cap of 0, on the command line or in a guard, lets none go."""
    world = leaking()
    sweep(world)
    if number:
        with_spec(world, maxReleasesPerSweep=0)
    sweeps(world, 4, max_releases=number * 50)
    assert A in world.records("blue")
    assert not world.tried(POOL_WRITE)


def test_breaker_at_half() -> None:
    """Half of the records may be candidates; one more brakes the pool, which is told once, and nothing leaves it."""
    world = many(10)
    assert not any("SweepBraked" in said(report) for report in sweeps(world, 2))
    assert conditions(world)["Braked"]["status"] == "False"
    world.record("blue", {"10.0.0.30": claim("one-more")})
    reports = sweeps(world, 3)
    assert [said(report).count("SweepBraked") for report in reports] == [1, 0, 0]
    assert len(world.records("blue")) == 21
    braked = conditions(world)["Braked"]
    assert (braked["status"], braked["reason"]) == ("True", "TooManyLeaks")
    assert "acknowledgedLeaks to 11" in braked["message"]
    assert not world.tried(POOL_WRITE)


def test_nobody_in_use() -> None:
    """A pool of more than three records of which none is in use is taken for a misreading."""
    records = {C: claim("db-0"), D: claim("db-1"), "10.0.0.14": claim("db-2")}
    world = World(blue({A: LEAK, **records}), stateful_set("db", replicas=3), pod("elsewhere"))
    sweeps(world, 4)
    assert A in world.records("blue")
    assert conditions(world)["Braked"]["status"] == "True"


def test_acknowledgement_of_fewer() -> None:
    """An acknowledgement below the number of candidates lets none go."""
    world = many(11)
    sweep(world)
    with_spec(world, acknowledgedLeaks=10)
    sweeps(world, 3)
    assert len(world.records("blue")) == 21
    with_spec(world, acknowledgedLeaks=11)
    sweeps(world, 1)
    assert len(world.records("blue")) == 17


@pytest.mark.parametrize("spec", [{"keep": ["10.0.0.5-10.0.0.10"]}, {"ignoreNamespaces": ["default"]}], ids=str)
def test_kept_by_the_guard(spec: dict[str, Any]) -> None:
    """`keep` and `ignoreNamespaces` end the matter: verdict as found, action none, and the message says so."""
    world = leaking(NIC)
    sweep(world)
    with_spec(world, **spec)
    reports = sweeps(world, 4)
    assert A in world.records("blue")
    assert world.has("SpiderEndpoint", "app")
    (finding,) = [item for item in reports[-1].findings if item.address == A and item.record_digest]
    assert (finding.verdict.value, finding.reason.value, finding.action.value) == ("Leaked", "OwnerGone", "none")
    assert next(iter(spec)) in finding.message or "kept" in finding.message or "ignore" in finding.message


def test_no_pod_at_all() -> None:
    """Zero pods in the whole cluster stops the sweep: nothing is written, not even a status."""
    world = World(blue({A: LEAK}), stateful_set("db"))
    report = sweep(world)
    assert NO_PODS in report.problems
    assert not world.tried(calls("write"))
    sweeps(world, 4)
    assert not world.tried(calls("write"))


def test_pods_that_vanish_between_sweeps() -> None:
    """The same once all is due: a list of no pods is no proof."""
    world = leaking()
    sweep_until_due(world)
    world.remove("Pod", "live")
    assert not sweep(world).complete
    assert not world.tried(calls("write"))
    assert set(world.records("blue")) == {A, B}


# --- what is kept for its owner ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("retention", "minutes"),
    [
        ({"policy": "WhileEntitled"}, None),
        ({"policy": "ReleaseAlways"}, 20),
        ({"policy": "ReleaseAfter", "afterSeconds": 3600}, 80),
    ],
    ids=str,
)
def test_retention(retention: dict[str, object], minutes: int | None) -> None:
    """A set's address is kept while entitled; always released; or so long after its owner was first seen absent."""
    world = World(blue({A: claim("db-0"), B: LIVE}), LIVE, LIVE_NIC, stateful_set("db", replicas=1))
    sweep(world)
    with_spec(world, retention={"statefulSets": retention})
    freed = None
    for passed in range(5, 180, 5):
        world.later(minutes=5)
        sweep(world)
        if A not in world.records("blue") and freed is None:
            freed = passed
    assert freed == minutes


def test_scaled_down_and_up_again() -> None:
    """A set that is scaled up before the release has its address still."""
    world = World(blue({A: claim("db-1"), B: LIVE}), LIVE, LIVE_NIC, stateful_set("db", replicas=1))
    sweeps(world, 2)
    world.put(stateful_set("db", replicas=2))
    sweeps(world, 3)
    assert world.records("blue")[A] == claim("db-1")
    assert world.ledger("blue") == {}


@pytest.mark.parametrize(("finished", "freed"), [(None, False), ("Keep", False), ("Release", True)])
def test_finished_pods(finished: str | None, freed: bool) -> None:  # noqa: FBT001 - a table
    """A finished pod keeps its address unless the guard says Release."""
    job = pod("job", phase="Succeeded", restart="Never")
    world = World(blue({A: job, B: LIVE}), LIVE, LIVE_NIC, job)
    sweep(world)
    if finished:
        with_spec(world, finishedPods=finished)
    sweeps(world, 4)
    assert (A not in world.records("blue")) is freed


def test_restored_record_is_held() -> None:
    """What an operator put back is not released again, sweep after sweep, until it changes."""
    world = leaking()
    sweeps(world, 3)
    assert A not in world.records("blue")
    assert isinstance(restore_by_hand(world, Policy(), A, "blue", go_on), Did)
    sweeps(world, 5)
    assert world.records("blue")[A] == LEAK
    world.record("blue", {A: claim("app", "newer")})
    sweeps(world, 3)
    assert A not in world.records("blue")


# --- endpoints over two pools -----------------------------------------------------------------------------------------


def dual_stack() -> World:
    """A pod that is gone, with an address of each family from a pool of its own, in one item of its endpoint."""
    six = pool("six", "fd00::10-fd00::30", {"fd00::10": LEAK, "fd00::11": LIVE})
    nic = endpoint("app", {"eth0": [f"{A}@blue", "fd00::10@six"]})
    return World(blue({A: LEAK, B: LIVE}), six, LIVE, endpoint(LIVE, {"eth0": [f"{B}@blue", "fd00::11@six"]}), nic)


def test_endpoint_of_two_pools_goes_whole_once() -> None:
    """All its records being released, it is deleted once, before either pool is written."""
    world = dual_stack()
    sweep_until_due(world)
    assert sweep(world).complete
    assert (set(world.records("blue")), set(world.records("six"))) == ({B}, {"fd00::11"})
    assert not world.has("SpiderEndpoint", "app")
    assert len(world.tried(calls("delete", "SpiderEndpoint"))) == 1
    assert world.index(calls("patch", "SpiderEndpoint")) < world.index(POOL_WRITE)


@pytest.mark.parametrize("spec", [{"mode": "Observe"}, {"keep": ["fd00::10"]}], ids=str)
def test_endpoint_of_which_one_record_is_kept(spec: dict[str, Any]) -> None:
    """Only the item's address that is released leaves it; the endpoint stays with the other record."""
    world = dual_stack()
    sweep(world)
    with_spec(world, "six", **spec)
    world.later(minutes=11)
    sweeps(world, 3)
    assert (set(world.records("blue")), set(world.records("six"))) == ({B}, {"fd00::10", "fd00::11"})
    assert [item for item in world.listed() if item[0] == "app"] == [("app", "six", "fd00::10")]
    assert not world.tried(calls("delete", "SpiderEndpoint"))


def test_endpoint_beside_an_unreadable_pool() -> None:
    """A pool that cannot be read may hold another record of the same owner: its endpoint does not go whole."""
    world = dual_stack()
    sweep_until_due(world)
    six = world.thing("SpiderIPPool", "six")
    world.put({**six, "status": {**six["status"], "allocatedIPs": "{"}})
    sweeps(world, 2)
    assert world.has("SpiderEndpoint", "app")


# --- statuses: written when something changed, and only then ------------------------------------------------------------


def test_nothing_changed() -> None:
    """A sweep that finds what the last one found writes nothing and tells nothing, until half an hour has passed."""
    world = World(blue({B: LIVE, C: claim("db-0")}), green(), LIVE, stateful_set("db"))
    first = sweep(world)
    assert first.complete
    world.forget_calls()
    for _ in range(5):
        world.later(minutes=5)
        assert not sweep(world).notices
    assert not world.tried(calls("write"))
    world.later(minutes=5)
    sweep(world)
    assert [str(call) for call in world.tried(calls("write"))] == [
        "patch PoolGuard spiderpool.blue status",
        "patch PoolGuard spiderpool.green status",
    ]


def test_transition_times_of_a_guard() -> None:
    """A condition's lastTransitionTime moves when its status turns, not with its message."""
    world = many(11)
    sweep(world)
    since = conditions(world)["Braked"]["lastTransitionTime"]
    world.later(minutes=5)
    world.remove("Pod", "user-20")
    sweep(world)
    assert "to 12" in conditions(world)["Braked"]["message"]
    assert conditions(world)["Braked"]["lastTransitionTime"] == since
    world.record("blue", dict.fromkeys((f"10.0.0.{number}" for number in range(10, 20)), None))
    sweep(world)
    assert conditions(world)["Braked"]["status"] == "False"
    assert conditions(world)["Braked"]["lastTransitionTime"] > since


def test_conflict_is_told_once() -> None:
    """AddressConflict is news once; the condition names it while it lasts."""
    two = pod("two", ips=[B])
    world = World(blue({B: LIVE}), LIVE, LIVE_NIC, two, nad("eth0"))
    reports = sweeps(world, 3)
    assert [said(report).count("AddressConflict") for report in reports] == [1, 0, 0]
    assert conditions(world)["Conflicted"]["status"] == "True"
    assert B in conditions(world)["Conflicted"]["message"]
    world.remove("Pod", "two")
    sweep(world)
    assert conditions(world)["Conflicted"]["status"] == "False"


def test_exhausted_pool() -> None:
    """Exhausted is news once, names the records that block the pool by name alone, and ends with the first free address."""
    old = {f"10.0.0.{n}": claim(f"app-{n}", "") for n in range(10, 30)}
    waiting = [pod(f"app-{n}", phase="Pending") for n in range(10, 30)]
    seen = pod("seen", ips=["10.0.0.30"])
    world = World(blue({**old, "10.0.0.30": seen}), seen, *waiting)
    reports = sweeps(world, 3)
    assert [said(report).count("PoolExhausted") for report in reports] == [1, 0, 0]
    told = conditions(world)["Exhausted"]
    assert (told["status"], told["reason"]) == ("True", "NoFreeAddress")
    assert "10.0.0.10 (default/app-10)" in told["message"]
    assert "10.0.0.30" not in told["message"]
    assert "and 10 more" in told["message"]
    world.record("blue", {"10.0.0.10": None})
    assert said(sweep(world)).count("PoolExhausted") == 0
    assert conditions(world)["Exhausted"]["status"] == "False"


def test_complete_condition() -> None:
    """Complete is False while evidence lacks, and says which."""
    world = leaking()
    world.on(calls("list", "Pod"), unread)
    sweep(world)
    sweep(world)
    assert conditions(world)["Complete"]["status"] == "True"
    world.on(calls("list", "Node"), unread)
    sweep(world)
    told = conditions(world)["Complete"]
    assert told["status"] == "False"
    assert "Node" in told["message"]


def test_owner_of_an_event() -> None:
    """A notice names its owner where that lives, so that `kubectl describe pod` tells it."""
    gone = sweep(leaking())
    (notice,) = gone.notices
    assert (notice.reason, notice.owner_lives, str(notice.owner)) == (
        NoticeReason.LEAK_DETECTED,
        False,
        "default/app (UID app-uid)",
    )
    assert notice.pool_uid == "blue-uid"


# --- guards -----------------------------------------------------------------------------------------------------------


def guarded() -> World:
    """Two pools with their guards; then green is deleted."""
    world = World(blue({B: LIVE}), green(), LIVE)
    sweep(world)
    assert world.has("PoolGuard", "spiderpool.green")
    world.remove("SpiderIPPool", "green")
    world.later(minutes=5)
    return world


def test_guard_of_a_pool_that_is_gone() -> None:
    """After two complete sweeps without its pool, a guard that gc made goes, under its UID and resourceVersion."""
    world = guarded()
    sweep(world)
    assert world.has("PoolGuard", "spiderpool.green")
    world.forget_calls()
    sweep(world)
    assert not world.has("PoolGuard", "spiderpool.green")
    assert world.has("PoolGuard", "spiderpool.blue")
    (deletion,) = world.tried(calls("delete"))
    assert set(deletion.body) == {"uid", "resourceVersion"}
    assert all(deletion.body.values())


def test_guard_that_somebody_touched() -> None:
    """A guard whose spec was edited is never deleted."""
    world = guarded()
    with_spec(world, "green", graceSeconds=60)
    sweeps(world, 4)
    assert world.has("PoolGuard", "spiderpool.green")


def test_guard_that_somebody_made() -> None:
    """Nor is one that an operator made."""
    world = guarded()
    own = {key: value for key, value in world.guard("green").items() if key != "status"}
    own["metadata"] = {"name": "spiderpool.green", "uid": "own", "generation": 1}
    world.put(own)
    sweeps(world, 4)
    assert world.has("PoolGuard", "spiderpool.green")


def test_incomplete_sweeps_forget_no_pool() -> None:
    """Only complete sweeps count towards forgetting a pool."""
    world = guarded()
    for _ in range(4):
        world.on(calls("list", "Node"), unread)
        sweep(world)
        world.later(minutes=5)
    world.on(calls("list", "SpiderIPPool"), cut(1))
    sweep(world)
    assert world.has("PoolGuard", "spiderpool.green")
    sweep(world)
    assert world.has("PoolGuard", "spiderpool.green")


def test_pool_that_comes_back() -> None:
    """A pool that is there again has a guard that counts again, and is not deleted by a later absence of one sweep."""
    world = guarded()
    sweep(world)
    world.put(green())
    sweep(world)
    world.remove("SpiderIPPool", "green")
    sweep(world)
    assert world.has("PoolGuard", "spiderpool.green")


def test_guard_of_another_name() -> None:
    """It gets the condition Ignored, once, and its settings count for nothing."""
    world = leaking()
    sweep(world)
    other = json.loads(json.dumps(world.guard("blue")).replace("spiderpool.blue", "mine"))
    other["spec"]["mode"] = "Off"
    other["metadata"]["uid"] = "mine"
    other["status"] = {}
    world.put(other)
    world.later(minutes=11)
    world.forget_calls()
    sweeps(world, 3)
    assert A not in world.records("blue")
    (told,) = world.thing("PoolGuard", "mine")["status"]["conditions"]
    assert (told["type"], told["status"]) == ("Ignored", "True")
    assert len(world.tried(calls("patch", "PoolGuard", "mine"))) == 1


def test_guard_that_cannot_be_read() -> None:
    """Doubt keeps: its pool is left alone, the problem names it, and the other pools are swept."""
    world = World(blue({A: LEAK, B: LIVE}), green({"10.0.1.10": LEAK, "10.0.1.11": LIVE}), LIVE)
    sweep(world)
    with_spec(world, mode="Sometimes")
    world.later(minutes=11)
    reports = sweeps(world, 3)
    assert A in world.records("blue")
    assert "10.0.1.10" not in world.records("green")
    assert all(any("PoolGuard spiderpool.blue" in line for line in report.problems) for report in reports)


# --- each pool alone --------------------------------------------------------------------------------------------------


def two_pools(first: Object) -> World:
    """`a` as it may be, and `blue` with a leak that is due at the third sweep."""
    return World(first, blue({A: LEAK, B: LIVE}), LIVE, LIVE_NIC)


@pytest.mark.parametrize(
    "broken",
    [
        pool("a", "10.9.0.1-10.9.0.9", '{"10.9.0.1": {"pod": "default/x"'),
        pool("a", "10.9.0.1-10.9.0.9", '["10.9.0.1"]'),
        pool("a", "10.9.0.9-10.9.0.1", {"10.9.0.1": claim("x")}),
        pool("a", "10.9.0.1-10.9.0.9", {"10.9.0.300": claim("x"), "here": claim("y")}),
        pool("a", "10.9.0.1-10.9.0.9", {"10.9.0.1": {"pod": "no-slash", "podUid": "x"}}),
        pool("a", "10.9.0.1-10.9.0.9", {"10.9.0.1": {"pod": "", "podUid": ""}}),
    ],
    ids=["cut", "list", "reversed", "keys", "no-slash", "empty"],
)
def test_broken_pool_stops_no_other(broken: Object) -> None:
    """What is wrong in one pool is its own matter: nothing is freed there, and the next one is swept to the end."""
    world = two_pools(broken)
    before = world.thing("SpiderIPPool", "a")
    sweeps(world, 3)
    assert A not in world.records("blue")
    assert world.thing("SpiderIPPool", "a") == before


def test_undecodable_pool_stops_no_release_elsewhere_but_where_it_may_matter() -> None:
    """A pool of which nothing can be read is told in every sweep, and never written."""
    world = two_pools(undecodable(pool("a", "10.9.0.1-10.9.0.9")))
    reports = sweeps(world, 3)
    assert all(not report.complete for report in reports)
    assert not world.tried(calls("patch", "SpiderIPPool", "a"))


def defect(_call: Call, _make: Callable[[], Any]) -> Any:
    """A defect of ours."""
    raise RuntimeError("a defect")


@pytest.mark.parametrize(
    ("when", "number"),
    [
        (calls("patch", "PoolGuard", "spiderpool.a"), 1),
        (calls("get", "SpiderIPPool", "a"), 1),
        (calls("patch", "SpiderIPPool", "a"), 1),
        (calls("patch", "PoolGuard", "spiderpool.a"), 2),
    ],
    ids=["mark", "read", "write", "note"],
)
def test_defect_in_one_pool_stops_no_other(when: Callable[[Call], bool], number: int) -> None:
    """An exception of ours in one pool is its problem: the others are released, and the exit status says so."""
    world = two_pools(pool("a", "10.9.0.1-10.9.0.9", {"10.9.0.1": claim("x"), "10.9.0.2": LIVE}))
    sweep_until_due(world)
    world.on(when, defect, nth=number)
    report = sweep(world)
    assert A not in world.records("blue")
    told = [line for line in report.problems if "a defect of poolwarden: RuntimeError: a defect" in line]
    assert told
    assert all(line.startswith("a: ") for line in told)
    world.later(minutes=11)
    sweeps(world, 3)
    assert set(world.records("a")) == {"10.9.0.2"}
    assert world.ledger("a") == {}


def test_refusal_in_one_pool_stops_no_other() -> None:
    """Neither does a write that the API server refuses; the record is released once it no longer does."""
    world = two_pools(pool("a", "10.9.0.1-10.9.0.9", {"10.9.0.1": claim("x"), "10.9.0.2": LIVE}))
    sweep_until_due(world)
    world.on(calls("patch", "SpiderIPPool", "a"), refused)
    report = sweep(world)
    assert A not in world.records("blue")
    assert (set(outcomes(report)), report.complete) == ({Outcome.RELEASED, Outcome.FAILED}, False)
    assert "ReleaseFailed" in said(report)
    assert world.ledger("a") == {"10.9.0.1": "Cooldown"}
    sweep(world)
    assert set(world.records("a")) == {"10.9.0.2"}


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_stop_between_pools() -> None:
    """Told to end, a sweep stops before the next pool; its marks are judged anew by the next one."""
    world = two_pools(pool("a", "10.9.0.1-10.9.0.9", {"10.9.0.1": claim("x"), "10.9.0.2": LIVE}))
    sweep_until_due(world)
    report = sweep(world, wait=lambda _seconds: bool(world.tried(POOL_WRITE)))
    assert set(world.records("a")) == {"10.9.0.2"}
    assert set(world.records("blue")) == {A, B}
    assert not report.complete
    sweeps(world, 2)
    assert set(world.records("blue")) == {B}


def test_stop_at_once() -> None:
    """Told to end before any pool, it writes to none."""
    world = leaking()
    sweep_until_due(world)
    assert not sweep(world, wait=lambda _seconds: True).complete
    assert not world.tried(POOL_WRITE)


# --- tries ------------------------------------------------------------------------------------------------------------


def test_at_most_five_tries() -> None:
    """Conflict after conflict: five tries, each with waiting before it but the first, then the next sweep."""
    world = leaking()
    sweep_until_due(world)
    world.on(POOL_WRITE, outdated, times=99)
    waits: list[float] = []

    def wait(seconds: float) -> bool:
        waits.append(seconds)
        return False

    report = sweep(world, wait=wait)
    assert len(world.tried(POOL_WRITE)) == 5
    assert len(world.tried(calls("get", "SpiderIPPool"))) >= 5
    assert outcomes(report) == [Outcome.FAILED]
    assert not report.complete
    slept = [seconds for seconds in waits if seconds]
    assert len(slept) == 4
    assert all(0 <= seconds <= 1 for seconds in slept)
    assert world.ledger("blue") == {A: "Cooldown"}


def test_conflict_is_judged_anew() -> None:
    """After a 409 what has changed is dropped, and the rest goes in the next try."""
    world = World(blue({A: LEAK, C: claim("web"), B: LIVE, D: pod("d")}), LIVE, pod("d"))
    sweep_until_due(world)
    new = pod("new", ips=[C])

    def take(_call: Call, make: Callable[[], Any]) -> Any:
        world.record("blue", {C: new})
        world.put(new)
        return make()

    world.on(POOL_WRITE, take)
    report = sweep(world)
    assert world.records("blue") == {B: claim(LIVE), C: claim(new), D: claim(pod("d"))}
    assert sorted(outcomes(report)) == [Outcome.GONE, Outcome.RELEASED]
    assert [len(world.tried(POOL_WRITE)), len(list(filter(POOL_WRITE, world.made)))] == [2, 1]


def test_records_that_cannot_be_parsed_for_once() -> None:
    """A pool that cannot be read keeps its ledger as it is: the sweep after it goes on where the clock stood."""
    world = leaking()
    sweep_until_due(world)
    whole = world.thing("SpiderIPPool", "blue")
    world.put({**whole, "status": {**whole["status"], "allocatedIPs": "{"}})
    report = sweep(world)
    assert not report.complete
    assert world.ledger("blue") == {A: "Cooldown"}
    assert world.status("blue")["addresses"].get("free") is None
    world.put(whole)
    sweep(world)
    assert A not in world.records("blue")
