from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from piecework.domain import keys
from piecework.domain.values import canonical_json

CHUNKS = st.integers(0, keys.MAX_CHUNK_NUMBER)


@pytest.mark.parametrize("text", ["a", "A-z_09", "x" * 64])
def test_a_plain_word_is_a_name(text: str) -> None:
    assert keys.is_name(text) is True


@pytest.mark.parametrize(
    "text", ["", "a#b", "a/b", "a.b", "a b", "a\n", "\n", "ä", "x" * 65, "../a"]
)
def test_a_text_that_could_break_a_key_is_not_a_name(text: str) -> None:
    assert keys.is_name(text) is False


@pytest.mark.parametrize("text", ["report.md", "a", "x" * 128, "a..b"])
def test_a_plain_file_name_may_name_an_artifact(text: str) -> None:
    assert keys.is_file_name(text) is True


@pytest.mark.parametrize(
    "text", ["", ".hidden", "..", "a/b", "a\\b", "x" * 129, "a\n", "a b"]
)
def test_a_path_or_a_hidden_file_may_not_name_an_artifact(text: str) -> None:
    assert keys.is_file_name(text) is False


def test_the_first_partition_is_the_jobs_and_the_next_is_separate() -> None:
    assert keys.job_pk("acme", "j") == keys.chunk_pk("acme", "j", 255)
    assert keys.chunk_pk("acme", "j", 256) == "T#acme#J#j#G#0001"


def test_the_join_lies_with_the_job_and_not_among_its_chunks() -> None:
    assert keys.job_pk("acme", "j") == keys.chunk_pk("acme", "j", keys.JOIN_CHUNK)
    assert keys.chunk_sk(keys.JOIN_CHUNK) == "JOIN"
    assert not keys.chunk_sk(keys.JOIN_CHUNK).startswith(keys.CHUNK_PREFIX)


@given(CHUNKS, CHUNKS)
def test_sort_keys_sort_as_the_chunks_do(one: int, other: int) -> None:
    assert (one < other) == (keys.chunk_sk(one) < keys.chunk_sk(other))


@given(CHUNKS, CHUNKS)
def test_no_chunk_reads_the_rows_of_another(one: int, other: int) -> None:
    if one != other:
        assert not keys.stage_sk(one, "s").startswith(keys.work_prefix(other))


@pytest.mark.parametrize(
    "row",
    [
        keys.stage_sk(3, "extract"),
        keys.calls_sk(3, 1, 1, 1),
        keys.effect_sk(3, "ab"),
        keys.error_sk(3, 1, 1),
    ],
)
def test_the_rows_of_a_chunk_share_its_prefix(row: str) -> None:
    assert row.startswith(keys.work_prefix(3))


def test_each_claim_writes_pages_and_errors_of_its_own() -> None:
    rows = {
        write(3, gen, fence)
        for write in (lambda c, g, f: keys.calls_sk(c, g, f, 1), keys.error_sk)
        for gen in (1, 2)
        for fence in (1, 2)
    }
    assert len(rows) == 8


def test_a_chunk_has_a_dead_letter_for_each_generation() -> None:
    assert keys.dead_letter_sk(3, 1) != keys.dead_letter_sk(3, 2)


def test_the_tenant_is_part_of_every_place() -> None:
    places = [
        keys.job_pk("acme", "j"),
        keys.jobs_pk("acme"),
        keys.active_sk("acme", "j"),
        keys.chunk_pk("acme", "j", 300),
        keys.object_prefix("acme", "j"),
    ]
    assert all("acme" in place for place in places)


class Point(BaseModel):
    x: int
    y: int


def test_the_key_of_a_call_is_the_same_in_every_release() -> None:
    args: list[Any] = [
        [("e\u0301", 1, 1.5, None, True), {"b": {3, 1, 2}, "a": Point(x=1, y=2)}],
        {"when": {10: "ten", 2: "two"}, "tags": frozenset({"z", "y"})},
    ]
    said = '[["\u00e9",1,1.5,null,true],{"a":{"x":1,"y":2},"b":[1,2,3]}]'
    also = '{"tags":["y","z"],"when":{"10":"ten","2":"two"}}'
    assert f"[{said},{also}]" == canonical_json(args)
    whole = f'["acme","job",7,[{said},{also}]]'
    assert keys.sha256(whole.encode()) == keys.call_key("acme", "job", 7, args=args)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(JSON)
def test_a_call_key_is_stable_and_as_long_as_a_sha256(args: object) -> None:
    key = keys.call_key("acme", "job", 7, args=args)
    again = keys.call_key("acme", "job", 7, args=json.loads(json.dumps(args)))
    assert key == again
    assert len(key) == 64


@pytest.mark.parametrize("position", range(6))
def test_every_part_of_the_scope_changes_the_key(position: int) -> None:
    scope: list[str | int] = ["acme", "job", 7, "stage", "model", "score"]
    other = list(scope)
    other[position] = 8 if position == 2 else "other"
    assert keys.call_key(*scope, args=[]) != keys.call_key(*other, args=[])


def test_the_arguments_change_the_key() -> None:
    assert keys.call_key("a", args=[1]) != keys.call_key("a", args=[2])


def test_the_parts_of_a_scope_do_not_run_into_each_other() -> None:
    assert keys.call_key("ab", "c", args=[]) != keys.call_key("a", "bc", args=[])
