"""What README and runbook say of installing, changing and removing, typed word for word against a real control plane."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml

from controlplane.client import NAMESPACES, ApiError
from controlplane.plane import ControlPlane
from manifests.documented import README, ROOT, RUNBOOK, Reader, blocks, commands
from manifests.shipped import MANIFESTS, build, overlay
from poolwarden.cli import parser

Object = dict[str, Any]

CRDS = ROOT / "tests" / "crds"
COMPONENTS = sorted(path.name for path in (MANIFESTS / "components").iterdir())
PART_OF = "app.kubernetes.io/part-of=poolwarden"
OF_OTHERS = (
    ("monitoring.coreos.com", "v1", "PodMonitor"),
    ("monitoring.coreos.com", "v1", "PrometheusRule"),
    ("cert-manager.io", "v1", "Certificate"),
    ("cert-manager.io", "v1", "Issuer"),
)
"""Kinds of others' that components make objects of."""
MADE_ON_BEHALF = {"Event", "Pod", "ReplicaSet", "Job", "Endpoints", "EndpointSlice", "ControllerRevision"}
"""What controllers make of what is installed, and what comes and goes by itself."""

POD = {"metadata": {"name": "any"}, "spec": {"nodeName": "worker", "containers": [{"name": "c", "image": "i"}]}}
"""Without one gc takes the list of pods for a misreading."""


def definition(group: str, version: str, kind: str) -> Object:
    """A definition that takes any object of the kind."""
    plural = f"{kind.lower()}s"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


@pytest.fixture(scope="module")
def plane(
    control_plane_programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """A cluster with Spiderpool, one pool, a node and a pod, and nothing of ours."""
    with ControlPlane(control_plane_programs, tmp_path_factory.mktemp("documented")) as plane:
        others = [definition(*kind) for kind in OF_OTHERS]
        plane.kubectl("apply", "--filename=-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": others}))
        files = (CRDS / "spiderpool.yaml", CRDS / "network-attachment-definition.yaml")
        plane.kubectl("apply", *(f"--filename={path}" for path in files))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        kind = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool", "metadata": {"name": "blue"}}
        spec = {"subnet": "10.6.0.0/24", "ipVersion": 4, "ips": ["10.6.0.10-10.6.0.20"]}
        plane.kubectl("create", "--filename=-", input=json.dumps({**kind, "spec": spec}))
        plane.add_node("worker")
        plane.request("POST", f"{NAMESPACES}/default/pods", POD)
        yield plane


@pytest.fixture
def reader(plane: ControlPlane, control_plane_programs: Mapping[str, Path], tmp_path: Path) -> Iterator[Reader]:
    """Somebody in an empty folder; whatever was installed is gone afterwards, by the runbook."""
    yield Reader(plane, control_plane_programs["kubectl"], tmp_path)
    remove(Reader(plane, control_plane_programs["kubectl"], tmp_path))


@contextmanager
def scheduled(plane: ControlPlane) -> Iterator[None]:
    """Within the block our pods are given the node, since the control plane has no scheduler."""
    ended = Event()

    def bind() -> None:
        path = f"{NAMESPACES}/poolwarden/pods"
        while not ended.wait(0.2):
            for pod in plane.request("GET", path)["items"]:
                if "nodeName" not in pod["spec"]:
                    name = pod["metadata"]["name"]
                    target = {"apiVersion": "v1", "kind": "Node", "name": "worker"}
                    try:
                        plane.request("POST", f"{path}/{name}/binding", {"metadata": {"name": name}, "target": target})
                    except ApiError:
                        continue  # it went meanwhile

    thread = Thread(target=bind)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def remove(reader: Reader) -> None:
    """The runbook's removal."""
    typed = commands(RUNBOOK, "Removing poolwarden")
    assert len(typed) == 6
    for command in typed:
        assert "NotFound" not in reader.types(command).stderr


def objects(plane: ControlPlane, *selection: str) -> set[str]:
    """Kind, namespace and name of all objects that people or programs made, of all kinds there are."""
    kinds = plane.kubectl("api-resources", "--verbs=list", "--output=name").stdout.split()
    found = plane.kubectl("get", ",".join(kinds), "--all-namespaces", "--output=json", *selection).stdout
    return {
        f"{item['kind']}/{item['metadata'].get('namespace', '')}/{item['metadata']['name']}"
        for item in json.loads(found)["items"]
        if item["kind"] not in MADE_ON_BEHALF
    }


