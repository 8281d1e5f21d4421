import threading
import time as real_time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from cluster.scripted import FakeServer, FakeTime, json_answer, status
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Counts, Limits
from poolwarden.cluster.guard import Allowed, Denied, Permission
from poolwarden.cluster.interface import (
    Absent,
    Deleted,
    Doubt,
    Failed,
    Outdated,
    PatchType,
    WriteOutcome,
    Written,
)
from poolwarden.cluster.transport import Answer, NoAnswer, Response
from poolwarden.ipam.kinds import NODES, PODS

PATH = "/api/v1/namespaces/blue/pods/a"
COLLECTION = "/api/v1/namespaces/blue/pods"
POD = {"kind": "Pod", "metadata": {"name": "a", "resourceVersion": "8"}}


def merge(api: ApiServer) -> WriteOutcome:
    """A merge patch."""
    return api.patch(PODS, {"metadata": {"resourceVersion": "7"}}, name="a", namespace="blue")


def operations(api: ApiServer) -> WriteOutcome:
    """A JSON patch."""
    body = [{"op": "test", "path": "/a", "value": 1}]
    return api.patch(PODS, body, name="a", namespace="blue", type=PatchType.JSON)


def delete(api: ApiServer) -> WriteOutcome:
    """A delete."""
    return api.delete(PODS, name="a", namespace="blue", uid="u1", resource_version="7")


def create(api: ApiServer) -> WriteOutcome:
    """A create."""
    return api.create(PODS, POD, namespace="blue")


WRITES = [
    pytest.param("PATCH", PATH, merge, id="merge"),
    pytest.param("PATCH", PATH, operations, id="json"),
    pytest.param("DELETE", PATH, delete, id="delete"),
    pytest.param("POST", COLLECTION, create, id="create"),
]
Write = Callable[[ApiServer], WriteOutcome]


def test_requests(api: ApiServer, server: FakeServer) -> None:
    """Each write is one request that names exactly what was judged."""
    for write in (merge, operations, delete, create):
        write(api)
    sent = [(request.method, request.path, request.headers["content-type"]) for request in server.requests]
    assert sent == [
        ("PATCH", PATH, "application/merge-patch+json"),
        ("PATCH", PATH, "application/json-patch+json"),
        ("DELETE", PATH, "application/json"),
        ("POST", COLLECTION, "application/json"),
    ]
    bodies: list[Any] = [msgspec.json.decode(request.body) for request in server.requests]
    assert bodies[0] == {"metadata": {"resourceVersion": "7"}}
    assert bodies[1] == [{"op": "test", "path": "/a", "value": 1}]
    assert bodies[2]["preconditions"] == {"uid": "u1", "resourceVersion": "7"}
    assert bodies[3] == POD


def test_subresource(api: ApiServer, server: FakeServer) -> None:
    """A subresource has its own path."""
    server.on("PATCH", "/api/v1/nodes/a/status", json_answer(POD))
    assert isinstance(api.patch(NODES, {}, name="a", subresource="status"), Written)


@pytest.mark.parametrize(("method", "path", "write"), WRITES)
def test_written(api: ApiServer, server: FakeServer, method: str, path: str, write: Write) -> None:
    """A write that was made gives the object after it."""
    answer = json_answer(POD, 201)
    server.on(method, path, answer)
    assert write(api) == Written(answer.body)


