"""Certificates as made and read, against three verifiers: cryptography's, OpenSSL's at its strictest, and Go's."""

import shutil
import ssl
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from certs.odd import odd_but_good_cas, touch, unreadable, useless_cas
from certs.shape import assert_is_ca, assert_is_leaf, handshake, verifies
from poolwarden.certs.issue import (
    BACKDATE,
    Pair,
    Unusable,
    certificate_pem,
    is_ca,
    is_signed_by,
    key_pem,
    names_of,
    new_ca,
    new_leaf,
    read_certificates,
    read_pair,
    refusal,
    renewed_from,
    unfit,
)
from poolwarden.certs.settings import Settings

NOW = datetime.now(UTC).replace(microsecond=0)  # TLS stacks judge by today's date
YEAR, MONTH = timedelta(days=365), timedelta(days=30)
NAMES = Settings(namespace="poolwarden", extra_names=("hook.example", "127.0.0.1", "0:0::1")).names
GO = Path(__file__).parent / "verify.go"


@pytest.fixture(scope="module")
def ca() -> Pair:
    """A CA of today."""
    return new_ca(NOW, YEAR)


@pytest.fixture(scope="module")
def leaf(ca: Pair) -> Pair:
    """A serving certificate of today."""
    return new_leaf(ca, NAMES, NOW, MONTH)


def test_ca(ca: Pair) -> None:
    """A CA is complete, valid from a little before now, and self-signed."""
    assert_is_ca(ca.certificate)
    assert ca.certificate.not_valid_before_utc == NOW - BACKDATE
    assert ca.certificate.not_valid_after_utc == NOW + YEAR
    assert is_ca(ca.certificate)


def test_leaf(ca: Pair, leaf: Pair) -> None:
    """A serving certificate is complete and holds every name, addresses as addresses."""
    assert_is_leaf(leaf.certificate, ca.certificate)
    assert leaf.certificate.not_valid_before_utc == NOW - BACKDATE
    assert leaf.certificate.not_valid_after_utc == NOW + MONTH
    assert names_of(leaf.certificate) == (
        "poolwarden-webhook.poolwarden.svc",
        "poolwarden-webhook.poolwarden.svc.cluster.local",
        "poolwarden-webhook.poolwarden",
        "poolwarden-webhook",
        "hook.example",
        "127.0.0.1",
        "::1",
    )
    assert names_of(leaf.certificate) == NAMES
    assert not is_ca(leaf.certificate)


def test_each_is_another(ca: Pair) -> None:
    """Two CAs of the same second differ in serial number and key; so do two serving certificates."""
    for one, two in ((ca, new_ca(NOW, YEAR)), (new_leaf(ca, NAMES, NOW, MONTH), new_leaf(ca, NAMES, NOW, MONTH))):
        assert one.certificate.serial_number != two.certificate.serial_number
        assert one.certificate.public_key() != two.certificate.public_key()


def test_ends_with_its_ca(ca: Pair) -> None:
    """A serving certificate does not outlive its CA."""
    leaf = new_leaf(ca, NAMES, NOW + YEAR - MONTH, 2 * MONTH)
    assert leaf.certificate.not_valid_after_utc == NOW + YEAR


def test_longest_names() -> None:
    """The longest names that Kubernetes allows fit."""
    settings = Settings(namespace="n" * 63, service="s" * 63)
    ca = new_ca(NOW, YEAR)
    assert_is_leaf(new_leaf(ca, settings.names, NOW, MONTH).certificate, ca.certificate)


@pytest.mark.parametrize("name", NAMES)
def test_strict_handshake(ca: Pair, leaf: Pair, name: str) -> None:
    """OpenSSL at its strictest takes the certificate for each of its names, also with other CAs in the bundle."""
    other = new_ca(NOW, YEAR).certificate
    assert handshake(leaf, certificate_pem(other, ca.certificate), name) == "TLSv1.3"


def test_refused_handshakes(ca: Pair, leaf: Pair) -> None:
    """Another CA, another name, or another date, and OpenSSL refuses."""
    bundle = certificate_pem(ca.certificate)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(leaf, certificate_pem(new_ca(NOW, YEAR).certificate), NAMES[0])
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(leaf, bundle, "other.example")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(new_leaf(ca, NAMES, NOW - 2 * MONTH, MONTH), bundle, NAMES[0])


def test_bundle_with_an_expired_ca(ca: Pair, leaf: Pair) -> None:
    """An expired CA in the bundle does no harm."""
    expired = new_ca(NOW - 2 * YEAR, YEAR).certificate
    assert handshake(leaf, certificate_pem(expired, ca.certificate), NAMES[0]) == "TLSv1.3"


@pytest.mark.skipif(not shutil.which("go"), reason="needs Go")
def test_go(ca: Pair, leaf: Pair, tmp_path: Path) -> None:
    """Go's verifier, which the API server uses, takes the certificate by the Service's name, and by no other CA."""
    go = Go(tmp_path)
    other = new_ca(NOW, YEAR).certificate
    for name in NAMES[:4]:
        assert go.accepts(leaf, certificate_pem(other, ca.certificate), name)
        assert not go.accepts(leaf, certificate_pem(other), name)


@pytest.mark.skipif(not shutil.which("go"), reason="needs Go")
def test_odd_cas_as_go_sees_them(tmp_path: Path) -> None:
    """Of CAs made by hand those are taken for useless by which Go accepts nothing, and others are not."""
    go = Go(tmp_path)
    for cas, useful in ((useless_cas(NOW), False), (odd_but_good_cas(NOW), True)):
        for which, odd in cas.items():
            signed = new_leaf(odd, NAMES, NOW, MONTH)
            assert go.accepts(signed, certificate_pem(odd.certificate), NAMES[0]) is useful, which
            assert (unfit(odd, NAMES, NOW) == "") is useful, which


