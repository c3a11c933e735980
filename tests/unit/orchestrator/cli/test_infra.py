"""`piecework infra`, on an account in memory."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from piecework.errors import UsageError
from piecework_orchestrator.cli import infra_options
from piecework_orchestrator.cli.infra_destroy import BY_HAND
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.run import confirm_now, confirm_word
from piecework_orchestrator.infra import templates
from piecework_orchestrator.infra.destroy import DATA_ACTIONS, RETAIN_POLICIES
from piecework_orchestrator.infra.templates import Part
from tests.unit.orchestrator.infra.cloudformation import (
    CloudFormation,
    change,
    session_of,
)
from tests.unit.orchestrator.infra.conftest import FILES

Run = Callable[..., Any]
ASKED = ("--env", "prod", "--app", "shop")
DATA = (*ASKED, "--stack", "data")


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> CloudFormation:
    made = CloudFormation()
    monkeypatch.setattr(infra_options, "open_session", lambda _: session_of(made))
    monkeypatch.setattr(templates, "read", FILES.__getitem__)
    return made


def test_a_deploy_shows_account_changes_and_result(
    run: Run, aws: CloudFormation
) -> None:
    done = run("infra", "deploy", *DATA, "--yes")

    assert 0 == done.exit_code
    assert "shop-prod in account 111122223333, eu-central-1" in done.stderr
    assert "Add     Thing     AWS::SNS::Topic" in done.stderr
    assert "DONE" in done.stderr
    assert "shop-prod-data  created" == done.stdout.splitlines()[1]


def test_without_a_terminal_and_a_yes_nothing_is_changed(
    run: Run, aws: CloudFormation
) -> None:
    done = run("infra", "deploy", *DATA)

    assert 2 == done.exit_code
    assert "error cli.confirmation.needed" in done.stderr
    assert "execute" not in aws.verbs()


@pytest.mark.parametrize("words", [("diff",), ("deploy", "--dry-run")])
def test_a_dry_run_shows_the_changes_and_makes_none(
    run: Run, aws: CloudFormation, words: tuple[str, ...]
) -> None:
    done = run("infra", *words, *DATA)

    assert 0 == done.exit_code
    assert "shop-prod-data: create" == done.stdout.splitlines()[0]
    assert ["propose", "discard", "delete"] == aws.verbs()


def test_a_diff_can_end_with_9(run: Run, aws: CloudFormation) -> None:
    assert 9 == run("infra", "diff", *DATA, "--exit-code").exit_code
    run("infra", "deploy", *DATA, "--yes")
    assert 0 == run("infra", "diff", *DATA, "--exit-code").exit_code


def test_a_diff_for_programs_has_every_stack(run: Run, aws: CloudFormation) -> None:
    given = ("--image", "x", "--vpc", "v", "--subnets", "a,b")

    done = run("infra", "diff", *ASKED, *given, "-o", "json")

    found = {row["part"]: row for row in json.loads(done.stdout)}
    assert ["data", "roles", "deployer", "service", "scaling", "alarms"] == list(found)
    assert {"create"} == {row["result"] for row in found.values()}
    assert "Thing" == found["data"]["changes"][0]["resource"]


def test_a_stack_that_needs_an_earlier_stack_is_reported(
    run: Run, aws: CloudFormation
) -> None:
    done = run("infra", "diff", *ASKED, "--image", "x")

    assert "shop-prod-service: waits for VpcId, SubnetIds" in done.stderr


def test_a_change_of_resources_with_data_is_marked_and_refused(
    run: Run, aws: CloudFormation
) -> None:
    aws.add("shop-prod-data")
    kind = "AWS::DynamoDB::Table"
    aws.changes = [change("Modify", "Table", kind, Replacement="True")]

    assert "holds data" in run("infra", "diff", *DATA).stdout
    done = run("infra", "deploy", *DATA, "--yes")
    assert 2 == done.exit_code
    assert "--allow-replacement Table" in done.stderr
    named = ("--allow-replacement", "Table")
    assert 0 == run("infra", "deploy", *DATA, "--yes", *named).exit_code


def test_a_removal_asks_and_then_reports(run: Run, aws: CloudFormation) -> None:
    aws.add("shop-prod-alarms", "REVIEW_IN_PROGRESS")

    assert 2 == run("infra", "destroy", *ASKED).exit_code
    done = run("infra", "destroy", *ASKED, "--yes")
    assert (0, "shop-prod-alarms  removed") == (
        done.exit_code,
        done.stdout.splitlines()[1],
    )


def test_kept_resources_are_reported_with_the_command_to_remove_them(
    run: Run, aws: CloudFormation
) -> None:
    aws.add("shop-prod-data", "ROLLBACK_COMPLETE")
    aws.templates["shop-prod-data"] = FILES["data.yaml"]
    row = {
        "LogicalResourceId": "Bucket",
        "PhysicalResourceId": "the-bucket",
        "ResourceType": "AWS::S3::Bucket",
        "ResourceStatus": "DELETE_SKIPPED",
    }
    aws.resources["shop-prod-data"] = [row]

    done = run("infra", "destroy", *DATA, "--dry-run")

    assert "retain" in done.stdout
    assert "Bucket('the-bucket')" in done.stderr
    assert [] == aws.calls


def test_every_kept_type_has_a_command_to_remove_it() -> None:
    declared = templates.load(Part.DATA).body["Resources"].values()
    stays = {
        found["Type"]
        for found in declared
        if found["DeletionPolicy"] in RETAIN_POLICIES
    }

    # The policy of a bucket goes with the bucket.
    assert stays - set(DATA_ACTIONS) == set(BY_HAND) | {"AWS::S3::BucketPolicy"}


def test_nothing_to_remove_is_no_error(run: Run, aws: CloudFormation) -> None:
    done = run("infra", "destroy", *ASKED)
    assert 0 == done.exit_code
    assert "nothing to remove" in done.stderr
    assert "[]\n" == run("infra", "destroy", *ASKED, "-o", "json").stdout


@pytest.mark.parametrize("named", [(), ("--confirm-env", "beta")])
def test_data_is_removed_only_if_the_environment_is_named_twice(
    run: Run, aws: CloudFormation, named: tuple[str, ...]
) -> None:
    done = run("infra", "destroy", *ASKED, "--with-data", "--yes", *named)

    assert 2 == done.exit_code
    assert "--confirm-env prod" in done.stderr


def test_files_are_printed_or_written(
    run: Run, aws: CloudFormation, tmp_path: Any
) -> None:
    assert "# ---- commands.txt" in run("infra", "render", *DATA).stdout
    done = run("infra", "render", *DATA, "--to", str(tmp_path))
    assert str(tmp_path / "data.yaml") in done.stdout
    assert FILES["data.yaml"] == (tmp_path / "data.yaml").read_text()


def test_status_shows_the_outputs_of_the_stacks(run: Run, aws: CloudFormation) -> None:
    assert "next: piecework infra deploy" in run("infra", "status", *ASKED).stderr
    aws.outputs["shop-prod-data"] = {"KeyArn": "arn:key"}
    run("infra", "deploy", *DATA, "--yes", "--parameter", "Protect=false")

    shown = run("infra", "status", *ASKED).stdout

    assert "CREATE_COMPLETE" in shown
    assert "Protect=false (default true)" in shown
    assert "KeyArn  arn:key" in shown
    stacks = json.loads(run("infra", "status", *ASKED, "-o", "json").stdout)
    assert len(Part) == len(stacks)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("answer", "meant"), [("y\n", True), ("\n", False)])
def test_a_terminal_is_asked_for_a_confirmation(
    monkeypatch: pytest.MonkeyPatch, answer: str, *, meant: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    out = Output(stderr=Terminal())
    if meant:
        confirm_now("Create it", out, yes=False)
    else:
        with pytest.raises(UsageError, match="nothing was changed"):
            confirm_now("Create it", out, yes=False)
    assert "Create it? [y/N] " == out.stderr.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(("answer", "meant"), [("prod\n", True), ("y\n", False)])
def test_an_irreversible_change_requires_a_typed_word(
    monkeypatch: pytest.MonkeyPatch, answer: str, *, meant: bool
) -> None:
    monkeypatch.setattr(sys, "stdin", Terminal(answer))
    out = Output(stderr=Terminal())
    if meant:
        confirm_word("Remove it", out, "prod")
    else:
        with pytest.raises(UsageError):
            confirm_word("Remove it", out, "prod")
