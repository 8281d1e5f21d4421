"""Watches of the real API server."""

import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from poolwarden.cluster.interface import Complete, Doubt, Incomplete, NotInstalled, Resource
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.transport import Answer, Request, Stream
from poolwarden.cluster.watch import Paces, Watch
from poolwarden.ipam.kinds import Kind

CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True)
QUICK = Paces(recheck=0.5, backoff_base=0.1, backoff_cap=0.5)


class Meta(Struct, rename="camel"):
    """Which object it is."""

    name: str
    namespace: str = ""
    resource_version: str = ""


class Data(Struct, frozen=True):
    """One value of interest."""

    size: str = ""


class Thing(Struct):
    """An object."""

    metadata: Meta
    data: Data = Data()


class NumberData(Struct, frozen=True):
    """What no ConfigMap can hold, were it there."""

    size: int = 0


class NumberThing(Struct):
    """An object that cannot be decoded where it has a size."""

    metadata: Meta
    data: NumberData = NumberData()


Run = Callable[..., Watch[Any]]


@pytest.fixture
def run() -> Iterator[Run]:
    """Runs watches in threads, which must end within a moment when the test does."""
    stop = threading.Event()
    running: list[tuple[Watch[Any], threading.Thread]] = []

    def start(
        transport: Any, resource: Resource = CONFIG_MAPS, item: type[Any] = Thing, paces: Paces = QUICK
    ) -> Watch[Any]:
        watch: Watch[Any] = Watch(transport, resource, item, paces=paces)
        thread = threading.Thread(target=watch.run, args=(stop,), daemon=True)
        thread.start()
        running.append((watch, thread))
        return watch

    yield start
    stop.set()
    for watch, thread in running:
        watch.cut()
        thread.join(5)
        assert not thread.is_alive()


def transport(plane: ControlPlane, user: str = "admin") -> KubeTransport:
    """The way to the API server."""
    return KubeTransport(kubeconfig=str(plane.kubeconfig(user)))


