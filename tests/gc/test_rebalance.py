"""Keeping a stock of free addresses: what is planned, what is written, and how seldom."""

from __future__ import annotations

from collections import deque
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factories import Object, claim, endpoint, pod, pool
from faults import World, calls, outdated, refused, sweep, unread
from poolwarden.gc.policy import Ceiling, Watermarks
from poolwarden.gc.rebalance import Balanced, Exhausted, Extend, Plan, Shrink, plan, singles
from poolwarden.gc.sweep import SweepReport
from poolwarden.ipam.pool import Pool, PoolRef
from poolwarden.ipam.ranges import AddressSet, address_set, parse_range

MARKS = Watermarks(low=5, target=10, high=20)
POOL_WRITE = calls("patch", "SpiderIPPool", sub="")


def addresses(*texts: str) -> AddressSet:
    """Ranges as a set."""
    return address_set(map(parse_range, texts))


def pool_of(ranges: AddressSet, unusable: AddressSet = AddressSet()) -> Pool:  # noqa: B008 - frozen
    """A pool without records that hands these out."""
    return Pool(PoolRef("spiderpool", "", "blue"), "uid", "7", ranges, ranges - unusable, (), unusable=unusable)


def planned(free: int, used: int, reserve: str = "10.0.9.0-10.0.9.99", extended: str = "") -> Plan:
    """What a pool with so many free and used addresses needs; the used ones are its first."""
    size = free + used
    own = addresses(f"10.0.0.0-10.0.{(size - 1) // 256}.{(size - 1) % 256}") | addresses(*filter(None, [extended]))
    return plan(pool_of(own), MARKS, addresses(reserve), addresses(*filter(None, [extended])), own.first(used))


# --- what is planned --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("free", "wanted"),
    [
        (4, Extend(addresses("10.0.9.0-10.0.9.5"), short=False)),
        (0, Extend(addresses("10.0.9.0-10.0.9.9"), short=False)),
        (5, Balanced("5 addresses are free")),
        (20, Balanced("20 addresses are free")),
    ],
)
def test_below_low_it_is_extended_to_target(free: int, wanted: Plan) -> None:
    """Strictly below: at low and at high nothing is done."""
    assert planned(free, 10) == wanted


def test_a_reserve_that_does_not_reach() -> None:
    """What there is, is taken, and said to be short; once it is used up, that is said."""
    assert planned(2, 10, reserve="10.0.9.0-10.0.9.2") == Extend(addresses("10.0.9.0-10.0.9.2"), short=True)
    assert isinstance(planned(2, 10, reserve="10.0.0.0-10.0.0.3"), Exhausted)


def test_above_high_the_last_of_what_was_added_goes_back() -> None:
    """Down to target, last ones first, and never one that somebody has."""
    own = addresses("10.0.0.0-10.0.0.9", "10.0.9.0-10.0.9.19")
    used = addresses("10.0.9.19", "10.0.0.0-10.0.0.4")
    found = plan(pool_of(own), MARKS, addresses("10.0.9.0-10.0.9.99"), addresses("10.0.9.0-10.0.9.19"), used)
    assert found == Shrink(addresses("10.0.9.5-10.0.9.18"))


def test_only_what_was_added_goes_back() -> None:
    """An operator's own ranges are never given back, nor what he has taken out of the pool himself."""
    assert isinstance(planned(30, 10), Balanced)
    own = addresses("10.0.0.0-10.0.0.29", "10.0.9.0-10.0.9.1")
    found = plan(pool_of(own), MARKS, AddressSet(), addresses("10.0.9.0-10.0.9.9"), AddressSet())
    assert found == Shrink(addresses("10.0.9.0-10.0.9.1"))


def test_what_is_excluded_or_in_use_is_not_added() -> None:
    """It would not be free, or be somebody's."""
    found = plan(
        pool_of(addresses("10.0.0.0"), unusable=addresses("10.0.9.0-10.0.9.4")),
        MARKS,
        addresses("10.0.9.0-10.0.9.99"),
        AddressSet(),
        singles(["10.0.9.6"]),
    )
    assert found == Extend(addresses("10.0.9.5", "10.0.9.7-10.0.9.14"), short=False)


