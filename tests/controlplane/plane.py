"""A real Kubernetes control plane as the tests use it."""

from __future__ import annotations

import json
import secrets
import subprocess
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from controlplane import kubelet, kwok
from controlplane.client import ADMIN, NAMESPACES, NODES
from controlplane.kubelet import Object
from controlplane.programs import Programs
from controlplane.server import wait_for

USERS = tuple(f"user-{number}" for number in range(16))
SERVICE_ACCOUNT = "system:serviceaccount:"
GRANTED_TO = "poolwarden.test/granted-to"
RBAC = "/apis/rbac.authorization.k8s.io/v1"


class ControlPlane:
    """etcd and kube-apiserver, by choice with controllers and with kubelets (kwok), alive within a ``with`` block.

    There is no scheduler: pods name their node. There is no real kubelet either: on a node with a kubelet, kwok makes
    pods Running and completes their deletion; on a node without one, a pod stays as it is until the test reports its
    status (run_pod, finish_pod) or removes it (force_delete_pod). The node lifecycle controller is off: a node's
    conditions are those that kwok or the test wrote. Authorization is RBAC. The admission plugin ServiceAccount is
    off, so that pods can be made as soon as their namespace exists.
    """

    def __init__(
        self, programs: Mapping[str, Path], folder: Path, *, controllers: bool = True, kubelets: bool = True
    ) -> None:
        self.folder = folder
        self._kubectl = programs["kubectl"]
        self._has_kubelets = kubelets
        self._free_users = deque(USERS)
        tokens = {user: secrets.token_hex() for user in (ADMIN, *USERS)}
        self._programs = Programs(programs, folder, tokens, controllers=controllers, kubelets=kubelets)
        self._client = self._programs.client

    @property
    def url(self) -> str:
        """Where the API server listens, with a certificate for this address."""
        return self._client.url

    @property
    def pids(self) -> list[int]:
        """The process ids of all programs that run now."""
        return self._programs.pids

    # --- Life -----------------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        self._programs.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._programs.stop()

    def stop_apiserver(self) -> None:
        """Stops the API server: nobody answers at its port until it is started again.

        Controllers and kwok are stopped too: left alone they would retry ever more rarely, and miss its return.
        """
        self._programs.stop_apiserver()

    def start_apiserver(self) -> None:
        """Starts the API server again, on the data and at the port it had before; returns when it is ready."""
        self._programs.start_apiserver()

    def restart_apiserver(self) -> None:
        """Cuts every connection to the API server; returns when it is ready again."""
        self.stop_apiserver()
        self.start_apiserver()

    # --- Requests and users ---------------------------------------------------------------------------------------

    def request(
        self, method: str, path: str, body: Object | None = None, *, user: str = ADMIN, content_type: str | None = None
    ) -> Object:
        """Sends one request and returns the decoded answer; raises ApiError where the API server refuses.

        A PATCH is a JSON merge patch unless the content type says otherwise.
        """
        return self._client.request(method, path, body, user=user, content_type=content_type)

    def find(self, path: str) -> Object | None:
        """Returns the object at the path, or None where there is none."""
        return self._client.find(path)

    def kubectl(
        self,
        *arguments: str,
        input: str | None = None,  # noqa: A002 - as in subprocess.run
        user: str = ADMIN,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl as the user; what it printed is in the result, or in a note of CalledProcessError."""
        flags = [f"--kubeconfig={self.kubeconfig(user)}", f"--cache-dir={self.folder / 'kubectl-cache'}"]
        command = [str(self._kubectl), *flags, *arguments]
        result = subprocess.run(command, input=input, capture_output=True, text=True, timeout=120, check=False)
        if check and result.returncode:
            error = subprocess.CalledProcessError(result.returncode, command, result.stdout, result.stderr)
            error.add_note(result.stderr)
            raise error
        return result

    def kubeconfig(self, user: str = ADMIN) -> Path:
        """Writes a kubeconfig for ``admin``, one of USERS or ``system:serviceaccount:NAMESPACE:NAME``."""
        token = self._service_account_token(user) if user.startswith(SERVICE_ACCOUNT) else None
        path = self.folder / f"kubeconfig-{user.replace(':', '.')}.yaml"  # a colon would split KUBECONFIG
        self._client.write_kubeconfig(path, user, token)
        return path

    def _service_account_token(self, user: str) -> str:
        namespace, name = user.removeprefix(SERVICE_ACCOUNT).split(":")
        path = f"{NAMESPACES}/{namespace}/serviceaccounts/{name}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        return str(self.request("POST", path, body)["status"]["token"])

    @contextmanager
    def limited_user(self) -> Iterator[str]:
        """Lends a user who may do nothing; takes back whatever was granted in between."""
        user = self._free_users.popleft()
        try:
            yield user
        finally:
            for kind in ("clusterrolebindings", "clusterroles"):
                self.request("DELETE", f"{RBAC}/{kind}?labelSelector={GRANTED_TO}={user}")
            self._free_users.append(user)

    def grant(self, user: str, rules: Sequence[Object]) -> None:
        """Lets the user do what the PolicyRules say, in all namespaces; returns when the API server honours it."""
        name = _unique(user)
        self._create_role(user, name, rules)
        self.bind(user, name)

    def bind(self, user: str, cluster_role: str) -> None:
        """Binds the user to a ClusterRole, in all namespaces; returns when the API server honours it."""
        self._create_binding(user, cluster_role)
        self._wait_for_rbac(user)

    def _create_role(self, user: str, name: str, rules: Sequence[Object]) -> None:
        role = {"metadata": {"name": name, "labels": {GRANTED_TO: user}}, "rules": list(rules)}
        self.request("POST", f"{RBAC}/clusterroles", role)

    def _create_binding(self, user: str, cluster_role: str) -> None:
        group = "rbac.authorization.k8s.io"
        binding = {
            "metadata": {"name": _unique(user), "labels": {GRANTED_TO: user}},
            "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": cluster_role},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        self.request("POST", f"{RBAC}/clusterrolebindings", binding)

    def _wait_for_rbac(self, user: str) -> None:
        """Grants one more, unmistakable right: once it is honoured, so is all that was granted before."""
        mark = _unique(user)
        self._create_role(user, mark, [{"nonResourceURLs": [f"/{mark}"], "verbs": ["get"]}])
        self._create_binding(user, mark)
        review = {"spec": {"user": user, "nonResourceAttributes": {"path": f"/{mark}", "verb": "get"}}}
        path = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
        wait_for(f"the rights of {user}", lambda: self.request("POST", path, review)["status"]["allowed"])

    # --- Namespaces and nodes -------------------------------------------------------------------------------------

    def add_namespace(self, name: str) -> None:
        """Makes a namespace."""
        self.request("POST", NAMESPACES, {"metadata": {"name": name}})

    def remove_namespace(self, name: str) -> None:
        """Lets the namespace go without waiting for it; its pods are gone on return, finalizers apart."""
        self.request("DELETE", f"{NAMESPACES}/{name}")
        self.request("DELETE", f"{NAMESPACES}/{name}/pods", {"gracePeriodSeconds": 0})

    def add_node(self, name: str, *, ready: bool = True, kubelet_runs: bool = True) -> None:
        """Makes a node, with a kubelet played by kwok or with none; returns when it is Ready, or is not, as asked."""
        labels = {kwok.LABEL: kwok.STOPPED} if kubelet_runs and self._has_kubelets else {}
        self.request("POST", NODES, {"metadata": {"name": name, "labels": labels}})
        self.set_node_ready(name, ready)

    def set_node_ready(self, name: str, ready: bool) -> None:  # noqa: FBT001 - the setter of one boolean
        """Starts or stops the node's kubelet, if it has one, and lets the node's conditions say so.

        A stopped kubelet touches neither the node nor its pods any more: they keep their status, and stay Terminating
        once deleted (but a termination that has begun goes on to its end).
        """
        path = f"{NODES}/{name}"
        if kwok.kubelet_of(self.request("GET", path)):
            state = kwok.RUNNING if ready else kwok.STOPPED
            self.request("PATCH", path, {"metadata": {"labels": {kwok.LABEL: state}}})
            if ready:
                wait_for(f"node {name} to be Ready", lambda: kubelet.is_ready(self.request("GET", path)))
                return
            with kwok.probe(self._client) as reacted:
                wait_for("kwok to leave the node", reacted)
        self.request("PATCH", f"{path}/status", {"status": kubelet.node_status(ready=ready)})

    def remove_node(self, name: str) -> None:
        """Removes the Node object; the pod garbage collector takes its pods about a minute later."""
        self.request("DELETE", f"{NODES}/{name}")

    # --- Pods -----------------------------------------------------------------------------------------------------

    def run_pod(
        self, namespace: str, name: str, *, ips: Sequence[str], network_status: Sequence[Object] | None = None
    ) -> Object:
        """Reports the pod as Running and Ready at these addresses, and returns it.

        Waits for the pod to exist; on a node whose kubelet kwok plays, also for kwok to have started it, and then
        replaces the addresses that kwok gave. The network status is written as Multus writes it.
        """
        path = _pod(namespace, name)
        pod = wait_for(f"pod {namespace}/{name}", lambda: self._find_startable(path))
        patch: Object = {"status": kubelet.running(pod, ips)}
        if network_status is not None:
            text = json.dumps(list(network_status), indent=4)
            patch["metadata"] = {"annotations": {kubelet.NETWORK_STATUS: text}}
        return self.request("PATCH", f"{path}/status", patch)

    def _find_startable(self, path: str) -> Object | None:
        pod = self.find(path)
        if pod is None:
            return None
        node = self.find(f"{NODES}/{pod['spec']['nodeName']}")
        kwok_starts_it = node is not None and kwok.kubelet_of(node) == kwok.RUNNING
        return None if kwok_starts_it and not kubelet.is_ready(pod) else pod

    def finish_pod(self, namespace: str, name: str, *, exit_code: int = 0) -> Object:
        """Reports all containers of the pod as terminated and its sandbox as gone, and returns it."""
        path = _pod(namespace, name)
        status = kubelet.finished(self.request("GET", path), exit_code)
        return self.request("PATCH", f"{path}/status", {"status": status})

    def force_delete_pod(self, namespace: str, name: str) -> None:
        """Removes the Pod object at once, whatever its containers do, as ``kubectl delete --force`` does."""
        self.request("DELETE", _pod(namespace, name), {"gracePeriodSeconds": 0})


def _pod(namespace: str, name: str) -> str:
    return f"{NAMESPACES}/{namespace}/pods/{name}"


def _unique(user: str) -> str:
    return f"{user}-{secrets.token_hex(4)}"
