"""One slow, silent or dead client blocks nobody, and none stays for ever."""

import resource
import socket
import ssl
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from time import monotonic

import pytest

from controlplane.server import wait_for

from .client import PATIENCE, Webhook, ask, closed_by_server, head, review
from .conftest import Start
from .served import GTHREADS

AT_ONCE = 3
"""Seconds, on a busy machine."""
LARGE = 8 << 20
"""Bytes of a page: more than the buffers of the system and the server hold."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Leave to open a file for each client of a crowd."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A server with little patience, lest the tests need much."""
    limits = {"handshake": 0.3, "keep_alive": 1, "head": 0.5, "body": 0.3}
    webhook = Webhook(tmp_path_factory.mktemp("webhook"), limits=limits)
    try:
        webhook.wait_ready()
        yield webhook
    finally:
        webhook.kill()


def answered(webhook: Webhook) -> bool:
    """Whether the next client gets its review answered at once."""
    try:
        with webhook.connect(seconds=AT_ONCE) as connection:
            connection.sendall(head(len(review())) + review())
            return connection.recv(12) == b"HTTP/1.1 200"
    except TimeoutError:
        return False


@pytest.mark.parametrize(("kind", "serves"), [("gthread", False), ("ours", True)])
def test_idle_tls_connections_hold_up_nobody(start: Start, kind: str, serves: bool) -> None:  # noqa: FBT001
    """kube-apiserver keeps idle connections; with gthread each holds a thread, and with all held it is over."""
    webhook = start(kind=kind, wait=False)

    def up() -> bool:
        try:
            return answered(webhook)
        except OSError:
            return False

    wait_for(f"{kind} to answer", up)
    with ExitStack() as stack:
        for _ in range(GTHREADS):
            stack.enter_context(webhook.connect())
        assert answered(webhook) is serves


@pytest.mark.usefixtures("many_files")
def test_a_crowd_holds_up_nobody(start: Start) -> None:
    """500 idle TLS connections, half-open handshakes and slow senders do not stop service."""
    webhook = start()
    context = webhook.context()
    with ExitStack() as stack:
        for _ in range(500):
            stack.enter_context(webhook.connect(context))
        for _ in range(100):  # connected, not a word
            stack.enter_context(socket.create_connection(("127.0.0.1", webhook.tls)))
        for _ in range(50):  # the body ends somewhere
            slow = stack.enter_context(webhook.connect(context))
            slow.sendall(head(1000) + b"{")
        for _ in range(50):  # the header ends somewhere
            slow = stack.enter_context(webhook.connect(context))
            slow.sendall(head(1000)[:40])
        wait_for("the slow ones to be on their way", lambda: webhook.metric("poolwarden_admission_in_flight") == 50)
        assert webhook.metric("process_max_fds") > 1024
        assert webhook.metric("process_open_fds") > 500  # some of the idle ones had to go
        began = monotonic()
        with webhook.keep_alive() as connection:
            assert {ask(connection, review()).status for _ in range(20)} == {200}
        assert webhook.get("/healthz").status == 200
        assert monotonic() - began < AT_ONCE
    wait_for("the slow ones to be forgotten", lambda: webhook.metric("poolwarden_admission_in_flight") == 0)


def test_a_half_open_handshake_is_given_up(strict: Webhook) -> None:
    """Who connects and says nothing is sent away."""
    with socket.create_connection(("127.0.0.1", strict.tls)) as silent:
        assert closed_by_server(silent)


def test_who_never_sends_a_request_is_sent_away(strict: Webhook) -> None:
    """The keep-alive time runs from the handshake on, not only from the first answer."""
    with strict.connect() as silent:
        assert closed_by_server(silent)
    with strict.keep_alive() as connection:
        ask(connection, review())
        assert closed_by_server(connection.sock)


def test_a_slow_header_is_given_up(strict: Webhook) -> None:
    """A header must end within its time, however steadily it drips."""
    with strict.connect() as slow, pytest.raises(OSError, match=r"EOF|reset|[Bb]roken pipe|closed"):  # noqa: PT012
        slow.sendall(b"POST /mutate-pods HTTP/1.1\r\n")
        slow.settimeout(0.05)
        while True:
            slow.sendall(b"X-More: and more\r\n")
            try:
                if not slow.recv(1):
                    raise ConnectionResetError("closed")
            except TimeoutError:
                pass


def test_a_slow_body_is_given_up(strict: Webhook) -> None:
    """A body must arrive within its time: 408, and the connection ends."""
    with strict.connect() as slow:
        slow.sendall(head(1000) + b"{")
        assert slow.recv(12) == b"HTTP/1.1 408"
        assert closed_by_server(slow)


def test_a_header_without_end_is_refused(webhook: Webhook) -> None:
    """A header has at most 64 KiB, and what one read brings."""
    with webhook.connect() as endless:
        endless.sendall(head(0)[:-2] + b"X: " + b"y" * (400 << 10))
        assert endless.recv(12) == b"HTTP/1.1 400"
        assert closed_by_server(endless)


def test_a_request_without_end_is_cut(start: Start) -> None:
    """After an early answer the rest of a body is discarded, but not for ever."""
    webhook = start(limits={"body_bytes": 1000, "taken_bytes": 300_000})
    with webhook.connect() as endless:
        endless.sendall(head(10**9))
        assert endless.recv(12) == b"HTTP/1.1 413"
        with pytest.raises((ConnectionError, ssl.SSLError)):  # noqa: PT012
            for _ in range(200):
                endless.sendall(b" " * 65536)


