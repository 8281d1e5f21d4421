"""Requests to the API server, as small as the tests need them, and the kubeconfig by which programs make theirs."""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path

import urllib3

from controlplane.kubelet import Object

ADMIN = "admin"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"


class ApiError(RuntimeError):
    """The API server refused a request; status and reason are those of its Status object."""

    def __init__(self, request: str, status: int, answer: Object) -> None:
        self.status = status
        self.reason: str = answer.get("reason", "")
        super().__init__(f"{request}: {status} {self.reason}: {answer.get('message', answer)}")


class Client:
    """Connections to one API server, for every user whose token is known."""

    def __init__(self, url: str, certificate: Path, tokens: Mapping[str, str]) -> None:
        self.url = url
        self._certificate = certificate
        self._tokens = tokens
        self._pool = urllib3.PoolManager(ca_certs=str(certificate), retries=False, timeout=30)

    def request(
        self, method: str, path: str, body: Object | None = None, *, user: str = ADMIN, content_type: str | None = None
    ) -> Object:
        """Sends one request and returns the decoded answer; raises ApiError where the API server refuses.

        A PATCH is a JSON merge patch unless the content type says otherwise.
        """
        headers = {"Authorization": f"Bearer {self._tokens[user]}"}
        if body is not None:
            default = "application/merge-patch+json" if method == "PATCH" else "application/json"
            headers["Content-Type"] = content_type or default
        response = self._pool.request(method, self.url + path, json=body, headers=headers)
        answer: Object = response.json()
        if response.status >= HTTPStatus.BAD_REQUEST:
            raise ApiError(f"{method} {path} as {user}", response.status, answer)
        return answer

    def find(self, path: str) -> Object | None:
        """Returns the object at the path, or None where there is none."""
        try:
            return self.request("GET", path)
        except ApiError as error:
            if error.status == HTTPStatus.NOT_FOUND:
                return None
            raise

    def answers(self, url: str) -> bool:
        """Tells whether a GET of the URL gives 200; false also where nobody listens yet."""
        headers = {"Authorization": f"Bearer {self._tokens[ADMIN]}"}
        try:
            return self._pool.request("GET", url, headers=headers).status == HTTPStatus.OK
        except (urllib3.exceptions.HTTPError, OSError):  # OSError: the certificate is not written yet
            return False

    def close(self) -> None:
        """Closes the connections that are kept open; later requests open new ones."""
        self._pool.clear()

    def write_kubeconfig(self, path: Path, user: str, token: str | None = None) -> None:
        """Writes a kubeconfig for the user, by the token known for it if none is given."""
        cluster = {"server": self.url, "certificate-authority": str(self._certificate)}
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": token or self._tokens[user]}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": user}}],
            "current-context": "test",
        }
        partial = path.with_suffix(f".{secrets.token_hex(4)}")  # renamed when whole: others may be reading the last one
        partial.write_text(json.dumps(content, indent=2))  # JSON is YAML
        partial.rename(path)
