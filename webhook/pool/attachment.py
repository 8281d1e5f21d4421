"""Rules about NetworkAttachmentDefinition. It is never rewritten: a range that is written otherwise can mean others."""

from collections.abc import Iterator

from msgspec import Struct

from poolwarden.ipam.objects import AttachmentSpec
from poolwarden.ipam.ranges import AddressSet, address_set
from poolwarden.webhook.pool.claims import configured_claims, foreign_overlaps
from poolwarden.webhook.pool.cni_config import cni_faults
from poolwarden.webhook.pool.fault import Fault
from poolwarden.webhook.pool.scene import Scene


class AttachmentText(Struct, frozen=True, gc=False):
    """A NetworkAttachmentDefinition; without a configuration Multus reads a file of its name."""

    spec: AttachmentSpec = AttachmentSpec()


def attachment_faults(attachment: AttachmentText, scene: Scene) -> Iterator[Fault]:
    """What is wrong with its configuration."""
    if attachment.spec.config:
        yield from cni_faults("spec.config", attachment.spec.config, scene)


def attachment_changes(attachment: AttachmentText, before: AttachmentText, scene: Scene) -> Iterator[Fault]:
    """Addresses that its configuration newly hands out, although another IPAM does."""
    old = configured_claims(before.spec.config)
    for claim in configured_claims(attachment.spec.config):
        had = address_set(item for other in old if other.ipam == claim.ipam for item in other.addresses.ranges)
        added: AddressSet = claim.addresses - had
        yield from foreign_overlaps("spec.config ipam", added, claim.ipam, scene.knowledge)
