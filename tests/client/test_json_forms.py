"""Guarantee: the JSON of each command and of each error has a published form."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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


def closed(form: Any) -> Any:
    """Return a form that accepts no name which it does not have."""
    if isinstance(form, list):
        return [closed(each) for each in form]
    if not isinstance(form, dict):
        return form
    only = {"additionalProperties": False} if "properties" in form else {}
    return {name: closed(each) for name, each in form.items()} | only


def test_each_command_prints_its_published_form() -> None:
    """CONTRIBUTING has the command that writes the forms anew."""
    broken = []
    unprinted = {
        (command, name)
        for command, form in FORMS["commands"].items()
        for name in form.get("items", form).get("properties", ())
    }
    for line, code, output, errors in run_all():
        refused = line in REFUSED
        printed = json.loads(errors if refused else output)
        form = FORMS["error"] if refused else FORMS["commands"][command_of(line)]
        for each in printed if isinstance(printed, list) else [printed]:
            unprinted -= {(command_of(line), name) for name in each}
        broken += [f"{line}: exit code {code}"] * (refused and code != REFUSED[line])
        validator = jsonschema.Draft202012Validator(closed(form))
        broken += [f"{line}: {one.message}" for one in validator.iter_errors(printed)]
    assert not broken, "\n".join(broken)
    assert not unprinted


def test_a_form_accepts_other_codes_a_join_and_what_no_walk_has() -> None:
    found = {"error_codes": {"llm.http.429_rate_limited": 2}, "finish": {"p50_s": 1}}
    jsonschema.validate(found, FORMS["commands"]["jobs show"])
    jsonschema.validate([{"chunk": "join"}], FORMS["commands"]["dlq list"])
