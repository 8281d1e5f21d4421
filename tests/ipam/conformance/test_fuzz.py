"""Agents and controllers that make their steps at random between our calls: no record of one that lives is ever freed."""

from __future__ import annotations

import ipaddress
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from factories import Object, name_of, pod
from faults import Call, World, calls, sweep
from poolwarden.gc.policy import Policy
from poolwarden.ipam import neon, whereabouts
from poolwarden.ipam.inventory import Change, NoHiding, Stale
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS, Kind
from poolwarden.ipam.pool import Record
from poolwarden.ipam.pool_guard import POOL_GUARDS

from .house import BYSTANDER, NeonHouse, made

SEEDS = range(60)
SWEEPS = 8
EAGER = Policy(max_release_percent=100, acknowledged_leaks=99)
Item = tuple[str, ...]
"""A record: its pool or address, and for whom it is."""
Steps = Iterator[None]
"""One call of a plugin or controller; it pauses after each of its requests."""


BURSTS = (0,) * 20 + (0.93,)
"""How likely another step follows, between two of our calls: mostly nothing happens, and then much."""
OVER = object()
Write = Callable[[Any, bytes, Sequence[Record]], Change | Stale]


class Life(ABC):
    """A cluster of one IPAM in which others act straight before and after each of our calls, as a seed has it."""

    creations: ClassVar[float]
    """The share of new owners among all events between calls."""

    def __init__(self, seed: int, *objects: Object) -> None:
        self.random = Random(seed)
        self.world = World(*objects, BYSTANDER)
        self.running: list[Steps] = []
        self.freed: list[str] = []
        self.number = 0

    @abstractmethod
    def create(self) -> None:
        """A new owner, which is about to get an address."""

    @abstractmethod
    def end(self) -> None:
        """An owner goes, and mostly nobody frees its address."""

    @abstractmethod
    def held(self) -> set[Item]:
        """The records that owners have been given, and live by."""

    @abstractmethod
    def recorded(self) -> set[Item]:
        """All records."""

    def new(self, prefix: str, most: int, taken: Iterable[str]) -> str:
        """A name that is free: names come again; "" if there is none."""
        names = sorted({f"{prefix}-{number}" for number in range(most)} - set(taken))
        self.number += 1
        return self.random.choice(names) if names else ""

    def read(self, kind: Kind, name: str) -> tuple[str, dict[str, Object]]:
        """The resourceVersion and the entries of a pool."""
        item = next(item for item in self.world.of_kind(kind) if name_of(item) == name)
        return item["metadata"]["resourceVersion"], item["spec"].get("allocations") or {}

    def write(self, kind: Kind, name: str, version: str, entries: dict[str, Object]) -> bool:
        """Whether the entries took effect, which they do if the pool is still at that version."""
        item = next(item for item in self.world.of_kind(kind) if name_of(item) == name)
        if item["metadata"]["resourceVersion"] != version:
            return False
        if (item["spec"].get("allocations") or {}) != entries:
            self.world.put({**item, "spec": {**item["spec"], "allocations": entries}})
        return True

    def step(self) -> None:
        """One of those who are under way makes a request."""
        chosen = self.random.choice(self.running)
        if next(chosen, OVER) is OVER:
            self.running.remove(chosen)

    def some(self, likely: float) -> None:
        """Some steps, and now and then an event."""
        while self.random.random() < likely:
            if self.running and self.random.random() < 0.85:
                self.step()
            elif self.random.random() < 0.1:
                (self.create if self.random.random() < self.creations else self.end)()

    def drain(self) -> None:
        """All who are under way come to their end."""
        while self.running:
            self.step()

    def between(self, call: Call, make: Callable[[], Any]) -> Any:
        """Others act around our call, which must take no record from one that lives."""
        self.some(self.random.choice(BURSTS))
        before = self.recorded() & self.held() if call.writes else set()
        outcome = make()
        lost = before - self.recorded() if before else before
        self.freed += [f"{item} by {call}" for item in sorted(lost)]
        self.some(self.random.choice(BURSTS))
        return outcome

    def run(self) -> list[str]:
        """What was freed that somebody lives by."""
        for _ in range(7):
            self.create()
        self.drain()
        self.world.on(calls(), self.between, times=10**9)
        for _ in range(SWEEPS):
            sweep(self.world, default=EAGER)
            for likely, event in ((0.8, self.drain), (0.5, self.end), (0.1, self.create), (0.8, self.drain)):
                if self.random.random() < likely:
                    event()
            self.world.later(minutes=11)
        return self.freed

    def released(self) -> int:
        """How many records we have freed."""
        guards = self.world.of_kind(POOL_GUARDS)
        return sum(len(guard.get("status", {}).get("released", ())) for guard in guards)


