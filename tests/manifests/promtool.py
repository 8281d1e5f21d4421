"""Prometheus' own checker of rules: from the PATH, or from Debian's package, fetched once into the tests' cache."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

PACKAGE = "prometheus"


class NoPromtoolError(RuntimeError):
    """It cannot be had; the message says why, and what would help."""


def ensure() -> Path:
    """The path of promtool. Nothing is installed: the package is only unpacked."""
    found = shutil.which("promtool")
    if found:
        return Path(found)
    cached = _cache() / "promtool"
    if not cached.is_file():
        _fetch(cached)
    return cached


def _cache() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "poolwarden" / "promtool"


def _fetch(cached: Path) -> None:
    if not shutil.which("apt-get") or not shutil.which("dpkg-deb"):
        raise NoPromtoolError("no promtool on the PATH, and no apt-get to fetch Debian's prometheus package with")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        done = _run(folder, "apt-get", "download", PACKAGE)
        if done.returncode and os.geteuid() == 0:  # a bare machine has no lists of packages
            _run(folder, "apt-get", "update")
            done = _run(folder, "apt-get", "download", PACKAGE)
        packages = list(folder.glob(f"{PACKAGE}_*.deb"))
        if done.returncode or not packages:
            raise NoPromtoolError(f"no promtool on the PATH, and apt-get download {PACKAGE} failed: {_last(done)}")
        done = _run(folder, "dpkg-deb", "--extract", str(packages[0]), "unpacked")
        unpacked = folder / "unpacked" / "usr" / "bin" / "promtool"
        if done.returncode or not unpacked.is_file():
            raise NoPromtoolError(f"{packages[0].name} has no promtool: {_last(done)}")
        cached.parent.mkdir(parents=True, exist_ok=True)
        partial = cached.with_name(f".partial-{os.getpid()}")
        shutil.copy2(unpacked, partial)
        partial.replace(cached)  # whole, or not there


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, timeout=300
    )


def _last(done: subprocess.CompletedProcess[str]) -> str:
    return next(iter(reversed(done.stdout.strip().splitlines())), "no message")
