"""Rule 6: the write names exactly what was judged; what has changed is judged again or dropped; one write a sweep."""

from __future__ import annotations

import pytest

from faults import Effect, World, lost, meanwhile, outdated, refused, sweep, unanswered
from poolwarden.gc.policy import Policy

from .house import House
from .stage import Stage, outcomes, sweeps, touches_ipam

TRIES = 5


def writes(house: House, world: World) -> tuple[int, int]:
    """How often the newest sweeps tried to write the pool, and how often they did."""
    return len(world.tried(house.write)), len(list(filter(house.write, world.made)))


def test_record_that_is_written_before_our_write(stage: Stage) -> None:
    """Somebody else has it by then: nothing is freed, the entry is dropped, and no try repeats what was judged."""
    house, world = stage.house, stage.due()
    first, *_ = house.addresses
    new = house.live("new", first)
    world.on(house.write, meanwhile(lambda: house.hand_over(world, first, new)))
    report = sweep(world)
    assert house.entries(world)[first] == house.entry(first, new)
    assert writes(house, world) == (1, 0)
    assert outcomes(report) == ["Gone"]
    assert world.ledger(house.ref) == {}


def test_record_that_is_taken_over_before_our_write(stage: Stage) -> None:
    """An owner of the same name that is given the record by its agent keeps it, whether or not the agent writes."""
    house, world = stage.house, stage.due()
    given: list[str] = []
    world.on(house.write, meanwhile(lambda: given.append(house.add_again(world, "app"))))
    sweep(world)
    assert writes(house, world)[0] <= TRIES
    world.later(minutes=11)
    sweeps(world, 3)
    owner = house.live("app", given[0], uid="newer")
    assert house.entries(world)[given[0]] == house.entry(given[0], owner)


def test_other_record_that_is_written_before_our_write(stage: Stage) -> None:
    """An ADD of somebody else in the same pool delays us by a try at most, and stands."""
    house, world = stage.house, stage.due()
    first, _, third, *_ = house.addresses
    new = house.live("new", third)
    world.on(house.write, meanwhile(lambda: house.hand_over(world, third, new)))
    report = sweep(world)
    assert house.entries(world)[third] == house.entry(third, new)
    assert (first not in house.entries(world)) is stage.removes
    assert (report.problems, writes(house, world)[1]) == ((), 1)
    assert writes(house, world)[0] <= 2


def test_pool_that_is_written_all_the_time(stage: Stage) -> None:
    """Five tries, then it is told and left to the next sweep; an IPAM whose records are compared one by one needs one."""
    house, world = stage.house, stage.due()
    first, _, third, *_ = house.addresses
    numbers = iter(range(99))

    def busy() -> None:
        house.hand_over(world, third, house.live(f"new-{next(numbers)}", third))

    world.on(house.write, meanwhile(busy), times=99)
    report = sweep(world)
    tried, made = writes(house, world)
    if made:
        assert (tried, made, report.problems) == (1, 1, ())
        return
    assert (tried, outcomes(report), report.complete) == (TRIES, ["Failed"], False)
    assert first in house.entries(world)
    calm = world.copy()
    calm.later(minutes=11)
    assert sweep(calm).complete
    assert writes(house, calm) == (1, 1)


@pytest.mark.parametrize("effect", [outdated, refused, lost, unanswered])
def test_write_that_goes_wrong_once(stage: Stage, effect: Effect) -> None:
    """A conflict, a refusal, a write that was or was not made: no second write that succeeds, and the same end."""
    house, world = stage.house, stage.due()
    first, second, *_ = house.addresses
    before = house.entries(world)
    world.on(house.write, effect)
    sweep(world)
    assert writes(house, world)[0] <= TRIES
    assert writes(house, world)[1] <= 1
    world.later(minutes=11)
    sweeps(world, 4)
    assert house.entries(world) == {second: before[second]}
    assert (world.ledger(house.ref), world.released(house.ref)) == ({}, [first])


def test_one_write_for_all_records_of_a_pool(house: House) -> None:
    """Three leaks of a pool go in one write, and where records are hidden first, in another one in another sweep."""
    addresses = house.addresses
    records = {addresses[n]: house.live(f"live{n}", addresses[n]) for n in range(4)}
    world = house.world({**records, **{addresses[n]: f"app{n}" for n in range(4, 7)}})
    made = []
    for _ in range(4):
        world.forget_calls()
        sweep(world, default=Policy(max_release_percent=100))
        world.later(minutes=11)
        made.append(writes(house, world))
    assert made == [(0, 0), (1, 1) if house.hides else (0, 0), (1, 1), (0, 0)]
    assert set(house.entries(world)) == set(records)
    assert sorted(world.released(house.ref)) == sorted(addresses[4:7])


def test_hiding_and_removal_in_different_sweeps(house: House) -> None:
    """Of two leaks sighted apart, one is hidden in the sweep that could remove the other; each sweep writes once."""
    addresses = house.addresses
    live = {addresses[n]: house.live(f"live{n}", addresses[n]) for n in range(4)}
    world = house.world({**live, addresses[4]: "app4"})
    sweep(world)
    world.later(minutes=11)
    world.put(*house.beside({addresses[4]: "app4", addresses[5]: "app5"}))
    house.record(world, addresses[5], "app5")
    for _ in range(8):
        world.forget_calls()
        sweep(world)
        world.later(minutes=11)
        assert writes(house, world)[1] <= 1
    assert set(house.entries(world)) == set(live)
    assert sorted(world.released(house.ref)) == sorted([addresses[4], addresses[5]])


def test_write_names_what_was_judged(stage: Stage) -> None:
    """The pool's UID, and either its resourceVersion or the very value of each record."""
    house, world = stage.house, stage.due()
    stored = house.stored(world)["metadata"]
    first, *_ = house.addresses
    entry = house.entries(world)[first]
    sweep(world)
    (write,) = world.tried(house.write)
    if isinstance(write.body, dict):
        said = write.body["metadata"]
        assert (said["uid"], said["resourceVersion"]) == (stored["uid"], stored["resourceVersion"])
    else:
        tests = [item["value"] for item in write.body if item["op"] == "test"]
        assert tests == [stored["uid"], entry]
    assert not [call for call in world.tried(touches_ipam) if call.verb == "create"]
