"""Certificates over time, on a cluster in memory: whole rotations, mishaps, and programs that overtake one another."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from hypothesis import example, given, settings
from hypothesis import strategies as st

from certs.model import Model, refusals
from certs.odd import SIGNS, hand_made, odd_but_good_cas, unreadable, usage, useless_cas
from certs.shape import assert_is_ca, assert_is_leaf
from poolwarden.certs.decide import (
    AdoptCas,
    Blocked,
    CreateCa,
    DropOldCa,
    IntroduceCa,
    IssueLeaf,
    NoteReplaced,
    NoteSeen,
    Nothing,
    PublishBundle,
    Step,
    Wait,
    decide,
    rotation,
)
from poolwarden.certs.issue import certificate_pem, is_signed_by, key_pem, new_ca, read_certificates, renewed_from
from poolwarden.certs.keep import Kept, keep, keep_to_the_end
from poolwarden.certs.kinds import MUTATING, VALIDATING
from poolwarden.certs.report import report, table
from poolwarden.certs.settings import Settings
from poolwarden.certs.store import perform, read_state
from poolwarden.cluster.interface import Doubt, Failed, Outdated, WriteOutcome

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
SETTINGS = Settings(namespace="poolwarden")
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
CONFIGURATIONS = ((MUTATING.kind, SETTINGS.mutating), (VALIDATING.kind, SETTINGS.validating))


def never(_: float) -> bool:
    """A pause that takes no time and is never the last."""
    return False


def once(model: Model) -> Kept:
    """One pass."""
    return keep(model, SETTINGS, never)


def kinds(kept: Kept) -> list[type[Step]]:
    """What was done."""
    return [type(step) for step in kept.steps]


@pytest.fixture
def model() -> Model:
    """A cluster with both configurations installed, and nothing else."""
    model = Model(NOW)
    model.install(SETTINGS, "a.x.io", "b.x.io")
    return model


@pytest.fixture
def running(model: Model) -> Model:
    """The same, with certificates in order for an hour."""
    assert isinstance(once(model).end, Nothing)
    model.time += timedelta(hours=1)
    return model


def assert_in_order(model: Model) -> None:
    """One CA, one serving certificate, one bundle everywhere."""
    ca = read_certificates(model.secret(SETTINGS.ca_secret)["tls.crt"])[0]
    assert_is_ca(ca)
    assert_is_leaf(model.leaf(SETTINGS), ca)
    assert model.secret(SETTINGS.ca_secret).keys() == {"tls.crt", "tls.key"}
    assert read_certificates(model.secret(SETTINGS.tls_secret)["ca.crt"]) == (ca,)
    for kind, name in CONFIGURATIONS:
        assert model.bundle(kind, name) == (ca,)


def settle(model: Model) -> None:
    """Let time pass and passes be made, one a minute, until nothing is left to do."""
    for _ in range(60):
        if isinstance(once(model).end, Nothing):
            return
        model.time += 60 * SECOND
    raise AssertionError(once(model).end)


def test_from_nothing(model: Model) -> None:
    """One pass makes everything; the next does nothing."""
    kept = once(model)
    assert kinds(kept) == [CreateCa, IssueLeaf, PublishBundle, PublishBundle]
    assert isinstance(kept.end, Nothing)
    assert_in_order(model)
    assert once(model).steps == ()


def test_configurations_that_come_later() -> None:
    """What is installed after the certificates were made gets the bundle by the next pass."""
    model = Model(NOW)
    assert kinds(once(model)) == [CreateCa, IssueLeaf]
    model.install(SETTINGS, "a.x.io")
    assert kinds(once(model)) == [PublishBundle, PublishBundle]
    assert_in_order(model)


def test_rotation(running: Model) -> None:
    """Phase 1, a wait, phase 2, a wait, the end; at no moment is anything refused."""
    before = running.leaf(SETTINGS)
    kept = keep(running, SETTINGS, never, rotate=True)
    assert kinds(kept) == [IntroduceCa, PublishBundle, PublishBundle, PublishBundle, NoteSeen]
    assert kept.end == Wait("API servers may not yet trust the newest CA", running.time + 10 * SECOND)
    assert running.leaf(SETTINGS) == before
    running.time += 10 * SECOND
    kept = once(running)
    assert kinds(kept) == [IssueLeaf, NoteReplaced]
    assert kept.end == Wait("pods may still serve a certificate of an older CA", running.time + 600 * SECOND)
    running.time += 600 * SECOND
    kept = once(running)
    assert kinds(kept) == [DropOldCa, PublishBundle, PublishBundle, PublishBundle]
    assert isinstance(kept.end, Nothing)
    assert_in_order(running)
    assert not is_signed_by(running.leaf(SETTINGS), before)
    assert refusals(running, SETTINGS) == []


def test_rotation_is_seen_to_be_checked(running: Model) -> None:
    """The check of these tests finds fault with a rotation in one phase."""
    hasty = Settings(namespace="poolwarden", propagation=0, retirement=0)
    keep(running, hasty, never, rotate=True)
    running.time += timedelta(hours=1)
    assert refusals(running, SETTINGS)


def test_twelve_years(model: Model) -> None:
    """With a pass now and then, everything is renewed in time, and nothing is ever refused."""
    cas = set()
    leaves = set()
    for _ in range(12 * 365 // 3):
        while not isinstance(once(model).end, Nothing):
            model.time += 60 * SECOND
        assert_in_order(model)
        cas.add(model.bundle(*CONFIGURATIONS[0])[0])
        leaves.add(model.leaf(SETTINGS))
        model.time += 3 * DAY
        assert model.time < model.leaf(SETTINGS).not_valid_after_utc - 25 * DAY
    assert len(cas) == pytest.approx(12 * 3 / 2, abs=1)
    assert len(leaves) == pytest.approx(len(cas) * 5, abs=3)  # a CA signs for 243 days, a certificate serves for 60
    assert refusals(model, SETTINGS) == []


def test_asleep_too_long(running: Model) -> None:
    """After a sleep beyond every date all is made anew in one pass, but for the bundle's way and the old CA's end."""
    running.time += 500 * DAY
    assert kinds(once(running))[:2] == [IntroduceCa, IssueLeaf]
    settle(running)
    assert_in_order(running)


def test_to_the_end(running: Model) -> None:
    """A program that waits brings a rotation to its end, and says what it waits for."""
    told: list[str] = []

    def pause(seconds: float) -> bool:
        running.time += timedelta(seconds=seconds)
        return False

    keep(running, SETTINGS, pause, rotate=True)
    kept = keep_to_the_end(running, SETTINGS, pause, lambda wait: told.append(wait.reason))
    assert isinstance(kept.end, Nothing)
    assert kinds(kept) == [IssueLeaf, NoteReplaced, DropOldCa, PublishBundle, PublishBundle, PublishBundle]
    assert set(told) == {
        "API servers may not yet trust the newest CA",
        "pods may still serve a certificate of an older CA",
    }
    keep(running, SETTINGS, pause, rotate=True)
    assert keep_to_the_end(running, SETTINGS, lambda _: True, lambda _: None).end == Blocked("stopping")


def test_twice_at_once(running: Model) -> None:
    """Two rotations asked for one after the other are one."""
    keep(running, SETTINGS, never, rotate=True)
    assert keep(running, SETTINGS, never, rotate=True).steps == ()
    settle(running)
    assert len({one.value["data"]["tls.crt"] for one in running.history["Secret", SETTINGS.ca_secret]}) == 2


def test_rotation_after_rotation(running: Model) -> None:
    """The next may begin when the serving certificate has changed, before the old CA is dropped; nothing is refused."""
    for _ in range(3):
        keep(running, SETTINGS, never, rotate=True)
        running.time += 10 * SECOND
        assert kinds(once(running)) == [IssueLeaf, NoteReplaced]
        running.time += 5 * SECOND
    assert len(running.bundle(*CONFIGURATIONS[0])) == 4
    settle(running)
    assert_in_order(running)
    assert refusals(running, SETTINGS) == []


# --- what others do ---------------------------------------------------------------------------------------------------


def drop_the_ca(model: Model) -> None:
    """The Secret of the CAs is deleted."""
    model.remove("Secret", SETTINGS.ca_secret)


def drop_the_leaf(model: Model) -> None:
    """The Secret of the pods is deleted."""
    model.remove("Secret", SETTINGS.tls_secret)


def drop_both(model: Model) -> None:
    """Both Secrets are deleted."""
    drop_the_ca(model)
    drop_the_leaf(model)


def break_the_ca(model: Model) -> None:
    """The key of the CA is overwritten."""
    if ("Secret", SETTINGS.ca_secret) in model.objects:
        model.edit_secret(SETTINGS.ca_secret, tls_key=b"nonsense")


def break_the_leaf(model: Model) -> None:
    """The serving certificate is overwritten."""
    if ("Secret", SETTINGS.tls_secret) in model.objects:
        model.edit_secret(SETTINGS.tls_secret, tls_crt=b"nonsense")


def empty_a_bundle(model: Model) -> None:
    """A caBundle is taken away."""
    model.reset(MUTATING.kind, SETTINGS.mutating)


def foreign_bundle(model: Model) -> None:
    """A caBundle is set to another CA."""
    model.reset(VALIDATING.kind, SETTINGS.validating, certificate_pem(new_ca(model.time, 30 * DAY).certificate))


def ask_for_rotation(model: Model) -> None:
    """`certs rotate` is called."""
    keep(model, SETTINGS, never, rotate=True)


def back_up(model: Model) -> None:
    """Both Secrets are copied."""
    model.back_up()


def restore_the_ca(model: Model) -> None:
    """The Secret of the CAs is put back from the copy."""
    model.restore(SETTINGS.ca_secret)


def restore_both(model: Model) -> None:
    """Both Secrets are put back from the copy."""
    model.restore(SETTINGS.ca_secret, SETTINGS.tls_secret)


def rotate_to_the_end(model: Model) -> None:
    """`certs rotate` is called, and all that follows has followed."""
    ask_for_rotation(model)
    settle(model)


MISHAPS = [
    drop_the_ca,
    drop_the_leaf,
    drop_both,
    break_the_ca,
    break_the_leaf,
    empty_a_bundle,
    foreign_bundle,
    restore_the_ca,
    restore_both,
]


@pytest.mark.parametrize("mishap", MISHAPS)
@pytest.mark.parametrize("rotating", [False, True])
def test_mishap(running: Model, mishap: Callable[[Model], None], *, rotating: bool) -> None:
    """Whatever is lost or reset, all is in order again soon, and nothing that still works is refused on the way."""
    back_up(running)
    if rotating:
        ask_for_rotation(running)
        running.time += 10 * SECOND
        once(running)
        running.time += 5 * SECOND
    mishap(running)
    running.time += SECOND
    settle(running)
    assert_in_order(running)
    assert refusals(running, SETTINGS) == []


@pytest.mark.parametrize("restore", [restore_the_ca, restore_both])
def test_backup_of_before_a_rotation(running: Model, restore: Callable[[Model], None]) -> None:
    """A CA that a restored Secret does not know is adopted, published on, and dropped only when no pod serves by it."""
    back_up(running)
    ask_for_rotation(running)
    running.time += 10 * SECOND
    once(running)
    running.time += 600 * SECOND
    settle(running)
    newer = running.bundle(*CONFIGURATIONS[0])[0]
    served = running.leaf(SETTINGS)
    running.time += 30 * DAY
    restore(running)
    kept = once(running)
    assert AdoptCas in kinds(kept)
    assert isinstance(kept.end, Wait)
    older = running.bundle(*CONFIGURATIONS[0])[0]
    for kind, name in CONFIGURATIONS:
        assert running.bundle(kind, name) == (older, newer)
    assert is_signed_by(served, newer)
    running.time += 599 * SECOND
    once(running)
    assert newer in running.bundle(*CONFIGURATIONS[0])
    running.time += 11 * SECOND
    settle(running)
    assert_in_order(running)
    assert running.bundle(*CONFIGURATIONS[0]) == (older,)
    assert refusals(running, SETTINGS) == []


def test_backup_of_the_end_of_a_rotation(running: Model) -> None:
    """Nothing of a restored Secret says since when it is in store: what it names as old is kept for as long as ever."""
    running.back_up()
    first = dict(running.backup)
    ask_for_rotation(running)
    running.time += 10 * SECOND
    once(running)
    running.time += 590 * SECOND  # a moment later the old CA is dropped
    running.back_up()
    second = dict(running.backup)
    settle(running)
    running.backup = first
    restore_the_ca(running)
    settle(running)
    running.time += timedelta(hours=1)
    running.backup = second
    restore_both(running)  # pods serve by the CA that is the old one here
    settle(running)
    assert_in_order(running)
    assert refusals(running, SETTINGS) == []


class Program:
    """One of several programs, whose passes may stop between reading and writing."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.steps = self._steps()

    def _steps(self) -> Iterator[WriteOutcome | None]:
        while True:
            state = read_state(self.model, SETTINGS)
            now = self.model.now()
            action = decide(state, SETTINGS, now)
            yield None
            if not isinstance(action, Wait | Nothing | Blocked):
                # A write is given up after half a minute: what is later than that is not sent.
                late = self.model.time - now > 35 * SECOND
                yield None if late else perform(self.model, SETTINGS, state, action, now)


