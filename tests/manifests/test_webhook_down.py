"""What still works, as installed and in the strict form, when no replica of the webhook is left: nothing may wait for ever."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from controlplane.client import NAMESPACES, ApiError
from controlplane.kubelet import now
from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from controlplane.server import wait_for
from manifests.documented import RUNBOOK, Reader, commands
from manifests.shipped import COLLECTIONS, NOBODY, build, overlay, registered, shipped_webhooks

Object = dict[str, Any]
Down = Callable[[], AbstractContextManager[None]]

SPIDER_POOLS = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools"
GUARDS = "/apis/poolwarden.dev/v1alpha1/poolguards"
ATTACHMENTS = "/apis/k8s.cni.cncf.io/v1/namespaces/{namespace}/network-attachment-definitions"
RANGES = "/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/kube-system/ippools"
BLUE = {"k8s.v1.cni.cncf.io/networks": "blue"}
GC = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc"


@pytest.fixture(scope="module", params=[(), ("strict",)], ids=["default", "strict"])
def components(request: pytest.FixtureRequest) -> tuple[str, ...]:
    """The form of the installation: its components."""
    return tuple(request.param)


@pytest.fixture(scope="module")
def folder(components: tuple[str, ...], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An operator's kustomization of that form."""
    return overlay(tmp_path_factory.mktemp("overlay"), *components)


@pytest.fixture
def down(control_plane: ControlPlane, folder: Path) -> Down:
    """Within the block the webhook is registered and absent; what must exist already is made before."""
    return lambda: registered(control_plane, shipped_webhooks(control_plane, NOBODY, b"", folder=folder))


@contextmanager
def refused() -> Iterator[None]:
    """What is done in the block waits for the webhook: the API server refuses it, and says why."""
    with pytest.raises(ApiError, match=r"failed calling webhook .*\.poolwarden\.dev"):
        yield


def pod(annotations: Mapping[str, str], spec: Mapping[str, Any] | None = None) -> Object:
    """A pod with a name of its own."""
    containers = [{"name": "c", "image": "i"}]
    metadata = {"name": f"pod-{secrets.token_hex(4)}", "annotations": dict(annotations)}
    return {"metadata": metadata, "spec": {"containers": containers, **(spec or {})}}


def pool(name: str) -> Object:
    """A SpiderIPPool as Spiderpool keeps it."""
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io/pool"]},
        "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]},
    }


def guard(name: str) -> Object:
    """A PoolGuard as gc makes it."""
    return {
        "apiVersion": "poolwarden.dev/v1alpha1",
        "kind": "PoolGuard",
        "metadata": {"name": f"spiderpool.{name}"},
        "spec": {"poolRef": {"ipam": "spiderpool", "namespace": None, "name": name}},
    }


def test_pods_that_are_not_ours_start(control_plane: ControlPlane, namespace: str, down: Down) -> None:
    """A pod without our annotations, on the host network, or of the system never waits: so the CNI itself can start."""
    with down():
        for home, body in (
            (namespace, pod({})),
            (namespace, pod(BLUE, {"hostNetwork": True})),
            (namespace, pod(BLUE | {"kubernetes.io/config.mirror": "0"}, {"nodeName": "n"})),
            ("kube-system", pod(BLUE)),
        ):
            control_plane.request("POST", f"{NAMESPACES}/{home}/pods", body)


@pytest.mark.parametrize("annotations", [{}, BLUE], ids=["as-shipped", "with-a-network"])
def test_the_webhook_itself_can_come_back(
    control_plane: ControlPlane, folder: Path, down: Down, annotations: Mapping[str, str]
) -> None:
    """The very pods of both Deployments are admitted, even on a network of Multus, and so is whatever else is installed."""
    objects = build(control_plane, folder)
    with down():
        for item in objects:
            if item["kind"] == "Deployment":
                template = item["spec"]["template"]
                labels = template["metadata"]["labels"]
                made = pod(annotations) | {"spec": template["spec"]}
                made["metadata"]["labels"] = labels
                control_plane.request("POST", f"{NAMESPACES}/poolwarden/pods", made)
        rest = [item for item in objects if item["kind"] not in COLLECTIONS]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": rest})
        control_plane.kubectl("apply", "--dry-run=server", "--filename=-", input=text)


def test_pods_that_are_ours_start_only_by_default(
    control_plane: ControlPlane, namespace: str, down: Down, components: tuple[str, ...]
) -> None:
    """A pod with our annotations passes unreviewed as installed, and waits in the strict form."""
    path = f"{NAMESPACES}/{namespace}/pods"
    with down():
        if "strict" in components:
            with refused():
                control_plane.request("POST", path, pod(BLUE))
        else:
            control_plane.request("POST", path, pod(BLUE))


def test_old_pods_go_on_and_end(control_plane: ControlPlane, namespace: str, down: Down) -> None:
    """A pod with our annotations that exists gets its status, labels and finalizers, and goes."""
    body = pod(BLUE)
    path = f"{NAMESPACES}/{namespace}/pods/{body['metadata']['name']}"
    control_plane.request("POST", f"{NAMESPACES}/{namespace}/pods", body)
    with down():
        control_plane.request("PATCH", f"{path}/status", {"status": {"podIP": "10.0.0.1"}})
        control_plane.request(
            "PATCH", path, {"metadata": {"labels": {"a": "b"}, "finalizers": ["poolwarden.test/hold"]}}
        )
        control_plane.request("DELETE", path, {"gracePeriodSeconds": 0})
        control_plane.request("PATCH", path, {"metadata": {"finalizers": None}})
    assert control_plane.find(path) is None


