"""The real whereabouts plugin on the real API server: the records that it makes, and those that it leaks."""

from __future__ import annotations

import pytest

from controlplane.plane import ControlPlane
from controlplane.whereabouts import RESERVATIONS, Attachment, Whereabouts, WhereaboutsError, records

IPAM = {"range": "10.55.0.0/24"}
RECORD = "10.55.0.0-24/1"  # of the first address of the range


def make_pod(plane: ControlPlane, namespace: str, node: str, name: str = "web-0") -> None:
    """Makes a pod on the node, once its predecessor is gone."""
    spec = {"nodeName": node, "containers": [{"name": "main", "image": "example.test/main:1"}]}
    plane.request("POST", f"/api/v1/namespaces/{namespace}/pods", {"metadata": {"name": name}, "spec": spec})


def test_allocates_and_frees(
    control_plane: ControlPlane, whereabouts: Whereabouts, namespace: str, bare_node: str
) -> None:
    """An ADD gives the first free address, recorded in the pool and in a reservation; a DEL removes both."""
    make_pod(control_plane, namespace, bare_node)
    first = Attachment(namespace, "web-0", "sandbox-1")
    second = Attachment(namespace, "web-0", "sandbox-1", interface="net2")

    assert whereabouts.add(IPAM, first) == ["10.55.0.1/24"]
    assert whereabouts.add(IPAM, second) == ["10.55.0.2/24"]

    assert records(control_plane) == {
        "10.55.0.0-24/1": {"id": "sandbox-1", "ifname": "net1", "podref": f"{namespace}/web-0"},
        "10.55.0.0-24/2": {"id": "sandbox-1", "ifname": "net2", "podref": f"{namespace}/web-0"},
    }
    assert control_plane.find(f"{RESERVATIONS}/10.55.0.1")
    whereabouts.delete(IPAM, first)
    assert list(records(control_plane)) == ["10.55.0.0-24/2"]
    assert control_plane.find(f"{RESERVATIONS}/10.55.0.1") is None


def test_pod_made_again_keeps_its_record(
    control_plane: ControlPlane, whereabouts: Whereabouts, namespace: str, bare_node: str
) -> None:
    """A pod deleted by force leaves its record; made again, it gets the same address, and only the id changes."""
    make_pod(control_plane, namespace, bare_node)
    addresses = whereabouts.add(IPAM, Attachment(namespace, "web-0", "sandbox-1"))
    before = records(control_plane)[RECORD]

    control_plane.force_delete_pod(namespace, "web-0")
    assert records(control_plane)[RECORD] == before  # leaked, by the plugin itself
    make_pod(control_plane, namespace, bare_node)

    assert whereabouts.add(IPAM, Attachment(namespace, "web-0", "sandbox-2")) == addresses
    assert records(control_plane) == {RECORD: {**before, "id": "sandbox-2"}}


def test_failure_is_the_plugins_own(whereabouts: Whereabouts) -> None:
    """A plugin that fails raises its own message."""
    with pytest.raises(WhereaboutsError, match="range"):
        whereabouts.add({"range": "nonsense"}, Attachment("default", "web-0", "sandbox-1"))
