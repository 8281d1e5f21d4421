"""OwnerFinished, OwnerOverdue, OwnerStuck: owners whose pod object exists, but which have ended, or should have."""

import pytest

from factories import NOW, Object, ago, blue, claim, endpoint, launcher, nad, node, pod, said, stamp, verdict, words
from poolwarden.gc.policy import Policy

A = "10.0.0.10"
RELEASE_FINISHED = Policy(release_finished_pods=True)
IN_USE = "InUse OwnerLive none"


def judged(owner: Object, *things: Object, policy: Policy | None = None) -> str:
    """What is said of a record of that pod's."""
    return said(A, blue({A: owner}), owner, *things, policy=policy)


# --- finished -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "owner",
    [
        pod("job", phase="Failed"),
        pod("job", phase="Failed", restart="Never", ips=[A]),
        pod("job", phase="Succeeded", restart="Never"),
        pod("job", phase="Succeeded", restart="OnFailure"),
    ],
)
def test_finished_owner(owner: Object) -> None:
    """Ended longer than grace ago and not to be restarted: a leak, released if the policy says so."""
    assert judged(owner) == "Leaked OwnerFinished none"
    assert judged(owner, policy=RELEASE_FINISHED) == "Leaked OwnerFinished release"


def test_finished_owner_is_told_why_it_is_kept() -> None:
    """The message says which setting keeps it."""
    job = pod("job", phase="Failed")
    found = verdict(A, blue({A: job}), job)
    assert "default/job (UID job-uid" in found.message
    assert "finishedPods" in found.message


@pytest.mark.parametrize(("seconds", "expected"), [(600, IN_USE), (601, "Leaked OwnerFinished none")])
def test_finished_longer_than_grace(seconds: int, expected: str) -> None:
    """The grace is the policy's, counted from the end of the last container."""
    job = pod("job", phase="Failed", containers={"main": ago(hours=2), "sidecar": ago(seconds=seconds)})
    assert judged(job) == expected
    assert judged(job, policy=Policy(grace=seconds - 1)) == "Leaked OwnerFinished none"


def test_succeeded_owner_that_is_always_restarted() -> None:
    """By its restartPolicy it comes back; a Failed pod never does."""
    assert judged(pod("job", phase="Succeeded", restart="Always"), policy=RELEASE_FINISHED) == IN_USE


def status_of(kind: str, *states: Object) -> dict[str, list[Object]]:
    """Container statuses under one of the three keys."""
    return {kind: [{"name": f"{kind}-{at}", "state": state} for at, state in enumerate(states)]}


ENDED: Object = {"terminated": {"finishedAt": ago(hours=1)}}
RUNS: Object = {"running": {}}
WAITS: Object = {"waiting": {"reason": "PodInitializing"}}
GROUPS = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize(
    ("state", "expected"),
    [(ENDED, "Leaked OwnerFinished release"), (RUNS, IN_USE), (WAITS, IN_USE), (None, IN_USE), ({}, IN_USE)],
)
def test_every_container_counts(group: str, state: Object | None, expected: str) -> None:
    """Containers, init and ephemeral containers must each report a terminated status."""
    job = pod("job", phase="Failed", containers={"main": ago(hours=1)})
    job["spec"].setdefault(GROUPS[group], []).append({"name": "extra"})
    job["status"].setdefault(group, []).append({"name": "extra", "state": state})
    assert judged(job, policy=RELEASE_FINISHED) == expected


@pytest.mark.parametrize("group", GROUPS.values())
def test_a_container_that_reports_nothing(group: str) -> None:
    """A container of the spec without a status proves nothing."""
    job = pod("job", phase="Failed")
    job["spec"].setdefault(group, []).append({"name": "silent"})
    assert judged(job, policy=RELEASE_FINISHED) == IN_USE


def test_a_status_without_a_container_of_the_spec() -> None:
    """A status of a container that the spec does not name counts as well."""
    job = pod("job", phase="Failed")
    job["status"]["ephemeralContainerStatuses"] = [{"name": "debug", "state": RUNS}]
    assert judged(job, policy=RELEASE_FINISHED) == IN_USE


def test_no_container_status_at_all() -> None:
    """None reported proves nothing: in use until the pod is deleted."""
    job = pod("job", phase="Failed", containers={})
    job["spec"]["containers"] = []
    assert judged(job, policy=RELEASE_FINISHED) == IN_USE


def test_end_without_a_time() -> None:
    """Terminated, but nobody says when: longer than grace is not proven."""
    job = pod("job", phase="Failed")
    job["status"]["containerStatuses"][0]["state"] = {"terminated": {"exitCode": 137}}
    assert judged(job, policy=RELEASE_FINISHED) == IN_USE


def test_end_of_the_containers_that_say_when() -> None:
    """One that lost its time does not hide the others'."""
    job = pod("job", phase="Failed")
    job["status"]["containerStatuses"].append({"name": "lost", "state": {"terminated": {"exitCode": 137}}})
    assert judged(job) == "Leaked OwnerFinished none"


