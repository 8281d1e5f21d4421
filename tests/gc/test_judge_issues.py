"""What went wrong in public, judged right: small clusters made after threads of Spiderpool's issue tracker."""

from pathlib import Path

import pytest

from factories import NOW, words
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import read
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies
from poolwarden.gc.read import read_snapshot, unread
from poolwarden.gc.snapshot import Memory
from poolwarden.ipam.registry import BACKENDS

DUMPS = Path(__file__).parent / "dumps"
IN_USE = "InUse OwnerLive none"
MISSING = "Drift EndpointMissing none"
SURPLUS = "Leaked SurplusForOwner none"
TWICE = "Conflict AddressHeldTwice none"

EXPECTED = {
    # the surplus of a pod that does not run is told: any of the five may become its address
    4295: [
        ("10.0.0.10", IN_USE),
        ("10.0.0.11", SURPLUS),
        ("10.0.0.11", MISSING),
        ("10.0.0.12", SURPLUS),
        ("10.0.0.13", SURPLUS),
        ("10.0.0.14", SURPLUS),
        ("10.0.0.15", SURPLUS),
        ("10.0.2.10", IN_USE),
    ],
    # "" is legal while a pod attaches: nothing to tell
    4362: [("10.0.0.10", IN_USE), ("10.0.1.10", IN_USE)],
    # a NIC named many times is told; which item is right is not proven
    2901: [
        ("10.0.0.10", SURPLUS),
        ("10.0.0.10", "Drift InterfaceDuplicated none"),
        ("10.0.0.11", SURPLUS),
        ("10.0.0.12", SURPLUS),
        ("10.0.0.13", SURPLUS),
        ("10.0.0.14", SURPLUS),
        ("10.0.0.15", SURPLUS),
    ],
    # a NIC that nobody asked Multus for never comes
    711: [("10.0.0.10", IN_USE), ("10.0.1.10", "Leaked NeverAttached release")],
    # a record that only lacks its endpoint is what the pod needs to start
    2517: [("10.0.0.10", IN_USE), ("10.0.0.11", IN_USE), ("10.0.0.11", MISSING)],
    # the endpoint is another UID's, and two pods share the address
    1187: [("10.0.0.10", TWICE), ("10.0.0.10", "Drift EndpointStale none")],
    # an endpoint without pod and record keeps a new pod of that name from starting
    4867: [("10.0.0.10", "Drift EndpointOrphan repair")],
    # a restarting pod of a StatefulSet keeps its address
    2442: [("10.0.0.10", IN_USE), ("10.0.0.11", "Retained StatefulSetEntitled none")],
    # in use, and recorded for nobody or for another
    3751: [("10.0.0.10", "Conflict InUseUnrecorded none"), ("10.0.0.11", TWICE)],
    # a fixed-IP owner that is proven to use another address needs the old one no more
    3817: [("10.0.0.10", "Leaked OwnerReplaced release")],
    # missing podIPs prove nothing
    4888: [("10.0.0.10", IN_USE)],
    # Terminating past its deadline and still running: two users
    2967: [("192.230.10.111", TWICE)],
    # counts are told, and an address outside the ranges is never freed
    1797: [
        (None, "Drift CountMismatch none"),
        ("10.0.0.10", IN_USE),
        ("10.0.0.11", "Unknown OutOfRange none"),
    ],
    # containers ended, sandbox without address, and no set that wants the pod
    1659: [("10.0.0.10", "Leaked OwnerOverdue release")],
}


@pytest.mark.parametrize("issue", EXPECTED, ids=lambda issue: f"issue-{issue}")
def test_issue(issue: int) -> None:
    """Every finding about the cluster of that thread, and no other."""
    cluster = Files(read([str(DUMPS / f"issue-{issue}.yaml")]), assume_complete=True)
    snapshot = read_snapshot(cluster, BACKENDS.values(), Memory())
    assert unread(snapshot) == ()
    assert [(item.address, words(item)) for item in judge(snapshot, Policies(), NOW)] == EXPECTED[issue]


def test_every_dump_is_judged() -> None:
    """No file without a verdict."""
    assert {path.stem for path in DUMPS.glob("*.yaml")} == {f"issue-{issue}" for issue in EXPECTED}
