"""The serving certificate, followed on disk: a rotated pair counts from the next connection on."""

import os
import ssl
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import structlog
from cryptography import x509
from msgspec import Struct

_log = structlog.get_logger()


class Pair(Struct, frozen=True):
    """A certificate and its key, known to fit each other."""

    context: ssl.SSLContext
    not_after: datetime


class Unusable(Struct, frozen=True):
    """What lies on disk is no pair (yet)."""

    problem: str


class ServingCertificate:
    """Presents the newest usable pair to each new connection; the last good one while the files are no pair.

    Until there is one, every handshake fails at once: the API server then need not wait for its timeout.
    """

    def __init__(self, cert: Path, key: Path, ends: Callable[[float], None]) -> None:
        self._files = cert, key
        self._ends = ends
        self._seen: object = None
        self._latest: Pair | Unusable = Unusable("has not been read")
        self._present: Pair | Unusable = self._latest
        # A context of its own for each pair: one that is loaded anew keeps the old pair, if that key is of another kind.
        self.context = _server_context()
        self.context.sni_callback = self._choose

    def look(self) -> None:
        """Read the files if they changed or were no pair at the last look. For the event loop's thread, each second."""
        # The kubelet swaps a link above both files: stat follows it to other inodes.
        seen = tuple(_stamp(file) for file in self._files)
        if seen == self._seen and isinstance(self._latest, Pair):
            return
        found = read_pair(*self._files)
        match found:
            case Pair():
                self._present = found
                self._ends(found.not_after.timestamp())
                _log.info("certificate_loaded", not_after=found.not_after.isoformat())
            case Unusable(problem):
                kept = isinstance(self._present, Pair)
                if not kept:
                    self._present = found
                if (seen, found) != (self._seen, self._latest):  # once for each change
                    _log.warning("certificate_unusable", problem=problem, last_good_one_kept=kept)
        self._seen, self._latest = seen, found

    def reasons(self) -> Sequence[str]:
        """Why clients cannot trust us, if they cannot."""
        match self._present:
            case Unusable(problem):
                return (problem,)
            case Pair(not_after=not_after):
                return (f"expired at {not_after.isoformat()}",) if not_after < datetime.now(UTC) else ()

    @property
    def not_after(self) -> str:
        """When the presented certificate ends, for people."""
        return self._present.not_after.isoformat() if isinstance(self._present, Pair) else "none"

    def _choose(self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext) -> int | None:
        """Called in each handshake, with or without a server name."""
        match self._present:
            case Pair(context=context):
                connection.context = context
                return None
            case Unusable():
                return ssl.ALERT_DESCRIPTION_INTERNAL_ERROR


def read_pair(cert: Path, key: Path) -> Pair | Unusable:
    """Read both files and try them together."""
    try:
        cert_text, key_text = cert.read_bytes(), key.read_bytes()
    except OSError as error:
        return Unusable(f"{error.filename}: {error.strerror}")
    context = _server_context()
    try:
        # Private copies: what was tried is what is used, whatever happens to the files meanwhile.
        with _copy(cert_text) as cert_copy, _copy(key_text) as key_copy:
            context.load_cert_chain(cert_copy, key_copy, password="")  # none: without this, OpenSSL asks a terminal
        not_after = x509.load_pem_x509_certificate(cert_text).not_valid_after_utc
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = getattr(error, "reason", None) or "malformed"
        return Unusable(f"{cert} and {key} are no pair: {reason}")
    return Pair(context, not_after)


def _server_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])  # all that the API server speaks to webhooks
    context.options |= ssl.OP_NO_TICKET  # no resumption: kube-apiserver does none, and it would outlive a rotation
    context.num_tickets = 0  # likewise in TLS 1.3
    return context


@contextmanager
def _copy(text: bytes) -> Iterator[str]:
    """A path to the text, in memory: OpenSSL takes files only, and a key belongs on no disk."""
    descriptor = os.memfd_create("pair")
    try:
        with open(descriptor, "wb", closefd=False) as file:
            file.write(text)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def _stamp(file: Path) -> tuple[int, ...]:
    try:
        status = file.stat()
    except OSError as error:
        return (error.errno or 0,)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
