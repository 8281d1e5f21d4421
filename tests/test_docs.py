"""What the documents list is what the code has."""

import re
from pathlib import Path

import pytest

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
