"""docs/aws-limits.md is what the code writes, and its numbers can be read."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.limits.page import duration, number, page, size
from bench.limits.proxy import item_kind, object_kind
from piecework.domain import keys

PAGE = Path(__file__).parents[3] / "docs/aws-limits.md"


def test_the_page_is_fresh() -> None:
    assert page() == PAGE.read_text(), "python -m bench.limits > docs/aws-limits.md"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.3, "under 1 s"),
        (1, "1 s"),
        (2.54, "2.5 s"),
        (60, "60 s"),
        (119, "119 s"),
        (240, "4 min"),
        (7_200, "2 h"),
        (187_800, "2.2 d"),
    ],
)
def test_a_time_is_told_in_a_unit_of_which_it_has_two(
    seconds: float, text: str
) -> None:
    assert text == duration(seconds)


def test_sizes_and_counts_are_told_in_few_digits() -> None:
    assert ["746 B", "12 KB", "1.2 MB", "1.1 GB"] == [
        size(count) for count in (746, 12_211, 1_221_142, 1_221_142_857)
    ]
    assert ["10,000", "1,900,000"] == [number(10_000), number(1_988_410, digits=2)]


@pytest.mark.parametrize(
    ("pk", "sk", "kind"),
    [
        (keys.job_pk("t", "j"), keys.META_SK, "job META"),
        (keys.job_pk("t", "j"), keys.cost_sk("worker"), "job COST"),
        (keys.job_pk("t", "j"), keys.chunk_sk(keys.JOIN_CHUNK), "job JOIN"),
        (keys.job_pk("t", "j"), keys.result_sk(keys.JOIN_CHUNK), "job RESULT"),
        (keys.job_pk("t", "j"), keys.chunk_sk(3), "group CHUNK"),
        (keys.chunk_pk("t", "j", 300), keys.chunk_sk(300), "group CHUNK"),
        (keys.chunk_pk("t", "j", 300), keys.CHUNK_PREFIX, "group CHUNK"),
        (keys.chunk_pk("t", "j", 300), keys.result_sk(300), "group RESULT"),
        (keys.job_pk("t", "j"), keys.stage_sk(3, "read"), "group STAGE"),
        (keys.job_pk("t", "j"), keys.calls_sk(3, 1, 1, 1), "group CALLS"),
        (keys.job_pk("t", "j"), keys.TALLY_SK, "group TALLY"),
        (keys.jobs_pk("t"), "then#j", "JOBS"),
        (keys.ACTIVE_PK, keys.active_sk("t", "j"), "ACTIVE"),
        (keys.BREAKERS_PK, "", "BREAKERS"),
    ],
)
def test_each_key_is_of_the_kind_that_it_is_counted_as(
    pk: str, sk: str, kind: str
) -> None:
    assert kind == item_kind(pk, sk)


def test_an_object_is_of_the_kind_that_its_folder_says() -> None:
    prefix = keys.object_prefix("t", "j")
    assert "object payload" == object_kind(f"/bucket/{prefix}/payload/ab.jsonl")
    assert "object" == object_kind("/")
