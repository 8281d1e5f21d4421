"""The NICs that a pod will have, in the order in which Multus attaches them, and whose addresses they get."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct

from poolwarden.ipam.interface import multus_name
from poolwarden.ipam.network import parse_plumbing
from poolwarden.ipam.objects import DEFAULT_NETWORK
from poolwarden.ipam.spiderpool import NAME as SPIDERPOOL
from poolwarden.ipam.spiderpool import SpiderMultusConfig
from poolwarden.webhook.knowledge import Key, Knowledge
from poolwarden.webhook.pod.networks import Networks, Selection, parse
from poolwarden.webhook.pod.problem import Unreadable
from poolwarden.webhook.settings import DefaultNetwork, RuleSettings


class Source(StrEnum):
    """Where a NIC's addresses come from."""

    SPIDERPOOL = "spiderpool"
    OTHER = "other"
    UNKNOWN = "unknown"


class Nic(Struct, frozen=True):
    """One NIC. `network` is for messages; `position` counts from 0, the cluster's default network."""

    position: int
    interface: str
    network: str
    source: Source
    selection: Selection | None = None
    """The item of the pod's own annotation that asks for it; the cluster's configuration does for the others."""


def nics_of(
    selections: tuple[Selection, ...],
    annotations: Mapping[str, str],
    namespace: str,
    knowledge: Knowledge,
    settings: RuleSettings,
) -> tuple[Nic, ...]:
    """All NICs of a pod, in attach order: default network, cluster-wide default networks, the pod's own."""
    own_first = settings.preceding(namespace)
    preceding = tuple(
        Nic(at, multus_name(at), "a cluster-wide default network", Source.UNKNOWN) for at in range(1, own_first)
    )
    own = tuple(
        Nic(
            at,
            selection.interface or multus_name(at),
            f"network {'/'.join(selection.key)}",
            source_of(selection.key, knowledge),
            selection,
        )
        for at, selection in enumerate(selections, start=own_first)
    )
    return (_default_nic(annotations, knowledge, settings), *preceding, *own)


def _default_nic(annotations: Mapping[str, str], knowledge: Knowledge, settings: RuleSettings) -> Nic:
    text = annotations.get(DEFAULT_NETWORK)
    if text is None:
        source = {
            DefaultNetwork.SPIDERPOOL: Source.SPIDERPOOL,
            DefaultNetwork.OTHER: Source.OTHER,
            DefaultNetwork.UNKNOWN: Source.UNKNOWN,
        }[settings.default_network]
        return Nic(0, multus_name(0), "the cluster's default network", source)
    match parse(DEFAULT_NETWORK, text, settings.multus_namespace):
        case Networks(items=(selection,)):
            name = selection.interface or multus_name(0)
            return Nic(0, name, f"network {'/'.join(selection.key)}", source_of(selection.key, knowledge))
        case Networks() | Unreadable():  # a problem of its own annotation
            return Nic(0, multus_name(0), "the default network", Source.UNKNOWN)


def source_of(network: Key, knowledge: Knowledge) -> Source:
    """Whose addresses a network hands out, by its NetworkAttachmentDefinition or the SpiderMultusConfig it is made from.

    What is old or incomplete proves nothing.
    """
    attachment = knowledge.attachments.items.get(network)
    if attachment is not None and attachment.spec.config.strip():
        return _source_of_config(attachment.spec.config) if knowledge.attachments.fresh else Source.UNKNOWN
    config = knowledge.multus_configs.items.get(network)
    if config is not None and knowledge.multus_configs.fresh:
        return _source_of_multus_config(config)
    return Source.UNKNOWN


def _source_of_config(config: str) -> Source:
    plumbing = parse_plumbing(config)
    if not plumbing.readable:
        return Source.UNKNOWN
    if SPIDERPOOL in plumbing.ipams:
        return Source.SPIDERPOOL
    return Source.UNKNOWN if plumbing.silent else Source.OTHER


def _source_of_multus_config(config: SpiderMultusConfig) -> Source:
    if config.spec.cni_type == "custom":
        return _source_of_config(config.spec.custom_cni or "")
    return Source.OTHER if config.spec.disable_ipam else Source.SPIDERPOOL
