"""What is wrong with an object, or what its author should know of it; and the verdict that follows.

On UPDATE only what is new is judged: a fault that the old object has as well, at whatever place of a list, stays.
"""

import re
from collections.abc import Iterable, Iterator
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from poolwarden.webhook.answer import Verdict, allowed, denied, with_warnings
from poolwarden.webhook.knowledge import Known

MOST_TOLD = 20
"""Faults in one denial; nobody mends more at once."""
MOST_COUNTED = 1000
"""Warnings that are gathered, to say how many are not told."""
LONGEST_TEXT, LONGEST_PLACE = 400, 150
"""Characters of one fault and of its place: a hostile value may be megabytes long."""
LONGEST_DENIAL = 3500
"""Bytes. It is told in an event, in a terminal, in a condition of a controller's object: all are short."""
_INDEX = re.compile(r"\[\d+\]")


class Weight(Enum):
    """What a fault leads to."""

    REFUSE = auto()
    WARN = auto()


class Fault(Struct, frozen=True):
    """`where` is a path in the object (`spec.ips[1]`); `text` names the value and what is allowed."""

    where: str
    text: str
    weight: Weight = Weight.REFUSE

    def __str__(self) -> str:
        return f"{_cut(self.where, LONGEST_PLACE)}: {_cut(self.text, LONGEST_TEXT)}"

    @property
    def identity(self) -> tuple[str, str]:
        """Equal for the same fault, wherever in a list it stands."""
        return _INDEX.sub("[]", self.where), self.text


def warned(where: str, text: str) -> Fault:
    """Something to know; no ground to refuse."""
    return Fault(where, text, Weight.WARN)


def weight_by(*known: Known[Any]) -> Weight:
    """What a fault found in other objects leads to: doubt about them turns a refusal into a warning."""
    return Weight.REFUSE if all(one.fresh for one in known) else Weight.WARN


def verdict(faults: Iterable[Fault], before: Iterable[Fault] = ()) -> Verdict:
    """The answer to an object with these faults, given those that it had before.

    Both are read no further than need be: a list of 100,000 bad items is told by its first ones.
    """
    refused: dict[str, None] = {}
    told: dict[str, None] = {}
    for fault in _new(faults, before):
        if fault.weight is Weight.WARN:
            if len(told) < MOST_COUNTED:
                told[str(fault)] = None
            continue
        refused[str(fault)] = None
        if len(refused) > MOST_TOLD:
            break
    return with_warnings(denied(_joined(tuple(refused))) if refused else allowed(), told)


def _new(faults: Iterable[Fault], before: Iterable[Fault]) -> Iterator[Fault]:
    """The faults that were not there before, which is looked up once there is one."""
    old: set[tuple[str, str]] = set()
    looked_up = False
    for fault in faults:
        if not looked_up:
            old = {one.identity for one in before}
            looked_up = True
        if not old or fault.identity not in old:
            yield fault


def _joined(refused: tuple[str, ...]) -> str:
    """The message of a denial, cut between faults."""
    kept: list[str] = []
    size = 0
    for text in refused[:MOST_TOLD]:
        size += len(text.encode("utf-8", "replace")) + 2  # and a separator
        if kept and size > LONGEST_DENIAL:
            break
        kept.append(text)
    return "; ".join((*kept, *(["and more"] if len(kept) < len(refused) else [])))


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
