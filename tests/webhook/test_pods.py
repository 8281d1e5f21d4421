"""Which pods are looked at, and what of an update is judged."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from poolwarden.ipam.objects import DEFAULT_NETWORK, MIRROR, NETWORKS
from poolwarden.webhook.answer import Allowed, Denied, Patched
from poolwarden.webhook.patch import apply
from poolwarden.webhook.pod.pods import mutate_pod, validate_pod
from poolwarden.webhook.pod.pool_lists import DEFAULT_ROUTE_NIC, IPPOOLS
from poolwarden.webhook.review import Operation, Request
from poolwarden.webhook.settings import RuleSettings
from webhook.reviews import KNOWLEDGE, Object, pod, request

BAD = "a@eth0"
PHANTOM = '[{"interface":"net5","ipv4":["p0"]}]'
SETTINGS = RuleSettings()


def asked(obj: Object, **changes: Any) -> Request:
    """A request for the object, some of it changed."""
    return msgspec.structs.replace(request(obj), **changes)


@pytest.mark.parametrize(
    "obj",
    [
        pod(),
        pod({}),
        pod({"other": "["}),
        pod({NETWORKS: BAD}, hostNetwork=True),
        pod({NETWORKS: BAD, MIRROR: "x"}),
        {"metadata": {"annotations": {NETWORKS: BAD}, "deletionTimestamp": "2026-01-10T12:00:00Z"}},
        {"metadata": {"annotations": None}, "spec": None},
        {},
    ],
)
def test_pods_without_nics_of_their_own_are_left_alone(obj: Object) -> None:
    """No annotations, the node's network, a mirror pod, one that ends: nothing is changed, refused or warned of."""
    assert mutate_pod(request(obj), KNOWLEDGE, SETTINGS) == Allowed()
    assert validate_pod(request(obj), KNOWLEDGE, SETTINGS) == Allowed()


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.CONNECT])
def test_operations_that_store_nothing_are_allowed(operation: Operation) -> None:
    """A deletion has no object, only an old one."""
    gone = asked(
        pod(), operation=operation, object=Raw(b"null"), old_object=Raw(msgspec.json.encode(pod({NETWORKS: BAD})))
    )
    assert mutate_pod(gone, KNOWLEDGE, SETTINGS) == Allowed()
    assert validate_pod(gone, KNOWLEDGE, SETTINGS) == Allowed()


def test_subresources_are_allowed() -> None:
    """A status or an ephemeral container names no NIC."""
    there = asked(pod({NETWORKS: BAD}), sub_resource="ephemeralcontainers")
    assert mutate_pod(there, KNOWLEDGE, SETTINGS) == Allowed()
    assert validate_pod(there, KNOWLEDGE, SETTINGS) == Allowed()


def test_the_namespace_is_the_requests() -> None:
    """An object that is posted into a namespace may not carry it yet."""
    answer = validate_pod(
        asked({"metadata": {"annotations": {NETWORKS: "a@x"}}}, namespace="team-b"), KNOWLEDGE, SETTINGS
    )
    assert answer == Allowed()  # in team-a there is an a as well, in the default namespace there is none


def test_a_pod_that_is_applied_again_keeps_its_names() -> None:
    """Its author writes what he wrote at first; named again, nothing has changed, and nothing is refused."""
    lists = '[{"interface":"eth0","ipv4":["p0"]},{"ipv4":["p1"]}]'
    written = pod({DEFAULT_NETWORK: "kube-system/base", NETWORKS: "kube-system/v1", IPPOOLS: lists})
    first = mutate_pod(request(written), KNOWLEDGE, SETTINGS)
    assert isinstance(first, Patched)
    stored = apply(written, first.operations)
    again = mutate_pod(request(written, old=stored), KNOWLEDGE, SETTINGS)
    assert isinstance(again, Patched)
    assert apply(written, again.operations) == stored
    assert validate_pod(request(stored, old=stored), KNOWLEDGE, SETTINGS) == Allowed()


def test_what_an_update_leaves_alone_is_not_named() -> None:
    """A pod that came while the webhook was down is named when its author says something new of its NICs."""
    old = pod({NETWORKS: "a"})
    labelled = {**old, "metadata": {**old["metadata"], "labels": {"a": "b"}}}
    assert mutate_pod(request(labelled, old=old), KNOWLEDGE, SETTINGS) == Allowed()


