"""One program of the control plane as a process: started, watched, stopped by its handle."""

from __future__ import annotations

import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

POLL_SECONDS = 0.05
STOP_SECONDS = 3  # from SIGTERM to SIGKILL: the API server may wait a minute for its clients
LOG_TAIL = 25
PORTS = range(
    20000, 32768
)  # below the ports that systems hand to outgoing connections, so a port stays free while its server is down

# Runs the command that follows it, which the kernel kills when we die, however we die.
_DIES_WITH_US = (
    sys.executable,
    "-ISc",
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])",
)


class StartError(RuntimeError):
    """A program did not become ready; the message ends with the tail of its log."""


class Server:
    """A program that runs until it is stopped, with a log of its own."""

    def __init__(self, command: list[str], log: Path) -> None:
        self.name = Path(command[0]).name
        self.log = log
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int | None:
        """The process id while it was started and not stopped."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Starts the program in a session of its own, so that Ctrl-C reaches us first and we stop it in order."""
        launcher = _DIES_WITH_US if sys.platform == "linux" else ()
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [*launcher, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool], seconds: float = 60) -> None:
        """Returns when the program is ready; raises StartError when it dies or takes too long."""

        def ready_or_dead() -> bool:
            if self._process is None or self._process.poll() is not None:
                raise StartError(f"{self.name} ended before it was ready: {self._tail()}")
            return ready()

        try:
            wait_for(f"{self.name} to be ready", ready_or_dead, seconds)
        except TimeoutError as error:
            raise StartError(f"{error}: {self._tail()}") from None

    def stop(self) -> None:
        """Ends the program: SIGTERM, then SIGKILL. Harmless where it does not run."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_TAIL:]
        return "\n".join([f"the end of {self.log}:", *lines])


def wait_for(what: str, probe: Callable[[], T | None], seconds: float = 30) -> T:
    """Returns the first true value that the probe gives; raises TimeoutError, which says what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds:g} s for {what}")
        time.sleep(POLL_SECONDS)


def free_ports(count: int) -> list[int]:
    """Returns different ports of the loopback address that nobody listens on."""
    with ExitStack() as stack:
        ports: list[int] = []
        for port in random.sample(PORTS, len(PORTS)):
            candidate = stack.enter_context(socket.socket())
            try:
                candidate.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
            if len(ports) == count:
                return ports
    raise OSError(f"fewer than {count} free ports in {PORTS}")
