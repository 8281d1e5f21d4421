"""The object of a review, decoded to the fields that rules about its kind need."""

import re
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw, Struct

from poolwarden.ipam.network import UNDECODABLE
from poolwarden.webhook.pod.problem import quoted
from poolwarden.webhook.pool.fault import Fault
from poolwarden.webhook.review import NULL

T = TypeVar("T")

_AT = re.compile(r"(?P<what>.*?)(?: - at `\$\.?(?P<path>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>[^`]*)`")
_WORDS = {
    "int": "a whole number",
    "str": "a string",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}


class _Metadata(Struct, frozen=True, gc=False, rename="camel"):
    name: str = ""
    namespace: str = ""
    deletion_timestamp: str | None = None


class Head(Struct, frozen=True, gc=False):
    """What every object tells of itself."""

    metadata: _Metadata = _Metadata()

    @property
    def deleted(self) -> bool:
        """Whether it only waits for its finalizers: nothing may hinder those."""
        return self.metadata.deletion_timestamp is not None


class Read(Struct, Generic[T], frozen=True):
    """An object that could be decoded."""

    value: T


class Misshapen(Struct, frozen=True):
    """An object that has a value of the wrong type."""

    fault: Fault


class Missing(Struct, frozen=True):
    """There is no object: none stood before a CREATE, none stands after a DELETE."""


_HEAD = msgspec.json.Decoder(Head)


def head_of(raw: Raw) -> Head:
    """The object's metadata; empty where it cannot be read."""
    try:
        return _HEAD.decode(raw)
    except UNDECODABLE:
        return Head()


def read(raw: Raw, wire: type[T]) -> Read[T] | Misshapen | Missing:
    """Decode the object of a review to the fields of `wire`."""
    if bytes(raw) == bytes(NULL):
        return Missing()
    try:
        return Read(msgspec.json.decode(raw, type=wire))
    except UNDECODABLE as error:
        return Misshapen(_fault(raw, str(error)))


def _fault(raw: Raw, error: str) -> Fault:
    """The field, its value, and what is allowed there, from what the decoder says."""
    match = _AT.fullmatch(error)
    path = (match["path"] or "") if match else ""
    expected = _EXPECTED.match(error)
    if expected is None:
        return Fault(path or "the object", error.partition(" - at ")[0])
    allowed = " or ".join(_WORDS.get(word, word) for word in expected["wanted"].split(" | "))
    value = _value_at(raw, path)
    hint = " (YAML reads Off, No, On and Yes without quotes as booleans)" if value in {"true", "false"} else ""
    return Fault(path or "the object", f"{value} is not allowed; allowed: {allowed}{hint}")


def _value_at(raw: Raw, path: str) -> str:
    try:
        value: Any = msgspec.json.decode(raw)
        for step in re.findall(r"[^.\[\]]+", path):
            value = value[int(step) if isinstance(value, list) else step]
        if isinstance(value, dict | list):  # what is in it may be a secret
            return "an object" if isinstance(value, dict) else "a list"
        return quoted(value) if isinstance(value, str) else msgspec.json.encode(value).decode()
    except (*UNDECODABLE, LookupError, TypeError, ValueError):
        return "this value"
