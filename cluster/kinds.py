"""Kinds of Kubernetes' own: those that this package itself writes, and the form of others'."""

from msgspec import Struct


class OwnKind(Struct, frozen=True):
    """A `Resource`; `group` is "" for the core group."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """As objects carry it."""
        return f"{self.group}/{self.version}" if self.group else self.version


EVENTS = OwnKind("events.k8s.io", "v1", "events", "Event", namespaced=True)
LEASES = OwnKind("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
