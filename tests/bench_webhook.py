"""The benchmark of the webhook, beside a no-op one in Go: reviews alone, and pods created through the real API server.

    make bench ARGS="webhook"                        both
    make bench ARGS="reviews --runs 3 --seconds 1"   one of them: reviews or creations

Each figure is the median of interleaved runs, each ratio that of runs side by side. On one machine load, API server, etcd and
webhook take the CPU from each other: the ratios say more than the figures.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import ssl
import statistics
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import bench
from controlplane import build
from controlplane.admission import Load, Tls, create_pods, noop_webhook, post_reviews
from controlplane.plane import ControlPlane
from endtoend.conftest import ACCOUNT, network, spider_pool
from endtoend.objects import NAMED, NAMESPACE, PODS, UNNAMED, annotations_of
from endtoend.program import Program, running
from manifests.shipped import MANIFESTS, registered, shipped_webhooks
from poolwarden.webhook.patch import pointer

Object = dict[str, Any]
CONNECTIONS = (1, 8, 32)
CLIENTS = 8
CREATING_SECONDS = 1.5
NOOP, PATCHING, OURS = "no-op", "no-op + patch", "ours"
PATCH = [
    {"op": "replace", "path": pointer("metadata", "annotations", key), "value": text}
    for key, text in NAMED.items()
    if text != UNNAMED[key]
]
"""What ours answers: the API server's own work on it is not ours."""
LIBRARIES = ("poolwarden", "gunicorn", "uvicorn", "httptools", "uvloop", "msgspec")
TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=("webhook", "reviews", "creations"), nargs="?", default="webhook")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="of each run of reviews")
    options = parser.parse_args()
    with laboratory() as lab:
        kubernetes = lab.plane.request("GET", "/version")
        print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, ", end="")
        print(f"Kubernetes {kubernetes['gitVersion']}, {kubernetes['goVersion']}, ", end="")
        print(", ".join(f"{name} {version(name)}" for name in LIBRARIES))
        if options.part != "creations":
            reviews(lab, options.runs, options.seconds)
        if options.part != "reviews":
            creations(lab, options.runs)


# --- what is measured -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Laboratory:
    """An API server that knows the networks and pools of the pods, and the webhooks, with one certificate."""

    plane: ControlPlane
    programs: Mapping[str, Path]
    folder: Path
    authority: Path
    program: Program
    noop_url: str
    noop_session: int
    patching_url: str


@contextmanager
def laboratory() -> Iterator[Laboratory]:
    """Everything that runs, within the block."""
    programs = build.ensure()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ControlPlane(programs, folder / "plane", controllers=False, kubelets=False) as plane:
            fill(plane)
            program = Program(folder / "program", plane.kubeconfig(ACCOUNT))
            authority = folder / "ca.crt"
            authority.write_bytes(program.authority)
            tls = Tls(program.mount.cert, program.mount.key, authority)
            noop = partial(noop_webhook, programs["noop-webhook"], folder, tls)
            with noop() as (url, session), noop(PATCH) as (patching, _), running(program):
                yield Laboratory(plane, programs, folder, authority, program, url, session, patching)


def fill(plane: ControlPlane) -> None:
    """The manifests without their webhook configurations, and what the pods' annotations speak of."""
    crds = (*(Path(__file__).parent / "crds").glob("*.yaml"), MANIFESTS / "crd" / "poolguards.yaml")
    plane.kubectl("apply", "--server-side", *(f"--filename={path}" for path in crds))
    plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd", "--all")
    plane.kubectl("apply", f"--filename={MANIFESTS / 'namespace.yaml'}")
    built = plane.kubectl("kustomize", str(MANIFESTS / "webhook")).stdout
    documents = [text for text in built.split("\n---\n") if "WebhookConfiguration" not in text]
    plane.add_namespace(NAMESPACE)
    documents += [network(NAMESPACE, "a", "whereabouts"), spider_pool("p0", 0), spider_pool("p1", 1)]
    documents += [network("kube-system", name, "spiderpool") for name in ("base", "vlan")]
    plane.kubectl("apply", "--filename=-", input="\n---\n".join(documents))


