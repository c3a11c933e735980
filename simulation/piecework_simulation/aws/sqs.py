"""Model SQS standard queues in memory: at least once, unordered, with visibility.

A receive never waits: `next_at` and `on_arrival` tell a long poll when to poll again.
Not modelled: FIFO queues, message attributes, changes of a queue, and the limit of
120,000 messages in flight.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import md5
from random import Random
from typing import Any, Final

from piecework_simulation.aws import sqs_requests
from piecework_simulation.aws.errors import Calm, Chaos, error
from piecework_simulation.aws.sqs_messages import (
    ACCOUNT,
    Deliveries,
    MessageQueue,
    Stored,
)
from piecework_simulation.aws.sqs_requests import SIZE_LIMIT, Refusal

_CALM: Final = Calm()


class SQS:
    """The queues of an account.

    Attributes:
        on_arrival: Called with the URL of a queue whose `next_at` may have become
            earlier.
        on_delete: Called for each deleted message. It gets the queue's URL, the
            message's body, and the time of the receive whose handle deleted the
            message.
    """

    def __init__(
        self, now: Callable[[], float], rng: Random, *, chaos: Chaos = _CALM
    ) -> None:
        self.on_arrival: Callable[[str], None] = lambda _url: None
        self.on_delete: Callable[[str, str, float], None] = lambda *_: None
        self._now = now
        self._chaos = chaos
        self._deliveries = Deliveries(now, rng, chaos)
        self._queues: dict[str, MessageQueue] = {}
        self._operations: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "send_message": self._send,
            "receive_message": self._receive,
            "delete_message": self._delete,
            "change_message_visibility": self._hide,
            "get_queue_attributes": self._attributes,
            "get_queue_url": self._url,
        }

    def create_queue(
        self,
        name: str,
        *,
        visibility_s: float = 30.0,
        retention_s: float = 345_600.0,
        redrive: tuple[str, int] | None = None,
    ) -> str:
        """Create a queue and return its URL.

        Args:
            name: The unique name of the queue.
            visibility_s: Seconds that a received message is hidden by default.
            retention_s: Seconds that a message is kept.
            redrive: The dead-letter queue's name, and the receives of a message before
                it moves there.
        """
        dead = self._queues[redrive[0]] if redrive is not None else None
        most = redrive[1] if redrive is not None else 0
        made = MessageQueue(name, visibility_s, retention_s, dead, most, self._now())
        self._queues[name] = made
        return made.url

    def delete_queue(self, url: str) -> None:
        """Delete a queue and its messages, if it exists."""
        self._queues.pop(url.rpartition("/")[2], None)

    def next_at(self, url: str) -> float | None:
        """Return when the next message becomes visible; None without messages."""
        queue = self._queue(url)
        queue.expire(self._now())
        return queue.next_at()

    def call(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Execute a request.

        Raises:
            ClientError: The error that AWS returns.
            NotImplementedError: The model does not cover the operation or the
                parameter.
        """
        one = operation.removesuffix("_batch")
        try:
            if one != operation and one in sqs_requests.BATCHED:
                reply = self._batch(one, request)
            else:
                sqs_requests.known(operation, request)
                reply = self._operations[operation](request)
        except Refusal as refusal:
            raise error(operation, refusal.code, str(refusal)) from None
        self._tell()
        return reply

    def _batch(self, operation: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """Do each entry on its own, once the batch as a whole is well formed."""
        url = self._queue(request["QueueUrl"]).url
        done, failed = [], []
        for entry in sqs_requests.entries(operation, request):
            if self._chaos.fires("sqs.partial"):
                broken = Refusal("InternalError", "The entry was not processed.")
                failed.append(_failure(entry["Id"], broken, senders=False))
                continue
            try:
                reply = self._operations[operation]({**entry, "QueueUrl": url})
                done.append({"Id": entry["Id"], **reply})
            except Refusal as refusal:
                failed.append(_failure(entry["Id"], refusal, senders=True))
        return {"Successful": done, "Failed": failed}

    def _send(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue, body = self._queue(request["QueueUrl"]), sqs_requests.body(request)
        delay_s = sqs_requests.number(request, "DelaySeconds", 0, 0, 900)
        attributes = request.get("MessageAttributes") or {}
        message = self._deliveries.send(queue, body, delay_s, attributes)
        return {"MessageId": message.message_id, "MD5OfMessageBody": _md5(body)}

    def _receive(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue, number = self._queue(request["QueueUrl"]), sqs_requests.number
        most = number(request, "MaxNumberOfMessages", 1, 1, sqs_requests.BATCH)
        number(request, "WaitTimeSeconds", 0, 0, 20)
        usual, longest = queue.visibility_s, sqs_requests.VISIBILITY_LIMIT
        hide_s = number(request, "VisibilityTimeout", usual, 0, longest)
        wanted = wanted_of_message(request)
        senders = frozenset(request.get("MessageAttributeNames") or ())
        messages = [
            {
                "MessageId": message.message_id,
                "ReceiptHandle": queue.handle(message),
                "MD5OfBody": _md5(message.body),
                "Body": message.body,
                **of_message(message, wanted),
                **of_sender(message, senders),
            }
            for message in self._deliveries.deliver(queue, int(most), hide_s)
        ]
        return {"Messages": messages} if messages else {}

    def _delete(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue = self._queue(request["QueueUrl"])
        handle = sqs_requests.required(request, "ReceiptHandle")
        gone = self._deliveries.delete(queue, handle)
        if gone is not None:
            self.on_delete(queue.url, *gone)
        return {}

    def _hide(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue = self._queue(request["QueueUrl"])
        handle = sqs_requests.required(request, "ReceiptHandle")
        if request.get("VisibilityTimeout") is None:
            raise Refusal("MissingParameter", "VisibilityTimeout is missing.")
        longest = sqs_requests.VISIBILITY_LIMIT
        seconds = sqs_requests.number(request, "VisibilityTimeout", 0, 0, longest)
        self._deliveries.hide(queue, handle, seconds)
        return {}

    def _attributes(self, request: Mapping[str, Any]) -> dict[str, Any]:
        queue = self._queue(request["QueueUrl"])
        queue.expire(self._now())
        return of_queue(queue, request, self._now())

    def _url(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"QueueUrl": self._queue(request["QueueName"]).url}

    def _queue(self, url: str) -> MessageQueue:
        queue = self._queues.get(url.rpartition("/")[2])
        if queue is None:
            raise sqs_requests.no_such_queue()
        return queue

    def _tell(self) -> None:
        """Wake the waiting polls after the request; they may call back at once."""
        for url in self._deliveries.arrivals():
            self.on_arrival(url)


def _failure(entry: str, refusal: Refusal, *, senders: bool) -> dict[str, Any]:
    said = {"Code": refusal.code, "Message": str(refusal)}
    return {"Id": entry, **said, "SenderFault": senders}


def _md5(body: str) -> str:
    return md5(body.encode(), usedforsecurity=False).hexdigest()


# ── attributes of queues and messages that a request names ────────────────────

_OF_MESSAGE = frozenset(
    {
        "All",
        "ApproximateFirstReceiveTimestamp",
        "ApproximateReceiveCount",
        "DeadLetterQueueSourceArn",
        "SenderId",
        "SentTimestamp",
    }
)


def wanted_of_message(request: Mapping[str, Any]) -> frozenset[str]:
    """Return the attributes that a receive requests, under either parameter name."""
    names: Sequence[str] = (
        request.get("MessageSystemAttributeNames")
        or request.get("AttributeNames")
        or ()
    )
    return _known(frozenset(names), _OF_MESSAGE)


def of_message(message: Stored, wanted: frozenset[str]) -> dict[str, dict[str, str]]:
    """Return the attributes of a message just received."""
    if not wanted:
        return {}
    found = {
        "SenderId": ACCOUNT,
        "SentTimestamp": _milliseconds(message.sent_at),
        "ApproximateReceiveCount": str(len(message.receives)),
        "ApproximateFirstReceiveTimestamp": _milliseconds(message.receives[0]),
    }
    if message.source_arn is not None:
        found["DeadLetterQueueSourceArn"] = message.source_arn
    if "All" not in wanted:
        found = {name: text for name, text in found.items() if name in wanted}
    return {"Attributes": found} if found else {}


def of_sender(message: Stored, wanted: frozenset[str]) -> dict[str, Any]:
    """Return the attributes that the sender gave a message, by their whole names.

    AWS also takes the beginning of a name, and answers with a sum of the attributes.
    """
    found = {
        name: value
        for name, value in message.attributes.items()
        if "All" in wanted or name in wanted
    }
    return {"MessageAttributes": found} if found else {}


def of_queue(
    queue: MessageQueue, request: Mapping[str, Any], now: float
) -> dict[str, Any]:
    """Return a queue's attributes; those of AWS that are missing here are refused."""
    found = {name: str(n) for name, n in queue.counts(now).items()}
    found |= {
        "QueueArn": queue.arn,
        "CreatedTimestamp": str(int(queue.created_at)),
        "VisibilityTimeout": str(int(queue.visibility_s)),
        "MessageRetentionPeriod": str(int(queue.retention_s)),
        "MaximumMessageSize": str(SIZE_LIMIT),
        "DelaySeconds": "0",
    }
    if queue.dead is not None:
        most = queue.most_receives
        policy = {"deadLetterTargetArn": queue.dead.arn, "maxReceiveCount": most}
        found["RedrivePolicy"] = json.dumps(policy)
    names = frozenset(request.get("AttributeNames") or ())
    known = frozenset(found) | {"All", "RedrivePolicy"}
    wanted = _known(names, known)
    if "All" not in wanted:
        found = {name: text for name, text in found.items() if name in wanted}
    return {"Attributes": found} if found else {}


def _known(names: frozenset[str], known: frozenset[str]) -> frozenset[str]:
    if not names <= known:
        unknown = ", ".join(sorted(names - known))
        raise NotImplementedError(f"The model of SQS has no attribute {unknown}.")
    return names


def _milliseconds(moment: float) -> str:
    return str(int(moment * 1000))
