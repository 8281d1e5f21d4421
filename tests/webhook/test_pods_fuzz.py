"""No annotation raises, none is changed twice, and what is changed keeps everything but interface names."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from poolwarden.ipam.objects import DEFAULT_NETWORK, NETWORKS
from poolwarden.webhook.answer import Allowed, Denied, response
from poolwarden.webhook.pod.networks import Networks, is_json, parse
from poolwarden.webhook.pod.pods import RULED, validate_pod
from poolwarden.webhook.pod.pool_lists import IPPOOL, IPPOOLS, ROUTES, SUBNETS
from poolwarden.webhook.settings import DefaultNetwork, RuleSettings
from webhook.pod_texts import NETWORK_TEXTS, POOL_TEXTS
from webhook.reviews import KNOWLEDGE, mutated, pod, request

ANNOTATIONS = st.fixed_dictionaries(
    {},
    optional={
        NETWORKS: NETWORK_TEXTS,
        IPPOOLS: POOL_TEXTS,
        SUBNETS: POOL_TEXTS,
        IPPOOL: POOL_TEXTS,
        ROUTES: POOL_TEXTS,
        DEFAULT_NETWORK: NETWORK_TEXTS | st.just("kube-system/base"),
    },
)
SETTINGS = st.builds(RuleSettings, default_network=st.sampled_from(DefaultNetwork), default_networks=st.integers(0, 2))


@given(ANNOTATIONS, SETTINGS)
def test_nothing_raises_and_naming_is_idempotent(annotations: dict[str, str], settings: RuleSettings) -> None:
    """Mutated once and twice is the same; the validating rule answers either way."""
    once = mutated(annotations, settings=settings)
    assert mutated(once, settings=settings) == once
    for text in (annotations, once):
        for asked in (request(pod(text)), request(pod(text), old=pod(annotations))):
            answer = validate_pod(asked, KNOWLEDGE, settings)
            assert isinstance(answer, Allowed | Denied)
            assert response("u1", answer)


@given(ANNOTATIONS, SETTINGS)
def test_only_interface_names_change(annotations: dict[str, str], settings: RuleSettings) -> None:
    """Networks keep their places, names and other keys; pools stay as they are listed; the form is kept."""
    after = mutated(annotations, settings=settings)
    assert set(after) == set(annotations)
    for key in RULED:
        before_text, after_text = annotations.get(key, ""), after.get(key, "")
        if before_text == after_text:
            continue
        assert key in {NETWORKS, IPPOOLS, SUBNETS}
        assert is_json(before_text) == is_json(after_text)
        if is_json(before_text):
            assert _without_interfaces(json.loads(after_text)) == _without_interfaces(json.loads(before_text))
        else:
            before, named = parse(key, before_text, "ns"), parse(key, after_text, "ns")
            assert isinstance(before, Networks)
            assert isinstance(named, Networks)
            assert [item.key for item in before.items] == [item.key for item in named.items]


@given(NETWORK_TEXTS)
def test_a_name_that_was_given_is_kept(text: str) -> None:
    """Blanks round it apart."""
    before, after = parse(NETWORKS, text, "ns"), parse(NETWORKS, mutated({NETWORKS: text})[NETWORKS], "ns")
    if isinstance(before, Networks):
        assert isinstance(after, Networks)
        for old, new in zip(before.items, after.items, strict=True):
            assert not old.interface.strip() or new.interface.strip() == old.interface.strip()


def _without_interfaces(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value for key, value in item.items() if key != "interface"} for item in items]
