"""What Spiderpool makes of a pod's annotations: which item is for which NIC, and what can only fail, or leak.

Facts: Spiderpool v1.1.2 as in `pool_lists`; seen running: a list with names in some items only fails the ADD; the first ADD
allocates for every item listed, so one for a NIC that never asks Spiderpool holds an address for the pod's whole life.
"""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase

from msgspec import Struct

from poolwarden.ipam.address import V4, V6, Family
from poolwarden.ipam.spiderpool import PoolShape
from poolwarden.webhook.knowledge import Knowledge, Known
from poolwarden.webhook.pod.multus_rules import nic_name_fault
from poolwarden.webhook.pod.nics import Nic, Source
from poolwarden.webhook.pod.pool_lists import (
    DEFAULT_ROUTE_NIC,
    IPPOOL,
    IPPOOLS,
    ROUTES,
    SUBNET,
    SUBNETS,
    PoolList,
    named,
    parse_many,
    parse_one,
    route_problems,
)
from poolwarden.webhook.pod.problem import (
    MOST_TOLD,
    Findings,
    Problem,
    Unreadable,
    ignored_keys,
    listed,
    quoted,
)

_WILDCARD = re.compile(r"[*?\[]").search
_MOST_WILDCARDS = 32
"""Distinct ones that are looked up among the pools; nobody writes more."""
_MOST_SHOWN = 3


class Assigned(Struct, frozen=True, tag=True):
    """Which NIC each item is for, by the item's position from 0."""

    names: Mapping[int, str]


class Drawn(Struct, frozen=True):
    """The pools that wildcards stand for, and what is known of all pools; `skipped` if there are too many wildcards."""

    pools: Known[PoolShape]
    matching: Mapping[tuple[Family, str], frozenset[str]]
    skipped: bool

    def by(self, family: Family, name: str) -> frozenset[str]:
        """The pools that a name or wildcard draws from."""
        return self.matching.get((family, name), frozenset()) if is_wildcard(name) else frozenset({name})


class Unprovable(Struct, frozen=True, tag=True):
    """Which item is for which NIC would be a guess; `reason` says why."""

    reason: str


def assign(items: tuple[PoolList, ...], nics: tuple[Nic, ...]) -> Assigned | Unprovable:
    """Names for the items that have none, in attach order: the n-th of them is for the n-th NIC that no item names."""
    given = [item.interface.strip() for item in items]
    unnamed = [at for at, name in enumerate(given) if not name]
    unclear = [nic for nic in nics if nic.source is Source.UNKNOWN]
    if unnamed and unclear:
        named_so = [f"{nic.interface} ({nic.network})" for nic in unclear[:_MOST_SHOWN]]
        return Unprovable(f"whether Spiderpool's IPAM serves {listed(named_so)} is not known")
    taken = set(given)
    left = [nic.interface for nic in nics if nic.source is Source.SPIDERPOOL and nic.interface not in taken]
    if unnamed and len(left) != len(unnamed):
        return Unprovable(f"items without name: {len(unnamed)}, NICs left for them: {len(left)}")
    return Assigned(dict(enumerate(given)) | dict(zip(unnamed, left, strict=False)))


def named_lists(annotation: str, text: str, nics: tuple[Nic, ...]) -> str:
    """`ippools` or `subnets` with a name in each item and no blanks round names; as far as that is provable."""
    lists = parse_many(annotation, text)
    if isinstance(lists, Unreadable):
        return text
    match assign(lists.items, nics):
        case Assigned(names):
            wanted: Mapping[int, str] = names
        case Unprovable():
            wanted = {at: item.interface.strip() for at, item in enumerate(lists.items)}
    if len({name for name in wanted.values() if name}) < sum(map(bool, wanted.values())):
        return text  # two items for one NIC: for its author to mend
    return named(text, {at: name for at, name in wanted.items() if name != lists.items[at].interface})


def spiderpool_findings(
    annotations: Mapping[str, str], nics: tuple[Nic, ...] | Unreadable, knowledge: Knowledge
) -> Findings:
    """What is found in Spiderpool's annotations of a pod. Where its networks cannot be read, nothing is said of its NICs."""
    found = Findings()
    for annotation in (IPPOOLS, SUBNETS, IPPOOL, SUBNET):
        if annotation not in annotations:
            continue
        text = annotations[annotation]
        many = annotation in {IPPOOLS, SUBNETS}
        lists = (parse_many if many else parse_one)(annotation, text)
        if isinstance(lists, Unreadable):
            found += Findings(lists.problems)
            continue
        found += _items(annotation, lists.items, drawn_from(lists.items, knowledge.spider_pools))
        if many and not isinstance(nics, Unreadable):
            found += _for_nics(annotation, text, lists.items, nics)
    if IPPOOL in annotations and not isinstance(nics, Unreadable):
        found += Findings(warnings=tuple(_one_for_all(annotations, nics)))
    if ROUTES in annotations:
        found += Findings(tuple(route_problems(annotations[ROUTES])))
    wanted = annotations.get(DEFAULT_ROUTE_NIC, "")
    if wanted and not isinstance(nics, Unreadable) and wanted not in {nic.interface for nic in nics}:
        text = f"it names no NIC of the pod; {_have(nics)}"
        found += Findings((Problem(DEFAULT_ROUTE_NIC, 0, wanted, text, rule="no such NIC"),))
    return found


