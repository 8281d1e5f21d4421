"""What the server is told: where to listen, what to answer with, and the bounds on what a client may cost."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from poolwarden.webhook.answer import Answer
from poolwarden.webhook.review import Request
from poolwarden.webhook.server.metrics import Metrics

MIB = 1 << 20


class Limits(Struct, frozen=True, kw_only=True):
    """Bounds: seconds, unless the name says bytes.

    Attributes:
        keep_alive: an idle connection, also one that never sent a request. kube-apiserver keeps its own for 90 s
            (`apimachinery/pkg/util/net/http.go`) and does not repeat a POST that meets a closed one, so we keep longer.
        handshake: from TCP connect to TLS established. The API server gives up after 10 s, too.
        head: from the first byte of a request to the end of its header.
        body: from there to the end of its body: our webhooks have `timeoutSeconds: 5`.
        send: from the first byte of an answer, or of a goodbye, that has to wait for the client until none waits.
        goodbye: for a client to answer our TLS close.
        linger: after SIGTERM we still take connections, to refuse reviews in good order, until no one is sent to us.
        settle: after that, for connections just made to send the request that they were made for.
        finish: after that, for requests in flight: our webhooks have `timeoutSeconds: 5`.
        head_bytes: a header. The API server's has a few hundred.
        body_bytes: a review: twice 3 MiB, object and old object, each twice etcd's 1.5 MiB, and 1 MiB around them
            (controller-runtime, `pkg/webhook/admission/http.go`).
        taken_bytes: a request as it comes, framing and what we discard after an early answer included.
        held_bytes: bodies that are still coming in, of all clients together, lest slow senders eat the memory.
        connections: to the port of reviews. One costs 50 KB, and up to 600 KB once it carried a large body, in buffers
            of TLS that never shrink: 300 MB, beside 110 MB of both processes and `held_bytes` less than 512 MiB.
            An API server writes 200 objects at once by default (`--max-mutating-requests-inflight`).
        page_connections: to the port of pages: kubelet and Prometheus have one each.
        handshakes: under way, at each port. One takes milliseconds, unless the client stalls it.
        young: a connection that had no answer yet is not the first to go when there are too many: an honest client
            sends its request a round trip after the handshake.
    """

    keep_alive: int = 120
    handshake: float = 10
    head: float = 10
    body: float = 6
    send: float = 10
    goodbye: float = 2
    linger: float = 2
    settle: float = 1
    finish: float = 6
    head_bytes: int = 64 << 10
    body_bytes: int = 7 * MIB
    taken_bytes: int = 16 * MIB
    held_bytes: int = 64 * MIB
    connections: int = 500
    page_connections: int = 50
    handshakes: int = 200
    young: float = 1


class ServerConfig(Struct, frozen=True, kw_only=True):
    """Where the server listens, and where its certificate lies."""

    bind: str = "0.0.0.0:8443"
    metrics_bind: str = "0.0.0.0:8080"
    tls_cert: Path = Path("/etc/poolwarden/tls/tls.crt")
    tls_key: Path = Path("/etc/poolwarden/tls/tls.key")
    limits: Limits = Limits()


Answerer = Callable[[Request], Answer]
Check = Callable[[], Sequence[str]]
"""What is wrong; nothing means all is well. Called from any thread."""


def nothing() -> None:
    """There is nothing to close."""


class Application(Struct, frozen=True):
    """What the server serves: an answerer for each review path.

    Attributes:
        readiness: what must hold before it is sent reviews: /readyz is 503 while one of these finds something wrong.
        notes: what /readyz says as well, without refusing for it: an answer with a warning is better than none.
        close: called at the end, from another thread than the event loop's.
    """

    answerers: Mapping[str, Answerer]
    readiness: Mapping[str, Check] = {}
    notes: Mapping[str, Check] = {}
    close: Callable[[], None] = nothing


Make = Callable[[Metrics], Application]
"""Called once in the serving process, in a thread of its own, while the server already says that it is starting."""