@pytest.mark.parametrize(("method", "path", "write"), WRITES)
@pytest.mark.parametrize(
    ("answer", "why", "uncertain"),
    [
        (status(400, "bad"), Doubt.REJECTED, False),
        (status(401, "who"), Doubt.FORBIDDEN, False),
        (status(403, "no"), Doubt.FORBIDDEN, False),
        (status(404, 'namespaces "blue" not found', name="blue"), Doubt.REJECTED, False),
        (Response(404, b"404 page not found"), Doubt.REJECTED, False),
        (status(413, "too large"), Doubt.REJECTED, False),
        (status(422, "Pod a is invalid", name="a", fields=("spec.x",)), Doubt.REJECTED, False),
        (status(429, "later", retry_after="1"), Doubt.UNAVAILABLE, False),
        (status(500, "failed calling webhook"), Doubt.UNAVAILABLE, True),
        (status(503, "down", retry_after="1"), Doubt.UNAVAILABLE, True),
        (status(504, "slow"), Doubt.UNAVAILABLE, True),
        (Response(307), Doubt.BROKEN, False),
        (NoAnswer("refused", sent=False), Doubt.UNAVAILABLE, False),
        (NoAnswer("reset", sent=True), Doubt.UNAVAILABLE, True),
        (NoAnswer("cut short", sent=True, doubt=Doubt.BROKEN), Doubt.BROKEN, True),
        (Response(200, b'{"metadata":{"name":"a"}'), Doubt.BROKEN, True),
        (Response(200, b"<html>"), Doubt.BROKEN, True),
    ],
)
def test_failed(
    api: ApiServer,
    server: FakeServer,
    method: str,
    path: str,
    write: Write,
    answer: Answer,
    why: Doubt,
    uncertain: bool,  # noqa: FBT001
) -> None:
    """A write that failed is never repeated, and says whether it may have been made all the same."""
    server.on(method, path, answer)
    outcome = write(api)
    assert isinstance(outcome, Failed)
    assert (outcome.doubt, outcome.uncertain) == (why, uncertain)
    assert "blue/a" in outcome.message
    assert len(server.requests) == 1


@pytest.mark.parametrize(("method", "path", "write"), WRITES)
def test_conflict(api: ApiServer, server: FakeServer, method: str, path: str, write: Write) -> None:
    """409 says that the object is another by now, or there already; it is counted."""
    server.on(method, path, status(409, "the object has been modified", name="a"))
    assert write(api) == Outdated(f"cannot {write_words(method)} pods blue/a: 409 the object has been modified")
    assert api.counts == Counts({method: 1}, 1)


def write_words(method: str) -> str:
    """As messages call it."""
    return {"PATCH": "patch", "DELETE": "delete", "POST": "create"}[method]


def test_failed_json_patch_test(api: ApiServer, server: FakeServer) -> None:
    """A failed operation is answered with a 422 that says nothing: re-read. With a merge patch it means something else."""
    server.on("PATCH", PATH, status(422, "the server rejected our request due to an error in our request"))
    assert isinstance(operations(api), Outdated)
    assert isinstance(merge(api), Failed)


def test_another_uid(api: ApiServer, server: FakeServer) -> None:
    """A UID in a patch is a precondition; the server says 422 on that field."""
    server.on("PATCH", PATH, status(422, "invalid", name="a", fields=("metadata.uid",)))
    assert isinstance(merge(api), Outdated)


@pytest.mark.parametrize("write", [merge, operations, delete])
def test_absent(api: ApiServer, server: FakeServer, write: Write) -> None:
    """An object that is gone is told as such."""
    answer = status(404, 'pods "a" not found', name="a")
    server.on("PATCH", PATH, answer)
    server.on("DELETE", PATH, answer)
    assert write(api) == Absent()


def test_no_such_subresource(api: ApiServer, server: FakeServer) -> None:
    """The 404 of a subresource that is not served names the object, but does not mean it."""
    server.on("PATCH", f"{PATH}/status", status(404, 'pods "a" not found', name="a"))
    outcome = api.patch(PODS, {}, name="a", namespace="blue", subresource="status")
    assert isinstance(outcome, Failed)
    assert (outcome.doubt, outcome.uncertain) == (Doubt.REJECTED, False)
    server.serve("/api/v1", "pods", "pods/status")
    api.forget_discovery()
    assert api.patch(PODS, {}, name="a", namespace="blue", subresource="status") == Absent()


def test_deleted(api: ApiServer, server: FakeServer) -> None:
    """A delete is answered with a Status of success, or with the object as it was last."""
    server.on("DELETE", PATH, json_answer({"kind": "Status", "status": "Success", "details": {"name": "a"}}))
    assert delete(api) == Deleted()
    last = {"name": "a", "deletionTimestamp": "2026-01-10T12:00:00Z", "deletionGracePeriodSeconds": 0}
    server.on("DELETE", PATH, json_answer({"kind": "Pod", "metadata": last}))
    assert delete(api) == Deleted()


