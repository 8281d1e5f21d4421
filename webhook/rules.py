"""Which rule answers on which path, and on which paths an object of a kind is reviewed."""

from collections.abc import Callable, Mapping

from msgspec import Struct

from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS
from poolwarden.ipam.neon import POOLS as NEON_POOLS
from poolwarden.ipam.pool_guard import POOL_GUARDS
from poolwarden.ipam.spiderpool import MULTUS_CONFIGS, RESERVATIONS
from poolwarden.ipam.spiderpool import POOLS as SPIDER_POOLS
from poolwarden.ipam.whereabouts import POOLS as WHEREABOUTS_POOLS
from poolwarden.webhook.answer import Answer
from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.pod.pods import mutate_pod, validate_pod
from poolwarden.webhook.pod.workloads import validate_workload
from poolwarden.webhook.pool.pools import mutate_pool, validate_pool
from poolwarden.webhook.review import Request
from poolwarden.webhook.settings import RuleSettings

Rule = Callable[[Request, Knowledge, RuleSettings], Answer]
"""A pure function from a review to its answer."""

MUTATE_PODS, VALIDATE_PODS = "/mutate-pods", "/validate-pods"
MUTATE_POOLS, VALIDATE_POOLS = "/mutate-pools", "/validate-pools"
VALIDATE_WORKLOADS = "/validate-workloads"

RULES: Mapping[str, Rule] = {
    MUTATE_PODS: mutate_pod,
    VALIDATE_PODS: validate_pod,
    MUTATE_POOLS: mutate_pool,
    VALIDATE_POOLS: validate_pool,
    VALIDATE_WORKLOADS: validate_workload,
}


class Paths(Struct, frozen=True):
    """The paths, in this order, on which the API server asks about objects of one kind."""

    mutating: tuple[str, ...]
    validating: tuple[str, ...]


_PODS = Paths((MUTATE_PODS,), (VALIDATE_PODS,))
_POOLS = Paths((MUTATE_POOLS,), (VALIDATE_POOLS,))
_WORKLOADS = Paths((), (VALIDATE_WORKLOADS,))
_POOL_KINDS = (
    SPIDER_POOLS,
    RESERVATIONS,
    MULTUS_CONFIGS,
    NETWORK_ATTACHMENTS,
    WHEREABOUTS_POOLS,
    NEON_POOLS,
    POOL_GUARDS,
)

PATHS: Mapping[tuple[str, str], Paths] = {
    ("", "Pod"): _PODS,
    **{(kind.group, kind.kind): _POOLS for kind in _POOL_KINDS},
    **{("apps", kind): _WORKLOADS for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")},
    **{("batch", kind): _WORKLOADS for kind in ("Job", "CronJob")},
}
"""By group and kind; as `manifests/` registers them."""