def test_a_huge_reserve_costs_nothing() -> None:
    """A /64 as a reserve is taken from without being counted out."""
    found = plan(
        pool_of(addresses("fd00::1")), MARKS, addresses("fd00::2-fd00::ffff:ffff:ffff:ffff"), AddressSet(), AddressSet()
    )
    assert found == Extend(addresses("fd00::2-fd00::a"), short=False)


@given(
    low=st.integers(1, 9),
    more=st.tuples(st.integers(0, 9), st.integers(0, 9)),
    size=st.integers(1, 60),
    used=st.sets(st.integers(0, 59)),
    reserve=st.integers(0, 40),
    extended=st.integers(0, 40),
)
def test_a_plan_reaches_target_and_takes_nothing_that_is_used(
    low: int, more: tuple[int, int], size: int, used: set[int], reserve: int, extended: int
) -> None:
    """Whatever the state: after the plan, target are free, or all that can be done was done; a second plan changes nothing."""
    marks = Watermarks(low, low + more[0], low + sum(more))
    stock = addresses(f"10.0.9.0-10.0.9.{reserve}")
    added = addresses(f"10.0.9.0-10.0.9.{min(extended, reserve)}") if extended else AddressSet()
    own = addresses(f"10.0.0.0-10.0.0.{size - 1}") | added
    taken = singles(f"10.0.0.{n}" for n in used)
    found = plan(pool_of(own), marks, stock, added, taken)
    match found:
        case Extend(new, short):
            own, added = own | new, added | new
            assert not (new & taken).ranges
            assert ((own - taken).size == marks.target) is not short
        case Shrink(old):
            assert not (old & taken).ranges
            assert (old & added) == old
            own, added = own - old, added - old
            assert (own - taken).size >= marks.target
        case Balanced() | Exhausted():
            return
    assert isinstance(plan(pool_of(own), marks, stock, added, taken), Balanced | Exhausted)


@pytest.mark.parametrize(("marks", "most"), [(Watermarks(50, 75, 100), 0.06), (Watermarks(500, 750, 1000), 0.006)])
def test_hysteresis(marks: Watermarks, most: float, capsys: pytest.CaptureFixture[str]) -> None:
    """600 allocations a minute that live five minutes and cool down for 70 s: few writes for each allocation.

    That is the scenario of neondatabase/autoscaling's manager test; a sweep every second stands for its signals.
    """
    reserve = addresses("10.1.0.0-10.1.255.255")
    own, used, free_at = AddressSet(), AddressSet(), deque[tuple[int, AddressSet]]()
    writes = allocations = failures = 0
    for second in range(30 * 60):
        while free_at and free_at[0][0] <= second:
            used -= free_at.popleft()[1]
        found = plan(pool_of(own), marks, reserve, own, used)
        writes += isinstance(found, Extend | Shrink)
        own = own | found.addresses if isinstance(found, Extend) else own
        own = own - found.addresses if isinstance(found, Shrink) else own
        if second < 25 * 60:
            new = (own - used).first(10)  # 600 a minute
            allocations, failures = allocations + new.size, failures + 10 - new.size
            used |= new
            free_at.append((second + 300 + 70, new))
    with capsys.disabled():
        print(f"\nwatermarks {marks.low}/{marks.target}/{marks.high}: {writes / allocations:.4f} writes per allocation")  # noqa: T201 - a figure to look at
    assert failures == 0
    assert writes / allocations < most


# --- what is written --------------------------------------------------------------------------------------------------


def guard(**spec: Any) -> Object:
    """The guard of blue, with these settings."""
    return {
        "apiVersion": "poolwarden.dev/v1alpha1",
        "kind": "PoolGuard",
        "metadata": {"name": "spiderpool.blue", "uid": "guard-uid", "resourceVersion": "7", "generation": 2},
        "spec": {"poolRef": {"ipam": "spiderpool", "name": "blue"}, **spec},
    }


