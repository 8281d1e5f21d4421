"""Servers for the tests of this folder."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from .client import Webhook

Start = Callable[..., Webhook]


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Starts a server with settings of its own, ready unless told not to wait."""
    started: list[Webhook] = []

    def starter(*, wait: bool = True, **told: Any) -> Webhook:
        webhook = Webhook(tmp_path_factory.mktemp("webhook"), **told)
        started.append(webhook)
        if wait:
            webhook.wait_ready()
        return webhook

    yield starter
    for webhook in started:
        webhook.kill()


@pytest.fixture(scope="module")
def webhook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Webhook]:
    """A server with the usual settings; tests that share it leave it as it was."""
    webhook = Webhook(tmp_path_factory.mktemp("webhook"))
    try:
        webhook.wait_ready()
        yield webhook
    finally:
        webhook.kill()
