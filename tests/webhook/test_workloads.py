"""Templates: warned about, never refused, never changed."""

from __future__ import annotations

import pytest

from poolwarden.ipam.objects import NETWORKS
from poolwarden.webhook.answer import Allowed
from poolwarden.webhook.pod.workloads import validate_workload
from poolwarden.webhook.settings import RuleSettings
from webhook.reviews import KNOWLEDGE, Object, request

KINDS = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet", "Job", "CronJob"]


def workload(kind: str, networks: str, **spec: object) -> Object:
    """A workload whose pods ask for these networks."""
    template = {"template": {"metadata": {"annotations": {NETWORKS: networks}}, "spec": spec}}
    inside = {"jobTemplate": {"spec": template}} if kind == "CronJob" else template
    return {"kind": kind, "metadata": {"name": "web"}, "spec": inside}


def warnings(kind: str, obj: Object, old: Object | None = None) -> tuple[str, ...]:
    """What the author of the workload is told."""
    answer = validate_workload(request(obj, old=old, kind=kind, group="apps"), KNOWLEDGE, RuleSettings())
    assert isinstance(answer, Allowed)
    return answer.warnings


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_gets_the_findings_of_its_pods_as_warnings(kind: str) -> None:
    """Each says where the template stands in the workload."""
    told = warnings(kind, workload(kind, "a@eth0,nowhere@x"))
    path = "spec.jobTemplate.spec.template" if kind == "CronJob" else "spec.template"
    assert any("would be refused" in text and f"{path}.metadata" in text and "'eth0'" in text for text in told)
    assert any("nowhere" in text and "does not exist" in text for text in told)


@pytest.mark.parametrize("kind", KINDS)
def test_a_template_that_works_gets_none(kind: str) -> None:
    """What the webhook will name needs no warning."""
    assert warnings(kind, workload(kind, "a,b")) == ()


def test_a_template_on_the_nodes_network_gets_none() -> None:
    """Its pods have no NICs."""
    assert warnings("Deployment", workload("Deployment", "a@eth0", hostNetwork=True)) == ()


def test_an_update_elsewhere_gets_none() -> None:
    """Scaling a Deployment says nothing new of its template."""
    old = workload("Deployment", "a@eth0")
    assert warnings("Deployment", {**old, "spec": {**old["spec"], "replicas": 3}}, old) == ()
    assert warnings("Deployment", workload("Deployment", "b@eth0"), old) != ()


@pytest.mark.parametrize(
    "obj", [{}, {"spec": None}, {"spec": {"template": None}}, {"spec": 5}, {"spec": {"template": []}}]
)
def test_what_has_no_template_gets_none(obj: Object) -> None:
    """And raises nothing."""
    assert warnings("Deployment", obj) == ()
    assert warnings("CronJob", obj) == ()
