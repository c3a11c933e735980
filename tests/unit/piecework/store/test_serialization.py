from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from hypothesis import given
from hypothesis import strategies as st

from piecework.store.serialization import from_item, from_value, to_item, to_value

NUMBERS = st.integers(-(10**37), 10**37)
SETS = st.frozensets(NUMBERS, min_size=1, max_size=5)
VALUES = st.recursive(
    st.text() | st.booleans() | NUMBERS | SETS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
    ),
    max_leaves=10,
)


class Word(StrEnum):
    OPEN = "OPEN"


class Digit(IntEnum):
    ONE = 1


@given(st.dictionaries(st.text(), VALUES))
def test_an_item_reads_back_as_it_was_written(item: dict[str, Any]) -> None:
    assert item == from_item(to_item(item))


@given(VALUES)
def test_boto3_reads_what_we_write(value: Any) -> None:
    assert value == TypeDeserializer().deserialize(to_value(value))


@given(VALUES)
def test_we_read_what_boto3_writes(value: Any) -> None:
    assert value == from_value(TypeSerializer().serialize(value))


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (True, {"BOOL": True}),
        (1, {"N": "1"}),
        (-7, {"N": "-7"}),
        ("1", {"S": "1"}),
        ("", {"S": ""}),
        ({3, 1}, {"NS": ["1", "3"]}),
        (frozenset({2}), {"NS": ["2"]}),
        (("a", 1), {"L": [{"S": "a"}, {"N": "1"}]}),
        ({"a": {"b": 1}}, {"M": {"a": {"M": {"b": {"N": "1"}}}}}),
        ([], {"L": []}),
        ({}, {"M": {}}),
        (Word.OPEN, {"S": "OPEN"}),
        (Digit.ONE, {"N": "1"}),
    ],
)
def test_each_type_has_its_letter(value: Any, written: dict[str, Any]) -> None:
    assert written == to_value(value)


def test_an_attribute_without_a_value_is_left_out() -> None:
    assert to_item({"a": None, "b": {"c": None, "d": 1}}) == {
        "b": {"M": {"d": {"N": "1"}}}
    }


@pytest.mark.parametrize("value", [1.5, set(), {"a"}, object(), [None]])
def test_what_would_not_come_back_as_it_was_is_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="An item cannot hold a"):
        to_value(value)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ({"N": "1.5"}, 1.5),
        ({"N": "-3"}, -3),
        ({"SS": ["a", "b"]}, {"a", "b"}),
        ({"NULL": True}, None),
        ({"B": b"bytes"}, b"bytes"),
    ],
)
def test_what_others_wrote_is_read_too(written: dict[str, Any], value: Any) -> None:
    assert value == from_value(written)
