"""What the documents list is what the code has."""

import re
from pathlib import Path

import pytest

from exported import OF_GC, OF_WEBHOOK
from factories import blue, claim, pod
from faults import World, sweep
from poolwarden.gc.notice import NoticeReason
from poolwarden.ipam.inventory import Backend
from poolwarden.ipam.registry import BACKENDS
from poolwarden.ipam.verdict import Reason

ROOT = Path(__file__).parents[1]


def test_every_reason_has_one_line() -> None:
    """docs/reasons.md explains each reason once, and none that is not there."""
    rows = re.findall(r"^\| \w+ \| (\w+) \|", (ROOT / "docs" / "reasons.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(row for row in rows if row != "reason") == sorted(Reason)


def test_the_interface_of_an_ipam_is_explained_whole() -> None:
    """docs/adding-an-ipam.md names every attribute and method that a backend offers, and none besides in its table."""
    text = (ROOT / "docs" / "adding-an-ipam.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE)
    attributes = {*Backend.__annotations__, *(name for name in vars(Backend) if callable(getattr(Backend, name)))}
    assert sorted(rows) == sorted(name for name in attributes if not name.startswith("_"))


@pytest.mark.parametrize("name", BACKENDS)
def test_every_ipam_is_in_the_readme(name: str) -> None:
    """The table of README.md has a line for each IPAM."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.search(rf"^\| \*\*{name}\*\* \|", text, re.MULTILINE | re.IGNORECASE)


@pytest.mark.parametrize(("title", "exported"), [("gc", OF_GC), ("Webhook", OF_WEBHOOK)])
def test_every_metric_is_explained(title: str, exported: dict[str, frozenset[str]]) -> None:
    """docs/metrics.md has a line for each metric that a scrape shows, with its labels, and none besides."""
    text = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    section = text.split(f"\n## {title}\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| \w+ \| ([^|]*) \|", section, re.MULTILINE)
    families: dict[str, set[str]] = {}
    for name, labels in exported.items():
        families.setdefault(re.sub(r"_(bucket|sum|count)$", "", name), set()).update(labels - {"le"})
    assert {name: set(re.findall(r"`(\w+)`", labels)) for name, labels in rows} == families
    assert len(rows) == len(families)


def test_every_event_is_explained() -> None:
    """docs/events.md has a line for each reason of an Event, with its type, and none besides."""
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (Normal|Warning) \|", text, re.MULTILINE)
    assert sorted(rows) == sorted((reason.value, "Warning" if reason.warns else "Normal") for reason in NoticeReason)


def test_every_condition_is_explained() -> None:
    """docs/events.md names all types of conditions that sweeps set, and each status and reason that they have here."""
    text = (ROOT / "docs" / "events.md").read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `(\w+)` \| (True|False) \| `(\w+)` \|", text, re.MULTILINE))
    world = World(blue({"10.0.0.10": claim("app")}), pod("other"))
    sweep(world)
    world.set_guard("blue", freeAddresses={"low": 1, "target": 2, "high": 30})
    guard = world.guard("blue")
    world.put({**guard, "metadata": {"name": "another", "uid": "another"}, "status": {}})
    sweep(world)
    set_now = {
        (item["type"], item["status"], item["reason"])
        for guard in world.objects()
        if guard["kind"] == "PoolGuard"
        for item in guard["status"]["conditions"]
    }
    assert set_now <= rows
    assert {kind for kind, _, _ in set_now} == {kind for kind, _, _ in rows}
