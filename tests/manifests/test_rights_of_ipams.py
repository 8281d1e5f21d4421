"""The rights in manifests/ on a real API server: each IPAM's records are read and released with them, and with nothing less."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from controlplane.plane import SERVICE_ACCOUNT, ControlPlane
from controlplane.server import wait_for
from manifests.leaking import GONE, KINDS, LEASE, LIVE, Leaking, Whereabouts
from manifests.shipped import MANIFESTS

Object = dict[str, Any]
Right = tuple[str, str, str]  # verb, group, resource

GC = f"{SERVICE_ACCOUNT}poolwarden:poolwarden-gc"
MOST_SWEEPS = 6


def rules() -> list[Object]:
    """Every rule of gc's roles, split to one verb and one resource each."""
    files = (MANIFESTS / "rbac" / name for name in ("observe.yaml", "release.yaml", "lease.yaml"))
    roles = [item for path in files for item in yaml.safe_load_all(path.read_text()) if "rules" in item]
    return [
        {**rule, "apiGroups": [group], "resources": [resource], "verbs": [verb]}
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    ]


def right_of(rule: Object) -> Right:
    """The one right of a rule that `rules` made."""
    return rule["verbs"][0], rule["apiGroups"][0], rule["resources"][0]


EACH = [
    pytest.param(kind, right_of(rule), id="-".join((kind.ipam, *right_of(rule)[::2])))
    for kind in KINDS
    for rule in rules()
    if rule["apiGroups"] == [kind.group]
]


@pytest.fixture(scope="module")
def account(control_plane: ControlPlane) -> str:
    """The account of gc with the rights to observe. The webhook is left out: its configurations would meet every test."""
    control_plane.kubectl("apply", "--kustomize", str(MANIFESTS / "rbac"))
    return GC


@pytest.fixture
def may_release(control_plane: ControlPlane) -> Iterator[None]:
    """The component release; its binding goes when the test ends."""
    control_plane.kubectl("apply", "--kustomize", str(MANIFESTS / "components" / "release"))
    yield
    control_plane.kubectl("delete", "clusterrolebinding", "poolwarden-release")


def whole_story(scene: Leaking, user: str) -> str:
    """Observe, release and restore as that user; what went wrong first, "" if nothing did."""
    done = scene.run("gc", "--once", "--mode=observe", f"--ipam={scene.ipam}", *LEASE, user=user)
    for _ in range(MOST_SWEEPS):
        if done.returncode:
            return done.stderr
        if not scene.leaked:
            back = scene.restore(user)
            return back.stderr if back.returncode else ""
        done = scene.sweep(user=user)
    return "not released"


@pytest.mark.parametrize("leaking", KINDS, indirect=True, ids=lambda kind: kind.ipam)
def test_the_rights_to_observe_release_nothing(leaking: Leaking, account: str) -> None:
    """With the rights that gc has as installed a sweep reads everything, and the write of the pool is refused."""
    done = leaking.run("gc", "--once", "--mode=observe", f"--ipam={leaking.ipam}", *LEASE, user=account)
    assert (done.returncode, done.stderr.count("cannot")) == (0, 0), done.stderr
    said = [leaking.sweep(user=account).stderr for _ in range(3)]
    assert any(f'in API group "{leaking.group}"' in text and "cannot patch" in text for text in said), said
    assert leaking.owners == sorted((*LIVE, GONE))


@pytest.mark.parametrize("leaking", KINDS, indirect=True, ids=lambda kind: kind.ipam)
@pytest.mark.usefixtures("may_release")
def test_the_rights_to_release_are_enough(leaking: Leaking, account: str) -> None:
    """With the component release exactly the leak is freed, its reservation as well, and can be put back."""

    def freed() -> bool:
        return not leaking.sweep(user=account).returncode and not leaking.leaked

    wait_for("the leak to be freed", freed, seconds=60)  # RBAC takes a moment to heed the binding
    assert leaking.owners == sorted(LIVE)
    if isinstance(leaking, Whereabouts):
        assert leaking.reserved() == {"10.66.0.1", "10.66.0.2"}
    back = leaking.restore(account)
    assert back.returncode == 0, back.stderr
    assert leaking.owners == sorted((*LIVE, GONE))
    if isinstance(leaking, Whereabouts):
        assert leaking.reserved() == {"10.66.0.1", "10.66.0.2", "10.66.0.3"}


@pytest.mark.parametrize(("leaking", "withheld"), EACH, indirect=["leaking"])
def test_no_right_is_more_than_it_takes(
    leaking: Leaking, control_plane: ControlPlane, limited_user: str, withheld: Right
) -> None:
    """Whichever right over an IPAM's objects is withheld, observing, releasing or restoring fails, and says for want of which."""
    control_plane.grant(limited_user, [rule for rule in rules() if right_of(rule) != withheld])
    verb, group, resource = withheld
    told = whole_story(leaking, limited_user)
    assert f'cannot {verb} resource "{resource}" in API group "{group}"' in told
