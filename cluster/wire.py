"""What the API server says: pages of lists, single objects, errors; and the paths under which it says it."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Generic, TypeVar
from urllib.parse import quote

import msgspec
from msgspec import Raw, Struct, field

from poolwarden.cluster.interface import Doubt, Resource, Unreadable
from poolwarden.cluster.transport import NoAnswer, Response

T = TypeVar("T")

_LONGEST_MESSAGE = 500  # characters: some errors quote the whole object, a proxy's are pages of HTML


class Cause(Struct, frozen=True):
    """One of several reasons within a Status."""

    field: str = ""


class Details(Struct, frozen=True):
    """What a Status is about."""

    name: str = ""
    causes: tuple[Cause, ...] | None = None


class Status(Struct, frozen=True):
    """`meta/v1` Status, which every error of the API server carries."""

    kind: str = ""
    message: str = ""
    details: Details | None = None


class Refusal(Struct, frozen=True):
    """An answer other than 2xx."""

    code: int
    status: Status
    headers: dict[str, str]

    @property
    def subject(self) -> str:
        """The name of the object that the error is about, "" where it names none."""
        return self.status.details.name if self.status.details else ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that the error finds fault with."""
        causes = self.status.details.causes if self.status.details else None
        return tuple(cause.field for cause in causes or ())

    @property
    def doubt(self) -> Doubt:
        """What the refusal of a request leaves unknown."""
        if self.code in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            return Doubt.FORBIDDEN
        if self.code == HTTPStatus.TOO_MANY_REQUESTS or self.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Doubt.UNAVAILABLE
        return Doubt.REJECTED if self.code >= HTTPStatus.BAD_REQUEST else Doubt.BROKEN

    @property
    def message(self) -> str:
        """The code and the server's own words, in one line."""
        return f"{self.code} {self.status.message}".strip()


Failure = Refusal | NoAnswer


class Owned(Struct, frozen=True):
    """The metadata by which an object is told from others, and its state of deletion."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    deletion_timestamp: str | None = field(name="deletionTimestamp", default=None)
    deletion_grace_period_seconds: int | None = field(name="deletionGracePeriodSeconds", default=None)
    finalizers: tuple[str, ...] | None = None

    @property
    def gone(self) -> bool:
        """The server removed the object when it answered with it.

        Terminating, no finalizer and no grace left: `ShouldDeleteDuringUpdate` in apiserver's registry/generic/store.go.
        """
        terminating = self.deletion_timestamp is not None
        return terminating and not self.finalizers and not self.deletion_grace_period_seconds


class Outline(Struct, frozen=True):
    """An object, no more than needed to know which one it is."""

    kind: str = ""
    metadata: Owned = Owned()


class PageMetadata(Struct, frozen=True):
    """`meta/v1` ListMeta."""

    resource_version: str = field(name="resourceVersion", default="")
    next_page: str = field(name="continue", default="")


class Page(Struct, Generic[T], frozen=True):
    """One page of a list."""

    kind: str
    metadata: PageMetadata
    items: tuple[T, ...] | None  # Go writes an empty slice as null where it was never made

    def __post_init__(self) -> None:
        if not self.kind.endswith("List"):
            raise ValueError(f"expected a list, got kind {self.kind!r}")


class Batch(Struct, Generic[T], frozen=True):
    """One page, decoded as far as it could be; `nameless` counts the objects that could not even be told apart."""

    items: tuple[T, ...]
    unreadable: tuple[Unreadable, ...]
    nameless: int
    metadata: PageMetadata


class Misaddressed(Struct, frozen=True):
    """A name or namespace under which nothing can be stored; `message` says which."""

    message: str


def page_decoder(resource: Resource, item: type[T]) -> Callable[[bytes], Batch[T]]:
    """Decodes a page at once; only where that fails object by object, so that one bad object spoils no other."""
    whole = msgspec.json.Decoder(Page[item])  # type: ignore[valid-type] # a type at run time

    def decode(body: bytes) -> Batch[T]:
        try:
            page = whole.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return _one_by_one(resource, item, body)
        return Batch(page.items or (), (), 0, page.metadata)

    return decode


def _one_by_one(resource: Resource, item: type[T], body: bytes) -> Batch[T]:
    page = msgspec.json.decode(body, type=Page[Raw])
    items: list[T] = []
    unreadable: list[Unreadable] = []
    nameless = 0
    for raw in page.items or ():
        try:
            items.append(msgspec.json.decode(raw, type=item))
        except (msgspec.DecodeError, RecursionError) as error:
            metadata = outline(bytes(raw)).metadata
            where = object_path(resource, metadata.namespace, metadata.name)
            if isinstance(where, Misaddressed):
                nameless += 1
            else:
                unreadable.append(Unreadable(metadata.namespace, metadata.name, where, str(error), bytes(raw)))
    return Batch(tuple(items), tuple(unreadable), nameless, page.metadata)


def outline(raw: bytes) -> Outline:
    """Which object this is; nothing is known of what cannot be decoded."""
    try:
        return msgspec.json.decode(raw, type=Outline)
    except (msgspec.DecodeError, RecursionError):
        return Outline()


def refusal(response: Response) -> Refusal:
    """Read an error answer; a body that is no Status (a proxy's, or 404 of a path unknown) becomes its message."""
    try:
        status = msgspec.json.decode(response.body, type=Status)
    except (msgspec.DecodeError, RecursionError):
        status = Status()
    if status.kind != "Status":
        status = Status(message=response.body.decode(errors="replace"))
    message = " ".join(status.message.split())[:_LONGEST_MESSAGE]
    return Refusal(response.status, msgspec.structs.replace(status, message=message), dict(response.headers))


def label(resource: Resource) -> str:
    """The kind as kubectl names it without ambiguity: `pods`, `statefulsets.apps`."""
    return f"{resource.plural}.{resource.group}" if resource.group else resource.plural


def version_path(group: str, version: str) -> str:
    """Where a version of a group tells its kinds, and under which its objects live."""
    return f"/apis/{quote(group, safe='')}/{quote(version, safe='')}" if group else f"/api/{quote(version, safe='')}"


def collection_path(resource: Resource, namespace: str) -> str | Misaddressed:
    """The objects of a kind, of one namespace or ("") of all."""
    if namespace and not resource.namespaced:
        return Misaddressed(f"{label(resource)} live in no namespace, {namespace!r} was given")
    if namespace and not _is_segment(namespace):
        return Misaddressed(f"{namespace!r} is no namespace")
    within = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"{version_path(resource.group, resource.version)}{within}/{resource.plural}"


def object_path(resource: Resource, namespace: str, name: str, subresource: str = "") -> str | Misaddressed:
    """One object. An empty or dotted name must never be sent: it would address the whole collection."""
    collection = home_path(resource, namespace)
    if isinstance(collection, Misaddressed):
        return collection
    if not _is_segment(name):
        return Misaddressed(f"{name!r} is no name of an object")
    return f"{collection}/{quote(name, safe='')}" + (f"/{subresource}" if subresource else "")


def home_path(resource: Resource, namespace: str) -> str | Misaddressed:
    """The collection that an object of this kind is created in."""
    if resource.namespaced and not namespace:
        return Misaddressed(f"{label(resource)} live in namespaces, none was given")
    return collection_path(resource, namespace)


def _is_segment(name: str) -> bool:
    """As `IsValidPathSegmentName` of apimachinery has it."""
    return name not in ("", ".", "..") and "/" not in name and "%" not in name
