"""Names of SpiderIPPools in other objects: whether there is such a pool, and whether it is of the right family."""

from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase

from poolwarden.ipam.address import Family
from poolwarden.ipam.ranges import RangeError, parse_network
from poolwarden.ipam.spiderpool import PoolShape
from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.fault import Fault, warned, weight_by

MOST_NAMES, MOST_PATTERNS = 1000, 50
"""Names that are looked up, patterns that are matched with every pool there is."""
_WILDCARDS = frozenset("*?[")


def pool_name_faults(where: str, names: Sequence[str], family: Family, knowledge: Knowledge) -> Iterator[Fault]:
    """A missing pool may come later: warned. One of the other family never serves: refused. Wildcards are expanded."""
    pools = knowledge.spider_pools
    patterns = 0
    if len(names) > MOST_NAMES:
        yield warned(where, f"only the first {MOST_NAMES} names are looked up")
    for at, name in enumerate(names[:MOST_NAMES]):
        if _WILDCARDS & set(name):
            patterns += 1
            if (
                pools.whole
                and patterns <= MOST_PATTERNS
                and not any(fnmatchcase(pool, name) for _, pool in pools.items)
            ):
                yield warned(f"{where}[{at}]", f"{quoted(name)} matches no SpiderIPPool")
        elif pools.lacks(("", name)):
            yield warned(f"{where}[{at}]", f"there is no SpiderIPPool {quoted(name)}")
        elif ("", name) in pools.items:
            for other in _other_family(pools.items["", name], family):
                text = f"SpiderIPPool {quoted(name)} is IPv{other}; allowed here: IPv{family}"
                yield Fault(f"{where}[{at}]", text, weight_by(pools))


def _other_family(pool: PoolShape, family: Family) -> Iterator[int]:
    """The pool's family, if it is known and another one."""
    try:
        found = parse_network(pool.spec.subnet).addresses.family
    except RangeError:
        return
    if found != family:
        yield found
