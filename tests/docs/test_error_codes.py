"""The examples on the page of error codes run, and its queries find what they ask."""

from __future__ import annotations

import io
import json
import re
from typing import Any

import pytest
import structlog

from piecework import telemetry
from piecework.errors.classify import classify
from piecework.telemetry import EVENTS
from piecework.testing import run_in_memory
from tests.docs.pages import ROOT, fenced

PAGE = ROOT / "docs/error-codes.md"


def example(name: str) -> dict[str, Any]:
    """Return the names of the example that defines one."""
    (body,) = [b for b in fenced(PAGE, "python") if f"\n{name} = " in b]
    # A module's own: annotations are looked up by the name of it.
    names: dict[str, Any] = {"__name__": f"example_{name}"}
    exec(compile(body, str(PAGE), "exec"), names)  # noqa: S102 -- our own page
    return names


async def test_the_stage_of_the_page_plans_around_a_prompt_that_is_too_long() -> None:
    names = example("pipeline")
    texts = [names["Text"](text="a" * 16), names["Text"](text="short")]

    run = await run_in_memory(names["pipeline"], texts)

    assert {0: 16, 1: 5} == run.results


@pytest.mark.parametrize(
    ("reason", "code", "retry_after"),
    [("closed", "acme.till.closed", 2.0), ("broke", "acme.till.refused", None)],
)
def test_the_classifier_of_the_page_distinguishes_the_errors(
    reason: str, code: str, retry_after: float | None
) -> None:
    names = example("till")
    error = names["TillError"](reason, wait_s=2.0)

    told = classify(error, translate=names["till"].classify)

    assert (code, retry_after) == (told.code, told.retry_after)
    assert classify(KeyError(), translate=names["till"].classify).code == (
        "runtime.stage.unhandled"
    )


@pytest.fixture
def log() -> io.StringIO:
    stream = io.StringIO()
    telemetry.configure(json=True, stream=stream)
    return stream


def test_each_line_has_what_the_counters_need(log: io.StringIO) -> None:
    asked = set(re.findall(r"\$\.(\w+)|by bin\(1m\), (\w+), (\w+)", PAGE.read_text()))
    fields = {name for names in asked for name in names if name}
    for event in ("call.attempt", "chunk.dead_lettered"):
        values = dict.fromkeys(EVENTS[event].fields)
        values["error_code"] = "acme.till.closed"
        telemetry.emit(structlog.get_logger(), event, **values)

    lines = [json.loads(line) for line in log.getvalue().splitlines()]

    assert {"event", "error_code"} == fields
    assert [
        ("call.attempt", "acme.till.closed"),
        ("chunk.dead_lettered", "acme.till.closed"),
    ] == [(line["event"], line["error_code"]) for line in lines]


def test_every_event_of_an_error_has_its_code() -> None:
    failures = {
        name
        for name, event in EVENTS.items()
        if {"error_code", "error_codes"} & event.fields
    }

    assert {
        "call.attempt",
        "chunk.dead_lettered",
        "chunk.retry_scheduled",
        "reconcile.failed",
    } <= failures
