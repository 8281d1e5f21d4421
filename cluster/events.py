"""Kubernetes Events (events.k8s.io/v1), made and sent."""

import re
from datetime import datetime
from enum import StrEnum
from hashlib import blake2s
from typing import Any

import msgspec
from msgspec import Struct

from poolwarden.cluster.clock import format_micro_time
from poolwarden.cluster.interface import Cluster, WriteOutcome
from poolwarden.cluster.kinds import EVENTS

REPORTING_CONTROLLER = "poolwarden.dev/gc"

# The limits are those of ValidateEventCreate in k/k pkg/apis/core/validation/events.go.
_LONGEST_NOTE = 1024  # bytes
_LONGEST_INSTANCE = 128
_LONGEST_NAME = 253
_HOMELESS = "default"  # where the events of cluster-scoped objects live
_CUT = "…"


class Type(StrEnum):
    """What an event asks of its reader."""

    NORMAL = "Normal"
    WARNING = "Warning"


class Reference(Struct, frozen=True, rename="camel", omit_defaults=True):
    """`core/v1` ObjectReference; `namespace` is "" for cluster-scoped objects."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""
    uid: str = ""


class Event(Struct, frozen=True):
    """Something that happened to `regarding`, where another object may have a part in it.

    `reason` is the machine's word for why, `action` for what was done (CamelCase, at most 128 characters); `note` is for
    people, and cut to 1,024 bytes.
    """

    type: Type
    reason: str
    action: str
    note: str
    regarding: Reference
    related: Reference | None = None


def send(cluster: Cluster, event: Event, *, instance: str) -> WriteOutcome:
    """Create the event; `instance` names this process. An event that cannot be created is an outcome, no more."""
    body = event_body(event, instance=instance, when=cluster.now())
    return cluster.create(EVENTS, body, namespace=body["metadata"]["namespace"])


def event_body(event: Event, *, instance: str, when: datetime) -> dict[str, Any]:
    """The object to create: the same event at the same microsecond has the same name, any other has another."""
    body = {
        "apiVersion": EVENTS.api_version,
        "kind": EVENTS.kind,
        "type": str(event.type),
        "reason": event.reason,
        "action": event.action,
        "note": _cut(event.note),
        "regarding": msgspec.to_builtins(event.regarding),
        "eventTime": format_micro_time(when),
        "reportingController": REPORTING_CONTROLLER,
        "reportingInstance": instance[:_LONGEST_INSTANCE],
    }
    if event.related:
        body["related"] = msgspec.to_builtins(event.related)
    digest = blake2s(msgspec.json.encode(body, order="sorted"), digest_size=8).hexdigest()
    namespace = event.regarding.namespace or _HOMELESS
    return {"metadata": {"name": _name(event.regarding.name, digest), "namespace": namespace}, **body}


def _cut(note: str) -> str:
    text = note.encode()
    if len(text) <= _LONGEST_NOTE:
        return note
    return text[: _LONGEST_NOTE - len(_CUT.encode())].decode(errors="ignore") + _CUT


def _name(name: str, digest: str) -> str:
    """`<name>.<digest>` as a DNS subdomain, whatever the name is."""
    labels = (label.strip("-") for label in re.sub("[^a-z0-9.]", "-", name.lower()).split("."))
    stem = ".".join(filter(None, labels))[: _LONGEST_NAME - len(digest) - 1].strip(".-")
    return f"{stem}.{digest}".lstrip(".")
