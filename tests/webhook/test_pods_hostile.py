"""Annotations that are made to hurt: none raises, none takes long, none makes a long answer."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from poolwarden.cluster.interface import Complete
from poolwarden.ipam.objects import DEFAULT_NETWORK, NETWORKS
from poolwarden.webhook.answer import Errored, response
from poolwarden.webhook.knowledge import Knowledge, Known
from poolwarden.webhook.pod.pods import mutate_pod, validate_pod
from poolwarden.webhook.pod.pool_lists import DEFAULT_ROUTE_NIC, IPPOOLS, ROUTES, SUBNETS
from poolwarden.webhook.pod.workloads import validate_workload
from poolwarden.webhook.settings import RuleSettings
from webhook.reviews import KNOWLEDGE, pod, request, spider_pool

BASE = {DEFAULT_NETWORK: "kube-system/base"}
MANY_POOLS = Knowledge(
    attachments=KNOWLEDGE.attachments,
    multus_configs=KNOWLEDGE.multus_configs,
    spider_pools=Known(dict(spider_pool(f"a{number}", "10.6.0.0/24") for number in range(1000)), read=Complete()),
)
SECONDS = 1.0
"""Of CPU; the slowest takes a fifth of it. What is more than 256 KiB of annotations the API server refuses anyway."""
LONGEST = 16_000


def many(count: int, **item: Any) -> str:
    """A JSON list of that many items, each with an interface of its own."""
    return json.dumps([{"interface": f"x{number}", **item} for number in range(count)])


HOSTILE: dict[str, dict[str, str]] = {
    "many pools in one item": {**BASE, IPPOOLS: json.dumps([{"ipv4": [str(n) for n in range(28_000)]}])},
    "one pool again and again": {**BASE, IPPOOLS: json.dumps([{"ipv4": ["p"] * 28_000}])},
    "many items": {**BASE, IPPOOLS: many(5_000, ipv4=["a0"]), NETWORKS: ",".join(["a"] * 1_000)},
    "a thousand items": {**BASE, IPPOOLS: many(1_000, ipv4=["a0"]), NETWORKS: ",".join(["a"] * 1_000)},
    "a thousand items without name": {
        **BASE,
        IPPOOLS: json.dumps([{"ipv4": ["a0"]}] * 1_000),
        NETWORKS: ",".join(["kube-system/v1"] * 999),
    },
    "many networks": {NETWORKS: ",".join(["a"] * 100_000)},
    "many networks as JSON": {NETWORKS: json.dumps([{"name": "a"}] * 15_000)},
    "one name for all": {NETWORKS: ",".join(["a@x"] * 1_024)},
    "many routes": {ROUTES: json.dumps([{}] * 80_000)},
    "many wildcards": {**BASE, IPPOOLS: json.dumps([{"ipv4": [f"*{n}*" for n in range(20_000)]}])},
    "long wildcards": {**BASE, IPPOOLS: json.dumps([{"ipv4": ["*a" * 120, "[" * 250]}])},
    "a wildcard without end": {**BASE, IPPOOLS: json.dumps([{"ipv4": ["*a" * 100_000]}])},
    "one long name": {NETWORKS: "a@" + "x" * 250_000},
    "one long network": {NETWORKS: "a" * 250_000},
    "one long key": {NETWORKS: json.dumps([{"name": "a", "k" * 250_000: 1}])},
    "depth": {NETWORKS: "[" * 250_000, IPPOOLS: '[{"ipv4":' * 50_000},
    "one long number": {NETWORKS: '[{"name":"a","x":' + "9" * 250_000 + "}]"},
    "blanks": {NETWORKS: "a" + " " * 250_000 + "@x"},
    "half a character": {
        NETWORKS: '[{"name":"a","interface":" \\ud800"},{"name":"b\\ud800"}]',
        IPPOOLS: '[{"interface":"\\ud800","ipv4":["\\udfff"]}]',
        DEFAULT_ROUTE_NIC: "x",
    },
    "half a character and nothing else": {
        **BASE,
        NETWORKS: '[{"name":"a","interface":" \\ud800"}]',
        IPPOOLS: '[{"ipv4":["\\udfff"]}]',
        SUBNETS: '[{"interface":" \\ud800","ipv4":["s\\ud800"]}]',
        DEFAULT_ROUTE_NIC: "x",
    },
    "half a character as a key": {NETWORKS: '[{"name":"a","\\ud800":1}]', IPPOOLS: '[{"\\ud800":1,"ipv4":["p0"]}]'},
}


@pytest.mark.parametrize("annotations", HOSTILE.values(), ids=HOSTILE)
def test_hostile_annotations_are_answered_soon_and_shortly(annotations: dict[str, str]) -> None:
    """By all rules, on the wire."""
    template = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
    for rule, asked in (
        (mutate_pod, request(pod(annotations))),
        (validate_pod, request(pod(annotations))),
        (validate_pod, request(pod(annotations), old=pod({**annotations, NETWORKS: "b"}))),
        (validate_workload, request(template, kind="Deployment", group="apps")),
    ):
        began = time.process_time()
        answer = rule(asked, MANY_POOLS, RuleSettings())
        assert not isinstance(answer, Errored)
        text = response("u1", answer)
        assert time.process_time() - began < SECONDS
        assert len(text) < LONGEST + (3 * len(str(annotations)) if rule is mutate_pod else 0)


def test_a_warning_keeps_its_advice() -> None:
    """Where the template stands, which item, and what to do, within what the API server shows."""
    lists = '[{"interface": "eth0", "ipv4": ["a0"]}, {"interface": "net1", "ipv4": ["a1"], "cleangateway": false}]'
    annotations = {**BASE, NETWORKS: "a", IPPOOLS: lists}
    cron = {"spec": {"jobTemplate": {"spec": {"template": {"metadata": {"annotations": annotations}}}}}}
    answer = validate_workload(request(cron, kind="CronJob", group="batch"), MANY_POOLS, RuleSettings())
    assert not isinstance(answer, Errored)
    assert any("remove the item" in text for text in answer.warnings)
