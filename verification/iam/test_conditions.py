"""Each condition of each statement denies a request that it alone denies."""

from __future__ import annotations

import copy

import pytest

from verification.iam.evaluate import Decision, Request, Statement, decide, texts
from verification.iam.roles import EVERYTHING, roles

ROLES = roles(GitHubSubject="repo:ours/app:environment:prod", **EVERYTHING)
CONDITIONS = [
    (actor, kind, number, operator)
    for actor, role in ROLES.items()
    for kind, statements in (("grants", role.grants), ("trust", role.trust))
    for number, statement in enumerate(statements)
    for operator in statement.get("Condition", {})
]


def meeting(statement: Statement, but: str) -> dict[str, str | tuple[str, ...]]:
    """Return a context that meets a condition but for the lines of an operator."""
    found: dict[str, str | tuple[str, ...]] = {"aws:securetransport": "true"}

    def alone(key: str) -> bool:
        named = [o for o, lines in statement["Condition"].items() if key in lines]
        return len(named) == 1

    for operator, lines in statement["Condition"].items():
        for key, wanted in lines.items():
            value = texts(wanted)[0] if operator != but else "elsewhere"
            if operator == "Null":
                if operator == but and texts(wanted)[0] == "true":
                    found[key.lower()] = "given"
                elif operator == but:
                    found.pop(key.lower(), None)
                    return found
                continue
            if not operator.startswith("For"):
                found[key.lower()] = value
            elif operator != but or not operator.startswith("ForAny") or alone(key):
                # The values of all operators: one that is elsewhere fails ForAllValues.
                found[key.lower()] = (*found.get(key.lower(), ()), value)
    return found


def decisions(statement: Statement, operator: str) -> tuple[Decision, Decision]:
    """Decide about a request that fails only one condition: with it, and without."""
    lax = copy.deepcopy(dict(statement))
    del lax["Condition"][operator]
    wanted = Request(
        texts(statement["Action"])[0],
        texts(statement.get("Resource", ""))[0].replace("*", "x"),
        meeting(statement, operator),
        principal(statement),
    )
    return decide(wanted, [statement]), decide(wanted, [lax])


def test_each_condition_denies_a_request_that_it_alone_denies() -> None:
    assert len(CONDITIONS) > 50
    needed = (Decision.NOT_ALLOWED, Decision.ALLOWED)
    needless = [
        (actor, kind, number, operator)
        for actor, kind, number, operator in CONDITIONS
        if needed != decisions(getattr(ROLES[actor], kind)[number], operator)
    ]
    assert [] == needless


def principal(statement: Statement) -> tuple[str, str]:
    """Return a principal that a trust policy names."""
    ((kind, name),) = statement.get("Principal", {"AWS": ""}).items()
    return kind, texts(name)[0]


def test_a_refusal_wins_over_everything() -> None:
    allow = {"Effect": "Allow", "Action": "sqs:*", "Resource": "*"}
    refuse = {**allow, "Effect": "Deny", "Action": "sqs:Purge*"}
    wanted = Request("sqs:PurgeQueue", "arn:aws:sqs:us-east-1:000000000000:q")
    assert Decision.ALLOWED is decide(wanted, [allow])
    assert Decision.FORBIDDEN is decide(wanted, [allow, refuse])
    assert Decision.FORBIDDEN is decide(wanted, [allow], [refuse])
    assert Decision.FORBIDDEN is decide(wanted, [allow], boundary=[allow, refuse])


def test_a_boundary_caps_what_a_role_is_granted() -> None:
    allow = {"Effect": "Allow", "Action": ["sqs:SendMessage"], "Resource": "*"}
    wanted = Request("sqs:SendMessage", "arn:aws:sqs:us-east-1:000000000000:q")
    other = {**allow, "Action": "s3:GetObject"}
    assert Decision.ALLOWED is decide(wanted, [allow], boundary=[allow])
    assert Decision.NOT_ALLOWED is decide(wanted, [allow], boundary=[other])
    assert Decision.NOT_ALLOWED is decide(wanted, [allow], boundary=[])


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Allow", "NotAction": "s3:*", "Resource": "*"},
        {
            "Effect": "Allow",
            "Action": "s3:GetObject",
            "Resource": "*",
            "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}},
        },
    ],
)
def test_what_the_evaluator_does_not_know_is_an_error(statement: Statement) -> None:
    with pytest.raises((ValueError, KeyError)):
        decide(Request("s3:GetObject", "arn:aws:s3:::b/k"), [statement])
