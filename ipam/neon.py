"""Neon autoscaling: IPPool (`vm.neon.tech/v1`), as far as its range.

Facts: github.com/neondatabase/autoscaling, `neonvm/apis/neonvm/v1/ippool_types.go`. Keys of `allocations` are offsets
from the range, so a range is never rewritten.
"""

from msgspec import Struct

from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Metadata

POOLS = Kind("vm.neon.tech", "v1", "ippools", "IPPool", namespaced=True)


class NeonPoolSpec(Struct, frozen=True, gc=False):
    """IPPool.spec, allocations and managed addresses left unread."""

    range: str = ""


class NeonPool(Struct, frozen=True, gc=False):
    """A Neon IPPool."""

    metadata: Metadata
    spec: NeonPoolSpec = NeonPoolSpec()
