"""The knowledge of reviews, fed by watches: an answer needs no request to the API server.

Objects may change hundreds of times a second (Spiderpool writes a pool's status at each allocation), reviews come less
often: a review copies the collections that have changed since the last one (0.2 ms for 10,000 objects), changes
themselves only touch their object.
"""

import time
from collections.abc import Callable, Mapping
from threading import Lock, Thread
from typing import Any

import msgspec
import structlog

from poolwarden.cluster.interface import Complete, Coverage, Incomplete
from poolwarden.cluster.pacing import Stop
from poolwarden.cluster.transport import StreamingTransport
from poolwarden.cluster.watch import Paces, Seen, Watch
from poolwarden.cluster.wire import label
from poolwarden.webhook.knowledge import NOWHERE, SOURCES, Knowledge, Known, cannot_be_read

log = structlog.get_logger()

STALE_SECONDS = 150.0
"""Since a kind was last heard of, by a line of its watch or a list. Bookmarks come every minute, and 75 s of silence
(`Paces.silence`) lead to a new list; what remains lets attempts with pauses of 0.5, 1, 2, 4, 8, 10 ... s fail, or a watch
that was opened anew wait for its first bookmark: a restart of the API server casts no doubt."""
_RESTART_SECONDS = 5.0
_LOOK_SECONDS = 0.5
"""Between looks for doubts that the log does not tell yet."""


class Cache:
    """Watches every kind of `SOURCES`."""

    def __init__(
        self,
        transport: StreamingTransport,
        *,
        paces: Paces = Paces(),  # noqa: B008 - frozen
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._watches: Mapping[str, Watch[Any]] = {
            field: Watch(transport, kind, item, paces=paces, monotonic=monotonic)
            for field, (kind, item) in SOURCES.items()
        }
        self._lock = Lock()
        self._knowledge = Knowledge()

    def start(self, stop: Stop) -> None:
        """Begin to watch, in threads that end soon after `stop` is set. To be called after any fork, and once."""
        for watch in self._watches.values():
            name = f"watch {watch.resource.plural}"
            Thread(target=_run, args=(watch, stop), name=name, daemon=True).start()
        Thread(target=self._tell, args=(stop,), name="watches' doubts", daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait until each kind's first list was answered, well or not; false if that takes longer."""
        deadline = time.monotonic() + seconds
        return all(watch.answered.wait(max(0.0, deadline - time.monotonic())) for watch in self._watches.values())

    def knowledge(self) -> Knowledge:
        """What is known now; the same object as before if nothing has changed."""
        now = self._monotonic()
        with self._lock:
            news: dict[str, Known[Any]] = {}
            for field, watch in self._watches.items():
                seen = watch.seen()
                doubt = _doubt(watch, seen, now)
                told = doubt or cannot_be_read(label(watch.resource), seen.unreadable)
                before: Known[Any] = getattr(self._knowledge, field)
                if before.items is not seen.items or before.doubt != told:
                    read = NOWHERE if doubt else Complete()
                    news[field] = Known(seen.items, told, read, frozenset(seen.unreadable))
            if news:
                self._knowledge = msgspec.structs.replace(self._knowledge, **news)
            return self._knowledge

    def problems(self) -> tuple[str, ...]:
        """For `/readyz`, a line for each kind that was not read to the end or is stale; objects that cannot be read are none."""
        now = self._monotonic()
        doubts = (_doubt(watch, watch.seen(), now) for watch in self._watches.values())
        return tuple(doubt for doubt in doubts if doubt)

    def _tell(self, stop: Stop) -> None:
        """Log each kind that comes into doubt or out of it, until told to stop; then cut all watches."""
        told: dict[str, tuple[bool, Coverage]] = {}
        while not stop.wait(_LOOK_SECONDS):
            for field, watch in self._watches.items():
                if watch.answered.is_set():
                    told[field] = self._told(watch, told.get(field, (False, Complete())))
        for watch in self._watches.values():
            watch.cut()

    def _told(self, watch: Watch[Any], before: tuple[bool, Coverage]) -> tuple[bool, Coverage]:
        """Log what is new about a kind; whether it is in doubt, and why. How long nothing was heard is not new."""
        seen = watch.seen()
        doubt = _doubt(watch, seen, self._monotonic())
        if before != (bool(doubt), seen.coverage) and doubt:
            log.warning("not all is known", kind=label(watch.resource), reason=doubt)
        elif before[0] and not doubt:
            log.info("all is known again", kind=label(watch.resource))
        return bool(doubt), seen.coverage


def _run(watch: Watch[Any], stop: Stop) -> None:
    while not stop.is_set():
        try:
            watch.run(stop)
        except Exception:
            # A kind that is heard of no more turns stale, and its rules warn: but no fault of ours should be for good.
            log.exception("watch failed", kind=watch.resource.kind)
            stop.wait(_RESTART_SECONDS)


def _doubt(watch: Watch[Any], seen: Seen[Any], now: float) -> str:
    """Why not all objects of a kind are known as they are now, or nearly now; "" if they are."""
    if isinstance(seen.coverage, Incomplete):
        return seen.coverage.message
    silence = now - seen.heard_at
    if silence <= STALE_SECONDS:
        return ""
    said = f"{label(watch.resource)} were last heard of {silence:.0f} s ago"
    return f"{said}: {seen.trouble}" if seen.trouble else said