def is_wildcard(name: str) -> bool:
    """Whether Spiderpool expands it against all pools of the family."""
    return _WILDCARD(name) is not None


def drawn_from(items: tuple[PoolList, ...], pools: Known[PoolShape]) -> Drawn:
    """Expand the wildcards of an annotation."""
    wildcards = {
        (family, name) for item in items for family, names in item.pools.items() for name in names if is_wildcard(name)
    }
    if len(wildcards) > _MOST_WILDCARDS:
        return Drawn(pools, {}, skipped=True)
    return Drawn(pools, {key: _matching(*key, pools) for key in wildcards}, skipped=False)


def _matching(family: Family, pattern: str, pools: Known[PoolShape]) -> frozenset[str]:
    python_pattern = pattern.replace("[^", "[!")  # Go's path.Match negates by ^
    return frozenset(
        name for (_, name), pool in pools.items.items() if _family(pool) == family and fnmatchcase(name, python_pattern)
    )


def _family(pool: PoolShape) -> Family:
    if pool.spec.ip_version in (V4, V6):
        return V6 if pool.spec.ip_version == V6 else V4
    return V6 if ":" in pool.spec.subnet else V4


def _items(annotation: str, items: tuple[PoolList, ...], drawn: Drawn) -> Findings:
    """What is found in the items, whatever NICs the pod has."""
    problems = list(_repeated(annotation, items))
    warnings = list(_shared(annotation, items, drawn))
    for number, item in enumerate(items, start=int(annotation in {IPPOOLS, SUBNETS})):
        wrong_name = nic_name_fault(item.interface) if item.interface else ""
        if wrong_name:
            problems.append(Problem(annotation, number, item.text, wrong_name))
        if item.unknown_keys:
            warnings.append(Problem(annotation, number, item.text, ignored_keys(item.unknown_keys, "Spiderpool")))
        if annotation in {IPPOOLS, IPPOOL}:
            wrong, missing = _pool_names(annotation, number, item, drawn)
            (problems if drawn.pools.fresh else warnings).extend(wrong)
            warnings.extend(missing)
    return Findings(tuple(problems), tuple(warnings))


def _pool_names(annotation: str, number: int, item: PoolList, drawn: Drawn) -> tuple[list[Problem], list[Problem]]:
    """Pools of the other family, and pools that do not exist."""
    wrong: list[str] = []
    missing: list[str] = []
    pools = drawn.pools
    for family, name in ((family, name) for family, names in item.pools.items() for name in names):
        pool = pools.items.get(("", name))
        if is_wildcard(name):
            if pools.whole and not drawn.skipped and not drawn.by(family, name):
                missing.append(f"no IPv{family} SpiderIPPool matches {quoted(name)} (yet)")
        elif pool is not None and _family(pool) != family:
            has = f"SpiderIPPool {quoted(name)} hands out IPv{_family(pool)} addresses"
            wrong.append(f"{has}; it cannot stand under ipv{family}")
        elif pool is None and pools.lacks(("", name)):
            missing.append(f"SpiderIPPool {quoted(name)} does not exist (yet)")
    return (
        [Problem(annotation, number, item.text, text) for text in wrong[:MOST_TOLD]],
        [Problem(annotation, number, item.text, text) for text in missing[:MOST_TOLD]],
    )


def _repeated(annotation: str, items: tuple[PoolList, ...]) -> Iterator[Problem]:
    """An interface that two items name; for `subnets`, a subnet that two items name."""
    seen: dict[str, int] = {}
    for number, item in enumerate(items, start=1):
        name = item.interface.strip()
        if name and seen.setdefault(name, number) != number:
            text = f"interface {quoted(name)} is also that of item {seen[name]}; each NIC has one item"
            yield Problem(annotation, number, item.text, text, rule="repeated interface")
    if annotation == SUBNETS:
        first: dict[str, int] = {}
        for number, item in enumerate(items, start=1):
            shared = [subnet for subnet in item.names if first.setdefault(subnet, number) != number]
            if shared:
                text = f"subnet {quoted(shared[0])} is also that of item {first[shared[0]]}; each NIC needs its own"
                yield Problem(annotation, number, item.text, text, rule="repeated subnet")


