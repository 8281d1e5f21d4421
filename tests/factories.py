"""Kubernetes objects for tests, as the API server returns them, and what the judge says of them.

A test shows only what matters to it; everything else is that of an ordinary, healthy cluster:

    assert said("10.0.0.10", blue({"10.0.0.10": claim("app")})) == "Leaked OwnerGone release"

A pod is Running and Ready on node-1, has one container and the UID `<name>-uid`. The network of its interface X is the
NAD `kube-system/X`; that NAD exists only where a test makes it (`nad("net1")`).
"""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

import msgspec

from poolwarden.cluster.interface import (
    Absent,
    Complete,
    Coverage,
    Doubt,
    Found,
    Incomplete,
    Listing,
    Resource,
    Unread,
    Unreadable,
)
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies, Policy
from poolwarden.gc.read import read_snapshot, with_later
from poolwarden.gc.snapshot import Memory, Snapshot
from poolwarden.ipam.kinds import NODES, Kind
from poolwarden.ipam.pool import PoolRef, Record, digest_of
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Finding

T = TypeVar("T")
Object = dict[str, Any]
Items = Mapping[str, str | Sequence[str]] | Iterable[tuple[str, str | Sequence[str]]]

NOW = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
BLUE = "10.0.0.10-10.0.0.30"
GREEN = "10.0.1.10-10.0.1.30"
SPIDERPOOL = "spiderpool.spidernet.io"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
NETWORK_STATUS = "k8s.v1.cni.cncf.io/network-status"
MIRROR = {"kubernetes.io/config.mirror": "hash"}


def ago(**duration: float) -> str:
    """A time before NOW, as Kubernetes writes it: `ago(minutes=5)`."""
    return stamp(NOW - timedelta(**duration))


def stamp(time: datetime) -> str:
    """A time as Kubernetes writes it."""
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"


def uid(thing: Object) -> str:
    """The UID of an object."""
    return str(thing["metadata"]["uid"])


