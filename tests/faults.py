"""A cluster over files, in memory, that records every call, and that fails, dies or changes exactly where a test says.

    world = World(blue({"10.0.0.10": claim("app")}), pod("other"))
    world.on(calls("patch", "SpiderIPPool"), outdated)  # the first write of a pool meets a conflict
    report = sweep(world)
    world.later(minutes=11)

Whatever a test does to the world itself (`put`, `remove`, `record`) is what others do in a cluster: it is no call.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from factories import NOW, Object, claim, name_of, node
from poolwarden.cluster.documents import Given, parse
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import gathered
from poolwarden.cluster.interface import (
    Absent,
    Deleted,
    Doubt,
    Failed,
    Found,
    Incomplete,
    Listing,
    Outdated,
    PatchType,
    Resource,
    Unread,
    WriteOutcome,
    Written,
)
from poolwarden.gc.policy import Ceiling, Policy
from poolwarden.gc.sweep import Settings, Sweep, SweepReport
from poolwarden.ipam.inventory import endpoint_kinds, holder_kinds
from poolwarden.ipam.kinds import (
    NETWORK_ATTACHMENTS,
    NODES,
    PODS,
    STATEFUL_SETS,
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    Kind,
)
from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.pool_guard import POOL_GUARDS, guard_name
from poolwarden.ipam.registry import BACKENDS

T = TypeVar("T")

MARKER = Kind("", "v1", "configmaps", "ConfigMap", namespaced=True)
"""One object of this kind carries the newest resourceVersion, so that none is ever given twice."""
KINDS = tuple(
    dict.fromkeys(
        kind
        for group in (
            *((b.pool_kind, *endpoint_kinds(b), *b.aside, *holder_kinds(b)) for b in BACKENDS.values()),
            (POOL_GUARDS, PODS, STATEFUL_SETS, NODES, NETWORK_ATTACHMENTS),
            (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES),
        )
        for kind in group
    )
)
"""Every kind that any IPAM's records are judged by."""
STATUS_APART = (POOL_GUARDS, *(kind for backend in BACKENDS.values() for kind in backend.status_kinds))
WRITES = frozenset({"create", "patch", "delete"})


class Call(Struct, frozen=True):
    """One call of the program under test."""

    verb: str
    kind: str
    name: str = ""
    namespace: str = ""
    subresource: str = ""
    body: Any = None

    @property
    def writes(self) -> bool:
        """Whether it would change something."""
        return self.verb in WRITES

    def __str__(self) -> str:
        return " ".join(word for word in (self.verb, self.kind, self.namespace, self.name, self.subresource) if word)


class Crash(BaseException):
    """The process died here: nothing in it may handle this."""


When = Callable[[Call], bool]
Effect = Callable[[Call, Callable[[], Any]], Any]


def calls(verb: str = "", kind: str = "", name: str = "", *, sub: str | None = None) -> When:
    """Calls that match all that is given; `verb` "write" is any that changes something."""

    def match(call: Call) -> bool:
        right_verb = verb in {"", call.verb} or (verb == "write" and call.writes)
        return right_verb and kind in {"", call.kind} and name in {"", call.name} and sub in {None, call.subresource}

    return match


# --- what may go wrong with a call: each takes the call and what would make it ------------------------------------


def crash_before(call: Call, _make: Callable[[], Any]) -> Any:
    """The process dies before the call reaches the API server."""
    raise Crash(str(call))


def crash_after(call: Call, make: Callable[[], Any]) -> Any:
    """The process dies once the call has taken effect, before its answer is used."""
    make()
    raise Crash(str(call))


def outdated(_call: Call, _make: Callable[[], Any]) -> WriteOutcome:
    """Somebody else wrote the object in between: nothing is written."""
    return Outdated("somebody else has written it")


def refused(_call: Call, _make: Callable[[], Any]) -> WriteOutcome:
    """The API server refuses the write."""
    return Failed(Doubt.REJECTED, "refused by an admission webhook")


def forbidden(call: Call, _make: Callable[[], Any]) -> Listing[Any]:
    """The API server does not let us list that kind."""
    return Listing((), Incomplete(Doubt.FORBIDDEN, f"{call.kind} may not be listed"))


def not_leader(_call: Call, _make: Callable[[], Any]) -> WriteOutcome:
    """Leadership is lost by the time of a write: the client's guard sends nothing."""
    return Failed(Doubt.NOT_ALLOWED, "not the leader")


def lost(_call: Call, _make: Callable[[], Any]) -> WriteOutcome:
    """The request never arrived, and the caller cannot know."""
    return Failed(Doubt.UNAVAILABLE, "the connection broke", uncertain=True)


