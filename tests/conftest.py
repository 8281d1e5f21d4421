"""Fixtures of all tests: a real control plane for those that ask for one, and the real programs of others."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path

import pytest
import structlog

from controlplane import build
from controlplane.multus import Multus
from controlplane.plane import ControlPlane
from controlplane.whereabouts import Whereabouts, installed

UNAVAILABLE = pytest.StashKey[str]()


@pytest.hookimpl(tryfirst=True)  # before -m deselects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks each test that needs the programs of the control plane."""
    for item in items:
        if "control_plane_programs" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.controlplane)


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around the list of skipped tests
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> Generator[None]:
    """Says once, and at the end, why tests were skipped for want of a control plane."""
    yield
    if UNAVAILABLE in config.stash:
        terminalreporter.write_line(f"*** {config.stash[UNAVAILABLE]}", red=True, bold=True)


@pytest.fixture(autouse=True)
def _logs() -> Iterator[None]:
    """Leaves structlog as it was: a command sets it up to write where pytest captures, for one test only."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def control_plane_programs(pytestconfig: pytest.Config) -> Mapping[str, Path]:
    """The paths of all programs of build.py by name, built where need be; without them the test is skipped."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():  # a build takes minutes: its progress must be seen
            return build.ensure()
    except build.UnavailableError as error:
        if os.environ.get("CI") == "true":
            pytest.fail(f"{error} With CI=true that is a failure.", pytrace=False)
        pytestconfig.stash[UNAVAILABLE] = str(error)
        pytest.skip("no control plane: see the end")


@pytest.fixture(scope="session")
def control_plane(
    control_plane_programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """One control plane for the whole run, with controllers and kwok; tests keep apart by namespaces and names."""
    with ControlPlane(control_plane_programs, tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture
def namespace(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new namespace named after the test; its pods are gone before the next test starts."""
    name = _unique_name(request)
    control_plane.add_namespace(name)
    yield name
    control_plane.remove_namespace(name)


@pytest.fixture
def node(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new Ready node whose kubelet, played by kwok, runs pods and ends them once deleted."""
    name = _unique_name(request)
    control_plane.add_node(name)
    yield name
    control_plane.remove_node(name)


@pytest.fixture
def bare_node(control_plane: ControlPlane, request: pytest.FixtureRequest) -> Iterator[str]:
    """A new Ready node without a kubelet: its pods do what the test reports by run_pod, finish_pod and so on."""
    name = f"bare-{_unique_name(request)}"
    control_plane.add_node(name, kubelet_runs=False)
    yield name
    control_plane.remove_node(name)


@pytest.fixture
def limited_user(control_plane: ControlPlane) -> Iterator[str]:
    """The name of a user who may do nothing but what the test grants by ``control_plane.grant`` or ``bind``."""
    with control_plane.limited_user() as user:
        yield user


@pytest.fixture
def whereabouts(
    control_plane: ControlPlane, control_plane_programs: Mapping[str, Path], tmp_path: Path
) -> Iterator[Whereabouts]:
    """The real whereabouts plugin on the control plane; its records are gone before the next test starts."""
    with installed(control_plane, control_plane_programs["whereabouts"], tmp_path) as plugin:
        yield plugin


@pytest.fixture(scope="session")
def multus(control_plane_programs: Mapping[str, Path]) -> Iterator[Multus]:
    """Multus' own CmdAdd, to be asked for the names that it gives to a pod's interfaces."""
    with Multus(control_plane_programs["multus-names"]) as program:
        yield program


def _unique_name(request: pytest.FixtureRequest) -> str:
    """Makes a name that Kubernetes takes from that of the test."""
    words = re.sub(r"[^a-z0-9]+", "-", request.node.name.lower()).strip("-")
    return f"{words[:40].strip('-')}-{secrets.token_hex(3)}"
