"""SQS as a few verbs: send, receive, hide, delete. A message is only a hint.

Every batch call may answer 200 and still have failed entries; each verb says which
ones it can vouch for.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piecework.aws.errors import reaching
from piecework.domain import keys
from piecework.domain.model import ChunkRef
from piecework.domain.records import KIB, MESSAGES, Bounds, JsonRefusedError, read_json
from piecework.errors.redaction import redact

if TYPE_CHECKING:
    from types_aiobotocore_sqs.client import SQSClient

BATCH = 10
BATCH_TRIES = 5
#: Bytes of a message body that are parsed at all; ours have about 100.
BODY_LIMIT = 16 * KIB
BOUNDS = Bounds(BODY_LIMIT)
_OURS = frozenset({"v", "tenant", "job", "chunk", "gen"})
_NAME = r"^[A-Za-z0-9_-]{1,64}$"


class Address(BaseModel):
    """What every version's message says as ours does: which chunk it is for."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    tenant: str = Field(pattern=_NAME)
    job: str = Field(pattern=_NAME)
    chunk: int = Field(ge=keys.JOIN_CHUNK, le=keys.MAX_CHUNK_NUMBER)

    @property
    def ref(self) -> ChunkRef:
        """The chunk that it is for."""
        return ChunkRef(self.tenant, self.job, self.chunk)


class Message(Address):
    """What a message says: whose turn it is, and in which life of the chunk."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: int = Field(default=MESSAGES, ge=1, le=MESSAGES)
    gen: int = Field(ge=1, le=keys.MAX_GENERATION)

    @classmethod
    def about(cls, ref: ChunkRef, gen: int) -> Message:
        """Return the message that hands out a chunk."""
        return cls(tenant=ref.tenant, job=ref.job, chunk=ref.chunk, gen=gen)


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message in hand.

    Attributes:
        message: What it says; None when it is not one of ours.
        newer: It is of a version that this worker does not know: left to others.
        address: Which chunk a newer one is for; None if it does not say so.
        received: How often SQS has handed it out, this time included.
    """

    message: Message | None
    body: str
    receipt: str
    message_id: str
    received: int
    newer: bool = False
    address: ChunkRef | None = None

    @property
    def ref(self) -> ChunkRef | None:
        """The chunk that it is for, if that can be told."""
        return self.message.ref if self.message else self.address


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

    async def send_back(self, body: str) -> bool:
        """Send a message as it came, in words that we need not know."""
        send = self.client.send_message_batch
        return not await self._all(send, "MessageBody", [body])

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
        said = read_json(body, BOUNDS)
        message = Message.model_validate(said)
    except JsonRefusedError:
        said = message = None
    except ValidationError:
        message = None
    newer = message is None and is_newer(said)
    return Delivery(
        message=message,
        body=body,
        receipt=found["ReceiptHandle"],
        message_id=found["MessageId"],
        received=int(found.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
        newer=newer,
        address=address(said) if newer else None,
    )


def is_newer(said: Any) -> bool:
    """Say whether what we cannot take for one of ours is a later version's message."""
    version = said.get("v") if isinstance(said, dict) else None
    return type(version) is int and version > MESSAGES


def address(said: Any) -> ChunkRef | None:
    """Return which chunk a message is for that says more than we know."""
    try:
        return Address.model_validate(said).ref
    except ValidationError:
        return None


def sketch(body: str) -> str:
    """Return what a message that is none of ours looks like: never its words.

    Those of our fields that are sound are kept, for they tell where it came from.
    """
    size = f"{len(body):,} characters"
    try:
        said = read_json(body, BOUNDS)
    except JsonRefusedError as error:
        return f"{size}: {error}"
    if not isinstance(said, dict):
        return f"{size}: a JSON {type(said).__name__}"
    kept = {name: said[name] for name in _OURS & said.keys() if _sound(said[name])}
    ours = ", ".join(f"{name}={kept[name]}" for name in sorted(kept))
    return f"{size}: {ours or 'nothing of ours'}; {len(said) - len(kept)} more fields"


def _sound(value: Any) -> bool:
    """Say whether a value may stand in one of our fields: a number, or a clean name."""
    if isinstance(value, str):
        return keys.is_name(value) and redact(value) == value
    return type(value) is int and abs(value) <= keys.MAX_CHUNK_NUMBER


def batches(things: Iterable[Any]) -> Iterable[list[Any]]:
    """Cut things into batches of as many as SQS takes at once."""
    rest = iter(things)
    while batch := list(islice(rest, BATCH)):
        yield batch