EVENTS = st.one_of(
    st.sampled_from(["a", "a", "b", "b", "c"]),
    st.sampled_from([ask_for_rotation, *MISHAPS]),
    st.sampled_from([back_up, rotate_to_the_end, restore_the_ca, restore_both]),
    st.sampled_from([1, 5, 9, 11, 30, 89, 91, 599, 601, 86400, 30 * 86400]),
)


@settings(max_examples=150, deadline=None)
@given(events=st.lists(EVENTS, max_size=60))
@example(events=[rotate_to_the_end, restore_the_ca, 86400])
@example(events=[rotate_to_the_end, restore_both, 86400])
def test_any_order_of_events(events: list[str | int | Callable[[Model], None]]) -> None:
    """Programs that overtake one another, rotations and mishaps in any order: no working certificate is ever refused.

    At every moment what any pod may serve, by the Secret of up to 90 s ago, is accepted under each bundle of ours that
    any API server may have. And it ends in order. (Not tried: that a CA is deleted everywhere while pods serve by it.)
    """
    model = Model(NOW)
    model.install(SETTINGS, "a.x.io", "b.x.io")
    once(model)
    model.back_up()
    model.time += timedelta(minutes=10)
    programs = {name: Program(model) for name in "abc"}
    for event in events:
        match event:
            case str():
                next(programs[event].steps)
            case int():
                model.time += event * SECOND
                if event > 600:  # passes are made each minute or so
                    programs = {name: Program(model) for name in "abc"}
                    settle(model)
            case _:
                model.attempt(event, SETTINGS)
    model.time += 60 * SECOND
    settle(model)
    assert_in_order(model)
    assert refusals(model, SETTINGS) == []


