"""Which requests the shipped webhook configurations send to the webhook: decided by the real API server."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from controlplane.client import NAMESPACES
from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from manifests.recorder import Recorder, recording
from manifests.shipped import COLLECTIONS, MANIFESTS, build, registered, shipped_webhooks
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS, PODS, Kind
from poolwarden.ipam.neon import POOLS as NEON_POOLS
from poolwarden.ipam.objects import MIRROR, NETWORKS
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.spiderpool import MULTUS_CONFIGS, RESERVATIONS
from poolwarden.ipam.spiderpool import POOLS as SPIDER_POOLS
from poolwarden.ipam.whereabouts import POOLS as WHEREABOUTS_POOLS
from poolwarden.webhook.pod.pods import RULED
from poolwarden.webhook.rules import PATHS

Object = dict[str, Any]
Paths = list[str]

NEW_POD = ["/mutate-pods", "/validate-pods"]
OLD_POD = NEW_POD
POOL = ["/mutate-pools", "/validate-pools"]
NETWORK = ["/validate-pools"]
WORKLOAD = ["/validate-workloads"]
NOTHING: Paths = []

BLUE = {NETWORKS: "blue"}
RED = {NETWORKS: "red"}
FOREIGN = {"example.com/note": "x", "k8s.v1.cni.cncf.io/network-status": "[]"}
FINALIZER = "poolwarden.test/hold"
RESTRICTED = {  # as our own namespace wants its pods
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
CONTAINERS: list[Object] = [{"name": "c", "image": "i", "securityContext": RESTRICTED}]


def workload(plural: str, kind: str, group: str = "apps") -> Kind:
    """A kind with a pod template."""
    return Kind(group, "v1", plural, kind, namespaced=True)


DEPLOYMENTS = workload("deployments", "Deployment")
REPLICA_SETS = workload("replicasets", "ReplicaSet")
JOBS = workload("jobs", "Job", "batch")
CRON_JOBS = workload("cronjobs", "CronJob", "batch")
SELECTING = (DEPLOYMENTS, REPLICA_SETS, workload("daemonsets", "DaemonSet"), workload("statefulsets", "StatefulSet"))
WORKLOADS = (*SELECTING, JOBS, CRON_JOBS)


def collection(kind: Kind, namespace: str) -> str:
    """Where objects of the kind are made."""
    root = f"/apis/{kind.group}" if kind.group else "/api"
    home = f"/namespaces/{namespace}" if kind.namespaced else ""
    return f"{root}/{kind.version}{home}/{kind.plural}"


def pod(annotations: Mapping[str, str] | None = None, **spec: object) -> Object:
    """A pod, or the template of one."""
    labels = {"app": "x"}
    return {
        "metadata": {"labels": labels, "annotations": dict(annotations or {})},
        "spec": {"containers": CONTAINERS, **spec},
    }


def templated(kind: Kind, template: Object) -> Object:
    """A workload with this template."""
    if kind == CRON_JOBS:
        job = {"spec": {"template": template | {"spec": template["spec"] | {"restartPolicy": "Never"}}}}
        return {"spec": {"schedule": "0 0 1 1 *", "jobTemplate": job}}
    if kind == JOBS:
        return {"spec": {"template": template | {"spec": template["spec"] | {"restartPolicy": "Never"}}}}
    return {"spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template}}


def guard(pool: str, **spec: object) -> Object:
    """A PoolGuard."""
    return {"spec": {"poolRef": {"ipam": "spiderpool", "name": pool}, **spec}}


POOL_OBJECTS: Mapping[Kind, Object] = {
    SPIDER_POOLS: {"spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]}},
    RESERVATIONS: {"spec": {"ips": ["10.0.0.1"]}},
    MULTUS_CONFIGS: {"spec": {"cniType": "macvlan", "macvlan": {"master": ["eth0"]}}},
    NETWORK_ATTACHMENTS: {"spec": {"config": "{}"}},
    WHEREABOUTS_POOLS: {"spec": {"range": "10.0.0.0/24", "allocations": {}}},
    NEON_POOLS: {"spec": {"range": "10.0.0.0/24", "allocations": {}}},
    POOL_GUARDS: guard("any"),
}


@pytest.fixture(scope="module")
def recorder(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Recorder]:
    """A webhook in the place of ours, registered as ours is."""
    with recording(tmp_path_factory.mktemp("recorder")) as recorder:
        configurations = shipped_webhooks(control_plane, recorder.url, recorder.ca)
        with registered(control_plane, configurations):
            yield recorder
    # A condition that cannot be evaluated would follow failurePolicy: by Ignore, nobody would notice.
    metrics = control_plane.kubectl("get", "--raw", "/metrics").stdout
    assert "apiserver_admission_match_condition_evaluation_seconds" in metrics
    assert "apiserver_admission_match_condition_evaluation_errors_total{" not in metrics


class Scene:
    """Makes, changes and removes objects, and tells what the webhook was asked meanwhile."""

    def __init__(self, plane: ControlPlane, recorder: Recorder, namespace: str) -> None:
        self.namespace = namespace
        self._plane = plane
        self._recorder = recorder
        self._made: list[str] = []

    def make(self, kind: Kind, content: Object, *, namespace: str = "", query: str = "") -> tuple[str, Paths]:
        """Creates an object with a name of its own; returns its path, and the paths of the reviews."""
        name = f"{self.namespace[-10:].strip('-')}-{secrets.token_hex(4)}"
        metadata = {"name": name} | content.get("metadata", {})
        body = {"apiVersion": kind.api_version, "kind": kind.kind, **content, "metadata": metadata}
        where = collection(kind, namespace or self.namespace)
        self._recorder.taken()
        made = self._plane.request("POST", f"{where}{query}", body)
        paths = self._recorder.taken()
        path = f"{where}/{metadata['name']}"
        if not query:
            self._made.append(path)
            self._settle(path, made)
        return path, paths

    def change(self, path: str, patch: Object) -> Paths:
        """Patches an object (merge patch); returns the paths of the reviews."""
        self._recorder.taken()
        changed = self._plane.request("PATCH", path, patch)
        paths = self._recorder.taken()
        self._settle(path, changed)
        return paths

    def delete(self, path: str) -> Paths:
        """Deletes an object; returns the paths of the reviews."""
        self._recorder.taken()
        left = self._plane.request("DELETE", path, {"gracePeriodSeconds": 0})
        paths = self._recorder.taken()
        self._settle(path, left)
        return paths

    def _settle(self, path: str, written: Object) -> None:
        """Waits until the API server's cache has a write: until then it would review the next one against older state."""
        version = written["metadata"].get("resourceVersion")
        if version and self._plane.find(path):
            self._plane.request("GET", f"{path}?resourceVersion={version}")

    def clear(self) -> None:
        """Removes all that was made, finalizers notwithstanding."""
        for path in self._made:
            if self._plane.find(path):
                self._plane.request("PATCH", path, {"metadata": {"finalizers": None}})
            if self._plane.find(path):
                self._plane.request("DELETE", path, {"gracePeriodSeconds": 0})


