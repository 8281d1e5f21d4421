"""`release` and `restore`: an operator's hand is held by every guard but grace and cooldown."""

from factories import blue, claim, digest, pod, stateful_set
from faults import World, calls, go_on, refused, sweep, unanswered
from poolwarden.gc.by_hand import Did, Proposal, propose, release_by_hand, restore_by_hand
from poolwarden.gc.policy import Policy

A = "10.0.0.10"
LEAK = claim("app")
LIVE = pod("live", ips=["10.0.0.11"])


def leaking() -> World:
    """A pool with one leak and one record in use."""
    return World(blue({A: LEAK, "10.0.0.11": LIVE}), LIVE)


def test_no_pod_in_the_whole_cluster() -> None:
    """That no pod at all was read is taken for a misreading by hand as well: nothing is released."""
    retained = {"10.0.0.12": claim("db-0"), "10.0.0.13": claim("db-1")}
    world = World(blue({A: LEAK, **retained}), stateful_set("db", replicas=2))
    proposal = propose(world, Policy(), A, "blue", digest(A, LEAK))
    if isinstance(proposal, Proposal):
        release_by_hand(world, Policy(), proposal, go_on)
    assert world.records("blue").get(A) == LEAK


def test_restore_whose_answer_never_came() -> None:
    """A record that is back is told as back, and held, even if the answer to the first write was lost."""
    world = leaking()
    for _ in range(3):
        sweep(world)
        world.later(minutes=11)
    assert A not in world.records("blue")
    world.on(calls("patch", "SpiderIPPool"), unanswered)
    assert isinstance(restore_by_hand(world, Policy(), A, "blue", go_on), Did)
    for _ in range(4):
        sweep(world)
        world.later(minutes=11)
    assert world.records("blue").get(A) == LEAK


def test_release_that_failed_leaves_no_short_cut() -> None:
    """By hand skips grace and cooldown once: if it fails, gc still wants two sightings of its own."""
    world = leaking()
    proposal = propose(world, Policy(), A, "blue", digest(A, LEAK))
    assert isinstance(proposal, Proposal)
    world.on(calls("patch", "SpiderIPPool"), refused)
    release_by_hand(world, Policy(), proposal, go_on)
    world.later(minutes=1)
    sweep(world)
    assert world.records("blue").get(A) == LEAK
