"""With which parameters each template is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

ACCOUNT = "111122223333"
REGION = "eu-west-1"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0123abcd-0000-1111-2222-0123456789ab"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/somebody"
#: What an operator might give; parameters that are not here keep their defaults.
GIVEN: dict[str, Any] = {
    "AccessLogBucket": "logs-of-the-account",
    "AlarmTenant": "acme",
    "DeployPrincipals": [ROLE],
    "FlowLogBucketArn": "arn:aws:s3:::logs-of-the-account/flows",
    "GitHubSubject": "repo:owner/name:environment:prod",
    "Image": f"registry.example/reviews@sha256:{'0' * 64}",
    "KeyArn": KEY,
    "ModelArns": [f"arn:aws:bedrock:{REGION}::foundation-model/a-model"],
    "OperatorPrincipals": [ROLE],
    "OtherBucketArns": ["arn:aws:s3:::inbox", "arn:aws:s3:::inbox/*"],
    "ObjectBucket": "inbox",
    "ObjectPipeline": "reviews:review",
    "ObjectPrefix": "uploads/",
    "Owner": "the shop team",
    "PermissionsBoundary": f"arn:aws:iam::{ACCOUNT}:policy/boundary",
    "Pipelines": ["reviews", "trips.booking:trip"],
    "Queue1": "gpu",
    "Queue3": "slow",
    "ReconcilerPrincipals": [ROLE],
    "RepositoryArn": f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/reviews",
    "Runbook": "https://wiki.example/dead-letters",
    "Schedule": "cron(0 2 * * ? *)",
    "ScheduleInput": "s3://inbox/daily.jsonl",
    "SchedulePipeline": "reviews:review",
    "Secret1": f"KEY_ONE=arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:one-AbCdEf",
    "Secret2": f"KEY_TWO=arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:two-AbCdEf",
    "SecretArns": [f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:one-AbCdEf"],
    "SecurityGroupId": "sg-0123456789abcdef0",
    "SourceArns": ["arn:aws:s3:::inbox/*"],
    "SubmitterPrincipals": [ROLE],
    "SubnetIds": ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"],
    "Tenant": "acme",
    "VpcId": "vpc-0123456789abcdef0",
    "WorkerPrincipals": [ROLE],
}

#: What a choice needs to have an effect.
NEEDED = {"NatGateways": {"Egress": "nat"}}


def variants(template: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield defaults first, then everything given, then each choice by itself."""
    declared: dict[str, dict[str, Any]] = template.get("Parameters", {})
    plain = {name: default(name, each) for name, each in declared.items()}
    yield plain
    yield {name: GIVEN.get(name, value) for name, value in plain.items()}
    for name, each in declared.items():
        for choice in each.get("AllowedValues", []):
            if choice != plain[name]:
                yield {**plain, name: choice, **NEEDED.get(name, {})}


def default(name: str, declared: dict[str, Any]) -> Any:
    """Return the default, or what an operator has to give."""
    if "Default" not in declared:
        return GIVEN.get(name, name)
    value = declared["Default"]
    if declared["Type"] == "CommaDelimitedList":
        return str(value).split(",")
    return value
