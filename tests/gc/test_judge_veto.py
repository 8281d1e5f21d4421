"""Rule 1: an address that somebody shows, or that his IPAM could hand him without a write, is never freed."""

import pytest

from factories import (
    NETWORK_STATUS,
    UNREAD,
    Object,
    ago,
    blue,
    claim,
    endpoint,
    green,
    launcher,
    nad,
    network_status,
    pod,
    pool,
    said,
    stateful_set,
    undecodable,
    verdict,
    virtual_machine,
    virtual_machine_instance,
    words,
)
from poolwarden.gc.policy import Policy
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS

A = "10.0.0.10"
GONE = blue({A: claim("gone")})
FREE = "Leaked OwnerGone release"
KEPT = "Leaked OwnerGone none"


# --- who shows an address -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("phase", ["Pending", "Running", "Unknown", "SomethingNew", ""])
@pytest.mark.parametrize("shows", [{"ips": [A]}, {"ips": [A], "status": ""}, {"nics": {"net1": A}}])
def test_any_pod_that_is_not_terminal(phase: str, shows: dict[str, object]) -> None:
    """By podIPs or network-status, whatever its phase, if it is not Succeeded or Failed; the message names it."""
    other = pod("other", phase=phase, **shows)  # type: ignore[arg-type]
    found = verdict(A, GONE, other)
    assert words(found) == KEPT
    assert "default/other (UID other-uid)" in found.message


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_terminal_pods_veto_nothing(phase: str) -> None:
    """Their addresses are not in use any more, though podIPs and network-status stay."""
    assert said(A, GONE, pod("other", phase=phase, ips=[A], nics={"net1": A})) == FREE


@pytest.mark.parametrize(
    "other",
    [
        pod("other", ips=[A], host_network=True),
        pod("other", ips=[A], deadline=ago(hours=1), containers={"main": ago(hours=1)}, sandbox=False),
        pod("other", ips=[A], ready=False),
        pod("other", ips=["10.0.0.11", A]),
        pod("other", ips=["::ffff:10.0.0.10"]),
        pod("other", ips=[A], namespace="elsewhere"),
        pod("other", nics={"net1": ["10.9.9.9", f"{A}/24"]}),
        pod("other", ips=["10.9.9.9"], annotations={"k8s.v1.cni.cncf.io/networks-status": "[]"}, nics={"net1": A}),
    ],
)
def test_every_way_to_show_an_address(other: Object) -> None:
    """hostNetwork, terminating, not Ready, a second podIP, another spelling, a mask, another namespace: all veto."""
    assert said(A, GONE, other) == KEPT


def test_pod_ip_of_an_older_api() -> None:
    """`podIP` counts where `podIPs` is absent."""
    old = pod("other", ips=[A], status="")
    del old["status"]["podIPs"]
    assert said(A, GONE, old) == KEPT


def test_ipv6_in_another_spelling() -> None:
    """Addresses are compared, not texts."""
    six = pool("six", "fd00::10-fd00::1f", {"fd00::10": claim("gone")})
    assert said("fd00::10", six, pod("other", ips=["FD00:0:0::10"], status=""), pool="six") == KEPT


@pytest.mark.parametrize("status", [f'[{{"ips": ["{A}"', f'{{"ips": ["{A}"]}}', f"- ips: [{A}]", f"{A}/24,", f"x {A}."])
def test_addresses_inside_a_corrupt_network_status(status: str) -> None:
    """What still stands in a network-status that cannot be read may be in use."""
    assert said(A, GONE, pod("other", status=status)) == KEPT


@pytest.mark.parametrize("status", [f"{{ips:{A}}}", f"{A}:8080"])
def test_addresses_that_touch_other_text(status: str) -> None:
    """Also where a colon stands right before or after."""
    assert said(A, GONE, pod("other", status=status)) == KEPT