def test_rotation_without_a_leaf(running: Model) -> None:
    """If what is served is lost when a rotation is asked for, it is made again first; the rotation still begins."""
    drop_the_leaf(running)
    assert kinds(keep(running, SETTINGS, never, rotate=True))[:2] == [IssueLeaf, IntroduceCa]


def test_overtaken(running: Model) -> None:
    """A program that read before another rotated cannot write: not a bundle, not a CA, not a certificate."""
    model = running
    model.reset(MUTATING.kind, SETTINGS.mutating)
    model.time = renewed_from(model.leaf(SETTINGS))
    stale = read_state(model, SETTINGS)
    repair = decide(stale, SETTINGS, NOW)
    renew = decide(stale, SETTINGS, model.time)
    introduce = rotation(stale, SETTINGS, NOW)
    assert isinstance(repair, PublishBundle)
    assert isinstance(renew, IssueLeaf)
    assert isinstance(introduce, IntroduceCa)
    ask_for_rotation(model)
    for step in (repair, renew, introduce):
        assert isinstance(perform(model, SETTINGS, stale, step, model.time), Outdated)


def test_two_from_nothing(model: Model) -> None:
    """Of two that begin at once, the second finds the first one's CA and goes on from there."""
    stale = read_state(model, SETTINGS)
    create = decide(stale, SETTINGS, NOW)
    assert isinstance(create, CreateCa)
    once(model)
    assert isinstance(perform(model, SETTINGS, stale, create, NOW), Outdated)
    assert once(model).steps == ()