def container(plane: ControlPlane, name: str) -> Object:
    """The one container of an installed Deployment."""
    path = f"/apis/apps/v1/namespaces/poolwarden/deployments/{name}"
    (found,) = plane.request("GET", path)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


# --- Which addresses leak, and installing -----------------------------------------------------------------------------


def test_the_dump_needs_no_kind_that_is_not_there(reader: Reader) -> None:
    """Before anything of ours is installed, each command that looks for leaks works as it is printed."""
    set_up, *typed = commands(README, "Which addresses leak in my cluster?")
    assert "pip install" in set_up
    assert any(command.startswith("kubectl get") for command in typed)
    for command in typed:
        reader.types(command)
    assert "SpiderIPPool" in (reader.folder / "dump.yaml").read_text()


@pytest.mark.parametrize("program", ["podman", "docker"])
def test_the_image_is_built_and_pushed(reader: Reader, program: str) -> None:
    """The first command asks whichever program is there for both, by the name that is given."""
    make_image, _ = commands(README, "Installing")[:2]
    there = reader.folder / "bin"
    there.mkdir()
    for name in ("make", "sh", "bash"):
        (there / name).symlink_to(reader.types(f"command -v {name}").stdout.strip())
    (there / program).write_text(f'#!/bin/sh\necho "$@" >> "{reader.folder}/asked"\n')
    (there / program).chmod(0o755)
    reader.types(f"cd {ROOT} && PATH={there} && {make_image}")
    image = make_image.partition("IMAGE=")[2]
    assert (reader.folder / "asked").read_text().splitlines() == [
        f"build --file Containerfile --tag {image} .",
        f"push {image}",
    ]


def test_one_command_installs(plane: ControlPlane, reader: Reader) -> None:
    """It ends with gc, which observes, and the webhook Available, of that image; WEBHOOK_ARGS arrive at the webhook."""
    _, make_install = commands(README, "Installing")[:2]
    reader.folder = ROOT
    with scheduled(plane):
        reader.types(make_install)
    image = make_install.partition("IMAGE=")[2]
    for name in ("poolwarden-gc", "poolwarden-webhook"):
        assert container(plane, name)["image"] == image
        deployment = plane.request("GET", f"/apis/apps/v1/namespaces/poolwarden/deployments/{name}")
        assert deployment["status"]["availableReplicas"] == deployment["spec"]["replicas"]
        assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == name
        assert plane.find(f"{NAMESPACES}/poolwarden/serviceaccounts/{name}")
    (source,) = container(plane, "poolwarden-gc")["envFrom"]
    settings = plane.request("GET", f"{NAMESPACES}/poolwarden/configmaps/{source['configMapRef']['name']}")
    assert settings["data"]["MODE"] == "observe"
    assert "ClusterRoleBinding//poolwarden-release" not in objects(plane, f"--selector={PART_OF}")
    (more,) = re.findall(r'WEBHOOK_ARGS="([^"]*)"', README.read_text(encoding="utf-8"))
    before = container(plane, "poolwarden-webhook")["args"]
    with scheduled(plane):
        reader.types(f'{make_install} WEBHOOK_ARGS="{more}"')
    arguments = container(plane, "poolwarden-webhook")["args"]
    assert arguments == [*before, *more.split()]
    assert parser().parse_args(arguments).default_networks == 1


def test_an_image_must_be_named(reader: Reader) -> None:
    """Without IMAGE both say so, and do nothing."""
    for target in ("image", "install"):
        done = reader.types(f"make -C {ROOT} {target}", check=False)
        assert done.returncode
        assert f"make {target} IMAGE=" in done.stderr


# --- overlays ---------------------------------------------------------------------------------------------------------


def test_the_overlay_of_the_readme(plane: ControlPlane, reader: Reader) -> None:
    """It is accepted; gc's settings, the webhook's arguments, the images and one alert's number change as it says."""
    items = built(reader, blocks(README, "With an overlay", "yaml")[0])
    plane.kubectl("apply", "--filename", str(MANIFESTS / "namespace.yaml"))
    reader.types("kubectl apply --dry-run=server -k .")
    before = build(plane, MANIFESTS)
    assert settings(items) == settings(before) | {"INTERVAL": "30m", "GRACE": "20m", "COOLDOWN": "2m"}
    rules = [yaml.safe_load((MANIFESTS / "monitoring" / "rules.yaml").read_text(encoding="utf-8"))]
    changed = {name: query for name, query in alerts(items).items() if query != alerts(rules)[name]}
    assert list(changed) == ["PoolwardenGcNotSucceeding"]
    assert changed["PoolwardenGcNotSucceeding"].endswith(f"> {3 * 30 * 60}")
    containers = [c for i in items if i["kind"] == "Deployment" for c in i["spec"]["template"]["spec"]["containers"]]
    assert {item["image"] for item in containers} == {"registry.example/poolwarden:0.1.0"}
    assert [item["args"][-1] for item in containers if item["name"] == "webhook"] == ["--default-network=spiderpool"]


