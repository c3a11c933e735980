"""The provider fails for one input: its chunk dies alone, and no other chunk waits."""

from __future__ import annotations

from piecework.domain import keys
from piecework.domain.states import ChunkStatus, JobStatus
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import CALLS, POISON, Item, assembling


async def test_a_poison_input_dies_alone_and_no_other_chunk_waits(
    scenario: Scenario,
) -> None:
    await scenario.submit(assembling, [Item(n=n) for n in range(22)])
    await scenario.submit(assembling, [Item(n=100 + n) for n in range(4)], "job-2")
    for _ in "12":
        await scenario.process()
    async with scenario.reconciler():
        assert JobStatus.PARTIAL is (await scenario.ended()).status
        assert JobStatus.SUCCEEDED is (await scenario.ended("job-2")).status

    *innocent, poisoned = sorted(
        await scenario.chunks(), key=lambda chunk: chunk.ref.chunk == POISON
    )
    assert (ChunkStatus.DEAD, 3) == (poisoned.status, poisoned.attempts)
    for chunk in (*innocent, *await scenario.chunks("job-2")):
        assert (ChunkStatus.SUCCEEDED, 1) == (chunk.status, chunk.attempts)
        assert 0 == chunk.deferrals
    (letter,) = await scenario.letters()
    assert "tool.http.500_server_error" == letter["error_code"]
    assert 25 * CALLS == scenario.happened("produced")
    row = await scenario.rt.table.get(keys.BREAKERS_PK, "factory")
    assert row is None or ("closed", 0) == (row["breaker_state"], row["gen"])
