"""How a job ends: its certificate, its join, and what the join reads."""

from __future__ import annotations

import pytest
from pydantic_core import to_json

from piecework.aws.objects import verify
from piecework.domain import keys
from piecework.domain.job import DEADLINE_CODE
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import StateError
from piecework.jobs.fan_in import (
    RESULTS_AT_ONCE,
    Certificate,
    StoredJobResults,
    certify,
    encode,
    finish_cancel,
    start_finalizing,
    start_join,
    store_certificate,
)
from piecework.store.completion import Counted, JobSnapshot
from piecework.store.results import NULL
from tests.store.conftest import NOW, Store
from tests.store.deployment import runtime, sent


async def test_a_late_certificate_does_not_replace_the_first(
    store: Store,
) -> None:
    rt = runtime(store)
    facts = {"manifest": "m", "manifest_sha256": "s"}
    job = await store.put_job(JobStatus.CANCELLING, **facts)
    kept = [
        await store_certificate(
            rt,
            certify(job, JobSnapshot(), NOW + late, "", JobStatus.CANCELLED),
            had_doubt=False,
        )
        for late in (0.0, 1.0)
    ]
    for each in kept:
        content = await rt.objects.get(each["certificate"])
        verify(content, each["certificate_sha256"], "the certificate")


@pytest.mark.parametrize("results", [0, 1, RESULTS_AT_ONCE, RESULTS_AT_ONCE + 1])
def test_a_certificate_in_parts_is_what_it_is_in_one_piece(results: int) -> None:
    certificate = Certificate(
        job='a "results": {}',
        tenant="acme",
        pipeline="review",
        gen=1,
        status=JobStatus.PARTIAL,
        finished_at="now",
        chunks=results,
        manifest="m",
        manifest_sha256="s",
        outcomes={},
        error_codes={},
        results={number: f'"{number}\n' for number in range(results)},
        missing=[],
    )
    assert to_json(certificate, indent=1) == encode(certificate)


@pytest.mark.parametrize("status", [None, JobStatus.RUNNING])
async def test_a_job_that_is_not_cancelled_is_not_ended_as_such(
    store: Store, status: JobStatus | None
) -> None:
    rt = runtime(store)
    if status is None:
        assert await start_finalizing(rt, store.ref) is None
    else:
        await store.put_job(status, chunks=0)
    assert await finish_cancel(rt, store.ref) is False
    assert [] == sent(rt)


async def test_the_join_of_a_job_in_it_is_started_again(store: Store) -> None:
    job = await store.put_job(JobStatus.FINALIZING)
    join = store.ref.chunk(keys.JOIN_CHUNK)
    assert (join, job.gen) == await start_join(runtime(store), job)


async def test_a_job_whose_deadline_stopped_a_chunk_has_no_join(store: Store) -> None:
    await store.put_chunk(status="CANCELLED", ended_at="now")
    facts = {"cancel_code": DEADLINE_CODE, "cancelled_at": "then", "chunks": 1}
    job = await store.put_job(JobStatus.CANCELLING, **facts)
    assert await start_join(runtime(store), job) is None


async def test_a_join_reads_the_results_with_which_its_chunks_settled(
    store: Store,
) -> None:
    await store.put_chunk(status="SUCCEEDED")
    rt = runtime(store)

    async def read(sha256: str) -> list[str]:
        row = Counted(store.chunk.chunk, ChunkStatus.SUCCEEDED, sha256, "", "")
        snapshot = JobSnapshot([row])
        results = StoredJobResults(rt.table, rt.objects, store.ref, snapshot)
        return [each.value async for each in results.results()]

    assert [NULL] == await read(keys.sha256(NULL.encode()))
    with pytest.raises(StateError) as error:
        await read(keys.sha256(b"1"))
    assert error.value.code == "runtime.state.checkpoint_corrupt"
