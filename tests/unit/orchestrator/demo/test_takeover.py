from __future__ import annotations

from piecework.domain.chunk import Chunk
from piecework.domain.refs import JobRef
from piecework.domain.states import ChunkStatus
from piecework_orchestrator.demo.watch import (
    CHECKPOINTED_STAGES,
    ClaimedChunk,
    Takeover,
    claimed_chunks,
    find_takeovers,
    workers_in_stages,
)

JOB = JobRef("default", "j")


def chunk(
    number: int, status: ChunkStatus, owner: str, stage: str, fence: int
) -> Chunk:
    item = {"stage": stage, **({"claimed_by": owner} if owner else {})}
    return Chunk(JOB.chunk(number), status, 1, fence, item)


CHUNKS = [
    chunk(0, ChunkStatus.SUCCEEDED, "", "notify", 1),
    chunk(1, ChunkStatus.RUNNING, "a-host-with-dashes-41", "analyse", 1),
    chunk(2, ChunkStatus.RUNNING, "host-42", "score", 2),
    chunk(3, ChunkStatus.RUNNING, "host-42", "publish", 1),
    chunk(4, ChunkStatus.WAITING, "host-42", "score", 1),
]


def test_a_worker_has_the_running_chunks_with_its_pid() -> None:
    assert [ClaimedChunk(1, "analyse", 1)] == claimed_chunks(CHUNKS, 41)
    assert [
        ClaimedChunk(2, "score", 2),
        ClaimedChunk(3, "publish", 1),
    ] == claimed_chunks(CHUNKS, 42)
    assert [] == claimed_chunks(CHUNKS, 4)


def test_only_workers_in_a_paid_stage_are_candidates() -> None:
    assert [41, 42] == workers_in_stages(CHUNKS, [41, 42, 43])
    assert [41] == workers_in_stages(CHUNKS, [41, 42], CHECKPOINTED_STAGES)
    assert [] == workers_in_stages(CHUNKS[3:], [42])


def test_a_takeover_is_a_claim_with_a_higher_fence() -> None:
    released = chunk(1, ChunkStatus.WAITING, "", "analyse", 1)
    running = chunk(2, ChunkStatus.RUNNING, "host-41", "score", 3)
    claimed = [ClaimedChunk(1, "analyse", 1), ClaimedChunk(2, "score", 2)]

    found = find_takeovers(claimed, [released, running], 3.4)

    assert [Takeover(claimed[1], "host-41", 3.4)] == found
