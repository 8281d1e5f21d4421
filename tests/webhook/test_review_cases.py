"""The shared review cases: what a user applies, and what the webhook answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from poolwarden import cli

CASES = sorted(path.parent for path in (Path(__file__).parent.parent / "cases" / "review").glob("*/expect.json"))


@pytest.mark.parametrize("folder", CASES, ids=lambda folder: folder.name)
def test_the_answer_is_as_expected(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Verdict, exit status, names, warnings and message."""
    expect: dict[str, Any] = json.loads((folder / "expect.json").read_text(encoding="utf-8"))
    cluster = ["-f", str(folder / "cluster.yaml")] if (folder / "cluster.yaml").exists() else []
    old = ["--old", str(folder / "old.yaml")] if (folder / "old.yaml").exists() else []
    command = ["review", "-f", str(folder / "object.yaml"), *cluster, "--operation", expect["operation"], *old]
    status = cli.main([*command, "-o", "json"])
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["allowed"] is expect["allowed"], answer
    assert status == (0 if answer["allowed"] else 1)
    message = answer["status"]["message"].lower() if answer["status"] else ""
    warnings = "\n".join(answer["warnings"]).lower()
    assert [part for part in expect.get("message_contains", ()) if part not in message] == []
    assert [part for part in expect.get("warnings_contain", ()) if part not in warnings] == []
    assert not (expect.get("unchanged") and answer["patch"])
    annotations = answer["object"]["metadata"].get("annotations", {})
    if "ippools_names" in expect:
        items = json.loads(annotations["ipam.spidernet.io/ippools"])
        assert [item.get("interface") for item in items] == expect["ippools_names"]
    for key, names in expect.get("names", {}).items():
        text = annotations[key]
        items = (
            json.loads(text)
            if text.startswith("[")
            else [{"interface": part.partition("@")[2]} for part in text.split(",")]
        )
        assert [item.get("interface") for item in items] == names
