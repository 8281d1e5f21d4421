"""Lists and watches of a scripted API server; time passes only when the watch waits."""

import pytest
from msgspec import Struct

from cluster.scripted import FakeTime, json_answer, page, status
from cluster.streams import CUT, REFUSED, TIMED_OUT, FakeWatches, Piece, at_pauses, bookmark, error, line, thing
from poolwarden.cluster.interface import Complete, Doubt, Incomplete, NotInstalled
from poolwarden.cluster.transport import Answer, Ended
from poolwarden.cluster.watch import Paces, Seen, Watch
from poolwarden.ipam.kinds import PODS, VIRTUAL_MACHINES, Kind

PATH = "/api/v1/pods"


class Meta(Struct, rename="camel"):
    """Which object it is."""

    name: str
    namespace: str = ""
    resource_version: str = ""


class Thing(Struct):
    """An object with one number of interest."""

    metadata: Meta
    size: int = 0


@pytest.fixture
def server(time: FakeTime) -> FakeWatches:
    """Serves pods, of which there is one, and no other kind."""
    server = FakeWatches(time)
    server.serve("/api/v1", "pods")
    server.on("GET", "/apis", json_answer({"kind": "APIGroupList", "groups": []}))
    server.on("GET", PATH, page([thing("a", 3, size=1)], version="7"))
    return server


@pytest.fixture
def watch(server: FakeWatches, time: FakeTime) -> Watch[Thing]:
    """The watch under test."""
    return watch_of(PODS, server, time)


def watch_of(kind: Kind, server: FakeWatches, time: FakeTime) -> Watch[Thing]:
    """A watch with the paces of the program."""
    return Watch(server, kind, Thing, monotonic=time.monotonic)


def sizes(seen: Seen[Thing]) -> dict[str, int]:
    """The objects of the one namespace, and the number of each."""
    assert all(namespace == "blue" for namespace, _ in seen.items)
    return {name: item.size for (_, name), item in seen.items.items()}


def test_list_then_watch(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """All pages are read, then changes are heard from the list's version on, with bookmarks and bounds in time."""
    server.on("GET", PATH, page([thing("a", 3)], token="t"), page([thing("b", 4)]))
    server.watches([line("ADDED", thing("c", 8))])
    watch.run(time)
    assert set(sizes(watch.seen())) == {"a", "b", "c"}
    asked = server.watched[0]
    assert asked.path == PATH
    assert 240 <= int(asked.query["timeoutSeconds"]) <= 300
    assert dict(asked.query) | {"timeoutSeconds": ""} == {
        "watch": "true",
        "resourceVersion": "7",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "",
    }
    assert 60 < asked.read_timeout < 120
    assert server.streams[0].closed


def test_changes(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Objects come, change and go; what was seen before stays as it was seen."""
    states: list[Seen[Thing]] = []

    def look() -> None:
        states.append(watch.seen())

    server.watches(
        [
            look,
            line("ADDED", thing("b", 8, size=1)),
            look,
            line("MODIFIED", thing("b", 9, size=2)) + line("MODIFIED", thing("b", 9, size=2)),
            look,
            line("DELETED", thing("a", 10)) + line("DELETED", thing("a", 10)),
            look,
        ]
    )
    watch.run(time)
    assert [sizes(state) for state in states] == [{"a": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"b": 2}]
    assert all(state.coverage == Complete() for state in states)


def test_unchanged_objects_are_not_copied(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Who looks twice without a change between sees the very same collection, also after a bookmark."""
    states: list[Seen[Thing]] = []

    def look() -> None:
        states.append(watch.seen())

    server.watches([look, look, bookmark(9), look, line("ADDED", thing("b", 8)), look])
    watch.run(time)
    first, second, third, fourth = states
    assert first.items is second.items
    assert second.items is third.items
    assert third.items is not fourth.items


def test_before_the_first_list(watch: Watch[Thing]) -> None:
    """Nothing is known, and that is said."""
    seen = watch.seen()
    assert seen.coverage == Incomplete(Doubt.UNAVAILABLE, "pods have not been listed yet")
    assert not watch.answered.is_set()


# --- going on ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ([line("ADDED", thing("b", 8))], "8"),
        ([line("ADDED", thing("b", 8)), bookmark(20)], "20"),
        ([bookmark(20), line("DELETED", thing("b", 21))], "21"),
        ([line("ADDED", {"metadata": {"name": "b"}})], "7"),
        ([line("ADDED", thing("b", 8)), CUT], "8"),
        ([bookmark(20), line("ADDED", thing("b", 21))[:-1], CUT], "20"),
        ([line("ADDED", thing("b", 8, size="x"))], "8"),
    ],
)
def test_goes_on_from_the_last_version(
    server: FakeWatches, watch: Watch[Thing], time: FakeTime, script: list[Piece], version: str
) -> None:
    """However a watch ends, the next goes on from the last version told by a whole line, without another list."""
    server.watches(script, [bookmark(30)])
    watch.run(time)
    assert server.versions == ["7", version]
    assert len(server.asked(PATH)) == 1


