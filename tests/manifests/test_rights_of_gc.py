"""For want of each right that manifests/ give gc it says which, does what does not need it, and frees nothing in doubt."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controlplane.build import WHEREABOUTS_CRDS
from controlplane.client import NAMESPACES
from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from controlplane.server import wait_for
from manifests.leaking import GONE, GUARDS, LEASE, LIVE, SWEEP, Whereabouts
from manifests.rights import Missing, Right, missed, name_of, rules, wait_until_granted
from manifests.shipped import MANIFESTS
from poolwarden.cli import COULD_NOT, main
from poolwarden.commands import OK
from poolwarden.gc.schedule import Gc
from spiderpool_agent import GROUP, Agent

Object = dict[str, Any]
Run = Callable[..., tuple[int, set[Missing]]]

GC = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc"
CRDS = Path(__file__).parents[1] / "crds"
DEFINITION = MANIFESTS / "crd" / "poolguards.yaml"
THE_LEASE = "/apis/coordination.k8s.io/v1/namespaces/poolwarden/leases/poolwarden-gc"
OBSERVE = ("gc", "--once", "--mode=observe")
RULES = rules(*(MANIFESTS / "rbac" / name for name in ("observe.yaml", "release.yaml", "lease.yaml")))
KUBEVIRT = "kubevirt.io"
ELSEWHERE = {"whereabouts.cni.cncf.io", "vm.neon.tech", "network.alibabacloud.com"}
"""The groups of which test_rights_of_ipams has the rights."""
FORGETTING = ("delete", "poolwarden.dev", "poolguards", "")
TESTED = [right for right in RULES if right[1] not in ELSEWHERE and right != FORGETTING]


def freed_without(right: Right) -> set[str]:
    """The IPAMs whose leaks are freed though the right is missing."""
    match right[:3]:
        case (_, "events.k8s.io", _):
            return {"spiderpool", "whereabouts"}
        case (_, "k8s.cni.cncf.io", _):
            return {"spiderpool"}
        # StatefulSets and machines entitle nobody to an address of whereabouts, whose records do not tell a pod's node.
        case (_, "spiderpool.spidernet.io" | "apps" | "kubevirt.io", _) | ("get", "", "nodes"):
            return {"whereabouts"}
        case _:
            return set()


@dataclass
class Spiderpool:
    """A pool in which two pods have an address, and one that is gone has left its record and its endpoint behind."""

    plane: ControlPlane
    namespace: str
    node: str

    @property
    def agent(self) -> Agent:
        """Who writes all this."""
        return Agent(self.plane, self.namespace)

    @property
    def pool(self) -> str:
        """Pools are cluster-wide."""
        return self.namespace

    def make(self) -> None:
        """The pods must be there."""
        self.agent.make_pool(self.pool, "10.69.0.10-10.69.0.19")
        pods = [self.plane.request("GET", f"{NAMESPACES}/{self.namespace}/pods/{name}") for name in LIVE]
        about = {"namespace": self.namespace, "name": GONE, "uid": "11111111-2222-3333-4444-555555555555"}
        gone = {"metadata": about, "spec": {"nodeName": self.node}}
        for at, pod in enumerate((*pods, gone), start=10):
            self.agent.add(pod, {"eth0": (self.pool, f"10.69.0.{at}")})

    def remove(self) -> None:
        """The pool and all endpoints."""
        endpoints = f"{GROUP}/namespaces/{self.namespace}/spiderendpoints"
        paths = (*(f"{endpoints}/{name}" for name in self.agent.endpoints()), f"{GROUP}/spiderippools/{self.pool}")
        for path in paths:
            if self.plane.find(path):
                self.plane.request("PATCH", path, {"metadata": {"finalizers": None}})
            if self.plane.find(path):  # one that was being deleted is gone with its finalizer
                self.plane.request("DELETE", path)

    @property
    def owners(self) -> list[str]:
        """The names of all pods that the pool records, sorted."""
        return sorted(record["pod"].partition("/")[2] for record in self.agent.records(self.pool).values())


def machines(kind: str) -> Object:
    """The definition of a kind of KubeVirt's, of which there is no object."""
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{KUBEVIRT}"},
        "spec": {
            "group": KUBEVIRT,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.fixture(scope="module")
def control_plane(
    control_plane_programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """An API server of its own: the definition of PoolGuards comes and goes, and there are KubeVirt's kinds."""
    folder = tmp_path_factory.mktemp("rights")
    with ControlPlane(control_plane_programs, folder, controllers=False, kubelets=False) as plane:
        whereabouts = control_plane_programs["whereabouts"].parent
        crds = (*CRDS.glob("*.yaml"), *(whereabouts / file for file in WHEREABOUTS_CRDS.files), DEFINITION)
        kubevirt = [machines(kind) for kind in ("VirtualMachine", "VirtualMachineInstance")]
        plane.kubectl("apply", *(f"--filename={path}" for path in crds))
        plane.kubectl("apply", "--filename=-", input="\n---\n".join(map(json.dumps, kubevirt)))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        plane.kubectl("apply", f"--filename={MANIFESTS / 'namespace.yaml'}")
        plane.kubectl("apply", "--kustomize", str(MANIFESTS / "rbac"))
        plane.kubectl("apply", "--kustomize", str(MANIFESTS / "components" / "release"))
        wait_until_granted(plane, GC, RULES, "poolwarden")
        yield plane


@pytest.fixture
def undefined(control_plane: ControlPlane) -> Iterator[Callable[[], None]]:
    """Takes the definition of PoolGuards away; it is served again after the test."""

    def undefine() -> None:
        control_plane.kubectl("delete", f"--filename={DEFINITION}")
        wait_for("PoolGuards to be forgotten", lambda: not served() and "poolwarden.dev" not in groups())

    def groups() -> set[str]:
        return {group["name"] for group in control_plane.request("GET", "/apis")["groups"]}

    def served() -> bool:
        return not control_plane.kubectl("get", "--raw", GUARDS, check=False).returncode

    yield undefine
    control_plane.kubectl("apply", f"--filename={DEFINITION}")
    wait_for("PoolGuards to be served", served)


@pytest.fixture
def whereabouts(control_plane: ControlPlane, namespace: str, bare_node: str) -> Iterator[Whereabouts]:
    """A leak in a pool of whereabouts, and pods that live."""
    scene = Whereabouts(control_plane, namespace, bare_node)
    scene.make()
    yield scene
    scene.remove()


@pytest.fixture
def spiderpool(whereabouts: Whereabouts) -> Iterator[Spiderpool]:
    """A leak in a pool of Spiderpool, with the same pods."""
    scene = Spiderpool(whereabouts.plane, whereabouts.namespace, whereabouts.node)
    scene.make()
    yield scene
    scene.remove()
    if scene.plane.find(GUARDS):
        scene.plane.request("DELETE", GUARDS)


@pytest.fixture
def run(control_plane: ControlPlane, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """Runs the program as a user, in this process: its exit status, and the rights that it says it lacks."""
    monkeypatch.setattr(Gc, "listen", lambda _: None)  # signals are pytest's

    def run(user: str, *arguments: str) -> tuple[int, set[Missing]]:
        status = main([*arguments, *LEASE, "--kubeconfig", str(control_plane.kubeconfig(user))])
        lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("poolwarden: ")]
        return status, missed(lines)

    return run


def test_the_rights_are_enough(
    whereabouts: Whereabouts, spiderpool: Spiderpool, run: Run, undefined: Callable[[], None]
) -> None:
    """From nothing but rights gc makes its definition, lease and guards, frees both leaks, and forgets a guard it made."""
    plane = spiderpool.plane
    undefined()
    if plane.find(THE_LEASE):
        plane.request("DELETE", THE_LEASE)
    assert run(GC, *OBSERVE) == (OK, set())
    assert whereabouts.owners == spiderpool.owners == sorted((*LIVE, GONE))
    assert run(GC, *SWEEP) == (OK, set())
    assert whereabouts.owners == spiderpool.owners == sorted(LIVE)
    spiderpool.remove()
    guard = f"{GUARDS}/spiderpool.{spiderpool.pool}"
    for remains in (True, False):  # absent once is noted, absent twice is forgotten
        assert run(GC, *SWEEP) == (OK, set())
        assert bool(plane.find(guard)) is remains


@pytest.mark.parametrize("withheld", TESTED, ids=name_of)
def test_what_is_withheld_is_named(
    whereabouts: Whereabouts,
    spiderpool: Spiderpool,
    run: Run,
    limited_user: str,
    request: pytest.FixtureRequest,
    withheld: Right,
) -> None:
    """Exit status 2 and the one right that is missing; what does not need it is done, and pods keep their addresses."""
    plane = spiderpool.plane
    plane.grant(limited_user, [rule for right, rule in RULES.items() if right != withheld])
    assert run("admin", *OBSERVE) == (OK, set())  # what leaks is due at the next sweep
    match withheld[:3]:
        case ("create", "poolwarden.dev", _):
            plane.request("DELETE", GUARDS)
        case ("create", "coordination.k8s.io", _):
            plane.request("DELETE", THE_LEASE)
        case (_, "apiextensions.k8s.io", _):
            request.getfixturevalue("undefined")()
    assert run(limited_user, *SWEEP) == (COULD_NOT, {withheld[:3]})
    scenes: Mapping[str, Spiderpool | Whereabouts] = {"spiderpool": spiderpool, "whereabouts": whereabouts}
    assert {ipam for ipam, scene in scenes.items() if GONE not in scene.owners} == freed_without(withheld)
    assert all(set(LIVE) <= set(scene.owners) for scene in scenes.values())


def test_a_guard_that_may_not_be_deleted_is_named(spiderpool: Spiderpool, run: Run, limited_user: str) -> None:
    """The guard of a pool that is gone stays, and for want of what."""
    spiderpool.plane.grant(limited_user, [rule for right, rule in RULES.items() if right != FORGETTING])
    assert run("admin", *OBSERVE) == (OK, set())
    spiderpool.remove()
    assert run("admin", *OBSERVE) == (OK, set())
    assert run(limited_user, *OBSERVE) == (COULD_NOT, {FORGETTING[:3]})
    assert spiderpool.plane.find(f"{GUARDS}/spiderpool.{spiderpool.pool}")
