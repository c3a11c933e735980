"""Whether the deadline of a job has stopped a chunk decides how the job ends."""

from __future__ import annotations

from typing import Any

import pytest

from piecework.domain.job import DEADLINE_CODE, Job
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework.jobs.fan_in import ends_in_time
from piecework.saga.compensation import CANCEL_CODE
from piecework.store.completion import Counted, JobSnapshot

EXPIRING = {
    "status": "CANCELLING",
    "gen": 1,
    "chunks": 1,
    "pipeline": "p",
    "cancelled_at": "2026-11-27T12:00:00.000Z",
    "cancel_code": DEADLINE_CODE,
}
BEFORE, AFTER = "2026-11-27T11:00:00.000Z", "2026-11-27T13:00:00.000Z"


@pytest.mark.parametrize(
    ("facts", "status", "code", "ended_at", "in_time"),
    [
        ({}, "SUCCEEDED", "", AFTER, True),
        ({}, "DEAD", "llm.http.400", AFTER, True),
        ({}, "SUCCEEDED", CANCEL_CODE, AFTER, True),
        ({}, "DEAD", CANCEL_CODE, AFTER, False),
        ({}, "CANCELLED", "", BEFORE, False),
        ({"stopped_code": "job.failures.exceeded"}, "CANCELLED", "", BEFORE, True),
        ({"stopped_code": "job.failures.exceeded"}, "CANCELLED", "", AFTER, False),
        ({"chunks": 2}, "SUCCEEDED", "", AFTER, False),
        ({"status": "RUNNING"}, "SUCCEEDED", "", AFTER, False),
    ],
)
def test_a_job_whose_deadline_stopped_no_chunk_ends_in_time(
    facts: dict[str, Any], status: str, code: str, ended_at: str, *, in_time: bool
) -> None:
    job = Job.read(JobRef("acme", "job"), EXPIRING | facts)
    rows = [Counted(0, ChunkStatus(status), "", code, "")]
    assert ends_in_time(job, JobSnapshot(rows, ended_at)) is in_time
