"""A control plane of their own for these tests: they register webhooks by which everybody's writes would fail."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from controlplane.build import WHEREABOUTS_CRDS
from controlplane.plane import ControlPlane
from manifests.leaking import GUARDS, Leaking

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="package")
def control_plane(
    control_plane_programs: Mapping[str, Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ControlPlane]:
    """An API server without controllers and kubelets, so that every request is a test's; it knows all kinds of pools."""
    folder = tmp_path_factory.mktemp("manifests")
    with ControlPlane(control_plane_programs, folder, controllers=False, kubelets=False) as plane:
        whereabouts = control_plane_programs["whereabouts"].parent
        crds = (
            *(ROOT / "tests" / "crds").glob("*.yaml"),
            *(whereabouts / file for file in WHEREABOUTS_CRDS.files),
            ROOT / "manifests" / "crd" / "poolguards.yaml",
        )
        plane.kubectl("apply", *(f"--filename={path}" for path in crds))
        plane.kubectl("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all")
        plane.kubectl("apply", f"--filename={ROOT / 'manifests' / 'namespace.yaml'}")
        yield plane


@pytest.fixture
def leaking(
    request: pytest.FixtureRequest, control_plane: ControlPlane, namespace: str, bare_node: str
) -> Iterator[Leaking]:
    """The pool of the IPAM that the test is about; it and its guard are gone afterwards."""
    scene: Leaking = request.param(control_plane, namespace, bare_node)
    scene.make()
    yield scene
    scene.remove()
    control_plane.request("DELETE", GUARDS)
