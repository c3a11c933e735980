"""Rendered files to deploy with another tool; missing values are marked."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from piecework_orchestrator.infra.deploy import DeployRequest
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.render import render, write
from piecework_orchestrator.infra.templates import Part

pytestmark = pytest.mark.usefixtures("files")


def values(files: dict[str, str], part: Part) -> dict[str, str]:
    rows = json.loads(files[f"{part}.parameters.json"])
    return {row["ParameterKey"]: row["ParameterValue"] for row in rows}


def test_every_stack_has_its_template_its_parameters_and_its_command(
    prod: Environment,
) -> None:
    files = render(DeployRequest(prod, tuple(Part)))

    assert {
        *(f"{part}.yaml" for part in Part),
        *(f"{part}.parameters.json" for part in Part),
        "data-stack-policy.json",
        "commands.txt",
    } == set(files)
    commands = files["commands.txt"]
    names = [f"--stack-name shop-prod-{part}" for part in Part]
    assert sorted(names, key=commands.index) == names
    assert 2 == commands.count("--capabilities CAPABILITY_NAMED_IAM")
    assert 1 == commands.count("--enable-termination-protection")


def test_outputs_of_earlier_stacks_and_missing_values_are_placeholders(
    prod: Environment,
) -> None:
    found = values(render(DeployRequest(prod)), Part.SERVICE)

    assert "<output VpcId of the stack shop-prod-network>" == found["VpcId"]
    assert "registry/shop@sha256:1" == found["Image"]
    assert "Size" not in found
    nameless = Environment("shop", "prod")
    assert (
        "<to be set>" == values(render(DeployRequest(nameless)), Part.SERVICE)["Image"]
    )


def test_with_an_existing_vpc_no_network_template_is_rendered(
    prod: Environment,
) -> None:
    common = {**prod.shared_parameters, "VpcId": "vpc-9", "SubnetIds": "a"}
    files = render(DeployRequest(Environment("shop", "prod", shared_parameters=common)))

    assert "network.yaml" not in files
    assert ("vpc-9", "a") == tuple(
        values(files, Part.SERVICE)[name] for name in ("VpcId", "SubnetIds")
    )


def test_every_command_names_the_region_and_a_deploy_role_and_tags() -> None:
    found = Environment("a", "b", "eu-central-1", tags={"x": "y z"}, role_arn="arn:r")
    commands = render(DeployRequest(found, (Part.DATA,)))["commands.txt"]

    assert "--role-arn arn:r \\\n  --tags 'x=y z'\n" in commands
    assert commands.count("aws cloudformation") == commands.count(
        "--region eu-central-1"
    )


@pytest.mark.attack("markup")
def test_a_region_cannot_add_a_command() -> None:
    files = render(DeployRequest(Environment("a", "b", "eu; rm -rf ~"), (Part.DATA,)))
    assert "--region 'eu; rm -rf ~' " in files["commands.txt"]


def test_files_are_written_to_the_given_folder(
    tmp_path: Path, prod: Environment
) -> None:
    files = render(DeployRequest(prod, (Part.ALARMS,)))

    paths = write(files, tmp_path / "new")

    assert {Path(path).name: Path(path).read_text() for path in paths} == files
