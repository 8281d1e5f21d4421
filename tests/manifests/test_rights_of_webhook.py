"""The rights in manifests/webhook on a real API server: with them the webhook knows all and keeps its certificates itself.

Whichever is withheld, its log names it, and what does not need it is done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from controlplane.client import NAMESPACES
from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from controlplane.server import wait_for
from endtoend.program import Program, running
from manifests.rights import Missing, Right, missed, name_of, rules, wait_until_granted
from manifests.shipped import COLLECTIONS, MANIFESTS, unregister
from poolwarden.certs.renewal import Renewal
from poolwarden.certs.settings import Settings
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.guard import Guard, always_allowed
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.pacing import Stop
from poolwarden.webhook.cache import Cache
from poolwarden.webhook.settings import RuleSettings
from poolwarden.webhook_commands import application

Object = dict[str, Any]

WEBHOOK = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-webhook"
SHIPPED = Settings(namespace="poolwarden")
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
RULES = rules(MANIFESTS / "webhook" / "knowledge.yaml", MANIFESTS / "webhook" / "certificates.yaml")
ALL = {"CreateCa", "IssueLeaf", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"}
"""What is done from nothing: the Secret of the CA, the serving one, and each configuration's caBundle."""


def done_without(right: Right) -> set[str]:
    """What is done of it though the right is missing."""
    match right:
        case (_, "", "secrets", SHIPPED.tls_secret):
            return ALL - {"IssueLeaf"}
        case (_, "", "secrets", _) | (_, "coordination.k8s.io", _, _):
            return set()  # without a CA there is nothing to issue or publish, and without the lease nobody is to begin
        case (_, "admissionregistration.k8s.io", "mutatingwebhookconfigurations", _):
            return ALL - {"MutatingWebhookConfiguration"}
        case (_, "admissionregistration.k8s.io", _, _):
            return ALL - {"ValidatingWebhookConfiguration"}
        case _:
            return ALL


