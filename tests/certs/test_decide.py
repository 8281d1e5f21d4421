"""What is decided in each state, and why."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from cryptography.x509 import Certificate

from poolwarden.certs.decide import (
    Action,
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
    Wait,
    decide,
    rotation,
)
from poolwarden.certs.issue import Pair, Unusable, new_ca, new_leaf, renewed_from
from poolwarden.certs.kinds import MUTATING, VALIDATING
from poolwarden.certs.settings import Settings
from poolwarden.certs.state import (
    NEVER,
    Authority,
    Configuration,
    Missing,
    Seen,
    Serving,
    State,
    Uninstalled,
    Unknown,
)

NOW = datetime(2026, 1, 10, 12, tzinfo=UTC)
DAY, SECOND = timedelta(days=1), timedelta(seconds=1)
SETTINGS = Settings(namespace="poolwarden")
PROPAGATION = SETTINGS.propagation * SECOND
RETIREMENT = SETTINGS.retirement * SECOND

OLDER = new_ca(NOW - 20 * DAY, 365 * DAY)
NEWER = new_ca(NOW - DAY, 365 * DAY)
BY_OLDER = new_leaf(OLDER, SETTINGS.names, NOW - 20 * DAY, 90 * DAY)
BY_NEWER = new_leaf(NEWER, SETTINGS.names, NOW - DAY, 90 * DAY)
BOTH = (NEWER.certificate, OLDER.certificate)
BROKEN = Unusable("holds no private key that can be read")


def configuration(kind: str, *bundle: Certificate, generation: int = 2) -> Configuration:
    """A configuration of two webhooks that hold this bundle."""
    return Configuration(kind, "poolwarden", f"uid-{kind}", "7", generation, {"a.x.io": bundle, "b.x.io": bundle})


def configurations(*bundle: Certificate) -> tuple[Configuration, ...]:
    """Both, with this bundle."""
    return configuration(MUTATING.kind, *bundle), configuration(VALIDATING.kind, *bundle)


def state(
    authority: Authority | Missing | Unknown,
    leaf: Pair | Unusable | Missing | Unknown,
    published: Sequence[Certificate] = (),
    handed: Sequence[Certificate] | None = None,
) -> State:
    """What is stored; `handed` is the ca.crt of the serving Secret, the same as what is published by default."""
    bundle = tuple(published if handed is None else handed)
    serving = leaf if isinstance(leaf, Missing | Unknown) else Serving("5", leaf, bundle)
    return State(authority, serving, configurations(*published))


def seen(before: State, at: datetime) -> State:
    """With the note that every caBundle holds the newest CA since then."""
    authority = before.authority
    assert isinstance(authority, Authority)
    assert isinstance(authority.newest, Pair)
    noted = Seen(before.seen_digest(authority.newest.certificate), at)
    return msgspec.structs.replace(before, authority=msgspec.structs.replace(authority, seen=noted))


def replaced(before: State, at: datetime) -> State:
    """With the note that what the newest CA signed is in store since then."""
    authority = before.authority
    assert isinstance(authority, Authority)
    assert isinstance(authority.newest, Pair)
    noted = Seen(before.replaced_digest(authority.newest.certificate, authority.retiring), at)
    return msgspec.structs.replace(before, authority=msgspec.structs.replace(authority, replaced=noted))


def at(when: datetime, stored: State, settings: Settings = SETTINGS) -> Action:
    """What is decided then."""
    return decide(stored, settings, when)


ALONE = Authority("3", NEWER)
ROTATING = Authority("3", NEWER, (OLDER,))
IN_ORDER = state(ALONE, BY_NEWER, [NEWER.certificate])
PHASE_ONE = state(ROTATING, BY_OLDER, BOTH)
PHASE_TWO = state(ROTATING, BY_NEWER, BOTH)


def test_in_order() -> None:
    """Nothing is done, until a certificate is at two thirds of its life."""
    action = at(NOW, IN_ORDER)
    assert action == Nothing("both certificates are in order", renewed_from(BY_NEWER.certificate))


def test_no_webhook_configurations() -> None:
    """Configurations that are not installed are said to be, and hinder nothing."""
    absent = tuple(Uninstalled(kind.kind, "poolwarden") for kind in (MUTATING, VALIDATING))
    action = at(NOW, msgspec.structs.replace(IN_ORDER, configurations=absent))
    assert isinstance(action, Nothing)
    assert action.reason == (
        "both certificates are in order; MutatingWebhookConfiguration poolwarden is not installed; "
        "ValidatingWebhookConfiguration poolwarden is not installed"
    )
    rotating = msgspec.structs.replace(PHASE_ONE, configurations=absent)
    assert isinstance(at(NOW, rotating), IssueLeaf)  # nobody calls


# --- from nothing -----------------------------------------------------------------------------------------------------


def test_from_nothing() -> None:
    """First a CA, then a serving certificate, so that pods can start; then the bundle."""
    assert at(NOW, state(Missing(), Missing())) == CreateCa("there is no Secret poolwarden-webhook-ca", (), ())
    issue = at(NOW, state(ALONE, Missing()))
    assert isinstance(issue, IssueLeaf)
    assert issue == IssueLeaf("there is no Secret poolwarden-webhook-tls", NEWER, (NEWER.certificate,))
    publish = at(NOW, state(ALONE, BY_NEWER, handed=[NEWER.certificate]))
    assert isinstance(publish, PublishBundle)
    assert publish.bundle == (NEWER.certificate,)
    assert publish.where == configuration(MUTATING.kind)
    assert publish.reason == (
        "MutatingWebhookConfiguration poolwarden: the caBundle of a.x.io, b.x.io is not that of our CAs"
    )


def test_without_the_right_to_read_configurations() -> None:
    """A first installation has its serving certificate all the same, and then says what is missing."""
    forbidden = (Unknown("cannot get it: 403"), configuration(VALIDATING.kind))
    stored = msgspec.structs.replace(state(ALONE, Missing()), configurations=forbidden)
    assert isinstance(at(NOW, stored), IssueLeaf)
    stored = msgspec.structs.replace(state(ALONE, BY_NEWER), configurations=forbidden)
    assert isinstance(at(NOW, stored), PublishBundle)  # where it can be
    done = (Unknown("cannot get it: 403"), configuration(VALIDATING.kind, NEWER.certificate))
    stored = msgspec.structs.replace(IN_ORDER, configurations=done)
    assert at(NOW, stored) == Blocked("cannot get it: 403")


def test_unknown_secrets() -> None:
    """Without the Secret of the CAs nothing is judged; without that of the pods the caBundles are kept all the same."""
    assert at(NOW, state(Unknown("no answer"), BY_NEWER)) == Blocked("no answer")
    assert isinstance(at(NOW, state(ALONE, Unknown("no answer"))), PublishBundle)
    assert at(NOW, state(ALONE, Unknown("no answer"), [NEWER.certificate])) == Blocked("no answer")


# --- the serving certificate ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("leaf", "reason"),
    [
        pytest.param(Missing(), "there is no Secret poolwarden-webhook-tls", id="missing"),
        pytest.param(BROKEN, "Secret poolwarden-webhook-tls holds no private key that can be read", id="broken"),
        pytest.param(
            new_leaf(NEWER, SETTINGS.names, NOW - 30 * DAY, 30 * DAY),
            "the serving certificate has expired at 2026-01-10 12:00:00+00:00",
            id="expired",
        ),
        pytest.param(
            new_leaf(NEWER, SETTINGS.names, NOW + DAY, 30 * DAY),
            "the serving certificate is not valid before 2026-01-11 11:55:00+00:00",
            id="future",
        ),
        pytest.param(
            new_leaf(new_ca(NOW, DAY), SETTINGS.names, NOW, DAY),
            "the serving certificate is signed by none of the CAs",
            id="foreign",
        ),
        pytest.param(
            new_leaf(NEWER, SETTINGS.names[1:], NOW, 30 * DAY),
            "the serving certificate lacks poolwarden-webhook.poolwarden.svc",
            id="names",
        ),
        pytest.param(
            new_leaf(NEWER, SETTINGS.names, NOW - 20 * DAY, 30 * DAY),
            "the serving certificate is past two thirds of its life",
            id="old",
        ),
    ],
)
def test_another_leaf(leaf: Pair | Unusable | Missing, reason: str) -> None:
    """A serving certificate is replaced for each of these reasons, by the CA that every API server trusts already."""
    assert at(NOW, state(ALONE, leaf, [NEWER.certificate])) == IssueLeaf(reason, NEWER, (NEWER.certificate,))


def test_at_two_thirds() -> None:
    """A serving certificate is renewed at two thirds of its life, and not before."""
    due = renewed_from(BY_NEWER.certificate)
    assert isinstance(at(due - SECOND, IN_ORDER), Nothing)
    assert isinstance(at(due, IN_ORDER), IssueLeaf)


def test_renewal_needs_no_publishing() -> None:
    """A certificate by the CA that is relied on is renewed first, even where a configuration cannot be read."""
    due = renewed_from(BY_NEWER.certificate)
    stored = msgspec.structs.replace(IN_ORDER, configurations=(Unknown("403"), configuration(VALIDATING.kind)))
    assert isinstance(at(due, stored), IssueLeaf)


def test_near_the_end_of_its_ca() -> None:
    """A certificate that ends with its CA is not renewed again and again: the next would end then, too."""
    ca = new_ca(NOW - 60 * DAY, 90 * DAY - SECOND)  # not yet at two thirds
    leaf = new_leaf(ca, SETTINGS.names, NOW - 60 * DAY, 90 * DAY)
    stored = state(Authority("3", ca), leaf, [ca.certificate])
    when = NOW - timedelta(hours=1)
    assert renewed_from(ca.certificate) > when
    older = msgspec.structs.replace(
        stored, serving=Serving("5", new_leaf(ca, SETTINGS.names, NOW - 70 * DAY, 100 * DAY), (ca.certificate,))
    )
    assert isinstance(at(when, older), Nothing)


# --- CAs --------------------------------------------------------------------------------------------------------------


def test_ca_at_two_thirds() -> None:
    """A CA is replaced at two thirds of its life; the one before it stays, and signs on."""
    due = renewed_from(NEWER.certificate)
    leaf = new_leaf(NEWER, SETTINGS.names, due - DAY, 90 * DAY)
    stored = state(ALONE, leaf, [NEWER.certificate])
    assert isinstance(at(due - SECOND, stored), Nothing)
    assert at(due, stored) == IntroduceCa("the CA is past two thirds of its life", (NEWER,), ())


def test_ca_that_cannot_sign() -> None:
    """An expired CA, or one of a clock that was ahead, is replaced; a CA that is none, too."""
    expired = new_ca(NOW - 30 * DAY, 30 * DAY)
    action = at(NOW, state(Authority("3", expired), BY_OLDER, [expired.certificate]))
    assert action == IntroduceCa("the CA has expired at 2026-01-10 12:00:00+00:00", (), ())
    ahead = new_ca(NOW + DAY, 30 * DAY)
    action = at(NOW, state(Authority("3", ahead), BY_OLDER, [ahead.certificate]))
    assert action == IntroduceCa("the CA is not valid before 2026-01-11 11:55:00+00:00", (), (ahead.certificate,))
    action = at(NOW, state(Authority("3", BY_OLDER), BY_OLDER, []))
    assert isinstance(action, IntroduceCa)
    assert action.reason == "the CA is no CA certificate"


def test_phase_one_publishes() -> None:
    """A CA that was introduced is published beside the others, newest first, in one configuration after the other."""
    stored = state(ROTATING, BY_OLDER, [OLDER.certificate])
    assert at(NOW, stored) == PublishBundle(
        "MutatingWebhookConfiguration poolwarden: the caBundle of a.x.io, b.x.io is not that of our CAs",
        BOTH,
        configuration(MUTATING.kind, OLDER.certificate),
    )
    half = (configuration(MUTATING.kind, *BOTH), configuration(VALIDATING.kind, OLDER.certificate))
    action = at(NOW, msgspec.structs.replace(stored, configurations=half))
    assert isinstance(action, PublishBundle)
    assert action.where == half[1]
    action = at(NOW, state(ROTATING, BY_OLDER, BOTH, handed=[OLDER.certificate]))
    assert action == PublishBundle(
        "Secret poolwarden-webhook-tls: ca.crt is not the bundle", BOTH, Serving("5", BY_OLDER, (OLDER.certificate,))
    )


def test_phase_one_waits() -> None:
    """What every caBundle holds is noted, and trusted after the propagation, not before."""
    note = at(NOW, PHASE_ONE)
    assert note == NoteSeen("every caBundle holds the newest CA", PHASE_ONE.seen_digest(NEWER.certificate))
    noted = seen(PHASE_ONE, NOW)
    wait = Wait("API servers may not yet trust the newest CA", NOW + PROPAGATION)
    assert at(NOW, noted) == wait
    assert at(NOW + PROPAGATION - SECOND, noted) == wait
    assert at(NOW + PROPAGATION, noted) == IssueLeaf("there is a newer CA, and every API server trusts it", NEWER, BOTH)


def test_configuration_that_changed_meanwhile() -> None:
    """A change of any webhook, by whomever, begins the wait anew: the bundle may have been another in between."""
    noted = seen(PHASE_ONE, NOW)
    changed = (configuration(MUTATING.kind, *BOTH, generation=4), noted.configurations[1])
    action = at(NOW + DAY, msgspec.structs.replace(noted, configurations=changed))
    assert isinstance(action, NoteSeen)


def test_caBundle_that_was_reset() -> None:  # noqa: N802 - the field's name
    """A bundle that somebody reset is repaired before a rotation goes on."""
    noted = seen(PHASE_ONE, NOW)
    reset = (configuration(MUTATING.kind, OLDER.certificate, generation=3), noted.configurations[1])
    assert isinstance(at(NOW + DAY, msgspec.structs.replace(noted, configurations=reset)), PublishBundle)
    bare = (configuration(MUTATING.kind), configuration(VALIDATING.kind, NEWER.certificate))
    assert isinstance(at(NOW, msgspec.structs.replace(IN_ORDER, configurations=bare)), PublishBundle)


def test_clock_set_back() -> None:
    """A note of far in the future is made anew, so that no rotation waits for years; a little ahead is waited for."""
    assert isinstance(at(NOW, seen(PHASE_ONE, NOW + DAY)), NoteSeen)
    assert at(NOW, seen(PHASE_ONE, NOW + SECOND)) == Wait(
        "API servers may not yet trust the newest CA", NOW + SECOND + PROPAGATION
    )


def test_leaf_due_in_phase_one() -> None:
    """While the newest CA is not trusted, the one before it signs what is due."""
    due = renewed_from(BY_OLDER.certificate)
    for stored in (PHASE_ONE, seen(PHASE_ONE, due), state(ROTATING, Missing(), BOTH), state(ROTATING, BROKEN, BOTH)):
        action = at(due, stored)
        assert isinstance(action, IssueLeaf)
        assert (action.signer, action.bundle) == (OLDER, BOTH)


def test_phase_one_that_cannot_publish() -> None:
    """A configuration that cannot be read or written holds a rotation up, and says so."""
    stored = msgspec.structs.replace(
        PHASE_ONE, configurations=(Unknown("cannot patch it: 403"), configuration(VALIDATING.kind, *BOTH))
    )
    assert at(NOW, stored) == Blocked("cannot patch it: 403")


def test_end_of_a_rotation() -> None:
    """An old CA is dropped once no pod can serve what it signed any more, and not before; then it is published no more."""
    note = at(NOW, PHASE_TWO)
    digest = PHASE_TWO.replaced_digest(NEWER.certificate, (OLDER.certificate,))
    assert note == NoteReplaced("what the newest CA signed is in store", digest)
    noted = replaced(PHASE_TWO, NOW)
    assert at(NOW, noted) == Wait("pods may still serve a certificate of an older CA", NOW + RETIREMENT)
    assert isinstance(at(NOW + RETIREMENT - SECOND, noted), Wait)
    assert isinstance(at(NOW + RETIREMENT, noted), DropOldCa)
    dropped = state(msgspec.structs.replace(ALONE, dropped=PHASE_TWO.marks), BY_NEWER, BOTH)
    publish = at(NOW + RETIREMENT, dropped)
    assert isinstance(publish, PublishBundle)
    assert publish.bundle == (NEWER.certificate,)


def test_changes_before_the_end_of_a_rotation() -> None:
    """A change of the serving Secret, of a webhook or of the CAs, by whomever, begins the wait anew; so does a set clock."""
    noted = replaced(PHASE_TWO, NOW)
    authority = noted.authority
    assert isinstance(authority, Authority)
    older = new_ca(NOW - 30 * DAY, 100 * DAY).certificate
    changed = (
        msgspec.structs.replace(noted, serving=Serving("6", BY_NEWER, BOTH)),
        msgspec.structs.replace(
            noted, configurations=(configuration(MUTATING.kind, *BOTH, generation=4), noted.configurations[1])
        ),
        replaced(PHASE_TWO, NOW + 2 * RETIREMENT + SECOND),
    )
    for one in changed:
        assert isinstance(at(NOW + RETIREMENT, one), NoteReplaced)
    more = state(msgspec.structs.replace(authority, old=(older,)), BY_NEWER, (*BOTH, older))
    assert isinstance(at(NOW + RETIREMENT, more), NoteReplaced)


def test_unknown_holders_hold_old_cas() -> None:
    """While some object cannot be read nothing is dropped: it may be the one by which an old CA is known."""
    noted = replaced(PHASE_TWO, NOW)
    unread = msgspec.structs.replace(noted, configurations=(Unknown("403"), noted.configurations[1]))
    assert at(NOW + RETIREMENT, unread) == Blocked("403")


def test_old_ca_whose_leaf_is_served() -> None:
    """A CA is never dropped while the Secret holds what it signed."""
    assert not isinstance(at(NOW + 10 * DAY, seen(PHASE_ONE, NEVER.at)), DropOldCa)


def test_expired_ca_leaves_the_bundle() -> None:
    """A CA that has expired is published no more, though it is stored until the rotation ends."""
    expired = new_ca(NOW - 30 * DAY, 30 * DAY)
    action = at(NOW, state(Authority("3", NEWER, (expired,)), BY_NEWER, [NEWER.certificate, expired.certificate]))
    assert isinstance(action, PublishBundle)
    assert action.bundle == (NEWER.certificate,)
    assert Authority("3", NEWER, (expired,)).bundle(NOW) == (NEWER.certificate,)


# --- losses -----------------------------------------------------------------------------------------------------------


def test_ca_secret_lost() -> None:
    """A new CA inherits every CA that is published, so that what is served stays trusted until it is replaced."""
    action = at(NOW, state(Missing(), BY_OLDER, [OLDER.certificate]))
    assert action == CreateCa("there is no Secret poolwarden-webhook-ca", (), (OLDER.certificate,))
    after = Authority("4", NEWER, (), (OLDER.certificate,))
    assert isinstance(at(NOW, state(after, BY_OLDER, [OLDER.certificate])), PublishBundle)
    assert isinstance(at(NOW, state(after, BY_OLDER, BOTH)), NoteSeen)
    assert isinstance(at(NOW, seen(state(after, BY_OLDER, BOTH), NOW - PROPAGATION)), IssueLeaf)


@pytest.mark.parametrize("where", ["caBundle", "ca.crt"])
def test_ca_secret_restored(where: str) -> None:
    """A CA that is published, but that the Secret does not hold, is adopted before anything is issued or published."""
    held = BOTH if where == "caBundle" else [OLDER.certificate]
    handed = BOTH if where == "ca.crt" else [OLDER.certificate]
    restored = Authority("3", OLDER)
    for leaf in (BY_NEWER, BY_OLDER, Missing()):
        action = at(NOW, state(restored, leaf, held, handed=handed))
        if where == "ca.crt" and leaf == Missing():
            assert isinstance(action, IssueLeaf)  # no Secret, no ca.crt
            continue
        assert action == AdoptCas(
            "a CA is published that Secret poolwarden-webhook-ca does not hold: it may have been restored",
            (NEWER.certificate,),
        )
        assert isinstance(rotation(state(restored, leaf, held, handed=handed), SETTINGS, NOW), AdoptCas)
    adopted = Authority("4", OLDER, (), (NEWER.certificate,))
    action = at(NOW, state(adopted, BY_NEWER, [NEWER.certificate]))
    assert isinstance(action, PublishBundle)
    assert action.bundle == BOTH[::-1]


def test_adopted_cas_are_bounded() -> None:
    """Of very many the newest few are adopted, once; expired ones never are; the rest is overwritten."""
    many = [new_ca(NOW - number * DAY, 100 * DAY).certificate for number in range(1, 13)]
    action = at(NOW, state(ALONE, BY_NEWER, [*many, new_ca(NOW - 30 * DAY, 30 * DAY).certificate]))
    assert isinstance(action, AdoptCas)
    assert action.old == tuple(many[:8])
    again = at(NOW, state(msgspec.structs.replace(ALONE, old=action.old), BY_NEWER, many))
    assert isinstance(again, PublishBundle)


def test_ca_secret_broken() -> None:
    """A CA without its key is lost; the CA before it, if whole, signs until the new one is trusted."""
    lost = Authority("3", BROKEN, (OLDER,), (NEWER.certificate,))
    action = at(NOW, state(lost, BY_NEWER, BOTH))
    assert action == CreateCa(
        "Secret poolwarden-webhook-ca holds no private key that can be read", (OLDER,), (NEWER.certificate,)
    )


def test_both_secrets_lost() -> None:
    """While API servers trust another CA, pods may serve what it signed: nothing else is served before it is trusted."""
    after = Authority("4", NEWER, (), (OLDER.certificate,))
    assert isinstance(at(NOW, state(after, Missing(), [OLDER.certificate])), PublishBundle)
    assert isinstance(at(NOW, state(after, Missing(), BOTH, handed=BOTH)), NoteSeen)
    assert isinstance(at(NOW, seen(state(after, Missing(), BOTH), NOW - PROPAGATION)), IssueLeaf)


def test_expired_leaf_waits_for_nothing() -> None:
    """Where nobody accepts what is served, nothing can be spoilt: the newest CA signs at once."""
    expired = new_leaf(OLDER, SETTINGS.names, NOW - 20 * DAY, 20 * DAY)
    after = Authority("4", NEWER, (), (OLDER.certificate,))
    action = at(NOW, state(after, expired, [OLDER.certificate]))
    assert isinstance(action, IssueLeaf)
    assert action.signer == NEWER


def test_heirs_are_bounded() -> None:
    """Of very many published certificates the newest few are kept on."""
    many = [new_ca(NOW - number * DAY, 100 * DAY).certificate for number in range(1, 13)]
    action = at(NOW, state(Missing(), Missing(), many))
    assert isinstance(action, CreateCa)
    assert action.old == tuple(many[:8])


# --- rotation by hand -------------------------------------------------------------------------------------------------


def test_rotation_asked_for() -> None:
    """A new CA is introduced, though the old one is in order."""
    assert rotation(IN_ORDER, SETTINGS, NOW) == IntroduceCa("a new CA is asked for", (NEWER,), ())


def test_rotation_under_way() -> None:
    """A rotation that has not come to its serving certificate is joined, not begun anew."""
    assert isinstance(rotation(PHASE_ONE, SETTINGS, NOW), NoteSeen)
    assert isinstance(rotation(seen(PHASE_ONE, NOW), SETTINGS, NOW), Wait)


def test_rotation_after_phase_two() -> None:
    """Once the serving certificate is replaced the next rotation may begin; every CA that may be in use is kept."""
    assert rotation(PHASE_TWO, SETTINGS, NOW) == IntroduceCa("a new CA is asked for", (NEWER,), (OLDER.certificate,))


def test_rotation_without_a_ca() -> None:
    """Where the CA is lost, that comes first."""
    assert isinstance(rotation(state(Missing(), Missing()), SETTINGS, NOW), CreateCa)
    assert rotation(state(Unknown("403"), Missing()), SETTINGS, NOW) == Blocked("403")


def test_rotation_after_a_loss() -> None:
    """A CA that nobody trusts yet is no CA to sign in the meantime: the rotation that replaces it comes later."""
    after = Authority("4", NEWER, (), (OLDER.certificate,))
    assert isinstance(rotation(state(after, Missing(), [OLDER.certificate]), SETTINGS, NOW), PublishBundle)
    due = renewed_from(NEWER.certificate)
    action = at(due, state(after, Missing(), [OLDER.certificate]))
    assert isinstance(action, IntroduceCa)
    assert action.previous == ()


def test_ca_that_never_signed() -> None:
    """If a CA grows old before it was trusted, the one that signs stays able to."""
    due = renewed_from(NEWER.certificate)
    leaf = new_leaf(OLDER, SETTINGS.names, due - DAY, 90 * DAY)
    action = at(due, state(ROTATING, leaf, BOTH))
    assert isinstance(action, IntroduceCa)
    assert (action.previous, action.old) == ((OLDER,), (NEWER.certificate,))
