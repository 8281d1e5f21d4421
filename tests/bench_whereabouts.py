"""The benchmark of gc on whereabouts, beside whereabouts' own reconciler: what each costs, and what it frees.

    make bench ARGS="whereabouts"
    make bench ARGS="whereabouts --pools 4 --records 80 --runs 1 --json out.json"

Both work on the same objects on a real API server, and what they freed is put back after each run. Of each record it is
known beforehand whether it must be freed. Times, memory and requests are medians of interleaved runs.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.metadata import version
from ipaddress import ip_address
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import bench
from controlplane import build
from controlplane.build import WHEREABOUTS_CRDS
from controlplane.kubelet import NETWORK_STATUS
from controlplane.multus import DEFAULT_NETWORK, NETWORKS
from controlplane.plane import ControlPlane
from controlplane.whereabouts import NAMESPACE, POOLS, RESERVATIONS

Object = dict[str, Any]
HERE = Path(__file__).parent
GROUP = "whereabouts.cni.cncf.io/v1alpha1"
NADS = f"/apis/k8s.cni.cncf.io/v1/namespaces/{bench.NAMESPACE}/network-attachment-definitions"
GUARDS = "/apis/poolwarden.dev/v1alpha1/poolguards"
MOST_PER_POOL = 250
CONNECTIONS = 8
QPS = 50
"""What gc allows itself by default. Whereabouts' own clients allow themselves 5 requests a second each."""
NOT_OURS = ("endpoints", "endpointslices", "leases")
"""What the API server asks of itself all the time; and it watches, which nobody else does here."""
MEASURE = """
import json, resource, subprocess, sys, time
began = time.perf_counter()
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
seconds, used = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"seconds": seconds, "cpu": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss / 1024, "status": status}))
"""
"""Runs a command from a small process: `ru_maxrss` of a child is at least what its parent took when it started it."""


# --- the objects, and the truth about them ----------------------------------------------------------------------------


class Truth(StrEnum):
    """What may become of a record."""

    FREE = "must be freed"
    KEEP = "must not be freed"
    MAY = "may be freed"


@dataclass(frozen=True)
class Story:
    """What became of a pod; `often` is among 10,000 pods, the others are running."""

    name: str
    often: int
    truth: Truth


RUNNING = Story("running", 0, Truth.KEEP)
GONE = Story("owner gone", 150, Truth.FREE)
REPLACED = Story("owner of that name uses other addresses", 25, Truth.FREE)
PENDING = Story("starting: Pending without network-status", 10, Truth.KEEP)
DEFAULT = Story("address on the default interface", 10, Truth.KEEP)
CORRUPT = Story("running, network-status cut off", 10, Truth.KEEP)
MISSING = Story("running, network-status missing", 10, Truth.KEEP)
COMPLETED = Story("completed", 10, Truth.MAY)
STORIES = (GONE, REPLACED, PENDING, DEFAULT, CORRUPT, MISSING, COMPLETED)


@dataclass(frozen=True)
class Pool:
    """One IPPool and its NetworkAttachmentDefinition. One in 40 is of a named network, one in 40 of IPv6."""

    at: int

    @property
    def ipv6(self) -> bool:
        """Whether its addresses are."""
        return self.at % 40 == 1

    @property
    def network(self) -> str:
        """What its configuration calls its network."""
        return "blue" if self.at % 40 == 2 else ""

    @property
    def attachment(self) -> str:
        """The name of the NetworkAttachmentDefinition."""
        return f"net-{self.at}"

    @property
    def range(self) -> str:
        """As its specification writes it."""
        return f"fd00:0:1:{self.at:x}:1::/80" if self.ipv6 else f"10.{1 + self.at // 250}.{self.at % 250}.0/24"

    @property
    def name(self) -> str:
        """As the plugin names it."""
        return "-".join(part for part in (self.network, normalised(self.range)) if part)

    def offset(self, place: int) -> int:
        """The key of the record at a place. In IPv6 pools the first address ends with `::`."""
        return (4 << 32) + place if self.ipv6 else 1 + place

    def address(self, place: int) -> str:
        """The address of the record at a place."""
        return str(ip_address(self.range.partition("/")[0]) + self.offset(place))

    def reservation(self, place: int) -> str:
        """The name of the reservation of that record."""
        return "-".join(part for part in (self.network, normalised(self.address(place))) if part)


