"""The rules, the dashboard and the monitors: they load, alert when they should, and name only what is exported."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from exported import EXPORTED
from manifests import promtool
from manifests.shipped import MANIFESTS, Object

MONITORING = MANIFESTS / "monitoring"
DOCS = MANIFESTS.parent / "docs"
RULES: Object = yaml.safe_load((MONITORING / "rules.yaml").read_text(encoding="utf-8"))
DASHBOARD: Object = json.loads((MONITORING / "dashboard.json").read_text(encoding="utf-8"))
ALERTS = [rule for group in RULES["spec"]["groups"] for rule in group["rules"]]
TARGET_LABELS = {"pod"}
"""Labels that a monitor gives each series."""


def queries(panels: list[Object]) -> Iterator[str]:
    """The queries of panels."""
    for panel in panels:
        yield from (target["expr"] for target in panel.get("targets", ()))


def named(query: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric that a query selects, and the labels by which it does."""
    for name, selector in re.findall(r"\b(poolwarden_\w+)(?:\{([^}]*)\})?", query):
        yield name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector))


def grouped(query: str) -> set[str]:
    """The labels that a query groups by."""
    return {
        label.strip() for group in re.findall(r"\b(?:by|on|without)\s*\(([^)]+)\)", query) for label in group.split(",")
    }


EXPRESSIONS = [
    *((rule["alert"], rule["expr"]) for rule in ALERTS),
    *((f"dashboard-{at}", query) for at, query in enumerate(queries(DASHBOARD["panels"]))),
    *((v["name"], v["definition"]) for v in DASHBOARD["templating"]["list"] if v["type"] == "query"),
]


@pytest.mark.parametrize("query", [query for _, query in EXPRESSIONS], ids=[name for name, _ in EXPRESSIONS])
def test_only_what_is_exported_is_named(query: str) -> None:
    """Every metric and label of rules and dashboard is one that gc or the webhook exports."""
    selections = list(named(query))
    assert selections
    known = {"le", *TARGET_LABELS}
    for name, labels in selections:
        assert name in EXPORTED
        assert labels <= EXPORTED[name]
        known |= EXPORTED[name]
    assert grouped(query) <= known


