"""Leaked: OwnerGone and OwnerReplaced, with the evidence of the node on which the owner last ran."""

from datetime import datetime, timedelta

import msgspec
import pytest

from factories import (
    NOW,
    Object,
    ago,
    blue,
    claim,
    digest,
    endpoint,
    green,
    node,
    pod,
    ref,
    said,
    snapshot,
    stateful_set,
    undecodable,
    verdict,
    words,
)
from poolwarden.cluster.interface import Unreadable
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies, Policy
from poolwarden.gc.snapshot import Memory

A = "10.0.0.10"
GONE = "Leaked OwnerGone release"
REPLACED = "Leaked OwnerReplaced release"
UNREACHABLE = "Unknown NodeUnreachable none"
RECORD = claim("app")
KEY = (ref("blue"), digest(A, RECORD))


def test_owner_gone() -> None:
    """No pod has the record's UID or name, and the lists are complete."""
    found = verdict(A, blue({A: RECORD}))
    assert words(found) == GONE
    assert "default/app" in found.message
    assert "app-uid" in found.message


def test_owner_replaced() -> None:
    """The name carries another UID now: the message names both, and what the new one uses."""
    found = verdict(A, blue({A: claim("app", "old-uid")}), pod("app", ips=["10.0.0.11"]))
    assert words(found) == REPLACED
    for text in ("old-uid", "app-uid", "at 2026-01-09T12:00:00Z", "which uses 10.0.0.11"):
        assert text in found.message


def test_message_about_a_new_pod_of_which_little_is_known() -> None:
    """Without address it tells the phase, without time no time."""
    new = pod("app", phase="Pending")
    del new["metadata"]["creationTimestamp"]
    message = verdict(A, blue({A: claim("app", "old-uid")}), new).message
    assert "replaced by UID app-uid, which is Pending and shows no address" in message


def test_owner_replaced_by_a_pod_that_starts() -> None:
    """Whatever the new pod of a workload without fixed addresses does, the old one is not it."""
    assert said(A, blue({A: claim("app", "old-uid")}), pod("app", phase="Pending")) == REPLACED


def test_each_record_stands_alone() -> None:
    """A leak in one pool and one in another, beside a record in use."""
    app = pod("live", ips=["10.0.0.11"])
    things = (blue({A: RECORD, "10.0.0.11": app}), green({"10.0.1.10": claim("app")}), app)
    assert said(A, *things) == GONE
    assert said("10.0.0.11", *things) == "InUse OwnerLive none"
    assert said("10.0.1.10", *things, pool="green") == GONE


# --- how far apart the two sightings must be ------------------------------------------------------------------------


def test_the_longest_known_termination_grace() -> None:
    """The owner's own, its successor's or its set's: containers may run that long after a forced deletion."""
    record = blue({A: claim("web-3", "old-uid")})
    assert verdict(A, record).min_grace == 0
    assert verdict(A, record, memory=Memory(graces={"old-uid": 90, "x": 500})).min_grace == 90
    assert verdict(A, record, pod("web-3", grace=45)).min_grace == 45
    assert verdict(A, record, stateful_set("web", grace=60)).min_grace == 60
    assert verdict(A, record, stateful_set("web", grace=60), pod("web-3", grace=75)).min_grace == 75
    assert verdict(A, record, stateful_set("db", grace=60)).min_grace == 0
    assert verdict(A, record, pod("web-3", grace=45), node(ready=False)).min_grace == 45
    ledger = {(ref("blue"), digest(A, claim("web-3", "old-uid"))): 120}
    assert verdict(A, record, memory=Memory(min_graces=ledger)).min_grace == 120


# --- a node that is known -------------------------------------------------------------------------------------------

ON_NODE_2 = endpoint("app", {"eth0": f"{A}@blue"}, node="node-2")


def with_nodes(*nodes: Object, record: Object = RECORD, **options: object) -> str:
    """What is said of a record whose owner last ran on node-2."""
    return said(A, blue({A: record}), ON_NODE_2, node("node-1"), *nodes, **options)


