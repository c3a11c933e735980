"""Batches of Gemini: a file of rows goes up, a job has its name, a file comes back."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import IO, Any, Final

from piecework.errors import StageError
from piecework.llm.batches.lines import Line, lines_of, row_of, unreadable
from piecework.llm.batches.port import (
    BatchLimits,
    BatchRow,
    BatchState,
    BatchStatus,
    RowAnswered,
    RowFailed,
    RowOutcome,
    RowUnreadable,
)
from piecework.llm.batches.row_errors import (
    gone,
    of_batch,
    paid_in_batch,
    row_error,
)
from piecework.llm.batches.rows import as_line, plain_body, spooled
from piecework.llm.clients import open_client
from piecework.llm.gemini import ONCE, gemini_body, on_the_wire, read_gemini
from piecework.llm.parts import part
from piecework.llm.request import ModelRequest, merged

_MB: Final = 1_000_000
_LIMITS: Final = BatchLimits(50_000, 200 * _MB, 20 * _MB)
#: Batches of a page. Older ones than the plan are passed over for as many, because no
#: page says that the list begins with the newest.
_PAGE: Final = 100
#: Seconds by which the clock of the provider may be behind ours.
_CLOCKS_S: Final = 60.0
#: Bytes of a part of the output.
_PART: Final = 64 * 1024
#: The name of a row.
_KEY: Final = "key"
_STATUSES: Final = range(400, 600)

_STATES: Final = MappingProxyType(
    {
        "JOB_STATE_SUCCEEDED": BatchState.ENDED,
        "JOB_STATE_PARTIALLY_SUCCEEDED": BatchState.ENDED,
        "JOB_STATE_FAILED": BatchState.FAILED,
        "JOB_STATE_CANCELLED": BatchState.CANCELLED,
        "JOB_STATE_EXPIRED": BatchState.EXPIRED,
    }
)


@dataclass(frozen=True, slots=True)
class GeminiBatches:
    """The batches of Gemini.

    Attributes:
        client: As that of `gemini_content`.
    """

    client: Any
    provider: str
    endpoint: str = "generateContent"
    limits: BatchLimits = _LIMITS

    def row(self, custom_id: str, request: ModelRequest) -> BatchRow:
        """Return the row of a request."""
        body = plain_body(merged(gemini_body(request), request.options))
        return BatchRow(custom_id, {"model": body["model"], **on_the_wire(body)})

    def size_of(self, row: BatchRow) -> int:
        """Return how many bytes a row adds to its file."""
        return len(_line(row))

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Upload the rows, and create their job with the digest as its name."""
        model = ""

        def lines() -> Iterable[bytes]:
            nonlocal model
            for each in rows:
                model = each.body["model"]
                yield _line(each)

        opened = await open_client(self.client)
        with await spooled(lines()) as file:
            said = {"mime_type": "application/jsonl", "display_name": digest}
            uploaded = await opened.aio.files.upload(file=file, config=said)
        job = await opened.aio.batches.create(
            model=model, src=uploaded.name, config={"display_name": digest, **ONCE}
        )
        return str(job.name)

    async def find(
        self, digest: str, planned_at: float, rows: int
    ) -> list[BatchStatus]:
        """Return the jobs with this digest, the latest first."""
        del rows  # the digest says it
        opened = await open_client(self.client)
        found, older = list[BatchStatus](), 0
        async for job in await opened.aio.batches.list(
            config={"page_size": _PAGE, **ONCE}
        ):
            status = _status(job)
            if status.created_at < planned_at - _CLOCKS_S:
                older += 1
                if older == _PAGE:
                    break
            elif job.display_name == digest:
                found.append(status)
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    async def status(self, batch_id: str) -> BatchStatus:
        """Return where a job is; it does not count its rows."""
        return _status(await self._job(batch_id))

    async def _job(self, batch_id: str) -> Any:
        opened = await open_client(self.client)
        return await opened.aio.batches.get(name=batch_id, config=ONCE)

    async def outcomes(self, batch_id: str) -> AsyncIterator[RowOutcome]:
        """Yield each line of the output file."""
        job = await self._job(batch_id)
        name = part(job.dest, "file_name")
        if not name:
            return
        opened = await open_client(self.client)
        with tempfile.TemporaryFile() as file:
            try:
                await opened.aio.files.download(file=name, destination=file)
            except Exception as error:
                if (lost := gone(error)) is not None:
                    raise lost from error
                raise
            file.seek(0)
            async for line in lines_of(_parts(file)):
                yield self._outcome(line)

    def _outcome(self, line: Line) -> RowOutcome:
        row = row_of(line, _KEY)
        if isinstance(row, RowUnreadable):
            return row
        name, error, answer = row[_KEY], row.get("error"), row.get("response")
        if error:
            code = part(error, "code")
            status = code if isinstance(code, int) and code in _STATUSES else None
            said = {"code": part(error, "status"), "message": part(error, "message")}
            return RowFailed(name, row_error(said, status))
        if not isinstance(answer, dict):
            return unreadable(line, "it has neither an answer nor an error")
        try:
            return RowAnswered(name, of_batch(read_gemini(self.provider, answer)))
        except StageError as failed:
            return RowFailed(name, paid_in_batch(failed))

    async def cancel(self, batch_id: str) -> None:
        """Ask for the end of a job, unless it has ended."""
        job = await self._job(batch_id)
        if _word(job.state) not in _STATES:
            opened = await open_client(self.client)
            await opened.aio.batches.cancel(name=batch_id, config=ONCE)


def _line(row: BatchRow) -> bytes:
    said = {name: value for name, value in row.body.items() if name != "model"}
    return as_line({_KEY: row.custom_id, "request": said}) + b"\n"


async def _parts(file: IO[bytes]) -> AsyncIterator[bytes]:
    while content := await asyncio.to_thread(file.read, _PART):
        yield content


def _word(state: Any) -> str:
    return str(getattr(state, "value", state))


def _status(job: Any) -> BatchStatus:
    state = _STATES.get(_word(job.state), BatchState.IN_PROGRESS)
    ended = job.end_time or job.update_time
    has_ended = state is not BatchState.IN_PROGRESS and ended is not None
    failed = state is BatchState.FAILED
    return BatchStatus(
        id=job.name,
        state=state,
        rows=0,
        answered=0,
        failed=0,
        created_at=job.create_time.timestamp(),
        ended_at=ended.timestamp() if has_ended else None,
        reason=row_error(job.error, code="llm.http.400_bad_request")
        if failed
        else None,
    )