@dataclass
class Home:
    """A namespace with webhook configurations of its own, which are called like it and match no request."""

    plane: ControlPlane
    settings: Settings

    @property
    def namespace(self) -> str:
        """Where Secrets and lease are."""
        return self.settings.namespace

    def configure(self) -> None:
        """Makes the configurations; their webhooks trust nobody yet."""
        service = {"name": self.settings.service, "namespace": self.namespace, "path": "/validate-pods"}
        rule = {"apiGroups": ["none.such"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}
        webhook = {
            "name": "any.poolwarden.test",
            "clientConfig": {"service": service},
            "rules": [rule],
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
        for collection in COLLECTIONS.values():
            self.plane.request("POST", collection, {"metadata": {"name": self.namespace}, "webhooks": [webhook]})

    def remove(self) -> None:
        """Deletes the configurations."""
        for collection in COLLECTIONS.values():
            self.plane.request("DELETE", f"{collection}/{self.namespace}")

    def prepare(self) -> None:
        """Both Secrets, without content, and a lease that nobody holds: what was created before is patched."""
        empty = {"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}}
        for name in (self.settings.ca_secret, self.settings.tls_secret):
            body = {"metadata": {"name": name}, **empty}
            self.plane.request("POST", f"{NAMESPACES}/{self.namespace}/secrets", body)
        lease = {"metadata": {"name": self.settings.service}, "spec": {"holderIdentity": ""}}
        self.plane.request("POST", LEASES.format(namespace=self.namespace), lease)

    def forget(self) -> None:
        """Deletes Secrets and lease, if there are any."""
        secrets = f"{NAMESPACES}/{self.namespace}/secrets"
        lease = f"{LEASES.format(namespace=self.namespace)}/{self.settings.service}"
        for path in (f"{secrets}/{self.settings.ca_secret}", f"{secrets}/{self.settings.tls_secret}", lease):
            if self.plane.find(path):
                self.plane.request("DELETE", path)

    def grant(self, user: str, *, without: Right) -> None:
        """Gives the user all rights but one; those over the shipped configurations are over these."""
        rules = [rule for right, rule in RULES.items() if right != without]
        shipped = {"resourceNames": [SHIPPED.mutating]}
        own = {"resourceNames": [self.namespace]}
        self.plane.grant(user, [rule | own if shipped.items() <= rule.items() else rule for rule in rules])

    def done(self) -> set[str]:
        """What is done of `ALL`."""
        filled = {"CreateCa": self.settings.ca_secret, "IssueLeaf": self.settings.tls_secret}
        found = {step for step, name in filled.items() if self._certificate(name)}
        for kind, collection in COLLECTIONS.items():
            webhooks = self.plane.request("GET", f"{collection}/{self.settings.mutating}")["webhooks"]
            if all(webhook["clientConfig"].get("caBundle") for webhook in webhooks):
                found.add(kind)
        return found

    def _certificate(self, name: str) -> str:
        secret = self.plane.find(f"{NAMESPACES}/{self.namespace}/secrets/{name}")
        return str(secret["data"]["tls.crt"]) if secret else ""


@pytest.fixture
def home(control_plane: ControlPlane, namespace: str) -> Iterator[Home]:
    """Whose configurations are gone after the test."""
    home = Home(control_plane, Settings(namespace=namespace, mutating=namespace, validating=namespace))
    home.configure()
    yield home
    home.remove()


class Told:
    """What the webhook says: its log, and its page of readiness."""

    def __init__(self, log: list[MutableMapping[str, Any]], knowledge: Callable[[], tuple[str, ...]]) -> None:
        self._log = log
        self.knowledge = knowledge

    def warned(self) -> set[Missing]:
        """The rights that warnings miss."""
        warnings = [entry for entry in self._log if entry["log_level"] == "warning"]
        return missed(str(entry.get(key, "")) for entry in warnings for key in ("reason", "failed"))

    def events(self) -> list[str]:
        """What was logged, in order."""
        return [entry["event"] for entry in self._log]

    def settled(self) -> bool:
        """Whether a pass over the certificates has ended, or cannot begin for want of the lease."""
        return any("end" in entry or entry["event"] == "waiting" for entry in self._log)


@contextmanager
def webhook(home: Home, user: str) -> Iterator[Told]:
    """All of `poolwarden webhook` but its server, as that user, in this process."""
    kubeconfig = str(home.plane.kubeconfig(user))

    def opened(*, stop: Stop, guard: Guard | None = None, limits: Limits | None = None) -> ApiServer:
        transport = KubeTransport(kubeconfig=kubeconfig)
        return ApiServer(transport, limits=limits or Limits(), guard=guard or always_allowed, stop=stop)

    with capture_logs() as log:
        cache, renewal = Cache(KubeTransport(kubeconfig=kubeconfig)), Renewal(opened, home.settings)
        served = application(cache, RuleSettings(), [renewal])
        try:
            yield Told(log, cache.problems)
        finally:
            served.close()


@pytest.mark.parametrize("withheld", RULES, ids=name_of)
def test_what_is_withheld_is_named(home: Home, limited_user: str, withheld: Right) -> None:
    """A warning names the one right that is missing; all that does not need it is known, made and published."""
    missing = withheld[:3]
    home.grant(limited_user, without=withheld)
    if "create" not in missing:
        home.prepare()
    with webhook(home, limited_user) as told:
        wait_for("the certificates", told.settled)
        wait_for(f"a warning of {missing}", told.warned, seconds=10)
        assert told.warned() == {missing}
        assert home.done() == done_without(withheld)
        assert missed(told.knowledge()) == ({missing} if missing[0] in {"list", "watch"} else set())
        assert len(told.knowledge()) == len(missed(told.knowledge()))


def test_what_is_granted_later_ends_the_doubt(home: Home, limited_user: str) -> None:
    """The log tells of a kind in doubt once, and once that it is known again."""
    withheld = ("list", "spiderpool.spidernet.io", "spiderippools", "")
    home.grant(limited_user, without=withheld)
    with webhook(home, limited_user) as told:
        wait_for("the warning", told.warned)
        home.plane.grant(limited_user, [RULES[withheld]])
        wait_for("the doubt to end", lambda: "all is known again" in told.events(), seconds=20)
        assert told.knowledge() == ()
        assert [event for event in told.events() if "known" in event] == ["not all is known", "all is known again"]


@pytest.fixture
def installed(control_plane: ControlPlane) -> Iterator[Home]:
    """The manifests as applied, before the webhook has ever run; its configurations go at the end, since nobody answers."""
    control_plane.kubectl("apply", "--kustomize", str(MANIFESTS / "webhook"))
    wait_until_granted(control_plane, WEBHOOK, RULES, SHIPPED.namespace)
    home = Home(control_plane, SHIPPED)
    home.forget()
    yield home
    unregister(control_plane)


def test_the_account_lacks_nothing(installed: Home, tmp_path: Path) -> None:
    """The program, as its ServiceAccount, is ready, knows all, and makes and publishes its certificates from nothing."""
    program = Program(tmp_path / "mount", installed.plane.kubeconfig(WEBHOOK), ("--namespace=poolwarden",))
    with running(program):
        wait_for("the certificates", lambda: installed.done() == ALL)
        wait_for("the end of the pass", lambda: '"end": "Nothing"' in program.log.read_text())
        assert "[+] knowledge: ok" in program.page("readyz")[1]
    levels = {json.loads(line)["level"] for line in program.log.read_text().splitlines()}
    assert levels == {"info"}


def test_the_account_may_change_what_is_there(installed: Home) -> None:
    """With its Secrets and its lease made before, the ServiceAccount's rights are enough as well."""
    installed.prepare()
    with webhook(installed, WEBHOOK) as told:
        wait_for("the certificates", told.settled)
        assert told.warned() == set()
        assert told.knowledge() == ()
        assert installed.done() == ALL
