"""Races between gc and the real whereabouts plugin, request by request, and the truth about who has which address.

A lane is one pool with its pods. Its plugin reaches the API server through a gate that can hold one request back, and
gc's calls are seen before they are made: so a race can be put between any two requests of either side.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum, auto
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any, TypeVar

import urllib3

from controlplane.client import ADMIN, Client
from controlplane.kubelet import NETWORK_STATUS, Object, running
from controlplane.multus import NETWORKS
from controlplane.plane import ControlPlane
from controlplane.whereabouts import Attachment, Whereabouts, WhereaboutsError
from poolwarden.cluster.interface import Cluster, Outdated, Resource, WriteOutcome

T = TypeVar("T")
GROUP = "/apis/whereabouts.cni.cncf.io/v1alpha1"
POOLS, RESERVATIONS = "ippools", "overlappingrangeipreservations"
LONGEST_HOLD = 20.0  # seconds: after it the gate opens by itself, and the race is none


@dataclass(frozen=True)
class Call:
    """One request: of the plugin of a lane, or of gc (`lane` -1).

    A journal lists reads when they begin and writes when they are answered: what it shows in one order may have been so.
    """

    lane: int
    verb: str
    kind: str
    namespace: str
    name: str


class Gate:
    """The API server as a plugin sees it. One request of a kind can be held back until the gate is opened."""

    def __init__(self, lane: int, plane: ControlPlane, journal: list[Call]) -> None:
        admin = json.loads(plane.kubeconfig().read_text())
        self._lane, self._journal = lane, journal
        self._url: str = admin["clusters"][0]["cluster"]["server"]
        self._token: str = admin["users"][0]["user"]["token"]
        authority = admin["clusters"][0]["cluster"]["certificate-authority"]
        self._pool = urllib3.PoolManager(ca_certs=authority, retries=False, maxsize=8)
        self.client = Client(self._url, Path(authority), {ADMIN: self._token})
        self._shut: tuple[str, str] | None = None
        self._open = Event()
        self.reached = Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def kubeconfig(self, path: Path, namespace: str) -> Path:
        """Writes a kubeconfig that leads through the gate; the plugin keeps its objects in this namespace."""
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "gate", "cluster": {"server": f"http://127.0.0.1:{self._server.server_port}"}}],
            "users": [{"name": "plugin", "user": {}}],
            "contexts": [{"name": "gate", "context": {"cluster": "gate", "user": "plugin", "namespace": namespace}}],
            "current-context": "gate",
        }
        path.write_text(json.dumps(content))
        return path

    def shut(self, verb: str, kind: str) -> None:
        """Holds the next such request back."""
        self._open, self.reached = Event(), Event()
        self._shut = (verb, kind)

    def open(self) -> None:
        """Lets it pass."""
        self._shut = None
        self._open.set()

    def close(self) -> None:
        """Ends the gate."""
        self.open()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
        self._pool.clear()
        self.client.close()

    def forward(self, verb: str, path: str, headers: Mapping[str, str], body: bytes) -> urllib3.BaseHTTPResponse:
        """One request, once it may pass."""
        call = _call(self._lane, verb, path)
        reads = verb == "GET"
        if self._shut == (call.verb, call.kind):
            self._shut = None
            self.reached.set()
            self._open.wait(LONGEST_HOLD)
        sent = {name: headers[name] for name in ("Accept", "Content-Type") if name in headers}
        if reads:
            self._journal.append(call)
        answer = self._pool.request(
            verb, self._url + path, body=body or None, headers={**sent, "Authorization": f"Bearer {self._token}"}
        )
        if not reads:
            self._journal.append(call)
        return answer


def _handler(gate: Gate) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet an answer
        disable_nagle_algorithm = True

        def _pass(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            answer = gate.forward(self.command, self.path, dict(self.headers), body)
            self.send_response(answer.status)
            for name in ("Content-Type", "Retry-After"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            self.send_header("Content-Length", str(len(answer.data)))
            self.end_headers()
            self.wfile.write(answer.data)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _pass  # noqa: N815 - names that the base class calls

        def log_message(self, *_arguments: object) -> None:
            """Says nothing."""

    return Handler


def _call(lane: int, verb: str, path: str) -> Call:
    parts = path.partition("?")[0].strip("/").split("/")
    rest = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = rest[1] if rest[:1] == ["namespaces"] and len(rest) > 2 else ""
    kind, *name = rest[2:] if namespace else rest or [""]
    return Call(lane, verb, kind, namespace, "/".join(name))


# --- gc's side --------------------------------------------------------------------------------------------------------


class Stepping:
    """gc's cluster. `before` and `after` hear of each call; writes that came too late are counted by kind."""

    def __init__(self, real: Cluster, journal: list[Call]) -> None:
        self.real = real
        self.journal = journal
        self.before: Callable[[Call], None] = lambda _call: None
        self.after: Callable[[Call], None] = lambda _call: None
        self.conflicts: Counter[str] = Counter()
        self.failures: list[BaseException] = []

    @property
    def now(self) -> Any:
        """The real clock."""
        return self.real.now

    def list(self, resource: Resource, item: type[T], *, namespace: str | None = None) -> Any:
        """See Cluster."""
        return self._made(
            Call(-1, "LIST", resource.plural, namespace or "", ""),
            lambda: self.real.list(resource, item, namespace=namespace),
        )

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Any:
        """See Cluster."""
        return self._made(
            Call(-1, "GET", resource.plural, namespace, name),
            lambda: self.real.get(resource, item, name=name, namespace=namespace),
        )

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "") -> WriteOutcome:
        """See Cluster."""
        return self._written(
            Call(-1, "POST", resource.plural, namespace, body["metadata"]["name"]),
            lambda: self.real.create(resource, body, namespace=namespace),
        )

    def patch(self, resource: Resource, body: Any, *, name: str, namespace: str = "", **more: Any) -> WriteOutcome:
        """See Cluster."""
        return self._written(
            Call(-1, "PATCH", resource.plural, namespace, name),
            lambda: self.real.patch(resource, body, name=name, namespace=namespace, **more),
        )

    def delete(self, resource: Resource, *, name: str, namespace: str = "", **fences: str) -> WriteOutcome:
        """See Cluster."""
        return self._written(
            Call(-1, "DELETE", resource.plural, namespace, name),
            lambda: self.real.delete(resource, name=name, namespace=namespace, **fences),
        )

    def _written(self, call: Call, make: Callable[[], WriteOutcome]) -> WriteOutcome:
        outcome = self._made(call, make)
        if isinstance(outcome, Outdated):
            self.conflicts[f"{call.verb} {call.kind}"] += 1
        return outcome

    def _made(self, call: Call, make: Callable[[], T]) -> T:
        self._tell(self.before, call)
        reads = call.verb in {"LIST", "GET"}
        if reads:
            self.journal.append(call)
        outcome = make()
        if not reads:
            self.journal.append(call)
        self._tell(self.after, call)
        return outcome

    def _tell(self, hook: Callable[[Call], None], call: Call) -> None:
        """A failure of the test's own is none of gc's: gc would take it for a defect and go on."""
        try:
            hook(call)
        except BaseException as error:  # noqa: BLE001 - raised again by the test
            self.failures.append(error)


