"""The orchestrator of source 004: write the chunks down, then send their messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from verification.naive.source004.records import Records, body

BATCH = 10
TRIES = 5


class NotSentError(Exception):
    """SQS refused some of the messages."""


async def submit(
    records: Records, sqs: Any, url: str, job: str, payloads: Sequence[str]
) -> None:
    """Fan a job out."""
    await records.new_job(job, len(payloads))
    for chunk, payload in enumerate(payloads):
        await records.new_chunk(job, chunk, payload)
    bodies = [body(job, chunk) for chunk in range(len(payloads))]
    for first in range(0, len(bodies), BATCH):
        await send(sqs, url, bodies[first : first + BATCH])


async def send(sqs: Any, url: str, bodies: Sequence[str]) -> None:
    """Send a batch, and resend the entries that SQS refused.

    The source is silent here: a reply of 200 may name failures. The API's page
    documents it.
    """
    left = dict(enumerate(bodies))
    for attempt in range(TRIES):
        entries = [{"Id": str(n), "MessageBody": text} for n, text in left.items()]
        reply = await sqs.send_message_batch(QueueUrl=url, Entries=entries)
        for done in reply["Successful"]:
            del left[int(done["Id"])]
        if not left:
            return
        await asyncio.sleep(2.0**attempt)
    raise NotSentError
