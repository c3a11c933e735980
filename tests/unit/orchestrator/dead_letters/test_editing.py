"""A new payload is written as a submit writes it, and as a worker reads it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, computed_field

from piecework import Context, Pipeline, Stage
from piecework.domain.dead_letter import DeadLetterRow
from piecework.errors import UsageError
from piecework.settings import Settings
from piecework_orchestrator.dead_letters import redrive as redriving
from piecework_orchestrator.dead_letters.redrive import (
    PATCH_LIMIT,
    Edit,
    edit_payload,
    patch_text,
)
from tests.unit.orchestrator.cli.deployment import Deployment


class Line(BaseModel):
    model_config = ConfigDict(extra="forbid")

    text: str = Field(alias="Text")

    @computed_field
    def length(self) -> int:
        return len(self.text)


async def shout(ctx: Context[Line]) -> str:
    return ctx.payload.text.upper()


TOY = Pipeline("toy", payload=Line, stages=[Stage(shout)])


def test_a_new_payload_reads_back_at_the_worker() -> None:
    new = Edit({"Text": "mended"}, pipeline=TOY).apply({"Text": "bad"})
    assert {"Text": "mended"} == new
    assert "mended" == Line.model_validate(new).text


def test_a_patch_keeps_a_number_that_is_not_finite() -> None:
    class Measured(BaseModel):
        mean: float | None = None
        any: Any = None

    typed = replace(TOY, payload=Measured)
    new = Edit({"mean": "NaN"}, pipeline=typed).apply({"any": [math.inf]})
    assert "{'mean': nan, 'any': [inf]}" == repr(new)


def test_a_validator_that_raises_any_error_refuses_the_payload() -> None:
    class Odd(BaseModel):
        text: Annotated[str, AfterValidator({}.__getitem__)]

    with pytest.raises(UsageError, match="Odd raised KeyError"):
        Edit({"text": "x"}, pipeline=replace(TOY, payload=Odd)).apply({})


def test_a_refusal_names_every_field_that_does_not_fit() -> None:
    with pytest.raises(UsageError, match=r"\['Text', 'more'\]"):
        Edit({"Text": 1, "more": 2}, pipeline=TOY).apply({"Text": "bad"})


class Part(BaseModel):
    size: int = 0


class Order(BaseModel):
    id: str
    first: Part = Part()
    parts: list[Part] = []
    notes: dict[str, str] = {}
    since: int = 0  # newer than the stored payload


ORDER = replace(TOY, payload=Order)
STORED = {
    "id": "a",
    "first": {"size": 1},
    "parts": [{"size": 2}],
    "notes": {"by": "me"},
    "gone": 1,  # a field of an older model
}


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize(
    ("value", "alone", "checked"),
    [
        ({"idd": "b"}, "'idd' (did you mean 'id'?)", "'idd' (did you mean 'id'?)"),
        ({"id": "b", "xyz": 1}, "'xyz'", "'xyz'"),
        ({"first": {"sise": 2}}, "'first.sise' (did you mean 'size'?)", "'first.sise'"),
        ({"parts": [{"size": 1}, {"sice": 1}]}, "'parts.1.sice'", "'parts.1.sice'"),
        ({"since": 3}, "'since'", ""),  # only the pipeline knows a newer field,
        ({"notes": {"why": "x"}}, "'notes.why'", ""),  # and what is a mapping
        ({"id": "b", "first": {"size": 2}, "notes": {"by": "you"}}, "", ""),
        ({"gone": 2}, "", ""),
    ],
)
def test_a_new_field_that_neither_stored_payload_nor_model_has_is_refused(
    value: dict[str, Any], alone: str, checked: str, *, whole: bool
) -> None:
    new = ({"id": "a"} if whole else {}) | value
    for pipeline, said in ((None, alone), (ORDER, checked)):
        edit = Edit(new, whole, pipeline)
        if not said:
            edit.apply(STORED)
            continue
        with pytest.raises(UsageError) as refused:
            edit.apply(STORED)
        assert "redrive.field.unknown" == refused.value.code
        # A field that the payload has already is not meant.
        assert said.partition(" (" if whole else "\n")[0] in refused.value.message
        assert "--pipeline MODULE:NAME" in (refused.value.next_step or "")


def test_a_patch_of_many_payloads_may_remove_what_one_does_not_have() -> None:
    for pipeline in (None, ORDER):
        new = Edit({"idd": None, "id": "b"}, pipeline=pipeline).apply(STORED)
        assert ("b", False) == (new["id"], "idd" in new)


@pytest.mark.parametrize(
    ("patch", "text"),
    [
        ({"text": "secret", "a": {"b": "secret"}}, "a, text"),
        (["secret"], "the payload"),
        ({"x" * PATCH_LIMIT: 1}, "x" * PATCH_LIMIT),
        ({"x" * PATCH_LIMIT: 1, "y": 2}, "2 fields"),
    ],
)
def test_a_dead_letter_names_what_a_patch_changes_without_values(
    patch: Any, text: str
) -> None:
    assert text == patch_text(patch)


@pytest.mark.parametrize(
    "patch", [{"text": [0] * 100_000}, {"text": "\u00e9" * (5 * 1024 * 1024)}]
)
async def test_a_payload_that_workers_would_refuse_is_refused(
    patch: dict[str, Any],
) -> None:
    deployment = Deployment()
    deployment.letter("a", 0, pipeline="toy")
    (item,) = deployment.letters.rows.values()
    letter = DeadLetterRow.read(item)
    assert letter is not None
    with pytest.raises(UsageError) as refused:
        await edit_payload(deployment.runtime(Settings()), letter, Edit(patch))
    assert "redrive.payload.invalid" == refused.value.code


@pytest.mark.parametrize(
    ("new", "changes"), [(1, False), (True, True), (1.0, True), (math.nan, True)]
)
async def test_another_json_type_is_another_payload(
    monkeypatch: pytest.MonkeyPatch, new: object, *, changes: bool
) -> None:
    async def payload_of(*_: object, **__: object) -> dict[str, Any]:
        return {"n": 1}

    monkeypatch.setattr(redriving, "payload_of", payload_of)
    deployment = Deployment()
    deployment.letter("a", 0)
    letter = DeadLetterRow.read(*deployment.letters.rows.values())
    assert letter is not None
    rt = deployment.runtime(Settings())
    assert changes is (await edit_payload(rt, letter, Edit({"n": new})) is not None)