@pytest.fixture
def scene(control_plane: ControlPlane, recorder: Recorder, namespace: str) -> Iterator[Scene]:
    """A namespace of the test's own."""
    scene = Scene(control_plane, recorder, namespace)
    yield scene
    scene.clear()


# --- what the files say -------------------------------------------------------------------------------------------


def reviewed_at(configuration: Object) -> dict[tuple[str, str], set[str]]:
    """The paths, by API group and plural."""
    found: dict[tuple[str, str], set[str]] = {}
    for webhook in configuration["webhooks"]:
        for rule in webhook["rules"]:
            for group in rule["apiGroups"]:
                for plural in rule["resources"]:
                    found.setdefault((group, plural), set()).add(webhook["clientConfig"]["service"]["path"])
    return found


def test_every_kind_that_has_rules_is_registered(control_plane: ControlPlane) -> None:
    """Each kind is reviewed on the paths that the program has for it, mutating ones only where something is rewritten."""
    mutating, validating = (
        reviewed_at(item) for item in build(control_plane, MANIFESTS) if item["kind"] in COLLECTIONS
    )
    kinds = (PODS, *POOL_OBJECTS, *WORKLOADS)
    assert {(kind.group, kind.kind) for kind in kinds} == PATHS.keys()
    assert validating == {(kind.group, kind.plural): {*PATHS[kind.group, kind.kind].validating} for kind in kinds}
    rewritten = (PODS, SPIDER_POOLS, RESERVATIONS, MULTUS_CONFIGS, POOL_GUARDS)
    assert mutating == {(kind.group, kind.plural): {*PATHS[kind.group, kind.kind].mutating} for kind in rewritten}


