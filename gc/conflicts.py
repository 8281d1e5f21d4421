"""A cluster that tells of each write that met an object which had changed since it was read."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from poolwarden.cluster.interface import (
    Absent,
    Cluster,
    Found,
    Listing,
    Outdated,
    PatchType,
    Resource,
    Unread,
    WriteOutcome,
)

T = TypeVar("T")


class ConflictsTold:
    """The same cluster; `told` is called for each write whose outcome is `Outdated`."""

    def __init__(self, cluster: Cluster, told: Callable[[], None]) -> None:
        self._cluster = cluster
        self._told = told

    def now(self) -> datetime:
        """See `Cluster`."""
        return self._cluster.now()

    def list(self, resource: Resource, item: type[T], *, namespace: str | None = None) -> Listing[T]:
        """See `Cluster`."""
        return self._cluster.list(resource, item, namespace=namespace)

    def get(self, resource: Resource, item: type[T], *, name: str, namespace: str = "") -> Found[T] | Absent | Unread:
        """See `Cluster`."""
        return self._cluster.get(resource, item, name=name, namespace=namespace)

    def create(self, resource: Resource, body: Mapping[str, Any], *, namespace: str = "") -> WriteOutcome:
        """See `Cluster`."""
        return self._heard(self._cluster.create(resource, body, namespace=namespace))

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
        done = self._cluster.patch(resource, body, name=name, namespace=namespace, subresource=subresource, type=type)
        return self._heard(done)

    def delete(
        self, resource: Resource, *, name: str, namespace: str = "", uid: str, resource_version: str
    ) -> WriteOutcome:
        """See `Cluster`."""
        done = self._cluster.delete(
            resource, name=name, namespace=namespace, uid=uid, resource_version=resource_version
        )
        return self._heard(done)

    def _heard(self, outcome: WriteOutcome) -> WriteOutcome:
        if isinstance(outcome, Outdated):
            self._told()
        return outcome
