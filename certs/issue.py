"""Makes certificates, and reads what was made: X.509 and PEM, nothing of Kubernetes.

The extensions are the complete set of RFC 5280, though Go's verifier in the API server asks for less: Python's since 3.13
refuses a CA without keyUsage and a leaf without authorityKeyIdentifier.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store
from msgspec import Struct

BACKDATE = timedelta(minutes=5)
"""How long before its making a certificate is valid: the clocks of two API servers may differ."""
_BLOCK = re.compile(rb"-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----")
_NO_USAGE = dict.fromkeys(
    (
        "digital_signature",
        "content_commitment",
        "key_encipherment",
        "data_encipherment",
        "key_agreement",
        "key_cert_sign",
        "crl_sign",
        "encipher_only",
        "decipher_only",
    ),
    False,
)


class Pair(Struct, frozen=True):
    """A certificate and its private key."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey


class Unusable(Struct, frozen=True, tag=True):
    """What should be a certificate with its key is not; `why` goes after "it" or the object's name."""

    why: str


# --- making -----------------------------------------------------------------------------------------------------------


def new_ca(now: datetime, life: timedelta) -> Pair:
    """A self-signed CA that may sign certificates, but no further CAs."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name(f"poolwarden webhook CA {now:%Y-%m-%dT%H:%M:%SZ}")  # the time tells people one from the next
    builder = (
        _builder(name, name, key, now, now + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"key_cert_sign": True, "crl_sign": True}), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    return Pair(builder.sign(key, hashes.SHA256()), key)


def new_leaf(ca: Pair, names: Sequence[str], now: datetime, life: timedelta) -> Pair:
    """A serving certificate for these DNS names and IP addresses, which does not outlive its CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    until = min(now + life, ca.certificate.not_valid_after_utc)
    identifier = ca.certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    builder = (
        # The CN is for people (verifiers read the SAN); it holds 64 characters at most, the first label at most 63.
        _builder(_name(names[0].partition(".")[0]), ca.certificate.subject, key, now, until)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(**_NO_USAGE | {"digital_signature": True}), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName(map(_general_name, names)), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier),
            critical=False,
        )
    )
    return Pair(builder.sign(ca.key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, until: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before((now - BACKDATE).replace(microsecond=0))
        .not_valid_after(until.replace(microsecond=0))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "poolwarden"),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


# --- PEM --------------------------------------------------------------------------------------------------------------


def certificate_pem(*certificates: x509.Certificate) -> bytes:
    """One after the other, each with its newline."""
    return b"".join(certificate.public_bytes(serialization.Encoding.PEM) for certificate in certificates)


def key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """PKCS#8, not encrypted."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def read_certificates(pem: bytes) -> tuple[x509.Certificate, ...]:
    """Those certificates that can be read."""
    return tuple(_readable(_BLOCK.findall(pem)))


def _readable(blocks: Iterable[bytes]) -> Iterable[x509.Certificate]:
    for block in blocks:
        try:
            certificate = x509.load_pem_x509_certificate(block)
            _read_whole(certificate)
        except Exception:  # noqa: BLE001,S112 - ValueError, UnsupportedAlgorithm, DuplicateExtension, InvalidVersion, ...
            continue
        yield certificate


def _read_whole(certificate: x509.Certificate) -> None:
    """Ask for all that is read lazily, and may raise only then."""
    _ = certificate.extensions, certificate.public_key(), certificate.signature_algorithm_oid, certificate.version
    _ = common_name(certificate), certificate.issuer.rfc4514_string(), names_of(certificate), renewed_from(certificate)


def read_pair(certificate: bytes, key: bytes) -> Pair | Unusable:
    """A certificate (the first, where there is a chain) with its key."""
    first = _BLOCK.search(certificate)
    found = read_certificates(first[0]) if first else ()
    if not found:
        return Unusable("holds no certificate that can be read")
    try:
        private = serialization.load_pem_private_key(key, None)
    except Exception:  # noqa: BLE001 - as above
        return Unusable("holds no private key that can be read")
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        return Unusable("holds a key that is not ECDSA's")
    if private.public_key() != found[0].public_key():
        return Unusable("holds a key that is not its certificate's")
    return Pair(found[0], private)


# --- asking -----------------------------------------------------------------------------------------------------------


def is_ca(certificate: x509.Certificate) -> bool:
    """Whether it may sign others, and can be named as their issuer."""
    try:
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
        certificate.extensions.get_extension_for_class(x509.SubjectKeyIdentifier)
    except x509.ExtensionNotFound:
        return False
    return constraints.ca


def is_signed_by(certificate: x509.Certificate, ca: x509.Certificate) -> bool:
    """Whether the CA issued the certificate, whatever their dates."""
    try:
        certificate.verify_directly_issued_by(ca)
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm):
        return False
    return True


def refusal(leaf: x509.Certificate, cas: Iterable[x509.Certificate], name: str, now: datetime) -> str:
    """Why a client with these CAs refuses the serving certificate by this name; "" if it accepts.

    cryptography's verifier refuses all that Go's does (and more: a CA without keyUsage, critical policies, P-224), so what
    passes here passes in the API server.
    """
    try:
        verifier = PolicyBuilder().store(Store(list(cas))).time(now).build_server_verifier(x509.DNSName(name))
        verifier.verify(leaf, [])
    except Exception as error:  # noqa: BLE001 - VerificationError; what else it meets in odd certificates
        return str(error).rpartition("exhausted: ")[2].partition(" (encountered")[0]
    return ""


def unfit(ca: Pair, names: Sequence[str], now: datetime) -> str:
    """Why no client would accept what this CA, valid now, signs; "" if one would."""
    probe = new_leaf(ca, names, now, timedelta(days=1))
    return refusal(probe.certificate, (ca.certificate,), names[0], now)


def names_of(certificate: x509.Certificate) -> tuple[str, ...]:
    """The DNS names and IP addresses that it is for."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return (*names.get_values_for_type(x509.DNSName), *map(str, names.get_values_for_type(x509.IPAddress)))


def common_name(certificate: x509.Certificate) -> str:
    """How people tell it from others."""
    return certificate.subject.rfc4514_string()


def renewed_from(certificate: x509.Certificate) -> datetime:
    """Two thirds of its life: what fails from then on has the last third to be noticed and repaired."""
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return begin + (end - begin) * 2 / 3
