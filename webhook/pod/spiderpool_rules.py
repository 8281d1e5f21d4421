"""What Spiderpool makes of a pod's annotations: which item is for which NIC, and what can only fail, or leak.

Facts: Spiderpool v1.1.2 as in `pool_lists`; seen running: a list with names in some items only fails the ADD; the first ADD
allocates for every item listed, so one for a NIC that never asks Spiderpool holds an address for the pod's whole life.
"""

from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import chain

from msgspec import Struct

from poolwarden.ipam.address import V4, V6, Family
from poolwarden.ipam.interface import InvalidName, check_name
from poolwarden.ipam.spiderpool import SpiderIPPool
from poolwarden.webhook.knowledge import Knowledge, Known
from poolwarden.webhook.pod.nics import Nic, Source
from poolwarden.webhook.pod.pool_lists import (
    DEFAULT_ROUTE_NIC,
    IPPOOL,
    IPPOOLS,
    ROUTES,
    SUBNET,
    SUBNETS,
    PoolList,
    PoolLists,
    named,
    parse_many,
    parse_one,
    route_problems,
)
from poolwarden.webhook.pod.problem import Findings, Problem, Unreadable

_WILDCARDS = "*?["


class Assigned(Struct, frozen=True, tag=True):
    """Which NIC each item is for, by the item's position from 0."""

    names: Mapping[int, str]


class Unprovable(Struct, frozen=True, tag=True):
    """Which item is for which NIC would be a guess; `reason` says why."""

    reason: str


def assign(items: tuple[PoolList, ...], nics: tuple[Nic, ...]) -> Assigned | Unprovable:
    """Names for the items that have none, in attach order: the n-th of them is for the n-th NIC that no item names."""
    given = [item.interface.strip() for item in items]
    unnamed = [at for at, name in enumerate(given) if not name]
    unclear = [nic for nic in nics if nic.source is Source.UNKNOWN]
    if unnamed and unclear:
        unclear_networks = ", ".join(dict.fromkeys(f"{nic.interface} ({nic.network})" for nic in unclear))
        return Unprovable(f"whether Spiderpool's IPAM serves {unclear_networks} is not known")
    left = [nic.interface for nic in nics if nic.source is Source.SPIDERPOOL and nic.interface not in given]
    if unnamed and len(left) != len(unnamed):
        return Unprovable(f"{len(unnamed)} items have no name, and {len(left)} NICs are left for them")
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
    for annotation in (IPPOOLS, SUBNETS):
        if annotation in annotations:
            lists = parse_many(annotation, annotations[annotation])
            found += Findings(lists.problems) if isinstance(lists, Unreadable) else _many(annotation, lists, knowledge)
            if isinstance(lists, PoolLists) and not isinstance(nics, Unreadable):
                found += _for_nics(annotation, annotations[annotation], lists.items, nics)
    for annotation in (IPPOOL, SUBNET):
        if annotation in annotations:
            one = parse_one(annotation, annotations[annotation])
            found += Findings(one.problems) if isinstance(one, Unreadable) else _items(annotation, one, knowledge)
    if IPPOOL in annotations and not isinstance(nics, Unreadable):
        found += Findings(warnings=tuple(_one_for_all(annotations, nics)))
    if ROUTES in annotations:
        found += Findings(tuple(route_problems(annotations[ROUTES])))
    wanted = annotations.get(DEFAULT_ROUTE_NIC, "")
    if wanted and not isinstance(nics, Unreadable) and wanted not in {nic.interface for nic in nics}:
        found += Findings((Problem(DEFAULT_ROUTE_NIC, 0, wanted, f"it names no NIC of the pod; {_have(nics)}"),))
    return found


def _many(annotation: str, lists: PoolLists, knowledge: Knowledge) -> Findings:
    return _items(annotation, lists, knowledge) + Findings(
        tuple(_repeated(annotation, lists.items)), tuple(_shared(annotation, lists.items, knowledge.spider_pools))
    )


def _items(annotation: str, lists: PoolLists, knowledge: Knowledge) -> Findings:
    """What is found in single items."""
    problems: list[Problem] = []
    warnings: list[Problem] = []
    many = annotation in {IPPOOLS, SUBNETS}
    for number, item in enumerate(lists.items, start=int(many)):
        if item.interface and isinstance(verdict := check_name(item.interface), InvalidName):
            problems.append(Problem(annotation, number, item.text, verdict.message))
        if item.unknown_keys:
            keys = ", ".join(map(repr, item.unknown_keys))
            warnings.append(Problem(annotation, number, item.text, f"Spiderpool ignores {keys}"))
        if annotation in {IPPOOLS, IPPOOL}:
            wrong, missing = _pool_names(annotation, number, item, knowledge.spider_pools)
            (problems if knowledge.spider_pools.fresh else warnings).extend(wrong)
            warnings.extend(missing)
    return Findings(tuple(problems), tuple(warnings))


def _pool_names(
    annotation: str, number: int, item: PoolList, pools: Known[SpiderIPPool]
) -> tuple[list[Problem], list[Problem]]:
    """Pools of the other family, and pools that do not exist."""
    wrong: list[Problem] = []
    missing: list[Problem] = []
    for family, names in item.pools.items():
        for name in names:
            pool = pools.items.get(("", name))
            if any(char in name for char in _WILDCARDS):
                if pools.whole and not _matching(name, family, pools):
                    text = f"no IPv{family} SpiderIPPool matches {name!r} (yet)"
                    missing.append(Problem(annotation, number, item.text, text))
            elif pool is not None and _family(pool) != family:
                text = (
                    f"SpiderIPPool {name!r} hands out IPv{_family(pool)} addresses; it cannot stand under ipv{family}"
                )
                wrong.append(Problem(annotation, number, item.text, text))
            elif pool is None and pools.lacks(("", name)):
                missing.append(Problem(annotation, number, item.text, f"SpiderIPPool {name!r} does not exist (yet)"))
    return wrong, missing


