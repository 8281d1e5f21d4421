"""What differs between IPAMs for a test that is written once: their objects, and what their agents and controllers do.

    world = house.world({A: "app", B: house.live("live", B)})

is a cluster with one pool that records A for `app`, which is gone for good, and B for a running owner.
"""

from __future__ import annotations

import ipaddress
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from factories import NOW, Object, ago, claim, nad, name_of, node, pod, stamp, uid
from faults import When, World, calls, kind_of
from poolwarden.ipam import neon, spiderpool, terway, whereabouts
from poolwarden.ipam.kinds import PODS, Kind
from poolwarden.ipam.pool import PoolRef

Owner = Object | str
"""A live owner, or the name of one that has ended; its UID is then `<name>-uid`."""
SIZE = 8
MARK = "poolwarden.dev:"


def identity(owner: Owner) -> tuple[str, str]:
    """Name and UID of an owner in namespace `default`."""
    return (owner, f"{owner}-uid") if isinstance(owner, str) else (name_of(owner), uid(owner))


def made(kind: Kind, name: str, namespace: str = "", **rest: Any) -> Object:
    """An object of a kind."""
    metadata: Object = {"name": name, "uid": f"{name}-uid", "resourceVersion": "7", "creationTimestamp": ago(days=1)}
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


BYSTANDER = pod("bystander", namespace="kube-system", host_network=True)
"""So that there is a pod at all, whatever the IPAM's owners are."""


@dataclass(frozen=True)
class House(ABC):
    """One IPAM with one pool of eight addresses of a family (4 or 6)."""

    family: int
    ipam: ClassVar[str]
    kind: ClassVar[Kind]
    owners: ClassVar[Kind] = PODS
    bases: ClassVar[Mapping[int, str]]
    by_uid: ClassVar[bool]
    """Whether its records carry the owner's UID."""
    hides: ClassVar[bool] = False
    """Whether a record is marked in one sweep and removed in a later one."""

    def __str__(self) -> str:
        return f"{self.ipam}-v{self.family}"

    # --- names

    @property
    def base(self) -> str:
        """The address before the first one."""
        return self.bases[self.family]

    @property
    def addresses(self) -> tuple[str, ...]:
        """All that the pool hands out."""
        first = ipaddress.ip_address(self.base)
        return tuple(str(first + number) for number in range(1, SIZE + 1))

    @property
    @abstractmethod
    def ref(self) -> PoolRef:
        """The pool."""

    @property
    def pool_calls(self) -> str:
        """Its pools' kind as calls name it."""
        return kind_of(self.kind)

    @property
    def owner_calls(self) -> str:
        """Its owners' kind as calls name it."""
        return kind_of(self.owners)

    @property
    def write(self) -> When:
        """A write of the pool."""
        return calls("patch", self.pool_calls, self.ref.name)

    # --- objects

    @abstractmethod
    def entry(self, address: str, owner: Owner) -> Object:
        """What the IPAM records of an address's owner."""

    @abstractmethod
    def pool(self, entries: Mapping[str, Any], name: str = "") -> Object:
        """The pool with these entries; `name` is that of a second pool, whose addresses are 256 further on."""

    def other(self) -> list[Object]:
        """The second pool `other`, with a leak at its first address, beside a record in use."""
        leaked, used = (str(ipaddress.ip_address(address) + 0x100) for address in self.addresses[:2])
        live = self.live("neighbour", used)
        live["spec"] |= {"nodeName": "other"} if self.kind == terway.POOLS else {}
        return [self.pool({leaked: self.entry(leaked, "app"), used: self.entry(used, live)}, "other"), live]

    def surroundings(self) -> list[Object]:
        """What stands beside the pool whatever it records."""
        return []

    def beside(self, records: Mapping[str, Owner]) -> list[Object]:
        """What stands beside the pool for its records, and proves that those who are gone have ended."""
        del records
        return []

    def live(self, name: str, address: str = "", *, uid: str = "") -> Object:
        """An owner that runs and uses the address; without one, an owner that starts."""
        if not address:
            return pod(name, uid=uid, phase="Pending")
        return pod(name, ips=[address], uid=uid)

    def garbled(self, name: str, address: str) -> Object:
        """An owner whose own account of its addresses cannot be parsed."""
        return pod(name, ips=[address], status='[{"ips": ')

    def objects(self, records: Mapping[str, Owner], more: Mapping[str, Any] | None = None) -> list[Object]:
        """All objects of a cluster whose pool has these records, and further entries as they are."""
        entries = {address: self.entry(address, owner) for address, owner in records.items()}
        live = [owner for owner in records.values() if not isinstance(owner, str)]
        return [
            self.pool({**entries, **(more or {})}),
            *self.surroundings(),
            *self.beside(records),
            *live,
            BYSTANDER,
        ]

    def world(self, records: Mapping[str, Owner], *others: Object, more: Mapping[str, Any] | None = None) -> World:
        """A cluster of that pool and other objects."""
        return World(*self.objects(records, more), *others)

    # --- what stands in the cluster

    def stored(self, world: World) -> Object:
        """The pool as it is."""
        return next(item for item in world.of_kind(self.kind) if name_of(item) == self.ref.name)

    @abstractmethod
    def entries_of(self, stored: Object) -> dict[str, Any]:
        """The entries of a pool that record an owner, by address."""

    def entries(self, world: World) -> dict[str, Any]:
        """The entries that record an owner; none if there is no pool."""
        there = any(name_of(item) == self.ref.name for item in world.of_kind(self.kind))
        return self.entries_of(self.stored(world)) if there else {}

    def shown(self, world: World) -> dict[str, Any]:
        """The same without our marks."""
        return self.entries(world)

    def companions(self, world: World) -> list[tuple[str, Any]]:
        """What stands beside the pool for its records: name and content."""
        del world
        return []

    def content(self, world: World) -> Object:
        """All that the pool says, and what stands beside it; versions and the order of keys apart."""
        stored = self.stored(world)
        said = {key: value for key, value in stored.items() if key != "metadata"}
        said["entries"] = self.entries(world)
        said["companions"] = self.companions(world)
        said["status"] = {k: v for k, v in stored.get("status", {}).items() if k != "allocatedIPs"}
        return said

    # --- what its agent does

    @abstractmethod
    def record(self, world: World, address: str, owner: Owner) -> None:
        """Record an address for an owner, whoever had it."""

    @abstractmethod
    def delete(self, world: World, address: str) -> None:
        """A DEL: the address has no owner any more."""

    def hand_over(self, world: World, address: str, owner: Object) -> None:
        """A DEL, and the ADD of another owner that gets the address."""
        self.delete(world, address)
        self.record(world, address, owner)
        world.put(owner)

    @abstractmethod
    def add_again(self, world: World, name: str) -> str:
        """An owner of that name, with the UID `newer`, gets an address as its IPAM gives it one: the address."""

    def free(self, world: World) -> str:
        """The first free address."""
        taken = self.entries(world)
        return next(address for address in self.addresses if address not in taken)


