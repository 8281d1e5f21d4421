"""The network for real: sockets of this machine, with a kubeconfig that leads to them."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from kubernetes.config import incluster_config

from poolwarden.cluster.interface import Doubt
from poolwarden.cluster.kube_transport import KubeTransport
from poolwarden.cluster.transport import Ended, NoAnswer, Request, Response, Stream

OK = b"HTTP/1.1 200 OK\r\nDate: Sat, 10 Jan 2026 12:00:00 GMT\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"

Listen = Callable[..., "Listener"]


class Listener:
    """Answers each connection with the next of some bytes, the last for good, and keeps what it was sent."""

    def __init__(self, *answers: bytes, close: bool = True) -> None:
        self.heard: list[bytes] = []
        self._answers = list(answers)
        self._close = close
        self._open: list[socket.socket] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            with suppress(OSError):  # a client may leave before it is answered
                self.heard.append(_request(connection))
                connection.sendall(self._answers.pop(0) if len(self._answers) > 1 else self._answers[0])
            if self._close:
                connection.close()

    def stop(self) -> None:
        """Refuse connections from here on."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for connection in self._open:
            connection.close()


def _request(connection: socket.socket) -> bytes:
    text = b""
    while not _is_whole(text):
        more = connection.recv(65536)
        if not more:
            break
        text += more
    return text


def _is_whole(text: bytes) -> bool:
    head, end, body = text.partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    tls = text.startswith(b"\x16")
    return tls or (bool(end) and len(body) >= (int(length[1]) if length else 0))


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Starts listeners that end with the test."""
    started: list[Listener] = []

    def start(*answers: bytes, close: bool = True) -> Listener:
        started.append(Listener(*answers, close=close))
        return started[-1]

    yield start
    for listener in started:
        if listener._socket.fileno() >= 0:  # noqa: SLF001 - of this very test
            listener.stop()


def kubeconfig(folder: Path, url: str, token: str = "t1") -> Path:
    """A kubeconfig with two contexts; the current one leads to the URL."""
    path = folder / "kubeconfig"
    path.write_text(
        f"""
apiVersion: v1
kind: Config
current-context: here
contexts:
- {{name: here, context: {{cluster: here, user: me}}}}
- {{name: nowhere, context: {{cluster: nowhere, user: me}}}}
clusters:
- {{name: here, cluster: {{server: "{url}"}}}}
- {{name: nowhere, cluster: {{server: "http://127.0.0.1:1"}}}}
users:
- {{name: me, user: {{token: {token}}}}}
"""
    )
    return path


def transport(folder: Path, url: str) -> KubeTransport:
    """A transport that leads to the URL."""
    return KubeTransport(kubeconfig=str(kubeconfig(folder, url)))


REQUEST = Request("GET", "/api/v1/pods", {"limit": "5", "continue": "a b&c"}, read_timeout=0.5, connect_timeout=0.5)


def test_exchange(tmp_path: Path, listen: Listen) -> None:
    """A request goes out as it is told, with the user's token, and the answer comes back whole."""
    listener = listen(OK)
    answer = transport(tmp_path, listener.url).send(REQUEST)
    assert isinstance(answer, Response)
    assert (answer.status, answer.body, answer.headers["date"]) == (200, b"{}", "Sat, 10 Jan 2026 12:00:00 GMT")
    head = listener.heard[0].decode()
    assert head.startswith("GET /api/v1/pods?limit=5&continue=a+b%26c HTTP/1.1\r\n")
    assert "authorization: Bearer t1\r\n" in head
    assert "user-agent: poolwarden\r\n" in head


def test_body(tmp_path: Path, listen: Listen) -> None:
    """A body is sent to the byte, under its own content type."""
    listener = listen(OK)
    headers = {"content-type": "application/json-patch+json"}
    transport(tmp_path, listener.url).send(Request("PATCH", "/x", headers=headers, body=b'[{"op":1}]'))
    head, _, body = listener.heard[0].partition(b"\r\n\r\n")
    assert b"content-type: application/json-patch+json" in head
    assert body == b'[{"op":1}]'


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "POST"])
@pytest.mark.parametrize(
    ("answer", "doubt"),
    [
        (b"", Doubt.UNAVAILABLE),
        (b"nonsense\r\n\r\n", Doubt.UNAVAILABLE),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", Doubt.BROKEN),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", Doubt.BROKEN),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{}", Doubt.BROKEN),
    ],
)
def test_lost_answers(tmp_path: Path, listen: Listen, method: str, answer: bytes, doubt: Doubt) -> None:
    """A connection that breaks off leaves the request's fate unknown; nothing is ever sent twice."""
    listener = listen(answer)
    found = transport(tmp_path, listener.url).send(Request(method, "/x", read_timeout=0.5))
    assert isinstance(found, NoAnswer)
    assert (found.sent, found.doubt, found.final) == (True, doubt, False)
    assert len(listener.heard) == 1


