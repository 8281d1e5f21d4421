import threading
import time as real_time
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from cluster.scripted import FakeServer, FakeTime, json_answer, page, status
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.interface import Complete, Coverage, Doubt, Incomplete, NotInstalled, Partial, Resource
from poolwarden.cluster.transport import Answer, NoAnswer, Request, Response
from poolwarden.ipam.kinds import PODS, STATEFUL_SETS, VIRTUAL_MACHINES, Kind

PATH = "/api/v1/pods"
REFUSED = NoAnswer("NewConnectionError: connection refused", sent=False)
CUT = NoAnswer("ProtocolError: IncompleteRead", sent=True, doubt=Doubt.BROKEN)


class Meta(Struct):
    """Which object it is."""

    name: str
    uid: str = ""


class Pod(Struct):
    """A pod whose node matters."""

    metadata: Meta
    nodeName: str = ""  # noqa: N815 - as in the API


def pod(name: str, **rest: Any) -> dict[str, Any]:
    """A pod as it stands in a page."""
    return {"metadata": {"name": name, "namespace": "blue", "uid": f"{name}-uid"}} | rest


def names(api: ApiServer) -> list[str]:
    """The names of a list that was read to its end."""
    listing = api.list(PODS, Pod)
    assert listing.coverage == Complete()
    return [item.metadata.name for item in listing.items]


def coverage(api: ApiServer, resource: Resource = PODS) -> Coverage:
    """How much a list says to know."""
    return api.list(resource, Pod).coverage


def doubt(api: ApiServer, resource: Resource = PODS) -> tuple[Doubt, str]:
    """Why a list is not complete."""
    found = coverage(api, resource)
    assert isinstance(found, Incomplete)
    return found.doubt, found.message


def test_pages(api: ApiServer, server: FakeServer) -> None:
    """All pages are read, each with the limit and the token of the one before; the version is the list's."""
    server.on("GET", PATH, page([pod("a"), pod("b")], token="t1"), page([pod("c")], token="t2"), page([pod("d")]))
    listing = api.list(PODS, Pod)
    assert [item.metadata.name for item in listing.items] == ["a", "b", "c", "d"]
    assert (listing.coverage, listing.resource_version) == (Complete(), "7")
    assert [dict(request.query) for request in server.asked(PATH)] == [
        {"limit": "500"},
        {"limit": "500", "continue": "t1"},
        {"limit": "500", "continue": "t2"},
    ]


def test_empty(api: ApiServer, server: FakeServer) -> None:
    """A list of nothing is complete; Go writes it as [] or null."""
    assert names(api) == []
    server.on("GET", PATH, json_answer({"kind": "PodList", "metadata": {}, "items": None}))
    assert names(api) == []


def test_one_namespace(api: ApiServer, server: FakeServer) -> None:
    """The list of a namespace speaks for that namespace only."""
    server.on("GET", "/api/v1/namespaces/blue/pods", page([pod("a")]))
    assert api.list(PODS, Pod, namespace="blue").coverage == Partial(frozenset({"blue"}))


@pytest.mark.parametrize("namespace", ["", "..", "a/b", "a%2fb"])
def test_no_namespace(api: ApiServer, server: FakeServer, namespace: str) -> None:
    """What is no namespace is never sent: it could address something else."""
    found = api.list(PODS, Pod, namespace=namespace).coverage
    assert isinstance(found, Incomplete)
    assert found.doubt is Doubt.REJECTED
    assert server.requests == []


def test_expired_token_starts_again(api: ApiServer, server: FakeServer) -> None:
    """410 Gone throws away what was read and starts from the beginning."""
    server.on(
        "GET",
        PATH,
        page([pod("a")], token="t1"),
        status(410, "too old"),
        page([pod("b")], token="t2"),
        page([pod("c")]),
    )
    assert names(api) == ["b", "c"]
    assert [request.query.get("continue", "") for request in server.asked(PATH)] == ["", "t1", "", "t2"]


def test_pages_of_two_states(api: ApiServer, server: FakeServer) -> None:
    """All pages of a list show one state, told by its version; with another one in between, it starts again."""
    server.on(
        "GET",
        PATH,
        page([pod("a")], token="t1", version="7"),
        page([], version="3"),
        page([pod("a")], token="t2", version="8"),
        page([pod("b")], version="8"),
    )
    assert names(api) == ["a", "b"]


