"""HTTP around the rules: bytes in, an answerer's verdict out. Knows neither rules nor cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping
from http import HTTPStatus
from time import perf_counter
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from poolwarden.webhook.answer import Answer, Denied, Errored, errored, response
from poolwarden.webhook.review import NoReview, Request, parse_review
from poolwarden.webhook.server.config import Answerer, Limits
from poolwarden.webhook.server.lifecycle import Lifecycle, Phase
from poolwarden.webhook.server.log import place
from poolwarden.webhook.server.metrics import NO_REVIEW, Metrics

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Asgi = Callable[[Message, Receive, Send], Awaitable[None]]

JSON = b"application/json"
TYPE = (b"content-type", JSON)
CLOSE = (b"connection", b"close")
RETRY_SECONDS = 1
"""client-go repeats a POST that got 503 and a Retry-After of whole seconds, within the webhook's timeout."""
LONGEST_WORD = 64
"""Characters of a uid or kind in our log: the API server's are shorter, anybody else's may be anything."""

_log = structlog.get_logger()


class Gone(Struct, frozen=True):
    """The client left before its request was complete."""


class Body(Struct, frozen=True):
    """A request's body, complete and within bounds."""

    text: bytes


class Coming:
    """A body on its way."""

    def __init__(self, clock: asyncio.Timeout) -> None:
        self.clock = clock
        self.text = bytearray()
        self.dropped = False


class Reply(Struct, frozen=True):
    """An answer, ready to be sent, and how it counts."""

    status: HTTPStatus
    body: bytes
    verdict: type[Answer]
    operation: str = NO_REVIEW
    headers: tuple[tuple[bytes, bytes], ...] = ()


class App:
    """An ASGI callable: reviews on their paths, everything else from `pages`."""

    def __init__(self, pages: Asgi, lifecycle: Lifecycle, metrics: Metrics, limits: Limits) -> None:
        self._pages = pages
        self._lifecycle = lifecycle
        self._metrics = metrics
        self._limits = limits
        self._answerers: Mapping[str, Answerer] = {}
        self._held = 0
        self._coming: dict[Coming, None] = {}  # oldest first
        self.in_flight = 0

    def serve(self, answerers: Mapping[str, Answerer]) -> None:
        """From now on, answer reviews on these paths."""
        self._metrics.expect(answerers, lambda: self.in_flight)
        self._answerers = answerers

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """Answer one request."""
        path = scope["path"]
        answerer = self._answerers.get(path)
        if answerer is not None:
            began = perf_counter()
            self.in_flight += 1
            try:
                reply = await self._review(path, answerer, scope, receive)
                if isinstance(reply, Gone):
                    return
                self._metrics.answered(path, reply.operation, reply.verdict, perf_counter() - began)
            finally:
                self.in_flight -= 1
            await self._send(reply, send)
        elif scope["method"] == "POST" and self._lifecycle.phase is not Phase.SERVING:
            # The paths are not known before the set-up is done, but no page takes a POST.
            await self._send(_refusal(_unavailable(self._lifecycle.phase)), send)
        else:
            await self._pages(scope, receive, send)

    async def _review(self, path: str, answerer: Answerer, scope: Message, receive: Receive) -> Reply | Gone:
        phase = self._lifecycle.phase  # as the request came: what was taken on is finished
        if scope["method"] != "POST":
            refused = errored(HTTPStatus.METHOD_NOT_ALLOWED, "a review is sent by POST")
            return _refusal(refused, headers=((b"allow", b"POST"),))
        kind, length = _kind_and_length(scope["headers"])
        if kind.partition(b";")[0].strip().lower() != JSON:
            return _refusal(errored(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "a review is application/json"))
        body = await self._read(length, receive)
        if not isinstance(body, Body):
            return body
        if phase is not Phase.SERVING:  # only now: an answer before the body is read may meet a reset
            return _refusal(_unavailable(phase))
        return _answer(path, answerer, body.text)

    async def _read(self, length: int, receive: Receive) -> Body | Reply | Gone:
        """Read a body of `length` bytes as announced, 0 if nothing was announced."""
        most = self._limits.body_bytes
        if length > most:
            return _too_large(most)
        clock = asyncio.timeout(self._limits.body)
        coming = Coming(clock)
        try:
            async with clock:
                message = await receive()
                if message["type"] == "http.disconnect":
                    return Gone()
                if not message["more_body"] and len(message["body"]) <= most:
                    return Body(message["body"])  # all there at once, as nearly always
                return await self._gather(coming, message, receive)
        except TimeoutError:
            if coming.dropped:
                return _overload()
            late = errored(HTTPStatus.REQUEST_TIMEOUT, f"the body did not arrive within {self._limits.body:g} s")
            return _refusal(late, headers=(CLOSE,))
        finally:
            self._drop(coming)

    async def _gather(self, coming: Coming, message: Message, receive: Receive) -> Body | Reply | Gone:
        self._coming[coming] = None
        while message["type"] != "http.disconnect":
            self._hold(coming, message["body"])
            if coming.dropped:
                return _overload()
            if len(coming.text) > self._limits.body_bytes:
                return _too_large(self._limits.body_bytes)
            if not message["more_body"]:
                return Body(bytes(coming.text))
            message = await receive()
        return Gone()

    def _hold(self, coming: Coming, part: bytes) -> None:
        """Keep a part of a body; where all together are too much, drop the oldest: others take milliseconds to come."""
        coming.text += part
        self._held += len(part)
        while self._held > self._limits.held_bytes:
            oldest = next(iter(self._coming))
            self._drop(oldest)
            oldest.dropped = True
            oldest.clock.reschedule(asyncio.get_running_loop().time())

    def _drop(self, coming: Coming) -> None:
        if coming in self._coming:
            del self._coming[coming]
            self._held -= len(coming.text)
            coming.text = bytearray()

    async def _send(self, reply: Reply, send: Send) -> None:
        headers = [TYPE, (b"content-length", b"%d" % len(reply.body)), *reply.headers]
        if self._lifecycle.phase is Phase.DRAINING and CLOSE not in reply.headers:
            headers.append(CLOSE)  # the client's next review goes to another replica
        await send({"type": "http.response.start", "status": reply.status.value, "headers": headers})
        await send({"type": "http.response.body", "body": reply.body})


