"""Pool objects and a small cluster for the rules to know; a test shows only what matters."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from msgspec import Raw

from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS, Kind
from poolwarden.ipam.neon import POOLS as NEON_POOLS
from poolwarden.ipam.neon import NeonPoolShape
from poolwarden.ipam.objects import NetworkAttachment
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.spiderpool import MULTUS_CONFIGS, RESERVATIONS, SpiderIPPool
from poolwarden.ipam.spiderpool import POOLS as SPIDER_POOLS
from poolwarden.ipam.whereabouts import POOLS as WHEREABOUTS_POOLS
from poolwarden.ipam.whereabouts import WhereaboutsPoolShape
from poolwarden.webhook.answer import Allowed, Answer, Denied, Patched
from poolwarden.webhook.knowledge import Guard, Knowledge, Known
from poolwarden.webhook.patch import apply
from poolwarden.webhook.pool.pools import mutate_pool, validate_pool
from poolwarden.webhook.review import NULL, Operation, Request, ReviewedKind
from poolwarden.webhook.settings import RuleSettings

Object = dict[str, Any]
KINDS = {
    "pool": SPIDER_POOLS,
    "reserved": RESERVATIONS,
    "config": MULTUS_CONFIGS,
    "nad": NETWORK_ATTACHMENTS,
    "whereabouts": WHEREABOUTS_POOLS,
    "neon": NEON_POOLS,
    "guard": POOL_GUARDS,
}


def spider(name: str = "blue", subnet: str = "10.6.0.0/24", **spec: Any) -> Object:
    """A SpiderIPPool."""
    return {"metadata": {"name": name}, "spec": {"subnet": subnet, **spec}}


def holding(pool: Object, records: dict[str, str]) -> Object:
    """The pool with records: address -> namespace/name of the pod."""
    entries = {address: {"pod": pod, "podUid": "u"} for address, pod in records.items()}
    return {**pool, "status": {"allocatedIPs": json.dumps(entries)}}


def named(name: str, namespace: str = "", **spec: Any) -> Object:
    """An object of which the spec matters."""
    return {"metadata": {"name": name, **({"namespace": namespace} if namespace else {})}, "spec": spec}


def nad(ipam: Any, name: str = "net", **plugin: Any) -> Object:
    """A NetworkAttachmentDefinition with one plugin."""
    return named(name, "team-a", config=json.dumps({"cniVersion": "0.3.1", "type": "bridge", **plugin, "ipam": ipam}))


def guard(pool: str = "blue", **spec: Any) -> Object:
    """A PoolGuard of a SpiderIPPool."""
    return named(f"spiderpool.{pool}", poolRef={"ipam": "spiderpool", "name": pool}, **spec)


def knowing(doubt: str = "", /, **objects: list[Object]) -> Knowledge:
    """A cluster of these objects; with a doubt, it may have others, and these may be old."""

    def known(wire: type[Any], items: list[Object]) -> Known[Any]:
        keys = [(item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in items]
        return Known(dict(zip(keys, (msgspec.convert(item, wire) for item in items), strict=True)), doubt)

    return Knowledge(
        attachments=known(NetworkAttachment, objects.get("nads", [])),
        spider_pools=known(SpiderIPPool, objects.get("pools", [])),
        whereabouts_pools=known(WhereaboutsPoolShape, objects.get("whereabouts", [])),
        neon_pools=known(NeonPoolShape, objects.get("neon", [])),
        guards=known(Guard, objects.get("guards", [])),
    )


NOBODY = knowing()
SETTINGS = RuleSettings()


def request(kind: Kind, obj: Object, old: Object | None = None, **changes: Any) -> Request:
    """A CREATE, or an UPDATE if there is an old object."""
    asked = Request(
        uid="b6f1c5f0-0000-4000-8000-000000000001",
        kind=ReviewedKind(kind.kind, kind.group, kind.version),
        operation=Operation.CREATE if old is None else Operation.UPDATE,
        object=Raw(msgspec.json.encode(obj)),
        old_object=NULL if old is None else Raw(msgspec.json.encode(old)),
    )
    return msgspec.structs.replace(asked, **changes)


def judged(kind: str, obj: Object, old: Object | None = None, knowledge: Knowledge = NOBODY) -> str:
    """The answer as a user reads it: `denied: …`, `warned: …` or `allowed`."""
    return in_words(validate_pool(request(KINDS[kind], obj, old), knowledge, SETTINGS))


def in_words(answer: Answer) -> str:
    """The verdict, and what it says."""
    match answer:
        case Denied(message):
            return f"denied: {message}"
        case Allowed() if answer.warnings:
            return f"warned: {' | '.join(answer.warnings)}"
        case Allowed():
            return "allowed"
    raise AssertionError(answer)


def written(kind: str, obj: Object, old: Object | None = None) -> Object:
    """The object as the mutating rule leaves it."""
    answer = mutate_pool(request(KINDS[kind], obj, old), NOBODY, SETTINGS)
    assert isinstance(answer, Allowed | Patched), answer
    return apply(obj, answer.operations) if isinstance(answer, Patched) else obj
