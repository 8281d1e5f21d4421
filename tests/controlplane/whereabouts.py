"""The real whereabouts plugin, called as a container runtime calls it: the source of true records."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from controlplane.build import WHEREABOUTS_CRDS
from controlplane.kubelet import Object
from controlplane.plane import ControlPlane

NAMESPACE = "kube-system"  # where the plugin keeps its objects unless told otherwise
_GROUP = f"/apis/whereabouts.cni.cncf.io/v1alpha1/namespaces/{NAMESPACE}"
POOLS = f"{_GROUP}/ippools"
RESERVATIONS = f"{_GROUP}/overlappingrangeipreservations"
ADD_SECONDS = 150  # the plugin itself gives up after 2 min


class WhereaboutsError(RuntimeError):
    """The plugin failed; the message is its own."""


@dataclass(frozen=True)
class Attachment:
    """One interface of one sandbox of a pod."""

    namespace: str
    pod: str
    container: str  # id of the sandbox: another one each time that the pod is made
    interface: str = "net1"
    node: str = "node-1"


class Whereabouts:
    """The plugin and its configuration. Only the IPAM part runs, so no network namespace is needed."""

    def __init__(self, program: Path, folder: Path, kubeconfig: Path) -> None:
        self._program = program
        self._configuration = folder / "whereabouts.conf"
        content = {
            "datastore": "kubernetes",
            "kubernetes": {"kubeconfig": str(kubeconfig)},
            "configuration_path": str(self._configuration),
        }
        self._configuration.write_text(json.dumps(content))

    def add(self, ipam: Mapping[str, object], attachment: Attachment) -> list[str]:
        """The addresses, with their prefix lengths, that a network with this IPAM configuration gives."""
        result = json.loads(self._call("ADD", ipam, attachment))
        return [address["address"] for address in result["ips"]]

    def delete(self, ipam: Mapping[str, object], attachment: Attachment) -> None:
        """Gives the attachment's addresses back; as the plugin has it, that never fails."""
        self._call("DEL", ipam, attachment)

    def _call(self, command: str, ipam: Mapping[str, object], attachment: Attachment) -> str:
        arguments = {
            "IgnoreUnknown": "1",
            "K8S_POD_NAMESPACE": attachment.namespace,
            "K8S_POD_NAME": attachment.pod,
            "K8S_POD_INFRA_CONTAINER_ID": attachment.container,
        }
        environment = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": attachment.container,
            "CNI_NETNS": f"/var/run/netns/{attachment.container}",
            "CNI_IFNAME": attachment.interface,
            "CNI_PATH": str(self._program.parent),
            "CNI_ARGS": ";".join(f"{name}={value}" for name, value in arguments.items()),
            "NODENAME": attachment.node,
        }
        network = {
            "cniVersion": "0.3.1",
            "name": "blue",
            "type": "macvlan",
            "ipam": {"type": "whereabouts", "configuration_path": str(self._configuration), **ipam},
        }
        done = subprocess.run(
            [self._program],
            input=json.dumps(network),
            env=environment,
            capture_output=True,
            text=True,
            timeout=ADD_SECONDS,
            check=False,
        )
        if done.returncode:
            raise WhereaboutsError(f"{command} for {attachment}: {done.stdout.strip()}\n{done.stderr.strip()}")
        return done.stdout


@contextmanager
def installed(plane: ControlPlane, program: Path, folder: Path) -> Iterator[Whereabouts]:
    """Whereabouts in the cluster. Its objects are gone afterwards; its CustomResourceDefinitions stay."""
    crds = [program.parent / file for file in WHEREABOUTS_CRDS.files]
    files = [f"--filename={crd}" for crd in crds]
    plane.kubectl("apply", "--server-side", *files)
    plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", *files)
    try:
        yield Whereabouts(program, folder, plane.kubeconfig())
    finally:
        for collection in (POOLS, RESERVATIONS):
            plane.request("DELETE", collection)


def records(plane: ControlPlane) -> dict[str, Object]:
    """What is recorded in all pools, by pool and offset (``10.55.0.0-24/1``)."""
    pools = plane.request("GET", POOLS)["items"]
    return {
        f"{pool['metadata']['name']}/{offset}": record
        for pool in pools
        for offset, record in pool["spec"]["allocations"].items()
    }
