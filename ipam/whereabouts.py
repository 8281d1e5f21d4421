"""Whereabouts: IPPool (`whereabouts.cni.cncf.io/v1alpha1`), as far as its range.

Facts: github.com/k8snetworkplumbingwg/whereabouts, `pkg/api/whereabouts.cni.cncf.io/v1alpha1/types.go`. Keys of
`allocations` are offsets from the range as written, so a range is never rewritten.
"""

from msgspec import Struct

from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Metadata

POOLS = Kind("whereabouts.cni.cncf.io", "v1alpha1", "ippools", "IPPool", namespaced=True)


class WhereaboutsPoolSpec(Struct, frozen=True, gc=False):
    """IPPool.spec, allocations left unread."""

    range: str = ""


class WhereaboutsPool(Struct, frozen=True, gc=False):
    """A whereabouts IPPool."""

    metadata: Metadata
    spec: WhereaboutsPoolSpec = WhereaboutsPoolSpec()