def test_expired_for_ever(api: ApiServer, server: FakeServer) -> None:
    """A list that never ends in time is given up, and is not short but incomplete."""

    def answer(request: Request) -> Answer:
        return status(410, "too old") if "continue" in request.query else page([pod("a")], token="t")

    server.on("GET", PATH, answer)
    assert api.list(PODS, Pod).items == ()
    assert doubt(api)[0] is Doubt.UNAVAILABLE


def test_one_bad_object(api: ApiServer, server: FakeServer) -> None:
    """An object that does not fit is told apart; its neighbours and the coverage do not suffer."""
    server.on("GET", PATH, page([pod("a"), pod("b", nodeName=5), pod("c")], token="t"), page([pod("d")]))
    listing = api.list(PODS, Pod)
    assert [item.metadata.name for item in listing.items] == ["a", "c", "d"]
    assert listing.coverage == Complete()
    (bad,) = listing.unreadable
    assert (bad.namespace, bad.name, bad.where) == ("blue", "b", "/api/v1/namespaces/blue/pods/b")
    assert "nodeName" in bad.error
    assert b'"nodeName":5' in bad.raw


def test_object_of_bad_utf8(api: ApiServer, server: FakeServer) -> None:
    """Bytes that are no text spoil only the object in which they stand."""
    body = page([pod("a", nodeName="x"), pod("b", nodeName="BAD")]).body.replace(b"BAD", b"\xff")
    server.on("GET", PATH, Response(200, body))
    listing = api.list(PODS, Pod)
    assert [item.metadata.name for item in listing.items] == ["a"]
    assert [bad.name for bad in listing.unreadable] == ["b"]


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"name": "a/b", "namespace": "c"}, {"name": 5}, None])
def test_object_without_a_name(api: ApiServer, server: FakeServer, metadata: object) -> None:
    """What cannot even be named makes the list incomplete; the rest of it is read."""
    server.on("GET", PATH, page([pod("a"), {"metadata": metadata, "nodeName": 5}], token="t"), page([pod("c")]))
    listing = api.list(PODS, Pod)
    assert [item.metadata.name for item in listing.items] == ["a", "c"]
    assert listing.coverage == Incomplete(Doubt.BROKEN, "1 of the pods listed have no name")


def test_forbidden(api: ApiServer, server: FakeServer) -> None:
    """403 names the verb, the kind and what the server says; it is not asked again."""
    server.on("GET", PATH, status(403, 'pods is forbidden: User "x" cannot list resource "pods"'))
    assert doubt(api) == (
        Doubt.FORBIDDEN,
        'cannot list pods: 403 pods is forbidden: User "x" cannot list resource "pods"',
    )
    assert len(server.asked(PATH)) == 1


def test_failure_in_the_middle(api: ApiServer, server: FakeServer) -> None:
    """What was read before a failure is given, but not as the whole."""
    server.on("GET", PATH, page([pod("a")], token="t"), status(403, "no more"))
    listing = api.list(PODS, Pod)
    assert [item.metadata.name for item in listing.items] == ["a"]
    assert isinstance(listing.coverage, Incomplete)


@pytest.mark.parametrize(
    "failure",
    [status(429), status(500), status(503), status(504), REFUSED, CUT, Response(200, page([pod("x")]).body[:-2])],
)
def test_reads_are_repeated(api: ApiServer, server: FakeServer, time: FakeTime, failure: Answer) -> None:
    """What may pass is asked again, after a pause, and the list is complete."""
    server.on("GET", PATH, failure, failure, page([pod("a")]))
    assert names(api) == ["a"]
    assert len(time.waits) == 2
    assert 0 < time.waits[0] <= 0.5
    assert 0 < time.waits[1] <= 1


@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (status(503, "overloaded"), Doubt.UNAVAILABLE),
        (REFUSED, Doubt.UNAVAILABLE),
        (CUT, Doubt.BROKEN),
        (Response(200, b"<html>sign in</html>"), Doubt.BROKEN),
        (Response(200, b""), Doubt.BROKEN),
        (json_answer({"kind": "Pod", "metadata": {}, "items": []}), Doubt.BROKEN),
        (json_answer({"kind": "PodList", "items": []}), Doubt.BROKEN),
        (json_answer({"kind": "PodList", "metadata": {}}), Doubt.BROKEN),
        (json_answer({"metadata": {}, "items": []}), Doubt.BROKEN),
    ],
)
def test_reads_are_given_up(api: ApiServer, server: FakeServer, failure: Answer, why: Doubt) -> None:
    """After five attempts the list is incomplete, whatever came: never short, and never taken for empty."""
    server.on("GET", PATH, failure)
    assert doubt(api)[0] is why
    assert len(server.asked(PATH)) == 5


