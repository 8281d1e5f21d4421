"""The texts that the command line names: files, folders and standard input."""

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from poolwarden.cluster.documents import Fault, Given, parse

STANDARD_INPUT = "-"

_SUFFIXES = frozenset({".yaml", ".yml", ".json"})


class Reading(Struct, frozen=True):
    """What inputs hold, in their order."""

    objects: tuple[Given, ...]
    faults: tuple[Fault, ...]


def read(inputs: Iterable[str]) -> Reading:
    """All objects of files, of folders, and of standard input ("-").

    Of a folder, recursively, what is named *.yaml, *.yml or *.json, in the order of the paths; documents that other
    programs keep there, without any mark of a Kubernetes object, are passed over as unknown kinds are.
    """
    return gathered(found for name in inputs for found in _input(name))


def gathered(found: Iterable[Given | Fault]) -> Reading:
    """Objects and faults apart."""
    everything = tuple(found)
    return Reading(
        tuple(one for one in everything if isinstance(one, Given)),
        tuple(one for one in everything if isinstance(one, Fault)),
    )


def _input(name: str) -> Iterator[Given | Fault]:
    if name == STANDARD_INPUT:
        return parse(sys.stdin.buffer.read(), "standard input")
    if not name:
        return iter([Fault("an empty name names no file")])  # to a Path it would be the current folder
    return _folder(Path(name)) if Path(name).is_dir() else _file(Path(name))


def _file(path: Path) -> Iterator[Given | Fault]:
    try:
        text = path.read_bytes()
    except OSError as error:
        yield Fault(f"{path}: {error.strerror}")
    else:
        yield from parse(text, str(path))


def _folder(folder: Path) -> Iterator[Given | Fault]:
    unread: list[OSError] = []
    paths = sorted(
        path
        for parent, _, names in os.walk(folder, onerror=unread.append)
        for path in map(Path(parent).joinpath, names)
        if path.suffix in _SUFFIXES
    )
    for error in unread:
        yield Fault(f"{error.filename}: {error.strerror}")
    if not paths:
        yield Fault(f"{folder}: no *.yaml, *.yml or *.json in this folder")
    for path in paths:
        yield from (found for found in _file(path) if isinstance(found, Given) or not found.foreign)
