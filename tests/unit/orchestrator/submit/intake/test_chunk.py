from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Self

import pytest
from pydantic import BaseModel, Field, PrivateAttr, computed_field, model_validator
from pydantic.types import SecretStr

from piecework import PermanentError, Pipeline
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.payload import read_payload
from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.chunk import SourceLocation, chunk_input
from piecework_orchestrator.submit.intake.limits import IntakeLimits

LOCATION = SourceLocation("a.md", "chunk 3", label="a.md #3")


def encode(
    payload: BaseModel, pipeline: Pipeline, limits: IntakeLimits | None = None
) -> ChunkInput:
    own = replace(pipeline, payload=type(payload))
    return chunk_input(payload, LOCATION, own, limits or IntakeLimits())


class Aliased(BaseModel):
    text: str = Field(alias="Text")

    @computed_field
    def length(self) -> int:
        return len(self.text)


class Measure(BaseModel):
    value: float


class Finite(BaseModel):
    value: float = Field(allow_inf_nan=False)


class Untyped(BaseModel):
    model_config = {"ser_json_timedelta": "float"}

    any: object


class Worded(Untyped):
    model_config = {"ser_json_inf_nan": "strings"}


def test_a_payload_is_compact_json_that_validates_again(pipeline: Pipeline) -> None:
    given = Aliased(Text="é")
    chunk = encode(given, pipeline)
    assert ChunkInput("a.md #3", '{"Text":"é"}'.encode()) == chunk
    assert given == Aliased.model_validate_json(chunk.payload)


class Inner(BaseModel):
    rest: int = Field(2, validation_alias="R")


class Outer(BaseModel):
    inner: Inner
    _private: object = PrivateAttr(default_factory=object)


class Crossed(BaseModel):
    rest: int = Field(2, validation_alias="R", serialization_alias="r")


def test_a_worker_reads_the_same_payload_or_the_submit_refuses_it(
    pipeline: Pipeline,
) -> None:
    given = Outer(inner=Inner(R=5))
    read = read_payload(Outer, encode(given, pipeline).payload)
    assert read.inner == given.inner
    with pytest.raises(UsageError, match="would read another payload"):
        encode(Crossed(R=5), pipeline)


@pytest.mark.parametrize(
    "given",
    [
        Measure(value=-math.inf),
        Untyped(any=[math.nan, {"a": None}]),
        Worded(any=[math.nan]),
    ],
)
def test_a_worker_reads_a_number_that_is_not_finite(
    given: BaseModel, pipeline: Pipeline
) -> None:
    stored = encode(given, pipeline).payload
    assert stored == encode(given, pipeline).payload
    assert repr(given) == repr(read_payload(type(given), stored))


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (Finite.model_construct(value=math.inf), "value: Input should be a finite"),
        (Untyped(any=Untyped(any={math.nan})), "would read another payload"),
    ],
)
def test_a_number_that_a_worker_would_not_read_is_refused(
    given: BaseModel, reason: str, pipeline: Pipeline
) -> None:
    with pytest.raises(UsageError, match=reason) as no:
        encode(given, pipeline)
    assert no.value.code == "input.payload.invalid"


def test_a_payload_whose_json_masks_a_secret_is_refused(pipeline: Pipeline) -> None:
    with pytest.raises(UsageError, match="at any it has a secret"):
        encode(Untyped(any=SecretStr("4111")), pipeline)


@pytest.mark.parametrize("text", ["\ud800", 5])
def test_a_field_that_was_set_without_validation_is_refused(
    text: str, pipeline: Pipeline
) -> None:
    class Free(BaseModel):
        text: str

    with pytest.raises(UsageError, match=r"input\.payload\.invalid"):
        encode(Free.model_construct(text=text), pipeline)


def test_a_payload_of_another_type_is_refused_with_both_names(
    pipeline: Pipeline,
) -> None:
    with pytest.raises(UsageError, match="it is a Measure, not a Clause"):
        chunk_input(Measure(value=1), LOCATION, pipeline, IntakeLimits())


def test_a_payload_may_be_as_large_as_the_limit_and_no_larger(
    pipeline: Pipeline,
) -> None:
    size = len(json.dumps({"value": 1.0}, separators=(",", ":")))
    encode(Measure(value=1), pipeline, IntakeLimits(payload_bytes=size))
    with pytest.raises(UsageError) as refused:
        encode(Measure(value=1), pipeline, IntakeLimits(payload_bytes=size - 1))
    assert refused.value.code == "input.payload.too_large"


class Fails(BaseModel):
    text: str

    @model_validator(mode="after")
    def known(self) -> Self:
        if self.text == "ours":
            raise PermanentError("Not this one.", code="review.clause.unknown")
        return {"fine": self}[self.text]


def test_a_failing_model_is_reported_without_its_data(pipeline: Pipeline) -> None:
    location = (
        r"raised KeyError at tests/unit/orchestrator/submit/intake/test_chunk\.py:"
    )
    with pytest.raises(UsageError, match=location) as refused:
        encode(Fails.model_construct(text="secret"), pipeline)
    assert refused.value.code == "input.payload.invalid"
    assert "secret" not in refused.value.message


def test_an_error_raised_by_the_model_is_passed_on(pipeline: Pipeline) -> None:
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
def test_labels_fit_a_table_cell(label: str, expected: str, pipeline: Pipeline) -> None:
    named = replace(pipeline, label=lambda _: label)
    assert expected == encode(Measure(value=1), named).label


@pytest.mark.parametrize("label", [lambda _: 1 / 0, lambda _: None])
def test_a_failing_label_function_is_reported(
    label: object, pipeline: Pipeline
) -> None:
    with pytest.raises(UsageError) as refused:
        encode(Measure(value=1), replace(pipeline, label=label))  # type: ignore[arg-type]
    assert refused.value.code == "input.label.failed"


def test_an_error_raised_by_the_label_function_is_passed_on(pipeline: Pipeline) -> None:
    def label(_: object) -> str:
        raise PermanentError("No heading.", code="review.clause.unnamed")

    with pytest.raises(PermanentError) as refused:
        encode(Measure(value=1), replace(pipeline, label=label))
    assert refused.value.code == "review.clause.unnamed"


@pytest.mark.parametrize(
    ("found", "key"),
    [("Zoe\u0308 7", "str:Zo\u00eb 7"), (7, "int:7"), ("7", "str:7"), (None, "")],
)
def test_an_order_key_is_a_short_text_an_integer_or_none(
    found: object, key: str, pipeline: Pipeline
) -> None:
    ordered = replace(pipeline, ordered_by=lambda _: found)
    assert encode(Measure(value=1), ordered).order_key == key


@pytest.mark.parametrize("found", ["", "x" * 257, "a\nb", 7.5, True, ["a"]])
def test_any_other_order_key_is_refused_with_its_place_and_without_its_text(
    found: object, pipeline: Pipeline
) -> None:
    ordered = replace(pipeline, ordered_by=lambda _: found)
    with pytest.raises(UsageError) as refused:
        encode(Measure(value=1), ordered)
    assert refused.value.code == "input.order.invalid"
    assert "chunk 3 of a.md" in refused.value.message
    assert "xx" not in refused.value.message


def test_an_error_of_the_order_key_is_refused_with_its_place(
    pipeline: Pipeline,
) -> None:
    ordered = replace(pipeline, ordered_by=lambda found: found.account)
    with pytest.raises(UsageError) as refused:
        encode(Measure(value=1), ordered)
    assert refused.value.code == "input.order.failed"
    assert "in <lambda> for chunk 3 of a.md" in refused.value.message
