"""gc beside the real whereabouts plugin, on a real API server: every leaked record and reservation goes, no live one."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from controlplane.build import WHEREABOUTS_CRDS
from controlplane.multus import NETWORKS
from controlplane.plane import ControlPlane
from controlplane.whereabouts import NAMESPACE, RESERVATIONS, Attachment, Whereabouts, records
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.interface import Cluster
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.gc.examine import examine
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.release import Outcome
from poolwarden.gc.sweep import Settings, Sweep, SweepReport
from poolwarden.ipam.verdict import Reason

from .whereabouts_lanes import POOLS, Call, Lane, Network, Step, Stepping

ROOT = Path(__file__).parents[2]
Object = dict[str, Any]
NOW = Settings(
    ceiling=Ceiling.RELEASE, default=Policy(grace=0, cooldown=0, max_release_percent=100), ipams=("whereabouts",)
)
LIMITS = Limits(qps=10_000, burst=10_000)


@pytest.fixture
def kinds(control_plane: ControlPlane, control_plane_programs: Mapping[str, Path]) -> Iterator[None]:
    """The kinds that gc reads are installed; its guards are gone afterwards."""
    folder = control_plane_programs["whereabouts"].parent
    files = [folder / file for file in WHEREABOUTS_CRDS.files]
    files += [
        ROOT / "tests" / "crds" / "network-attachment-definition.yaml",
        ROOT / "manifests" / "crd" / "poolguards.yaml",
    ]
    flags = [f"--filename={path}" for path in files]
    control_plane.kubectl("apply", "--server-side", *flags)
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *flags)
    yield
    control_plane.request("DELETE", "/apis/poolwarden.dev/v1alpha1/poolguards")


# --- histories --------------------------------------------------------------------------------------------------------

PLAIN: Object = {"range": "10.71.0.0/24"}
NICS: Mapping[str, Object] = {
    "net1": PLAIN,
    "net2": {"range": "10.72.0.0/28", "network_name": "blue", "exclude": ["10.72.0.0/30"]},
    "net3": {"range": "fd00:73:0:1::/64", "range_start": "fd00:73:0:1:2::", "network_name": "red"},
    "net4": {"ipRanges": [{"range": "10.74.0.0/28"}, {"range": "fd00:74::/120", "exclude": ["fd00:74::1/128"]}]},
}
"""What the plugin is told for each NIC: a plain range, a named network with excludes, IPv6 from ``::2::``, two ranges."""
QUICK = ("--grace", "0s", "--cooldown", "0s", "--ipam", "whereabouts", "--lease-duration", "3s")
SWEEPS = 3
"""One sights a leak, the next one frees it, and the third finds nothing left to do."""
DEADLINE = 60.0


def eventually(what: str, holds: Callable[[], bool]) -> None:
    """Wait until it holds, or fail."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(0.2)
    pytest.fail(f"not within {DEADLINE:.0f} s: {what}")


