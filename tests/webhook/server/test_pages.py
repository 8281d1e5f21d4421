"""Probes, metrics and the page for people."""

from .client import Webhook, review
from .conftest import Start


def page(webhook: Webhook, path: str) -> tuple[int, str]:
    """A page over TLS."""
    reply = webhook.post(None, path, {}, "GET")
    return reply.status, reply.text


def test_it_says_that_it_lives(webhook: Webhook) -> None:
    """/healthz is 200 on both ports."""
    assert page(webhook, "/healthz") == (200, "ok\n")
    assert webhook.get("/healthz").text == "ok\n"


def test_it_says_whether_it_is_ready(webhook: Webhook) -> None:
    """/readyz is 200 and lists each check."""
    status, text = page(webhook, "/readyz")
    assert status == 200
    assert text.splitlines() == ["[+] server: ok", "[+] certificate: ok", "[+] store: ok", "[+] knowledge: ok"]


def test_it_says_why_it_is_not_ready(start: Start) -> None:
    """/readyz is 503 while a check finds something wrong, and repeats it; reviews are answered all the same."""
    webhook = start()
    faults = webhook.folder / "faults"
    faults.write_text("disk is full\ndisk is slow\n")
    status, text = page(webhook, "/readyz")
    assert status == 503
    assert "[-] store: disk is full; disk is slow\n" in text
    assert webhook.post(review()).status == 200
    faults.unlink()
    assert page(webhook, "/readyz")[0] == 200


def test_a_note_holds_nobody_up(webhook: Webhook) -> None:
    """/readyz says what is in doubt, but is 200: an answer with a warning is better than none."""
    doubts = webhook.folder / "doubts"
    doubts.write_text("spider_pools is 90 s old\n")
    assert page(webhook, "/readyz") == (
        200,
        "[+] server: ok\n[+] certificate: ok\n[+] store: ok\n[!] knowledge: spider_pools is 90 s old\n",
    )
    assert "spider_pools is 90 s old" in page(webhook, "/")[1]
    doubts.unlink()


def test_people_see_how_it_stands(webhook: Webhook) -> None:
    """The page names state, certificate and what was answered."""
    webhook.post(review("deny"))
    status, text = page(webhook, "/")
    assert status == 200
    for word in ("poolwarden webhook: ready", "certificate until", "/mutate-pods", "denied"):
        assert word in text


def test_metrics_have_a_port_of_their_own(webhook: Webhook) -> None:
    """They are plain HTTP, and not to be had where the reviews are."""
    reply = webhook.get("/metrics")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert page(webhook, "/metrics")[0] == 404


def test_series_are_there_before_the_first_review(webhook: Webhook) -> None:
    """A first error is an increase, not a new series; none is made by pod or namespace."""
    text = webhook.get("/metrics").text
    for verdict in ("allowed", "patched", "denied", "error"):
        labels = f'operation="UPDATE",path="/validate-pods",verdict="{verdict}"'
        assert f"poolwarden_admission_requests_total{{{labels}}} 0.0" in text
    bounds = [line.partition('le="')[2].partition('"')[0] for line in text.splitlines() if 'le="' in line]
    expected = ["0.001", "0.0025", "0.005", "0.01", "0.025", "0.05", "0.1", "0.25", "0.5", "1.0", "2.5", "10.0", "+Inf"]
    assert bounds == expected * 2
    assert "_created" not in text


def test_an_unknown_page_is_an_error_in_json(webhook: Webhook) -> None:
    """404 and 405 have the form of every refusal."""
    assert page(webhook, "/nowhere") == (404, '{"error":"Not Found"}')
    reply = webhook.post(b"x", "/healthz")
    assert (reply.status, reply.text) == (405, '{"error":"Method Not Allowed"}')
    assert "GET" in reply.headers["allow"]
