"""Emit an event for each response of AWS that is a throttle, retried or not.

botocore sends the event `needs-retry` after every response. Its handlers see also the
throttles that botocore retries itself.
"""

from __future__ import annotations

from typing import Any

from piecework.classify.aws_codes import MEANINGS, Meaning
from piecework.telemetry.emitting import emit
from piecework.telemetry.quiet import quiet_log

#: An event of botocore. A handler that returns None leaves the retry to botocore.
ANSWERED = "needs-retry"


def emit_throttles(client: Any) -> None:
    """Register the handler for the responses of a client."""
    client.meta.events.register(ANSWERED, handle_response)


def handle_response(response: Any = None, operation: Any = None, **_: Any) -> None:
    """Emit a throttle; return None, which leaves the retry to botocore."""
    if response is None:
        return
    code = find_throttle_code(response[1])
    if code:
        name = getattr(operation, "name", "")
        service = getattr(getattr(operation, "service_model", None), "service_name", "")
        emit(
            quiet_log(),
            "aws.throttled",
            service=service,
            operation=name,
            error_code=code,
        )


def find_throttle_code(answer: Any) -> str:
    """Return the error code of a response that is a throttle, else an empty text."""
    error = answer.get("Error") if isinstance(answer, dict) else None
    if not error:
        return ""
    reasons = answer.get("CancellationReasons") or ()
    codes = [error.get("Code"), *(reason.get("Code") for reason in reasons)]
    found = (code for code in codes if MEANINGS.get(code) is Meaning.THROTTLED)
    return next(found, "")
