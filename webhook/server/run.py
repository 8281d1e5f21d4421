"""gunicorn, set up in code: it supervises one process that serves."""

import asyncio
import faulthandler
import os
import resource
import signal
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import structlog
import uvloop
from gunicorn.app.base import BaseApplication
from gunicorn.arbiter import Arbiter
from gunicorn.workers import base

from poolwarden.webhook.server.config import Make, ServerConfig
from poolwarden.webhook.server.listener import BACKLOG
from poolwarden.webhook.server.log import Log
from poolwarden.webhook.server.service import Service

MEMORY = Path("/dev/shm")  # noqa: S108 - gunicorn makes its file there under a name nobody can guess, and unlinks it
OWN_FILES = 200
"""Beside connections: listeners, the certificate, the cluster's watches, threads' pipes, libraries while they load."""
GRACEFUL_SECONDS = 15
"""From SIGTERM to SIGKILL: more than linger, settle, finish and goodbye together, less than a pod's 30 s."""
SILENT_SECONDS = 30
"""A worker that does not say that it lives is replaced: no webhook may take so long, and on a throttled CPU the
imports take some of it."""
TICK_SECONDS = 1.0
COULD_NOT_LISTEN = 1

_log = structlog.get_logger()


def serve(config: ServerConfig, make: Make) -> int:
    """Serve until SIGTERM; the exit status."""
    # Each connection is a file; the usual limit of 1024 is meant for programs that use select.
    limits = config.limits
    files = limits.connections + limits.page_connections + 2 * limits.handshakes + OWN_FILES
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files if hard == resource.RLIM_INFINITY else min(hard, files), hard))
    listening: list[socket.socket] = []
    for bind in (config.bind, config.metrics_bind):
        try:
            listening.append(listen(bind))
        except (OSError, ValueError) as error:
            _log.error("cannot_listen", bind=bind, error=str(error))
            return COULD_NOT_LISTEN
    try:
        Supervisor(config, make, listening).run()
    except SystemExit as end:  # how gunicorn always returns
        return end.code if isinstance(end.code, int) else 0
    return 0


def listen(bind: str) -> socket.socket:
    """A listening socket. gunicorn would try five times, for five seconds and in eleven lines of log."""
    where = urlsplit(f"//{bind}")
    if where.port is None:
        raise ValueError("no port")
    host = where.hostname or ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = family is socket.AF_INET6 and socket.has_dualstack_ipv6()
    return socket.create_server((host, where.port), family=family, backlog=BACKLOG, dualstack_ipv6=both)


class Master(Arbiter):
    """gunicorn's supervisor. It starts no second one of itself, and no second worker: there is one view of the cluster."""

    def init_signals(self) -> None:
        """Signals as gunicorn has them, less those that change what runs."""
        super().init_signals()
        for number in (signal.SIGUSR2, signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU):
            signal.signal(number, signal.SIG_IGN)


class Supervisor(BaseApplication):
    """What gunicorn runs."""

    def __init__(self, config: ServerConfig, make: Make, listening: Sequence[socket.socket]) -> None:
        self.config = config
        self.make = make
        # Bound before the fork: a worker's restart loses nobody.
        self._bind = [f"fd://{each.detach()}" for each in listening]
        super().__init__()

    def run(self) -> None:
        """Supervise until told to stop."""
        Master(self).run()

    def load_config(self) -> None:
        """Set gunicorn up; it reads no file, no environment and no command line."""
        settings = {
            "bind": self._bind,
            "worker_class": Worker,
            "workers": 1,  # one view of the cluster, one set of metrics; more throughput is more replicas
            "keepalive": self.config.limits.keep_alive,
            "graceful_timeout": GRACEFUL_SECONDS,
            "timeout": SILENT_SECONDS,
            # The heartbeat's file: on a disk, a slow one looks like a dead worker; and the root may be read-only.
            "worker_tmp_dir": str(MEMORY) if os.access(MEMORY, os.W_OK) else None,
            "control_socket_disable": True,  # nobody uses it, and it would be made in a home directory
            "accesslog": None,  # the API server's audit log has it all, and each line costs more than the review
            "logger_class": Log,
        }
        for name, value in settings.items():
            self.cfg.set(name, value)


class Worker(base.Worker):
    """gunicorn's worker. One event loop serves; the supervisor hands over what."""

    app: "Supervisor"

    def init_signals(self) -> None:
        """Signals as Python has them: gunicorn's handlers are for loops of its own."""
        for number in self.SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)  # "reopen log files": there are none

    def load_wsgi(self) -> None:
        """Nothing: the application is made while we serve already."""

    def run(self) -> None:
        """Serve until told to stop."""
        faulthandler.enable()  # gunicorn ends a worker that hangs by SIGABRT: then it says where it hung
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        service = Service(self.app.config, self.app.make, *self.sockets)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, service.stop.set)
        loop.add_signal_handler(signal.SIGQUIT, os._exit, 0)
        service.open()
        while not service.stop.is_set():
            self.notify()
            service.tick()
            if os.getppid() != self.ppid:
                service.stop.set()  # nobody supervises us any more
            with suppress(TimeoutError):
                await asyncio.wait_for(service.stop.wait(), TICK_SECONDS)
        await service.drain()
        # No joining of threads: all is answered, and one that hangs would hold us up until SIGKILL.
        os._exit(Arbiter.WORKER_BOOT_ERROR if service.failed else 0)
