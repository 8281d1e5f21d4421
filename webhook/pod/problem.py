"""What is wrong with an annotation, said so that its author can mend it."""

from collections.abc import Iterable

from msgspec import Struct

LONGEST_ITEM, LONGEST_WHOLE = 80, 40
"""Characters that a message quotes of an item, and of a whole annotation, which its author knows by its name."""


class Problem(Struct, frozen=True):
    """One fault: which annotation, which item of it (from 1; 0 for the whole), its value, and what is allowed."""

    annotation: str
    item: int
    value: str
    text: str

    def __str__(self) -> str:
        item = f" item {self.item}" if self.item else ""
        value = quoted(self.value, LONGEST_ITEM if self.item else LONGEST_WHOLE)
        return f"metadata.annotations[{self.annotation}]{item} {value}: {self.text}"


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
    line = " ".join(text.split())
    return repr(line if len(line) <= longest else f"{line[: longest - 1]}…")


def joined(problems: Iterable[Problem]) -> str:
    """All problems as the message of a denial."""
    return "; ".join(map(str, problems))