# --- odd certificates -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("raised", unreadable(NOW))
@pytest.mark.parametrize("where", ["caBundle", "ca.crt", "tls.crt", "CA", "previous.crt", "old.crt"])
def test_unreadable_certificate(running: Model, raised: str, where: str) -> None:
    """A certificate that cannot be read, wherever it is put, is replaced; the report tells of the rest meanwhile."""
    pem = unreadable(NOW)[raised]
    match where:
        case "caBundle":
            running.reset(MUTATING.kind, SETTINGS.mutating, pem)
        case "ca.crt" | "tls.crt":
            running.edit_secret(SETTINGS.tls_secret, **{where.replace(".", "_"): pem})
        case "CA":
            running.edit_secret(SETTINGS.ca_secret, tls_crt=pem)
        case _:
            ask_for_rotation(running)
            running.edit_secret(SETTINGS.ca_secret, **{where.replace(".", "_"): pem})
    before = read_state(running, SETTINGS)
    assert table(report(before, decide(before, SETTINGS, NOW), SETTINGS, NOW))
    running.time += SECOND
    settle(running)
    assert_in_order(running)


@pytest.mark.parametrize("which", useless_cas(NOW))
def test_useless_ca(running: Model, which: str) -> None:
    """A CA put in by hand, by which API servers accept nothing, is told of, signs nothing, and is replaced."""
    ca = useless_cas(NOW)[which]
    running.edit_secret(SETTINGS.ca_secret, tls_crt=certificate_pem(ca.certificate), tls_key=key_pem(ca.key))
    running.time += SECOND
    kept = once(running)
    assert IntroduceCa in kinds(kept)
    assert any("is such that what it signs is refused: " in step.reason for step in kept.steps)
    settle(running)
    assert_in_order(running)
    assert refusals(running, SETTINGS) == []