def _object(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Object:
    metadata: Object = {"name": name, "uid": f"{name}-uid", "resourceVersion": "7", "creationTimestamp": ago(days=1)}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


# --- pods ---------------------------------------------------------------------------------------------------------


def pod(
    name: str,
    *,
    namespace: str = "default",
    uid: str = "",
    ips: Sequence[str] = (),
    nics: Mapping[str, str | Sequence[str]] | None = None,
    networks: str | None = None,
    status: str | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Object | None = None,
    phase: str = "Running",
    ready: bool | None = None,
    node: str = "node-1",
    created: str | None = None,
    deadline: str | None = None,
    grace: int = 30,
    restart: str = "Always",
    host_network: bool = False,
    sandbox: bool | None = None,
    containers: Mapping[str, str | None] | None = None,
) -> Object:
    """A pod.

    `ips` are its podIPs, on eth0; `nics` its further NICs with their addresses. From both comes a complete
    network-status, unless there is none of either or `status` gives its text ("" for none); `networks` likewise
    replaces the networks annotation. `deadline` is its deletionTimestamp. `containers` tells of each container when it
    ended, None while it runs. `sandbox` is the condition PodReadyToStartContainers.
    """
    ended = phase in {"Succeeded", "Failed"}
    states = containers if containers is not None else {"main": ago(hours=1) if ended else None}
    if phase == "Pending" and containers is None:
        states = {}
    ready = phase == "Running" if ready is None else ready
    conditions = [{"type": "Ready", "status": str(ready)}]
    if sandbox is not None:
        conditions.append({"type": "PodReadyToStartContainers", "status": str(sandbox)})
    made = _object(
        "v1",
        "Pod",
        name,
        namespace,
        spec={
            "nodeName": node,
            "restartPolicy": restart,
            "terminationGracePeriodSeconds": grace,
            "containers": [{"name": key, "image": "app"} for key in states or {"main": None}],
        },
        status={
            "phase": phase,
            "conditions": conditions,
            "podIP": ips[0] if ips else "",
            "podIPs": [{"ip": ip} for ip in ips],
            "containerStatuses": [_container(key, time) for key, time in states.items()],
        },
    )
    if host_network:
        made["spec"]["hostNetwork"] = True
    made["metadata"]["annotations"] = _network_annotations(ips, nics or {}, networks, status) | dict(annotations or {})
    made["metadata"]["uid"] = uid or f"{name}-uid"
    if created:
        made["metadata"]["creationTimestamp"] = created
    if deadline:
        made["metadata"] |= {"deletionTimestamp": deadline, "deletionGracePeriodSeconds": grace}
    if owner:
        made["metadata"]["ownerReferences"] = [_reference(owner)]
    return made


def _reference(owner: Object) -> Object:
    return {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": name_of(owner), "uid": uid(owner)} | {
        "controller": True
    }


def _container(name: str, ended: str | None) -> Object:
    state = (
        {"terminated": {"exitCode": 0, "finishedAt": ended}}
        if ended is not None
        else {"running": {"startedAt": ago(days=1)}}
    )
    return {"name": name, "image": "app", "state": state}


def _network_annotations(
    ips: Sequence[str], nics: Mapping[str, str | Sequence[str]], networks: str | None, status: str | None
) -> dict[str, str]:
    asked = ",".join(f"kube-system/{name}@{name}" for name in nics) if networks is None else networks
    entries = [_nic("eth0", ips, default=True)] if ips else []
    entries += [_nic(name, _several(addresses)) for name, addresses in nics.items()]
    text = (json.dumps(entries, indent=4) if entries else "") if status is None else status
    return {key: value for key, value in ((NETWORKS, asked), (NETWORK_STATUS, text)) if value}


def network_status(nics: Mapping[str, str | Sequence[str]]) -> str:
    """The text of a network-status: interface -> addresses; eth0 is the default."""
    return json.dumps([_nic(name, _several(ips), default=name == "eth0") for name, ips in nics.items()])


def _nic(name: str, ips: Sequence[str], *, default: bool = False) -> Object:
    nic: Object = {"name": f"kube-system/{name}", "interface": name, "ips": list(ips)}
    return nic | ({"default": True} if default else {})


def _several(texts: str | Sequence[str]) -> Sequence[str]:
    return [texts] if isinstance(texts, str) else texts


def name_of(thing: Object) -> str:
    """The name of an object."""
    return str(thing["metadata"]["name"])


def undecodable(thing: Object) -> Object:
    """The same object with a field of the wrong type, so that not even what we trust of it can be read."""
    return {**thing, "metadata": {**thing["metadata"], "creationTimestamp": "yesterday"}}


# --- workloads, nodes, networks -----------------------------------------------------------------------------------


def stateful_set(
    name: str, *, replicas: int | None = 1, start: int | None = None, namespace: str = "default", grace: int = 30
) -> Object:
    """A StatefulSet; `start` is that of its ordinals."""
    labels = {"app": name}
    template = {"terminationGracePeriodSeconds": grace, "containers": [{"name": "main", "image": "app"}]}
    spec: Object = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template},
    }
    if start is not None:
        spec["ordinals"] = {"start": start}
    return _object("apps/v1", "StatefulSet", name, namespace, spec=spec)


def node(name: str = "node-1", *, ready: bool = True, since: str | None = None, fenced: bool = False) -> Object:
    """A Node; `since` is when its readiness last changed (a day ago), `fenced` the out-of-service taint."""
    condition = {"type": "Ready", "status": "True" if ready else "Unknown", "lastTransitionTime": since or ago(days=1)}
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    return _object("v1", "Node", name, spec={"taints": [taint] if fenced else []}, status={"conditions": [condition]})


