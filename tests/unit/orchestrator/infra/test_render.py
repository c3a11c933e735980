"""The files for who deploys by other means: complete, and honest of what is missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestrator.infra.deploy import Deploy
from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.render import render, write

pytestmark = pytest.mark.usefixtures("files")


def values(files: dict[str, str], part: Part) -> dict[str, str]:
    rows = json.loads(files[f"{part}.parameters.json"])
    return {row["ParameterKey"]: row["ParameterValue"] for row in rows}


def test_every_stack_has_its_template_its_parameters_and_its_command(
    prod: Environment,
) -> None:
    files = render(Deploy(prod))

    assert {
        *(f"{part}.yaml" for part in Part),
        *(f"{part}.parameters.json" for part in Part),
        "data-stack-policy.json",
        "commands.txt",
    } == set(files)
    commands = files["commands.txt"]
    names = [f"--stack-name shop-prod-{part}" for part in Part]
    assert sorted(names, key=commands.index) == names
    assert 1 == commands.count("--capabilities CAPABILITY_NAMED_IAM")
    assert 1 == commands.count("--enable-termination-protection")


def test_what_an_earlier_stack_tells_and_what_is_missing_is_marked(
    prod: Environment,
) -> None:
    found = values(render(Deploy(prod)), Part.SERVICE)

    assert "<output VpcId of the stack shop-prod-network>" == found["VpcId"]
    assert "registry/shop@sha256:1" == found["Image"]
    assert "Size" not in found
    nameless = Environment("shop", "prod")
    assert "<to be set>" == values(render(Deploy(nameless)), Part.SERVICE)["Image"]


def test_who_brings_a_network_gets_none(prod: Environment) -> None:
    common = {**prod.common, "VpcId": "vpc-9", "SubnetIds": "a"}
    files = render(Deploy(Environment("shop", "prod", common=common)))

    assert "network.yaml" not in files
    assert ("vpc-9", "a") == tuple(
        values(files, Part.SERVICE)[name] for name in ("VpcId", "SubnetIds")
    )


def test_a_region_stands_in_every_command() -> None:
    files = render(Deploy(Environment("a", "b", "eu-central-1"), (Part.DATA,)))
    commands = files["commands.txt"]

    assert commands.count("aws cloudformation") == commands.count(
        "--region eu-central-1"
    )


def test_files_are_written_where_they_are_wanted(
    tmp_path: Path, prod: Environment
) -> None:
    files = render(Deploy(prod, (Part.ALARMS,)))

    paths = write(files, tmp_path / "new")

    assert {Path(path).name: Path(path).read_text() for path in paths} == files
