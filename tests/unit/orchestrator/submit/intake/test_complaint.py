from __future__ import annotations

import uuid
from typing import Annotated, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from piecework.domain.payload import describe_payload_error

SECRET = "zq9"


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Model(BaseModel):
    number: int = 0
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    id: uuid.UUID | None = None
    ages: dict[str, int] = {}
    checked: str = ""
    custom: str = ""

    @field_validator("checked")
    @classmethod
    def _quotes(cls, given: str) -> str:
        if given:
            raise ValueError(f"{given} is bad")
        return given

    @field_validator("custom")
    @classmethod
    def _quotes_too(cls, given: str) -> str:
        if given:
            raise PydanticCustomError("own_rule", "{given} is bad", {"given": given})
        return given


def description_of(line: str) -> str:
    with pytest.raises(ValidationError) as wrong:
        Model.model_validate_json(line)
    return describe_payload_error(wrong.value)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('{"number": "zq9"}', "number: Input should be a valid integer, "),
        ('{"pet": {"kind": "zq9"}}', "pet: union_tag_invalid"),
        ('{"id": "zq9"}', "id: uuid_parsing"),
        ('{"ages": {"zq9 zq9": "x"}}', "ages.*: Input should be a valid integer, "),
        ('{"checked": "zq9"}', "checked: value_error"),
        ('{"custom": "zq9"}', "custom: own_rule"),
        ('{"number": zq9}', "payload: Invalid JSON: expected value at column 12"),
        ('["zq9"]', "payload: Input should be an object"),
    ],
)
def test_a_description_names_field_and_rule_without_quoting(
    line: str, expected: str
) -> None:
    assert description_of(line).startswith(expected)
    assert SECRET not in description_of(line)


def test_errors_after_the_first_five_are_counted() -> None:
    ages = ", ".join(f'"k{i}": "x"' for i in range(8))
    assert description_of(f'{{"ages": {{{ages}}}}}').endswith("; and 3 more")
