"""The operations on an SQS queue: send, receive, hide, delete.

A batch call may answer 200 with failed entries. Each operation sends failed entries
again.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from piecework.aws.errors import part_of, reaching
from piecework.domain import keys
from piecework.domain.refs import ChunkRef
from piecework.domain.schema import MESSAGES
from piecework.domain.strict_json import KIB, Bounds, JsonRefusedError, read_json
from piecework.errors.redaction import redact

if TYPE_CHECKING:
    from types_aiobotocore_sqs.client import SQSClient

BATCH = 10
BATCH_TRIES = 5
#: 12 hours, less a minute between the receive of a message and the request to hide it.
LONGEST_HIDE_S = 43_140
#: Bytes of a message body that is parsed. A message of a chunk has about 100.
BODY_LIMIT = 16 * KIB
BOUNDS = Bounds(BODY_LIMIT)
#: Versions by which a message may be ahead of this code.
MOST_AHEAD = 1_000
_FIELDS = frozenset({"v", "tenant", "job", "chunk", "gen"})
_NAME = r"^[A-Za-z0-9_-]{1,64}$"


class Address(BaseModel):
    """The fields that messages of all versions have in common: the chunk."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True)

    tenant: str = Field(pattern=_NAME)
    job: str = Field(pattern=_NAME)
    chunk: int = Field(ge=keys.JOIN_CHUNK, le=keys.MAX_CHUNK_NUMBER)

    @property
    def ref(self) -> ChunkRef:
        """The chunk that the message names."""
        return ChunkRef(self.tenant, self.job, self.chunk)


class Message(Address):
    """The content of a message: a chunk and its generation."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: int = Field(default=MESSAGES, ge=1, le=MESSAGES)
    gen: int = Field(ge=1, le=keys.MAX_GENERATION)

    @classmethod
    def about(cls, ref: ChunkRef, gen: int) -> Message:
        """Return the message that dispatches a chunk."""
        return cls(tenant=ref.tenant, job=ref.job, chunk=ref.chunk, gen=gen)


class Receipt(NamedTuple):
    """The right to hide or delete a message: of one receive, in one queue."""

    handle: str
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Delivery:
    """A received message.

    Attributes:
        message: The parsed message; None if it is malformed or of a newer version.
        newer: Whether the message is of a newer version: newer workers handle it.
        address: The chunk of a message of a newer version; None if it is not readable.
        received: How often SQS has delivered the message, this time included.
    """

    message: Message | None
    body: str
    receipt: Receipt
    message_id: str
    received: int
    newer: bool = False
    address: ChunkRef | None = None

    @property
    def ref(self) -> ChunkRef | None:
        """The chunk that the message names; None if it is not readable."""
        return self.message.ref if self.message else self.address


@dataclass(slots=True)
class Queue:
    """An SQS queue; `name`: that of a pipeline's queue, as the pipeline declares it."""

    client: SQSClient
    url: str
    rng: Random
    name: str = ""

    async def send(self, messages: Sequence[Message], *, delay_s: float = 0.0) -> int:
        """Send messages; return how many SQS accepted. A delay is 900 s at most."""
        extra = {"DelaySeconds": min(math.ceil(delay_s), 900)} if delay_s else None
        taken = 0
        for batch in batches(messages):
            bodies = [m.model_dump_json() for m in batch]
            send = self.client.send_message_batch
            failed = await self._all(send, "MessageBody", bodies, extra)
            taken += len(batch) - len(failed)
        return taken

    async def send_back(self, body: str) -> bool:
        """Send the body of a received message again, without reading it."""
        send = self.client.send_message_batch
        return not await self._all(send, "MessageBody", [body])

    async def receive(self, most: int, *, wait_s: int, hide_s: float) -> list[Delivery]:
        """Receive up to `most` messages, 10 at most, and hide them for `hide_s`."""
        with reaching(self.url):
            reply = await self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(most, BATCH),
                WaitTimeSeconds=wait_s,
                VisibilityTimeout=math.ceil(hide_s),
                MessageSystemAttributeNames=["ApproximateReceiveCount"],
            )
            found = part_of(reply, "Messages", list, [])
            return [read(each, self.name) for each in found]

    async def hide(self, receipts: Sequence[Receipt], seconds: float) -> None:
        """Hide messages for some seconds from now; ignore those that are gone.

        SQS refuses a time that ends more than 12 hours after the receive. A message is
        hidden for at most `LONGEST_HIDE_S`, so that one just received is not refused.
        """
        extra = {"VisibilityTimeout": min(math.ceil(seconds), LONGEST_HIDE_S)}
        change = self.client.change_message_visibility_batch
        for batch in batches(receipts):
            handles = [receipt.handle for receipt in batch]
            await self._all(change, "ReceiptHandle", handles, extra)

    async def delete(self, receipts: Sequence[Receipt]) -> None:
        """Delete messages; a copy that SQS delivers later meets an ended chunk."""
        delete = self.client.delete_message_batch
        for batch in batches(receipts):
            handles = [receipt.handle for receipt in batch]
            await self._all(delete, "ReceiptHandle", handles)

    async def depth(self) -> int:
        """Return the approximate number of messages, with hidden and delayed ones."""
        names: list[Any] = [
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ]
        with reaching(self.url):
            reply = await self.client.get_queue_attributes(
                QueueUrl=self.url, AttributeNames=names
            )
            counts = part_of(reply, "Attributes", dict)
        return sum(int(counts.get(name, "0")) for name in names)

    async def _all(
        self,
        call: Callable[..., Awaitable[Any]],
        field: str,
        contents: Sequence[str],
        extra: dict[str, Any] | None = None,
    ) -> list[str]:
        """Send batches, failed entries again; return those that failed each time."""
        left, refused = dict(enumerate(contents)), []
        for attempt in range(BATCH_TRIES):
            entries = [
                {"Id": str(i), field: text, **(extra or {})} for i, text in left.items()
            ]
            with reaching(self.url):
                reply = await call(QueueUrl=self.url, Entries=entries)
                failed = part_of(reply, "Failed", list, [])
            refused += [contents[int(f["Id"])] for f in failed if f["SenderFault"]]
            again = [int(f["Id"]) for f in failed if not f["SenderFault"]]
            left = {i: left[i] for i in again}
            if not left:
                break
            await asyncio.sleep(self.rng.uniform(0, 0.05 * 2.0**attempt))
        return refused + list(left.values())