@pytest.mark.parametrize("rule", ALERTS, ids=[rule["alert"] for rule in ALERTS])
def test_an_alert_tells_what_to_do(rule: Object) -> None:
    """Each alert has a severity, a summary, a description, and a place in the runbook."""
    assert rule["labels"]["severity"] in {"warning", "critical"}
    assert rule["annotations"].keys() == {"summary", "description", "runbook_url"}
    page, _, anchor = rule["annotations"]["runbook_url"].partition("#")
    assert page == "docs/runbook.md"
    titles = re.findall(r"^## (.+)$", (DOCS / "runbook.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert anchor in {title.lower().replace(" ", "-") for title in titles}


def test_templates_name_labels_that_the_alert_has() -> None:
    """A text with an empty gap where its label should be helps nobody."""
    for rule in ALERTS:
        texts = " ".join(rule["annotations"].values())
        assert set(re.findall(r"\$labels\.(\w+)", texts)) <= grouped(rule["expr"]), rule["alert"]


def test_every_metric_is_shown() -> None:
    """The dashboard leaves no metric of ours out."""
    shown = {name for query in queries(DASHBOARD["panels"]) for name, _ in named(query)}
    base = {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
    assert base == {re.sub(r"_(bucket|sum|count)$", "", name) for name in EXPORTED}


def test_every_panel_is_explained() -> None:
    """What a panel shows, and what it leaves out, stands behind its title."""
    for panel in DASHBOARD["panels"]:
        assert panel["type"] == "row" or panel["description"].endswith("."), panel["title"]


def test_panels_lie_apart() -> None:
    """No two panels of the dashboard cover each other or have one id."""
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for place in (panel["gridPos"] for panel in panels)
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(set(cells)) == len(cells)
    assert max(x for x, _ in cells) < 24


# --- built and checked by others' programs ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def built(control_plane_programs: Mapping[str, Path]) -> list[Object]:
    """What kustomize makes of the folder."""
    command = [str(control_plane_programs["kubectl"]), "kustomize", str(MONITORING)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return list(yaml.safe_load_all(done.stdout))


def test_what_is_built(built: list[Object]) -> None:
    """Two monitors, the rules, and the dashboard where Grafana's sidecar finds it, as it is."""
    kinds = sorted((item["kind"], item["metadata"]["name"], item["metadata"]["namespace"]) for item in built)
    assert kinds == [
        ("ConfigMap", "poolwarden-dashboard", "poolwarden"),
        ("PodMonitor", "poolwarden-gc", "poolwarden"),
        ("PodMonitor", "poolwarden-webhook", "poolwarden"),
        ("PrometheusRule", "poolwarden", "poolwarden"),
    ]
    board = next(item for item in built if item["kind"] == "ConfigMap")
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(board["data"]["poolwarden.json"]) == DASHBOARD
    rules = next(item for item in built if item["kind"] == "PrometheusRule")
    assert rules["spec"] == RULES["spec"]


def test_monitors_find_their_pods(built: list[Object], control_plane_programs: Mapping[str, Path]) -> None:
    """Each monitor selects one Deployment's pods, by labels and by a port that they name."""
    command = [str(control_plane_programs["kubectl"]), "kustomize", str(MANIFESTS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    deployments = [item for item in yaml.safe_load_all(done.stdout) if item["kind"] == "Deployment"]
    for monitor in (item for item in built if item["kind"] == "PodMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"].items()
        found = [
            d["spec"]["template"] for d in deployments if wanted <= d["spec"]["template"]["metadata"]["labels"].items()
        ]
        assert len(found) == 1
        (port,) = (endpoint["port"] for endpoint in monitor["spec"]["podMetricsEndpoints"])
        (container,) = found[0]["spec"]["containers"]
        assert {item["name"]: item["containerPort"] for item in container["ports"]}[port] == 8080


@pytest.fixture(scope="module")
def prom() -> Path:
    """The path of promtool. Where there is apt-get, CI has it."""
    try:
        return promtool.ensure()
    except promtool.NoPromtoolError as error:
        if os.environ.get("CI") == "true" and "no apt-get" not in str(error):
            pytest.fail(f"{error} With CI=true that is a failure.", pytrace=False)
        pytest.skip(str(error))


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    """The rules as Prometheus reads them: without the operator's wrapping."""
    path = tmp_path / "rules.yaml"
    path.write_text(yaml.safe_dump(RULES["spec"]), encoding="utf-8")
    return path


def run(*command: object) -> str:
    """Run promtool; its output."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_prometheus_takes_the_rules(prom: Path, rules: Path) -> None:
    """Promtool finds all of them, and no fault."""
    assert f"SUCCESS: {len(ALERTS)} rules found" in run(prom, "check", "rules", rules)


def test_alerts_fire_when_they_should(prom: Path, rules: Path, tmp_path: Path) -> None:
    """Each alert fires in its situation, with its text, and in none of those beside it."""
    text = (Path(__file__).parent / "rules-test.yaml").read_text(encoding="utf-8")
    tests: dict[str, Any] = yaml.safe_load(text)
    fired = {case["alertname"] for test in tests["tests"] for case in test["alert_rule_test"] if case["exp_alerts"]}
    assert fired == {rule["alert"] for rule in ALERTS}
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump(tests | {"rule_files": [str(rules)]}), encoding="utf-8")
    assert "SUCCESS" in run(prom, "test", "rules", path)


def test_prometheus_takes_the_dashboards_queries(prom: Path, tmp_path: Path) -> None:
    """Each query of the dashboard is PromQL, with Grafana's variables filled in."""
    records = [
        {"record": f"dashboard:query:{at}", "expr": query.replace("$__rate_interval", "5m").replace("$", "")}
        for at, query in enumerate(queries(DASHBOARD["panels"]))
    ]
    path = tmp_path / "queries.yaml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "dashboard", "rules": records}]}), encoding="utf-8")
    assert f"SUCCESS: {len(records)} rules found" in run(prom, "check", "rules", path)


SHOWN = {
    # The lease moves: two processes tell of one pool, and one of them does not know the newest finding yet.
    'poolwarden_pool_findings{ipam="spiderpool", pool="blue", verdict="Leaked", reason="OwnerGone", pod="a"}': 5,
    'poolwarden_pool_findings{ipam="spiderpool", pool="blue", verdict="Leaked", reason="OwnerGone", pod="b"}': 4,
    'poolwarden_pool_findings{ipam="neon", namespace="n", pool="blue", verdict="Leaked", reason="OwnerGone", pod="a"}': 2,
    'poolwarden_pool_findings{ipam="spiderpool", pool="blue", verdict="Conflict", reason="AddressHeldTwice", pod="a"}': 1,
    'poolwarden_pool_findings{ipam="spiderpool", pool="blue", verdict="Conflict", reason="AddressHeldTwice", pod="b"}': 1,
    'poolwarden_pool_addresses{ipam="spiderpool", pool="blue", state="free", pod="a"}': 0,
    'poolwarden_pool_addresses{ipam="spiderpool", pool="blue", state="free", pod="b"}': 0,
    'poolwarden_pool_addresses{ipam="spiderpool", pool="blue", state="allocated", pod="a"}': 9,
    'poolwarden_pool_addresses{ipam="spiderpool", pool="blue", state="allocated", pod="b"}': 9,
    'poolwarden_pool_addresses{ipam="terway", pool="node", state="free", pod="a"}': 0,
    'poolwarden_pool_addresses{ipam="terway", pool="node", state="allocated", pod="a"}': 3,
    # One replica still shows a CA that has been replaced, another one has an older serving certificate.
    'poolwarden_certificate_not_after_seconds{certificate="ca", pod="a"}': 100,
    'poolwarden_certificate_not_after_seconds{certificate="ca", pod="b"}': 90_000,
    'poolwarden_certificate_not_after_seconds{certificate="serving", pod="a"}': 5_000,
    'poolwarden_certificate_not_after_seconds{certificate="serving", pod="b"}': 7_000,
}


@pytest.mark.parametrize(
    ("title", "expected"),
    [
        ("Exhausted pools", {"{}": 1}),
        ("Leaked", {"{}": 7}),
        ("Conflicts", {"{}": 1}),
        ("Nearest end of a certificate", {"{}": 5_000}),
        ("Addresses by state", {'{state="allocated"}': 12, '{state="free"}': 0}),
        (
            "Findings",
            {
                '{verdict="Leaked", reason="OwnerGone"}': 7,
                '{verdict="Conflict", reason="AddressHeldTwice"}': 1,
            },
        ),
    ],
)
def test_the_dashboard_counts_as_the_alerts_do(
    prom: Path, tmp_path: Path, title: str, expected: Mapping[str, int]
) -> None:
    """A pool that two processes tell of counts once, Terway's are never full, and a replaced CA ends nothing."""
    (query,) = queries([item for item in DASHBOARD["panels"] if item["title"] == title])
    given = [{"series": series, "values": str(number)} for series, number in SHOWN.items()]
    samples = [{"labels": labels, "value": value} for labels, value in expected.items()]
    case = {"expr": re.sub(r"[$](ipam|pool)", ".*", query), "eval_time": "0m", "exp_samples": samples}
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"tests": [{"input_series": given, "promql_expr_test": [case]}]}), encoding="utf-8")
    assert "SUCCESS" in run(prom, "test", "rules", path)
