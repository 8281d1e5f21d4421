"""The benchmark: a whole observe sweep beside the bare reading of the same objects, and the command line's own times.

    make bench ARGS="sweep --pods 20000 --pools 100 --runs 5"

Each figure is the median of interleaved runs, each in a process of its own; the spread stands beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from threading import Event
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

Object = dict[str, Any]
NAMESPACE = "bench"
NODES = 100


def main() -> None:
    """Measure, or be one measured process (`--child`)."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--pools", type=int, default=100)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--child", choices=("list", "sweep"))
    parser.add_argument("--kubeconfig")
    options = parser.parse_args()
    if options.child:
        print(json.dumps(child(options.child, options.kubeconfig)))
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
    print(", ".join(f"{name} {version(name)}" for name in ("poolwarden", "kubernetes", "msgspec")))
    command_line(options.runs)
    offline(options.runs)
    online(options)


# --- the measured processes -------------------------------------------------------------------------------------------


def child(what: str, kubeconfig: str) -> Object:
    """List the objects that a sweep reads, or sweep; seconds, peak memory in MiB, and what was sent."""
    from poolwarden.cluster.api_server import ApiServer
    from poolwarden.cluster.exchange import Limits
    from poolwarden.cluster.kube_transport import KubeTransport
    from poolwarden.gc.read import read_snapshot
    from poolwarden.gc.snapshot import Memory
    from poolwarden.gc.sweep import Settings, Sweep
    from poolwarden.ipam.inventory import Inventory
    from poolwarden.ipam.registry import BACKENDS

    cluster = ApiServer(KubeTransport(kubeconfig=kubeconfig), limits=Limits(qps=1000, burst=1000))
    cluster.now()  # connection and TLS stand before the clock starts
    began = time.perf_counter()
    findings = 0
    if what == "list":
        for backend in BACKENDS.values():  # reading alone: no domain objects are made
            backend.inventory = lambda objects: Inventory("", ())  # type: ignore[method-assign] # noqa: ARG005
        read_snapshot(cluster, BACKENDS.values(), Memory())
    else:
        report = Sweep(cluster, Settings(), Event().wait).run()
        assert report.complete, report.problems
        findings = len(report.findings)
    took = time.perf_counter() - began
    requests = dict(cluster.counts.requests)
    return {
        "seconds": took,
        "mib": peak_mib(),
        "reads": requests.get("GET", 0),
        "writes": sum(count for verb, count in requests.items() if verb != "GET"),
        "findings": findings,
    }


def peak_mib() -> float:
    """This process's peak resident memory; `ru_maxrss` would be the parent's, if that was larger."""
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else float("nan")


