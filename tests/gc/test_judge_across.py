"""Several IPAMs in one cluster: ranges that overlap, one address on one network, one IPAM's trouble."""

import pytest

from factories import NOW, Object, ago, blue, nad, pod, snapshot
from poolwarden.gc.judge import judge
from poolwarden.gc.policy import Policies
from poolwarden.ipam.verdict import Finding

A, B = "10.0.0.10", "10.0.0.11"
WHEREABOUTS = "whereabouts.cni.cncf.io/v1alpha1"


def ip_pool(records: dict[str, str], network: str = "10.0.0.0/24") -> Object:
    """A whereabouts pool with the records of these pods by address, each on net1."""
    base = int(network.split("/", maxsplit=1)[0].rpartition(".")[2])
    entries = {
        str(int(address.rpartition(".")[2]) - base): {"id": "sandbox", "podref": f"default/{name}", "ifname": "net1"}
        for address, name in records.items()
    }
    name = network.replace("/", "-")
    return {
        "apiVersion": WHEREABOUTS,
        "kind": "IPPool",
        "metadata": {"name": name, "namespace": "kube-system", "uid": f"{name}-uid", "resourceVersion": "7"},
        "spec": {"range": network, "allocations": entries},
    }


def found(*objects: Object) -> list[Finding]:
    """What is reported of these objects."""
    return [item for item in judge(snapshot(*objects), Policies(), NOW) if item.verdict not in {"InUse", "Retained"}]


def words(finding: Finding) -> tuple[str, str | None, str]:
    """A finding in short: its IPAM, its address, its verdict and reason."""
    return finding.pool.ipam, finding.address, f"{finding.verdict} {finding.reason}"


def test_ranges_of_two_ipams_that_overlap_are_told_on_both() -> None:
    """Each may hand out what the other one has given: drift, and nothing is done."""
    told = found(blue(), ip_pool({}))
    assert [words(item) for item in told] == [
        ("spiderpool", None, "Drift PoolsOverlap"),
        ("whereabouts", None, "Drift PoolsOverlap"),
    ]
    assert "10.0.0.0-24 (whereabouts)" in told[0].message


def test_ranges_of_two_ipams_that_do_not_overlap() -> None:
    """Nothing is told of them."""
    assert found(blue(), ip_pool({}, "10.9.0.0/24")) == []


@pytest.mark.parametrize(("master", "twice"), [("bond0", True), ("bond9", False), ("", False)])
def test_one_address_that_two_ipams_gave(master: str, twice: bool) -> None:  # noqa: FBT001 - a column of the table
    """Two live pods on one network have it at once, if the NADs prove that it is one network."""
    one = pod("one", nics={"net1": A})
    two = pod("two", nics={"other": A}, created=ago(days=1))
    networks = (nad("net1", ipam="spiderpool", master="bond0"), nad("other", ipam="whereabouts", master=master))
    other = ip_pool({A: "two"})
    other["spec"]["allocations"]["10"]["ifname"] = "other"
    told = [words(item) for item in found(blue({A: one}), other, one, two, *networks) if item.address == A]
    assert (("spiderpool", A, "Conflict AddressHeldTwice") in told) is twice


def test_the_veto_holds_across_ipams() -> None:
    """An address that a pod of another IPAM shows is not freed, whatever the record's IPAM."""
    taker = pod("taker", nics={"other": A})
    leak = blue({A: pod("gone")})
    told = found(leak, ip_pool({A: "taker"}), taker, nad("other", ipam="whereabouts", master=""))
    assert [(words(item), item.action) for item in told if item.address == A and item.pool.ipam == "spiderpool"] == [
        (("spiderpool", A, "Leaked OwnerGone"), "none")
    ]
