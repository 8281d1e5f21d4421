"""The kinds that this package itself writes."""

from msgspec import Struct


class OwnKind(Struct, frozen=True):
    """A `Resource`."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """As objects carry it."""
        return f"{self.group}/{self.version}"


EVENTS = OwnKind("events.k8s.io", "v1", "events", "Event", namespaced=True)
LEASES = OwnKind("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
