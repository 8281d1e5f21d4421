"""Leave to write, asked for straight before each write: leadership may be lost, or the program may be stopping."""

from collections.abc import Callable

from msgspec import Struct


class Allowed(Struct, frozen=True, tag=True):
    """The write may be sent."""


class Denied(Struct, frozen=True, tag=True):
    """Nothing may be written now; `reason` is one line for people."""

    reason: str


Permission = Allowed | Denied
Guard = Callable[[], Permission]


def always_allowed() -> Permission:
    """The guard of a program that may always write."""
    return Allowed()
