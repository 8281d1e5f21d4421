"""RFC 6902 operations that cannot fail to apply to the object that they were made from.

A patch that does not apply is an HTTP 500 to the user whatever the failurePolicy (kube-apiserver,
`pkg/admission/plugin/webhook/mutating/dispatcher.go`), so only keys that stand in the object are replaced.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Literal

from msgspec import Struct


class Operation(Struct, frozen=True):
    """Replaces the value at a path that exists in the object."""

    path: str
    value: Any
    op: Literal["replace"] = "replace"


def pointer(*keys: str) -> str:
    """A JSON pointer (RFC 6901) to a field, by its keys."""
    return "".join(f"/{key.replace('~', '~0').replace('/', '~1')}" for key in keys)


def apply(obj: dict[str, Any], operations: Iterable[Operation]) -> dict[str, Any]:
    """The object as the operations leave it.

    Raises:
        KeyError: a path does not exist in the object.
    """
    result = deepcopy(obj)
    for operation in operations:
        *above, last = (key.replace("~1", "/").replace("~0", "~") for key in operation.path.split("/")[1:])
        parent: Any = result
        for key in above:
            parent = parent[int(key) if isinstance(parent, list) else key]
        place: Any = int(last) if isinstance(parent, list) else last
        parent[place]  # raises where nothing stands there
        parent[place] = deepcopy(operation.value)
    return result
