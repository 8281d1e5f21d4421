"""The serving certificate: presented as it lies on disk, the last good one while it is none."""

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from controlplane.server import wait_for
from poolwarden.webhook.server.tls import Pair, ServingCertificate, Unusable, read_pair

from .client import Webhook, ask, review
from .conftest import Start
from .pairs import Mount, p256, pem, rsa2048

SERVING = 'poolwarden_certificate_not_after_seconds{certificate="serving"}'


def presented(webhook: Webhook, context: ssl.SSLContext | None = None) -> str:
    """The name in the certificate that a new connection is shown."""
    blind = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    blind.check_hostname, blind.verify_mode = False, ssl.CERT_NONE
    with webhook.connect(context or blind) as connection:
        shown = connection.getpeercert(binary_form=True)
    assert shown
    return x509.load_der_x509_certificate(shown).subject.rfc4514_string().removeprefix("CN=")


def until_presented(webhook: Webhook, name: str) -> None:
    """Waits until new connections are shown this certificate."""
    wait_for(f"{name} to be presented", lambda: presented(webhook) == name)


def unusable(webhook: Webhook) -> int:
    """How often the log says that the files are no pair."""
    return webhook.log.count("certificate_unusable")


def test_a_rotated_pair_is_picked_up(start: Start) -> None:
    """New connections are shown the new pair, also one of another kind of key; those that exist go on."""
    webhook = start()
    with webhook.keep_alive() as old:
        assert ask(old, review()).status == 200
        for name, key in (("second", rsa2048()), ("third", p256())):
            webhook.mount.put(*pem(name, key))
            until_presented(webhook, name)
            assert ask(old, review()).status == 200
            assert webhook.post(review()).status == 200  # its client trusts nothing but the new pair
    assert webhook.log.count("certificate_loaded") == 3


def test_the_last_good_pair_is_kept(start: Start) -> None:
    """A half-written or missing pair changes nothing, and is said once."""
    webhook = start()
    cert, key = pem("second", p256(), ends=timedelta(days=9))
    trusting = webhook.context()
    webhook.mount.put(cert, key[:90])
    wait_for("it to be noticed", lambda: unusable(webhook) == 1)
    assert presented(webhook, trusting) == "first"
    webhook.mount.cert.unlink()
    wait_for("it to be noticed", lambda: unusable(webhook) == 2)
    assert presented(webhook, trusting) == "first"
    assert "[+] certificate: ok" in webhook.readiness()
    before = webhook.metric(SERVING)
    webhook.mount.put(cert, key)
    until_presented(webhook, "second")
    assert webhook.metric(SERVING) > before
    assert unusable(webhook) == 2


def test_a_pair_that_is_not_there_yet_is_waited_for(start: Start) -> None:
    """Without a certificate the server is up, not ready, and says why; it serves as soon as there is one."""
    webhook = start(mounted=False, wait=False)
    wait_for("it to be up", lambda: "[-] certificate" in webhook.readiness())
    assert "tls.crt: No such file" in webhook.readiness()
    assert webhook.get("/healthz").status == 200
    with pytest.raises((ssl.SSLError, ConnectionError)):
        presented(webhook)
    webhook.mount.put(*pem("first", p256()))
    webhook.wait_ready()
    assert webhook.post(review()).status == 200


@pytest.mark.parametrize("part", ["half a key", "half a certificate", "another key", "nothing", "a passphrase"])
def test_what_is_no_pair_is_not_taken(tmp_path: Path, part: str) -> None:
    """Certificate and key must both be whole and fit; nobody is asked for a passphrase."""
    cert, key = pem("first", p256())
    texts = {
        "half a key": (cert, key[:90]),
        "half a certificate": (cert[:200], key),
        "another key": (cert, pem("other", p256())[1]),
        "nothing": (b"", b""),
        "a passphrase": pem("first", p256(), passphrase=b"abc"),
    }
    mount = Mount(tmp_path)
    mount.put(*texts[part])
    match read_pair(mount.cert, mount.key):
        case Unusable(problem):
            assert "are no pair: " in problem
        case Pair():
            pytest.fail("it was taken")


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_tls_1_2_and_1_3_are_spoken(webhook: Webhook, version: ssl.TLSVersion) -> None:
    """Both find the pair, though it is chosen only within the handshake."""
    context = webhook.context()
    context.minimum_version = context.maximum_version = version
    with webhook.connect(context) as connection:
        assert connection.version() == version.name.replace("_", ".")


def test_older_tls_is_refused(webhook: Webhook) -> None:
    """TLS 1.1 is no option, whatever the client would take."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with pytest.raises((ssl.SSLError, ConnectionError)):
        presented(webhook, context)


def test_a_session_is_not_resumed(webhook: Webhook) -> None:
    """A resumed session would go on under a certificate that was rotated away."""
    context = webhook.context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    with webhook.connect(context) as connection:
        assert connection.session is None or not connection.session.has_ticket


def test_when_it_ends_is_a_metric(webhook: Webhook) -> None:
    """Of the pair that is presented, as Unix time; set-up may say when others end."""
    lasts = webhook.metric(SERVING) - datetime.now(UTC).timestamp()
    assert timedelta(hours=23).total_seconds() < lasts <= timedelta(days=1).total_seconds()
    assert webhook.metric('poolwarden_certificate_not_after_seconds{certificate="ca"}') == 4102444800


def test_one_that_ended_is_not_ready(tmp_path: Path) -> None:
    """Clients will not trust it: the reason says since when."""
    ends: list[float] = []
    mount = Mount(tmp_path)
    mount.put(*pem("old", p256(), ends=timedelta(hours=-1)))
    certificate = ServingCertificate(mount.cert, mount.key, ends.append)
    certificate.look()
    (reason,) = certificate.reasons()
    assert reason.startswith("expired at ")
    mount.put(*pem("new", p256()))
    certificate.look()
    assert certificate.reasons() == ()
    assert ends == sorted(ends)
    assert len(ends) == 2