class Site:
    """Workloads of a namespace whose pods have NICs of whereabouts, and everything that the plugin has written for them."""

    def __init__(self, plane: ControlPlane, plugin: Whereabouts, namespace: str, node: str) -> None:
        self.plane, self.plugin, self.namespace, self.node = plane, plugin, namespace, node
        self._sandboxes = (f"sandbox-{number}" for number in count(1))
        self._hosts = count(1)

    def attach(self, nics: Mapping[str, Object]) -> None:
        """A NetworkAttachmentDefinition for each NIC, named after it."""
        path = f"/apis/k8s.cni.cncf.io/v1/namespaces/{self.namespace}/network-attachment-definitions"
        for name, ipam in nics.items():
            config = {
                "cniVersion": "0.3.1",
                "name": name,
                "type": "macvlan",
                "master": name,
                "ipam": {"type": "whereabouts", **ipam},
            }
            meta = {
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinition",
                "metadata": {"name": name},
            }
            self.plane.request("POST", path, {**meta, "spec": {"config": json.dumps(config)}})

    def workload(self, kind: str, name: str, replicas: int, nics: Mapping[str, Object]) -> None:
        """A StatefulSet or Deployment; its pods exist on return, without any NIC."""
        asked = json.dumps([{"name": nic, "interface": nic} for nic in nics])
        spec = {"nodeName": self.node, "terminationGracePeriodSeconds": 0, "containers": [{"name": "c", "image": "i"}]}
        body: Object = {
            "metadata": {"name": name},
            "spec": {
                "replicas": replicas,
                "selector": {"matchLabels": {"app": name}},
                "template": {"metadata": {"labels": {"app": name}, "annotations": {NETWORKS: asked}}, "spec": spec},
            },
        }
        if kind == "StatefulSet":
            body["spec"] |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        self.plane.request("POST", f"/apis/apps/v1/namespaces/{self.namespace}/{kind.lower()}s", body)
        eventually(f"{replicas} pods of {name}", lambda: len(self.pods(name)) == replicas)

    def pods(self, app: str) -> list[str]:
        """The names of a workload's pods that are not being deleted."""
        items = self.plane.request("GET", f"/api/v1/namespaces/{self.namespace}/pods?labelSelector=app%3D{app}")[
            "items"
        ]
        return sorted(item["metadata"]["name"] for item in items if not item["metadata"].get("deletionTimestamp"))

    def uid(self, pod: str) -> str:
        """The UID of the pod of that name, "" if there is none."""
        found = self.plane.find(f"/api/v1/namespaces/{self.namespace}/pods/{pod}")
        return str(found["metadata"]["uid"]) if found else ""

    def kill(self, pod: str, *, comes_back: bool) -> None:
        """Deletes a pod by force, so that no DEL is made; returns when its controller has made the next one."""
        old = self.uid(pod)
        app = pod.rpartition("-")[0].partition("-")[0]
        others = len(self.pods(app))
        self.plane.force_delete_pod(self.namespace, pod)
        if comes_back:
            eventually(f"another {pod}", lambda: self.uid(pod) not in {"", old})
        else:
            eventually(f"a pod in the place of {pod}", lambda: len(self.pods(app)) == others and not self.uid(pod))

    def attachment(self, pod: str, nic: str, sandbox: str) -> Attachment:
        """One NIC of a pod's sandbox."""
        return Attachment(self.namespace, pod, sandbox, interface=nic, node=self.node)

    def add(self, pod: str, nics: Mapping[str, Object]) -> tuple[str, dict[str, list[str]]]:
        """A new sandbox with these NICs; returns its id and their addresses."""
        sandbox = next(self._sandboxes)
        given = {nic: self.plugin.add(ipam, self.attachment(pod, nic, sandbox)) for nic, ipam in nics.items()}
        return sandbox, {nic: [item.partition("/")[0] for item in ips] for nic, ips in given.items()}

    def start(self, pod: str, nics: Mapping[str, Object]) -> dict[str, list[str]]:
        """A new sandbox, and then the pod runs and shows what it has."""
        _, given = self.add(pod, nics)
        self.run(pod, given)
        return given

    def run(self, pod: str, given: Mapping[str, Sequence[str]]) -> None:
        """The pod is Running and Ready, and its network-status lists the cluster's own network and each NIC."""
        own = f"10.199.0.{next(self._hosts)}"
        status: list[Object] = [{"name": "cluster", "interface": "eth0", "ips": [own], "default": True, "dns": {}}]
        status += [
            {"name": f"{self.namespace}/{nic}", "interface": nic, "ips": list(ips), "dns": {}}
            for nic, ips in given.items()
        ]
        self.plane.run_pod(self.namespace, pod, ips=[own], network_status=status)

    def written(self) -> tuple[dict[str, Object], dict[str, Object]]:
        """All records and all reservations."""
        items = self.plane.request("GET", RESERVATIONS)["items"]
        return records(self.plane), {item["metadata"]["name"]: item["spec"] for item in items}

    def of_others(self, *pods: str) -> tuple[dict[str, Object], dict[str, Object]]:
        """All records and reservations but those of these pods."""
        theirs = {f"{self.namespace}/{pod}" for pod in pods}
        one, other = ({k: v for k, v in part.items() if v["podref"] not in theirs} for part in self.written())
        return one, other

    def take_out(self, pool: str, path: str) -> None:
        """An operator removes a part of a pool's records by hand."""
        patch = json.dumps([{"op": "remove", "path": f"/spec/allocations/{path}"}])
        kind = "ippools.whereabouts.cni.cncf.io"
        self.plane.kubectl("patch", kind, pool, f"--namespace={NAMESPACE}", "--type=json", f"--patch={patch}")

    def sweep(self, times: int = SWEEPS) -> None:
        """gc, as an operator runs it, so many times."""
        command = [sys.executable, "-m", "poolwarden", "gc", "--once", "--mode", "release", *QUICK]
        command += ["--lease-name", f"gc-{self.namespace}", "--kubeconfig", str(self.plane.kubeconfig())]
        for _ in range(times):
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture
def site(control_plane: ControlPlane, kinds: None, whereabouts: Whereabouts, namespace: str, node: str) -> Site:  # noqa: ARG001 - it must be first
    """A namespace with the NADs of NICS, on a node whose kubelet kwok plays."""
    site = Site(control_plane, whereabouts, namespace, node)
    site.attach(NICS)
    return site


