from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from piecework.domain import keys

CHUNKS = st.integers(0, keys.MAX_CHUNK_NUMBER)


@pytest.mark.parametrize(
    "text", ["", "a#b", "a/b", "a.b", "a b", "a\n", "\n", "ä", "x" * 65, "../a"]
)
def test_a_text_that_could_break_a_key_is_not_a_name(text: str) -> None:
    assert keys.is_name(text) is False


@pytest.mark.parametrize(
    "text", ["", ".hidden", "-rf", "..", "a/b", "a\\b", "x" * 129, "a\n", "a b"]
)
def test_a_path_or_a_hidden_file_may_not_name_an_artifact(text: str) -> None:
    assert keys.is_file_name(text) is False


def test_a_name_resembles_one_in_another_case_and_the_best_comes_first() -> None:
    known = ["GPT-4x", "gpt", "Gpt", "bank"]
    assert keys.similar_names("GPT", known) == ["gpt", "Gpt", "GPT-4x"]


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
        assert not keys.stage_sk(one, "s", 1).startswith(keys.work_prefix(other))


def test_the_tenant_is_part_of_every_place() -> None:
    places = [
        keys.job_pk("acme", "j"),
        keys.jobs_pk("acme"),
        keys.active_sk("acme", "j"),
        keys.chunk_pk("acme", "j", 300),
        keys.object_prefix("acme", "j"),
    ]
    assert all("acme" in place for place in places)


@pytest.mark.parametrize("position", range(6))
def test_every_part_of_the_scope_changes_the_key(position: int) -> None:
    scope: list[str | int] = ["acme", "job", 7, "stage", "model", "score"]
    other = list(scope)
    other[position] = 8 if position == 2 else "other"
    assert keys.sha256_of(*scope) != keys.sha256_of(*other)


def test_the_parts_of_a_scope_do_not_run_into_each_other() -> None:
    assert keys.sha256_of("ab", "c") != keys.sha256_of("a", "bc")