class SpiderpoolHouse(House):
    """Spiderpool without endpoints, as for pods that never had one."""

    ipam = "spiderpool"
    kind = spiderpool.POOLS
    bases: ClassVar[Mapping[int, str]] = {4: "10.0.0.9", 6: "fd00::9"}
    by_uid = True

    @property
    def ref(self) -> PoolRef:
        """See `House`."""
        return PoolRef("spiderpool", "", "blue")

    def entry(self, address: str, owner: Owner) -> Object:
        """See `House`."""
        del address
        return claim(*identity(owner))

    def surroundings(self) -> list[Object]:
        """See `House`."""
        return [nad("eth0")]

    def pool(self, entries: Mapping[str, Any], name: str = "") -> Object:
        """See `House`."""
        first, last = (self.addresses[0], self.addresses[-1])
        if name:
            first, last = (str(ipaddress.ip_address(text) + 0x100) for text in (first, last))
        spec = {"ipVersion": self.family, "subnet": "10.0.0.0/16" if self.family == 4 else "fd00::/48"}
        text = json.dumps(entries, separators=(",", ":")) if entries else None
        status = {"allocatedIPs": text, "allocatedIPCount": len(entries), "totalIPCount": SIZE}
        return made(self.kind, name or self.ref.name, spec={**spec, "ips": [f"{first}-{last}"]}, status=status)

    def entries_of(self, stored: Object) -> dict[str, Any]:
        """See `House`."""
        text = stored["status"].get("allocatedIPs")
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def record(self, world: World, address: str, owner: Owner) -> None:
        """See `House`."""
        self._put(world, {**self.entries(world), address: self.entry(address, owner)})

    def delete(self, world: World, address: str) -> None:
        """See `House`."""
        self._put(world, {key: value for key, value in self.entries(world).items() if key != address})

    def _put(self, world: World, entries: Mapping[str, Any]) -> None:
        stored = self.stored(world)
        text = json.dumps(entries, separators=(",", ":")) if entries else None
        world.put({**stored, "status": {**stored["status"], "allocatedIPs": text, "allocatedIPCount": len(entries)}})

    def add_again(self, world: World, name: str) -> str:
        """Another UID is another owner, which gets the first free address."""
        address = self.free(world)
        owner = self.live(name, address, uid="newer")
        self.record(world, address, owner)
        world.put(owner)
        return address


