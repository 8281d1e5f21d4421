"""Reviews over HTTP: what is answered, what is refused, and what gets out."""

import base64
from collections.abc import Iterator
from http.client import HTTPConnection

import msgspec
import pytest

from poolwarden.webhook.server.config import MIB

from .client import JSON, UID, Webhook, ask, review

SECRET = "hunter2-and-more"


def counted(webhook: Webhook, verdict: str, operation: str = "CREATE") -> float:
    """How many answers on /mutate-pods were so."""
    labels = f'operation="{operation}",path="/mutate-pods",verdict="{verdict}"'
    return webhook.metric(f"poolwarden_admission_requests_total{{{labels}}}")


def test_a_verdict_is_an_admission_review_with_http_200(webhook: Webhook) -> None:
    """The answer carries the review's uid, the patch, the warnings and the audit annotations."""
    reply = webhook.post(review("patch"))
    assert (reply.status, reply.headers["content-type"]) == (200, "application/json")
    patch = base64.b64encode(b'[{"path":"/wish","value":"patched","op":"replace"}]').decode()
    assert reply.json["response"] == {
        "uid": UID,
        "allowed": True,
        "patchType": "JSONPatch",
        "patch": patch,
        "warnings": ["it was changed"],
        "auditAnnotations": {"changed": "wish"},
    }


def test_a_denial_is_a_verdict_too(webhook: Webhook) -> None:
    """An object that may not pass is HTTP 200, allowed false."""
    reply = webhook.post(review("deny"))
    assert reply.status == 200
    assert reply.json["response"]["allowed"] is False


def test_the_query_does_not_matter(webhook: Webhook) -> None:
    """The API server appends its timeout; the path alone decides."""
    assert webhook.post(review(), "/mutate-pods?timeout=5s").status == 200


def test_the_media_type_may_have_parameters(webhook: Webhook) -> None:
    """A charset after application/json is no reason to refuse."""
    assert webhook.post(review(), headers={"Content-Type": "Application/JSON; charset=utf-8"}).status == 200


def test_an_error_of_a_rule_has_its_status_and_when_to_retry(webhook: Webhook) -> None:
    """Errored is an HTTP status, so that failurePolicy decides, with Retry-After where repeating helps."""
    reply = webhook.post(review("later"))
    assert (reply.status, reply.headers["retry-after"]) == (503, "3")
    assert reply.json == {"error": "knowledge is too old"}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
def test_only_post_is_a_review(webhook: Webhook, method: str) -> None:
    """Another method is 405, and says which one is allowed."""
    reply = webhook.post(None, method=method)
    assert (reply.status, reply.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "headers", [{}, {"Content-Type": "text/plain"}, {"Content-Type": "application/json-patch+json"}]
)
def test_only_json_is_a_review(webhook: Webhook, headers: dict[str, str]) -> None:
    """Another media type is 415."""
    assert webhook.post(review(), headers=headers).status == 415


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"kind":"AdmissionReview"}', b"\xff", review()[:-1]])
def test_what_is_no_review_is_refused(webhook: Webhook, body: bytes) -> None:
    """A body that is no AdmissionReview is 400, and counts as an error of no operation."""
    before = counted(webhook, "error", operation="")
    reply = webhook.post(body)
    assert reply.status == 400
    assert reply.json["error"].startswith("no review: ")
    assert counted(webhook, "error", operation="") == before + 1


def test_the_largest_review_passes(webhook: Webhook) -> None:
    """A body of exactly 7 MiB is read."""
    text = review("allow", secret="")
    padded = text[:-1] + b" " * (7 * MIB - len(text)) + b"}"
    assert len(padded) == 7 * MIB
    assert webhook.post(padded).status == 200


def test_a_larger_one_is_refused(webhook: Webhook) -> None:
    """A body of more than 7 MiB is 413, and the connection goes on: the rest of it is discarded."""
    with webhook.keep_alive() as connection:
        assert ask(connection, b" " * (7 * MIB + 1)).status == 413
        assert ask(connection, review()).status == 200


def test_a_larger_one_is_refused_without_its_length_announced(webhook: Webhook) -> None:
    """Chunks are counted as they come."""

    def chunks() -> Iterator[bytes]:
        for _ in range(8):
            yield b" " * MIB

    with webhook.keep_alive() as connection:
        assert ask(connection, chunks()).status == 413
        assert ask(connection, review()).status == 200


def test_a_review_in_chunks_is_read(webhook: Webhook) -> None:
    """Chunks are as good as a length."""
    text = review()
    assert webhook.post(iter([text[:9], text[9:30], text[30:]])).status == 200


def test_a_rule_that_raises_is_an_error_of_ours(webhook: Webhook) -> None:
    """HTTP 500, counted, logged with uid, kind and place: never what the object says, even if the exception quotes it."""
    before = counted(webhook, "error")
    for wish, fault in (("raise", "ValueError"), ("nonsense", "TypeError")):
        reply = webhook.post(review(wish, secret=SECRET))
        assert reply.status == 500
        assert reply.json["error"].startswith(f"defect of poolwarden: {fault} at app.py:")
        assert SECRET not in reply.text
    assert counted(webhook, "error") == before + 2
    entries = [msgspec.json.decode(line) for line in webhook.log.splitlines() if "review_failed" in line][-2:]
    assert [entry["error"] for entry in entries] == ["ValueError", "TypeError"]
    for entry in entries:
        assert (entry["uid"], entry["kind"], entry["path"], entry["operation"]) == (
            UID,
            "Pod",
            "/mutate-pods",
            "CREATE",
        )
        assert entry["at"].startswith("app.py:")
    assert "served.py:" in entries[0]["at"]
    assert SECRET not in webhook.log


def test_answers_are_counted(webhook: Webhook) -> None:
    """By path, operation and verdict; their time by path; nothing is in flight afterwards."""
    time = 'poolwarden_admission_duration_seconds_count{path="/mutate-pods"}'
    before = counted(webhook, "patched"), counted(webhook, "denied"), webhook.metric(time)
    with webhook.keep_alive() as connection:
        for wish in ("patch", "patch", "deny"):
            ask(connection, review(wish))
    assert counted(webhook, "patched") == before[0] + 2
    assert counted(webhook, "denied") == before[1] + 1
    assert webhook.metric(time) == before[2] + 3
    assert "poolwarden_admission_in_flight 0.0" in webhook.get("/metrics").text


def test_the_plain_port_answers_no_review(webhook: Webhook) -> None:
    """What is not protected by TLS is not asked for verdicts."""
    connection = HTTPConnection("127.0.0.1", webhook.plain, timeout=5)
    try:
        assert ask(connection, review(), headers=JSON).status == 404
    finally:
        connection.close()
