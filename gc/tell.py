"""Notices as Kubernetes Events."""

from collections.abc import Iterable

from poolwarden.cluster.events import Event, Reference, Type, send
from poolwarden.cluster.interface import Cluster, Failed, Written
from poolwarden.gc.notice import Notice, NoticeReason
from poolwarden.ipam.inventory import holder_kinds
from poolwarden.ipam.kinds import PODS
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import OwnerId

_DONE = {
    NoticeReason.LEAK_DETECTED: "Judge",
    NoticeReason.ADDRESS_RELEASED: "Release",
    NoticeReason.ADDRESS_RESTORED: "Restore",
    NoticeReason.RELEASE_FAILED: "Release",
    NoticeReason.RELEASE_SKIPPED: "Release",
    NoticeReason.ADDRESS_CONFLICT: "Judge",
    NoticeReason.ENDPOINT_REPAIRED: "Repair",
    NoticeReason.POOL_NEARLY_EXHAUSTED: "Count",
    NoticeReason.POOL_EXHAUSTED: "Count",
    NoticeReason.POOL_EXTENDED: "Rebalance",
    NoticeReason.POOL_SHRUNK: "Rebalance",
    NoticeReason.SWEEP_BRAKED: "Brake",
}


def tell(cluster: Cluster, notices: Iterable[Notice], *, instance: str) -> tuple[str, ...]:
    """Send each notice as an Event about its pool; what could not be sent, a line a cause.

    One that cannot be sent does not stop the others, but the first that may not be sent at all ends it.
    """
    problems: dict[str, None] = {}
    for notice in notices:
        outcome = send(cluster, _event(notice), instance=instance)
        if isinstance(outcome, Failed):
            problems[f"Events could not be sent: {outcome.message}"] = None
        elif not isinstance(outcome, Written):
            problems[f"Events could not be sent: {outcome}"] = None
    return tuple(problems)


def _event(notice: Notice) -> Event:
    kind = BACKENDS[notice.pool.ipam].pool_kind
    related = None
    if notice.owner_lives and isinstance(notice.owner, OwnerId):
        owner = notice.owner
        kinds = {found.kind: found for found in (PODS, *holder_kinds(BACKENDS[notice.pool.ipam]))}
        owned = kinds[owner.kind]
        related = Reference(owned.api_version, owned.kind, owner.name, owner.namespace, owner.uid)
    return Event(
        Type.WARNING if notice.reason.warns else Type.NORMAL,
        notice.reason.value,
        _DONE[notice.reason],
        notice.note,
        Reference(kind.api_version, kind.kind, notice.pool.name, notice.pool.namespace, notice.pool_uid),
        related,
    )
