"""What `kubectl apply -k manifests/` installs, and the rights that it gives."""

import base64
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from threading import Event

import pytest
import yaml

from controlplane.client import ApiError
from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from controlplane.server import wait_for
from manifests.shipped import COLLECTIONS, MANIFESTS, Object, build, overlay, unregister
from poolwarden.certs.settings import Settings
from poolwarden.cli import parser
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.webhook.cache import Cache
from poolwarden.webhook.knowledge import SOURCES
from poolwarden.webhook.server.config import ServerConfig
from poolwarden.webhook.server.run import GRACEFUL_SECONDS

GC = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc"
WEBHOOK = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-webhook"

Right = tuple[str, str, str, str]  # verb, group, resource, the one name that it is for or ""


def rights(group: str, resources: str, verbs: str, name: str = "") -> set[Right]:
    """The rights of every verb on every resource; both are words with blanks between them."""
    return {(verb, group, resource, name) for verb in verbs.split() for resource in resources.split()}


CRDS = "apiextensions.k8s.io", "customresourcedefinitions"
OBSERVE = {
    *rights("", "pods nodes", "get list"),
    *rights("apps", "statefulsets", "get list"),
    *rights("kubevirt.io", "virtualmachines virtualmachineinstances", "get list"),
    *rights("k8s.cni.cncf.io", "network-attachment-definitions", "list"),
    *rights("spiderpool.spidernet.io", "spiderippools spiderendpoints", "get list"),
    *rights("spiderpool.spidernet.io", "spiderreservedips", "list"),
    *rights("whereabouts.cni.cncf.io", "ippools", "get list"),
    *rights("whereabouts.cni.cncf.io", "overlappingrangeipreservations nodeslicepools", "list"),
    *rights("vm.neon.tech", "ippools virtualmachines", "get list"),
    *rights("network.alibabacloud.com", "nodes", "get list"),
    *rights("network.alibabacloud.com", "noderuntimes", "list"),
    *rights("poolwarden.dev", "poolguards", "get list create delete"),
    *rights("poolwarden.dev", "poolguards/status", "patch"),
    *rights(*CRDS, "get", name="poolguards.poolwarden.dev"),
    *rights(*CRDS, "create"),
    *rights("events.k8s.io", "events", "create"),
}
LEASE = {
    *rights("coordination.k8s.io", "leases", "get patch", "poolwarden-gc"),
    *rights("coordination.k8s.io", "leases", "create"),
}
RELEASE = {
    *rights("spiderpool.spidernet.io", "spiderippools/status", "patch"),
    *rights("spiderpool.spidernet.io", "spiderendpoints", "get patch delete"),
    *rights("whereabouts.cni.cncf.io", "ippools", "patch"),
    *rights("whereabouts.cni.cncf.io", "overlappingrangeipreservations", "create delete"),
    *rights("vm.neon.tech", "ippools", "patch"),
    *rights("network.alibabacloud.com", "nodes/status", "patch"),
}
CERTIFICATES = Settings(namespace="poolwarden")
KNOWLEDGE = {
    *(right for kind, _ in SOURCES.values() for right in rights(kind.group, kind.plural, "list watch")),
    *rights("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "get patch", CERTIFICATES.mutating),
    *rights("admissionregistration.k8s.io", "validatingwebhookconfigurations", "get patch", CERTIFICATES.validating),
}
KEEPING = {
    *rights("", "secrets", "get patch", CERTIFICATES.tls_secret),
    *rights("", "secrets", "get patch", CERTIFICATES.ca_secret),
    *rights("", "secrets", "create"),
    *rights("coordination.k8s.io", "leases", "get patch", CERTIFICATES.service),
    *rights("coordination.k8s.io", "leases", "create"),
}


@pytest.fixture(scope="module")
def installed(control_plane: ControlPlane) -> Iterator[None]:
    """The manifests, applied; the webhook configurations go at the end, since nobody answers for them."""
    control_plane.kubectl("apply", "--kustomize", str(MANIFESTS))
    yield
    unregister(control_plane)


@pytest.fixture
def release_overlay(tmp_path: Path) -> Path:
    """A kustomization such as an operator writes to let gc release."""
    return overlay(tmp_path, "release")


@pytest.fixture
def released(control_plane: ControlPlane, release_overlay: Path) -> Iterator[None]:
    """The manifests with the component release, applied; its binding goes when the test ends."""
    control_plane.kubectl("apply", "--kustomize", str(release_overlay))
    yield
    control_plane.kubectl("delete", "clusterrolebinding", "poolwarden-release")


def deployment(objects: list[Object], component: str) -> Object:
    """The Deployment of a component among the objects."""
    (found,) = (
        item for item in objects if item["kind"] == "Deployment" and item["metadata"]["name"].endswith(component)
    )
    return found


def container(objects: list[Object], component: str) -> Object:
    """The one container of that Deployment."""
    (found,) = deployment(objects, component)["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def rights_of(user: str, plane: ControlPlane, namespace: str, expected: set[Right]) -> set[Right]:
    """What the API server says that the user may do there, once that is as expected or has had time to become so."""
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": namespace},
    }

    def ask() -> set[Right]:
        # --validate=false: else kubectl wants to read the CRDs first, which our accounts may not
        command = ("create", "--filename=-", "--output=json", "--validate=false")
        answer = plane.kubectl(*command, input=json.dumps(review), user=user).stdout
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
        wait_for(f"the rights of {user}", lambda: ask() == expected, seconds=10)
    return ask()


# --- what is installed --------------------------------------------------------------------------------------------


def unhashed(item: Object) -> str:
    """An object's name, for a ConfigMap without the hash of its content that kustomize adds."""
    name: str = item["metadata"]["name"]
    return name.rpartition("-")[0] if item["kind"] == "ConfigMap" else name


def settings(items: list[Object]) -> dict[str, str]:
    """What gc's ConfigMap says."""
    (found,) = (item for item in items if item["kind"] == "ConfigMap")
    data: dict[str, str] = found["data"]
    return data


def test_everything_is_installed_and_nothing_else(control_plane: ControlPlane) -> None:
    """The manifests make gc and the webhook with their accounts and roles, of which release is bound to nobody."""
    made = sorted(f"{item['kind']}/{unhashed(item)}" for item in build(control_plane, MANIFESTS))
    assert made == [
        "ClusterRole/poolwarden-observe",
        "ClusterRole/poolwarden-release",
        "ClusterRole/poolwarden-webhook",
        "ClusterRole/poolwarden-webhook-certificates",
        "ClusterRoleBinding/poolwarden-observe",
        "ClusterRoleBinding/poolwarden-webhook",
        "ClusterRoleBinding/poolwarden-webhook-certificates",
        "ConfigMap/poolwarden-gc-settings",
        "CustomResourceDefinition/poolguards.poolwarden.dev",
        "Deployment/poolwarden-gc",
        "Deployment/poolwarden-webhook",
        "MutatingWebhookConfiguration/poolwarden",
        "Namespace/poolwarden",
        "PodDisruptionBudget/poolwarden-webhook",
        "Role/poolwarden-lease",
        "Role/poolwarden-webhook-certificates",
        "RoleBinding/poolwarden-lease",
        "RoleBinding/poolwarden-webhook-certificates",
        "Service/poolwarden-webhook",
        "ServiceAccount/poolwarden-gc",
        "ServiceAccount/poolwarden-webhook",
        "ValidatingAdmissionPolicy/poolwarden-webhook-certificates",
        "ValidatingAdmissionPolicyBinding/poolwarden-webhook-certificates",
        "ValidatingWebhookConfiguration/poolwarden",
    ]


def test_everything_is_labelled(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Every object says that it is poolwarden's, so that all can be listed and removed by one label."""
    folders = [MANIFESTS, MANIFESTS / "monitoring"]
    for component in (MANIFESTS / "components").iterdir():
        (tmp_path / component.name).mkdir()
        folders.append(overlay(tmp_path / component.name, component.name))
    for item in (item for folder in folders for item in build(control_plane, folder)):
        labels = item["metadata"]["labels"]
        ours = {"app.kubernetes.io/name": "poolwarden", "app.kubernetes.io/part-of": "poolwarden"}
        assert ours.items() <= labels.items(), (item["kind"], item["metadata"]["name"])


def test_the_definition_is_labelled_without_kustomize() -> None:
    """The CRD that gc makes itself carries the labels that kustomize would add."""
    crd = yaml.safe_load((MANIFESTS / "crd" / "poolguards.yaml").read_text())
    pairs = yaml.safe_load((MANIFESTS / "kustomization.yaml").read_text())["labels"][0]["pairs"]
    assert crd["metadata"]["labels"] == pairs


def test_another_namespace_takes_all_along(control_plane: ControlPlane, tmp_path: Path) -> None:
    """An overlay's `namespace` moves everything together: every binding's subject, and the Service that is called."""
    items = build(control_plane, overlay(tmp_path, "release", namespace="elsewhere"))
    subjects = [subject["namespace"] for item in items for subject in item.get("subjects", ())]
    homes = [item["metadata"]["namespace"] for item in items if "namespace" in item["metadata"]]
    called = [webhook["clientConfig"]["service"]["namespace"] for item in items for webhook in item.get("webhooks", ())]
    # Two of the homes are those of a policy and its binding: kustomize takes them for namespaced, the API server ignores it.
    assert (len(subjects), len(homes), len(called)) == (6, 13, 8)
    assert {*subjects, *homes, *called} == {"elsewhere"}


def test_one_image_is_named_for_all(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Both Deployments run this version, from wherever an overlay's `images` says."""
    images = [{"name": "poolwarden", "newName": "registry.example/poolwarden"}]
    items = build(control_plane, overlay(tmp_path, images=images))
    for component in ("gc", "webhook"):
        assert container(items, component)["image"] == f"registry.example/poolwarden:{version('poolwarden')}"


@pytest.mark.parametrize(
    ("components", "mode", "pods"),
    [
        ((), "observe", "Ignore"),
        (("release",), "opt-in", "Ignore"),
        (("strict",), "observe", "Fail"),
    ],
    ids=lambda value: "".join(value) if isinstance(value, tuple) else "",
)
def test_components_change_one_thing_each(
    control_plane: ControlPlane, tmp_path: Path, components: tuple[str, ...], mode: str, pods: str
) -> None:
    """Release lets gc release where a PoolGuard says so; strict makes pods wait, and nothing else."""
    items = build(control_plane, overlay(tmp_path, *components))
    assert settings(items)["MODE"] == mode
    policies = {webhook["name"]: webhook["failurePolicy"] for item in items for webhook in item.get("webhooks", ())}
    assert policies == {
        "mutate-pods.poolwarden.dev": pods,
        "validate-pods.poolwarden.dev": pods,
        "mutate-pools.poolwarden.dev": "Fail",
        "validate-pools.poolwarden.dev": "Fail",
        "mutate-networks.poolwarden.dev": "Ignore",
        "validate-networks.poolwarden.dev": "Ignore",
        "validate-ranges.poolwarden.dev": "Ignore",
        "validate-workloads.poolwarden.dev": "Ignore",
    }


def test_gcs_settings_are_those_that_it_takes(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Each key of the ConfigMap stands in an argument that gc knows, and has its own default; a change renames it."""
    items = build(control_plane, MANIFESTS)
    data, arguments = settings(items), container(items, "gc")["args"]
    expanded = [re.sub(r"\$\((\w+)\)", lambda found: data[found[1]], argument) for argument in arguments]
    assert parser().parse_args(expanded) == parser().parse_args(["gc"])
    assert {name for argument in arguments for name in re.findall(r"\$\((\w+)\)", argument)} == set(data)
    generator = [
        {"name": "poolwarden-gc-settings", "namespace": "poolwarden", "behavior": "merge", "literals": ["GRACE=30m"]}
    ]
    longer = build(control_plane, overlay(tmp_path, configMapGenerator=generator))
    assert settings(longer) == data | {"GRACE": "30m"}
    names = [container(each, "gc")["envFrom"][0]["configMapRef"]["name"] for each in (items, longer)]
    assert len(set(names)) == 2


def test_a_cron_job_takes_the_place_of_the_deployment(control_plane: ControlPlane, tmp_path: Path) -> None:
    """With the same account, image and settings, but once; the webhook stays as it is."""
    items = build(control_plane, overlay(tmp_path, "cronjob", "release"))
    assert [item["metadata"]["name"] for item in items if item["kind"] == "Deployment"] == ["poolwarden-webhook"]
    (job,) = (item["spec"]["jobTemplate"]["spec"]["template"]["spec"] for item in items if item["kind"] == "CronJob")
    before = build(control_plane, MANIFESTS)
    daemon, pod = container(before, "gc"), deployment(before, "gc")["spec"]["template"]["spec"]
    (once,) = job["containers"]
    assert job["serviceAccountName"] == pod["serviceAccountName"]
    assert {key: once[key] for key in ("image", "securityContext", "resources")} == {
        key: daemon[key] for key in ("image", "securityContext", "resources")
    }
    assert [item for item in once["args"] if item != "--once"] == [
        item for item in daemon["args"] if not item.startswith(("--interval", "--metrics"))
    ]
    assert settings(items)["MODE"] == "opt-in"


def test_rebalancing_has_a_role_of_its_own(control_plane: ControlPlane, tmp_path: Path) -> None:
    """Off by default: only the component lets gc write a pool's spec, and nothing else."""
    before = [item["metadata"]["name"] for item in build(control_plane, MANIFESTS)]
    after = build(control_plane, overlay(tmp_path, "rebalance"))
    more = [item for item in after if item["metadata"]["name"] not in before]
    assert [(item["kind"], item["metadata"]["name"]) for item in more] == [
        ("ClusterRole", "poolwarden-rebalance"),
        ("ClusterRoleBinding", "poolwarden-rebalance"),
    ]
    assert more[0]["rules"] == [
        {"apiGroups": ["spiderpool.spidernet.io"], "resources": ["spiderippools"], "verbs": ["patch"]}
    ]


def test_cert_manager_takes_the_place_of_our_own_certificates(control_plane: ControlPlane, tmp_path: Path) -> None:
    """It fills the Secret that is mounted and both caBundles; the webhook neither keeps certificates nor may."""
    items = build(control_plane, overlay(tmp_path, "cert-manager"))
    assert container(items, "webhook")["args"] == ["webhook", "--certificates=provided"]
    assert not [item for item in items if item["metadata"]["name"] == "poolwarden-webhook-certificates"]
    leaf = next(i for i in items if i["kind"] == "Certificate" and i["spec"]["secretName"] == CERTIFICATES.tls_secret)
    assert f"{CERTIFICATES.service}.{CERTIFICATES.namespace}.svc" in leaf["spec"]["dnsNames"]
    wanted = f"{leaf['metadata']['namespace']}/{leaf['metadata']['name']}"
    injected = [item["metadata"]["annotations"] for item in items if item["kind"] in COLLECTIONS]
    assert injected == [{"cert-manager.io/inject-ca-from": wanted}] * 2


def test_the_deployment_is_what_the_program_expects(control_plane: ControlPlane) -> None:
    """Ports, mount, Secret, Service and times in the manifests are those that the program has by default."""
    items = build(control_plane, MANIFESTS)
    pod, webhook = deployment(items, "webhook")["spec"]["template"]["spec"], container(items, "webhook")
    defaults = ServerConfig()
    ports = {port["name"]: f"0.0.0.0:{port['containerPort']}" for port in webhook["ports"]}
    assert ports == {"https": defaults.bind, "metrics": defaults.metrics_bind}
    mounts = {mount["name"]: Path(mount["mountPath"]) for mount in webhook["volumeMounts"]}
    assert {defaults.tls_cert.parent, defaults.tls_key.parent} == {mounts["tls"]}
    secrets = {volume["name"]: volume["secret"] for volume in pod["volumes"] if "secret" in volume}
    assert secrets["tls"]["secretName"] == CERTIFICATES.tls_secret
    (service,) = (item["metadata"]["name"] for item in items if item["kind"] == "Service")
    assert service == CERTIFICATES.service
    assert pod["terminationGracePeriodSeconds"] > webhook["lifecycle"]["preStop"]["sleep"]["seconds"] + GRACEFUL_SECONDS


@pytest.mark.parametrize(
    ("components", "namespace"),
    [
        ((), "poolwarden"),
        (("release", "strict"), "poolwarden"),
        (("rebalance", "cronjob", "network-policy", "flow-schema"), "poolwarden"),
        ((), "default"),
    ],
    ids=["default", "components", "more-components", "another-namespace"],
)
def test_the_api_server_accepts_all(
    control_plane: ControlPlane, tmp_path: Path, components: tuple[str, ...], namespace: str
) -> None:
    """A dry run of every object passes the API server without a warning, the pods under the namespace's restrictions too."""
    folder = overlay(tmp_path, *components, namespace=namespace)
    result = control_plane.kubectl("apply", "--dry-run=server", "--kustomize", str(folder))
    assert len(result.stdout.splitlines()) == len(build(control_plane, folder))
    warnings = [line for line in result.stderr.splitlines() if "Warning" in line]
    assert [line for line in warnings if "namespaces/default" not in line] == []  # which kubectl has not made


# --- rights -------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("installed")
def test_by_default_gc_reads_and_writes_only_its_own(control_plane: ControlPlane) -> None:
    """As installed, gc may read what verdicts rest on, and write its guards, their CRD and events, but nothing of an IPAM."""
    assert rights_of(GC, control_plane, "default", OBSERVE) == OBSERVE


@pytest.mark.usefixtures("installed")
def test_leases_are_gcs_at_home_alone(control_plane: ControlPlane) -> None:
    """In its own namespace, and in no other, gc may take a lease as well."""
    assert rights_of(GC, control_plane, "poolwarden", OBSERVE | LEASE) == OBSERVE | LEASE


@pytest.mark.usefixtures("installed", "released")
def test_release_adds_the_writes_that_it_takes(control_plane: ControlPlane) -> None:
    """The component release adds the writes of records, endpoints and reservations, and of no owner, node or other thing."""
    assert rights_of(GC, control_plane, "default", OBSERVE | RELEASE) == OBSERVE | RELEASE


@pytest.mark.usefixtures("installed")
def test_the_webhook_reads_what_its_rules_know(control_plane: ControlPlane) -> None:
    """The webhook may watch the kinds that its rules know, and write its own two configurations, and nothing else."""
    assert rights_of(WEBHOOK, control_plane, "default", KNOWLEDGE) == KNOWLEDGE


@pytest.mark.usefixtures("installed")
def test_secrets_are_the_webhooks_at_home_alone(control_plane: ControlPlane) -> None:
    """In its own namespace it may keep its two Secrets and its lease as well."""
    assert rights_of(WEBHOOK, control_plane, "poolwarden", KNOWLEDGE | KEEPING) == KNOWLEDGE | KEEPING


@pytest.mark.usefixtures("installed")
def test_the_webhooks_rights_fill_its_cache(control_plane: ControlPlane) -> None:
    """With the ServiceAccount's own rights, every kind that the rules know is read to its end."""
    stop = Event()
    cache = Cache(KubeTransport(kubeconfig=str(control_plane.kubeconfig(WEBHOOK))))
    cache.start(stop)
    try:
        assert cache.wait(30)
        assert cache.problems() == ()
    finally:
        stop.set()


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    "arguments",
    [
        ("get", "secret", "other", "--namespace=poolwarden"),
        ("get", "secrets", "--namespace=poolwarden"),
        ("get", "secret", "poolwarden-webhook-ca", "--namespace=default"),
        ("get", "pods", "--all-namespaces"),
        ("get", "lease", "poolwarden-gc", "--namespace=poolwarden"),
        ("delete", "secret", "poolwarden-webhook-ca", "--namespace=poolwarden"),
        ("delete", "validatingwebhookconfiguration", "poolwarden"),
        ("annotate", "validatingwebhookconfiguration", "other", "a=b"),
        ("annotate", "spiderippool", "any", "a=b"),
    ],
    ids=" ".join,
)
def test_the_webhook_may_not_more(control_plane: ControlPlane, arguments: tuple[str, ...]) -> None:
    """What the webhook has no business with is forbidden to it."""
    result = control_plane.kubectl(*arguments, user=WEBHOOK, check=False)
    assert "(Forbidden)" in result.stderr


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("poolwarden-webhook-ca", "kubernetes.io/service-account-token"),
        ("poolwarden-webhook-tls", "Opaque"),
        ("other", "kubernetes.io/tls"),
    ],
)
def test_the_webhook_makes_no_other_secret(control_plane: ControlPlane, name: str, kind: str) -> None:
    """One of type service-account-token would be filled with the token of the account that it names."""
    metadata = {"name": name, "annotations": {"kubernetes.io/service-account.name": "poolwarden-gc"}}
    secret: Object = {"metadata": metadata, "type": kind}
    if kind == "kubernetes.io/tls":
        secret["data"] = {"tls.crt": "", "tls.key": ""}
    path = "/api/v1/namespaces/poolwarden/secrets?dryRun=All"

    def is_refused() -> bool:  # once the API server heeds the policy
        body = json.dumps({"apiVersion": "v1", "kind": "Secret", **secret})
        result = control_plane.kubectl("create", "--raw", path, "--filename=-", input=body, user=WEBHOOK, check=False)
        return "no other" in result.stdout + result.stderr

    wait_for("the refusal", is_refused)


# --- certificates and the caBundle --------------------------------------------------------------------------------


def bundles(plane: ControlPlane) -> set[str]:
    """The caBundles of all webhooks, "" where there is none."""
    configurations = (plane.request("GET", f"{collection}/poolwarden") for collection in COLLECTIONS.values())
    return {webhook["clientConfig"].get("caBundle", "") for item in configurations for webhook in item["webhooks"]}


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("first", [(), ("--server-side",)], ids=["client-side", "server-side"])
@pytest.mark.parametrize("again", [(), ("--server-side",)], ids=["client-side-again", "server-side-again"])
def test_the_ca_bundle_outlives_another_apply(
    control_plane: ControlPlane, first: tuple[str, ...], again: tuple[str, ...]
) -> None:
    """The webhook's own rights publish a caBundle to all webhooks, and applying the manifests again leaves it there."""
    unregister(control_plane)
    control_plane.kubectl("apply", "--kustomize", str(MANIFESTS), *first)
    assert bundles(control_plane) == {""}
    kubeconfig = ("--kubeconfig", str(control_plane.kubeconfig(WEBHOOK)))
    command = [sys.executable, "-m", "poolwarden", "certs", "ensure", *kubeconfig, "--namespace", "poolwarden"]
    subprocess.run(command, check=True, timeout=60)
    (published,) = bundles(control_plane)
    assert base64.b64decode(published).startswith(b"-----BEGIN CERTIFICATE-----")
    for _ in range(2):
        control_plane.kubectl("apply", "--kustomize", str(MANIFESTS), *again)
    assert bundles(control_plane) == {published}


@pytest.mark.usefixtures("installed")
def test_what_is_installed_is_called_by_its_service(control_plane: ControlPlane) -> None:
    """Registered as shipped, the API server asks the Service: nobody is behind it here, which it says of a PoolGuard."""
    guard = {"apiVersion": "poolwarden.dev/v1alpha1", "kind": "PoolGuard", "metadata": {"name": "spiderpool.any"}}
    spec = {"poolRef": {"ipam": "spiderpool", "name": "any"}}

    def answer() -> str:
        try:
            control_plane.request("POST", "/apis/poolwarden.dev/v1alpha1/poolguards?dryRun=All", guard | {"spec": spec})
        except ApiError as error:
            return str(error)
        return ""

    told = wait_for("the webhooks to be heeded", answer)
    assert "https://poolwarden-webhook.poolwarden.svc:443/mutate-pools?timeout=5s" in told
