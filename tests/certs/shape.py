"""What a CA and a serving certificate of ours are: executable specification, and TLS as others speak it."""

import socket
import ssl
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from poolwarden.certs.issue import Pair, certificate_pem, key_pem


def extension(certificate: x509.Certificate, kind: type[x509.ExtensionType], *, critical: bool) -> x509.ExtensionType:
    """The extension, which must be critical or not."""
    found = certificate.extensions.get_extension_for_class(kind)
    assert found.critical is critical, kind
    return found.value


def assert_is_ours(certificate: x509.Certificate, issuer: x509.Certificate) -> None:
    """What CA and serving certificate have in common."""
    assert certificate.version is x509.Version.v3
    assert (
        certificate.serial_number.bit_length() > 64
    )  # random: RFC 5280 4.1.2.2, and more than the CA/B forum's 64 bits
    assert certificate.serial_number.bit_length() < 160
    assert isinstance(certificate.public_key(), ec.EllipticCurvePublicKey)
    assert isinstance(certificate.public_key().curve, ec.SECP256R1)  # type: ignore[union-attr] # known from above
    assert len(list(certificate.subject)) == 2  # not empty: else the SAN would have to be critical
    identifier = x509.SubjectKeyIdentifier.from_public_key(certificate.public_key())
    assert extension(certificate, x509.SubjectKeyIdentifier, critical=False) == identifier
    authority = extension(certificate, x509.AuthorityKeyIdentifier, critical=False)
    issuers = issuer.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    assert isinstance(authority, x509.AuthorityKeyIdentifier)
    assert authority.key_identifier == issuers.digest
    certificate.verify_directly_issued_by(issuer)
    assert certificate.not_valid_before_utc.tzinfo is not None


def usage(certificate: x509.Certificate) -> set[str]:
    """What the key may do."""
    found = extension(certificate, x509.KeyUsage, critical=True)
    assert isinstance(found, x509.KeyUsage)
    names = (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
    )
    return {name for name in names if getattr(found, name)}


def assert_is_ca(certificate: x509.Certificate) -> None:
    """A self-signed CA with the complete extensions of RFC 5280."""
    assert_is_ours(certificate, certificate)
    assert extension(certificate, x509.BasicConstraints, critical=True) == x509.BasicConstraints(ca=True, path_length=0)
    assert usage(certificate) == {"key_cert_sign", "crl_sign"}
    assert len(certificate.extensions) == 4


def assert_is_leaf(certificate: x509.Certificate, ca: x509.Certificate) -> None:
    """A serving certificate by this CA with the complete extensions of RFC 5280."""
    assert_is_ours(certificate, ca)
    constraints = x509.BasicConstraints(ca=False, path_length=None)
    assert extension(certificate, x509.BasicConstraints, critical=True) == constraints
    assert usage(certificate) == {"digital_signature"}
    purpose = extension(certificate, x509.ExtendedKeyUsage, critical=False)
    assert purpose == x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH])
    extension(certificate, x509.SubjectAlternativeName, critical=False)
    assert len(certificate.extensions) == 6
    assert certificate.not_valid_after_utc <= ca.not_valid_after_utc


def verifies(leaf: x509.Certificate, bundle: tuple[x509.Certificate, ...], name: str, at: datetime) -> bool:
    """Whether an API server with this bundle accepts the certificate at that time (by cryptography's own verifier)."""
    if not bundle:
        return False
    verifier = PolicyBuilder().store(Store(list(bundle))).time(at).build_server_verifier(x509.DNSName(name))
    try:
        verifier.verify(leaf, [])
    except (VerificationError, InvalidSignature):
        return False
    return True


def handshake(pair: Pair, bundle: bytes, name: str) -> str:
    """A TLS handshake, verified as strictly as OpenSSL can: the version that was agreed on.

    Raises:
        ssl.SSLError: the client refused.
    """
    client = ssl.create_default_context(cadata=bundle.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.NamedTemporaryFile() as file:
        Path(file.name).write_bytes(certificate_pem(pair.certificate) + key_pem(pair.key))
        server.load_cert_chain(file.name)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        with ours, server.wrap_socket(ours, server_side=True):
            pass

    with ThreadPoolExecutor(1) as pool:
        serving = pool.submit(serve)
        try:
            with theirs, client.wrap_socket(theirs, server_hostname=name) as connection:
                version = connection.version() or ""
        except ssl.SSLError:
            theirs.close()
            assert isinstance(serving.exception(), OSError)
            raise
        serving.result()
    return version
