"""The five answers to a review, and what each means on the wire.

A verdict about an object is an `AdmissionResponse` with HTTP 200; a fault of the request or of ours is an HTTP status, so
that the webhook's failurePolicy decides (kube-apiserver, `pkg/admission/plugin/webhook/request/admissionreview.go`).
"""

import base64
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from poolwarden.webhook.patch import Operation

LONGEST_WARNING = 256
"""Characters. What is longer the API server may cut (`k8s.io/api/admission/v1`, `AdmissionResponse.warnings`)."""
MOST_WARNINGS = 32
"""The API server drops warnings beyond 4 KiB in all; nobody reads more than a screen."""


class Allowed(Struct, frozen=True, tag=True):
    """The object may pass as it is. `audit` goes into the API server's audit log, keys without prefix."""

    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = {}


class Denied(Struct, frozen=True, tag=True):
    """The object may not pass; `message` says what is wrong, where, and what is allowed."""

    message: str
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = {}


class Patched(Struct, frozen=True, tag=True):
    """The object may pass with these changes, at least one."""

    operations: tuple[Operation, ...]
    warnings: tuple[str, ...] = ()
    audit: Mapping[str, str] = {}


class Errored(Struct, frozen=True, tag=True):
    """No verdict: the request was no review, or we failed. `retry_after` in seconds, 0 for "do not repeat"."""

    status: HTTPStatus
    message: str
    retry_after: int = 0


Verdict = Allowed | Denied | Patched
Answer = Verdict | Errored


def allowed() -> Allowed:
    """The object is fine."""
    return Allowed()


def denied(message: str) -> Denied:
    """The object cannot work, or can only corrupt."""
    return Denied(encodable(message))


def patched(operations: Iterable[Operation], audit: Mapping[str, str]) -> Allowed | Patched:
    """The object as changed; `Allowed` where nothing changes, since an empty patch is an error to the API server."""
    changes = tuple(operations)
    return Patched(changes, audit=audit) if changes else Allowed(audit=audit)


def errored(status: HTTPStatus, message: str, *, retry_after: int = 0) -> Errored:
    """The request is no review, or we cannot judge it."""
    return Errored(status, message, retry_after)


def with_warnings(answer: Verdict, warnings: Iterable[str]) -> Verdict:
    """The answer, and what its user should be told beside."""
    told = tuple(dict.fromkeys((*answer.warnings, *map(_short, warnings))))
    if len(told) > MOST_WARNINGS:
        told = (*told[: MOST_WARNINGS - 1], f"poolwarden: {len(told) - MOST_WARNINGS + 1} more warnings are not shown")
    return msgspec.structs.replace(answer, warnings=told)


def response(uid: str, answer: Verdict) -> bytes:
    """The AdmissionReview that carries the verdict, as JSON text."""
    body: dict[str, Any] = {"uid": uid, "allowed": not isinstance(answer, Denied)}
    match answer:
        case Denied():
            body["status"] = status_of(answer)
        case Patched():
            body["patchType"] = "JSONPatch"
            body["patch"] = base64.b64encode(msgspec.json.encode(answer.operations)).decode()
    if answer.warnings:
        body["warnings"] = answer.warnings
    if answer.audit:
        body["auditAnnotations"] = answer.audit
    return msgspec.json.encode({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body})


def status_of(answer: Denied) -> dict[str, Any]:
    """The `meta/v1` Status of a denial: 422 Invalid, as the API server itself answers to bad values."""
    return {
        "status": "Failure",
        "code": HTTPStatus.UNPROCESSABLE_ENTITY,
        "reason": "Invalid",
        "message": answer.message,
    }


def encodable(text: str) -> str:
    """The text without lone surrogates, which JSON of a user may hold and UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()


def _short(warning: str) -> str:
    warning = encodable(warning)
    return warning if len(warning) <= LONGEST_WARNING else f"{warning[: LONGEST_WARNING - 1]}…"
