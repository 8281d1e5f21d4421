"""What the operator says over all verdicts, and the order in which findings come."""

import pytest

from factories import (
    MIRROR,
    NOW,
    Object,
    blue,
    claim,
    digest,
    endpoint,
    findings,
    green,
    nad,
    node,
    pod,
    pool,
    ref,
    said,
    snapshot,
    stateful_set,
    told,
    verdict,
    words,
)
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Ceiling, Mode, Policies, Policy
from poolwarden.gc.snapshot import Memory
from poolwarden.ipam.ranges import address_set, parse_range

A = "10.0.0.10"
GONE = claim("app")
FREE = "Leaked OwnerGone release"
KEPT = "Leaked OwnerGone none"


# --- keep, ignoreNamespaces, mode, held -------------------------------------------------------------------------------


@pytest.mark.parametrize(("text", "expected"), [(A, KEPT), ("10.0.0.9-10.0.0.11", KEPT), ("10.0.0.11", FREE)])
def test_keep_list(text: str, expected: str) -> None:
    """Addresses in `keep` are never released: verdict as found, action none."""
    assert said(A, blue({A: GONE}), policy=Policy(keep=address_set([parse_range(text)]))) == expected


def test_keep_list_is_named() -> None:
    """The message says why nothing happens, and still what was found."""
    found = verdict(A, blue({A: GONE}), policy=Policy(keep=address_set([parse_range(A)])))
    assert "keep list" in found.message
    assert "app-uid" in found.message


def test_ignored_namespaces() -> None:
    """Owners in `ignoreNamespaces` are none of ours."""
    found = verdict(A, blue({A: GONE}), policy=Policy(ignore_namespaces=frozenset({"infra", "default"})))
    assert words(found) == KEPT
    assert "ignores namespace default" in found.message
    assert said(A, blue({A: GONE}), policy=Policy(ignore_namespaces=frozenset({"infra"}))) == FREE


@pytest.mark.parametrize(
    ("mode", "expected"), [(Mode.OFF, KEPT), (Mode.OBSERVE, KEPT), (Mode.RELEASE, FREE), (None, FREE)]
)
def test_mode_of_the_guard(mode: Mode | None, expected: str) -> None:
    """A guard that says Off or Observe keeps everything; none says nothing about it."""
    found = verdict(A, blue({A: GONE}), policy=Policy(mode=mode))
    assert words(found) == expected
    assert ("mode" in found.message) is (expected == KEPT)


def test_policy_says_nothing_where_nothing_would_be_done() -> None:
    """A record in use is in use, whatever the guard says."""
    live = pod("live")
    keep = Policy(mode=Mode.OFF, keep=address_set([parse_range(A)]))
    assert verdict(A, blue({A: live}), live, policy=keep) == verdict(A, blue({A: live}), live)


def test_held_record() -> None:
    """A record that an operator restored is kept until it changes or is released by hand."""
    held = Memory(held=frozenset({(ref("blue"), digest(A, GONE))}))
    found = verdict(A, blue({A: GONE}), memory=held)
    assert words(found) == KEPT
    assert "restored" in found.message
    assert said(A, blue({A: claim("app", "app-uid-2")}), memory=held) == FREE
    assert said(A, pool("other", A, {A: GONE}), memory=held, pool="other") == FREE


def test_policies_are_of_pools() -> None:
    """A guard speaks for its pool alone."""
    policies = Policies(Policy(), {ref("blue"): Policy(mode=Mode.OFF)})
    found = judge(snapshot(blue({A: GONE}), green({"10.0.1.10": GONE})), policies, NOW)
    assert [words(item) for item in found] == [KEPT, FREE]


def test_policy_of_repairs() -> None:
    """Repairs obey the same mode, keep list and namespaces."""
    lost = endpoint("app", {"eth0": f"{A}@blue"})
    repaired, kept = [f"{A} Drift EndpointOrphan {action}" for action in ("repair", "none")]
    assert told(blue(), lost) == [repaired]
    for policy in (
        Policy(mode=Mode.OBSERVE),
        Policy(keep=address_set([parse_range(A)])),
        Policy(ignore_namespaces=frozenset({"default"})),
    ):
        assert told(blue(), lost, policy=policy) == [kept]