@pytest.mark.skipif(not shutil.which("go"), reason="needs Go")
def test_unreadable_certificates_beside_others(ca: Pair, leaf: Pair, tmp_path: Path) -> None:
    """What we overlook in a bundle Go does, too."""
    go = Go(tmp_path)
    for which, pem in unreadable(NOW).items():
        assert go.accepts(leaf, pem + certificate_pem(ca.certificate), NAMES[0]), which


class Go:
    """Go's verifier."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        subprocess.run(["go", "build", "-o", folder / "verify", GO], check=True, capture_output=True, cwd=folder)

    def accepts(self, leaf: Pair, bundle: bytes, name: str) -> bool:
        """Whether it takes the certificate by this name."""
        (self._folder / "bundle").write_bytes(bundle)
        (self._folder / "leaf").write_bytes(certificate_pem(leaf.certificate))
        command = [*(str(self._folder / part) for part in ("verify", "bundle", "leaf")), name]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_verifies(ca: Pair, leaf: Pair) -> None:
    """The verifier that simulations use agrees."""
    assert verifies(leaf.certificate, (ca.certificate,), NAMES[0], NOW)
    assert not verifies(leaf.certificate, (ca.certificate,), NAMES[0], NOW + 2 * MONTH)
    assert not verifies(leaf.certificate, (new_ca(NOW, YEAR).certificate,), NAMES[0], NOW)


def test_refusal(ca: Pair, leaf: Pair) -> None:
    """Why a certificate is refused is told in a few words."""
    cas = (ca.certificate,)
    assert refusal(leaf.certificate, cas, NAMES[0], NOW) == ""
    assert "not valid at validation time" in refusal(leaf.certificate, cas, NAMES[0], NOW + 2 * MONTH)
    assert refusal(leaf.certificate, cas, "other.example", NOW)
    assert refusal(leaf.certificate, (), NAMES[0], NOW)
    assert unfit(useless_cas(NOW)["usage"], NAMES, NOW) == "keyUsage.keyCertSign must be asserted in a CA certificate"


# --- PEM --------------------------------------------------------------------------------------------------------------


def test_pair_there_and_back(leaf: Pair) -> None:
    """What was written is read again; the key is PKCS#8."""
    key = key_pem(leaf.key)
    assert key.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    read = read_pair(certificate_pem(leaf.certificate), key)
    assert isinstance(read, Pair)
    assert read.certificate == leaf.certificate
    assert read.key.private_numbers() == leaf.key.private_numbers()


def test_unusable_pairs(ca: Pair, leaf: Pair) -> None:
    """Each way in which a pair can be broken is told."""
    certificate, key = certificate_pem(leaf.certificate), key_pem(leaf.key)
    foreign = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    cases = {
        (b"", key): "holds no certificate that can be read",
        (b"nonsense", key): "holds no certificate that can be read",
        (certificate.replace(b"MII", b"AAA", 1), key): "holds no certificate that can be read",
        (certificate, b""): "holds no private key that can be read",
        (certificate, key[:40]): "holds no private key that can be read",
        (certificate, foreign): "holds a key that is not ECDSA's",
        (certificate, key_pem(ca.key)): "holds a key that is not its certificate's",
    }
    for (first, second), why in cases.items():
        assert read_pair(first, second) == Unusable(why)


def test_readable_certificates(ca: Pair, leaf: Pair) -> None:
    """Of a bundle those are read that can be, whatever stands between them."""
    one, two = certificate_pem(ca.certificate), certificate_pem(leaf.certificate)
    assert read_certificates(b"# a\n" + one + b"\n\n" + one[:300] + b"\n" + two) == (
        ca.certificate,
        leaf.certificate,
    )
    assert read_certificates(one + b"text" + two) == (ca.certificate, leaf.certificate)
    assert read_certificates(b"") == ()


@pytest.mark.parametrize("raised", unreadable(NOW))
def test_unreadable_certificates(ca: Pair, leaf: Pair, raised: str) -> None:
    """Whatever a certificate makes cryptography raise, at once or when it is asked, it is one that cannot be read."""
    pem, good = unreadable(NOW)[raised], certificate_pem(leaf.certificate)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its type is looked at
        touch(pem)
    assert type(caught.value).__name__ == raised
    assert read_certificates(pem) == ()
    assert read_certificates(pem + certificate_pem(ca.certificate) + pem) == (ca.certificate,)
    assert read_pair(pem, key_pem(leaf.key)) == Unusable("holds no certificate that can be read")
    # A server presents the first.
    assert read_pair(pem + good, key_pem(leaf.key)) == Unusable("holds no certificate that can be read")
    assert isinstance(read_pair(good + pem, key_pem(leaf.key)), Pair)


def test_is_signed_by(ca: Pair, leaf: Pair) -> None:
    """The signature counts, not the name."""
    assert is_signed_by(leaf.certificate, ca.certificate)
    assert not is_signed_by(leaf.certificate, new_ca(NOW, YEAR).certificate)
    assert not is_signed_by(ca.certificate, leaf.certificate)


def test_renewed_from(ca: Pair) -> None:
    """Two thirds of a life, by its dates."""
    assert renewed_from(ca.certificate) == NOW - BACKDATE + (YEAR + BACKDATE) * 2 / 3
