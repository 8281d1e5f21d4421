"""What makes a name of a network interface valid: the rules of CNI, the Linux kernel and Multus in one place.

Sources: CNI `libcni` `ValidateInterfaceName`; Linux `dev_valid_name` and `dev_alloc_name`, the sysctl folders
`net.ipv4.conf.{all,default}`; Multus v4 `parsePodNetworkObjectName`.
"""

from enum import StrEnum

from msgspec import Struct

MAX_BYTES = 15  # IFNAMSIZ is 16 and includes the closing NUL
MOST_SHOWN = 80  # of a name that is too long, in a message
RESERVED = frozenset({"all", "default"})  # names of sysctl folders: the kernel refuses them


class NameRule(StrEnum):
    """The rule that a name breaks."""

    EMPTY = "Empty"
    TOO_LONG = "TooLong"
    DOTS = "Dots"
    RESERVED = "Reserved"
    CHARACTER = "Character"
    TEMPLATE = "Template"


class ValidName(Struct, frozen=True, tag=True):
    """A name that CNI, kernel and Multus all take as it is."""

    name: str


class InvalidName(Struct, frozen=True, tag=True):
    """A name that one of them refuses or rewrites; `message` says what is allowed."""

    name: str
    rule: NameRule
    message: str


def check_name(name: str) -> ValidName | InvalidName:
    """Judge an interface name. Length counts bytes, not characters."""
    size = len(name.encode("utf-8", "surrogatepass"))
    if not name:
        return InvalidName(name, NameRule.EMPTY, "an interface name must not be empty")
    if size > MAX_BYTES:
        shown = repr(name if size <= MOST_SHOWN else f"{name[:MOST_SHOWN]}…")
        message = f"interface name {shown} has {size} bytes; at most {MAX_BYTES} are allowed"
        return InvalidName(name, NameRule.TOO_LONG, message)
    if name in {".", ".."}:
        return InvalidName(name, NameRule.DOTS, f"interface name {name!r} is not allowed: '.' and '..' are folders")
    if name in RESERVED:
        message = f"interface name {name!r} is reserved by the kernel, as are {' and '.join(sorted(RESERVED))}"
        return InvalidName(name, NameRule.RESERVED, message)
    if "%" in name:
        message = f"interface name {name!r} holds '%', which the kernel takes for a template"
        return InvalidName(name, NameRule.TEMPLATE, message)
    bad = [char for char in name if char in "/:" or not "!" <= char <= "~"]
    if bad:
        message = f"interface name {name!r} holds {bad[0]!r}; allowed are printable ASCII characters but '/' and ':'"
        return InvalidName(name, NameRule.CHARACTER, message)
    return ValidName(name)


def multus_name(position: int) -> str:
    """The name that Multus gives to an unnamed attachment: its position in the delegate list, cluster network = 0.

    Source: Multus v4 `getIfName`. Position 0 is the pod's `eth0`.
    """
    return "eth0" if position == 0 else f"net{position}"