def test_ceiling_of_the_program() -> None:
    """`--mode` is the most that happens; opt-in needs a guard that says Release."""
    release, observe, off, unset = (Policy(mode=mode) for mode in (Mode.RELEASE, Mode.OBSERVE, Mode.OFF, None))
    assert [p.may_release(Ceiling.OBSERVE) for p in (release, observe, off, unset)] == [False] * 4
    assert [p.may_release(Ceiling.OPT_IN) for p in (release, observe, off, unset)] == [True, False, False, False]
    assert [p.may_release(Ceiling.RELEASE) for p in (release, observe, off, unset)] == [True, False, False, True]


@pytest.mark.parametrize(
    ("size", "share", "most", "expected"),
    [
        (1000, 20, 50, 50),
        (100, 20, 50, 20),
        (9, 20, 50, 1),
        (0, 20, 50, 1),
        (14, 20, 50, 2),
        (2**64, 1, 5, 5),
        (9, 9, 0, 0),
    ],
)
def test_most_releases_of_a_sweep(size: int, share: int, most: int, expected: int) -> None:
    """At least one of a small pool, whole addresses of a larger one, never more than the cap."""
    assert Policy(max_releases=most, max_release_percent=share).most_releases(size) == expected


# --- the order of classes -----------------------------------------------------------------------------------------------

ETH0 = nad("eth0")
OTHER = pod("other", ips=[A])


@pytest.mark.parametrize(
    ("expected", "things"),
    [
        ("Unknown RecordInvalid none", (blue({A: {"pod": "x"}}), OTHER, ETH0)),
        ("Unknown EvidenceIncomplete none", (blue({A: GONE}), pod("app", status="{"), OTHER, ETH0)),
        ("Unknown StaticPod none", (blue({A: GONE}), pod("app", uid="new", annotations=MIRROR), OTHER, ETH0)),
        ("Conflict InUseUnrecorded none", (blue({A: GONE}), pod("app"), OTHER, ETH0)),
        ("Conflict InUseUnrecorded none", (blue({A: claim("web-0")}), stateful_set("web"), OTHER, ETH0)),
        ("InUse OwnerLive none", (blue({A: claim("web-0")}), stateful_set("web"), pod("web-0"))),
        ("Retained StatefulSetEntitled none", (blue({A: claim("web-0")}), stateful_set("web"))),
        ("Retained StatefulSetEntitled none", (blue({A: claim("web-0")}), stateful_set("web"), node(ready=False))),
        ("Unknown NodeUnreachable none", (blue({A: claim("web-0")}), node(ready=False))),
    ],
)
def test_the_first_class_that_holds_wins(expected: str, things: tuple[Object, ...]) -> None:
    """Unknown, Conflict, InUse, Retained, Leaked; NodeUnreachable stands in Leaked's place."""
    assert said(A, *things) == expected


def test_out_of_range_comes_before_conflict() -> None:
    """An address outside the ranges is Unknown, though another pod uses it."""
    out = "10.0.0.9"
    assert said(out, blue({out: GONE}), pod("app"), pod("other", ips=[out]), ETH0) == "Unknown OutOfRange none"


# --- the order of findings ----------------------------------------------------------------------------------------------


def test_findings_come_by_pool_and_number() -> None:
    """Ordered by pool, then address as a number, those about the pool first; the record's before what stands beside."""
    records = {"10.0.0.9": GONE, "10.0.0.11": GONE, "x": GONE, "10.0.0.100": GONE}
    live = pod("live")
    found = findings(green({"10.0.1.10": live}), live, blue(records, allocated=9))
    assert [(item.pool.name, item.address, str(item.reason)) for item in found] == [
        ("blue", None, "RecordInvalid"),
        ("blue", None, "CountMismatch"),
        ("blue", "10.0.0.9", "OutOfRange"),
        ("blue", "10.0.0.11", "OwnerGone"),
        ("blue", "10.0.0.100", "OutOfRange"),
        ("green", "10.0.1.10", "OwnerLive"),
        ("green", "10.0.1.10", "EndpointMissing"),
    ]


def test_every_record_has_one_finding() -> None:
    """Also two spellings of one address, which are two records."""
    found = findings(pool("six", "fd00::1-fd00::9", {"fd00::5": GONE, "FD00::5": claim("x")}, allocated=2))
    assert [item.address for item in found] == ["fd00::5", "fd00::5"]
    assert len({item.record_digest for item in found}) == 2


def test_no_objects_no_findings() -> None:
    """An empty cluster has nothing to tell."""
    assert findings() == []
