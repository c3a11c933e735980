"""Return the attributes of queues and messages that a request names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from simulation.cloud.sqs_checks import SIZE_LIMIT
from simulation.cloud.sqs_messages import ACCOUNT, MessageQueue, Stored

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
