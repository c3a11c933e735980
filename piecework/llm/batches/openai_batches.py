"""Batches of OpenAI: a file of rows goes up, two files of outcomes come back.

create = file (purpose=batch) -> batch with the digest in its metadata
read   = output file: each row with an answer; error file: each row without
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

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
    row_error,
    word_of,
)
from piecework.llm.batches.rows import as_line, plain_body, spooled
from piecework.llm.chat import chat_body, read_chat
from piecework.llm.clients import bytes_of, invoke, items_of, without_retries
from piecework.llm.parts import part
from piecework.llm.request import ModelRequest, merged

#: The key of the metadata that has the digest of the rows.
DIGEST_KEY: Final = "piecework"
_MB: Final = 1_000_000
_LIMITS: Final = BatchLimits(50_000, 200 * _MB, 50 * _MB)
#: Batches of a page. Older ones than the plan are passed over for as many, because no
#: page says that the list begins with the newest.
_PAGE: Final = 100
#: Seconds by which the clock of the provider may be behind ours.
_CLOCKS_S: Final = 60.0
_OK: Final = range(200, 300)

_STATES: Final = MappingProxyType(
    {
        "completed": BatchState.ENDED,
        "failed": BatchState.FAILED,
        "cancelled": BatchState.CANCELLED,
        "expired": BatchState.EXPIRED,
    }
)
_ENDS: Final = ("completed_at", "failed_at", "cancelled_at", "expired_at")
#: The words of rows that were not asked.
_NOT_ASKED: Final = frozenset({"batch_expired", "batch_cancelled"})
#: The words of a batch that is refused for now, because too much is queued already.
_QUEUE_FULL: Final = frozenset({"token_limit_exceeded"})


@dataclass(frozen=True, slots=True)
class OpenAIBatches:
    """The batches of OpenAI, or of a compatible address.

    Attributes:
        client: As that of `openai_chat`.
        limit: The parameter for the limit of tokens.
    """

    client: Any
    provider: str
    limit: str
    endpoint: str = "/v1/chat/completions"
    limits: BatchLimits = _LIMITS

    def row(self, custom_id: str, request: ModelRequest) -> BatchRow:
        """Return the row of a request."""
        body = merged(chat_body(request, self.limit), request.options)
        return BatchRow(custom_id, plain_body(body))

    def size_of(self, row: BatchRow) -> int:
        """Return how many bytes a row adds to its file."""
        return len(self._line(row))

    def _line(self, row: BatchRow) -> bytes:
        said = {"custom_id": row.custom_id, "method": "POST", "url": self.endpoint}
        return as_line({**said, "body": row.body}) + b"\n"

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Upload the rows, and create their batch; return its id."""
        opened = await without_retries(self.client)
        with await spooled(map(self._line, rows)) as file:
            given = {"file": (f"{digest}.jsonl", file), "purpose": "batch"}
            uploaded = await invoke(opened.files.create, given)
        batch = await invoke(
            opened.batches.create,
            {
                "input_file_id": uploaded.id,
                "endpoint": self.endpoint,
                "completion_window": "24h",
                "metadata": {DIGEST_KEY: digest},
            },
        )
        return str(batch.id)

    async def find(
        self, digest: str, planned_at: float, rows: int
    ) -> list[BatchStatus]:
        """Return the batches with this digest, the latest first."""
        del rows  # the digest says it
        opened = await without_retries(self.client)
        found, older = list[BatchStatus](), 0
        async for batch in items_of(opened, opened.batches.list, _PAGE):
            if batch.created_at < planned_at - _CLOCKS_S:
                older += 1
                if older == _PAGE:
                    break
            elif part(batch.metadata, DIGEST_KEY) == digest:
                found.append(_status(batch, {}))
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    async def status(self, batch_id: str) -> BatchStatus:
        """Return where a batch is; of a failed one also the rows that it names."""
        opened = await without_retries(self.client)
        batch = await invoke(opened.batches.retrieve, {"batch_id": batch_id})
        by_line = {each.line: _refusal(each) for each in _errors(batch) if each.line}
        refused: dict[str, StageError] = {}
        if by_line:
            # The file that we sent: the provider names its lines, from 1.
            number = 0
            async for line in _content(opened, batch.input_file_id):
                number += 1
                if number in by_line and isinstance(row := row_of(line), dict):
                    refused[row["custom_id"]] = by_line[number]
        return _status(batch, refused)

    async def outcomes(self, batch_id: str) -> AsyncIterator[RowOutcome]:
        """Yield each line of the output file, then of the error file."""
        opened = await without_retries(self.client)
        batch = await invoke(opened.batches.retrieve, {"batch_id": batch_id})
        for file_id in (batch.output_file_id, batch.error_file_id):
            if not file_id:
                continue
            async for line in _content(opened, file_id):
                yield self._outcome(line)

    def _outcome(self, line: Line) -> RowOutcome:
        row = row_of(line)
        if isinstance(row, RowUnreadable):
            return row
        name, error, response = row["custom_id"], row.get("error"), row.get("response")
        status = part(response, "status_code")
        if word_of(error) in _NOT_ASKED:
            return RowExpired(name)
        if error:
            return RowFailed(name, row_error(error))
        if not isinstance(status, int):
            return unreadable(line, "it has neither an answer nor an error")
        return self._answered(name, status, part(response, "body"))

    def _answered(self, name: str, status: int, body: Any) -> RowOutcome:
        """Return the outcome of a row that the model was asked."""
        if status not in _OK:
            return RowFailed(name, row_error(part(body, "error") or body, status))
        try:
            return RowAnswered(name, of_batch(read_chat(self.provider, body)))
        except StageError as failed:
            return RowFailed(name, paid_in_batch(failed))

    async def cancel(self, batch_id: str) -> None:
        """Ask for the end of a batch, unless it has ended."""
        opened = await without_retries(self.client)
        batch = await invoke(opened.batches.retrieve, {"batch_id": batch_id})
        if batch.status not in {*_STATES, "cancelling"}:
            await invoke(opened.batches.cancel, {"batch_id": batch_id})


async def _content(opened: Any, file_id: str) -> AsyncIterator[Line]:
    """Yield each line of a file of the provider."""
    try:
        streamed = opened.files.with_streaming_response.content(file_id=file_id)
        async for line in lines_of(bytes_of(streamed)):
            yield line
    except Exception as error:
        if (lost := gone(error)) is not None:
            raise lost from error
        raise


def _errors(batch: Any) -> Iterator[Any]:
    """Yield the errors of a batch that failed at its validation."""
    yield from part(batch.errors, "data") or ()


def _refusal(said: Any) -> StageError:
    """Return the error of a row, or of a whole batch, that a validation refused."""
    full = word_of(vars(said)) in _QUEUE_FULL
    status = "429_rate_limited" if full else "400_bad_request"
    return row_error(said, code=f"llm.http.{status}")


def _status(batch: Any, refused: Mapping[str, StageError]) -> BatchStatus:
    counts = batch.request_counts
    ended = next(filter(None, (part(batch, name) for name in _ENDS)), None)
    whole = next((each for each in _errors(batch) if not each.line), None)
    return BatchStatus(
        id=batch.id,
        state=_STATES.get(batch.status, BatchState.IN_PROGRESS),
        rows=part(counts, "total") or 0,
        answered=part(counts, "completed") or 0,
        failed=part(counts, "failed") or 0,
        created_at=float(batch.created_at),
        ended_at=None if ended is None else float(ended),
        refused=refused,
        reason=None if whole is None else _refusal(whole),
    )
