"""The state of stacks, and parameters that differ from the wanted ones."""

from __future__ import annotations

import pytest

from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.status import NOT_DEPLOYED, status
from piecework_orchestrator.infra.templates import Part
from tests.unit.orchestrator.infra.cloudformation import CloudFormation, session_of
from tests.unit.orchestrator.infra.conftest import SERVICE

pytestmark = pytest.mark.usefixtures("files")


def test_a_missing_stack_is_listed_too(
    cloudformation: CloudFormation, prod: Environment
) -> None:
    found = status(session_of(cloudformation), prod)

    assert [str(part) for part in Part] == [row["part"] for row in found]
    assert {NOT_DEPLOYED} == {row["status"] for row in found}


def test_parameters_that_differ_from_wanted_or_default_are_listed(
    cloudformation: CloudFormation, prod: Environment
) -> None:
    held = {"Image": "old", "Pipelines": "mine", "Size": "large", "VpcId": "vpc-1"}
    rows = [{"ParameterKey": k, "ParameterValue": v} for k, v in held.items()]
    cloudformation.add("shop-prod-service", Parameters=rows)
    told = {"VpcId": "vpc-2", "SubnetIds": "a"}
    outputs = [{"OutputKey": k, "OutputValue": v} for k, v in told.items()]
    cloudformation.add("shop-prod-network", Outputs=outputs)
    cloudformation.templates["shop-prod-service"] = SERVICE

    rows = status(session_of(cloudformation), prod)
    row = next(row for row in rows if row["part"] == Part.SERVICE)

    assert "same" == row["template"]
    assert [
        {"name": "Image", "value": "old", "wanted": "registry/shop@sha256:1"},
        {"name": "VpcId", "value": "vpc-1", "wanted": "vpc-2"},
        {"name": "Size", "value": "large", "default": "small"},
    ] == row["different_parameters"]


def test_a_stack_in_review_has_no_template_to_compare(
    cloudformation: CloudFormation,
    prod: Environment,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cloudformation.add("shop-prod-data", "REVIEW_IN_PROGRESS")
    monkeypatch.delattr(CloudFormation, "get_template")

    row = status(session_of(cloudformation), prod)[0]

    assert "REVIEW_IN_PROGRESS" == row["status"]


def test_another_template_text_is_reported_as_different(
    cloudformation: CloudFormation, prod: Environment
) -> None:
    cloudformation.add("shop-prod-data", EnableTerminationProtection=True)

    row = status(session_of(cloudformation), prod)[0]

    assert ("differs", True) == (row["template"], row["protected"])
