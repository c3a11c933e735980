"""The roles of the template grant what the code's call table says, and nothing else."""

from __future__ import annotations

import importlib
import json
from itertools import chain

import pytest

from verification.iam.deploying import STACKS, actions
from verification.iam.evaluate import texts
from verification.iam.grants import DEPLOY, GRANTS
from verification.iam.roles import EVERYTHING, Role, roles
from verification.iam.template import read
from verification.iam.used import grants

ROLES = roles(**EVERYTHING)
PLAIN = roles()
#: Those who serve every tenant of the queue; the others may be one tenant's.
ALL_TENANTS = {"worker", "reconciler", "execution"}
#: Actions that name no resource: IAM knows none for them.
NAMELESS = {
    *("ecr:GetAuthorizationToken", "kms:ListAliases", "servicequotas:GetServiceQuota"),
    *("ecs:DeregisterTaskDefinition", "ecs:DescribeTaskDefinition"),
    "logs:DescribeLogGroups",
    "cloudwatch:DescribeAlarms",
    "application-autoscaling:DescribeScalableTargets",
    "application-autoscaling:DescribeScalingPolicies",
    "application-autoscaling:DescribeScheduledActions",
    "autoscaling:DescribeTags",
    *("logs:CreateLogDelivery", "logs:DeleteLogDelivery"),
    *("logs:DescribeIndexPolicies", "logs:DescribeResourcePolicies"),
    *("sns:GetSubscriptionAttributes", "sns:Unsubscribe"),
}
#: Characters of a managed policy.
POLICY_LIMIT = 6_144
#: How the actions begin that end a resource, or what it says of another.
ENDS = (
    *(
        "Delete",
        "Deregister",
        "Detach",
        "Disassociate",
        "Release",
        "ScheduleKeyDeletion",
    ),
    *("SetTopicAttributes", "Unsubscribe"),
)


@pytest.mark.parametrize("actor", sorted(GRANTS))
@pytest.mark.parametrize("tenant", ["*", "acme"])
def test_the_template_grants_what_the_table_says_and_nothing_else(
    actor: str, tenant: str
) -> None:
    made = roles(Tenant=tenant, **EVERYTHING)[actor]
    told = chain.from_iterable(
        row.pairs("*" if actor in ALL_TENANTS else tenant) for row in GRANTS[actor]
    )
    expected = {pair for pair in told if tenant == "*" or pair[0] != "dynamodb:Scan"}
    granted = {(g.action, g.resource) for g in grants(actor, made.grants)}
    assert expected == granted


def test_a_row_of_the_table_names_code_that_is_there() -> None:
    for row in chain(DEPLOY, *GRANTS.values()):
        assert row.by or row.unproven
        module, _, name = row.by.partition(":")
        found = importlib.import_module(module) if module else None
        for part in filter(None, name.split(".")):
            found = getattr(found, part)


def test_the_deploy_role_may_do_what_its_own_code_calls() -> None:
    granted = grants("deploy", ROLES["deploy"].grants)
    own = {pair for row in DEPLOY for pair in row.pairs("*")}
    assert own <= {(g.action, g.resource) for g in granted}


@pytest.mark.parametrize("stack", sorted(set(STACKS) - {"data"}))
def test_the_deploy_role_may_end_what_goes_with_a_stack_that_it_may_delete(
    stack: str,
) -> None:
    granted = {g.action for g in grants("deploy", ROLES["deploy"].grants)}
    for name, resource in read(stack)["Resources"].items():
        if resource.get("DeletionPolicy") != "Retain":
            taken = actions(resource["Type"], deletable=True) & granted
            assert any(a.partition(":")[2].startswith(ENDS) for a in taken), name


@pytest.mark.parametrize("role", ROLES.values(), ids=lambda role: str(role.name))
def test_a_role_names_actions_and_resources(role: Role) -> None:
    for statement in role.grants:
        named = texts(statement["Action"])
        assert "Allow" == statement["Effect"]
        assert not any("*" in action for action in named)
        if "*" in texts(statement["Resource"]):
            looks = {a for a in named if a.startswith("ec2:Describe")}
            assert set(named) - looks <= NAMELESS


def test_every_actor_has_a_role_of_the_name_that_others_count_on() -> None:
    assert {*GRANTS, "deploy"} == set(PLAIN)
    assert {f"piecework-prod-{actor}" for actor in PLAIN} == {
        role.name for role in PLAIN.values()
    }


def test_a_grant_that_needs_a_parameter_is_absent_without_it() -> None:
    granted = {
        (actor, g.action) for actor in PLAIN for g in grants(actor, PLAIN[actor].grants)
    }
    everything = {
        (actor, g.action) for actor in ROLES for g in grants(actor, ROLES[actor].grants)
    }
    assert {
        ("worker", "bedrock:InvokeModel"),
        ("execution", "secretsmanager:GetSecretValue"),
        ("operator-read", "kms:Decrypt"),
    } <= everything - granted
    payloads = [
        (actor, g.resource)
        for actor in ("operator-read", "operator-write")
        for g in grants(actor, PLAIN[actor].grants)
        if g.action == "s3:GetObject" and "/payload/" in g.resource
    ]
    assert [] == payloads


def test_the_policies_fit_the_limits_of_aws() -> None:
    longest = roles("a" * 20, "b" * 14, Tenant="t" * 64, **EVERYTHING)
    for role in longest.values():
        assert len(role.name) <= 64
        assert len(role.policies) <= 10
        for policy in role.policies:
            assert len(json.dumps(policy, separators=(",", ":"))) <= POLICY_LIMIT
