"""What tasks are granted, the endpoints of our network let through, and no more."""

from __future__ import annotations

import pytest

from verification.iam.evaluate import Decision, Request, Statement, decide
from verification.iam.roles import EVERYTHING, roles
from verification.iam.template import ACCOUNT, resources
from verification.iam.used import grants

#: Those that run in the network; what is submitted from S3 is any account's.
IN_TASKS = ("worker", "reconciler", "orchestrator", "execution")
ELSEWHERE = {"arn:aws:s3:::inbox/manifests/*"}
SERVICES = {
    "S3Endpoint": "s3",
    "DynamoDbEndpoint": "dynamodb",
    "SqsEndpoint": "sqs",
    "LogsEndpoint": "logs",
    "EcrApiEndpoint": "ecr",
    "SecretEndpoint": "secretsmanager",
    "ParameterEndpoint": "ssm",
    "ModelEndpoint": "bedrock",
}
ROLES = roles(**EVERYTHING)
MODEL = "bedrock:InvokeModel"
US = {"aws:principalaccount": ACCOUNT}


def fences() -> dict[str, list[Statement]]:
    """Return what each endpoint lets through, by service."""
    chosen = ("SecretsEndpoint", "ParametersEndpoint", "BedrockEndpoint")
    given = dict.fromkeys(chosen, "true")
    found = resources(
        "network", App="piecework", Env="prod", Endpoints="always", **given
    )
    return {
        service: found[name]["Properties"]["PolicyDocument"]["Statement"]
        for name, service in SERVICES.items()
    }


@pytest.mark.parametrize("actor", IN_TASKS)
def test_what_a_task_is_granted_passes_the_fence(actor: str) -> None:
    through = fences()
    for grant in grants(actor, ROLES[actor].grants):
        service = grant.action.partition(":")[0]
        # Secrets and parameters are granted in one list, to the actions of both.
        other = grant.action == "ssm:GetParameters" and ":ssm:" not in grant.resource
        if service in through and grant.resource not in ELSEWHERE and not other:
            wanted = Request(grant.action, grant.resource, US)
            assert Decision.ALLOWED is decide(wanted, through[service]), grant


@pytest.mark.parametrize(
    ("actor", "parameter", "action", "given"),
    [
        ("execution", "SecretArns", "ssm:GetParameters", "parameter/token"),
        ("worker", "ModelArns", MODEL, "inference-profile/us.some.model"),
        ("worker", "ModelArns", MODEL, "application-inference-profile/1"),
        ("worker", "ModelArns", MODEL, "provisioned-model/1"),
    ],
)
def test_what_a_parameter_names_passes_the_fence(
    actor: str, parameter: str, action: str, given: str
) -> None:
    service = action.partition(":")[0]
    arn = f"arn:aws:{service}:us-east-1:{ACCOUNT}:{given}"
    wanted = Request(action, arn, US)
    granted = roles(**{**EVERYTHING, parameter: arn})[actor].grants
    assert Decision.ALLOWED is decide(wanted, granted)
    assert Decision.ALLOWED is decide(wanted, fences()[service])


@pytest.mark.parametrize(
    ("action", "resource", "account"),
    [
        (MODEL, "us-east-1:9:imported-model/1", ACCOUNT),
        ("s3:PutObject", "::elsewhere/x", ACCOUNT),
        ("s3:PutObject", "::piecework-prod-000000000000-us-east-1/x", "9"),
        ("sqs:SendMessage", f"us-east-1:{ACCOUNT}:elsewhere", ACCOUNT),
        ("sqs:SendMessage", "us-east-1:9:piecework-prod-work", ACCOUNT),
        ("ssm:GetParameters", "us-east-1:9:parameter/token", ACCOUNT),
        ("dynamodb:PutItem", f"us-east-1:{ACCOUNT}:table/piecework-prod-x", "9"),
    ],
)
def test_nothing_else_passes_the_fence(
    action: str, resource: str, account: str
) -> None:
    service = action.partition(":")[0]
    arn = f"arn:aws:{service}:{resource}"
    wanted = Request(action, arn, {"aws:principalaccount": account})
    assert Decision.NOT_ALLOWED is decide(wanted, fences()[service])
