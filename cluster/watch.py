"""One kind of object, kept as the API server has it: a list, then a watch that goes on from the list's state.

The protocol: https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes

A watch that is opened proves nothing: one from a version of the future, as all are once etcd was restored from a backup,
is answered 200 and then with silence, without bookmarks, until the version is reached. So only lines and lists count as
heard, and silence leads to a new list. Where there are no bookmarks (the API server sends none of a kind of which it has
heard nothing since its start) a kind of which nothing changes is therefore listed anew after each `Paces.silence`.
"""

import random
import time
from collections.abc import Callable, Iterator
from http import HTTPStatus
from threading import Event, Lock
from typing import Generic, Literal, Protocol, TypeVar

import msgspec
from msgspec import Raw, Struct

from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.interface import Complete, Doubt, Incomplete, Listing, NotInstalled, Resource
from poolwarden.cluster.pacing import Stop, backoff
from poolwarden.cluster.transport import Ended, NoAnswer, Request, Response, Stream, StreamingTransport
from poolwarden.cluster.wire import Misaddressed, Refusal, collection_path, label, refusal

_LONGEST_LINE = 16 << 20  # bytes; etcd takes objects of 1.5 MiB unless told otherwise
_UNDECODABLE = (msgspec.DecodeError, RecursionError)
_PATIENCE = 5
"""Failures in a row after which to list anew: no version is asked for without end."""
_MAY_PASS = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.TOO_MANY_REQUESTS)

Key = tuple[str, str]
"""Namespace ("" for cluster-scoped kinds) and name."""


class Identity(Protocol):
    """`meta/v1` ObjectMeta, as far as a watch needs it."""

    @property
    def name(self) -> str:
        """Decoding must fail without it: it tells objects from bookmarks."""
        ...

    @property
    def namespace(self) -> str:
        """Empty for cluster-scoped kinds."""
        ...

    @property
    def resource_version(self) -> str:
        """The state from which to go on."""
        ...


class Identified(Protocol):
    """An object."""

    @property
    def metadata(self) -> Identity:
        """Which one."""
        ...


T = TypeVar("T", bound=Identified)


class Paces(Struct, frozen=True):
    """Times of a watch, in seconds.

    Attributes:
        connect_timeout: for a connection to stand.
        silence: how long nothing may come before the connection counts as dead, and what is known as doubtful enough to
            list anew: the API server sends a bookmark every 60 s (`defaultBookmarkFrequency` in apiserver's
            storage/cacher), and may be busy for a while.
        shortest: the least time after which the server is asked to end a watch. In between, a random one: the watches of
            all replicas shall not be renewed at once.
        longest: the greatest; etcd forgets states after five minutes, so a watch resumes well within its memory.
        recheck: how long a kind that is not installed may be so without a new look.
        backoff_base: the longest pause after a first failure; it doubles from there.
        backoff_cap: the longest pause at all, unless the server asks for more (`Retry-After`): so long may it take to
            notice that an API server is back, and its clients of this kind are few.
    """

    connect_timeout: float = 5.0
    silence: float = 75.0
    shortest: int = 240
    longest: int = 300
    recheck: float = 30.0
    backoff_base: float = 0.5
    backoff_cap: float = 10.0


class Seen(Struct, Generic[T], frozen=True):
    """What is known of a kind.

    Attributes:
        items: the objects, as last heard; never changed afterwards.
        unreadable: objects that exist but could not be decoded, and why.
        coverage: whether these are all objects. `Incomplete` until a list ended well, and while the server refuses.
        heard_at: the moment (of the monotonic clock) when the server last told something: a list, or a line of a watch.
        trouble: why nothing is heard at present, "" once something is heard.
    """

    items: dict[Key, T]
    unreadable: dict[Key, str]
    coverage: Complete | NotInstalled | Incomplete
    heard_at: float
    trouble: str