@pytest.fixture
def running(site: Site) -> Site:
    """A StatefulSet `web` of two and a Deployment `app` of three, each pod with all NICs."""
    site.workload("StatefulSet", "web", 2, NICS)
    site.workload("Deployment", "app", 3, NICS)
    for pod in (*site.pods("web"), *site.pods("app")):
        site.start(pod, NICS)
    return site


def test_a_pod_deleted_without_a_del_is_freed_and_nobody_else(running: Site) -> None:
    """On every sort of network its records and reservations go, those of all other pods stay to the letter; the next ADD works."""
    site = running
    gone = site.pods("app")[1]
    before = site.written()
    site.kill(gone, comes_back=False)
    stay = site.of_others(gone)
    assert [len(part) - len(rest) for part, rest in zip(before, stay, strict=True)] == [5, 5]  # net4 has two
    site.sweep()
    assert site.written() == stay

    heir = next(
        pod for pod in site.pods("app") if f"{site.namespace}/{pod}" not in {r["podref"] for r in stay[0].values()}
    )
    site.start(heir, NICS)
    now = site.written()
    assert [set(part) for part in now] == [set(part) for part in before]  # the very addresses that were freed
    site.sweep()
    assert site.written() == now


def test_a_stateful_sets_pod_keeps_its_records_before_and_after_its_next_add(running: Site) -> None:
    """Made again, without an ADD yet, it will be given the same records; after it they are its own, under another id."""
    site = running
    before = site.written()
    site.kill("web-1", comes_back=True)
    site.sweep()
    assert site.written() == before

    sandbox, given = site.add("web-1", NICS)
    after = site.written()
    podref = f"{site.namespace}/web-1"
    expected = {
        key: {**record, "id": sandbox} if record["podref"] == podref else record for key, record in before[0].items()
    }
    assert after == (expected, before[1])
    site.sweep()
    assert site.written() == after
    site.run("web-1", given)
    site.sweep()
    assert site.written() == after


def test_the_row_of_a_pod_that_has_another_address_now_is_freed(site: Site) -> None:
    """A record without interface, as before 0.8, is not found by the next ADD; freed once every NIC shows another address."""
    nics = {nic: NICS[nic] for nic in ("net1", "net2")}
    site.workload("StatefulSet", "web", 3, nics)
    for pod in site.pods("web"):
        site.start(pod, nics)
    site.take_out("10.71.0.0-24", "1/ifname")
    old = records(site.plane)["10.71.0.0-24/1"]
    assert old == {"id": old["id"], "podref": f"{site.namespace}/web-0"}
    site.kill("web-0", comes_back=True)
    sandbox, given = site.add("web-0", nics)
    assert given["net1"] == ["10.71.0.4"]
    both = site.written()
    assert both[0]["10.71.0.0-24/1"] == old
    site.sweep()
    assert site.written() == both  # not proven: the pod shows nothing yet

    site.run("web-0", given)
    site.sweep()
    stay = [{name: what for name, what in part.items() if name not in {"10.71.0.0-24/1", "10.71.0.1"}} for part in both]
    assert list(site.written()) == stay
    assert records(site.plane)["10.71.0.0-24/4"]["id"] == sandbox


def test_a_reservation_without_its_record_is_taken_away(running: Site) -> None:
    """Its pod is gone and its record was deleted by hand; a live pod's reservation stays whatever became of its record."""
    site = running
    gone, lives = site.pods("app")[:2]
    site.kill(gone, comes_back=False)
    for pod in (gone, lives):
        for key in [k for k, r in records(site.plane).items() if r["podref"] == f"{site.namespace}/{pod}"]:
            pool, _, offset = key.rpartition("/")
            site.take_out(pool, offset)
    stay = site.of_others(gone)
    assert site.written() != stay
    site.sweep()
    assert site.written() == stay