def test_records_come_and_go(control_plane: ControlPlane, namespace: str, down: Down) -> None:
    """A SpiderIPPool's records are written, and the pool goes with its finalizer; only its spec waits."""
    path = f"{SPIDER_POOLS}/{namespace}"
    control_plane.request("POST", SPIDER_POOLS, pool(namespace))
    with down():
        with refused():
            control_plane.request("PATCH", path, {"spec": {"ips": ["10.0.0.1"]}})
        with refused():
            control_plane.request("POST", SPIDER_POOLS, pool(f"{namespace}-2"))
        control_plane.request("PATCH", f"{path}/status", {"status": {"allocatedIPs": "{}"}})
        control_plane.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}})
        control_plane.request("DELETE", path)
        control_plane.request("PATCH", path, {"metadata": {"finalizers": None}})
    assert control_plane.find(path) is None


def test_gc_goes_on(control_plane: ControlPlane, namespace: str, down: Down) -> None:
    """Guards are made by gc, written to and removed; only people's settings wait."""
    body = guard(namespace)
    path = f"{GUARDS}/{body['metadata']['name']}"
    as_gc = (f"--as={GC}", "--as-group=system:masters")
    with down():
        with refused():
            control_plane.request("POST", GUARDS, body)
        control_plane.kubectl("create", "--filename=-", *as_gc, input=json.dumps(body))
        with refused():
            control_plane.request("PATCH", path, {"spec": {"mode": "Release"}})
        control_plane.request("PATCH", f"{path}/status", {"status": {"poolUID": "x"}})
        control_plane.request("PATCH", path, {"metadata": {"finalizers": ["poolwarden.test/hold"]}})
        control_plane.request("DELETE", path)
        control_plane.request("PATCH", path, {"metadata": {"finalizers": None}})
    assert control_plane.find(path) is None


def test_leaks_are_acknowledged_by_the_runbook(
    control_plane: ControlPlane, control_plane_programs: Mapping[str, Path], tmp_path: Path, down: Down
) -> None:
    """What the runbook tells to type for a braked pool: the patch waits for the webhook, until its configurations are gone."""
    ask, patch, take_away = commands(RUNBOOK, "Braked")
    reader = Reader(control_plane, control_plane_programs["kubectl"], tmp_path)
    path = f"{GUARDS}/spiderpool.blue"
    control_plane.request("POST", GUARDS, guard("blue"))
    braked = {
        "type": "Braked",
        "status": "True",
        "reason": "TooManyLeaks",
        "message": "why",
        "lastTransitionTime": now(),
    }
    control_plane.request("PATCH", f"{path}/status", {"status": {"conditions": [braked]}})
    try:
        assert reader.types(ask).stdout == "why\n"
        with down():
            assert "failed calling webhook" in reader.types(patch, check=False).stderr
            taken = [control_plane.request("GET", f"{collection}/poolwarden") for collection in COLLECTIONS.values()]
            reader.types(take_away)
            wait_for("the patch", lambda: reader.types(patch, check=False).returncode == 0)
            for item in taken:  # as applied again
                metadata = {"name": "poolwarden"}
                control_plane.request("POST", COLLECTIONS[item["kind"]], item | {"metadata": metadata})
        assert control_plane.request("GET", path)["spec"]["acknowledgedLeaks"] == 11
    finally:
        control_plane.request("DELETE", path)


def test_other_networks_go_on(control_plane: ControlPlane, namespace: str, down: Down) -> None:
    """NetworkAttachmentDefinitions, and the pools that whereabouts makes and fills during an ADD, never wait."""
    attachments = ATTACHMENTS.format(namespace=namespace)
    attachment = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    ranges = {"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool", "metadata": {"name": namespace}}
    with down():
        control_plane.request("POST", attachments, attachment | {"metadata": {"name": "a"}, "spec": {"config": "{}"}})
        control_plane.request("PATCH", f"{attachments}/a", {"spec": {"config": "{ }"}})
        control_plane.request("POST", RANGES, ranges | {"spec": {"range": "10.0.0.0/24", "allocations": {}}})
        record = {"1": {"id": "x", "podref": "a/b"}}
        control_plane.request("PATCH", f"{RANGES}/{namespace}", {"spec": {"allocations": record}})
        control_plane.request("PATCH", f"{RANGES}/{namespace}", {"spec": {"range": "10.0.0.0/25"}})
        control_plane.request("DELETE", f"{RANGES}/{namespace}")


def test_what_brings_the_webhook_back_does_not_wait(control_plane: ControlPlane, namespace: str, down: Down) -> None:
    """Leases, Secrets, the workloads that use our annotations, nodes, and the webhook configurations themselves can be written."""
    deployment = {
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": pod(BLUE) | {"metadata": {"labels": {"a": "b"}, "annotations": BLUE}},
        },
    }
    with down():
        control_plane.request("POST", "/api/v1/nodes", {"metadata": {"name": namespace}})
        control_plane.request("DELETE", f"/api/v1/nodes/{namespace}")
        lease = {"metadata": {"name": namespace}, "spec": {"holderIdentity": "x"}}
        control_plane.request("POST", "/apis/coordination.k8s.io/v1/namespaces/poolwarden/leases", lease)
        control_plane.request("POST", f"{NAMESPACES}/poolwarden/secrets", {"metadata": {"name": namespace}})
        control_plane.request("POST", f"/apis/apps/v1/namespaces/{namespace}/deployments", deployment)
        for collection in COLLECTIONS.values():
            change = {"metadata": {"annotations": {"a": "b"}}}
            control_plane.request("PATCH", f"{collection}/poolwarden", change)