class Step(IntEnum):
    """How far gc has come with one pool in one sweep."""

    NOMINATING = 0  # reads, judges and marks
    MARKED = auto()  # until the pool is read
    POOL_READ = auto()  # until the owners are read
    OWNER_READ = auto()  # until the record is taken out
    TAKEN = auto()  # until the owners are read again
    VERIFIED = auto()  # until the reservation is deleted
    UNRESERVED = auto()  # until the pools are read again
    DONE = auto()


class How(StrEnum):
    """What gc's call waits for, when it is the moment for the race."""

    WHOLE = "whole"  # all that happens
    BESIDE = "beside"  # nothing: both go on at once
    HELD = "held"  # until a request of the plugin is held back, to be made later


HELD = (
    ("GET", POOLS),
    ("GET", RESERVATIONS),
    *2 * (("PATCH", POOLS),),  # the most delicate one: what the plugin has seen may have changed
    ("POST", RESERVATIONS),
    ("DELETE", RESERVATIONS),
)


@dataclass(frozen=True)
class Plan:
    """When a race starts, how, and when a request that was held back goes on."""

    start: Step
    delay: int  # calls of gc that pass first, as far as the step has so many
    how: How
    held: tuple[str, str]
    resume: Step
    pause: int  # likewise


# --- the truth --------------------------------------------------------------------------------------------------------


