"""Certificates on the real API server, with exactly the rights that the webhook's account has."""

import base64
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec import Struct

from certs.shape import assert_is_ca, assert_is_leaf, handshake
from controlplane.plane import ControlPlane
from controlplane.server import wait_for
from poolwarden.certs.decide import Blocked, CreateCa, IntroduceCa, IssueLeaf, NoteSeen, Nothing, PublishBundle, Wait
from poolwarden.certs.issue import Pair, read_certificates, read_pair
from poolwarden.certs.keep import Kept, keep, keep_to_the_end
from poolwarden.certs.kinds import SECRETS
from poolwarden.certs.renewal import Renewal, Status
from poolwarden.certs.settings import Settings
from poolwarden.cli import main
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits
from poolwarden.cluster.guard import Guard, always_allowed
from poolwarden.cluster.interface import Doubt, Failed, WriteOutcome, Written
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.lease import Terms
from poolwarden.cluster.pacing import Stop

Object = dict[str, Any]
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("Mutating", "Validating")
QUICK = Limits(qps=1000, burst=1000)


class Site(Struct):
    """A namespace with configurations of its own, and who keeps its certificates."""

    plane: ControlPlane
    settings: Settings
    user: str

    def open(self, *, stop: Stop, guard: Guard | None = None, limits: Limits | None = None) -> ApiServer:
        """The cluster, as the limited user may use it."""
        transport = KubeTransport(kubeconfig=str(self.plane.kubeconfig(self.user)))
        return ApiServer(transport, limits=limits or QUICK, guard=guard or always_allowed, stop=stop)

    def keep(self, *, rotate: bool = False) -> Kept:
        """One pass."""
        return keep(self.open(stop=threading.Event()), self.settings, threading.Event().wait, rotate=rotate)

    def path(self, kind: str) -> str:
        """Of a configuration."""
        return f"{ADMISSION}/{kind.lower()}webhookconfigurations/{self.settings.mutating}"

    def configuration(self, kind: str) -> Object:
        """A configuration as it is."""
        return self.plane.request("GET", self.path(kind))

    def bundles(self, kind: str) -> list[bytes]:
        """The caBundles of a configuration."""
        hooks = self.configuration(kind)["webhooks"]
        return [base64.b64decode(hook["clientConfig"].get("caBundle", "")) for hook in hooks]

    def secret(self, name: str) -> dict[str, bytes]:
        """The entries of a Secret."""
        found = self.plane.request("GET", f"/api/v1/namespaces/{self.settings.namespace}/secrets/{name}")
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    def pair(self) -> Pair:
        """What the webhook serves."""
        data = self.secret(self.settings.tls_secret)
        pair = read_pair(data["tls.crt"], data["tls.key"])
        assert isinstance(pair, Pair)
        return pair

    def apply(self, kind: str, *names: str, server_side: bool = False, **more: object) -> None:
        """`kubectl apply` of a configuration with these webhooks."""
        flags = ["--server-side"] if server_side else []
        self.plane.kubectl("apply", "-f", "-", *flags, input=json.dumps(manifest(self, kind, *names, **more)))

    def assert_served(self) -> None:
        """Every API server that holds one of the bundles accepts what is served."""
        for kind in KINDS:
            self.assert_served_by(kind)

    def assert_served_by(self, kind: str) -> None:
        """Likewise of one of the configurations."""
        bundles = self.bundles(kind)
        assert bundles
        for bundle in bundles:
            assert handshake(self.pair(), bundle, self.settings.names[0])


def manifest(site: Site, kind: str, *names: str, **more: object) -> Object:
    """A configuration of webhooks that no request matches, as a user writes it: without caBundle."""
    service = {"name": site.settings.service, "namespace": site.settings.namespace, "path": "/validate-pods"}
    rule = {"apiGroups": ["none.such"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["nothings"]}
    hook = {
        "clientConfig": {"service": service},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "rules": [rule],
        **more,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": site.settings.mutating},
        "webhooks": [{"name": name, **hook} for name in names],
    }


@pytest.fixture
def site(control_plane: ControlPlane, namespace: str, limited_user: str) -> Iterator[Site]:
    """A namespace, a user with the webhook's rights and no others, and no configurations yet."""
    settings = Settings(namespace=namespace, mutating=namespace, validating=namespace, propagation=1, retirement=2)
    secrets = [settings.tls_secret, settings.ca_secret]
    configurations = ["mutatingwebhookconfigurations", "validatingwebhookconfigurations"]
    control_plane.grant(
        limited_user,
        [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["create"]},
            {"apiGroups": [""], "resources": ["secrets"], "resourceNames": secrets, "verbs": ["get", "patch"]},
            {
                "apiGroups": ["admissionregistration.k8s.io"],
                "resources": configurations,
                "resourceNames": [namespace],
                "verbs": ["get", "patch"],
            },
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["create"]},
            {
                "apiGroups": ["coordination.k8s.io"],
                "resources": ["leases"],
                "resourceNames": ["poolwarden-webhook"],
                "verbs": ["get", "patch"],
            },
        ],
    )
    site = Site(control_plane, settings, limited_user)
    yield site
    for kind in KINDS:
        if control_plane.find(site.path(kind)):
            control_plane.request("DELETE", site.path(kind))


