"""Metrics: what a scrape shows after sweeps over a cluster in files, and what the probes answer."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from http import HTTPStatus

import pytest
from prometheus_client.parser import text_string_to_metric_families

from factories import Object, blue, claim, endpoint, green, pod, pool
from faults import Crash, World, calls, crash_before, outdated, unread
from poolwarden.gc.conflicts import ConflictsTold
from poolwarden.gc.health import Due, Health
from poolwarden.gc.metrics import GcMetrics
from poolwarden.gc.metrics_server import Page, Served, Unbound, metrics_page, probe_page, serve
from poolwarden.gc.policy import Ceiling
from poolwarden.gc.schedule import due_after
from poolwarden.gc.sweep import Settings, Sweep, SweepReport
from poolwarden.gc.timing import Step, StepOutcome, Timers
from poolwarden.ipam.ranges import parse_range

A, B = "10.0.0.10", "10.0.0.11"
LIVE = pod("live", ips=[B])
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Clock:
    """A clock of seconds that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        """The time."""
        return self.now


def world(*others: Object) -> World:
    """Two pools; one has a leak and a record in use."""
    return World(blue({A: claim("app"), B: LIVE}), green({}), LIVE, endpoint(LIVE, {"eth0": f"{B}@blue"}), *others)


def swept(metrics: GcMetrics, world: World, ceiling: Ceiling = Ceiling.RELEASE, **more: int) -> SweepReport:
    """One sweep, as the daemon makes it."""
    cluster = ConflictsTold(world, metrics.conflicted)
    settings = Settings(ceiling, **more)  # type: ignore[arg-type]
    report = Sweep(cluster, settings, lambda _seconds: False, timers=metrics.timers).run()
    metrics.swept(report)
    return report


def scraped(metrics: GcMetrics) -> Samples:
    """Every sample of a scrape, by name and labels."""
    families = text_string_to_metric_families(metrics.text().decode())
    return {(s.name, frozenset(s.labels.items())): s.value for family in families for s in family.samples}


def value(metrics: GcMetrics, name: str, **labels: str) -> float | None:
    """One sample, None if there is none."""
    return scraped(metrics).get((f"poolwarden_{name}", frozenset(labels.items())))


def of_pool(name: str = "blue", **labels: str) -> dict[str, str]:
    """The labels of a SpiderIPPool's series."""
    return {"ipam": "spiderpool", "namespace": "", "pool": name, **labels}


def until_released(metrics: GcMetrics, world: World) -> SweepReport:
    """Sweeps until the leak is due and released."""
    for minutes in (0, 11):
        world.later(minutes=minutes)
        swept(metrics, world)
    world.later(minutes=11)
    return swept(metrics, world)


# --- pools and findings -----------------------------------------------------------------------------------------------


def test_states_sum_to_the_size() -> None:
    """Each state of each pool is a sample, a state of none as well."""
    metrics = GcMetrics()
    swept(metrics, world())
    states = {
        state: value(metrics, "pool_addresses", **of_pool(state=state))
        for state in ("allocated", "unknown", "cooldown", "free")
    }
    assert states == {"allocated": 2, "unknown": 0, "cooldown": 0, "free": 19}


def test_findings_and_their_age() -> None:
    """Findings are counted by verdict and reason; the oldest one's age goes on between sweeps."""
    clock = Clock()
    metrics, scene = GcMetrics(clock), world()
    leak = of_pool(verdict="Leaked", reason="OwnerGone")
    swept(metrics, scene, Ceiling.OBSERVE)
    assert value(metrics, "pool_findings", **leak) == 1
    assert value(metrics, "oldest_finding_age_seconds", **leak) == 0
    scene.later(minutes=30)
    swept(metrics, scene, Ceiling.OBSERVE)
    clock.now += 12
    assert value(metrics, "oldest_finding_age_seconds", **leak) == 1812
    assert not [labels for name, labels in scraped(metrics) if ("verdict", "InUse") in labels]


def test_age_of_a_leak_survives_a_restart() -> None:
    """A new process takes a leak's age from the ledger."""
    scene = world()
    swept(GcMetrics(), scene, Ceiling.OBSERVE)
    scene.later(minutes=30)
    metrics = GcMetrics(Clock())
    swept(metrics, scene, Ceiling.OBSERVE)
    assert value(metrics, "oldest_finding_age_seconds", **of_pool(verdict="Leaked", reason="OwnerGone")) == 1800


