"""Runs a control plane to play with until Ctrl-C: ``make cluster``."""

from __future__ import annotations

import signal
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import NoReturn

from controlplane import build
from controlplane.plane import ControlPlane

WELCOME = """
A Kubernetes control plane is running, with one node, on which kwok plays the kubelet. In another terminal:

    export KUBECONFIG={kubeconfig}
    export PATH={programs}:$PATH
    kubectl get nodes

Pods need "nodeName: {node}": there is no scheduler. Logs are in {folder}. Ctrl-C ends it all.
"""


def main() -> int:
    """Runs the control plane; returns the exit status."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        programs = build.ensure()
        with (
            tempfile.TemporaryDirectory(prefix="poolwarden-cluster-") as folder,
            ControlPlane(programs, Path(folder)) as plane,
        ):
            node = "node-1"
            plane.add_node(node)
            where = {"kubeconfig": plane.kubeconfig(), "programs": programs["kubectl"].parent, "folder": folder}
            sys.stdout.write(WELCOME.format(node=node, **where))
            sys.stdout.flush()
            signal.pause()
    except build.UnavailableError as error:
        sys.stderr.write(f"*** {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stdout.write("\nThe control plane is stopped.\n")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
