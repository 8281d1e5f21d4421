"""Public cases of whereabouts, Neon and Terway, each as a state of objects with its right verdict."""

from pathlib import Path

import pytest

from cases.test_audit_cases import Case

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expect.json"))


@pytest.fixture(params=FOLDERS, ids=lambda folder: folder.name)
def thread(request: pytest.FixtureRequest) -> Case:
    """Each thread."""
    return Case(request.param)


def test_what_must_be_found(thread: Case) -> None:
    """Each pattern matches a finding, and the findings of its address name what it mentions."""
    for pattern in thread.expect["must"]:
        found = thread.matching(pattern)
        assert found, pattern
        text = " ".join(str(item) for item in thread.findings if item.address in {match.address for match in found})
        assert [word for word in pattern.get("mentions", ()) if word not in text] == []


def test_what_is_released(thread: Case) -> None:
    """Exactly these."""
    released = {f"{item.pool.name}/{item.address}" for item in thread.findings if item.action == "release"}
    assert released == set(thread.expect["release"])


def test_what_must_not_be_said(thread: Case) -> None:
    """No finding matches a forbidden pattern, so nothing is said of any address that is as it should be."""
    assert [item for pattern in thread.expect["forbid"] for item in thread.matching(pattern)] == []


def test_how_addresses_are_counted(thread: Case) -> None:
    """Each pool's states are those of the thread."""
    states = dict(thread.states())
    for name, wanted in thread.expect["pools"].items():
        assert states[name] | wanted == states[name]


def test_every_folder_is_listed() -> None:
    """The README names each folder, and the folders are where they are looked for."""
    readme = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    assert FOLDERS
    assert [folder.name for folder in FOLDERS if f"| `{folder.name}` |" not in readme] == []