@pytest.mark.parametrize("failure", [status(400, "bad"), status(404, "gone"), status(406), Response(302)])
def test_what_no_repetition_cures(api: ApiServer, server: FakeServer, failure: Answer) -> None:
    """Other refusals are asked once."""
    server.on("GET", PATH, failure)
    doubt(api)
    assert len(server.asked(PATH)) == 1


def test_unauthorized_is_asked_twice(api: ApiServer, server: FakeServer) -> None:
    """A 401 may mean a token that was replaced: the transport reads it anew for the second attempt."""
    server.on("GET", PATH, status(401, "Unauthorized"), page([pod("a")]))
    assert names(api) == ["a"]
    server.on("GET", PATH, status(401, "Unauthorized"))
    assert doubt(api) == (Doubt.FORBIDDEN, "cannot list pods: 401 Unauthorized")
    assert len(server.asked(PATH)) == 4


def test_retry_after(api: ApiServer, server: FakeServer, time: FakeTime) -> None:
    """The server's own wish for a pause is honoured."""
    server.on("GET", PATH, status(429, retry_after="7"), page([]))
    assert names(api) == []
    assert time.waits == [7]


def test_retry_after_beyond_the_deadline(api: ApiServer, server: FakeServer, time: FakeTime) -> None:
    """A wish beyond the deadline of a read ends it at once."""
    server.on("GET", PATH, status(429, "later", retry_after="3600"))
    assert doubt(api) == (Doubt.UNAVAILABLE, "cannot list pods: 429 later")
    assert time.waits == []


def test_deadline_of_a_read(server: FakeServer, time: FakeTime) -> None:
    """However many attempts are left, a read ends with its deadline."""

    def slow(_: Request) -> Answer:
        time.now += 8
        return status(503)

    server.on("GET", PATH, slow)
    api = ApiServer(server, limits=Limits(read_deadline=20, attempts=99), stop=time, runtime=time)
    began = time.now
    assert doubt(api)[0] is Doubt.UNAVAILABLE
    assert time.now - began < 30


def test_hanging_server(server: FakeServer) -> None:
    """An answer that never ends is given up at the deadline, though each byte of it came in time."""
    hang = threading.Event()

    def answer(_: Request) -> Answer:
        hang.wait(10)
        return page([])

    server.on("GET", PATH, answer)
    api = ApiServer(server, limits=Limits(read_deadline=0.3))
    began = real_time.monotonic()
    assert doubt(api)[0] is Doubt.UNAVAILABLE
    assert real_time.monotonic() - began < 2
    hang.set()


def test_stopping_ends_a_request(server: FakeServer) -> None:
    """Told to stop, a list ends within a second, though the server hangs, and says why it is incomplete."""
    stop, hang = threading.Event(), threading.Event()

    def answer(_: Request) -> Answer:
        stop.set()
        hang.wait(10)
        return page([])

    server.on("GET", PATH, answer)
    began = real_time.monotonic()
    assert doubt(ApiServer(server, stop=stop)) == (Doubt.NOT_ALLOWED, "cannot list pods: stopping")
    assert real_time.monotonic() - began < 1
    hang.set()


def test_stopping_ends_a_pause(api: ApiServer, server: FakeServer, time: FakeTime) -> None:
    """Told to stop between two attempts, nothing is asked any more."""
    server.on("GET", PATH, status(503, retry_after="5"))
    time.on_wait = lambda: setattr(time, "stopped", bool(time.waits))
    assert doubt(api) == (Doubt.NOT_ALLOWED, "cannot list pods: stopping")
    assert len(server.asked(PATH)) == 1


def test_stopped_before(api: ApiServer, server: FakeServer, time: FakeTime) -> None:
    """After the word to stop no read is begun."""
    time.stopped = True
    assert doubt(api)[0] is Doubt.NOT_ALLOWED
    assert server.requests == []


def test_pace(server: FakeServer, time: FakeTime) -> None:
    """Beyond the burst requests go out at the given rate."""
    api = ApiServer(server, limits=Limits(qps=2, burst=3), stop=time, runtime=time)
    for _ in range(6):
        names(api)
    assert time.waits == [0.5] * 4  # six lists and one discovery, three of them at once


