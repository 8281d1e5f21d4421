"""Certificates that nobody should store, and somebody will: by hand, or by another program."""

import base64
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from ipaddress import ip_network

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from poolwarden.certs.issue import Pair

Extension = tuple[x509.ExtensionType, bool]
USAGES = (
    "digital_signature",
    "content_commitment",
    "key_encipherment",
    "data_encipherment",
    "key_agreement",
    "key_cert_sign",
    "crl_sign",
    "encipher_only",
    "decipher_only",
)


def hand_made(
    now: datetime, *extensions: Extension, key: ec.EllipticCurvePrivateKey | None = None, ca: bool = True
) -> Pair:
    """A self-signed certificate with these extensions; as a CA with the two that every CA needs, if not among them."""
    key = key or ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "made by hand")])
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=300))
    )
    needed: tuple[Extension, ...] = (
        (x509.BasicConstraints(ca=True, path_length=None), True),
        (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
    )
    own = {type(value) for value, _ in extensions}
    for value, critical in (*extensions, *(one for one in needed if ca and type(one[0]) not in own)):
        builder = builder.add_extension(value, critical=critical)
    return Pair(builder.sign(key, hashes.SHA256()), key)


def usage(*names: str) -> Extension:
    """A keyUsage."""
    return x509.KeyUsage(**{name: name in names for name in USAGES}), True


SIGNS = usage("key_cert_sign", "crl_sign")


def useless_cas(now: datetime) -> Mapping[str, Pair]:
    """CAs by which Go accepts no serving certificate of ours."""
    other = x509.ObjectIdentifier("1.2.3.4")
    return {
        "usage": hand_made(now, usage("digital_signature")),
        "names": hand_made(now, SIGNS, (x509.NameConstraints([x509.DNSName("example.test")], None), True)),
        "excluded": hand_made(now, SIGNS, (x509.NameConstraints(None, [x509.DNSName("svc")]), True)),
        "purpose": hand_made(now, SIGNS, (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), False)),
        "unknown": hand_made(now, SIGNS, (x509.UnrecognizedExtension(other, b"\x05\x00"), True)),
        "curve": hand_made(now, SIGNS, key=ec.generate_private_key(ec.SECP256K1())),
        "brainpool": hand_made(now, SIGNS, key=ec.generate_private_key(ec.BrainpoolP256R1())),
    }


def odd_but_good_cas(now: datetime) -> Mapping[str, Pair]:
    """CAs by which Go and we accept what they sign."""
    networks = x509.NameConstraints(None, [x509.IPAddress(ip_network("10.0.0.0/8"))])
    return {
        "plain": hand_made(now, SIGNS),
        "path": hand_made(now, SIGNS, (x509.BasicConstraints(ca=True, path_length=0), True)),
        "purpose": hand_made(now, SIGNS, (x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), False)),
        "networks": hand_made(now, SIGNS, (networks, True)),
        "P-384": hand_made(now, SIGNS, key=ec.generate_private_key(ec.SECP384R1())),
    }


def unreadable(now: datetime) -> Mapping[str, bytes]:
    """PEM blocks that look like certificates, and make cryptography raise, in each case something else."""
    one, two = x509.ObjectIdentifier("1.2.3.4"), x509.ObjectIdentifier("1.2.3.5")
    twice = _der(
        now,
        (x509.UnrecognizedExtension(one, b"\x05\x00"), False),
        (x509.UnrecognizedExtension(two, b"\x05\x00"), False),
    ).replace(bytes.fromhex("06032a0305"), bytes.fromhex("06032a0304"))
    named = _der(now, (x509.SubjectAlternativeName([x509.DNSName("aaaaaaaa")]), False))
    curve = _der(now).replace(bytes.fromhex("06082a8648ce3d030107"), bytes.fromhex("06082a8648ce3d03017f"))
    return {
        "DuplicateExtension": _pem(twice),
        "UnsupportedGeneralNameType": _pem(named.replace(b"\x82\x08aaaaaaaa", b"\xa3\x08aaaaaaaa")),
        "InvalidVersion": _pem(named.replace(bytes.fromhex("a003020102"), bytes.fromhex("a003020107"))),
        "UnsupportedAlgorithm": _pem(curve),
        "ValueError": _pem(named[:200]),
    }


def _der(now: datetime, *extensions: Extension) -> bytes:
    return hand_made(now, *extensions, ca=False).certificate.public_bytes(serialization.Encoding.DER)


def _pem(der: bytes) -> bytes:
    return b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(der) + b"-----END CERTIFICATE-----\n"


def touch(pem: bytes) -> Sequence[object]:
    """Ask a certificate for all that may be read of it lazily."""
    found = x509.load_pem_x509_certificate(pem)
    return found.extensions, found.public_key(), found.subject.rfc4514_string(), found.not_valid_after_utc
