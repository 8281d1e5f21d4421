import itertools
import re
import threading
import time as real_time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from cluster.scripted import FakeTime
from poolwarden.cluster.files import Files
from poolwarden.cluster.guard import Allowed, Denied
from poolwarden.cluster.inputs import Reading
from poolwarden.cluster.interface import Doubt, Failed, Found, Unread, Written
from poolwarden.cluster.kinds import LEASES
from poolwarden.cluster.lease import (
    Candidate,
    HeldBy,
    Leadership,
    Leading,
    NotReleased,
    Released,
    Terms,
    Unclear,
)

NOON = datetime(2026, 1, 10, 12, 0, tzinfo=UTC)
QUICK = Terms(duration=1, renew_deadline=0.5, retry_period=0.05)


class Flaky:
    """A cluster that can be made to fail, or to take time, before or after it does what it is asked."""

    def __init__(self, inner: Files) -> None:
        self.inner = inner
        self.fail_reads = False
        self.fail_writes = False
        self.lose_answers = False
        self.before: Callable[[], None] = lambda: None

    def now(self) -> datetime:
        """The cluster's time."""
        return self.inner.now()

    def get(self, *args: Any, **kwargs: Any) -> Any:
        """Read."""
        self.before()
        return Unread(Doubt.UNAVAILABLE, "no answer") if self.fail_reads else self.inner.get(*args, **kwargs)

    def list(self, *args: Any, **kwargs: Any) -> Any:
        """Not used here."""
        return self.inner.list(*args, **kwargs)

    def create(self, *args: Any, **kwargs: Any) -> Any:
        """Create."""
        return self._write(self.inner.create, args, kwargs)

    def patch(self, *args: Any, **kwargs: Any) -> Any:
        """Patch."""
        return self._write(self.inner.patch, args, kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> Any:
        """Delete."""
        return self._write(self.inner.delete, args, kwargs)

    def _write(self, write: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        if self.fail_writes:
            return Failed(Doubt.UNAVAILABLE, "no answer", uncertain=False)
        outcome = write(*args, **kwargs)
        return Failed(Doubt.UNAVAILABLE, "answer lost", uncertain=True) if self.lose_answers else outcome


@pytest.fixture
def cluster() -> Flaky:
    """A cluster without a lease, whose clock shows another microsecond each time."""
    ticks = itertools.count()
    clock = lambda: NOON + timedelta(microseconds=next(ticks))  # noqa: E731
    return Flaky(Files(Reading((), ()), clock=clock, assume_complete=True))


def candidate(cluster: Flaky, identity: str, time: FakeTime, terms: Terms = Terms()) -> Candidate:  # noqa: B008
    """A candidate for the one lease."""
    return Candidate(cluster, namespace="kube-system", name="gc", identity=identity, terms=terms, runtime=time)


def spec(cluster: Flaky) -> dict[str, Any]:
    """What the lease says."""
    found = cluster.inner.get(LEASES, dict, name="gc", namespace="kube-system")
    assert isinstance(found, Found)
    return dict(found.item["spec"])


def change(cluster: Flaky, **fields: Any) -> None:
    """Change the lease by another's hand."""
    outcome = cluster.inner.patch(LEASES, {"spec": fields}, name="gc", namespace="kube-system")
    assert isinstance(outcome, Written)


def test_first(cluster: Flaky, time: FakeTime) -> None:
    """Where no lease is, the first to come makes one and leads."""
    assert candidate(cluster, "a", time).claim() == Leading()
    now = spec(cluster)["renewTime"]
    assert re.fullmatch(r"2026-01-10T12:00:00\.\d{6}Z", now)
    assert spec(cluster) == {
        "holderIdentity": "a",
        "leaseDurationSeconds": 15,
        "acquireTime": now,
        "renewTime": now,
        "leaseTransitions": 0,
    }


def test_second(cluster: Flaky, time: FakeTime) -> None:
    """While another holds it, it is told who, and whether that one is alive."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    assert b.claim() == HeldBy("a", alive=False)
    change(cluster, renewTime="2026-01-10T12:00:02.000000Z")
    assert b.claim() == HeldBy("a", alive=True)
    assert not b.held()


def test_renewal_keeps_what_it_should(cluster: Flaky, time: FakeTime) -> None:
    """Renewing changes the time alone: not since when, nor how often the lease changed hands."""
    a = candidate(cluster, "a", time)
    a.claim()
    change(
        cluster, acquireTime="2026-01-01T00:00:00.000000Z", renewTime="2026-01-01T00:00:00.000000Z", leaseTransitions=4
    )
    assert a.claim() == Leading()
    after = spec(cluster)
    assert (after["acquireTime"], after["leaseTransitions"]) == ("2026-01-01T00:00:00.000000Z", 4)
    assert after["renewTime"] > "2026-01-10T12:00:00"


def test_held_until_the_renew_deadline(cluster: Flaky, time: FakeTime) -> None:
    """Leadership lasts for the renew deadline from the last renewal, whatever the renewing thread does."""
    a = candidate(cluster, "a", time)
    assert not a.held()
    assert isinstance(a.guard(), Denied)
    a.claim()
    time.now += 9.9
    assert a.held()
    assert a.guard() == Allowed()
    a.claim()
    time.now += 9.9
    assert a.held()
    time.now += 0.1
    assert not a.held()
    assert isinstance(a.guard(), Denied)


def test_the_deadline_counts_from_before_the_request(cluster: Flaky, time: FakeTime) -> None:
    """A renewal that took eight seconds is worth two: others may count from when it reached the server."""
    a = candidate(cluster, "a", time)
    a.claim()
    patch = cluster.inner.patch

    def slow(*args: Any, **kwargs: Any) -> Any:
        time.now += 8
        return patch(*args, **kwargs)

    cluster.inner.patch = slow  # type: ignore[method-assign]
    assert a.claim() == Leading()
    time.now += 1.9
    assert a.held()
    time.now += 0.2
    assert not a.held()


def test_lost_is_lost(cluster: Flaky, time: FakeTime) -> None:
    """After a gap, however short, the same candidate never leads again: the cluster must be read anew."""
    a = candidate(cluster, "a", time)
    a.claim()
    time.now += 10
    assert isinstance(a.claim(), Unclear)
    assert not a.held()
    assert candidate(cluster, "a2", time).claim() == HeldBy("a", alive=False)


def test_a_renewal_that_comes_too_late(cluster: Flaky, time: FakeTime) -> None:
    """A renewal answered after the deadline leaves a gap in which we did not lead: leadership is lost for good."""
    a = candidate(cluster, "a", time)
    a.claim()
    time.now += 9
    cluster.before = lambda: setattr(time, "now", time.now + 2)
    assert isinstance(a.claim(), Unclear)
    cluster.before = lambda: None
    assert not a.held()
    assert isinstance(a.claim(), Unclear)


def test_a_first_claim_that_comes_too_late(cluster: Flaky, time: FakeTime) -> None:
    """Acquired too late to lead by it, it is simply claimed again."""
    create = cluster.inner.create

    def slow(*args: Any, **kwargs: Any) -> Any:
        time.now += 11
        return create(*args, **kwargs)

    cluster.inner.create = slow  # type: ignore[method-assign]
    a = candidate(cluster, "a", time)
    assert isinstance(a.claim(), Unclear)
    assert not a.held()
    assert a.claim() == Leading()


def test_expiry_is_by_our_clock(cluster: Flaky, time: FakeTime) -> None:
    """Another's lease has expired when it has not changed for its duration since we saw it, whatever its times say."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    change(cluster, renewTime="1999-01-01T00:00:00.000000Z")
    assert b.claim() == HeldBy("a", alive=False)
    time.now += 14.9
    assert b.claim() == HeldBy("a", alive=False)
    time.now += 0.1
    assert b.claim() == Leading()
    assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseTransitions"]) == ("b", 1)


def test_a_sign_of_life_starts_the_wait_again(cluster: Flaky, time: FakeTime) -> None:
    """Each change of the lease is one, even when its holder's clock stands in the future or in the past."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    for year in (1999, 2099, 1999, 2099):
        change(cluster, renewTime=f"{year}-01-01T00:00:00.000000Z")
        assert isinstance(b.claim(), HeldBy)
        time.now += 14.9
    assert isinstance(b.claim(), HeldBy)


def test_the_holders_own_duration_counts(cluster: Flaky, time: FakeTime) -> None:
    """A holder that promised to renew within a minute has the minute; one that promised nothing has ours."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    change(cluster, leaseDurationSeconds=60)
    b.claim()
    time.now += 59
    assert isinstance(b.claim(), HeldBy)
    change(cluster, leaseDurationSeconds=None, leaseTransitions=4)
    b.claim()
    time.now += 14.9
    assert isinstance(b.claim(), HeldBy)
    time.now += 0.1
    assert b.claim() == Leading()
    assert spec(cluster)["leaseTransitions"] == 5


def test_two_leaders_never(cluster: Flaky, time: FakeTime) -> None:
    """When a successor begins, the predecessor that hangs has not held for seconds."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    while not isinstance(b.claim(), Leading):
        time.now += 0.5
        assert not (a.held() and b.held())
    assert b.held()
    assert not a.held()


def test_taken_over(cluster: Flaky, time: FakeTime) -> None:
    """Who finds another in the lease leads no longer, even before the deadline."""
    a = candidate(cluster, "a", time)
    a.claim()
    change(cluster, holderIdentity="b")
    assert a.held()
    assert a.claim() == Unclear("b is named by the lease")
    assert not a.held()


@pytest.mark.parametrize("how", ["emptied", "deleted"])
def test_taken_away(cluster: Flaky, time: FakeTime, how: str) -> None:
    """A leader whose lease names nobody, or is not there, may have been succeeded meanwhile: it does not take it again."""
    a = candidate(cluster, "a", time)
    a.claim()
    if how == "emptied":
        change(cluster, holderIdentity="")
    else:
        found = cluster.inner.get(LEASES, dict, name="gc", namespace="kube-system")
        assert isinstance(found, Found)
        metadata = found.item["metadata"]
        version = metadata["resourceVersion"]
        cluster.inner.delete(LEASES, name="gc", namespace="kube-system", uid=metadata["uid"], resource_version=version)
    assert isinstance(a.claim(), Unclear)
    assert not a.held()
    assert candidate(cluster, "b", time).claim() == Leading()


def test_race(cluster: Flaky, time: FakeTime) -> None:
    """Of two that find the lease free one wins; the other learns it from the conflict."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    a.release()
    get = cluster.inner.get

    def overtaken(*args: Any, **kwargs: Any) -> Any:
        found = get(*args, **kwargs)
        cluster.inner.get = get  # type: ignore[method-assign]
        assert a2.claim() == Leading()
        return found

    a2 = candidate(cluster, "a2", time)
    cluster.inner.get = overtaken  # type: ignore[method-assign]
    assert isinstance(b.claim(), Unclear)
    assert not b.held()
    assert b.claim() == HeldBy("a2", alive=True)


@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_no_answer(cluster: Flaky, time: FakeTime, fault: str) -> None:
    """Failures are reasons, and while the deadline has not passed they do not end leadership."""
    a = candidate(cluster, "a", time)
    setattr(cluster, fault, True)
    assert a.claim() == Unclear("no answer")
    setattr(cluster, fault, False)
    a.claim()
    setattr(cluster, fault, True)
    assert a.claim() == Unclear("no answer")
    assert a.held()
    time.now += 9
    setattr(cluster, fault, False)
    assert a.claim() == Leading()
    time.now += 9
    assert a.held()


def test_lost_answer(cluster: Flaky, time: FakeTime) -> None:
    """A claim whose answer was lost is not leadership; the next one finds our name and leads."""
    a = candidate(cluster, "a", time)
    cluster.lose_answers = True
    assert a.claim() == Unclear("answer lost")
    assert not a.held()
    cluster.lose_answers = False
    assert a.claim() == Leading()
    assert spec(cluster)["leaseTransitions"] == 0


def test_release(cluster: Flaky, time: FakeTime) -> None:
    """A released lease names nobody, and is taken at once; the old leader writes nothing more."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    assert isinstance(b.claim(), HeldBy)
    assert a.release() == Released()
    assert not a.held()
    assert (spec(cluster)["holderIdentity"], spec(cluster)["leaseDurationSeconds"]) == ("", 1)
    assert b.claim() == Leading()
    assert spec(cluster)["leaseTransitions"] == 1
    assert isinstance(a.claim(), Unclear)


def test_release_of_what_is_not_ours(cluster: Flaky, time: FakeTime) -> None:
    """Who does not lead, or is no longer named, releases nothing."""
    a, b = candidate(cluster, "a", time), candidate(cluster, "b", time)
    a.claim()
    assert isinstance(b.release(), NotReleased)
    change(cluster, holderIdentity="c")
    assert isinstance(a.release(), NotReleased)
    assert spec(cluster)["holderIdentity"] == "c"


def test_released_for_good(cluster: Flaky, time: FakeTime) -> None:
    """Whoever released, even without having led, does not lead later on."""
    a = candidate(cluster, "a", time)
    assert isinstance(a.release(), NotReleased)
    assert isinstance(a.claim(), Unclear)


def test_release_without_an_answer(cluster: Flaky, time: FakeTime) -> None:
    """Then the successor waits; we have stopped leading all the same."""
    a = candidate(cluster, "a", time)
    a.claim()
    cluster.fail_writes = True
    assert a.release() == NotReleased("no answer")
    assert not a.held()


@pytest.mark.parametrize("times", [(15, 15, 2), (15, 2, 2), (10, 12, 2), (15, 10, 0), (15, 10, 9)])
def test_terms(times: tuple[int, float, float]) -> None:
    """Times that leave no room between stopping and taking over are refused."""
    with pytest.raises(ValueError, match="a lease needs"):
        Terms(*times)


def test_limits() -> None:
    """Two attempts that hang fit into the renew deadline."""
    limits = Terms().limits
    assert limits.read_deadline + limits.connect_timeout + limits.read_timeout <= Terms().renew_deadline


# --- renewing in the background, in real time -------------------------------------------------------------------------


class Lost:
    """Hears of lost leadership."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def __call__(self, reason: str) -> None:
        """Keep the reason."""
        self.reasons.append(reason)


def ignore(_: object) -> None:
    """Nobody is told."""


def quick(cluster: Flaky, identity: str, on_lost: Callable[[str], None] = ignore) -> tuple[Candidate, Leadership]:
    """A candidate with times of tests, and its leadership."""
    own = Candidate(cluster, namespace="kube-system", name="gc", identity=identity, terms=QUICK)
    return own, Leadership(own, on_lost=on_lost)


@pytest.mark.parametrize(
    "acquire",
    [
        lambda leadership: leadership.try_acquire(threading.Event()),
        lambda leadership: leadership.acquire(threading.Event(), told=ignore),
    ],
    ids=["once", "daemon"],
)
def test_renews_in_the_background(cluster: Flaky, acquire: Callable[[Leadership], object]) -> None:
    """Leadership lasts as long as the lease can be renewed, and ends with its release."""
    lost = Lost()
    a, leadership = quick(cluster, "a", lost)
    assert acquire(leadership) == Leading()
    real_time.sleep(QUICK.renew_deadline * 2)
    assert a.held()
    assert leadership.release() == Released()
    assert not a.held()
    real_time.sleep(QUICK.retry_period * 3)
    assert lost.reasons == []
    assert not leadership.lost.is_set()


@pytest.mark.parametrize("fault", ["fail_reads", "fail_writes"])
def test_lost_when_it_cannot_be_renewed(cluster: Flaky, fault: str) -> None:
    """When renewals fail until the deadline, leadership is lost, and the reason told."""
    lost = Lost()
    a, leadership = quick(cluster, "a", lost)
    leadership.try_acquire(threading.Event())
    setattr(cluster, fault, True)
    assert leadership.lost.wait(5)
    assert not a.held()
    leadership.release()
    assert lost.reasons == ["no answer"]


def test_lost_to_another(cluster: Flaky) -> None:
    """When another is in the lease, its name is told."""
    lost = Lost()
    _, leadership = quick(cluster, "a", lost)
    leadership.try_acquire(threading.Event())
    change(cluster, holderIdentity="b")
    assert leadership.lost.wait(5)
    leadership.release()
    assert lost.reasons == ["b is named by the lease"]


def test_lost_when_the_renewing_thread_hangs(cluster: Flaky) -> None:
    """Though nobody can tell so, writes are not allowed any more after the deadline."""
    a, leadership = quick(cluster, "a")
    leadership.try_acquire(threading.Event())
    hang = threading.Event()

    def wait() -> None:
        hang.wait(10)

    cluster.before = wait
    deadline = real_time.monotonic() + 2
    while a.held() and real_time.monotonic() < deadline:
        real_time.sleep(0.01)
    assert not a.held()
    hang.set()
    assert leadership.lost.wait(5)


def test_lost_by_a_fault_of_ours(cluster: Flaky) -> None:
    """Not even an exception leaves leadership unwatched."""
    lost = Lost()
    _, leadership = quick(cluster, "a", lost)
    leadership.try_acquire(threading.Event())

    def fail() -> None:
        raise RuntimeError("a bug")

    cluster.before = fail
    assert leadership.lost.wait(5)
    cluster.before = lambda: None
    leadership.release()
    assert lost.reasons in (["RuntimeError: a bug"], ["leadership was lost"])


def test_try_acquire_says_who_leads(cluster: Flaky) -> None:
    """Beside a holder that renews, who leads is told long before its lease could have expired."""
    _, first = quick(cluster, "a")
    first.try_acquire(threading.Event())
    _, second = quick(cluster, "b")
    began = real_time.monotonic()
    found = second.try_acquire(threading.Event())
    assert isinstance(found, HeldBy | Leading)
    first.release()
    assert found == HeldBy("a", alive=True)
    assert real_time.monotonic() - began < QUICK.duration


def test_try_acquire_of_a_stale_lease(cluster: Flaky, time: FakeTime) -> None:
    """A holder that shows no sign of life is waited for once, and then succeeded."""
    candidate(cluster, "dead", time).claim()
    own = candidate(cluster, "b", time)
    leadership = Leadership(own, on_lost=ignore, runtime=time)
    began = time.now
    assert leadership.try_acquire(time) == Leading()
    assert 15 <= time.now - began < 18
    leadership.release()


def test_try_acquire_has_an_end(cluster: Flaky, time: FakeTime) -> None:
    """A dead holder of a lease of an hour, or a server that does not answer, is waited for as long as our own lease."""
    candidate(cluster, "dead", time).claim()
    change(cluster, leaseDurationSeconds=3600)
    for fault, found in (("", HeldBy("dead", alive=False)), ("fail_reads", Unclear("no answer"))):
        if fault:
            setattr(cluster, fault, True)
        own = candidate(cluster, "b", time)
        began = time.now
        assert Leadership(own, on_lost=ignore, runtime=time).try_acquire(time) == found
        assert time.now - began < 22


def test_acquire_waits_and_tells(cluster: Flaky, time: FakeTime) -> None:
    """A daemon waits for as long as it takes, and tells what for whenever that changes."""
    other = candidate(cluster, "a", time)
    other.claim()
    told: list[object] = []
    rounds = itertools.count()

    def on_wait() -> None:
        number = next(rounds)
        cluster.fail_reads = number == 8
        if number < 6:
            other.claim()

    time.on_wait = on_wait
    leadership = Leadership(candidate(cluster, "b", time), on_lost=ignore, runtime=time)
    assert leadership.acquire(time, told=told.append) == Leading()
    leadership.release()
    alive = HeldBy("a", alive=True)
    assert told == [HeldBy("a", alive=False), alive, Unclear("no answer"), alive]


def test_acquire_ends_when_told_to_stop(cluster: Flaky, time: FakeTime) -> None:
    """Stopping ends the wait at once."""
    candidate(cluster, "a", time).claim()
    time.on_wait = lambda: setattr(time, "stopped", True)
    leadership = Leadership(candidate(cluster, "b", time), on_lost=ignore)
    assert leadership.acquire(time, told=ignore) == Unclear("stopping")


def test_malformed_lease(cluster: Flaky, time: FakeTime) -> None:
    """A lease that cannot be read is not taken."""
    body: Mapping[str, Any] = msgspec.json.decode(
        b'{"apiVersion":"coordination.k8s.io/v1","kind":"Lease","metadata":{"name":"gc"},"spec":{"holderIdentity":5}}'
    )
    cluster.inner.create(LEASES, body, namespace="kube-system")
    assert isinstance(candidate(cluster, "a", time).claim(), Unclear)
