"""The options of every command, at each place; and errors for programs."""

from __future__ import annotations

import json
import os
import shlex

import pytest
import yaml

from piecework_orchestrator.cli import jobs
from piecework_orchestrator.cli.app import COMMANDS
from tests.unit.orchestrator.cli.conftest import Run
from tests.unit.orchestrator.cli.deployment import Deployment

#: What each option does to the environment of the command.
SETS = {
    "--env prod": {"PIECEWORK_ENV": "prod"},
    "--tenant acme": {"PIECEWORK_TENANT": "acme"},
    "--profile ops": {"AWS_PROFILE": "ops"},
    "--region eu-west-1": {
        "AWS_REGION": "eu-west-1",
        "AWS_DEFAULT_REGION": "eu-west-1",
    },
    "--no-color": {"NO_COLOR": "1"},
    "-q": {"PIECEWORK_VERBOSITY": "quiet"},
    "-v": {"PIECEWORK_VERBOSITY": "verbose"},
}
PLACES = ["{} jobs list", "jobs {} list", "jobs list {}", "jobs list --limit 3 {}"]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("option", SETS)
def test_an_option_of_every_command_is_valid_at_each_place_and_ends_with_it(
    run: Run, monkeypatch: pytest.MonkeyPatch, option: str, place: str
) -> None:
    seen: list[dict[str, str]] = []
    monkeypatch.setattr(
        jobs, "run_reading", lambda *_, **__: seen.append(dict(os.environ))
    )
    before = dict(os.environ)

    done = run(*place.format(option).split())

    assert (0, before) == (done.exit_code, dict(os.environ))
    assert seen[0] == before | SETS[option]


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_takes_every_option(
    run: Run, monkeypatch: pytest.MonkeyPatch, words: str
) -> None:
    """A program gets its own words, and the options in its environment."""
    started: list[tuple[list[str], dict[str, str]]] = []
    monkeypatch.setattr(
        os, "execv", lambda _, argv: started.append((argv[6:], dict(os.environ)))
    )
    before = dict(os.environ)

    done = run(*words.split(), "a", *shlex.split(" ".join(SETS)), "--no-such-option")

    assert before == dict(os.environ)
    if COMMANDS[words].program:
        ((own, environ),) = started
        assert (["a", "--no-such-option"], "prod") == (own, environ["PIECEWORK_ENV"])
    else:
        assert (2, True) == (done.exit_code, "--no-such-option" in done.stderr)


def test_an_empty_word_as_an_unset_variable_leaves_it_is_refused(run: Run) -> None:
    groups = "jobs list --tenant", "worker --env", "infra destroy --env"
    for words in (*groups, "dlq discard --since", "webhooks set ops --event"):
        done = run(*words.split(), "")
        assert (2, True) == (done.exit_code, "the text is empty." in done.stderr)


def test_a_tenant_sees_its_own_jobs(here: Deployment) -> None:
    here.job("a", "RUNNING", 1)
    assert 1 == len(here.document("jobs", "list"))
    other = here.run("--tenant", "acme", "jobs", "list", "-o", "json")
    assert [] == json.loads(other.stdout)
    assert 3 == here.run("jobs", "show", "a", "--tenant", "acme").exit_code


def test_quiet_keeps_results_and_errors_and_verbose_adds_details(
    here: Deployment,
) -> None:
    here.job("a", "RUNNING", 1)
    here.chunk("a", 0, "RUNNING")
    plain, quiet, verbose = (
        here.run("jobs", "explain", "a", *option) for option in ((), ("-q",), ("-v",))
    )
    assert "next: " in plain.stderr
    assert ("", plain.stdout) == (quiet.stderr, quiet.stdout)
    assert "embedded AWS at http://127.0.0.1:4566\n" in verbose.stderr
    assert "embedded AWS" not in plain.stderr
    assert "error job.record.not_found" in here.run("jobs", "show", "b", "-q").stderr


@pytest.mark.parametrize(
    ("words", "code", "exit_code", "step"),
    [
        ("jobs show nobody", "job.record.not_found", 3, "piecework jobs list"),
        ("chunks show a 9", "job.chunk.not_found", 3, "piecework chunks list a"),
        ("jobs list --status BROKEN", "cli.usage.invalid", 2, "Use one of SUBMITTING"),
        ("jobs list --nonsense", "cli.usage.invalid", 2, "jobs list --help"),
        ("jobs show", "cli.usage.invalid", 2, "jobs show --help"),
        ("results nobody", "job.record.not_found", 3, "piecework jobs list"),
        ("jobs cancel a --reason x", "cli.confirmation.needed", 2, "--yes"),
    ],
)
@pytest.mark.parametrize("form", ["json", "jsonl", "yaml"])
def test_an_error_is_a_document_for_programs(
    here: Deployment, words: str, code: str, exit_code: int, step: str, form: str
) -> None:
    here.job("a", "RUNNING", 1)
    done, plain = here.run(*words.split(), "-o", form), here.run(*words.split())

    assert (exit_code, "") == (done.exit_code, done.stdout)
    error = (yaml.safe_load if form == "yaml" else json.loads)(done.stderr)["error"]
    assert {"code", "message", "next_step"} == set(error)
    assert (code, True) == (error["code"], step in error["next_step"])
    assert (exit_code, True) == (plain.exit_code, error["message"] in plain.stderr)
    assert plain.stderr.startswith(f"error {code}: ")