def test_a_late_del_of_a_freed_record_does_no_harm(running: Site) -> None:
    """The plugin finds nothing to do, also where another pod has the address by then; every next ADD works."""
    site = running
    gone = site.pods("app")[0]
    theirs = {r["ifname"]: r["id"] for r in records(site.plane).values() if r["podref"] == f"{site.namespace}/{gone}"}
    site.kill(gone, comes_back=False)
    site.sweep()
    freed = site.written()

    def late() -> None:
        for nic, ipam in NICS.items():
            site.plugin.delete(ipam, site.attachment(gone, nic, theirs[nic]))

    late()
    assert site.written() == freed
    heir = next(
        pod for pod in site.pods("app") if f"{site.namespace}/{pod}" not in {r["podref"] for r in freed[0].values()}
    )
    site.start(heir, NICS)
    taken = site.written()
    late()
    assert site.written() == taken
    site.sweep()
    assert site.written() == taken


# --- races ------------------------------------------------------------------------------------------------------------

RACES = int(os.environ.get("POOLWARDEN_RACES") or 500)
"""How many at least; one sweep runs as many as there are lanes."""
SWEEPS_TO_SETTLE = 5
LOST_RACE = re.compile("it should be put back .* could not be: the address is reserved for")
"""The one problem that a sweep may have: the owner was back, and an ADD and a DEL of others came before we put it back."""
RANGES = (
    Network({"range": "10.61.0.0/28"}, "10.61.0.0-28"),
    Network({"range": "10.62.0.0/28", "network_name": "blue", "exclude": ["10.62.0.1/32"]}, "blue-10.62.0.0-28"),
    Network({"range": "fd00:63::/124"}, "fd00-63---124"),
    Network(
        {
            "range": "fd00:0:1:1::/64",
            "range_start": "fd00:0:1:1:2::",
            "range_end": "fd00:0:1:1:2::f",
            "network_name": "red",
        },
        "red-fd00-0-1-1---64",
    ),
    Network({"range": "10.65.0.0/27", "range_start": "10.65.0.10", "range_end": "10.65.0.24"}, "10.65.0.0-27"),
    Network({"range": "fd00:66::/124", "network_name": "blue"}, "blue-fd00-66---124"),
)


class Later:
    """A cluster whose clock is ahead."""

    def __init__(self, real: Cluster, ahead: timedelta) -> None:
        self.real, self.ahead = real, ahead

    def now(self) -> datetime:
        """The real time, and more."""
        return self.real.now() + self.ahead

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)


def sweep(cluster: Cluster) -> SweepReport:
    """One sweep without grace and cooldown: the second one that finds a leak frees it."""
    return Sweep(cluster, NOW, Event().wait).run()


@pytest.fixture
def lanes(
    control_plane: ControlPlane,
    control_plane_programs: Mapping[str, Path],
    kinds: None,  # noqa: ARG001 - it must be first
    namespace: str,
    bare_node: str,
    tmp_path: Path,
) -> Iterator[list[Lane]]:
    """A pool, its pods and its plugin for each network; the seed is that of POOLWARDEN_SEED, or drawn."""
    seed = int(os.environ.get("POOLWARDEN_SEED") or secrets.randbelow(1 << 32))
    sys.stdout.write(f"POOLWARDEN_SEED={seed}\n")
    journal: list[Call] = []
    program = control_plane_programs["whereabouts"]
    made: list[Lane] = []
    try:
        for number, network in enumerate(RANGES):
            place = (namespace, bare_node)
            made.append(
                Lane(number, network, control_plane, program, tmp_path / str(number), place, seed=seed, journal=journal)
            )
        yield made
    finally:
        for lane in made:
            lane.close()


