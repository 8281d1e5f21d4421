"""Rules about NetworkAttachmentDefinition. It is never rewritten: a range that is written otherwise can mean others."""

from collections import defaultdict
from collections.abc import Iterator

from msgspec import Struct

from poolwarden.ipam.objects import AttachmentSpec
from poolwarden.ipam.ranges import AddressRange, AddressSet, address_set
from poolwarden.webhook.pool.claims import configured_claims, foreign_overlaps
from poolwarden.webhook.pool.cni_config import cni_faults
from poolwarden.webhook.pool.fault import Fault
from poolwarden.webhook.pool.scene import Scene

NOTHING = AddressSet()


class AttachmentText(Struct, frozen=True, gc=False):
    """A NetworkAttachmentDefinition; without a configuration Multus reads a file of its name."""

    spec: AttachmentSpec = AttachmentSpec()


def attachment_faults(attachment: AttachmentText, scene: Scene) -> Iterator[Fault]:
    """What is wrong with its configuration."""
    if attachment.spec.config:
        yield from cni_faults("spec.config", attachment.spec.config, scene)


def attachment_changes(attachment: AttachmentText, before: AttachmentText, scene: Scene) -> Iterator[Fault]:
    """Addresses that its configuration newly hands out, although another IPAM does."""
    had, claimed = (_by_ipam(one.spec.config) for one in (before, attachment))
    for ipam, addresses in claimed.items():
        yield from foreign_overlaps("spec.config ipam", addresses - had.get(ipam, NOTHING), ipam, scene.knowledge)


def _by_ipam(config: str) -> dict[str, AddressSet]:
    ranges: dict[str, list[AddressRange]] = defaultdict(list)
    for claim in configured_claims(config):
        ranges[claim.ipam] += claim.addresses.ranges
    return {ipam: address_set(items) for ipam, items in ranges.items()}
