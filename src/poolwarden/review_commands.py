"""`poolwarden review`: the webhook's rules on files."""

import argparse
import sys
from typing import Any

import msgspec

from poolwarden.cli import COULD_NOT
from poolwarden.cluster.documents import Given
from poolwarden.cluster.files import Files
from poolwarden.cluster.inputs import read
from poolwarden.cluster.yaml_text import dump
from poolwarden.plain import say
from poolwarden.webhook.answer import Errored
from poolwarden.webhook.files_knowledge import knowledge_of
from poolwarden.webhook.offline import NotReviewed, Reviewed, request_for, review
from poolwarden.webhook.review import Operation
from poolwarden.webhook.rules import PATHS
from poolwarden.webhook.settings import DefaultNetwork, RuleSettings

ALLOWED, DENIED = 0, 1
POD_PATHS = (PATHS["", "Pod"], PATHS["apps", "Deployment"])
"""Of kinds that tell the rules nothing about a cluster: who gives such an object may expect it to be reviewed."""
NAMESPACED_UNLESS = frozenset({"SpiderIPPool", "SpiderReservedIP", "PoolGuard"})
"""The kinds with rules whose objects live in no namespace."""


def rule_settings(options: argparse.Namespace) -> RuleSettings:
    """What the command line tells the rules."""
    return RuleSettings(
        default_network=DefaultNetwork(options.default_network),
        default_networks=options.default_networks,
        system_namespaces=frozenset(options.multus_system_namespace or ["kube-system"]),
        multus_namespace=options.multus_namespace,
        lease_seconds=options.lease_duration,
    )


def run_review(options: argparse.Namespace) -> int:
    """Review one object; the exit status is 0 if it is allowed, 1 if it is denied, 2 if it could not be reviewed."""
    given = _only_object(options.file[0])
    old = _only_object(options.old) if options.old else None
    if isinstance(given, str) or isinstance(old, str):
        return _fail(given if isinstance(given, str) else str(old))
    operation = Operation(options.operation or ("UPDATE" if old else "CREATE"))
    if (operation is Operation.UPDATE) != (old is not None):
        return _fail("--operation UPDATE and --old go together")
    if old is not None and (old.kind, old.name) != (given.kind, given.name):
        return _fail(f"--old: {old.where} is {old.kind} {old.name}, and the object is {given.kind} {given.name}")
    around = read(options.file[1:])
    cluster = Files(around, assume_complete=options.assume_complete)
    if cluster.problems:
        return _fail(*cluster.problems)
    pods = [item for item in around.objects if PATHS.get((item.group, item.kind)) in POD_PATHS]
    if pods:
        _say(f"{pods[0].where}: {pods[0].kind} {pods[0].name}: reviewed is only the object of the first file")
    default = "" if given.kind in NAMESPACED_UNLESS else "default"
    request = request_for(
        bytes(given.raw),
        bytes(old.raw) if old else b"",
        group=given.group,
        kind=given.kind,
        namespace=given.namespace or default,
        operation=operation,
    )
    match review(request, knowledge_of(cluster), rule_settings(options)):
        case NotReviewed(kind):
            kinds = ", ".join(sorted({name for _, name in PATHS}))
            return _fail(f"{given.where}: no rule speaks of {kind}; there are rules for {kinds}")
        case Errored(message=message):
            return _fail(f"{given.where}: {message}")
        case Reviewed() as outcome:
            _print(outcome, options.output)
            return ALLOWED if outcome.allowed else DENIED


def _only_object(path: str) -> Given | str:
    """The one object of a file, or what is wrong with it."""
    reading = read([path])
    if reading.faults:
        return "; ".join(fault.message for fault in reading.faults)
    if len(reading.objects) != 1:
        return f"{path}: {len(reading.objects)} objects; review takes one at a time"
    return reading.objects[0]


def _print(outcome: Reviewed, output: str) -> None:
    if output == "json":
        answer: dict[str, Any] = {
            "allowed": outcome.allowed,
            "status": outcome.status,
            "warnings": outcome.warnings,
            "patch": outcome.patch,
            "object": outcome.object,
        }
        print(msgspec.json.format(msgspec.json.encode(answer)).decode())
        return
    say((f"Warning: {warning}" for warning in outcome.warnings), sys.stderr)
    if outcome.status is not None:
        say([f"denied: {outcome.status['message']}"], sys.stderr)
    elif output == "patch":
        print(msgspec.json.format(msgspec.json.encode(outcome.patch or ())).decode())
    else:
        print(dump(outcome.object), end="")


def _fail(*messages: str) -> int:
    _say(*messages)
    return COULD_NOT


def _say(*messages: str) -> None:
    say((f"poolwarden: {message}" for message in messages), sys.stderr)
