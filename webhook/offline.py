"""One object reviewed as the API server would have it reviewed: first by the mutating rules, then by the validating."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw, Struct

from poolwarden.webhook.answer import Denied, Errored, Patched, status_of
from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.patch import Operation as Change
from poolwarden.webhook.patch import apply
from poolwarden.webhook.review import NULL, Operation, Request, ReviewedKind
from poolwarden.webhook.rules import PATHS, RULES
from poolwarden.webhook.settings import RuleSettings


class Reviewed(Struct, frozen=True, tag=True):
    """What became of the object: `object` is as patched, on denial, too; `status` and `patch` are None where there is none."""

    allowed: bool
    status: Mapping[str, Any] | None
    warnings: tuple[str, ...]
    patch: tuple[Change, ...] | None
    object: dict[str, Any]


class NotReviewed(Struct, frozen=True, tag=True):
    """No rule speaks of objects of this kind."""

    kind: str


def review(request: Request, knowledge: Knowledge, settings: RuleSettings) -> Reviewed | NotReviewed | Errored:
    """Ask the rules for the object's kind in the API server's order."""
    paths = PATHS.get((request.kind.group, request.kind.kind))
    if paths is None:
        return NotReviewed(request.kind.kind)
    warnings: list[str] = []
    changes: list[Change] = []
    current: dict[str, Any] = msgspec.json.decode(request.object)
    for path in (*paths.mutating, *paths.validating):
        asked = msgspec.structs.replace(
            request, object=Raw(msgspec.json.encode(current)) if changes else request.object
        )
        answer = RULES[path](asked, knowledge, settings)
        if isinstance(answer, Errored):
            return answer
        warnings += answer.warnings
        if isinstance(answer, Patched):
            changes += answer.operations
            current = apply(current, answer.operations)
        if isinstance(answer, Denied):
            return Reviewed(
                allowed=False, status=status_of(answer), warnings=_once(warnings), patch=_all(changes), object=current
            )
    return Reviewed(allowed=True, status=None, warnings=_once(warnings), patch=_all(changes), object=current)


def request_for(raw: bytes, old: bytes, *, group: str, kind: str, namespace: str, operation: Operation) -> Request:
    """The request that the API server would make of an object; `old` is empty on CREATE."""
    return Request(
        uid="offline",
        kind=ReviewedKind(kind, group),
        operation=operation,
        namespace=namespace,
        object=Raw(raw),
        old_object=Raw(old) if old else NULL,
    )


def _once(warnings: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(warnings))


def _all(changes: list[Change]) -> tuple[Change, ...] | None:
    return tuple(changes) or None