@pytest.mark.parametrize("held", [{"finalizers": ["a/b"]}, {"deletionGracePeriodSeconds": 30}])
def test_terminating(api: ApiServer, server: FakeServer, held: dict[str, Any]) -> None:
    """An object that a finalizer or its grace period holds is there still."""
    metadata = {"name": "a", "deletionTimestamp": "2026-01-10T12:00:00Z", "deletionGracePeriodSeconds": 0} | held
    server.on("DELETE", PATH, json_answer({"kind": "Pod", "metadata": metadata}))
    assert isinstance(delete(api), Written)


def test_last_finalizer(api: ApiServer, server: FakeServer) -> None:
    """The patch that takes the last finalizer away deletes."""
    metadata = {"name": "a", "deletionTimestamp": "2026-01-10T12:00:00Z", "deletionGracePeriodSeconds": 0}
    server.on("PATCH", PATH, json_answer({"kind": "Pod", "metadata": metadata}))
    assert merge(api) == Deleted()


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "%2e%2e"])
def test_names_of_nothing(api: ApiServer, server: FakeServer, name: str) -> None:
    """A delete without a name would delete the whole collection: it is never sent."""
    for outcome in (
        api.delete(PODS, name=name, namespace="blue", uid="u", resource_version="7"),
        api.patch(PODS, {}, name=name, namespace="blue"),
    ):
        assert isinstance(outcome, Failed)
        assert (outcome.doubt, outcome.uncertain) == (Doubt.REJECTED, False)
    assert server.requests == []


@pytest.mark.parametrize(("method", "path", "write"), WRITES)
def test_guard(server: FakeServer, method: str, path: str, write: Write) -> None:
    """Before each write leave is asked for; without it nothing is sent."""
    permission: list[Permission] = [Allowed()]
    api = ApiServer(server, guard=lambda: permission[0])
    server.on(method, path, json_answer(POD))
    assert isinstance(write(api), Written)
    permission[0] = Denied("leadership was lost")
    outcome = write(api)
    assert isinstance(outcome, Failed)
    assert (outcome.doubt, outcome.uncertain) == (Doubt.NOT_ALLOWED, False)
    assert "leadership was lost" in outcome.message
    assert len(server.requests) == 1


def test_guard_is_asked_last(server: FakeServer, time: FakeTime) -> None:
    """Leave is asked for after the wait for our turn, not before."""
    waited: list[float] = []
    began = real_time.monotonic()

    def guard() -> Permission:
        waited.append(real_time.monotonic() - began)
        return Denied("no")

    api = ApiServer(server, limits=Limits(qps=5, burst=1), guard=guard, stop=time)
    merge(api)
    merge(api)
    assert waited[1] > 0.15


def test_writes_go_on_while_stopping(api: ApiServer, server: FakeServer, time: FakeTime) -> None:
    """Only the guard forbids writes: who stops may have to release a lease."""
    server.on("PATCH", PATH, json_answer(POD))
    time.stopped = True
    assert isinstance(merge(api), Written)


def test_write_that_hangs(server: FakeServer) -> None:
    """A write whose answer drips in for ever is given up, and its fate is unknown."""
    hang = threading.Event()

    def answer(_: object) -> Answer:
        hang.wait(10)
        return json_answer(POD)

    server.on("PATCH", PATH, answer)
    began = real_time.monotonic()
    outcome = merge(ApiServer(server, limits=Limits(connect_timeout=0.1, read_timeout=0.2)))
    assert 0.3 <= real_time.monotonic() - began < 2
    hang.set()
    assert isinstance(outcome, Failed)
    assert (outcome.doubt, outcome.uncertain) == (Doubt.UNAVAILABLE, True)


def test_long_errors_are_cut(api: ApiServer, server: FakeServer) -> None:
    """Some errors quote the whole object: a message is one line of bounded length."""
    server.on("PATCH", PATH, status(422, "bad:\n" + "x" * 100_000, name="a", fields=("spec",)))
    outcome = merge(api)
    assert isinstance(outcome, Failed)
    assert len(outcome.message) < 700
    assert "\n" not in outcome.message