def nad(
    name: str,
    *,
    ipam: str = "spiderpool",
    master: str = "eth1",
    pools: Sequence[str] = (),
    namespace: str = "kube-system",
) -> Object:
    """A NetworkAttachmentDefinition of a macvlan network; `ipam` or `master` "" leaves that out; `pools` are defaults."""
    config: Object = {"cniVersion": "0.3.1", "type": "macvlan"}
    config |= {"master": master} if master else {}
    config |= {"ipam": {"type": ipam} | ({"default_ipv4_ippool": list(pools)} if pools else {})} if ipam else {}
    spec = {"config": json.dumps(config)}
    return _object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", name, namespace, spec=spec)


def virtual_machine(name: str, *, namespace: str = "default") -> Object:
    """A KubeVirt VirtualMachine."""
    return _object("kubevirt.io/v1", "VirtualMachine", name, namespace, spec={"running": True}, status={})


def virtual_machine_instance(name: str, *, ips: Sequence[str] = (), namespace: str = "default") -> Object:
    """A KubeVirt VirtualMachineInstance whose status shows `ips`."""
    nics = [{"interfaceName": "eth0", "ipAddress": ips[0], "ipAddresses": list(ips)}] if ips else []
    return _object("kubevirt.io/v1", "VirtualMachineInstance", name, namespace, spec={}, status={"interfaces": nics})


def launcher(machine: str, suffix: str = "a", **pod_arguments: Any) -> Object:
    """The virt-launcher pod of a KubeVirt VMI of that name; further arguments are those of `pod`."""
    owner = virtual_machine_instance(machine)
    return pod(f"virt-launcher-{machine}-{suffix}", owner=owner, restart="Never", **pod_arguments)


# --- Spiderpool ---------------------------------------------------------------------------------------------------


def claim(owner: Object | str, uid: str | None = None, **more: Any) -> Object:
    """An entry of allocatedIPs: for a pod as it is, or for a name and a UID ("" for none)."""
    if isinstance(owner, str):
        name = owner if "/" in owner else f"default/{owner}"
        identity = f"{name.rpartition('/')[2]}-uid" if uid is None else uid
    else:
        name = f"{owner['metadata']['namespace']}/{name_of(owner)}"
        identity = owner["metadata"]["uid"] if uid is None else uid
    return {"pod": name} | ({"podUid": identity} if identity else {}) | more


def pool(
    name: str,
    ips: str | Sequence[str],
    records: Mapping[str, Object] | str | None = None,
    *,
    exclude: Sequence[str] = (),
    multus: Sequence[str] = (),
    allocated: int | None = None,
    total: int | None = None,
) -> Object:
    """A SpiderIPPool.

    `records` are addresses with the pod or the `claim` that has them, or the text of allocatedIPs. Its counts are right
    unless `allocated` or `total` say otherwise.
    """
    ranges = _several(ips)
    entries = records or {}
    if not isinstance(entries, str):
        entries = {key: claim(owner) if "metadata" in owner else owner for key, owner in entries.items()}
    text = entries if isinstance(entries, str) else json.dumps(entries, separators=(",", ":"))
    status: Object = {
        "allocatedIPCount": len(entries) if allocated is None else allocated,
        "totalIPCount": _size(ranges) - _size(exclude) if total is None else total,
    }
    if entries:
        status["allocatedIPs"] = text
    version = 6 if any(":" in text for text in ranges) else 4
    spec: Object = {"ipVersion": version, "subnet": _subnet(version), "ips": list(ranges)}
    spec |= {"excludeIPs": list(exclude)} if exclude else {}
    spec |= {"multusName": list(multus)} if multus else {}
    return _object(f"{SPIDERPOOL}/v2beta1", "SpiderIPPool", name, spec=spec, status=status)


def blue(records: Mapping[str, Object] | str | None = None, **more: Any) -> Object:
    """The pool `blue`, 10.0.0.10 to .30, which eth0 draws from; further arguments are those of `pool`."""
    return pool("blue", BLUE, records, **more)


def green(records: Mapping[str, Object] | str | None = None, **more: Any) -> Object:
    """The pool `green`, 10.0.1.10 to .30, which net1 draws from."""
    return pool("green", GREEN, records, **more)


