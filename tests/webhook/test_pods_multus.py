"""The promise behind every name that is written: Multus itself, given our output, gives just these."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, assume, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from controlplane.multus import Multus, Named, Pod
from poolwarden.ipam.objects import NETWORKS
from poolwarden.webhook.answer import Denied
from poolwarden.webhook.pod.networks import Networks, parse
from poolwarden.webhook.settings import RuleSettings
from webhook.pod_texts import NETWORK_TEXTS
from webhook.reviews import NAMESPACE, mutated, networks, reviewed


def names_by(multus: Multus, text: str, default_networks: int = 0) -> Named | object:
    """What Multus makes of a networks annotation, where every network exists."""
    pod = Pod({NETWORKS: text}, namespace=NAMESPACE, nads="every", default_networks=default_networks)
    return multus.names_of([pod])[0]


@hypothesis_settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=NETWORK_TEXTS, default_networks=st.integers(0, 2))
def test_multus_gives_the_names_that_were_promised(multus: Multus, text: str, default_networks: int) -> None:
    """What is allowed is accepted by Multus, before and after naming, with the same names: those that are written."""
    settings = RuleSettings(default_networks=default_networks)
    after, answer = reviewed(networks(text), settings=settings)
    assume(not isinstance(answer, Denied))
    read = parse(NETWORKS, after[NETWORKS], NAMESPACE)
    assert isinstance(read, Networks)
    preceding = ("eth0", *(f"net{number}" for number in range(1, default_networks + 1)))
    promised = Named((*preceding, *(item.interface for item in read.items)))
    assert names_by(multus, after[NETWORKS], default_networks) == promised
    if after[NETWORKS] != text and not _has_blanks_in_names(text):
        assert names_by(multus, text, default_networks) == promised


@hypothesis_settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=NETWORK_TEXTS)
def test_what_multus_refuses_is_refused(multus: Multus, text: str) -> None:
    """Nothing that fails in CNI ADD for its annotation passes admission, unless naming mended it."""
    after = mutated(networks(text))[NETWORKS]
    _, answer = reviewed(networks(text))
    if isinstance(names_by(multus, after), Named):
        return
    assert isinstance(answer, Denied), names_by(multus, after)


@pytest.mark.parametrize("text", ["my.net", "[null]", " ", "a,,b", '[{"name":"a","ips":["x"]}]'])
def test_the_oracle_refuses_too(multus: Multus, text: str) -> None:
    """So that the two tests above can fail."""
    assert not isinstance(names_by(multus, text), Named)


def _has_blanks_in_names(text: str) -> bool:
    """A name that blanks surround in JSON is not the one that we write."""
    read = parse(NETWORKS, text, NAMESPACE)
    return isinstance(read, Networks) and any(item.interface != item.interface.strip() for item in read.items)
