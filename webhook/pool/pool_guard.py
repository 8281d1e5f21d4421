"""Rules about PoolGuard: what its schema (`manifests/crd/`) cannot say, and the same bounds for files."""

from collections.abc import Iterator, Mapping

from msgspec import Struct

from poolwarden.ipam import neon, spiderpool, whereabouts
from poolwarden.ipam.neon import NeonPoolShape
from poolwarden.ipam.pool import PoolRef
from poolwarden.ipam.pool_guard import guard_name
from poolwarden.ipam.ranges import Network, RangeError, parse_network
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.spiderpool import PoolShape
from poolwarden.ipam.whereabouts import WhereaboutsPoolShape
from poolwarden.webhook.knowledge import Knowledge, Known
from poolwarden.webhook.patch import Operation, pointer
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.address_lists import canonical_list, list_faults, set_of, shown
from poolwarden.webhook.pool.claims import PoolNetworks, foreign_overlaps, sibling_overlaps, spider_overlaps
from poolwarden.webhook.pool.fault import Fault, Weight, warned, weight_by
from poolwarden.webhook.pool.scene import Scene

IPAMS: Mapping[str, bool] = {name: backend.pool_kind.namespaced for name, backend in BACKENDS.items()}
"""The IPAMs that a guard may name, and whether their pools are namespaced."""
_WEEK, _YEAR, _INT32 = 7 * 86400, 365 * 86400, (1 << 31) - 1


class RefText(Struct, frozen=True, gc=False):
    """spec.poolRef; a namespace of null is none."""

    ipam: str = ""
    name: str = ""
    namespace: str | None = None

    @property
    def ref(self) -> PoolRef:
        """The pool it names."""
        return PoolRef(self.ipam, self.namespace or "", self.name)


class FreeAddresses(Struct, frozen=True, gc=False):
    """spec.freeAddresses."""

    low: int | None = None
    target: int | None = None
    high: int | None = None


class SetRetentionText(Struct, frozen=True, rename="camel", gc=False):
    """spec.retention.statefulSets."""

    policy: str | None = None
    after_seconds: int | None = None


class RetentionText(Struct, frozen=True, rename="camel", gc=False):
    """spec.retention."""

    stateful_sets: SetRetentionText | None = None


class GuardText(Struct, frozen=True, rename="camel", gc=False):
    """PoolGuard.spec."""

    pool_ref: RefText = RefText()
    mode: str | None = None
    grace_seconds: int | None = None
    cooldown_seconds: int | None = None
    max_releases_per_sweep: int | None = None
    max_release_percent: int | None = None
    acknowledged_leaks: int | None = None
    finished_pods: str | None = None
    node_evidence: str | None = None
    retention: RetentionText | None = None
    keep: tuple[str, ...] | None = None
    ignore_namespaces: tuple[str, ...] | None = None
    free_addresses: FreeAddresses | None = None
    reserve: tuple[str, ...] | None = None


class GuardObject(Struct, frozen=True, gc=False):
    """A PoolGuard."""

    spec: GuardText = GuardText()


def guard_edits(guard: GuardObject, before: GuardObject) -> Iterator[Operation]:
    """Lists that were written anew and can be read are made canonical."""
    lists = (("keep", guard.spec.keep, before.spec.keep), ("reserve", guard.spec.reserve, before.spec.reserve))
    for key, texts, old in lists:
        if texts and texts != old and canonical_list(texts) != texts:
            yield Operation(pointer("spec", key), list(canonical_list(texts)))


def guard_faults(guard: GuardObject, scene: Scene) -> Iterator[Fault]:
    """What is wrong with a guard as it stands."""
    spec = guard.spec
    yield from _ref_faults(spec.pool_ref, scene)
    yield from _bounds(spec, scene)
    yield from _choices(spec)
    yield from _free_faults(spec.free_addresses or FreeAddresses())
    yield from list_faults("spec.keep", spec.keep or ())
    subnets, weight = _subnets(spec.pool_ref.ref, scene.knowledge)
    yield from list_faults("spec.reserve", spec.reserve or (), subnets, weight)
    if spec.pool_ref.ipam == spiderpool.NAME:
        yield from _reserve_faults(spec, scene.knowledge.spider_pools)


