"""Whole releases of each IPAM through the real API server: the steps one by one, and somebody else's write in between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from controlplane.client import ApiError
from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from manifests.leaking import GONE, GUARDS, KINDS, LIVE, Leaking, Neon, Terway, Whereabouts
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.transport import Answer, Request, Response
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.sweep import Settings, Sweep, SweepReport

Object = dict[str, Any]
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MARK = "poolwarden.dev:"
COOLDOWN = "--cooldown=6s"
AT_ONCE = Policy(grace=0, cooldown=0, max_release_percent=100)


class Interrupted:
    """The real transport; straight before the first write to the object at the path, somebody else writes it."""

    def __init__(self, plane: ControlPlane, path: str, other: Callable[[], None]) -> None:
        self.real = KubeTransport(kubeconfig=str(plane.kubeconfig()))
        self.path = path
        self.other = other
        self.statuses: list[int] = []

    def send(self, request: Request) -> Answer:
        """One exchange; the statuses of those that write the object are kept."""
        ours = request.method == "PATCH" and request.path.startswith(self.path)
        if ours and not self.statuses:
            self.other()
        answer = self.real.send(request)
        if ours:
            assert isinstance(answer, Response)
            self.statuses.append(answer.status)
        return answer


def guard_of(scene: Leaking) -> Mapping[str, Any]:
    """The status of the pool's guard."""
    (guard,) = (
        item for item in scene.plane.request("GET", GUARDS)["items"] if item["spec"]["poolRef"]["name"] == scene.pool
    )
    status: Mapping[str, Any] = guard["status"]
    return status


def swept(scene: Leaking, *more: str) -> str:
    """One sweep that must complete; what it printed."""
    done = scene.sweep(*more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- the definitions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plural", "status"),
    [
        ("ippools.vm.neon.tech", False),
        ("virtualmachines.vm.neon.tech", True),
        ("nodes.network.alibabacloud.com", True),
        ("noderuntimes.network.alibabacloud.com", True),
    ],
)
def test_the_definitions_are_taken(control_plane: ControlPlane, plural: str, status: bool) -> None:  # noqa: FBT001
    """The API server takes the kinds of Neon and Terway, with a status subresource where theirs have one."""
    found = control_plane.request("GET", f"{DEFINITIONS}/{plural}")
    conditions = {item["type"]: item["status"] for item in found["status"]["conditions"]}
    assert conditions.get("NonStructuralSchema", "False") == "False"
    assert conditions["Established"] == "True"
    (version,) = found["spec"]["versions"]
    assert ("status" in version.get("subresources", {})) is status


@pytest.mark.parametrize("leaking", [Terway], indirect=True)
def test_a_status_is_written_as_a_subresource_alone(leaking: Leaking) -> None:
    """A write of Terway's Node itself changes nothing in its status, so that ours must name the subresource."""
    before = leaking.records()
    leaking.plane.request("PATCH", leaking.path, {"status": {"networkInterfaces": None}})
    assert leaking.records() == before


@pytest.mark.parametrize("leaking", [Neon], indirect=True)
def test_a_neon_pool_has_no_status(leaking: Leaking) -> None:
    """Its records are its spec, and are written with the object."""
    with pytest.raises(ApiError, match="404"):
        leaking.plane.request("PATCH", f"{leaking.path}/status", {"spec": {"allocations": None}})


# --- step by step -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaking", [Neon], indirect=True)
def test_a_neon_entry_is_hidden_cools_down_and_goes(leaking: Leaking) -> None:
    """First the mark, which keeps the address taken, then, a cooldown later, the removal; other entries stay as they were."""
    before = leaking.records()
    swept(leaking, COOLDOWN)
    assert leaking.records() == before
    swept(leaking, COOLDOWN)
    marked = {**before, leaking.key: {"id": f"{MARK}{leaking.namespace}/{GONE}", "podref": ""}}
    assert leaking.records() == marked
    assert [entry["phase"] for entry in guard_of(leaking)["ledger"]] == ["Cooldown"]
    assert guard_of(leaking)["addresses"]["cooldown"] == "1"
    swept(leaking, COOLDOWN)
    assert leaking.records() == marked
    wait_for("the cooldown to end", lambda: bool(swept(leaking, COOLDOWN)) and not leaking.leaked)
    assert leaking.records() == {key: record for key, record in before.items() if key != leaking.key}
    assert [item["address"] for item in guard_of(leaking)["released"]] == [leaking.leak]


