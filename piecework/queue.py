"""SQS as a few verbs: send, receive, hide, delete. A message is only a hint.

Every batch call may answer 200 and still have failed entries; each verb says which
ones it can vouch for.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piecework import keys
from piecework.model import SCHEMA, ChunkRef
from piecework.store.outage import reaching

if TYPE_CHECKING:
    from types_aiobotocore_sqs.client import SQSClient

BATCH = 10
BATCH_TRIES = 5
#: Bytes of a message body that are parsed at all; ours have about 100.
BODY_LIMIT = 16 * 1024
_NAME = r"^[A-Za-z0-9_-]{1,64}$"


class Message(BaseModel):
    """What a message says: whose turn it is, and in which life of the chunk."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Literal[1] = 1  # model.SCHEMA; strict: what is newer is left to newer workers
    tenant: str = Field(pattern=_NAME)
    job: str = Field(pattern=_NAME)
    chunk: int = Field(ge=keys.JOIN_CHUNK, le=keys.MOST_CHUNKS)
    gen: int = Field(ge=1, le=keys.MOST_GENS)

    @classmethod
    def about(cls, ref: ChunkRef, gen: int) -> Message:
        """Return the message that hands out a chunk."""
        return cls(tenant=ref.tenant, job=ref.job, chunk=ref.chunk, gen=gen)

    @property
    def ref(self) -> ChunkRef:
        """The chunk that it is about."""
        return ChunkRef(self.tenant, self.job, self.chunk)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message in hand.

    Attributes:
        message: What it says; None when it is not one of ours.
        newer: It is of a version that this worker does not know: left to others.
        received: How often SQS has handed it out, this time included.
    """

    message: Message | None
    body: str
    receipt: str
    message_id: str
    received: int
    newer: bool = False


@dataclass(slots=True)
class Queue:
    """One queue."""

    client: SQSClient
    url: str
    rng: Random

    async def send(self, messages: Sequence[Message], *, delay_s: float = 0.0) -> int:
        """Send messages in batches, at most 900 s late; return how many SQS took."""
        extra = {"DelaySeconds": min(math.ceil(delay_s), 900)} if delay_s else None
        taken = 0
        for batch in batches(messages):
            bodies = [m.model_dump_json() for m in batch]
            send = self.client.send_message_batch
            failed = await self._all(send, "MessageBody", bodies, extra)
            taken += len(batch) - len(failed)
        return taken

    async def receive(self, most: int, *, wait_s: int, hide_s: float) -> list[Delivery]:
        """Take up to `most` messages (10 at the most), hidden for `hide_s` seconds."""
        with reaching(self.url):
            reply = await self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(most, BATCH),
                WaitTimeSeconds=wait_s,
                VisibilityTimeout=math.ceil(hide_s),
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
        return [read(found) for found in reply.get("Messages", [])]

    async def hide(self, receipts: Sequence[str], seconds: float) -> None:
        """Hide messages for so long from now; one that is gone already is no loss."""
        extra = {"VisibilityTimeout": min(math.ceil(seconds), 43_200)}
        for batch in batches(receipts):
            await self._all(
                self.client.change_message_visibility_batch,
                "ReceiptHandle",
                batch,
                extra,
            )

    async def delete(self, receipts: Sequence[str]) -> None:
        """Delete messages; one that comes back all the same meets an ended chunk."""
        for batch in batches(receipts):
            await self._all(self.client.delete_message_batch, "ReceiptHandle", batch)

    async def depth(self) -> int:
        """Return about how many messages there are, hidden and delayed ones too."""
        names: list[Any] = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ]
        with reaching(self.url):
            reply = await self.client.get_queue_attributes(
                QueueUrl=self.url, AttributeNames=names
            )
        return sum(int(reply["Attributes"].get(name, "0")) for name in names)

    async def _all(
        self,
        call: Callable[..., Awaitable[Any]],
        field: str,
        contents: Sequence[str],
        extra: dict[str, Any] | None = None,
    ) -> list[str]:
        """Send a batch, again for exactly what failed; return what failed for good."""
        left, refused = dict(enumerate(contents)), []
        for attempt in range(BATCH_TRIES):
            entries = [
                {"Id": str(i), field: text, **(extra or {})} for i, text in left.items()
            ]
            with reaching(self.url):
                reply = await call(QueueUrl=self.url, Entries=entries)
            failed = reply.get("Failed", [])
            refused += [contents[int(f["Id"])] for f in failed if f["SenderFault"]]
            again = [int(f["Id"]) for f in failed if not f["SenderFault"]]
            left = {i: left[i] for i in again}
            if not left:
                break
            await asyncio.sleep(self.rng.uniform(0, 0.05 * 2.0**attempt))
        return refused + list(left.values())


def read(found: Any) -> Delivery:
    """Return what SQS handed out, parsed if it is one of ours."""
    body = found["Body"]
    try:
        message = Message.model_validate_json(body) if len(body) <= BODY_LIMIT else None
    except ValidationError:
        message = None
    return Delivery(
        message=message,
        body=body,
        receipt=found["ReceiptHandle"],
        message_id=found["MessageId"],
        received=int(found.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
        newer=message is None and is_newer(body),
    )


def is_newer(body: str) -> bool:
    """Say whether a body that we cannot read is a later version's message."""
    try:
        version = json.loads(body).get("v") if len(body) <= BODY_LIMIT else None
    except (ValueError, AttributeError, RecursionError):
        return False
    return type(version) is int and version > SCHEMA


def batches(things: Iterable[Any]) -> Iterable[list[Any]]:
    """Cut things into batches of as many as SQS takes at once."""
    rest = iter(things)
    while batch := list(islice(rest, BATCH)):
        yield batch