@pytest.mark.parametrize("start", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}"])
def test_silence(tmp_path: Path, listen: Listen, start: bytes) -> None:
    """A server that falls silent is left after the time-out."""
    found = transport(tmp_path, listen(start, close=False).url).send(REQUEST)
    assert isinstance(found, NoAnswer)
    assert found.sent


def test_refused(tmp_path: Path, listen: Listen) -> None:
    """Where nobody listens nothing was sent."""
    listener = listen(OK)
    listener.stop()
    found = transport(tmp_path, listener.url).send(REQUEST)
    assert isinstance(found, NoAnswer)
    assert (found.sent, found.doubt, found.final) == (False, Doubt.UNAVAILABLE, False)


def test_errors_and_redirects_are_answers(tmp_path: Path, listen: Listen) -> None:
    """Every status is an answer, and no redirect is followed."""
    listener = listen(
        b"HTTP/1.1 503 Nope\r\nRetry-After: 1\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /y\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
    )
    sender = transport(tmp_path, listener.url)
    for status in (503, 302):
        found = sender.send(REQUEST)
        assert isinstance(found, Response)
        assert found.status == status
    assert len(listener.heard) == 2


def test_tls_that_fails(tmp_path: Path, listen: Listen) -> None:
    """A server that speaks no TLS is an answer that did not come; authorities and address are read anew after it."""
    sender = transport(tmp_path, listen(b"nonsense\r\n\r\n").url.replace("http:", "https:"))
    assert isinstance(sender.send(REQUEST), NoAnswer)
    kubeconfig(tmp_path, listen(OK).url)
    assert isinstance(sender.send(REQUEST), Response)


# --- streams ----------------------------------------------------------------------------------------------------------

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def opened(folder: Path, url: str) -> Stream:
    """The body of a 200 that is yet to be read."""
    answer = transport(folder, url).stream(REQUEST)
    assert not isinstance(answer, Response | NoAnswer)
    return answer


def test_stream(tmp_path: Path, listen: Listen) -> None:
    """What is sent arrives at once, while the answer goes on; when the server falls silent, it is left."""
    listener = listen(CHUNKED + b"2\r\nab\r\n3\r\ncde\r\n", close=False)
    stream = opened(tmp_path, listener.url)
    assert [stream.read(), stream.read()] == [b"ab", b"cde"]
    end = stream.read()
    assert isinstance(end, NoAnswer)
    assert "timed out" in end.message
    stream.close()
    assert "authorization: Bearer t1\r\n" in listener.heard[0].decode()


@pytest.mark.parametrize("end", [b"0\r\n\r\n", b"0\r\na: b\r\n\r\n"])
def test_stream_that_ends(tmp_path: Path, listen: Listen, end: bytes) -> None:
    """The end in good order is told from a broken connection, and there is nothing behind it."""
    stream = opened(tmp_path, listen(CHUNKED + b"2\r\nab\r\n" + end).url)
    assert [stream.read() for _ in range(3)] == [b"ab", Ended(), Ended()]
    stream.close()


@pytest.mark.parametrize("rest", [b"", b"5\r\nab", b"5", b"x\r\n"])
def test_stream_that_breaks(tmp_path: Path, listen: Listen, rest: bytes) -> None:
    """A connection that is cut within a stream or a chunk is no good end."""
    stream = opened(tmp_path, listen(CHUNKED + b"2\r\nab\r\n" + rest).url)
    assert stream.read() == b"ab"
    assert isinstance(stream.read(), NoAnswer)
    stream.close()


def test_stream_that_is_cut(tmp_path: Path, listen: Listen) -> None:
    """Another thread may end the wait for bytes; a stream that is over or closed may be cut all the same."""
    listener = listen(CHUNKED + b"2\r\nab\r\n", close=False)
    answer = transport(tmp_path, listener.url).stream(msgspec.structs.replace(REQUEST, read_timeout=30))
    assert not isinstance(answer, Response | NoAnswer)
    assert answer.read() == b"ab"
    threading.Timer(0.1, answer.cut).start()
    started = time.monotonic()
    assert isinstance(answer.read(), NoAnswer)
    assert time.monotonic() - started < 5
    answer.cut()
    answer.close()
    answer.cut()