@dataclass(frozen=True)
class Entry:
    """A record, and its reservation: what they say, and what may become of them."""

    pool: Pool
    place: int
    pod: str
    interface: str
    story: Story

    @property
    def key(self) -> tuple[str, str]:
        """Where the record is: its pool, and its key there."""
        return self.pool.name, str(self.pool.offset(self.place))

    @property
    def address(self) -> str:
        """What is recorded."""
        return self.pool.address(self.place)

    @property
    def reservation(self) -> str:
        """The reservation's name."""
        return self.pool.reservation(self.place)

    @property
    def told_of(self) -> str:
        """What sort of entry it is, for the account of what was freed wrongly."""
        if self.story is not RUNNING:
            return self.story.name
        if self.pool.network:
            return "running, in a named network"
        return "running, address ends with ::" if self.address.endswith(":") else self.story.name

    def record(self) -> Object:
        """The record's value."""
        container = f"{self.pool.at:032x}{self.place:032x}"
        return {"id": container, "ifname": self.interface, "podref": f"{bench.NAMESPACE}/{self.pod}"}

    def reservation_object(self) -> Object:
        """The whole reservation."""
        return {
            "apiVersion": GROUP,
            "kind": "OverlappingRangeIPReservation",
            "metadata": {"name": self.reservation, "namespace": NAMESPACE},
            "spec": {"podref": f"{bench.NAMESPACE}/{self.pod}", "ifname": self.interface},
        }


def normalised(text: str) -> str:
    """An address or a range as part of an object's name."""
    return (f"{text}0" if text.endswith(":") else text).replace(":", "-").replace("/", "-")


@dataclass(frozen=True)
class World:
    """All objects of the benchmark."""

    pools: Sequence[Pool]
    pods: Sequence[Object]
    entries: Sequence[Entry]


