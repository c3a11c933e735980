"""The bytes of parameters are those that the SDK writes."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Any

import pytest

from piecework.aws.transport import request
from piecework.aws.transport.request import encode, make_encoder


class State(StrEnum):
    DONE = "DONE"


VALUES: list[Any] = [
    {},
    {"TableName": "t", "Key": {"pk": {"S": "T#t#J#j"}, "n": {"N": "1"}}},
    {"text": 'a "quote", a \\ and a \n', "more": "é 😀 \u2028 \ud83d"},
    {"list": [1, True, None, 1.5, float("inf")], "state": State.DONE, 7: "seven"},
]


@pytest.mark.parametrize("value", VALUES)
def test_a_value_is_written_as_the_sdk_writes_it(value: Any) -> None:
    assert json.dumps(value).encode() == encode(value)


def test_bytes_are_written_as_the_sdk_writes_them() -> None:
    assert b'{"B": "YmluYXJ5"}' == encode({"B": b"binary"})


@pytest.mark.parametrize("value", [{1, 2}, object()])
def test_what_is_no_json_is_refused_and_the_next_value_is_written(value: Any) -> None:
    with pytest.raises(TypeError):
        encode({"a": [value]})
    assert b'{"a": 1}' == encode({"a": 1})


@pytest.mark.parametrize("value", VALUES)
def test_without_the_encoder_in_c_the_bytes_are_the_same(
    monkeypatch: pytest.MonkeyPatch, value: Any
) -> None:
    monkeypatch.setattr(request, "_MAKE", None)
    assert encode(value) == make_encoder()(value)
