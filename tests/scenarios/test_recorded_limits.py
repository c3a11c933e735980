"""What a job was recorded to ask for is what it asks for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from bench.limits.record import record
from bench.limits.recorded import FILE, pattern
from piecework.aws.endpoint import Emulator

NAME = "no calls"
AGAIN = "python -m bench.limits.record && python -m bench.limits > docs/aws-limits.md"
JOBS = json.loads(FILE.read_text())["jobs"][NAME]
KNOWN = JOBS["1000"]
#: What comes with time or chance, not with the work.
AT_TIMES = {"GetQueueUrl", "POST", "ChangeMessageVisibilityBatch", "ReceiveMessage"}
#: Rows of the fleet, and those of a backlog, which only the large job has.
NOT_OF_THE_WORK = {"BREAKERS", "ACTIVE"}


def request(job: Any) -> set[tuple[str, str, str]]:
    return {
        (by, row["operation"], row["kind"])
        for by in ("submitter", "worker")
        for row in job[by]
        if row["operation"] not in AT_TIMES and row["kind"] not in NOT_OF_THE_WORK
    }


async def test_the_recording_of_a_job_is_fresh(
    deployed: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    then = pattern(NAME, JOBS, 1.0)
    monkeypatch.setattr("bench.limits.record.POLL_S", 0.1)
    monkeypatch.setattr("piecework.domain.keys.PARTITION_SIZE", 8)
    monkeypatch.setenv("PIECEWORK_RECEIVE_WAIT_S", "1")
    jobs = {str(size): await record(deployed, NAME, size) for size in (2, 18)}
    now = pattern(NAME, jobs, 1.0)

    assert request(KNOWN) == request(jobs["18"]), AGAIN
    assert (then.submit_units, then.work_units) == (
        pytest.approx(now.submit_units),
        pytest.approx(now.work_units),
    ), AGAIN
    assert then.reads == now.reads, AGAIN