def test_age_of_what_no_ledger_keeps() -> None:
    """A conflict is as old as this process knows it, whatever the sweeps between."""
    metrics = GcMetrics(Clock())
    scene = World(blue({}), LIVE, endpoint(LIVE, {"eth0": f"{B}@blue"}))
    conflict = of_pool(verdict="Conflict", reason="InUseUnrecorded")
    swept(metrics, scene)
    assert value(metrics, "oldest_finding_age_seconds", **conflict) == 0
    for _ in range(2):
        scene.later(minutes=5)
        swept(metrics, scene)
    assert value(metrics, "oldest_finding_age_seconds", **conflict) == 600
    metrics.stands_by()
    swept(metrics, scene)
    assert value(metrics, "oldest_finding_age_seconds", **conflict) == 0


def test_a_vanished_pool_has_no_series() -> None:
    """Delete a pool, sweep, scrape: no sample names it any more."""
    metrics, scene = GcMetrics(), world()
    swept(metrics, scene)
    assert value(metrics, "pool_addresses", **of_pool("green", state="free")) is not None
    scene.remove("SpiderIPPool", "green")
    swept(metrics, scene)
    assert not [labels for _, labels in scraped(metrics) if ("pool", "green") in labels]
    assert value(metrics, "pool_addresses", **of_pool("blue", state="free")) is not None


def test_what_was_released_is_no_finding() -> None:
    """The sweep that releases a leak takes it off findings and states, as the PoolGuard's status does."""
    metrics, scene = GcMetrics(), world()
    until_released(metrics, scene)
    assert scene.records("blue").keys() == {B}
    assert not [labels for _, labels in scraped(metrics) if ("verdict", "Leaked") in labels]
    counted = scene.status("blue")["addresses"]
    for state in ("allocated", "unknown", "cooldown", "free"):
        assert value(metrics, "pool_addresses", **of_pool(state=state)) == int(counted[state])
    assert value(metrics, "releases_total", ipam="spiderpool", reason="OwnerGone", outcome="released") == 1


def test_who_leads_no_more_shows_no_pools() -> None:
    """Pools are the new leader's to tell; sums stay."""
    metrics = GcMetrics()
    swept(metrics, world())
    metrics.stands_by()
    assert not [name for name, labels in scraped(metrics) if dict(labels).get("pool")]
    assert value(metrics, "sweeps_total", outcome="success") == 1


def test_uncountable_pools_have_no_states() -> None:
    """A pool whose records cannot be read shows its finding, and no states that might be wrong."""
    metrics = GcMetrics()
    swept(metrics, World(blue("{broken"), LIVE))
    assert value(metrics, "pool_addresses", **of_pool(state="free")) is None
    assert value(metrics, "pool_findings", **of_pool(verdict="Unknown", reason="EvidenceIncomplete")) == 1


def test_huge_pools() -> None:
    """The free addresses of a /64 are the nearest float."""
    metrics = GcMetrics()
    ips = "fd00::-fd00::ffff:ffff:ffff:ffff"
    swept(metrics, World(pool("huge", [ips], {}), LIVE))
    assert value(metrics, "pool_addresses", **of_pool("huge", state="free")) == float(parse_range(ips).size)


# --- sweeps -----------------------------------------------------------------------------------------------------------


def test_outcomes_of_sweeps() -> None:
    """Complete, with a problem, crashed: each is counted, and only the first is a success."""
    metrics, scene = GcMetrics(), world()
    assert value(metrics, "last_success_timestamp_seconds") == 0
    good = swept(metrics, scene)
    scene.later(minutes=5)
    scene.on(calls("list", "StatefulSet"), unread)
    assert not swept(metrics, scene).complete
    metrics.crashed()
    metrics.crashed()
    sums = [value(metrics, "sweeps_total", outcome=outcome) for outcome in ("success", "failure", "crash")]
    assert sums == [1, 1, 2]
    assert value(metrics, "last_success_timestamp_seconds") == good.at.timestamp()


def test_what_was_skipped() -> None:
    """What the live reads keep, what the limits cut and what a brake holds back is counted; zeros are shown."""
    metrics, scene = GcMetrics(), world()
    until_released(metrics, scene)
    assert {
        dict(labels)["reason"]: number for (name, labels), number in scraped(metrics).items() if "skip" in name
    } == {
        "gone": 0,
        "kept": 0,
        "deferred": 0,
        "braked": 0,
        "capped": 0,
    }
    scene = world()
    for _ in range(3):
        swept(metrics, scene, max_releases=0)
        scene.later(minutes=11)
    assert value(metrics, "skipped_total", reason="capped") == 1
    leaks = {f"10.0.0.{at}": claim(f"gone-{at}") for at in range(12, 31)}
    braked = swept(metrics, World(blue(leaks), LIVE))
    assert braked.braked
    assert value(metrics, "skipped_total", reason="braked") == len(leaks)


