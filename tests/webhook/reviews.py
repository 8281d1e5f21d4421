"""Reviews as the API server would send them, and a small cluster for the rules to know; a test shows only what matters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Raw

from poolwarden.cluster.interface import Complete
from poolwarden.ipam.objects import NETWORKS, AttachmentSpec, Metadata, NetworkAttachment
from poolwarden.ipam.spiderpool import MultusConfigSpec, PoolSpec, SpiderIPPool, SpiderMultusConfig
from poolwarden.webhook.answer import Allowed, Answer, Denied, Patched
from poolwarden.webhook.knowledge import Knowledge, Known
from poolwarden.webhook.patch import apply
from poolwarden.webhook.pod.pods import mutate_pod, validate_pod
from poolwarden.webhook.review import NULL, Operation, Request, ReviewedKind
from poolwarden.webhook.settings import RuleSettings

NAMESPACE = "team-a"
Object = dict[str, Any]


def pod(annotations: Mapping[str, str] | None = None, **spec: Any) -> Object:
    """A pod of NAMESPACE; without annotations it has no map of them at all."""
    metadata: Object = {"name": "web", "namespace": NAMESPACE}
    if annotations is not None:
        metadata["annotations"] = dict(annotations)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def request(
    obj: Object, *, old: Object | None = None, kind: str = "Pod", group: str = "", namespace: str = NAMESPACE
) -> Request:
    """A CREATE, or an UPDATE if there is an old object."""
    return Request(
        uid="b6f1c5f0-0000-4000-8000-000000000001",
        kind=ReviewedKind(kind, group, "v1"),
        operation=Operation.UPDATE if old else Operation.CREATE,
        namespace=namespace,
        object=Raw(msgspec.json.encode(obj)),
        old_object=Raw(msgspec.json.encode(old)) if old else NULL,
    )


def attachment(namespace: str, name: str, config: str) -> tuple[tuple[str, str], NetworkAttachment]:
    """A NetworkAttachmentDefinition by its key."""
    return (namespace, name), NetworkAttachment(Metadata(name, namespace=namespace), AttachmentSpec(config))


def config(ipam: str) -> str:
    """A macvlan configuration whose addresses come from that IPAM."""
    return msgspec.json.encode({"cniVersion": "0.3.1", "type": "macvlan", "ipam": {"type": ipam}}).decode()


def spider_pool(name: str, subnet: str) -> tuple[tuple[str, str], SpiderIPPool]:
    """A SpiderIPPool by its key."""
    version = 6 if ":" in subnet else 4
    return ("", name), SpiderIPPool(Metadata(name), PoolSpec(subnet=subnet, ip_version=version))


def multus_config(namespace: str, name: str, spec: MultusConfigSpec) -> tuple[tuple[str, str], SpiderMultusConfig]:
    """A SpiderMultusConfig by its key."""
    return (namespace, name), SpiderMultusConfig(Metadata(name, namespace=namespace), spec)


KNOWLEDGE = Knowledge(
    attachments=Known(
        dict(
            (
                attachment(NAMESPACE, "a", config("whereabouts")),
                attachment(NAMESPACE, "b", config("whereabouts")),
                attachment(NAMESPACE, "my.net", config("whereabouts")),
                attachment("team-b", "a", config("whereabouts")),
                attachment("kube-system", "base", config("spiderpool")),
                attachment("kube-system", "v1", config("spiderpool")),
                attachment("kube-system", "v2", config("spiderpool")),
                attachment("kube-system", "odd", "{no json"),
                attachment("kube-system", "silent", '{"type": "macvlan"}'),
                attachment("kube-system", "early", ""),
            )
        ),
        read=Complete(),
    ),
    multus_configs=Known(
        dict(
            (
                multus_config("kube-system", "made", MultusConfigSpec(cni_type="macvlan")),
                multus_config("kube-system", "early", MultusConfigSpec(cni_type="macvlan")),
                multus_config("kube-system", "bare", MultusConfigSpec(cni_type="ipvlan", disable_ipam=True)),
                multus_config("kube-system", "own", MultusConfigSpec(custom_cni=config("spiderpool"))),
            )
        ),
        read=Complete(),
    ),
    spider_pools=Known(
        dict(
            (
                spider_pool("p0", "10.6.0.0/24"),
                spider_pool("p1", "10.6.1.0/24"),
                spider_pool("p2", "10.6.2.0/24"),
                spider_pool("six", "fd00:6::/64"),
            )
        ),
        read=Complete(),
    ),
)
"""Networks of whereabouts and of Spiderpool, and pools of both families."""


def mutated(
    annotations: Mapping[str, str], knowledge: Knowledge = KNOWLEDGE, settings: RuleSettings | None = None
) -> dict[str, str]:
    """The annotations of a new pod as the mutating rule leaves them."""
    before = pod(annotations)
    answer = mutate_pod(request(before), knowledge, settings or RuleSettings())
    assert isinstance(answer, Allowed | Patched), answer
    after = apply(before, answer.operations) if isinstance(answer, Patched) else before
    return dict(after["metadata"]["annotations"])


def reviewed(
    annotations: Mapping[str, str], knowledge: Knowledge = KNOWLEDGE, settings: RuleSettings | None = None
) -> tuple[dict[str, str], Answer]:
    """The annotations as patched, and what the validating rule says of them."""
    after = mutated(annotations, knowledge, settings)
    return after, validate_pod(request(pod(after)), knowledge, settings or RuleSettings())


def said(answer: Answer) -> str:
    """All that a user would read."""
    assert isinstance(answer, Allowed | Denied | Patched), answer
    return " | ".join((*([answer.message] if isinstance(answer, Denied) else []), *answer.warnings))


def networks(text: str) -> dict[str, str]:
    """A pod's annotations with just this networks annotation."""
    return {NETWORKS: text}