STOCK = {"freeAddresses": {"low": 2, "target": 4, "high": 6}, "reserve": ["10.0.0.40-10.0.0.49"]}


def stocked(used: int, *things: Object, **spec: Any) -> World:
    """A pool of ten of which so many are used, and its guard."""
    pods = [pod(f"app-x{n}", ips=[f"10.0.0.{n}"]) for n in range(10, 10 + used)]
    records = {f"10.0.0.{n}": one for n, one in zip(range(10, 20), pods, strict=False)}
    nics = [endpoint(one, {"eth0": f"{address}@blue"}) for address, one in records.items()]
    return World(pool("blue", "10.0.0.10-10.0.0.19", records), *pods, *nics, *things, guard(**{**STOCK, **spec}))


def ips(world: World) -> list[str]:
    """The ranges of blue."""
    return list(world.thing("SpiderIPPool", "blue")["spec"]["ips"])


def told(report: SweepReport) -> list[str]:
    """The reasons of what was told of stocks."""
    return [n.reason.value for n in report.notices if n.reason.value in {"PoolExtended", "PoolShrunk"}]


def able(world: World) -> tuple[str, str]:
    """The condition Rebalanceable: status and reason."""
    conditions = {item["type"]: item for item in world.status("blue")["conditions"]}
    return conditions["Rebalanceable"]["status"], conditions["Rebalanceable"]["reason"]


def test_a_pool_is_extended_and_shrinks_back() -> None:
    """In one write each; what it has from the reserve stands in its guard's status, and only that is given back."""
    world = stocked(9)
    report = sweep(world)
    assert ips(world) == ["10.0.0.10-10.0.0.19", "10.0.0.40-10.0.0.42"]
    assert world.status("blue")["extended"] == ["10.0.0.40-10.0.0.42"]
    assert (told(report), able(world)) == (["PoolExtended"], ("True", "Rebalanced"))
    assert told(sweep(world)) == []
    gone = [f"app-x{n}" for n in range(10, 16)]
    world.record("blue", {f"10.0.0.{n}": None for n in range(10, 16)})
    world.remove("SpiderEndpoint", *gone)
    world.remove("Pod", *gone)
    report = sweep(world)
    assert ips(world) == ["10.0.0.10-10.0.0.19"]
    assert world.status("blue")["extended"] == []
    assert told(report) == ["PoolShrunk"]
    assert len(world.tried(POOL_WRITE)) == 2


@pytest.mark.parametrize("ceiling", [Ceiling.OBSERVE, Ceiling.OPT_IN])
def test_observe_plans_and_writes_nothing(ceiling: Ceiling) -> None:
    """The condition says what would be done; the pool stays as it is."""
    world = stocked(9)
    assert told(sweep(world, ceiling=ceiling)) == []
    assert ips(world) == ["10.0.0.10-10.0.0.19"]
    assert able(world) == ("True", "Extend")


def test_an_address_in_use_is_not_given_back() -> None:
    """Be it that nobody records it."""
    world = stocked(0, pod("other", ips=["10.0.0.41"]), pod("live"))
    world.put({**world.guard("blue"), "status": {"poolUID": "blue-uid", "extended": ["10.0.0.40-10.0.0.42"]}})
    thing = world.thing("SpiderIPPool", "blue")
    world.put({**thing, "spec": thing["spec"] | {"ips": ["10.0.0.10-10.0.0.19", "10.0.0.40-10.0.0.42"]}})
    sweep(world)
    assert ips(world) == ["10.0.0.10-10.0.0.19", "10.0.0.41"]
    assert world.status("blue")["extended"] == ["10.0.0.41"]