def test_write_conflicts() -> None:
    """A write that met a changed object is counted once, whether of a pool or of a guard."""
    metrics, scene = GcMetrics(), world()
    scene.on(calls("patch", "PoolGuard"), outdated)
    swept(metrics, scene)
    assert value(metrics, "write_conflicts_total") == 1
    scene.on(calls("patch", "SpiderIPPool"), outdated)
    for _ in range(3):
        scene.later(minutes=11)
        swept(metrics, scene)
    assert value(metrics, "write_conflicts_total") == 2


def test_every_step_is_timed() -> None:
    """A sweep that releases has read, judged, released, verified and rebalanced; a failed read is told apart."""
    metrics, scene = GcMetrics(), world()
    until_released(metrics, scene)
    scene.on(calls("list", "StatefulSet"), unread)
    swept(metrics, scene)
    counts = {
        (label["step"], label["outcome"]): number
        for (name, labels), number in scraped(metrics).items()
        if name == "poolwarden_sweep_step_duration_seconds_count" and (label := dict(labels))
    }
    assert counts == {
        ("read", "success"): 3,
        ("read", "failure"): 1,
        ("judge", "success"): 4,
        ("release", "success"): 4,
        ("verify", "success"): 1,
        ("rebalance", "success"): 4,
    }


def test_a_crash_is_timed() -> None:
    """A step that an exception leaves is recorded as crashed, and the exception goes on."""
    metrics, scene = GcMetrics(), world()
    scene.on(calls("list", "Pod"), crash_before)
    with pytest.raises(Crash):
        swept(metrics, scene)
    labels = {"step": "read", "outcome": "crash"}
    assert value(metrics, "sweep_step_duration_seconds_count", **labels) == 1


def test_first_finish_wins() -> None:
    """A timer that is finished heeds neither a second finish, nor the end of its step, nor an exception."""
    ends: list[tuple[Step, StepOutcome, float]] = []
    clock = Clock()
    timers = Timers(lambda step, outcome, seconds: ends.append((step, outcome, seconds)), clock)

    def fails_and_raises() -> None:
        with timers.step(Step.JUDGE) as timer:
            clock.now += 2
            timer.finish(StepOutcome.FAILURE)
            clock.now += 5
            timer.finish(StepOutcome.SUCCESS)
            raise ValueError("late")

    with pytest.raises(ValueError, match="late"):
        fails_and_raises()
    assert ends == [(Step.JUDGE, StepOutcome.FAILURE, 2.0)]


def test_buckets() -> None:
    """Buckets are cumulative; what takes exactly a bound falls under it, what takes longer than all under +Inf."""
    clock = Clock()
    metrics = GcMetrics(clock)
    for seconds in (0.25, 0.26, 1000.0):
        with metrics.timers.step(Step.READ):
            clock.now += seconds
    labels = {"step": "read", "outcome": "success"}
    within = [
        value(metrics, "sweep_step_duration_seconds_bucket", **labels, le=le) for le in ("0.1", "0.25", "0.5", "+Inf")
    ]
    assert within == [0, 1, 2, 3]
    assert value(metrics, "sweep_step_duration_seconds_sum", **labels) == pytest.approx(1000.51)


def test_scrapes_beside_sweeps() -> None:
    """Whatever sweeps and scrapes run at once, each scrape is of one moment: one pool's states sum to its size."""
    metrics = GcMetrics()
    full, empty = world(), World(blue({}), LIVE)
    reports = [Sweep(scene, Settings(), lambda _seconds: False).run() for scene in (full, empty)]
    wrong: list[Samples] = []
    over = threading.Event()

    def sweeping() -> None:
        for at in range(300):
            metrics.swept(reports[at % 2])
            with metrics.timers.step(Step.READ):
                pass

    def scraping() -> None:
        while not over.is_set():
            samples = scraped(metrics)
            of_blue = {
                dict(labels)["state"]: number
                for (name, labels), number in samples.items()
                if name == "poolwarden_pool_addresses" and ("pool", "blue") in labels
            }
            leaks = [name for name, labels in samples if ("verdict", "Leaked") in labels]
            if of_blue and (sum(of_blue.values()) != 21 or (of_blue["allocated"] == 2) != (len(leaks) == 2)):
                wrong.append(samples)

    sweepers = [threading.Thread(target=sweeping) for _ in range(3)]
    scrapers = [threading.Thread(target=scraping) for _ in range(3)]
    for thread in (*sweepers, *scrapers):
        thread.start()
    for thread in sweepers:
        thread.join()
    over.set()
    for thread in scrapers:
        thread.join()
    assert not wrong
    assert value(metrics, "sweeps_total", outcome="success") == 900
    assert value(metrics, "sweep_step_duration_seconds_count", step="read", outcome="success") == 900


