"""What a deploy refuses or tells before it creates anything."""

from __future__ import annotations

from dataclasses import replace

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.infra.quotas import ON_DEMAND, SPOT, Fleet
from piecework_orchestrator.infra.templates import Part
from tests.unit.orchestrator.infra.cloudformation import Account
from tests.unit.orchestrator.infra.conftest import Desk

pytestmark = pytest.mark.usefixtures("files")

OWN_VPC = {"VpcId": "vpc-1", "SubnetIds": "a,b"}


def clients(account: Account) -> dict[str, Account]:
    return {"iam": account, "ec2": account, "service-quotas": account}


def test_an_environment_of_another_region_is_refused_before_anything_is_created(
    desk: Desk,
) -> None:
    account = Account(roles={"shop-prod-worker"})
    with pytest.raises(UsageError) as told:
        desk.deploy(**clients(account))

    assert "infra.environment.elsewhere" == told.value.code
    assert "shop-prod-worker" in told.value.message
    assert "eu-central-1" in told.value.message
    assert [] == desk.aws.calls


def test_an_environment_of_this_region_and_one_that_may_not_read_roles_go_on(
    desk: Desk,
) -> None:
    desk.deploy(**clients(Account(denied={"GetRole"})))
    again = desk.deploy(**clients(Account(roles={"shop-prod-worker"})))
    assert {"unchanged"} == {outcome.result for outcome in again}


@pytest.mark.parametrize(
    ("workers", "free", "most"), [(125, 251, 0), (250, 251, 0), (251, 251, 250)]
)
def test_subnets_without_an_address_for_each_worker_of_an_update_are_refused(
    desk: Desk, workers: int, free: int, most: int
) -> None:
    shared = {**OWN_VPC, "MaxWorkers": str(workers)}
    account = Account(free=free)
    if not most:
        desk.deploy(shared=shared, **clients(account))
        return
    with pytest.raises(UsageError) as told:
        desk.deploy(shared=shared, **clients(account))

    assert "infra.subnets.too_small" == told.value.code
    assert f"MaxWorkers={workers} needs {2 * workers + 2} addresses" in str(told.value)
    assert "502 free addresses" in told.value.message
    assert f"MaxWorkers to {most} or fewer" in told.value.next_step
    assert [] == desk.aws.calls


def test_addresses_that_own_tasks_use_are_not_missing_in_an_update(desk: Desk) -> None:
    shared = {**OWN_VPC, "MaxWorkers": "100"}
    desk.deploy(shared=shared, **clients(Account(free=200)))
    busy = clients(Account(free=10))
    desk.deploy(Part.SCALING, shared=shared, **busy)
    with pytest.raises(UsageError, match="have 502 addresses"):
        desk.deploy(Part.SCALING, shared={**shared, "MaxWorkers": "300"}, **busy)


def test_a_quota_that_is_too_small_is_told_with_the_workers_that_can_run(
    desk: Desk,
) -> None:
    desk.deploy(shared={"MaxWorkers": "40"}, **clients(Account(vcpus=6)))
    (spot,) = (line for line in desk.said.reports if "quota" in line)
    assert "Fargate Spot vCPU is 6, and MaxWorkers=40 needs 15" in spot
    assert "17 workers can run" in spot
    assert "--quota-code L-36FBB829 --desired-value 15`" in spot


def test_quotas_that_suffice_or_may_not_be_read_are_not_told(desk: Desk) -> None:
    desk.deploy(**clients(Account()))
    denied = Account(denied={"GetServiceQuota", "DescribeSubnets"})
    desk.deploy(shared={**OWN_VPC, "MaxWorkers": "1000"}, **clients(denied))
    assert not [line for line in desk.said.reports if "quota" in line]


@pytest.mark.parametrize(
    ("fleet", "workers", "needs"),
    [
        (Fleet(0.5, 1, 1, 3), 20, (2.75, 7.5)),  # 1, then 19 as 1 to 3: 4 and 15
        (Fleet(0.5, 1, 1, 3), 1, (0.75, 0.0)),
        (Fleet(2.0, 0, 0, 1), 5, (0.25, 10.0)),
        (Fleet(1.0, 3, 0, 0), 5, (5.25, 0.0)),
    ],
)
def test_a_fleet_needs_vcpu_by_its_base_and_its_weights(
    fleet: Fleet, workers: int, needs: tuple[float, float]
) -> None:
    found = fleet.needs(workers)
    assert needs == (found[ON_DEMAND], found[SPOT])
    for quota, vcpu in found.items():
        most = fleet.most(quota, vcpu)
        assert fleet.needs(most)[quota] <= vcpu
        assert workers <= most
        smaller = replace(fleet, vcpu=fleet.vcpu / 2)
        assert most <= smaller.most(quota, vcpu)
