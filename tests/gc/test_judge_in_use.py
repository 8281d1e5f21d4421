"""InUse: whoever exists with the record's UID keeps its address."""

import pytest

from factories import (
    NOW,
    Object,
    ago,
    blue,
    claim,
    endpoint,
    nad,
    network_status,
    pod,
    pool,
    said,
    stamp,
    stateful_set,
    verdict,
)

A = "10.0.0.10"
IN_USE = "InUse OwnerLive none"
NAME_LIVE = "InUse NameLive none"


@pytest.mark.parametrize(
    "owner",
    [
        pod("app", ips=[A]),
        pod("app"),
        pod("app", ready=False),
        pod("app", phase="Unknown", ready=False),
        pod("app", phase="Pending"),
        pod("app", phase="Pending", node=""),
        pod("app", ips=[A], status=""),
        pod("app", ips=["10.0.0.11"]),
        pod("app", host_network=True),
        pod("app", deadline=ago(minutes=-1)),
    ],
)
def test_live_owner_with_the_records_uid(owner: Object) -> None:
    """Running, starting, terminating, with or without NICs and endpoint: the owner lives."""
    assert said(A, blue({A: owner}), owner) == IN_USE


def test_deadline_is_the_last_moment_of_grace() -> None:
    """A terminating pod lives until its deletionTimestamp, that moment included."""
    app = pod("app", deadline=stamp(NOW), containers={"main": ago(hours=1)})
    assert said(A, blue({A: app}), app) == IN_USE
    late = pod("app", deadline=ago(seconds=1), containers={"main": ago(hours=1)})
    assert said(A, blue({A: late}), late) == "Leaked OwnerOverdue release"


def test_the_uid_decides_not_the_name() -> None:
    """A record whose UID is that of a live pod of another name is that pod's."""
    app = pod("app", uid="same-uid")
    assert said(A, blue({A: claim("other", "same-uid")}), app) == IN_USE


def test_the_same_name_in_another_namespace_is_another_owner() -> None:
    """Names are looked up in their namespace."""
    assert said(A, blue({A: claim("app")}), pod("app", namespace="other", uid="x")) == "Leaked OwnerGone release"


def test_stale_endpoint_does_not_touch_a_live_owners_record() -> None:
    """The record has the live UID; that the endpoint has an older one is a finding about the endpoint."""
    app = pod("app", ips=[A])
    assert said(A, blue({A: app}), app, endpoint("app", {"eth0": f"{A}@blue"}, uid="older-uid")) == IN_USE


def test_message_names_the_owner() -> None:
    """A finding about a record names its owner and the owner's UID."""
    app = pod("app")
    found = verdict(A, blue({A: app}), app)
    assert f"{A} is recorded for default/app (UID app-uid)" in found.message
    assert (found.owner.kind, found.owner.uid) == ("Pod", "app-uid")  # type: ignore[union-attr]
    assert found.min_grace == 0


def test_message_names_the_interface() -> None:
    """As record or endpoint tell it."""
    app = pod("app")
    found = verdict(A, blue({A: app}), app, endpoint(app, {"net1": f"{A}@blue"}))
    assert "(UID app-uid, interface net1)" in found.message
    assert found.interface == "net1"


# --- records without UID --------------------------------------------------------------------------------------------


def test_record_without_uid_and_a_live_pod_of_that_name() -> None:
    """Old Spiderpool stored no UID: a live pod of that name keeps the address."""
    assert said(A, blue({A: claim("app", "")}), pod("app")) == NAME_LIVE
    assert said(A, blue({A: claim("app", "")}), pod("app", ips=[A])) == IN_USE


def test_record_without_uid_and_no_pod_of_that_name() -> None:
    """Absent by name from a complete list is absent."""
    assert said(A, blue({A: claim("app", "")})) == "Leaked OwnerGone release"


def test_record_without_uid_whose_pod_is_proven_to_use_another_address() -> None:
    """Running and Ready with a complete network-status that shows another address: the record is an older pod's."""
    app = pod("app", ips=["10.0.0.11"])
    things = (blue({A: claim("app", ""), "10.0.0.11": app}), app, nad("eth0"))
    assert said(A, *things) == "Leaked OwnerReplaced release"


def test_record_without_uid_whose_pod_is_not_proven_to_use_another_address() -> None:
    """Not Ready, or a status that is not complete: the pod may have both."""
    for app in (pod("app", ips=["10.0.0.11"], ready=False), pod("app", ips=["10.0.0.11"], networks="more")):
        assert said(A, blue({A: claim("app", "")}), app, nad("eth0")) == NAME_LIVE


def test_record_without_uid_is_not_a_machines_by_its_pods_name() -> None:
    """A record that names nobody's pod is judged by the name that it has."""
    named = pod("virt-launcher-vm-a")
    assert said(A, blue({A: claim("vm", "")}), named) == "Leaked OwnerGone release"


@pytest.mark.parametrize("phase", ["Running", "Pending", "Unknown"])
def test_containers_that_ended_in_a_pod_that_did_not(phase: str) -> None:
    """Between two restarts every container has ended: only Succeeded and Failed are the end of a pod."""
    app = pod("app", phase=phase, containers={"main": ago(hours=1)})
    assert said(A, blue({A: app}), app) == IN_USE


def test_two_pools_and_two_owners_that_show_nothing() -> None:
    """Two starting pods that two overlapping pools gave one address: neither uses it yet, the overlap is told."""
    one, two = pod("one", phase="Pending"), pod("two", phase="Pending")
    things = (blue({A: one}), pool("twin", A, {A: two}), one, two)
    assert said(A, *things) == IN_USE
    assert said(A, *things, pool="twin") == IN_USE


# --- finished pods that may live --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "owner",
    [
        pod("job", phase="Succeeded", restart="Never", containers={"main": ago(minutes=10)}),
        pod("job", phase="Failed", containers={"main": ago(minutes=5)}),
        pod("job", phase="Succeeded", restart="Always"),
        pod("job", phase="Failed", containers={}),
        pod("job", phase="Failed", containers={"main": ago(hours=1), "sidecar": None}),
    ],
)
def test_finished_owner_that_is_not_proven_to_have_ended(owner: Object) -> None:
    """Within grace, startable again, without container statuses, or with one that runs: the address is kept."""
    assert said(A, blue({A: owner}), owner) == IN_USE


def test_phase_alone_ends_nothing_for_a_fixed_ip_owner() -> None:
    """A StatefulSet's finished pod is kept as entitled, not released."""
    web = pod("web-0", phase="Failed")
    assert said(A, blue({A: web}), web, stateful_set("web")) == "Retained StatefulSetEntitled none"


def test_status_that_shows_another_address_is_no_reason_to_free() -> None:
    """A live owner's record is its own though it shows another address: an ADD may be under way."""
    app = pod("app", status=network_status({"eth0": "10.0.0.11"}))
    assert said(A, blue({A: app}), app, nad("eth0")) == IN_USE