@pytest.mark.parametrize("shows", [{"ips": [A], "status": ""}, {"nics": {"net1": A}}])
def test_addresses_inside_an_undecodable_pod(shows: dict[str, object]) -> None:
    """A pod that cannot be decoded vetoes every address that stands in it."""
    assert said(A, GONE, undecodable(pod("other", **shows))) == KEPT  # type: ignore[arg-type]
    assert said(A, GONE, undecodable(pod("other", ips=["10.0.0.11"]))) == FREE


def test_machines_show_addresses_too() -> None:
    """A VMI's status vetoes: its guest may have an address that no pod shows."""
    assert said(A, GONE, virtual_machine_instance("vm", ips=["10.9.9.9", A])) == KEPT
    assert said(A, GONE, undecodable(virtual_machine_instance("vm", ips=[A]))) == KEPT
    assert said(A, GONE, virtual_machine_instance("vm", ips=["10.0.0.11"])) == FREE
    assert "virtual machine default/vm" in verdict(A, GONE, virtual_machine_instance("vm", ips=[A])).message


def test_only_the_first_address_of_a_machines_nic() -> None:
    """`ipAddress` counts where `ipAddresses` is absent, and in a VirtualMachine's status as well."""
    machine = virtual_machine_instance("vm", ips=[A])
    del machine["status"]["interfaces"][0]["ipAddresses"]
    assert said(A, GONE, machine) == KEPT
    assert said(A, GONE, virtual_machine("vm") | {"status": machine["status"]}) == KEPT


# --- another network ------------------------------------------------------------------------------------------------


FAR = nad("net2", master="eth2", ipam="host-local")


def apart(*, ours: str = "eth1", theirs: str = "eth2", ipam: str = "host-local") -> str:
    """What is said of a leak in a pool whose live record is on master `ours`, shown by a pod on master `theirs`."""
    live, far = pod("live", nics={"net1": "10.0.0.11"}), pod("far", nics={"net2": A})
    record = blue({A: claim("gone"), "10.0.0.11": live})
    return said(A, record, live, far, nad("net1", master=ours), nad("net2", master=theirs, ipam=ipam))


def test_another_master_is_another_network() -> None:
    """An attachment to another master than that of every NAD which shows the pool's records is proven apart."""
    assert apart() == FREE


def test_another_ipam_alone_proves_nothing() -> None:
    """On the same master, whoever gave the address: it is in use on that network."""
    assert apart(theirs="eth1") == KEPT


def test_an_unknown_master_proves_nothing() -> None:
    """Neither the attachment's nor the records' may be unknown."""
    assert apart(theirs="") == KEPT
    assert apart(ours="") == KEPT


def test_every_nad_of_the_pools_records_counts() -> None:
    """If one of them is on the attachment's master, or of unknown master, nothing is proven."""
    far, live = pod("far", nics={"net2": A}), pod("live", nics={"net1": "10.0.0.11"})
    nets = (nad("net1", master="eth1"), nad("net2", master="eth2", ipam=""))
    near = pod("near", nics={"net3": "10.0.0.12"})
    things = (blue({A: claim("gone"), "10.0.0.11": live, "10.0.0.12": near}), live, far, near, *nets)
    assert said(A, *things, nad("net3", master="eth1")) == FREE
    assert said(A, *things, nad("net3", master="eth2")) == KEPT
    assert said(A, *things) == KEPT


def test_a_pool_of_which_no_network_is_known() -> None:
    """No live record on a NAD: nothing is proven."""
    assert said(A, GONE, pod("far", nics={"net2": A}), FAR) == KEPT


def test_a_record_shown_by_another_pod_tells_no_network() -> None:
    """Only the record's own owner shows on which network the pool is."""
    thief, far = pod("thief", nics={"net1": "10.0.0.11"}), pod("far", nics={"net2": A})
    things = (blue({A: claim("gone"), "10.0.0.11": claim("other")}), thief, far)
    assert said(A, *things, nad("net1", ipam=""), nad("net2", master="eth2", ipam="")) == KEPT


def test_pod_ips_of_unknown_network_prove_nothing() -> None:
    """A live record shown by podIPs alone leaves the pool's network unknown."""
    live, far = pod("live", ips=["10.0.0.11"], status=""), pod("far", nics={"net2": A})
    assert said(A, blue({A: claim("gone"), "10.0.0.11": live}), live, far, FAR) == KEPT


