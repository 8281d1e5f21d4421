"""Proofs that are none: whatever leaves a doubt about an owner or about an address keeps the record."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from factories import (
    NETWORK_STATUS,
    NOT_GIVEN,
    UNREAD,
    Object,
    ago,
    blue,
    claim,
    endpoint,
    findings,
    nad,
    network_status,
    node,
    pod,
    said,
    words,
)
from poolwarden.cluster.interface import Coverage, NotInstalled
from poolwarden.ipam import neon, terway, whereabouts
from poolwarden.ipam.kinds import Kind

A, B, C = "10.0.0.10", "10.0.0.11", "10.0.0.12"
PLAIN = "10.0.0.0-24"
FREE = "Leaked OwnerGone release"
KEPT = "Leaked OwnerGone none"
INVALID = "Unknown RecordInvalid none"
DOUBTED = "Unknown EvidenceIncomplete none"
UNRECORDED = "Conflict InUseUnrecorded none"


def made(kind: Kind, name: str, namespace: str = "", **rest: Any) -> Object:
    """An object of a kind."""
    metadata: Object = {"name": name, "uid": f"{name}-uid", "resourceVersion": "7", "creationTimestamp": ago(days=1)}
    metadata |= {"namespace": namespace} if namespace else {}
    return {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata, **rest}


# --- whereabouts ----------------------------------------------------------------------------------------------------


def entry(podref: str) -> Object:
    """What whereabouts records of net1 of a pod."""
    return {"id": f"{podref}-sandbox", "podref": podref, "ifname": "net1"}


def ip_pool(name: str, network: str, allocations: Mapping[str, str] | Sequence[Object]) -> Object:
    """An IPPool of whereabouts: the reference of the pod by key, or something else as it is."""
    entries = {k: entry(v) for k, v in allocations.items()} if isinstance(allocations, Mapping) else allocations
    return made(whereabouts.POOLS, name, "kube-system", spec={"range": network, "allocations": entries})


def plain(podref: str = "default/gone") -> Object:
    """The pool 10.0.0.0/24, which records A for a pod that is gone, and B for one that is there."""
    return ip_pool(PLAIN, "10.0.0.0/24", {"10": podref, "11": "default/live"})


def draws(name: str, master: str = "eth1", **ipam: str) -> Object:
    """A NAD of whereabouts."""
    config = {"cniVersion": "0.3.1", "type": "macvlan", "master": master, "ipam": {"type": "whereabouts", **ipam}}
    return {**nad(name), "spec": {"config": json.dumps(config)}}


LIVE = pod("live", ips=["172.31.0.1"], nics={"net1": B})
STARTING = pod("starting", phase="Pending", networks="kube-system/net1@net1", status="")
"""It shows nothing yet, whatever it has been given."""
USER = pod("user", ips=["172.31.0.2"], nics={"net1": A})
NET1 = draws("net1", range="10.0.0.0/24")


def test_record_without_any_doubt() -> None:
    """The leak that every test of whereabouts here starts from is freed, with no more than a pod that starts beside it."""
    assert said(A, plain(), LIVE, STARTING, NET1, pool=PLAIN) == FREE


@pytest.mark.parametrize(
    ("network", "allocations", "wanted"),
    [
        pytest.param("10.0.0.0/25", {"10": "default/starting"}, UNRECORDED, id="clean"),
        pytest.param("10.0.0.0/25", {"010": "default/starting"}, DOUBTED, id="zero"),
        pytest.param("10.0.0.0/25", {"+10": "default/starting"}, DOUBTED, id="plus"),
        pytest.param("10.0.0.5/25", {"10": "default/starting"}, DOUBTED, id="from-the-network"),
        pytest.param("10.0.0.5/25", {"5": "default/starting"}, UNRECORDED, id="from-the-host-as-written"),
        pytest.param("10.0.0.0", {"10": "default/starting"}, DOUBTED, id="range-unreadable"),
        pytest.param("10.0.0.0/25", [entry("default/starting")], DOUBTED, id="records-unreadable"),
    ],
)
def test_overlapping_pool_that_may_record_the_address(
    network: str, allocations: Mapping[str, str] | Sequence[Object], wanted: str
) -> None:
    """An odd key, an uncertain start and an unreadable range may all stand for an address that a pod was just given."""
    other = ip_pool("10.0.0.0-25", network, allocations)
    assert said(A, plain(), other, LIVE, STARTING, pool=PLAIN) == wanted


@pytest.mark.parametrize(
    ("user", "others"),
    [
        pytest.param(USER, [draws("net1", range="10.0.0.0/24", network_name="blue")], id="named-since"),
        pytest.param(
            USER,
            [
                draws("net1", range="10.0.0.0/24", network_name="blue"),
                ip_pool("blue-10.0.0.0-24", "10.0.0.0/24", {"1": "default/new"}),
                pod("new", ips=["172.31.0.3"], nics={"net1": "10.0.0.1"}),
            ],
            id="named-since-and-used",
        ),
        pytest.param(
            pod("user", ips=["172.31.0.2"], nics={"net2": A}), [NET1, draws("net2", "eth2")], id="range-in-a-file"
        ),
        pytest.param(
            pod("user", ips=["172.31.0.2"], nics={"net2": A}),
            [NET1, draws("net2", "eth2", range="10.9.0.0/24")],
            id="moved-since",
        ),
    ],
)
def test_attachment_that_says_now_what_was_not_so_then(user: Object, others: Sequence[Object]) -> None:
    """A NAD that was changed under a running pod proves nothing about where the pod's address came from."""
    assert said(A, plain(), user, LIVE, *others, pool=PLAIN) == UNRECORDED


