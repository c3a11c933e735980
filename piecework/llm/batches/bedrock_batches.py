"""Batches of Amazon Bedrock: a file of rows in S3, a job over it, a file of outcomes.

The digest of the rows is in the name of the job and in its token: a repeated creation
with the same token makes no second job.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

from piecework.errors import StageError
from piecework.errors.classify import classify
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
    of_batch,
    paid_in_batch,
    results_gone,
    row_error,
)
from piecework.llm.batches.rows import as_line, plain_body, spooled
from piecework.llm.clients import in_thread, invoke, open_client
from piecework.llm.converse import converse_body, read_converse
from piecework.llm.parts import part
from piecework.llm.request import ModelRequest, merged

_MB: Final = 1_000_000
#: The quotas of an account for most models. A line of the output has its row again.
_LIMITS: Final = BatchLimits(50_000, 200 * _MB, 5 * _MB, least_rows=100)
#: Seconds by which the clock of the provider may be behind ours.
_CLOCKS_S: Final = 60.0
#: Letters of the name of a job.
_LONGEST_NAME: Final = 63
#: Bytes of a part of the output.
_PART: Final = 64 * 1024
_FILE: Final = "rows.jsonl"
#: The name of a row.
_ID: Final = "recordId"

_STATES: Final = MappingProxyType(
    {
        "Completed": BatchState.ENDED,
        "PartiallyCompleted": BatchState.ENDED,
        "Failed": BatchState.FAILED,
        "Stopped": BatchState.CANCELLED,
        "Expired": BatchState.EXPIRED,
    }
)


@dataclass(frozen=True, slots=True)
class BedrockBatches:
    """The batches of Converse.

    Attributes:
        control: A client `bedrock`, plain or asynchronous, or an async function that
            returns it.
        s3: A client `s3`, likewise.
        bucket: Where rows and outcomes are, in the region of the client.
        role: The ARN of the role with which Bedrock reads and writes there.
        prefix: The beginning of the names of their objects.
    """

    control: Any
    s3: Any
    bucket: str
    role: str
    prefix: str = "piecework-batches/"
    provider: str = "bedrock"
    endpoint: str = "Converse"
    limits: BatchLimits = _LIMITS

    def row(self, custom_id: str, request: ModelRequest) -> BatchRow:
        """Return the row of a request."""
        body = merged(converse_body(request), request.options)
        return BatchRow(custom_id, plain_body(body))

    def size_of(self, row: BatchRow) -> int:
        """Return how many bytes a row adds to its file."""
        return len(_line(row))

    async def create(self, rows: Iterable[BatchRow], digest: str) -> str:
        """Write the rows to S3, and create their job; return its ARN."""
        model = ""

        def lines() -> Iterable[bytes]:
            nonlocal model
            for each in rows:
                model = each.body["modelId"]
                yield _line(each)

        folder = f"{self.prefix}{digest}/"
        with await spooled(lines()) as file:
            s3 = await open_client(self.s3)
            put = {"Bucket": self.bucket, "Key": f"{folder}{_FILE}", "Body": file}
            await invoke(s3.put_object, put)
        control = await open_client(self.control)
        where = f"s3://{self.bucket}/{folder}"
        job = await invoke(
            control.create_model_invocation_job,
            {
                "jobName": _name(digest),
                "clientRequestToken": digest,
                "roleArn": self.role,
                "modelId": model,
                "modelInvocationType": "Converse",
                "inputDataConfig": {"s3InputDataConfig": {"s3Uri": f"{where}{_FILE}"}},
                "outputDataConfig": {"s3OutputDataConfig": {"s3Uri": f"{where}out/"}},
            },
        )
        return str(job["jobArn"])

    async def find(
        self, digest: str, planned_at: float, rows: int
    ) -> list[BatchStatus]:
        """Return the jobs with this digest, the latest first."""
        del rows  # the digest says it
        control = await open_client(self.control)
        since = datetime.fromtimestamp(planned_at - _CLOCKS_S, UTC)
        asked = {"nameContains": _name(digest), "submitTimeAfter": since}
        found = list[BatchStatus]()
        while True:
            page = await invoke(control.list_model_invocation_jobs, asked)
            jobs = page.get("invocationJobSummaries") or ()
            found += [_status(job) for job in jobs if job["jobName"] == _name(digest)]
            if not page.get("nextToken"):
                break
            asked["nextToken"] = page["nextToken"]
        return sorted(found, key=lambda each: each.created_at, reverse=True)

    async def status(self, batch_id: str) -> BatchStatus:
        """Return where a job is."""
        return _status(await self._job(batch_id))

    async def _job(self, batch_id: str) -> Any:
        control = await open_client(self.control)
        asked = {"jobIdentifier": batch_id}
        return await invoke(control.get_model_invocation_job, asked)

    async def outcomes(self, batch_id: str) -> AsyncIterator[RowOutcome]:
        """Yield each line of the output file."""
        job = await self._job(batch_id)
        folder = job["outputDataConfig"]["s3OutputDataConfig"]["s3Uri"]
        bucket, _, name = folder.removeprefix("s3://").partition("/")
        key = f"{name}{job['jobArn'].rpartition('/')[2]}/{_FILE}.out"
        async for line in lines_of(self._content(bucket, key)):
            yield self._outcome(line)

    async def _content(self, bucket: str, key: str) -> AsyncIterator[bytes]:
        """Yield the parts of an object.

        Raises:
            PermanentError: `llm.batch.results_gone`.
        """
        s3 = await open_client(self.s3)
        try:
            reply = await invoke(s3.get_object, {"Bucket": bucket, "Key": key})
        except Exception as error:
            if classify(error, layer="llm").provider_code == "NoSuchKey":
                raise results_gone() from error
            raise
        body = reply["Body"]
        if hasattr(body, "__aenter__"):
            async with body:
                async for each in body.iter_chunks(_PART):
                    yield each
            return
        try:
            async for each in in_thread(body.iter_chunks(_PART)):
                yield each
        finally:
            body.close()

    def _outcome(self, line: Line) -> RowOutcome:
        row = row_of(line, _ID)
        if isinstance(row, RowUnreadable):
            return row
        name, error, answer = row[_ID], row.get("error"), row.get("modelOutput")
        if part(error, "expired") is True:
            return RowExpired(name)
        if error:
            status = part(error, "errorCode")
            said = {"code": status, "message": part(error, "errorMessage")}
            return RowFailed(
                name, row_error(said, status if isinstance(status, int) else None)
            )
        if not isinstance(answer, dict):
            return unreadable(line, "it has neither an answer nor an error")
        try:
            return RowAnswered(name, of_batch(read_converse(self.provider, answer)))
        except StageError as failed:
            return RowFailed(name, paid_in_batch(failed))

    async def cancel(self, batch_id: str) -> None:
        """Ask for the end of a job, unless it has ended."""
        if (await self._job(batch_id))["status"] not in {*_STATES, "Stopping"}:
            control = await open_client(self.control)
            asked = {"jobIdentifier": batch_id}
            await invoke(control.stop_model_invocation_job, asked)


def _name(digest: str) -> str:
    return f"piecework-{digest}"[:_LONGEST_NAME]


def _line(row: BatchRow) -> bytes:
    said = {name: value for name, value in row.body.items() if name != "modelId"}
    return as_line({_ID: row.custom_id, "modelInput": said}) + b"\n"


def _status(job: Any) -> BatchStatus:
    state = _STATES.get(job["status"], BatchState.IN_PROGRESS)
    ended, failed = job.get("endTime"), state is BatchState.FAILED
    said = {"message": job.get("message")}
    return BatchStatus(
        id=job["jobArn"],
        state=state,
        rows=job.get("totalRecordCount") or 0,
        answered=job.get("successRecordCount") or 0,
        failed=job.get("errorRecordCount") or 0,
        created_at=job["submitTime"].timestamp(),
        ended_at=None if ended is None else ended.timestamp(),
        reason=row_error(said, code="llm.http.400_bad_request") if failed else None,
    )
