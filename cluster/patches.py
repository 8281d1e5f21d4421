"""The two patches that we send, applied here as the API server applies them. Values are decoded JSON, never changed."""

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec import Struct

_AFTER_LAST = "-"  # RFC 6901: the (nonexistent) element after the last
_INDEX = re.compile("0|[1-9][0-9]{0,8}")


class Patched(Struct, frozen=True, tag=True):
    """The new value."""

    value: Any


class Mismatch(Struct, frozen=True, tag=True):
    """The value is not what the patch expects: a test failed, or a path is not there."""

    message: str


class Malformed(Struct, frozen=True, tag=True):
    """The patch is none, whatever the value."""

    message: str


def merge_patch(value: object, patch: object) -> Any:
    """RFC 7396: null removes, a mapping merges, anything else replaces."""
    if not isinstance(patch, Mapping):
        return deepcopy(patch)
    merged = dict(value) if isinstance(value, Mapping) else {}
    for key, change in patch.items():
        if change is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), change)
    return merged


def json_patch(value: object, operations: Sequence[Mapping[str, Any]]) -> Patched | Mismatch | Malformed:
    """RFC 6902, all operations or none; where the API server's library departs from it, the API server is followed."""
    document = deepcopy(value)
    for operation in operations:
        try:
            document = _apply(document, operation)
        except _MismatchError as error:
            return Mismatch(f"{operation.get('op')} {operation.get('path')}: {error}")
        except _MalformedError as error:
            return Malformed(f"{operation}: {error}")
    return Patched(document)


class _MismatchError(Exception):
    pass


class _MalformedError(Exception):
    pass


def _apply(document: Any, operation: Mapping[str, Any]) -> Any:
    path = _pointer(operation, "path")
    match operation.get("op"):
        case "add":
            return _add(document, path, _operand(operation))
        case "remove":
            return _remove(document, path)
        case "replace":
            return _replace(document, path, _operand(operation))
        case "move":
            source = _pointer(operation, "from")
            if path[: len(source)] == source and path != source:
                raise _MalformedError("a value cannot be moved into itself")
            moved = _at(document, source)
            return _add(_remove(document, source), path, moved)
        case "copy":
            return _add(document, path, deepcopy(_at(document, _pointer(operation, "from"))))
        case "test":
            _test(document, path, _operand(operation))
            return document
        case _:
            raise _MalformedError("no such operation")


def _pointer(operation: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """RFC 6901."""
    text = operation.get(key)
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise _MalformedError(f"{key} is no JSON pointer")
    return tuple(token.replace("~1", "/").replace("~0", "~") for token in text.split("/")[1:])


def _operand(operation: Mapping[str, Any]) -> Any:
    if "value" not in operation:
        raise _MalformedError("no value")
    return deepcopy(operation["value"])


def _at(document: Any, path: Sequence[str]) -> Any:
    for token in path:
        match document:
            case dict() if token in document:
                document = document[token]
            case list():
                document = document[_index(token, len(document))]
            case _:
                raise _MismatchError(f"there is no {token!r}")
    return document


def _index(token: str, length: int) -> int:
    if not _INDEX.fullmatch(token) or int(token) >= length:
        raise _MismatchError(f"there is no element {token!r} in a list of {length}")
    return int(token)


def _add(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    match _at(document, path[:-1]):
        case list() as parent if path[-1] == _AFTER_LAST:
            parent.append(value)
        case list() as parent:
            parent.insert(_index(path[-1], len(parent) + 1), value)
        case dict() as parent:
            parent[path[-1]] = value
        case _:
            raise _MismatchError("its parent is no mapping or list")
    return document


def _replace(document: Any, path: Sequence[str], value: Any) -> Any:
    if not path:
        return value
    match _at(document, path[:-1]):
        case list() as parent:
            parent[_index(path[-1], len(parent))] = value
        case dict() as parent:
            parent[path[-1]] = value  # there or not: the API server does not mind (seen on 1.35)
        case _:
            raise _MismatchError("its parent is no mapping or list")
    return document


def _remove(document: Any, path: Sequence[str]) -> Any:
    if not path:
        raise _MalformedError("the whole object cannot be removed")
    _at(document, path)
    match _at(document, path[:-1]):
        case list() as parent:
            del parent[int(path[-1])]
        case parent:
            del parent[path[-1]]
    return document


def _test(document: Any, path: Sequence[str], expected: Any) -> None:
    if expected is None and path:
        parent = _at(document, path[:-1])
        if isinstance(parent, dict) and path[-1] not in parent:
            return  # the API server takes an absent member for null (seen on 1.35)
    if not _equal(_at(document, path), expected):
        raise _MismatchError("the value is another")


def _equal(left: object, right: object) -> bool:
    """JSON equality: to Python `True` and 1 are equal."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    return left == right
