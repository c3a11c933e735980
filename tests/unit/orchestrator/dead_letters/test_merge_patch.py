"""Merge patches follow RFC 7396; the cases are the examples of the RFC."""

from __future__ import annotations

from typing import Any

import pytest

from piecework_orchestrator.dead_letters.merge_patch import apply_patch, make_patch


@pytest.mark.parametrize(
    ("target", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": "c", "d": "e"}, {"a": "c", "d": "e"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_a_patch_is_applied(target: Any, patch: Any, expected: Any) -> None:
    before = repr(target)
    assert expected == apply_patch(target, patch)
    assert before == repr(target)


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": 3}),
        ({"a": 1}, {}, {"a": None}),
        ({"a": {"b": 1, "c": 2}}, {"a": {"b": 1}}, {"a": {"c": None}}),
        ({"a": [1]}, {"a": [2]}, {"a": [2]}),
        ({}, {"n": {"x": 1}}, {"n": {"x": 1}}),
        (None, {"a": 1}, {"a": 1}),
        ({"a": 1, "b": 1}, {"a": True, "b": 1.0}, {"a": True, "b": 1.0}),
    ],
)
def test_the_patch_of_two_values_turns_one_into_the_other(
    old: Any, new: Any, patch: Any
) -> None:
    assert repr(patch) == repr(make_patch(old, new))  # 1 == True
    assert new == apply_patch(old, patch)
