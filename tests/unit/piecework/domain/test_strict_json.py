from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.domain.strict_json import Bounds, JsonRefusedError, read_json

BOUNDS = Bounds(1_000)
WHOLE = st.text(st.characters(exclude_categories=["Cs"]))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-(10**30), 10**30) | WHOLE,
        lambda inner: st.lists(inner) | st.dictionaries(WHOLE, inner),
        max_leaves=10,
    )
)
def test_what_is_written_is_read(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert value == read_json(text, Bounds(1_000_000))
        assert value == read_json(text.encode(), Bounds(1_000_000))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 32 + "]" * 32,
        "9" * 64,
        '"' + "x" * 998 + '"',
        '"[[[[{{{{\\"[[[["',
        '["\\ud83d\\ude00"]',
        json.dumps(list(range(200))),
    ],
)
def test_what_is_just_within_bounds_is_read(text: str) -> None:
    assert json.loads(text) == read_json(text, Bounds(1_000, nodes=201))


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("[" * 33 + "]" * 33, "nested deeper than 32"),
        ('{"a":' * 33 + "1" + "}" * 33, "nested deeper than 32"),
        ("9" * 65, "more than 64 digits"),
        ('"' + "x" * 999 + '"', "longer than 1,000 bytes"),
        ('"' + "é" * 500 + '"', "longer than 1,000 bytes"),
        ("[" + "0," * 201 + "0]", "more than 201 values"),
        ('{"a": 1, "a": 1}', "a duplicate key"),
        ('[{"b": {"a": 1, "a": 2}}]', "a duplicate key"),
        ("NaN", "NaN or Infinity"),
        ("[-Infinity]", "NaN or Infinity"),
        ("1e999", "NaN or Infinity"),
        ('"\\ud800"', "an unpaired surrogate"),
        ('{"\\udc00": 1}', "an unpaired surrogate"),
        ("\ud800", "not UTF-8"),
        (b"\xff", "not UTF-8"),
        (b"\xef\xbb\xbf{}", "not JSON"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ("]" * 40 + "[" * 40, "not JSON"),
        ('"secret', "not JSON"),
    ],
)
def test_malformed_json_is_refused_and_not_quoted(
    content: str | bytes, why: str
) -> None:
    with pytest.raises(JsonRefusedError) as caught:
        read_json(content, Bounds(1_000, nodes=201))
    assert why in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ['"' * 100_000, '"' + '\\"' * 50_000, "\\" * 100_000, "[" * 100_000]
)
def test_a_long_hostile_text_is_read_once(text: str) -> None:
    with pytest.raises(JsonRefusedError):
        read_json(text, Bounds(1_000_000))
