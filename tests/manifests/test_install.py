"""What `kubectl apply -k manifests/` installs, and the rights that it gives."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from controlplane.server import wait_for

MANIFESTS = Path(__file__).parents[2] / "manifests"
GC = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc"

Right = tuple[str, str, str, str]  # verb, group, resource, the one name that it is for or ""


def rights(group: str, resources: str, verbs: str, name: str = "") -> set[Right]:
    """The rights of every verb on every resource; both are words with blanks between them."""
    return {(verb, group, resource, name) for verb in verbs.split() for resource in resources.split()}


CRDS = "apiextensions.k8s.io", "customresourcedefinitions"
OBSERVE = {
    *rights("", "pods nodes", "get list"),
    *rights("apps", "statefulsets", "get list"),
    *rights("kubevirt.io", "virtualmachines virtualmachineinstances", "get list"),
    *rights("k8s.cni.cncf.io", "network-attachment-definitions", "get list"),
    *rights("spiderpool.spidernet.io", "spiderippools spiderendpoints spiderreservedips", "get list"),
    *rights("poolwarden.dev", "poolguards", "get list create update patch delete"),
    *rights("poolwarden.dev", "poolguards/status", "patch"),
    *rights(*CRDS, "get", name="poolguards.poolwarden.dev"),
    *rights(*CRDS, "create"),
    *rights("events.k8s.io", "events", "create patch"),
}
LEASE = rights("coordination.k8s.io", "leases", "get create patch")
RELEASE = {
    *rights("spiderpool.spidernet.io", "spiderippools/status", "patch"),
    *rights("spiderpool.spidernet.io", "spiderendpoints", "get patch delete"),
}


@pytest.fixture(scope="module")
def namespace_made(control_plane: ControlPlane) -> None:
    """The namespace alone: a dry run makes none, and what goes into it would be refused."""
    control_plane.kubectl("apply", "--filename", str(MANIFESTS / "namespace.yaml"))


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> None:
    """The manifests, applied."""
    control_plane.kubectl("apply", "--kustomize", str(MANIFESTS))


@pytest.fixture
def release_overlay(tmp_path: Path) -> Path:
    """A kustomization such as an operator writes to let gc release."""
    manifests = Path(os.path.relpath(MANIFESTS.resolve(), tmp_path.resolve()))
    overlay = {"resources": [str(manifests)], "components": [str(manifests / "components" / "release")]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    return tmp_path


@pytest.fixture
def released(control_plane: ControlPlane, release_overlay: Path) -> Iterator[None]:
    """The manifests with the component release, applied; its binding goes when the test ends."""
    control_plane.kubectl("apply", "--kustomize", str(release_overlay))
    yield
    control_plane.kubectl("delete", "clusterrolebinding", "poolwarden-release")


def build(plane: ControlPlane, folder: Path) -> list[dict[str, Any]]:
    """The objects that a kustomization makes."""
    return list(yaml.safe_load_all(plane.kubectl("kustomize", str(folder)).stdout))


def rights_of_gc(plane: ControlPlane, namespace: str, expected: set[Right]) -> set[Right]:
    """What the API server says that gc may do there, once that is as expected or has had time to become so."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }

    def ask() -> set[Right]:
        # --validate=false: else kubectl wants to read the CRDs first, which gc may not
        command = ("create", "--filename=-", "--output=json", "--validate=false")
        answer = plane.kubectl(*command, input=json.dumps(review), user=GC).stdout
        return {
            (verb, group, resource, name)
            for rule in json.loads(answer)["status"]["resourceRules"]
            for verb in rule["verbs"]
            for group in rule["apiGroups"]
            for resource in rule["resources"]
            for name in rule.get("resourceNames", [""])
            if group not in {"authorization.k8s.io", "authentication.k8s.io"}  # everybody's, to ask such questions
        }

    with suppress(TimeoutError):  # the comparison of the caller says more
        wait_for("the rights of gc", lambda: ask() == expected, seconds=10)
    return ask()


def test_everything_is_installed_and_nothing_else(control_plane: ControlPlane) -> None:
    """The manifests make the CRD, a namespace and an account in it, and the roles, of which release is bound to nobody."""
    made = sorted(f"{item['kind']}/{item['metadata']['name']}" for item in build(control_plane, MANIFESTS))
    assert made == [
        "ClusterRole/poolwarden-observe",
        "ClusterRole/poolwarden-release",
        "ClusterRoleBinding/poolwarden-observe",
        "CustomResourceDefinition/poolguards.poolwarden.dev",
        "Namespace/poolwarden",
        "Role/poolwarden-lease",
        "RoleBinding/poolwarden-lease",
        "ServiceAccount/poolwarden-gc",
    ]


def test_everything_is_labelled(control_plane: ControlPlane, release_overlay: Path) -> None:
    """Every object says that it is poolwarden's, so that all can be listed and removed by one label."""
    labels = [item["metadata"]["labels"] for item in build(control_plane, release_overlay)]
    assert {item.get("app.kubernetes.io/name") for item in labels} == {"poolwarden"}
    assert {item.get("app.kubernetes.io/part-of") for item in labels} == {"poolwarden"}


def test_the_definition_is_labelled_without_kustomize() -> None:
    """The CRD that gc makes itself carries the labels that kustomize would add."""
    crd = yaml.safe_load((MANIFESTS / "crd" / "poolguards.yaml").read_text())
    pairs = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["labels"][0]["pairs"]
    assert crd["metadata"]["labels"] == pairs


def test_another_namespace_takes_all_along(control_plane: ControlPlane, release_overlay: Path) -> None:
    """An overlay's `namespace` moves the account, its role and every binding's subject together."""
    file = release_overlay / "kustomization.yaml"
    file.write_text(f"namespace: elsewhere\n{file.read_text()}")
    items = build(control_plane, release_overlay)
    subjects = [subject["namespace"] for item in items for subject in item.get("subjects", ())]
    homes = [item["metadata"]["namespace"] for item in items if "namespace" in item["metadata"]]
    assert (len(subjects), len(homes)) == (3, 3)
    assert {*subjects, *homes} == {"elsewhere"}


@pytest.mark.usefixtures("namespace_made")
def test_the_api_server_accepts_all(control_plane: ControlPlane, release_overlay: Path) -> None:
    """A dry run of every object, the release binding included, passes the API server without a warning."""
    result = control_plane.kubectl("apply", "--dry-run=server", "--kustomize", str(release_overlay))
    assert len(result.stdout.splitlines()) == len(build(control_plane, release_overlay))
    assert "Warning" not in result.stderr.replace("resource namespaces/poolwarden is missing", "")


@pytest.mark.usefixtures("installed")
def test_by_default_gc_reads_and_writes_only_its_own(control_plane: ControlPlane) -> None:
    """As installed, gc may read what verdicts rest on, and write its guards, their CRD and events, but nothing of an IPAM."""
    assert rights_of_gc(control_plane, "default", OBSERVE) == OBSERVE


@pytest.mark.usefixtures("installed")
def test_leases_are_gcs_at_home_alone(control_plane: ControlPlane) -> None:
    """In its own namespace, and in no other, gc may take a lease as well."""
    assert rights_of_gc(control_plane, "poolwarden", OBSERVE | LEASE) == OBSERVE | LEASE


@pytest.mark.usefixtures("released")
def test_release_adds_the_two_writes_that_it_takes(control_plane: ControlPlane) -> None:
    """The component release adds the write of a pool's records and of endpoints, and not that of a pool's spec."""
    assert rights_of_gc(control_plane, "default", OBSERVE | RELEASE) == OBSERVE | RELEASE
