"""What is wrong with an annotation, said so that its author can mend it."""

import re
from collections.abc import Iterable, Sequence

from msgspec import Struct

LONGEST_ITEM, LONGEST_WHOLE = 80, 40
"""Characters that a message quotes of an item, and of a whole annotation, which its author knows by its name."""
_BLANKS = re.compile(r"\s+")
MOST_TOLD = 20
"""Problems in one message, and names in one problem: an annotation may hold thousands of either."""


class Problem(Struct, frozen=True):
    """One fault: which annotation, which item of it (from 1; 0 for the whole), its value, and what is allowed.

    `rule` is the same for faults of one kind: with annotation and value it tells an old fault from a new one, whatever
    else of the pod the text speaks of.
    """

    annotation: str
    item: int
    value: str
    text: str
    rule: str = ""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same fault in another state of the pod."""
        return self.annotation, self.value, self.rule or self.text

    def __str__(self) -> str:
        item = f" item {self.item}" if self.item else ""
        value = quoted(self.value, LONGEST_ITEM if self.item else LONGEST_WHOLE)
        return f"metadata.annotations[{self.annotation}]{item}: {self.text}; given is {value}"


class Unreadable(Struct, frozen=True, tag=True):
    """An annotation that its reader refuses as a whole, and why."""

    problems: tuple[Problem, ...]


class Findings(Struct, frozen=True):
    """What was found in one object: problems, for which it is refused, and warnings."""

    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()

    def __add__(self, other: "Findings") -> "Findings":
        return Findings(self.problems + other.problems, self.warnings + other.warnings)


def quoted(text: str, longest: int = LONGEST_ITEM) -> str:
    """A user's text for a message, on one line and cut if it is long."""
    line = _BLANKS.sub(" ", text[: 4 * longest])
    return repr(line if len(line) <= longest else f"{line[: longest - 1]}…")


def listed(names: Sequence[str]) -> str:
    """Names for a message, none of them longer than an interface's should be."""
    shown = ", ".join(name if name.isascii() and name.isprintable() else repr(name) for name in names[:MOST_TOLD])
    return f"{shown} and {len(names) - MOST_TOLD} more" if len(names) > MOST_TOLD else shown or "none"


def joined(problems: Sequence[Problem]) -> str:
    """Problems as the message of a denial."""
    rest = [f"{len(problems) - MOST_TOLD} more problems"] if len(problems) > MOST_TOLD else []
    return "; ".join([*map(str, problems[:MOST_TOLD]), *rest])


def ignored_keys(keys: Iterable[str], reader: str) -> str:
    """The text of a warning about keys that nobody reads."""
    return f"{reader} ignores {', '.join(quoted(key) for key in list(keys)[:MOST_TOLD])}"
