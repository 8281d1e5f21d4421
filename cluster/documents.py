"""Kubernetes objects in text that `kubectl get ... -o yaml` or `-o json` printed, and what is wrong with such text."""

import json
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, field

from poolwarden.cluster.yaml_text import Document, YamlError, load

# At the start of a line it ends a document, whatever it stands in (YAML 1.2.2, section 9.1.2).
_SEPARATOR = re.compile(rb"\n---(?:[ \t\r]*\n|(?=[ \t])|\Z)")
_JSON_START = re.compile(rb'\s*\{\s*["}]')
_NEXT_JSON = re.compile(r"^\{", re.MULTILINE)
_KIND_LINE = re.compile(r"^kind:[ \t]*(.*?)\s*$", re.MULTILINE)
_ITEMS_LINE = re.compile(r"^items:", re.MULTILINE)
_NOTHING = re.compile(rb"(?:[ \t\r]*(?:[#%][^\n]*)?\n)*[ \t\r]*(?:[#%][^\n]*)?")  # blank lines, comments, directives
_VISIBLE = re.compile(r"\S")
_NEWLINE = b"\n"
_LIST = "List"


class Source(Struct, frozen=True):
    """A stretch of an input; `first_line` counts from 1."""

    path: str
    first_line: int
    text: bytes

    def at(self, line: int) -> str:
        """The place of a line of this stretch, counted from 0."""
        return f"{self.path}:{self.first_line + line}"

    def line_of(self, raw: Raw) -> int:
        """The line of an object whose JSON text stands in this stretch as it is."""
        return self.text.count(_NEWLINE, 0, max(0, self.text.find(bytes(raw))))


class Given(Struct, frozen=True):
    """An object as it was given.

    Attributes:
        resource_version: as given, "" if none was.
        raw: its JSON text.
        line: where it begins in `source`, from 0; -1 where that was not looked for yet.
    """

    group: str
    kind: str
    namespace: str
    name: str
    resource_version: str
    raw: Raw
    source: Source
    line: int

    @property
    def where(self) -> str:
        """File and line."""
        return _place(self.source, self.line, self.raw)

    def rewritten(self, raw: bytes) -> "Given":
        """The object after a change; it still stands where it was given."""
        line = self.line if self.line >= 0 else self.source.line_of(self.raw)
        return msgspec.structs.replace(self, raw=Raw(raw), line=line)


class Fault(Struct, frozen=True):
    """Something that could not be read.

    Attributes:
        message: file, line, and what is wrong.
        kind: only objects of this kind may be missing for it; "": any may.
        foreign: a well-formed document without any mark of a Kubernetes object.
    """

    message: str
    kind: str = ""
    foreign: bool = False


class _Metadata(Struct, frozen=True):
    name: str | None = None
    generate_name: str | None = field(name="generateName", default=None)
    namespace: str | None = None
    resource_version: str | None = field(name="resourceVersion", default=None)


class _Kind(Struct, frozen=True):
    kind: str | None = None


class _Marks(Struct, frozen=True):
    """What shows that a document is, or was, an object or a list."""

    api_version: Raw | UnsetType = field(name="apiVersion", default=UNSET)
    kind: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET
    items: Raw | UnsetType = UNSET
    spec: Raw | UnsetType = UNSET
    status: Raw | UnsetType = UNSET


class _Header(Struct, frozen=True):
    api_version: str | None = field(name="apiVersion", default=None)
    kind: str | None = None
    metadata: _Metadata | None = None
    items: Raw | UnsetType = UNSET


_HEADER = msgspec.json.Decoder(_Header)
_ITEMS = msgspec.json.Decoder(list[Raw] | None)
_UNDECODABLE = (msgspec.DecodeError, RecursionError)
_ANY_JSON = json.JSONDecoder(parse_int=float)  # to find the end of a value; an int of 5,000 digits would raise


def parse(text: bytes, path: str) -> Iterator[Given | Fault]:
    """All objects of one input, and all its faults; `path` is what messages call it."""
    if text.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        yield Fault(f"{path}: UTF-16, not UTF-8 (PowerShell: ... | Out-File -Encoding utf8)")
        return
    text = text.removeprefix(BOM_UTF8)
    try:
        text.decode()
    except UnicodeDecodeError as error:
        yield Fault(f"{Source(path, 1, text).at(text.count(_NEWLINE, 0, error.start))}: not UTF-8")
        return
    stretches = [source for source in _stretches(text, path) if not _NOTHING.fullmatch(source.text)]
    if not stretches:
        yield Fault(f"{path}: empty")
    for source in stretches:
        if _JSON_START.match(source.text):
            yield from _json(source)
        else:
            # The text may have been cut off in its last stretch, and then anything may have followed.
            yield from _yaml(source, whole=source is not stretches[-1])


def _stretches(text: bytes, path: str) -> Iterator[Source]:
    """The text between lines that separate documents; content on such a line (`--- # pods`) belongs to what follows."""
    start, line = 0, 1
    if text.startswith(b"---"):
        text, line = b"\n" + text, 0
    for match in _SEPARATOR.finditer(text):
        yield Source(path, line, text[start : match.start() + 1])
        line += text.count(_NEWLINE, start, match.end())
        start = match.end()
    yield Source(path, line, text[start:])


def _json(source: Source) -> Iterator[Given | Fault]:
    try:
        header = _HEADER.decode(source.text)
    except _UNDECODABLE:
        return _json_documents(source)
    raw = Raw(source.text)
    return _contents(header, raw, source, -1) if header.kind else _document(raw, source, -1)


