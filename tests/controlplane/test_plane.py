from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from controlplane.client import ApiError
from controlplane.kubelet import NETWORK_STATUS, Object, is_ready
from controlplane.plane import ControlPlane
from controlplane.server import StartError, wait_for

READ_PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}


@dataclass(frozen=True)
class Pods:
    """The pods of one namespace."""

    plane: ControlPlane
    namespace: str

    def find(self, name: str) -> Object | None:
        """Returns the pod, or None."""
        return self.plane.find(f"/api/v1/namespaces/{self.namespace}/pods/{name}")

    def wait_for(self, name: str, condition: Callable[[Object], bool], *, not_uid: str = "") -> Object:
        """Returns the pod once it meets the condition, under another UID than the given one."""

        def probe() -> Object | None:
            pod = self.find(name)
            return pod if pod and pod["metadata"]["uid"] != not_uid and condition(pod) else None

        return wait_for(f"pod {self.namespace}/{name}", probe)

    def stay(self, name: str, uid: str, seconds: float = 2) -> bool:
        """Tells whether the pod with this UID remains for the whole time."""

        def is_there() -> bool:
            pod = self.find(name)
            return pod is not None and bool(pod["metadata"]["uid"] == uid)

        return holds(is_there, seconds)

    def delete(self, name: str) -> None:
        """Deletes the pod gracefully, without waiting for its end."""
        self.plane.kubectl("delete", "pod", name, "--namespace", self.namespace, "--wait=false")

    def apply(self, kind: str, name: str, node: str, replicas: int = 1) -> None:
        """Applies a StatefulSet or Deployment whose pods run on the node."""
        workload = {
            "apiVersion": "apps/v1",
            "kind": kind,
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"nodeName": node, "containers": [{"name": "main", "image": "example.test/main:1"}]},
                },
            },
        }
        self.plane.kubectl("apply", "--namespace", self.namespace, "--filename", "-", input=json.dumps(workload))


def holds(condition: Callable[[], bool], seconds: float) -> bool:
    """Tells whether the condition holds each time it is looked at within the time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not condition():
            return False
        time.sleep(0.1)
    return True


@pytest.fixture
def pods(control_plane: ControlPlane, namespace: str) -> Pods:
    """The pods of the test's namespace."""
    return Pods(control_plane, namespace)


def test_statefulset_pod_comes_back_with_another_uid(pods: Pods, node: str) -> None:
    """A deleted StatefulSet pod is made again under the same name with another UID."""
    pods.apply("StatefulSet", "web", node, replicas=2)
    first = pods.wait_for("web-0", is_ready)
    pods.wait_for("web-1", is_ready)

    pods.plane.kubectl("delete", "pod", "web-0", "--namespace", pods.namespace)

    pods.wait_for("web-0", is_ready, not_uid=first["metadata"]["uid"])


def test_test_gives_the_addresses_where_kwok_runs_the_pod(pods: Pods, node: str) -> None:
    """On a node with a kubelet run_pod replaces kwok's addresses, and a deletion still completes by itself."""
    pods.apply("StatefulSet", "web", node)

    pod = pods.plane.run_pod(pods.namespace, "web-0", ips=["192.0.2.7"])
    pods.delete("web-0")

    assert pod["status"]["podIPs"] == [{"ip": "192.0.2.7"}]
    pods.wait_for("web-0", is_ready, not_uid=pod["metadata"]["uid"])


def test_test_runs_the_pod_where_there_is_no_kubelet(pods: Pods, bare_node: str) -> None:
    """On a node without a kubelet a pod has exactly the status that the test reports."""
    pods.apply("StatefulSet", "web", bare_node)
    attachments = [{"name": "kube-system/blue", "interface": "net1", "ips": ["192.0.2.7"]}]

    pods.plane.run_pod(pods.namespace, "web-0", ips=["192.0.2.7", "2001:db8::7"], network_status=attachments)

    pod = pods.wait_for("web-0", is_ready)
    assert pod["status"]["phase"] == "Running"
    assert pod["status"]["podIPs"] == [{"ip": "192.0.2.7"}, {"ip": "2001:db8::7"}]
    assert json.loads(pod["metadata"]["annotations"][NETWORK_STATUS]) == attachments
    assert "running" in pod["status"]["containerStatuses"][0]["state"]


def test_pod_without_kubelet_terminates_until_forced(pods: Pods, bare_node: str) -> None:
    """A deleted pod on a node without a kubelet stays Terminating until it is removed by force, then comes back."""
    pods.apply("StatefulSet", "web", bare_node)
    uid = pods.plane.run_pod(pods.namespace, "web-0", ips=["192.0.2.7"])["metadata"]["uid"]

    pods.delete("web-0")

    assert pods.stay("web-0", uid)
    pods.plane.force_delete_pod(pods.namespace, "web-0")
    pods.wait_for("web-0", lambda pod: pod["status"]["phase"] == "Pending", not_uid=uid)


def test_finished_pod_keeps_its_addresses(pods: Pods, bare_node: str) -> None:
    """finish_pod leaves a Failed pod with all containers terminated, no sandbox, and the addresses it had."""
    spec = {
        "nodeName": bare_node,
        "restartPolicy": "Never",
        "initContainers": [
            {"name": "init", "image": "example.test/init:1"},
            {"name": "sidecar", "image": "example.test/sidecar:1", "restartPolicy": "Always"},
        ],
        "containers": [{"name": "main", "image": "example.test/main:1"}],
    }
    pods.plane.request("POST", f"/api/v1/namespaces/{pods.namespace}/pods", {"metadata": {"name": "job"}, "spec": spec})
    pods.plane.run_pod(pods.namespace, "job", ips=["192.0.2.7"])

    status = pods.plane.finish_pod(pods.namespace, "job", exit_code=1)["status"]

    containers = [*status["containerStatuses"], *status["initContainerStatuses"]]
    assert status["phase"] == "Failed"
    assert status["podIPs"] == [{"ip": "192.0.2.7"}]
    assert [container["state"].keys() for container in containers] == [{"terminated"}] * 3
    assert {"PodReadyToStartContainers": "False"}.items() <= {
        c["type"]: c["status"] for c in status["conditions"]
    }.items()


