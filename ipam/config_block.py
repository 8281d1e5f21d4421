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

from poolwarden.ipam.network import UNDECODABLE

MOST_STRANGERS = 10
"""Unknown keys that are told: more are another program's configuration, and searching for similar ones costs time."""
LONGEST_KEY = 40


class Remark(Struct, frozen=True):
    """What is to be said of a key; `key` is its path in the configuration (`ipam.ipRanges[0].range`)."""

    key: str
    text: str


class Notes:
    """What is found while reading: faults make a plugin refuse the configuration, remarks do not. Each is told once."""

    def __init__(self) -> None:
        self._faults: dict[Remark, None] = {}
        self._remarks: dict[Remark, None] = {}

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


class Block:
    """One object of the configuration; a value of the wrong type is a fault and reads as absent."""

    def __init__(self, values: Mapping[str, Any], path: str, notes: Notes) -> None:
        self._values = {key.casefold(): value for key, value in values.items() if value is not None}
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
        items = self._items(key, dict, "a list of objects")
        return tuple(Block(item, f"{self._path}.{key}[{at}]", self._notes) for at, item in items)

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
        strangers = (key for key in self._keys if key.casefold() not in folded)
        for key in islice(strangers, MOST_STRANGERS):
            meant = get_close_matches(key[:LONGEST_KEY], known, 1)
            self.remark(key[:LONGEST_KEY], f"{reader} ignores this key{f', is {meant[0]} meant?' if meant else ''}")

    def _items(self, key: str, kind: type, wanted: str) -> Iterator[tuple[int, Any]]:
        value = self._values.get(key.casefold(), [])
        if not self._is(key, value, list, wanted):
            return
        for at, item in enumerate(value):
            if self._is(f"{key}[{at}]", item, kind, wanted.removeprefix("a list of ")):
                yield at, item

    def _is(self, key: str, value: object, kind: type, wanted: str, besides: bool = True) -> bool:  # noqa: FBT001, FBT002
        if isinstance(value, kind) and besides:
            return True
        self.fault(key, f"{_shown(value)} is not allowed; needed: {wanted}")
        return False


class CniConfig(Struct, frozen=True, tag=True):
    """A configuration that can be read: its plugins (one, or a chain), each with its path ("" for the only one)."""

    plugins: tuple[tuple[str, Mapping[str, Any]], ...]


class NoCniConfig(Struct, frozen=True, tag=True):
    """A text that Multus cannot read as a CNI configuration."""

    problem: str


def parse_cni_config(text: str) -> CniConfig | NoCniConfig:
    """Read a CNI configuration or configuration list."""
    try:
        whole = msgspec.json.decode(text)
    except UNDECODABLE as error:
        return NoCniConfig(f"it is no valid JSON: {error}")
    if not isinstance(whole, dict):
        return NoCniConfig("it is no JSON object; needed: a CNI configuration")
    chain = whole.get("plugins")
    if chain is None:
        return CniConfig((("", whole),))
    if not isinstance(chain, list) or not all(isinstance(plugin, dict) for plugin in chain):
        return NoCniConfig("plugins is no list of objects")
    return CniConfig(tuple((f"plugins[{at}].", plugin) for at, plugin in enumerate(chain)))


def _shown(value: object) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else f"{text[:59]}…"  # noqa: PLR2004 - a line of a terminal