def test_what_is_rewritten_is_judged_in_the_same_cases(control_plane: ControlPlane) -> None:
    """A webhook that validates is asked under the conditions of the one that mutates."""
    mutating, validating = (item for item in build(control_plane, MANIFESTS) if item["kind"] in COLLECTIONS)
    conditions = {item["name"]: item["matchConditions"] for item in validating["webhooks"]}
    for webhook in mutating["webhooks"]:
        assert webhook["matchConditions"] == conditions[webhook["name"].replace("mutate", "validate")]


@pytest.mark.parametrize("kind", COLLECTIONS)
def test_every_webhook_is_quick_and_harmless(control_plane: ControlPlane, kind: str) -> None:
    """Each has a timeout of 5 s and no side effects, matches equivalent versions, and leaves the caBundle to the program."""
    (configuration,) = (item for item in build(control_plane, MANIFESTS) if item["kind"] == kind)
    for webhook in configuration["webhooks"]:
        settings = (webhook["timeoutSeconds"], webhook["sideEffects"], webhook["matchPolicy"])
        assert settings == (5, "None", "Equivalent")
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert "caBundle" not in webhook["clientConfig"]
        assert webhook.get("reinvocationPolicy") == ("IfNeeded" if kind.startswith("Mutating") else None)


# --- pods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("annotation", RULED)
def test_a_pod_with_an_annotation_of_ours_is_reviewed(scene: Scene, annotation: str) -> None:
    """Each annotation that the rules read brings a new pod to the webhook."""
    _, paths = scene.make(PODS, pod({annotation: "x"}))
    assert paths == NEW_POD


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (pod(), NOTHING),
        (pod(FOREIGN), NOTHING),
        ({"spec": {"containers": CONTAINERS}}, NOTHING),
        (pod(BLUE, hostNetwork=True), NOTHING),
        (pod(BLUE, hostNetwork=False), NEW_POD),
        (pod(BLUE | {MIRROR: "0"}, nodeName="node"), NOTHING),
        (pod(BLUE | {f"example.com/{number}": "x" * 99 for number in range(2000)}), NEW_POD),
    ],
    ids=["plain", "foreign", "no-annotations", "host-network", "pod-network", "mirror", "many-annotations"],
)
def test_which_new_pods_are_reviewed(scene: Scene, content: Object, expected: Paths) -> None:
    """Only pods that CNI gives NICs, and that say something about them."""
    _, paths = scene.make(PODS, content)
    assert paths == expected


def test_a_dry_run_is_reviewed(scene: Scene) -> None:
    """`kubectl apply --dry-run=server` shows what the webhook would do."""
    _, paths = scene.make(PODS, pod(BLUE), query="?dryRun=All")
    assert paths == NEW_POD


@pytest.mark.parametrize("namespace", ["kube-system", "kube-public", "kube-node-lease", "poolwarden"])
def test_pods_of_the_system_and_our_own_are_not_reviewed(scene: Scene, namespace: str) -> None:
    """Neither the system's pods nor our own can wait for us."""
    _, paths = scene.make(PODS, pod(BLUE), namespace=namespace)
    assert paths == NOTHING
    _, paths = scene.make(DEPLOYMENTS, templated(DEPLOYMENTS, pod(BLUE)), namespace=namespace)
    assert paths == NOTHING


