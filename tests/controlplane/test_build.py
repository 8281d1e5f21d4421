from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from controlplane import build


@pytest.fixture(autouse=True)
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with an empty cache, no Go and no folder of programs; returns a folder for programs in PATH."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return path


def put(folder: Path, *files: str) -> Path:
    """Makes empty files in the folder."""
    for file in files:
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).touch()
    return folder


def put_go(folder: Path, version: str, *, build_script: str = "exit 1", list_script: str = "exit 1") -> None:
    """Makes a Go of this version, and with this behaviour of ``go build`` and ``go list``."""
    go = folder / "go"
    cases = f"env) echo {version} ;;\nbuild) {build_script} ;;\nlist) {list_script} ;;"
    go.write_text(f'#!/bin/sh\ncase "$1" in\n{cases}\nesac\n')
    go.chmod(0o755)


def put_working_go(folder: Path, scratch: Path) -> Path:
    """Makes a Go whose programs are empty files, from modules that hold all that is wanted; returns a log of builds."""
    log = scratch / "builds"
    module = put(scratch / "module", *build.KWOK_STAGES.sources, *build.WHEREABOUTS_CRDS.sources)
    build_script = f'echo "$@" >> {log}; while [ "$1" != -o ]; do shift; done; : > "$2"'
    put_go(folder, "go1.99", build_script=build_script, list_script=f"echo {module}")
    return log


def test_says_what_to_install_where_there_is_no_go() -> None:
    """Without Go and without programs the error is one line that names both remedies."""
    with pytest.raises(build.UnavailableError) as error:
        build.ensure()
    assert "install Go >= 1." in str(error.value)
    assert "KUBEBUILDER_ASSETS" in str(error.value)
    assert "\n" not in str(error.value)


def test_refuses_a_go_that_is_too_old(machine: Path) -> None:
    """A Go older than the modules need is named with its version, and does not fetch another one."""
    put_go(machine, "go1.21.3")
    with pytest.raises(build.UnavailableError, match=r"is go1\.21\.3: install Go >= "):
        build.ensure()


def test_reports_a_failing_build(machine: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Where the compiler fails, its output is shown and its last line is in the error."""
    put_go(machine, "go1.99", build_script="echo first >&2; echo no route to module >&2; exit 1")
    with pytest.raises(build.UnavailableError, match="go build of etcd failed: no route to module"):
        build.ensure()
    assert "first\n" in capfd.readouterr().err


def test_takes_what_is_in_the_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What KUBEBUILDER_ASSETS holds is used as it is; a program only with all that belongs beside it."""
    assets = put(tmp_path / "assets", *(file for program in build.PROGRAMS for file in program.files))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))
    assert build.ensure() == {program.name: assets / program.name for program in build.PROGRAMS}

    (assets / "stages" / "pod-delete.yaml").unlink()
    (assets / "crds" / "whereabouts.cni.cncf.io_ippools.yaml").unlink()
    with pytest.raises(build.UnavailableError, match="no kwok with stages/, whereabouts with crds/, and no Go"):
        build.ensure()


def test_builds_what_is_missing_once(machine: Path, tmp_path: Path) -> None:
    """Whatever is missing is built, with all that belongs beside it; the second run builds nothing."""
    log = put_working_go(machine, tmp_path)

    first = build.ensure()

    assert build.ensure() == first
    assert len(log.read_text().splitlines()) == len(build.PROGRAMS)
    assert all((first[program.name].parent / file).is_file() for program in build.PROGRAMS for file in program.files)


def test_a_changed_source_is_another_program(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any change of a module's Go files, of their names or of its go.mod means a new build; other files do not."""
    log = put_working_go(machine, tmp_path)
    monkeypatch.setattr(build, "MODULES", shutil.copytree(build.MODULES, tmp_path / "modules"))
    module = build.MODULES / "admission"
    others = [program for program in build.PROGRAMS if program.module != module.name]
    its = len(build.PROGRAMS) - len(others)
    assets = put(tmp_path / "assets", *(file for program in others for file in program.files))
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(assets))

    def builds() -> int:
        """How many programs were built by now, when all that is missing is there."""
        build.ensure()
        return len(log.read_text().splitlines())

    count = builds()
    (module / "README").write_text("nothing that Go reads")
    assert builds() == count
    (module / "noop" / "main.go").write_text("package main\n")
    assert builds() == (count := count + its)  # all programs of the module
    (module / "noop" / "main.go").rename(module / "noop" / "other.go")
    assert builds() == (count := count + its)
    (module / "go.mod").write_text("module elsewhere\n\ngo 1.25.0\n")
    assert builds() == count + its


def test_refuses_assets_that_are_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong KUBEBUILDER_ASSETS is said, not passed over."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", "/nowhere")
    with pytest.raises(build.UnavailableError, match="/nowhere"):
        build.ensure()


def test_missing_programs_fail_only_where_they_must(monkeypatch: pytest.MonkeyPatch) -> None:
    """With --optional the want of programs is an error in CI alone."""
    monkeypatch.setattr("sys.argv", ["build.py", "--optional"])
    monkeypatch.setenv("CI", "")
    assert build.main() == 0
    monkeypatch.setenv("CI", "true")
    assert build.main() == 1
