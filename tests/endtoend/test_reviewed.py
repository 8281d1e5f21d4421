"""On the real API server, with the program registered by the shipped manifests: what is stored, refused and told."""

from __future__ import annotations

import json
from functools import partial

import pytest

from controlplane.client import ApiError
from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from controlplane.whereabouts import Attachment, Whereabouts, records
from endtoend.objects import (
    DEFAULT_NETWORK,
    IPPOOLS,
    NAMED,
    NAMESPACE,
    NETWORKS,
    PODS,
    UNNAMED,
    Object,
    annotations_of,
    pod,
    text,
    unique,
    workload,
)
from endtoend.program import Program
from manifests.shipped import registered, shipped_webhooks

POOLS = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools"


def spider_pool(**spec: object) -> Object:
    """A SpiderIPPool of subnet 10.7.0.0/24."""
    whole = {"subnet": "10.7.0.0/24", "ipVersion": 4, "ips": ["10.7.0.10-10.7.0.20"], **spec}
    kind = {"apiVersion": "spiderpool.spidernet.io/v2beta1", "kind": "SpiderIPPool"}
    return {**kind, "metadata": {"name": unique("pool")}, "spec": whole}


def guard(**spec: object) -> Object:
    """A PoolGuard for p0."""
    kind = {"apiVersion": "poolwarden.dev/v1alpha1", "kind": "PoolGuard"}
    ref = {"ipam": "spiderpool", "name": "p0"}
    return {**kind, "metadata": {"name": "spiderpool.p0"}, "spec": {"poolRef": ref, **spec}}


def nad(config: str) -> Object:
    """A NetworkAttachmentDefinition."""
    kind = {"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition"}
    return {**kind, "metadata": {"name": unique("net"), "namespace": NAMESPACE}, "spec": {"config": config}}


@pytest.mark.usefixtures("webhook")
def test_a_pod_is_stored_with_explicit_names(control_plane: ControlPlane) -> None:
    """Networks and ippools, as Multus and Spiderpool would have named them."""
    assert annotations_of(control_plane.request("POST", PODS, pod(UNNAMED))) == NAMED


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet"])
def test_the_pods_of_a_workload_are_stored_with_explicit_names(control_plane: ControlPlane, kind: str) -> None:
    """The template stays as its author wrote it."""
    obj = workload(kind, UNNAMED)
    name = obj["metadata"]["name"]
    control_plane.kubectl("apply", "--filename=-", input=text(obj))

    def pods() -> list[Object]:
        found: list[Object] = control_plane.request("GET", f"{PODS}?labelSelector=set={name}")["items"]
        return found if len(found) == 2 else []

    assert [annotations_of(one) for one in wait_for("its pods", pods)] == [NAMED, NAMED]
    collection = f"/apis/apps/v1/namespaces/{NAMESPACE}/{kind.lower()}s"
    assert annotations_of(control_plane.request("GET", f"{collection}/{name}")["spec"]["template"]) == UNNAMED
    control_plane.request("DELETE", f"{collection}/{name}")


