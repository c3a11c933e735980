"""The HTTP side of SQS: its JSON protocol, changes of queues, and polls that wait."""

from __future__ import annotations

import json
from asyncio import AbstractEventLoop, TimerHandle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from botocore.exceptions import ClientError

from piecework_simulation.aws import sqs_messages
from piecework_simulation.aws.sqs import SQS
from piecework_simulation.aws_server.http import (
    JSON,
    Answer,
    Respond,
    error_document,
    ok_answer,
    unknown_operation,
)

Document = dict[str, Any]
#: The method of the model for each operation of AWS.
OPERATIONS = {
    "SendMessage": "send_message",
    "SendMessageBatch": "send_message_batch",
    "ReceiveMessage": "receive_message",
    "DeleteMessage": "delete_message",
    "DeleteMessageBatch": "delete_message_batch",
    "ChangeMessageVisibility": "change_message_visibility",
    "ChangeMessageVisibilityBatch": "change_message_visibility_batch",
    "GetQueueAttributes": "get_queue_attributes",
    "GetQueueUrl": "get_queue_url",
}
#: A parameter of a receive that changes nothing in a standard queue.
IDLE = "ReceiveRequestAttemptId"
WAIT = "ReceiveMessageWaitTimeSeconds"
#: Attributes of a queue, to the model's names. Then those that it does without. It
#: refuses all others.
MODELLED = {
    "VisibilityTimeout": "visibility_s",
    "MessageRetentionPeriod": "retention_s",
}
UNSEEN = frozenset({"SqsManagedSseEnabled", "KmsMasterKeyId", "MaximumMessageSize"})
#: What AWS calls errors in the JSON protocol, where that is not the end of their code.
SHAPES = {"NonExistentQueue": "QueueDoesNotExist"}


class Queues:
    """The queues of an account.

    Attributes:
        arrived: The model's `on_arrival` must call it.
    """

    def __init__(
        self, loop: AbstractEventLoop, now: Callable[[], float], model: SQS
    ) -> None:
        self._model = model
        self._polls = LongPolls(loop, model, now)
        self.arrived = self._polls.arrived
        self._waits: dict[str, int] = {}
        self._others: Mapping[str, Callable[[Document, str], Document]] = {
            "CreateQueue": self._create,
            "DeleteQueue": self._delete,
            "ListQueues": self._list,
            "GetQueueUrl": self._url,
        }

    def handle(
        self, action: str, body: bytes, host: str, respond: Respond
    ) -> Callable[[], None] | None:
        """Answer a request now or later; return what cancels a later answer."""
        request = json.loads(body)
        try:
            if action in self._others:
                respond(ok_answer(self._others[action](request, host)))
            elif action == "ReceiveMessage":
                return self._receive(request, respond)
            elif action in OPERATIONS:
                respond(ok_answer(self._model.call(OPERATIONS[action], request)))
            else:
                respond(unknown_operation(action))
        except ClientError as error:
            respond(error_answer(error))
        except NotImplementedError as why:
            respond(unknown_operation(why))
        return None

    def _receive(
        self, request: Document, respond: Respond
    ) -> Callable[[], None] | None:
        """Return messages as soon as there are some."""
        request.pop(IDLE, None)
        queue = name_of(request["QueueUrl"])
        wait_s = request.get("WaitTimeSeconds", self._waits.get(queue, 0))
        reply = self._model.call("receive_message", request)
        if "Messages" in reply or not wait_s:
            respond(ok_answer(reply))
            return None
        poll = Poll(request, queue, lambda reply: respond(ok_answer(reply)))
        return self._polls.wait(poll, wait_s)

    def _create(self, request: Document, host: str) -> Document:
        name = request["QueueName"]
        if name not in self._waits:
            self._make(name, dict(request.get("Attributes", {})))
        return {"QueueUrl": url(host, name)}

    def _make(self, name: str, attributes: dict[str, str]) -> None:
        wait_s = int(attributes.pop(WAIT, "0"))
        parts: dict[str, Any] = {}
        if policy := attributes.pop("RedrivePolicy", ""):
            said = json.loads(policy)
            dead = said["deadLetterTargetArn"].rpartition(":")[2]
            parts["redrive"] = (dead, int(said["maxReceiveCount"]))
        for attribute, value in attributes.items():
            if attribute in MODELLED:
                parts[MODELLED[attribute]] = float(value)
            elif attribute not in UNSEEN:
                raise NotImplementedError(f"the attribute {attribute} of a queue")
        self._model.create_queue(name, **parts)
        self._waits[name] = wait_s

    def _delete(self, request: Document, _: str) -> Document:
        self._model.call("get_queue_attributes", {"QueueUrl": request["QueueUrl"]})
        self._model.delete_queue(request["QueueUrl"])
        del self._waits[name_of(request["QueueUrl"])]
        return {}

    def _list(self, request: Document, host: str) -> Document:
        prefix = request.get("QueueNamePrefix", "")
        names = [name for name in self._waits if name.startswith(prefix)]
        return {"QueueUrls": [url(host, name) for name in names]} if names else {}

    def _url(self, request: Document, host: str) -> Document:
        self._model.call("get_queue_url", request)
        return {"QueueUrl": url(host, request["QueueName"])}