def test_other_ipam_has_given_the_address() -> None:
    """What another IPAM records for a pod that shows nothing yet is not freed in this one, in neither direction."""
    networks = (nad("net1", ipam="whereabouts"), nad("net2"))
    given = (blue({A: STARTING}), endpoint(STARTING, {"net2": f"{A}@blue"}))
    assert said(A, plain(), *given, STARTING, LIVE, *networks, pool=PLAIN) == KEPT
    assert said(A, blue({A: claim("gone")}), plain("default/starting"), STARTING, LIVE, *networks, pool="blue") == KEPT


@pytest.mark.parametrize(
    ("new", "wanted"), [("", UNRECORDED), (network_status({"eth0": ["172.31.0.2"]}), KEPT)], ids=["blank", "less"]
)
def test_network_status_under_its_old_key(new: str, wanted: str) -> None:
    """A NIC that only the old key tells of is in use, though a new one stands beside it, blank or without that NIC."""
    keys = {"k8s.v1.cni.cncf.io/networks-status": network_status({"net1": A}), NETWORK_STATUS: new}
    user = pod("user", ips=["172.31.0.2"], networks="kube-system/net1@net1", annotations=keys)
    assert said(A, plain(), user, LIVE, NET1, pool=PLAIN) == wanted


SLICE = {"range": "10.0.0.0/24", "sliceSize": "/26"}
READABLE = made(
    whereabouts.NODE_SLICES,
    "slices",
    "kube-system",
    spec=SLICE,
    status={"allocations": [{"nodeName": "worker", "sliceRange": "10.0.0.0/26"}]},
)
UNDECODABLE = {**READABLE, "status": {"allocations": "nonsense"}}


@pytest.mark.parametrize(
    ("slices", "coverage", "wanted"),
    [
        pytest.param([READABLE], {}, UNRECORDED, id="read"),
        pytest.param([UNDECODABLE], {}, DOUBTED, id="undecodable"),
        pytest.param([], {whereabouts.NODE_SLICES: NOT_GIVEN}, UNRECORDED, id="not-given"),
        pytest.param([], {whereabouts.NODE_SLICES: UNREAD}, DOUBTED, id="unread"),
    ],
)
def test_slice_of_a_node(slices: Sequence[Object], coverage: Mapping[Kind, Coverage], wanted: str) -> None:
    """While it is not known which pools are slices of nodes, none counts as one of another network by its name."""
    part = ip_pool("worker-10.0.0.0-26", "10.0.0.0/26", {"10": "default/starting"})
    assert said(A, plain(), part, *slices, STARTING, LIVE, pool=PLAIN, coverage=coverage) == wanted


FORMS = ["default/app:3f2a", "Default/app", "default/app ", " default/app", "default/app\n", "default/app@net1"]


