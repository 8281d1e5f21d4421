"""The cache over the real API server, with the real CRDs of Spiderpool and Multus."""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.watch import Paces
from poolwarden.webhook.cache import Cache
from poolwarden.webhook.knowledge import SOURCES

CRDS = Path(__file__).parents[1] / "crds"
POOLS = "/apis/spiderpool.spidernet.io/v2beta1/spiderippools"
ATTACHMENTS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions"
QUICK = Paces(recheck=0.5, backoff_base=0.1, backoff_cap=0.5)

Start = Callable[..., Cache]


@pytest.fixture(scope="module")
def plane(
    control_plane_programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """An API server of its own: one test restarts it."""
    folder = tmp_path_factory.mktemp("cache")
    with ControlPlane(control_plane_programs, folder, controllers=False, kubelets=False) as plane:
        plane.kubectl("apply", *(f"--filename={path}" for path in CRDS.glob("*.yaml")))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        yield plane


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts caches, whose threads must be gone soon after the test, TLS or no TLS."""
    stop = threading.Event()
    before = set(threading.enumerate())

    def start(plane: ControlPlane, user: str = "admin") -> Cache:
        cache = Cache(KubeTransport(kubeconfig=str(plane.kubeconfig(user))), paces=QUICK)
        cache.start(stop)
        return cache

    yield start
    stop.set()
    wait_for("the threads to end", lambda: set(threading.enumerate()) <= before, seconds=5)


def pool(name: str) -> dict[str, Any]:
    """A SpiderIPPool."""
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderIPPool",
        "metadata": {"name": name},
        "spec": {"subnet": "10.0.0.0/24", "ips": ["10.0.0.1-10.0.0.9"]},
    }


def attachment(name: str) -> dict[str, Any]:
    """A NetworkAttachmentDefinition."""
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": name},
        "spec": {"config": '{"type": "macvlan"}'},
    }


def test_objects_come_and_go(plane: ControlPlane, start: Start) -> None:
    """Pools and networks are known, and known to be gone, a moment after the API server knows it."""
    plane.request("POST", POOLS, pool("listed"))
    cache = start(plane)
    assert cache.wait(10)
    assert cache.problems() == ()
    knowledge = cache.knowledge()
    assert knowledge.spider_pools.items["", "listed"].spec.ips == ("10.0.0.1-10.0.0.9",)
    assert all(getattr(knowledge, field).whole for field in SOURCES)

    plane.request("POST", ATTACHMENTS, attachment("blue"))
    wait_for("the network", lambda: ("default", "blue") in cache.knowledge().attachments.items, seconds=2)
    plane.request("PATCH", f"{POOLS}/listed", {"spec": {"ips": []}})
    wait_for("the change", lambda: not cache.knowledge().spider_pools.items["", "listed"].spec.ips, seconds=2)
    plane.request("DELETE", f"{POOLS}/listed")
    plane.request("DELETE", f"{ATTACHMENTS}/blue")
    wait_for("the pool to go", lambda: cache.knowledge().spider_pools.lacks(("", "listed")), seconds=2)
    wait_for("the network to go", lambda: cache.knowledge().attachments.lacks(("default", "blue")), seconds=2)


def test_list_and_watch_suffice(plane: ControlPlane, start: Start) -> None:
    """Without rights the kinds that are served are doubtful, in the server's words; list and watch alone end that."""
    with plane.limited_user() as user:
        cache = start(plane, user)
        assert cache.wait(10)
        served = {
            kind.kubectl_name
            for kind, _ in SOURCES.values()
            if plane.find(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{kind.kubectl_name}")
        }
        assert {problem.partition(": 403 ")[0] for problem in cache.problems()} == {
            f"cannot list {kind}" for kind in served
        }
        assert {"spiderippools.spiderpool.spidernet.io", "network-attachment-definitions.k8s.cni.cncf.io"} <= served
        assert cache.knowledge().guards.whole
        verbs = ["list", "watch"]
        groups = sorted({kind.group for kind, _ in SOURCES.values()})
        plural = sorted({kind.plural for kind, _ in SOURCES.values()})
        plane.grant(user, [{"apiGroups": groups, "resources": plural, "verbs": verbs}])
        wait_for("the doubts to end", lambda: not cache.problems(), seconds=20)
        plane.request("POST", POOLS, pool("granted"))
        wait_for("the pool", lambda: ("", "granted") in cache.knowledge().spider_pools.items, seconds=2)
        plane.request("DELETE", f"{POOLS}/granted")


def test_restart_casts_no_doubt(plane: ControlPlane, start: Start) -> None:
    """While the API server restarts everything is known as last heard; what happens afterwards is heard by itself."""
    plane.request("POST", POOLS, pool("old"))
    cache = start(plane)
    assert cache.wait(10)
    doubts: set[str] = set()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            doubts.update(cache.problems())
            if ("", "old") not in cache.knowledge().spider_pools.items:
                doubts.add("the pool is forgotten")

    looking = threading.Thread(target=look)
    looking.start()
    plane.restart_apiserver()
    plane.request("POST", POOLS, pool("new"))
    wait_for("the new pool", lambda: ("", "new") in cache.knowledge().spider_pools.items, seconds=20)
    over.set()
    looking.join()
    assert doubts == set()
    for name in ("old", "new"):
        plane.request("DELETE", f"{POOLS}/{name}")
