"""Guarantee: the JSON of each command and of each error has a published form."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema

from piecework_orchestrator.cli.app import COMMANDS
from tests.client.json_forms import (
    ELSEWHERE,
    NO_DOCUMENT,
    REFUSED,
    command_of,
    run_all,
)

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "json-forms.json"
FORMS = json.loads(PAGE.read_text())


def test_each_command_with_a_document_has_a_form() -> None:
    assert FORMS["commands"].keys() == COMMANDS.keys() - NO_DOCUMENT - ELSEWHERE


def test_each_command_prints_its_published_form() -> None:
    """A new name: `python -m tests.client.json_forms` writes the forms again."""
    broken = []
    for line, code, output, errors in run_all():
        refused = line in REFUSED
        printed = json.loads(errors if refused else output)
        form = FORMS["error"] if refused else FORMS["commands"][command_of(line)]
        broken += [f"{line}: exit code {code}"] * (refused and code != REFUSED[line])
        validator = jsonschema.Draft202012Validator(form)
        broken += [f"{line}: {one.message}" for one in validator.iter_errors(printed)]
    assert not broken, "\n".join(broken)
