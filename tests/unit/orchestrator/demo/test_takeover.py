from __future__ import annotations

from orchestrator.demo.takeover import (
    CHECKPOINTED,
    Held,
    Takeover,
    in_hand,
    in_mid_chunk,
    taken_over,
)
from piecework.model import Chunk, ChunkStatus, JobRef

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


def test_what_a_worker_has_in_hand_is_what_runs_under_its_pid() -> None:
    assert [Held(1, "analyse", 1)] == in_hand(CHUNKS, 41)
    assert [Held(2, "score", 2), Held(3, "publish", 1)] == in_hand(CHUNKS, 42)
    assert [] == in_hand(CHUNKS, 4)


def test_a_worker_between_its_paid_calls_and_its_effects_is_not_in_mid_chunk() -> None:
    assert [41, 42] == in_mid_chunk(CHUNKS, [41, 42, 43])
    assert [41] == in_mid_chunk(CHUNKS, [41, 42], CHECKPOINTED)
    assert [] == in_mid_chunk(CHUNKS[3:], [42])


def test_a_chunk_is_taken_over_once_its_fence_has_risen() -> None:
    given_back = chunk(1, ChunkStatus.WAITING, "", "analyse", 1)
    claimed = chunk(2, ChunkStatus.RUNNING, "host-41", "score", 3)
    held = [Held(1, "analyse", 1), Held(2, "score", 2)]

    found = taken_over(held, [given_back, claimed], 3.4)

    assert [Takeover(held[1], "host-41", 3.4)] == found