def test_ready_node() -> None:
    """A kubelet that answers has ended what was deleted."""
    assert with_nodes(node("node-2")) == GONE


def test_node_that_is_not_ready() -> None:
    """A container on a partitioned node serves on after its pod was force-deleted; the message names the node."""
    found = verdict(A, blue({A: RECORD}), ON_NODE_2, node("node-2", ready=False))
    assert words(found) == UNREACHABLE
    assert "node-2" in found.message
    assert found.node == "node-2"


def test_replaced_owner_on_a_node_that_is_not_ready() -> None:
    """Likewise if the name carries another UID."""
    things = (ON_NODE_2, node("node-2", ready=False), pod("app", uid="app-uid-2"))
    assert said(A, blue({A: RECORD}), *things) == UNREACHABLE


def test_fenced_node() -> None:
    """The out-of-service taint vouches that nothing runs there."""
    assert with_nodes(node("node-2", ready=False, fenced=True)) == GONE


@pytest.mark.parametrize(
    ("since", "expected"),
    [(timedelta(minutes=29, seconds=59), UNREACHABLE), (timedelta(minutes=30), GONE), (None, UNREACHABLE)],
)
def test_absent_node(since: timedelta | None, expected: str) -> None:
    """A Node object absent for nodeGoneGrace is gone; from when on it was is in the memory of earlier sweeps."""
    gone = {} if since is None else {(ref("blue"), "node-2"): NOW - since}
    assert with_nodes(memory=Memory(nodes_gone=gone)) == expected


def test_node_gone_grace_of_the_policy() -> None:
    """The time is the policy's."""
    memory = Memory(nodes_gone={(ref("blue"), "node-2"): NOW - timedelta(minutes=5)})
    assert with_nodes(memory=memory, policy=Policy(node_gone_grace=300)) == GONE
    assert with_nodes(memory=memory, policy=Policy(node_gone_grace=301)) == UNREACHABLE


def test_node_that_came_back() -> None:
    """An old absence does not count once the node is there again: it must be Ready."""
    memory = Memory(nodes_gone={(ref("blue"), "node-2"): NOW - timedelta(hours=9)})
    assert with_nodes(node("node-2", ready=False), memory=memory) == UNREACHABLE
    assert with_nodes(node("node-2"), memory=memory) == GONE


def test_node_that_cannot_be_decoded() -> None:
    """It exists, and nothing vouches for it, however long it is said to be gone."""
    memory = Memory(nodes_gone={(ref("blue"), "node-2"): NOW - timedelta(hours=9)})
    assert with_nodes(undecodable(node("node-2")), memory=memory) == UNREACHABLE


def test_node_that_a_live_read_could_not_get() -> None:
    """It may be there or not: nothing is said of it, where it is the owner's or the owner's is not known."""
    for name, expected in (("node-2", "Unknown EvidenceIncomplete none"), ("node-3", GONE)):
        lost = Unreadable("", name, "", "timed out", b"")
        taken = snapshot(blue({A: RECORD}), ON_NODE_2, node("node-2"))
        nodes = msgspec.structs.replace(taken.nodes, unreadable=(lost,))
        (found,) = judge(msgspec.structs.replace(taken, nodes=nodes), Policies(), NOW)
        assert words(found) == expected
        (found,) = judge(msgspec.structs.replace(snapshot(blue({A: RECORD})), nodes=nodes), Policies(), NOW)
        assert words(found) == "Unknown EvidenceIncomplete none"


def test_other_nodes_do_not_matter_where_the_node_is_known() -> None:
    """The owner's node is Ready; another one is not."""
    assert with_nodes(node("node-2"), node("node-3", ready=False)) == GONE


def test_node_evidence_can_be_turned_off() -> None:
    """`nodeEvidence: Ignore` releases without it."""
    ignore = Policy(node_evidence_required=False)
    assert with_nodes(node("node-2", ready=False), policy=ignore) == GONE