def _shared(annotation: str, items: tuple[PoolList, ...], drawn: Drawn) -> Iterator[Problem]:
    """Spiderpool answers a second NIC of one pod from the record that the first one made."""
    if annotation != IPPOOLS:
        return
    first: dict[str, int] = {}
    for number, item in enumerate(items, start=1):
        pools = {pool for family, names in item.pools.items() for name in names for pool in drawn.by(family, name)}
        shared = sorted(pool for pool in pools if first.setdefault(pool, number) != number)
        if shared:
            text = (
                f"pool {quoted(shared[0])} is also in item {first[shared[0]]}: both NICs could get the same address; "
                "give each NIC pools of its own"
            )
            yield Problem(annotation, number, item.text, text)


def _for_nics(annotation: str, text: str, items: tuple[PoolList, ...], nics: tuple[Nic, ...]) -> Findings:
    """Whether every item has a NIC, and every NIC an item."""
    problems = list(_items_without_nic(annotation, items, nics))
    warnings: list[Problem] = []
    unnamed = sum(not item.interface.strip() for item in items)
    may = list(dict.fromkeys(nic.interface for nic in nics if nic.source is not Source.OTHER))
    if unnamed and len(items) > len(may):
        wrong = f"items: {len(items)}, NICs of Spiderpool's: {len(may)}; allowed is one for each of: {listed(may)}"
        problems.append(Problem(annotation, 0, text, wrong, rule="too many items"))
    elif 0 < unnamed < len(items):
        wrong = f"interface is given in some items only; write it in each, as one of: {listed(may)}"
        problems.append(Problem(annotation, 0, text, wrong, rule="some named"))
    elif unnamed:
        found = assign(items, nics)
        reason = f" ({found.reason})" if isinstance(found, Unprovable) else ""
        hint = f'write "interface" in each item, as one of: {listed(may)}{reason}'
        warnings.append(Problem(annotation, 0, text, hint))
    else:
        problems += _nics_without_item(annotation, text, items, nics)
    return Findings(tuple(problems), tuple(warnings))


def _items_without_nic(annotation: str, items: tuple[PoolList, ...], nics: tuple[Nic, ...]) -> Iterator[Problem]:
    by_name: dict[str, Nic] = {}
    for nic in nics:  # of two NICs of one name, which is a problem of its own, the one that an item can be for
        if nic.interface not in by_name or nic.source is not Source.OTHER:
            by_name[nic.interface] = nic
    for number, item in enumerate(items, start=1):
        name = item.interface.strip()
        holder = by_name.get(name)
        if name and holder is None:
            wrong = f"the pod has no NIC {quoted(name)}; {_have(nics)}"
            yield Problem(annotation, number, item.text, wrong, rule="no such NIC")
        elif holder is not None and holder.source is Source.OTHER:
            wrong = (
                f"NIC {quoted(name)} ({holder.network}) does not use Spiderpool's IPAM: "
                "its address would be taken and never used; remove the item"
            )
            yield Problem(annotation, number, item.text, wrong, rule="another IPAM's NIC")


def _nics_without_item(
    annotation: str, text: str, items: tuple[PoolList, ...], nics: tuple[Nic, ...]
) -> Iterator[Problem]:
    given = {item.interface.strip() for item in items}
    for nic in nics:
        if nic.source is Source.SPIDERPOOL and nic.interface not in given:
            wrong = (
                f"NIC {quoted(nic.interface)} ({nic.network}) uses Spiderpool's IPAM and has no item, so its ADD fails"
            )
            yield Problem(annotation, 0, text, f"{wrong}; add one", rule=f"no item for {nic.interface}")


def _one_for_all(annotations: Mapping[str, str], nics: tuple[Nic, ...]) -> Iterator[Problem]:
    text = annotations[IPPOOL]
    served = [nic.interface for nic in nics if nic.source is Source.SPIDERPOOL]
    if IPPOOLS in annotations:
        yield Problem(IPPOOL, 0, text, f"Spiderpool ignores it, since {IPPOOLS} is there, too")
    elif len(served) > 1:
        hint = f"every NIC ({listed(served)}) draws from this one list and may get one address; use {IPPOOLS}"
        yield Problem(IPPOOL, 0, text, hint)


def _have(nics: tuple[Nic, ...]) -> str:
    return f"it has {listed([nic.interface for nic in nics])}"