def test_half_a_line(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """A line that broke off is not heeded, even where it would be whole but for its end."""
    server.watches([line("DELETED", thing("a", 8))[:-1], CUT])
    watch.run(time)
    assert sizes(watch.seen()) == {"a": 1}


def test_lines_in_pieces(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Lines are put together from any pieces."""
    text = line("ADDED", thing("b", 8, size=5)) + line("ADDED", thing("c", 9)) + bookmark(12)
    server.watches([text[index : index + 1] for index in range(len(text))], [text[:90], text[90:]])
    watch.run(time)
    assert sizes(watch.seen()) == {"a": 1, "b": 5, "c": 0}
    assert server.versions == ["7", "12"]


def test_good_end_is_no_trouble(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """The end that we asked for is followed by the next watch within half a second."""

    def minute() -> None:
        time.now += 60

    # The last bookmark comes two seconds before the end.
    script: list[Piece] = [minute, bookmark(8), minute, bookmark(9), lambda: setattr(time, "now", time.now + 2)]
    server.watches(script, script, script)
    watch.run(time)
    assert len(time.waits) <= 4
    assert max(time.waits) <= 0.5
    assert len(server.asked(PATH)) == 1


# --- listing anew -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ([bookmark(8), error(410, "too old resource version: 8 (20)")], "too old resource version: 8 (20)"),
        ([error(500, "etcd is gone")], "etcd is gone"),
        ([b"nonsense\n"], "a line that cannot be read: JSON is malformed"),
        ([b'{"type":"ADDED"}\n'], "a line that cannot be read: Object missing required field `object`"),
        ([b'{"type":"ADDED","object":{"metadata":5}}\n'], "a line that cannot be read"),
        ([b'{"type":"ADDED","object":' + b"[" * 5000 + b"\n"], "a line that cannot be read"),
        ([b"\n"], "a line that cannot be read"),
        ([line("ADDED", {"metadata": {}})], "an event 'ADDED' about no object"),
        ([line("RENAMED", thing("a", 8))], "an event 'RENAMED' about no object"),
        ([b"x" * (1 << 20)] * 17, "a line without end"),
    ],
)
def test_broken_watch(
    server: FakeWatches, watch: Watch[Thing], time: FakeTime, script: list[Piece], reason: str
) -> None:
    """A watch that does not lead on is said to be broken, and a list tells what was missed."""
    troubles: list[str] = []
    at_pauses(time, lambda: troubles.append(watch.seen().trouble))
    server.on("GET", PATH, page([thing("a", 3)]), page([thing("b", 9)], version="30"))
    server.watches(script, [bookmark(31)])
    watch.run(time)
    assert any(trouble.startswith(f"the watch of pods broke: {reason}") for trouble in troubles)
    assert server.versions == ["7", "30"]
    assert sizes(watch.seen()) == {"b": 0}
    assert server.streams[0].closed


@pytest.mark.parametrize("code", [400, 410])
def test_version_that_is_gone(server: FakeWatches, watch: Watch[Thing], time: FakeTime, code: int) -> None:
    """A version that the server refuses is replaced by a list's; meanwhile the objects are known as last heard."""
    coverages = []
    at_pauses(time, lambda: coverages.append(watch.seen().coverage))
    server.on("GET", PATH, page([thing("a", 3)]), page([], version="30"))
    server.watches([bookmark(8)], status(code, "too old resource version"), [])
    watch.run(time)
    assert server.versions == ["7", "8", "30"]
    assert sizes(watch.seen()) == {}
    assert coverages[-1] == Complete()


def silent(time: FakeTime) -> list[Piece]:
    """What the real API server answers to a watch from the future: nothing, until the client gives up."""

    def wait() -> None:
        time.now += Paces().silence

    return [wait, TIMED_OUT]


@pytest.mark.parametrize("before", [[], [bookmark(8)], [bookmark(8), CUT]])
def test_future_that_was_restored_away(
    server: FakeWatches, watch: Watch[Thing], time: FakeTime, before: list[Piece]
) -> None:
    """After a restore of etcd a watch from before is opened and stays silent: then what is listed is known, and no more."""
    known: list[tuple[float, dict[str, int]]] = []
    server.on("GET", PATH, page([thing("a", 3), thing("lost", 7)]), page([thing("a", 3), thing("new", 5)], version="5"))
    server.watches(
        [*before], *[REFUSED] * 2 * bool(before), silent(time), [lambda: known.append((time.now, sizes(watch.seen())))]
    )
    started = time.now
    watch.run(time)
    assert server.versions[-1] == "5"
    [(now, objects)] = known
    assert objects == {"a": 0, "new": 0}
    assert now - started < Paces().silence + 5


@pytest.mark.parametrize("end", [[], [CUT], [b'{"type":', CUT]])
def test_watch_without_a_line(server: FakeWatches, watch: Watch[Thing], time: FakeTime, end: list[Piece]) -> None:
    """However a watch ends, one that told nothing has not shown that its version leads on: a list follows."""
    server.on("GET", PATH, page([thing("a", 3)]), page([], version="5"))
    server.watches([bookmark(8)], end, [bookmark(9)])
    watch.run(time)
    assert server.versions == ["7", "8", "5"]
    assert sizes(watch.seen()) == {}


def test_connection_that_died(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """After silence at the end of a watch that told something, a list makes good at once what was not heard."""
    server.on("GET", PATH, page([thing("a", 3)]), page([thing("b", 9)], version="30"))
    server.watches([bookmark(8), *silent(time)], [bookmark(31)])
    watch.run(time)
    assert server.versions == ["7", "30"]


def test_server_without_bookmarks(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Where nothing changes and there are no bookmarks, a list after each silence keeps what is known from turning stale."""
    ages: list[float] = []
    server.watches(*[[*silent(time)[:1], lambda: ages.append(time.now - watch.seen().heard_at), TIMED_OUT]] * 20)
    started = time.now
    watch.run(time)
    assert max(ages) == pytest.approx(Paces().silence)
    assert len(server.asked(PATH)) == 21
    assert time.now - started < 20 * (Paces().silence + 1)


def test_refused_without_end(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """A version that is refused again and again, though the refusal may pass, is given up after a few times."""
    refused = status(504, "timed out")
    server.on("GET", PATH, page([thing("a", 3)]), page([], version="5"))
    server.watches(*[refused] * 5, [bookmark(6)])
    watch.run(time)
    assert server.versions == ["7"] * 5 + ["5"]
    assert len(server.asked(PATH)) == 2


@pytest.mark.parametrize("end", [[error(410, "")], [Ended()], [CUT], REFUSED, status(503, "starting")])
def test_repeated_failures_are_paced(
    server: FakeWatches, watch: Watch[Thing], time: FakeTime, end: list[Piece] | Answer
) -> None:
    """A watch that ends or fails at once, however often and in whatever way, never presses the server."""
    server.watches(*[end] * 100)
    started = time.now
    watch.run(time)
    assert time.now - started > 100 * 2.5
    assert max(time.waits) <= Paces().backoff_cap


def test_retry_after(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """A server that asks for patience is given it."""
    server.watches(status(429, "too many requests", retry_after="17"), [])
    watch.run(time)
    assert 17 in time.waits


def test_list_without_version(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """A list that names no version cannot be followed, and is not taken for complete."""
    server.on("GET", PATH, page([thing("a", 3)], version=""))
    at_pauses(time, lambda: setattr(time, "stopped", time.now > 1100))
    watch.run(time)
    assert watch.seen().coverage == Incomplete(Doubt.BROKEN, "the list of pods has no resourceVersion")


# --- doubt ------------------------------------------------------------------------------------------------------------


def test_unreadable_objects(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Objects that cannot be decoded are named, listed or heard; once they can be, or are gone, they are as any other."""
    states: list[Seen[Thing]] = []

    def look() -> None:
        states.append(watch.seen())

    server.on("GET", PATH, page([thing("a", 3, size="x"), thing("b", 4)]))
    server.watches(
        [
            look,
            line("MODIFIED", thing("b", 8, size="y")),
            look,
            line("MODIFIED", thing("a", 9, size=3)),
            look,
            line("DELETED", thing("b", 9, size="y")) + line("DELETED", thing("b", 9, size="y")),
            look,
        ]
    )
    watch.run(time)
    found = [(sizes(state), {name for _, name in state.unreadable}) for state in states]
    assert found == [({"b": 0}, {"a"}), ({}, {"a", "b"}), ({"a": 3}, {"b"}), ({"a": 3}, set())]
    assert "`int`" in states[1].unreadable["blue", "b"]


def test_watch_forbidden(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Who may list but not watch knows nothing for good, and is told so until the right is granted."""
    coverages = []
    at_pauses(time, lambda: coverages.append(watch.seen().coverage))
    refused = status(403, 'User "x" cannot watch resource "pods"')
    server.watches(*[refused] * 12, [bookmark(8)])
    watch.run(time)
    forbidden = Incomplete(Doubt.FORBIDDEN, 'cannot watch pods: 403 User "x" cannot watch resource "pods"')
    assert set(map(repr, coverages[:-3])) == {repr(forbidden)}
    assert watch.seen().coverage == Complete()


def test_list_forbidden(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Who may not list is told at once, and asks again; the first answer, though bad, is one."""
    states = []
    at_pauses(time, lambda: states.append((watch.seen().coverage, watch.answered.is_set())))
    server.on("GET", PATH, status(403, "no"), status(403, "no"), page([thing("a", 3)]))
    server.watches([bookmark(8)])
    watch.run(time)
    assert states[0] == (Incomplete(Doubt.FORBIDDEN, "cannot list pods: 403 no"), True)
    assert watch.seen().coverage == Complete()
    assert sizes(watch.seen()) == {"a": 0}


def test_nobody_answers_at_first(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Where nothing was ever heard the reason is told."""
    server.on("GET", "/api/v1", REFUSED)
    at_pauses(time, lambda: setattr(time, "stopped", time.now > 1100))
    watch.run(time)
    coverage = watch.seen().coverage
    assert isinstance(coverage, Incomplete)
    assert coverage.doubt is Doubt.UNAVAILABLE
    assert "connection refused" in coverage.message


def test_nobody_answers_any_more(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Objects stay known as last heard, with the moment when that was, while nobody answers to watches or lists."""
    heard_at = []

    def end() -> None:
        time.now += 3
        heard_at.append(time.now)

    server.on("GET", PATH, page([thing("a", 3, size=1)]), REFUSED)
    server.watches([end, bookmark(8), CUT], *[REFUSED] * 20)
    at_pauses(time, lambda: setattr(time, "stopped", time.now > 1200))
    watch.run(time)
    seen = watch.seen()
    assert (sizes(seen), seen.coverage, [seen.heard_at]) == ({"a": 1}, Complete(), heard_at)
    assert "connection refused" in seen.trouble


@pytest.mark.parametrize("said", [bookmark(9), line("ADDED", thing("b", 9)), line("ADDED", thing("b", 9, size="x"))])
def test_trouble_is_over(server: FakeWatches, watch: Watch[Thing], time: FakeTime, said: bytes) -> None:
    """What the trouble was is told until something is heard again; that a watch is opened does not end it."""
    troubles: list[str] = []

    def look() -> None:
        troubles.append(watch.seen().trouble)

    server.watches([bookmark(8), CUT], [look, said, look])
    watch.run(time)
    assert troubles == ["the watch of pods broke: ProtocolError: Connection broken", ""]


def test_silence_is_measured(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """A list and each line, also a bookmark, tell that the server is heard; the opening of a watch does not."""
    heard: list[float] = []

    def look() -> None:
        heard.append(watch.seen().heard_at - time.now)
        time.now += 50

    script: list[Piece] = [
        look,
        bookmark(8),
        look,
        line("ADDED", thing("b", 9)),
        look,
        line("ADDED", thing("b", 9, size="x")),
    ]
    server.watches([*script, look], [look])
    watch.run(time)
    assert heard[:4] == [0.0] * 4
    assert heard[4] <= -50


def test_watch_granted_late(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """What was refused for a while is complete again once a watch is opened, but as of the list: no fresher."""
    refused = status(403, "no")
    found: list[Seen[Thing]] = []
    listed_at = time.now
    server.watches(*[refused] * 3, [lambda: found.append(watch.seen())])
    watch.run(time)
    assert found[0].coverage == Complete()
    assert found[0].heard_at == listed_at
    assert "403 no" in found[0].trouble


# --- kinds that come and go -------------------------------------------------------------------------------------------


def test_not_installed(server: FakeWatches, time: FakeTime) -> None:
    """A kind that is not served is known to be empty; it is looked for again within half a minute, and found."""
    watch = watch_of(VIRTUAL_MACHINES, server, time)
    found: list[tuple[Seen[Thing], bool]] = []

    def install() -> None:
        found.append((watch.seen(), watch.answered.is_set()))
        if len(found) == 3:
            groups = [{"name": "kubevirt.io", "versions": [{"version": "v1"}]}]
            server.on("GET", "/apis", json_answer({"kind": "APIGroupList", "groups": groups}))
            server.serve("/apis/kubevirt.io/v1", "virtualmachines")
            server.on("GET", "/apis/kubevirt.io/v1/virtualmachines", page([thing("a", 3)]))

    at_pauses(time, install)
    server.watches([bookmark(8)])
    watch.run(time)
    assert all(state.coverage == NotInstalled() and answered for state, answered in found[:3])
    assert found[1][0].heard_at > found[0][0].heard_at
    assert all(15 <= wait <= 30 for wait in time.waits[:3])
    assert watch.seen().coverage == Complete()
    assert sizes(watch.seen()) == {"a": 0}


def test_removed(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """A kind whose CRD is removed is known to be empty."""

    def remove() -> None:
        server.serve("/api/v1")

    at_pauses(time, lambda: setattr(time, "stopped", watch.seen().coverage == NotInstalled()))
    server.watches([bookmark(8), remove], status(404, "page not found"))
    watch.run(time)
    assert (watch.seen().coverage, watch.seen().items) == (NotInstalled(), {})


# --- stopping ---------------------------------------------------------------------------------------------------------


def test_stop(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """Told to stop, it neither lists nor watches, and says nothing new."""
    before = watch.seen()
    time.stopped = True
    watch.run(time)
    assert server.requests == []
    assert watch.seen() == before


def test_stop_while_a_watch_is_opened(server: FakeWatches, watch: Watch[Thing], time: FakeTime) -> None:
    """A watch that is opened as the program is told to stop is closed unread."""
    server.watches([line("ADDED", thing("b", 8))])
    server.on_stream = lambda: setattr(time, "stopped", True)
    watch.run(time)
    assert sizes(watch.seen()) == {"a": 1}
    assert server.streams[0].closed