def pod(annotations: Mapping[str, str]) -> Object:
    """A new pod, not yet scheduled, of the size of a real one."""
    made = bench.pod("app", "", "", "")
    meta = {"generateName": "app-5d4f8c7b9-", "labels": {"app": "app"}, "annotations": dict(annotations)}
    del made["status"], made["spec"]["nodeName"]
    return made | {"metadata": meta}


def review(plane: ControlPlane, annotations: Mapping[str, str]) -> Object:
    """The AdmissionReview of a pod's creation, with all that the API server adds to the pod."""
    stored = plane.request("POST", f"{PODS}?dryRun=All", pod(annotations))
    kind = {"group": "", "version": "v1", "kind": "Pod"}
    resource = {"group": "", "version": "v1", "resource": "pods"}
    request = {
        "uid": "replaced by the client",
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": stored["metadata"]["name"],
        "namespace": NAMESPACE,
        "operation": "CREATE",
        "userInfo": {
            "username": "system:serviceaccount:kube-system:replicaset-controller",
            "uid": "5b3f0a1e-6a0e-4a3b-9d43-4cf3b5a5f9c7",
            "groups": ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
            "extra": {"authentication.kubernetes.io/credential-id": ["JTI=e5d0c3b8-3f43-4f6f-8f1c-6f6b3b0a7c55"]},
        },
        "object": stored,
        "oldObject": None,
        "dryRun": False,
        "options": {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"},
    }
    return {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}


def shown(figures: Sequence[float], form: str = ".2f") -> str:
    """Median and spread."""
    return f"{statistics.median(figures):{form}} (min {min(figures):{form}}, max {max(figures):{form}})"


# --- reviews ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """One path of one of the two webhooks, and the review that it is sent."""

    url: str
    review: Path
    session: int


@dataclass(frozen=True)
class Run:
    """What came of posting reviews for some seconds; `cpu` is the server's, in microseconds per review."""

    load: Load
    cpu: float


def reviews(lab: Laboratory, runs: int, seconds: float) -> None:
    """Throughput, latency and CPU of reviews, without an API server between."""
    targets: dict[str, Target] = {}
    bodies = {"/mutate-pods": review(lab.plane, UNNAMED), "/validate-pods": review(lab.plane, NAMED)}
    for path, body in bodies.items():
        file = lab.folder / f"{path[1:]}.json"
        file.write_text(json.dumps(body), encoding="utf-8")
        if not targets:
            targets[NOOP] = Target(f"{lab.noop_url}{path}", file, lab.noop_session)
        targets[path] = Target(f"{lab.program.url}{path}", file, lab.program.pid)
        answer = asked(lab, targets[path].url, body)
        size, told = len(json.dumps(body["request"]["object"])), ", ".join(sorted(answer))
        print(f"review of {file.stat().st_size} bytes, {size} of them the pod, to {path}; answered with {told}")
        assert ("patch" in answer) == path.startswith("/mutate"), answer
    for connections in CONNECTIONS:
        results: dict[str, list[Run]] = {name: [] for name in targets}
        for _ in range(runs):
            for name, target in targets.items():
                results[name].append(measured(lab, target, connections, seconds))
        print(f"{connections} connection{'s' * (connections > 1)}, {runs} runs of {seconds:g} s")
        show(results)


def show(results: Mapping[str, Sequence[Run]]) -> None:
    """A line for each target, and its ratio to the no-op's."""
    for name, runs in results.items():
        print(f"  {name:14}  {statistics.median(run.load.per_second for run in runs):6.0f}/s, ", end="")
        for quantile in ("p50", "p99"):
            print(f"{quantile} {statistics.median(getattr(run.load, quantile) for run in runs):.2f} ms, ", end="")
        print(f"CPU {shown([run.cpu for run in runs], '.0f')} µs/review", end="")
        if name != NOOP:
            pairs = zip(runs, results[NOOP], strict=True)
            print(f", ratio {shown([run.cpu / noop.cpu for run, noop in pairs])}, goal at most 2", end="")
        print(flush=True)


def measured(lab: Laboratory, target: Target, connections: int, seconds: float) -> Run:
    """One run; every review must be allowed."""
    before = cpu_seconds(target.session)
    load = post_reviews(
        lab.programs["review-load"],
        target.url,
        lab.authority,
        target.review,
        connections=connections,
        seconds=seconds,
    )
    spent = cpu_seconds(target.session) - before
    assert load.allowed == load.requests, load
    return Run(load, spent / load.requests * 1e6)


def cpu_seconds(session: int) -> float:
    """CPU time of all processes of a session, user's and system's."""
    ticks = 0
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = file.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[3]) == session:
            ticks += int(fields[11]) + int(fields[12])
    return ticks / TICKS


