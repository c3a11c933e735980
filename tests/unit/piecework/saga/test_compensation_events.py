"""The events of a compensation: its steps, and one correlation id for all."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.outcome import CompensationResult, DeadLettered
from piecework.errors import PermanentError
from piecework.saga.compensation import StepState, compensation_plan, preview
from tests.unit.piecework.fakes import Log, checkpoints_of, context, envelope, run
from tests.unit.piecework.script import Script


def told(log: Log, name: str) -> list[dict[str, Any]]:
    return [fields for event, fields in log.said if event == name]


async def test_a_trace_shows_stages_and_compensations_under_one_id() -> None:
    log, script = Log(), Script(fails={"c": PermanentError("no")})

    await run(script.pipeline, ctx=context(script.pipeline, log=log))

    assert [
        "stage.completed",
        "stage.completed",
        "compensation.started",
        "compensation.stage_compensated",
        "compensation.stage_compensated",
        "compensation.stage_compensated",
        "compensation.ended",
    ] == log.names()
    assert {"job/7"} == {fields["correlation_id"] for _, fields in log.said}
    (begun,), (ended,) = (
        told(log, f"compensation.{name}") for name in ("started", "ended")
    )
    assert (["a", "b", "c"], ["c", "b", "a"]) == (
        begun["steps"],
        begun["to_compensate"],
    )
    assert ("COMPENSATED", []) == (ended["compensation"], ended["uncompensated"])
    assert [] == begun["no_effect"] == ended["no_effect"]


async def test_a_failed_compensation_is_emitted_and_the_others_still_run() -> None:
    log = Log()
    fails = {"c": PermanentError("no"), "undo b": PermanentError("no refund")}
    script = Script(fails=fails)

    outcome = await run(script.pipeline, ctx=context(script.pipeline, log=log))

    assert isinstance(outcome, DeadLettered)
    assert (CompensationResult.FAILED, ("b",)) == (
        outcome.compensation,
        outcome.uncompensated_stages,
    )
    (failed,) = told(log, "compensation.stage_failed")
    assert ("b", "runtime.stage.permanent") == (failed["stage"], failed["error_code"])
    undone = [fields["stage"] for fields in told(log, "compensation.stage_compensated")]
    assert ["c", "a"] == undone
    assert [["b"]] == [
        fields["uncompensated"] for fields in told(log, "compensation.ended")
    ]


@pytest.mark.parametrize(("undoable", "emitted"), [("", 0), ("a", 3), ("c", 3)])
async def test_events_are_emitted_if_any_step_is_to_compensate(
    undoable: str, emitted: int
) -> None:
    log, script = Log(), Script(undoable=undoable, fails={"c": PermanentError("no")})

    await run(script.pipeline, ctx=context(script.pipeline, log=log))

    events = [name for name in log.names() if name.startswith("compensation.")]
    assert emitted == len(events)


async def test_a_continued_compensation_emits_its_remaining_steps() -> None:
    log, script = Log(), Script()
    kept = checkpoints_of(script.pipeline, completed={"a": "1", "b": "1"})
    kept.failure, kept.compensated = envelope(stage="c"), {"c": None}

    await run(script.pipeline, kept, ctx=context(script.pipeline, log=log))

    (begun,) = told(log, "compensation.started")
    assert (["a", "b", "c"], ["b", "a"]) == (begun["steps"], begun["to_compensate"])


@pytest.mark.parametrize(
    ("stage", "facts", "standing", "expected"),
    [
        ("b", {"completed": {"b": ""}}, set(), StepState.DONE),
        ("b", {"reached_stage": "b"}, set(), StepState.IN_DOUBT),
        ("b", {"compensated": {"b": None}}, set(), StepState.COMPENSATED),
        ("b", {"compensated": {"b": envelope()}}, set(), StepState.FAILED),
        ("c", {"completed": {"c": ""}}, {"b", "c"}, StepState.NOT_COMPENSABLE),
        ("c", {"completed": {"c": ""}}, {"b"}, StepState.NOT_NEEDED),
    ],
)
def test_the_state_of_a_step(
    stage: str, facts: dict[str, Any], standing: set[str], expected: StepState
) -> None:
    pipeline = Script(undoable="ab").pipeline
    progress = checkpoints_of(pipeline, **facts)
    progress.completed["a"] = ""

    steps = compensation_plan(pipeline, envelope(stage="c"), progress, standing)

    assert ["c", "b", "a"] == [step.stage.name for step in steps]
    assert {stage: expected}.items() <= {s.stage.name: s.state for s in steps}.items()
    assert {"a"} <= {step.stage.name for step in steps if step.is_due}


def test_a_completed_stage_behind_the_failed_one_is_compensated_too() -> None:
    """A deployment inserted the stage that failed."""
    pipeline = Script().pipeline
    progress = checkpoints_of(pipeline, completed={"a": "", "d": ""})

    steps = compensation_plan(pipeline, envelope(stage="b"), progress, set())

    assert ["d", "b", "a"] == [step.stage.name for step in steps]


@pytest.mark.parametrize(
    ("at", "standing", "states"),
    [
        ("b", "", {StepState.DONE, StepState.IN_DOUBT}),
        ("c", "", {StepState.AT_PIVOT}),
        ("c", "c", {StepState.FORWARD_ONLY}),
        ("d", "", {StepState.FORWARD_ONLY}),
    ],
)
def test_the_preview_goes_forward_from_the_intent_of_the_pivot_on(
    at: str, standing: str, states: set[StepState]
) -> None:
    pipeline = Script(pivot="c", undoable="ab").pipeline
    before = "abcd".partition(at)[0]
    progress = checkpoints_of(pipeline, completed=dict.fromkeys(before, ""))

    steps = preview(pipeline, envelope(stage=at), progress, set(standing))

    assert states == {step.state for step in steps}
    assert at + before[::-1] == "".join(step.stage.name for step in steps)
