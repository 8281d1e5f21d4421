"""The knowledge of reviews, read once from any cluster: `poolwarden review` over files."""

from typing import Any

from poolwarden.cluster.interface import Cluster, Complete, Incomplete, Listing, NotInstalled, Partial
from poolwarden.ipam.kinds import Kind
from poolwarden.webhook.knowledge import NOWHERE, SOURCES, Knowledge, Known, cannot_be_read


def knowledge_of(cluster: Cluster) -> Knowledge:
    """All that a cluster tells. A kind or namespace of which nothing was given counts as not read."""
    return Knowledge(**{field: _known(kind, cluster.list(kind, item)) for field, (kind, item) in SOURCES.items()})


def _known(kind: Kind, listing: Listing[Any]) -> Known[Any]:
    items = {(item.metadata.namespace, item.metadata.name): item for item in listing.items}
    unreadable = {(item.namespace, item.name): f"{item.where}: {item.error}" for item in listing.unreadable}
    doubt = _doubt(kind, listing) or cannot_be_read(kind.kubectl_name, unreadable)
    return Known(items, doubt, _read(listing), frozenset(unreadable))


def _doubt(kind: Kind, listing: Listing[Any]) -> str:
    match listing.coverage:
        case Complete() | NotInstalled():
            return ""
        case Partial(namespaces=names):
            return f"{kind.kubectl_name} of no other namespace than {', '.join(sorted(names))} were given"
        case Incomplete(message=message, command=command):
            return f"{message}: {command}" if command else message


def _read(listing: Listing[Any]) -> Complete | Partial:
    match listing.coverage:
        case Complete() | NotInstalled():
            return Complete()
        case Partial() as partial:
            return partial
        case Incomplete():
            return NOWHERE
