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
from poolwarden.webhook.pod.problem import MOST_TOLD, Findings, Unreadable, joined, listed
from poolwarden.webhook.pod.spiderpool_rules import named_lists, spiderpool_findings
from poolwarden.webhook.review import Operation as Verb
from poolwarden.webhook.review import Request
from poolwarden.webhook.settings import RuleSettings

Annotations = Mapping[str, str]
MOST_ANNOTATIONS = 256 << 10
"""Bytes of keys and values (apimachinery, `TotalAnnotationSizeLimitB`)."""
INJECTIONS = ("cni.spidernet.io/network-resource-inject", "cni.spidernet.io/rdma-resource-inject")
"""By these Spiderpool's own webhook writes the networks annotation: without it yet, a pod's NICs are not known."""
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
    """`/mutate-pods`: name what is unnamed, where the name is certain; of an update only what it changes.

    Who applies a pod again sends the text that he wrote at first: named again, nothing has changed.
    """
    pod, before = _decode(request.object), _decode(request.old_object)
    if isinstance(pod, _Malformed):
        return denied(pod.problem)
    if _is_past(request, pod):
        return allowed()
    if sum(len(key) + len(value) for key, value in pod.annotations.items()) > MOST_ANNOTATIONS:
        return allowed()  # the API server itself refuses it, but only after us
    after = named(pod.annotations, request.namespace, knowledge, settings)
    kept = {} if isinstance(before, _Malformed) else before.annotations
    changed = [key for key in RULED if key in after and after[key] != pod.annotations[key] != kept.get(key)]
    operations = [Operation(pointer("metadata", "annotations", key), after[key]) for key in changed]
    interfaces = {key: listed(_interfaces(key, after[key])) for key in changed}
    told = (f"metadata.annotations[{key}]: interfaces are now {names}" for key, names in interfaces.items())
    audit = {key.replace("/", "_"): names for key, names in interfaces.items()}
    return with_warnings(patched(operations, audit), told)


def _is_past(request: Request, pod: Pod) -> bool:
    """Whether nothing is to be said of this pod, or at this point of its life."""
    stored = request.operation in (Verb.CREATE, Verb.UPDATE) and not request.sub_resource
    return not stored or not pod.has_nics or pod.ending


def _interfaces(annotation: str, text: str) -> list[str]:
    """The interface names in an annotation that was just named, "?" where an item has none."""
    read = parse(annotation, text, "") if annotation == NETWORKS else parse_many(annotation, text)
    return [] if isinstance(read, Unreadable) else [item.interface or "?" for item in read.items]


def validate_pod(request: Request, knowledge: Knowledge, settings: RuleSettings) -> Answer:
    """`/validate-pods`: refuse what can only fail, or leak; of an update only what it changes."""
    pod, before = _decode(request.object), _decode(request.old_object)
    if isinstance(pod, _Malformed):
        return denied(pod.problem)
    if _is_past(request, pod):
        return allowed()
    if request.operation is Verb.CREATE or isinstance(before, _Malformed):
        found = findings(pod.annotations, request.namespace, knowledge, settings)
    else:
        found = changed_findings(before.annotations, pod.annotations, request.namespace, knowledge, settings)
    verdict = denied(joined(found.problems)) if found.problems else allowed()
    return with_warnings(verdict, map(str, found.warnings[:MOST_TOLD]))


def named(annotations: Annotations, namespace: str, knowledge: Knowledge, settings: RuleSettings) -> Annotations:
    """The annotations with every interface name explicit, as far as it is certain; the others as they are."""
    after = dict(annotations)
    networks = parse(NETWORKS, annotations.get(NETWORKS, ""), namespace)
    if isinstance(networks, Unreadable):
        return after
    if NETWORKS in after:
        after[NETWORKS] = named_networks(after[NETWORKS], networks.items, settings.preceding(namespace))
        networks = parse(NETWORKS, after[NETWORKS], namespace)
        assert not isinstance(networks, Unreadable)
    listed = [key for key in (IPPOOLS, SUBNETS) if key in after]
    if listed:
        nics = nics_of(networks.items, after, namespace, knowledge, settings)
        after |= {key: named_lists(key, after[key], nics) for key in listed}
    return after


def findings(annotations: Annotations, namespace: str, knowledge: Knowledge, settings: RuleSettings) -> Findings:
    """Everything that is found in a pod's annotations."""
    if not any(key in annotations for key in RULED):
        return Findings()
    networks = parse(NETWORKS, annotations.get(NETWORKS, ""), namespace)
    if isinstance(networks, Unreadable):
        return Findings(networks.problems) + spiderpool_findings(annotations, networks, knowledge)
    nics = nics_of(networks.items, annotations, namespace, knowledge, settings)
    injected = NETWORKS not in annotations and any(key in annotations for key in INJECTIONS)
    return network_findings(annotations, nics, knowledge, settings) + spiderpool_findings(
        annotations, Unreadable(()) if injected else nics, knowledge
    )


def changed_findings(
    before: Annotations, after: Annotations, namespace: str, knowledge: Knowledge, settings: RuleSettings
) -> Findings:
    """What an update brings in: new faults of the annotations that it changes. Those that it makes elsewhere are warned of.

    NICs are plugged in and out of running pods by a change of their networks alone, long after Spiderpool read its lists.
    """
    changed = {key for key in RULED if before.get(key) != after.get(key)}
    if not changed:
        return Findings()
    old = {problem.key for problem in findings(before, namespace, knowledge, settings).problems}
    found = findings(after, namespace, knowledge, settings)
    new = [problem for problem in found.problems if problem.key not in old]
    return Findings(
        problems=tuple(problem for problem in new if problem.annotation in changed),
        warnings=(*found.warnings, *(problem for problem in new if problem.annotation not in changed)),
    )


class _Malformed(Struct, frozen=True):
    problem: str


def _decode(raw: msgspec.Raw) -> Pod | _Malformed:
    try:
        return _POD.decode(raw) or Pod()
    except UNDECODABLE as error:
        return _Malformed(f"the pod cannot be read: {error}")
