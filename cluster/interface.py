"""What the programs may do with a cluster, whether it is an API server or a set of files.

Nothing here raises for what a cluster can answer: every call returns one of a closed set of outcomes, so that doubt
(a list that did not end well, a write whose fate is unknown) cannot be mistaken for an answer.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

T = TypeVar("T")


class Resource(Protocol):
    """A kind of object as the API server serves it. `group` is "" for the core group."""

    @property
    def group(self) -> str:
        """Such as `apps`."""
        ...

    @property
    def version(self) -> str:
        """Such as `v1`."""
        ...

    @property
    def plural(self) -> str:
        """As it stands in the path: `statefulsets`."""
        ...

    @property
    def kind(self) -> str:
        """As objects carry it: `StatefulSet`."""
        ...

    @property
    def namespaced(self) -> bool:
        """Whether its objects live in namespaces."""
        ...


class Doubt(StrEnum):
    """Why something could not be read or written."""

    FORBIDDEN = "Forbidden"  # 401 or 403: the message names verb and resource
    UNAVAILABLE = "Unavailable"  # connection refused, time-out, 5xx, 429 beyond our patience
    BROKEN = "Broken"  # an answer that is no Kubernetes list or object, or one cut short
    NOT_GIVEN = "NotGiven"  # files: nothing of this kind (or namespace) is in them
    NOT_ALLOWED = "NotAllowed"  # the caller forbade it: leadership lost, or stopping
    REJECTED = "Rejected"  # 4xx that no repetition cures: an admission refusal, an invalid object


class Complete(Struct, frozen=True, tag=True):
    """Everything that exists was read."""


class NotInstalled(Struct, frozen=True, tag=True):
    """The API server does not serve this kind: there are no such objects."""


class Partial(Struct, frozen=True, tag=True):
    """Only these namespaces were read to the end (files: those of which something of the kind was given)."""

    namespaces: frozenset[str]


class Incomplete(Struct, frozen=True, tag=True):
    """Objects may exist that were not read.

    `message` is one line for people and names the kind; `command` is what would complete a dump ("" if nothing would).
    """

    doubt: Doubt
    message: str
    command: str = ""


Coverage = Complete | NotInstalled | Partial | Incomplete


class Unreadable(Struct, frozen=True):
    """An object of which not even the few fields we trust could be decoded.

    `namespace` is "" for cluster-scoped kinds; `name` is never empty (an object without a name makes its list
    Incomplete). `where` is file and line, or the API path; `raw` is the object's JSON text.
    """

    namespace: str
    name: str
    where: str
    error: str
    raw: bytes


class Listing(Struct, Generic[T], frozen=True):
    """All objects of one kind, as far as they could be read. `resource_version` is "" over files."""

    items: tuple[T, ...]
    coverage: Coverage
    unreadable: tuple[Unreadable, ...] = ()
    resource_version: str = ""


class Found(Struct, Generic[T], frozen=True, tag=True):
    """The object as it is now (a quorum read), decoded, and its JSON text."""

    item: T
    raw: bytes


class Absent(Struct, frozen=True, tag=True):
    """No object of that name exists now. For files: only where the kind and namespace were given."""


class Unread(Struct, frozen=True, tag=True):
    """It is not known whether the object exists."""

    doubt: Doubt
    message: str


class Written(Struct, frozen=True, tag=True):
    """The write was made; `raw` is the object after it (for a delete that a finalizer holds: the terminating object)."""

    raw: bytes


class Deleted(Struct, frozen=True, tag=True):
    """The object is gone."""


class Outdated(Struct, frozen=True, tag=True):
    """409, or 422 from a failed JSON-patch test, or a failed precondition: re-read and judge again. Nothing was written."""

    message: str


class Failed(Struct, frozen=True, tag=True):
    """The write was refused or its fate is unknown (`uncertain`: it may have been made; re-read before anything else)."""

    doubt: Doubt
    message: str
    uncertain: bool = False


WriteOutcome = Written | Deleted | Outdated | Absent | Failed


class PatchType(StrEnum):
    """Content type of a patch."""

    MERGE = "application/merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"
    """Server-side apply, as our one field manager: the body holds every field of the object that is ours, and takes it
    over from whoever else set it. It creates what is absent, unless it names `metadata.uid`."""


class Cluster(Protocol):
    """Reads never change anything; each write is one request, never repeated by the implementation."""

    def now(self) -> datetime:
        """The API server's clock (from its newest `Date` header, moved on by our monotonic clock), UTC. Files: `--now`."""
        ...

    def list(self, resource: Resource, item: type[T], *, namespace: str | None = None) -> Listing[T]:
        """All objects of a kind, decoded to the narrow Struct `item` (unknown fields are skipped)."""
        ...

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Found[T] | Absent | Unread:
        """One object, by a quorum read."""
        ...

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "") -> WriteOutcome:
        """Create an object. AlreadyExists is `Outdated`."""
        ...

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
        """Change an object. A merge patch that must not race carries `metadata.resourceVersion`."""
        ...

    def delete(
        self, resource: Resource, *, name: str, namespace: str = "", uid: str, resource_version: str
    ) -> WriteOutcome:
        """Delete exactly the object judged: both preconditions are always sent."""
        ...
