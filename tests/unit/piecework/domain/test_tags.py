"""Guarantee: the tags of a job are few, short, and one line of text each."""

from __future__ import annotations

import pytest

from piecework.domain.tags import (
    INVALID_CODE,
    MAX_NAME,
    MAX_TAGS,
    MAX_VALUE,
    checked_tags,
    has_tags,
    parse_tags,
    read_tags,
)
from piecework.errors import UsageError


def test_words_become_tags_in_order() -> None:
    found = parse_tags(["team=legal", " run = a=b ", "team=legal"])
    assert list(found.items()) == [("run", "a=b"), ("team", "legal")]
    assert has_tags(found, {"team": "legal"})
    assert has_tags(found, {})
    assert not has_tags(found, {"team": "sales"})


def test_the_longest_tags_are_accepted() -> None:
    longest = {f"{n}" * MAX_NAME: "v" * MAX_VALUE for n in range(MAX_TAGS)}
    assert checked_tags(longest) == longest


@pytest.mark.parametrize(
    "words",
    [
        ["team"],
        ["=legal"],
        ["team="],
        ["team=a", "team=b"],
        ["n" * (MAX_NAME + 1) + "=v"],
        ["n=" + "v" * (MAX_VALUE + 1)],
        ["n=a,b"],
        ["n=a\nb"],
        ["n=\x1b[31m"],
        [f"n{number}=v" for number in range(MAX_TAGS + 1)],
    ],
)
def test_others_are_refused_with_a_code(words: list[str]) -> None:
    with pytest.raises(UsageError) as refused:
        parse_tags(words)
    assert INVALID_CODE == refused.value.code


@pytest.mark.parametrize("tags", [{"n": 1}, {"a=b": "v"}, {" n": "v"}])
def test_a_program_is_refused_too(tags: dict[str, str]) -> None:
    with pytest.raises(UsageError):
        checked_tags(tags)


def test_a_damaged_row_has_the_tags_that_are_text() -> None:
    assert read_tags({"n": "v", "m": 3}) == {"n": "v"}
    assert read_tags("n=v") == {}
