"""Validate SQS requests: numbers, bodies, batches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

#: Bytes of a message, and of a batch's messages together.
SIZE_LIMIT = 1_048_576
BATCH = 10
BATCHED = frozenset({"send_message", "delete_message", "change_message_visibility"})
VISIBILITY_LIMIT = 43_200
_NAMESPACE = "AWS.SimpleQueueService."
_ENTRIES = frozenset({"QueueUrl", "Entries"})
_HANDLE = frozenset({"QueueUrl", "ReceiptHandle", "Id"})
_RECEIVE = ("MaxNumberOfMessages", "WaitTimeSeconds", "VisibilityTimeout")
_ATTRIBUTES = ("AttributeNames", "MessageSystemAttributeNames")
_KNOWN: Final = {
    "send_message": frozenset(
        {"QueueUrl", "MessageBody", "DelaySeconds", "Id", "MessageAttributes"}
    ),
    "send_message_batch": _ENTRIES,
    "receive_message": frozenset(
        {"QueueUrl", *_RECEIVE, *_ATTRIBUTES, "MessageAttributeNames"}
    ),
    "delete_message": _HANDLE,
    "delete_message_batch": _ENTRIES,
    "change_message_visibility": _HANDLE | {"VisibilityTimeout"},
    "change_message_visibility_batch": _ENTRIES,
    "get_queue_attributes": frozenset({"QueueUrl", "AttributeNames"}),
    "get_queue_url": frozenset({"QueueName"}),
}
_ID = re.compile(r"[A-Za-z0-9_-]{1,80}")
_UNSENDABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Refusal(Exception):  # noqa: N818 -- a reply of SQS, not a failure of the model
    """SQS refuses a request or an entry, by a code and a sentence."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def known(operation: str, request: Mapping[str, Any]) -> None:
    """Raise for unknown operations and parameters, instead of ignoring them.

    Raises:
        NotImplementedError: The model does not cover the operation or the parameter.
    """
    if operation not in _KNOWN:
        raise NotImplementedError(f"The model of SQS has no {operation}.")
    if not request.keys() <= _KNOWN[operation]:
        unknown = ", ".join(sorted(request.keys() - _KNOWN[operation]))
        raise NotImplementedError(f"The model of SQS has no {unknown} in {operation}.")


def number(
    request: Mapping[str, Any], name: str, default: float, least: int, most: int
) -> float:
    """Return a whole number of the request, within its bounds."""
    value = request.get(name)
    if value is None:
        return default
    if type(value) is not int:
        raise Refusal("SerializationException", f"{name} is not a whole number.")
    if not least <= value <= most:
        message = f"Value {value} for parameter {name} is invalid. Reason: Must be "
        raise Refusal("InvalidParameterValue", f"{message}between {least} and {most}.")
    return value


def body(request: Mapping[str, Any]) -> str:
    """Return the text of a message that may be sent."""
    text = required(request, "MessageBody")
    if _UNSENDABLE.search(text):
        message = "The message contains characters outside the allowed set."
        raise Refusal("InvalidMessageContents", message)
    if len(text) > SIZE_LIMIT or len(text.encode()) > SIZE_LIMIT:
        message = f"Message must be shorter than {SIZE_LIMIT} bytes."
        raise Refusal("InvalidParameterValue", message)
    return text


def required(request: Mapping[str, Any], name: str) -> str:
    """Return a text that the request must have."""
    text: str = request.get(name) or ""
    if not text:
        message = f"The request must contain the parameter {name}."
        raise Refusal("MissingParameter", message)
    return text


def entries(operation: str, request: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """Return the entries of a batch that is well formed as a whole."""
    known(f"{operation}_batch", request)
    found: Sequence[Mapping[str, Any]] = request["Entries"]
    if not found:
        message = "There should be at least one entry in the request."
        raise Refusal(_NAMESPACE + "EmptyBatchRequest", message)
    if len(found) > BATCH:
        message = f"Maximum number of entries per request are {BATCH}."
        raise Refusal(_NAMESPACE + "TooManyEntriesInBatchRequest", message)
    ids = [entry.get("Id") or "" for entry in found]
    if not all(map(_ID.fullmatch, ids)):
        message = "A batch entry id has 1 to 80 letters, digits, hyphens, underscores."
        raise Refusal(_NAMESPACE + "InvalidBatchEntryId", message)
    if len(frozenset(ids)) < len(ids):
        message = "Two entries of the batch have one id."
        raise Refusal(_NAMESPACE + "BatchEntryIdsNotDistinct", message)
    for entry in found:
        known(operation, entry)
    bodies = (str(entry.get("MessageBody") or "") for entry in found)
    if sum(len(text.encode(errors="replace")) for text in bodies) > SIZE_LIMIT:
        message = f"The messages of a batch have {SIZE_LIMIT} bytes at most."
        raise Refusal(_NAMESPACE + "BatchRequestTooLong", message)
    return found


def not_in_flight() -> Refusal:
    """Return the error of hiding a message that is not in flight."""
    message = "The specified message isn't in flight."
    return Refusal(_NAMESPACE + "MessageNotInflight", message)


def no_such_queue() -> Refusal:
    """Return the answer about a queue that does not exist."""
    message = "The specified queue does not exist."
    return Refusal(_NAMESPACE + "NonExistentQueue", message)


def bad_handle() -> Refusal:
    """Return the error of a receipt handle that this queue never returned."""
    return Refusal("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")


def bad_value(reason: str) -> Refusal:
    """Return the answer to a value that is wrong for this message."""
    return Refusal("InvalidParameterValue", f"Reason: {reason}")
