"""The roles as their two templates make them, and the data stack's own policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from verification.iam.evaluate import Statement
from verification.iam.template import read, resources

#: The stacks with roles.
STACKS = ("roles", "deployer")
#: What has something to grant only when a parameter names it.
EVERYTHING = {
    "KeyArn": "arn:aws:kms:us-east-1:000000000000:key/1234",
    "OperatorsReadPayloads": "true",
    "SourceArns": "arn:aws:s3:::inbox/manifests/*",
    "ModelArns": "arn:aws:bedrock:us-east-1::foundation-model/some.model-v1:0",
    "RepositoryArn": "arn:aws:ecr:us-east-1:000000000000:repository/piecework",
    "SecretArns": "arn:aws:secretsmanager:us-east-1:000000000000:secret:token-AbCdEf",
}


@dataclass(frozen=True, slots=True)
class Role:
    """A role: who may take it on, and what it may do then."""

    name: str
    trust: list[Statement]
    grants: list[Statement]
    boundary: str
    policies: list[Mapping[str, Any]]


def roles(app: str = "piecework", env: str = "prod", **given: str) -> dict[str, Role]:
    """Return the roles by their actors."""
    found: dict[str, Mapping[str, Any]] = {}
    declared = {name: read(name)["Parameters"].keys() for name in STACKS}
    known = set().union(*declared.values())
    for name in STACKS:
        elsewhere = known - declared[name]
        own = {key: text for key, text in given.items() if key not in elsewhere}
        found |= resources(name, App=app, Env=env, **own)
    policies = {
        arn(r, "policy", "ManagedPolicyName"): r["Properties"]["PolicyDocument"]
        for r in found.values()
        if r["Type"] == "AWS::IAM::ManagedPolicy"
    }
    made = {}
    for resource in found.values():
        if resource["Type"] != "AWS::IAM::Role":
            continue
        facts = resource["Properties"]
        attached = [policies[name] for name in facts["ManagedPolicyArns"]]
        made[str(facts["RoleName"]).removeprefix(f"{app}-{env}-")] = Role(
            name=str(facts["RoleName"]),
            trust=facts["AssumeRolePolicyDocument"]["Statement"],
            grants=[s for policy in attached for s in policy["Statement"]],
            boundary=str(facts.get("PermissionsBoundary", "")),
            policies=attached,
        )
    return made


def arn(resource: Mapping[str, Any], kind: str, name: str) -> str:
    """Return the ARN of a policy."""
    return f"arn:aws:iam::000000000000:{kind}/{resource['Properties'][name]}"


def resource_statements(app: str = "piecework", env: str = "prod") -> list[Statement]:
    """Return what the queues and the bucket say themselves."""
    found = resources("data", App=app, Env=env)
    return [
        statement
        for resource in found.values()
        if resource["Type"] in {"AWS::SQS::QueuePolicy", "AWS::S3::BucketPolicy"}
        for statement in resource["Properties"]["PolicyDocument"]["Statement"]
    ]