def put(plane: ControlPlane, namespace: str, name: str, size: str) -> None:
    """Make or change a ConfigMap."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"size": size}}
    plane.kubectl("apply", "--namespace", namespace, "--filename", "-", input=json.dumps(body))


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def lakes(control_plane: ControlPlane) -> Iterator[Kind]:
    """A kind of which there is no CRD yet; what is installed is removed at the end."""
    group = f"g{secrets.token_hex(4)}.example.test"
    yield Kind(group, "v1", "lakes", "Lake", namespaced=False)
    if control_plane.find(f"{CRDS}/lakes.{group}"):
        remove(control_plane, group)


def install(plane: ControlPlane, lakes: Kind) -> None:
    """Make the CRD, and return when its objects can be had."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"lakes.{lakes.group}"},
        "spec": {
            "group": lakes.group,
            "scope": "Cluster",
            "names": {"plural": "lakes", "singular": "lake", "kind": "Lake"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    plane.request("POST", CRDS, crd)
    plane.kubectl("wait", "--for=condition=Established", f"crd/lakes.{lakes.group}", "--timeout=30s")


def remove(plane: ControlPlane, group: str) -> None:
    """Remove the CRD."""
    plane.request("DELETE", f"{CRDS}/lakes.{group}")


def fill(plane: ControlPlane, lakes: Kind, name: str) -> None:
    """Make a lake."""
    lake = {"apiVersion": f"{lakes.group}/v1", "kind": "Lake", "metadata": {"name": name}, "data": {"size": "1"}}
    plane.request("POST", f"/apis/{lakes.group}/v1/lakes", lake)


def size_of(watch: Watch[Any], namespace: str, name: str) -> str:
    """What is known of a ConfigMap, "" if it is not known."""
    item = watch.seen().items.get((namespace, name))
    return str(item.data.size) if item else ""


def test_objects_come_change_and_go(control_plane: ControlPlane, namespace: str, run: Run) -> None:
    """What was there is listed, what happens is heard, and that within a moment; the end of the program comes as fast."""
    put(control_plane, namespace, "a", "1")
    watch = run(transport(control_plane))
    assert watch.answered.wait(10)
    assert watch.seen().coverage == Complete()
    assert size_of(watch, namespace, "a") == "1"
    put(control_plane, namespace, "b", "2")
    wait_for("b to be known", lambda: size_of(watch, namespace, "b") == "2", seconds=2)
    put(control_plane, namespace, "b", "3")
    wait_for("its change to be known", lambda: size_of(watch, namespace, "b") == "3", seconds=2)
    control_plane.kubectl("delete", "configmap", "a", "--namespace", namespace)
    wait_for("a to be gone", lambda: (namespace, "a") not in watch.seen().items, seconds=2)
    assert watch.seen().trouble == ""


def test_unreadable(control_plane: ControlPlane, namespace: str, run: Run) -> None:
    """An object that cannot be decoded is named, whether it was listed or heard of; the others are known."""
    put(control_plane, namespace, "a", "x")
    watch = run(transport(control_plane), item=NumberThing)
    assert watch.answered.wait(10)

    def unreadable() -> set[str]:
        return {name for inside, name in watch.seen().unreadable if inside == namespace}

    assert unreadable() == {"a"}
    put(control_plane, namespace, "b", "x")
    wait_for("b to be heard of", lambda: unreadable() == {"a", "b"}, seconds=2)
    control_plane.kubectl("delete", "configmap", "a", "b", "--namespace", namespace)
    wait_for("both to be gone", lambda: not unreadable(), seconds=2)
    assert watch.seen().items


class Aging:
    """A transport whose second watch asks for a version that the server has long forgotten."""

    def __init__(self, inner: KubeTransport) -> None:
        self.lists = 0
        self.watches: list[str] = []
        self._inner = inner

    def send(self, request: Request) -> Answer:
        """One exchange."""
        self.lists += "limit" in request.query
        return self._inner.send(request)

    def stream(self, request: Request) -> Stream | Answer:
        """A watch; the first ends after four seconds."""
        self.watches.append(request.query["resourceVersion"])
        changes = {1: {"timeoutSeconds": "4"}, 2: {"resourceVersion": "1"}}.get(len(self.watches), {})
        return self._inner.stream(msgspec.structs.replace(request, query=dict(request.query) | changes))


def test_version_that_is_gone(control_plane: ControlPlane, lakes: Kind, run: Run) -> None:
    """The server's own 410 leads to a new list; the end that the server makes of a watch that told something does not."""
    install(control_plane, lakes)
    aging = Aging(transport(control_plane))
    watch = run(aging, lakes)
    assert watch.answered.wait(10)
    fill(control_plane, lakes, "wide")
    wait_for("the third watch", lambda: len(aging.watches) == 3, seconds=10)
    assert aging.lists == 2
    fill(control_plane, lakes, "deep")
    wait_for("the lake to be known", lambda: size_of(watch, "", "deep") == "1", seconds=2)


class Future:
    """A transport whose first watch asks for a version that is far ahead, as after a restore of etcd."""

    def __init__(self, inner: KubeTransport) -> None:
        self.opened: list[bool] = []
        self._inner = inner

    def send(self, request: Request) -> Answer:
        """One exchange."""
        return self._inner.send(request)

    def stream(self, request: Request) -> Stream | Answer:
        """A watch; where it is the first, of the future."""
        if not self.opened:
            ahead = str(int(request.query["resourceVersion"]) + 1_000_000)
            request = msgspec.structs.replace(request, query=dict(request.query) | {"resourceVersion": ahead})
        answer = self._inner.stream(request)
        self.opened.append(not isinstance(answer, Answer))
        return answer


def test_version_of_the_future(control_plane: ControlPlane, lakes: Kind, run: Run) -> None:
    """The server opens a watch from a version that is not yet, and says nothing: after the silence the truth is listed."""
    install(control_plane, lakes)
    future = Future(transport(control_plane))
    watch = run(future, lakes, paces=msgspec.structs.replace(QUICK, silence=3.0))
    assert watch.answered.wait(10)
    heard_at = watch.seen().heard_at
    fill(control_plane, lakes, "deep")
    wait_for("the lake to be known", lambda: size_of(watch, "", "deep") == "1", seconds=6)
    assert future.opened[0], "the server does refuse such a watch"
    assert watch.seen().heard_at >= heard_at + 3.0, "it was not silent"


def test_rights(control_plane: ControlPlane, limited_user: str, namespace: str, run: Run) -> None:
    """Without rights, and with that to list alone, the server's own words are told; list and watch suffice."""
    watch = run(transport(control_plane, limited_user))
    assert watch.answered.wait(10)

    def refusal_of(verb: str) -> bool:
        coverage = watch.seen().coverage
        return (
            isinstance(coverage, Incomplete)
            and coverage.doubt is Doubt.FORBIDDEN
            and f"cannot {verb}" in coverage.message
        )

    assert refusal_of("list")
    control_plane.grant(limited_user, [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}])
    wait_for("the watch to be refused", lambda: refusal_of("watch"), seconds=15)
    control_plane.grant(limited_user, [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["watch"]}])
    wait_for("the watch to be granted", lambda: watch.seen().coverage == Complete(), seconds=15)
    put(control_plane, namespace, "a", "1")
    wait_for("a to be known", lambda: size_of(watch, namespace, "a") == "1", seconds=2)


def test_kind_comes_and_goes(control_plane: ControlPlane, lakes: Kind, run: Run) -> None:
    """A CRD that is installed later is noticed, and so is its removal, with that of its objects."""
    watch = run(transport(control_plane), lakes)
    assert watch.answered.wait(10)
    assert watch.seen().coverage == NotInstalled()
    install(control_plane, lakes)
    wait_for("the kind to be known", lambda: watch.seen().coverage == Complete(), seconds=20)
    fill(control_plane, lakes, "deep")
    wait_for("its object to be known", lambda: size_of(watch, "", "deep") == "1", seconds=2)
    remove(control_plane, lakes.group)
    wait_for("the kind to be gone", lambda: watch.seen().coverage == NotInstalled(), seconds=20)
    assert watch.seen().items == {}


def test_restart_of_the_api_server(control_plane_programs: Mapping[str, Path], tmp_path: Path, run: Run) -> None:
    """While nobody answers the objects are known as last heard, and told how long ago; then all goes on by itself."""
    with ControlPlane(control_plane_programs, tmp_path / "plane", controllers=False, kubelets=False) as plane:
        put(plane, "default", "a", "1")
        watch = run(transport(plane))
        wait_for("a to be known", lambda: size_of(watch, "default", "a") == "1", seconds=10)
        plane.stop_apiserver()
        wait_for("the trouble to be told", lambda: watch.seen().trouble, seconds=5)
        heard_at = watch.seen().heard_at
        assert size_of(watch, "default", "a") == "1"
        assert watch.seen().coverage == Complete()
        assert heard_at <= time.monotonic()
        plane.start_apiserver()
        put(plane, "default", "b", "2")
        wait_for("b to be known", lambda: size_of(watch, "default", "b") == "2", seconds=20)
        assert size_of(watch, "default", "a") == "1"
        assert watch.seen().heard_at > heard_at
