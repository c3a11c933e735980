"""Read the results of a job's chunks, at once or as chunks end, checked by hash."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from piecework import keys, layout, record
from piecework.errors import PermanentError, PieceworkError, StateError
from piecework.model import Chunk, ChunkStatus, Job
from piecework.runtime import Runtime
from piecework.store.results import NULL, ONE_BY_ONE, stored_results
from piecework.store.table import Item
from piecework.strict_json import JsonRefusedError, require_bounded
from piecework.values import BOUNDS

Line = dict[str, Any]
#: Called with the error of a result that cannot be read; other results still can.
OnError = Callable[[PieceworkError], None]


async def ended_chunks(rt: Runtime, job: Job, on_error: OnError) -> AsyncIterator[Line]:
    """Yield a line for each chunk that has ended, in order."""
    for group in range(layout.partition_count(job.chunks)):
        for chunk, result in await read_group(rt, job, group):
            if (document := await result_line(rt, chunk, result, on_error)) is not None:
                yield document


@dataclass(slots=True)
class Follower:
    """Prints every chunk when it ends, and again if it ends in another way.

    A group's tally says when to read its chunks; the last poll, of an ended job, reads
    all chunks.
    """

    rt: Runtime
    write: Callable[[Line], None]
    on_error: OnError
    _tallied: dict[int, frozenset[int]] = field(default_factory=dict)
    _written: dict[int, tuple[str, int]] = field(default_factory=dict)

    async def poll(self, job: Job) -> None:
        """Print the chunks that have ended since the last poll."""
        for group in range(layout.partition_count(job.chunks)):
            new = await self._newly_ended(job, group)
            if not new and not job.status.ended:
                continue
            found = await read_group(
                self.rt, job, group, None if job.status.ended else new
            )
            for chunk, result in found:
                mark = (str(chunk.status), chunk.gen)
                if self._written.get(chunk.ref.chunk) == mark:
                    continue
                document = await result_line(self.rt, chunk, result, self.on_error)
                if document is not None:
                    self.write(document)
                self._written[chunk.ref.chunk] = mark

    async def _newly_ended(self, job: Job, group: int) -> frozenset[int]:
        seen = self._tallied.get(group, frozenset())
        if len(seen) == layout.partition_size(group, job.chunks) and job.gen == 1:
            return frozenset()  # full, and only a reopening removes chunks
        pk = keys.partition_pk(job.ref.tenant, job.ref.job, group)
        item = await self.rt.table.get(pk, keys.TALLY_SK)
        self._tallied[group] = frozenset((item or {}).get("ended_chunks", ()))
        return self._tallied[group] - seen


async def read_group(
    rt: Runtime, job: Job, group: int, wanted: Iterable[int] | None = None
) -> list[tuple[Chunk, Item | None]]:
    """Return the chunks of a group that have ended, each with its stored result.

    The chunks are read before the results: a chunk that has ended has its result.
    """
    pk = keys.partition_pk(job.ref.tenant, job.ref.job, group)
    if wanted is not None and len(numbers := sorted(wanted)) <= ONE_BY_ONE:
        refs = [job.ref.chunk(number) for number in numbers]
        items = await asyncio.gather(*(rt.table.get(pk, ref.sk) for ref in refs))
        found = [Chunk.read(r, i) for r, i in zip(refs, items, strict=True) if i]
    else:
        found = [
            Chunk.read(job.ref.chunk(keys.chunk_number(item["sk"])), item)
            async for item in rt.table.query(pk, keys.CHUNK_PREFIX)
        ]
    ended = [chunk for chunk in found if chunk.status.terminal]
    return await stored_results(rt.table, pk, ended)


async def result_line(
    rt: Runtime, chunk: Chunk, result: Item | None, on_error: OnError
) -> Line | None:
    """Return the line of a chunk; report a result that cannot be read."""
    facts: Line = {
        "chunk": chunk.ref.chunk,
        "label": chunk.item.get("label", ""),
        "status": str(chunk.status),
    }
    if chunk.status is not ChunkStatus.SUCCEEDED:
        return {**facts, "error_code": chunk.item.get("error_code", "")}
    try:
        return {**facts, "value": await value_of(rt, chunk, result)}
    except (StateError, PermanentError) as error:
        on_error(error)
        return None


async def value_of(rt: Runtime, chunk: Chunk, result: Item | None) -> Any:
    """Return the result of a chunk.

    Raises:
        StateError: `runtime.state.checkpoint_corrupt`: the stored result is not the
            one that the chunk settled with; `runtime.object.missing`.
        PermanentError: The stored result was changed.
    """
    prefix = keys.object_prefix(chunk.ref.tenant, chunk.ref.job)
    value = NULL if result is None else await rt.objects.fetch(result, prefix)
    if keys.sha256(value.encode()) != chunk.item.get("result_sha256"):
        message = f"The stored result of chunk {chunk.ref} does not match its hash."
        raise StateError(message, code="runtime.state.checkpoint_corrupt")
    try:
        return json.loads(require_bounded(value, BOUNDS))
    except (JsonRefusedError, ValueError) as error:
        what, why = f"The result of {chunk.ref}", "is not valid JSON within the limits"
        raise record.unreadable_error(what, why) from error
