"""gc's metrics against repeated findings, and their port against clients that never finish."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from contextlib import ExitStack
from http import HTTPStatus

from prometheus_client.parser import text_string_to_metric_families

from factories import pod, pool
from faults import World, sweep
from poolwarden.gc.metrics import GcMetrics
from poolwarden.gc.metrics_server import MOST_CONNECTIONS, Page, Served, probe_page, serve


def test_findings_about_one_pool_are_all_counted() -> None:
    """Two wrong ranges and a wrong count are three findings, in the guard's status and in a scrape."""
    wrong = ["10.0.0.20-10.0.0.11", "10.0.0.40-10.0.0.31", "10.0.0.1"]
    world = World(pool("blue", wrong, total=7, allocated=3), pod("x"))
    metrics = GcMetrics()
    metrics.swept(sweep(world))
    families = text_string_to_metric_families(metrics.text().decode())
    samples = [s for family in families for s in family.samples if s.name == "poolwarden_pool_findings"]
    assert sum(s.value for s in samples) == world.status("blue")["findings"]["drift"]


def _served(deadline: float) -> int:
    served = serve("127.0.0.1:0", {"/healthz": lambda: probe_page("")}, deadline=deadline)
    assert isinstance(served, Served)
    return served.port


def _probed(port: int) -> int:
    """The status of a probe's answer, which comes within kubelet's time-out or never."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    connection.request("GET", "/healthz")
    return connection.getresponse().status


def test_a_client_that_trickles_is_left() -> None:
    """One byte now and then restarts the time-out of each read: a request as a whole must have an end."""
    with socket.create_connection(("127.0.0.1", _served(deadline=0.5)), timeout=5) as client:
        client.sendall(b"GET /healthz HTTP/1.1\r\nX: ")
        began = time.monotonic()
        try:
            while time.monotonic() - began < 5:
                time.sleep(0.1)
                client.sendall(b"x")
        except OSError:
            return
    raise AssertionError("still served after 5 seconds")


def test_a_client_that_takes_nothing_is_left() -> None:
    """It asks for a page larger than all buffers between, and never reads it."""
    ended = threading.Event()

    class Text(bytes):
        """Tells when nobody holds it any more."""

        def __del__(self) -> None:
            ended.set()

    served = serve("127.0.0.1:0", {"/metrics": lambda: Page(Text(bytes(32 << 20)))}, deadline=0.5)
    assert isinstance(served, Served)
    with socket.create_connection(("127.0.0.1", served.port), timeout=5) as client:
        client.sendall(b"GET /metrics HTTP/1.1\r\n\r\n")
        assert ended.wait(5), "still served after 5 seconds"


def test_idle_clients_keep_no_probe_waiting() -> None:
    """However many connect and say nothing: the oldest of them go, and hold no thread any more."""
    port = _served(deadline=60)
    threads = threading.active_count()
    with ExitStack() as stack:
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=5))
        assert _probed(port) == HTTPStatus.OK
        assert threading.active_count() - threads < 2 * MOST_CONNECTIONS
