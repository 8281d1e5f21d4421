"""The cluster that a set of files describes, with the API server's rules for reading and writing it."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from threading import RLock
from typing import Any, TypeVar
from uuid import NAMESPACE_OID, uuid5

import msgspec
from msgspec import Raw

from poolwarden.cluster.clock import format_time, utc_now
from poolwarden.cluster.documents import Given, Source
from poolwarden.cluster.inputs import Reading
from poolwarden.cluster.interface import (
    Absent,
    Complete,
    Deleted,
    Doubt,
    Failed,
    Found,
    Incomplete,
    Listing,
    Outdated,
    Partial,
    PatchType,
    Resource,
    Unread,
    Unreadable,
    WriteOutcome,
    Written,
)
from poolwarden.cluster.outputs import Saved, Unsaved, save
from poolwarden.cluster.patches import Malformed, Mismatch, Patched, json_patch, merge_patch
from poolwarden.cluster.wire import Misaddressed, collection_path, home_path, label, object_path
from poolwarden.cluster.write_rules import Gone, Invalid, Object, Stale, Stored, created, deleted, updated

__all__ = ["Files", "Saved", "Unsaved"]

T = TypeVar("T")

_STATUS = "status"
_MADE_HERE = Source("made by this program", 1, b"")
_UNDECODABLE = (msgspec.DecodeError, RecursionError)

_KindKey = tuple[str, str]  # group and kind: objects of all versions are one kind
_Key = tuple[str, str, str, str]  # with namespace and name


class Files:
    """A `Cluster` made of objects that were given; writes change them in memory, `write` puts them into a file.

    Args:
        reading: what the inputs hold.
        clock: the time that `now` tells, and that created and deleted objects carry.
        assume_complete: nothing else exists in the cluster than what was given.
        status_subresources: group and plural of the kinds whose status is written apart from the rest.
    """

    def __init__(
        self,
        reading: Reading,
        *,
        clock: Callable[[], datetime] = utc_now,
        assume_complete: bool = False,
        status_subresources: frozenset[tuple[str, str]] = frozenset(),
    ) -> None:
        self._clock = clock
        self._assume_complete = assume_complete
        self._status_subresources = status_subresources
        self._faults = reading.faults
        self._lock = RLock()
        self._objects: dict[_Key, Given] = {}
        self._doubles: list[str] = []
        self._covered: dict[_KindKey, set[str]] = {}
        self._version = 0
        for given in reading.objects:
            self._add(given)

    def _add(self, given: Given) -> None:
        key = (given.group, given.kind, given.namespace, given.name)
        before = self._objects.get(key)
        if before and not _is_same(before.raw, given.raw):
            self._doubles.append(
                f"{given.where}: {given.kind} {_name(given.namespace, given.name)} differs from the one at {before.where}; "
                "this one counts"
            )
        self._objects[key] = given
        self._covered.setdefault((given.group, given.kind), set()).add(given.namespace)
        if given.resource_version.isdecimal():
            self._version = max(self._version, int(given.resource_version))

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong with the inputs, one line each."""
        return (*(fault.message for fault in self._faults), *self._doubles)

    def now(self) -> datetime:
        """See `Cluster`."""
        return self._clock()

    def list(self, resource: Resource, item: type[T], *, namespace: str | None = None) -> Listing[T]:
        """See `Cluster`. The coverage of one namespace's list is `Partial`."""
        path = home_path(resource, namespace) if namespace is not None else collection_path(resource, "")
        if isinstance(path, Misaddressed):
            return Listing((), Incomplete(Doubt.REJECTED, path.message))
        decoder = msgspec.json.Decoder(item)
        items: list[T] = []
        unreadable: list[Unreadable] = []
        for given in self._of(resource):
            if namespace not in (None, given.namespace):
                continue
            try:
                items.append(decoder.decode(given.raw))
            except _UNDECODABLE as error:
                text = bytes(given.raw)
                unreadable.append(Unreadable(given.namespace, given.name, given.where, str(error), text))
        return Listing(tuple(items), self._coverage(resource, namespace), tuple(unreadable))

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Found[T] | Absent | Unread:
        """See `Cluster`."""
        given = self._find(resource, namespace, name)
        if not isinstance(given, Given):
            return given
        try:
            return Found(msgspec.json.decode(given.raw, type=item), bytes(given.raw))
        except _UNDECODABLE as error:
            return Unread(Doubt.BROKEN, f"{given.where}: {given.kind} {_name(namespace, name)}: {error}")

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "") -> WriteOutcome:
        """See `Cluster`."""
        metadata = dict(body.get("metadata", {}))
        name = metadata.get("name", "")
        path = object_path(resource, namespace, name)
        if isinstance(path, Misaddressed):
            return Failed(Doubt.REJECTED, path.message)
        if metadata.get("namespace", namespace) != namespace:
            return Failed(
                Doubt.REJECTED, f"metadata.namespace of {_name(namespace, name)} is {metadata['namespace']!r}"
            )
        if namespace:
            metadata["namespace"] = namespace
        key = (resource.group, resource.kind, namespace, name)
        with self._lock:
            if key in self._objects:
                return Outdated(f"{label(resource)} {_name(namespace, name)} already exists")
            version = self._next_version()
            value = created(
                {**body, "metadata": metadata},
                uid=str(uuid5(NAMESPACE_OID, "/".join((*key, version)))),
                now=format_time(self.now()),
                version=version,
                status_apart=self._has_status_apart(resource),
            )
            raw = msgspec.json.encode(value)
            self._objects[key] = Given(*key, version, Raw(raw), _MADE_HERE, 0)
        return Written(raw)

    def patch(
        self,
        resource: Resource,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        name: str,
        namespace: str = "",
        subresource: str = "",
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the API's own word
    ) -> WriteOutcome:
        """See `Cluster`."""
        status_apart = self._has_status_apart(resource)
        if subresource and not (subresource == _STATUS and status_apart):
            return Failed(Doubt.REJECTED, f"{label(resource)} have no subresource {subresource}")

        def change(current: Object) -> Stored | Gone | Stale | Invalid:
            wanted = _patched(current, body, type)
            if not isinstance(wanted, Patched):
                return wanted
            version = self._next_version()
            return updated(current, wanted.value, version=version, subresource=subresource, status_apart=status_apart)

        return self._write(resource, namespace, name, change)

    def delete(
        self, resource: Resource, *, name: str, namespace: str = "", uid: str, resource_version: str
    ) -> WriteOutcome:
        """See `Cluster`. Nothing that the object owns is deleted with it, and no pod is given grace."""

        def change(current: Object) -> Stored | Gone | Stale:
            now, version = format_time(self.now()), self._next_version()
            return deleted(current, uid=uid, resource_version=resource_version, now=now, version=version)

        return self._write(resource, namespace, name, change)

    def write(self, path: str) -> Saved | Unsaved:
        """Put all objects, changed or not, into one file, in the order in which they were given, new ones at the end."""
        with self._lock:
            items = [given.raw for given in self._objects.values()]
        return save(items, path)

    def _write(
        self, resource: Resource, namespace: str, name: str, change: Callable[[Object], Stored | Gone | Stale | Invalid]
    ) -> WriteOutcome:
        with self._lock:
            given = self._find(resource, namespace, name)
            match given:
                case Unread():
                    return Failed(given.doubt, given.message)
                case Absent():
                    return given
            key = (resource.group, resource.kind, namespace, name)
            try:
                current = msgspec.json.decode(given.raw)
            except _UNDECODABLE as error:
                return Failed(Doubt.BROKEN, f"{given.where}: {error}")
            outcome = change(current)
            match outcome:
                case Gone():
                    del self._objects[key]
                    return Deleted()
                case Stored():
                    raw = msgspec.json.encode(outcome.value)
                    self._objects[key] = given.rewritten(raw)
                    return Written(raw)
                case Stale():
                    return Outdated(f"{label(resource)} {_name(namespace, name)}: {outcome.message}")
                case Invalid():
                    return Failed(Doubt.REJECTED, f"{label(resource)} {_name(namespace, name)}: {outcome.message}")

    def _of(self, resource: Resource) -> Sequence[Given]:
        kind = (resource.group, resource.kind)
        with self._lock:
            return [given for given in self._objects.values() if (given.group, given.kind) == kind]

    def _find(self, resource: Resource, namespace: str, name: str) -> Given | Absent | Unread:
        path = object_path(resource, namespace, name)
        if isinstance(path, Misaddressed):
            return Unread(Doubt.REJECTED, path.message)
        given = self._objects.get((resource.group, resource.kind, namespace, name))
        if given:
            return given
        coverage = self._coverage(resource, namespace or None)
        if isinstance(coverage, Incomplete):
            return Unread(coverage.doubt, ": ".join(filter(None, (coverage.message, coverage.command))))
        return Absent()

    def _coverage(self, resource: Resource, namespace: str | None) -> Complete | Partial | Incomplete:
        """How much of a kind (and namespace) was given."""
        covered = self._covered.get((resource.group, resource.kind), set())
        fault = next((fault for fault in self._faults if fault.kind in ("", resource.kind)), None)
        if fault:
            return Incomplete(Doubt.BROKEN, f"{label(resource)} may be missing: {fault.message}")
        if any(bool(inside) != resource.namespaced for inside in covered):
            stray = next(given for given in self._of(resource) if bool(given.namespace) != resource.namespaced)
            has = "lacks a" if resource.namespaced else "cannot have a"
            return Incomplete(Doubt.BROKEN, f"{stray.where}: {stray.kind} {stray.name} {has} metadata.namespace")
        if not (self._assume_complete or namespace in covered or (covered and namespace is None)):
            command = f"kubectl get {label(resource)}{' --all-namespaces' if resource.namespaced else ''} -o yaml"
            within = f" of namespace {namespace}" if namespace else ""
            return Incomplete(Doubt.NOT_GIVEN, f"no {label(resource)}{within} were given", command)
        if namespace:
            return Partial(frozenset({namespace}))
        return Partial(frozenset(covered)) if resource.namespaced and not self._assume_complete else Complete()

    def _has_status_apart(self, resource: Resource) -> bool:
        return (resource.group, resource.plural) in self._status_subresources

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


def _patched(
    current: Object, body: Mapping[str, Any] | Sequence[Mapping[str, Any]], kind: PatchType
) -> Patched | Stale | Invalid:
    if kind is PatchType.APPLY:
        return Invalid("files know no field managers, so nothing can be applied to them")
    if isinstance(body, Mapping) != (kind is PatchType.MERGE):
        return Invalid(f"a {kind} has another shape")
    if isinstance(body, Mapping):
        return Patched(merge_patch(current, body))
    outcome = json_patch(current, body)
    match outcome:
        case Patched(value=Mapping()):
            return outcome
        case Patched():
            return Invalid("nothing of the object is left")
        case Mismatch():
            return Stale(outcome.message)
        case Malformed():
            return Invalid(outcome.message)


def _is_same(left: Raw, right: Raw) -> bool:
    try:
        return bytes(left) == bytes(right) or bool(msgspec.json.decode(left) == msgspec.json.decode(right))
    except _UNDECODABLE:
        return False


def _name(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
