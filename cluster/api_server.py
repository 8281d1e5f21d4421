"""The cluster behind an API server."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Any, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from poolwarden.cluster.discovery import Discovery
from poolwarden.cluster.exchange import Counts, Exchange, Limits
from poolwarden.cluster.guard import Guard, always_allowed
from poolwarden.cluster.interface import (
    Absent,
    Complete,
    Coverage,
    Deleted,
    Doubt,
    Failed,
    Found,
    Incomplete,
    Listing,
    NotInstalled,
    Outdated,
    Partial,
    PatchType,
    Resource,
    Unread,
    Unreadable,
    WriteOutcome,
    Written,
)
from poolwarden.cluster.pacing import Stop
from poolwarden.cluster.runtime import MACHINE, Runtime
from poolwarden.cluster.transport import NoAnswer, Response, Transport
from poolwarden.cluster.wire import (
    Misaddressed,
    Refusal,
    collection_path,
    home_path,
    label,
    object_path,
    outline,
    page_decoder,
)

T = TypeVar("T")

FIELD_MANAGER = "poolwarden"
"""Under which server-side apply records the fields that are ours."""

_LIST_ATTEMPTS = 3  # a continue token lives 5 to 15 minutes, a page takes a second


class _Expired(Struct, frozen=True):
    """The state that was being listed is no longer kept (410), or another one was answered in its place."""


class OnPage(Protocol):
    """Told after each page of a list."""

    def __call__(self, resource: Resource, items: int, /) -> None:
        """`items` are those of the list that were read so far."""
        ...


def unheard(_resource: Resource, _items: int, /) -> None:
    """Nobody wants to know."""


class Reached(Struct, frozen=True, tag=True):
    """An API server answers, if only to refuse us."""


class Unreached(Struct, frozen=True, tag=True):
    """Nobody answers; `reason` is one line for people. `final`: asking again cannot help."""

    reason: str
    final: bool = False


class ApiServer:
    """A `Cluster` that several threads may share.

    Reads are paced, bounded in time and repeated; each write is one request, for which `guard` is asked first. Once
    `stop` is set no read is begun or awaited any more, within a fraction of a second; writes are for `guard` to stop.
    A `Leadership` needs an `ApiServer` of its own, with the default guard: it must write in order to lead, and must
    not wait behind the pages of a list.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        limits: Limits = Limits(),  # noqa: B008 - frozen
        guard: Guard = always_allowed,
        stop: Stop | None = None,
        runtime: Runtime = MACHINE,
        on_page: OnPage = unheard,
    ) -> None:
        self._limits = limits
        self._on_page = on_page
        self._exchange = Exchange(transport, limits=limits, guard=guard, stop=stop or runtime.event(), runtime=runtime)
        self._discovery = Discovery(self._exchange, runtime)

    @property
    def counts(self) -> Counts:
        """What was sent so far."""
        return self._exchange.counts

    def forget_discovery(self) -> None:
        """Ask anew which kinds are installed: at the start of each sweep."""
        self._discovery.forget()

    def now(self) -> datetime:
        """See `Cluster`; asks for `/version` if no answer told the time yet, and falls back to our wall clock."""
        clock = self._exchange.clock
        if not clock.heard_from:
            self._exchange.read_once("/version", {}, bytes, seconds=self._limits.connect_timeout)
        return clock.now()

    def reach(self) -> Reached | Unreached:
        """Ask once whether anybody answers, so that a program can say in one line that nobody does."""
        answer = self._exchange.read_once("/version", {}, bytes, seconds=self._limits.connect_timeout)
        return Unreached(answer.message, answer.final) if isinstance(answer, NoAnswer) else Reached()

    def list(self, resource: Resource, item: type[T], *, namespace: str | None = None) -> Listing[T]:
        """See `Cluster`. One consistent state of all pages; what was read before a failure is returned with it.

        `item` must require `metadata.name`. The coverage of one namespace's list is `Partial`.
        """
        path = home_path(resource, namespace) if namespace is not None else collection_path(resource, "")
        if isinstance(path, Misaddressed):
            return Listing((), Incomplete(Doubt.REJECTED, path.message))
        served = self._discovery.served(resource)
        if not isinstance(served, Complete):
            return Listing((), served)
        whole = Partial(frozenset({namespace})) if namespace else served
        for _ in range(_LIST_ATTEMPTS):
            listing = self._pages(resource, item, path, whole)
            if isinstance(listing, Listing):
                return listing
        message = f"cannot list {label(resource)}: expired before its end {_LIST_ATTEMPTS} times"
        return Listing((), Incomplete(Doubt.UNAVAILABLE, message))

    def _pages(self, resource: Resource, item: type[T], path: str, whole: Coverage) -> Listing[T] | _Expired:
        decode = page_decoder(resource, item)
        items: list[T] = []
        unreadable: list[Unreadable] = []
        coverage = whole
        next_page = version = ""
        while True:
            query = {"limit": str(self._limits.page_size)} | ({"continue": next_page} if next_page else {})
            page = self._exchange.read(path, query, decode)
            if isinstance(page, Refusal) and page.code == HTTPStatus.GONE:
                return _Expired()
            if isinstance(page, Refusal | NoAnswer):
                coverage = Incomplete(page.doubt, f"cannot list {label(resource)}: {page.message}")
                return Listing(tuple(items), coverage, tuple(unreadable))
            if next_page and page.metadata.resource_version != version:
                return _Expired()
            items += page.items
            unreadable += page.unreadable
            self._on_page(resource, len(items))
            if page.nameless:
                coverage = Incomplete(Doubt.BROKEN, f"{page.nameless} of the {label(resource)} listed have no name")
            next_page, version = page.metadata.next_page, page.metadata.resource_version
            if not next_page:
                return Listing(tuple(items), coverage, tuple(unreadable), version)

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Found[T] | Absent | Unread:
        """See `Cluster`."""
        subject = _subject(resource, namespace, name)
        path = object_path(resource, namespace, name)
        if isinstance(path, Misaddressed):
            return Unread(Doubt.REJECTED, f"cannot get {subject}: {path.message}")
        raw = self._exchange.read(path, {}, _whole_json)
        match raw:
            case bytes():
                return _found(raw, item, name, subject)
            case Refusal(code=HTTPStatus.NOT_FOUND) if self._is_absent(resource, raw, name):
                return Absent()
            case Refusal() | NoAnswer():
                return Unread(raw.doubt, f"cannot get {subject}: {raw.message}")

    def _is_absent(self, resource: Resource, not_found: Refusal, name: str) -> bool:
        """A 404 that names the object says so; one that does not may be of a kind that is not installed, or a proxy's."""
        return not_found.subject == name or isinstance(self._discovery.served(resource), NotInstalled)

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "") -> WriteOutcome:
        """See `Cluster`."""
        what = f"create {_subject(resource, namespace, outline(msgspec.json.encode(body)).metadata.name)}"
        return self._write("POST", home_path(resource, namespace), what, body)

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
        what = f"patch {_subject(resource, namespace, name)}"
        path = object_path(resource, namespace, name, subresource)
        outcome = self._write("PATCH", path, what, body, name=name, content_type=type)
        if isinstance(outcome, Absent) and subresource and not self._discovery.has_subresource(resource, subresource):
            # The 404 of a subresource that does not exist names the object, too.
            return Failed(Doubt.REJECTED, f"cannot {what}: {label(resource)} have no subresource {subresource}")
        return outcome

    def delete(
        self, resource: Resource, *, name: str, namespace: str = "", uid: str, resource_version: str
    ) -> WriteOutcome:
        """See `Cluster`. An empty precondition matches no object."""
        what = f"delete {_subject(resource, namespace, name)}"
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": uid, "resourceVersion": resource_version},
        }
        return self._write("DELETE", object_path(resource, namespace, name), what, body, name=name)

    def _write(
        self,
        method: str,
        path: str | Misaddressed,
        what: str,
        body: object,
        *,
        name: str = "",
        content_type: str = "application/json",
    ) -> WriteOutcome:
        if isinstance(path, Misaddressed):
            return Failed(Doubt.REJECTED, f"cannot {what}: {path.message}")
        # JSON is YAML. Two that both set our fields are settled by force: the next apply would repeat it anyway.
        query = {"fieldManager": FIELD_MANAGER, "force": "true"} if content_type == PatchType.APPLY else {}
        answer = self._exchange.write(method, path, msgspec.json.encode(body), content_type, query)
        match answer:
            case Response():
                return _written(answer.body, what)
            case NoAnswer():
                return Failed(answer.doubt, f"cannot {what}: {answer.message}", uncertain=answer.sent)
            case Refusal(code=HTTPStatus.NOT_FOUND) if name and answer.subject == name:
                return Absent()
            case Refusal() if _is_outdated(answer, content_type):
                return Outdated(f"cannot {what}: {answer.message}")
            case Refusal():
                uncertain = answer.code >= HTTPStatus.INTERNAL_SERVER_ERROR
                return Failed(answer.doubt, f"cannot {what}: {answer.message}", uncertain=uncertain)