def asked(lab: Laboratory, url: str, body: Object) -> Object:
    """The response to one review."""
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
    context = ssl.create_default_context(cafile=lab.authority)
    with urllib.request.urlopen(request, context=context) as answer:
        response: Object = json.load(answer)["response"]
    return response


# --- creations --------------------------------------------------------------------------------------------------------


def creations(lab: Laboratory, runs: int) -> None:
    """Pods created per second, through the API server: without a webhook, with the no-op, with ours."""
    file = lab.folder / "pod.json"
    file.write_text(json.dumps(pod(UNNAMED)), encoding="utf-8")
    configured = partial(shipped_webhooks, lab.plane, ca=lab.program.authority)
    webhooks = {
        "no webhook": [],
        NOOP: configured(lab.noop_url),
        PATCHING: configured(lab.patching_url),
        OURS: configured(lab.program.url),
    }
    rates: dict[str, list[float]] = {name: [] for name in webhooks}
    asked_each: dict[str, float] = {}
    for _ in range(runs):
        for name, configurations in webhooks.items():
            before = reviews_sent(lab.plane)
            with registered(lab.plane, configurations) if configurations else nullcontext():
                rate, errors = create_pods(
                    lab.programs["pod-load"],
                    lab.plane.kubeconfig(),
                    NAMESPACE,
                    file,
                    connections=CLIENTS,
                    seconds=CREATING_SECONDS,
                )
            assert not errors, errors
            rates[name].append(rate)
            pods = lab.plane.request("GET", PODS)["items"]
            asked_each[name] = (reviews_sent(lab.plane) - before) / len(pods)
            assert all(annotations_of(item) == (NAMED if name in {PATCHING, OURS} else UNNAMED) for item in pods)
            lab.plane.request("DELETE", PODS, {"gracePeriodSeconds": 0})
    print(f"pods created by {CLIENTS} clients at once, {runs} runs of {CREATING_SECONDS:g} s")
    for name, found in rates.items():
        print(f"  {name:14}  {shown(found, '.0f')}/s, {asked_each[name]:.2f} reviews each", end="")
        if name == OURS:
            for other, goal in ((NOOP, ", goal at least 0.9"), (PATCHING, "")):
                pairs = zip(found, rates[other], strict=True)
                print(f", ratio to {other} {shown([ours / its for ours, its in pairs])}{goal}", end="")
        print(flush=True)


def reviews_sent(plane: ControlPlane) -> int:
    """How many reviews of pods the API server has sent and got an answer to."""
    metrics = plane.kubectl("get", "--raw", "/metrics").stdout
    counts = re.findall(
        r'^apiserver_admission_webhook_request_total\{.*name="\w+-pods\.\S+ (\d+)$', metrics, re.MULTILINE
    )
    return sum(map(int, counts))


if __name__ == "__main__":
    main()