def test_only_an_endpoint_with_the_records_uid_tells_the_node() -> None:
    """Another UID's endpoint tells where somebody else ran: the node is unknown."""
    newer = endpoint("app", {"eth0": "10.0.0.11@blue"}, uid="app-uid-2", node="node-1")
    record, silent = blue({A: RECORD}), node("node-2", ready=False)
    assert said(A, record, node("node-1"), silent, newer) == UNREACHABLE
    assert said(A, record, node("node-1"), silent, endpoint("app", {}, node="node-1")) == GONE
    assert said(A, record, node("node-1"), silent, endpoint("app", {}, node="")) == UNREACHABLE


def test_a_record_without_uid_has_no_node() -> None:
    """Nothing ties an endpoint to it."""
    record = blue({A: claim("app", "")})
    things = (node("node-1"), node("node-2", ready=False), endpoint("app", {}, uid="", node="node-1"))
    assert said(A, record, *things) == UNREACHABLE
    named = endpoint("app", {"eth0": f"{A}@blue"}, uid="")
    assert verdict(A, record, named).interface == ""


def test_node_that_this_process_saw() -> None:
    """Where a pod of that UID ran is remembered though no ledger has it; what the ledger says comes first."""
    record, silent = blue({A: RECORD}), node("node-2", ready=False)
    seen = {"app-uid": "node-2"}
    assert said(A, record, node("node-1"), silent, memory=Memory(node_of={"app-uid": "node-1"})) == GONE
    assert said(A, record, node("node-1"), silent, memory=Memory(node_of=seen)) == UNREACHABLE
    assert said(A, record, node("node-1"), silent, memory=Memory(node_of=seen, nodes={KEY: "node-1"})) == GONE


def test_absence_is_counted_from_the_earliest_memory() -> None:
    """Ledger or this process, whichever saw the node vanish first; another pool's ledger says nothing."""
    early, late = NOW - timedelta(minutes=31), NOW - timedelta(minutes=1)
    here = (ref("blue"), "node-2")
    assert with_nodes(memory=Memory(nodes_gone={here: late}, vanished={"node-2": early})) == GONE
    assert with_nodes(memory=Memory(nodes_gone={here: early}, vanished={"node-2": late})) == GONE
    assert with_nodes(memory=Memory(vanished={"node-2": late})) == UNREACHABLE
    assert with_nodes(memory=Memory(nodes_gone={(ref("green"), "node-2"): early})) == UNREACHABLE


def test_node_that_an_earlier_sweep_saw() -> None:
    """The ledger remembers where the owner ran."""
    memory = Memory(nodes={KEY: "node-2"})
    record = blue({A: RECORD})
    assert said(A, record, node("node-1"), node("node-2", ready=False), memory=memory) == UNREACHABLE
    assert said(A, record, node("node-2"), node("node-3", ready=False), memory=memory) == GONE
    assert verdict(A, record, node("node-2"), memory=memory).node == "node-2"
    silent = endpoint("app", {"eth0": f"{A}@blue"}, node="")
    assert verdict(A, record, silent, node("node-2"), memory=memory).node == "node-2"


# --- a node that is not known ---------------------------------------------------------------------------------------

FIRST_SEEN = NOW - timedelta(minutes=20)
WINDOW_END = FIRST_SEEN + timedelta(minutes=5)


def unknown_node(
    *nodes: Object, first_seen: datetime | None = FIRST_SEEN, gone: dict[str, datetime] | None = None
) -> str:
    """What is said of a record of which it is not known where its owner ran."""
    gone_of_pool = {(ref("blue"), name): time for name, time in (gone or {}).items()}
    memory = Memory(first_seen={KEY: first_seen} if first_seen else {}, nodes_gone=gone_of_pool)
    return said(A, blue({A: RECORD}), node("node-1"), *nodes, memory=memory)


def test_unknown_node_while_all_are_ready() -> None:
    """Wherever it was, its node answers."""
    assert unknown_node() == GONE