@pytest.mark.parametrize("reference", FORMS)
def test_reference_that_no_pod_can_have(reference: str) -> None:
    """It is not one to a pod that is gone: what it means is unknown, and it is never freed."""
    assert said(A, plain(reference), LIVE, pool=PLAIN) == INVALID
    assert said(A, machine_node(reference), end_of(reference), LIVE, node(), pool="node-1") == INVALID


def test_reservation_for_a_reference_that_no_pod_can_have() -> None:
    """Nor is a reservation without a record taken for that of a pod that is gone."""
    kept = made(whereabouts.RESERVATIONS, A, "kube-system", spec={"podref": "default/app:3f2a", "ifname": "net1"})
    pool = ip_pool(PLAIN, "10.0.0.0/24", {"11": "default/live"})
    (found,) = (item for item in findings(pool, kept, LIVE) if item.address == A)
    assert words(found).endswith(" none")


def test_status_that_lost_a_nic_nobody_asked_for() -> None:
    """A NIC of Multus' own default networks stands in no annotation, so that a status without it does not prove it gone."""
    app = pod("app", ips=["172.31.0.2"])
    assert said(A, plain("default/app"), app, LIVE, pool=PLAIN).endswith(" none")


# --- Neon -----------------------------------------------------------------------------------------------------------


def neon_pool(name: str, records: Mapping[str, str]) -> Object:
    """An IPPool of Neon: the virtual machine by offset."""
    entries = {key: {"id": f"default/{machine}", "podref": ""} for key, machine in records.items()}
    return made(neon.POOLS, name, "system", spec={"range": "10.0.0.0/28", "allocations": entries})


def machine(name: str, address: str = "") -> Object:
    """A VirtualMachine that runs with the address, or that starts."""
    status = {"phase": "Running", "extraNetIP": address} if address else {}
    return made(neon.MACHINES, name, "default", spec={"restartPolicy": "Always"}, status=status)


NEW, OLD = "neonvm-10.0.0.0-28", "10.0.0.0-28"


def test_machines_that_are_not_served() -> None:
    """Pools without the kind of their owners prove of no owner that it is gone."""
    pool = neon_pool(NEW, {"10": "gone", "11": "live"})
    assert said(A, pool, machine("live", B), LIVE, pool=NEW) == FREE
    assert said(A, pool, LIVE, pool=NEW, coverage={neon.MACHINES: NotInstalled()}) == DOUBTED


def test_neon_pools_of_two_names() -> None:
    """All machines share one overlay: pools of two names conflict, and what one has given is not freed in the other."""
    pools = (neon_pool(NEW, {"10": "gone", "11": "vm-b"}), neon_pool(OLD, {"10": "starting", "12": "vm-c"}))
    objects = (*pools, machine("starting"), machine("vm-b", B), machine("vm-c", C), LIVE)
    told = {item.pool.name: words(item) for item in findings(*objects) if item.address is None}
    assert told == dict.fromkeys((NEW, OLD), "Conflict PoolsOverlap none")
    assert said(A, *objects, pool=NEW) == UNRECORDED


# --- Terway ---------------------------------------------------------------------------------------------------------


def machine_node(reference: str) -> Object:
    """A Terway node with one interface, which records A for a pod that has ended."""
    slot = {"ip": A, "status": "Valid", "podID": reference, "podUID": "gone-uid"}
    interface = {"id": "eni-1", "status": "InUse", "ipv4": {A: slot}}
    return made(terway.POOLS, "node-1", spec={}, status={"networkInterfaces": {"eni-1": interface}})


def end_of(reference: str) -> Object:
    """What node-1 tells of the end of that pod."""
    seen = {"initial": {"lastUpdateTime": ago(hours=3)}, "deleted": {"lastUpdateTime": ago(hours=2)}}
    pods = {"gone-uid": {"podID": reference, "status": seen}}
    return made(terway.RUNTIMES, "node-1", spec={}, status={"pods": pods})


def test_terway_without_what_its_nodes_tell() -> None:
    """While what proves removals was not given, nothing is known of them."""
    pool = machine_node("default/gone")
    assert said(A, pool, end_of("default/gone"), LIVE, node(), pool="node-1") == FREE
    assert said(A, pool, LIVE, node(), pool="node-1", coverage={terway.RUNTIMES: NOT_GIVEN}) == DOUBTED
