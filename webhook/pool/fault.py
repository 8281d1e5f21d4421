"""What is wrong with an object, or what its author should know of it; and the verdict that follows.

On UPDATE only what is new is judged: a fault that the old object has as well, at whatever place of a list, stays.
"""

import re
from collections.abc import Iterable
from enum import Enum, auto
from typing import Any

from msgspec import Struct

from poolwarden.webhook.answer import Verdict, allowed, denied, with_warnings
from poolwarden.webhook.knowledge import Known

MOST_TOLD = 20
"""Faults in one denial; nobody mends more at once."""
LONGEST_TEXT = 400
"""Characters of one fault: a hostile value may be megabytes long."""
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
        text = self.text if len(self.text) <= LONGEST_TEXT else f"{self.text[: LONGEST_TEXT - 1]}…"
        return f"{self.where}: {text}"

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
    """The answer to an object with these faults, given those that it had before."""
    old = {fault.identity for fault in before}
    new = [fault for fault in dict.fromkeys(faults) if fault.identity not in old]
    refused = [str(fault) for fault in new if fault.weight is Weight.REFUSE]
    if len(refused) > MOST_TOLD:
        refused = [*refused[:MOST_TOLD], f"and {len(refused) - MOST_TOLD} more"]
    answer = denied("; ".join(refused)) if refused else allowed()
    return with_warnings(answer, (str(fault) for fault in new if fault.weight is Weight.WARN))