class Races:
    """All lanes at once, under one gc; what came of it is counted."""

    def __init__(self, lanes: Sequence[Lane], cluster: Cluster) -> None:
        self.lanes = lanes
        self.journal = lanes[0].journal
        self.stepping = Stepping(cluster, self.journal)
        self.outcomes: Counter[str] = Counter()
        self._before: dict[Lane, dict[str, Any]] = {}

    @property
    def moments(self) -> Counter[str]:
        """How far gc was when each race began."""
        return sum((lane.told.moments for lane in self.lanes), Counter[str]())

    def told(self, seconds: float) -> str:
        """What came of it, for people."""
        told = [lane.told for lane in self.lanes]
        races = sum((item.races for item in told), Counter[str]())
        windows = Counter(str(window) for item in told for window in item.windows.values())
        lines = (
            f"{self.moments.total()} races in {seconds:.0f} s, begun at {dict(self.moments)}: {dict(races)}",
            f"plugin: {sum(t.adds for t in told)} ADD, {sum(t.deletes for t in told)} DEL",
            f"gc: {dict(self.outcomes)}; writes that came too late: {dict(self.stepping.conflicts)}",
            f"ADD refused since gc had made its reservation: {sum(t.refused for t in told)}",
            f"recorded without reservation: {dict(windows)}",
        )
        return "\n".join(lines)

    def each(self, do: Callable[[Lane], None]) -> None:
        """The same in all lanes, at once."""
        with ThreadPoolExecutor(len(self.lanes)) as threads:
            list(threads.map(do, self.lanes))

    def sweep(self) -> None:
        """One sweep; nothing but a race lost is a problem."""
        report = sweep(self.stepping)
        if self.stepping.failures:
            raise self.stepping.failures[0]
        bad = [problem for problem in report.problems if not LOST_RACE.search(problem)]
        assert not bad
        self.outcomes.update(str(result.outcome) for _, result in report.released)
        self.outcomes.update(f"repair {repair.outcome}" for _, repair in report.repaired)

    def round(self) -> None:
        """Pods go without a DEL, gc sights it, and while it releases their records something happens in each lane."""
        self.journal.clear()
        self.each(Lane.leak)
        self.sweep()
        self.each(Lane.check)
        for lane in self.lanes:
            lane.plan()
        self.stepping.before, self.stepping.after = self._heard, self._kept
        self.sweep()
        self.stepping.before = self.stepping.after = lambda _call: None
        self.each(Lane.finish)
        self.each(Lane.check)
        unreserved = set().union(*(lane.unreserved() for lane in self.lanes))
        assert not unreserved or unreserved <= self.missing()
        self.each(Lane.refill)
        self.each(Lane.check)

    def missing(self) -> set[str | None]:
        """The addresses that are told to have no reservation; an ADD is given a minute to make it."""
        judged = examine(Later(self.stepping.real, timedelta(minutes=2)), NOW.default, NOW.ipams)
        return {finding.address for finding in judged.findings if finding.reason is Reason.RESERVATION_MISSING}

    def _heard(self, call: Call) -> None:
        for lane in self.lanes:
            lane.heard(call)
            if (call.verb, call.kind, call.namespace) == ("PATCH", POOLS, lane.namespace):
                self._before[lane] = lane.expected()

    def _kept(self, call: Call) -> None:
        """No write of ours takes a live pod's record."""
        for lane, expected in list(self._before.items()):
            del self._before[lane]
            records = lane.records()
            assert all(records.get(address) == record for address, record in expected.items()), (
                call,
                expected,
                records,
            )


def test_races_with_the_plugin(
    lanes: list[Lane], control_plane: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever ADD, DEL or deletion comes between any two requests of a release, who lives keeps his address; leaks go."""
    transport = KubeTransport(kubeconfig=str(control_plane.kubeconfig()))
    cluster = ApiServer(transport, limits=LIMITS)
    races = Races(lanes, cluster)
    races.each(Lane.refill)
    began = time.monotonic()
    while races.moments.total() < RACES:
        races.round()
    took = time.monotonic() - began
    with capsys.disabled():
        sys.stdout.write(f"\n{races.told(took)}\n")

    races.each(Lane.settle)
    for _ in range(SWEEPS_TO_SETTLE):
        races.sweep()
    assert [lane.left() for lane in lanes] == [({}, set())] * len(lanes)
    races.each(Lane.check)
    assert races.missing() == set().union(*(lane.unreserved() for lane in lanes))
    assert races.outcomes[Outcome.RELEASED] > RACES / 4
    assert races.outcomes[Outcome.KEPT] + races.outcomes[Outcome.GONE] > RACES / 20
    assert races.outcomes[Outcome.RESTORED] > RACES / 100
    assert races.stepping.conflicts.total() > RACES / 20
    assert all(races.moments[step.name] for step in Step if step >= Step.MARKED)