BASE = {DEFAULT_NETWORK: "kube-system/base"}
REFUSED: list[tuple[str, Object, str]] = [
    ("long name", pod({NETWORKS: "a@0123456789abcdef"}), "16 bytes"),
    ("reserved name", pod({NETWORKS: "a@all"}), "'all'"),
    ("duplicate", pod({NETWORKS: "a@x,b@x"}), "'x'"),
    ("eth0", pod({NETWORKS: "a@eth0"}), "'eth0'"),
    ("collision", pod({NETWORKS: "a@net2,b"}), "'net2'"),
    ("malformed JSON", pod({NETWORKS: "[{"}), "JSON"),
    ("malformed text", pod({NETWORKS: "a@b@c"}), "'@'"),
    ("empty item", pod({NETWORKS: "a,,b"}), "item 2"),
    ("bad ips", pod({NETWORKS: '[{"name":"a","ips":["10.0.0.999"]}]'}), "10.0.0.999"),
    ("bad MAC", pod({NETWORKS: '[{"name":"a","mac":"x"}]'}), "mac"),
    ("phantom item", pod({**BASE, IPPOOLS: '[{"ipv4":["p0"]},{"ipv4":["p1"]}]'}), "items: 2, NICs of Spiderpool's: 1"),
    ("no family", pod({**BASE, IPPOOLS: '[{"interface":"eth0"}]'}), "neither"),
    ("same pool twice", pod({**BASE, IPPOOLS: '[{"ipv4":["p0","p0"]}]'}), "twice"),
    ("other family", pod({**BASE, IPPOOLS: '[{"ipv6":["p0"]}]'}), "IPv4"),
    ("no such NIC", pod({"ipam.spidernet.io/default-route-nic": "net9"}), "'net9'"),
    ("bad routes", pod({"ipam.spidernet.io/routes": '[{"dst":"x","gw":"y"}]'}), "'x'"),
    ("reversed range", spider_pool(ips=["10.7.0.20-10.7.0.10"]), "reversed"),
    ("outside the subnet", spider_pool(ips=["10.8.0.1"]), "10.8.0.1"),
    ("gateway inside", spider_pool(gateway="10.7.0.12"), "10.7.0.12"),
    ("overlap", spider_pool(subnet="10.6.0.0/24", ips=["10.6.0.50"]), "p0"),
    ("low above target", guard(freeAddresses={"low": 9, "target": 5, "high": 20}), "less than or equal to"),
    ("high below target", guard(freeAddresses={"low": 1, "target": 5, "high": 2}), "greater than or equal to"),
    ("reserve outside", guard(reserve=["10.99.0.1"]), "10.99.0.1"),
    ("configuration", nad("{"), "JSON"),
    ("whereabouts range", nad('{"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/99"}}'), "10.0.0.0/99"),
]


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize(("obj", "fragment"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_kubectl_apply_is_refused_with_a_message_to_act_on(
    control_plane: ControlPlane, obj: Object, fragment: str
) -> None:
    """It says what is wrong with which value; the CRD itself refuses some PoolGuards before we are asked."""
    result = control_plane.kubectl("apply", "--filename=-", input=text(obj), check=False)
    assert result.returncode != 0, result.stdout
    assert "poolwarden.dev" in result.stderr or obj["kind"] == "PoolGuard"
    assert fragment in result.stderr


@pytest.mark.usefixtures("webhook")
def test_kubectl_apply_of_a_bad_deployment_prints_the_warning(control_plane: ControlPlane) -> None:
    """It is stored all the same."""
    obj = {**workload("Deployment", {NETWORKS: "a@eth0"})}
    obj["spec"]["replicas"] = 0
    result = control_plane.kubectl("apply", "--filename=-", input=text(obj))
    assert "Warning:" in result.stderr
    assert "'eth0'" in result.stderr


@pytest.mark.usefixtures("webhook")
def test_dry_run_on_the_server_works(control_plane: ControlPlane) -> None:
    """The result is the stored object's; nothing is stored."""
    obj = pod(UNNAMED)
    done = control_plane.kubectl("apply", "--dry-run=server", "-o", "json", "--filename=-", input=text(obj))
    assert annotations_of(json.loads(done.stdout)) == NAMED
    assert control_plane.find(f"{PODS}/{obj['metadata']['name']}") is None
    bad = control_plane.kubectl("apply", "--dry-run=server", "-f-", input=text(pod({NETWORKS: "a@eth0"})), check=False)
    assert "'eth0'" in bad.stderr


@pytest.mark.usefixtures("webhook")
def test_server_side_apply_is_not_hindered(control_plane: ControlPlane) -> None:
    """Applied a second time, our names are no conflict to the author whose text they came from."""
    obj = text(pod(NAMED))
    for _ in range(2):
        control_plane.kubectl("apply", "--server-side", "--filename=-", input=obj)


@pytest.mark.usefixtures("webhook")
@pytest.mark.parametrize("how", [[], ["--server-side"]], ids=["client-side", "server-side"])
def test_a_pod_that_is_applied_again_keeps_its_names(control_plane: ControlPlane, how: list[str]) -> None:
    """With the text that its author wrote at first, one item of which has a name."""
    partly = {**UNNAMED, IPPOOLS: '[{"ipv4": ["p0"], "interface": "eth0"}, {"ipv4": ["p1"]}]'}
    obj = pod(partly)
    for _ in range(2):
        control_plane.kubectl("apply", *how, "--filename=-", input=text(obj))
        assert annotations_of(control_plane.request("GET", f"{PODS}/{obj['metadata']['name']}")) == NAMED


def test_old_objects_are_edited_finalised_and_deleted(control_plane: ControlPlane, program: Program) -> None:
    """What was there before us, with whatever faults, stays its owner's."""
    faulty = pod({NETWORKS: "a@eth0", IPPOOLS: "["})
    faulty["metadata"]["finalizers"] = ["example.test/hold"]
    reversed_pool = spider_pool(ips=["10.7.0.20-10.7.0.10"])
    reversed_pool["metadata"]["finalizers"] = ["spiderpool.spidernet.io"]
    control_plane.request("POST", PODS, faulty)
    control_plane.request("POST", POOLS, reversed_pool)
    pod_path, pool_path = f"{PODS}/{faulty['metadata']['name']}", f"{POOLS}/{reversed_pool['metadata']['name']}"
    with registered(control_plane, shipped_webhooks(control_plane, program.url, program.authority)):
        for path in (pod_path, pool_path):
            control_plane.request("PATCH", path, {"metadata": {"labels": {"edited": "yes"}}})
            control_plane.request("PATCH", path, {"metadata": {"annotations": {"edited": "yes"}}})
        control_plane.request("PATCH", pool_path, {"spec": {"disable": True}})
        for path in (pod_path, pool_path):
            control_plane.request("DELETE", path, {"gracePeriodSeconds": 0})
            control_plane.request("PATCH", path, {"metadata": {"finalizers": None}})
            wait_for("its end", partial(_is_gone, control_plane, path))


def _is_gone(plane: ControlPlane, path: str) -> bool:
    return plane.find(path) is None


@pytest.mark.usefixtures("webhook")
def test_an_address_in_use_does_not_leave_its_pool(control_plane: ControlPlane) -> None:
    """The message names its pod."""
    obj = spider_pool()
    path = f"{POOLS}/{obj['metadata']['name']}"
    control_plane.request("POST", POOLS, obj)
    records_text = json.dumps({"10.7.0.15": {"pod": "team-a/web-0", "podUid": "u"}})
    control_plane.request("PATCH", f"{path}/status", {"status": {"allocatedIPs": records_text, "allocatedIPCount": 1}})
    with pytest.raises(ApiError, match="team-a/web-0"):
        control_plane.request("PATCH", path, {"spec": {"ips": ["10.7.0.10-10.7.0.14"]}})
    stored = control_plane.request("PATCH", path, {"spec": {"ips": ["10.7.0.15", "10.7.0.10-10.7.0.14"]}})
    assert stored["spec"]["ips"] == ["10.7.0.10-10.7.0.15"]
    control_plane.request("DELETE", path)


def test_the_real_whereabouts_plugin_allocates(
    control_plane: ControlPlane, program: Program, plugin: Whereabouts
) -> None:
    """With our webhook registered, and with it registered and down."""
    ipam = {"range": "10.56.0.0/24"}
    first, second = (Attachment(NAMESPACE, f"web-{at}", f"c{at}") for at in range(2))
    with registered(control_plane, shipped_webhooks(control_plane, program.url, program.authority)):
        assert plugin.add(ipam, first) == ["10.56.0.1/24"]
    with registered(control_plane, shipped_webhooks(control_plane, "https://127.0.0.1:1", program.authority)):
        assert plugin.add(ipam, second) == ["10.56.0.2/24"]
        plugin.delete(ipam, first)
        plugin.delete(ipam, second)
    assert "10.56.0" not in str(records(control_plane))


@pytest.mark.usefixtures("webhook")
def test_the_accounts_own_rights_suffice(control_plane: ControlPlane, program: Program) -> None:
    """Everything is known, nothing was forbidden, and what changes in the cluster is heard of."""
    status, page = program.page("readyz")
    assert (status, "[+] knowledge: ok" in page or "[!]" not in page) == (200, True), page
    assert "Forbidden" not in program.log.read_text()
    name = unique("late")
    config = json.dumps({"type": "macvlan", "ipam": {"type": "spiderpool"}})
    obj = nad(config)
    obj["metadata"]["name"] = name
    control_plane.kubectl("apply", "--filename=-", input=text(obj))
    wanted = {**BASE, NETWORKS: name, IPPOOLS: '[{"ipv4":["p0"]},{"ipv4":["p1"]}]'}

    def named() -> bool:
        stored = control_plane.request("POST", f"{PODS}?dryRun=All", pod(wanted))
        return '"interface"' in stored["metadata"]["annotations"][IPPOOLS]

    wait_for("the new network to be known", named)


@pytest.mark.usefixtures("webhook")
def test_what_was_answered_is_counted(control_plane: ControlPlane, program: Program) -> None:
    """By path, operation and verdict."""
    control_plane.request("POST", f"{PODS}?dryRun=All", pod(UNNAMED))
    _, text_ = program.page("metrics")
    sample = 'poolwarden_admission_requests_total{operation="CREATE",path="/mutate-pods",verdict="patched"}'
    value = next(line for line in text_.splitlines() if line.startswith(sample))
    assert float(value.split()[-1]) >= 1
    assert "poolwarden_certificate_not_after_seconds" in text_
