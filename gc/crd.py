"""The PoolGuard CustomResourceDefinition, made where it is absent."""

from collections.abc import Callable
from importlib.resources import files
from typing import Any

import structlog
import yaml
from msgspec import Struct

from poolwarden.cluster.interface import (
    Absent,
    Cluster,
    Complete,
    Doubt,
    Failed,
    Found,
    Incomplete,
    Outdated,
    Unread,
    Written,
)
from poolwarden.gc.guard import PoolGuard
from poolwarden.gc.pacing import Backoff, tries
from poolwarden.ipam.kinds import Kind
from poolwarden.ipam.objects import Metadata
from poolwarden.ipam.pool_guard import POOL_GUARDS

log = structlog.get_logger()

DEFINITIONS = Kind(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
SERVED = Backoff(steps=8)
"""A new definition is served within a second or two."""


class Definition(Struct, frozen=True):
    """A CustomResourceDefinition, as far as it must be known: that it is there."""

    metadata: Metadata


class Ready(Struct, frozen=True, tag=True):
    """PoolGuards are served."""


class Unready(Struct, frozen=True, tag=True):
    """They are not, and why."""

    why: str


def ensure_definition(cluster: Cluster, wait: Callable[[float], bool], forget: Callable[[], None]) -> Ready | Unready:
    """Make the definition if it is absent and wait until it is served. `forget` drops what discovery knows."""
    match cluster.list(POOL_GUARDS, PoolGuard).coverage:
        case Complete():
            return Ready()
        case Incomplete(doubt=Doubt.FORBIDDEN, message=message):
            return Unready(message)  # waiting cannot help
    match cluster.get(DEFINITIONS, Definition, name=f"{POOL_GUARDS.plural}.{POOL_GUARDS.group}"):
        case Unread(message=message):
            return Unready(f"whether PoolGuards are defined is not known: {message}")
        case Absent():
            outcome = cluster.create(DEFINITIONS, _definition())
            log.info("defining", definition=f"{POOL_GUARDS.plural}.{POOL_GUARDS.group}", outcome=type(outcome).__name__)
            if not isinstance(outcome, Written | Outdated):
                message = outcome.message if isinstance(outcome, Failed) else "refused"
                return Unready(f"PoolGuards are not defined here and could not be: {message}; apply manifests/crd")
        case Found():
            pass
    for _ in tries(SERVED, wait):
        forget()
        if isinstance(cluster.list(POOL_GUARDS, PoolGuard).coverage, Complete):
            return Ready()
    return Unready("PoolGuards are defined, but cannot be listed")


def _definition() -> dict[str, Any]:
    text = (files("poolwarden.gc") / "poolguards.yaml").read_text(encoding="utf-8")
    definition: dict[str, Any] = yaml.safe_load(text)
    return definition