def test_a_namespace_can_be_excepted(control_plane: ControlPlane, scene: Scene) -> None:
    """The label that our own namespace carries excepts any other as well."""
    (own,) = (item for item in build(control_plane, MANIFESTS) if item["kind"] == "Namespace")
    (label,) = (key for key in own["metadata"]["labels"] if key.startswith("poolwarden.dev/"))
    labels = {label: own["metadata"]["labels"][label]}
    control_plane.request("PATCH", f"{NAMESPACES}/{scene.namespace}", {"metadata": {"labels": labels}})
    _, paths = scene.make(PODS, pod(BLUE))
    assert paths == NOTHING


@pytest.mark.parametrize(
    ("before", "patch", "expected"),
    [
        (BLUE, {"metadata": {"labels": {"app": "y"}}}, NOTHING),
        (BLUE, {"metadata": {"annotations": FOREIGN}}, NOTHING),
        (BLUE, {"metadata": {"finalizers": [FINALIZER]}}, NOTHING),
        (BLUE, {"spec": {"containers": [CONTAINERS[0] | {"image": "j"}]}}, NOTHING),
        (BLUE, {"metadata": {"annotations": RED}}, OLD_POD),
        (BLUE, {"metadata": {"annotations": {NETWORKS: None}}}, OLD_POD),
        ({}, {"metadata": {"annotations": BLUE}}, OLD_POD),
    ],
    ids=["label", "foreign", "finalizer", "image", "changed", "removed", "added"],
)
def test_which_updates_of_pods_are_reviewed(
    scene: Scene, before: dict[str, str], patch: Object, expected: Paths
) -> None:
    """Of an old pod only a change of our annotations, and only to be judged: its NICs have their names."""
    path, _ = scene.make(PODS, pod(before))
    assert scene.change(path, patch) == expected


def test_the_kubelet_and_multus_are_not_reviewed(scene: Scene) -> None:
    """Status writes, by which Multus also sets its annotation, pass without us."""
    path, _ = scene.make(PODS, pod(BLUE))
    patch = {"metadata": {"annotations": FOREIGN | RED}, "status": {"podIP": "10.0.0.1"}}
    assert scene.change(f"{path}/status", patch) == NOTHING


def test_the_end_of_a_pod_is_not_reviewed(scene: Scene) -> None:
    """Neither its deletion nor what happens while its finalizers keep it."""
    content = pod(BLUE)
    content["metadata"]["finalizers"] = [FINALIZER]
    path, _ = scene.make(PODS, content)
    assert scene.delete(path) == NOTHING
    assert scene.change(path, {"metadata": {"annotations": RED}}) == NOTHING
    assert scene.change(path, {"metadata": {"finalizers": None}}) == NOTHING


# --- pools and networks -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (SPIDER_POOLS, POOL),
        (POOL_GUARDS, POOL),
        (RESERVATIONS, POOL),
        (MULTUS_CONFIGS, POOL),
        (NETWORK_ATTACHMENTS, NETWORK),
        (WHEREABOUTS_POOLS, NOTHING),
        (NEON_POOLS, NOTHING),
    ],
    ids=lambda value: value.plural if isinstance(value, Kind) else "",
)
def test_which_new_pools_are_reviewed(scene: Scene, kind: Kind, expected: Paths) -> None:
    """All but those that the IPAM makes during an ADD; a deletion never."""
    path, paths = scene.make(kind, POOL_OBJECTS[kind])
    assert paths == expected
    assert scene.delete(path) == NOTHING


def test_a_pool_without_a_spec_is_reviewed(scene: Scene) -> None:
    """The condition holds for an object that lacks what it looks at: it is ours to refuse it."""
    _, paths = scene.make(SPIDER_POOLS, {})
    assert paths == POOL


@pytest.mark.parametrize("kind", [NETWORK_ATTACHMENTS, MULTUS_CONFIGS], ids=lambda kind: kind.plural)
def test_networks_of_the_system_are_reviewed(scene: Scene, kind: Kind) -> None:
    """Networks live in kube-system, too."""
    _, paths = scene.make(kind, POOL_OBJECTS[kind], namespace="kube-system")
    assert paths[-1] == "/validate-pools"