def _json_documents(source: Source) -> Iterator[Given | Fault]:
    """Several documents one after the other, or a broken one; after a fault the next is sought at the start of a line."""
    text = source.text.decode()
    position = line = 0
    while match := _VISIBLE.search(text, position):
        line += text.count("\n", position, match.start())
        position = match.start()
        try:
            _, end = _ANY_JSON.raw_decode(text, position)
        except json.JSONDecodeError as error:
            yield Fault(f"{source.at(error.lineno - 1)}: {error.msg}")
            end = _next_json(text, position)
        except RecursionError:
            yield Fault(f"{source.at(line)}: nested too deeply")
            end = _next_json(text, position)
        else:
            yield from _document(Raw(text[position:end].encode()), source, line)
        line += text.count("\n", position, end)
        position = end


def _next_json(text: str, position: int) -> int:
    following = _NEXT_JSON.search(text, position + 1)
    return following.start() if following else len(text)


def _yaml(source: Source, *, whole: bool) -> Iterator[Given | Fault]:
    text = source.text.decode()
    try:
        for document in load(text):
            if document.value is not None:
                raw = Raw(msgspec.json.encode(document.value))
                yield from _document(raw, source, document.line, _item_lines(document))
    except YamlError as error:
        yield Fault(f"{source.at(error.line)}: {error}", _only_kind(text) if whole else "")
    except RecursionError:
        yield Fault(f"{source.at(0)}: nested too deeply")


def _item_lines(document: Document) -> Sequence[int]:
    items = document.value.get("items") if isinstance(document.value, dict) else None
    return [document.lines.get(id(item), document.line) for item in items] if isinstance(items, list) else ()


def _only_kind(text: str) -> str:
    """The kind of the one object that a broken text holds, "" if it may hold others."""
    kinds = _KIND_LINE.findall(text)
    if len(kinds) != 1 or kinds[0].endswith(_LIST) or _ITEMS_LINE.search(text):
        return ""
    return str(kinds[0])


def _document(raw: Raw, source: Source, line: int, item_lines: Sequence[int] = ()) -> Iterator[Given | Fault]:
    if _is_foreign(raw):
        yield Fault(f"{_place(source, line, raw)}: no Kubernetes object", foreign=True)
        return
    try:
        header = _HEADER.decode(raw)
    except _UNDECODABLE as error:
        yield _misfit(raw, source, line, str(error))
    else:
        yield from _contents(header, raw, source, line, item_lines)


def _contents(
    header: _Header, raw: Raw, source: Source, line: int, item_lines: Sequence[int] = ()
) -> Iterator[Given | Fault]:
    """An object, or those of a list."""
    kind = header.kind or ""
    named = header.metadata and header.metadata.name
    if isinstance(header.items, UnsetType) or named or not kind.endswith(_LIST):
        yield _object(header, raw, source, line)
        return
    # The items of a `PodList` carry no kind of their own, those of a `List` do.
    inherited = _Header(header.api_version, kind.removesuffix(_LIST)) if kind != _LIST else _Header()
    try:
        items = _ITEMS.decode(header.items) or ()
    except _UNDECODABLE as error:
        yield _misfit(raw, source, line, str(error))
        return
    for number, item in enumerate(items):
        item_line = item_lines[number] if item_lines else -1
        try:
            yield _object(_HEADER.decode(item), item, source, item_line, inherited)
        except _UNDECODABLE as error:
            yield _misfit(item, source, item_line, str(error), inherited.kind)


def _object(
    header: _Header,
    raw: Raw,
    source: Source,
    line: int,
    inherited: _Header = _Header(),  # noqa: B008 - frozen
) -> Given | Fault:
    kind = header.kind or inherited.kind
    version = header.api_version or inherited.api_version
    metadata = header.metadata or _Metadata()
    name = metadata.name or metadata.generate_name  # an object that is yet to be made may have no more than that
    if not kind:
        return _misfit(raw, source, line, "object without kind")
    if not version:
        return _misfit(raw, source, line, f"{kind} without apiVersion", kind)
    if not name:
        return _misfit(raw, source, line, f"{kind} without metadata.name", kind)
    if not header.kind:
        raw = Raw(b'{"apiVersion":%b,"kind":%b,%b' % (_quoted(version), _quoted(kind), bytes(raw)[1:]))
    group = version.rpartition("/")[0]
    return Given(group, kind, metadata.namespace or "", name, metadata.resource_version or "", raw, source, line)


def _misfit(raw: Raw, source: Source, line: int, why: str, kind: str | None = None) -> Fault:
    """The fault of a document that is no object. A broken list may have held objects of any kind."""
    kind = kind or _kind_of(raw)
    return Fault(f"{_place(source, line, raw)}: {why}", "" if kind.endswith(_LIST) else kind)


def _place(source: Source, line: int, raw: Raw) -> str:
    return source.at(line if line >= 0 else source.line_of(raw))


def _quoted(text: str) -> bytes:
    return msgspec.json.encode(text)


def _kind_of(raw: Raw) -> str:
    try:
        return msgspec.json.decode(raw, type=_Kind).kind or ""
    except _UNDECODABLE:
        return ""


def _is_foreign(raw: Raw) -> bool:
    try:
        return msgspec.json.decode(raw, type=_Marks) == _Marks()
    except _UNDECODABLE:
        return not bytes(raw).startswith(b"{")
