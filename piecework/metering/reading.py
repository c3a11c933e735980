"""Read a request and its answer: what it counts as, and for whom.

One function a service; what a service is not known by here counts as a request of
nobody's, so that nothing goes unseen.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from piecework.keys import BREAKERS_PK
from piecework.metering import capacity
from piecework.metering.owners import (
    NOBODY,
    WHOLE,
    Receipts,
    Shares,
    owner_of_message,
    owner_of_object,
    owner_of_partition,
    partition_of,
    shared,
)
from piecework.metering.units import sqs_requests, text_size


class Seen(NamedTuple):
    """What there is to count of one answered attempt.

    Attributes:
        requests: What it is billed as, in requests.
        units: DynamoDB's read or write units.
        sent, fetched: Bytes to and from S3.
        found, written: Whether it has found, or written, something of its job's.
    """

    shares: Shares
    requests: int = 1
    units: float = 0
    sent: int = 0
    fetched: int = 0
    found: bool = False
    written: bool = False


@dataclass(slots=True)
class Reader:
    """Reads what one process asks of AWS.

    Attributes:
        trusted: Whether what an answer says of consumed capacity is AWS's own word.
        in_hand: Who shares what a worker asks for all that it has in hand.
    """

    trusted: bool
    in_hand: Callable[[], Shares]
    receipts: Receipts

    def read(
        self, service: str, operation: str, params: Mapping[str, Any], answer: Any
    ) -> Seen:
        """Read an attempt; without an answer it was sent, and that is all."""
        answer = answer or {}
        match service:
            case "dynamodb":
                return self._table(operation, params, answer)
            case "sqs":
                return self._queue(operation, params, answer)
            case "s3":
                return self._bucket(operation, params, answer)
            case _:
                return Seen(NOBODY)

    def _table(
        self, operation: str, params: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> Seen:
        units = 0.0
        if answer:
            units = capacity.consumed(operation, params, answer, trusted=self.trusted)
        pk = partition_of(params)
        if pk == BREAKERS_PK:
            return Seen(self.in_hand(), units=units)
        shares = ((owner_of_partition(pk), WHOLE),)
        if operation in capacity.READS:
            found = bool(answer.get("Item") or answer.get("Items"))
            return Seen(shares, units=units, found=found)
        done = bool(answer) and "Error" not in answer
        return Seen(shares, units=units, found=done, written=done)

    def _queue(
        self, operation: str, params: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> Seen:
        entries = params.get("Entries", [])
        match operation:
            case "SendMessageBatch":
                bodies = [entry["MessageBody"] for entry in entries]
                shares = shared(map(owner_of_message, bodies))
                return Seen(shares, sqs_requests(sum(map(text_size, bodies))))
            case "ReceiveMessage":
                return self._received(answer.get("Messages", []))
            case "DeleteMessageBatch" | "ChangeMessageVisibilityBatch":
                last = operation == "DeleteMessageBatch" and "Failed" not in answer
                owner = self.receipts.owner
                receipts = [entry["ReceiptHandle"] for entry in entries]
                return Seen(shared(owner(r, last=last) for r in receipts))
            case _:
                return Seen(NOBODY)

    def _received(self, messages: list[Any]) -> Seen:
        owners = [owner_of_message(message["Body"]) for message in messages]
        for message, owner in zip(messages, owners, strict=True):
            self.receipts.note(message["ReceiptHandle"], owner)
        size = sum(text_size(message["Body"]) for message in messages)
        return Seen(shared(owners), sqs_requests(size))

    def _bucket(
        self, operation: str, params: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> Seen:
        place = params.get("Key") or params.get("Prefix") or ""
        shares = ((owner_of_object(str(place)), WHOLE),)
        fetched = answer.get("ContentLength", 0) if operation == "GetObject" else 0
        return Seen(shares, sent=params.get("Body", 0), fetched=int(fetched))
