"""The client against the real API server."""

import base64
import json
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.events import Event, Reference, Type, send
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.interface import (
    Absent,
    Complete,
    Deleted,
    Doubt,
    Failed,
    Found,
    Incomplete,
    NotInstalled,
    Outdated,
    Partial,
    PatchType,
    Unread,
    Written,
)
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.lease import Candidate, HeldBy, Leadership, Leading, Released, Terms
from poolwarden.cluster.transport import Answer, NoAnswer, Request
from poolwarden.ipam.kinds import NODES, PODS, STATEFUL_SETS, VIRTUAL_MACHINES, Kind

CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True)
QUICK = Limits(qps=1000, burst=1000)


class Meta(Struct, rename="camel"):
    """Which object it is."""

    name: str
    uid: str
    resource_version: str
    creation_timestamp: str


class Thing(Struct):
    """Any object."""

    metadata: Meta
    data: dict[str, str] = {}


class Meddler:
    """A transport that changes requests or swallows answers on their way."""

    def __init__(self, inner: KubeTransport) -> None:
        self.requests: list[Request] = []
        self.change: Callable[[Request], Request] = lambda request: request
        self.lose: Callable[[Request], bool] = lambda _: False
        self._inner = inner

    def send(self, request: Request) -> Answer:
        """One exchange."""
        self.requests.append(request)
        answer = self._inner.send(self.change(request))
        return NoAnswer("the network broke", sent=True) if self.lose(request) else answer


@pytest.fixture
def meddler(control_plane: ControlPlane) -> Meddler:
    """The way to the API server."""
    return Meddler(KubeTransport(kubeconfig=str(control_plane.kubeconfig())))


@pytest.fixture
def api(meddler: Meddler) -> ApiServer:
    """The client of somebody who may do everything."""
    return ApiServer(meddler, limits=QUICK)


def make(api: ApiServer, namespace: str, name: str, **metadata: Any) -> Meta:
    """A new ConfigMap."""
    body = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **metadata},
        "data": {"a": "1"},
    }
    outcome = api.create(CONFIG_MAPS, body, namespace=namespace)
    assert isinstance(outcome, Written)
    return msgspec.json.decode(outcome.raw, type=Thing).metadata


def names(api: ApiServer, namespace: str) -> list[str]:
    """The ConfigMaps of the namespace that a test made, by a list that was read to its end."""
    listing = api.list(CONFIG_MAPS, Thing, namespace=namespace)
    assert listing.coverage == Partial(frozenset({namespace}))
    return [item.metadata.name for item in listing.items if item.metadata.name.startswith("c")]


def test_pages(meddler: Meddler, namespace: str) -> None:
    """A list longer than its pages comes whole, in one state, and in as many requests as it has pages."""
    api = ApiServer(meddler, limits=Limits(page_size=4, qps=1000, burst=1000))
    for number in range(10):
        make(api, namespace, f"c{number}")
    meddler.requests.clear()
    assert names(api, namespace) == [f"c{number}" for number in range(10)]
    pages = [request for request in meddler.requests if request.path.endswith("/configmaps")]
    assert len(pages) in (3, 4)  # the controllers may have added a ConfigMap of theirs


def test_expired_token(meddler: Meddler, namespace: str) -> None:
    """A token of a state that is not the list's, kept by the server or not (410), starts the list anew: it comes whole."""
    api = ApiServer(meddler, limits=Limits(page_size=2, qps=1000, burst=1000))
    for number in range(5):
        make(api, namespace, f"c{number}")
    aged: list[str] = []

    def age_once(request: Request) -> Request:
        token = request.query.get("continue")
        if not token or aged:
            return request
        aged.append(token)
        state = json.loads(base64.urlsafe_b64decode(token + "==")) | {"rv": 1}
        old = base64.urlsafe_b64encode(json.dumps(state).encode()).decode().rstrip("=")
        return msgspec.structs.replace(request, query=dict(request.query) | {"continue": old})

    meddler.change = age_once
    assert names(api, namespace) == [f"c{number}" for number in range(5)]
    assert aged


def test_all_namespaces(api: ApiServer, namespace: str) -> None:
    """Without a namespace the list is of the whole cluster."""
    make(api, namespace, "c0")
    listing = api.list(CONFIG_MAPS, Thing)
    assert listing.coverage == Complete()
    assert "c0" in [item.metadata.name for item in listing.items]
    assert int(listing.resource_version) > 0


