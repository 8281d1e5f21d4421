"""Objects of a CNI configuration, read as Go's encoding/json reads them.

Keys match without regard to case, null counts as absent, keys that nobody knows are skipped: Go does so in silence, so
both are told here. Everything wrong is gathered, not only the first.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

import msgspec
from msgspec import Struct

from poolwarden.ipam.address import brief
from poolwarden.ipam.network import UNDECODABLE, go_keys

MOST_STRANGERS = 10
"""Unknown keys that are told: more are another program's configuration, and searching for similar ones costs time."""
MOST_MISTYPED = 20
"""Items of the wrong type that are told of one list."""
MOST_ITEMS = 1000
"""Objects of one list, plugins of one chain, that are judged: no real configuration has as many."""
LONGEST_KEY = 40
_TELLING = frozenset(
    (
        *("range", "range_start", "range_end", "gateway", "dst", "gw", "address", "network_name"),
        *("cooldown_period", "low_ip_count", "target_ip_count", "high_ip_count"),
    )
)
"""Keys whose value a message quotes, since it is what is judged. Any other may be a secret."""
_KINDS: Mapping[type, str] = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}


class Remark(Struct, frozen=True):
    """What is to be said of a key; `key` is its path in the configuration (`ipam.ipRanges[0].range`)."""

    key: str
    text: str


class Notes:
    """What is found while reading: faults make a plugin refuse the configuration, remarks do not. Each is told once."""

    def __init__(self) -> None:
        self._faults: dict[Remark, None] = {}
        self._remarks: dict[Remark, None] = {}
        self._strangers = 0

    @property
    def faults(self) -> tuple[Remark, ...]:
        """All faults, in the order of reading."""
        return tuple(self._faults)

    @property
    def remarks(self) -> tuple[Remark, ...]:
        """All remarks, in the order of reading."""
        return tuple(self._remarks)

    def add_fault(self, key: str, text: str) -> None:
        """Note what makes the configuration unusable."""
        self._faults[Remark(key, text)] = None

    def add_remark(self, key: str, text: str) -> None:
        """Note what its author may not have meant."""
        self._remarks[Remark(key, text)] = None

    def room_for_a_stranger(self) -> bool:
        """Whether one more unknown key may be told, of all blocks together."""
        self._strangers += 1
        return self._strangers <= MOST_STRANGERS


