"""docs/aws-limits.md is what the code writes, and its numbers can be read."""

from __future__ import annotations

import pytest

from bench.limits.proxy import item_kind, object_kind
from piecework.domain import keys


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
        (keys.job_pk("t", "j"), keys.stage_sk(3, "read", 1), "group STAGE"),
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
