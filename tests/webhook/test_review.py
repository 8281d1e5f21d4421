"""Reading AdmissionReviews."""

from __future__ import annotations

import pytest

from poolwarden.webhook.review import NoReview, Operation, Request, parse_review

REVIEW = (
    b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u1",'
    b'"kind":{"group":"","version":"v1","kind":"Pod"},"resource":{"group":"","version":"v1","resource":"pods"},'
    b'"namespace":"team-a","operation":"CREATE","userInfo":{"username":"x"},"object":{"kind":"Pod"},"oldObject":null,'
    b'"dryRun":false,"options":null}}'
)


def test_a_review_as_the_api_server_sends_it() -> None:
    """What no rule needs is skipped; the object stays text."""
    request = parse_review(REVIEW)
    assert isinstance(request, Request)
    assert (request.uid, request.operation, request.namespace) == ("u1", Operation.CREATE, "team-a")
    assert bytes(request.object) == b'{"kind":"Pod"}'
    assert bytes(request.old_object) == b"null"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b"\xff",
        b"[" * 100_000,
        b"{}",
        REVIEW.replace(b"admission.k8s.io/v1", b"team-a/v1"),
        REVIEW.replace(b"AdmissionReview", b"team-a"),
        REVIEW.replace(b'"uid":"u1"', b'"uid":""'),
        REVIEW.replace(b'"uid":"u1"', b'"uid":5'),
        REVIEW.replace(b'"uid":"u1",', b""),
        REVIEW.replace(b"CREATE", b"team-a"),
        REVIEW.replace(b"CREATE", b"team-a" * 100_000),
        REVIEW.replace(b'"u1"', b'"team-a\\ud800"'),
        REVIEW.replace(b'"u1"', b'"team-a\xff"'),
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
        b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":null}',
    ],
)
def test_what_is_no_review_is_told_from_one(body: bytes) -> None:
    """With a reason, and without a quotation of its text."""
    outcome = parse_review(body)
    assert isinstance(outcome, NoReview)
    assert outcome.problem
    assert "team-a" not in outcome.problem
    assert len(outcome.problem) < 100