def test_deployment_runs_on_both_kinds_of_node(pods: Pods, node: str, bare_node: str) -> None:
    """A Deployment makes its pods on nodes with and without a kubelet."""
    for name, where in (("kept", node), ("bare", bare_node)):
        pods.apply("Deployment", name, where, replicas=2)
    path = f"/api/v1/namespaces/{pods.namespace}/pods?labelSelector=app="

    def phases(name: str) -> set[str]:
        found = pods.plane.request("GET", path + name)["items"]
        return {pod["status"]["phase"] for pod in found} if len(found) == 2 else set()

    wait_for("the pods with a kubelet", lambda: phases("kept") == {"Running"})
    wait_for("the pods without one", lambda: phases("bare") == {"Pending"})


def test_node_that_is_not_ready_stays_so(pods: Pods, node: str) -> None:
    """A stopped kubelet lets node and pods be; once it is back, it completes the deletions it missed."""
    pods.apply("StatefulSet", "web", node)
    uid = pods.wait_for("web-0", is_ready)["metadata"]["uid"]

    pods.plane.set_node_ready(node, False)
    pods.delete("web-0")

    assert holds(lambda: not is_ready(pods.plane.request("GET", f"/api/v1/nodes/{node}")), 3)
    assert pods.stay("web-0", uid, 0.5)
    pods.plane.set_node_ready(node, True)
    pods.wait_for("web-0", is_ready, not_uid=uid)


def test_limited_user_may_do_what_was_granted(control_plane: ControlPlane, namespace: str, limited_user: str) -> None:
    """A limited user is refused everything, and allowed what rules grant, by kubectl and by request."""
    command = ("get", "pods", "--namespace", namespace)
    refused = control_plane.kubectl(*command, user=limited_user, check=False)

    control_plane.grant(limited_user, [READ_PODS])

    assert "Forbidden" in refused.stderr
    assert control_plane.kubectl(*command, user=limited_user).returncode == 0
    with pytest.raises(ApiError, match='cannot list resource "secrets"') as error:
        control_plane.request("GET", f"/api/v1/namespaces/{namespace}/secrets", user=limited_user)
    assert error.value.status == 403


def test_rights_end_with_the_loan_of_the_user(control_plane: ControlPlane) -> None:
    """A user who was lent before has no rights left."""
    with control_plane.limited_user() as user:
        control_plane.grant(user, [READ_PODS])

    def refused() -> bool:
        try:
            control_plane.request("GET", "/api/v1/pods", user=user)
        except ApiError as error:
            return error.reason == "Forbidden"
        return False

    wait_for("the rights to end", refused)


def test_service_account_has_a_kubeconfig(control_plane: ControlPlane, namespace: str) -> None:
    """A kubeconfig can be had for a ServiceAccount, to run a program with the very rights of its manifests."""
    control_plane.kubectl("create", "serviceaccount", "collector", "--namespace", namespace)

    user = f"system:serviceaccount:{namespace}:collector"

    whoami = json.loads(control_plane.kubectl("auth", "whoami", "--output=json", user=user).stdout)
    assert whoami["status"]["userInfo"]["username"] == user


def test_kubectl_failure_says_why(control_plane: ControlPlane) -> None:
    """A failing kubectl raises an error that carries what it printed."""
    with pytest.raises(subprocess.CalledProcessError) as error:
        control_plane.kubectl("get", "unheard-of")
    assert "unheard-of" in error.value.stderr
    assert error.value.__notes__ == [error.value.stderr]


def test_restart_keeps_data_and_stop_leaves_nothing(control_plane_programs: Mapping[str, Path], tmp_path: Path) -> None:
    """A restarted API server serves what it served before at the same URL; after the stop no program is left."""
    with ControlPlane(control_plane_programs, tmp_path / "plane", controllers=False, kubelets=False) as plane:
        plane.add_namespace("kept")
        url = plane.url

        plane.stop_apiserver()
        with pytest.raises(ConnectionRefusedError):
            _connect(url)
        plane.start_apiserver()

        assert plane.url == url
        assert plane.find("/api/v1/namespaces/kept")
        pids = plane.pids
        assert len(pids) == 2

    assert plane.pids == []
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.killpg(pid, 0)
    with pytest.raises(ConnectionRefusedError):
        _connect(url)


def test_failed_start_shows_the_log_and_leaves_nothing(
    control_plane_programs: Mapping[str, Path], tmp_path: Path
) -> None:
    """If a program ends before it is ready, the error shows the tail of its log, and the others are stopped."""
    broken = tmp_path / "kube-apiserver"
    broken.write_text("#!/bin/sh\necho no such flag\nexit 1\n")
    broken.chmod(0o755)
    plane = ControlPlane({**control_plane_programs, "kube-apiserver": broken}, tmp_path / "plane")

    with pytest.raises(StartError, match=r"(?s)kube-apiserver ended before .*no such flag"):
        plane.__enter__()

    assert plane.pids == []


def _connect(url: str) -> None:
    host, port = url.removeprefix("https://").split(":")
    socket.create_connection((host, int(port))).close()
