"""A deploy: proposal, confirmation, execution, and the errors that stop it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.infra.deploy import (
    DeployRequest,
    deploy,
    diff,
    required_parts,
)
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.errors import InfraError
from piecework_orchestrator.infra.templates import Part
from tests.unit.orchestrator.infra.cloudformation import (
    CloudFormation,
    FakeInteraction,
    change,
    refused,
    session_of,
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


def test_tags_and_role_are_given_and_another_tag_is_a_change(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    arn = "arn:aws:iam::111122223333:role/cfn"
    tagged = replace(prod, tags={"team": "shop"}, role_arn=arn)
    deploy(session_of(cloudformation), DeployRequest(tagged), interaction)
    wanted = {("arn:aws:iam::111122223333:role/cfn", "team", "shop")}
    assert wanted == {
        (request["RoleARN"], tag["Key"], tag["Value"])
        for request in proposals(cloudformation).values()
        for tag in request["Tags"]
    }
    cloudformation.calls.clear()
    deploy(session_of(cloudformation), DeployRequest(tagged), interaction)
    assert {} == proposals(cloudformation)
    deploy(session_of(cloudformation), DeployRequest(prod), interaction)
    assert {} == proposals(cloudformation)
    for tags in ({"team": "shop", "cost": "17"}, {"cost": "17"}, {}):
        other = replace(tagged, tags=tags)
        deploy(session_of(cloudformation), DeployRequest(other), interaction)
        found = [state["Tags"] for state in cloudformation.stacks.values()]
        assert [[{"Key": k, "Value": v} for k, v in tags.items()]] * len(Part) == found


def test_an_empty_account_gets_every_stack_in_its_order(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    done = deploy(session_of(cloudformation), DeployRequest(prod), interaction)

    assert [f"shop-prod-{part}" for part in ALL] == [o.stack for o in done]
    assert {"created"} == {o.result for o in done}
    assert len(ALL) == len(interaction.confirmed)
    assert len(ALL) == cloudformation.verbs().count("execute")
    assert (
        "Create shop-prod-data in account 111122223333, eu-central-1"
        in interaction.confirmed
    )
    executed = [name for verb, name in cloudformation.calls if verb == "execute"]
    assert [f"cs-shop-prod-{part}" for part in ALL] == executed


def test_outputs_become_parameters_of_the_same_name(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    deploy(session_of(cloudformation), DeployRequest(prod), interaction)

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


def test_with_an_existing_vpc_no_network_output_is_passed_on(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    group = {"OutputKey": "SecurityGroupId", "OutputValue": "sg-of-ours"}
    cloudformation.add("shop-prod-network", Outputs=[group])
    common = {**prod.shared_parameters, "VpcId": "vpc-9", "SubnetIds": "a,b"}
    brought = Environment("shop", "prod", shared_parameters=common)

    deploy(
        session_of(cloudformation), DeployRequest(brought, (Part.SERVICE,)), interaction
    )

    asked = parameters(proposals(cloudformation)["shop-prod-service"])
    assert ("vpc-9", None) == (asked["VpcId"], asked.get("SecurityGroupId"))


def test_the_data_stack_is_protected_after_its_creation(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    deploy(session_of(cloudformation), DeployRequest(prod, (Part.DATA,)), interaction)

    assert ["propose", "execute", "policy", "protect"] == cloudformation.verbs()
    assert ("protect", True) == cloudformation.calls[-1]


def test_a_second_deploy_asks_nothing_and_proposes_nothing(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    session = session_of(cloudformation)
    deploy(session, DeployRequest(prod), interaction)
    cloudformation.calls.clear()
    again = FakeInteraction()

    done = deploy(session, DeployRequest(prod), again)

    assert {"unchanged"} == {outcome.result for outcome in done}
    assert ([], ["policy", "protect"]) == (again.confirmed, cloudformation.verbs())
    assert "shop-prod-data: nothing to do" == again.reports[0]


def test_parameters_keep_their_values_unless_new_ones_are_given(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    session = session_of(cloudformation)
    large = Environment(
        "shop",
        "prod",
        shared_parameters=prod.shared_parameters,
        command_parameters={"Size": "large"},
    )
    deploy(session, DeployRequest(large), interaction)
    new = Environment(
        "shop", "prod", shared_parameters={"Image": "registry/shop@sha256:2"}
    )

    deploy(session, DeployRequest(new, (Part.SERVICE,)), interaction)

    last = parameters(proposals(cloudformation)["shop-prod-service"])
    assert ("registry/shop@sha256:2", True) == (last["Image"], last["Size"])
    assert "vpc-1" == last["VpcId"]


def test_an_update_without_changes_reports_cloudformations_reason(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    cloudformation.add("shop-prod-alarms")  # of another text of the template
    cloudformation.changes = []

    (done,) = deploy(
        session_of(cloudformation), DeployRequest(prod, (Part.ALARMS,)), interaction
    )

    assert "unchanged" == done.result
    assert ["propose", "discard"] == cloudformation.verbs()
    assert "shop-prod-alarms: nothing to do: The submitted" in interaction.reports[0]


def test_a_creation_with_an_empty_change_set_is_an_error(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    cloudformation.changes = []

    with pytest.raises(InfraError) as failed:
        deploy(
            session_of(cloudformation), DeployRequest(prod, (Part.DATA,)), interaction
        )

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
def test_a_data_resource_is_not_replaced_or_removed_without_permission(
    cloudformation: CloudFormation,
    prod: Environment,
    interaction: FakeInteraction,
    found: dict[str, Any],
    said: str,
) -> None:
    cloudformation.add("shop-prod-data")
    cloudformation.changes = [found]

    with pytest.raises(UsageError, match=said) as told:
        deploy(
            session_of(cloudformation), DeployRequest(prod, (Part.DATA,)), interaction
        )

    assert "infra.replacement.refused" == told.value.code
    assert ["propose", "discard"] == cloudformation.verbs()
    assert ([], 1) == (interaction.confirmed, len(interaction.shown))


def test_an_allowed_resource_is_replaced_and_the_policy_protects_the_others(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    cloudformation.add("shop-prod-data")
    cloudformation.changes = [change("Modify", "Table", TABLE, Replacement="True")]

    told = DeployRequest(prod, (Part.DATA,), allowed=("Table",))
    deploy(session_of(cloudformation), told, interaction)

    verbs = ["propose", "policy", "execute", "policy", "policy", "protect"]
    assert verbs == cloudformation.verbs()
    replacements_allowed, restored = (
        json.loads(body) for verb, body in cloudformation.calls[1:4] if verb == "policy"
    )
    deny = replacements_allowed["Statement"][1]
    held = ["LogicalResourceId/Queue", "LogicalResourceId/Bucket"]
    assert ("Deny", held) == (deny["Effect"], deny["Resource"])
    assert {"Statement": ["as written"]} == restored


def test_the_policy_is_restored_when_the_update_fails(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    cloudformation.add("shop-prod-data")
    cloudformation.changes = [change("Modify", "Table", TABLE, Replacement="True")]
    cloudformation.ends = "UPDATE_ROLLBACK_COMPLETE"

    with pytest.raises(InfraError):
        deploy(
            session_of(cloudformation),
            DeployRequest(prod, (Part.DATA,), ("Table",)),
            interaction,
        )

    assert ["policy", "execute", "policy"] == cloudformation.verbs()[1:]


def test_a_declined_deploy_changes_nothing(
    cloudformation: CloudFormation, prod: Environment
) -> None:
    no = UsageError("no", code="cli.confirmation.needed")

    with pytest.raises(UsageError):
        deploy(session_of(cloudformation), DeployRequest(prod), FakeInteraction(no))

    assert ["propose", "discard", "delete"] == cloudformation.verbs()
    assert {"DELETE_COMPLETE"} == {
        row["StackStatus"] for row in cloudformation.stacks.values()
    }


def test_a_change_set_whose_execution_is_denied_is_deleted(
    cloudformation: CloudFormation,
    prod: Environment,
    interaction: FakeInteraction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def deny(**_: Any) -> None:
        raise refused("ExecuteChangeSet", "AccessDenied")

    cloudformation.add("shop-prod-roles")
    monkeypatch.setattr(cloudformation, "execute_change_set", deny)

    with pytest.raises(UsageError, match="cloudformation:ExecuteChangeSet"):
        deploy(
            session_of(cloudformation), DeployRequest(prod, (Part.ROLES,)), interaction
        )

    assert ["propose", "discard"] == cloudformation.verbs()


def test_a_failure_names_the_first_failed_resource_with_its_reason(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    cloudformation.ends = "ROLLBACK_COMPLETE"
    cloudformation.failing = [
        ("Bucket", "CREATE_FAILED", "the name is taken"),
        ("Table", "CREATE_FAILED", "Resource creation cancelled"),
        ("Table", "DELETE_COMPLETE", ""),
    ]

    with pytest.raises(InfraError) as failed:
        deploy(session_of(cloudformation), DeployRequest(prod), interaction)

    lines = failed.value.message.splitlines()
    assert "The stack shop-prod-data ended in ROLLBACK_COMPLETE." == lines[0]
    assert "Bucket (AWS::Some::Thing): the name is taken" == lines[1].strip()
    assert ("infra.deploy.failed", 1) == (failed.value.code, failed.value.exit_code)
    assert 4 == len(interaction.reports)  # later stacks are not deployed
    assert 1 == cloudformation.verbs().count("execute")


def test_an_interrupt_reports_that_cloudformation_continues(
    cloudformation: CloudFormation,
    prod: Environment,
    interaction: FakeInteraction,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(**_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cloudformation, "execute_change_set", interrupt)

    with pytest.raises(KeyboardInterrupt):
        deploy(
            session_of(cloudformation), DeployRequest(prod, (Part.DATA,)), interaction
        )

    assert "CloudFormation continues the change" in interaction.reports[-1]


def test_a_parameter_without_a_value_is_refused_before_any_change(
    cloudformation: CloudFormation, interaction: FakeInteraction
) -> None:
    nameless = Environment("shop", "prod")

    with pytest.raises(UsageError, match="service needs a value for Image") as told:
        deploy(session_of(cloudformation), DeployRequest(nameless), interaction)

    assert "infra.parameter.missing" == told.value.code
    assert "--image" in told.value.next_step
    assert [] == cloudformation.calls


def test_an_unknown_parameter_is_refused_with_the_list_of_known_ones(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    wrong = Environment(
        "shop",
        "prod",
        shared_parameters=prod.shared_parameters,
        command_parameters={"Syze": "large"},
    )

    with pytest.raises(UsageError, match="nearest name is Size") as told:
        deploy(session_of(cloudformation), DeployRequest(wrong), interaction)

    assert "infra.parameter.unknown" == told.value.code
    assert "Protect" in told.value.next_step
    assert [] == cloudformation.calls


def test_a_shared_parameter_must_be_declared_by_some_stack(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    both = {**prod.shared_parameters, "Size": "large"}
    known = Environment("shop", "prod", shared_parameters=both)
    deploy(session_of(cloudformation), DeployRequest(known, (Part.DATA,)), interaction)

    wrong = Environment("shop", "prod", shared_parameters={"Syze": "large"})
    with pytest.raises(UsageError, match="no parameter Syze in any stack"):
        deploy(
            session_of(cloudformation), DeployRequest(wrong, (Part.DATA,)), interaction
        )


def test_a_part_parameter_must_be_declared_by_that_part(
    cloudformation: CloudFormation, prod: Environment, interaction: FakeInteraction
) -> None:
    part_parameters = {Part.DATA: {"Size": "large"}}
    wrong = Environment(
        "shop",
        "prod",
        shared_parameters=prod.shared_parameters,
        part_parameters=part_parameters,
    )

    with pytest.raises(UsageError, match="no parameter Size in data"):
        deploy(session_of(cloudformation), DeployRequest(wrong), interaction)


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


def test_a_diff_creates_and_deletes_change_sets_and_changes_nothing(
    cloudformation: CloudFormation, prod: Environment
) -> None:
    cloudformation.add("shop-prod-alarms")

    found = {o.part: o for o in diff(session_of(cloudformation), DeployRequest(prod))}

    assert "create" == found[Part.DATA].result
    assert "update" == found[Part.ALARMS].result
    assert ("later", "VpcId, SubnetIds") == (
        found[Part.SERVICE].result,
        found[Part.SERVICE].detail,
    )
    assert [] == [n for n in cloudformation.verbs() if n in {"execute", "policy"}]
    assert ["shop-prod-alarms"] == [
        name
        for name, row in cloudformation.stacks.items()
        if row["StackStatus"] != "DELETE_COMPLETE"
    ]