def _matching(pattern: str, family: Family, pools: Known[SpiderIPPool]) -> set[str]:
    return {name for (_, name), pool in pools.items.items() if fnmatchcase(name, pattern) and _family(pool) == family}


def _family(pool: SpiderIPPool) -> Family:
    if pool.spec.ip_version in (V4, V6):
        return V6 if pool.spec.ip_version == V6 else V4
    return V6 if ":" in pool.spec.subnet else V4


def _repeated(annotation: str, items: tuple[PoolList, ...]) -> Iterator[Problem]:
    """An interface that two items name; for `subnets`, a subnet that two items name."""
    seen: dict[str, int] = {}
    for number, item in enumerate(items, start=1):
        name = item.interface.strip()
        if name and seen.setdefault(name, number) != number:
            text = f"interface {name!r} is also that of item {seen[name]}; each NIC has one item"
            yield Problem(annotation, number, item.text, text)
    if annotation == SUBNETS:
        first: dict[str, int] = {}
        for number, item in enumerate(items, start=1):
            for subnet in item.names:
                if first.setdefault(subnet, number) != number:
                    text = f"subnet {subnet!r} is also that of item {first[subnet]}; each NIC needs its own"
                    yield Problem(annotation, number, item.text, text)


def _shared(annotation: str, items: tuple[PoolList, ...], pools: Known[SpiderIPPool]) -> Iterator[Problem]:
    """Spiderpool answers a second NIC of one pod from the record that the first one made."""
    if annotation != IPPOOLS:
        return
    first: dict[str, int] = {}
    for number, item in enumerate(items, start=1):
        drawn = chain.from_iterable(
            _matching(name, family, pools) if any(char in name for char in _WILDCARDS) else (name,)
            for family, names in item.pools.items()
            for name in names
        )
        shared = sorted(pool for pool in set(drawn) if first.setdefault(pool, number) != number)
        if shared:
            text = (
                f"pool {shared[0]!r} is also in item {first[shared[0]]}: both NICs could get the same address; "
                "give each NIC pools of its own"
            )
            yield Problem(annotation, number, item.text, text)


def _for_nics(annotation: str, text: str, items: tuple[PoolList, ...], nics: tuple[Nic, ...]) -> Findings:
    """Whether every item has a NIC, and every NIC an item."""
    by_name: dict[str, Nic] = {}
    for nic in nics:  # of two NICs of one name, which is a problem of its own, the one that an item can be for
        if nic.interface not in by_name or nic.source is not Source.OTHER:
            by_name[nic.interface] = nic
    problems: list[Problem] = []
    warnings: list[Problem] = []
    for number, item in enumerate(items, start=1):
        holder = by_name.get(item.interface.strip())
        if item.interface.strip() and holder is None:
            wrong = f"the pod has no NIC {item.interface.strip()!r}; {_have(nics)}"
            problems.append(Problem(annotation, number, item.text, wrong))
        elif holder is not None and holder.source is Source.OTHER:
            wrong = (
                f"NIC {holder.interface!r} ({holder.network}) does not use Spiderpool's IPAM: "
                "its address would be taken and never used; remove the item"
            )
            problems.append(Problem(annotation, number, item.text, wrong))
    unnamed = [item for item in items if not item.interface.strip()]
    may = [nic for nic in nics if nic.source is not Source.OTHER]
    named_count = len(items) - len(unnamed)
    if len(items) > len(may) and unnamed:
        wrong = f"{len(items)} items for {len(may)} NICs of Spiderpool's; allowed is one for each of: {_names(may)}"
        problems.append(Problem(annotation, 0, text, wrong))
    elif unnamed and named_count:
        wrong = f"interface is given in some items only; write it in each, as one of: {_names(may)}"
        problems.append(Problem(annotation, 0, text, wrong))
    elif unnamed:
        reason = found.reason if isinstance(found := assign(items, nics), Unprovable) else "it is not made explicit yet"
        hint = f'write "interface" in each item, as one of: {_names(may)} ({reason})'
        warnings.append(Problem(annotation, 0, text, hint))
    else:
        listed = {item.interface.strip() for item in items}
        problems += [
            Problem(
                annotation,
                0,
                text,
                f"NIC {nic.interface!r} ({nic.network}) uses Spiderpool's IPAM and has no item, so its ADD fails; add one",
            )
            for nic in nics
            if nic.source is Source.SPIDERPOOL and nic.interface not in listed
        ]
    return Findings(tuple(problems), tuple(warnings))


def _one_for_all(annotations: Mapping[str, str], nics: tuple[Nic, ...]) -> Iterator[Problem]:
    text = annotations[IPPOOL]
    served = [nic for nic in nics if nic.source is Source.SPIDERPOOL]
    if IPPOOLS in annotations:
        yield Problem(IPPOOL, 0, text, f"Spiderpool ignores it, since {IPPOOLS} is there, too")
    elif len(served) > 1:
        hint = f"every NIC ({_names(served)}) draws from this one list and may get one address; use {IPPOOLS}"
        yield Problem(IPPOOL, 0, text, hint)


def _have(nics: tuple[Nic, ...]) -> str:
    return f"it has {_names(nics)}"


def _names(nics: tuple[Nic, ...] | list[Nic]) -> str:
    return ", ".join(nic.interface for nic in nics) or "none"