@pytest.mark.parametrize("which", odd_but_good_cas(NOW))
def test_odd_but_good_ca(running: Model, which: str) -> None:
    """A CA put in by hand that is as good as ours signs like ours."""
    ca = odd_but_good_cas(NOW)[which]
    running.edit_secret(SETTINGS.ca_secret, tls_crt=certificate_pem(ca.certificate), tls_key=key_pem(ca.key))
    running.time += SECOND
    settle(running)
    assert running.bundle(*CONFIGURATIONS[0]) == (ca.certificate,)
    assert is_signed_by(running.leaf(SETTINGS), ca.certificate)
    assert refusals(running, SETTINGS) == []


def test_useless_leaf(running: Model) -> None:
    """A serving certificate put in by hand is replaced if API servers refuse it: here, it is its own CA's certificate."""
    ca = hand_made(NOW, SIGNS)
    running.edit_secret(SETTINGS.ca_secret, tls_crt=certificate_pem(ca.certificate), tls_key=key_pem(ca.key))
    settle(running)
    names = x509.SubjectAlternativeName([x509.DNSName(name) for name in SETTINGS.names])
    leaf = hand_made(NOW, (names, False), usage("digital_signature"), key=ca.key)
    running.edit_secret(SETTINGS.tls_secret, tls_crt=certificate_pem(leaf.certificate), tls_key=key_pem(leaf.key))
    kept = once(running)
    assert kinds(kept) == [IssueLeaf]
    assert kept.steps[0].reason.startswith("the serving certificate is refused: ")
    assert isinstance(kept.end, Nothing)