def world(pools: int, records: int) -> World:
    """Pods of two NICs each, their records spread evenly over the pools; which pods fare ill is random, yet the same."""
    every = [Pool(at) for at in range(pools)]
    pods: list[Object] = []
    entries: list[Entry] = []
    told = stories(records // 2, every)
    for at, story in enumerate(told):
        name = pod_name(at - 1 if story is REPLACED else at)
        nics = []
        for number in (0, 1):
            interface = f"net{number + 1}"
            if story is REPLACED or (story is DEFAULT and number == 0):
                interface = "net1" if story is REPLACED else "eth0"
            place, pool = divmod(2 * at + number, pools)
            own = RUNNING if story is DEFAULT and number else story
            nics.append(Entry(every[pool], place, name, interface, own))
        entries += nics
        if story not in {GONE, REPLACED}:
            pods.append(pod(at, story, nics))
    return World(every, pods, entries)


def stories(pods: int, pools: Sequence[Pool]) -> list[Story]:
    """The story of each pod; the two before one that is not running are running ones.

    Where a pod was replaced, the records are those that the pod before it left when it was of other networks; they are of
    IPv4, as the address is that it has on the same NIC now.
    """
    rng = random.Random(1)
    wanted = [story for story in STORIES for _ in range(max(1, round(story.often * pods / 10_000)))]
    told = [RUNNING] * pods
    for at, story in zip(rng.sample(range(2, pods, 3), len(wanted)), wanted, strict=True):
        mixed = any(pools[(2 * at + number) % len(pools)].ipv6 for number in (0, 1))
        told[at - 1 if story is REPLACED and mixed else at] = story
    return told


def pod_name(at: int) -> str:
    """The name of a pod, as a workload's pods are named."""
    return f"app-{at % 500}-{at:05}"


def pod(at: int, story: Story, nics: Sequence[Entry]) -> Object:
    """The pod of this story, with these NICs beside that of the cluster's own network (or one of them instead of it)."""
    cluster = nics[0].address if story is DEFAULT else f"10.{230 + at // 62500}.{at // 250 % 250}.{at % 250 + 1}"
    made = bench.pod(pod_name(at), f"uid-of-pod-{at}", f"node-{at % bench.NODES}", cluster)
    made["spec"]["terminationGracePeriodSeconds"] = 0  # gc would give the predecessor of a replaced pod so long to end
    attached = [nic for nic in nics if nic.interface != "eth0"]
    first = f"{bench.NAMESPACE}/{nics[0].pool.attachment}" if story is DEFAULT else "cluster"
    status = [{"name": first, "interface": "eth0", "ips": [cluster], "default": True, "dns": {}}]
    for nic in attached:
        named = f"{bench.NAMESPACE}/{nic.pool.attachment}"
        status.append({"name": named, "interface": nic.interface, "ips": [nic.address], "dns": {}})
    annotations = made["metadata"]["annotations"]
    annotations |= {
        NETWORKS: ",".join(nic.pool.attachment for nic in attached),
        NETWORK_STATUS: json.dumps(status, indent=4),
    }
    if story is DEFAULT:
        annotations[DEFAULT_NETWORK] = first
    elif story is CORRUPT:
        annotations[NETWORK_STATUS] = annotations[NETWORK_STATUS][:-40]
    elif story in {MISSING, PENDING}:
        del annotations[NETWORK_STATUS]
    container = made["status"]["containerStatuses"][0]
    if story is PENDING:
        container |= {"ready": False, "state": {"waiting": {"reason": "ContainerCreating"}}}
        made["status"] = {"phase": "Pending", "containerStatuses": [container]}
    elif story is COMPLETED:
        made["spec"]["restartPolicy"] = "Never"
        container |= {"ready": False, "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
        made["status"]["phase"] = "Succeeded"
    return made


def node(at: int) -> Object:
    """A Ready node."""
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{at}"},
        "status": {"conditions": [ready]},
    }


def attachment(pool: Pool) -> Object:
    """The NetworkAttachmentDefinition of a pool."""
    ipam = {"type": "whereabouts", "range": pool.range} | ({"network_name": pool.network} if pool.network else {})
    config = {
        "cniVersion": "0.3.1",
        "name": pool.attachment,
        "type": "macvlan",
        "master": f"ens{pool.at}",
        "ipam": ipam,
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": {"name": pool.attachment, "namespace": bench.NAMESPACE},
        "spec": {"config": json.dumps(config)},
    }


# --- on the API server ------------------------------------------------------------------------------------------------


def fill(plane: ControlPlane, made: World) -> None:
    """Create everything."""
    crds = (
        *(build.ensure()["whereabouts"].parent / file for file in WHEREABOUTS_CRDS.files),
        HERE / "crds" / "network-attachment-definition.yaml",
        HERE.parent / "manifests" / "crd" / "poolguards.yaml",
    )
    plane.kubectl("apply", "--server-side", *(f"--filename={path}" for path in crds))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    bench.fill(plane, [*map(node, range(bench.NODES)), *made.pods])
    post(plane, NADS, map(attachment, made.pools))
    allocations: dict[str, Object] = {pool.name: {} for pool in made.pools}
    for entry in made.entries:
        pool, key = entry.key
        allocations[pool][key] = entry.record()
    post(
        plane,
        POOLS,
        (
            {
                "apiVersion": GROUP,
                "kind": "IPPool",
                "metadata": {"name": pool.name, "namespace": NAMESPACE},
                "spec": {"range": pool.range, "allocations": allocations[pool.name]},
            }
            for pool in made.pools
        ),
    )
    post(plane, RESERVATIONS, (entry.reservation_object() for entry in made.entries))


def post(plane: ControlPlane, path: str, objects: Iterable[Object]) -> None:
    """Create these objects."""
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(lambda item: plane.request("POST", path, item), objects))


@dataclass(frozen=True)
class Lost:
    """The entries whose record, or reservation, is no longer there as it was."""

    records: Sequence[Entry]
    reservations: Sequence[Entry]


def lost(plane: ControlPlane, made: World) -> Lost:
    """What was freed since everything was as it was made."""
    records = {
        (pool["metadata"]["name"], key): record
        for pool in plane.request("GET", POOLS)["items"]
        for key, record in pool["spec"]["allocations"].items()
    }
    reservations = {item["metadata"]["name"]: item["spec"] for item in plane.request("GET", RESERVATIONS)["items"]}
    return Lost(
        [entry for entry in made.entries if records.get(entry.key) != entry.record()],
        [entry for entry in made.entries if reservations.get(entry.reservation) != entry.reservation_object()["spec"]],
    )


def restore(plane: ControlPlane, made: World) -> None:
    """Put back whatever is lost, and forget all that gc has noted."""
    missing = lost(plane, made)
    changes: dict[str, Object] = {}
    for entry in missing.records:
        pool, key = entry.key
        changes.setdefault(pool, {})[key] = entry.record()
    for pool, allocations in changes.items():
        plane.request("PATCH", f"{POOLS}/{pool}", {"spec": {"allocations": allocations}})
    post(plane, RESERVATIONS, (entry.reservation_object() for entry in missing.reservations))
    plane.request("DELETE", GUARDS)
    assert lost(plane, made) == Lost([], [])


