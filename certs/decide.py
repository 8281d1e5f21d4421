"""What to do next about the certificates, and why: a pure function of what is stored and of the time.

A CA is replaced in two phases. First the new CA is made and published beside the old ones; serving certificates still
come from the CA before it. Once every API server trusts the new CA, a serving certificate is issued from it; once no pod
serves one of the old CAs any more, they are dropped. At any moment each certificate that any replica may serve is
trusted by each API server, whichever of the bundles it has.

CAs that are published though the Secret of the CAs does not know them (it may have been restored from a backup) are taken
into it first: pods may serve what they signed.

Every action is one write of one object, valid only for the version of that object that was judged. Who is overtaken
reads and decides again, so that several programs may do this at once.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import chain

from cryptography.x509 import Certificate
from msgspec import Struct

from poolwarden.certs.issue import Pair, Unusable, is_ca, is_signed_by, names_of, refusal, renewed_from, unfit
from poolwarden.certs.settings import Settings
from poolwarden.certs.state import (
    NEVER,
    Authority,
    Configuration,
    Missing,
    Serving,
    State,
    Uninstalled,
    Unknown,
    published,
    unexpired,
)

_MOST_RETIRING = 8
"""CAs that are kept for what they signed: one a year is made, more only by hand or by mishap; a bundle stays below 10 kB."""


class CreateCa(Struct, frozen=True, tag=True):
    """Make the first CA, or the first after a loss. `old` are CAs of which something may still be served."""

    reason: str
    previous: tuple[Pair, ...]
    old: tuple[Certificate, ...]


class IntroduceCa(Struct, frozen=True, tag=True):
    """Phase 1 of a rotation: make a new CA, which signs nothing yet."""

    reason: str
    previous: tuple[Pair, ...]
    old: tuple[Certificate, ...]


class AdoptCas(Struct, frozen=True, tag=True):
    """Take CAs that others have published into the Secret, as `old`: pods may serve what they signed."""

    reason: str
    old: tuple[Certificate, ...]


class PublishBundle(Struct, frozen=True, tag=True):
    """Write the bundle into every caBundle of a configuration, or into the ca.crt of the serving Secret."""

    reason: str
    bundle: tuple[Certificate, ...]
    where: Configuration | Serving


class NoteSeen(Struct, frozen=True, tag=True):
    """Write down that every caBundle holds the newest CA from now on."""

    reason: str
    digest: str


class IssueLeaf(Struct, frozen=True, tag=True):
    """Issue a serving certificate: also phase 2 of a rotation."""

    reason: str
    signer: Pair
    bundle: tuple[Certificate, ...]


class NoteReplaced(Struct, frozen=True, tag=True):
    """Write down that from now on nothing of the retiring CAs comes to be served."""

    reason: str
    digest: str


class DropOldCa(Struct, frozen=True, tag=True):
    """The end of a rotation: forget all CAs but the newest."""

    reason: str


class Wait(Struct, frozen=True, tag=True):
    """A rotation is under way, and goes on at `until`."""

    reason: str
    until: datetime


class Nothing(Struct, frozen=True, tag=True):
    """All is in order, until `look_again` if nobody meddles."""

    reason: str
    look_again: datetime


class Blocked(Struct, frozen=True, tag=True):
    """What remains to be done or judged needs something that could not be read or written."""

    reason: str


Step = CreateCa | IntroduceCa | AdoptCas | PublishBundle | NoteSeen | IssueLeaf | NoteReplaced | DropOldCa
End = Wait | Nothing | Blocked
Action = Step | End


class _Lost(Struct, frozen=True):
    """The Secret holds no serving certificate, though pods may serve on with the one that they have."""

    why: str


class _Broken(Struct, frozen=True):
    """No API server accepts the serving certificate: there is nothing to protect."""

    why: str


class _Due(Struct, frozen=True):
    """The serving certificate does its work, but another should take its place."""

    why: str


class _Fine(Struct, frozen=True):
    """The serving certificate may stay."""


def decide(state: State, settings: Settings, now: datetime) -> Action:
    """What to do next."""
    match state.authority:
        case Unknown(message):
            return Blocked(message)
        case Missing():
            return CreateCa(f"there is no Secret {settings.ca_secret}", (), _heirs(published(state), now))
        case Authority(newest=Unusable(why)) as lost:
            previous = tuple(pair for pair in lost.previous if not _ca_fault(pair, settings, now))
            old = _heirs(chain(lost.old, published(state)), now, without=previous)
            return CreateCa(f"Secret {settings.ca_secret} {why}", previous, old)
        case Authority(newest=Pair() as newest) as authority:
            pass
    if adopted := _adopted(authority, newest, state, now):
        reason = f"a CA is published that Secret {settings.ca_secret} does not hold: it may have been restored"
        return AdoptCas(reason, adopted)
    if why := _ca_is_due(newest, settings, now):
        return _introduced(f"the CA {why}", authority, newest, state, settings, now)
    return _with_ca(authority, newest, state, settings, now)


def rotation(state: State, settings: Settings, now: datetime) -> Action:
    """What to do if a new CA is asked for: introduce one, once the newest so far has come to sign what is served."""
    action = decide(state, settings, now)
    authority = state.authority
    if isinstance(action, CreateCa | IntroduceCa | AdoptCas) or not isinstance(authority, Authority):
        return action
    newest = authority.newest
    assert isinstance(newest, Pair)  # else `decide` had it replaced
    if not _issued_by(state.serving, newest.certificate):
        return action
    return _introduced("a new CA is asked for", authority, newest, state, settings, now)


def _with_ca(authority: Authority, newest: Pair, state: State, settings: Settings, now: datetime) -> Action:
    """What to do next, the CAs being in order."""
    bundle = authority.bundle(now)
    condition = _condition(authority, newest, state.serving, settings, now)
    trusted = _is_trusted(authority, newest, state, settings, now)
    # Where nothing can be spoilt, none must wait until a new CA is trusted: at a first installation, or once it is too late.
    hurry = isinstance(condition, _Broken) or (isinstance(condition, _Lost) and not _is_relied_on(newest, state, now))
    for signer in _signers(authority, newest, state, settings, now, trusted=trusted, hurry=hurry):
        match condition:
            case _Lost(why) | _Broken(why):
                return IssueLeaf(why, signer, bundle)
            case _Due(why) if _would_gain(state.serving, signer, newest, bundle, settings, now):
                return IssueLeaf(why, signer, bundle)
    for configuration in state.installed:
        wrong = [name for name, held in configuration.bundles.items() if held != bundle]
        if wrong:
            reason = (
                f"{configuration.kind} {configuration.name}: the caBundle of {', '.join(wrong)} is not that of our CAs"
            )
            return PublishBundle(reason, bundle, configuration)
    if isinstance(state.serving, Serving) and state.serving.bundle != bundle:
        return PublishBundle(f"Secret {settings.tls_secret}: ca.crt is not the bundle", bundle, state.serving)
    return _concluded(authority, newest, condition, state, settings, now, trusted=trusted)


def _concluded(
    authority: Authority,
    newest: Pair,
    condition: _Lost | _Broken | _Due | _Fine,
    state: State,
    settings: Settings,
    now: datetime,
    *,
    trusted: bool,
) -> Action:
    """What remains once the serving certificate does its work and the bundle is everywhere."""
    if state.unknown:
        return Blocked("; ".join(one.message for one in state.unknown))
    if not trusted:
        return _awaited(authority, newest, state, settings, now)
    if authority.retiring and _issued_by(state.serving, newest.certificate):
        return _retired(authority, newest, state, settings, now)
    assert isinstance(state.serving, Serving)
    assert isinstance(state.serving.leaf, Pair)  # else it had been issued above
    return _settled(newest.certificate, state.serving.leaf.certificate, condition, state, now)


def _settled(
    ca: Certificate, leaf: Certificate, condition: _Lost | _Broken | _Due | _Fine, state: State, now: datetime
) -> Nothing:
    next_leaf = leaf.not_valid_after_utc if isinstance(condition, _Due) else renewed_from(leaf)
    absent = [f"{one.kind} {one.name} is not installed" for one in state.configurations if isinstance(one, Uninstalled)]
    reason = "; ".join(("both certificates are in order", *absent))
    return Nothing(reason, max(now, min(renewed_from(ca), next_leaf)))


def _awaited(authority: Authority, newest: Pair, state: State, settings: Settings, now: datetime) -> NoteSeen | Wait:
    """The newest CA is in every caBundle: wait until each API server has noticed."""
    digest = state.seen_digest(newest.certificate)
    propagation = timedelta(seconds=settings.propagation)
    # Two clocks that agree badly make the wait longer; one that was set back would make it endless.
    if authority.seen.digest != digest or authority.seen.at > now + propagation:
        return NoteSeen("every caBundle holds the newest CA", digest)
    return Wait("API servers may not yet trust the newest CA", authority.seen.at + propagation)


def _retired(
    authority: Authority, newest: Pair, state: State, settings: Settings, now: datetime
) -> NoteReplaced | Wait | DropOldCa:
    """The newest CA has signed what is served: wait until no pod serves what another has.

    The date of the serving certificate does not tell since when it is stored: it may have been restored from a backup.
    """
    digest = state.replaced_digest(newest.certificate, authority.retiring)
    retirement = timedelta(seconds=settings.retirement)
    if authority.replaced.digest != digest or authority.replaced.at > now + retirement:
        return NoteReplaced("what the newest CA signed is in store", digest)
    if now < authority.replaced.at + retirement:
        return Wait("pods may still serve a certificate of an older CA", authority.replaced.at + retirement)
    return DropOldCa(f"nothing that another CA signed was stored in the last {settings.retirement} s")


# --- CAs --------------------------------------------------------------------------------------------------------------


def _ca_is_due(newest: Pair, settings: Settings, now: datetime) -> str:
    """Why the CA should be replaced; "" if it should not."""
    if why := _ca_fault(newest, settings, now):
        return why
    return "is past two thirds of its life" if now >= renewed_from(newest.certificate) else ""


def _ca_fault(pair: Pair, settings: Settings, now: datetime) -> str:
    """Why nobody accepts what the CA signs now; "" if all do that trust it."""
    ca = pair.certificate
    if not is_ca(ca):
        return "is no CA certificate"
    if now >= ca.not_valid_after_utc:
        return f"has expired at {ca.not_valid_after_utc}"
    if now < ca.not_valid_before_utc:
        return f"is not valid before {ca.not_valid_before_utc}"
    why = unfit(pair, settings.names, now)
    return f"is such that what it signs is refused: {why}" if why else ""


def _adopted(authority: Authority, newest: Pair, state: State, now: datetime) -> tuple[Certificate, ...]:
    """The old CAs together with those that somebody has published since CAs were last dropped; () if there are none."""
    known = {newest.certificate, *authority.retiring}
    strays = [one for one in published(state, apart=authority.dropped) if one not in known]
    old = _heirs((*authority.old, *strays), now, without=authority.previous)
    return old if any(one not in known for one in old) else ()


def _introduced(
    reason: str, authority: Authority, newest: Pair, state: State, settings: Settings, now: datetime
) -> IntroduceCa:
    """The newest CA that is trusted stays able to sign."""
    proven = [newest] if _is_trusted(authority, newest, state, settings, now) else []
    previous = tuple(pair for pair in (*proven, *authority.previous) if not _ca_fault(pair, settings, now))[:1]
    return IntroduceCa(reason, previous, _heirs((newest.certificate, *authority.retiring), now, without=previous))


def _heirs(
    certificates: Iterable[Certificate], now: datetime, *, without: Sequence[Pair] = ()
) -> tuple[Certificate, ...]:
    """CAs to be trusted on for what they signed: where ours are lost, also those that others have published."""
    apart = {pair.certificate for pair in without}
    kept = unexpired(tuple(one for one in certificates if one not in apart), now)
    return tuple(sorted(kept, key=lambda one: one.not_valid_before_utc, reverse=True)[:_MOST_RETIRING])


def _is_trusted(authority: Authority, newest: Pair, state: State, settings: Settings, now: datetime) -> bool:
    """Whether what the newest CA signs is trusted by every API server, or what it has signed is relied on already."""
    if _issued_by(state.serving, newest.certificate):
        return True
    if any(isinstance(one, Unknown) for one in state.configurations):
        return False
    if not any(one.bundles for one in state.installed):
        return True  # nobody calls
    seen = authority.seen
    propagated = seen.at <= now - timedelta(seconds=settings.propagation) if seen != NEVER else False
    return propagated and seen.digest == state.seen_digest(newest.certificate) and _is_published(newest, state)


def _is_published(pair: Pair, state: State) -> bool:
    return all(one.trusts(pair.certificate) for one in state.installed)


def _is_relied_on(newest: Pair, state: State, now: datetime) -> bool:
    """Whether some API server may now accept what another CA than the newest has signed."""
    bundles = (bundle for one in state.installed for bundle in one.bundles.values())
    return any(ca != newest.certificate for bundle in bundles for ca in unexpired(bundle, now))


def _signers(
    authority: Authority, newest: Pair, state: State, settings: Settings, now: datetime, *, trusted: bool, hurry: bool
) -> Sequence[Pair]:
    """Who may sign a serving certificate now: at most one CA."""
    previous = [
        pair for pair in authority.previous if not _ca_fault(pair, settings, now) and _is_published(pair, state)
    ]
    return ([newest] if trusted else [*previous, *([newest] if hurry else [])])[:1]


# --- the serving certificate ------------------------------------------------------------------------------------------


def _condition(
    authority: Authority, newest: Pair, serving: Serving | Missing | Unknown, settings: Settings, now: datetime
) -> _Lost | _Broken | _Due | _Fine:
    secret = f"Secret {settings.tls_secret}"
    match serving:
        case Unknown():
            return _Fine()  # nothing can be done about it
        case Missing():
            return _Lost(f"there is no {secret}")
        case Serving(leaf=Unusable(why)):
            return _Lost(f"{secret} {why}")
        case Serving(leaf=Pair(certificate=leaf)):
            pass
    if now >= leaf.not_valid_after_utc:
        return _Broken(f"the serving certificate has expired at {leaf.not_valid_after_utc}")
    if now < leaf.not_valid_before_utc:
        return _Broken(f"the serving certificate is not valid before {leaf.not_valid_before_utc}")
    if not any(is_signed_by(leaf, ca) for ca in authority.bundle(now)):
        return _Broken("the serving certificate is signed by none of the CAs")
    why = _leaf_is_due(leaf, newest.certificate, authority.bundle(now), settings, now)
    return _Due(why) if why else _Fine()


def _leaf_is_due(
    leaf: Certificate, newest: Certificate, bundle: Sequence[Certificate], settings: Settings, now: datetime
) -> str:
    """Why a working serving certificate should be replaced; "" if it should not."""
    if why := _leaf_fault(leaf, bundle, settings, now):
        return why
    if now >= renewed_from(leaf):
        return "the serving certificate is past two thirds of its life"
    return "" if is_signed_by(leaf, newest) else "there is a newer CA, and every API server trusts it"


def _leaf_fault(leaf: Certificate, bundle: Sequence[Certificate], settings: Settings, now: datetime) -> str:
    """What is wrong with a serving certificate that is valid now and signed by one of our CAs; "" if nothing is.

    Some API server may accept it nevertheless: our verifier asks for more than theirs.
    """
    lacking = [name for name in settings.names if name not in names_of(leaf)]
    if lacking:
        return f"the serving certificate lacks {', '.join(lacking)}"
    why = refusal(leaf, [ca for ca in bundle if is_signed_by(leaf, ca)], settings.names[0], now)
    return f"the serving certificate is refused: {why}" if why else ""


def _would_gain(
    serving: Serving | Missing | Unknown,
    signer: Pair,
    newest: Pair,
    bundle: Sequence[Certificate],
    settings: Settings,
    now: datetime,
) -> bool:
    """Whether a certificate by this signer would be better than the one that is due."""
    assert isinstance(serving, Serving)
    assert isinstance(serving.leaf, Pair)
    leaf = serving.leaf.certificate
    if signer is newest and not is_signed_by(leaf, newest.certificate):
        return True
    if _leaf_fault(leaf, bundle, settings, now):
        return True
    # A certificate ends with its CA at the latest: near that end there is nothing to win.
    until = min(now + settings.leaf_life, signer.certificate.not_valid_after_utc).replace(microsecond=0)
    return now >= renewed_from(leaf) and until > leaf.not_valid_after_utc


def _issued_by(serving: Serving | Missing | Unknown, ca: Certificate) -> bool:
    return (
        isinstance(serving, Serving) and isinstance(serving.leaf, Pair) and is_signed_by(serving.leaf.certificate, ca)
    )
