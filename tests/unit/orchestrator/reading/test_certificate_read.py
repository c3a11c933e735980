"""A certificate is read however many chunks it names."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.aws.objects import Objects
from piecework.domain import keys
from piecework.domain.job import Job
from piecework.domain.refs import JobRef
from piecework.errors import PermanentError
from piecework_orchestrator.reading.job_documents import read_certificate
from tests.unit.piecework.bucket import Bucket

REF = JobRef("default", "a")
KEY = f"{keys.object_prefix('default', 'a')}/certificate/0001.json"
CONTENT = json.dumps({"job": "a"}).encode()


class Large(Bucket):
    """A bucket whose objects report a larger size than they have."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.objects[KEY] = CONTENT
        self.size = size

    async def get_object(self, **get: Any) -> dict[str, Any]:
        return {**await super().get_object(**get), "ContentLength": self.size}


def job_of(chunks: int) -> Job:
    facts = {"certificate": KEY, "certificate_sha256": keys.sha256(CONTENT)}
    meta = {"status": "SUCCEEDED", "gen": 1, "chunks": chunks, "pipeline": "toy"}
    return Job.read(REF, meta | facts)


async def read(chunks: int, size: int) -> dict[str, Any] | None:
    rt: Any = SimpleNamespace(objects=Objects(Large(size), "bucket"))  # type: ignore[arg-type]
    return await read_certificate(rt, job_of(chunks))


async def test_the_certificate_of_a_large_job_is_read() -> None:
    assert {"job": "a"} == await read(10_000_000, 810_000_000)


async def test_an_object_larger_than_any_certificate_of_the_job_is_refused() -> None:
    with pytest.raises(PermanentError) as refused:
        await read(1_000, 810_000_000)
    assert "runtime.object.too_large" == refused.value.code
