"""What Multus says of a pod's NICs: the networks annotation, network-status, and the CNI configuration of a NAD.

Grammar and naming: Multus v4 `parsePodNetworkAnnotation`, `getIfName`; network-status: the Network Plumbing Working
Group's specification §4.2. Parsing returns what was read or why it cannot be read, never an exception.
"""

import re
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from poolwarden.ipam.address import AddressError, canonical, canonical_host


class StatusEntry(Struct, frozen=True):
    """One NIC of network-status. `network` is `namespace/name` of the NAD, or the CNI configuration's name."""

    network: str
    interface: str
    ips: tuple[str, ...]
    default: bool


class NetworkStatus(Struct, frozen=True, tag=True):
    """A network-status that could be read."""

    entries: tuple[StatusEntry, ...]


class NoStatus(Struct, frozen=True, tag=True):
    """The pod carries no network-status."""


class StatusUnreadable(Struct, frozen=True, tag=True):
    """A network-status that is no valid one; `ips` are all texts in it that are addresses, for the veto."""

    problem: str
    ips: tuple[str, ...]


class _WireEntry(Struct):
    name: str = ""
    interface: str = ""
    ips: list[str] | None = None
    default: bool = False


_STATUS = msgspec.json.Decoder(list[_WireEntry])
_ADDRESS_LIKE = re.compile(r"[0-9A-Fa-f:.]{2,45}")


def parse_network_status(text: str | None) -> NetworkStatus | NoStatus | StatusUnreadable:
    """Read the annotation `k8s.v1.cni.cncf.io/network-status`."""
    if text is None or not text.strip():
        return NoStatus()
    try:
        wire = _STATUS.decode(text)
        entries = tuple(
            StatusEntry(entry.name, entry.interface, tuple(canonical_host(ip) for ip in entry.ips or ()), entry.default)
            for entry in wire
        )
    except (msgspec.DecodeError, AddressError) as error:
        return StatusUnreadable(str(error), addresses_in(text))
    return NetworkStatus(entries)


def addresses_in(text: str) -> tuple[str, ...]:
    """Every address that stands in a text, canonical: what a broken document may still show as in use."""
    found: dict[str, None] = {}
    for match in _ADDRESS_LIKE.findall(text):
        try:
            found[canonical(match.strip("."))] = None
        except AddressError:
            continue
    return tuple(found)


class Attachment(Struct, frozen=True):
    """A network that a pod asks for. `network` is `namespace/name`; `interface` the name that it will have."""

    network: str
    interface: str


class Attachments(Struct, frozen=True, tag=True):
    """The attachments of a pod's networks annotation, in order."""

    items: tuple[Attachment, ...]


class AttachmentsUnreadable(Struct, frozen=True, tag=True):
    """A networks annotation that Multus would refuse."""

    problem: str


class _WireAttachment(Struct):
    name: str = ""
    namespace: str = ""
    interface: str = ""
    interfaceRequest: str = ""  # noqa: N815 - the old key's name


_ATTACHMENTS = msgspec.json.Decoder(list[_WireAttachment])


@lru_cache(maxsize=4096)
def parse_networks(text: str | None, namespace: str) -> Attachments | AttachmentsUnreadable:
    """Read the annotation `k8s.v1.cni.cncf.io/networks` of a pod in `namespace`, unnamed items named by position."""
    if not text:
        return Attachments(())
    try:
        wire = _ATTACHMENTS.decode(text) if any(char in text for char in '[{"') else _text_items(text)
    except (msgspec.DecodeError, ValueError) as error:
        return AttachmentsUnreadable(str(error))
    return Attachments(
        tuple(
            Attachment(
                f"{item.namespace or namespace}/{item.name}",
                item.interface or item.interfaceRequest or f"net{position}",
            )
            for position, item in enumerate(wire, start=1)
        )
    )


def _text_items(text: str) -> list[_WireAttachment]:
    """The comma form `[namespace/]name[@interface],…`."""
    items = []
    for part in (piece.strip() for piece in text.split(",")):
        if part.count("/") > 1 or part.count("@") > 1 or not part:
            raise ValueError(f"{part!r} is no [namespace/]name[@interface]")
        path, _, interface = part.partition("@")
        namespace, slash, name = path.partition("/")
        items.append(_WireAttachment(*((name, namespace) if slash else (path, "")), interface))
    return items


class Plumbing(Struct, frozen=True):
    """What a NAD's CNI configuration tells: the types of its IPAMs and the network under it.

    `master` is "" if it names none; `ipams` is empty if none is named. An unreadable configuration tells nothing.
    """

    ipams: frozenset[str]
    master: str


@lru_cache(maxsize=4096)
def parse_plumbing(config: str) -> Plumbing:
    """Read a CNI configuration or configuration list."""
    try:
        decoded = msgspec.json.decode(config)
    except msgspec.DecodeError:
        return Plumbing(frozenset(), "")
    top: dict[str, Any] = decoded if isinstance(decoded, dict) else {}
    chain = top.get("plugins")
    plugins = [plugin for plugin in (chain if isinstance(chain, list) else [top]) if isinstance(plugin, dict)]
    ipams = {ipam.get("type") for plugin in plugins if isinstance(ipam := plugin.get("ipam"), dict)}
    masters = [master for plugin in plugins if isinstance(master := plugin.get("master"), str) and master]
    return Plumbing(frozenset(name for name in ipams if isinstance(name, str)), masters[0] if masters else "")
