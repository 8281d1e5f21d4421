"""What manifests/ let an account do, right by right, and how the API server's refusals name what is missing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from controlplane.plane import ControlPlane
from controlplane.server import wait_for

Object = dict[str, Any]
Right = tuple[str, str, str, str]  # verb, group, resource, the one name that it is for or ""
Missing = tuple[str, str, str]  # the same without the name

_REFUSAL = re.compile(r'cannot (\w+) resource "([^"]+)" in API group "([^"]*)"')
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


def rules(*files: Path) -> Mapping[Right, Object]:
    """Each right that the roles in these files give, and the rule that gives it and no other."""
    roles = [item for path in files for item in yaml.safe_load_all(path.read_text()) if "rules" in item]
    return {
        (verb, group, resource, name): {
            "apiGroups": [group],
            "resources": [resource],
            "verbs": [verb],
            **({"resourceNames": [name]} if name else {}),
        }
        for role in roles
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


def name_of(right: Right) -> str:
    """A right as the id of a test."""
    return "-".join(filter(None, right))


def missed(texts: Iterable[str]) -> set[Missing]:
    """What the API server's words in these texts say is missing."""
    return {(verb, group, resource) for text in texts for verb, resource, group in _REFUSAL.findall(text)}


def wait_until_granted(plane: ControlPlane, account: str, rights: Iterable[Right], namespace: str) -> None:
    """Returns when the API server heeds that the account has these rights in the namespace."""

    def is_allowed(right: Right) -> bool:
        verb, group, kind, name = right
        resource, _, subresource = kind.partition("/")
        asked = {"verb": verb, "group": group, "resource": resource, "subresource": subresource, "name": name}
        review = {"spec": {"user": account, "resourceAttributes": {**asked, "namespace": namespace}}}
        return bool(plane.request("POST", _REVIEWS, review)["status"]["allowed"])

    wait_for(f"the rights of {account}", lambda: all(map(is_allowed, rights)))
