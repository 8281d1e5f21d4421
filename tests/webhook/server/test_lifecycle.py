"""Starting, serving, draining: in order, and without a request lost on the way."""

import os
import signal
import threading
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from time import monotonic

import pytest

from controlplane.server import wait_for

from .client import Webhook, ask, closed_by_server, head, review
from .conftest import Start

QUICK = {"linger": 0.7, "settle": 0.3}


def refuses(webhook: Webhook) -> Callable[[], bool]:
    """Whether it says by now that it is draining."""
    return lambda: "[-] server: draining" in webhook.readiness()


def test_while_starting_reviews_are_put_off(start: Start) -> None:
    """Before the set-up is done a review is 503, to be sent again in a second, and the server is alive but not ready."""
    webhook = start(wait=False, waits=True)
    wait_for("it to be up", lambda: "[-] server: starting" in webhook.readiness())
    reply = webhook.post(review())
    assert (reply.status, reply.headers["retry-after"]) == (503, "1")
    assert reply.json == {"error": "the server is starting"}
    assert not reply.closes
    assert webhook.get("/healthz").status == 200
    (webhook.folder / "go").touch()
    webhook.wait_ready()
    assert webhook.post(review()).status == 200


def test_a_server_that_cannot_be_set_up_ends(start: Start) -> None:
    """The exit status is not 0, and the log says why."""
    webhook = start(wait=False, fails=True)
    assert webhook.process.wait(20) != 0
    assert "no kubeconfig" in webhook.log


def test_it_can_be_stopped_while_starting(start: Start) -> None:
    """Set-up that hangs does not hold up the end."""
    webhook = start(wait=False, waits=True, limits=QUICK)
    wait_for("it to be up", lambda: "[-] server: starting" in webhook.readiness())
    assert webhook.stop() == 0


def test_draining_finishes_what_was_begun(start: Start) -> None:
    """After SIGTERM: not ready, a request in flight is finished, a new one is put off, idle connections are closed."""
    webhook = start(limits=QUICK)
    body = review()
    with (
        webhook.connect() as begun,
        webhook.keep_alive() as kept,
        webhook.connect() as fresh,
        webhook.keep_alive() as idle,
    ):
        begun.sendall(head(len(body)) + body[:10])
        ask(kept, review())
        ask(idle, review())
        wait_for("a request in flight", lambda: webhook.metric("poolwarden_admission_in_flight") == 1)
        began = monotonic()
        webhook.process.terminate()
        wait_for("it to drain", refuses(webhook))
        for connection in (kept, None):  # one that it knows, and a new one
            reply = ask(connection, review()) if connection else webhook.post(review())
            assert (reply.status, reply.headers["retry-after"]) == (503, "1")
            assert reply.closes
        assert closed_by_server(idle.sock)
        assert closed_by_server(fresh)
        begun.sendall(body[10:])
        answer = begun.recv(65536)
        assert answer.startswith(b"HTTP/1.1 200")
        assert b"connection: close" in answer
        assert webhook.process.wait(20) == 0
        assert monotonic() - began < 6
    assert (webhook.folder / "closed").exists()
    assert "stopped" in webhook.log


def test_a_request_that_never_ends_does_not_hold_up_the_end(start: Start) -> None:
    """What is in flight has its time; then the server goes."""
    webhook = start(limits={**QUICK, "finish": 0.5})
    with webhook.connect() as slow:
        slow.sendall(head(1000) + b"{")
        wait_for("a request in flight", lambda: webhook.metric("poolwarden_admission_in_flight") == 1)
        began = monotonic()
        assert webhook.stop() == 0
        assert monotonic() - began < 6


class Load:
    """Reviews without pause, until the server is gone."""

    def __init__(self, webhook: Webhook) -> None:
        self.webhook = webhook
        self.seen: list[int] = []
        self.lost: list[str] = []
        self._context = webhook.context()

    def fresh(self) -> None:
        """A new connection for each review."""
        while True:
            try:
                connection = self.webhook.connect(self._context)
            except ConnectionRefusedError:
                return
            except OSError:  # not made: nothing was sent
                continue
            with connection:
                try:
                    connection.sendall(head(len(review())) + review())
                    self.seen.append(int(connection.recv(65536).split()[1]))
                except (OSError, IndexError) as error:
                    self.lost.append(repr(error))

    def kept(self) -> None:
        """One connection for all, until the server asks to close it."""
        with self.webhook.keep_alive() as connection:
            closes = False
            while not closes:
                try:
                    reply = ask(connection, review())
                except (OSError, HTTPException) as error:
                    self.lost.append(repr(error))
                    return
                self.seen.append(reply.status)
                closes = reply.closes


def test_no_request_is_lost_when_it_stops(start: Start) -> None:
    """Under load each review is answered, or put off, or its connection was never made: none is sent and then lost."""
    webhook = start(limits={"linger": 0.7})
    load = Load(webhook)
    threads = [threading.Thread(target=target) for target in (load.fresh, load.fresh, load.kept, load.kept)]
    for thread in threads:
        thread.start()
    wait_for("load", lambda: len(load.seen) > 100)
    assert webhook.stop() == 0
    for thread in threads:
        thread.join(20)
    assert load.lost == []
    assert set(load.seen) == {200, 503}


def test_a_worker_that_dies_is_replaced(start: Start) -> None:
    """The supervisor starts another one, on the same ports."""
    webhook = start()
    first = webhook.worker()
    os.kill(first, signal.SIGKILL)
    wait_for("another worker", lambda: webhook.worker() not in {0, first})
    webhook.wait_ready()
    assert webhook.post(review()).status == 200
    assert "SIGKILL" in webhook.log


def test_a_worker_does_not_outlive_its_supervisor(start: Start) -> None:
    """Nobody would replace it, and nobody would stop it."""
    webhook = start(limits=QUICK)
    worker = webhook.worker()
    os.kill(webhook.process.pid, signal.SIGKILL)
    wait_for("the worker to end", lambda: not alive(worker))


def alive(process: int) -> bool:
    """Whether this process runs."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_it_can_be_stopped_at_once(start: Start) -> None:
    """SIGINT waits for nobody."""
    webhook = start()
    began = monotonic()
    webhook.process.send_signal(signal.SIGINT)
    assert webhook.process.wait(20) == 0
    assert monotonic() - began < 2


def test_it_starts_no_second_one_of_itself(start: Start) -> None:
    """Signals that make gunicorn start another supervisor or more workers do nothing; nothing outlives its end."""
    webhook = start(limits=QUICK)
    for number in (signal.SIGUSR2, signal.SIGWINCH, signal.SIGTTIN, signal.SIGTTOU):
        webhook.process.send_signal(number)
    first = webhook.worker()
    os.kill(first, signal.SIGKILL)  # once that is noticed, so were the signals
    wait_for("another worker", lambda: first not in webhook.children() and webhook.worker())
    webhook.wait_ready()
    assert len(webhook.children()) == 1
    assert webhook.stop() == 0
    assert "cannot_listen" not in webhook.log  # as a second supervisor would say
    with pytest.raises(ProcessLookupError):
        os.killpg(webhook.process.pid, 0)


def test_a_port_in_use_ends_it_at_once(start: Start) -> None:
    """The exit status is not 0, and the log says so in one line."""
    first = start()
    began = monotonic()
    for taken in ({"tls": first.tls}, {"plain": first.plain}):
        second = start(wait=False, **taken)
        assert second.process.wait(20) == 1
        (line,) = second.log.splitlines()
        assert "cannot_listen" in line
        assert f"127.0.0.1:{next(iter(taken.values()))}" in line
    assert monotonic() - began < 8
