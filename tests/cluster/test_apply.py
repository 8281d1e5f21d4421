"""Server-side apply: what is sent, what the real API server makes of it, and that files know nothing of it."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from cluster.scripted import FakeServer, json_answer, status
from controlplane.plane import ControlPlane
from poolwarden.cluster.api_server import FIELD_MANAGER, ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import Reading
from poolwarden.cluster.interface import Doubt, Failed, Outdated, PatchType, WriteOutcome, Written
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.ipam.kinds import PODS, Kind

CONFIG_MAPS = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True)
PATH = "/api/v1/namespaces/blue/configmaps/c0"


def apply(cluster: ApiServer | Files, namespace: str, data: Mapping[str, str], **metadata: str) -> WriteOutcome:
    """Applies these entries of a ConfigMap."""
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c0", **metadata}, "data": data}
    return cluster.patch(CONFIG_MAPS, body, name="c0", namespace=namespace, type=PatchType.APPLY)


def test_request(api: ApiServer, server: FakeServer) -> None:
    """An apply names our field manager and takes its fields over; other patches say neither."""
    server.on("PATCH", PATH, json_answer({"kind": "ConfigMap", "metadata": {"name": "c0"}}))
    assert isinstance(apply(api, "blue", {"a": "1"}), Written)
    (request,) = server.requests
    assert request.headers["content-type"] == "application/apply-patch+yaml"
    assert request.query == {"fieldManager": "poolwarden", "force": "true"}
    assert msgspec.json.decode(request.body)["data"] == {"a": "1"}
    api.patch(PODS, {}, name="a", namespace="blue")
    assert server.requests[-1].query == {}


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (status(409, "the object has been modified", name="c0"), Outdated),
        (status(422, "field is immutable", name="c0", fields=("metadata.uid",)), Outdated),
        (status(422, "Required value", name="c0", fields=("webhooks[1].sideEffects",)), Failed),
    ],
)
def test_refusals(api: ApiServer, server: FakeServer, answer: Any, expected: type[WriteOutcome]) -> None:
    """An apply for another version or another object is outdated; one that would make an invalid object is refused."""
    server.on("PATCH", PATH, answer)
    assert isinstance(apply(api, "blue", {"a": "1"}), expected)


def test_files() -> None:
    """Over files nothing can be applied, and that is said."""
    files = Files(Reading((), ()), assume_complete=True)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c0"}, "data": {"a": "0"}}
    assert isinstance(files.create(CONFIG_MAPS, body, namespace="blue"), Written)
    outcome = apply(files, "blue", {"a": "1"})
    assert isinstance(outcome, Failed)
    assert outcome.doubt is Doubt.REJECTED
    assert "files know no field managers" in outcome.message


def test_real_server(control_plane: ControlPlane, namespace: str) -> None:
    """Our fields are set, taken over from others, and given up when we apply without them; others' stay."""
    api = ApiServer(KubeTransport(kubeconfig=str(control_plane.kubeconfig())), limits=Limits(qps=1000, burst=1000))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    made = control_plane.request("POST", path, {"metadata": {"name": "c0"}, "data": {"theirs": "1", "ours": "0"}})
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    written = apply(api, namespace, {"ours": "1", "more": "1"}, uid=uid, resourceVersion=version)
    assert isinstance(written, Written)
    after = msgspec.json.decode(written.raw)
    assert after["data"] == {"theirs": "1", "ours": "1", "more": "1"}
    managers = {(one["manager"], one["operation"]) for one in after["metadata"]["managedFields"]}
    assert (FIELD_MANAGER, "Apply") in managers
    assert isinstance(apply(api, namespace, {"ours": "2"}, resourceVersion=version), Outdated)
    assert isinstance(apply(api, namespace, {"ours": "2"}, uid="00000000-0000-0000-0000-000000000000"), Outdated)
    assert isinstance(apply(api, namespace, {"ours": "2"}), Written)
    assert control_plane.request("GET", f"{path}/c0")["data"] == {"theirs": "1", "ours": "2"}
    control_plane.request("DELETE", f"{path}/c0")
    assert isinstance(apply(api, namespace, {"ours": "3"}, uid=uid), Outdated)  # not made anew
    assert control_plane.find(f"{path}/c0") is None
