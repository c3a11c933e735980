"""Guarantee: an answer is checked where it is given, also without the user's code."""

from __future__ import annotations

import math
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import (
    AliasChoices,
    AliasPath,
    BaseModel,
    Field,
    RootModel,
    field_validator,
)
from pydantic.dataclasses import dataclass

from piecework.answers import accepts, decode_answer, encode_answer, model_name
from piecework.errors import PermanentError, UsageError
from piecework.questions import MOST_ROW_BYTES, Approval, Escalate, declare


class Kind(Enum):
    """A choice, which a schema keeps among its definitions."""

    GOODS = "goods"
    SERVICE = "service"


class Line(BaseModel):
    """Inside of another model, and of itself."""

    cents: int = Field(ge=1, multiple_of=5)
    lines: list[Line] = []


class Refund(BaseModel):
    """Has each kind of a field."""

    amount: int = Field(ge=1, le=500)
    kind: Kind
    why: Literal["late", "broken"] = "late"
    note: str | None = Field(None, max_length=5, pattern="^a*$")
    lines: list[Line] = []
    rates: dict[str, float] = {}
    pair: tuple[int, str] | None = None
    day: date | None = None
    money: Decimal = Decimal(1)
    from_: bool = Field(default=False, alias="from")
    any: Any = None

    @field_validator("amount")
    @classmethod
    def even(cls, amount: int) -> int:
        """Refuse what no schema says."""
        if amount % 2:
            message = "odd"
            raise ValueError(message)
        return amount


#: A name whose module no process has loaded.
ELSEWHERE = "another.process:Refund"
RIGHT: dict[str, Any] = {"amount": 2, "kind": "goods"}


def check(name: str, change: dict[str, Any], model: type[BaseModel] = Refund) -> str:
    """Return an answer as it is stored, or code and message of its refusal."""
    try:
        return encode_answer(name, model.model_json_schema(), RIGHT | change)
    except UsageError as error:
        return f"{error.code}: {error.message}"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({}, ""),
        ({"amount": 0}, "amount"),
        ({"amount": "x"}, "amount"),
        ({"amount": None}, "amount"),
        ({"kind": "food"}, "kind"),
        ({"why": "never"}, "why"),
        ({"note": None}, ""),
        ({"note": "aaaaaa"}, "note"),
        ({"note": "b"}, "note"),
        ({"lines": [{"cents": 5}]}, ""),
        ({"lines": [{"cents": 5}, {"cents": 3}]}, "lines.1.cents"),
        ({"lines": [{}]}, "lines.0.cents"),
        ({"rates": {"EUR": 1.5}}, ""),
        ({"rates": {"EUR": "much"}}, "rates.EUR"),
        ({"pair": [1, "a"]}, ""),
        ({"pair": [1]}, "pair"),
        ({"day": "2026-02-28"}, ""),
        ({"day": "2026-02-30"}, "day"),
        ({"money": "1.50"}, ""),
        ({"from": "maybe"}, "from"),
        ({"unknown": 1}, "'unknown'"),
    ],
)
def test_the_stored_schema_decides_like_the_model(
    change: dict[str, Any], field: str
) -> None:
    for name in (ELSEWHERE, model_name(Refund)):
        found = check(name, change)
        if field:
            assert found.startswith(
                "approval.answer.invalid: The answer does not fit R"
            )
            assert f" {field}" in found
        else:
            assert decode_answer(Refund, found, "refund").amount == 2


def test_an_answer_and_a_default_keep_what_the_model_has() -> None:
    given = Refund(**RIGHT, rates={"a": math.inf}, any=[math.nan], **{"from": True})
    default = declare("q", "?", Refund, 3600, (), (), given).default
    assert default is not None
    assert repr(given) == repr(decode_answer(Refund, default, "q"))
    typed = check(model_name(Refund), {"rates": {"a": "Infinity"}, "from": True})
    read = decode_answer(Refund, typed, "q")
    assert ({"a": math.inf}, True) == (read.rates, read.from_)
    with pytest.raises(UsageError, match="it holds NaN or Infinity"):
        encode_answer(model_name(Refund), Refund.model_json_schema(), given)
    wrong = Refund.model_construct(amount="2")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="does not fit Refund"):
        declare("q", "?", Refund, 3600, (), (), wrong)


class Crossed(BaseModel):
    wrong: int = Field(alias="total")
    total: int


@dataclass
class Pair:
    right: int = Field(1, validation_alias=AliasPath("pair", "total"))
    wrong: int = Field(2, validation_alias=AliasChoices("sum", AliasPath("total", 0)))
    total: int = 3


class Paired(BaseModel):
    pairs: list[Pair]


@pytest.mark.parametrize("model", [Crossed, Paired])
def test_an_alias_that_is_the_name_of_another_field_is_refused(model: Any) -> None:
    with pytest.raises(UsageError, match=r"\.wrong has .*: 'total'"):
        declare("q", "?", model, 3600, (), (), None)


class Sender(BaseModel):
    """Is required by another name than that of its field."""

    from_: str = Field(alias="from")


def test_a_stored_answer_is_kept_in_a_later_generation() -> None:
    name, schema = model_name(Sender), Sender.model_json_schema()
    assert accepts(name, encode_answer(name, schema, {"from": "me"}))
    assert not accepts(name, "{}")


def test_only_the_model_knows_its_validators() -> None:
    assert "odd" in check(model_name(Refund), {"amount": 3})
    stored = check(ELSEWHERE, {"amount": 3})
    with pytest.raises(PermanentError, match="amount") as refused:
        decode_answer(Refund, stored, "refund")
    assert refused.value.code == "runtime.answer.invalid"


@pytest.mark.parametrize(
    ("schema", "value", "is_accepted"),
    [
        (RootModel[list[int]].model_json_schema(), [1, 2], True),
        (RootModel[list[int]].model_json_schema(), ["x"], False),
        ({}, {"anything": 1}, True),
        ({"type": "of another version"}, 3, True),
        ({"type": "string", "pattern": "(?=looks ahead)"}, "x", True),
        ({"type": "object", "properties": {}, "additionalProperties": False}, {}, True),
        (
            {"type": "object", "properties": {}, "additionalProperties": False},
            {"more": 1},
            False,
        ),
        ({}, "x" * 40_000, False),
        ({}, float("nan"), False),
        ({}, object(), False),
    ],
)
def test_odd_schemas_and_answers(
    schema: dict[str, Any], value: Any, *, is_accepted: bool
) -> None:
    if is_accepted:
        assert encode_answer(ELSEWHERE, schema, value)
        return
    with pytest.raises(UsageError) as refused:
        encode_answer(ELSEWHERE, schema, value)
    assert refused.value.code == "approval.answer.invalid"


def test_a_question_that_fits_into_no_item_is_refused() -> None:
    default = Approval(approved=True, comment="é" * (MOST_ROW_BYTES // 2))
    with pytest.raises(UsageError, match="in all more than 262,144"):
        declare("q", "?", Approval, 3600, (), Escalate(60), default)
