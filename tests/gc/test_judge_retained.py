"""Retained: fixed-IP owners keep their address over restarts, until it is proven that they use another."""

import json
from datetime import timedelta

import msgspec
import pytest

from factories import (
    GREEN,
    NOW,
    Object,
    ago,
    blue,
    claim,
    digest,
    endpoint,
    green,
    launcher,
    nad,
    network_status,
    pod,
    pool,
    ref,
    said,
    snapshot,
    stateful_set,
    told,
    undecodable,
    verdict,
    virtual_machine,
    virtual_machine_instance,
    words,
)
from poolwarden.cluster.interface import Complete, Listing, Unreadable
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies, Policy, Retention, RetentionRule
from poolwarden.gc.snapshot import Memory
from poolwarden.ipam.objects import Machine

A = "10.0.0.10"
RETAINED = "Retained StatefulSetEntitled none"
MACHINE = "Retained VirtualMachineEntitled none"
REPLACED = "Leaked OwnerReplaced release"
GONE = "Leaked OwnerGone release"
UNRECORDED = f"{A} Conflict InUseUnrecorded none"
OLD = claim("web-0", "old-uid")
WEB = stateful_set("web")


# --- who is entitled ------------------------------------------------------------------------------------------------


def test_pod_of_a_stateful_set_that_is_absent() -> None:
    """Between two pods of one name the address waits for the next."""
    found = verdict(A, blue({A: OLD}), WEB)
    assert (found.verdict, found.reason, found.action) == ("Retained", "StatefulSetEntitled", "none")
    assert "StatefulSet default/web" in found.message


def test_pod_of_a_stateful_set_that_is_being_recreated() -> None:
    """The new pod is there, but has no address yet: it will get this one."""
    assert said(A, blue({A: OLD}), WEB, pod("web-0", phase="Pending")) == RETAINED


@pytest.mark.parametrize(
    ("name", "workload", "kept"),
    [
        ("web-0", stateful_set("web", replicas=None), True),
        ("web-1", stateful_set("web", replicas=None), False),
        ("web-2", stateful_set("web", replicas=3), True),
        ("web-3", stateful_set("web", replicas=3), False),
        ("web-0", stateful_set("web", replicas=0), False),
        ("web-4", stateful_set("web", replicas=3, start=5), False),
        ("web-5", stateful_set("web", replicas=3, start=5), True),
        ("web-7", stateful_set("web", replicas=3, start=5), True),
        ("web-8", stateful_set("web", replicas=3, start=5), False),
        ("web-10", stateful_set("web", replicas=11), True),
        ("web-0", stateful_set("web", namespace="other"), False),
        ("web-0", stateful_set("db"), False),
        ("web", stateful_set("web"), False),
        ("web-a", stateful_set("web"), False),
        ("a-web-0", stateful_set("a-web"), True),
    ],
)
def test_ordinals_that_a_stateful_set_wants(name: str, workload: Object, kept: bool) -> None:  # noqa: FBT001
    """`replicas` defaults to 1, ordinals start at 0 unless said otherwise; name and namespace must be the set's."""
    assert said(A, blue({A: claim(name)}), workload) == (RETAINED if kept else GONE)


def test_replaced_pod_that_no_set_wants() -> None:
    """A pod of that name beyond the replicas is no heir."""
    assert said(A, blue({A: OLD}), stateful_set("web", replicas=0), pod("web-0", phase="Pending")) == REPLACED


@pytest.mark.parametrize("owner", [pod("web-0", phase="Failed"), pod("web-0", phase="Succeeded", restart="Never")])
def test_finished_pod_of_a_stateful_set(owner: Object) -> None:
    """Its set makes it anew: the address is kept."""
    policy = Policy(release_finished_pods=True)
    assert said(A, blue({A: owner}), owner, WEB, policy=policy) == RETAINED
    assert said(A, blue({A: owner}), owner, policy=policy) == "Leaked OwnerFinished release"


def test_overdue_pod_of_a_stateful_set() -> None:
    """Likewise for one that should have ended."""
    web = pod("web-0", deadline=ago(minutes=5), containers={"main": ago(minutes=6)})
    assert said(A, blue({A: web}), web, WEB) == RETAINED
    assert said(A, blue({A: web}), web) == "Leaked OwnerOverdue release"


# --- until the new pod is proven to use another address ---------------------------------------------------------------

ETH0, NET1 = nad("eth0"), nad("net1")


def heir(**more: object) -> Object:
    """The new web-0, which is proven to use 10.0.0.11 in the old address's place."""
    return pod("web-0", **({"ips": ["10.0.0.11"]} | more))  # type: ignore[arg-type]