def unanswered(_call: Call, make: Callable[[], Any]) -> WriteOutcome:
    """The write was made, but its answer never arrived."""
    make()
    return Failed(Doubt.UNAVAILABLE, "the connection broke", uncertain=True)


def unread(call: Call, _make: Callable[[], Any]) -> Any:
    """The read fails: a list is incomplete and empty."""
    message = f"{call.kind} cannot be read"
    if call.verb == "list":
        return Listing((), Incomplete(Doubt.UNAVAILABLE, message))
    return Unread(Doubt.UNAVAILABLE, message)


def cut(items: int) -> Effect:
    """A list that breaks off after so many items."""

    def effect(call: Call, make: Callable[[], Any]) -> Any:
        whole: Listing[Any] = make()
        return Listing(whole.items[:items], Incomplete(Doubt.BROKEN, f"the list of {call.kind} broke off"))

    return effect


def meanwhile(change: Callable[[], object]) -> Effect:
    """The world changes straight before the call."""

    def effect(_call: Call, make: Callable[[], Any]) -> Any:
        change()
        return make()

    return effect


def then(change: Callable[[], object]) -> Effect:
    """The world changes straight after the call."""

    def effect(_call: Call, make: Callable[[], Any]) -> Any:
        outcome = make()
        change()
        return outcome

    return effect


SHARED = {"network.alibabacloud.com", "vm.neon.tech"}
"""Groups with kinds whose names other groups have as well."""


def kind_of(resource: Resource) -> str:
    """The kind as calls name it: `Node`, but `Node.network.alibabacloud.com`."""
    return f"{resource.kind}.{resource.group}" if resource.group in SHARED else resource.kind


# --- the world ----------------------------------------------------------------------------------------------------


