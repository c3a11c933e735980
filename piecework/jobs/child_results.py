"""Read what the rows of a child job have become, one group of chunks at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass

from piecework.domain import keys
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.protocols import RowFailure, StoredResult
from piecework.domain.rows import StageRow
from piecework.domain.states import ChunkStatus
from piecework.errors import StateError
from piecework.runtime import Runtime
from piecework.store.completion import chunks_of_group
from piecework.store.dead_letters import DeadLetters
from piecework.store.results import NULL, stored_results


@dataclass(frozen=True, slots=True)
class StoredChildResults:
    """The rows of a child that has ended."""

    rt: Runtime
    job: Job

    async def results(self) -> AsyncIterator[StoredResult]:
        """Yield the result of each row that has one, in order.

        Raises:
            StateError: `runtime.state.checkpoint_corrupt`.
        """
        for group in range(keys.partition_count(self.job.chunks)):
            found = [c async for c in self._chunks(group)]
            pk = keys.partition_pk(self.job.ref.tenant, self.job.ref.job, group)
            for chunk, row in await stored_results(self.rt.table, pk, found):
                if chunk.status is ChunkStatus.SUCCEEDED:
                    yield await self._result(chunk, row)

    async def _result(self, chunk: Chunk, row: StageRow | None) -> StoredResult:
        ref = self.job.ref
        prefix = keys.object_prefix(ref.tenant, ref.job)
        value = NULL if row is None else await self.rt.objects.get_value(row, prefix)
        if keys.sha256(value.encode()) != chunk.result_sha256:
            message = f"Chunk {chunk.ref} did not settle with its stored result."
            raise StateError(message, code="runtime.state.checkpoint_corrupt")
        return StoredResult(chunk.ref.chunk, chunk.label, value)

    async def failures(self) -> AsyncIterator[RowFailure]:
        """Yield each row without a result, in order, with the error it died of."""
        rt = self.rt
        letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
        for group in range(keys.partition_count(self.job.chunks)):
            async for chunk in self._chunks(group):
                if chunk.status is ChunkStatus.SUCCEEDED:
                    continue
                code, message = chunk.error_code, ""
                if chunk.status is ChunkStatus.DEAD:
                    letter = await letters.read(chunk.ref, chunk.gen, [])
                    message = "" if letter is None else letter.error
                yield RowFailure(
                    chunk.ref.chunk, chunk.label, str(chunk.status), code, message
                )

    def _chunks(self, group: int) -> AsyncIterator[Chunk]:
        return chunks_of_group(self.rt.table, self.job.ref, group)
