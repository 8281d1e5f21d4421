"""Spiderpool's pod annotations that say which NIC draws from which pools.

Source: Spiderpool v1.1.2, `pkg/ipam/utils.go` (`getPoolFromPodAnnoPools`, `validateAndMutateMultipleNICAnnotations`) and
`pkg/types` (`AnnoPodIPPoolsValue`, `AnnoPodIPPoolValue`, `AnnoSubnetItem`, `AnnoPodRoutesValue`). All of it is checked at
CNI ADD only: a pod whose annotation is refused there is created, and never starts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping

from msgspec import Struct

from poolwarden.ipam.address import V4, V6, AddressError, Family, parse_address
from poolwarden.webhook.json_text import (
    Located,
    Malformed,
    edited,
    kind_of,
    last,
    parse_list,
    parse_object,
    setting,
    string,
    type_problem,
    unknown_keys,
)
from poolwarden.webhook.pod.problem import Problem, Unreadable, quoted
from poolwarden.webhook.remembered import remembered

IPPOOLS = "ipam.spidernet.io/ippools"
IPPOOL = "ipam.spidernet.io/ippool"
SUBNETS = "ipam.spidernet.io/subnets"
SUBNET = "ipam.spidernet.io/subnet"
ROUTES = "ipam.spidernet.io/routes"
DEFAULT_ROUTE_NIC = "ipam.spidernet.io/default-route-nic"

FAMILIES: Mapping[str, Family] = {"ipv4": V4, "ipv6": V6}
_LONGEST_NAME = 253  # of an object (RFC 1123 subdomain); a wildcard that is longer matches none
_ONE_TYPES: Mapping[str, type] = {"ipv4": list, "ipv6": list}
_ITEM_TYPES: Mapping[str, type] = {"interface": str, "ipv4": list, "ipv6": list, "cleangateway": bool}
_SUBNET_TYPES: Mapping[str, type] = {"interface": str, "ipv4": list, "ipv6": list}
_ROUTE_TYPES: Mapping[str, type] = {"dst": str, "gw": str}


class PoolList(Struct, frozen=True):
    """What one NIC may draw from. `interface` is as written, blanks included, "" if none is; `pools` by family."""

    text: str
    interface: str
    pools: Mapping[Family, tuple[str, ...]]
    unknown_keys: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The pools of both families."""
        return tuple(name for names in self.pools.values() for name in names)


class PoolLists(Struct, frozen=True, tag=True):
    """An annotation that Spiderpool can read."""

    items: tuple[PoolList, ...]


@remembered
def parse_many(annotation: str, text: str) -> PoolLists | Unreadable:
    """Read `ippools` or `subnets`: a list with an item for each NIC."""
    located = parse_list(text)
    if isinstance(located, Malformed):
        return Unreadable((Problem(annotation, 0, text, located.problem),))
    if not located:
        return Unreadable((Problem(annotation, 0, text, "the list is empty; it needs an item for each NIC"),))
    return _read(annotation, text, located, first=1)


def parse_one(annotation: str, text: str) -> PoolLists | Unreadable:
    """Read `ippool` or `subnet`: one object."""
    located = parse_object(text)
    if isinstance(located, Malformed):
        return Unreadable((Problem(annotation, 0, text, located.problem),))
    return _read(annotation, text, (located,), first=0)


def named(text: str, names: Mapping[int, str]) -> str:
    """The annotation, which can be read, with these interface names at these positions (from 0)."""
    items = parse_list(text)
    assert not isinstance(items, Malformed)
    return edited(text, (setting(text, items[at], "interface", name) for at, name in names.items()))


def route_problems(text: str) -> Iterator[Problem]:
    """What is wrong with `routes`: a list of `{"dst": "10.0.0.0/16", "gw": "192.168.1.1"}`."""
    located = parse_list(text)
    if isinstance(located, Malformed):
        yield Problem(ROUTES, 0, text, located.problem)
        return
    for number, item in enumerate(located, start=1):
        wrong = _route_fault(item)
        if wrong:
            yield Problem(ROUTES, number, text[item.start : item.end], wrong)


def _read(annotation: str, text: str, located: tuple[Located, ...], *, first: int) -> PoolLists | Unreadable:
    types = {IPPOOLS: _ITEM_TYPES, IPPOOL: _ONE_TYPES}.get(annotation, _SUBNET_TYPES)
    problems = [
        Problem(annotation, number, text[item.start : item.end], wrong)
        for number, item in enumerate(located, start=first)
        for wrong in _item_faults(item, types)
    ]
    if problems:
        return Unreadable(tuple(problems))
    return PoolLists(tuple(_pool_list(text, item, types) for item in located))


def _pool_list(text: str, item: Located, types: Mapping[str, type]) -> PoolList:
    members = {family: last(item, key) for key, family in FAMILIES.items()}
    return PoolList(
        text=text[item.start : item.end],
        interface=string(item, "interface") if "interface" in types else "",
        pools={family: tuple(member.value or ()) for family, member in members.items() if member is not None},
        unknown_keys=tuple(unknown_keys(item, types)),
    )


def _item_faults(item: Located, types: Mapping[str, type]) -> Iterator[str]:
    if not isinstance(item.value, dict):
        yield f'an object with "ipv4" or "ipv6" is needed, this is {kind_of(item.value)}'
        return
    wrong_type = type_problem(item, types)
    if wrong_type:
        yield wrong_type
        return
    lists = {key: (member.value or []) for key in FAMILIES if (member := last(item, key)) is not None}
    strange = [(key, value) for key, values in lists.items() for value in values if not isinstance(value, str)]
    for key, value in strange[:1]:
        yield f"{key} holds {kind_of(value)}; a list of pool names is needed"
    if not strange and not any(name for values in lists.values() for name in values):
        yield 'it has neither "ipv4" nor "ipv6": the NIC would get no address; allowed is a list of names for either or both'
    for key, values in lists.items():
        names = Counter(name for name in values if isinstance(name, str))
        odd = [name for name in names if not name or name != name.strip() or len(name) > _LONGEST_NAME]
        twice = [name for name, times in names.items() if times > 1]
        if odd:
            yield f"{key} holds {quoted(odd[0])}: no pool has an empty name, one with blanks round it or a longer one"
        if twice:
            yield f"{key} names {quoted(twice[0])} twice; each pool may stand once"


def _route_fault(item: Located) -> str:
    if not isinstance(item.value, dict):
        return f'an object with "dst" and "gw" is needed, this is {kind_of(item.value)}'
    wrong_type = type_problem(item, _ROUTE_TYPES)
    if wrong_type:
        return wrong_type
    destination, gateway = string(item, "dst"), string(item, "gw")
    host, slash, prefix = destination.partition("/")
    try:
        network = parse_address(host)
        if not slash or not prefix.isascii() or not prefix.isdigit() or int(prefix[:4]) > network.max_prefixlen:
            raise AddressError  # noqa: TRY301 - said once, below
    except AddressError:
        return f"dst {quoted(destination)} is no network; allowed is a form like 10.0.0.0/16"
    try:
        address = parse_address(gateway)
    except AddressError:
        return f"gw {quoted(gateway)} is no address; allowed is a form like 192.168.1.1"
    if network.version != address.version:
        return (
            f"dst {quoted(destination)} and gw {quoted(gateway)} are of two families; both must be IPv4, or both IPv6"
        )
    return ""
