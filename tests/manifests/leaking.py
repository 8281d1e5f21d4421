"""One pool of each IPAM beside Spiderpool, on a real API server: two owners live, one has left its record behind."""

from __future__ import annotations

import subprocess
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

from controlplane.client import NAMESPACES
from controlplane.plane import ControlPlane

Object = dict[str, Any]

LIVE = ("lives-0", "lives-1")
GONE = "gone-0"
GUARDS = "/apis/poolwarden.dev/v1alpha1/poolguards"
SWEEP = ("gc", "--once", "--mode=release", "--grace=0s", "--cooldown=0s")
LEASE = ("--lease-namespace=poolwarden", "--lease-duration=3s")


@dataclass
class Leaking(ABC):
    """The objects of one IPAM in a namespace, whose pods are on a node. Of each pool `leak` is leaked, recorded under `key`."""

    plane: ControlPlane
    namespace: str
    node: str

    ipam = ""
    group = ""
    leak = ""
    key = ""
    pool = ""

    @abstractmethod
    def make(self) -> None:
        """Makes the objects."""

    @property
    @abstractmethod
    def path(self) -> str:
        """Where the pool is."""

    @abstractmethod
    def remove(self) -> None:
        """Deletes the objects."""

    @abstractmethod
    def records(self) -> Mapping[str, Object]:
        """The pool's records by key."""

    @abstractmethod
    def take_another(self) -> None:
        """Somebody else writes the pool: a further address is recorded."""

    @abstractmethod
    def take_the_leak(self) -> None:
        """Somebody else writes the pool: the leaked address is recorded for another owner."""

    @property
    def owners(self) -> list[str]:
        """The names that records give for their owners, sorted; as their IPAM writes them, but for the namespace."""
        return sorted(_owner(record).removeprefix(f"{self.namespace}/") for record in self.records().values())

    @property
    def leaked(self) -> bool:
        """Whether the leak is still recorded, for whomever."""
        return self.key in self.records()

    def add_pods(self) -> None:
        """Two pods that run on the node."""
        for name in LIVE:
            spec = {"nodeName": self.node, "containers": [{"name": "c", "image": "i"}]}
            self.plane.request(
                "POST", f"{NAMESPACES}/{self.namespace}/pods", {"metadata": {"name": name}, "spec": spec}
            )

    def run(self, *arguments: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
        """The program as an operator runs it."""
        kubeconfig = str(self.plane.kubeconfig(user))
        command = [sys.executable, "-m", "poolwarden", *arguments, "--kubeconfig", kubeconfig]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)

    def sweep(self, *more: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
        """One sweep of this IPAM without grace and cooldown."""
        return self.run(*SWEEP, f"--ipam={self.ipam}", *LEASE, *more, user=user)

    def restore(self, user: str = "admin") -> subprocess.CompletedProcess[str]:
        """Puts the leak back by hand."""
        return self.run("restore", self.leak, f"--pool={self.pool}", user=user)


class Whereabouts(Leaking):
    """An IPPool with reservations."""

    ipam = "whereabouts"
    group = "whereabouts.cni.cncf.io"
    leak = "10.66.0.3"
    key = "3"
    pool = "10.66.0.0-24"

    @property
    def path(self) -> str:
        """Where the pool is."""
        return f"{self._home}/ippools/{self.pool}"

    @property
    def _home(self) -> str:
        return f"/apis/{self.group}/v1alpha1/namespaces/{self.namespace}"

    @property
    def _reservations(self) -> str:
        return f"{self._home}/overlappingrangeipreservations"

    def make(self) -> None:
        """Both kinds name pods alone, without UID."""
        self.add_pods()
        records = {str(at): self._record(name) for at, name in enumerate((*LIVE, GONE), start=1)}
        spec = {"range": "10.66.0.0/24", "allocations": records}
        body = {"apiVersion": f"{self.group}/v1alpha1", "kind": "IPPool", "metadata": {"name": self.pool}, "spec": spec}
        self.plane.request("POST", f"{self._home}/ippools", body)
        for offset, record in records.items():
            self.reserve(offset, record)

    def remove(self) -> None:
        """The pool and all reservations."""
        self.plane.request("DELETE", self.path)
        self.plane.request("DELETE", self._reservations)

    def records(self) -> Mapping[str, Object]:
        """By offset."""
        records: Mapping[str, Object] = self.plane.request("GET", self.path)["spec"]["allocations"]
        return records

    def reserved(self) -> set[str]:
        """The names of all reservations."""
        return {item["metadata"]["name"] for item in self.plane.request("GET", self._reservations)["items"]}

    def reserve(self, offset: str, record: Object) -> None:
        """Makes the reservation of a record."""
        spec = {key: record[key] for key in ("podref", "ifname")}
        body = {
            "apiVersion": f"{self.group}/v1alpha1",
            "kind": "OverlappingRangeIPReservation",
            "metadata": {"name": f"10.66.0.{offset}"},
            "spec": spec,
        }
        self.plane.request("POST", self._reservations, body)

    def take_another(self) -> None:
        """A pod's record."""
        self._write({"9": self._record("new-0")})

    def take_the_leak(self) -> None:
        """The same address, and another sandbox of a pod of that name."""
        self._write({"3": self._record(GONE)})

    def _write(self, records: Mapping[str, Object]) -> None:
        self.plane.request("PATCH", self.path, {"spec": {"allocations": dict(records)}})

    def _record(self, name: str) -> Object:
        return {"id": str(uuid4()), "podref": f"{self.namespace}/{name}", "ifname": "net1"}


class Neon(Leaking):
    """An IPPool whose records name VirtualMachines."""

    ipam = "neon"
    group = "vm.neon.tech"
    leak = "10.67.0.3"
    key = "3"
    pool = "neonvm-10.67.0.0-24"

    @property
    def path(self) -> str:
        """Where the pool is."""
        return f"{self._home}/ippools/{self.pool}"

    @property
    def _home(self) -> str:
        return f"/apis/{self.group}/v1/namespaces/{self.namespace}"

    def make(self) -> None:
        """The machines run with the addresses that the pool records; there are pods, too."""
        self.add_pods()
        api_version = f"{self.group}/v1"
        for at, name in enumerate(LIVE, start=1):
            body = {"apiVersion": api_version, "kind": "VirtualMachine", "metadata": {"name": name}, "spec": {}}
            self.plane.request("POST", f"{self._home}/virtualmachines", body)
            status = {"phase": "Running", "extraNetIP": f"10.67.0.{at}", "extraNetMask": "255.255.255.0"}
            self.plane.request("PATCH", f"{self._home}/virtualmachines/{name}/status", {"status": status})
        records = {str(at): self._record(name) for at, name in enumerate((*LIVE, GONE), start=1)}
        spec = {"range": "10.67.0.0/24", "allocations": records}
        body = {"apiVersion": api_version, "kind": "IPPool", "metadata": {"name": self.pool}, "spec": spec}
        self.plane.request("POST", f"{self._home}/ippools", body)

    def remove(self) -> None:
        """The pool and all machines."""
        self.plane.request("DELETE", self.path)
        self.plane.request("DELETE", f"{self._home}/virtualmachines")

    def records(self) -> Mapping[str, Object]:
        """By offset."""
        records: Mapping[str, Object] = self.plane.request("GET", self.path)["spec"]["allocations"]
        return records

    def take_another(self) -> None:
        """A machine's record."""
        self._write({"9": self._record("new-0")})

    def take_the_leak(self) -> None:
        """The same address, and another machine."""
        self._write({"3": self._record("new-0")})

    def _write(self, records: Mapping[str, Object]) -> None:
        self.plane.request("PATCH", self.path, {"spec": {"allocations": dict(records)}})

    def _record(self, name: str) -> Object:
        return {"id": f"{self.namespace}/{name}", "podref": ""}


class Terway(Leaking):
    """A Node of Terway's with one interface, and the NodeRuntime in which its daemon has said that the pod is gone."""

    ipam = "terway"
    group = "network.alibabacloud.com"
    leak = key = "10.68.0.3"
    interface = "eni-1"
    gone = "11111111-2222-3333-4444-555555555555"

    @property
    def pool(self) -> str:  # type: ignore[override]
        """Named like the Kubernetes node."""
        return self.node

    @property
    def path(self) -> str:
        """Where the pool is."""
        return f"/apis/{self.group}/v1beta1/nodes/{self.node}"

    def make(self) -> None:
        """Status is written by itself, as by Terway: it is a subresource."""
        self.add_pods()
        uids = [
            self.plane.request("GET", f"{NAMESPACES}/{self.namespace}/pods/{name}")["metadata"]["uid"] for name in LIVE
        ]
        owners = zip((*LIVE, GONE), (*uids, self.gone), strict=True)
        entries = [self._entry(at, name, uid) for at, (name, uid) in enumerate(owners, start=1)]
        idle = {"ip": "10.68.0.4", "primary": False, "status": "Valid"}
        interface = {
            "id": self.interface,
            "status": "InUse",
            "macAddress": "00:16:3e:00:00:01",
            "vSwitchID": "vsw-1",
            "securityGroupIDs": ["sg-1"],
            "primaryIPAddress": "10.68.0.1",
            "networkInterfaceTrafficMode": "Standard",
            "networkInterfaceType": "Secondary",
            "ipv4CIDR": "10.68.0.0/24",
            "ipv4": {entry["ip"]: entry for entry in (*entries, idle)},
        }
        seen = {"deleted": {"lastUpdateTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}}
        self._create("Node", {"networkInterfaces": {self.interface: interface}})
        self._create("NodeRuntime", {"pods": {self.gone: {"podID": f"{self.namespace}/{GONE}", "status": seen}}})

    def _create(self, kind: str, status: Object) -> None:
        collection = f"/apis/{self.group}/v1beta1/{kind.lower()}s"
        body = {"apiVersion": f"{self.group}/v1beta1", "kind": kind, "metadata": {"name": self.node}, "spec": {}}
        self.plane.request("POST", collection, body)
        self.plane.request("PATCH", f"{collection}/{self.node}/status", {"status": status})

    def remove(self) -> None:
        """Both objects of the node."""
        self.plane.request("DELETE", self.path)
        self.plane.request("DELETE", self.path.replace("/nodes/", "/noderuntimes/"))

    def records(self) -> Mapping[str, Object]:
        """By address; those that name a pod."""
        interface = self.plane.request("GET", self.path)["status"]["networkInterfaces"][self.interface]
        return {address: entry for address, entry in interface["ipv4"].items() if entry.get("podID")}

    def take_another(self) -> None:
        """The idle address is bound."""
        self._write(self._entry(4, "new-0", str(uuid4())))

    def take_the_leak(self) -> None:
        """The leaked address is bound to another pod."""
        self._write(self._entry(3, "new-0", str(uuid4())))

    def release_by_terway(self) -> None:
        """What its own controller does with a pod that is gone."""
        self._write({"ip": self.leak, "podID": None, "podUID": None})

    def _write(self, entry: Object) -> None:
        interfaces = {self.interface: {"ipv4": {entry["ip"]: entry}}}
        self.plane.request("PATCH", f"{self.path}/status", {"status": {"networkInterfaces": interfaces}})

    def _entry(self, at: int, name: str, uid: str) -> Object:
        return {
            "ip": f"10.68.0.{at}",
            "primary": at == 1,
            "status": "Valid",
            "podID": f"{self.namespace}/{name}",
            "podUID": uid,
        }


KINDS: tuple[type[Leaking], ...] = (Whereabouts, Neon, Terway)


def _owner(record: Object) -> str:
    return str(record.get("podID") or record.get("podref") or record["id"])
