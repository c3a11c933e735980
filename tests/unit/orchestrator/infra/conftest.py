"""Small templates in place of those in `infra/`, and a fake CloudFormation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pytest

from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.deploy import DeployRequest, deploy
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.templates import Part
from tests.unit.orchestrator.infra.cloudformation import (
    CloudFormation,
    FakeInteraction,
    session_of,
)

NAMES = """
  App: {Type: String, Default: piecework}
  Env: {Type: String, Default: local}
"""
DATA = f"""
Parameters: {NAMES}
  Protect: {{Type: String, Default: "true"}}
Resources:
  Table: {{Type: "AWS::DynamoDB::Table", DeletionPolicy: Retain}}
  Queue: {{Type: "AWS::SQS::Queue", DeletionPolicy: Retain}}
  Policy: {{Type: "AWS::SQS::QueuePolicy", DeletionPolicy: Retain}}
  Bucket: {{Type: "AWS::S3::Bucket", DeletionPolicy: Retain}}
Outputs:
  KeyArn: {{Value: !GetAtt Table.Arn}}
"""
NETWORK = f"""
Parameters: {NAMES}
Resources: {{Vpc: {{Type: "AWS::EC2::VPC"}}}}
Outputs: {{VpcId: {{Value: !Ref Vpc}}, SubnetIds: {{Value: !Join [",", [a, b]]}}}}
"""
ROLES = f"""
Parameters: {NAMES}
  KeyArn: {{Type: String, Default: ""}}
Resources: {{Worker: {{Type: "AWS::IAM::Role"}}}}
"""
SERVICE = f"""
Parameters: {NAMES}
  Image: {{Type: String}}
  Pipelines: {{Type: CommaDelimitedList, Default: mine}}
  VpcId: {{Type: String}}
  SubnetIds: {{Type: CommaDelimitedList}}
  SecurityGroupId: {{Type: String, Default: ""}}
  KeyArn: {{Type: String, Default: ""}}
  Size: {{Type: String, Default: small}}
  WorkerSize: {{Type: String, Default: small}}
  OnDemandBase: {{Type: Number, Default: 1}}
  OnDemandWeight: {{Type: Number, Default: 1}}
  SpotWeight: {{Type: Number, Default: 3}}
Mappings: {{Sizes: {{small: {{Cpu: "512"}}, large: {{Cpu: "2048"}}}}}}
Resources: {{Workers: {{Type: "AWS::ECS::Service"}}}}
"""
SCALING = f"""
Parameters: {NAMES}
  MaxWorkers: {{Type: Number, Default: 20}}
Resources: {{Thing: {{Type: "AWS::SNS::Topic"}}}}
"""
PLAIN = f"""
Parameters: {NAMES}
Resources: {{Thing: {{Type: "AWS::SNS::Topic"}}}}
"""
TRIGGERS = f"""
Parameters: {NAMES}
  Schedule: {{Type: String, Default: ""}}
Resources: {{Thing: {{Type: "AWS::Scheduler::Schedule"}}}}
"""
FILES = {
    "data.yaml": DATA,
    "network.yaml": NETWORK,
    "roles.yaml": ROLES,
    "deployer.yaml": ROLES,
    "service.yaml": SERVICE,
    "scaling.yaml": SCALING,
    "alarms.yaml": PLAIN,
    "triggers.yaml": TRIGGERS,
    "data-stack-policy.json": '{"Statement": ["as written"]}',
}


@pytest.fixture
def files(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Replace the files of `infra/`."""
    texts = dict(FILES)
    monkeypatch.setattr(templates, "read", texts.__getitem__)
    return texts


@pytest.fixture
def prod() -> Environment:
    return Environment(
        "shop", "prod", shared_parameters={"Image": "registry/shop@sha256:1"}
    )


@pytest.fixture
def cloudformation() -> CloudFormation:
    made = CloudFormation()
    made.outputs = {
        "shop-prod-data": {"KeyArn": "arn:key"},
        "shop-prod-network": {"VpcId": "vpc-1", "SubnetIds": "a,b"},
    }
    return made


@pytest.fixture
def interaction() -> FakeInteraction:
    return FakeInteraction()


@dataclass
class Desk:
    """A wanted environment, its account, and what an operator is told."""

    prod: Environment
    aws: CloudFormation
    said: FakeInteraction

    def deploy(
        self,
        *parts: Part,
        environment: Environment | None = None,
        shared: dict[str, str] | None = None,
        allowed: tuple[str, ...] = (),
        **clients: Any,
    ) -> list[Any]:
        """Deploy the parts, or all; `shared`: more of the shared parameters."""
        wanted = environment or self.prod
        given = {**wanted.shared_parameters, **(shared or {})}
        wanted = replace(wanted, shared_parameters=given)
        session = session_of(self.aws, **clients)
        return list(deploy(session, DeployRequest(wanted, parts, allowed), self.said))


@pytest.fixture
def desk(
    prod: Environment, cloudformation: CloudFormation, interaction: FakeInteraction
) -> Desk:
    return Desk(prod, cloudformation, interaction)