@dataclass
class Live:
    """A pod that exists. No address: the plugin has not answered yet."""

    name: str
    interface: str
    sandbox: str = ""
    address: str = ""


@dataclass(frozen=True)
class Network:
    """One pool's configuration."""

    ipam: Mapping[str, object]
    pool: str

    @property
    def name(self) -> str:
        """The network_name, "" if it has none."""
        return str(self.ipam.get("network_name", ""))

    def reservation(self, address: str) -> str:
        """The name of an address' reservation."""
        text = (f"{address}0" if address.endswith(":") else address).replace(":", "-")
        return f"{self.name}-{text}" if self.name else text


class Window(StrEnum):
    """How a live pod's address may come to have no reservation."""

    DELETED_BETWEEN = "we deleted it after the ADD had seen it, and looked again before the ADD wrote"
    MARK_KEPT = "the ADD saw its own for one address, wrote too late, and made none for the next one either"


@dataclass
class Told:
    """What happened, counted."""

    races: Counter[str] = field(default_factory=Counter)
    moments: Counter[str] = field(default_factory=Counter)  # how far gc was when they began
    adds: int = 0
    deletes: int = 0
    refused: int = 0  # ADDs that failed since the reservation that they meant to make was there
    windows: dict[str, Window] = field(
        default_factory=dict
    )  # of each sandbox whose address was recorded, but not reserved


