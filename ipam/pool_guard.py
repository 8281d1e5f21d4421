"""Which pool a PoolGuard is for, and the one name under which it is heeded (`poolguards.poolwarden.dev/v1alpha1`)."""

from hashlib import blake2b

from msgspec import Struct

from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.pool import PoolRef

POOL_GUARDS = Kind("poolwarden.dev", "v1alpha1", "poolguards", "PoolGuard", namespaced=False)
LONGEST_NAME = 253


class GuardPoolRef(Struct, frozen=True):
    """spec.poolRef."""

    ipam: str
    name: str
    namespace: str | None = None

    @property
    def ref(self) -> PoolRef:
        """The pool it names."""
        return PoolRef(self.ipam, self.namespace or "", self.name)


def guard_name(ref: PoolRef) -> str:
    """`<ipam>.[<namespace>.]<pool>`; one that is too long for a name is cut, and hashed so that it stays unique."""
    name = str(ref)
    if len(name) <= LONGEST_NAME:
        return name
    return f"{name[: LONGEST_NAME - 9].rstrip('.-')}-{blake2b(name.encode(), digest_size=4).hexdigest()}"