@pytest.fixture
def installed(site: Site) -> Site:
    """With both configurations, as kubectl applies them."""
    for kind in KINDS:
        site.apply(kind, "a.x.io", "b.x.io")
    return site


def owners(configuration: Object, field: str) -> set[str]:
    """Which field managers own that field of any webhook's clientConfig, or of the webhook."""
    found = set()
    for entry in configuration["metadata"]["managedFields"]:
        for key, hook in entry["fieldsV1"].get("f:webhooks", {}).items():
            if key != "." and (field in hook or field in hook.get("f:clientConfig", {})):
                found.add(f"{entry['manager']} {entry['operation']}")
    return found


def test_from_nothing(installed: Site) -> None:
    """With these rights one pass makes both Secrets and publishes the CA; the next does nothing."""
    kept = installed.keep()
    assert [type(step) for step in kept.steps] == [CreateCa, IssueLeaf, PublishBundle, PublishBundle]
    assert isinstance(kept.end, Nothing)
    authority, serving = (
        installed.secret(name) for name in (installed.settings.ca_secret, installed.settings.tls_secret)
    )
    ca = read_certificates(authority["tls.crt"])[0]
    assert_is_ca(ca)
    assert_is_leaf(installed.pair().certificate, ca)
    assert serving["ca.crt"] == authority["tls.crt"]
    assert {key for key in serving if b"PRIVATE" in serving[key]} == {"tls.key"}
    for kind in KINDS:
        assert installed.bundles(kind) == [serving["ca.crt"]] * 2
    installed.assert_served()
    assert installed.keep().steps == ()


def test_not_installed(site: Site) -> None:
    """Without configurations there are Secrets, and it is said that nothing was published."""
    kept = site.keep()
    assert isinstance(kept.end, Nothing)
    assert "is not installed" in kept.end.reason
    for kind in KINDS:
        site.apply(kind, "a.x.io")
    assert [type(step) for step in site.keep().steps] == [PublishBundle, PublishBundle]


def test_no_more_rights_than_needed(installed: Site) -> None:
    """What is forbidden is told by verb and name, and the rest is done."""
    settings = Settings(
        namespace=installed.settings.namespace, mutating=installed.settings.mutating, validating="another"
    )
    api = installed.open(stop=threading.Event())
    kept = keep(api, settings, threading.Event().wait)
    assert [type(step) for step in kept.steps] == [CreateCa, IssueLeaf, PublishBundle]
    assert isinstance(kept.end, Blocked)
    assert "validatingwebhookconfigurations" in kept.end.reason
    assert "403" in kept.end.reason


def test_only_our_field(installed: Site) -> None:
    """The apply owns every caBundle and nothing else; kubectl keeps all of the rest."""
    before = installed.configuration("Mutating")
    installed.keep()
    after = installed.configuration("Mutating")
    for hook in after["webhooks"]:
        del hook["clientConfig"]["caBundle"]
    assert after["webhooks"] == before["webhooks"]
    assert owners(after, "f:caBundle") == {"poolwarden Apply"}
    for field in ("f:service", "f:rules", "f:timeoutSeconds", "f:failurePolicy"):
        assert owners(after, field) == {"kubectl-client-side-apply Update"}


