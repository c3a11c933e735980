"""`piecework infra` on the embedded AWS: from nothing to the data stack and back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from typer.testing import CliRunner

from piecework.aws.endpoint import Emulator
from piecework_orchestrator.cli.app import app
from piecework_orchestrator.embedded.deploy import ACCESS_KEY
from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.templates import Part

Run = Callable[..., Any]


@pytest.fixture
def run(
    emulator: Emulator, environment_name: str, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run a command of `infra` on the data stack of an environment of its own."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", emulator.endpoint)
    monkeypatch.setenv("AWS_DEFAULT_REGION", emulator.region)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ACCESS_KEY)

    def invoke(command: str, *words: str) -> Any:
        where = ("--env", environment_name)
        if command != "status":
            where = (*where, "--stack", "data")
        return CliRunner().invoke(app, ["infra", command, *where, *words])

    return invoke


@pytest.fixture
def stack(environment_name: str) -> str:
    return f"piecework-{environment_name}-data"


@pytest.fixture
def cloudformation(emulator: Emulator) -> Iterator[Any]:
    """Return a client that asks what the commands left behind."""
    client = boto3.client(
        "cloudformation",
        endpoint_url=emulator.endpoint,
        region_name=emulator.region,
        aws_access_key_id=ACCESS_KEY,
        aws_secret_access_key=ACCESS_KEY,
    )
    yield client
    client.close()


def stacks(cloudformation: Any) -> dict[str, dict[str, Any]]:
    found = cloudformation.describe_stacks()["Stacks"]
    return {
        row["StackName"]: row
        for row in found
        if row["StackStatus"] != "DELETE_COMPLETE"
    }


def changes(done: Any) -> list[dict[str, Any]]:
    assert 0 == done.exit_code, done.stderr
    (outcome,) = json.loads(done.stdout)
    return list(outcome["changes"])


def test_the_data_stack_is_looked_at_deployed_compared_changed_and_removed(
    run: Run,
    stack: str,
    cloudformation: Any,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """One stack for all: a deploy takes seconds."""
    looked = run("diff", "--exit-code")
    assert (9, True) == (looked.exit_code, "Add     Checkpoints" in looked.stdout)
    assert stack not in stacks(cloudformation)

    created = run("deploy", "--yes")
    assert 0 == created.exit_code, created.stderr
    assert f"{stack}  created" in created.stdout
    assert f"CREATE_COMPLETE              {stack}" in created.stderr
    assert f"{stack}: nothing to do" in run("deploy").stderr
    assert [] == changes(run("diff", "-o", "json"))

    # It is guarded against other tools.
    policy = cloudformation.get_stack_policy(StackName=stack)["StackPolicyBody"]
    assert templates.read(templates.STACK_POLICY) == policy
    assert stacks(cloudformation)[stack]["EnableTerminationProtection"]

    # What is rendered is what is deployed.
    run("render", "--to", str(tmp_path))
    assert templates.load(Part.DATA).text == (tmp_path / "data.yaml").read_text()
    rows = json.loads((tmp_path / "data.parameters.json").read_text())
    assert ["App", "Env"] == [row["ParameterKey"] for row in rows]

    # A template that renames a table is refused, and the table stays.
    written = templates.read
    renamed = written("data.yaml").replace("${Env}-checkpoints", "${Env}-points")
    with monkeypatch.context() as patched:
        patched.setattr(
            templates, "read", lambda n: renamed if n == "data.yaml" else written(n)
        )
        refused = run("deploy", "--yes")
    assert 2 == refused.exit_code
    said = "infra.replacement.refused: This deploy replaces Checkpoints"
    assert said in refused.stderr
    kept = cloudformation.get_template(StackName=stack)["TemplateBody"]
    assert templates.without_comments(written("data.yaml")) == kept
    (only,) = cloudformation.list_change_sets(StackName=stack)["Summaries"]
    assert "EXECUTE_COMPLETE" == only["ExecutionStatus"]

    looked = run("diff", "-o", "json", "--parameter", "Protect=false")
    assert {("Modify", "Checkpoints"), ("Modify", "DeadLetters")} == {
        (row["action"], row["resource"]) for row in changes(looked)
    }
    assert "true" == parameter(stacks(cloudformation)[stack], "Protect")
    updated = run("deploy", "--yes", "--parameter", "Protect=false")
    assert f"{stack}  updated" in updated.stdout
    shown = " ".join(run("status").stdout.split())
    assert "Protect=false (default true)" in shown
    assert "nothing to remove" in run("destroy", "--yes").stderr
    gone = run("destroy", "--with-data", "--yes", "--confirm-env", stack.split("-")[1])
    assert f"{stack}  removed" in gone.stdout
    assert "object_versions.delete()" in gone.stderr
    assert stack not in stacks(cloudformation)


def parameter(found: dict[str, Any], name: str) -> str:
    values = {p["ParameterKey"]: p["ParameterValue"] for p in found["Parameters"]}
    return str(values[name])


def test_a_failed_creation_names_the_resource_and_can_be_cleared(
    run: Run, stack: str
) -> None:
    s3 = boto3.client("s3")
    name = stack.removesuffix("-data")
    s3.create_bucket(Bucket=f"{name}-000000000000-us-east-1")  # of an earlier one
    s3.close()

    failed = run("deploy", "--yes")

    assert 1 == failed.exit_code
    assert "error infra.deploy.failed: The stack" in failed.stderr
    assert "infra.stack.not_created" in run("deploy", "--yes").stderr
    assert 0 == run("destroy", "--yes").exit_code
