"""Lines for people: without control characters, and wrapped where a terminal shows them."""

import re
import shutil
from collections.abc import Iterable
from textwrap import wrap
from typing import Any, TextIO
from unicodedata import east_asian_width

_LABEL = re.compile(r" *\S.*? {2,}(?=\S)")
"""What a line begins with where columns follow."""
_WIDEST_LABEL = 24
"""Columns; what follows a wider one is continued near the margin."""
_DEEPER = 4
"""Columns by which a line without a label is continued further to the right."""
_SECOND = "\0"
"""Stands for the second column of a wide character while lines are wrapped, since `textwrap` counts characters."""


def printable(value: Any) -> Any:
    """A text or a report without control characters: names in records are anybody's text, and may hold a terminal's commands."""
    match value:
        case str():
            return value if value.isprintable() else "".join(c if c.isprintable() else "�" for c in value)
        case dict():
            return {key: printable(item) for key, item in value.items()}
        case list():
            return [printable(item) for item in value]
        case _:
            return value


def say(lines: Iterable[str], stream: TextIO) -> None:
    """Print lines: each as one, but on a terminal within its width, continued under the text that follows a label."""
    width = shutil.get_terminal_size().columns if stream.isatty() else 0
    for line in (printable(line.replace("\n", " ")) for line in lines):
        for part in wrapped(line, width) if width else (line,):
            print(part, file=stream)


def wrapped(line: str, width: int) -> list[str]:
    """A line in parts of at most so many columns; a word that is longer stays whole, so that it can be copied."""
    line = "".join(c + _SECOND if east_asian_width(c) in {"W", "F"} else c for c in line)
    label = _LABEL.match(line)
    margin = len(line) - len(line.lstrip(" ")) + _DEEPER
    column = label.end() if label is not None and label.end() <= min(_WIDEST_LABEL, width - 1) else margin
    start = line[:column] if column != margin else line[: margin - _DEEPER]
    parts = wrap(
        line[len(start) :],
        width,
        initial_indent=start,
        subsequent_indent=" " * column,
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        drop_whitespace=True,
    )
    return [part.replace(_SECOND, "") for part in parts or [line]]
