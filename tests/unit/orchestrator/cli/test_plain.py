"""Plain commands: which words they are, and that they do what the others do."""

from __future__ import annotations

import pytest

from piecework_orchestrator.cli.plain import (
    COMMANDS,
    PlainCommand,
    parse_plain,
    run_plain,
)
from tests.unit.orchestrator.cli.deployment import Deployment

SHOW = "jobs:show_job"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("jobs show j", PlainCommand(SHOW, ("j",))),
        ("jobs show j -o json", PlainCommand(SHOW, ("j",), "json")),
        ("jobs show --output yaml j", PlainCommand(SHOW, ("j",), "yaml")),
        ("chunks show j 3", PlainCommand("chunks:show_chunk", ("j", "3"))),
        (
            "chunks show j 3 -o jsonl",
            PlainCommand("chunks:show_chunk", ("j", "3"), "jsonl"),
        ),
        ("", None),
        ("jobs", None),
        ("jobs show", None),
        ("jobs show j k", None),
        ("jobs show -h", None),
        ("jobs show j --help", None),
        ("jobs show j -o xml", None),
        ("jobs show -o json", None),
        ("jobs show -- -j", None),
        ("chunks show j", None),
        ("chunks show j -1", None),
        ("jobs list", PlainCommand("jobs:list_jobs", ())),
        ("jobs list -o json", PlainCommand("jobs:list_jobs", (), "json")),
        ("jobs list --watch", None),
        ("--version", None),
    ],
)
def test_only_a_plain_form_is_taken(words: str, command: PlainCommand | None) -> None:
    assert command == parse_plain(words.split())


@pytest.mark.parametrize("group", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_plain_command_says_what_the_whole_command_line_says(
    here: Deployment,
    group: tuple[str, ...],
    form: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    here.job("job-1", "RUNNING", 1)
    here.chunk("job-1", 0, "WAITING")
    for name in ("job-1", "none"):
        words = [*group, *[name, "0"][: COMMANDS[group][1]], "-o", form]
        command = parse_plain(words)
        assert command is not None

        code = run_plain(command)
        said = capsys.readouterr()
        other = here.run(*words)

        assert (other.exit_code, other.stdout, other.stderr) == (code, *said)