def requests_so_far(plane: ControlPlane) -> Counter[str]:
    """How many requests the API server has answered, by verb and kind, those apart that it makes itself."""
    found: Counter[str] = Counter()
    for labels, count in re.findall(
        r"^apiserver_request_total\{(.*)\} (\S+)$", plane.kubectl("get", "--raw", "/metrics").stdout, re.MULTILINE
    ):
        told = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        if told["resource"] and told["resource"] not in NOT_OURS and told["verb"] != "WATCH":
            found[f"{told['verb']} {told['resource']}"] += int(float(count))
    return found


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """Records, or reservations, by truth, since everything was as it was made (`freed_by_choice`: of completed pods)."""

    freed_rightly: int
    freed_wrongly: int
    left_leaked: int
    freed_by_choice: int
    wrongly_by_story: Mapping[str, int]


@dataclass(frozen=True)
class Run:
    """One process: what it cost, and what is freed after it (`mib`: most memory at one time)."""

    seconds: float
    cpu: float
    mib: float
    status: int
    requests: Mapping[str, int]
    records: Outcome
    reservations: Outcome


def judged(freed: Sequence[Entry], made: World) -> Outcome:
    """What is freed, by the truth."""
    by_truth = Counter(entry.story.truth for entry in freed)
    leaked = sum(entry.story.truth is Truth.FREE for entry in made.entries)
    wrongly = dict(Counter(entry.told_of for entry in freed if entry.story.truth is Truth.KEEP))
    return Outcome(
        by_truth[Truth.FREE], by_truth[Truth.KEEP], leaked - by_truth[Truth.FREE], by_truth[Truth.MAY], wrongly
    )


def measured(plane: ControlPlane, made: World, command: Sequence[str]) -> Run:
    """Run a command to its end."""
    before = requests_so_far(plane)
    done = subprocess.run(
        [sys.executable, "-ISc", MEASURE, *command],
        capture_output=True,
        text=True,
        env=bench.user_environment(),
        check=True,
    )
    cost = json.loads(done.stdout)
    if cost["status"]:
        print(f"{Path(command[0]).name}, exit status {cost['status']}: {done.stderr.strip()[-500:]}", flush=True)
    requests = dict(requests_so_far(plane) - before)
    freed = lost(plane, made)
    return Run(
        **cost,
        requests=requests,
        records=judged(freed.records, made),
        reservations=judged(freed.reservations, made),
    )


def tools(programs: Mapping[str, Path], kubeconfig: Path) -> dict[str, Callable[[ControlPlane, World], dict[str, Run]]]:
    """Each tool: what runs on the objects as they were made, by name."""
    gc = [sys.executable, "-m", "poolwarden", "gc", "--once", "--mode", "release", "--kubeconfig", str(kubeconfig)]
    gc += ["--grace", "0s", "--cooldown", "0s", "--max-releases", "1000000", "--qps", str(QPS)]
    bare = [sys.executable, str(HERE / "bench.py"), "--child", "list", "--kubeconfig", str(kubeconfig)]
    its = [str(programs["whereabouts-reconciler"]), f"-kubeconfig={kubeconfig}"]

    def commands(named: Mapping[str, Sequence[str]]) -> Callable[[ControlPlane, World], dict[str, Run]]:
        return lambda plane, made: {name: measured(plane, made, command) for name, command in named.items()}

    return {
        "list": commands({"list and decode": bare}),
        "poolwarden": commands({"poolwarden gc, first sweep": gc, "poolwarden gc, second sweep": gc}),
        "reconciler": commands({"whereabouts' reconciler": its}),
        "reconciler-fast": commands({f"whereabouts' reconciler, {QPS} requests/s": [*its, f"-qps={QPS}"]}),
    }


# --- the report -------------------------------------------------------------------------------------------------------


