"""The cache over a server that says what the test tells it to say, in threads as in the program."""

import threading
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from typing import Any

import pytest

from cluster.scripted import json_answer, page, status
from cluster.streams import CUT, REFUSED, bookmark, line
from controlplane.server import wait_for
from poolwarden.cluster.transport import Answer, Ended, NoAnswer, Request, Stream
from poolwarden.cluster.watch import Paces
from poolwarden.ipam.kinds import NETWORK_ATTACHMENTS
from poolwarden.ipam.spiderpool import POOLS
from poolwarden.webhook.cache import STALE_SECONDS, Cache
from poolwarden.webhook.knowledge import SOURCES

SPIDERPOOL = "/apis/spiderpool.spidernet.io/v2beta1"
MULTUS = "/apis/k8s.cni.cncf.io/v1"
PACES = Paces(recheck=0.1, backoff_base=0.05, backoff_cap=0.1)


class Clock:
    """Time that passes only when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """Seconds."""
        return self.now


class Told:
    """A watch that says what it is told, and waits for more."""

    def __init__(self) -> None:
        self.pieces: SimpleQueue[bytes | NoAnswer] = SimpleQueue()

    def read(self) -> bytes | Ended | NoAnswer:
        """The next piece."""
        return self.pieces.get()

    def close(self) -> None:
        """Nothing to give back."""

    def cut(self) -> None:
        """End the wait."""
        self.pieces.put(CUT)


class Server:
    """Serves NetworkAttachmentDefinitions and SpiderIPPools, and no other kind."""

    def __init__(self) -> None:
        self.streams: dict[str, Told] = {}
        self.gone = False
        self.before_answer: Callable[[Request], object] = lambda _: None
        groups = [
            {"name": "spiderpool.spidernet.io", "versions": [{"version": "v2beta1"}]},
            {"name": "k8s.cni.cncf.io", "versions": [{"version": "v1"}]},
        ]
        self.answers: dict[str, Answer] = {
            "/apis": json_answer({"kind": "APIGroupList", "groups": groups}),
            SPIDERPOOL: json_answer({"kind": "APIResourceList", "resources": [{"name": POOLS.plural}]}),
            MULTUS: json_answer({"kind": "APIResourceList", "resources": [{"name": NETWORK_ATTACHMENTS.plural}]}),
            f"{SPIDERPOOL}/{POOLS.plural}": page([pool("p1")]),
            f"{MULTUS}/{NETWORK_ATTACHMENTS.plural}": page([]),
        }

    def send(self, request: Request) -> Answer:
        """One exchange."""
        self.before_answer(request)
        return REFUSED if self.gone else self.answers.get(request.path, status(404, "404 page not found"))

    def stream(self, request: Request) -> Stream | Answer:
        """A watch."""
        self.before_answer(request)
        if self.gone:
            return REFUSED
        answer = self.streams[request.path.rpartition("/")[2]] = Told()
        return answer

    def tell(self, plural: str, text: bytes) -> None:
        """Let the watch of a kind say something."""
        self.streams[plural].pieces.put(text)


def pool(name: str, subnet: Any = "10.0.0.0/24") -> dict[str, Any]:
    """A SpiderIPPool."""
    return {"metadata": {"name": name, "resourceVersion": "5"}, "spec": {"subnet": subnet}}


@pytest.fixture
def server() -> Server:
    """The server of the test."""
    return Server()


@pytest.fixture
def clock() -> Clock:
    """The time of the test."""
    return Clock()


@pytest.fixture
def cache(server: Server, clock: Clock) -> Cache:
    """A cache that was not started yet."""
    return Cache(server, paces=PACES, monotonic=clock)


class QuickStop(threading.Event):
    """Nobody waits longer than a moment."""

    def wait(self, timeout: float | None = None) -> bool:
        """Sleep, but not for long."""
        return super().wait(min(0.05, timeout or 0))


@pytest.fixture
def start() -> Iterator[Callable[[Cache], None]]:
    """Starts caches, whose threads must be gone soon after the test."""
    stop = QuickStop()
    before = set(threading.enumerate())

    def start(cache: Cache) -> None:
        cache.start(stop)

    yield start
    stop.set()
    wait_for("the threads to end", lambda: set(threading.enumerate()) <= before, seconds=5)


Start = Callable[[Cache], None]


def test_before_the_start(cache: Cache) -> None:
    """Nothing is known, and no absent object is known to be absent."""
    knowledge = cache.knowledge()
    for field in SOURCES:
        known = getattr(knowledge, field)
        assert (known.items, known.whole, known.fresh, known.lacks(("", "p1"))) == ({}, False, False, False)
        assert known.doubt.endswith("have not been listed yet")
    assert len(cache.problems()) == len(SOURCES)
    assert not cache.wait(0)


def test_known_as_soon_as_read(cache: Cache, start: Start) -> None:
    """Once the first lists are answered, what is served is known, and what is not installed is known to be absent."""
    start(cache)
    assert cache.wait(10)
    knowledge = cache.knowledge()
    assert set(knowledge.spider_pools.items) == {("", "p1")}
    assert all(getattr(knowledge, field).whole for field in SOURCES)
    assert knowledge.neon_pools.lacks(("a", "b"))
    assert knowledge.spider_pools.lacks(("", "p2"))
    assert not knowledge.spider_pools.lacks(("", "p1"))
    assert cache.problems() == ()


def test_one_state_at_a_time(cache: Cache, start: Start, server: Server) -> None:
    """Knowledge that was handed out never changes; it stays the same until something happens, and the rest beyond that."""
    start(cache)
    assert cache.wait(10)
    before = cache.knowledge()
    assert cache.knowledge() is before
    server.tell(POOLS.plural, line("ADDED", pool("p2")))
    wait_for("p2 to be known", lambda: ("", "p2") in cache.knowledge().spider_pools.items)
    after = cache.knowledge()
    assert set(before.spider_pools.items) == {("", "p1")}
    assert after.attachments is before.attachments
    assert cache.knowledge() is after


def test_silence_becomes_doubt(cache: Cache, start: Start, server: Server, clock: Clock) -> None:
    """A kind that was not heard of for too long is told with the silence and its reason; one bookmark ends the doubt."""
    start(cache)
    assert cache.wait(10)
    clock.now += STALE_SECONDS
    assert cache.knowledge().spider_pools.whole
    clock.now += 11

    def stale(*, pools: bool) -> Callable[[], bool]:
        return lambda: any("spiderippools" in problem for problem in cache.problems()) == pools

    known = cache.knowledge().spider_pools
    assert known.doubt == "spiderippools.spiderpool.spidernet.io were last heard of 161 s ago"
    assert (set(known.items), known.fresh, known.lacks(("", "p2"))) == ({("", "p1")}, False, False)
    assert stale(pools=True)()
    server.tell(POOLS.plural, bookmark(9))
    wait_for("the bookmark to be heard", stale(pools=False))
    assert cache.knowledge().spider_pools.whole


def test_reason_of_the_silence(cache: Cache, start: Start, server: Server, clock: Clock) -> None:
    """Where it is known why nothing is heard, that is told."""
    start(cache)
    assert cache.wait(10)
    server.gone = True
    for stream in server.streams.values():
        stream.cut()
    clock.now += STALE_SECONDS + 1
    wait_for(
        "the reason to be known",
        lambda: all("s ago: " in problem and "connection refused" in problem for problem in cache.problems()),
    )
    assert len(cache.problems()) == len(SOURCES)


def test_unreadable_object(cache: Cache, start: Start, server: Server) -> None:
    """An object that cannot be decoded casts doubt on its kind, though not on other objects' absence; it ends no readiness."""
    start(cache)
    assert cache.wait(10)
    server.tell(POOLS.plural, line("MODIFIED", pool("p1", subnet=5)) + line("ADDED", pool("p2")))
    wait_for("p2 to be known", lambda: ("", "p2") in cache.knowledge().spider_pools.items)
    known = cache.knowledge().spider_pools
    assert set(known.items) == {("", "p2")}
    assert known.doubt.startswith("spiderippools.spiderpool.spidernet.io cannot be read: p1 (Expected `str`")
    assert (known.whole, known.fresh) == (False, True)
    assert (known.lacks(("", "p1")), known.lacks(("", "p3"))) == (False, True)
    assert cache.problems() == ()
    server.tell(POOLS.plural, line("MODIFIED", pool("p1")))
    wait_for("p1 to be readable", lambda: cache.knowledge().spider_pools.whole)


