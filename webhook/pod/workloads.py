"""Rules about the pod templates of workloads: what their pods will be refused or warned for, said at apply time."""

import msgspec
from msgspec import Struct

from poolwarden.ipam.network import UNDECODABLE
from poolwarden.webhook.answer import Answer, allowed, with_warnings
from poolwarden.webhook.knowledge import Knowledge
from poolwarden.webhook.pod.pods import Pod, findings, named
from poolwarden.webhook.pod.problem import MOST_TOLD
from poolwarden.webhook.review import Operation, Request
from poolwarden.webhook.settings import RuleSettings


class _Spec(Struct, frozen=True, gc=False):
    template: Pod | None = None


class _Workload(Struct, frozen=True, gc=False):
    """Deployment, StatefulSet, DaemonSet, ReplicaSet or Job."""

    spec: _Spec | None = None


class _CronSpec(Struct, frozen=True, gc=False, rename="camel"):
    job_template: _Workload | None = None


class _CronJob(Struct, frozen=True, gc=False):
    spec: _CronSpec | None = None


_WORKLOAD = msgspec.json.Decoder(_Workload | None)
_CRON_JOB = msgspec.json.Decoder(_CronJob | None)


def validate_workload(request: Request, knowledge: Knowledge, settings: RuleSettings) -> Answer:
    """`/validate-workloads`: warnings, never a refusal. An update that leaves the template's annotations alone gets none."""
    if request.operation not in (Operation.CREATE, Operation.UPDATE) or request.sub_resource:
        return allowed()
    path, template = _template(request.kind.kind, request.object)
    if not template.has_nics:
        return allowed()
    if request.operation is Operation.UPDATE:
        _, before = _template(request.kind.kind, request.old_object)
        if before.annotations == template.annotations:
            return allowed()
    annotations = named(template.annotations, request.namespace, knowledge, settings)
    found = findings(annotations, request.namespace, knowledge, settings)
    refused = (f"would be refused: {path}.{problem}" for problem in found.problems[:MOST_TOLD])
    return with_warnings(allowed(), (*refused, *(f"{path}.{warning}" for warning in found.warnings[:MOST_TOLD])))


def _template(kind: str, raw: msgspec.Raw) -> tuple[str, Pod]:
    """Where the template stands, and the template; an empty one where it cannot be read, for which nothing is warned."""
    try:
        if kind == "CronJob":
            cron = _CRON_JOB.decode(raw)
            job = cron and cron.spec and cron.spec.job_template
            return "spec.jobTemplate.spec.template", (job and job.spec and job.spec.template) or Pod()
        workload = _WORKLOAD.decode(raw)
        return "spec.template", (workload and workload.spec and workload.spec.template) or Pod()
    except UNDECODABLE:
        return "spec.template", Pod()