def guard_changes(guard: GuardObject, before: GuardObject, scene: Scene) -> Iterator[Fault]:
    """Its pool, which may not change, and addresses that it newly reserves."""
    ref, old = guard.spec.pool_ref.ref, before.spec.pool_ref.ref
    if old.name and old != ref:
        yield Fault("spec.poolRef", f"{quoted(str(ref))} instead of {quoted(str(old))}: poolRef is immutable")
    added = set_of(guard.spec.reserve) - set_of(before.spec.reserve)
    knowledge = scene.knowledge
    if ref.ipam == spiderpool.NAME:
        known = knowledge.spider_pools.items.get(("", ref.name))
        attachments = known.spec.multus_name or () if known is not None else ()
        yield from spider_overlaps("spec.reserve", added, PoolNetworks(ref.name, attachments), knowledge)
    elif ref.ipam in {whereabouts.NAME, neon.NAME}:
        yield from sibling_overlaps("spec.reserve", added, ref, knowledge)
    yield from foreign_overlaps("spec.reserve", added, ref.ipam, knowledge)
    for (_, name), other in knowledge.guards.items.items():
        shared = added & set_of(other.spec.reserve)
        if name != scene.name and shared.ranges:
            yield warned("spec.reserve", f"PoolGuard {name} reserves {shown(shared)}, too")


def _ref_faults(pool: RefText, scene: Scene) -> Iterator[Fault]:
    if pool.ipam not in IPAMS:
        yield Fault("spec.poolRef.ipam", f"{quoted(pool.ipam)} is not allowed; allowed: {', '.join(IPAMS)}")
        return
    if not pool.name:
        yield Fault("spec.poolRef.name", "is empty; needed: the name of the pool")
        return
    if IPAMS[pool.ipam] and not pool.namespace:
        yield Fault("spec.poolRef.namespace", f"is required: pools of {pool.ipam} are namespaced")
    if not IPAMS[pool.ipam] and pool.namespace:
        yield Fault(
            "spec.poolRef.namespace",
            f"{quoted(pool.namespace)} is not allowed: pools of {pool.ipam} are cluster-scoped; leave it out",
        )
    canonical = guard_name(pool.ref)
    if scene.name != canonical:
        yield warned("metadata.name", f"gc heeds no guard of this pool but {canonical}; this one is {scene.name!r}")
    if any(known.lacks((pool.ref.namespace, pool.name)) for known in _pools(pool.ipam, scene.knowledge)):
        yield warned("spec.poolRef", f"there is no such pool as {pool.ref}")


def _bounds(spec: GuardText, scene: Scene) -> Iterator[Fault]:
    retention = (spec.retention or RetentionText()).stateful_sets or SetRetentionText()
    free = spec.free_addresses or FreeAddresses()
    table = (
        ("graceSeconds", spec.grace_seconds, 0, _WEEK),
        ("cooldownSeconds", spec.cooldown_seconds, 0, _WEEK),
        ("maxReleasesPerSweep", spec.max_releases_per_sweep, 0, 10000),
        ("maxReleasePercent", spec.max_release_percent, 1, 100),
        ("acknowledgedLeaks", spec.acknowledged_leaks, 0, _INT32),
        ("retention.statefulSets.afterSeconds", retention.after_seconds, 1, _YEAR),
        ("freeAddresses.low", free.low, 1, _INT32),
        ("freeAddresses.target", free.target, 1, _INT32),
        ("freeAddresses.high", free.high, 1, _INT32),
    )
    for key, number, first, last in table:
        if number is not None and not first <= number <= last:
            yield Fault(f"spec.{key}", f"{number} is not allowed; allowed: {first} to {last}")
    lease = scene.settings.lease_seconds
    if spec.grace_seconds == 0:
        yield warned("spec.graceSeconds", "0 has a leak released at the second sweep that sees it, without any delay")
    if spec.cooldown_seconds == 0:
        yield warned(
            "spec.cooldownSeconds",
            f"0 has an address used again at once, although two leaders of gc may overlap for {lease} s",
        )
    elif spec.cooldown_seconds is not None and 0 < spec.cooldown_seconds < lease:
        yield warned(
            "spec.cooldownSeconds",
            f"{spec.cooldown_seconds} is shorter than the {lease} s that two leaders of gc may overlap",
        )