# --- whereabouts: two overlapping pools of one network --------------------------------------------------------------


RANGES = {"net1": ("10.6.0.0-28", 14), "net2": ("10.6.0.0-29", 6)}
"""The pool of each NIC, and how many addresses it hands out."""
BASE = int(ipaddress.ip_address("10.6.0.0"))


@dataclass
class Sandbox:
    """The present one of a pod."""

    id: str
    nic: str
    uid: str
    key: str = ""
    """What an ADD has recorded for it, "" before."""


def attachment(name: str, text: str) -> Object:
    """A NAD that draws from a range."""
    ipam = {"type": "whereabouts", "range": text}
    config = {"cniVersion": "0.3.1", "name": name, "type": "macvlan", "master": "eth1", "ipam": ipam}
    return made(NETWORK_ATTACHMENTS, name, "kube-system", spec={"config": json.dumps(config)})


class Whereabouts(Life):
    """Pods come, go and get new sandboxes, while ADDs and DELs of v0.9.2 are under way."""

    creations = 0.6

    def __init__(self, seed: int) -> None:
        ranges = {nic: pool.replace("-", "/") for nic, (pool, _) in RANGES.items()}
        pools = [
            made(whereabouts.POOLS, pool, "kube-system", spec={"range": ranges[nic], "allocations": {}})
            for nic, (pool, _) in RANGES.items()
        ]
        super().__init__(seed, *pools, *(attachment(*item) for item in ranges.items()))
        self.alive: dict[str, Sandbox] = {}

    def held(self) -> set[Item]:
        """What each sandbox was given."""
        return {(RANGES[box.nic][0], box.key, box.id) for box in self.alive.values() if box.key}

    def recorded(self) -> set[Item]:
        """What each pool says."""
        return {
            (name_of(item), key, entry["id"])
            for item in self.world.of_kind(whereabouts.POOLS)
            for key, entry in item["spec"].get("allocations", {}).items()
        }

    def create(self) -> None:
        """A pod of a name that was there before, and the ADD of its NIC."""
        name = self.new("app", 9, self.alive)
        if name:
            nic = ("net1", "net2")[int(name[-1]) % 2]
            box = self.alive[name] = Sandbox(f"sandbox-{self.number}", nic, f"uid-{self.number}")
            self.world.put(pod(name, uid=box.uid, phase="Pending", networks=f"kube-system/{nic}@{nic}", status=""))
            self.running.append(self.add(name, box))

    def end(self) -> None:
        """A pod is deleted, or gets a new sandbox; the DEL of the one before is often lost."""
        if not self.alive:
            return
        name = self.random.choice(sorted(self.alive))
        old = self.alive.pop(name)
        restarts, lost = self.random.random() < 0.15, self.random.random() < 0.8
        self.running += [] if lost else [self.delete(old)]
        if not restarts:
            self.world.remove("Pod", name)
            return
        self.number += 1
        box = self.alive[name] = Sandbox(f"sandbox-{self.number}", old.nic, old.uid)
        stale = self.world.thing("Pod", name)  # its network-status stays that of the sandbox before
        unready = {"conditions": [{"type": "Ready", "status": "False"}]}
        self.world.put({**stale, "status": {**stale["status"], **unready}})
        self.running.append(self.add(name, box))

    def reservations(self) -> dict[str, Object]:
        """The reservations by address."""
        return {name_of(item): item for item in self.world.of_kind(whereabouts.RESERVATIONS)}

    def add(self, name: str, box: Sandbox) -> Steps:
        """The plugin's ADD: its own record, or the first free address that nobody else has reserved."""
        pool, size = RANGES[box.nic]
        reference, passed = {"podref": f"default/{name}", "ifname": box.nic}, set[str]()
        for _ in range(10):
            version, entries = self.read(whereabouts.POOLS, pool)
            yield
            own = [key for key, entry in entries.items() if reference.items() <= entry.items()]
            free = (key for key in map(str, range(1, size + 1)) if key not in entries and key not in passed)
            key = self.random.choice(own) if own else next(free, "")
            if not key:
                return
            address = str(ipaddress.ip_address(BASE + int(key)))
            reservation = self.reservations().get(address)
            yield
            if reservation and reservation["spec"]["podref"] != reference["podref"]:
                passed |= {key}
            elif self.write(whereabouts.POOLS, pool, version, {**entries, key: {**reference, "id": box.id}}):
                box.key = key
                break
            yield
        else:
            return
        yield
        if not reservation and address not in self.reservations():
            self.world.put(made(whereabouts.RESERVATIONS, address, "kube-system", spec=reference))
        yield
        if self.alive.get(name) is box:
            self.world.put(pod(name, uid=box.uid, ips=[f"172.31.0.{self.number % 250}"], nics={box.nic: address}))

    def delete(self, box: Sandbox) -> Steps:
        """The plugin's DEL: the record of that sandbox, then the reservation."""
        pool, _ = RANGES[box.nic]
        for _ in range(5):
            version, entries = self.read(whereabouts.POOLS, pool)
            yield
            left = {key: entry for key, entry in entries.items() if entry["id"] != box.id}
            if self.write(whereabouts.POOLS, pool, version, left):
                break
            yield
        else:
            return
        yield
        for key in entries.keys() - left.keys():
            self.world.remove("OverlappingRangeIPReservation", str(ipaddress.ip_address(BASE + int(key))))