@pytest.mark.parametrize("server_side", [False, True])
def test_later_applies(site: Site, *, server_side: bool) -> None:
    """A later `kubectl apply`, of either kind, changes what it says and leaves the caBundle alone."""
    for kind in KINDS:
        site.apply(kind, "a.x.io", "b.x.io", server_side=server_side)
    site.keep()
    bundles = site.bundles("Mutating")
    site.apply("Mutating", "a.x.io", "b.x.io", server_side=server_side, timeoutSeconds=7)
    assert [hook["timeoutSeconds"] for hook in site.configuration("Mutating")["webhooks"]] == [7, 7]
    assert site.bundles("Mutating") == bundles
    assert site.keep().steps == ()
    site.apply("Mutating", "a.x.io", "b.x.io", "c.x.io", server_side=server_side)
    assert [type(step) for step in site.keep().steps] == [PublishBundle]
    assert len(set(site.bundles("Mutating"))) == 1


def test_webhook_that_is_taken_away(installed: Site) -> None:
    """A client-side apply without one of the webhooks takes it away, caBundle and all."""
    installed.keep()
    installed.apply("Mutating", "b.x.io")
    assert [hook["name"] for hook in installed.configuration("Mutating")["webhooks"]] == ["b.x.io"]
    assert installed.keep().steps == ()


def test_server_side_apply_that_takes_a_webhook_away(site: Site) -> None:
    """A limit of server-side apply: a webhook whose caBundle is ours stays, and stays whole only until its owner goes.

    The API server refuses what would be left of it, so nothing changes. Once the configuration is made anew, the
    bundle is there again by the next pass.
    """
    site.apply("Mutating", "a.x.io", "b.x.io", server_side=True)
    site.keep()
    with pytest.raises(subprocess.CalledProcessError) as refused:
        site.apply("Mutating", "a.x.io", server_side=True)
    assert "webhooks[1].sideEffects: Required value" in refused.value.stderr
    assert len(site.configuration("Mutating")["webhooks"]) == 2
    site.plane.request("DELETE", site.path("Mutating"))
    site.apply("Mutating", "a.x.io", server_side=True)
    site.keep()
    site.assert_served_by("Mutating")


@pytest.mark.parametrize("how", ["removed", "foreign", "recreated"])
def test_repair(installed: Site, how: str) -> None:
    """A caBundle that was removed, replaced, or went with its configuration is published again."""
    installed.keep()
    (bundle, _) = installed.bundles("Validating")
    path = installed.path("Validating")
    at = "/webhooks/0/clientConfig/caBundle"
    json_patch = "application/json-patch+json"
    match how:
        case "removed":
            installed.plane.request("PATCH", path, [{"op": "remove", "path": at}], content_type=json_patch)  # type: ignore[arg-type] # a list is what a JSON patch is
        case "foreign":
            other = {"op": "replace", "path": at, "value": base64.b64encode(bundle * 2).decode()}
            installed.plane.request("PATCH", path, [other], content_type=json_patch)  # type: ignore[arg-type] # likewise
        case "recreated":
            installed.plane.request("DELETE", path)
            installed.apply("Validating", "a.x.io", "b.x.io")
    assert installed.bundles("Validating") != [bundle, bundle]
    assert [type(step) for step in installed.keep().steps] == [PublishBundle]
    assert installed.bundles("Validating") == [bundle, bundle]


def test_generation_tells_of_changes(installed: Site) -> None:
    """The API server counts each change of a webhook, which restarts the wait of a rotation, and no apply of the same."""
    installed.keep()
    first = installed.configuration("Mutating")["metadata"]["generation"]
    installed.apply("Mutating", "a.x.io", "b.x.io", timeoutSeconds=3)
    assert installed.configuration("Mutating")["metadata"]["generation"] == first + 1
    kept = installed.keep(rotate=True)
    second = installed.configuration("Mutating")["metadata"]["generation"]
    assert second == first + 2
    assert isinstance(kept.end, Wait)
    installed.apply("Mutating", "a.x.io", "b.x.io", timeoutSeconds=4)
    steps = [type(step) for step in installed.keep().steps]
    assert steps[:1] == [NoteSeen]