@pytest.mark.parametrize("kind", POOL_OBJECTS, ids=lambda kind: kind.plural)
def test_metadata_of_pools_is_not_reviewed(scene: Scene, kind: Kind) -> None:
    """Labels, annotations and finalizers come and go without us."""
    path, _ = scene.make(kind, POOL_OBJECTS[kind])
    metadata = {"labels": {"a": "b"}, "annotations": {"a": "b"}, "finalizers": [FINALIZER]}
    assert scene.change(path, {"metadata": metadata}) == NOTHING
    assert scene.change(path, {"metadata": {"finalizers": None}}) == NOTHING


@pytest.mark.parametrize(
    ("kind", "patch", "expected"),
    [
        (SPIDER_POOLS, {"spec": {"ips": ["10.0.0.1-10.0.0.8"]}}, POOL),
        (SPIDER_POOLS, {"spec": {"gateway": "10.0.0.254"}}, POOL),
        (POOL_GUARDS, {"spec": {"mode": "Release"}}, POOL),
        (RESERVATIONS, {"spec": {"ips": ["10.0.0.2"]}}, POOL),
        (MULTUS_CONFIGS, {"spec": {"macvlan": {"master": ["eth1"]}}}, POOL),
        (NETWORK_ATTACHMENTS, {"spec": {"config": '{"name": "blue"}'}}, NETWORK),
        (WHEREABOUTS_POOLS, {"spec": {"allocations": {"1": {"id": "x", "podref": "a/b"}}}}, NOTHING),
        (WHEREABOUTS_POOLS, {"spec": {"range": "10.0.0.0/25"}}, NETWORK),
        (NEON_POOLS, {"spec": {"allocations": {"1": {"id": "x"}}}}, NOTHING),
        (NEON_POOLS, {"spec": {"managed": {"10.0.0.1": {}}}}, NOTHING),
        (NEON_POOLS, {"spec": {"range": "10.0.0.0/25"}}, NETWORK),
    ],
    ids=lambda value: value.plural if isinstance(value, Kind) else "",
)
def test_which_updates_of_pools_are_reviewed(scene: Scene, kind: Kind, patch: Object, expected: Paths) -> None:
    """What people write; of the pools that an IPAM writes its records into, only another range."""
    path, _ = scene.make(kind, POOL_OBJECTS[kind])
    assert scene.change(path, patch) == expected


@pytest.mark.parametrize(
    ("kind", "status"),
    [(SPIDER_POOLS, {"allocatedIPs": "{}", "allocatedIPCount": 0}), (POOL_GUARDS, {"poolUID": "x"})],
    ids=["spiderippools", "poolguards"],
)
def test_status_of_pools_is_not_reviewed(scene: Scene, kind: Kind, status: Object) -> None:
    """Spiderpool's agents write records, and gc its ledger, without us."""
    path, _ = scene.make(kind, POOL_OBJECTS[kind])
    assert scene.change(f"{path}/status", {"status": status}) == NOTHING


def test_a_pool_that_is_being_deleted_is_not_reviewed(scene: Scene) -> None:
    """Nothing may hinder its end."""
    path, _ = scene.make(SPIDER_POOLS, POOL_OBJECTS[SPIDER_POOLS] | {"metadata": {"finalizers": [FINALIZER]}})
    scene.delete(path)
    assert scene.change(path, {"spec": {"ips": []}}) == NOTHING
    assert scene.change(path, {"metadata": {"finalizers": None}}) == NOTHING


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc", NOTHING),
        (f"{SERVICE_ACCOUNT}elsewhere:poolwarden-gc", NOTHING),
        (f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc-not", POOL),
        ("jane:poolwarden-gc", POOL),
    ],
)
def test_the_guards_that_gc_makes_are_not_reviewed(
    control_plane: ControlPlane, recorder: Recorder, user: str, expected: Paths
) -> None:
    """The sweeps of gc go on while the webhook is down, wherever it is installed; whoever else makes a guard is judged."""
    body = {"apiVersion": POOL_GUARDS.api_version, "kind": POOL_GUARDS.kind, "metadata": {"name": "spiderpool.any"}}
    recorder.taken()
    as_user = (f"--as={user}", "--as-group=system:masters")
    control_plane.kubectl("create", "--dry-run=server", "--filename=-", *as_user, input=json.dumps(body | guard("any")))
    assert recorder.taken() == expected


