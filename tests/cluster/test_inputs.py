import io
from pathlib import Path
from types import SimpleNamespace

import pytest

from poolwarden.cluster.inputs import read

POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: blue}\n"


def names(*inputs: Path | str) -> list[str]:
    """The names of the objects of inputs without faults."""
    reading = read([str(one) for one in inputs])
    assert reading.faults == ()
    return [given.name for given in reading.objects]


def messages(*inputs: Path | str) -> list[str]:
    """What is wrong with inputs."""
    return [fault.message for fault in read([str(one) for one in inputs]).faults]


def test_files_in_their_order(tmp_path: Path) -> None:
    """Inputs are read in the order given, whatever their names."""
    (tmp_path / "b").write_text(POD % "b")
    (tmp_path / "a").write_text(POD % "a")
    assert names(tmp_path / "b", tmp_path / "a") == ["b", "a"]


def test_folder(tmp_path: Path) -> None:
    """A folder is read recursively, in the order of paths: *.yaml, *.yml and *.json, and nothing else."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "z.yaml").write_text(POD % "z")
    (tmp_path / "sub" / "b.yml").write_text(POD % "b")
    (tmp_path / "a.json").write_text('{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}')
    (tmp_path / "README.md").write_text(POD % "readme")
    (tmp_path / "truth.json").write_text('{"10.0.0.1": "live"}')
    assert names(tmp_path) == ["a", "b", "z"]


def test_ruins_in_a_folder_are_told(tmp_path: Path) -> None:
    """Only documents without any mark of an object are passed over."""
    (tmp_path / "a.yaml").write_text("spec: {}\n")
    assert messages(tmp_path) == [f"{tmp_path}/a.yaml:1: object without kind"]


def test_foreign_file_named_is_told(tmp_path: Path) -> None:
    """Who names a file means it: without any object it is a fault."""
    (tmp_path / "truth.json").write_text('{"10.0.0.1": "live"}')
    assert messages(tmp_path / "truth.json") == [f"{tmp_path}/truth.json:1: no Kubernetes object"]


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash is standard input, and called so."""
    text = (POD % "a" + "---\nkind: Pod\n").encode()
    monkeypatch.setattr("sys.stdin", SimpleNamespace(buffer=io.BytesIO(text)))
    reading = read(["-"])
    assert [given.name for given in reading.objects] == ["a"]
    assert [fault.message for fault in reading.faults] == ["standard input:5: Pod without apiVersion"]


def test_what_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and a folder of nothing are faults that may hide any kind; the rest is read."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "a").write_text(POD % "a")
    reading = read([str(tmp_path / "none"), str(tmp_path / "empty"), str(tmp_path / "a")])
    assert [fault.message for fault in reading.faults] == [
        f"{tmp_path}/none: No such file or directory",
        f"{tmp_path}/empty: no *.yaml, *.yml or *.json in this folder",
    ]
    assert {fault.kind for fault in reading.faults} == {""}
    assert [given.name for given in reading.objects] == ["a"]


def test_folder_that_cannot_be_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder within a folder that may not be read is told, not skipped."""
    (tmp_path / "a.yaml").write_text(POD % "a")
    (tmp_path / "secret").mkdir()

    def walk(_: Path, onerror: object) -> object:
        assert callable(onerror)
        onerror(PermissionError(13, "Permission denied", str(tmp_path / "secret")))
        return [(str(tmp_path), [], ["a.yaml"])]

    monkeypatch.setattr("os.walk", walk)
    assert messages(tmp_path) == [f"{tmp_path}/secret: Permission denied"]


def test_empty_name() -> None:
    """An unset variable in a script does not read the current folder."""
    assert messages("") == ["an empty name names no file"]