def name_of(queue: str) -> str:
    """Return a queue's name, by its URL."""
    return queue.rpartition("/")[2]


def url(host: str, name: str) -> str:
    """Return a queue's URL, which some clients use as the endpoint."""
    return f"http://{host}/{sqs_messages.ACCOUNT}/{name}"


def error_answer(error: ClientError) -> Answer:
    """Return an error, with its names for JSON and for older clients."""
    said = error_document(error)
    said["__type"] = SHAPES.get(said["__type"], said["__type"])
    older = f"{error.response['Error']['Code']};Sender"
    headers = {"Content-Type": JSON, "x-amzn-query-error": older}
    return Answer(HTTPStatus.BAD_REQUEST, json.dumps(said).encode(), headers)


# ── receives that wait for a message ──────────────────────────────────────────

#: Seconds by which a due message may be found too late.
LATE_S = 0.001


@dataclass(slots=True, eq=False)
class Poll:
    """A receive that waits.

    Attributes:
        until: When it ends with nothing, by the loop's clock.
    """

    request: Mapping[str, Any]
    queue: str
    reply: Callable[[Mapping[str, Any]], None]
    until: float = 0.0
    timer: TimerHandle | None = None


class LongPolls:
    """The open polls of all queues."""

    def __init__(
        self, loop: AbstractEventLoop, model: SQS, now: Callable[[], float]
    ) -> None:
        self._loop = loop
        self._now = now
        self._model = model
        self._waiting: dict[str, list[Poll]] = {}

    def wait(self, poll: Poll, wait_s: float) -> Callable[[], None]:
        """Keep an empty poll open; return a function that cancels it."""
        poll.until = self._loop.time() + wait_s
        self._waiting.setdefault(poll.queue, []).append(poll)
        self._set(poll)
        return lambda: self._end(poll)

    def arrived(self, url: str) -> None:
        """Retry the open polls of a queue, in their order."""
        waiting = self._waiting.get(url.rpartition("/")[2], [])
        while waiting and self._retry(waiting[0]):
            pass

    def _retry(self, poll: Poll) -> bool:
        """Answer a poll if there are messages; return whether it was answered."""
        try:
            reply = self._model.call("receive_message", poll.request)
        except ClientError:  # the queue was deleted
            reply = {}
            poll.until = 0.0
        if "Messages" not in reply and self._loop.time() < poll.until:
            self._set(poll)
            return False
        self._end(poll)
        poll.reply(reply)
        return True

    def _set(self, poll: Poll) -> None:
        """Schedule a retry of a poll for the next visible message, or for its end."""
        if poll.timer is not None:
            poll.timer.cancel()
        due = self._model.next_at(str(poll.request["QueueUrl"]))
        at = poll.until
        if due is not None:
            at = min(at, self._loop.time() + max(0.0, due - self._now()) + LATE_S)
        poll.timer = self._loop.call_at(at, self._retry, poll)

    def _end(self, poll: Poll) -> None:
        """Wait no longer."""
        if poll.timer is not None:
            poll.timer.cancel()
        waiting = self._waiting[poll.queue]
        if poll in waiting:
            waiting.remove(poll)
