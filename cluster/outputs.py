"""Objects into a file, as `kubectl get` would have printed them."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from poolwarden.cluster.yaml_text import dump

STANDARD_OUTPUT = "-"


class Saved(Struct, frozen=True, tag=True):
    """The objects stand in the file."""


class Unsaved(Struct, frozen=True, tag=True):
    """The file could not be written, and is as it was."""

    message: str


def save(items: Sequence[Raw], path: str) -> Saved | Unsaved:
    """Write one `List`: YAML for *.yaml and *.yml, else JSON; "-" is standard output.

    A file is replaced whole or not at all.
    """
    try:
        text = _yaml(items) if path.endswith((".yaml", ".yml")) else _json(items)
        if path == STANDARD_OUTPUT:
            sys.stdout.buffer.write(text)
            sys.stdout.buffer.flush()
        else:
            _replace(Path(path).resolve(), text)
    except msgspec.DecodeError as error:
        return Unsaved(f"{path}: an object cannot be written as YAML: {error}")
    except OSError as error:
        return Unsaved(f"{path}: {error.strerror}")
    return Saved()


def _json(items: Sequence[Raw]) -> bytes:
    return msgspec.json.format(msgspec.json.encode(_list(items)), indent=4) + b"\n"


def _yaml(items: Sequence[Raw]) -> bytes:
    return dump(_list([msgspec.json.decode(raw) for raw in items])).encode()


def _list(items: Sequence[Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "items": items, "kind": "List", "metadata": {"resourceVersion": ""}}


def _replace(path: Path, text: bytes) -> None:
    if path.exists() and not path.is_file():
        path.write_bytes(text)  # a device or a pipe: nothing could take its place
        return
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with draft.open("xb") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
