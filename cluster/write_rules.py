"""What the API server makes of a create, an update and a delete: on decoded objects, as far as our programs need it.

Facts from apiserver's `registry/rest/{create,update,delete}.go` and `registry/generic/registry/store.go`.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

Object = Mapping[str, Any]

_SERVER_OWNED = (
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
)


class Stored(Struct, frozen=True, tag=True):
    """The object as it is stored from now on."""

    value: Object


class Gone(Struct, frozen=True, tag=True):
    """The object is stored no longer."""


class Stale(Struct, frozen=True, tag=True):
    """The write was meant for another state of the object, or for another object of its name."""

    message: str


class Invalid(Struct, frozen=True, tag=True):
    """The write can never be made."""

    message: str


def created(body: Object, *, uid: str, now: str, version: str, status_apart: bool) -> Object:
    """A new object: its identity, time and version are the server's to give. `status_apart`: see `updated`."""
    own = {"uid": uid, "resourceVersion": version, "creationTimestamp": now, "generation": 1}
    status = {"status": None} if status_apart else {}
    return _with(body, {"metadata": _with(body["metadata"], own), **status})


def updated(
    current: Object, wanted: Object, *, version: str, subresource: str, status_apart: bool
) -> Stored | Gone | Stale | Invalid:
    """`wanted` in place of `current`, where that is allowed.

    A `uid` or `resourceVersion` in `wanted` is a precondition. `status_apart`: the kind has a status subresource, so
    that a write changes either the status or the rest. What changes nothing makes no new version.
    """
    before, metadata = current["metadata"], wanted.get("metadata")
    if not isinstance(metadata, Mapping) or any(metadata.get(key) != before.get(key) for key in ("name", "namespace")):
        return Invalid("name and namespace cannot be changed")
    if any(wanted.get(key) != current.get(key) for key in ("apiVersion", "kind")):
        return Invalid("apiVersion and kind cannot be changed")
    if before.get("resourceVersion") and not metadata.get("resourceVersion"):
        return Invalid("metadata.resourceVersion must be specified for an update")
    difference = _difference(before, {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)})
    if difference:
        return Stale(difference)
    if subresource:
        value = _with(current, {"status": wanted.get("status")})
    else:
        status = {"status": current.get("status")} if status_apart else {}
        owned = {key: before.get(key) for key in _SERVER_OWNED}
        value = _with(wanted, {"metadata": _with(metadata, owned), **status})
    return Stored(current) if value == current else _changed(current, value, version)


def deleted(current: Object, *, uid: str, resource_version: str, now: str, version: str) -> Stored | Gone | Stale:
    """Without grace; while a finalizer holds the object, it is only marked."""
    metadata = current["metadata"]
    difference = _difference(metadata, {"uid": uid, "resourceVersion": resource_version})
    if difference:
        return Stale(difference)
    if not metadata.get("finalizers"):
        return Gone()
    if metadata.get("deletionTimestamp"):
        return Stored(current)
    mark = {"deletionTimestamp": now, "deletionGracePeriodSeconds": 0, "resourceVersion": version}
    return Stored(_with(current, {"metadata": _with(metadata, mark | _next_generation(metadata))}))


def _changed(current: Object, value: Object, version: str) -> Stored | Gone:
    metadata = value["metadata"]
    terminating = metadata.get("deletionTimestamp") and not metadata.get("deletionGracePeriodSeconds")
    if terminating and not metadata.get("finalizers"):
        return Gone()
    generation = _next_generation(metadata) if value.get("spec") != current.get("spec") else {}
    return Stored(_with(value, {"metadata": _with(metadata, {"resourceVersion": version} | generation)}))


def _next_generation(metadata: Object) -> dict[str, Any]:
    return {"generation": metadata["generation"] + 1} if "generation" in metadata else {}


def _difference(metadata: Object, expected: Object) -> str:
    """Which of the expected values the object does not have, "" if it has all."""
    return "; ".join(
        f"metadata.{key} is {metadata.get(key, '')!r}, not {value!r}"
        for key, value in expected.items()
        if metadata.get(key, "") != value
    )


def _with(mapping: Object, changes: Object) -> Object:
    """A copy with these members; None takes a member away."""
    return {key: value for key, value in {**mapping, **changes}.items() if value is not None or key not in changes}
