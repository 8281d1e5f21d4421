"""JSON text with the places of its parts, so that one value is changed and everything else kept to the byte.

Keys match as Go's encoding/json matches them, without regard to case, the last one winning: so read Multus and
Spiderpool the annotations that they are written for.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

from msgspec import Struct

from poolwarden.webhook.remembered import remembered

MOST_ITEMS = 1024
"""A pod has fewer NICs: Multus' network-status of more would not fit into its 256 KiB of annotations."""
_blanks = re.compile(r"[ \t\n\r]*").match


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


# An int of 5,000 digits would raise; that it is a number is all that counts here.
_ANY = json.JSONDecoder(parse_int=float, parse_constant=_refuse)
_text = json.encoder.encode_basestring_ascii
_scan: Callable[[str, int], tuple[Any, int]] = _ANY.scan_once  # type: ignore[attr-defined] # unknown to typeshed


class Member(Struct, frozen=True):
    """A key of an object with its value; `start` and `end` are the value's place in the text."""

    key: str
    value: Any
    start: int
    end: int


class Located(Struct, frozen=True):
    """A value with its place in the text; `members` is empty unless it is an object.

    `fields` holds of the members whose keys differ by case at most the last, by folded key.
    """

    value: Any
    start: int
    end: int
    members: tuple[Member, ...] = ()
    fields: Mapping[str, Member] = {}


class Edit(Struct, frozen=True, order=True):
    """Text that takes the place of what stands between `start` and `end`."""

    start: int
    end: int
    text: str


class Malformed(Struct, frozen=True, tag=True):
    """The text is not what was asked for; `problem` says why, in one line."""

    problem: str


@remembered
def parse_list(text: str) -> tuple[Located, ...] | Malformed:
    """The items of a JSON list of at most MOST_ITEMS."""
    if not text.strip():
        return Malformed("it is empty; a JSON list is needed")
    try:
        whole = _ANY.decode(text)
        if not isinstance(whole, list):
            return Malformed(f"a JSON list is needed, this is {kind_of(whole)}")
        if len(whole) > MOST_ITEMS:
            return Malformed(f"it has {len(whole)} items; at most {MOST_ITEMS} are allowed")
        return tuple(_items(text, whole))
    except (ValueError, RecursionError) as error:
        return Malformed(f"it is no valid JSON: {_short(error)}")


def parse_object(text: str) -> Located | Malformed:
    """A single JSON object."""
    if not text.strip():
        return Malformed("it is empty; a JSON object is needed")
    try:
        whole = _ANY.decode(text)
        if not isinstance(whole, dict):
            return Malformed(f"a JSON object is needed, this is {kind_of(whole)}")
        return _located(text, _skip(text, 0))
    except (ValueError, RecursionError) as error:
        return Malformed(f"it is no valid JSON: {_short(error)}")


def kind_of(value: Any) -> str:
    """What a decoded value is, in JSON's words."""
    kinds = {type(None): "null", bool: "a boolean", str: "a string", list: "a list", dict: "an object"}
    return kinds.get(type(value), "a number")


def last(item: Located, name: str) -> Member | None:
    """The member that Go would take for a field of that name: of those whose keys differ by case at most, the last."""
    return item.fields.get(name.casefold())


def string(item: Located, name: str) -> str:
    """The field as Go reads it into a string: null leaves what stood before, "" if nothing did.

    A member that is neither string nor null is not looked at: its type is a problem of its own.
    """
    folded = name.casefold()
    member = item.fields.get(folded)
    if member is None:
        return ""
    if isinstance(member.value, str):
        return member.value
    texts = [m.value for m in item.members if m.key.casefold() == folded and isinstance(m.value, str)]
    return texts[-1] if texts else ""


def unknown_keys(item: Located, names: Iterable[str]) -> list[str]:
    """The keys that match none of the names."""
    known = {name.casefold() for name in names}
    return [member.key for member in item.members if member.key.casefold() not in known]


def setting(text: str, item: Located, name: str, value: str) -> Edit:
    """The edit that makes a string field of an object read as `value`, in the layout of the object's other members."""
    member = last(item, name)
    key, written = _text(name), _text(value)
    if member is not None and member.key == name:
        return Edit(member.start, member.end, written)
    if not item.members:
        return Edit(item.start, item.end, f"{{{key}: {written}}}")
    first, final = item.members[0], item.members[-1]
    key_start = _skip(text, item.start + 1)
    colon = text.rindex(":", key_start, first.start)
    after_colon = text[colon + 1 : first.start]
    if len(item.members) > 1:
        comma = text.index(",", first.end)
        gap = text[comma + 1 : _skip(text, comma + 1)]
    else:
        gap = text[item.start + 1 : key_start] or after_colon
    return Edit(final.end, final.end, f",{gap}{key}:{after_colon}{written}")


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text after edits that do not overlap."""
    pieces: list[str] = []
    at = 0
    for edit in sorted(edits):
        pieces += text[at : edit.start], edit.text
        at = edit.end
    return "".join((*pieces, text[at:]))


def type_problem(item: Located, types: Mapping[str, type]) -> str:
    """What Go would refuse to decode: a member whose value has another type than its field; "" if there is none."""
    folded = {name.casefold(): (name, kind) for name, kind in types.items()}
    for member in item.members:
        name, kind = folded.get(member.key.casefold(), ("", object))
        if member.value is not None and not isinstance(member.value, kind):
            return f"{name} is {kind_of(member.value)}, {kind_of(kind())} is needed"
    return ""


def _items(text: str, whole: list[Any]) -> Iterable[Located]:
    """Of a text that is known to be this list."""
    at = _skip(text, _skip(text, 0) + 1)
    for _ in whole:
        item = _located(text, at)
        yield item
        at = _skip(text, _skip(text, item.end) + 1)  # behind the comma


def _located(text: str, start: int) -> Located:
    if text[start] != "{":
        value, end = _scan(text, start)
        return Located(value, start, end)
    members = []
    at = _skip(text, start + 1)
    while text[at] != "}":
        key, at = _scan(text, at)
        value_start = _skip(text, _skip(text, at) + 1)  # behind the colon
        value, end = _scan(text, value_start)
        members.append(Member(key, value, value_start, end))
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)
    fields = {member.key.casefold(): member for member in members}
    return Located({member.key: member.value for member in members}, start, at + 1, tuple(members), fields)


def _skip(text: str, at: int) -> int:
    blanks = _blanks(text, at)
    return blanks.end() if blanks else at


def _short(error: Exception) -> str:
    return str(error) or type(error).__name__
