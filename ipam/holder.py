"""Owners that are no pods: virtual machines that an IPAM gives addresses to by themselves."""

from msgspec import Struct

from poolwarden.ipam.kinds import Kind


class Holder(Struct, frozen=True, gc=False):
    """An owner as its own object describes it.

    `addresses` are those that its status shows, canonical. `settled` tells that it runs and that those are all it uses;
    `live` that it has not ended for good.
    """

    kind: Kind
    namespace: str
    name: str
    uid: str
    addresses: tuple[str, ...]
    settled: bool
    live: bool

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name."""
        return self.namespace, self.name

    def __str__(self) -> str:
        uid = f" (UID {self.uid})" if self.uid else ""
        return f"{self.kind.kind} {self.namespace}/{self.name}{uid}"