@pytest.mark.parametrize("leaking", [Neon], indirect=True)
def test_a_marked_neon_entry_is_left_in_observe_mode_and_taken_up_again(leaking: Leaking) -> None:
    """Where gc may write no more, a mark stays and blocks its address; once it may, the entry goes."""
    before = leaking.records()
    swept(leaking)
    swept(leaking)
    hidden = leaking.records()
    assert hidden[leaking.key]["id"].startswith(MARK)
    for _ in range(2):
        swept(leaking, "--mode=observe")
        assert leaking.records() == hidden
    swept(leaking)
    assert leaking.records() == {key: record for key, record in before.items() if key != leaking.key}
    assert [item["address"] for item in guard_of(leaking)["released"]] == [leaking.leak]


@pytest.mark.parametrize("leaking", [Neon], indirect=True)
def test_a_marked_neon_entry_is_given_back_to_a_machine_of_that_name(leaking: Leaking) -> None:
    """A VirtualMachine that appears during the cooldown finds its entry again, as it was."""
    before = leaking.records()
    swept(leaking)
    swept(leaking)
    assert leaking.records() != before
    machine = {
        "apiVersion": "vm.neon.tech/v1",
        "kind": "VirtualMachine",
        "metadata": {"name": GONE},
        "spec": {},
    }
    leaking.plane.request("POST", f"/apis/vm.neon.tech/v1/namespaces/{leaking.namespace}/virtualmachines", machine)
    swept(leaking)
    assert leaking.records() == before


@pytest.mark.parametrize("leaking", [Terway], indirect=True)
def test_a_terway_address_forgets_its_pod(leaking: Terway) -> None:
    """The owner's two fields are emptied, and nothing else of the Node changes."""
    before = leaking.plane.request("GET", leaking.path)
    swept(leaking)
    assert leaking.leaked
    swept(leaking)
    after = leaking.plane.request("GET", leaking.path)
    expected = before["status"]
    for name in ("podID", "podUID"):
        del expected["networkInterfaces"][leaking.interface]["ipv4"][leaking.leak][name]
    assert after["status"] == expected
    assert after["spec"] == before["spec"]


@pytest.mark.parametrize("leaking", [Terway], indirect=True)
def test_a_terway_pool_gets_a_guard_only_for_a_finding(leaking: Terway) -> None:
    """Clusters have thousands of Nodes: one in order is not written about."""
    leaking.release_by_terway()
    swept(leaking)
    assert leaking.plane.request("GET", GUARDS)["items"] == []


# --- somebody else in between -------------------------------------------------------------------------------------


def sweep_through(scene: Leaking, other: Callable[[], None]) -> tuple[SweepReport, list[int]]:
    """Sweeps up to the first that writes the pool, with the other's write straight before ours.

    Returns that sweep's report, and the status of each of its writes of the pool.
    """
    transport = Interrupted(scene.plane, scene.path, other)
    settings = Settings(ceiling=Ceiling.RELEASE, default=AT_ONCE, ipams=(scene.ipam,))
    for _ in range(3):
        report = Sweep(ApiServer(transport), settings, lambda _: False).run()
        if transport.statuses:
            return report, transport.statuses
    pytest.fail(f"no write in three sweeps: {report.problems}")


@pytest.mark.parametrize(
    ("leaking", "statuses"),
    [(Whereabouts, [200]), (Neon, [409, 200]), (Terway, [409, 200])],
    indirect=["leaking"],
    ids=lambda value: getattr(value, "ipam", ""),
)
def test_a_write_beside_ours_is_kept(leaking: Leaking, statuses: list[int]) -> None:
    """A further record, written straight before ours, survives; whereabouts' patch minds its own keys, the others come again."""
    report, found = sweep_through(leaking, leaking.take_another)
    assert found == statuses
    assert report.complete, report.problems
    assert [owner for owner in leaking.owners if owner != GONE and not owner.startswith(MARK)] == [*LIVE, "new-0"]
    if isinstance(leaking, Neon):
        swept(leaking)  # that was the mark
    assert not leaking.leaked
    assert leaking.owners == [*LIVE, "new-0"]


@pytest.mark.parametrize("leaking", KINDS, indirect=True, ids=lambda kind: kind.ipam)
def test_a_leak_that_is_taken_in_between_is_left_alone(leaking: Leaking) -> None:
    """The address is recorded anew straight before our write: that write fails, and no other follows."""
    taken: dict[str, Object] = {}

    def take() -> None:
        leaking.take_the_leak()
        taken.update(leaking.records())

    _, statuses = sweep_through(leaking, take)
    assert statuses in ([409], [422])
    assert leaking.records() == taken