# --- discovery --------------------------------------------------------------------------------------------------------


def test_not_installed(api: ApiServer, server: FakeServer) -> None:
    """A group that the server's list of groups does not name, and a kind that its group does not: there are none."""
    assert coverage(api, VIRTUAL_MACHINES) == NotInstalled()
    assert coverage(api, Kind("apps", "v1", "lakes", "Lake", namespaced=True)) == NotInstalled()
    assert coverage(api, Kind("", "v1", "lakes", "Lake", namespaced=True)) == NotInstalled()
    assert not any("virtualmachines" in request.path or "lakes" in request.path for request in server.requests)


def test_installed_in_another_version(api: ApiServer, server: FakeServer) -> None:
    """Objects that are served in a version which we do not read exist: they are unknown, not absent."""
    server.serve("/apis/apps/v2", "deployments", "lakes")
    groups = [{"name": "apps", "versions": [{"version": "v1"}, {"version": "v2"}]}]
    server.on("GET", "/apis", json_answer({"kind": "APIGroupList", "groups": groups}))
    lakes = Kind("apps", "v1", "lakes", "Lake", namespaced=True)
    assert doubt(api, lakes) == (Doubt.REJECTED, "cannot list lakes.apps: served as v2, not as v1")
    beta = Kind("apps", "v1beta1", "statefulsets", "StatefulSet", namespaced=True)
    assert doubt(api, beta) == (Doubt.REJECTED, "cannot list statefulsets.apps: served as v1, not as v1beta1")


@pytest.mark.parametrize("path", ["/apis", "/apis/kubevirt.io/v1"])
@pytest.mark.parametrize(
    ("failure", "why"),
    [
        (status(403, "no"), Doubt.FORBIDDEN),
        (status(503, "no"), Doubt.UNAVAILABLE),
        (REFUSED, Doubt.UNAVAILABLE),
        (Response(200, b"{}"), Doubt.BROKEN),
        (json_answer({"kind": "Status", "groups": [], "resources": []}), Doubt.BROKEN),
    ],
)
def test_discovery_that_fails(api: ApiServer, server: FakeServer, path: str, failure: Answer, why: Doubt) -> None:
    """Whatever keeps us from knowing what is installed, it is not taken for "not installed"."""
    server.on("GET", path, failure)
    assert doubt(api, VIRTUAL_MACHINES)[0] is why


def test_a_404_proves_nothing(api: ApiServer, server: FakeServer) -> None:
    """A version that the list of groups names and that is not found is coming or going; the core group is never gone."""
    groups = [{"name": "kubevirt.io", "versions": [{"version": "v1"}]}]
    server.on("GET", "/apis", json_answer({"kind": "APIGroupList", "groups": groups}))
    assert doubt(api, VIRTUAL_MACHINES)[0] is Doubt.UNAVAILABLE
    server.on("GET", "/api/v1", Response(404, b"not here"))
    assert doubt(api)[0] is Doubt.UNAVAILABLE


def test_discovery_is_remembered(api: ApiServer, server: FakeServer, time: FakeTime) -> None:
    """It is asked once a minute, or when told to forget."""
    ask: list[Callable[[], object]] = [lambda: names(api), lambda: coverage(api, VIRTUAL_MACHINES)]
    for action in ask * 3:
        action()
    assert len(server.asked("/api/v1")) == len(server.asked("/apis")) == 1
    time.now += 61
    names(api)
    assert len(server.asked("/api/v1")) == 2
    api.forget_discovery()
    names(api)
    assert len(server.asked("/api/v1")) == 3


def test_other_groups(api: ApiServer, server: FakeServer) -> None:
    """Kinds of named groups live under /apis."""
    server.on("GET", "/apis/apps/v1/statefulsets", page([pod("a")]))
    assert coverage(api, STATEFUL_SETS) == Complete()


def test_pages_are_told(server: FakeServer, time: FakeTime) -> None:
    """Whoever wants to know hears after each page how many items of the list were read so far."""
    heard: list[tuple[str, int]] = []
    api = ApiServer(
        server,
        stop=time,
        runtime=time,
        on_page=lambda resource, items: heard.append((resource.plural, items)),
    )
    server.on("GET", PATH, page([pod("a"), pod("b")], token="t1"), page([pod("c")]))
    assert names(api) == ["a", "b", "c"]
    assert heard == [("pods", 2), ("pods", 3)]
