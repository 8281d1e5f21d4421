"""A client of the scripted API server."""

import pytest

from cluster.scripted import FakeServer, FakeTime, json_answer, page
from poolwarden.cluster.api_server import ApiServer
from poolwarden.cluster.exchange import Limits


@pytest.fixture
def time() -> FakeTime:
    """The time of the client under test."""
    return FakeTime()


@pytest.fixture
def server() -> FakeServer:
    """Serves pods (none yet) and group apps, and nothing else."""
    server = FakeServer()
    server.serve("/api/v1", "pods", "configmaps")
    server.serve("/apis/apps/v1", "statefulsets")
    groups = [{"name": "apps", "versions": [{"version": "v1"}]}]
    server.on("GET", "/apis", json_answer({"kind": "APIGroupList", "groups": groups}))
    server.on("GET", "/api/v1/pods", page([]))
    return server


@pytest.fixture
def api(server: FakeServer, time: FakeTime) -> ApiServer:
    """The client under test."""
    return ApiServer(server, limits=Limits(), stop=time, runtime=time)
