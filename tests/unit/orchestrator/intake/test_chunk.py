from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Self

import pytest
from pydantic import BaseModel, Field, computed_field, model_validator

from orchestrator.intake import Limits
from orchestrator.intake.chunk import ChunkInput, Place, chunk_input
from piecework import PermanentError, Pipeline
from piecework.errors import UsageError

PLACE = Place("a.md", "chunk 3", label="a.md #3")


def encode(
    payload: BaseModel, pipeline: Pipeline, limits: Limits | None = None
) -> ChunkInput:
    own = replace(pipeline, payload=type(payload))
    return chunk_input(payload, PLACE, own, limits or Limits())


class Aliased(BaseModel):
    text: str = Field(alias="Text")

    @computed_field
    def length(self) -> int:
        return len(self.text)


class Measure(BaseModel):
    value: float


def test_a_payload_is_compact_json_that_reads_back(pipeline: Pipeline) -> None:
    given = Aliased(Text="é")
    chunk = encode(given, pipeline)
    assert ChunkInput("a.md #3", '{"Text":"é"}'.encode()) == chunk
    assert given == Aliased.model_validate_json(chunk.payload)


def test_a_value_that_json_cannot_carry_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(UsageError) as refused:
        encode(Measure(value=math.inf), pipeline)
    assert refused.value.code == "input.payload.invalid"
    assert "value: Input should be a valid number" in refused.value.message


@pytest.mark.parametrize("text", ["\ud800", 5])
def test_a_field_set_past_validation_is_refused(text: str, pipeline: Pipeline) -> None:
    class Free(BaseModel):
        text: str

    with pytest.raises(UsageError) as refused:
        encode(Free.model_construct(text=text), pipeline)
    assert refused.value.code == "input.payload.invalid"


def test_a_payload_of_another_type_is_refused_with_both_names(
    pipeline: Pipeline,
) -> None:
    with pytest.raises(UsageError) as refused:
        chunk_input(Measure(value=1), PLACE, pipeline, Limits())
    assert "it is a Measure, not a Clause" in refused.value.message


def test_a_payload_may_be_as_large_as_the_limit_and_no_larger(
    pipeline: Pipeline,
) -> None:
    size = len(json.dumps({"value": 1.0}, separators=(",", ":")))
    encode(Measure(value=1), pipeline, Limits(payload_bytes=size))
    with pytest.raises(UsageError) as refused:
        encode(Measure(value=1), pipeline, Limits(payload_bytes=size - 1))
    assert refused.value.code == "input.payload.too_large"


class Fails(BaseModel):
    text: str

    @model_validator(mode="after")
    def known(self) -> Self:
        if self.text == "ours":
            raise PermanentError("Not this one.", code="review.clause.unknown")
        return {"fine": self}[self.text]


def test_a_model_that_fails_is_named_and_its_data_is_not(pipeline: Pipeline) -> None:
    with pytest.raises(UsageError) as refused:
        encode(Fails.model_construct(text="secret"), pipeline)
    assert refused.value.code == "input.payload.invalid"
    assert "reads back wrong: a validator raised KeyError" in refused.value.message
    assert "secret" not in refused.value.message


def test_an_error_that_the_model_chose_is_kept(pipeline: Pipeline) -> None:
    with pytest.raises(PermanentError) as refused:
        encode(Fails.model_construct(text="ours"), pipeline)
    assert refused.value.code == "review.clause.unknown"


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        ("Term", "Term"),
        ("two\n lines\t", "two lines"),
        ("\x1b[31mred\u202e", "[31mred"),
        ("", "a.md #3"),
        ("\u200b", "a.md #3"),
        ("x" * 64, "x" * 64),
        ("x" * 65, "x" * 63 + "…"),
    ],
)
def test_labels_fit_a_cell_of_a_table(
    label: str, expected: str, pipeline: Pipeline
) -> None:
    named = replace(pipeline, label=lambda _: label)
    assert expected == encode(Measure(value=1), named).label


@pytest.mark.parametrize("label", [lambda _: 1 / 0, lambda _: None])
def test_a_label_function_that_fails_is_named(
    label: object, pipeline: Pipeline
) -> None:
    with pytest.raises(UsageError) as refused:
        encode(Measure(value=1), replace(pipeline, label=label))  # type: ignore[arg-type]
    assert refused.value.code == "input.label.failed"


def test_an_error_that_the_label_function_chose_is_kept(pipeline: Pipeline) -> None:
    def label(_: object) -> str:
        raise PermanentError("No heading.", code="review.clause.unnamed")

    with pytest.raises(PermanentError) as refused:
        encode(Measure(value=1), replace(pipeline, label=label))
    assert refused.value.code == "review.clause.unnamed"
