"""The commands that our documents tell a reader to type, and a shell that runs them as he would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from controlplane.plane import ControlPlane

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
RUNBOOK = ROOT / "docs" / "runbook.md"


def blocks(document: Path, title: str, language: str) -> list[str]:
    """The fenced blocks of a language in the section of that title, subsections left out."""
    _, found, rest = document.read_text(encoding="utf-8").partition(f"# {title}\n")
    assert found, f"{document.name} has no section {title}"
    section = re.split(r"^##", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return [dedent(text) for text in re.findall(rf"^ *```{language}\n(.*?)^ *```$", section, re.MULTILINE | re.DOTALL)]


def commands(document: Path, title: str) -> list[str]:
    """What stands behind a prompt in that section, with continued lines."""
    text = "\n".join(blocks(document, title, "console"))
    return re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)


@dataclass
class Reader:
    """Somebody in a folder, with kubectl and poolwarden on the PATH and the control plane's kubeconfig."""

    plane: ControlPlane
    kubectl: Path
    folder: Path

    def types(self, command: str, *, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Runs one command line; what it printed stands in the result, or in a failure's message."""
        path = os.pathsep.join([str(self.kubectl.parent), str(Path(sys.executable).parent), os.environ["PATH"]])
        environment = os.environ | {"PATH": path, "KUBECONFIG": str(self.plane.kubeconfig())}
        environment["KUBECACHEDIR"] = str(self.plane.folder / "kubectl-cache")
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0 or not check, f"{command}\n{done.stdout}{done.stderr}"
        return done
