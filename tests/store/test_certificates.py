"""Two who end a job at once store a certificate each; the one on the job counts."""

from __future__ import annotations

from piecework.finish import certify, store_certificate
from piecework.model import JobStatus
from piecework.objects import verify
from piecework.store.census import Census
from tests.store.conftest import NOW, Store
from tests.store.deployment import runtime


async def test_a_late_certificate_does_not_stand_in_the_place_of_the_first(
    store: Store,
) -> None:
    rt = runtime(store)
    facts = {"manifest": "m", "manifest_sha256": "s"}
    job = await store.put_job(JobStatus.CANCELLING, **facts)
    kept = [
        await store_certificate(
            rt, certify(job, Census(()), NOW + late, "", JobStatus.CANCELLED)
        )
        for late in (0.0, 1.0)
    ]
    for each in kept:
        content = await rt.objects.get(each["certificate"])
        verify(content, each["certificate_sha256"], "the certificate")