def test_new_pod_that_uses_another_address() -> None:
    """Running and Ready, network-status complete, default entry as podIPs, another address of the family: replaced."""
    found = verdict(A, blue({A: OLD}), WEB, heir(), ETH0)
    assert (found.verdict, found.reason, found.action) == ("Leaked", "OwnerReplaced", "release")
    assert "old-uid" in found.message
    assert "web-0-uid" in found.message
    assert "10.0.0.11" in found.message


@pytest.mark.parametrize(
    "new",
    [
        heir(ready=False),
        heir(phase="Pending", ready=True),
        heir(phase="Unknown", ready=True),
        heir(deadline=ago(minutes=-1)),
        heir(networks="kube-system/net1"),
        heir(networks="a/b/c"),
        heir(status=""),
        heir(status="{"),
        heir(status=network_status({"net1": "10.0.0.11"})),
        heir(status=network_status({"eth0": "10.0.0.12"})),
        heir(status=network_status({"eth0": ()})),
        heir(ips=(), status=network_status({"eth0": "10.0.0.11"})),
        heir(ips=["fd00::5"]),
    ],
)
def test_new_pod_that_is_not_proven_to_use_another_address(new: Object) -> None:
    """Each part of the proof is needed: without it the address is kept."""
    six = pool("six", "fd00::1-fd00::ff")
    assert said(A, blue({A: OLD}), six, WEB, new, ETH0, NET1) == RETAINED


@pytest.mark.parametrize("new", [heir(ips=["10.0.0.11", A]), heir(nics={"net1": A})])
def test_new_pod_that_shows_the_old_address(new: Object) -> None:
    """Whoever shows the address uses it; where it is proven that he draws from this IPAM, the old UID is a conflict."""
    assert said(A, blue({A: OLD}), WEB, new) == RETAINED
    assert said(A, blue({A: OLD}), WEB, new, ETH0, NET1) == "Conflict InUseUnrecorded none"


def test_the_interface_of_the_record_decides() -> None:
    """Where the old endpoint names the address's NIC, that NIC must have another address; the others prove nothing."""
    moved = heir(nics={"net1": ()})
    for interface, expected in (("eth0", REPLACED), ("net1", RETAINED)):
        old = endpoint("web-0", {interface: f"{A}@blue"}, uid="old-uid", kind="StatefulSet")
        assert said(A, blue({A: OLD}), WEB, old, moved, ETH0, NET1) == expected


def test_the_interface_that_an_old_record_names_decides() -> None:
    """Up to v0.8.1 the record itself names it."""
    moved = heir(nics={"net1": ()})
    for interface, expected in (("eth0", REPLACED), ("net1", RETAINED)):
        record = claim("web-0", "old-uid", interface=interface)
        assert said(A, blue({A: record}), WEB, moved, ETH0, NET1) == expected
        old = endpoint("web-0", {"eth0": f"{A}@blue", "net1": "10.0.0.12@blue"}, uid="old-uid")
        assert said(A, blue({A: record}), WEB, old, moved, ETH0, NET1) == expected


def test_the_default_entry_need_not_come_first() -> None:
    """It is the one that says so."""
    nics = [{"interface": "net1", "ips": ["10.0.1.11"]}, {"interface": "eth0", "ips": ["10.0.0.11"], "default": True}]
    assert said(A, blue({A: OLD}), WEB, heir(status=json.dumps(nics)), ETH0, NET1) == REPLACED


def test_net1_with_another_address() -> None:
    """The NIC of the record has another address of the family now."""
    old = endpoint("web-0", {"net1": "10.0.1.10@green"}, uid="old-uid")
    things = (green({"10.0.1.10": OLD}), WEB, old, ETH0, NET1)
    assert said("10.0.1.10", *things, heir(nics={"net1": "10.0.1.11"}), pool="green") == REPLACED
    assert said("10.0.1.10", *things, heir(nics={"net1": ()}), pool="green") == RETAINED
    assert said("10.0.1.10", *things, heir(nics={"net1": "fd00::5"}), pool="green") == RETAINED


def test_net1_that_is_gone() -> None:
    """A NIC that a complete network-status does not have is gone, and its address with it."""
    old = endpoint("web-0", {"net1": "10.0.1.10@green"}, uid="old-uid")
    things = (green({"10.0.1.10": OLD}), WEB, old, ETH0, NET1)
    assert said("10.0.1.10", *things, heir(), pool="green") == REPLACED