def test_not_installed(api: ApiServer) -> None:
    """A kind of no CRD is not installed; its objects are absent."""
    assert api.list(VIRTUAL_MACHINES, Thing).coverage == NotInstalled()
    assert api.get(VIRTUAL_MACHINES, Thing, name="a", namespace="b") == Absent()
    assert api.list(Kind("apps", "v1", "lakes", "Lake", namespaced=True), Thing).coverage == NotInstalled()


def test_installed_in_another_version(api: ApiServer) -> None:
    """A version that is not served says nothing about the objects."""
    coverage = api.list(Kind("apps", "v1beta1", "statefulsets", "StatefulSet", namespaced=True), Thing).coverage
    assert isinstance(coverage, Incomplete)
    assert "served as v1, not as v1beta1" in coverage.message


def test_forbidden(control_plane: ControlPlane, limited_user: str, namespace: str) -> None:
    """Who may not read is told verb, kind and name; what is not installed is known all the same."""
    api = ApiServer(KubeTransport(kubeconfig=str(control_plane.kubeconfig(limited_user))), limits=QUICK)
    coverage = api.list(STATEFUL_SETS, Thing).coverage
    assert isinstance(coverage, Incomplete)
    assert coverage.doubt is Doubt.FORBIDDEN
    assert coverage.message.startswith("cannot list statefulsets.apps: 403")
    assert f'"{limited_user}"' in coverage.message
    found = api.get(PODS, Thing, name="a", namespace=namespace)
    assert isinstance(found, Unread)
    assert found.doubt is Doubt.FORBIDDEN
    assert found.message.startswith(f"cannot get pods {namespace}/a: 403")
    outcome = api.patch(PODS, {}, name="a", namespace=namespace)
    assert isinstance(outcome, Failed)
    assert (outcome.doubt, outcome.uncertain) == (Doubt.FORBIDDEN, False)
    assert api.list(VIRTUAL_MACHINES, Thing).coverage == NotInstalled()


def test_unknown_token(control_plane: ControlPlane, tmp_path: Path) -> None:
    """A token that nobody gave is told as forbidden, not as an empty cluster."""
    path = tmp_path / "kubeconfig"
    text = control_plane.kubeconfig().read_text()
    token = next(line for line in text.splitlines() if "token" in line)
    path.write_text(text.replace(token.split("token")[1], '": "wrong"' if '"token' in token else ": wrong"))
    coverage = ApiServer(KubeTransport(kubeconfig=str(path)), limits=QUICK).list(PODS, Thing).coverage
    assert isinstance(coverage, Incomplete)
    assert coverage.doubt is Doubt.FORBIDDEN


def test_get(api: ApiServer, namespace: str) -> None:
    """An object is found as it is, or absent, also in a namespace that is not there."""
    made = make(api, namespace, "c0")
    found = api.get(CONFIG_MAPS, Thing, name="c0", namespace=namespace)
    assert isinstance(found, Found)
    assert found.item == Thing(made, {"a": "1"})
    assert json.loads(found.raw)["metadata"]["uid"] == made.uid
    assert api.get(CONFIG_MAPS, Thing, name="c1", namespace=namespace) == Absent()
    assert api.get(CONFIG_MAPS, Thing, name="c1", namespace="none-such") == Absent()
    assert api.get(NODES, Thing, name="none-such") == Absent()


def test_create(api: ApiServer, namespace: str) -> None:
    """An object of that name is in the way; a namespace that is not there is a refusal."""
    make(api, namespace, "c0")
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c0"}}
    assert isinstance(api.create(CONFIG_MAPS, body, namespace=namespace), Outdated)
    outcome = api.create(CONFIG_MAPS, body, namespace="none-such")
    assert isinstance(outcome, Failed)
    assert outcome.doubt is Doubt.REJECTED


