"""What Spiderpool's agent and controller write on a real API server, in the order in which they write it.

After `pkg/ipam/{allocate,release}.go` of v1.1: ADD writes the pool's record under resourceVersion, then the endpoint
with its finalizer (and, for all but StatefulSet pods, an ownerReference to the pod).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from controlplane.plane import ControlPlane

GROUP = "/apis/spiderpool.spidernet.io/v2beta1"
Object = dict[str, Any]


class Agent:
    """Spiderpool's writes for the pods of one namespace."""

    def __init__(self, plane: ControlPlane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace

    def make_pool(self, name: str, ips: str, **spec: Any) -> Object:
        """A SpiderIPPool without records, as its controller's informer has counted it."""
        size = int(ips.rpartition(".")[2]) - int(ips.partition("-")[0].rpartition(".")[2]) + 1
        subnet = ips.partition("-")[0].rpartition(".")[0] + ".0/24"
        body = {
            "apiVersion": "spiderpool.spidernet.io/v2beta1",
            "kind": "SpiderIPPool",
            "metadata": {"name": name, "finalizers": ["spiderpool.spidernet.io"]},
            "spec": {"subnet": subnet, "ips": [ips], "ipVersion": 4, **spec},
        }
        self.plane.request("POST", f"{GROUP}/spiderippools", body)
        return self._write_status(name, {"totalIPCount": size, "allocatedIPCount": 0})

    def records(self, pool: str) -> dict[str, Object]:
        """The records of a pool: address -> {pod, podUid}."""
        found = self.plane.request("GET", f"{GROUP}/spiderippools/{pool}")
        records: dict[str, Object] = json.loads(found["status"].get("allocatedIPs") or "{}")
        return records

    def count(self, pool: str) -> int:
        """status.allocatedIPCount."""
        return int(self.plane.request("GET", f"{GROUP}/spiderippools/{pool}")["status"]["allocatedIPCount"])

    def record(self, pool: str, address: str, pod: Object) -> None:
        """Write the record of an address for a pod, whoever had it before."""
        meta = pod["metadata"]
        entry = {"pod": f"{meta['namespace']}/{meta['name']}", "podUid": meta["uid"]}
        self.set_records(pool, self.records(pool) | {address: entry})

    def set_records(self, pool: str, records: Mapping[str, Object]) -> None:
        """Write all records of a pool, and their count."""
        text = json.dumps(dict(records), separators=(",", ":")) if records else None
        self._write_status(pool, {"allocatedIPs": text, "allocatedIPCount": len(records)})

    def add(self, pod: Object, addresses: Mapping[str, tuple[str, str]]) -> None:
        """CNI ADD of every NIC: interface -> (pool, address)."""
        for pool, address in addresses.values():
            self.record(pool, address, pod)
        meta = pod["metadata"]
        kind, name = _top_controller(pod)
        references = [{"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}]
        body = {
            "apiVersion": "spiderpool.spidernet.io/v2beta1",
            "kind": "SpiderEndpoint",
            "metadata": {
                "name": meta["name"],
                "finalizers": ["spiderpool.spidernet.io"],
                **({} if kind == "StatefulSet" else {"ownerReferences": references}),
            },
            "status": {
                "current": {
                    "uid": meta["uid"],
                    "node": pod["spec"]["nodeName"],
                    "ips": [
                        {"interface": nic, "ipv4": f"{address}/24", "ipv4Pool": pool, "vlan": 0}
                        for nic, (pool, address) in addresses.items()
                    ],
                },
                "ownerControllerType": kind,
                "ownerControllerName": name,
            },
        }
        self.plane.request("POST", f"{GROUP}/namespaces/{self.namespace}/spiderendpoints", body)

    def endpoints(self) -> Sequence[str]:
        """The names of all endpoints of the namespace."""
        found = self.plane.request("GET", f"{GROUP}/namespaces/{self.namespace}/spiderendpoints")
        return [item["metadata"]["name"] for item in found["items"]]

    def _write_status(self, pool: str, status: Object) -> Object:
        return self.plane.request("PATCH", f"{GROUP}/spiderippools/{pool}/status", {"status": status})


def _top_controller(pod: Object) -> tuple[str, str]:
    for reference in pod["metadata"].get("ownerReferences", ()):
        if reference["kind"] == "ReplicaSet":
            return "Deployment", reference["name"].rpartition("-")[0]
        return reference["kind"], reference["name"]
    return "Pod", pod["metadata"]["name"]
