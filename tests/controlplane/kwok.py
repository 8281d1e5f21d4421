"""Kubelets played by kwok: the label by which a node has one, the rules it follows, and how to know that it has."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from controlplane.client import NODES, Client
from controlplane.kubelet import Object, is_ready

LABEL = "poolwarden.test/kubelet"
RUNNING = "running"
STOPPED = "stopped"  # the node had a kubelet and may have one again; a node without the label never has

TERMINATION_MILLISECONDS = 500  # from the deletion of a pod to its end


def kubelet_of(node: Object) -> str | None:
    """Returns RUNNING, STOPPED, or None for a node without kubelet."""
    state: str | None = node["metadata"].get("labels", {}).get(LABEL)
    return state


def adapted(stage: Path) -> str:
    """Returns one of kwok's rules, with time for a pod to be seen Terminating.

    Without that ``kubectl delete pod`` may hang: it may find the next pod of the name where it waits for none.
    """
    rule = yaml.safe_load(stage.read_text())
    if rule["metadata"]["name"] == "pod-delete":
        rule["spec"]["delay"] = {"durationMilliseconds": TERMINATION_MILLISECONDS}
    return yaml.safe_dump(rule)


@contextmanager
def probe(client: Client) -> Iterator[Callable[[], bool]]:
    """Lends a node and yields whether kwok has made it Ready.

    As kwok reads changes of nodes in their order, it has then taken note of every earlier one.
    """
    name = f"probe-{secrets.token_hex(4)}"
    client.request("POST", NODES, {"metadata": {"name": name, "labels": {LABEL: RUNNING}}})
    try:
        yield lambda: is_ready(client.request("GET", f"{NODES}/{name}"))
    finally:
        client.request("DELETE", f"{NODES}/{name}")