class World:
    """A `Cluster` of these objects at `time`. node-1 is there and Ready unless a node is given.

    `calls` are all calls in order, `made` the writes that took effect. Each watcher is asked after every write; what
    it says is wrong is collected in `broken`.
    """

    def __init__(self, *objects: Object) -> None:
        self.time = NOW
        self.calls: list[Call] = []
        self.made: list[Call] = []
        self.watchers: list[Callable[[World], str]] = []
        self.broken: list[str] = []
        self._plans: list[_Plan] = []
        self._version = 100
        nodes = () if any((thing["apiVersion"], thing["kind"]) == ("v1", "Node") for thing in objects) else (node(),)
        self._files = self._rebuilt([*objects, *nodes])

    def copy(self) -> World:
        """The same objects at the same time, without faults, recorded calls or watchers."""
        twin = World()
        twin.time, twin._version = self.time, self._version
        twin._files = twin._rebuilt(self.objects())
        return twin

    # --- faults and time

    def on(self, when: When, effect: Effect, *, nth: int = 1, times: int = 1) -> None:
        """Let `times` matching calls have an effect, from the `nth` one on, counted from now."""
        self._plans.append(_Plan(when, effect, nth, nth + times))

    def later(self, **duration: float) -> None:
        """Let time pass: `later(minutes=11)`."""
        self.time += timedelta(**duration)

    def forget_calls(self) -> None:
        """Count calls from here on."""
        self.calls.clear()
        self.made.clear()

    def tried(self, when: When) -> list[Call]:
        """The recorded calls that match."""
        return [call for call in self.calls if when(call)]

    def index(self, when: When) -> int:
        """Where the first matching call stands among all."""
        return next(at for at, call in enumerate(self.calls) if when(call))

    # --- what others do

    def objects(self) -> list[Object]:
        """All objects, but for the marker."""
        return [dict(item) for kind in KINDS for item in self._files.list(kind, dict).items]

    def thing(self, kind: str, name: str) -> Object:
        """An object; there must be one."""
        return next(item for item in self.objects() if (item["kind"], name_of(item)) == (kind, name))

    def has(self, kind: str, name: str) -> bool:
        """Whether there is an object of that kind and name, in whatever namespace."""
        return any((item["kind"], name_of(item)) == (kind, name) for item in self.objects())

    def of_kind(self, kind: Kind) -> list[Object]:
        """The objects of a kind, which other groups may have a kind of that name beside."""
        return [dict(item) for item in self._files.list(kind, dict).items]

    def put(self, *things: Object) -> None:
        """Create objects, or write them anew."""
        new = {_key(thing): thing for thing in things}
        others = [thing for thing in self.objects() if _key(thing) not in new]
        self._version += 1
        version = {"resourceVersion": str(self._version)}
        made = [{**thing, "metadata": {**thing["metadata"], **version}} for thing in things]
        self._files = self._rebuilt([*others, *made])

    def remove(self, kind: str, *names: str) -> None:
        """Take objects away at once."""
        left = [item for item in self.objects() if not (item["kind"] == kind and name_of(item) in names)]
        self._files = self._rebuilt(left)

    def remove_of(self, kind: Kind, *names: str) -> None:
        """Take objects of a kind away, and none of another group's kind of that name."""
        gone = [item for item in self.of_kind(kind) if name_of(item) in names]
        self._files = self._rebuilt([item for item in self.objects() if item not in gone])

    def records(self, pool: str) -> dict[str, Object]:
        """The entries of a pool."""
        text = self.thing("SpiderIPPool", pool)["status"].get("allocatedIPs")
        entries: dict[str, Object] = json.loads(text) if text else {}
        return entries

    def record(self, pool: str, entries: Mapping[str, Object | None]) -> None:
        """Write entries of a pool as the IPAM does: a pod or a claim at an address, None for a DEL."""
        changed = {key: claim(value) if value and "metadata" in value else value for key, value in entries.items()}
        left = {key: value for key, value in {**self.records(pool), **changed}.items() if value is not None}
        thing = self.thing("SpiderIPPool", pool)
        text = json.dumps(left, separators=(",", ":")) if left else None
        self.put({**thing, "status": {**thing["status"], "allocatedIPs": text, "allocatedIPCount": len(left)}})

    def guard(self, pool: str | PoolRef) -> Object:
        """The PoolGuard of a pool; a mere name is that of a SpiderIPPool."""
        return self.thing("PoolGuard", _guard_of(pool))

    def set_guard(self, pool: str | PoolRef, **spec: object) -> None:
        """The operator edits a pool's guard."""
        guard = self.guard(pool)
        generation = guard["metadata"]["generation"] + 1
        self.put({**guard, "spec": guard["spec"] | spec, "metadata": guard["metadata"] | {"generation": generation}})

    def status(self, pool: str | PoolRef) -> Object:
        """The status of a pool's guard."""
        status: Object = self.guard(pool)["status"]
        return status

    def ledger(self, pool: str | PoolRef) -> dict[str, str]:
        """The ledger of a pool: address -> phase."""
        if not self.has("PoolGuard", _guard_of(pool)):
            return {}
        return {entry["address"]: entry["phase"] for entry in self.guard(pool).get("status", {}).get("ledger", ())}

    def released(self, pool: str | PoolRef) -> list[str]:
        """The addresses that a pool's guard says were released, in order."""
        if not self.has("PoolGuard", _guard_of(pool)):
            return []
        return [item["address"] for item in self.guard(pool).get("status", {}).get("released", ())]

    def listed(self) -> Iterator[tuple[str, str, str]]:
        """What endpoints list: the endpoint's name, a pool and an address of it."""
        for thing in self.objects():
            if thing["kind"] == "SpiderEndpoint":
                for item in thing["status"]["current"]["ips"]:
                    for family in ("ipv4", "ipv6"):
                        if family in item:
                            yield name_of(thing), item[f"{family}Pool"], item[family].partition("/")[0]

    # --- the interface of a cluster

    def now(self) -> datetime:
        """The time that tests move."""
        return self.time

    def list(self, resource: Resource, item: type[T], *, namespace: str | None = None) -> Listing[T]:
        """See `Cluster`."""
        call = Call("list", kind_of(resource), namespace=namespace or "")
        listing: Listing[T] = self._call(call, lambda: self._files.list(resource, item, namespace=namespace))
        return listing

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Found[T] | Absent | Unread:
        """See `Cluster`."""
        call = Call("get", kind_of(resource), name, namespace)
        found: Found[T] | Absent | Unread = self._call(
            call, lambda: self._files.get(resource, item, name=name, namespace=namespace)
        )
        return found

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "") -> WriteOutcome:
        """See `Cluster`."""
        call = Call("create", kind_of(resource), body["metadata"]["name"], namespace, "", body)
        return self._write(call, lambda: self._files.create(resource, body, namespace=namespace))

    def patch(
        self,
        resource: Resource,
        body: Mapping[str, Any] | Sequence[Mapping[str, Any]],
        *,
        name: str,
        namespace: str = "",
        subresource: str = "",
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the API's own word
    ) -> WriteOutcome:
        """See `Cluster`."""
        kind = type

        def make() -> WriteOutcome:
            return self._files.patch(resource, body, name=name, namespace=namespace, subresource=subresource, type=kind)

        return self._write(Call("patch", kind_of(resource), name, namespace, subresource, body), make)

    def delete(
        self, resource: Resource, *, name: str, namespace: str = "", uid: str, resource_version: str
    ) -> WriteOutcome:
        """See `Cluster`."""
        call = Call("delete", kind_of(resource), name, namespace, "", {"uid": uid, "resourceVersion": resource_version})
        return self._write(
            call,
            lambda: self._files.delete(
                resource, name=name, namespace=namespace, uid=uid, resource_version=resource_version
            ),
        )

    # --- within

    def _call(self, call: Call, make: Callable[[], Any]) -> Any:
        self.calls.append(call)
        effects = [plan.effect for plan in self._plans if plan.strikes(call)]
        return effects[0](call, make) if effects else make()

    def _write(self, call: Call, make: Callable[[], WriteOutcome]) -> WriteOutcome:
        def really() -> WriteOutcome:
            outcome = make()
            if isinstance(outcome, Written | Deleted):
                self.made.append(call)
                if isinstance(outcome, Written):
                    version = msgspec.json.decode(outcome.raw)["metadata"]["resourceVersion"]
                    self._version = max(self._version, int(version))
                for watcher in self.watchers:
                    problem = watcher(self)
                    if problem:
                        self.broken.append(f"after {call}: {problem}")
            return outcome

        outcome: WriteOutcome = self._call(call, really)
        return outcome

    def _rebuilt(self, objects: Iterable[Object]) -> Files:
        marker: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "newest", "namespace": "x"}}
        marker["metadata"]["resourceVersion"] = str(self._version)
        given: list[Given] = []
        for thing in (*objects, marker):
            given += [found for found in parse(msgspec.json.encode(thing), "the test") if isinstance(found, Given)]
        return Files(
            gathered(given),
            clock=lambda: self.time,
            assume_complete=True,
            status_subresources=frozenset((kind.group, kind.plural) for kind in STATUS_APART),
        )