# --- Neon -----------------------------------------------------------------------------------------------------------


class Neon(Life):
    """Virtual machines come and go, while neonvm-controller starts and finalizes others."""

    creations = 0.7
    house = NeonHouse(4)

    def __init__(self, seed: int) -> None:
        super().__init__(seed, *self.house.objects({}))
        self.machines: dict[str, str] = {}
        """The UID of each machine that was not finalized yet."""
        self.used: dict[str, str] = {}
        """The address of each machine, or guest that still runs, by UID."""
        self.runners: dict[str, str] = {}

    def held(self) -> set[Item]:
        """The addresses of machines and guests."""
        return {(address,) for address in self.used.values()}

    def recorded(self) -> set[Item]:
        """All addresses with a record, whether hidden or not."""
        return {(address,) for address in self.house.entries(self.world)}

    def create(self) -> None:
        """A machine of a name that was there before, and its controller's first reconcile."""
        name = self.new("vm", 7, self.machines)
        if name:
            uid = self.machines[name] = f"uid-{self.number}"
            self.world.put(self.house.live(name, uid=uid))
            self.running.append(self.start(name, uid))

    def end(self) -> None:
        """A machine that runs is deleted; the release of its address mostly fails, which its controller passes over."""
        idle = sorted(name for name, uid in self.machines.items() if uid in self.runners)
        if idle:
            name = self.random.choice(idle)
            self.running.append(self.stop(name, self.machines[name], lost=self.random.random() < 0.8))

    def start(self, name: str, uid: str) -> Steps:
        """Its own record, which takes no write that changes anything, or the first free address; then a runner pod."""
        for _ in range(6):
            version, entries = self.read(neon.POOLS, self.house.ref.name)
            yield
            own = [key for key, entry in entries.items() if entry["id"] == f"default/{name}"]
            free = (key for key in map(str, range(1, 9)) if key not in entries)
            key = self.random.choice(own) if own else next(free, "")
            if not key:
                return
            entry = {"id": f"default/{name}", "podref": ""}
            if self.write(neon.POOLS, self.house.ref.name, version, {**entries, key: entry}):
                break
            yield
        else:
            return
        if self.machines.get(name) == uid:
            self.used[uid] = f"10.100.0.{key}"
        for step in (self.show_pending, self.run_pod, self.show):
            yield
            if self.machines.get(name) != uid:
                return
            step(name, uid)

    def show(self, name: str, uid: str, phase: str = "Running") -> None:
        """The machine's status tells its address."""
        shown = self.house.live(name, self.used[uid], uid=uid)
        self.world.put({**shown, "status": {**shown["status"], "phase": phase}})

    def show_pending(self, name: str, uid: str) -> None:
        """The address is told before there is a runner pod."""
        self.show(name, uid, "Pending")

    def run_pod(self, name: str, uid: str) -> None:
        """The runner pod starts."""
        made_pod = pod(f"{name}-{uid}", ips=["172.31.0.9"], status="", networks="")
        made_pod["metadata"]["labels"] = {"vm.neon.tech/name": name}
        self.world.put(made_pod)
        self.runners[uid] = name_of(made_pod)

    def stop(self, name: str, uid: str, *, lost: bool) -> Steps:
        """The address is freed, the machine goes, and its guest ends after it."""
        yield
        for _ in range(0 if lost else 5):
            version, entries = self.read(neon.POOLS, self.house.ref.name)
            yield
            own = next((key for key, entry in entries.items() if entry["id"] == f"default/{name}"), "")
            left = {key: entry for key, entry in entries.items() if key != own}
            if self.write(neon.POOLS, self.house.ref.name, version, left):
                break
            yield
        self.machines.pop(name, None)
        self.world.remove_of(neon.MACHINES, name)
        yield
        self.world.remove("Pod", self.runners.pop(uid, ""))
        self.used.pop(uid, None)


