"""YAML as kubectl reads and writes it: JSON in another dress.

PyYAML's own loader turns dates into datetimes and `1:30` into 90, and is several times slower than what is put
together here from libyaml's events. Plain scalars mean what they mean to kubectl (sigs.k8s.io/yaml: YAML 1.1 without
dates and base-60 numbers). What JSON cannot say (merge keys, custom tags, mappings as keys) is an error.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import yaml
from msgspec import Struct

try:
    from yaml import CSafeDumper as Dumper
    from yaml import CSafeLoader as Loader
except ImportError:  # PyYAML was built without libyaml: as right, but slow
    from yaml import SafeDumper as Dumper  # type: ignore[assignment] # both have the emitter's interface
    from yaml import SafeLoader as Loader  # type: ignore[assignment] # likewise the parser's

_MOST_ALIASED = 10_000_000  # characters that a document's aliases may add when written out: an alias bomb adds more
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"), False),
}
_NUMERIC_START = frozenset("+-.0123456789")
_DECIMAL = re.compile("[-+]?(0|[1-9][0-9]{0,99})")  # longer ones are floats, or text
_OCTAL = re.compile("[-+]?0o?[0-7]+")
_OTHER_BASE = re.compile("[-+]?0(x[0-9a-fA-F]+|b[01]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_EXACT = 2**53  # below it a float holds every integer
_NOT_TEXT_TO_OTHERS = re.compile(r"[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9_]*)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*|<<|=")
_TAGS = frozenset({None, "!", "tag:yaml.org,2002:str", "tag:yaml.org,2002:map", "tag:yaml.org,2002:seq"})
_UNCLOSED = "found unexpected end of stream"
_ITEM_DEPTH = 2  # an item of a list stands in `items`, which stands in the document


class Document(Struct, frozen=True):
    """One document, decoded.

    Attributes:
        value: what JSON would say.
        line: where it begins, from 0.
        lines: where its mappings begin, by `id`, down to the items of a `List`.
    """

    value: Any
    line: int
    lines: Mapping[int, int]


class YamlError(ValueError):
    """The text is no YAML, or says what JSON cannot; `line` counts from 0."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def load(text: str) -> tuple[Document, ...]:
    """All documents of a text, or none.

    Raises:
        YamlError: at the first fault.
    """
    try:
        return tuple(_documents(text))
    except yaml.MarkedYAMLError as error:
        # Of a quote that is never closed its beginning is the place to look at.
        mark = error.context_mark if error.problem == _UNCLOSED else error.problem_mark
        raise YamlError(mark.line if mark else 0, error.problem or "no YAML") from None
    except yaml.reader.ReaderError as error:
        raise YamlError(text.count("\n", 0, error.position), error.reason) from None


def dump(value: object) -> str:
    """One document; text that some reader of YAML would take for something else is quoted."""
    return str(yaml.emit(_stream(value), Dumper=Dumper, allow_unicode=True, width=-1))


def _documents(text: str) -> Iterator[Document]:
    composer = _Composer()
    handlers: dict[type[yaml.Event], Callable[[Any], None]] = {
        yaml.ScalarEvent: composer.scalar,
        yaml.MappingStartEvent: composer.start_mapping,
        yaml.MappingEndEvent: composer.end,
        yaml.SequenceStartEvent: composer.start_sequence,
        yaml.SequenceEndEvent: composer.end,
        yaml.AliasEvent: composer.alias,
    }
    for event in yaml.parse(text, Loader=Loader):
        handler = handlers.get(type(event))
        if handler:
            handler(event)
        elif isinstance(event, yaml.DocumentEndEvent):
            yield composer.document()


class _Frame:
    """A mapping or list that is not closed yet."""

    __slots__ = ("anchor", "before", "key", "value")

    def __init__(self, value: dict[str, Any] | list[Any], anchor: str | None, before: int) -> None:
        self.value = value
        self.anchor = anchor
        self.before = before  # the size of the document where this began
        self.key: str | None = None