def test_merge_patch(api: ApiServer, namespace: str) -> None:
    """A patch is made for the version it names, and for no other; another UID is another object."""
    made = make(api, namespace, "c0")

    def patch(**metadata: str) -> object:
        body = {"metadata": metadata, "data": {"b": "2"}}
        return api.patch(CONFIG_MAPS, body, name="c0", namespace=namespace)

    assert isinstance(patch(resourceVersion="1"), Outdated)
    assert isinstance(patch(uid="00000000-0000-0000-0000-000000000000"), Outdated)
    assert isinstance(patch(resourceVersion=made.resource_version, uid=made.uid), Written)
    assert isinstance(patch(resourceVersion=made.resource_version), Outdated)
    assert api.counts.conflicts == 2  # the wrong UID is a 422
    assert api.patch(CONFIG_MAPS, {}, name="c1", namespace=namespace) == Absent()


def test_json_patch(api: ApiServer, namespace: str) -> None:
    """A test that holds lets the patch pass; one that fails, or a path that is gone, means re-read; nothing is written."""
    made = make(api, namespace, "c0")

    def patch(*operations: dict[str, Any]) -> object:
        return api.patch(CONFIG_MAPS, operations, name="c0", namespace=namespace, type=PatchType.JSON)

    add = {"op": "add", "path": "/data/b", "value": "2"}
    assert isinstance(patch(add, {"op": "test", "path": "/data/a", "value": "9"}), Outdated)
    assert isinstance(patch(add, {"op": "remove", "path": "/data/z"}), Outdated)
    found = api.get(CONFIG_MAPS, Thing, name="c0", namespace=namespace)
    assert isinstance(found, Found)
    assert found.item.metadata == made
    assert isinstance(patch({"op": "test", "path": "/data/a", "value": "1"}, add), Written)
    assert isinstance(patch({"op": "test", "path": "/data/absent", "value": None}), Written)


def test_invalid_objects_are_rejected(api: ApiServer, namespace: str) -> None:
    """What the server finds invalid is a refusal that says why, whichever patch it came by."""
    make(api, namespace, "c0")
    operations = [{"op": "add", "path": "/data/b!", "value": "1"}]
    for body, type_ in (({"data": {"b!": "1"}}, PatchType.MERGE), (operations, PatchType.JSON)):
        outcome = api.patch(CONFIG_MAPS, body, name="c0", namespace=namespace, type=type_)
        assert isinstance(outcome, Failed)
        assert (outcome.doubt, outcome.uncertain) == (Doubt.REJECTED, False)
        assert "data[b!]" in outcome.message


def test_delete(api: ApiServer, namespace: str) -> None:
    """Only the very object that was judged is deleted."""
    made = make(api, namespace, "c0")

    def delete(uid: str, version: str) -> object:
        return api.delete(CONFIG_MAPS, name="c0", namespace=namespace, uid=uid, resource_version=version)

    for uid, version in (("other", made.resource_version), (made.uid, "1"), ("", ""), (made.uid, "")):
        assert isinstance(delete(uid, version), Outdated)
    assert delete(made.uid, made.resource_version) == Deleted()
    assert delete(made.uid, made.resource_version) == Absent()


def test_delete_what_a_finalizer_holds(api: ApiServer, namespace: str) -> None:
    """It is there, terminating, until the last finalizer goes, and goes with it."""
    made = make(api, namespace, "c0", finalizers=["poolwarden.dev/test"])
    outcome = api.delete(
        CONFIG_MAPS, name="c0", namespace=namespace, uid=made.uid, resource_version=made.resource_version
    )
    assert isinstance(outcome, Written)
    assert "deletionTimestamp" in json.loads(outcome.raw)["metadata"]
    patch = {"metadata": {"finalizers": None}}
    assert api.patch(CONFIG_MAPS, patch, name="c0", namespace=namespace) == Deleted()
    assert api.get(CONFIG_MAPS, Thing, name="c0", namespace=namespace) == Absent()