@dataclass(frozen=True)
class _Offsets(House):
    """An IPAM whose `spec.allocations` are keyed by the offset from the range."""

    prefixes: ClassVar[Mapping[int, int]] = {4: 28, 6: 124}

    @property
    def range(self) -> str:
        return f"{self.base}/{self.prefixes[self.family]}"

    def _key(self, address: str) -> str:
        return str(int(ipaddress.ip_address(address)) - int(ipaddress.ip_address(self.base)))

    def pool(self, entries: Mapping[str, Any], name: str = "") -> Object:
        first = str(ipaddress.ip_address(self.base) + 0x100) if name else self.base
        start = int(ipaddress.ip_address(first))
        keys = {
            str(int(ipaddress.ip_address(key)) - start) if _is_address(key) else key: value
            for key, value in entries.items()
        }
        spec = {"range": f"{first}/{self.prefixes[self.family]}", "allocations": keys}
        return made(self.kind, name or self.ref.name, self.ref.namespace, spec=spec)

    def entries_of(self, stored: Object) -> dict[str, Any]:
        first = ipaddress.ip_address(self.base)
        entries = (stored["spec"].get("allocations") or {}).items()
        return {str(first + int(key)) if key.isdecimal() else key: value for key, value in entries}

    def record(self, world: World, address: str, owner: Owner) -> None:
        self._put(world, {self._key(address): self.entry(address, owner)})

    def delete(self, world: World, address: str) -> None:
        self._put(world, {self._key(address): None})

    def _put(self, world: World, changes: Mapping[str, Any]) -> None:
        stored = self.stored(world)
        entries = {**(stored["spec"].get("allocations") or {}), **changes}
        left = {key: value for key, value in entries.items() if value is not None}
        world.put({**stored, "spec": {**stored["spec"], "allocations": left}})

    def _nad(self, name: str, block: Object) -> Object:
        bounds = {"range": self.range, "range_start": self.addresses[0], "range_end": self.addresses[-1]}
        config = {"cniVersion": "0.3.1", "name": name, "type": "macvlan", "master": "eth1"}
        spec = {"config": json.dumps(config | {"ipam": {**block, "ipRanges": [bounds]}})}
        nad = Kind("k8s.cni.cncf.io", "v1", "network-attachment-definitions", "NetworkAttachmentDefinition", True)
        return made(nad, name, "kube-system" if self.ipam == "whereabouts" else self.ref.namespace, spec=spec)


def _is_address(text: str) -> bool:
    return "." in text or ":" in text