def _answer(path: str, answerer: Answerer, body: bytes) -> Reply:
    request = parse_review(body)
    if isinstance(request, NoReview):
        return _refusal(errored(HTTPStatus.BAD_REQUEST, f"no review: {request.problem}"))
    operation = request.operation.value
    try:
        answer = answerer(request)
        if isinstance(answer, Denied):
            _log.info("denied", path=path, **_told(request))
        if not isinstance(answer, Errored):
            return Reply(HTTPStatus.OK, response(request.uid, answer), type(answer), operation)
    except Exception as error:  # noqa: BLE001 - whatever a rule raises, failurePolicy decides
        # Neither the message nor any value: they may quote the object.
        fault, where = type(error).__name__, place(error.__traceback__)
        _log.error("review_failed", path=path, **_told(request), error=fault, at=where)
        answer = errored(HTTPStatus.INTERNAL_SERVER_ERROR, f"defect of poolwarden: {fault} at {where}")
    return _refusal(answer, operation=operation)


def _told(request: Request) -> dict[str, str]:
    """What our log says of a request: which one, and nothing of its object."""
    words = {
        "uid": request.uid,
        "kind": request.kind.kind,
        "namespace": request.namespace,
        "name": request.name,
        "operation": request.operation.value,
    }
    return {key: word[:LONGEST_WORD] for key, word in words.items()}


def _refusal(answer: Errored, *, operation: str = NO_REVIEW, headers: tuple[tuple[bytes, bytes], ...] = ()) -> Reply:
    if answer.retry_after:
        headers = (*headers, (b"retry-after", b"%d" % answer.retry_after))
    body = msgspec.json.encode({"error": answer.message})
    return Reply(answer.status, body, Errored, operation, headers)


def _unavailable(phase: Phase) -> Errored:
    return errored(HTTPStatus.SERVICE_UNAVAILABLE, f"the server is {phase.value}", retry_after=RETRY_SECONDS)


def _overload() -> Reply:
    overload = "too many reviews are being sent at once"
    return _refusal(errored(HTTPStatus.SERVICE_UNAVAILABLE, overload, retry_after=RETRY_SECONDS))


def _too_large(most: int) -> Reply:
    return _refusal(errored(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a review has at most {most} bytes"))


def _kind_and_length(headers: Iterable[tuple[bytes, bytes]]) -> tuple[bytes, int]:
    """Content-Type and Content-Length; the parser has made sure that the latter is a number."""
    kind, length = b"", 0
    for name, value in headers:
        if name == b"content-type":
            kind = value
        elif name == b"content-length":
            length = int(value)
    return kind, length