def test_an_endpoint_of_another_uid_does_not_name_the_records_interface() -> None:
    """Only the endpoint with the record's UID tells the NIC: else every NIC of this IPAM counts."""
    newer = endpoint("web-0", {"eth0": f"{A}@blue", "net1": "10.0.0.11@blue"}, uid="web-0-uid")
    unsure = heir(status=network_status({"eth0": "10.0.0.11", "net1": ()}), networks="kube-system/net1@net1")
    assert said(A, blue({A: OLD}), WEB, newer, unsure, ETH0, NET1) == RETAINED


def test_without_an_interface_every_nic_of_this_ipam_counts() -> None:
    """One NIC of Spiderpool's that shows no address of the family may be the record's."""
    empty = heir(nics={"net1": ()})
    assert said(A, blue({A: OLD}), WEB, empty, ETH0, NET1) == RETAINED
    assert said(A, blue({A: OLD}), WEB, heir(nics={"net1": "10.0.1.11"}), ETH0, NET1) == REPLACED


def test_nics_of_other_ipams_do_not_count() -> None:
    """A set that stopped using Spiderpool (#3817) has no NIC for the address to be on."""
    empty = heir(nics={"net1": ()})
    assert said(A, blue({A: OLD}), WEB, empty, ETH0, nad("net1", ipam="dhcp")) == REPLACED
    calico = heir(ips=["192.168.0.9"], status=network_status({"eth0": "192.168.0.9"}))
    assert said(A, blue({A: OLD}), WEB, calico, NET1) == REPLACED


def test_pod_ips_stand_for_eth0_in_a_cluster_without_multus() -> None:
    """No NAD at all: a pod without networks annotation has the one NIC that podIPs show."""
    plain = heir(status="")
    assert said(A, blue({A: OLD}), WEB, plain) == REPLACED
    assert said(A, blue({A: OLD}), WEB, plain, ETH0) == RETAINED
    assert said(A, blue({A: OLD}), WEB, heir(status="", networks="net1")) == RETAINED


def test_proven_elsewhere_still_needs_node_evidence() -> None:
    """The old pod may run on where nobody sees it."""
    old = endpoint("web-0", {"eth0": f"{A}@blue"}, uid="old-uid", node="lost")
    assert said(A, blue({A: OLD}), WEB, old, heir(), ETH0) == "Unknown NodeUnreachable none"


# --- what the policy says ---------------------------------------------------------------------------------------------


def retention(rule: RetentionRule, after: int = 0) -> Policy:
    """A policy of that retention."""
    return Policy(retention=Retention(rule, after))


def test_release_always_keeps_nothing_for_stateful_sets() -> None:
    """The operator may give up fixed addresses of StatefulSets."""
    always = retention(RetentionRule.RELEASE_ALWAYS)
    assert said(A, blue({A: OLD}), WEB, policy=always) == GONE
    assert said(A, blue({A: OLD}), WEB, pod("web-0", phase="Pending"), policy=always) == REPLACED


@pytest.mark.parametrize(("absent", "expected"), [(599, RETAINED), (600, GONE), (None, RETAINED)])
def test_release_after_a_time_of_absence(absent: int | None, expected: str) -> None:
    """Counted from when the owner was first seen absent, which is now if no earlier sweep saw it."""
    since = {} if absent is None else {(ref("blue"), digest(A, OLD)): NOW - timedelta(seconds=absent)}
    after = retention(RetentionRule.RELEASE_AFTER, 600)
    assert said(A, blue({A: OLD}), WEB, policy=after, memory=Memory(absent_since=since)) == expected


@pytest.mark.parametrize("rule", list(RetentionRule))
def test_the_policy_for_stateful_sets_is_none_for_machines(rule: RetentionRule) -> None:
    """VMs keep their addresses as long as they exist."""
    assert said(A, blue({A: claim("vm")}), virtual_machine("vm"), policy=retention(rule)) == MACHINE


# --- KubeVirt -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "workload",
    [
        virtual_machine("vm"),
        virtual_machine_instance("vm"),
        undecodable(virtual_machine("vm")),
        undecodable(virtual_machine_instance("vm")),
    ],
)
def test_machine_that_exists(workload: Object) -> None:
    """A VM's record names the VM and carries the launcher pod's UID; stopped, the VM keeps it."""
    found = verdict(A, blue({A: claim("vm", "launcher-uid")}), workload)
    assert words(found) == MACHINE
    assert f"{workload['kind']} default/vm entitles it" in found.message


def test_machine_that_could_not_be_read() -> None:
    """A live read that gave nothing: it may exist, or not."""
    taken = snapshot(blue({A: claim("vm", "launcher-uid")}))
    unread: Listing[Machine] = Listing((), Complete(), (Unreadable("default", "vm", "", "timed out", b""),))
    for field in ("machines", "machine_instances"):
        (found,) = judge(msgspec.structs.replace(taken, **{field: unread}), Policies(), NOW)
        assert words(found) == "Unknown EvidenceIncomplete none"


