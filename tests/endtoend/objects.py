"""Objects that users apply."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import Any

NETWORKS = "k8s.v1.cni.cncf.io/networks"
DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
IPPOOLS = "ipam.spidernet.io/ippools"
NAMESPACE = "team-a"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
Object = dict[str, Any]

UNNAMED = {
    DEFAULT_NETWORK: "kube-system/base",
    NETWORKS: "a,kube-system/vlan",
    IPPOOLS: '[{"ipv4": ["p0"]}, {"ipv4": ["p1"]}]',
}
NAMED = {
    DEFAULT_NETWORK: "kube-system/base",
    NETWORKS: "a@net1,kube-system/vlan@net2",
    IPPOOLS: '[{"ipv4": ["p0"], "interface": "eth0"}, {"ipv4": ["p1"], "interface": "net2"}]',
}


def unique(name: str = "web") -> str:
    """A name that no other test uses."""
    return f"{name}-{secrets.token_hex(4)}"


def template(annotations: Mapping[str, str], **labels: str) -> Object:
    """A pod's metadata and spec, on the one node."""
    metadata: Object = {"annotations": dict(annotations), "labels": {"app": "web", **labels}}
    return {"metadata": metadata, "spec": {"nodeName": "n1", "containers": [{"name": "app", "image": "app"}]}}


def pod(annotations: Mapping[str, str], name: str = "") -> Object:
    """A pod of NAMESPACE."""
    made = template(annotations)
    made["metadata"] |= {"name": name or unique(), "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def workload(kind: str, annotations: Mapping[str, str]) -> Object:
    """A Deployment or StatefulSet of two pods."""
    name = unique()
    spec: Object = {
        "replicas": 2,
        "selector": {"matchLabels": {"set": name}},
        "template": template(annotations, set=name),
    }
    if kind == "StatefulSet":
        spec["serviceName"] = name
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


def annotations_of(stored: Object) -> dict[str, str]:
    """Those that rules speak of."""
    found = stored["metadata"].get("annotations", {})
    return {key: found[key] for key in UNNAMED if key in found}


def text(obj: Object) -> str:
    """For kubectl's standard input."""
    return json.dumps(obj)
