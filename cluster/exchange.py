"""Requests to the API server: paced, counted, bounded in time, and repeated where that is safe - reads only."""

from collections import Counter
from collections.abc import Callable, Mapping
from http import HTTPStatus
from threading import Lock
from types import MappingProxyType
from typing import TypeVar

import msgspec
from msgspec import Struct

from poolwarden.cluster.guard import Denied, Guard
from poolwarden.cluster.interface import Doubt
from poolwarden.cluster.pacing import Stop, TokenBucket, backoff
from poolwarden.cluster.runtime import Abandoned, Runtime
from poolwarden.cluster.server_clock import ServerClock
from poolwarden.cluster.transport import Answer, NoAnswer, Request, Response, Transport
from poolwarden.cluster.wire import Failure, Refusal, refusal

T = TypeVar("T")

_NOTHING: Mapping[str, str] = MappingProxyType({})


class Limits(Struct, frozen=True):
    """How hard to press the API server and how long to wait for it; times in seconds.

    Attributes:
        page_size: objects per page of a list.
        qps: requests per second on average.
        burst: requests that may be sent at once after a quiet time.
        connect_timeout: for a connection to stand.
        read_timeout: between bytes of an answer; with `connect_timeout` it also bounds a whole write.
        read_deadline: for one read with all its repetitions; for a list, for one page of it.
        attempts: how often a read is tried.
        backoff_base: the longest pause after the first failed attempt; it doubles from there.
        backoff_cap: the longest pause at all, unless the server asks for more (`Retry-After`).
    """

    page_size: int = 500
    qps: float = 20.0
    burst: int = 40
    connect_timeout: float = 5.0
    read_timeout: float = 30.0
    read_deadline: float = 60.0
    attempts: int = 5
    backoff_base: float = 0.5
    backoff_cap: float = 8.0


class Counts(Struct, frozen=True):
    """What was sent since the start: requests by HTTP method, repetitions included, and writes answered with 409."""

    requests: Mapping[str, int]
    conflicts: int


class Exchange:
    """The one way to the API server; several threads may share it."""

    def __init__(
        self,
        transport: Transport,
        *,
        limits: Limits,
        guard: Guard,
        stop: Stop,
        runtime: Runtime,
    ) -> None:
        self.clock = ServerClock(runtime)
        self._transport = transport
        self._limits = limits
        self._guard = guard
        self._stop = stop
        self._runtime = runtime
        self._bucket = TokenBucket(limits.qps, limits.burst, runtime.monotonic)
        self._lock = Lock()
        self._requests: Counter[str] = Counter()
        self._conflicts = 0

    @property
    def counts(self) -> Counts:
        """A consistent copy of the counters."""
        with self._lock:
            return Counts(dict(self._requests), self._conflicts)

    def read(self, path: str, query: Mapping[str, str], decode: Callable[[bytes], T]) -> T | Failure:
        """GET and decode, again after what may pass: 429, 5xx, no answer, an answer cut short or garbled."""
        deadline = self._runtime.monotonic() + self._limits.read_deadline
        attempt = 0
        while True:
            result = self.read_once(path, query, decode, seconds=deadline - self._runtime.monotonic())
            attempt += 1
            if not _may_pass(result, attempt) or attempt >= self._limits.attempts:
                return result
            pause = self._pause(result, attempt)
            if self._runtime.monotonic() + pause >= deadline:
                return result
            if self._stop.wait(pause):
                return _STOPPING

    def read_once(
        self, path: str, query: Mapping[str, str], decode: Callable[[bytes], T], *, seconds: float
    ) -> T | Failure:
        """GET and decode in one attempt that takes at most `seconds`."""
        if self._stop.wait(self._bucket.take()):
            return _STOPPING
        answer = self._send(self._request("GET", path, query=query), seconds, self._stop.is_set)
        match answer:
            case NoAnswer():
                return answer
            case Response(status=HTTPStatus.OK):
                return _decoded(answer.body, decode)
            case Response():
                return refusal(answer)

    def write(
        self, method: str, path: str, body: bytes, content_type: str, query: Mapping[str, str] = _NOTHING
    ) -> Response | Failure:
        """One request, never repeated, sent only if the guard allows it now; the answer if it is 2xx."""
        self._runtime.sleep(self._bucket.take())
        permission = self._guard()
        if isinstance(permission, Denied):
            return NoAnswer(permission.reason, sent=False, doubt=Doubt.NOT_ALLOWED, final=True)
        request = self._request(method, path, query=query, headers={"content-type": content_type}, body=body)
        answer = self._send(request, request.connect_timeout + request.read_timeout, _never)
        if isinstance(answer, NoAnswer) or _is_success(answer):
            return answer
        with self._lock:
            self._conflicts += answer.status == HTTPStatus.CONFLICT
        return refusal(answer)

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] = _NOTHING,
        headers: Mapping[str, str] = _NOTHING,
        body: bytes = b"",
    ) -> Request:
        times = self._limits.connect_timeout, self._limits.read_timeout
        return Request(method, path, query, headers, body, *times)

    def _send(self, request: Request, seconds: float, stopped: Callable[[], bool]) -> Answer:
        with self._lock:
            self._requests[request.method] += 1
        sent_at = self._runtime.monotonic()
        match self._runtime.bounded(lambda: self._transport.send(request), seconds=seconds, stopped=stopped):
            case Abandoned.STOPPED:
                return _STOPPING
            case Abandoned.LATE:
                return NoAnswer(f"no whole answer within {seconds:.0f} s", sent=True)
            case Response() as response:
                if _is_success(response):
                    self.clock.heard(response.headers.get("date", ""), sent_at=sent_at)
                return response
            case NoAnswer() as silence:
                return silence

    def _pause(self, result: object, attempt: int) -> float:
        pause = backoff(attempt, base=self._limits.backoff_base, cap=self._limits.backoff_cap)
        wanted = result.headers.get("retry-after", "") if isinstance(result, Refusal) else ""
        return max(pause, float(wanted)) if wanted.isdecimal() else pause


_STOPPING = NoAnswer("stopping", sent=True, doubt=Doubt.NOT_ALLOWED, final=True)


def _never() -> bool:
    """A write is not given up midway: its outcome matters most when we are about to end."""
    return False


def _is_success(response: Response) -> bool:
    return HTTPStatus.OK <= response.status < HTTPStatus.MULTIPLE_CHOICES


def _may_pass(result: object, attempt: int) -> bool:
    """Whether asking again may help. A 401 is asked once more: the transport has read its credentials anew."""
    match result:
        case NoAnswer():
            return not result.final
        case Refusal(code=HTTPStatus.UNAUTHORIZED):
            return attempt == 1
        case Refusal():
            return result.doubt is Doubt.UNAVAILABLE
        case _:
            return False


def _decoded(body: bytes, decode: Callable[[bytes], T]) -> T | NoAnswer:
    try:
        return decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        return NoAnswer(f"an answer that cannot be read: {error}", sent=True, doubt=Doubt.BROKEN)
