"""The annotations `k8s.v1.cni.cncf.io/networks` and `v1.multus-cni.io/default-network`: read as Multus reads them.

Source: Multus v4.3.0, `pkg/k8sclient/k8sclient.go` (`parsePodNetworkAnnotation`, `parsePodNetworkObjectName`) and
`pkg/types/types.go` (`NetworkSelectionElement`).
"""

import json
import re
from collections.abc import Iterator, Mapping
from ipaddress import ip_address, ip_interface
from math import isfinite
from typing import Any

from msgspec import Struct

from poolwarden.webhook.json_text import (
    MOST_ITEMS,
    Located,
    Malformed,
    edited,
    kind_of,
    last,
    parse_list,
    setting,
    string,
    type_problem,
    unknown_keys,
)
from poolwarden.webhook.pod.problem import Problem, Unreadable, quoted
from poolwarden.webhook.remembered import remembered

GO_BLANKS = "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
"""What Go's `strings.TrimSpace` trims (`unicode.IsSpace`)."""
_BLANK = re.compile(f"[{GO_BLANKS}]")
_JSON_MARKS = '[{"'
_LABEL = re.compile(r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(rf"{_LABEL.pattern}(?:\.{_LABEL.pattern})*", re.ASCII)
_LONGEST_LABEL, _LONGEST_SUBDOMAIN = 63, 253  # RFC 1123, as apimachinery's validation has it
_MAC = re.compile(
    r"[0-9A-Fa-f]{2}(?:([:-])[0-9A-Fa-f]{2}(?:\1[0-9A-Fa-f]{2})*)"
    r"|[0-9A-Fa-f]{4}(?:\.[0-9A-Fa-f]{4})*"
)
_MAC_BYTES = frozenset({6, 8, 20})  # what Go's net.ParseMAC takes
_TYPES: Mapping[str, type] = {
    "name": str,
    "namespace": str,
    "ips": list,
    "mac": str,
    "infiniband-guid": str,
    "interface": str,
    "interfaceRequest": str,
    "portMappings": list,
    "bandwidth": dict,
    "deviceID": str,
    "cni-args": dict,
    "default-route": list,
    "ipam-claim-reference": str,
}


_PORT_TYPES: Mapping[str, type] = {"hostPort": float, "containerPort": float, "protocol": str, "hostIP": str}
_BANDWIDTH_TYPES: Mapping[str, type] = {
    "ingressRate": float,
    "ingressBurst": float,
    "egressRate": float,
    "egressBurst": float,
}
_INT_BOUND = 2**63


class Selection(Struct, frozen=True):
    """One network that a pod asks for.

    `number` is the item's, from 1, `text` the item as written; `interface` is as Multus takes it, "" if unnamed.
    """

    number: int
    text: str
    namespace: str
    name: str
    interface: str
    unknown_keys: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the NetworkAttachmentDefinition."""
        return self.namespace, self.name


class Networks(Struct, frozen=True, tag=True):
    """An annotation that Multus can read; `problems` are those of single items."""

    items: tuple[Selection, ...]
    problems: tuple[Problem, ...] = ()


@remembered
def parse(annotation: str, text: str, namespace: str) -> Networks | Unreadable:
    """Read an annotation that is present; items without namespace live in `namespace`. A zero-length one asks for nothing."""
    if not text:
        return Networks(())
    if not is_json(text) and text.count(",") >= MOST_ITEMS:
        wrong = f"it has {text.count(',') + 1} items; at most {MOST_ITEMS} are allowed"
        return Unreadable((Problem(annotation, 0, text, wrong),))
    return _parse_json(annotation, text, namespace) if is_json(text) else _parse_text(annotation, text, namespace)


def is_json(text: str) -> bool:
    """Whether Multus takes the annotation for JSON."""
    return any(mark in text for mark in _JSON_MARKS)


def named(text: str, names: Mapping[int, str]) -> str:
    """The annotation, which can be read, with these names at these positions (from 0), in the form that it has."""
    if is_json(text):
        items = parse_list(text)
        assert not isinstance(items, Malformed)
        return edited(text, (setting(text, items[at], "interface", name) for at, name in names.items()))
    parts = text.split(",")
    for at, name in names.items():
        parts[at] = f"{_path(parts[at])}@{name}"
    return ",".join(parts)


def with_inner_blanks(text: str) -> set[int]:
    """The positions of items of the text form that have blanks round a name which are not just round the item."""
    if not _BLANK.search(text):
        return set()
    return {
        at
        for at, item in enumerate(text.split(","))
        if any(piece != piece.strip(GO_BLANKS) for piece in re.split("[/@]", item.strip(GO_BLANKS)))
    }


def _path(part: str) -> str:
    """`[namespace/]name` of an item, without the blanks that Multus trims."""
    return "/".join(piece.strip(GO_BLANKS) for piece in part.partition("@")[0].split("/"))


def _parse_text(annotation: str, text: str, namespace: str) -> Networks | Unreadable:
    items: list[Selection] = []
    problems: list[Problem] = []
    for number, part in enumerate(text.split(","), start=1):
        item = part.strip(GO_BLANKS)
        path, _, interface = item.partition("@")
        within, slash, name = path.partition("/")
        if not slash:
            within, name = "", within
        within, name = within.strip(GO_BLANKS), name.strip(GO_BLANKS)
        wrong = _text_fault(item, within, name)
        problems += [Problem(annotation, number, part, wrong)] if wrong else []
        items.append(Selection(number, item, within or namespace, name, interface.strip(GO_BLANKS)))
    return Unreadable(tuple(problems)) if problems else Networks(tuple(items))


def _text_fault(item: str, namespace: str, name: str) -> str:
    form = "allowed is [namespace/]name[@interface]"
    if not item:
        return f"the item is empty; {form}, items separated by single commas"
    if item.count("/") > 1:
        return f"it has more than one '/'; {form}"
    if item.count("@") > 1:
        return f"it has more than one '@'; {form}"
    if not name:
        return f"it names no network; {form}"
    for what, part in (("namespace", namespace), ("network", name)):
        if part and not _LABEL.fullmatch(part):
            return (
                f"{what} {quoted(part)} is not allowed in this form: lower-case letters, digits and '-' only "
                "(a name with dots can be given in the JSON form)"
            )
        if len(part) > _LONGEST_LABEL:
            return (
                f"{what} {quoted(part)} has {len(part)} characters; at most {_LONGEST_LABEL} are allowed in this form"
            )
    return ""


def _parse_json(annotation: str, text: str, namespace: str) -> Networks | Unreadable:
    located = parse_list(text)
    if isinstance(located, Malformed):
        return Unreadable((Problem(annotation, 0, text, located.problem),))
    problems = [
        Problem(annotation, number, _shown(text, item), wrong)
        for number, item in enumerate(located, start=1)
        for wrong in _json_faults(item)
    ]
    if problems:
        return Unreadable(tuple(problems))
    return Networks(tuple(_selection(text, number, item, namespace) for number, item in enumerate(located, start=1)))


def _shown(text: str, item: Located) -> str:
    """An item for a message: as written, unless that could tell more than what a network is called."""
    told = text[item.start : item.end]
    if not item.members or not (unknown_keys(item, _TYPES) or last(item, "cni-args")):
        return told
    return f'{{"name": {json.dumps(string(item, "name"))}, …}}'


def _selection(text: str, number: int, item: Located, namespace: str) -> Selection:
    return Selection(
        number=number,
        text=_shown(text, item),
        namespace=string(item, "namespace") or namespace,
        name=string(item, "name"),
        interface=string(item, "interface") or string(item, "interfaceRequest"),
        unknown_keys=tuple(unknown_keys(item, _TYPES)),
    )


def _json_faults(item: Located) -> Iterator[str]:
    if not isinstance(item.value, dict):
        yield f"an object with at least a name is needed, this is {kind_of(item.value)}"
        return
    wrong_type = type_problem(item, _TYPES)
    if wrong_type:
        yield wrong_type
        return
    name, namespace = string(item, "name"), string(item, "namespace")
    if not name:
        yield 'it has no "name" of a NetworkAttachmentDefinition'
    elif len(name) > _LONGEST_SUBDOMAIN or not _SUBDOMAIN.fullmatch(name):
        yield f"name {quoted(name)} is no name of an object: lower-case letters, digits, '-' and '.' are allowed"
    if namespace and (len(namespace) > _LONGEST_LABEL or not _LABEL.fullmatch(namespace)):
        yield f"namespace {quoted(namespace)} is no name of a namespace: lower-case letters, digits and '-' are allowed"
    for field in ("mac", "infiniband-guid"):
        mac = string(item, field)
        if mac and not _is_mac(mac):
            yield f"{field} {quoted(mac)} is none; allowed is a form like 02:00:00:00:00:01"
    yield from _inner_faults(item)
    yield from _address_faults(item, "ips", masks=True)
    yield from _address_faults(item, "default-route", masks=False)


def _inner_faults(item: Located) -> Iterator[str]:
    """Values within values that Go would refuse to decode."""
    mappings = last(item, "portMappings")
    for value in (mappings.value or ()) if mappings else ():
        if value is not None and not (isinstance(value, dict) and _fits(value, _PORT_TYPES)):
            yield 'portMappings holds what is no {"hostPort": number, "containerPort": number, "protocol": text}'
            break
    bandwidth = last(item, "bandwidth")
    if bandwidth is not None and bandwidth.value is not None and not _fits(bandwidth.value, _BANDWIDTH_TYPES):
        yield "bandwidth holds a rate or burst that is no whole number"
    arguments = last(item, "cni-args")
    if arguments is not None and not _is_finite(arguments.value):
        yield "cni-args holds a number that is too large"


def _fits(value: dict[str, Any], types: Mapping[str, type]) -> bool:
    folded = {name.casefold(): kind for name, kind in types.items()}
    return all(_fits_one(inner, folded.get(key.casefold(), object)) for key, inner in value.items())


def _fits_one(value: Any, kind: type) -> bool:
    if value is None or kind is not float:
        return value is None or isinstance(value, kind)
    return isinstance(value, float) and value.is_integer() and abs(value) < _INT_BOUND


def _is_finite(value: Any) -> bool:
    match value:
        case float():
            return isfinite(value)
        case list():
            return all(map(_is_finite, value))
        case dict():
            return all(map(_is_finite, value.values()))
    return True


def _address_faults(item: Located, field: str, *, masks: bool) -> Iterator[str]:
    member = last(item, field)
    allowed = "an address, or address/prefix" if masks else "an address"
    for value in (member.value or ()) if member else ():
        if not value and not masks and (value is None or value == ""):
            continue  # Go reads both as no address at all
        text = "" if value is None else value  # as Go reads null into a string
        if not isinstance(text, str):
            yield f"{field} holds {kind_of(value)}; allowed is a list of strings, each {allowed}"
        elif not _is_address(text, masks=masks):
            yield f"{field} holds {quoted(text)}; allowed is {allowed}"


def _is_address(text: str, *, masks: bool) -> bool:
    if "%" in text:  # a zone
        return False
    try:
        host, slash, prefix = text.partition("/")
        ip_address(host)
        if slash:
            ip_interface(text)
    except ValueError:
        return False
    return not slash or (masks and prefix.isascii() and prefix.isdigit())


def _is_mac(text: str) -> bool:
    digits = sum(char not in ":-." for char in text)
    return bool(_MAC.fullmatch(text)) and digits // 2 in _MAC_BYTES
