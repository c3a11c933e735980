"""The chunk table and the checkpoint table of source 004, as one table of two keys."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

#: Silent in the source: the duration of a claim. It is shorter than the visibility
#: timeout, so that a message that returns finds a dead worker's claim expired.
CLAIM_S = 240.0
REFUSED = "ConditionalCheckFailedException"


@dataclass(slots=True)
class Records:
    """The records of jobs, chunks and stages."""

    client: Any
    table: str
    now: Callable[[], float]

    async def new_job(self, job: str, chunks: int) -> None:
        """Record a job, unless an earlier attempt of the same submit has."""
        item = {"status": {"S": "running"}, "chunks": {"N": str(chunks)}}
        await self._put_new(job, "JOB", item)

    async def new_chunk(self, job: str, chunk: int, payload: str) -> None:
        """Record a chunk, unless an earlier attempt of the same submit has."""
        item = {"status": {"S": "pending"}, "payload": {"S": payload}}
        await self._put_new(job, chunk_key(chunk), item)

    async def claim(self, job: str, chunk: int, worker: str) -> dict[str, Any] | None:
        """Claim a chunk with the source's condition, word for word."""
        now = self.now()
        try:
            reply = await self._update(
                job,
                chunk_key(chunk),
                "SET claimed_by = :worker, claim_expires_at = :until",
                {
                    ":worker": {"S": worker},
                    ":until": {"N": str(now + CLAIM_S)},
                    ":now": {"N": str(now)},
                },
                ConditionExpression="attribute_not_exists(claimed_by)"
                " OR claim_expires_at < :now",
                ReturnValues="ALL_NEW",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] == REFUSED:
                return None
            raise
        found: dict[str, Any] = reply["Attributes"]
        return found

    async def cancelled(self, job: str) -> bool:
        """Return whether the job's status was set to cancelled."""
        reply = await self.client.get_item(
            TableName=self.table, Key=key(job, "JOB"), ConsistentRead=True
        )
        return bool(reply["Item"]["status"]["S"] == "cancelled")

    async def cancel(self, job: str) -> None:
        """Flip the job's status."""
        values = {":cancelled": {"S": "cancelled"}}
        await self._update(job, "JOB", "SET #s = :cancelled", values, named=True)

    async def checkpoint(
        self, job: str, chunk: int, stage: int, worker: str, status: str
    ) -> None:
        """Write {job_id, stage, started_at, claimed_by} down for a chunk's stage."""
        facts = {
            **key(job, f"CHECKPOINT#{chunk}#{stage}"),
            "started_at": {"N": str(self.now())},
            "claimed_by": {"S": worker},
            "status": {"S": status},
        }
        await self.client.put_item(TableName=self.table, Item=facts)

    async def complete(self, job: str, chunk: int, worker: str) -> None:
        """Record that a chunk is completed."""
        values = {
            ":done": {"S": "completed"},
            ":at": {"N": str(self.now())},
            ":by": {"S": worker},
        }
        change = "SET #s = :done, completed_at = :at, completed_by = :by"
        await self._update(job, chunk_key(chunk), change, values, named=True)

    async def count(self, job: str) -> None:
        """Count a completed chunk; the last one completes the job.

        Silent in the source: how a job learns that it is done. Most implementations use
        a counter on the job's item. `>=` tolerates one extra count.
        """
        one = {":one": {"N": "1"}}
        reply = await self._update(
            job, "JOB", "ADD completed_chunks :one", one, ReturnValues="ALL_NEW"
        )
        found = reply["Attributes"]
        if int(found["completed_chunks"]["N"]) >= int(found["chunks"]["N"]):
            done = {":done": {"S": "completed"}}
            await self._update(job, "JOB", "SET #s = :done", done, named=True)

    async def _put_new(self, job: str, row: str, item: dict[str, Any]) -> None:
        try:
            await self.client.put_item(
                TableName=self.table,
                Item={**key(job, row), **item},
                ConditionExpression="attribute_not_exists(pk)",
            )
        except ClientError as error:
            if error.response["Error"]["Code"] != REFUSED:
                raise

    async def _update(
        self,
        job: str,
        row: str,
        change: str,
        values: dict[str, Any],
        *,
        named: bool = False,
        **more: Any,
    ) -> Any:
        if named:
            more["ExpressionAttributeNames"] = {"#s": "status"}
        return await self.client.update_item(
            TableName=self.table,
            Key=key(job, row),
            UpdateExpression=change,
            ExpressionAttributeValues=values,
            **more,
        )


def key(job: str, row: str) -> dict[str, Any]:
    """Return the key of a row."""
    return {"pk": {"S": job}, "sk": {"S": row}}


def chunk_key(chunk: int) -> str:
    """Return the row of a chunk."""
    return f"CHUNK#{chunk}"


def body(job: str, chunk: int) -> str:
    """Return the message that hands a chunk out."""
    return json.dumps({"job_id": job, "chunk": chunk})
