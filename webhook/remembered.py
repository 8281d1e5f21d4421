"""A memory for what pure functions make of short texts: the pods of one workload come with the same annotations."""

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

MOST_CHARACTERS = 1024
"""Of all texts of a call: a longer one is parsed each time, lest annotations of 256 KiB fill the memory."""
MOST_CALLS = 512
"""That are remembered of each function: what they hold takes a few MiB at most."""


def remembered(function: Callable[P, R]) -> Callable[P, R]:
    """The function of texts, with its last results at hand. They must be immutable."""
    anew = cast("Callable[..., R]", function)
    recalled = lru_cache(maxsize=MOST_CALLS)(anew)

    @wraps(function)
    def call(*texts: str) -> R:
        return recalled(*texts) if sum(map(len, texts)) <= MOST_CHARACTERS else anew(*texts)

    return cast("Callable[P, R]", call)