def test_refusal(cache: Cache, start: Start, server: Server) -> None:
    """A kind that may not be read is doubtful at once, in the server's words, and alone."""
    server.answers[f"{SPIDERPOOL}/{POOLS.plural}"] = status(403, "not you")
    start(cache)
    assert cache.wait(10)
    assert cache.problems() == ("cannot list spiderippools.spiderpool.spidernet.io: 403 not you",)
    assert cache.knowledge().attachments.whole


def test_wait_has_an_end(cache: Cache, start: Start, server: Server) -> None:
    """A server that does not answer holds nobody up for ever."""
    answer = threading.Event()
    server.before_answer = lambda request: answer.wait(20) if request.path.startswith(SPIDERPOOL) else None
    start(cache)
    assert not cache.wait(0.3)
    answer.set()
    assert cache.wait(10)


def test_fault_of_ours_is_not_for_good(cache: Cache, start: Start, server: Server) -> None:
    """A watch that a fault of the program ends begins anew."""
    faults = ["one", "two"]

    def fault(request: Request) -> None:
        if "watch" in request.query and POOLS.plural in request.path and faults:
            raise RuntimeError(faults.pop())

    server.before_answer = fault
    start(cache)
    wait_for("the pools to be known", lambda: cache.knowledge().spider_pools.whole)
    assert faults == []


def test_knowledge_is_for_many_threads(cache: Cache, start: Start, server: Server) -> None:
    """Threads that ask while pools are made see states that were, in their order."""
    start(cache)
    assert cache.wait(10)
    wanted = ["p1", *(f"n{number}" for number in range(200))]
    seen: list[list[list[str]]] = [[] for _ in range(3)]
    over = threading.Event()

    def ask(mine: list[list[str]]) -> None:
        while not over.is_set():
            mine.append([name for _, name in cache.knowledge().spider_pools.items])

    threads = [threading.Thread(target=ask, args=(mine,)) for mine in seen]
    for thread in threads:
        thread.start()
    for name in wanted[1:]:
        server.tell(POOLS.plural, line("ADDED", pool(name)))
    wait_for("all pools to be known", lambda: len(cache.knowledge().spider_pools.items) == len(wanted))
    over.set()
    for thread, states in zip(threads, seen, strict=True):
        thread.join()
        assert all(state == wanted[: len(state)] for state in states)
        assert sorted(map(len, states)) == list(map(len, states))
