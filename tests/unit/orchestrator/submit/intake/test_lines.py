from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.errors import UsageError
from piecework_orchestrator.submit.intake.json_lines import LineSplitter

BYTES = st.binary(max_size=200).map(lambda b: b.replace(b"\x00", b"\n"))


def split(blocks: list[bytes], limit: int = 1000) -> list[tuple[int, bytes]]:
    splitter = LineSplitter("m.jsonl", limit)
    found = []
    for block in blocks:
        found += [(splitter.number, line) for line in splitter.feed(block)]
    return found + [(splitter.number, line) for line in splitter.close()]


@given(st.lists(BYTES, max_size=12))
def test_lines_do_not_depend_on_the_block_boundaries(blocks: list[bytes]) -> None:
    whole = b"".join(blocks)
    expected = whole.split(b"\n")
    if not expected[-1]:
        expected.pop()
    assert list(enumerate(expected, start=1)) == split(blocks)


@given(st.lists(BYTES, max_size=12), st.integers(min_value=0, max_value=40))
def test_a_too_long_line_does_not_depend_on_the_block_boundaries(
    blocks: list[bytes], limit: int
) -> None:
    lines = b"".join(blocks).split(b"\n")
    too_long = [n for n, line in enumerate(lines, start=1) if len(line) > limit]
    if not too_long:
        assert lines == [line for _, line in split(blocks, limit)] + (
            [] if lines[-1] else [b""]
        )
        return
    with pytest.raises(UsageError) as refused:
        split(blocks, limit)
    assert refused.value.code == "input.rows.too_long_line"
    assert too_long[0] == refused.value.facts["line"]


def test_an_endless_line_is_refused_at_the_limit() -> None:
    splitter = LineSplitter("m.jsonl", limit=10)
    assert [] == list(splitter.feed(b"0123456789"))
    with pytest.raises(UsageError):
        list(splitter.feed(b"a"))
