"""What a call over HTTP can meet: the same rows for models and for tools."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_TRANSIENT: Final = ErrorClass.TRANSIENT
_PERMANENT: Final = ErrorClass.PERMANENT

_RETRIED: Final = (
    "Nothing at first: it is retried; if it stays, lower "
    "`PIECEWORK_MAX_CALLS_IN_FLIGHT` or wait, "
    "then `piecework dlq redrive --job JOB --yes --reason …`."
)
_LOOK: Final = (
    "Read the envelope with `piecework dlq show JOB CHUNK`, correct the request, then "
    "`piecework dlq redrive --job JOB --yes --reason …`."
)
_CREDENTIALS: Final = (
    "Give the workers valid credentials for this service and restart them, then "
    "`piecework dlq redrive --job JOB --yes --reason …`."
)

# 4xx is permanent but for 408 and 429; 5xx is transient.
_DETAILS: Final = (
    (
        "http.400_bad_request",
        _PERMANENT,
        "The {who} could not read the request.",
        _LOOK,
    ),
    (
        "http.401_unauthenticated",
        _PERMANENT,
        "The {who} did not accept the credentials.",
        _CREDENTIALS,
    ),
    (
        "http.403_forbidden",
        _PERMANENT,
        "The {who} knows the caller and does not allow the call.",
        _CREDENTIALS,
    ),
    (
        "http.404_not_found",
        _PERMANENT,
        "The {who} has nothing under the address that was called.",
        _LOOK,
    ),
    (
        "http.408_timeout",
        _TRANSIENT,
        "The {who} gave up waiting for the request or for its own answer.",
        _RETRIED,
    ),
    (
        "http.409_conflict",
        _PERMANENT,
        "The {who} holds a state that the request contradicts.",
        _LOOK,
    ),
    (
        "http.413_too_large",
        _PERMANENT,
        "The request is larger than the {who} takes.",
        "Split the input into smaller chunks and submit it again.",
    ),
    (
        "http.422_unprocessable",
        _PERMANENT,
        "The {who} read the request and found its content invalid.",
        _LOOK,
    ),
    (
        "http.429_rate_limited",
        _TRANSIENT,
        "The {who} had more calls than it allows in this time.",
        _RETRIED,
    ),
    (
        "http.4xx_rejected",
        _PERMANENT,
        "The {who} rejected the request with a 4xx status without a code of its own.",
        _LOOK,
    ),
    (
        "http.500_server_error",
        _TRANSIENT,
        "The {who} failed inside.",
        _RETRIED,
    ),
    (
        "http.502_bad_gateway",
        _TRANSIENT,
        "A proxy before the {who} had no valid answer from it.",
        _RETRIED,
    ),
    (
        "http.503_unavailable",
        _TRANSIENT,
        "The {who} is overloaded or down for a while.",
        _RETRIED,
    ),
    (
        "http.504_gateway_timeout",
        _TRANSIENT,
        "A proxy before the {who} waited in vain for its answer.",
        _RETRIED,
    ),
    (
        "http.529_overloaded",
        _TRANSIENT,
        "The {who} has more to do than it can, for everybody who asks it.",
        _RETRIED,
    ),
    (
        "http.5xx_failed",
        _TRANSIENT,
        "The {who} failed with a 5xx status without a code of its own.",
        _RETRIED,
    ),
    (
        "http.unexpected_status",
        _PERMANENT,
        "The {who} answered with a status that is neither success, 4xx nor 5xx.",
        _LOOK,
    ),
    (
        "http.malformed_body",
        _TRANSIENT,
        "The {who} answered with a body that is cut off or not in its own format.",
        _RETRIED,
    ),
    (
        "connection.failed",
        _TRANSIENT,
        "The connection to the {who} was refused, reset or never made.",
        _RETRIED,
    ),
    (
        "connection.timeout",
        _TRANSIENT,
        "The {who} did not answer within the time allowed for one call.",
        _RETRIED,
    ),
)


def http_rows(layer: str, *, who: str) -> tuple[Code, ...]:
    """Return the rows of one layer; `who` names the other side in the sentences."""
    return tuple(
        Code(
            f"{layer}.{detail}",
            error_class,
            cause.format(who=who),
            recovery,
        )
        for detail, error_class, cause, recovery in _DETAILS
    )