def read(found: Any, queue: str = "") -> Delivery:
    """Return a message that was received from a queue, parsed if it is well-formed."""
    body = found["Body"]
    try:
        content = read_json(body, BOUNDS)
        message = Message.model_validate(content)
    except JsonRefusedError:
        content = message = None
    except ValidationError:
        message = None
    newer = message is None and is_newer(content)
    return Delivery(
        message=message,
        body=body,
        receipt=Receipt(found["ReceiptHandle"], queue),
        message_id=found["MessageId"],
        received=int(found.get("Attributes", {}).get("ApproximateReceiveCount", 1)),
        newer=newer,
        address=address(content) if newer else None,
    )


def is_newer(content: Any) -> bool:
    """Return whether a message is of a version that this code does not know.

    A number that no version will have is an error of the sender.
    """
    version = content.get("v") if isinstance(content, dict) else None
    return type(version) is int and MESSAGES < version <= MESSAGES + MOST_AHEAD


def address(content: Any) -> ChunkRef | None:
    """Return the chunk of a message of a newer version; None: it is not readable."""
    try:
        return Address.model_validate(content).ref
    except ValidationError:
        return None


def describe_malformed(body: str) -> str:
    """Describe a malformed message without its content.

    Known fields with well-formed values are kept: they may show the sender.
    """
    size = f"{len(body):,} characters"
    try:
        content = read_json(body, BOUNDS)
    except JsonRefusedError as error:
        return f"{size}: {error}"
    if not isinstance(content, dict):
        return f"{size}: a JSON {type(content).__name__}"
    kept = {
        name: content[name]
        for name in _FIELDS & content.keys()
        if _is_well_formed(content[name])
    }
    fields = ", ".join(f"{name}={kept[name]}" for name in sorted(kept))
    return (
        f"{size}: {fields or 'no known field'}; {len(content) - len(kept)} other fields"
    )


def _is_well_formed(value: Any) -> bool:
    """Return whether a value is a number or a name without a secret."""
    if isinstance(value, str):
        return keys.is_name(value) and redact(value) == value
    return type(value) is int and abs(value) <= keys.MAX_CHUNK_NUMBER


def batches(things: Iterable[Any]) -> Iterable[list[Any]]:
    """Cut things into batches of the size that SQS accepts."""
    rest = iter(things)
    while batch := list(islice(rest, BATCH)):
        yield batch
