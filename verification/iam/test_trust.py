"""Who may take a role on: our tasks, people with a second factor, a workflow."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from verification.iam.evaluate import Decision, Request, decide
from verification.iam.roles import roles

YES, NO = Decision.ALLOWED, Decision.NOT_ALLOWED
ACCOUNT = "000000000000"
TASKS = ("Service", "ecs-tasks.amazonaws.com")
ALICE = ("AWS", f"arn:aws:iam::{ACCOUNT}:user/alice")
STRANGER = ("AWS", "arn:aws:iam::999999999999:user/eve")
SUBMITTER = ("AWS", f"arn:aws:iam::{ACCOUNT}:role/web")
GITHUB = (
    "Federated",
    f"arn:aws:iam::{ACCOUNT}:oidc-provider/token.actions.githubusercontent.com",
)
ECS = f"arn:aws:ecs:us-east-1:{ACCOUNT}:task/x/1"
OURS = {"aws:sourcearn": ECS, "aws:sourceaccount": ACCOUNT}
RULE = f"arn:aws:events:us-east-1:{ACCOUNT}:rule/piecework-prod-submit"
GROUP = f"arn:aws:scheduler:us-east-1:{ACCOUNT}:schedule-group/default"
MFA = {"aws:multifactorauthpresent": "true"}
TOKEN = "token.actions.githubusercontent.com"
SUBJECT = "repo:ours/app:environment:prod"
WORKFLOW = {f"{TOKEN}:aud": "sts.amazonaws.com", f"{TOKEN}:sub": SUBJECT}
TAGGED = "${aws:PrincipalTag/tenant}"
TO_ALICE = {
    f"{who}Principals": ALICE[1] for who in ("Operator", "Deploy", "Reconciler")
}

WHO: list[tuple[str, dict[str, str], tuple[str, str], dict[str, str], Decision]] = [
    # tasks: of this account and region, and of no other service
    ("worker", {}, TASKS, OURS, YES),
    ("worker", {}, TASKS, {}, NO),
    ("worker", {}, TASKS, {**OURS, "aws:sourceaccount": "999999999999"}, NO),
    ("worker", {}, TASKS, {**OURS, "aws:sourcearn": "arn:aws:ecs:us-east-1:9:x"}, NO),
    ("worker", {}, ("Service", "ec2.amazonaws.com"), OURS, NO),
    ("worker", {}, ALICE, MFA, NO),
    # a fleet elsewhere
    ("worker", {"WorkerPrincipals": SUBMITTER[1]}, SUBMITTER, {}, YES),
    ("worker", {"WorkerPrincipals": SUBMITTER[1]}, ALICE, MFA, NO),
    ("reconciler", {}, TASKS, OURS, YES),
    # people who reconcile by hand
    ("reconciler", {}, ALICE, MFA, NO),
    ("reconciler", TO_ALICE, ALICE, MFA, YES),
    ("reconciler", TO_ALICE, ALICE, {}, NO),
    ("reconciler", {**TO_ALICE, "RequireMfa": "false"}, ALICE, {}, YES),
    ("execution", {}, TASKS, OURS, YES),
    # EventBridge, for the rule and the schedules of this account
    *(
        (
            "trigger",
            {},
            ("Service", f"{service}.amazonaws.com"),
            {**OURS, **of},
            allowed,
        )
        for service in ("events", "scheduler")
        for of, allowed in (
            ({"aws:sourcearn": RULE}, YES),
            ({"aws:sourcearn": GROUP}, YES),
            ({"aws:sourcearn": f"{RULE}-2"}, NO),
            ({"aws:sourcearn": RULE, "aws:sourceaccount": "999999999999"}, NO),
        )
    ),
    ("trigger", {}, TASKS, OURS, NO),
    ("execution", {}, TASKS, {}, NO),
    ("orchestrator", {}, TASKS, OURS, YES),
    # a service that submits
    ("orchestrator", {}, SUBMITTER, {}, NO),
    ("orchestrator", {"SubmitterPrincipals": SUBMITTER[1]}, SUBMITTER, {}, YES),
    ("orchestrator", {"SubmitterPrincipals": SUBMITTER[1]}, ALICE, MFA, NO),
    # people: with a second factor
    ("operator-read", {}, ALICE, MFA, YES),
    ("operator-read", {}, ALICE, {}, NO),
    ("operator-read", {}, ALICE, {"aws:multifactorauthpresent": "false"}, NO),
    ("operator-read", {}, STRANGER, MFA, NO),
    ("operator-read", {}, TASKS, OURS, NO),
    ("operator-write", {}, ALICE, MFA, YES),
    ("operator-write", {}, ALICE, {}, NO),
    ("operator-write", {"RequireMfa": "false"}, ALICE, {}, YES),
    ("operator-write", TO_ALICE, ALICE, MFA, YES),
    ("operator-write", TO_ALICE, SUBMITTER, MFA, NO),
    ("deploy", {}, ALICE, MFA, YES),
    ("deploy", {}, ALICE, {}, NO),
    ("deploy", TO_ALICE, SUBMITTER, MFA, NO),
    # a workflow, of one repository and environment
    ("deploy", {}, GITHUB, WORKFLOW, NO),
    ("deploy", {"GitHubSubject": SUBJECT}, GITHUB, WORKFLOW, YES),
    ("deploy", {"GitHubSubject": SUBJECT}, GITHUB, {f"{TOKEN}:sub": SUBJECT}, NO),
    ("deploy", {"GitHubSubject": "repo:ours/other:ref:x"}, GITHUB, WORKFLOW, NO),
    ("operator-write", {"GitHubSubject": SUBJECT}, GITHUB, WORKFLOW, NO),
]


def test_each_principal_may_assume_the_role_as_its_row_says() -> None:
    wrong = [
        (actor, given, who, facts)
        for actor, given, who, facts, expected in WHO
        if decide(assume(who, facts), roles(**given)[actor].trust) is not expected
    ]
    assert [] == wrong


def assume(who: tuple[str, str], facts: Mapping[str, str]) -> Request:
    """Return the request of a principal for the role."""
    web = who[0] == "Federated"
    action = f"sts:AssumeRole{'WithWebIdentity' if web else ''}"
    return Request(action, "", facts, who)


@pytest.mark.parametrize("actor", ["orchestrator", "operator-read", "operator-write"])
def test_a_session_may_bear_a_tenant_and_no_other_tag(actor: str) -> None:
    trust = roles(Tenant=TAGGED)[actor].trust
    tenant = Request("sts:TagSession", "", {"aws:tagkeys": ("tenant",)}, ALICE)
    others = Request("sts:TagSession", "", {"aws:tagkeys": ("tenant", "x")}, ALICE)
    assert (YES, NO) == (decide(tenant, trust), decide(others, trust))
    assert NO is decide(tenant, roles()[actor].trust)


@pytest.mark.parametrize("actor", ["orchestrator", "operator-read", "operator-write"])
def test_a_caller_may_be_held_to_its_own_tenant(actor: str) -> None:
    def answer(**tags: str) -> Decision:
        facts = {
            "aws:tagkeys": ("tenant",),
            **{f"aws:{name}/tenant": value for name, value in tags.items()},
        }
        trust = roles(Tenant=TAGGED, TenantOfCaller="true")[actor].trust
        return decide(Request("sts:TagSession", "", facts, ALICE), trust)

    assert YES is answer(requesttag="acme", principaltag="acme")
    assert NO is answer(requesttag="acme", principaltag="evil")
    assert NO is answer(requesttag="acme")


def test_every_role_has_the_boundary_that_is_given() -> None:
    boundary = f"arn:aws:iam::{ACCOUNT}:policy/cap"
    assert {""} == {role.boundary for role in roles().values()}
    bounded = roles(PermissionsBoundary=boundary).values()
    assert {boundary} == {role.boundary for role in bounded}
