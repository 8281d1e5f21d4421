"""Rules about pods: make every interface name explicit, and refuse what can only fail, or leak, in CNI ADD."""

from collections.abc import Mapping

import msgspec
from msgspec import Struct

from poolwarden.ipam.network import UNDECODABLE
from poolwarden.ipam.objects import DEFAULT_NETWORK, MIRROR, NETWORKS
from poolwarden.webhook.answer import Answer, allowed, denied, patched, with_warnings
from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.patch import Operation, pointer
from poolwarden.webhook.pod.multus_rules import named_networks, network_findings
from poolwarden.webhook.pod.networks import parse
from poolwarden.webhook.pod.nics import nics_of
from poolwarden.webhook.pod.pool_lists import DEFAULT_ROUTE_NIC, IPPOOL, IPPOOLS, ROUTES, SUBNET, SUBNETS, parse_many
from poolwarden.webhook.pod.problem import Findings, Unreadable, joined
from poolwarden.webhook.pod.spiderpool_rules import named_lists, spiderpool_findings
from poolwarden.webhook.review import Operation as Verb
from poolwarden.webhook.review import Request
from poolwarden.webhook.settings import RuleSettings

Annotations = Mapping[str, str]
RULED = (NETWORKS, DEFAULT_NETWORK, IPPOOLS, IPPOOL, SUBNETS, SUBNET, ROUTES, DEFAULT_ROUTE_NIC)
"""The annotations that these rules read."""


class PodMetadata(Struct, frozen=True, gc=False, rename="camel"):
    """metav1.ObjectMeta."""

    annotations: dict[str, str] | None = None
    deletion_timestamp: str | None = None


class PodSpec(Struct, frozen=True, gc=False, rename="camel"):
    """corev1.PodSpec."""

    host_network: bool | None = None


class Pod(Struct, frozen=True, gc=False):
    """corev1.Pod, or the template of one, as far as its NICs are concerned."""

    metadata: PodMetadata | None = None
    spec: PodSpec | None = None

    @property
    def annotations(self) -> Annotations:
        """Its annotations, none if it has none."""
        return (self.metadata and self.metadata.annotations) or {}

    @property
    def has_nics(self) -> bool:
        """Whether CNI gives it NICs, so that its annotations mean something. A mirror pod's cannot be changed."""
        return not (self.spec and self.spec.host_network) and MIRROR not in self.annotations

    @property
    def ending(self) -> bool:
        """Whether it is being deleted."""
        return bool(self.metadata and self.metadata.deletion_timestamp)


_POD = msgspec.json.Decoder(Pod | None)


def mutate_pod(request: Request, knowledge: Knowledge, settings: RuleSettings) -> Answer:
    """`/mutate-pods`: name what is unnamed, where the name is certain. Only new pods: a running one's NICs have their names."""
    pod = _decode(request.object)
    if isinstance(pod, _Malformed):
        return denied(pod.problem)
    if request.operation is not Verb.CREATE or request.sub_resource or not pod.has_nics or pod.ending:
        return allowed()
    after = named(pod.annotations, request.namespace, knowledge, settings)
    changed = [key for key in RULED if key in after and after[key] != pod.annotations[key]]
    operations = [Operation(pointer("metadata", "annotations", key), after[key]) for key in changed]
    audit = {key.replace("/", "_"): after[key] for key in changed}
    told = (
        f"metadata.annotations[{key}]: interfaces are now {', '.join(_interfaces(key, after[key]))}" for key in changed
    )
    return with_warnings(patched(operations, audit), told)


def _interfaces(annotation: str, text: str) -> list[str]:
    """The interface names in an annotation that was just named, "?" where an item has none."""
    read = parse(annotation, text, "") if annotation == NETWORKS else parse_many(annotation, text)
    return [] if isinstance(read, Unreadable) else [item.interface or "?" for item in read.items]


def validate_pod(request: Request, knowledge: Knowledge, settings: RuleSettings) -> Answer:
    """`/validate-pods`: refuse what can only fail, or leak; of an update only what it changes."""
    pod, before = _decode(request.object), _decode(request.old_object)
    if isinstance(pod, _Malformed):
        return denied(pod.problem)
    if request.sub_resource or not pod.has_nics or pod.ending or request.operation not in (Verb.CREATE, Verb.UPDATE):
        return allowed()
    if request.operation is Verb.CREATE or isinstance(before, _Malformed):
        found = findings(pod.annotations, request.namespace, knowledge, settings)
    else:
        found = changed_findings(before.annotations, pod.annotations, request.namespace, knowledge, settings)
    verdict = denied(joined(found.problems)) if found.problems else allowed()
    return with_warnings(verdict, map(str, found.warnings))


def named(annotations: Annotations, namespace: str, knowledge: Knowledge, settings: RuleSettings) -> Annotations:
    """The annotations with every interface name explicit, as far as it is certain; the others as they are."""
    after = dict(annotations)
    networks = parse(NETWORKS, annotations.get(NETWORKS, ""), namespace)
    if isinstance(networks, Unreadable):
        return after
    if NETWORKS in after:
        after[NETWORKS] = named_networks(after[NETWORKS], networks.items, settings)
        networks = parse(NETWORKS, after[NETWORKS], namespace)
        assert not isinstance(networks, Unreadable)
    listed = [key for key in (IPPOOLS, SUBNETS) if key in after]
    if listed:
        nics = nics_of(networks.items, after, knowledge, settings)
        after |= {key: named_lists(key, after[key], nics) for key in listed}
    return after


def findings(annotations: Annotations, namespace: str, knowledge: Knowledge, settings: RuleSettings) -> Findings:
    """Everything that is found in a pod's annotations."""
    if not any(key in annotations for key in RULED):
        return Findings()
    networks = parse(NETWORKS, annotations.get(NETWORKS, ""), namespace)
    if isinstance(networks, Unreadable):
        return Findings(networks.problems) + spiderpool_findings(annotations, networks, knowledge)
    nics = nics_of(networks.items, annotations, knowledge, settings)
    return network_findings(annotations, nics, knowledge, settings) + spiderpool_findings(annotations, nics, knowledge)


def changed_findings(
    before: Annotations, after: Annotations, namespace: str, knowledge: Knowledge, settings: RuleSettings
) -> Findings:
    """What an update brings in: problems of an annotation that it changes, and any that was not there before."""
    changed = {key for key in RULED if before.get(key) != after.get(key)}
    if not changed:
        return Findings()
    old = set(findings(before, namespace, knowledge, settings).problems)
    new = findings(after, namespace, knowledge, settings)
    problems = tuple(item for item in new.problems if item.annotation in changed or item not in old)
    return Findings(problems, new.warnings)


class _Malformed(Struct, frozen=True):
    problem: str


def _decode(raw: msgspec.Raw) -> Pod | _Malformed:
    try:
        return _POD.decode(raw) or Pod()
    except UNDECODABLE as error:
        return _Malformed(f"the pod cannot be read: {error}")