def test_bodies_under_way_share_a_bound(start: Start) -> None:
    """Many senders of large bodies cannot eat the memory: beyond the bound the oldest is refused, to be sent again."""
    webhook = start(limits={"held_bytes": 100_000, "body": 60})
    with webhook.connect() as first:
        first.sendall(head(90_000) + b" " * 80_000)
        wait_for("the first to be under way", lambda: webhook.metric("poolwarden_admission_in_flight") == 1)

        def pushed_out() -> bool:
            """Once the bytes of the first are there, a second finds no room beside them."""
            assert webhook.post(b" " * 90_000).status == 400  # it is read: no review
            return webhook.metric("poolwarden_admission_in_flight") == 0

        wait_for("the first to be refused", pushed_out, PATIENCE)
        refusal = first.recv(65536)
        assert refusal.startswith(b"HTTP/1.1 503")
        assert b"retry-after: 1\r\n" in refusal
    assert webhook.post(review()).status == 200


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_requests_on_top_of_one_another_cost_nothing(webhook: Webhook, *, tls: bool) -> None:
    """No client of ours sends a request before it has the last answer: the first is answered, and that is all."""
    with webhook.connect() if tls else webhook.connect_plain() as greedy:
        greedy.sendall(b"GET /healthz HTTP/1.1\r\n\r\n" * 2)
        answer = b"".join(iter(lambda: greedy.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"connection: close" in answer
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_millions_of_requests_at_once_cost_no_memory(webhook: Webhook, *, tls: bool) -> None:
    """Not even for a while, and other reviews are answered meanwhile."""
    before, sent = webhook.memory(), 0
    many = (b"GET /mutate-pods HTTP/1.1\r\n\r\n" if tls else b"GET /x HTTP/1.1\r\n\r\n") * 20_000
    with webhook.connect() if tls else webhook.connect_plain() as greedy:
        greedy.settimeout(0.2)
        with suppress(OSError):  # it is cut off, or nobody reads any more
            while sent < 8_000_000:
                sent += greedy.send(many)
        assert webhook.memory() < before + 20
        assert answered(webhook)
        assert closed_by_server(greedy)


def test_what_follows_a_request_does_not_spoil_its_answer(webhook: Webhook) -> None:
    """Nonsense that comes while a request is in flight: the answer is whole, then the connection ends."""
    with webhook.connect() as nonsense:
        nonsense.sendall(head(len(review())) + review() + b"\0\1\2")
        answer = b"".join(iter(lambda: nonsense.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200")
    assert answer.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
@pytest.mark.parametrize("ending", ["", "Connection: close\r\n"], ids=["kept", "closing"])
def test_who_does_not_read_is_sent_away(start: Start, ending: str, *, tls: bool) -> None:
    """An answer must be taken within its time, also where it is the last."""
    webhook = start(limits={"send": 0.5})
    (webhook.folder / "faults").write_text("x" * LARGE)
    files = webhook.metric("process_open_fds")
    with webhook.connect_narrow(tls=tls) as deaf:
        deaf.sendall(f"GET /readyz HTTP/1.1\r\n{ending}\r\n".encode())
        wait_for("it to be connected", lambda: webhook.metric("process_open_fds") > files, PATIENCE)
        wait_for("it to be sent away", lambda: webhook.metric("process_open_fds") == files, PATIENCE)


def test_when_there_are_too_many_who_waits_longest_goes(start: Start) -> None:
    """Connections have a bound. Who never got an answer goes first, then who is idle; nobody whose answer is due."""
    webhook = start(limits={"connections": 8, "young": 0})
    context = webhook.context()
    (webhook.folder / "faults").write_text("x" * LARGE)
    with webhook.connect_narrow(tls=True) as due, webhook.keep_alive() as kept, ExitStack() as stack:
        due.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        assert due.recv(12) == b"HTTP/1.1 503"
        (webhook.folder / "faults").unlink()
        assert ask(kept, review()).status == 200
        idle = [stack.enter_context(webhook.connect(context)) for _ in range(20)]
        assert all(closed_by_server(connection) for connection in idle[:14])
        assert ask(kept, review()).status == 200
        used = [stack.enter_context(webhook.connect(context)) for _ in range(10)]
        for connection in used[4:]:
            connection.sendall(head(len(review())) + review())
            assert connection.recv(12) == b"HTTP/1.1 200"
        assert closed_by_server(idle[-1])
        for connection in used[4:]:
            connection.sendall(head(1000) + b"{")
        wait_for("bodies under way", lambda: webhook.metric("poolwarden_admission_in_flight") == 6)
        assert answered(webhook)
        assert closed_by_server(kept.sock)
        taken = 0
        while taken < LARGE:
            part = due.recv(1 << 20)
            assert part
            taken += len(part)


def test_handshakes_under_way_have_a_bound(start: Start) -> None:
    """Beyond it the oldest goes: an honest client needs milliseconds."""
    webhook = start(limits={"handshakes": 4, "handshake": 60})
    with ExitStack() as stack:
        stalled = [
            stack.enter_context(socket.create_connection(("127.0.0.1", webhook.tls), PATIENCE)) for _ in range(8)
        ]
        assert all(closed_by_server(connection) for connection in stalled[:4])
        assert answered(webhook)


def test_garbage_hurts_nobody(webhook: Webhook) -> None:
    """Neither what is no TLS nor what is no HTTP stops service, or fills the log."""
    before = webhook.log
    with socket.create_connection(("127.0.0.1", webhook.tls)) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\n\r\n")
        assert closed_by_server(plain)
    with webhook.connect() as nonsense:
        nonsense.sendall(b"\0\1\2\3\r\n\r\n")
        assert nonsense.recv(12) == b"HTTP/1.1 400"
    assert webhook.post(review()).status == 200
    assert webhook.log == before