def main() -> None:
    """Measure."""
    names = ("list", "poolwarden", "reconciler", "reconciler-fast")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pools", type=int, default=200, help="an even number, at least 4 (default: 200)")
    parser.add_argument("--records", type=int, default=20_000, help="in all pools together (default: 20000)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--tools", nargs="+", choices=names, default=names, help="default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all runs there, too")
    options = parser.parse_args()
    if options.pools < 4 or options.pools % 2:
        parser.error(f"--pools {options.pools}: an even number, at least 4")
    if not 2 * options.pools <= options.records <= MOST_PER_POOL * options.pools:
        parser.error(f"--records {options.records}: between 2 and {MOST_PER_POOL} to a pool")
    made = world(options.pools, options.records)
    programs = build.ensure()
    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(programs, Path(folder), controllers=False, kubelets=False) as plane,
    ):
        introduce(plane, made)
        began = time.perf_counter()
        fill(plane, made)
        print(f"API server filled in {time.perf_counter() - began:.0f} s", flush=True)
        results: dict[str, list[Run]] = {}
        every = tools(programs, plane.kubeconfig())
        for _ in range(options.runs):
            for name in options.tools:
                restore(plane, made)
                for what, run in every[name](plane, made).items():
                    results.setdefault(what, []).append(run)
                    print(f"{what}: {run.seconds:.1f} s", flush=True)
    print("\n".join([*table(results), *wrongs(results, made)]))
    if options.json:
        runs = {name: [asdict(run) for run in found] for name, found in results.items()}
        options.json.write_text(json.dumps(runs, indent=2), encoding="utf-8")


def introduce(plane: ControlPlane, made: World) -> None:
    """On what it is measured."""
    kubernetes = plane.request("GET", "/version")
    module = (build.MODULES / "whereabouts" / "go.mod").read_text(encoding="utf-8")
    libraries = [
        f"{name.rpartition('/')[2]} {found[1]}"
        for name in ("k8snetworkplumbingwg/whereabouts", "k8s.io/client-go")
        if (found := re.search(rf"{name} (v\S+)", module))
    ]
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(f"Kubernetes {kubernetes['gitVersion']}, {kubernetes['goVersion']}, ", end="")
    print(", ".join([*libraries, *(f"{name} {version(name)}" for name in ("poolwarden", "kubernetes", "msgspec"))]))
    print(f"{len(made.pools)} pools, {len(made.entries)} records with a reservation each, {len(made.pods)} pods")
    for name, count in Counter(f"{entry.told_of} ({entry.story.truth})" for entry in made.entries).most_common():
        print(f"  {count:6} records: {name}")
    sys.stdout.flush()


def table(results: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """A line for each process, in Markdown."""
    kinds = ("records", "reservations")
    fields = ("freed_rightly", "freed_wrongly", "left_leaked", "freed_by_choice")
    freed = [f"{kind} {field.replace('_', ' ')}" for kind in kinds for field in fields]
    heads = ["", "seconds", "CPU seconds", "peak MiB", "requests", *freed]
    yield ""
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for name, runs in results.items():
        verbs = sorted({asked.partition(" ")[0] for run in runs for asked in run.requests})
        asked = ((verb, statistics.median(requests_by(verb, run) for run in runs)) for verb in verbs)
        cells = [name, spread([run.seconds for run in runs], ".1f"), spread([run.cpu for run in runs], ".1f")]
        cells += [
            spread([run.mib for run in runs], ".0f"),
            ", ".join(f"{verb} {count:.0f}" for verb, count in asked),
        ]
        cells += [
            spread([getattr(getattr(run, kind), field) for run in runs], ".0f") for kind in kinds for field in fields
        ]
        yield f"| {' | '.join(cells)} |"


def requests_by(verb: str, run: Run) -> int:
    """How many requests a process made by one verb."""
    return sum(count for asked, count in run.requests.items() if asked.partition(" ")[0] == verb)


def spread(figures: Sequence[float], form: str) -> str:
    """The median, and from where to where the figures go if they differ."""
    middle, least, most = (f"{figure:{form}}" for figure in (statistics.median(figures), min(figures), max(figures)))
    return middle if least == most else f"{middle} ({least} to {most})"


def wrongs(results: Mapping[str, Sequence[Run]], made: World) -> Iterator[str]:
    """What was freed wrongly in the last run, by what it was, in Markdown."""
    there = Counter(entry.told_of for entry in made.entries if entry.story.truth is Truth.KEEP)
    yield ""
    yield f"| {' | '.join(['freed wrongly: records, reservations', 'there are of each', *results])} |"
    yield f"|{'---|' * (2 + len(results))}"
    for story, count in there.most_common():
        cells = [
            f"{runs[-1].records.wrongly_by_story.get(story, 0)}, {runs[-1].reservations.wrongly_by_story.get(story, 0)}"
            for runs in results.values()
        ]
        yield f"| {' | '.join([story, str(count), *cells])} |"


if __name__ == "__main__":
    main()
