from datetime import UTC, datetime, timedelta

import pytest
from msgspec import Struct

from cluster.scripted import FakeServer, FakeTime, json_answer, page, status
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Counts
from poolwarden.cluster.interface import Absent, Doubt, Found, Unread
from poolwarden.cluster.transport import Answer, NoAnswer, Response
from poolwarden.ipam.kinds import NODES, PODS, VIRTUAL_MACHINES

PATH = "/api/v1/namespaces/blue/pods/a"
NOON = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)


class Meta(Struct):
    """Which object it is."""

    name: str


class Pod(Struct):
    """A pod whose node matters."""

    metadata: Meta
    nodeName: str = ""  # noqa: N815 - as in the API


def get(api: ApiServer) -> Found[Pod] | Absent | Unread:
    """Pod blue/a."""
    return api.get(PODS, Pod, name="a", namespace="blue")


def doubt(api: ApiServer) -> Doubt:
    """Why pod blue/a is not known."""
    found = get(api)
    assert isinstance(found, Unread)
    assert "pods blue/a" in found.message
    return found.doubt


def test_found(api: ApiServer, server: FakeServer) -> None:
    """The object decoded, and its text; asked without a version, that is by a quorum read."""
    answer = json_answer({"kind": "Pod", "metadata": {"name": "a"}, "nodeName": "n1"})
    server.on("GET", PATH, answer)
    assert get(api) == Found(Pod(Meta("a"), "n1"), answer.body)
    assert dict(server.asked(PATH)[0].query) == {}


def test_absent(api: ApiServer, server: FakeServer) -> None:
    """A 404 that names the object says that it is not there."""
    server.on("GET", PATH, status(404, 'pods "a" not found', name="a"))
    assert get(api) == Absent()


def test_a_404_of_something_else(api: ApiServer, server: FakeServer) -> None:
    """A 404 that does not name the object, as a proxy sends it, proves nothing."""
    server.on("GET", PATH, Response(404, b"<html>not found</html>"))
    assert doubt(api) is Doubt.REJECTED
    server.on("GET", PATH, status(404, "not found", name="b"))
    assert doubt(api) is Doubt.REJECTED


def test_absent_with_its_kind(api: ApiServer) -> None:
    """Of a kind that is not installed there is no object."""
    assert api.get(VIRTUAL_MACHINES, Pod, name="a", namespace="blue") == Absent()


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (status(403, "no"), Doubt.FORBIDDEN),
        (status(500), Doubt.UNAVAILABLE),
        (NoAnswer("refused", sent=False), Doubt.UNAVAILABLE),
        (Response(200, b'{"metadata":{"name":"a"}'), Doubt.BROKEN),
        (json_answer({"metadata": {"name": "b"}}), Doubt.BROKEN),
        (json_answer({}), Doubt.BROKEN),
        (json_answer({"metadata": {"name": "a"}, "nodeName": 5}), Doubt.BROKEN),
    ],
)
def test_unread(api: ApiServer, server: FakeServer, answer: Answer, why: Doubt) -> None:
    """Everything else leaves it unknown whether, or as what, the object exists."""
    server.on("GET", PATH, answer)
    assert doubt(api) is why


def test_reads_are_repeated(api: ApiServer, server: FakeServer) -> None:
    """As lists are, also when the answer was cut short."""
    answer = json_answer({"metadata": {"name": "a"}})
    server.on("GET", PATH, status(503), Response(200, answer.body[:-1]), answer)
    assert isinstance(get(api), Found)


@pytest.mark.parametrize(
    ("namespace", "name"), [("blue", ""), ("blue", "."), ("blue", ".."), ("blue", "a/b"), ("", "a"), ("..", "a")]
)
def test_names_of_nothing(api: ApiServer, server: FakeServer, namespace: str, name: str) -> None:
    """A name that would address a collection, or another object, is never sent."""
    found = api.get(PODS, Pod, name=name, namespace=namespace)
    assert isinstance(found, Unread)
    assert found.doubt is Doubt.REJECTED
    assert server.requests == []


def test_names_are_escaped(api: ApiServer, server: FakeServer) -> None:
    """What may stand in a name but not in a path is escaped."""
    api.get(NODES, Pod, name="a b?c#d:é")
    assert server.requests[0].path == "/api/v1/nodes/a%20b%3Fc%23d%3A%C3%A9"


def test_cluster_scoped_kinds_have_no_namespace(api: ApiServer, server: FakeServer) -> None:
    """A namespace for them is a mistake that must not go unnoticed."""
    assert isinstance(api.get(NODES, Pod, name="a", namespace="blue"), Unread)
    assert server.requests == []


# --- time and counters ------------------------------------------------------------------------------------------------


def test_now_is_the_servers(api: ApiServer, time: FakeTime) -> None:
    """The time is that of the last answer, and goes on by our monotonic clock."""
    api.list(PODS, Pod)
    assert api.now() == NOON
    time.now += 3.5
    assert api.now() == NOON + timedelta(seconds=3.5)


def test_now_asks_once(api: ApiServer, server: FakeServer) -> None:
    """Before any answer, the time is asked for."""
    server.on("GET", "/version", json_answer({}))
    assert api.now() == NOON
    assert api.now() == NOON
    assert len(server.requests) == 1


def test_now_without_a_server(api: ApiServer, server: FakeServer) -> None:
    """When nobody answers it is our own clock's, after one attempt."""
    server.on("GET", "/version", NoAnswer("refused", sent=False))
    assert abs(api.now() - datetime.now(UTC)) < timedelta(seconds=5)
    assert len(server.requests) == 1


def test_dates_of_errors_do_not_count(api: ApiServer, server: FakeServer) -> None:
    """An error may be a proxy's, and its clock too."""
    server.on("GET", "/version", json_answer({}))
    api.now()
    server.on("GET", "/api/v1/pods", status(403, date="Sat, 10 Jan 2099 12:00:00 GMT"))
    api.list(PODS, Pod)
    assert api.now() == NOON


def test_counts(api: ApiServer, server: FakeServer) -> None:
    """Requests are counted by method, repetitions too."""
    server.on("GET", "/api/v1/pods", status(503), page([]))
    api.list(PODS, Pod)
    assert api.counts == Counts({"GET": 3}, 0)