def test_the_nads_that_a_pool_is_bound_to() -> None:
    """`multusName` names the pool's networks, too."""
    far = pod("far", nics={"net2": A})
    bound = blue({A: claim("gone")}, multus=["kube-system/net1"])
    assert said(A, bound, far, nad("net1", master="eth1"), FAR) == FREE
    assert said(A, bound, far, nad("net1", master="eth2"), FAR) == KEPT
    assert said(A, bound, far, FAR) == KEPT


def test_a_nad_that_a_pool_names_without_a_namespace() -> None:
    """It is one in the agent's namespace, whichever that is: every NAD of that name may be meant."""
    far = pod("far", nics={"net2": A})
    bound = blue({A: claim("gone")}, multus=["net1"])
    assert said(A, bound, far, nad("net1"), FAR) == FREE
    assert said(A, bound, far, nad("net1"), nad("net1", namespace="other", master="eth2"), FAR) == KEPT
    assert said(A, bound, far, nad("xnet1"), FAR) == KEPT


def test_the_nads_that_name_a_pool_in_their_settings() -> None:
    """A Spiderpool NAD's default pools are on its master; another IPAM's setting of that name is none."""
    far = pod("far", nics={"net2": A})
    assert said(A, GONE, far, nad("net1", pools=["blue"]), FAR) == FREE
    assert said(A, GONE, far, nad("net1", pools=["blue"], master="eth2"), FAR) == KEPT
    assert said(A, GONE, far, nad("net1", pools=["green"]), FAR) == KEPT
    assert said(A, GONE, far, nad("net1", pools=["blue"], ipam="other"), FAR) == KEPT


def test_pod_ips_are_of_the_default_network() -> None:
    """If network-status shows them on a NAD that is apart, podIPs say nothing else."""
    live, far = pod("live", nics={"net1": "10.0.0.11"}), pod("far", ips=[A])
    things = (blue({A: claim("gone"), "10.0.0.11": live}), live, far, nad("net1", master="eth1"))
    assert said(A, *things, nad("eth0", master="eth2", ipam="host-local")) == FREE
    assert said(A, *things, nad("eth0", master="eth1", ipam="host-local")) == KEPT


def test_pod_ips_that_the_default_network_does_not_have() -> None:
    """They are on a network of which nothing is known, whatever another NIC shows."""
    live = pod("live", nics={"net1": "10.0.0.11"})
    nics = {"eth0": "10.9.9.9", "net2": A}
    odd = pod("far", ips=[A], status=network_status(nics), networks="kube-system/net2")
    assert said(A, blue({A: claim("gone"), "10.0.0.11": live}), live, odd, nad("net1"), FAR) == KEPT


def test_a_default_network_that_is_not_marked_as_such() -> None:
    """eth0 is it."""
    live, far = pod("live", nics={"net1": "10.0.0.11"}), pod("far", ips=[A])
    far["metadata"]["annotations"][NETWORK_STATUS] = f'[{{"name":"kube-system/net2","interface":"eth0","ips":["{A}"]}}]'
    assert said(A, blue({A: claim("gone"), "10.0.0.11": live}), live, far, nad("net1"), FAR) == FREE


def test_pool_bound_to_a_nad_that_is_not_there() -> None:
    """Its master is unknown, whatever the pool's records show."""
    live, far = pod("live", nics={"net1": "10.0.0.11"}), pod("far", nics={"net2": A})
    bound = blue({A: claim("gone"), "10.0.0.11": live}, multus=["kube-system/lost"])
    assert said(A, bound, live, far, nad("net1"), FAR) == KEPT