def _size(ranges: Sequence[str]) -> int:
    """The number of addresses in disjoint ranges; one that is reversed or cannot be read has none."""
    total = 0
    for text in ranges:
        first, _, last = text.partition("-")
        try:
            total += max(0, int(ipaddress.ip_address(last or first)) - int(ipaddress.ip_address(first)) + 1)
        except ValueError:
            continue
    return total


def _subnet(version: int) -> str:
    return "10.0.0.0/16" if version == 4 else "fd00::/48"


def reserved_ip(*ips: str, name: str = "reserved") -> Object:
    """A SpiderReservedIP."""
    return _object(f"{SPIDERPOOL}/v2beta1", "SpiderReservedIP", name, spec={"ips": list(ips)})


def endpoint(
    owner: Object | str,
    items: Items,
    *,
    uid: str | None = None,
    node: str = "node-1",
    kind: str = "",
    finalizers: Sequence[str] = (SPIDERPOOL,),
    deleting: bool = False,
) -> Object:
    """A SpiderEndpoint, of a pod or of a name and UID. `items` are NICs: {"eth0": "10.0.0.5@blue"}.

    A NIC with both families has two such texts; pairs instead of a mapping may repeat a NIC. `kind` is that of the top
    controller as Spiderpool noted it.
    """
    entry = claim(owner, uid)
    namespace, _, name = entry["pod"].partition("/")
    pairs = items.items() if isinstance(items, Mapping) else items
    status = {
        "current": {
            "uid": entry.get("podUid", ""),
            "node": node,
            "ips": [_item(nic, _several(texts)) for nic, texts in pairs],
        },
        "ownerControllerType": kind or "Pod",
        "ownerControllerName": name.rpartition("-")[0] if kind == "StatefulSet" else name,
    }
    made = _object(f"{SPIDERPOOL}/v2beta1", "SpiderEndpoint", name, namespace, status=status)
    made["metadata"] |= {"uid": f"{name}-endpoint-uid", "finalizers": list(finalizers)}
    if deleting:
        made["metadata"]["deletionTimestamp"] = ago(minutes=10)
    return made


def _item(interface: str, texts: Sequence[str]) -> Object:
    item: Object = {"interface": interface, "vlan": 0}
    for text in texts:
        address, _, source = text.partition("@")
        family = "ipv6" if ":" in address else "ipv4"
        item |= {family: f"{address}/{64 if ':' in address else 24}", f"{family}Pool": source}
    return item


# --- a cluster, and what the judge says of it ---------------------------------------------------------------------


class Objects:
    """A cluster that holds exactly these objects, to be read only. Kinds without a `coverage` of their own are complete."""

    def __init__(self, objects: Iterable[Object], coverage: Mapping[Kind, Coverage] | None = None) -> None:
        self.objects = tuple(objects)
        self.coverage = dict(coverage or {})

    def now(self) -> datetime:
        """NOW."""
        return NOW

    def list(self, resource: Resource, item: type[T], *, namespace: str | None = None) -> Listing[T]:
        """Those of a kind, decoded; what cannot be decoded is `unreadable`."""
        items: list[T] = []
        broken: list[Unreadable] = []
        for thing in self.objects:
            if not _is(resource, thing) or namespace not in {None, thing["metadata"].get("namespace", "")}:
                continue
            raw = msgspec.json.encode(thing)
            try:
                items.append(msgspec.json.decode(raw, type=item))
            except msgspec.ValidationError as error:
                where = (thing["metadata"].get("namespace", ""), name_of(thing), resource.plural)
                broken.append(Unreadable(*where, str(error), raw))
        coverage = next((c for kind, c in self.coverage.items() if kind.plural == resource.plural), Complete())
        return Listing(tuple(items), coverage, tuple(broken))

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Found[T] | Absent | Unread:
        """One object."""
        for thing in self.objects:
            if _is(resource, thing) and (name_of(thing), thing["metadata"].get("namespace", "")) == (name, namespace):
                raw = msgspec.json.encode(thing)
                return Found(msgspec.json.decode(raw, type=item), raw)
        return Absent()

    def create(self, *_: Any, **__: Any) -> Any:
        """Refused: this cluster is read only."""
        raise AssertionError("nothing may be written here")

    patch = create
    delete = create