class _Composer:
    """Puts one document together, event by event, without recursion."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._open: list[_Frame] = []
        self._root: Any = None
        self._line = -1
        self._lines: dict[int, int] = {}
        self._size = 0  # characters of scalars so far, and one for each node
        self._aliased = 0
        self._anchors: dict[str, tuple[Any, int]] = {}

    def document(self) -> Document:
        document = Document(self._root, self._line, self._lines)
        self._begin()
        return document

    def scalar(self, event: yaml.ScalarEvent) -> None:
        size = len(event.value) + 1
        self._size += size
        frame = self._open[-1] if self._open else None
        if frame and frame.key is None and isinstance(frame.value, dict):
            self._key(frame, event)
            return
        value = event.value
        if event.implicit[0]:
            value = _plain(value)
        elif event.tag not in _TAGS:
            raise _error(event, f"tag {event.tag} is not supported")
        if event.anchor:
            self._anchors[event.anchor] = (value, size)
        self._put(event, value)

    def start_mapping(self, event: yaml.MappingStartEvent) -> None:
        value: dict[str, Any] = {}
        if len(self._open) <= _ITEM_DEPTH:
            self._lines[id(value)] = _line(event)
        self._start(event, value)

    def start_sequence(self, event: yaml.SequenceStartEvent) -> None:
        self._start(event, [])

    def _start(self, event: yaml.CollectionStartEvent, value: dict[str, Any] | list[Any]) -> None:
        if event.tag not in _TAGS:
            raise _error(event, f"tag {event.tag} is not supported")
        self._put(event, value)
        self._open.append(_Frame(value, event.anchor, self._size))
        self._size += 1

    def end(self, _: yaml.CollectionEndEvent) -> None:
        frame = self._open.pop()
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.value, self._size - frame.before)

    def alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise _error(event, f"alias *{event.anchor} stands for nothing complete")
        value, size = self._anchors[event.anchor]
        self._size += size
        self._aliased += size
        if self._aliased > _MOST_ALIASED:
            raise _error(event, "the aliases of this document stand for too much text")
        self._put(event, value)

    def _key(self, frame: _Frame, event: yaml.ScalarEvent) -> None:
        if event.value == "<<" and event.implicit[0]:
            raise _error(event, "merge keys are not supported")
        if event.value in frame.value:
            raise _error(event, f"key {event.value!r} stands there twice")
        frame.key = event.value

    def _put(self, event: yaml.NodeEvent, value: Any) -> None:
        if not self._open:
            self._root, self._line = value, _line(event)
            return
        frame = self._open[-1]
        if isinstance(frame.value, list):
            frame.value.append(value)
        elif frame.key is None:
            raise _error(event, "a key must be text")
        else:
            frame.value[frame.key] = value
            frame.key = None


def _error(event: yaml.Event, message: str) -> YamlError:
    return YamlError(_line(event), message)


def _line(event: yaml.Event) -> int:
    return event.start_mark.line if event.start_mark else 0


def _plain(text: str) -> Any:
    """What an unquoted scalar means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMERIC_START:
        return _number(text)
    return text


def _number(text: str) -> int | float | str:
    digits = text.replace("_", "")
    if _DECIMAL.fullmatch(digits):
        return int(digits)
    if _OCTAL.fullmatch(digits):
        return int(digits.replace("o", ""), 8)
    if _OTHER_BASE.fullmatch(digits):
        return int(digits, 0)
    if _FLOAT.fullmatch(digits) and math.isfinite(float(digits)):
        # Go writes 1e3 as 1000 in JSON, so kubectl does.
        value = float(digits)
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    return text


def _stream(value: object) -> Iterator[yaml.Event]:
    yield yaml.StreamStartEvent()
    yield yaml.DocumentStartEvent(explicit=False)
    yield from _node(value)
    yield yaml.DocumentEndEvent(explicit=False)
    yield yaml.StreamEndEvent()


def _node(value: object) -> Iterator[yaml.Event]:
    match value:
        case dict():
            yield yaml.MappingStartEvent(None, None, implicit=True, flow_style=not value)
            for key, member in value.items():
                yield _text(key)
                yield from _node(member)
            yield yaml.MappingEndEvent()
        case list():
            yield yaml.SequenceStartEvent(None, None, implicit=True, flow_style=not value)
            for member in value:
                yield from _node(member)
            yield yaml.SequenceEndEvent()
        case str():
            yield _text(value)
        case None | bool():
            yield _plain_scalar({None: "null", True: "true", False: "false"}[value])
        case _:
            yield _plain_scalar(repr(value))


def _text(text: str) -> yaml.ScalarEvent:
    plain = _plain(text) is text and not _NOT_TEXT_TO_OTHERS.fullmatch(text)
    style = "|" if "\n" in text else None if plain else '"'
    return yaml.ScalarEvent(None, None, (plain, True), text, style=style)


def _plain_scalar(text: str) -> yaml.ScalarEvent:
    return yaml.ScalarEvent(None, None, (True, False), text)