def measured(what: str, kubeconfig: Path) -> Object:
    """One child process."""
    command = [sys.executable, __file__, "--child", what, "--kubeconfig", str(kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, env=user_environment(), check=True)
    result: Object = json.loads(done.stdout.splitlines()[-1])
    return result


# --- the command line -------------------------------------------------------------------------------------------------


def timed(command: Sequence[str], runs: int, allowed: Sequence[int] = (0,)) -> list[float]:
    """Seconds of whole processes."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        status = subprocess.run(command, stdout=subprocess.DEVNULL, env=user_environment(), check=False).returncode
        times.append(time.perf_counter() - began)
        assert status in allowed, (command, status)
    return times


def user_environment() -> dict[str, str]:
    """As a user has it: compiled modules may be kept."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def shown(times: Sequence[float]) -> str:
    """Median and spread of seconds."""
    return f"{statistics.median(times):.3f} s (min {min(times):.3f}, max {max(times):.3f}, {len(times)} runs)"


def command_line(runs: int) -> None:
    """How long the help takes."""
    print(f"poolwarden --help: {shown(timed([sys.executable, '-m', 'poolwarden', '--help'], runs))}")


def offline(runs: int, pods: int = 10_000) -> None:
    """An audit of a JSON dump, first byte to exit."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "dump.json"
        items = list(objects(pods, pods // 200))
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}, indent=4), encoding="utf-8")
        size = path.stat().st_size / 2**20
        command = [sys.executable, "-m", "poolwarden", "audit", "-f", str(path), "--assume-complete", "-o", "json"]
        times = timed(command, runs, allowed=(0, 1))
        print(f"audit -f of {pods} pods, {len(items)} objects, {size:.0f} MiB of JSON: {shown(times)}")


# --- the API server ---------------------------------------------------------------------------------------------------


def online(options: argparse.Namespace) -> None:
    """A sweep beside the bare reading, on a real API server."""
    from controlplane import build
    from controlplane.plane import ControlPlane

    with (
        tempfile.TemporaryDirectory() as folder,
        ControlPlane(build.ensure(), Path(folder), controllers=False, kubelets=False) as plane,
    ):
        crds = (*(HERE / "crds").glob("*.yaml"), HERE.parent / "manifests" / "crd" / "poolguards.yaml")
        plane.kubectl("apply", "--server-side", *(f"--filename={path}" for path in crds))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
        began = time.perf_counter()
        fill(plane, list(objects(options.pods, options.pools)))
        print(f"API server filled with {options.pods} pods and as many endpoints, {options.pools} pools ", end="")
        print(f"in {time.perf_counter() - began:.0f} s")
        kubeconfig = plane.kubeconfig()
        first = measured("sweep", kubeconfig)
        print(f"first sweep (makes the guards): {first['seconds']:.2f} s, {first['writes']} writes")
        runs: dict[str, list[Object]] = {"list": [], "sweep": []}
        for _ in range(options.runs):
            for what, results in runs.items():
                results.append(measured(what, kubeconfig))
        for what, results in runs.items():
            print(f"{what:5}  {shown([r['seconds'] for r in results])}, ", end="")
            print(
                f"peak {statistics.median(r['mib'] for r in results):.0f} MiB, {results[-1]['reads']} reads, ", end=""
            )
            print(f"{max(r['writes'] for r in results)} writes, {results[-1]['findings']} findings")
        pairs = zip(runs["sweep"], runs["list"], strict=True)
        ratios = [sweep["seconds"] / bare["seconds"] for sweep, bare in pairs]
        print(
            f"ratio  {statistics.median(ratios):.2f} (min {min(ratios):.2f}, max {max(ratios):.2f}; goal at most 1.3)"
        )


def fill(plane: Any, items: Sequence[Object]) -> None:
    """Create everything, with several connections at once; statuses by a second request where they are apart."""
    plane.add_namespace(NAMESPACE)

    def create(item: Object) -> None:
        path = collection(item)
        made = plane.request("POST", path, item)
        if "status" in item and "status" not in made:  # its status is a subresource
            plane.request("PATCH", f"{path}/{item['metadata']['name']}/status", {"status": item["status"]})

    with ThreadPoolExecutor(8) as pool:
        uids = dict(pool.map(lambda item: created_pod(plane, item), (i for i in items if i["kind"] == "Pod")))
        list(pool.map(create, (with_uids(item, uids) for item in items if item["kind"] != "Pod")))


def created_pod(plane: Any, item: Object) -> tuple[str, str]:
    """Create a pod with its status; its planned UID and the one that it was given."""
    path = collection(item)
    made = plane.request("POST", path, {key: value for key, value in item.items() if key != "status"})
    plane.request("PATCH", f"{path}/{item['metadata']['name']}/status", {"status": item["status"]})
    return item["metadata"]["uid"], made["metadata"]["uid"]


def with_uids(item: Object, uids: dict[str, str]) -> Object:
    """The object with planned pod UIDs replaced by real ones."""
    if item["kind"] == "SpiderEndpoint":
        current = item["status"]["current"]
        current["uid"] = item["metadata"]["ownerReferences"][0]["uid"] = uids[current["uid"]]
    elif item["kind"] == "SpiderIPPool":
        records = json.loads(item["status"]["allocatedIPs"])
        for record in records.values():
            record["podUid"] = uids.get(record["podUid"], record["podUid"])
        item["status"]["allocatedIPs"] = json.dumps(records, separators=(",", ":"))
    return item


def collection(item: Object) -> str:
    """The API path that an object is created at."""
    base = "/api/v1" if item["apiVersion"] == "v1" else f"/apis/{item['apiVersion']}"
    scope = f"/namespaces/{NAMESPACE}" if "namespace" in item["metadata"] else ""
    return f"{base}{scope}/{item['kind'].lower()}s"


def objects(pods: int, pools: int) -> Iterator[Object]:
    """Pools of 254 addresses, pods spread over them with an endpoint each, one leaked record a pool, and nodes."""
    for at in range(NODES):
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        meta = {"name": f"node-{at}", "uid": f"uid-of-node-{at}"}
        yield {"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"conditions": ready}}
    records: list[Object] = [{} for _ in range(pools)]
    for at in range(pods):
        pool, offset = at % pools, at // pools + 2
        address = f"10.{100 + pool // 250}.{pool % 250}.{offset}"
        name, uid = f"app-{at % 500}-{at:05}", f"00000000-0000-4000-8000-{at:012}"
        records[pool][address] = {"pod": f"{NAMESPACE}/{name}", "podUid": uid}
        yield pod(name, uid, f"node-{at % NODES}", address)
        yield endpoint(name, uid, f"node-{at % NODES}", address, f"pool-{pool}")
    for at, entries in enumerate(records):
        prefix = f"10.{100 + at // 250}.{at % 250}"
        entries[f"{prefix}.254"] = {"pod": f"{NAMESPACE}/gone-{at}", "podUid": f"11111111-0000-4000-8000-{at:012}"}
        yield {
            "apiVersion": "spiderpool.spidernet.io/v2beta1",
            "kind": "SpiderIPPool",
            "metadata": {"name": f"pool-{at}", "uid": f"uid-of-pool-{at}"},
            "spec": {"subnet": f"{prefix}.0/24", "ips": [f"{prefix}.1-{prefix}.254"], "ipVersion": 4},
            "status": {
                "allocatedIPs": json.dumps(entries, separators=(",", ":")),
                "allocatedIPCount": len(entries),
                "totalIPCount": 254,
            },
        }


def pod(name: str, uid: str, node: str, address: str) -> Object:
    """A Running pod of about the size of a real one (3 kB)."""
    status = [{"name": "kube-system/macvlan", "interface": "eth0", "ips": [address], "default": True, "dns": {}}]
    time_ = "2026-01-01T00:00:00Z"
    conditions = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    state = {"running": {"startedAt": time_}}
    environment = [{"name": f"SETTING_{at}", "value": f"value of setting {at}"} for at in range(20)]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "uid": uid,
            "creationTimestamp": time_,
            "labels": {"app": name.rpartition("-")[0]},
            "annotations": {"k8s.v1.cni.cncf.io/network-status": json.dumps(status, indent=4)},
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "registry.example/app:1", "env": environment}],
        },
        "status": {
            "phase": "Running",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [{"type": kind, "status": "True", "lastTransitionTime": time_} for kind in conditions],
            "containerStatuses": [
                {"name": "main", "image": "i", "imageID": "i", "ready": True, "restartCount": 0, "state": state}
            ],
        },
    }


def endpoint(name: str, uid: str, node: str, address: str, pool: str) -> Object:
    """The SpiderEndpoint of a pod."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid}
    nic = {"interface": "eth0", "ipv4": f"{address}/24", "ipv4Pool": pool, "vlan": 0, "cleanGateway": False}
    return {
        "apiVersion": "spiderpool.spidernet.io/v2beta1",
        "kind": "SpiderEndpoint",
        "metadata": {
            "name": name,
            "namespace": NAMESPACE,
            "finalizers": ["spiderpool.spidernet.io"],
            "ownerReferences": [owner],
        },
        "status": {
            "current": {"uid": uid, "node": node, "ips": [nic]},
            "ownerControllerType": "Deployment",
            "ownerControllerName": name.rpartition("-")[0],
        },
    }


if __name__ == "__main__":
    main()