def test_nad_that_cannot_be_decoded_proves_nothing() -> None:
    """Its master is unknown."""
    live, far = pod("live", nics={"net1": "10.0.0.11"}), pod("far", nics={"net2": A})
    record = blue({A: claim("gone"), "10.0.0.11": live})
    assert said(A, record, live, far, undecodable(nad("net1")), FAR) == KEPT
    assert said(A, record, live, far, nad("net1"), undecodable(FAR)) == KEPT
    assert said(A, record, live, far, nad("net1"), FAR, undecodable(nad("other"))) == KEPT
    assert said(A, record, live, far, nad("net1"), FAR, coverage={NETWORK_ATTACHMENTS: UNREAD}) == KEPT
    assert said(A, record, live, far, nad("net1"), FAR) == FREE


# --- every reason to release ------------------------------------------------------------------------------------------

SHOWS = pod("shows", nics={"net7": A})


def test_veto_on_owner_replaced() -> None:
    """The new pod itself, too, vetoes its predecessor's address."""
    assert said(A, blue({A: claim("app", "old-uid")}), pod("app"), SHOWS) == "Leaked OwnerReplaced none"
    assert said(A, blue({A: claim("app", "old-uid")}), pod("app", ips=[A])) == "Leaked OwnerReplaced none"


def test_veto_on_owner_finished() -> None:
    """Only the owner itself is excepted."""
    job, policy = pod("job", phase="Failed"), Policy(release_finished_pods=True)
    assert said(A, blue({A: job}), job, policy=policy) == "Leaked OwnerFinished release"
    assert said(A, blue({A: job}), job, SHOWS, policy=policy) == "Leaked OwnerFinished none"


def test_veto_on_owner_overdue() -> None:
    """The owner itself is excepted, by UID; a VMI of whatever name is not it."""
    late = pod("vm", ips=[A], deadline=ago(minutes=5), containers={"main": ago(hours=1)}, sandbox=False)
    assert said(A, blue({A: late}), late) == "Leaked OwnerOverdue release"
    assert said(A, blue({A: late}), late, SHOWS) == "Leaked OwnerOverdue none"
    machine = virtual_machine_instance("other", ips=[A])
    assert said(A, blue({A: late}), late, machine) == "Leaked OwnerOverdue none"


def test_veto_on_surplus() -> None:
    """Another pod that shows the surplus address keeps it."""
    app = pod("app", ips=["10.0.0.11"])
    things = (blue({A: app, "10.0.0.11": app}), app, endpoint(app, {"eth0": "10.0.0.11@blue"}))
    assert said(A, *things) == "Leaked SurplusForOwner release"
    assert said(A, *things, SHOWS) == "Leaked SurplusForOwner none"


def test_veto_on_never_attached() -> None:
    """Another pod that shows a phantom NIC's address keeps it."""
    app = pod("app", ips=["10.0.1.11"])
    things = (
        green({"10.0.1.11": app}),
        blue({A: app}),
        app,
        endpoint(app, {"eth0": "10.0.1.11@green", "": f"{A}@blue"}),
    )
    assert said(A, *things) == "Leaked NeverAttached release"
    assert said(A, *things, SHOWS) == "Leaked NeverAttached none"


# --- what an IPAM could hand out without a write that we would see ----------------------------------------------------


def test_an_address_that_a_live_pods_endpoint_lists() -> None:
    """Spiderpool answers an ADD from the endpoint, without writing the pool: such an address is kept."""
    starting = pod("web", phase="Pending")
    found = verdict(A, GONE, starting, endpoint(starting, {"eth0": f"{A}@blue"}))
    assert words(found) == KEPT
    assert "default/web (UID web-uid)" in found.message


def test_the_records_own_endpoint_keeps_nothing() -> None:
    """It goes before the record does."""
    assert said(A, GONE, endpoint("gone", {"eth0": f"{A}@blue"})) == FREE


def test_an_endpoint_of_any_other_uid_keeps_what_it_lists() -> None:
    """Also where its pod is gone or replaced: first that endpoint must go, as stale or orphan."""
    assert said(A, GONE, endpoint("web", {"eth0": f"{A}@blue"}, uid="old-uid"), pod("web")) == KEPT
    assert said(A, GONE, endpoint("web", {"eth0": f"{A}@blue"})) == KEPT
    assert said(A, GONE, endpoint("web", {"eth0": "10.0.0.11@blue"})) == FREE


