from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_serializer

from piecework.domain.values import canonical_json


class Point(BaseModel):
    x: int
    y: int


def test_equal_values_have_the_same_canonical_json() -> None:
    assert canonical_json({"b": 1, "a": [2]}) == '{"a":[2],"b":1}'
    assert canonical_json(Point(x=1, y=2)) == canonical_json({"y": 2, "x": 1})
    assert canonical_json((1, 2)) == canonical_json([1, 2])


def test_a_letter_is_the_same_however_it_is_composed() -> None:
    assert canonical_json("\u00e9") == canonical_json("e\u0301")


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_what_json_cannot_say_has_no_key(number: float) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(number)


class Search(BaseModel):
    model_config = ConfigDict(extra="allow")

    tags: set[int] = Field(alias="Tags")


class Searches(BaseModel):
    inner: list[Search]
    by_name: Mapping[str, frozenset[int]] = {}


class Tags(RootModel[set[int]]):
    pass


class Told(BaseModel):
    """A model that says itself how its set is written."""

    tags: set[int]

    @field_serializer("tags")
    def written(self, tags: set[int]) -> str:
        return "+".join(map(str, sorted(tags)))


@dataclass
class Query:
    tags: set[int]
    more: Search | None = None


@dataclass(frozen=True)
class Pair:
    both: frozenset[int]


ONE, OTHER = {0, 8}, {8, 0}  # equal, and each in the order in which it was filled


def searched(tags: set[int]) -> Search:
    return Search(Tags=tags, note=tags)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (searched, '{"Tags":[0,8],"note":[0,8]}'),
        (
            lambda tags: [Searches(inner=[searched(tags)], by_name={"a": tags})],
            '[{"by_name":{"a":[0,8]},"inner":[{"Tags":[0,8],"note":[0,8]}]}]',
        ),
        (lambda tags: {"q": Query(tags)}, '{"q":{"more":null,"tags":[0,8]}}'),
        (
            lambda tags: Query(tags, searched(tags)),
            '{"more":{"Tags":[0,8],"note":[0,8]},"tags":[0,8]}',
        ),
        (lambda tags: {Pair(frozenset(tags))}, '[{"both":[0,8]}]'),
        (Tags, "[0,8]"),
        (lambda tags: Told(tags=tags), '{"tags":"0+8"}'),
    ],
)
def test_a_set_within_a_model_has_one_order(make: Any, said: str) -> None:
    assert [*ONE] != [*OTHER]
    assert [said, said] == [canonical_json(make(ONE)), canonical_json(make(OTHER))]


def test_names_stand_in_one_order_however_their_letters_are_composed() -> None:
    assert canonical_json({"\u00e9": 1, "f": 2}) == canonical_json(
        {"e\u0301": 1, "f": 2}
    )