@pytest.mark.parametrize(
    ("before", "after", "fragment"),
    [
        ({NETWORKS: "a"}, {NETWORKS: BAD}, "eth0"),
        ({NETWORKS: BAD}, {NETWORKS: f"{BAD},b@eth0"}, "item 2"),
        ({NETWORKS: BAD}, {NETWORKS: BAD, IPPOOLS: "["}, IPPOOLS),
        ({NETWORKS: "a@x"}, {NETWORKS: "a@x", DEFAULT_ROUTE_NIC: "y"}, DEFAULT_ROUTE_NIC),
        ({}, {NETWORKS: " "}, "empty"),
    ],
)
def test_what_an_update_brings_in_is_refused(before: dict[str, str], after: dict[str, str], fragment: str) -> None:
    """A new fault in an annotation that it changes."""
    answer = validate_pod(request(pod(after), old=pod(before)), KNOWLEDGE, SETTINGS)
    assert isinstance(answer, Denied)
    assert fragment in answer.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({NETWORKS: BAD}, {NETWORKS: BAD}),
        ({NETWORKS: BAD}, {NETWORKS: BAD, "label-like": "x"}),
        ({NETWORKS: BAD, IPPOOLS: "["}, {NETWORKS: BAD, IPPOOLS: '[{"interface":"eth0","ipv4":["p0"]}]'}),
        ({NETWORKS: BAD}, {NETWORKS: f"{BAD},b@net2"}),
        ({NETWORKS: "a@net1", IPPOOLS: PHANTOM}, {NETWORKS: "a@net1,b@net2", IPPOOLS: PHANTOM}),
        ({NETWORKS: BAD}, {}),
        ({NETWORKS: BAD}, {NETWORKS: "a"}),
    ],
)
def test_what_an_update_leaves_as_it_was_is_not_judged(before: dict[str, str], after: dict[str, str]) -> None:
    """An old pod can always be edited, and mended in steps."""
    assert not isinstance(validate_pod(request(pod(after), old=pod(before)), KNOWLEDGE, SETTINGS), Denied)


@pytest.mark.parametrize("before", ["kube-system/v1@net1,kube-system/v2@net2", "kube-system/v1@net1"])
def test_nics_are_plugged_in_and_out_of_running_pods(before: str) -> None:
    """Spiderpool read its lists at the first ADD: what no longer fits is told, not refused."""
    lists = '[{"interface":"net1","ipv4":["p0"]},{"interface":"net2","ipv4":["p1"]}]'
    old = {NETWORKS: before, IPPOOLS: lists, DEFAULT_ROUTE_NIC: "net1"}
    answer = validate_pod(request(pod({**old, NETWORKS: "kube-system/v2@net2"}), old=pod(old)), KNOWLEDGE, SETTINGS)
    assert isinstance(answer, Allowed)
    assert any(DEFAULT_ROUTE_NIC in text for text in answer.warnings)
    assert any("no NIC 'net1'" in text for text in answer.warnings)


def test_an_update_is_judged_by_one_state_of_the_cluster() -> None:
    """A default network that has vanished since does not keep a label from being changed."""
    old = pod({DEFAULT_NETWORK: "gone", NETWORKS: "b@eth0"})
    new = {**old, "metadata": {**old["metadata"], "labels": {"tier": "old"}}}
    assert validate_pod(request(new, old=old), KNOWLEDGE, SETTINGS) == Allowed()


@pytest.mark.parametrize("text", ["[1]", '"x"', "5", '{"metadata":{"annotations":{"x":5}}}', '{"metadata":[]}', "{"])
def test_what_is_no_pod_is_refused_not_raised(text: str) -> None:
    """The API server sends none; a file may hold one."""
    broken = asked(pod(), object=Raw(text.encode()))
    for rule in (mutate_pod, validate_pod):
        answer = rule(broken, KNOWLEDGE, SETTINGS)
        assert isinstance(answer, Denied)
        assert "cannot be read" in answer.message


def test_what_was_changed_is_said_in_a_warning_and_in_the_audit_log() -> None:
    """By annotation."""
    answer = mutate_pod(request(pod({NETWORKS: "a@foo,b"})), KNOWLEDGE, SETTINGS)
    assert isinstance(answer, Patched)
    assert answer.warnings == (f"metadata.annotations[{NETWORKS}]: interfaces are now foo, net2",)
    assert answer.audit == {"k8s.v1.cni.cncf.io_networks": "foo, net2"}


def test_the_patch_applies_and_changes_nothing_else() -> None:
    """Its paths exist in the object as it was sent."""
    before = pod({NETWORKS: "a", "x/y~z": "kept"})
    answer = mutate_pod(request(before), KNOWLEDGE, SETTINGS)
    assert isinstance(answer, Patched)
    assert apply(before, answer.operations) == pod({NETWORKS: "a@net1", "x/y~z": "kept"})