def test_an_address_in_an_undecodable_endpoint() -> None:
    """Whatever stands in it may be listed."""
    assert said(A, GONE, undecodable(endpoint("web", {"eth0": f"{A}@blue"}))) == KEPT
    assert said(A, GONE, undecodable(endpoint("web", {"eth0": "10.0.0.11@blue"}))) == FREE


def test_an_address_that_a_fixed_ip_owners_endpoint_lists() -> None:
    """A StatefulSet's or VM's next pod gets what its endpoint lists: without a record nothing is written for it."""
    kept = endpoint("web-0", {"eth0": f"{A}@blue"}, uid="old-uid", kind="StatefulSet")
    assert said(A, GONE, kept, stateful_set("web")) == KEPT
    assert said(A, GONE, kept, stateful_set("web"), pod("web-0", phase="Pending")) == KEPT
    machine = endpoint("vm", {"eth0": f"{A}@blue"}, uid="old-uid", kind="VirtualMachineInstance")
    assert said(A, GONE, machine, virtual_machine("vm")) == KEPT


def test_an_address_that_the_endpoint_of_an_undecodable_pod_lists() -> None:
    """Its UID cannot be compared, so its endpoint may answer its ADD."""
    starting = pod("web", phase="Pending")
    assert said(A, GONE, undecodable(starting), endpoint(starting, {"eth0": f"{A}@blue"})) == KEPT


def test_an_address_in_an_endpoint_that_cannot_be_read() -> None:
    """Beside an item that makes no sense the others still stand."""
    starting = pod("web", phase="Pending")
    assert said(A, GONE, starting, endpoint(starting, {"eth0": f"{A}@blue", "net1": "10.0.0.300@blue"})) == KEPT


def test_an_endpoint_that_lists_the_address_from_another_pool() -> None:
    """Where it is not proven that the pools are on networks apart, it may be the same address."""
    starting = pod("web", phase="Pending")
    assert said(A, GONE, green(), starting, endpoint(starting, {"eth0": f"{A}@green"})) == KEPT
    assert said(A, GONE, starting, endpoint(starting, {"eth0": f"{A}@lost"})) == KEPT


def test_an_endpoint_that_a_del_left() -> None:
    """Without finalizer and record it answers no ADD: its pod has ended."""
    ended, left = pod("web", phase="Succeeded"), endpoint("web", {"eth0": f"{A}@blue"}, finalizers=())
    assert said(A, GONE, ended, left) == FREE
    assert said(A, GONE, ended, endpoint("web", {"eth0": f"{A}@blue"})) == KEPT
    assert said(A, GONE, pod("web", phase="Pending"), left) == KEPT
    assert said(A, GONE, left) == KEPT
    assert said(A, blue({A: claim("gone"), "10.0.0.11": ended}), ended, left) == KEPT
    by_name = blue({A: claim("gone"), "10.0.0.11": claim("web", "")})
    assert said(A, by_name, ended, left) == KEPT
    another = blue({A: claim("gone"), "10.0.0.11": claim("web", "old-uid")})
    assert said(A, another, ended, left) == FREE
    going = pod("web", deadline=ago(minutes=-1))
    assert said(A, GONE, going, left) == FREE


def test_an_undecodable_endpoint_and_a_record_without_uid() -> None:
    """Neither has a UID, which does not make them one."""
    record = blue({A: claim("gone", "")})
    assert said(A, record, undecodable(endpoint("web", {"eth0": f"{A}@blue"}))) == KEPT
    assert said(A, record, endpoint("web", {"eth0": f"{A}@blue"}, uid="")) == KEPT
    assert said(A, record) == FREE


def test_a_launchers_network_status_counts() -> None:
    """A VM's address on a further network is shown by its launcher's network-status."""
    shows = launcher("vm", status=network_status({"eth0": "10.9.9.9", "net1": A}))
    assert said(A, GONE, shows) == KEPT
