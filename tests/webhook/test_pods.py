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


def test_a_running_pods_names_are_not_written() -> None:
    """Its NICs have theirs; an annotation changed later means nothing to them."""
    update = request(pod({NETWORKS: "a,b"}), old=pod({NETWORKS: "a"}))
    assert mutate_pod(update, KNOWLEDGE, SETTINGS) == Allowed()


@pytest.mark.parametrize(
    ("before", "after", "fragment"),
    [
        ({NETWORKS: "a"}, {NETWORKS: BAD}, "eth0"),
        ({NETWORKS: BAD}, {NETWORKS: f"{BAD},b"}, "eth0"),
        ({NETWORKS: BAD}, {NETWORKS: BAD, IPPOOLS: "["}, IPPOOLS),
        ({NETWORKS: "a@x", DEFAULT_ROUTE_NIC: "x"}, {NETWORKS: "a@y", DEFAULT_ROUTE_NIC: "x"}, DEFAULT_ROUTE_NIC),
        ({}, {NETWORKS: " "}, "empty"),
    ],
)
def test_what_an_update_brings_in_is_refused(before: dict[str, str], after: dict[str, str], fragment: str) -> None:
    """A changed annotation with a fault, and a fault elsewhere that the change makes."""
    answer = validate_pod(request(pod(after), old=pod(before)), KNOWLEDGE, SETTINGS)
    assert isinstance(answer, Denied)
    assert fragment in answer.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({NETWORKS: BAD}, {NETWORKS: BAD}),
        ({NETWORKS: BAD}, {NETWORKS: BAD, "label-like": "x"}),
        ({NETWORKS: BAD, IPPOOLS: "["}, {NETWORKS: BAD, IPPOOLS: '[{"interface":"eth0","ipv4":["p0"]}]'}),
        ({NETWORKS: BAD}, {}),
        ({NETWORKS: BAD}, {NETWORKS: "a"}),
    ],
)
def test_what_an_update_leaves_as_it_was_is_not_judged(before: dict[str, str], after: dict[str, str]) -> None:
    """An old pod can always be edited, and mended in steps."""
    assert not isinstance(validate_pod(request(pod(after), old=pod(before)), KNOWLEDGE, SETTINGS), Denied)


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
    assert answer.audit == {"k8s.v1.cni.cncf.io_networks": "a@foo,b@net2"}


def test_the_patch_applies_and_changes_nothing_else() -> None:
    """Its paths exist in the object as it was sent."""
    before = pod({NETWORKS: "a", "x/y~z": "kept"})
    answer = mutate_pod(request(before), KNOWLEDGE, SETTINGS)
    assert isinstance(answer, Patched)
    assert apply(before, answer.operations) == pod({NETWORKS: "a@net1", "x/y~z": "kept"})
