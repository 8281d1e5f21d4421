"""Certificates for tests: self-signed, so that each is its own CA and a client can tell them apart."""

from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


def p256() -> Key:
    """A key of the kind that we issue."""
    return ec.generate_private_key(ec.SECP256R1())


def rsa2048() -> Key:
    """A key of the other kind."""
    return rsa.generate_private_key(65537, 2048)


def pem(name: str, key: Key, *, ends: timedelta = timedelta(days=1), passphrase: bytes = b"") -> tuple[bytes, bytes]:
    """A certificate for the loopback address, and its key."""
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    loopback = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + ends)
        .add_extension(loopback, critical=False)
        .sign(key, hashes.SHA256())
    )
    locked = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    return certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, locked
    )


class Mount:
    """A Secret's folder as the kubelet keeps it: files are links through `..data`, which is swapped at once."""

    def __init__(self, folder: Path) -> None:
        self.cert = folder / "tls.crt"
        self.key = folder / "tls.key"
        self._folder = folder
        self._swaps = 0

    def put(self, cert: bytes, key: bytes) -> None:
        """Replace both files in one step."""
        self._swaps += 1
        version = self._folder / f"..{self._swaps}"
        version.mkdir()
        (version / "tls.crt").write_bytes(cert)
        (version / "tls.key").write_bytes(key)
        new = self._folder / "..data_tmp"
        new.symlink_to(version.name)
        new.rename(self._folder / "..data")
        for file in (self.cert, self.key):
            if not file.is_symlink():
                file.symlink_to(f"..data/{file.name}")
