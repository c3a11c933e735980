"""A deploy: proposal, confirmation, execution, and the errors that stop it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.infra.deploy import DeployRequest, diff, required_parts
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.errors import InfraError
from piecework_orchestrator.infra.templates import Part
from tests.unit.orchestrator.infra.cloudformation import (
    FakeInteraction,
    change,
    refused,
    session_of,
)
from tests.unit.orchestrator.infra.conftest import Desk

pytestmark = pytest.mark.usefixtures("files")

TABLE = "AWS::DynamoDB::Table"
#: What an environment has without a trigger.
ALL = [str(part) for part in Part if part is not Part.TRIGGERS]
REPLACED = change("Modify", "Table", TABLE, Replacement="True")


def parameters(request: dict[str, Any]) -> dict[str, Any]:
    return {
        p["ParameterKey"]: p.get("ParameterValue", p.get("UsePreviousValue"))
        for p in request["Parameters"]
    }


def proposals(desk: Desk) -> dict[str, dict[str, Any]]:
    return {r["StackName"]: r for verb, r in desk.aws.calls if verb == "propose"}


def test_tags_and_role_are_given_and_another_tag_is_a_change(desk: Desk) -> None:
    arn = "arn:aws:iam::111122223333:role/cfn"
    tagged = replace(desk.prod, tags={"team": "shop"}, role_arn=arn)
    desk.deploy(environment=tagged)
    assert {(arn, "team", "shop")} == {
        (request["RoleARN"], tag["Key"], tag["Value"])
        for request in proposals(desk).values()
        for tag in request["Tags"]
    }
    desk.aws.calls.clear()
    for same in (tagged, desk.prod):
        desk.deploy(environment=same)
        assert {} == proposals(desk)
    for tags in ({"team": "shop", "cost": "17"}, {"cost": "17"}, {}):
        desk.deploy(environment=replace(tagged, tags=tags))
        found = [state["Tags"] for state in desk.aws.stacks.values()]
        assert [[{"Key": k, "Value": v} for k, v in tags.items()]] * len(ALL) == found


def test_the_triggers_are_deployed_once_they_are_asked_for_and_kept_from_then_on(
    desk: Desk,
) -> None:
    schedule = {Part.TRIGGERS: {"Schedule": "rate(1 hour)"}}
    asked = replace(desk.prod, part_parameters=schedule)
    assert [*ALL, "triggers"] == [done.part for done in desk.deploy(environment=asked)]
    later = desk.deploy()
    assert ("triggers", "unchanged") == (later[-1].part, later[-1].result)


def test_an_empty_account_gets_every_stack_and_a_second_deploy_does_nothing(
    desk: Desk,
) -> None:
    done = desk.deploy()
    assert [(f"shop-prod-{p}", "created") for p in ALL] == [
        (o.stack, o.result) for o in done
    ]
    executed = [name for verb, name in desk.aws.calls if verb == "execute"]
    assert [f"cs-shop-prod-{part}" for part in ALL] == executed
    assert len(ALL) == len(desk.said.confirmed)
    told = "Create shop-prod-data in account 111122223333, eu-central-1"
    assert told in desk.said.confirmed
    desk.aws.calls.clear()
    desk.said = FakeInteraction()
    assert {"unchanged"} == {outcome.result for outcome in desk.deploy()}
    assert ([], ["policy", "protect"]) == (desk.said.confirmed, desk.aws.verbs())
    assert "shop-prod-data: nothing to do" == desk.said.reports[0]


def test_outputs_become_parameters_of_the_same_name(desk: Desk) -> None:
    desk.deploy()
    asked = proposals(desk)
    assert {
        "App": "shop",
        "Env": "prod",
        "Image": "registry/shop@sha256:1",
        "KeyArn": "arn:key",
        "VpcId": "vpc-1",
        "SubnetIds": "a,b",
    } == parameters(asked["shop-prod-service"])
    assert "arn:key" == parameters(asked["shop-prod-roles"])["KeyArn"]
    assert ["CAPABILITY_NAMED_IAM"] == asked["shop-prod-roles"]["Capabilities"]
    assert [] == asked["shop-prod-data"]["Capabilities"]


def test_with_an_existing_vpc_no_network_output_is_passed_on(desk: Desk) -> None:
    group = {"OutputKey": "SecurityGroupId", "OutputValue": "sg-of-ours"}
    desk.aws.add("shop-prod-network", Outputs=[group])
    desk.deploy(Part.SERVICE, shared={"VpcId": "vpc-9", "SubnetIds": "a,b"})
    asked = parameters(proposals(desk)["shop-prod-service"])
    assert ("vpc-9", None) == (asked["VpcId"], asked.get("SecurityGroupId"))


def test_the_data_stack_is_protected_after_its_creation(desk: Desk) -> None:
    desk.deploy(Part.DATA)
    assert ["propose", "execute", "policy", "protect"] == desk.aws.verbs()
    assert ("protect", True) == desk.aws.calls[-1]


def test_parameters_keep_their_values_unless_new_ones_are_given(desk: Desk) -> None:
    desk.deploy(environment=replace(desk.prod, command_parameters={"Size": "large"}))
    desk.deploy(Part.SERVICE, shared={"Image": "registry/shop@sha256:2"})
    last = parameters(proposals(desk)["shop-prod-service"])
    assert ("registry/shop@sha256:2", True) == (last["Image"], last["Size"])
    assert "vpc-1" == last["VpcId"]


def test_an_update_without_changes_reports_cloudformations_reason(desk: Desk) -> None:
    desk.aws.add("shop-prod-alarms")  # of another text of the template
    desk.aws.changes = []
    (done,) = desk.deploy(Part.ALARMS)
    assert "unchanged" == done.result
    assert ["propose", "discard"] == desk.aws.verbs()
    assert "shop-prod-alarms: nothing to do: The submitted" in desk.said.reports[0]


def test_a_creation_with_an_empty_change_set_is_an_error(desk: Desk) -> None:
    desk.aws.changes = []
    with pytest.raises(InfraError) as failed:
        desk.deploy(Part.DATA)
    assert "infra.change.refused" == failed.value.code
    assert ["propose", "discard", "delete"] == desk.aws.verbs()


@pytest.mark.parametrize(
    ("action", "kind", "more", "said"),
    [
        ("Modify", "DynamoDB::Table", {"Replacement": "True"}, "replaces It"),
        ("Modify", "DynamoDB::Table", {"Replacement": "Conditional"}, "may replace It"),
        ("Remove", "DynamoDB::Table", {"PolicyAction": "Delete"}, "removes It"),
        ("Remove", "DynamoDB::Table", {"PolicyAction": "Retain"}, "leaves behind It"),
        ("Remove", "Logs::LogGroup", {}, "removes It"),
        ("Modify", "SQS::Queue", {"Replacement": "True"}, "replaces It"),
        ("Modify", "KMS::Key", {"Replacement": "True"}, "replaces It"),
        ("Modify", "S3::Bucket", {"Replacement": "True"}, "replaces It"),
    ],
)
def test_a_data_resource_is_not_replaced_or_removed_without_permission(
    desk: Desk, action: str, kind: str, more: dict[str, str], said: str
) -> None:
    desk.aws.add("shop-prod-data")
    desk.aws.changes = [change(action, "It", f"AWS::{kind}", **more)]
    with pytest.raises(UsageError, match=said) as told:
        desk.deploy(Part.DATA)
    assert "infra.replacement.refused" == told.value.code
    assert ["propose", "discard"] == desk.aws.verbs()
    assert ([], 1) == (desk.said.confirmed, len(desk.said.shown))


def test_an_allowed_resource_is_replaced_and_the_policy_protects_the_others(
    desk: Desk,
) -> None:
    desk.aws.add("shop-prod-data")
    desk.aws.changes = [REPLACED]
    desk.deploy(Part.DATA, allowed=("Table",))
    verbs = ["propose", "policy", "execute", "policy", "policy", "protect"]
    assert verbs == desk.aws.verbs()
    replacements_allowed, restored = (
        json.loads(body) for verb, body in desk.aws.calls[1:4] if verb == "policy"
    )
    deny = replacements_allowed["Statement"][1]
    held = ["LogicalResourceId/Queue", "LogicalResourceId/Bucket"]
    assert ("Deny", held) == (deny["Effect"], deny["Resource"])
    assert {"Statement": ["as written"]} == restored


def test_the_policy_is_restored_when_the_update_fails(desk: Desk) -> None:
    desk.aws.add("shop-prod-data")
    desk.aws.changes = [REPLACED]
    desk.aws.ends = "UPDATE_ROLLBACK_COMPLETE"
    with pytest.raises(InfraError):
        desk.deploy(Part.DATA, allowed=("Table",))
    assert ["policy", "execute", "policy"] == desk.aws.verbs()[1:]


def test_a_declined_deploy_changes_nothing(desk: Desk) -> None:
    desk.said = FakeInteraction(UsageError("no", code="cli.confirmation.needed"))
    with pytest.raises(UsageError):
        desk.deploy()
    assert ["propose", "discard", "delete"] == desk.aws.verbs()
    left = {row["StackStatus"] for row in desk.aws.stacks.values()}
    assert {"DELETE_COMPLETE"} == left


@pytest.mark.parametrize(
    ("error", "expected", "told"),
    [
        (refused("ExecuteChangeSet", "AccessDenied"), UsageError, ""),
        (KeyboardInterrupt(), KeyboardInterrupt, "CloudFormation continues the change"),
    ],
)
def test_an_execution_that_is_denied_or_interrupted_is_told(
    desk: Desk,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    expected: type[BaseException],
    told: str,
) -> None:
    def fail(**_: Any) -> None:
        raise error

    desk.aws.add("shop-prod-roles")
    monkeypatch.setattr(desk.aws, "execute_change_set", fail)
    with pytest.raises(expected) as failed:
        desk.deploy(Part.ROLES)
    if told:
        assert told in desk.said.reports[-1]
    else:
        assert "cloudformation:ExecuteChangeSet" in str(failed.value)
        assert ["propose", "discard"] == desk.aws.verbs()


def test_a_failure_names_the_first_failed_resource_with_its_reason(desk: Desk) -> None:
    desk.aws.ends = "ROLLBACK_COMPLETE"
    desk.aws.failing = [
        ("Bucket", "CREATE_FAILED", "the name is taken"),
        ("Table", "CREATE_FAILED", "Resource creation cancelled"),
        ("Table", "DELETE_COMPLETE", ""),
    ]
    with pytest.raises(InfraError) as failed:
        desk.deploy()
    lines = failed.value.message.splitlines()
    assert "The stack shop-prod-data ended in ROLLBACK_COMPLETE." == lines[0]
    assert "Bucket (AWS::Some::Thing): the name is taken" == lines[1].strip()
    assert ("infra.deploy.failed", 1) == (failed.value.code, failed.value.exit_code)
    assert 4 == len(desk.said.reports)  # later stacks are not deployed
    assert 1 == desk.aws.verbs().count("execute")


IMAGE = {"Image": "registry/shop@sha256:1"}


@pytest.mark.parametrize(
    ("given", "code", "said", "step"),
    [
        ({}, "missing", "service needs a value for Image", "--image"),
        (
            {"shared_parameters": IMAGE, "command_parameters": {"Syze": "large"}},
            *("unknown", "nearest name is Size", "Protect"),
        ),
        (
            {"shared_parameters": IMAGE | {"Syze": "large"}},
            *("unknown", "no parameter Syze in any stack", ""),
        ),
        (
            {
                "shared_parameters": IMAGE,
                "part_parameters": {Part.DATA: {"Size": "large"}},
            },
            *("unknown", "no parameter Size in data", ""),
        ),
    ],
)
def test_a_parameter_that_is_missing_or_unknown_is_refused_before_any_change(
    desk: Desk, given: dict[str, Any], code: str, said: str, step: str
) -> None:
    with pytest.raises(UsageError, match=said) as told:
        desk.deploy(environment=Environment("shop", "prod", **given))
    assert f"infra.parameter.{code}" == told.value.code
    assert step in told.value.next_step
    assert [] == desk.aws.calls


def test_a_shared_parameter_may_be_that_of_another_stack(desk: Desk) -> None:
    desk.deploy(Part.DATA, shared={"Size": "large"})
    assert desk.aws.calls


@pytest.mark.parametrize(
    ("vpc", "present", "expected"),
    [
        ("", (), True),
        ("vpc-9", (), False),
        ("", (Part.SERVICE, Part.NETWORK), True),
        ("", (Part.SERVICE,), False),
    ],
)
def test_a_network_stack_is_required_only_without_an_existing_vpc(
    vpc: str, present: tuple[Part, ...], *, expected: bool
) -> None:
    environment = Environment("a", "b", shared_parameters={"VpcId": vpc} if vpc else {})
    assert expected is (Part.NETWORK in required_parts(environment, present))


def test_a_diff_creates_and_deletes_change_sets_and_changes_nothing(desk: Desk) -> None:
    desk.aws.add("shop-prod-alarms")
    found = {o.part: o for o in diff(session_of(desk.aws), DeployRequest(desk.prod))}
    assert "create" == found[Part.DATA].result
    assert "update" == found[Part.ALARMS].result
    later = found[Part.SERVICE]
    assert ("later", "VpcId, SubnetIds") == (later.result, later.detail)
    assert not {"execute", "policy"} & set(desk.aws.verbs())
    assert ["shop-prod-alarms"] == [
        name
        for name, row in desk.aws.stacks.items()
        if row["StackStatus"] != "DELETE_COMPLETE"
    ]