@pytest.mark.parametrize("days", [0, -1, 36501, 10_000_000])
def test_impossible_lives(days: int) -> None:
    """A life that no certificate can have is refused when it is asked for; the longest is possible."""
    for field in ("ca_days", "leaf_days"):
        with pytest.raises(ValueError, match=f"a life of {days} days; allowed are 1 to 36500"):
            Settings("poolwarden", **{field: days})  # type: ignore[arg-type] # a number
    assert new_ca(NOW, Settings("poolwarden", ca_days=36500).ca_life)


# --- failures ---------------------------------------------------------------------------------------------------------


def test_one_configuration_forbidden(model: Model) -> None:
    """What cannot be written is told, and the rest is done."""
    model.forbidden = {("patch", MUTATING.kind)}
    kept = once(model)
    assert kinds(kept) == [CreateCa, IssueLeaf, PublishBundle]
    assert kept.end == Blocked("cannot patch mutatingwebhookconfigurations: 403")
    assert model.bundle(*CONFIGURATIONS[1])
    model.forbidden = set()
    assert kinds(once(model)) == [PublishBundle]
    assert_in_order(model)


def test_secrets_forbidden(running: Model) -> None:
    """Without the right to write Secrets a reset caBundle is still repaired."""
    running.forbidden = {("patch", "Secret"), ("create", "Secret")}
    running.reset(MUTATING.kind, SETTINGS.mutating)
    running.time = renewed_from(running.leaf(SETTINGS))
    kept = once(running)
    assert kinds(kept) == [PublishBundle]
    assert kept.end == Blocked("cannot patch secrets: 403")


def test_someone_who_undoes_everything(running: Model) -> None:
    """A fight over a caBundle ends after some steps, and is told."""

    class Undoing(Model):
        def patch(self, *args: object, **kwargs: object) -> WriteOutcome:
            outcome = super().patch(*args, **kwargs)  # type: ignore[arg-type] # passed on
            self.reset(MUTATING.kind, SETTINGS.mutating)
            return outcome

    running.__class__ = Undoing
    running.reset(MUTATING.kind, SETTINGS.mutating)
    kept = once(running)
    assert isinstance(kept.end, Blocked)
    assert kept.end.reason.startswith("others keep changing what we write; last: MutatingWebhookConfiguration")


def test_conflicts_without_end(running: Model) -> None:
    """One that is overtaken every time gives up after some tries, and at once when it is told to stop."""

    class Overtaken(Model):
        def patch(self, *_: object, **__: object) -> WriteOutcome:
            return Outdated("the object has been modified")

    running.__class__ = Overtaken
    running.reset(MUTATING.kind, SETTINGS.mutating)
    pauses: list[float] = []

    def pause(seconds: float) -> bool:
        pauses.append(seconds)
        return False

    kept = keep(running, SETTINGS, pause)
    assert isinstance(kept.end, Blocked)
    assert len(pauses) == 10
    assert keep(running, SETTINGS, lambda _: True).end == Blocked("stopping")


def test_lost_answer(running: Model) -> None:
    """A write whose answer was lost is looked for, not repeated."""

    class Deaf(Model):
        def patch(self, *args: object, **kwargs: object) -> WriteOutcome:
            super().patch(*args, **kwargs)  # type: ignore[arg-type] # passed on
            return Failed(Doubt.UNAVAILABLE, "no answer", uncertain=True)

    running.__class__ = Deaf
    kept = keep(running, SETTINGS, never, rotate=True)
    running.__class__ = Model
    assert isinstance(kept.end, Wait)
    settle(running)
    assert_in_order(running)
    assert len({one.value["data"]["tls.crt"] for one in running.history["Secret", SETTINGS.ca_secret]}) == 2