def _choices(spec: GuardText) -> Iterator[Fault]:
    retention = (spec.retention or RetentionText()).stateful_sets or SetRetentionText()
    table = (
        ("mode", spec.mode, ("Off", "Observe", "Release")),
        ("finishedPods", spec.finished_pods, ("Keep", "Release")),
        ("nodeEvidence", spec.node_evidence, ("Required", "Ignore")),
        ("retention.statefulSets.policy", retention.policy, ("WhileEntitled", "ReleaseAlways", "ReleaseAfter")),
    )
    for key, value, allowed in table:
        if value is not None and value not in allowed:
            yield Fault(f"spec.{key}", f"{quoted(value)} is not allowed; allowed: {', '.join(allowed)}")
    after, timed = retention.after_seconds is not None, retention.policy == "ReleaseAfter"
    if after != timed:
        wrong = "is allowed only with" if after else "is required by"
        yield Fault("spec.retention.statefulSets.afterSeconds", f"{wrong} policy ReleaseAfter")


def _free_faults(free: FreeAddresses) -> Iterator[Fault]:
    low, target, high = free.low, free.target, free.high
    where = "spec.freeAddresses"
    if low is not None and target is not None and low > target:
        yield Fault(
            f"{where}.low", f"low must be less than or equal to target, but low is {low} and target is {target}"
        )
    if high is not None and target is not None and high < target:
        yield Fault(
            f"{where}.high", f"high must be greater than or equal to target, but high is {high} and target is {target}"
        )
    if low is not None and high is not None and target is None and low > high:
        yield Fault(f"{where}.low", f"low must be less than or equal to high, but low is {low} and high is {high}")


def _pools(
    ipam: str, knowledge: Knowledge
) -> tuple[Known[PoolShape] | Known[WhereaboutsPoolShape] | Known[NeonPoolShape], ...]:
    """The pools of an IPAM; of those of Terway nothing is known."""
    match ipam:
        case spiderpool.NAME:
            return (knowledge.spider_pools,)
        case whereabouts.NAME:
            return (knowledge.whereabouts_pools,)
        case neon.NAME:
            return (knowledge.neon_pools,)
        case _:
            return ()


def _reserve_faults(spec: GuardText, pools: Known[PoolShape]) -> Iterator[Fault]:
    """What gc leaves out of a reserve, since Spiderpool would refuse or not use it: nothing may be left."""
    pool = pools.items.get(("", spec.pool_ref.name))
    if pool is None:
        return
    gateway, excluded = pool.spec.gateways, set_of(pool.spec.exclude_ips)
    for at, text in enumerate(spec.reserve or ()):
        where, item = f"spec.reserve[{at}]", set_of((text,))
        if gateway.ranges and item == gateway:
            yield Fault(where, f"{quoted(text)} is the gateway of SpiderIPPool {spec.pool_ref.name}", weight_by(pools))
        elif (item & gateway).ranges:
            yield warned(where, f"{quoted(text)} holds the gateway {gateway} of the pool, which is left out")
        elif (item & excluded).ranges:
            yield warned(where, f"{shown(item & excluded)} is in excludeIPs of the pool, and left out")


def _subnets(ref: PoolRef, knowledge: Knowledge) -> tuple[tuple[Network, ...], Weight]:
    """The subnet in which a pool's addresses must lie, if it is known, and how sure that is."""
    pools = _pools(ref.ipam, knowledge)
    found = [pool for known in pools if (pool := known.items.get((ref.namespace, ref.name))) is not None]
    texts = [pool.spec.subnet if isinstance(pool, PoolShape) else pool.spec.range for pool in found]
    try:
        return tuple(map(parse_network, texts)), weight_by(*pools)
    except RangeError:
        return (), Weight.WARN