def _is(resource: Resource, thing: Object) -> bool:
    group = resource.group + "/" if resource.group else ""
    return bool(thing["kind"] == resource.kind and thing["apiVersion"] == f"{group}{resource.version}")


UNREAD = Incomplete(Doubt.UNAVAILABLE, "the list broke off", "kubectl get it")
FORBIDDEN = Incomplete(Doubt.FORBIDDEN, "may not be listed")
NOT_GIVEN = Incomplete(Doubt.NOT_GIVEN, "nothing of it was given", "kubectl get it")


def snapshot(
    *objects: Object,
    coverage: Mapping[Kind, Coverage] | None = None,
    memory: Memory | None = None,
    later: Mapping[str, Mapping[str, str]] | None = None,
) -> Snapshot:
    """What a sweep reads of a cluster that holds these objects.

    node-1 is there and Ready, unless `objects` hold a node or `coverage` speaks of nodes. `later` are the records
    (address -> UID) of pools, by name, that were read once more.
    """
    nodes = [] if NODES in (coverage or {}) or any(thing["kind"] == "Node" for thing in objects) else [node()]
    taken = read_snapshot(Objects([*objects, *nodes], coverage), BACKENDS.values(), memory or Memory())
    return with_later(taken, {ref(name): _later(records) for name, records in (later or {}).items()})


def _later(records: Mapping[str, str]) -> dict[str, Record]:
    """The records that a pool has for these addresses and UIDs."""
    entry = {a: msgspec.json.encode({"pod": "default/any", "podUid": uid}) for a, uid in records.items()}
    return {a: BACKENDS["spiderpool"].record(a, raw) for a, raw in entry.items()}


def ref(name: str) -> PoolRef:
    """The reference of a SpiderIPPool."""
    return PoolRef("spiderpool", "", name)


def digest(address: str, entry: Object) -> str:
    """The digest of a record as `pool` writes it."""
    value = claim(entry) if "metadata" in entry else entry
    return digest_of(address, json.dumps(value, separators=(",", ":")).encode())


def findings(
    *objects: Object,
    policy: Policy | Policies | None = None,
    now: datetime = NOW,
    coverage: Mapping[Kind, Coverage] | None = None,
    memory: Memory | None = None,
    later: Mapping[str, Mapping[str, str]] | None = None,
    defects: bool = False,
) -> list[Finding]:
    """Everything that the judge finds in a cluster of these objects; no record that it failed on, save for `defects`."""
    taken = snapshot(*objects, coverage=coverage, memory=memory, later=later)
    found = judge(taken, policy if isinstance(policy, Policies) else Policies(policy or Policy()), now)
    assert [item for item in found if "defect of poolwarden" in item.message and not defects] == []
    return found


def verdict(address: str | None, *objects: Object, pool: str = "blue", **options: Any) -> Finding:
    """The finding about the record of an address in a pool; `options` are those of `findings`."""
    found = [
        item
        for item in findings(*objects, **options)
        if item.address == address and item.pool.name == pool and item.record_digest
    ]
    assert len(found) == 1, f"{address} has {len(found)} findings about a record of {pool}: {found}"
    return found[0]


def said(address: str | None, *objects: Object, **options: Any) -> str:
    """Verdict, reason and action about a record, in three words."""
    return words(verdict(address, *objects, **options))


def beside(*objects: Object, **options: Any) -> list[Finding]:
    """The findings that are not about a record."""
    return [item for item in findings(*objects, **options) if not item.record_digest]


def told(*objects: Object, **options: Any) -> list[str]:
    """The findings that are not about a record, each as `address verdict reason action`."""
    return [f"{item.address} {words(item)}" for item in beside(*objects, **options)]


def words(finding: Finding) -> str:
    """Verdict, reason and action in three words."""
    return f"{finding.verdict} {finding.reason} {finding.action}"