def test_pod_in_its_grace(api: ApiServer, control_plane: ControlPlane, namespace: str, bare_node: str) -> None:
    """A pod that its kubelet has to end is there still after a delete."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p0"},
        "spec": {"nodeName": bare_node, "containers": [{"name": "c", "image": "i"}]},
    }
    outcome = api.create(PODS, pod, namespace=namespace)
    assert isinstance(outcome, Written)
    made = msgspec.json.decode(outcome.raw, type=Thing).metadata
    outcome = api.delete(PODS, name="p0", namespace=namespace, uid=made.uid, resource_version=made.resource_version)
    assert isinstance(outcome, Written)
    control_plane.force_delete_pod(namespace, "p0")


def test_lost_answer(api: ApiServer, meddler: Meddler, namespace: str) -> None:
    """A write whose answer is lost is uncertain: here it was made, and once only."""
    made = make(api, namespace, "c0")
    meddler.lose = lambda request: request.method == "PATCH"
    body = {"metadata": {"resourceVersion": made.resource_version}, "data": {"a": "2"}}
    outcome = api.patch(CONFIG_MAPS, body, name="c0", namespace=namespace)
    assert isinstance(outcome, Failed)
    assert (outcome.doubt, outcome.uncertain) == (Doubt.UNAVAILABLE, True)
    found = api.get(CONFIG_MAPS, Thing, name="c0", namespace=namespace)
    assert isinstance(found, Found)
    assert found.item.data == {"a": "2"}
    assert len([request for request in meddler.requests if request.method == "PATCH"]) == 1


def test_now(api: ApiServer, namespace: str) -> None:
    """The time is the server's: close to that of an object it has just made."""
    now = api.now()
    made = datetime.fromisoformat(make(api, namespace, "c0").creation_timestamp)
    assert abs(now - made) < timedelta(seconds=3)
    assert abs(api.now() - datetime.now(UTC)) < timedelta(seconds=3)  # the server runs on this machine


def test_events(api: ApiServer, namespace: str) -> None:
    """The server takes our events: of any length of name, note and instance."""
    pod = Reference("v1", "Pod", "a.-b" * 60, namespace, "u1")
    event = Event(Type.WARNING, "LeakDetected", "Sweep", "€" * 2000, pod, Reference("v1", "Node", "n1"))
    assert isinstance(send(api, event, instance="x" * 300), Written)
    of_node = msgspec.structs.replace(event, regarding=Reference("v1", "Node", "n1", uid="u2"), related=None)
    assert isinstance(send(api, of_node, instance="gc-0"), Written)


# --- leadership -------------------------------------------------------------------------------------------------------

TERMS = Terms(duration=2, renew_deadline=1.5, retry_period=0.2)


def candidate(control_plane: ControlPlane, namespace: str, identity: str) -> Candidate:
    """A candidate with an API server of its own, as a program has it."""
    api = ApiServer(KubeTransport(kubeconfig=str(control_plane.kubeconfig())), limits=TERMS.limits)
    return Candidate(api, namespace=namespace, name="gc", identity=identity, terms=TERMS)


def test_leader_that_dies(control_plane: ControlPlane, namespace: str) -> None:
    """A leader that ends without a word is succeeded when its lease has expired, and not before it has stopped."""
    first = candidate(control_plane, namespace, "first")
    assert first.claim() == Leading()  # and never renews
    second = candidate(control_plane, namespace, "second")
    assert second.claim() == HeldBy("first", alive=False)

    def taken() -> bool:
        claim = second.claim()
        assert not (claim == Leading() and first.held())
        return claim == Leading()

    wait_for("the lease to be taken over", taken, seconds=10)
    assert (
        control_plane.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/gc")["spec"][
            "leaseTransitions"
        ]
        == 1
    )


def test_leader_that_releases(control_plane: ControlPlane, namespace: str) -> None:
    """A released lease is taken at once; while it is held and renewed, who leads is told."""
    first = Leadership(candidate(control_plane, namespace, "first"), on_lost=lambda _: None)
    assert first.try_acquire(threading.Event()) == Leading()
    assert Leadership(candidate(control_plane, namespace, "second"), on_lost=lambda _: None).try_acquire(
        threading.Event()
    ) == HeldBy("first", alive=True)
    assert first.release() == Released()
    assert candidate(control_plane, namespace, "third").claim() == Leading()


def test_candidates_that_race(control_plane: ControlPlane, namespace: str) -> None:
    """Of many that ask at the same moment one leads."""
    candidates = [candidate(control_plane, namespace, f"c{number}") for number in range(8)]
    start = threading.Barrier(len(candidates))

    def run(one: Candidate) -> None:
        start.wait()
        one.claim()

    threads = [threading.Thread(target=run, args=(one,)) for one in candidates]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(one.held() for one in candidates) == 1
