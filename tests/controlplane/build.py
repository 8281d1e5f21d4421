"""Builds the control plane and the other Go programs of the tests from their modules, once, into a cache folder.

Usage: ``python tests/controlplane/build.py [--optional]``

A program found in the folder named by ``KUBEBUILDER_ASSETS`` is taken from there; only the others are built, each
into a folder named by a hash of the sources it is made from. This file needs nothing but Python.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

MODULES = Path(__file__).resolve().parent / "modules"
LOG_TAIL = 20  # lines of the Go compiler's output worth showing when it fails
QUIET_INTERVAL = 30  # seconds between progress lines where there is no terminal


class UnavailableError(RuntimeError):
    """A program of the control plane cannot be had; the message is one line that says what to do."""


@dataclass(frozen=True)
class Companions:
    """Files of a Go module that are of use beside the program made from it."""

    module: str
    sources: tuple[str, ...]  # paths in the module
    folder: str  # where they are copied to, beside the program

    @property
    def files(self) -> tuple[str, ...]:
        """Where they are, seen from the program's folder."""
        return tuple(f"{self.folder}/{Path(source).name}" for source in self.sources)


@dataclass(frozen=True)
class Program:
    """One program: the module and package it is built from, and what that takes."""

    name: str
    module: str  # a folder of modules/
    package: str
    cold_seconds: int  # on two cores, with nothing in Go's caches but what the programs before it left there
    companions: Companions | None = None

    @property
    def files(self) -> tuple[str, ...]:
        """Everything that must be in a folder for the program to be usable from there."""
        return (self.name, *(self.companions.files if self.companions else ()))


KWOK_STAGES = Companions(
    "sigs.k8s.io/kwok",
    (
        "kustomize/stage/node/fast/node-initialize.yaml",
        "kustomize/stage/pod/fast/pod-ready.yaml",
        "kustomize/stage/pod/fast/pod-complete.yaml",
        "kustomize/stage/pod/fast/pod-delete.yaml",
    ),
    "stages",
)
WHEREABOUTS_CRDS = Companions(
    "github.com/k8snetworkplumbingwg/whereabouts",
    (
        "doc/crds/whereabouts.cni.cncf.io_ippools.yaml",
        "doc/crds/whereabouts.cni.cncf.io_nodeslicepools.yaml",
        "doc/crds/whereabouts.cni.cncf.io_overlappingrangeipreservations.yaml",
    ),
    "crds",
)
PROGRAMS = (
    Program("etcd", "etcd", "go.etcd.io/etcd/server/v3", 85),
    Program("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver", 440),
    Program("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager", 120),
    Program("kubectl", "kubernetes", "k8s.io/kubernetes/cmd/kubectl", 40),
    Program("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok", 145, KWOK_STAGES),
    Program("whereabouts", "whereabouts", "github.com/k8snetworkplumbingwg/whereabouts/cmd", 25, WHEREABOUTS_CRDS),
    Program("whereabouts-reconciler", "whereabouts", "./reconciler", 5),
    Program("multus-names", "multus", ".", 10),
    Program("noop-webhook", "admission", "./noop", 2),
    Program("review-load", "admission", "./load", 2),
    Program("pod-load", "admission", "./pods", 2),
)


def ensure() -> dict[str, Path]:
    """Returns the path of every program by its name, building those that are nowhere yet."""
    assets = _assets()
    folders = {program: _present(program, assets) for program in PROGRAMS}
    missing = [program for program, folder in folders.items() if folder is None]
    if missing:
        _build_all(missing)
    return {program.name: (folder or _cache_folder(program)) / program.name for program, folder in folders.items()}


def _assets() -> Path | None:
    name = os.environ.get("KUBEBUILDER_ASSETS")
    if not name:
        return None
    if not Path(name).is_dir():
        raise UnavailableError(f"No control plane: KUBEBUILDER_ASSETS is {name}, which is not a folder.")
    return Path(name).resolve()


def _present(program: Program, assets: Path | None) -> Path | None:
    for folder in (assets, _cache_folder(program)):
        if folder and all((folder / file).is_file() for file in program.files):
            return folder
    return None


def _cache_root() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "poolwarden" / "controlplane"


def _cache_folder(program: Program) -> Path:
    """Names the folder by all that decides what the program will be: sources, flags and machine."""
    module = MODULES / program.module
    sources = sorted(path for path in module.rglob("*") if path.suffix in {".go", ".mod", ".sum"})
    names = [path.relative_to(module).as_posix() for path in sources if path.suffix == ".go"]
    digest = hashlib.sha256()
    for part in (*_flags(program), platform.system(), platform.machine(), *names):
        digest.update(part.encode() + b"\0")
    for source in sources:
        digest.update(source.read_bytes())
    return _cache_root() / f"{program.module}-{digest.hexdigest()[:16]}"


def _flags(program: Program) -> list[str]:
    linker = ["-s", "-w"]
    if program.module == "kubernetes":  # otherwise the server calls itself v0.0.0-master+$Format:%H$
        version = _directive(program, r"k8s\.io/kubernetes (v\S+)")
        major, minor, _patch = version.removeprefix("v").split(".", 2)
        values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
        for package in ("component-base/version", "client-go/pkg/version"):
            for variable, value in values.items():
                linker += ["-X", f"k8s.io/{package}.{variable}={value}"]
    return ["-mod=readonly", "-buildvcs=false", "-trimpath", "-ldflags", " ".join(linker)]


