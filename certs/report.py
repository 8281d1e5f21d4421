"""What is stored and what would be done next, for programs and for people."""

from datetime import datetime
from typing import Any

from cryptography.x509 import Certificate

from poolwarden.certs.decide import Action, Nothing, Wait
from poolwarden.certs.issue import Pair, Unusable, common_name, is_signed_by, names_of, renewed_from
from poolwarden.certs.settings import Settings
from poolwarden.certs.state import Authority, Configuration, Missing, Serving, State, Uninstalled, Unknown, fingerprint
from poolwarden.cluster.clock import format_time

Object = dict[str, Any]


def report(state: State, action: Action, settings: Settings, now: datetime) -> Object:
    """One object; absent values are null."""
    cas = _cas(state)
    return {
        "apiVersion": "poolwarden.dev/v1alpha1",
        "kind": "CertificateReport",
        "generatedAt": format_time(now),
        "namespace": settings.namespace,
        "authority": _secret(settings.ca_secret, state.authority) | {"certificates": [_certificate(ca) for ca in cas]},
        "serving": _secret(settings.tls_secret, state.serving) | {"certificate": _leaf(state, cas)},
        "configurations": [_configuration(one, state, now) for one in state.configurations],
        "next": {
            "action": type(action).__name__,
            "reason": action.reason,
            "at": format_time(_when(action, now)),
        },
    }


def _when(action: Action, now: datetime) -> datetime:
    match action:
        case Wait(until=until):
            return until
        case Nothing(look_again=look_again):
            return look_again
        case _:
            return now


def _cas(state: State) -> list[Certificate]:
    """All CAs, newest first."""
    if not isinstance(state.authority, Authority):
        return []
    newest = state.authority.newest
    return [*([newest.certificate] if isinstance(newest, Pair) else []), *state.authority.retiring]


def _secret(name: str, stored: Authority | Serving | Missing | Unknown) -> Object:
    match stored:
        case Missing():
            problem = "there is no such Secret"
        case Unknown(message):
            problem = message
        case Authority(newest=Unusable(why)) | Serving(leaf=Unusable(why)):
            problem = why
        case Authority() | Serving():
            return {"secret": name, "problem": None}
    return {"secret": name, "problem": problem}


def _certificate(certificate: Certificate) -> Object:
    return {
        "subject": common_name(certificate),
        "notBefore": format_time(certificate.not_valid_before_utc),
        "notAfter": format_time(certificate.not_valid_after_utc),
        "renewedFrom": format_time(renewed_from(certificate)),
        "sha256": fingerprint(certificate),
    }


def _leaf(state: State, cas: list[Certificate]) -> Object | None:
    if not isinstance(state.serving, Serving) or not isinstance(state.serving.leaf, Pair):
        return None
    leaf = state.serving.leaf.certificate
    signers = [common_name(ca) for ca in cas if is_signed_by(leaf, ca)]
    told = {"names": list(names_of(leaf)), "signedBy": signers[0] if signers else None}
    return _certificate(leaf) | told | {"signedByNewest": bool(cas) and is_signed_by(leaf, cas[0])}


def _configuration(one: Configuration | Uninstalled | Unknown, state: State, now: datetime) -> Object:
    match one:
        case Unknown(message):
            return {"kind": None, "name": None, "webhooks": None, "published": None, "problem": message}
        case Uninstalled(kind, name):
            return {"kind": kind, "name": name, "webhooks": None, "published": None, "problem": "not installed"}
        case Configuration(kind=kind, name=name, bundles=bundles):
            wanted = state.authority.bundle(now) if isinstance(state.authority, Authority) else ()
            held = sum(bundle == wanted for bundle in bundles.values()) if wanted else 0
            return {"kind": kind, "name": name, "webhooks": len(bundles), "published": held, "problem": None}


def table(told: Object) -> str:
    """The same for people."""
    lines = [f"Secret {told['authority']['secret']} (CAs, newest first)"]
    lines += _problem(told["authority"])
    for ca in told["authority"]["certificates"]:
        lines += _dates(ca)
    serving = told["serving"]
    lines += [f"Secret {serving['secret']} (serving certificate)", *_problem(serving)]
    if leaf := serving["certificate"]:
        lines += [*_dates(leaf), f"    signed by {leaf['signedBy'] or 'none of the CAs'}"]
        lines += [f"    for {', '.join(leaf['names'])}"]
    for one in told["configurations"]:
        if one["problem"]:
            lines.append(" ".join(filter(None, (one["kind"], one["name"], one["problem"]))))
        else:
            lines.append(f"{one['kind']} {one['name']}: {one['published']} of {one['webhooks']} webhooks hold the CAs")
    following = told["next"]
    lines.append(f"Next: {following['action']}: {following['reason']} ({following['at']})")
    return "\n".join(lines)


def _problem(secret: Object) -> list[str]:
    return [f"  {secret['problem']}"] if secret["problem"] else []


def _dates(certificate: Object) -> list[str]:
    return [
        f"  {certificate['subject']}",
        f"    {certificate['notBefore']} to {certificate['notAfter']}, renewed from {certificate['renewedFrom']}",
    ]
