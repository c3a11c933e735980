"""The roles of ECS that an empty account does not have."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from piecework.errors import PieceworkError
from piecework_orchestrator.infra.deploy import DeployRequest, deploy
from piecework_orchestrator.infra.environment import Environment
from tests.unit.orchestrator.infra.cloudformation import (
    CloudFormation,
    FakeInteraction,
    refused,
    session_of,
)

ECS, SCALING = "ecs.amazonaws.com", "ecs.application-autoscaling.amazonaws.com"
NAMES = {
    ECS: "AWSServiceRoleForECS",
    SCALING: "AWSServiceRoleForApplicationAutoScaling_ECSService",
}


@dataclass
class Iam:
    """An account whose roles are shown after some polls."""

    roles: set[str] = field(default_factory=set)
    refusal: str = ""
    polls: int = 3
    created: list[str] = field(default_factory=list)

    def get_role(self, RoleName: str) -> None:  # noqa: N803
        late = RoleName in {NAMES[service] for service in self.created}
        self.polls -= late
        if RoleName not in self.roles and not (late and self.polls < 0):
            raise refused("GetRole", "NoSuchEntity")

    def create_service_linked_role(self, AWSServiceName: str) -> None:  # noqa: N803
        if self.refusal:
            raise refused("CreateServiceLinkedRole", self.refusal)
        self.created.append(AWSServiceName)


@pytest.fixture(autouse=True)
def templates(files: dict[str, str]) -> None:
    files["service.yaml"] = files["service.yaml"].replace(
        "ECS::Service", "ECS::Cluster"
    )
    target = "AWS::ApplicationAutoScaling::ScalableTarget"
    files["scaling.yaml"] = files["scaling.yaml"].replace("AWS::SNS::Topic", target)


def test_an_empty_account_gets_both_roles_before_their_stacks(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    iam = Iam()
    deploy(session_of(cloudformation, iam=iam), DeployRequest(prod), interaction)
    assert [ECS, SCALING] == iam.created
    assert iam.polls < 0, "the deploy waits until IAM shows the role"
    created = [n for n, line in enumerate(interaction.reports) if "created AWS" in line]
    service = next(
        n for n, line in enumerate(interaction.reports) if "shop-prod-service" in line
    )
    assert created[0] < service


def test_roles_that_exist_are_left_alone(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    iam = Iam(roles=set(NAMES.values()))
    deploy(session_of(cloudformation, iam=iam), DeployRequest(prod), interaction)
    assert [] == iam.created


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        ("AccessDenied", "infra.service_role.missing"),
        ("InvalidInput", "infra.deploy.failed"),
        ("ServiceFailure", "infra.request.refused"),
    ],
)
def test_a_role_that_cannot_be_created_stops_before_the_stack(
    refusal: str,
    code: str,
    cloudformation: CloudFormation,
    prod: Environment,
    interaction: FakeInteraction,
) -> None:
    session = session_of(cloudformation, iam=Iam(refusal=refusal))
    with pytest.raises(PieceworkError) as failed:
        deploy(session, DeployRequest(prod), interaction)
    assert code == failed.value.code
    if refusal == "AccessDenied":
        assert f"--aws-service-name {ECS}`" in failed.value.next_step
    executed = [name for verb, name in cloudformation.calls if verb == "execute"]
    assert "cs-shop-prod-service" not in executed
    assert ("discard", "cs-shop-prod-service") in cloudformation.calls