class _Plan:
    """Effects of the first..last-1 th call that matches."""

    def __init__(self, when: When, effect: Effect, first: int, last: int) -> None:
        self.when = when
        self.effect = effect
        self.first = first
        self.last = last
        self.seen = 0

    def strikes(self, call: Call) -> bool:
        if not self.when(call):
            return False
        self.seen += 1
        return self.first <= self.seen < self.last


def _guard_of(pool: str | PoolRef) -> str:
    """The name of a pool's guard."""
    return guard_name(pool) if isinstance(pool, PoolRef) else f"spiderpool.{pool}"


def _key(thing: Object) -> tuple[str, str, str, str]:
    return thing["apiVersion"], thing["kind"], thing["metadata"].get("namespace", ""), name_of(thing)


# --- sweeps -------------------------------------------------------------------------------------------------------


def go_on(_seconds: float) -> bool:
    """A wait that takes no time and stops nothing."""
    return False


def sweep(
    world: World,
    ceiling: Ceiling = Ceiling.RELEASE,
    *,
    default: Policy | None = None,
    max_releases: int = 50,
    wait: Callable[[float], bool] = go_on,
) -> SweepReport:
    """One sweep now, with 10 minutes of grace and one of cooldown unless `default` says otherwise."""
    settings = Settings(ceiling=ceiling, default=default or Policy(), max_releases=max_releases)
    return Sweep(world, settings, wait).run()


def sweep_until_due(world: World, **options: Any) -> None:
    """Two sweeps, after which the leaks of the world are due in the next one; calls are counted from there."""
    for _ in range(2):
        report = sweep(world, **options)
        assert report.complete, report.problems
        world.later(minutes=11)
    world.forget_calls()


# --- what must hold after every write -----------------------------------------------------------------------------


def keeps(pool: str, entries: Mapping[str, Object]) -> Callable[[World], str]:
    """These records never leave their pool, nor change."""
    wanted = {key: claim(value) if "metadata" in value else value for key, value in entries.items()}

    def watch(world: World) -> str:
        records = world.records(pool)
        return "; ".join(f"{pool} lost {key}" for key, value in wanted.items() if records.get(key) != value)

    return watch


def endpoints_recorded(world: World) -> str:
    """No endpoint lists an address that its pool does not record."""
    return "; ".join(
        f"endpoint {name} lists {address}, which {pool} does not record"
        for name, pool, address in world.listed()
        if address not in world.records(pool)
    )


def nothing_lost(pool: str, entries: Mapping[str, Object]) -> Callable[[World], str]:
    """What left the pool can be put back: its text is in the ledger or among what was released."""
    wanted = {key: claim(value) if "metadata" in value else value for key, value in entries.items()}

    def watch(world: World) -> str:
        status = world.guard(pool).get("status", {}) if world.has("PoolGuard", f"spiderpool.{pool}") else {}
        noted = [json.loads(entry["record"]) for entry in status.get("ledger", ()) if entry.get("record")]
        noted += [json.loads(item["record"]) for item in status.get("released", ())]
        records = world.records(pool)
        return "; ".join(f"{key} is lost" for key, value in wanted.items() if key not in records and value not in noted)

    return watch
