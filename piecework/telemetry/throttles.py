"""Tell of each answer of AWS that says "too many requests", retried or not.

botocore asks after every answer whether it is to try again; heard there, the refusals
that it deals with by itself are told of, too.
"""

from __future__ import annotations

from typing import Any

from piecework.classify.aws_codes import MEANINGS, Meaning
from piecework.telemetry.emitting import emit
from piecework.telemetry.quiet import quiet_log

#: The event of botocore's; its handlers decide about the retry unless they say nothing.
ANSWERED = "needs-retry"


def tell_of_throttles(client: Any) -> None:
    """Listen to the answers of a client."""
    client.meta.events.register(ANSWERED, heard)


def heard(response: Any = None, operation: Any = None, **_: Any) -> None:
    """Tell of an answer that is a throttle; decide nothing."""
    if response is None:
        return
    code = throttle_of(response[1])
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


def throttle_of(answer: Any) -> str:
    """Return the code of an answer that is a throttle, else nothing."""
    error = answer.get("Error") if isinstance(answer, dict) else None
    if not error:
        return ""
    reasons = answer.get("CancellationReasons") or ()
    codes = [error.get("Code"), *(reason.get("Code") for reason in reasons)]
    found = (code for code in codes if MEANINGS.get(code) is Meaning.THROTTLED)
    return next(found, "")