def test_machine_of_another_name_or_namespace() -> None:
    """Another VM entitles nobody."""
    record = blue({A: claim("vm", "launcher-uid")})
    assert said(A, record, virtual_machine("vm2")) == GONE
    assert said(A, record, virtual_machine("vm", namespace="other")) == GONE


def test_running_machine() -> None:
    """The launcher pod has the record's UID: in use, by UID, though its name is another."""
    runs = launcher("vm", ips=[A], uid="launcher-uid")
    assert said(A, blue({A: claim("vm", "launcher-uid")}), runs, virtual_machine("vm")) == "InUse OwnerLive none"


def test_any_live_launcher_entitles_the_machine() -> None:
    """Also without VM and VMI, a virt-launcher pod of the VMI that lives keeps the record."""
    record = blue({A: claim("vm", "older-uid")})
    assert said(A, record, launcher("vm", phase="Pending")) == MACHINE
    assert said(A, record, launcher("vm", phase="Succeeded")) == GONE
    assert said(A, record, launcher("vm2", phase="Pending")) == GONE
    assert said(A, record, launcher("vm", phase="Pending", namespace="other")) == GONE


def test_live_migration_is_no_conflict() -> None:
    """While a VMI migrates, two launcher pods share its address, whichever of them the record carries."""
    source = launcher("vm", "a", ips=[A], uid="source-uid")
    target = launcher("vm", "b", ips=[A], uid="target-uid")
    things = (source, target, virtual_machine_instance("vm", ips=[A]), ETH0)
    assert said(A, blue({A: claim("vm", "source-uid")}), *things) == "InUse OwnerLive none"
    assert said(A, blue({A: claim("vm", "target-uid")}), *things) == "InUse OwnerLive none"
    assert said(A, blue({A: claim("vm", "older-uid")}), *things) == MACHINE


def test_live_migration_of_a_machine_without_a_fixed_address() -> None:
    """The record then names the launcher pod itself; the other launcher of the VMI is still no second user."""
    source = launcher("vm", "a", ips=[A], uid="source-uid")
    target = launcher("vm", "b", ips=[A], uid="target-uid")
    assert said(A, blue({A: source}), source, target, ETH0) == "InUse OwnerLive none"


def test_migrated_machine() -> None:
    """The source launcher has succeeded; its record waits for the ADD of the next one."""
    source = launcher("vm", "a", phase="Succeeded", uid="source-uid")
    record = blue({A: claim("vm", "source-uid")})
    assert said(A, record, source, virtual_machine("vm"), policy=Policy(release_finished_pods=True)) == MACHINE


def test_launcher_that_cannot_be_decoded() -> None:
    """The pod with the record's UID exists, under whatever name: its record is kept."""
    starting = launcher("vm", phase="Pending", uid="launcher-uid")
    found = verdict(A, blue({A: claim("vm", "launcher-uid")}), undecodable(starting))
    assert words(found) == "Unknown EvidenceIncomplete none"
    assert "cannot be read: Invalid" in found.message
    other = launcher("vm2", phase="Pending", uid="other-uid")
    assert said(A, blue({A: claim("vm", "launcher-uid")}), undecodable(other)) == GONE


def test_another_machines_launcher_is_a_conflict() -> None:
    """Two VMs with one address are two users."""
    source = launcher("vm", ips=[A], uid="source-uid")
    things = (blue({A: claim("vm", "source-uid")}), source, launcher("vm2", ips=[A], uid="other-uid"), ETH0)
    assert said(A, *things) == "Conflict AddressHeldTwice none"


def test_live_migration_with_an_unrecorded_address_is_one_user() -> None:
    """An unrecorded address of one VMI is in use unrecorded, not held twice."""
    source = launcher("vm", "a", ips=[A], uid="source-uid")
    target = launcher("vm", "b", ips=[A], uid="target-uid")
    assert told(blue(), source, target, ETH0) == [UNRECORDED]


def test_a_machines_endpoint_proves_its_launchers_use() -> None:
    """The VM's endpoint carries the launcher's UID and lists the address that no pool records."""
    runs = launcher("vm", ips=[A], uid="launcher-uid")
    owned = endpoint("vm", {"eth0": f"{A}@blue"}, uid="launcher-uid", kind="VirtualMachineInstance")
    assert told(blue(), runs, owned) == [UNRECORDED]


def test_name_of_the_pool_is_of_no_matter() -> None:
    """Retention is by owner, in whatever pool."""
    assert said("10.0.1.10", pool("x", GREEN, {"10.0.1.10": OLD}), WEB, pool="x") == RETAINED
