"""What Multus says of a pod's NICs: the networks annotation, network-status, and the CNI configuration of a NAD.

Grammar and naming: Multus v4 `parsePodNetworkAnnotation`, `getIfName`; network-status: the Network Plumbing Working
Group's specification §4.2. Parsing returns what was read or why it cannot be read, never an exception.
"""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import Struct

from poolwarden.ipam.address import AddressError, canonical, canonical_host


class StatusEntry(Struct, frozen=True, gc=False):
    """One NIC of network-status. `network` is `namespace/name` of the NAD, or the CNI configuration's name."""

    network: str
    interface: str
    ips: tuple[str, ...]
    default: bool


class NetworkStatus(Struct, frozen=True, tag=True, gc=False):
    """A network-status that could be read."""

    entries: tuple[StatusEntry, ...]


class NoStatus(Struct, frozen=True, tag=True, gc=False):
    """The pod carries no network-status."""


class StatusUnreadable(Struct, frozen=True, tag=True, gc=False):
    """A network-status that is no valid one; `ips` are all texts in it that are addresses, for the veto."""

    problem: str
    ips: tuple[str, ...]


class _WireEntry(Struct, gc=False):
    name: str = ""
    interface: str = ""
    ips: list[str] | None = None
    default: bool = False


_STATUS = msgspec.json.Decoder(list[_WireEntry])
_V4_LIKE = re.compile(r"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?!\d|\.\d)")
_V6_LIKE = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
UNDECODABLE = (msgspec.DecodeError, RecursionError, UnicodeError)
"""What decoding hostile JSON may raise: it is malformed, too deeply nested, or no Unicode."""


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
    except (*UNDECODABLE, AddressError) as error:
        return StatusUnreadable(str(error), addresses_in(text))
    return NetworkStatus(entries)


def addresses_in(text: str) -> tuple[str, ...]:
    """Every address that stands in a text, canonical: what a broken document may still show as in use."""
    found: dict[str, None] = {}
    tokens = _V6_LIKE.findall(text)
    # A colon may belong to the text around: `ip:fd00::1`, `fd00::1:`.
    bare = [token.strip(".") for token in tokens]
    variants = (
        variant
        for token in bare
        for variant in (
            token,
            token.removeprefix(":"),
            token.removesuffix(":"),
            token.removeprefix(":").removesuffix(":"),
        )
    )
    plain = (".".join(part.lstrip("0") or "0" for part in token.split(".")) for token in _V4_LIKE.findall(text))
    for candidate in (*plain, *variants):
        try:
            found[canonical(candidate)] = None
        except AddressError:
            continue
    return tuple(found)


class Attachment(Struct, frozen=True, gc=False):
    """A network that a pod asks for. `network` is `namespace/name`; `interface` the name that it will have."""

    network: str
    interface: str


class Attachments(Struct, frozen=True, tag=True, gc=False):
    """The attachments of a pod's networks annotation, in order."""

    items: tuple[Attachment, ...]


class AttachmentsUnreadable(Struct, frozen=True, tag=True, gc=False):
    """A networks annotation that Multus would refuse."""

    problem: str


class _WireAttachment(Struct, gc=False):
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
    except (*UNDECODABLE, ValueError) as error:
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


class Plumbing(Struct, frozen=True, gc=False):
    """What a NAD's CNI configuration tells: the types of its IPAMs and the network under it.

    An unreadable configuration tells nothing.

    Attributes:
        ipams: the types that are named, under whatever spelling of the keys.
        master: the first that is named, "" if none is, or if the key is spelled in a way that not every plugin reads: by
            its master a network is proven to be another one, and what it shows no longer vetoed.
        pools: names in the IPAM's own settings.
        static: addresses, canonical, that the IPAM's own settings give to every NIC; no pool records them.
        silent: it leaves open whose addresses a NIC gets: its main plugin names no IPAM, or hands on to another one
            (flannel's `delegate`), whose settings may come from elsewhere. What `ipams` holds is used nevertheless.
    """

    ipams: frozenset[str] = frozenset()
    master: str = ""
    pools: frozenset[str] = frozenset()
    static: frozenset[str] = frozenset()
    readable: bool = True
    silent: bool = False


_BEFORE_MAIN = "ifacer"
"""The plugin of Spiderpool that makes the interface below the main plugin's, and stands before it."""
_DELEGATING = frozenset({"delegate", "delegates"})


def go_keys(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The values of an object by key as Go's encoding/json matches keys: without regard to case, null as if absent."""
    return {key.casefold(): value for key, value in settings.items() if value is not None}


@lru_cache(maxsize=4096)
def parse_plumbing(config: str) -> Plumbing:
    """Read a CNI configuration or configuration list."""
    try:
        decoded = msgspec.json.decode(config)
    except UNDECODABLE:
        return Plumbing(readable=False)
    if not isinstance(decoded, dict):
        return Plumbing(readable=False)
    chains = [chain for chain in _spelled(decoded, "plugins") if isinstance(chain, list)]
    plugins = [plugin for chain in chains for plugin in chain if isinstance(plugin, dict)] if chains else [decoded]
    settings = [ipam for plugin in plugins for ipam in _spelled(plugin, "ipam") if isinstance(ipam, dict)]
    kinds = [kind for ipam in settings for kind in _spelled(ipam, "type")]
    masters = [master for plugin in plugins if isinstance(master := plugin.get("master"), str) and master]
    plain = _is_plain(decoded, "plugins") and all(_is_plain(plugin, "master") for plugin in plugins)
    lists = [value for ipam in settings for value in ipam.values() if isinstance(value, list)]
    return Plumbing(
        ipams=frozenset(kind for kind in kinds if isinstance(kind, str)),
        master=masters[0] if masters and plain else "",
        pools=frozenset(name for names in lists for name in names if isinstance(name, str)),
        static=frozenset(_static(settings)),
        silent=_is_silent([go_keys(plugin) for plugin in plugins]),
    )


def _static(settings: list[dict[str, Any]]) -> Iterator[str]:
    """The `addresses` of IPAM settings, in the form that CNI's static plugin, and whereabouts, take."""
    for addresses in (value for ipam in settings for value in _spelled(ipam, "addresses") if isinstance(value, list)):
        for item in addresses:
            text = item.get("address") if isinstance(item, dict) else None
            if isinstance(text, str):
                yield from addresses_in(text)


def _spelled(settings: Mapping[str, Any], key: str) -> list[Any]:
    """The values under every spelling of a key: which one a plugin takes depends on how it reads JSON."""
    return [value for spelling, value in settings.items() if spelling.casefold() == key]


def _is_plain(settings: Mapping[str, Any], key: str) -> bool:
    """Whether a key stands in its own spelling alone, or not at all."""
    return all(spelling == key for spelling in settings if spelling.casefold() == key)


def _ipam(plugin: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a plugin's IPAM, none if there is none."""
    ipam = plugin.get("ipam")
    return go_keys(ipam) if isinstance(ipam, dict) else {}


def _is_silent(plugins: list[dict[str, Any]]) -> bool:
    main = [plugin for plugin in plugins if plugin.get("type") != _BEFORE_MAIN][:1]
    named = [kind for plugin in main if isinstance(kind := _ipam(plugin).get("type"), str) and kind]
    return not named or any(_DELEGATING & plugin.keys() for plugin in plugins)