# --- probes -----------------------------------------------------------------------------------------------------------

NOON = datetime(2026, 1, 10, 12, tzinfo=UTC)


def every(seconds: int) -> Due:
    """A schedule of equal intervals."""
    return lambda last, sweeps: last + sweeps * timedelta(seconds=seconds)


def test_health_of_who_stands_by() -> None:
    """Who waits for the lease is well and ready, however long it waits: it is there to take over."""
    health = Health(lambda: NOON + timedelta(days=1))
    assert (health.trouble(every(300)), health.waiting) == ("", "")


@pytest.mark.parametrize(("interval", "well", "late"), [(300, 15, 16), (5, 10, 11), (3600, 180, 181)])
def test_health_of_who_leads(interval: int, well: int, late: int) -> None:
    """Three missed sweeps are trouble, but never before ten minutes; a finished sweep makes it well again."""
    times = [NOON]
    health = Health(lambda: times[0])
    health.leads()
    assert health.waiting
    for _ in range(2):
        since = times[0]
        times[0] = since + timedelta(minutes=well)
        assert health.trouble(every(interval)) == ""
        times[0] = since + timedelta(minutes=late)
        assert health.trouble(every(interval)) == f"no sweep has finished since {since:%Y-%m-%dT%H:%M:%SZ}"
        health.swept()
        assert (health.trouble(every(interval)), health.waiting) == ("", "")
    times[0] += timedelta(days=1)
    health.stands_by()
    assert health.trouble(every(interval)) == ""


def test_due_by_a_schedule() -> None:
    """Sweeps are due by cron or interval; a date that never comes makes none due."""
    from apscheduler.triggers.cron import CronTrigger  # noqa: PLC0415
    from apscheduler.triggers.interval import IntervalTrigger  # noqa: PLC0415

    assert due_after(IntervalTrigger(seconds=300, timezone=UTC), NOON, 3) == NOON + timedelta(minutes=15)
    nightly = CronTrigger.from_crontab("0 3 * * *", timezone=UTC)
    assert due_after(nightly, NOON, 2) == datetime(2026, 1, 12, 3, tzinfo=UTC)
    never = CronTrigger.from_crontab("0 3 30 2 *", timezone=UTC)
    assert due_after(never, NOON, 3) == datetime.max.replace(tzinfo=UTC)


@pytest.fixture(params=["127.0.0.1", "[::1]"])
def ask(request: pytest.FixtureRequest) -> Callable[[str], tuple[int, str, bytes]]:
    """Ask a server of three pages."""
    metrics, health = GcMetrics(), Health()
    health.leads()
    pages: dict[str, Callable[[], Page]] = {
        "/metrics": lambda: metrics_page(metrics.text()),
        "/healthz": lambda: probe_page(""),
        "/readyz": lambda: probe_page(health.waiting),
    }
    served = serve(f"{request.param}:0", pages)
    if isinstance(served, Unbound) and request.param == "[::1]":
        pytest.skip(f"no IPv6 here: {served.reason}")
    assert isinstance(served, Served)

    def asked(path: str) -> tuple[int, str, bytes]:
        connection = http.client.HTTPConnection(request.param.strip("[]"), served.port, timeout=10)
        connection.request("GET", path)
        response = connection.getresponse()
        answer = response.status, response.getheader("Content-Type") or "", response.read()
        connection.close()
        return answer

    return asked


def test_served_pages(ask: Callable[[str], tuple[int, str, bytes]]) -> None:
    """Metrics in Prometheus' text form, probes with their reason, and nothing else."""
    status, content_type, text = ask("/metrics?x=1")
    assert (status, content_type) == (HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8")
    assert b'poolwarden_sweeps_total{outcome="crash"} 0.0' in text
    assert ask("/healthz")[::2] == (HTTPStatus.OK, b"ok\n")
    assert ask("/readyz")[::2] == (HTTPStatus.SERVICE_UNAVAILABLE, b"the first sweep is under way\n")
    assert ask("/")[0] == HTTPStatus.NOT_FOUND


def test_a_port_that_is_taken() -> None:
    """Who cannot listen says where and why."""
    first = serve("127.0.0.1:0", {})
    assert isinstance(first, Served)
    second = serve(f"127.0.0.1:{first.port}", {})
    assert isinstance(second, Unbound)
    assert second.reason == f"127.0.0.1:{first.port}: Address already in use"