def test_the_mode_of_the_readmes_overlay(reader: Reader) -> None:
    """The line on MODE, with its comment sign taken off, prevails over what the component release says."""
    (text,) = blocks(README, "With an overlay", "yaml")
    text = re.sub(r"# (- \{op: replace, path: /data/MODE)", r"\1", text)
    assert settings(built(reader, text))["MODE"] == "release"
    text = text.replace("components/flow-schema", "components/release")
    assert settings(built(reader, text))["MODE"] == "release"


def built(reader: Reader, kustomization: str) -> list[Object]:
    """What kustomize makes of the text, with our manifests where it looks for them."""
    (reader.folder / "poolwarden").mkdir(exist_ok=True)
    link = reader.folder / "poolwarden" / "manifests"
    if not link.exists():
        link.symlink_to(MANIFESTS)
    (reader.folder / "kustomization.yaml").write_text(kustomization)
    return build(reader.plane, reader.folder)


def settings(items: list[Object]) -> dict[str, str]:
    """What gc's ConfigMap says."""
    (found,) = (item for item in items if item["metadata"]["name"].startswith("poolwarden-gc-settings"))
    data: dict[str, str] = found["data"]
    return data


def alerts(items: list[Object]) -> dict[str, str]:
    """The queries of all alerts, by name."""
    (found,) = (item for item in items if item["kind"] == "PrometheusRule")
    return {rule["alert"]: rule["expr"] for group in found["spec"]["groups"] for rule in group["rules"]}


def test_every_component_is_in_the_readme() -> None:
    """The table under "With an overlay" has a line for each component, and none besides."""
    section = README.read_text(encoding="utf-8").partition("### With an overlay")[2].partition("\n### ")[0]
    assert sorted(re.findall(r"^\| `([\w-]+)` \|", section, re.MULTILINE)) == COMPONENTS


def clean_up(change: str) -> list[tuple[str, str]]:
    """What the README lets one type after that change of an overlay: component and command."""
    lines = commands(README, "With an overlay")
    return [(found[1], line) for line in lines if (found := re.search(rf"# (\S+) is {change}$", line))]


def test_components_come_and_go(plane: ControlPlane, reader: Reader) -> None:
    """After applying and the README's commands there is what the overlay makes, and nothing else: no right is left over."""
    making_objects = set(COMPONENTS) - {"strict"}
    assert {name for name, _ in clean_up("taken out")} == making_objects
    plane.kubectl("apply", "--kustomize", str(MANIFESTS))
    for folder, change in ((overlay(reader.folder, *COMPONENTS), "added"), (MANIFESTS, "taken out")):
        plane.kubectl("apply", "--kustomize", str(folder))
        for command in (line for _, line in clean_up(change)):
            reader.types(command)
        made = {f"{item['kind']}/{item['metadata']['name']}" for item in build(plane, folder)}
        there = {re.sub(r"/.*/", "/", name) for name in objects(plane, f"--selector={PART_OF}")}
        assert {name for name in there ^ made if not name.startswith("ConfigMap/")} == set()


# --- removing ---------------------------------------------------------------------------------------------------------


def test_the_runbook_removes_everything(plane: ControlPlane, reader: Reader) -> None:
    """With every component installed at some time, gc run by hand and certificates made, nothing of ours is left."""
    before = objects(plane)
    swept = reader.types("poolwarden gc --once", check=False)
    assert "PoolGuard//spiderpool.blue" in objects(plane), swept.stdout + swept.stderr
    for folder in (MANIFESTS, overlay(reader.folder, *COMPONENTS), MANIFESTS / "monitoring"):
        plane.kubectl("apply", "--kustomize", str(folder))
    reader.types("poolwarden certs ensure --namespace poolwarden")
    installed = objects(plane) - before
    assert {"Lease/kube-system/poolwarden-gc", "Secret/poolwarden/poolwarden-webhook-ca"} <= installed
    assert {"FlowSchema//poolwarden-gc", "ClusterRoleBinding//poolwarden-rebalance"} <= installed
    remove(reader)
    assert objects(plane) - before == set()
