"""The whole program as an operator runs it: `poolwarden webhook` with its own rights, and the Secret that it serves from."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from controlplane.server import free_ports, wait_for
from poolwarden.certs.issue import Pair, certificate_pem, key_pem, new_ca, new_leaf
from webhook.server.pairs import Mount

DAY = timedelta(days=1)


class Program:
    """`poolwarden webhook` on fixed ports of the loopback address; it may be stopped and started again."""

    def __init__(self, folder: Path, kubeconfig: Path, arguments: Sequence[str] = ("--certificates=provided",)) -> None:
        folder.mkdir(parents=True)
        self.mount = Mount(folder)
        self.log = folder / "log"
        self._kubeconfig = kubeconfig
        self._arguments = arguments
        self._tls, self._plain = free_ports(2)
        self._process: subprocess.Popen[bytes] | None = None
        self.ca = new_ca(datetime.now(UTC), DAY)
        self.issue(self.ca)

    @property
    def url(self) -> str:
        """Where reviews go."""
        return f"https://127.0.0.1:{self._tls}"

    @property
    def authority(self) -> bytes:
        """Who vouches for it, as PEM."""
        return certificate_pem(self.ca.certificate)

    @property
    def pid(self) -> int:
        """The supervisor's process id, which is also that of the session of all its processes."""
        assert self._process is not None
        return self._process.pid

    def issue(self, ca: Pair, *, expired: bool = False) -> None:
        """Puts a new serving certificate into the mounted Secret."""
        now = datetime.now(UTC) - (2 * DAY if expired else timedelta())
        signer = new_ca(now, 3 * DAY) if expired else ca
        if expired:
            self.ca = signer
        leaf = new_leaf(signer, ["127.0.0.1"], now, DAY)
        self.mount.put(certificate_pem(leaf.certificate), key_pem(leaf.key))

    def start(self) -> None:
        """Runs it; returns when it is ready."""
        command = [sys.executable, "-m", "poolwarden", "webhook", f"--bind=127.0.0.1:{self._tls}"]
        command += [f"--metrics-bind=127.0.0.1:{self._plain}", f"--kubeconfig={self._kubeconfig}"]
        command += [f"--tls-cert={self.mount.cert}", f"--tls-key={self.mount.key}", *self._arguments]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True)
        wait_for(f"the webhook to be ready: see {self.log}", self.is_ready)

    def is_ready(self) -> bool:
        """Whether /readyz says so."""
        assert self._process is not None
        assert self._process.poll() is None, self.log.read_text(errors="replace")[-2000:]
        return self.page("readyz")[0] == 200

    def page(self, name: str) -> tuple[int, str]:
        """A page of the plain port; status 0 while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._plain}/{name}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def stop(self) -> int:
        """SIGTERM, and wait for its end; the exit status."""
        process, self._process = self._process, None
        if process is None:
            return 0
        process.terminate()
        try:
            return process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise

    def served(self) -> str:
        """The certificate that a new connection is shown, as PEM."""
        return ssl.get_server_certificate(("127.0.0.1", self._tls))


@contextmanager
def running(program: Program) -> Iterator[Program]:
    """The program, alive within the block."""
    program.start()
    try:
        yield program
    finally:
        program.stop()
