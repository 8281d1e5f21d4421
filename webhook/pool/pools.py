"""Rules about the objects that say who hands out which addresses: pools, reservations, networks, guards."""

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from poolwarden.ipam import neon, spiderpool, whereabouts
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS, Kind
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.webhook.answer import Answer, allowed, patched, with_warnings
from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.patch import Operation
from poolwarden.webhook.pool.attachment import AttachmentText, attachment_changes, attachment_faults
from poolwarden.webhook.pool.fault import Fault, verdict
from poolwarden.webhook.pool.multus_config import MultusConfig, config_edits, config_faults
from poolwarden.webhook.pool.pool_guard import GuardObject, guard_changes, guard_edits, guard_faults
from poolwarden.webhook.pool.range_pool import RangePool, neon_changes, whereabouts_changes
from poolwarden.webhook.pool.reviewed_object import Misshapen, Missing, Read, head_of, read
from poolwarden.webhook.pool.scene import Scene
from poolwarden.webhook.pool.spider_pool import (
    SpiderPool,
    SpiderReserved,
    pool_changes,
    pool_edits,
    pool_faults,
    reserved_edits,
    reserved_faults,
)
from poolwarden.webhook.review import Operation as Verb
from poolwarden.webhook.review import Request
from poolwarden.webhook.settings import RuleSettings

T = TypeVar("T")


def _nothing(*_: object) -> tuple[()]:
    return ()


class PoolRules(Struct, Generic[T], frozen=True):
    """The rules about one kind. What stood before a CREATE is `blank`.

    Attributes:
        blank: an object that says nothing, of the narrow Struct that rules look at.
        edits: how it is written in its one form, given what stood before.
        faults: what is wrong with an object as it stands; what the old one has as well is not held against the new.
        changes: what is wrong with the step from what stood before.
    """

    blank: T
    edits: Callable[[T, T], Iterable[Operation]] = _nothing
    faults: Callable[[T, Scene], Iterable[Fault]] = _nothing
    changes: Callable[[T, T, Scene], Iterable[Fault]] = _nothing

    def mutated(self, request: Request) -> Answer:
        """The object in its one form; one that cannot be decoded is left to the validating rules."""
        new = self._read(request.object)
        if not isinstance(new, Read):
            return allowed()
        operations = tuple(self.edits(new.value, self._before(request)))
        if not operations:
            return allowed()
        fields = {operation.path.removeprefix("/").replace("/", "."): operation.value for operation in operations}
        told = (f"{field} is written as {_text(value)}" for field, value in fields.items())
        return with_warnings(patched(operations, {"normalised": ",".join(fields)}), told)

    def validated(self, request: Request, scene: Scene) -> Answer:
        """The verdict on the object."""
        new, old = self._read(request.object), self._read(request.old_object)
        match new:
            case Missing():
                return allowed()
            case Misshapen(fault):
                return verdict((fault,), (old.fault,) if isinstance(old, Misshapen) else ())
        before = old.value if isinstance(old, Read) else self.blank
        faults = chain(self.faults(new.value, scene), self.changes(new.value, before, scene))
        return verdict(faults, self.faults(old.value, scene) if isinstance(old, Read) else ())

    def _before(self, request: Request) -> T:
        old = self._read(request.old_object)
        return old.value if isinstance(old, Read) else self.blank

    def _read(self, raw: msgspec.Raw) -> Read[T] | Misshapen | Missing:
        return read(raw, type(self.blank))


_RULES: Mapping[Kind, PoolRules[Any]] = {
    spiderpool.POOLS: PoolRules(SpiderPool(), pool_edits, pool_faults, pool_changes),
    spiderpool.RESERVATIONS: PoolRules(SpiderReserved(), reserved_edits, reserved_faults),
    spiderpool.MULTUS_CONFIGS: PoolRules(MultusConfig(), config_edits, config_faults),
    NETWORK_ATTACHMENTS: PoolRules(AttachmentText(), faults=attachment_faults, changes=attachment_changes),
    whereabouts.POOLS: PoolRules(RangePool(), changes=whereabouts_changes),
    neon.POOLS: PoolRules(RangePool(), changes=neon_changes),
    POOL_GUARDS: PoolRules(GuardObject(), guard_edits, guard_faults, guard_changes),
}
_BY_NAME = {(kind.group, kind.kind): rules for kind, rules in _RULES.items()}


def mutate_pool(request: Request, _knowledge: Knowledge, _settings: RuleSettings) -> Answer:
    """The object in its one form: names without blanks, addresses canonical, merged and sorted."""
    rules = _BY_NAME.get((request.kind.group, request.kind.kind))
    return rules.mutated(request) if rules is not None and _judged(request) else allowed()


def validate_pool(request: Request, knowledge: Knowledge, settings: RuleSettings) -> Answer:
    """Whether the object may stand: refused is what can only fail or corrupt later."""
    rules = _BY_NAME.get((request.kind.group, request.kind.kind))
    if rules is None or not _judged(request):
        return allowed()
    metadata = head_of(request.object).metadata
    scene = Scene(request.namespace or metadata.namespace, request.name or metadata.name, knowledge, settings)
    return rules.validated(request, scene)


def _judged(request: Request) -> bool:
    """Whether the object itself is written, by somebody who means it to last."""
    written = request.operation in {Verb.CREATE, Verb.UPDATE} and not request.sub_resource
    return written and not head_of(request.object).deleted


def _text(value: object) -> str:
    return msgspec.json.encode(value).decode()
