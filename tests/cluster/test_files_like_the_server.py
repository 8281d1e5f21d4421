"""What is written to files comes out as the real API server would have made it."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from msgspec import Struct

from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import Reading
from poolwarden.cluster.interface import Absent, Cluster, Complete, Failed, Found, PatchType, WriteOutcome, Written
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.ipam.kinds import Kind

LAKES = Kind("poolwarden.test", "v1", "lakes", "Lake", namespaced=False)
LAKE = {
    "apiVersion": "poolwarden.test/v1",
    "kind": "Lake",
    "metadata": {"name": "l1", "labels": {"a": "1"}},
    "spec": {"depth": 5, "fish": ["eel", "perch"]},
    "status": {"level": 1},
}
CRD = {
    "metadata": {"name": "lakes.poolwarden.test"},
    "spec": {
        "group": "poolwarden.test",
        "scope": "Cluster",
        "names": {"plural": "lakes", "kind": "Lake"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

FINALIZERS = {"metadata": {"finalizers": ["poolwarden.test/a", "poolwarden.test/b"]}}
MARK = {"status": {"level": 2}}


class Anything(Struct):
    """Any object."""

    metadata: dict[str, Any]


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> Iterator[ApiServer]:
    """The API server, with a kind of its own for these tests."""
    control_plane.request("POST", CRDS, CRD)
    api = ApiServer(KubeTransport(kubeconfig=str(control_plane.kubeconfig())), limits=Limits(qps=1000, burst=1000))

    def served() -> bool:
        api.forget_discovery()
        return api.list(LAKES, Anything).coverage == Complete()

    wait_for("lakes to be served", served)
    yield api
    control_plane.request("DELETE", f"{CRDS}/lakes.poolwarden.test")


@pytest.fixture
def clusters(server: ApiServer) -> Iterator[tuple[Cluster, Cluster]]:
    """Both kinds of cluster, each with one lake whose status was written."""
    files = Files(Reading((), ()), assume_complete=True, status_subresources=frozenset({("poolwarden.test", "lakes")}))
    for cluster in (server, files):
        cluster.create(LAKES, LAKE)
        cluster.patch(LAKES, {"status": {"level": 1}}, name="l1", subresource="status")
    yield server, files
    server.patch(LAKES, {"metadata": {"finalizers": None}}, name="l1")
    metadata = current(server)
    if metadata:
        server.delete(LAKES, name="l1", uid=metadata["uid"], resource_version=metadata["resourceVersion"])


def current(cluster: Cluster) -> dict[str, Any]:
    """The lake's metadata, empty if there is no lake."""
    found = cluster.get(LAKES, Anything, name="l1")
    return found.item.metadata if isinstance(found, Found) else {}


def comparable(outcome: WriteOutcome) -> object:
    """An outcome without what differs between any two servers."""
    if isinstance(outcome, Written):
        value = json.loads(outcome.raw)
        for key in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "managedFields"):
            value["metadata"].pop(key, None)
        return value
    return type(outcome), outcome.doubt if isinstance(outcome, Failed) else None