class WhereaboutsHouse(_Offsets):
    """Whereabouts on net1, with a reservation beside each record."""

    ipam = "whereabouts"
    kind = whereabouts.POOLS
    bases: ClassVar[Mapping[int, str]] = {4: "10.6.0.0", 6: "fd00:6::"}
    by_uid = False

    @property
    def ref(self) -> PoolRef:
        """See `House`."""
        return PoolRef("whereabouts", "kube-system", "10.6.0.0-28" if self.family == 4 else "fd00-6---124")

    def entry(self, address: str, owner: Owner) -> Object:
        """See `House`."""
        del address
        name, owner_uid = identity(owner)
        return {"id": f"{owner_uid}-sandbox", "podref": f"default/{name}", "ifname": "net1"}

    def surroundings(self) -> list[Object]:
        """See `House`."""
        return [self._nad("net1", {"type": "whereabouts"})]

    def beside(self, records: Mapping[str, Owner]) -> list[Object]:
        """See `House`."""
        return [self._reservation(address, identity(owner)[0]) for address, owner in records.items()]

    def _reservation(self, address: str, name: str) -> Object:
        spec = {"podref": f"default/{name}", "ifname": "net1"}
        return made(whereabouts.RESERVATIONS, address.replace(":", "-"), self.ref.namespace, spec=spec)

    def live(self, name: str, address: str = "", *, uid: str = "") -> Object:
        """See `House`."""
        if not address:
            return pod(name, uid=uid, phase="Pending", networks="kube-system/net1@net1", status="")
        return pod(name, ips=[f"172.31.{len(name)}.{ord(name[0])}"], nics={"net1": address}, uid=uid)

    def garbled(self, name: str, address: str) -> Object:
        """See `House`."""
        return pod(name, nics={"net1": address}, status='[{"ips": ')

    def companions(self, world: World) -> list[tuple[str, Any]]:
        """See `House`."""
        return sorted((name_of(item), item["spec"]) for item in world.of_kind(whereabouts.RESERVATIONS))

    def record(self, world: World, address: str, owner: Owner) -> None:
        """The record, then the reservation, which stays as it is where there is one."""
        super().record(world, address, owner)
        item = self._reservation(address, identity(owner)[0])
        if name_of(item) not in {name for name, _ in self.companions(world)}:
            world.put(item)

    def delete(self, world: World, address: str) -> None:
        """See `House`."""
        super().delete(world, address)
        world.remove("OverlappingRangeIPReservation", address.replace(":", "-"))

    def free(self, world: World) -> str:
        """Neither recorded nor reserved."""
        taken = {*self.entries(world), *(name.replace("-", ":") for name, _ in self.companions(world))}
        taken |= {name for name, _ in self.companions(world)}
        return next(address for address in self.addresses if address not in taken)

    def add_again(self, world: World, name: str) -> str:
        """A record of that name and interface is taken over under a new container's id, which is a write.

        Nor does a reservation under the pod's own name keep it off an address.
        """
        own = [a for a, entry in self.entries(world).items() if entry.get("podref") == f"default/{name}"]
        mine = {key for key, spec in self.companions(world) if spec["podref"] == f"default/{name}"}
        reserved = [a for a in self.addresses if a.replace(":", "-") in mine and a not in self.entries(world)]
        address = next(iter([*own, *reserved]), None) or self.free(world)
        owner = self.live(name, address, uid="newer")
        self.record(world, address, owner)
        world.put(owner)
        return address


class NeonHouse(_Offsets):
    """Neon's IPAM without a Manager."""

    ipam = "neon"
    kind = neon.POOLS
    owners = neon.MACHINES
    bases: ClassVar[Mapping[int, str]] = {4: "10.100.0.0", 6: "fd00:100::"}
    by_uid = False
    hides = True

    @property
    def ref(self) -> PoolRef:
        """See `House`."""
        name = "neonvm-10.100.0.0-28" if self.family == 4 else "neonvm-fd00-100---124"
        return PoolRef("neon", "system", name)

    def entry(self, address: str, owner: Owner) -> Object:
        """See `House`."""
        del address
        return {"id": f"default/{identity(owner)[0]}", "podref": ""}

    def surroundings(self) -> list[Object]:
        """See `House`."""
        return [self._nad("neonvm", {"network_name": "neonvm"})]

    def live(self, name: str, address: str = "", *, uid: str = "") -> Object:
        """See `House`."""
        status = {"phase": "Running", "extraNetIP": address} if address else {}
        machine = made(self.owners, name, "default", spec={"restartPolicy": "Always"}, status=status)
        machine["metadata"]["uid"] = uid or f"{name}-uid"
        return machine

    def garbled(self, name: str, address: str) -> Object:
        """See `House`."""
        return self.live(name, f"{address}/nonsense")

    def shown(self, world: World) -> dict[str, Any]:
        """See `House`."""
        return {
            key: {**entry, "id": entry["id"].removeprefix(MARK)} if "id" in entry else entry
            for key, entry in self.entries(world).items()
        }

    def add_again(self, world: World, name: str) -> str:
        """An entry of that name is handed out by an update that changes nothing."""
        own = [address for address, entry in self.entries(world).items() if entry.get("id") == f"default/{name}"]
        address = own[0] if own else self.free(world)
        owner = self.live(name, address, uid="newer")
        if not own:
            self.record(world, address, owner)
        world.put(owner)
        return address