class Lane:
    """One pool, its pods, its plugin, and the races that are run on them."""

    population = 6

    def __init__(
        self,
        number: int,
        network: Network,
        plane: ControlPlane,
        program: Path,
        folder: Path,
        place: tuple[str, str],
        *,
        seed: int,
        journal: list[Call],
    ) -> None:
        self.number, self.network, self.plane = number, network, plane
        self.pods, self.node = place
        self.namespace = f"whereabouts-{secrets.token_hex(3)}"
        self.journal = journal
        self.rng = Random(f"{seed}-{number}")
        self.gate = Gate(number, plane, journal)
        folder.mkdir()
        plane.add_namespace(self.namespace)
        self.plugin = Whereabouts(program, folder, self.gate.kubeconfig(folder / "kubeconfig", self.namespace))
        self.live: dict[str, Live] = {}
        self.gone: list[Live] = []
        self.told = Told()
        self._numbers = count(1)
        self._threads = ThreadPoolExecutor(1)
        self._plan: Plan | None = None
        self._race: Future[None] | None = None
        self._delay = self._pause = 0
        self._began = Step.NOMINATING
        self.step = Step.NOMINATING

    def close(self) -> None:
        """Ends the lane; its pods are the test's namespace's."""
        self._threads.shutdown()
        self.gate.close()
        for kind in (POOLS, RESERVATIONS):
            self.gate.client.request("DELETE", f"{GROUP}/namespaces/{self.namespace}/{kind}")
        self.plane.remove_namespace(self.namespace)

    # --- what the pool says ---------------------------------------------------------------------------------------

    def records(self) -> dict[str, Object]:
        """All records, by address."""
        pool = self.gate.client.find(f"{GROUP}/namespaces/{self.namespace}/{POOLS}/{self.network.pool}")
        if pool is None:
            return {}
        first = ip_address(pool["spec"]["range"].partition("/")[0])
        return {str(first + int(offset)): record for offset, record in pool["spec"]["allocations"].items()}

    def reservations(self) -> dict[str, Object]:
        """All reservations, by name."""
        items = self.gate.client.request("GET", f"{GROUP}/namespaces/{self.namespace}/{RESERVATIONS}")["items"]
        return {item["metadata"]["name"]: item["spec"] for item in items}

    def expected(self) -> dict[str, Object]:
        """The records of all live pods, by the plugin's own answers."""
        return {
            pod.address: {"id": pod.sandbox, "ifname": pod.interface, "podref": f"{self.pods}/{pod.name}"}
            for pod in list(self.live.values())
            if pod.address
        }

    def check(self) -> None:
        """No live pod has lost its record or its address; what has no reservation is no fault of ours but the known window."""
        expected, records, reservations = self.expected(), self.records(), self.reservations()
        assert len(expected) == sum(bool(pod.address) for pod in self.live.values()), f"one address twice: {self.live}"
        for address, record in expected.items():
            assert records.get(address) == record, f"{address} in {self.network.pool}: {records}"
            reservation = reservations.get(self.network.reservation(address))
            if reservation is None:
                sandbox = record["id"]
                if sandbox not in self.told.windows:
                    self.told.windows[sandbox] = self._window(address)
            else:
                assert reservation["podref"] == record["podref"], f"{address}: {reservation}, {record}"

    def _window(self, address: str) -> Window:
        """How an address that an ADD has just given may come to have no reservation, by the order of all requests."""
        own = self.network.reservation(address)
        looked, wrote = (self.number, "GET", RESERVATIONS, own), (self.number, "PATCH", POOLS, self.network.pool)
        if self._in_order(looked, (-1, "DELETE", RESERVATIONS, own), (-1, "LIST", POOLS, ""), wrote):
            return Window.DELETED_BETWEEN
        seen = {call.name for call in self.journal if (call.lane, call.verb, call.kind) == looked[:3]}
        if any(self._in_order((*looked[:3], name), wrote, looked, wrote) for name in seen - {own}):
            return Window.MARK_KEPT
        raise AssertionError(f"{address} lost its reservation:\n{self.story()}")

    def _in_order(self, *wanted: tuple[int, str, str, str]) -> bool:
        """Whether these requests (lane, verb, kind, name) were made in this order, whatever was made between them."""
        made = ((c.lane, c.verb, c.kind, c.name) for c in list(self.journal) if c.namespace in {"", self.namespace})
        return all(request in made for request in wanted)  # each search goes on where the last one ended

    def story(self) -> str:
        """All requests of this round that concern the lane."""
        mine = [c for c in self.journal if c.lane in {self.number, -1} and c.namespace in {"", self.namespace}]
        return "\n".join(f"{'gc' if c.lane < 0 else 'plugin'} {c.verb} {c.kind} {c.name}" for c in mine)

    # --- what happens to pods -------------------------------------------------------------------------------------

    def make(self, name: str, interface: str) -> None:
        """Makes a pod that asks for one more NIC; its containers have not started."""
        asked = json.dumps([{"name": "net", "interface": interface}])
        body = {
            "metadata": {"name": name, "annotations": {NETWORKS: asked}},
            "spec": {
                "nodeName": self.node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{"name": "c", "image": "i"}],
            },
        }
        self.gate.client.request("POST", f"/api/v1/namespaces/{self.pods}/pods", body)
        self.live[name] = Live(name, interface)

    def attachment(self, pod: Live, sandbox: str) -> Attachment:
        """A NIC of one sandbox of a pod."""
        return Attachment(self.pods, pod.name, sandbox, interface=pod.interface, node=self.node)

    def add(self, pod: Live) -> None:
        """A new sandbox of the pod, as a kubelet makes it: what fails is torn down and tried once more."""
        for _ in range(2):
            sandbox = f"sandbox-{self.number}-{next(self._numbers)}"
            self.told.adds += 1
            try:
                address = self.plugin.add(self.network.ipam, self.attachment(pod, sandbox))[0].partition("/")[0]
            except WhereaboutsError as error:
                assert "already exists" in str(error), error  # noqa: PT017 - any other failure is one
                self.told.refused += 1
                self.plugin.delete(self.network.ipam, self.attachment(pod, sandbox))
                continue
            if self.live.get(pod.name) is pod:
                pod.sandbox, pod.address = sandbox, str(ip_address(address))
            return
        raise AssertionError(f"the ADD of {pod} failed twice")

    def delete(self, pod: Live) -> None:
        """A DEL, late or not."""
        self.told.deletes += 1
        self.plugin.delete(self.network.ipam, self.attachment(pod, pod.sandbox))

    def show(self, pod: Live) -> None:
        """The pod is Running and Ready, and its network-status lists both its NICs."""
        path = f"/api/v1/namespaces/{self.pods}/pods/{pod.name}"
        high, low = divmod(next(self._numbers), 250)
        own = f"10.{100 + self.number}.{high}.{low + 1}"
        status = [
            {"name": "cluster", "interface": "eth0", "ips": [own], "default": True, "dns": {}},
            {"name": f"{self.pods}/net", "interface": pod.interface, "ips": [pod.address], "dns": {}},
        ]
        body = {
            "metadata": {"annotations": {NETWORK_STATUS: json.dumps(status)}},
            "status": running({"spec": {"containers": [{"name": "c", "image": "i"}]}}, [own]),
        }
        self.gate.client.request("PATCH", f"{path}/status", body)

    def remove(self, pod: Live, *, orderly: bool) -> None:
        """The pod object goes; without a DEL its record leaks."""
        del self.live[pod.name]
        if orderly and pod.address:
            self.delete(pod)
        self.gate.client.request("DELETE", f"/api/v1/namespaces/{self.pods}/pods/{pod.name}", {"gracePeriodSeconds": 0})

    # --- one round ------------------------------------------------------------------------------------------------

    def refill(self) -> None:
        """Every name has its pod again, and the plugin's next ADDs work."""
        extra = [pod for pod in self.live.values() if "-x-" in pod.name]
        for pod in extra:
            if self.rng.random() < 0.5:
                self.remove(pod, orderly=True)
        for number in range(self.population):
            name = f"lane-{self.number}-web-{number}"
            if name not in self.live:
                self.make(name, self.rng.choice(("net1", "net1", "net2")))
        for pod in self.live.values():
            if not pod.address:
                self.add(pod)
                if self.rng.random() < 0.7:
                    self.show(pod)

    def leak(self) -> None:
        """One or two pods are removed by force, without a DEL."""
        candidates = [pod for pod in self.live.values() if pod.address]
        self.gone = self.rng.sample(candidates, self.rng.choice((1, 1, 2)))
        for pod in self.gone:
            self.remove(pod, orderly=False)

    def settle(self) -> None:
        """Every pod has its NIC, and shows it."""
        for pod in self.live.values():
            if not pod.address:
                self.add(pod)
            self.show(pod)

    def unreserved(self) -> set[str]:
        """The addresses of live pods that have no reservation."""
        reservations = self.reservations()
        return {address for address in self.expected() if self.network.reservation(address) not in reservations}

    def left(self) -> tuple[dict[str, Object], set[str]]:
        """Records and reservations that nobody needs."""
        expected = self.expected()
        records = {address: record for address, record in self.records().items() if address not in expected}
        return records, set(self.reservations()) - {self.network.reservation(address) for address in expected}

    def plan(self) -> None:
        """Draws the next race."""
        start = self.rng.choice([step for step in Step if step is not Step.NOMINATING])
        self._plan = Plan(
            start=start,
            delay=self.rng.choice((0, 0, 1, 2, 4, 99)),
            how=self.rng.choice((How.WHOLE, How.WHOLE, How.HELD, How.HELD, How.BESIDE)),
            held=self.rng.choice(HELD),
            resume=Step(self.rng.randint(start, Step.DONE)),
            pause=self.rng.choice((0, 0, 1, 2, 4, 99)),
        )
        self._race, self.step = None, Step.NOMINATING
        self._delay, self._pause = self._plan.delay, self._plan.pause

    def _happens(self) -> None:
        """What the race is, drawn from all that can happen to the pods that are gone, or beside them."""
        rng, victim = self.rng, self.rng.choice(self.gone)
        what = rng.choice(
            ("made", "added", "added", "added elsewhere", "other", "other", "late", "ghost", "shown", "both")
        )
        self.told.races[what] += 1
        if what == "late":
            self.delete(victim)
            return
        if what == "ghost":  # a kubelet that has not heard of the deletion yet
            self.add(victim)
            return
        if what in {"other", "both"}:
            name = f"lane-{self.number}-x-{next(self._numbers)}"
            self.make(name, "net1")
            self.add(self.live[name])
        if what == "other":
            return
        self.make(victim.name, "net3" if what == "added elsewhere" else victim.interface)
        pod = self.live[victim.name]
        if what == "made":
            return
        self.add(pod)
        if what == "shown":
            self.show(pod)

    def heard(self, call: Call) -> None:
        """One of gc's calls is about to be made: perhaps it is the moment."""
        last = self._ends_step(call)
        plan = self._plan
        if plan is not None and self._race is None and self.step >= plan.start:
            if self.step > plan.start or last or self._delay <= 0:
                self._start(plan)
            self._delay -= 1
        elif plan is not None and self._race is not None and plan.how is How.HELD and self.step >= plan.resume:
            if self.step > plan.resume or last or self._pause <= 0:
                self.gate.open()
                self._race.result()
            self._pause -= 1
        if last:
            self.step = Step(self.step + 1)

    def _ends_step(self, call: Call) -> bool:
        mine = call.namespace == self.namespace
        pool = call.name == self.network.pool
        return {
            Step.NOMINATING: (call.verb, call.kind) == ("PATCH", "poolguards"),
            Step.MARKED: call.verb == "GET" and call.kind == POOLS and mine and pool,
            Step.POOL_READ: (call.verb, call.kind) == ("LIST", "pods"),
            Step.OWNER_READ: call.verb == "PATCH" and call.kind == POOLS and mine and pool,
            Step.TAKEN: (call.verb, call.kind) == ("LIST", "pods"),
            Step.VERIFIED: call.verb == "DELETE" and call.kind == RESERVATIONS and mine,
            Step.UNRESERVED: (call.verb, call.kind) == ("LIST", POOLS),
            Step.DONE: False,
        }[self.step]

    def _start(self, plan: Plan) -> None:
        if plan.how is How.HELD:
            self.gate.shut(*plan.held)
        self._race, self._began = self._threads.submit(self._happens), self.step
        match plan.how:
            case How.WHOLE:
                self._race.result()
            case How.HELD:
                self._race.add_done_callback(lambda _race: self.gate.reached.set())
                self.gate.reached.wait()
            case How.BESIDE:
                pass

    def finish(self) -> None:
        """The sweep is over: what has not happened yet happens now."""
        if self._plan is not None and self._race is None:
            self._start(self._plan)
        self.gate.open()
        if self._race is not None:
            self._race.result()
            if self.step > Step.MARKED:  # else gc had nothing to release here
                self.told.moments[self._began.name] += 1
        self._plan = self._race = None