def merge(body: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    """A merge patch, as a step."""
    return {"body": body, "subresource": subresource, "type": PatchType.MERGE}


def operations(*body: dict[str, Any], subresource: str = "") -> dict[str, Any]:
    """A JSON patch, as a step."""
    return {"body": list(body), "subresource": subresource, "type": PatchType.JSON}


def add(path: str, value: object) -> dict[str, Any]:
    """An operation."""
    return {"op": "add", "path": path, "value": value}


DELETE: dict[str, Any] = {}


@pytest.mark.parametrize(
    "steps",
    [
        [merge({"spec": {"depth": 6, "fish": None}})],
        [merge({"spec": {"depth": 5}})],
        [merge({"metadata": {"labels": {"b": "2"}}})],
        [merge({"metadata": {"labels": None}})],
        [merge(MARK)],
        [merge(MARK, "status")],
        [merge({**MARK, "spec": {"depth": 7}, "metadata": {"annotations": None}}, "status")],
        [merge({"status": None}, "status")],
        [merge({"metadata": {"resourceVersion": "1"}, "spec": {"depth": 9}})],
        [merge({"metadata": {"resourceVersion": "1"}, **MARK}, "status")],
        [merge({"metadata": {"uid": "other"}, "spec": {"depth": 9}})],
        [merge({"metadata": {"name": "l2"}})],
        [merge({"metadata": {"generation": 77, "creationTimestamp": None, "uid": None}, "spec": {"depth": 9}})],
        [merge({"metadata": {"resourceVersion": None}, "spec": {"depth": 9}})],
        [merge({"kind": "Pond"})],
        [merge(MARK, "scale")],
        [operations(add("/spec/fish/-", "pike"), {"op": "test", "path": "/spec/depth", "value": 5})],
        [operations(add("/spec/fish/0", "pike"), {"op": "test", "path": "/spec/depth", "value": 6})],
        [operations({"op": "remove", "path": "/spec/fish/1"}, {"op": "remove", "path": "/spec/depth"})],
        [operations({"op": "remove", "path": "/spec/fish/2"})],
        [operations({"op": "replace", "path": "/spec/none", "value": 1})],
        [operations({"op": "replace", "path": "/spec/fish", "value": {}})],
        [operations({"op": "test", "path": "/spec/none", "value": None}, add("/spec/none", 1))],
        [operations({"op": "test", "path": "/spec/none/deeper", "value": None}, add("/spec/x", 1))],
        [operations({"op": "test", "path": "/spec", "value": {"fish": ["eel", "perch"], "depth": 5}})],
        [operations({"op": "move", "from": "/spec/fish/0", "path": "/spec/first"})],
        [operations({"op": "copy", "from": "/spec/fish", "path": "/spec/copy"})],
        [operations(add("/status/level", 3), subresource="status")],
        [operations(add("/spec/depth", 3), add("/status/level", 3))],
        [operations(add("/metadata/resourceVersion", "1"))],
        [operations(add("/spec/a~1b~0", 1))],
        [merge({"status": {"level": 1}}, "status"), merge({"spec": {"depth": 5}}), merge({"spec": {"depth": 6}})],
        [DELETE, merge(MARK)],
        [merge(FINALIZERS), DELETE, merge({"spec": {"depth": 9}}), DELETE],
        [merge(FINALIZERS), DELETE, merge({"metadata": {"finalizers": ["poolwarden.test/b"]}})],
        [merge(FINALIZERS), DELETE, merge({"metadata": {"finalizers": None}}), merge(MARK)],
        [merge(FINALIZERS), DELETE, operations({"op": "remove", "path": "/metadata/finalizers/0"})],
        [merge(FINALIZERS), DELETE, operations({"op": "remove", "path": "/metadata/finalizers"})],
        [merge(FINALIZERS), DELETE, merge({"metadata": {"deletionTimestamp": None}})],
    ],
)
def test_like_the_server(clusters: tuple[Cluster, Cluster], steps: Sequence[dict[str, Any]]) -> None:
    """Step by step, outcome and object are the same."""
    for step in steps:
        outcomes = []
        for cluster in clusters:
            if step:
                outcomes.append(cluster.patch(LAKES, name="l1", **step))
            else:
                metadata = current(cluster)
                version = metadata["resourceVersion"]
                outcomes.append(cluster.delete(LAKES, name="l1", uid=metadata["uid"], resource_version=version))
        real, emulated = map(comparable, outcomes)
        assert emulated == real


def test_create_like_the_server(clusters: tuple[Cluster, Cluster]) -> None:
    """A new object has no status yet, and what exists is in the way."""
    made = [comparable(cluster.create(LAKES, LAKE | {"metadata": {"name": "l2"}})) for cluster in clusters]
    assert made[0] == made[1]
    again = [comparable(cluster.create(LAKES, LAKE)) for cluster in clusters]
    assert again[0] == again[1]
    found = clusters[0].get(LAKES, Anything, name="l2")
    assert isinstance(found, Found)
    metadata = found.item.metadata
    clusters[0].delete(LAKES, name="l2", uid=metadata["uid"], resource_version=metadata["resourceVersion"])
    assert msgspec.json.decode(found.raw)["kind"] == "Lake"
    assert clusters[0].get(LAKES, Anything, name="l2") == Absent()