@pytest.mark.parametrize(
    ("metadata", "word"),
    [
        (
            {"ownerReferences": [{"kind": "SpiderSubnet", "name": "net", "uid": "u", "apiVersion": "x/v1"}]},
            "SpiderSubnet",
        ),
        (
            {"managedFields": [{"manager": "flux", "operation": "Apply", "fieldsV1": {"f:spec": {"f:ips": {}}}}]},
            "flux",
        ),
        (
            {"annotations": {"kubectl.kubernetes.io/last-applied-configuration": '{"spec": {"ips": ["10.0.0.1"]}}'}},
            "kubectl",
        ),
    ],
)
def test_ranges_that_are_not_ours_to_change(metadata: Object, word: str) -> None:
    """What a SpiderSubnet owns, or somebody applies, is left alone, and the condition says whose it is."""
    world = stocked(9)
    thing = world.thing("SpiderIPPool", "blue")
    world.put({**thing, "metadata": thing["metadata"] | metadata})
    report = sweep(world)
    assert (told(report), report.complete, able(world)) == ([], True, ("False", "RangesFixed"))
    assert word in next(c["message"] for c in world.status("blue")["conditions"] if c["type"] == "Rebalanceable")
    assert not world.tried(POOL_WRITE)


def test_somebody_who_updates_other_fields_is_no_objection() -> None:
    """Only who applies spec.ips decides on it."""
    world = stocked(9)
    thing = world.thing("SpiderIPPool", "blue")
    fields = [{"manager": "flux", "operation": "Apply", "fieldsV1": {"f:spec": {"f:gateway": {}}}}]
    fields += [{"manager": "ui", "operation": "Update", "fieldsV1": {"f:spec": {"f:ips": {}}}}]
    world.put({**thing, "metadata": thing["metadata"] | {"managedFields": fields}})
    assert told(sweep(world)) == ["PoolExtended"]


def test_a_refusal_is_reported_as_it_is() -> None:
    """Spiderpool's own webhook may know better: its words are told, and cleanup has gone on."""
    world = stocked(9)
    world.on(POOL_WRITE, refused)
    report = sweep(world)
    assert able(world) == ("False", "Failed")
    assert any("refused by an admission webhook" in line for line in report.problems)


def test_a_write_in_between_is_planned_anew() -> None:
    """A pool that somebody else wrote is read again, at most five times."""
    world = stocked(9)
    world.on(POOL_WRITE, outdated)
    assert told(sweep(world)) == ["PoolExtended"]
    world = stocked(9)
    world.on(POOL_WRITE, outdated, times=99)
    assert told(sweep(world)) == []
    assert len(world.tried(POOL_WRITE)) == 5


def test_another_pools_addresses_are_not_added() -> None:
    """Two pools that hand out one address would be a conflict."""
    world = stocked(9, pool("twin", "10.0.0.40-10.0.0.44"))
    sweep(world)
    assert ips(world)[1:] == ["10.0.0.45-10.0.0.47"]


def test_cleanup_and_rebalancing_do_not_wait_for_each_other() -> None:
    """A braked pool is extended; a pool that cannot be resized is cleaned up."""
    world = World(
        pool("blue", "10.0.0.10-10.0.0.13", {f"10.0.0.{n}": claim(f"gone-{n}") for n in range(10, 14)}),
        pod("live"),
        guard(**STOCK),
    )
    report = sweep(world)
    assert report.braked
    assert told(report) == ["PoolExtended"]


def test_nothing_is_given_back_in_doubt() -> None:
    """While not every pod can be read, somebody may use what nobody is seen to use."""
    world = stocked(0, pod("live"))
    world.put({**world.guard("blue"), "status": {"poolUID": "blue-uid", "extended": ["10.0.0.40-10.0.0.42"]}})
    thing = world.thing("SpiderIPPool", "blue")
    both = ["10.0.0.10-10.0.0.19", "10.0.0.40-10.0.0.42"]
    world.put({**thing, "spec": thing["spec"] | {"ips": both}})
    world.on(calls("list", "SpiderEndpoint"), unread, times=9)
    sweep(world)
    assert ips(world) == both


def test_a_guard_without_watermarks_has_no_condition() -> None:
    """Nobody asked for a stock."""
    world = stocked(9)
    sweep(world)
    made = world.guard("blue")
    world.put({**made, "spec": {"poolRef": made["spec"]["poolRef"]}})
    sweep(world)
    assert "Rebalanceable" not in {item["type"] for item in world.status("blue")["conditions"]}
