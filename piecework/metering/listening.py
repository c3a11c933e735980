"""Hear of every request that a client sends, each attempt of the SDK's own included.

It hangs on the SDK's own events, so that no caller can forget to count, and so that
what is counted is what was sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from piecework.metering.cost_meter import CostMeter
from piecework.metering.owners import keeps_costs

#: Where a request's own notes are kept between its events.
NOTE = "piecework.cost"
#: Operations that say what they consumed if they are asked to.
REPORTING = frozenset(
    {"GetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem"}
    | {"TransactWriteItems"}
)


def listen(client: Any, meter: CostMeter) -> None:
    """Let a meter hear of all that a client asks."""
    service = str(client.meta.service_model.service_name)
    events = client.meta.events
    events.register("before-parameter-build", asked)
    events.register("response-received", answered_to(meter, service))


def asked(
    params: dict[str, Any], model: Any, context: dict[str, Any], **_: Any
) -> None:
    """Note what is asked, and ask what it will have consumed."""
    body = params.get("Body")
    # What is uploaded has been read when the answer comes.
    kept = params if body is None else {**params, "Body": body_size(body)}
    context[NOTE] = [model.name, kept, 0]
    if model.name in REPORTING:
        params["ReturnConsumedCapacity"] = "TOTAL"


def body_size(body: Any) -> int:
    """Return the bytes of what is uploaded: bytes, or a file from where it stands."""
    if isinstance(body, bytes | bytearray):
        return len(body)
    at = body.tell()
    end = body.seek(0, 2)
    body.seek(at)
    return int(end - at)


def answered_to(meter: CostMeter, service: str) -> Callable[..., None]:
    """Return what counts an attempt once it was answered, or was not."""

    def answered(parsed_response: Any, context: dict[str, Any], **_: Any) -> None:
        note = context.get(NOTE)
        if note is None:
            return
        operation, params, attempts = note
        note[2] += 1
        again = attempts > 0
        if service == "dynamodb" and keeps_costs(params):
            if not again:
                return  # it has counted itself, and what it consumes
            parsed_response = None
        try:
            meter.saw(service, operation, params, parsed_response, again=again)
        except Exception:  # noqa: BLE001 -- a bill must not fail what it is about
            meter.unread += 1

    return answered