@pytest.mark.parametrize(("after", "expected"), [(-86400, UNREACHABLE), (-1, UNREACHABLE), (0, GONE), (60, GONE)])
def test_window_of_five_minutes(after: int, expected: str) -> None:
    """A node not Ready since earlier than five minutes after the first sighting may be where the owner runs on."""
    since = f"{WINDOW_END + timedelta(seconds=after):%Y-%m-%dT%H:%M:%SZ}"
    assert unknown_node(node("node-2", ready=False, since=since)) == expected


def test_first_sighting_is_now_if_there_was_none() -> None:
    """At first sight any node that is not Ready may be the one."""
    assert unknown_node(node("node-2", ready=False, since=ago(seconds=1)), first_seen=None) == UNREACHABLE


def test_the_silent_node_is_named() -> None:
    """The message says for which node it waits."""
    found = verdict(A, blue({A: RECORD}), node("node-1"), node("node-2", ready=False))
    assert "node-2" in found.message
    assert (found.node, found.waits_for) == ("", ("node-2",))


def test_all_silent_nodes_are_waited_for() -> None:
    """Whichever of them it was, each must answer."""
    memory = Memory(first_seen={KEY: FIRST_SEEN}, vanished={"node-4": NOW})
    silent = [node(name, ready=False) for name in ("node-3", "node-2")]
    found = verdict(A, blue({A: RECORD}), node("node-1"), *silent, memory=memory)
    assert found.waits_for == ("node-2", "node-3")
    memory = Memory(first_seen={KEY: NOW}, vanished={"node-4": NOW})
    found = verdict(A, blue({A: RECORD}), node("node-1"), *silent, memory=memory)
    assert found.waits_for == ("node-2", "node-3", "node-4")


def test_a_node_is_silent_since_it_was_first_seen_so() -> None:
    """Its condition may have changed from False to Unknown in between: the earlier time counts, in this pool."""
    late, early = WINDOW_END + timedelta(minutes=1), WINDOW_END - timedelta(minutes=1)
    silent = node("node-2", ready=False, since=f"{late:%Y-%m-%dT%H:%M:%SZ}")
    for where, expected in (("blue", UNREACHABLE), ("green", GONE)):
        memory = Memory(first_seen={KEY: FIRST_SEEN}, nodes_silent={(ref(where), "node-2"): early})
        assert said(A, blue({A: RECORD}), node("node-1"), silent, memory=memory) == expected


def test_node_that_does_not_say_since_when() -> None:
    """Without a time there is no proof that it fell silent later; without a condition it is not Ready."""
    for conditions in ([{"type": "Ready", "status": "Unknown"}], [], [{"type": "MemoryPressure", "status": "True"}]):
        silent = node("node-2", ready=False)
        silent["status"]["conditions"] = conditions
        assert unknown_node(silent) == UNREACHABLE


def test_fenced_node_is_not_the_one() -> None:
    """A fenced node runs nothing."""
    assert unknown_node(node("node-2", ready=False, fenced=True)) == GONE


def test_undecodable_node_may_be_the_one() -> None:
    """What cannot be read may be anything."""
    assert unknown_node(undecodable(node("node-2"))) == UNREACHABLE


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (FIRST_SEEN, UNREACHABLE),
        (WINDOW_END - timedelta(seconds=1), UNREACHABLE),
        (WINDOW_END, GONE),
        (NOW - timedelta(minutes=29, seconds=59), UNREACHABLE),
        (NOW - timedelta(minutes=30), GONE),
    ],
)
def test_a_node_that_is_gone_counts_as_not_ready_for_a_while(gone: datetime, expected: str) -> None:
    """Gone for less than nodeGoneGrace, and since before the window's end."""
    assert unknown_node(gone={"node-2": gone}) == expected


def test_a_node_that_was_gone_and_is_back() -> None:
    """It is judged as it is now."""
    assert unknown_node(node("node-2"), gone={"node-2": FIRST_SEEN}) == GONE


def test_unknown_node_is_no_matter_where_node_evidence_is_off() -> None:
    """`nodeEvidence: Ignore` turns that off as well."""
    ignore = Policy(node_evidence_required=False)
    assert said(A, blue({A: RECORD}), node("node-2", ready=False), policy=ignore) == GONE