class _Change(Struct, Generic[T], frozen=True):
    """What most lines of a watch are: decoded in one pass."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    object: T


class _Line(Struct, frozen=True):
    """Any line of a watch."""

    type: str
    object: Raw


class _Metadata(Struct, frozen=True, rename="camel"):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Outline(Struct, frozen=True):
    metadata: _Metadata = _Metadata()


_LINE = msgspec.json.Decoder(_Line)
_OUTLINE = msgspec.json.Decoder(_Outline)


class _Next(Struct, frozen=True):
    """What to do after a pause: watch from a version, or ("") list."""

    version: str
    pause: float = 0.0


class _Anew(Struct, frozen=True):
    """What was heard does not lead on from what is known: only a list can help."""

    reason: str


class Watch(Generic[T]):
    """Keeps the objects of one kind of all namespaces. One thread runs it, any may look."""

    def __init__(
        self,
        transport: StreamingTransport,
        resource: Resource,
        item: type[T],
        *,
        paces: Paces = Paces(),  # noqa: B008 - frozen
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.resource = resource
        self.answered = Event()
        """Set once a list was answered, well and followed by a watch, or not."""
        self._transport = transport
        self._item = item
        self._changes: msgspec.json.Decoder[_Change[T]] = msgspec.json.Decoder(_Change[item])  # type: ignore[valid-type] # a type at run time
        self._paces = paces
        self._monotonic = monotonic
        self._lock = Lock()
        self._streams: list[Stream] = []  # one at most
        self._failures = 0
        self._items: dict[Key, T] = {}
        self._unreadable: dict[Key, str] = {}
        self._changed = False
        self._seen: Seen[T] = Seen(
            {}, {}, Incomplete(Doubt.UNAVAILABLE, f"{label(resource)} have not been listed yet"), float("-inf"), ""
        )

    def seen(self) -> Seen[T]:
        """What is known now. The objects are copied only if one has changed since they were last asked for."""
        with self._lock:
            if self._changed:
                self._changed = False
                self._tell(items=self._items.copy(), unreadable=self._unreadable.copy())
            return self._seen

    def run(self, stop: Stop) -> None:
        """List and watch until `stop` is set; `cut` ends the wait for the next event."""
        api = ApiServer(self._transport, stop=stop)
        version = ""
        while not stop.is_set():
            step = self._follow(version, stop) if version else self._list(api, stop)
            version = step.version
            stop.wait(step.pause)

    def cut(self) -> None:
        """Let the thread that runs this notice at once that it was told to stop."""
        with self._lock:
            streams = tuple(self._streams)
        for stream in streams:
            stream.cut()

    # --- listing ------------------------------------------------------------------------------------------------------

    def _list(self, api: ApiServer, stop: Stop) -> _Next:
        api.forget_discovery()
        listing = api.list(self.resource, self._item)
        return _Next("") if stop.is_set() else self._listed(listing)

    def _listed(self, listing: Listing[T]) -> _Next:
        match listing.coverage:
            case Complete() if listing.resource_version:
                self._put(listing)  # complete it is from when the watch stands
                return _Next(listing.resource_version)
            case NotInstalled():
                self._put(listing)
                self._covered(NotInstalled())
                self._failures = 0
                return _Next("", random.uniform(self._paces.recheck / 2, self._paces.recheck))  # noqa: S311 - as above
            case Incomplete() as failure:
                pass
            case _:
                failure = Incomplete(Doubt.BROKEN, f"the list of {label(self.resource)} has no resourceVersion")
        # What was heard before stays good for a while if it is only that nobody answers.
        if failure.doubt is not Doubt.UNAVAILABLE or isinstance(self._seen.coverage, Incomplete):
            self._covered(failure)
        return self._failed("", failure.message)

    def _put(self, listing: Listing[T]) -> None:
        items = {(item.metadata.namespace, item.metadata.name): item for item in listing.items}
        unreadable = {(item.namespace, item.name): item.error for item in listing.unreadable}
        with self._lock:
            self._items, self._unreadable, self._changed = items, unreadable, True
            self._tell(heard_at=self._monotonic(), trouble="")

    def _covered(self, coverage: Complete | NotInstalled | Incomplete) -> None:
        with self._lock:
            self._tell(coverage=coverage)
        self.answered.set()

    # --- watching -----------------------------------------------------------------------------------------------------

    def _follow(self, version: str, stop: Stop) -> _Next:
        path = collection_path(self.resource, "")
        assert not isinstance(path, Misaddressed), "it was listed"
        paces = self._paces
        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(paces.shortest, paces.longest)),  # noqa: S311 - spreads load
        }
        opened_at = self._monotonic()
        times = paces.connect_timeout, paces.silence
        answer = self._transport.stream(Request("GET", path, query, {}, b"", *times))
        match answer:
            case NoAnswer():
                return self._failed(version, f"cannot watch {label(self.resource)}: {answer.message}")
            case Response():
                return self._refused(version, refusal(answer))
        with self._lock:
            self._streams.append(answer)
        self._covered(Complete())  # as of `heard_at`, which this does not move
        try:
            # Whoever cuts after this look finds the stream, whoever cut before it has set `stop`.
            return _Next(version) if stop.is_set() else self._hear(answer, version, opened_at)
        finally:
            with self._lock:
                self._streams.remove(answer)
            answer.close()

    def _refused(self, version: str, answer: Refusal) -> _Next:
        message = f"cannot watch {label(self.resource)}: {answer.message}"
        if answer.code == HTTPStatus.FORBIDDEN:
            self._covered(Incomplete(Doubt.FORBIDDEN, message))
        wanted = answer.headers.get("retry-after", "")
        may_pass = answer.code in _MAY_PASS or answer.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        return self._failed(version if may_pass else "", message, float(wanted) if wanted.isdecimal() else 0.0)

    def _hear(self, stream: Stream, version: str, opened_at: float) -> _Next:
        lines = _Lines()
        heard = False
        while True:
            piece = stream.read()
            if isinstance(piece, Ended | NoAnswer):
                # A watch that lived as long as our longest pause does not press the server, had it nothing to tell.
                lived = heard or self._monotonic() - opened_at >= self._paces.backoff_cap
                return self._ended(piece, version if heard and not self._silent() else "", lived=lived)
            for line in lines.of(piece):
                taken = self._take(line)
                if isinstance(taken, _Anew):
                    return self._failed("", self._broke(taken.reason))
                version, heard = taken or version, True
            if lines.pending > _LONGEST_LINE:
                return self._failed("", self._broke("a line without end"))

    def _ended(self, end: Ended | NoAnswer, version: str, *, lived: bool) -> _Next:
        """Go on from where the watch ended, or with a list; at once, or nearly so, if it ended as it should."""
        if lived:
            self._failures = 0
        if isinstance(end, NoAnswer):
            return self._failed(version, self._broke(end.message))
        return _Next(version, self._pause(1)) if lived else self._failed(version, self._broke("it ended at once"))

    def _silent(self) -> bool:
        return self._monotonic() - self._seen.heard_at >= self._paces.silence

    def _broke(self, reason: str) -> str:
        return f"the watch of {label(self.resource)} broke: {reason}"

    def _pause(self, failures: int) -> float:
        return backoff(failures, base=self._paces.backoff_base, cap=self._paces.backoff_cap)

    def _tell(self, **changes: object) -> None:
        """Change what is known; the lock is held."""
        self._seen = msgspec.structs.replace(self._seen, **changes)

    def _failed(self, version: str, message: str, at_least: float = 0.0) -> _Next:
        self._failures += 1
        with self._lock:
            self._tell(trouble=message)
        return _Next(version if self._failures < _PATIENCE else "", max(self._pause(self._failures), at_least))

    # --- lines --------------------------------------------------------------------------------------------------------

    def _take(self, line: bytes) -> str | _Anew:
        """Heed one line; the version from which to go on ("": as before)."""
        try:
            change = self._changes.decode(line)
        except _UNDECODABLE as error:
            return self._take_other(line, str(error))
        metadata = change.object.metadata
        key = (metadata.namespace, metadata.name)
        with self._lock:
            self._changed = True
            self._unreadable.pop(key, "")
            if change.type == "DELETED":
                self._items.pop(key, change.object)
            else:
                self._items[key] = change.object
            self._tell(heard_at=self._monotonic(), trouble="")
        return metadata.resource_version

    def _take_other(self, line: bytes, error: str) -> str | _Anew:
        """A bookmark, an error, an object that cannot be decoded, or nothing of a watch."""
        try:
            event = _LINE.decode(line)
            metadata = _OUTLINE.decode(event.object).metadata
        except _UNDECODABLE:
            return _Anew(f"a line that cannot be read: {error}")
        key = (metadata.namespace, metadata.name)
        with self._lock:
            match event.type:
                case "BOOKMARK":
                    pass
                case "ERROR":
                    return _Anew(refusal(Response(HTTPStatus.OK, bytes(event.object))).status.message)
                case "ADDED" | "MODIFIED" | "DELETED" if metadata.name:
                    self._changed = True
                    self._unreadable[key] = error
                    if key in self._items:
                        del self._items[key]
                    if event.type == "DELETED":
                        del self._unreadable[key]
                case _:
                    return _Anew(f"an event {event.type!r} about no object")
            self._tell(heard_at=self._monotonic(), trouble="")
        return metadata.resource_version


class _Lines:
    """Puts the lines of a stream together from pieces."""

    def __init__(self) -> None:
        self.pending = 0
        self._parts: list[bytes] = []

    def of(self, piece: bytes) -> Iterator[bytes]:
        """The lines that end in this piece."""
        *ended, rest = piece.split(b"\n")
        for line in ended:
            yield b"".join((*self._parts, line))
            self._parts.clear()
        self._parts.append(rest)
        self.pending = sum(map(len, self._parts))