def test_stream_that_is_refused(tmp_path: Path, listen: Listen) -> None:
    """Any other status is a whole answer; what does not come is no answer; a 401 makes credentials be read anew."""
    refused = b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno"
    listener = listen(refused, b"HTTP/1.1 403 Forbidden\r\nContent-Length: 9\r\n\r\nno", b"", OK)
    sender = transport(tmp_path, listener.url)
    assert sender.stream(REQUEST) == Response(401, b"no", {"content-length": "2", "connection": "close"})
    kubeconfig(tmp_path, listener.url, token="t2")
    cut, lost = sender.stream(REQUEST), sender.stream(REQUEST)
    assert isinstance(cut, NoAnswer)
    assert isinstance(lost, NoAnswer)
    assert b"Bearer t2" in listener.heard[1]


# --- configuration ----------------------------------------------------------------------------------------------------


def test_context(tmp_path: Path, listen: Listen) -> None:
    """Another context than the current one may be named."""
    path = kubeconfig(tmp_path, listen(OK).url)
    found = KubeTransport(kubeconfig=str(path), context="nowhere").send(REQUEST)
    assert isinstance(found, NoAnswer)
    assert "port=1" in found.message


@pytest.mark.parametrize(
    "text", ["", "5", "a: [", "apiVersion: v1\nkind: Config\n", "contexts: 5\ncurrent-context: x\n"]
)
def test_configuration_that_is_none(tmp_path: Path, text: str) -> None:
    """A malformed kubeconfig is an answer that no repetition changes."""
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    found = KubeTransport(kubeconfig=str(path)).send(REQUEST)
    assert isinstance(found, NoAnswer)
    assert (found.sent, found.final) == (False, True)
    assert found.message.startswith("no usable cluster configuration: ")


def test_no_such_context(tmp_path: Path) -> None:
    """So is a context that is not in it, and a file that is not there."""
    path = str(kubeconfig(tmp_path, "http://127.0.0.1:1"))
    for sender in (KubeTransport(kubeconfig=path, context="x"), KubeTransport(kubeconfig=str(tmp_path / "none"))):
        found = sender.send(REQUEST)
        assert isinstance(found, NoAnswer)
        assert found.final


def test_environment(tmp_path: Path, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
    """$KUBECONFIG counts before ~/.kube/config, and a file named explicitly before both."""
    (tmp_path / "home" / ".kube").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    home, environment, named = listen(OK), listen(OK), listen(OK)
    kubeconfig(tmp_path / "home", home.url).rename(tmp_path / "home" / ".kube" / "config")
    other = kubeconfig(tmp_path / "other", environment.url)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    KubeTransport().send(REQUEST)
    assert (len(home.heard), len(environment.heard), len(named.heard)) == (1, 0, 0)
    monkeypatch.setenv("KUBECONFIG", str(other))
    KubeTransport().send(REQUEST)
    assert (len(home.heard), len(environment.heard), len(named.heard)) == (1, 1, 0)
    transport(tmp_path, named.url).send(REQUEST)
    assert (len(home.heard), len(environment.heard), len(named.heard)) == (1, 1, 1)


def test_credentials_are_read_anew_after_a_401(tmp_path: Path, listen: Listen) -> None:
    """A token that was replaced in its file is used as soon as the old one is refused."""
    listener = listen(b"HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", OK)
    sender = transport(tmp_path, listener.url)
    first = sender.send(REQUEST)
    kubeconfig(tmp_path, listener.url, token="t2")
    second = sender.send(REQUEST)
    assert isinstance(first, Response)
    assert isinstance(second, Response)
    assert (first.status, second.status) == (401, 200)
    assert b"Bearer t2" in listener.heard[1]


def test_service_account_in_a_pod(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any kubeconfig the pod's account is used, and a token that the kubelet replaced is read within a minute."""
    (tmp_path / "token").write_text("old")
    (tmp_path / "ca.crt").write_text("not used before a connection is made")
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "127.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    set_up: Any = incluster_config.InClusterConfigLoader.__init__

    def with_tokens_of_an_instant(loader: Any, *args: Any, **kwargs: Any) -> None:
        set_up(loader, *args, **kwargs)
        loader._token_refresh_period = timedelta(0)  # noqa: SLF001 - a minute, otherwise

    monkeypatch.setattr(incluster_config.InClusterConfigLoader, "__init__", with_tokens_of_an_instant)
    session = KubeTransport()._opened()  # noqa: SLF001 - the header never leaves without a TLS server
    assert session.headers()["authorization"] == "bearer old"
    (tmp_path / "token").write_text("new")
    assert session.headers()["authorization"] == "bearer new"
