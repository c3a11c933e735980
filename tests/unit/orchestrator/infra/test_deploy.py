"""A deploy: what is proposed, shown, asked, executed, and what it stops at."""

from __future__ import annotations

import json
from typing import Any

import pytest

from orchestrator.infra.deploy import Deploy, deploy, diff, needed
from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.refusals import InfraError
from piecework.errors import UsageError
from tests.unit.orchestrator.infra.cloudformation import (
    CloudFormation,
    Spoken,
    change,
    refused,
    site_of,
)

pytestmark = pytest.mark.usefixtures("files")

TABLE = "AWS::DynamoDB::Table"
ALL = [str(part) for part in Part]


def parameters(request: dict[str, Any]) -> dict[str, Any]:
    return {
        p["ParameterKey"]: p.get("ParameterValue", p.get("UsePreviousValue"))
        for p in request["Parameters"]
    }


def proposals(cloudformation: CloudFormation) -> dict[str, dict[str, Any]]:
    return {r["StackName"]: r for verb, r in cloudformation.calls if verb == "propose"}


def test_an_empty_account_gets_every_stack_in_its_order(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    done = deploy(site_of(cloudformation), Deploy(prod), talk)

    assert [f"shop-prod-{part}" for part in ALL] == [o.stack for o in done]
    assert {"created"} == {o.result for o in done}
    assert 6 == len(talk.asked) == cloudformation.verbs().count("execute")
    assert "Create shop-prod-data in account 111122223333, eu-central-1" in talk.asked
    executed = [name for verb, name in cloudformation.calls if verb == "execute"]
    assert [f"cs-shop-prod-{part}" for part in ALL] == executed


def test_outputs_are_handed_to_the_parameters_of_the_same_name(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    deploy(site_of(cloudformation), Deploy(prod), talk)

    asked = proposals(cloudformation)
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


def test_who_brings_a_vpc_is_handed_nothing_of_another(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    group = {"OutputKey": "SecurityGroupId", "OutputValue": "sg-of-ours"}
    cloudformation.add("shop-prod-network", Outputs=[group])
    common = {**prod.common, "VpcId": "vpc-9", "SubnetIds": "a,b"}
    brought = Environment("shop", "prod", common=common)

    deploy(site_of(cloudformation), Deploy(brought, (Part.SERVICE,)), talk)

    asked = parameters(proposals(cloudformation)["shop-prod-service"])
    assert ("vpc-9", None) == (asked["VpcId"], asked.get("SecurityGroupId"))


def test_the_data_stack_is_protected_once_it_is_there(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    deploy(site_of(cloudformation), Deploy(prod, (Part.DATA,)), talk)

    assert ["propose", "execute", "policy", "protect"] == cloudformation.verbs()
    assert ("protect", True) == cloudformation.calls[-1]


def test_a_second_deploy_asks_nobody_and_proposes_nothing(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    site = site_of(cloudformation)
    deploy(site, Deploy(prod), talk)
    cloudformation.calls.clear()
    again = Spoken()

    done = deploy(site, Deploy(prod), again)

    assert {"unchanged"} == {outcome.result for outcome in done}
    assert ([], ["policy", "protect"]) == (again.asked, cloudformation.verbs())
    assert "shop-prod-data: nothing to do" == again.said[0]


def test_values_are_remembered_unless_they_are_given_anew(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    site = site_of(cloudformation)
    large = Environment("shop", "prod", common=prod.common, given={"Size": "large"})
    deploy(site, Deploy(large), talk)
    new = Environment("shop", "prod", common={"Image": "registry/shop@sha256:2"})

    deploy(site, Deploy(new, (Part.SERVICE,)), talk)

    last = parameters(proposals(cloudformation)["shop-prod-service"])
    assert ("registry/shop@sha256:2", True) == (last["Image"], last["Size"])
    assert "vpc-1" == last["VpcId"]


def test_an_update_that_changes_nothing_is_told_in_cloudformations_words(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    cloudformation.add("shop-prod-alarms")  # of another text of the template
    cloudformation.changes = []

    (done,) = deploy(site_of(cloudformation), Deploy(prod, (Part.ALARMS,)), talk)

    assert "unchanged" == done.result
    assert ["propose", "discard"] == cloudformation.verbs()
    assert "shop-prod-alarms: nothing to do: The submitted" in talk.said[0]


def test_a_creation_of_which_there_is_no_change_set_is_an_error(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    cloudformation.changes = []

    with pytest.raises(InfraError) as failed:
        deploy(site_of(cloudformation), Deploy(prod, (Part.DATA,)), talk)

    assert "infra.change.refused" == failed.value.code
    assert ["propose", "discard", "delete"] == cloudformation.verbs()


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (change("Modify", "Table", TABLE, Replacement="True"), "replaces Table"),
        (
            change("Modify", "Table", TABLE, Replacement="Conditional"),
            "may replace Table",
        ),
        (change("Remove", "Table", TABLE, PolicyAction="Delete"), "removes Table"),
        (
            change("Remove", "Table", TABLE, PolicyAction="Retain"),
            "leaves behind Table",
        ),
        (change("Remove", "Log", "AWS::Logs::LogGroup"), "removes Log"),
        (
            change("Modify", "Queue", "AWS::SQS::Queue", Replacement="True"),
            "replaces Queue",
        ),
        (change("Modify", "Key", "AWS::KMS::Key", Replacement="True"), "replaces Key"),
        (
            change("Modify", "Bucket", "AWS::S3::Bucket", Replacement="True"),
            "replaces Bucket",
        ),
    ],
)
def test_what_holds_data_is_neither_replaced_nor_removed_silently(
    cloudformation: CloudFormation,
    prod: Environment,
    talk: Spoken,
    found: dict[str, Any],
    said: str,
) -> None:
    cloudformation.add("shop-prod-data")
    cloudformation.changes = [found]

    with pytest.raises(UsageError, match=said) as told:
        deploy(site_of(cloudformation), Deploy(prod, (Part.DATA,)), talk)

    assert "infra.replacement.refused" == told.value.code
    assert ["propose", "discard"] == cloudformation.verbs()
    assert ([], 1) == (talk.asked, len(talk.shown))


def test_what_is_allowed_by_name_is_replaced_and_the_policy_holds_the_rest(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    cloudformation.add("shop-prod-data")
    cloudformation.changes = [change("Modify", "Table", TABLE, Replacement="True")]

    told = Deploy(prod, (Part.DATA,), allowed=("Table",))
    deploy(site_of(cloudformation), told, talk)

    verbs = ["propose", "policy", "execute", "policy", "policy", "protect"]
    assert verbs == cloudformation.verbs()
    relaxed, restored = (
        json.loads(body) for verb, body in cloudformation.calls[1:4] if verb == "policy"
    )
    deny = relaxed["Statement"][1]
    held = ["LogicalResourceId/Queue", "LogicalResourceId/Bucket"]
    assert ("Deny", held) == (deny["Effect"], deny["Resource"])
    assert {"Statement": ["as written"]} == restored


def test_the_policy_is_restored_when_the_update_fails(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    cloudformation.add("shop-prod-data")
    cloudformation.changes = [change("Modify", "Table", TABLE, Replacement="True")]
    cloudformation.ends = "UPDATE_ROLLBACK_COMPLETE"

    with pytest.raises(InfraError):
        deploy(site_of(cloudformation), Deploy(prod, (Part.DATA,), ("Table",)), talk)

    assert ["policy", "execute", "policy"] == cloudformation.verbs()[1:]


def test_a_no_leaves_everything_as_it_was(
    cloudformation: CloudFormation, prod: Environment
) -> None:
    no = UsageError("no", code="cli.confirmation.needed")

    with pytest.raises(UsageError):
        deploy(site_of(cloudformation), Deploy(prod), Spoken(no))

    assert ["propose", "discard", "delete"] == cloudformation.verbs()
    assert {"DELETE_COMPLETE"} == {
        row["StackStatus"] for row in cloudformation.stacks.values()
    }


def test_a_change_set_that_may_not_be_executed_is_deleted(
    cloudformation: CloudFormation,
    prod: Environment,
    talk: Spoken,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deny(**_: Any) -> None:
        raise refused("ExecuteChangeSet", "AccessDenied")

    cloudformation.add("shop-prod-roles")
    monkeypatch.setattr(cloudformation, "execute_change_set", deny)

    with pytest.raises(UsageError, match="cloudformation:ExecuteChangeSet"):
        deploy(site_of(cloudformation), Deploy(prod, (Part.ROLES,)), talk)

    assert ["propose", "discard"] == cloudformation.verbs()


def test_a_failure_names_what_failed_first_with_its_reason(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    cloudformation.ends = "ROLLBACK_COMPLETE"
    cloudformation.failing = [
        ("Bucket", "CREATE_FAILED", "the name is taken"),
        ("Table", "CREATE_FAILED", "Resource creation cancelled"),
        ("Table", "DELETE_COMPLETE", ""),
    ]

    with pytest.raises(InfraError) as failed:
        deploy(site_of(cloudformation), Deploy(prod), talk)

    lines = failed.value.message.splitlines()
    assert "The stack shop-prod-data ended in ROLLBACK_COMPLETE." == lines[0]
    assert "Bucket (AWS::Some::Thing): the name is taken" == lines[1].strip()
    assert ("infra.deploy.failed", 1) == (failed.value.code, failed.value.exit_code)
    assert 4 == len(talk.said)  # and nothing of the stacks after it
    assert 1 == cloudformation.verbs().count("execute")


def test_whoever_stops_it_hears_that_cloudformation_does_not_stop(
    cloudformation: CloudFormation,
    prod: Environment,
    talk: Spoken,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cloudformation, "execute_change_set", interrupt)

    with pytest.raises(KeyboardInterrupt):
        deploy(site_of(cloudformation), Deploy(prod, (Part.DATA,)), talk)

    assert "goes on by itself" in talk.said[-1]


def test_a_parameter_without_a_value_is_told_before_anything_is_touched(
    cloudformation: CloudFormation, talk: Spoken
) -> None:
    nameless = Environment("shop", "prod")

    with pytest.raises(UsageError, match="service needs a value for Image") as told:
        deploy(site_of(cloudformation), Deploy(nameless), talk)

    assert "infra.parameter.missing" == told.value.code
    assert "--image" in told.value.next_step
    assert [] == cloudformation.calls


def test_a_parameter_that_no_template_knows_is_refused_with_those_that_are_known(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    wrong = Environment("shop", "prod", common=prod.common, given={"Syze": "large"})

    with pytest.raises(UsageError, match="Do you mean Size") as told:
        deploy(site_of(cloudformation), Deploy(wrong), talk)

    assert "infra.parameter.unknown" == told.value.code
    assert "Protect" in told.value.next_step
    assert [] == cloudformation.calls


def test_a_parameter_for_all_stacks_has_to_be_one_of_theirs(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    both = {**prod.common, "Size": "large"}
    known = Environment("shop", "prod", common=both)
    deploy(site_of(cloudformation), Deploy(known, (Part.DATA,)), talk)

    wrong = Environment("shop", "prod", common={"Syze": "large"})
    with pytest.raises(UsageError, match="no parameter Syze in any stack"):
        deploy(site_of(cloudformation), Deploy(wrong, (Part.DATA,)), talk)


def test_a_parameter_of_a_part_is_looked_for_in_that_part(
    cloudformation: CloudFormation, prod: Environment, talk: Spoken
) -> None:
    of_part = {Part.DATA: {"Size": "large"}}
    wrong = Environment("shop", "prod", common=prod.common, of_part=of_part)

    with pytest.raises(UsageError, match="no parameter Size in data"):
        deploy(site_of(cloudformation), Deploy(wrong), talk)


@pytest.mark.parametrize(
    ("vpc", "present", "expected"),
    [
        ("", (), True),
        ("vpc-9", (), False),
        ("", (Part.SERVICE, Part.NETWORK), True),
        ("", (Part.SERVICE,), False),
    ],
)
def test_a_network_is_made_only_for_who_brings_none(
    vpc: str, present: tuple[Part, ...], *, expected: bool
) -> None:
    environment = Environment("a", "b", common={"VpcId": vpc} if vpc else {})

    assert expected is (Part.NETWORK in needed(environment, present))


def test_a_diff_proposes_and_drops_and_leaves_nothing(
    cloudformation: CloudFormation, prod: Environment
) -> None:
    cloudformation.add("shop-prod-alarms")

    found = {o.part: o for o in diff(site_of(cloudformation), Deploy(prod))}

    assert "create" == found[Part.DATA].result
    assert "update" == found[Part.ALARMS].result
    assert ("later", "VpcId, SubnetIds") == (
        found[Part.SERVICE].result,
        found[Part.SERVICE].said,
    )
    assert [] == [n for n in cloudformation.verbs() if n in {"execute", "policy"}]
    assert ["shop-prod-alarms"] == [
        name
        for name, row in cloudformation.stacks.items()
        if row["StackStatus"] != "DELETE_COMPLETE"
    ]