@pytest.mark.parametrize(
    ("user", "expected"),
    [
        (f"{SERVICE_ACCOUNT}kube-system:spiderpool-controller", NOTHING),
        (f"{SERVICE_ACCOUNT}spiderpool:spiderpool-agent", NOTHING),
        (f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc", POOL),
        ("jane:spiderpool-controller", POOL),
    ],
)
def test_spiderpools_own_pools_are_not_reviewed(
    control_plane: ControlPlane, recorder: Recorder, user: str, expected: Paths
) -> None:
    """It makes and scales those of a SpiderSubnet for workloads; addresses that gc adds are judged like anybody's."""
    body = {"apiVersion": SPIDER_POOLS.api_version, "kind": SPIDER_POOLS.kind, "metadata": {"name": "theirs"}}
    recorder.taken()
    as_user = (f"--as={user}", "--as-group=system:masters")
    text = json.dumps(body | POOL_OBJECTS[SPIDER_POOLS])
    control_plane.kubectl("create", "--dry-run=server", "--filename=-", *as_user, input=text)
    assert recorder.taken() == expected


# --- workloads ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", WORKLOADS, ids=lambda kind: kind.plural)
def test_templates_with_annotations_of_ours_are_reviewed(scene: Scene, kind: Kind) -> None:
    """Each kind of workload, but only where its pods would be reviewed."""
    for template, expected in ((pod(BLUE), WORKLOAD), (pod(FOREIGN), NOTHING), (pod(BLUE, hostNetwork=True), NOTHING)):
        _, paths = scene.make(kind, templated(kind, template))
        assert paths == expected


@pytest.mark.parametrize("kind", [kind for kind in WORKLOADS if kind != JOBS], ids=lambda kind: kind.plural)
def test_which_updates_of_workloads_are_reviewed(scene: Scene, kind: Kind) -> None:
    """Only a change of our annotations in the template (a Job's cannot change)."""

    def patch(template: Object) -> Object:
        return {
            "spec": {"jobTemplate": {"spec": {"template": template}}} if kind == CRON_JOBS else {"template": template}
        }

    path, _ = scene.make(kind, templated(kind, pod(BLUE)))
    assert scene.change(path, {"metadata": {"annotations": RED}}) == NOTHING
    assert scene.change(path, patch({"metadata": {"labels": {"b": "c"}}})) == NOTHING
    assert scene.change(path, patch({"metadata": {"annotations": RED}})) == WORKLOAD
    assert scene.change(path, patch({"metadata": {"annotations": {NETWORKS: None}}})) == WORKLOAD


def test_scaling_is_not_reviewed(scene: Scene) -> None:
    """Neither by the subresource, as an autoscaler does it, nor in the spec."""
    path, _ = scene.make(DEPLOYMENTS, templated(DEPLOYMENTS, pod(BLUE)))
    assert scene.change(f"{path}/scale", {"spec": {"replicas": 3}}) == NOTHING
    assert scene.change(path, {"spec": {"replicas": 4}}) == NOTHING


@pytest.mark.parametrize(("controller", "expected"), [(True, NOTHING), (False, WORKLOAD)])
def test_what_a_controller_makes_is_not_reviewed(scene: Scene, controller: bool, expected: Paths) -> None:  # noqa: FBT001
    """A Deployment's ReplicaSet would warn its controller of what the Deployment has warned of already."""
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "x", "controller": controller}
    content = templated(REPLICA_SETS, pod(BLUE)) | {"metadata": {"ownerReferences": [owner]}}
    _, paths = scene.make(REPLICA_SETS, content)
    assert paths == expected