def test_several_at_once(installed: Site) -> None:
    """Of many that begin at the same moment each ends well, and all find the same CA and serving certificate."""
    start = threading.Barrier(6)
    ends: list[Kept] = []

    def run() -> None:
        start.wait()
        ends.append(installed.keep())

    threads = [threading.Thread(target=run) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [type(kept.end) for kept in ends] == [Nothing] * 6
    assert sum(isinstance(step, CreateCa) for kept in ends for step in kept.steps) == 1
    assert sum(isinstance(step, IssueLeaf) for kept in ends for step in kept.steps) == 1
    installed.assert_served()


def test_rotate_twice(installed: Site) -> None:
    """Two rotations, one after the other: each changes CA and certificate, and what is served is always accepted."""
    installed.keep()
    wait = threading.Event().wait
    for _ in range(2):
        before = installed.secret(installed.settings.ca_secret)["tls.crt"], installed.pair().certificate
        kept = installed.keep(rotate=True)
        assert isinstance(kept.end, Wait)
        assert any(isinstance(step, IntroduceCa) for step in kept.steps)
        installed.assert_served()
        api = installed.open(stop=threading.Event())
        kept = keep_to_the_end(api, installed.settings, wait, lambda _: installed.assert_served())
        assert isinstance(kept.end, Nothing)
        after = installed.secret(installed.settings.ca_secret)["tls.crt"], installed.pair().certificate
        assert after[0] != before[0]
        assert after[1] != before[1]
        assert installed.bundles("Mutating") == [after[0]] * 2
        installed.assert_served()


# --- in the background ------------------------------------------------------------------------------------------------

TERMS = Terms(duration=3, renew_deadline=2.0, retry_period=0.2)


@pytest.fixture
def renewal(site: Site) -> Iterator[Callable[..., Renewal]]:
    """Makes replicas, which are stopped at the end."""
    made: list[Renewal] = []

    def make(told: Callable[[Status], None] = lambda _: None) -> Renewal:
        renewal = Renewal(site.open, site.settings, terms=TERMS, interval=0.3, told=told)
        made.append(renewal)
        renewal.start()
        return renewal

    yield make
    for one in made:
        one.stop()


def test_background(installed: Site, renewal: Callable[..., Renewal]) -> None:
    """Of two replicas one makes and repairs everything; when it stops, the other goes on at once."""
    first = renewal()
    wait_for("the first to lead", lambda: first.status.passes)
    second = renewal()
    wait_for("the second to wait", lambda: "keeps the certificates" in second.status.outcome)
    assert first.status.leading
    assert first.status.ended_well
    assert first.status.steps == {"CreateCa": 1, "IssueLeaf": 1, "PublishBundle": 2}
    certificate = installed.pair().certificate
    assert first.status.not_after["serving"] == certificate.not_valid_after_utc
    assert first.status.not_after.keys() == {"ca", "serving"}
    first.stop()
    assert not first.status.leading
    wait_for("the second to lead", lambda: second.status.passes)
    installed.plane.request("DELETE", installed.path("Mutating"))
    installed.apply("Mutating", "a.x.io")
    wait_for("the repair", lambda: all(installed.bundles("Mutating")))
    assert second.status.failures == 0


def test_background_rotation(installed: Site, renewal: Callable[..., Renewal]) -> None:
    """A rotation that was begun by hand is brought to its end in the background."""
    installed.keep()
    before = installed.pair().certificate
    installed.keep(rotate=True)
    one = renewal()
    wait_for("the rotation", lambda: one.status.steps.get("DropOldCa"), seconds=20)
    wait_for("the end", lambda: "in order" in one.status.outcome)
    assert installed.pair().certificate != before
    installed.assert_served()


def test_background_leadership_lost(
    installed: Site, renewal: Callable[..., Renewal], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can be written any more by the cluster of a term that is over, whatever a pass was about to do."""
    clusters: list[ApiServer] = []
    opened = installed.open

    def remember(**arguments: Any) -> ApiServer:
        clusters.append(opened(**arguments))
        return clusters[-1]

    monkeypatch.setattr(Site, "open", lambda _, **arguments: remember(**arguments))
    one = renewal()
    wait_for("the certificates", lambda: one.status.ended_well)

    def touch() -> WriteOutcome:
        change = {"metadata": {"labels": {"touched": "yes"}}}
        name, home = installed.settings.tls_secret, installed.settings.namespace
        return clusters[1].patch(SECRETS, change, name=name, namespace=home)  # the first is for the lease

    assert isinstance(touch(), Written)
    leases = f"/apis/coordination.k8s.io/v1/namespaces/{installed.settings.namespace}/leases"
    installed.plane.request("PATCH", f"{leases}/poolwarden-webhook", {"spec": {"holderIdentity": "another"}})
    wait_for("the term's end", lambda: not one.status.leading)
    refused = touch()
    assert isinstance(refused, Failed)
    assert refused.doubt is Doubt.NOT_ALLOWED


def test_background_defect(installed: Site, renewal: Callable[..., Renewal], monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect ends a pass, is counted, and does not end the thread; nor does one of whoever is told."""
    broken = threading.Event()
    broken.set()
    told: list[Status] = []

    def tell(status: Status) -> None:
        told.append(status)
        raise ZeroDivisionError

    opened = installed.open

    def fail(**arguments: Any) -> ApiServer:
        if broken.is_set():
            raise ZeroDivisionError
        return opened(**arguments)

    monkeypatch.setattr(Site, "open", lambda _, **arguments: fail(**arguments))
    one = renewal(tell)
    wait_for("the failure", lambda: one.status.failures)
    assert one.status.outcome == "ZeroDivisionError: "
    broken.clear()
    wait_for("a pass", lambda: one.status.ended_well)
    assert told[0].failures == 1
    assert any(status.leading for status in told)
    installed.assert_served()


# --- by hand ----------------------------------------------------------------------------------------------------------


class Shell(Struct):
    """Runs `poolwarden certs`."""

    site: Site
    capture: pytest.CaptureFixture[str]

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit status, standard output and standard error."""
        settings = self.site.settings
        options = (
            *("--namespace", settings.namespace, "--mutating-configuration", settings.mutating),
            *("--validating-configuration", settings.validating),
            *("--kubeconfig", str(self.site.plane.kubeconfig(self.site.user))),
        )
        status = main(["certs", *arguments, *options])
        told = self.capture.readouterr()
        return status, told.out, told.err


@pytest.fixture
def shell(installed: Site, capsys: pytest.CaptureFixture[str]) -> Shell:
    """The command line, on an installed site."""
    return Shell(installed, capsys)


def test_commands(shell: Shell) -> None:
    """`show` says what is to do, `ensure` does it, `rotate` begins anew; exit statuses say so, too."""
    status, out, _ = shell.run("show")
    assert status == 1
    assert "there is no such Secret" in out
    assert "Next: CreateCa: there is no Secret poolwarden-webhook-ca" in out
    status, out, _ = shell.run("ensure")
    assert status == 0
    assert out.splitlines()[-1] == "both certificates are in order"
    status, out, _ = shell.run("show")
    assert status == 0
    assert f"signed by CN=poolwarden webhook CA {shell.site.pair().certificate.not_valid_before_utc:%Y}" in out
    assert "2 of 2 webhooks hold the CAs" in out
    status, out, _ = shell.run("rotate")
    assert status == 0
    assert out.startswith("IntroduceCa: a new CA is asked for\n")
    assert "goes on at" in out.splitlines()[-1]
    status, out, _ = shell.run("show", "-o", "json")
    assert status == 1
    told = json.loads(out)
    assert told["next"]["action"] == "Wait"
    assert len(told["authority"]["certificates"]) == 2
    assert told["serving"]["certificate"]["signedByNewest"] is False
    assert [one["published"] for one in told["configurations"]] == [2, 2]


def test_extra_names(shell: Shell) -> None:
    """Names and lives that are asked for later make another certificate."""
    shell.run("ensure")
    status, out, _ = shell.run("ensure", "--dns-name", "hook.example", "--dns-name", "0:0::1", "--leaf-days", "7")
    assert status == 0
    assert out.splitlines()[0] == "IssueLeaf: the serving certificate lacks hook.example, ::1"
    certificate = shell.site.pair().certificate
    assert (certificate.not_valid_after_utc - certificate.not_valid_before_utc).days == 7
    assert (
        shell.run("ensure", "--dns-name", "hook.example", "--dns-name", "::1")[1] == "both certificates are in order\n"
    )


def test_commands_without_rights(shell: Shell, control_plane: ControlPlane) -> None:
    """Who may do nothing is told so, with status 2."""
    with control_plane.limited_user() as nobody:
        shell.site.user = nobody
        for action in ("ensure", "rotate", "show"):
            status, out, err = shell.run(action)
            assert status == 2
            assert "403" in out + err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ca-days", "0"], "'0' is no life in days; allowed are 1 to 36500"),
        (["--dns-name", "a b"], "'a b' is no DNS name in lower case, nor an IP address"),
        (["--dns-name", "Hook.example"], "'Hook.example' is no DNS name in lower case, nor an IP address"),
        (["--service", "x" * 64], "is no DNS name in lower case, nor an IP address"),
        (["-f", "x"], "unrecognized arguments: -f x"),
    ],
)
def test_wrong_options(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What cannot be asked for is refused in one line."""
    with pytest.raises(SystemExit) as left:
        main(["certs", "ensure", *arguments])
    assert left.value.code == 2
    assert message in capsys.readouterr().err
