"""The commands of the runbooks: each operation and option that they name exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from tests.docs.pages import shell_lines, spans
from tests.docs.test_commands import commands_in, find_command, is_known, options_of
from tests.infra.alarm_template import PAGES, ROOT, TELLING, first_command

#: Options of the AWS CLI itself, beside what an operation takes.
ITS_OWN = {"--max-items", "--output", "--query", "--region"}
FOLDER = ROOT / "docs/runbooks"
LINES = [
    *(
        line
        for page in [FOLDER / "README.md", *PAGES.values()]
        for line in shell_lines(page)
    ),
    *(span for page in PAGES.values() for span in spans(page) if " " in span),
    *(first_command(alarm) for alarm in TELLING.values()),
]
INSIDE = re.compile(r"\$\(([^()]*)\)")


def calls_of_aws(line: str) -> Iterator[str]:
    """Yield the commands of the AWS CLI in a line, without what is quoted."""
    line = re.sub(r"'[^']*'", "TEXT", line)
    for part in [INSIDE.sub("TEXT", line), *INSIDE.findall(line)]:
        yield from (call for call in re.split(r"[;|]", part) if call.startswith("aws "))


AWS = [call for line in LINES for call in calls_of_aws(line)]


@cache
def session() -> Any:
    return botocore.session.get_session()


def wrong_in(call: str) -> list[str]:
    """Return what a command asks for that the AWS CLI does not have."""
    _, name, operation, *rest = call.split()
    if name not in session().get_available_services():
        return [name]
    model = session().get_service_model(name)
    operations = {xform_name(o, "-"): o for o in model.operation_names}
    if operation not in operations:
        return [f"{name} {operation}"]
    members = model.operation_model(operations[operation]).input_shape.members
    options = {f"--{xform_name(member, '-')}" for member in members} | ITS_OWN
    asked = [word for word in rest if word.startswith("--")]
    return [option for option in asked if option not in options]


@pytest.mark.parametrize("call", AWS)
def test_a_command_of_the_aws_cli_exists(call: str) -> None:
    assert [] == wrong_in(call)


@pytest.mark.parametrize("alarm", TELLING.values(), ids=TELLING.keys())
def test_the_first_command_of_an_alarm_exists(alarm: dict[str, Any]) -> None:
    command = re.sub(r"^PIECEWORK_ENV=\S+ ", "", first_command(alarm))
    for words, options in commands_in(command):
        assert is_known(words)
        assert not hasattr(find_command(words)[0], "commands"), (
            "it is a group of commands"
        )
        assert set(options) <= options_of(words)
