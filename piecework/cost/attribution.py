"""Attribute each request to the jobs that it was made for, each with its share.

The keys of tables, objects and messages name the job. A receipt does not, so the meter
remembers the message of each receipt.
"""

from __future__ import annotations

import json
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from piecework.cost import units as capacity
from piecework.cost.units import sqs_requests, text_size
from piecework.domain.keys import (
    BREAKERS_PK,
    COST_PREFIX,
    is_name,
    job_of_object,
    job_of_pk,
)
from piecework.domain.refs import JobRef

#: A job, or None for a request that belongs to no job.
Owner: TypeAlias = JobRef | None
#: Each owner's share of a request, in thousandths.
Shares: TypeAlias = Sequence[tuple[Owner, int]]

WHOLE: Final = 1000
UNOWNED: Final[Shares] = ((None, WHOLE),)
#: A message of Piecework as it is written; any other text is parsed as JSON.
MESSAGE = re.compile(
    r'\{"tenant":"([A-Za-z0-9_-]{1,64})","job":"([A-Za-z0-9_-]{1,64})",'
    r'"chunk":-?[0-9]{1,9},"v":[0-9]{1,9},"gen":[0-9]{1,9}\}'
)
#: Characters up to which a message is parsed; messages of Piecework have about 100.
MESSAGE_LIMIT = 1_000
#: Receipts that are remembered: more than a worker ever holds.
RECEIPTS_KEPT = 10_000


@lru_cache(4096)
def owner_of_partition(pk: str) -> Owner:
    """Return the job that a partition belongs to."""
    found = job_of_pk(pk)
    return JobRef(*found) if found else None


def owner_of_object(key: str) -> Owner:
    """Return the job that an object belongs to."""
    found = job_of_object(key)
    return JobRef(*found) if found else None


def owner_of_message(body: str) -> Owner:
    """Return the job that a message names; None if it is not Piecework's message."""
    if len(body) > MESSAGE_LIMIT:
        return None
    plain = MESSAGE.fullmatch(body)
    if plain is not None:
        return JobRef(plain[1], plain[2])
    try:
        message = json.loads(body)
        return named(message["tenant"], message["job"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None


def named(tenant: Any, job: Any) -> Owner:
    """Return a job if both names are valid: a received message may contain anything."""
    if isinstance(tenant, str) and isinstance(job, str):
        return JobRef(tenant, job) if is_name(tenant) and is_name(job) else None
    return None


def partition_of(params: Mapping[str, Any]) -> str:
    """Return the partition of a request to a table; the first one of several."""
    if "TransactItems" in params:
        action = next(iter(params["TransactItems"][0].values()))
        return partition_of(action)
    if "Statements" in params:  # of insertions, whose first value is the partition
        return str(params["Statements"][0]["Parameters"][0]["S"])
    if "RequestItems" in params:  # of deletions, or of reads
        some = next(iter(params["RequestItems"].values()))
        first = some["Keys"][0] if "Keys" in some else some[0]["DeleteRequest"]["Key"]
        return str(first["pk"]["S"])
    place = params.get("Key") or params.get("Item")
    if place is None:
        place = {"pk": params.get("ExpressionAttributeValues", {}).get(":pk")}
    return str((place["pk"] or {}).get("S", ""))


def keeps_costs(params: Mapping[str, Any]) -> bool:
    """Return whether a request writes counts; its counts include the request itself."""
    sk = params.get("Key", {}).get("sk", {}).get("S", "")
    return str(sk).startswith(COST_PREFIX)


def shared(owners: Iterable[Owner]) -> Shares:
    """Share a request evenly among the owners of its messages, in thousandths.

    The first owner gets the remainder, so that the shares add up to the request.
    """
    found = list(owners)
    if not found:
        return UNOWNED
    parts: dict[Owner, int] = {}
    for owner in found:
        parts[owner] = parts.get(owner, 0) + WHOLE // len(found)
    parts[found[0]] += WHOLE % len(found)
    return tuple(parts.items())


@dataclass(slots=True)
class Receipts:
    """The job of each received message, by its receipt."""

    _owners: OrderedDict[str, Owner] = field(default_factory=OrderedDict)

    def note(self, receipt: str, owner: Owner) -> None:
        """Remember the owner of a received message."""
        self._owners[receipt] = owner
        if len(self._owners) > RECEIPTS_KEPT:
            self._owners.popitem(last=False)

    def owner(self, receipt: str, *, last: bool) -> Owner:
        """Return the owner; forget the receipt after its last use."""
        if last:
            return self._owners.pop(receipt, None)
        return self._owners.get(receipt)


# ── read a request and its answer ─────────────────────────────────────────────
#
# Each service has one function. A request to any other service counts as a request
# without an owner, so that no request is missed.


class Seen(NamedTuple):
    """The counts of one attempt.

    Attributes:
        requests: The number of billed requests.
        units: DynamoDB's read or write units.
        sent, fetched: Bytes to and from S3.
        found, written: Whether the attempt found, or wrote, an item of its job.
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
    """Reads the requests of one process to AWS.

    Attributes:
        trusted: Whether AWS itself reports the consumed capacity; emulators misreport.
        in_progress: The jobs that share a request made for all chunks in progress.
    """

    trusted: bool
    in_progress: Callable[[], Shares]
    receipts: Receipts

    def read(
        self, service: str, operation: str, params: Mapping[str, Any], answer: Any
    ) -> Seen:
        """Return the counts of an attempt; it may have no answer."""
        answer = answer or {}
        match service:
            case "dynamodb":
                return self._table(operation, params, answer)
            case "sqs":
                return self._queue(operation, params, answer)
            case "s3":
                return self._bucket(operation, params, answer)
            case _:
                return Seen(UNOWNED)

    def _table(
        self, operation: str, params: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> Seen:
        units = 0.0
        if answer:
            units = capacity.consumed(operation, params, answer, trusted=self.trusted)
        pk = partition_of(params)
        if pk == BREAKERS_PK:
            return Seen(self.in_progress(), units=units)
        shares = ((owner_of_partition(pk), WHOLE),)
        if operation in capacity.READS:
            found = any(map(answer.get, ("Item", "Items", "Responses")))
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
                return Seen(UNOWNED)

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
