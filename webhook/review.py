"""AdmissionReview in: what the API server asks (`admission.k8s.io/v1`), decoded no further than every rule needs."""

from enum import StrEnum

import msgspec
from msgspec import Raw, Struct, field

from poolwarden.ipam.network import UNDECODABLE

NULL = Raw(b"null")


class Operation(StrEnum):
    """What is done to the object."""

    CREATE = "CREATE"
    UPDATE = "UPDATE"
    DELETE = "DELETE"
    CONNECT = "CONNECT"


class ReviewedKind(Struct, frozen=True, gc=False):
    """`meta/v1` GroupVersionKind."""

    kind: str
    group: str = ""
    version: str = ""


class Request(Struct, frozen=True, gc=False, rename="camel"):
    """One object under review. `namespace` is the request's: the object's own may still be empty.

    `object` is JSON text, `null` on DELETE; `old_object` is `null` on CREATE.
    """

    uid: str
    kind: ReviewedKind
    operation: Operation
    namespace: str = ""
    name: str = ""
    sub_resource: str = ""
    object: Raw = NULL
    old_object: Raw = field(name="oldObject", default=NULL)


class _Review(Struct, frozen=True, gc=False):
    kind: str
    request: Request
    api_version: str = field(name="apiVersion")

    def __post_init__(self) -> None:
        if (self.api_version, self.kind) != ("admission.k8s.io/v1", "AdmissionReview"):
            raise ValueError("another kind")


class NoReview(Struct, frozen=True, tag=True):
    """The text is no AdmissionReview; `problem` is one line that quotes nothing of it."""

    problem: str


_REVIEW = msgspec.json.Decoder(_Review)


def parse_review(body: bytes) -> Request | NoReview:
    """Read the body of a request to a review path."""
    try:
        request = _REVIEW.decode(body).request
    except msgspec.ValidationError:  # whose own words quote what it found
        return NoReview("the JSON has not the form of an admission.k8s.io/v1 AdmissionReview")
    except UNDECODABLE:
        return NoReview("the body is no JSON")
    return request if request.uid else NoReview("request.uid is empty")
