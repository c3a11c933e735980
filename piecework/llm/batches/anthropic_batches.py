"""Message batches of Anthropic: one request goes in, one file of outcomes comes back.

A batch has no name of ours, and only the ids of its results say which rows it has. So
after a creation in doubt `find` returns each batch that may be it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass
from typing import IO, Any, Final

from piecework.errors import StageError
from piecework.llm.batches.lines import Line, lines_of, row_of, unreadable
from piecework.llm.batches.port import (
    BatchLimits,
    BatchRow,
    BatchState,
    BatchStatus,
    RowAnswered,
    RowExpired,
    RowFailed,
    RowOutcome,
    RowUnreadable,
)
from piecework.llm.batches.row_errors import (
    gone,
    of_batch,
    paid_in_batch,
    results_gone,
    row_error,
)
from piecework.llm.batches.rows import as_line, plain_body, spooled
from piecework.llm.clients import bytes_of, invoke, is_async, items_of, without_retries
from piecework.llm.messages import message_body, read_message
from piecework.llm.parts import part
from piecework.llm.request import ModelRequest, merged

_MB: Final = 1_000_000
_LIMITS: Final = BatchLimits(100_000, 256 * _MB, 32 * _MB, finds_exactly=False)
_PATH: Final = "/v1/messages/batches"
#: Batches of a page of the list, which begins with the newest.
_PAGE: Final = 100
#: Seconds by which the clock of the provider may be behind ours.
_CLOCKS_S: Final = 60.0
#: Bytes of a part of the request.
_PART: Final = 64 * 1024
_NOT_ASKED: Final = frozenset({"expired", "canceled"})


@dataclass(frozen=True, slots=True)
class AnthropicBatches:
    """The message batches of Anthropic.

    Attributes:
        client: As that of `anthropic_messages`.
    """

    client: Any
    provider: str
    endpoint: str = "/v1/messages"
    limits: BatchLimits = _LIMITS

    def row(self, custom_id: str, request: ModelRequest) -> BatchRow:
        """Return the row of a request."""
        body = merged(message_body(request), request.options)
        return BatchRow(custom_id, plain_body(body))

    def size_of(self, row: BatchRow) -> int:
        """Return how many bytes a row adds to the request."""
        return len(_item(row)) + 1

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Create a batch; return its id. Its provider takes no name."""
        del digest
        opened = await without_retries(self.client)
        with await spooled(_body(rows)) as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(0)
            # The SDK's own method would hold all rows in memory, three times over.
            headers = {"Content-Type": "application/json", "Content-Length": str(size)}
            created = await invoke(
                opened.post,
                {
                    "path": _PATH,
                    "content": _async_parts(file) if is_async(opened) else _parts(file),
                    "options": {"headers": headers},
                    "cast_to": object,
                },
            )
        return str(created["id"])

    async def find(
        self, digest: str, planned_at: float, rows: int
    ) -> list[BatchStatus]:
        """Return the batches since the plan with as many rows, the latest first."""
        del digest
        opened = await without_retries(self.client)
        found = list[BatchStatus]()
        async for batch in items_of(opened, opened.messages.batches.list, _PAGE):
            status = _status(batch)
            if status.created_at < planned_at - _CLOCKS_S:
                break
            if status.rows == rows:
                found.append(status)
        return found

    async def status(self, batch_id: str) -> BatchStatus:
        """Return where a batch is."""
        return _status(await self._batch(batch_id))

    async def _batch(self, batch_id: str) -> Any:
        opened = await without_retries(self.client)
        method = opened.messages.batches.retrieve
        return await invoke(method, {"message_batch_id": batch_id})

    async def outcomes(self, batch_id: str) -> AsyncIterator[RowOutcome]:
        """Yield each line of the results."""
        batch = await self._batch(batch_id)
        if batch.archived_at or (batch.ended_at and not batch.results_url):
            raise results_gone()
        opened = await without_retries(self.client)
        method = opened.messages.batches.with_streaming_response.results
        try:
            async for line in lines_of(bytes_of(method(message_batch_id=batch_id))):
                yield self._outcome(line)
        except Exception as error:
            if (lost := gone(error)) is not None:
                raise lost from error
            raise

    def _outcome(self, line: Line) -> RowOutcome:
        row = row_of(line)
        if isinstance(row, RowUnreadable):
            return row
        name, result = row["custom_id"], row.get("result")
        kind = part(result, "type")
        if kind in _NOT_ASKED:
            return RowExpired(name)
        if kind == "errored":
            error = part(result, "error")
            return RowFailed(name, row_error(part(error, "error") or error))
        if kind != "succeeded":
            return unreadable(line, "its result has no known type")
        try:
            answer = read_message(self.provider, part(result, "message"))
        except StageError as failed:
            return RowFailed(name, paid_in_batch(failed))
        return RowAnswered(name, of_batch(answer))

    async def cancel(self, batch_id: str) -> None:
        """Ask for the end of a batch, unless it has ended."""
        if (await self._batch(batch_id)).processing_status == "in_progress":
            opened = await without_retries(self.client)
            method = opened.messages.batches.cancel
            await invoke(method, {"message_batch_id": batch_id})


def _item(row: BatchRow) -> bytes:
    return as_line({"custom_id": row.custom_id, "params": row.body})


def _body(rows: Iterable[BatchRow]) -> Iterator[bytes]:
    """Yield the parts of the request that has these rows."""
    yield b'{"requests":['
    for number, row in enumerate(rows):
        yield (b"," if number else b"") + _item(row)
    yield b"]}"


def _parts(file: IO[bytes]) -> Iterator[bytes]:
    while content := file.read(_PART):
        yield content


async def _async_parts(file: IO[bytes]) -> AsyncIterator[bytes]:
    for content in _parts(file):
        yield content


def _status(batch: Any) -> BatchStatus:
    counts = batch.request_counts
    answered, failed = counts.succeeded, counts.errored
    not_asked = counts.expired + counts.canceled
    state = BatchState.IN_PROGRESS
    if batch.processing_status == "ended":
        state = BatchState.EXPIRED if counts.expired else BatchState.ENDED
        if batch.cancel_initiated_at is not None:
            state = BatchState.CANCELLED
    ended = batch.ended_at
    return BatchStatus(
        id=batch.id,
        state=state,
        rows=counts.processing + answered + failed + not_asked,
        answered=answered,
        failed=failed,
        created_at=batch.created_at.timestamp(),
        ended_at=None if ended is None else ended.timestamp(),
    )
