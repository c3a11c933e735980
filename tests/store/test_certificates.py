"""Two who end a job at once store a certificate each; the one on the job counts."""

from __future__ import annotations

import pytest
from pydantic_core import to_json

from piecework.aws.objects import verify
from piecework.domain.model import JobStatus
from piecework.jobs.fan_in import (
    RESULTS_AT_ONCE,
    Certificate,
    certify,
    encode,
    store_certificate,
)
from piecework.store.completion import JobSnapshot
from tests.store.conftest import NOW, Store
from tests.store.deployment import runtime


async def test_a_late_certificate_does_not_replace_the_first(
    store: Store,
) -> None:
    rt = runtime(store)
    facts = {"manifest": "m", "manifest_sha256": "s"}
    job = await store.put_job(JobStatus.CANCELLING, **facts)
    kept = [
        await store_certificate(
            rt, certify(job, JobSnapshot(), NOW + late, "", JobStatus.CANCELLED)
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
