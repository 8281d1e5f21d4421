"""A control plane with controllers and kubelets, the networks and pools of a small cluster, and our manifests applied."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controlplane.build import WHEREABOUTS_CRDS
from controlplane.plane import ControlPlane
from controlplane.whereabouts import Whereabouts
from endtoend.program import Program, running
from manifests.shipped import MANIFESTS, overlay, registered, shipped_webhooks

ROOT = Path(__file__).parents[2]
ACCOUNT = "system:serviceaccount:poolwarden:poolwarden-webhook"


def network(namespace: str, name: str, ipam: str) -> str:
    """A NetworkAttachmentDefinition as JSON."""
    config = {
        "cniVersion": "0.3.1",
        "type": "macvlan",
        "master": "eth1",
        "ipam": {"type": ipam, "range": "10.55.0.0/24"},
    }
    if ipam == "spiderpool":
        config["ipam"] = {"type": ipam}
    metadata = {"name": name, "namespace": namespace}
    spec = {"config": json.dumps(config)}
    kind = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    return json.dumps({**kind, "metadata": metadata, "spec": spec})


def spider_pool(name: str, number: int) -> str:
    """A SpiderIPPool as JSON."""
    spec = {"subnet": f"10.6.{number}.0/24", "ipVersion": 4, "ips": [f"10.6.{number}.10-10.6.{number}.100"]}
    kind = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool"}
    return json.dumps({**kind, "metadata": {"name": name}, "spec": spec})


@pytest.fixture(scope="package")
def control_plane(
    control_plane_programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """Everything but our webhooks' registration."""
    folder = tmp_path_factory.mktemp("endtoend")
    with ControlPlane(control_plane_programs, folder) as plane:
        whereabouts = control_plane_programs["whereabouts"].parent
        crds = (*(ROOT / "tests" / "crds").glob("*.yaml"), *(whereabouts / file for file in WHEREABOUTS_CRDS.files))
        plane.kubectl("apply", *(f"--filename={path}" for path in crds))
        plane.kubectl("apply", f"--filename={MANIFESTS / 'crd' / 'poolguards.yaml'}")
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        plane.kubectl("apply", f"--filename={MANIFESTS / 'namespace.yaml'}")
        built = plane.kubectl("kustomize", str(MANIFESTS / "webhook")).stdout
        documents = [text for text in built.split("\n---\n") if "WebhookConfiguration" not in text]
        plane.kubectl("apply", "--filename=-", input="\n---\n".join(documents))
        plane.add_namespace("team-a")
        objects = [
            network("team-a", "a", "whereabouts"),
            network("team-a", "b", "whereabouts"),
            network("kube-system", "base", "spiderpool"),
            network("kube-system", "vlan", "spiderpool"),
            spider_pool("p0", 0),
            spider_pool("p1", 1),
        ]
        plane.kubectl("apply", "--filename=-", input="\n---\n".join(objects))
        plane.add_node("n1")
        yield plane


@pytest.fixture(scope="package")
def program(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Program]:
    """`poolwarden webhook` with the rights of its ServiceAccount and no others."""
    folder = tmp_path_factory.mktemp("program") / "mount"
    with running(Program(folder, control_plane.kubeconfig(ACCOUNT))) as program:
        yield program


@pytest.fixture
def webhook(control_plane: ControlPlane, program: Program) -> Iterator[Program]:
    """The program, registered as the manifests register it."""
    with registered(control_plane, shipped_webhooks(control_plane, program.url, program.authority)):
        yield program


@pytest.fixture
def strict_webhook(control_plane: ControlPlane, program: Program, tmp_path: Path) -> Iterator[Program]:
    """The program, registered with the component `strict`."""
    folder = overlay(tmp_path, "strict")
    webhooks = shipped_webhooks(control_plane, program.url, program.authority, folder=folder)
    with registered(control_plane, webhooks):
        yield program


@pytest.fixture
def plugin(control_plane: ControlPlane, control_plane_programs: Mapping[str, Path], tmp_path: Path) -> Whereabouts:
    """The real whereabouts plugin on this control plane."""
    return Whereabouts(control_plane_programs["whereabouts"], tmp_path, control_plane.kubeconfig())