# --- what must hold -------------------------------------------------------------------------------------------------


def removed_at_once(_: object, raw: bytes, records: Sequence[Record]) -> Change | Stale:
    """What takes entries of Neon out that were not marked before."""
    change = neon.NeonMarks().hide(raw, records)
    if isinstance(change, Stale) or not isinstance(change.body, Mapping):
        return change
    allocations = dict.fromkeys(change.body["spec"]["allocations"])
    return replace(change, body={**change.body, "spec": {"allocations": allocations}})


def untested(write: Write) -> Write:
    """What takes entries of whereabouts out whatever their value is by then."""

    def without_records(backend: object, raw: bytes, records: Sequence[Record]) -> Change | Stale:
        change = write(backend, raw, records)
        if isinstance(change, Stale) or isinstance(change.body, Mapping):
            return change
        return replace(change, body=[operation for operation in change.body if operation["op"] == "remove"])

    return without_records


@pytest.mark.parametrize("life", [Whereabouts, Neon])
def test_nobody_loses_a_record(life: Callable[[int], Life]) -> None:
    """Whatever others do between our calls: no record is freed that somebody lives by, and leaks are."""
    lives = {seed: life(seed) for seed in SEEDS}
    lost = {f"seed {seed}": freed for seed, one in lives.items() if (freed := one.run())}
    assert lost == {}
    assert sum(one.released() for one in lives.values()) > len(SEEDS) / 4


def test_whereabouts_without_the_test_of_the_value(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seed finds a write that does not test the record's value: the steps above do meet our writes."""
    backend = whereabouts.Whereabouts
    monkeypatch.setattr(backend, "without_records", untested(backend.without_records))
    assert any(Whereabouts(seed).run() for seed in SEEDS)


def test_neon_without_hiding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Some seed finds entries that are removed without having been hidden."""
    monkeypatch.setattr(neon.Neon, "without_records", removed_at_once)
    monkeypatch.setattr(neon.Neon, "hiding", NoHiding())
    assert any(Neon(seed).run() for seed in SEEDS)