class Block:
    """One object of the configuration; a value of the wrong type is a fault and reads as absent."""

    def __init__(self, values: Mapping[str, Any], path: str, notes: Notes) -> None:
        self._values = go_keys(values)
        self._keys = tuple(values)
        self._path = path
        self._notes = notes

    def has(self, key: str) -> bool:
        """Whether it says anything about the key."""
        return key.casefold() in self._values

    def text(self, key: str) -> str:
        """A string, "" if absent."""
        value = self._values.get(key.casefold(), "")
        return value if self._is(key, value, str, "a string") else ""

    def number(self, key: str) -> int:
        """A whole number, 0 if absent."""
        value = self._values.get(key.casefold(), 0)
        # To Python a boolean is an int.
        return value if self._is(key, value, int, "a whole number", not isinstance(value, bool)) else 0

    def flag(self, key: str) -> bool:
        """A boolean, False if absent."""
        value = self._values.get(key.casefold(), False)
        return value if self._is(key, value, bool, "true or false") else False

    def block(self, key: str) -> "Block":
        """An object, an empty one if absent."""
        value = self._values.get(key.casefold(), {})
        return Block(value if self._is(key, value, dict, "an object") else {}, f"{self._path}.{key}", self._notes)

    def blocks(self, key: str) -> tuple["Block", ...]:
        """A list of objects."""
        items = tuple(islice(self._items(key, dict, "a list of objects"), MOST_ITEMS + 1))
        if len(items) > MOST_ITEMS:
            self.remark(key, f"only the first {MOST_ITEMS} items are judged")
        return tuple(Block(item, f"{self._path}.{key}[{at}]", self._notes) for at, item in items[:MOST_ITEMS])

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        return tuple(item for _, item in self._items(key, str, "a list of strings"))

    def fault(self, key: str, text: str) -> None:
        """Note what makes the configuration unusable."""
        self._notes.add_fault(f"{self._path}.{key}", text)

    def remark(self, key: str, text: str) -> None:
        """Note what its author may not have meant."""
        self._notes.add_remark(f"{self._path}.{key}", text)

    def note_unknown(self, known: frozenset[str], reader: str) -> None:
        """Note each key that its reader skips."""
        folded = {key.casefold() for key in known}
        for key in (key for key in self._keys if key.casefold() not in folded):
            if not self._notes.room_for_a_stranger():
                return
            meant = get_close_matches(key[:LONGEST_KEY], sorted(known), 1)
            shown = repr(key[:LONGEST_KEY])[1:-1]
            self.remark(shown, f"{reader} ignores this key{f', is {meant[0]} meant?' if meant else ''}")

    def _items(self, key: str, kind: type, wanted: str) -> Iterator[tuple[int, Any]]:
        value = self._values.get(key.casefold(), [])
        if not self._is(key, value, list, wanted):
            return
        mistyped = 0
        for at, item in enumerate(value):
            if isinstance(item, kind):
                yield at, item
                continue
            mistyped += 1
            if mistyped > MOST_MISTYPED:
                return
            self.fault(f"{key}[{at}]", f"{_kind_of(item)} is not allowed; needed: {wanted.removeprefix('a list of ')}")

    def _is(self, key: str, value: object, kind: type, wanted: str, besides: bool = True) -> bool:  # noqa: FBT001, FBT002
        if isinstance(value, kind) and besides:
            return True
        self.fault(key, f"{_shown(value) if key in _TELLING else _kind_of(value)} is not allowed; needed: {wanted}")
        return False


class CniConfig(Struct, frozen=True, tag=True):
    """A configuration that can be read: its plugins (one, or a chain), each with its path ("" for the only one).

    The keys of a plugin are folded (`go_keys`). `passed_over` plugins of a chain that is too long are not among them.
    """

    plugins: tuple[tuple[str, Mapping[str, Any]], ...]
    passed_over: int = 0


class NoCniConfig(Struct, frozen=True, tag=True):
    """A text that Multus cannot read as a CNI configuration."""

    problem: str


def ipam_type(ipam: Mapping[str, Any]) -> str:
    """The plugin that an `ipam` block is for, "" if it names none."""
    kind = go_keys(ipam).get("type")
    return kind if isinstance(kind, str) else ""


def parse_cni_config(text: str) -> CniConfig | NoCniConfig:
    """Read a CNI configuration or configuration list."""
    try:
        whole = msgspec.json.decode(text)
    except UNDECODABLE as error:
        return NoCniConfig(f"it is no valid JSON: {error}")
    if not isinstance(whole, dict):
        return NoCniConfig("it is no JSON object; needed: a CNI configuration")
    top = go_keys(whole)
    chain = top.get("plugins")
    if chain is None:
        return CniConfig((("", top),))
    if not isinstance(chain, list) or not all(isinstance(plugin, dict) for plugin in chain):
        return NoCniConfig("plugins is no list of objects")
    plugins = tuple((f"plugins[{at}].", go_keys(plugin)) for at, plugin in enumerate(chain[:MOST_ITEMS]))
    return CniConfig(plugins, max(0, len(chain) - MOST_ITEMS))


def _shown(value: object) -> str:
    """A value as JSON would have it, if it is neither list nor object."""
    if isinstance(value, str):
        return brief(value)
    return msgspec.json.encode(value).decode() if isinstance(value, bool | int | float) else _kind_of(value)


def _kind_of(value: object) -> str:
    return _KINDS.get(type(value), "null" if value is None else "an object")