class Opener(Protocol):
    """Opens the cluster; `limits` are the caller's own where it has some."""

    def __call__(self, *, stop: Stop, guard: Guard | None = None, limits: Limits | None = None) -> ApiServer:
        """A cluster whose reads end with `stop`, and whose writes ask `guard`."""
        ...


def _subject(resource: Resource, namespace: str, name: str) -> str:
    return f"{label(resource)} {namespace}/{name}" if namespace else f"{label(resource)} {name}"


def _found(raw: bytes, item: type[T], name: str, subject: str) -> Found[T] | Unread:
    if outline(raw).metadata.name != name:
        return Unread(Doubt.BROKEN, f"cannot get {subject}: the answer is another object")
    try:
        return Found(msgspec.json.decode(raw, type=item), raw)
    except (msgspec.DecodeError, RecursionError) as error:
        return Unread(Doubt.BROKEN, f"cannot read {subject}: {error}")


def _whole_json(body: bytes) -> bytes:
    """The body, once it is known to be one whole JSON document."""
    msgspec.json.decode(body, type=Raw)
    return body


def _written(body: bytes, what: str) -> Written | Deleted | Failed:
    after = outline(body)
    if after.metadata.gone or after.kind == "Status":
        return Deleted()
    if not after.metadata.name:
        return Failed(Doubt.BROKEN, f"{what} succeeded, but its answer cannot be read", uncertain=True)
    return Written(body)


def _is_outdated(refused: Refusal, content_type: str) -> bool:
    """Whether a write failed because the object is no longer the one that was judged.

    A failed JSON-patch operation is answered with a bare 422 that does not say which (`applyJSPatch` in apiserver's
    endpoints/handlers/patch.go), an invalid object with one that names it; another UID in a merge patch with a 422
    on that field (seen on 1.35).
    """
    if refused.code == HTTPStatus.CONFLICT:
        return True
    if refused.code != HTTPStatus.UNPROCESSABLE_ENTITY:
        return False
    failed_operation = content_type == PatchType.JSON and not refused.subject and not refused.fields
    return failed_operation or "metadata.uid" in refused.fields
