"""Multus' own word on the names of a pod's interfaces: its CmdAdd, run by the Go program in modules/multus."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

NETWORKS = "k8s.v1.cni.cncf.io/networks"
DEFAULT_NETWORK = "v1.multus-cni.io/default-network"
IN_MEMORY = Path("/dev/shm")  # Multus writes several files for each pod: on a disk it is five times slower


@dataclass(frozen=True)
class Nad:
    """A NetworkAttachmentDefinition; without configuration it has one that any plugin accepts."""

    namespace: str
    name: str
    config: str = ""


@dataclass(frozen=True)
class Pod:
    """What decides a pod's names: its own annotations, and what the cluster has."""

    annotations: Mapping[str, str] = field(default_factory=dict)
    namespace: str = "default"
    nads: Sequence[Nad] | Literal["every"] = "every"  # every: one of each name that the API server takes
    default_networks: int = 0  # how many Multus attaches to every pod outside kube-system


@dataclass(frozen=True)
class Named:
    """Multus would call its plugins for interfaces of these names, in this order, the cluster's own network first.

    The network namespace is taken for empty: that a name is there twice, or is taken, is not noticed.
    """

    names: tuple[str, ...]


@dataclass(frozen=True)
class Refused:
    """The pod would not start, for this reason; some of its interfaces may have been made and removed again."""

    reason: str


@dataclass(frozen=True)
class Panicked:
    """Multus would crash, with this message."""

    message: str


Outcome: TypeAlias = Named | Refused | Panicked


class Multus:
    """The program, alive within a ``with`` block."""

    def __init__(self, program: Path) -> None:
        self._program = program

    def __enter__(self) -> Self:
        memory = IN_MEMORY if IN_MEMORY.is_dir() else None
        self._folder = tempfile.TemporaryDirectory(prefix="multus-names-", dir=memory)
        command = [str(self._program), self._folder.name]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()  # it ends at the end of its input
        self._folder.cleanup()

    def names_of(self, pods: Iterable[Pod]) -> list[Outcome]:
        """What becomes of each pod; more than a thousand of them take a second."""
        return [self._ask(pod) for pod in pods]

    def _ask(self, pod: Pod) -> Outcome:
        questions, answers = self._process.stdin, self._process.stdout
        assert questions
        assert answers
        questions.write(json.dumps(_question(pod)) + "\n")
        questions.flush()
        answer = answers.readline()
        if not answer:
            raise RuntimeError(f"multus-names ended with {self._process.wait()} when asked about {pod}")
        match json.loads(answer):
            case {"names": names}:
                return Named(tuple(names))
            case {"error": reason}:
                return Refused(reason)
            case {"panic": message}:
                return Panicked(message)
        raise RuntimeError(f"multus-names says {answer!r} of {pod}")


def _question(pod: Pod) -> dict[str, object]:
    nads = None if pod.nads == "every" else [vars(nad) for nad in pod.nads]
    return {
        "annotations": dict(pod.annotations),
        "namespace": pod.namespace,
        "nads": nads,
        "defaultNetworks": pod.default_networks,
    }