def _directive(program: Program, pattern: str) -> str:
    """Finds in the program's go.mod the line that matches the pattern, and returns its group."""
    text = (MODULES / program.module / "go.mod").read_text()
    match = re.search(rf"^(?:require)?\s*{pattern}(?: // indirect)?$", text, re.MULTILINE)
    if not match:
        raise ValueError(f"modules/{program.module}/go.mod has no line {pattern!r}")
    return match[1]


def _build_all(programs: list[Program]) -> None:
    go = _find_go(programs)
    with _locked(_cache_root()):
        missing = [program for program in programs if not _present(program, None)]  # another builder may have made them
        if missing:
            minutes = round(sum(program.cold_seconds for program in missing) / 60)
            _say(f"Building {_names(missing)} into {_cache_root()}: about {minutes} min on two cores, once.")
        for position, program in enumerate(missing, start=1):
            _build(go, program, f"[{position}/{len(missing)}] {program.name}")


def _find_go(programs: Iterable[Program]) -> str:
    """Returns the path of a Go that is new enough for all the programs."""
    needed = max((_directive(program, r"go (\S+)") for program in programs), key=_version)
    remedy = f"install Go >= {needed}, or set KUBEBUILDER_ASSETS to a folder that holds them."
    go = shutil.which("go")
    if not go:
        raise UnavailableError(f"No control plane: no {_names(programs)}, and no Go to build from: {remedy}")
    answer = subprocess.run([go, "env", "GOVERSION"], cwd="/", env=_go_environment(), capture_output=True, text=True)  # noqa: PLW1510
    if _version(answer.stdout) < _version(needed):
        raise UnavailableError(f"No control plane: {go} is {answer.stdout.strip() or 'broken'}: {remedy}")
    return go


def _version(text: str) -> tuple[int, ...]:
    """Makes ``go1.26.8``, ``1.26`` and ``devel go1.27-abc`` comparable; what has no number is older than all."""
    match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
    return tuple(int(number or 0) for number in match.groups()) if match else ()


def _go_environment() -> dict[str, str]:
    """The caller's environment, save what would build for another machine, or fetch and run another Go."""
    environment = {name: value for name, value in os.environ.items() if name not in {"GOOS", "GOARCH"}}
    return environment | {"GOTOOLCHAIN": "local", "GOWORK": "off"}


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lets one builder at a time in; the system drops the lock of one that dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("Waiting for another build of the control plane to end ...")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(go: str, program: Program, label: str) -> None:
    """Builds beside the final place and renames, so that a program that is there is whole."""
    folder = _cache_folder(program)
    folder.mkdir(exist_ok=True)
    partial = folder / f".partial-{program.name}"
    partial.unlink(missing_ok=True)  # of a builder that died
    _run([go, "build", *_flags(program), "-o", str(partial), program.package], program, label)
    if program.companions:
        _copy(go, program, program.companions, folder)
    partial.rename(folder / program.name)


def _copy(go: str, program: Program, companions: Companions, folder: Path) -> None:
    answer = subprocess.run(
        [go, "list", "-mod=readonly", "-m", "-f", "{{.Dir}}", companions.module],
        cwd=MODULES / program.module,
        env=_go_environment(),
        check=True,
        capture_output=True,
        text=True,
    )
    (folder / companions.folder).mkdir(exist_ok=True)
    for source, file in zip(companions.sources, companions.files, strict=True):
        shutil.copyfile(Path(answer.stdout.strip()) / source, folder / file)


def _run(command: list[str], program: Program, label: str) -> None:
    """Runs the Go compiler with its progress shown; its output only if it fails."""
    started = time.monotonic()
    with (
        tempfile.TemporaryFile("w+", errors="replace") as output,
        subprocess.Popen(
            command, cwd=MODULES / program.module, env=_go_environment(), stdout=output, stderr=output
        ) as process,
    ):
        try:
            _show_progress(process, f"{label}: building (about {program.cold_seconds} s cold)", started)
        except BaseException:
            process.terminate()
            raise
        output.seek(0)
        tail = output.read().splitlines()[-LOG_TAIL:]
    if process.returncode:
        _say(*tail)
        reason = tail[-1] if tail else f"exit status {process.returncode}"
        raise UnavailableError(f"No control plane: go build of {program.name} failed: {reason}")
    _say(f"{label}: built in {time.monotonic() - started:.0f} s")


def _show_progress(process: subprocess.Popen[bytes], label: str, started: float) -> None:
    terminal = sys.stderr.isatty()
    interval = 1 if terminal else QUIET_INTERVAL
    while True:
        line = f"{label} ... {time.monotonic() - started:.0f} s"
        sys.stderr.write(f"\r{line}" if terminal else f"{line}\n")
        sys.stderr.flush()
        try:
            process.wait(interval)
        except subprocess.TimeoutExpired:
            continue
        sys.stderr.write("\r\x1b[K" if terminal else "")
        return


def _names(programs: Iterable[Program]) -> str:
    return ", ".join(
        f"{program.name} with {program.companions.folder}/" if program.companions else program.name
        for program in programs
    )


def _say(*lines: str) -> None:
    for line in lines:
        sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    """Builds what is missing and prints where every program is; returns the exit status."""
    parser = argparse.ArgumentParser(description="Builds the control plane that the tests run on.")
    parser.add_argument(
        "--optional", action="store_true", help="where it cannot be had, say so and go on (not if CI=true)"
    )
    arguments = parser.parse_args()
    try:
        programs = ensure()
    except UnavailableError as error:
        _say(f"*** {error}")
        return 0 if arguments.optional and os.environ.get("CI") != "true" else 1
    for path in programs.values():
        sys.stdout.write(f"{path}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