class TerwayHouse(House):
    """Terway on node-1, which has told of the end of each pod that is gone."""

    ipam = "terway"
    kind = terway.POOLS
    bases: ClassVar[Mapping[int, str]] = {4: "172.16.3.10", 6: "2408:4005::10"}
    by_uid = True

    @property
    def ref(self) -> PoolRef:
        """See `House`."""
        return PoolRef("terway", "", "node-1")

    def entry(self, address: str, owner: Owner) -> Object:
        """See `House`."""
        name, owner_uid = identity(owner)
        return {**self._idle(address), "podID": f"default/{name}", "podUID": owner_uid}

    @staticmethod
    def _idle(address: str) -> Object:
        return {"ip": address, "ipName": "ip-7fpj", "primary": False, "status": "Valid"}

    def pool(self, entries: Mapping[str, Any], name: str = "") -> Object:
        """See `House`."""
        addresses = [str(ipaddress.ip_address(a) + (0x100 if name else 0)) for a in self.addresses]
        slots = {address: self._idle(address) for address in addresses} | dict(entries)
        interface = {"id": "eni-1", "status": "InUse", f"ipv{self.family}": slots}
        status = {"networkInterfaces": {"eni-1": interface}}
        return made(self.kind, name or self.ref.name, spec={"pool": {"maxPoolSize": 5}}, status=status)

    def live(self, name: str, address: str = "", *, uid: str = "") -> Object:
        """Terway needs no Multus, and so tells of no network-status."""
        return super().live(name, address, uid=uid) if not address else pod(name, ips=[address], uid=uid, status="")

    def other(self) -> list[Object]:
        """On a node of its own, which has told of the end of its pod."""
        told = runtime({"app": "deleted"})
        return [*super().other(), {**told, "metadata": {**told["metadata"], "name": "other"}}, node("other"), node()]

    def beside(self, records: Mapping[str, Owner]) -> list[Object]:
        """See `House`."""
        return [runtime({owner: "deleted" for owner in records.values() if isinstance(owner, str)})]

    def entries_of(self, stored: Object) -> dict[str, Any]:
        """See `House`."""
        slots = stored["status"]["networkInterfaces"]["eni-1"][f"ipv{self.family}"]
        return {k: v for k, v in slots.items() if not isinstance(v, dict) or v.keys() & {"podID", "podUID"}}

    def record(self, world: World, address: str, owner: Owner) -> None:
        """See `House`."""
        self._put(world, address, self.entry(address, owner))

    def delete(self, world: World, address: str) -> None:
        """See `House`."""
        self._put(world, address, self._idle(address))

    def _put(self, world: World, address: str, value: Object) -> None:
        stored = self.stored(world)
        interface = stored["status"]["networkInterfaces"]["eni-1"]
        slots = {**interface[f"ipv{self.family}"], address: value}
        interfaces = {"eni-1": {**interface, f"ipv{self.family}": slots}}
        world.put({**stored, "status": {**stored["status"], "networkInterfaces": interfaces}})

    def add_again(self, world: World, name: str) -> str:
        """An entry of that name is given the new UID, which is a write; else the first idle one is taken."""
        own = [address for address, entry in self.entries(world).items() if entry.get("podID") == f"default/{name}"]
        address = own[0] if own else self.free(world)
        owner = self.live(name, address, uid="newer")
        self.record(world, address, owner)
        world.put(owner)
        return address


def runtime(states: Mapping[str, str]) -> Object:
    """Terway's NodeRuntime of node-1: the name of each pod, and its newest state."""
    times = {"initial": ago(hours=3), "deleted": ago(hours=2)}
    later = {"initial": stamp(NOW), "deleted": ago(hours=2)}

    def seen(state: str) -> Object:
        return {key: {"lastUpdateTime": time} for key, time in (times if state == "deleted" else later).items()}

    pods = {f"{name}-uid": {"podID": f"default/{name}", "status": seen(state)} for name, state in states.items()}
    return made(terway.RUNTIMES, "node-1", spec={}, status={"pods": pods})


CLASSES: Sequence[type[House]] = (SpiderpoolHouse, WhereaboutsHouse, NeonHouse, TerwayHouse)
HOUSES = tuple(each(family) for each in CLASSES for family in (4, 6))
FOURS = tuple(each(4) for each in CLASSES)
"""One house of each IPAM."""


def street() -> Iterator[Object]:
    """The objects of all four IPAMs in one cluster, each with a leak (its first address) beside a record in use."""
    for house in FOURS:
        name = f"live-{house.ipam}"
        address = house.addresses[1]
        yield from house.objects({house.addresses[0]: "app", address: house.live(name, address)})
    yield node()
