"""What a kubelet reports about its node and pods: the status that a test writes where no kubelet runs."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeAlias

Object: TypeAlias = dict[str, Any]

NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
POD_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def now() -> str:
    """The present time as the API server writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node_status(*, ready: bool) -> Object:
    """A node that is Ready, or one whose kubelet is not heard of any more."""
    verdict = ("True", "KubeletReady", "kubelet is posting ready status")
    if not ready:
        verdict = ("Unknown", "NodeStatusUnknown", "Kubelet stopped posting node status.")
    status, reason, message = verdict
    time = now()
    condition = {"type": "Ready", "status": status, "reason": reason, "message": message}
    return {"conditions": [{**condition, "lastHeartbeatTime": time, "lastTransitionTime": time}]}


def is_ready(obj: Object) -> bool:
    """Tells whether a Node or Pod has the condition Ready."""
    conditions = obj.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def running(pod: Object, ips: Sequence[str]) -> Object:
    """The status of the pod with all its containers up, at these addresses."""
    time = now()
    up = {"running": {"startedAt": time}}
    return {
        "phase": "Running",
        "startTime": time,
        "podIP": ips[0] if ips else None,
        "podIPs": [{"ip": ip} for ip in ips] or None,
        "conditions": _conditions(time, dict.fromkeys(POD_CONDITIONS, "True")),
        "containerStatuses": [_container(container, up, ready=True) for container in pod["spec"]["containers"]],
        "initContainerStatuses": [
            _container(container, up if _is_sidecar(container) else _terminated(time), ready=True)
            for container in pod["spec"].get("initContainers", [])
        ],
    }


def finished(pod: Object, exit_code: int) -> Object:
    """The status of the pod with all its containers terminated and its sandbox gone; its addresses stay."""
    time = now()
    down = _terminated(time, exit_code)
    done = {"Initialized": "True", "PodScheduled": "True"}
    return {
        "phase": "Failed" if exit_code else "Succeeded",
        "conditions": _conditions(time, dict.fromkeys(POD_CONDITIONS, "False") | done),
        "containerStatuses": [_container(container, down, ready=False) for container in pod["spec"]["containers"]],
        "initContainerStatuses": [
            _container(container, _terminated(time), ready=not _is_sidecar(container))
            for container in pod["spec"].get("initContainers", [])
        ],
    }


def _conditions(time: str, statuses: Mapping[str, str]) -> list[Object]:
    return [{"type": kind, "status": status, "lastTransitionTime": time} for kind, status in statuses.items()]


def _is_sidecar(container: Object) -> bool:
    """Tells whether an init container runs on beside the containers proper."""
    return container.get("restartPolicy") == "Always"


def _terminated(time: str, exit_code: int = 0) -> Object:
    reason = "Error" if exit_code else "Completed"
    return {"terminated": {"exitCode": exit_code, "reason": reason, "startedAt": time, "finishedAt": time}}


def _container(container: Object, state: Object, *, ready: bool) -> Object:
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": container["image"],
        "containerID": f"containerd://{uuid.uuid4().hex}",
        "ready": ready,
        "started": "running" in state,
        "restartCount": 0,
        "state": state,
    }
