"""An API server of scripted answers, and time that passes only when somebody waits."""

from collections.abc import Callable
from typing import Any

import msgspec

from poolwarden.cluster.runtime import Machine
from poolwarden.cluster.transport import Answer, Request, Response

DATE = "Sat, 10 Jan 2026 12:00:00 GMT"

Reply = Answer | Callable[[Request], Answer]


class FakeTime(Machine):
    """A machine with a clock of its own, and a stop event, in one: waiting moves the clock, and is recorded."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.waits: list[float] = []
        self.stopped = False
        self.on_wait: Callable[[], None] = lambda: None

    def monotonic(self) -> float:
        """Seconds."""
        return self.now

    def is_set(self) -> bool:
        """Whether the program was told to stop."""
        return self.stopped

    def wait(self, timeout: float) -> bool:
        """Let time pass."""
        if not self.stopped and timeout > 0:
            self.now += timeout
            self.waits.append(timeout)
        self.on_wait()
        return self.stopped


class FakeServer:
    """Gives the answers told by `on` for a method and path, one after the other, the last one for good."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self._replies: dict[tuple[str, str], list[Reply]] = {}
        self._last: dict[tuple[str, str], Reply] = {}

    def on(self, method: str, path: str, *replies: Reply) -> None:
        """What to answer from here on."""
        self._replies[method, path] = list(replies)

    def serve(self, path: str, *plurals: str) -> None:
        """Name kinds in the discovery document of a version of a group."""
        resources = [{"name": plural, "kind": plural.title(), "namespaced": True} for plural in plurals]
        self.on("GET", path, json_answer({"kind": "APIResourceList", "resources": resources}))

    def send(self, request: Request) -> Answer:
        """One exchange."""
        self.requests.append(request)
        key = request.method, request.path
        if self._replies.get(key):
            self._last[key] = self._replies[key].pop(0)
        reply = self._last.get(key, Response(404, b"404 page not found\n"))
        return reply(request) if callable(reply) else reply

    def asked(self, path: str) -> list[Request]:
        """The requests for a path."""
        return [request for request in self.requests if request.path == path]


def json_answer(body: object, code: int = 200, **headers: str) -> Response:
    """An answer of JSON."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(code, msgspec.json.encode(body), {"date": DATE} | names)


def status(code: int, message: str = "", *, name: str = "", fields: tuple[str, ...] = (), **headers: str) -> Response:
    """An error of the API server."""
    details: dict[str, Any] = {"causes": [{"reason": "FieldValueInvalid", "field": field} for field in fields]}
    if name:
        details["name"] = name
    return json_answer({"kind": "Status", "message": message, "details": details}, code, **headers)


def page(items: list[object], *, token: str = "", version: str = "7") -> Response:
    """One page of pods."""
    metadata = {"resourceVersion": version} | ({"continue": token} if token else {})
    return json_answer({"kind": "PodList", "apiVersion": "v1", "metadata": metadata, "items": items})
