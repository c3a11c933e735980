"""The deploy role reaches what has the tags of its deployment, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from verification.iam.deploying import STACKS, schema
from verification.iam.evaluate import Context, Decision, Request, decide
from verification.iam.roles import roles
from verification.iam.template import read
from verification.iam.used import grants

DEPLOY = roles()["deploy"].grants
#: By action: each kind of resource that EC2 checks, as `new:subnet` or `old:vpc`.
CHECKED = {
    f"ec2:{action}": kinds
    for line in Path(__file__).with_name("tags.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
    for action, *kinds in [line.split()]
}
#: CloudFormation tags no rule, and every rule belongs to a group.
UNTAGGED = {"new:security-group-rule"}
#: The group of the service, in a VPC of the user's own.
IN_ANY = {("ec2:CreateSecurityGroup", "old:vpc")}
OURS = {"app": "piecework", "env": "prod"}
THEIRS = ({}, {"app": "piecework"}, {**OURS, "env": "test"}, {**OURS, "app": "shop"})


def allowed(action: str, kind: str, tags: dict[str, str], **more: str) -> bool:
    """Return whether CloudFormation may do something in the deploy role's name."""
    age, _, name = kind.partition(":")
    key = "aws:requesttag" if age == "new" else "aws:resourcetag"
    context: Context = {
        "aws:calledvia": ("cloudformation.amazonaws.com",),
        **{f"{key}/{tag}": value for tag, value in tags.items()},
        **{f"ec2:{word.lower()}": value for word, value in more.items()},
    }
    service = action.partition(":")[0]
    arn = f"arn:aws:{service}:us-east-1:000000000000:{name}/x"
    return decide(Request(action, arn, context), DEPLOY) is Decision.ALLOWED


def test_each_change_of_ec2_that_is_granted_is_in_the_reference() -> None:
    granted = {g.action for g in grants("deploy", DEPLOY)}
    changes = {a for a in granted if a.startswith("ec2:") and "Describe" not in a}
    assert CHECKED.keys() | {"ec2:CreateTags", "ec2:DeleteTags"} == changes


@pytest.mark.parametrize("action", CHECKED)
def test_ec2_changes_what_has_the_tags_and_nothing_else(action: str) -> None:
    for kind in CHECKED[action]:
        assert allowed(action, kind, OURS), kind
        if kind not in UNTAGGED and (action, kind) not in IN_ANY:
            assert [] == [tags for tags in THEIRS if allowed(action, kind, tags)], kind


@pytest.mark.parametrize("kind", ["subnet", "vpc", "security-group"])
def test_tags_are_given_at_a_creation_or_by_those_who_have_them(kind: str) -> None:
    assert allowed("ec2:CreateTags", f"new:{kind}", OURS, CreateAction="CreateVpc")
    assert not allowed("ec2:CreateTags", f"new:{kind}", OURS)
    assert not allowed("ec2:CreateTags", f"new:{kind}", {}, CreateAction="CreateVpc")
    for action in ("ec2:CreateTags", "ec2:DeleteTags"):
        assert allowed(action, f"old:{kind}", OURS)
        assert [] == [tags for tags in THEIRS if allowed(action, f"old:{kind}", tags)]


@pytest.mark.parametrize(
    "action",
    ["PutKeyPolicy", "TagResource", "UntagResource", "DescribeKey", "CreateAlias"],
)
def test_a_key_is_changed_only_with_the_tags(action: str) -> None:
    assert allowed(f"kms:{action}", "old:key", OURS)
    assert [] == [t for t in THEIRS if allowed(f"kms:{action}", "old:key", t)]
    # Tags in the request are worth nothing: any key could get them.
    assert not allowed(f"kms:{action}", "new:key", OURS)


def test_no_tag_makes_the_key_of_the_data_deletable() -> None:
    stack = {"aws:requesttag/stack": "piecework-prod-alarms"}
    data = {f"aws:resourcetag/{tag}": value for tag, value in OURS.items()}
    topic = {"aws:resourcetag/stack": "piecework-prod-alarms"}
    arn = "arn:aws:kms:us-east-1:000000000000:key/x"

    def decision(action: str, **facts: str) -> Decision:
        context: Context = {
            "aws:calledvia": ("cloudformation.amazonaws.com",),
            **facts,
        }
        return decide(Request(f"kms:{action}", arn, context), DEPLOY)

    assert Decision.NOT_ALLOWED is decision("TagResource", **data, **stack)
    assert Decision.NOT_ALLOWED is decision("ScheduleKeyDeletion", **data)
    assert Decision.ALLOWED is decision("TagResource", **topic, **stack)
    assert Decision.ALLOWED is decision("ScheduleKeyDeletion", **topic)


def test_cloudformation_tags_what_it_creates_and_every_template_says_how() -> None:
    for stack in STACKS:
        for name, resource in read(stack)["Resources"].items():
            kind = resource["Type"]
            tagging = schema(kind).get("tagging", {})
            if kind.startswith(("AWS::EC2::", "AWS::KMS::")) and tagging["taggable"]:
                assert tagging["tagOnCreate"], kind
                tags = {t["Key"]: t["Value"] for t in resource["Properties"]["Tags"]}
                assert {"app": {"Ref": "App"}, "env": {"Ref": "Env"}}.items() <= (
                    tags.items()
                ), name
