"""Answers on the wire, as kube-apiserver takes them."""

from __future__ import annotations

import base64
from http import HTTPStatus
from typing import Any

import msgspec

from poolwarden.webhook.answer import (
    LONGEST_WARNING,
    MOST_WARNINGS,
    Allowed,
    allowed,
    denied,
    errored,
    patched,
    response,
    with_warnings,
)
from poolwarden.webhook.patch import Operation, pointer


def wire(text: bytes) -> Any:
    """The decoded AdmissionReview."""
    return msgspec.json.decode(text)


def test_allowed() -> None:
    """No patch, no patchType, no status, no empty lists."""
    assert wire(response("u1", allowed())) == {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": "u1", "allowed": True},
    }


def test_denied() -> None:
    """422 Invalid, with the message."""
    assert wire(response("u1", denied("no")))["response"] == {
        "uid": "u1",
        "allowed": False,
        "status": {"status": "Failure", "code": 422, "reason": "Invalid", "message": "no"},
    }


def test_patched() -> None:
    """The patch is base64 of RFC 6902 operations."""
    answer = patched([Operation(pointer("metadata", "annotations", "a/b~c"), "x")], {"names": "x"})
    said = wire(response("u1", answer))["response"]
    assert (said["allowed"], said["patchType"], said["auditAnnotations"]) == (True, "JSONPatch", {"names": "x"})
    assert wire(base64.b64decode(said["patch"])) == [
        {"path": "/metadata/annotations/a~1b~0c", "value": "x", "op": "replace"}
    ]


def test_nothing_to_patch_is_allowed() -> None:
    """An empty patch with a patchType is an error to the API server."""
    assert patched([], {}) == Allowed()


def test_errored_is_no_verdict() -> None:
    """It carries an HTTP status, and when to try again."""
    answer = errored(HTTPStatus.SERVICE_UNAVAILABLE, "starting", retry_after=1)
    assert (answer.status, answer.message, answer.retry_after) == (503, "starting", 1)


def test_warnings_are_told_once_cut_and_bounded() -> None:
    """As the API server would cut them without saying so."""
    said = with_warnings(allowed(), ["a", "a", "b" * 500]).warnings
    assert said == ("a", "b" * (LONGEST_WARNING - 1) + "…")
    many = with_warnings(allowed(), map(str, range(100))).warnings
    assert len(many) == MOST_WARNINGS
    assert many[-1] == "poolwarden: 69 more warnings are not shown"


def test_warnings_go_with_every_verdict() -> None:
    """A denial's, too."""
    assert wire(response("u", with_warnings(denied("no"), ["w"])))["response"]["warnings"] == ["w"]