def test_finished_owner_whose_address_another_pod_shows() -> None:
    """The veto excepts only the owner itself."""
    job = pod("job", phase="Failed", ips=[A])
    found = verdict(A, blue({A: job}), job, pod("other", nics={"net1": A}), policy=RELEASE_FINISHED)
    assert words(found) == "Leaked OwnerFinished none"
    assert "other-uid" in found.message


def test_finished_launcher_of_a_deleted_machine() -> None:
    """A VM's launcher pod that has ended, without VM and VMI, is finished like any other."""
    ended = launcher("vm", phase="Succeeded", uid="launcher-uid")
    record = blue({A: claim("vm", "launcher-uid")})
    assert said(A, record, ended, policy=RELEASE_FINISHED) == "Leaked OwnerFinished release"


# --- overdue --------------------------------------------------------------------------------------------------------

LATE = ago(minutes=5)
DONE = {"main": ago(minutes=6)}
OVERDUE = "Leaked OwnerOverdue release"


@pytest.mark.parametrize(
    "owner",
    [
        pod("app", deadline=LATE, containers=DONE),
        pod("app", deadline=LATE, containers=DONE, ips=[A], sandbox=False),
        pod("app", deadline=LATE, containers=DONE, sandbox=True),
        pod("job", phase="Succeeded", deadline=LATE, containers=DONE),
        pod("job", phase="Failed", deadline=LATE, containers=DONE, ips=[A], sandbox=False),
        pod("app", deadline=ago(seconds=1), containers=DONE),
    ],
)
def test_overdue_owner(owner: Object) -> None:
    """Past its deadline, containers ended, and no podIPs or no sandbox: whatever its phase, a leak."""
    found = verdict(A, blue({A: owner}), owner)
    assert words(found) == OVERDUE
    assert found.min_grace == 30


STUCK = "Unknown OwnerStuck none"


@pytest.mark.parametrize(
    "owner",
    [
        pod("app", deadline=LATE, containers={"main": None}),
        pod("app", deadline=LATE, containers=DONE | {"sidecar": None}),
        pod("app", deadline=LATE, containers={}),
        pod("app", deadline=LATE, containers=DONE, ips=[A]),
        pod("app", deadline=LATE, containers=DONE, ips=[A], sandbox=True),
        pod("app", deadline=LATE, containers={"main": None}, ips=[A], sandbox=False),
        pod("app", phase="Pending", deadline=LATE, node=""),
    ],
)
def test_stuck_owner(owner: Object) -> None:
    """Past its deadline, but a container or the sandbox may run: kept, and told."""
    found = verdict(A, blue({A: owner}), owner)
    assert words(found) == STUCK
    assert "app-uid" in found.message
    assert found.min_grace == 30


def test_deadline_includes_the_grace() -> None:
    """`deletionTimestamp` is when the grace ends; nothing is added to it."""
    running = pod("app", deadline=stamp(NOW), grace=3600, containers={"main": None})
    assert judged(running) == IN_USE
    assert judged(pod("app", deadline=ago(seconds=1), grace=3600, containers={"main": None})) == STUCK


def test_stuck_owner_of_which_no_container_is_known() -> None:
    """None reported proves nothing, also where the spec names none."""
    bare = pod("app", deadline=LATE, containers={})
    bare["spec"]["containers"] = []
    assert judged(bare) == STUCK


@pytest.mark.parametrize("nodes", [(node("node-1", ready=False),), (node("node-2"),), ()])
def test_stuck_owner_on_a_node_that_does_not_answer(nodes: tuple[Object, ...]) -> None:
    """If its node is not Ready or absent, that is why: the message names the node."""
    app = pod("app", deadline=LATE, node="node-1" if nodes else "node-9")
    found = verdict(A, blue({A: app}), app, *nodes)
    assert words(found) == "Unknown NodeUnreachable none"
    assert found.node == app["spec"]["nodeName"]
    assert found.node in found.message
    assert found.min_grace == 30


def test_overdue_needs_no_node_evidence() -> None:
    """Containers that the kubelet reported as ended have ended, whatever became of the node."""
    assert judged(pod("app", deadline=LATE, containers=DONE), node("node-1", ready=False)) == OVERDUE


def test_overdue_owner_that_itself_shows_its_address() -> None:
    """Only the owner by UID is excepted from the veto: its network-status outlives its sandbox."""
    app = pod("app", ips=[A], deadline=LATE, containers=DONE, sandbox=False)
    assert judged(app) == OVERDUE
    found = verdict(A, blue({A: app}), app, pod("other", nics={"net1": A}))
    assert words(found) == "Leaked OwnerOverdue none"
    assert "other-uid" in found.message


def test_overdue_owner_whose_address_a_live_pod_uses() -> None:
    """An overdue owner is live for Conflict: both use it."""
    app = pod("app", ips=[A], deadline=LATE, containers=DONE, sandbox=False)
    things = (app, pod("other", ips=[A]), nad("eth0"), endpoint(app, {"eth0": f"{A}@blue"}))
    assert judged(*things) == "Conflict AddressHeldTwice none"
