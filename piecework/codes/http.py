"""The errors of a call over HTTP: the same rows for models and for tools."""

from __future__ import annotations

from typing import Final

from piecework.codes.row import Code, ErrorClass

_TRANSIENT: Final = ErrorClass.TRANSIENT
_PERMANENT: Final = ErrorClass.PERMANENT

_RETRIED: Final = (
    "Wait: the call is retried. If the error persists, lower "
    "`PIECEWORK_MAX_CALLS_IN_FLIGHT` or wait longer, then run "
    "`piecework dlq redrive --job JOB --yes --reason …`."
)
_CORRECT: Final = (
    "Read the envelope with `piecework dlq show JOB CHUNK`, correct the request, then "
    "run `piecework dlq redrive --job JOB --yes --reason …`."
)
_CREDENTIALS: Final = (
    "Give the workers valid credentials for this service and restart them, then run "
    "`piecework dlq redrive --job JOB --yes --reason …`."
)

# 4xx is permanent except 408 and 429; 5xx is transient.
_DETAILS: Final = (
    (
        "http.400_bad_request",
        _PERMANENT,
        "The {service} could not parse the request.",
        _CORRECT,
    ),
    (
        "http.401_unauthenticated",
        _PERMANENT,
        "The {service} did not accept the credentials.",
        _CREDENTIALS,
    ),
    (
        "http.403_forbidden",
        _PERMANENT,
        "The {service} authenticated the caller and does not allow the call.",
        _CREDENTIALS,
    ),
    (
        "http.404_not_found",
        _PERMANENT,
        "The {service} has no resource at this address.",
        _CORRECT,
    ),
    (
        "http.408_timeout",
        _TRANSIENT,
        "The {service} timed out while it read or processed the request.",
        _RETRIED,
    ),
    (
        "http.409_conflict",
        _PERMANENT,
        "The request conflicts with the state of the {service}.",
        _CORRECT,
    ),
    (
        "http.413_too_large",
        _PERMANENT,
        "The request is larger than the {service} accepts.",
        "Split the input into smaller chunks and submit it again.",
    ),
    (
        "http.422_unprocessable",
        _PERMANENT,
        "The {service} found the content of the request invalid.",
        _CORRECT,
    ),
    (
        "http.429_rate_limited",
        _TRANSIENT,
        "The {service} received more calls than it allows.",
        _RETRIED,
    ),
    (
        "http.4xx_rejected",
        _PERMANENT,
        "The {service} rejected the request with another 4xx status.",
        _CORRECT,
    ),
    (
        "http.500_server_error",
        _TRANSIENT,
        "The {service} had an internal failure.",
        _RETRIED,
    ),
    (
        "http.502_bad_gateway",
        _TRANSIENT,
        "A proxy in front of the {service} received no valid answer from it.",
        _RETRIED,
    ),
    (
        "http.503_unavailable",
        _TRANSIENT,
        "The {service} is overloaded or temporarily down.",
        _RETRIED,
    ),
    (
        "http.504_gateway_timeout",
        _TRANSIENT,
        "A proxy in front of the {service} received no answer in time.",
        _RETRIED,
    ),
    (
        "http.529_overloaded",
        _TRANSIENT,
        "The {service} is overloaded for all its clients.",
        _RETRIED,
    ),
    (
        "http.5xx_failed",
        _TRANSIENT,
        "The {service} failed with another 5xx status.",
        _RETRIED,
    ),
    (
        "http.unexpected_status",
        _PERMANENT,
        "The {service} answered with a status that is neither success, 4xx nor 5xx.",
        _CORRECT,
    ),
    (
        "http.malformed_body",
        _TRANSIENT,
        "The body of the answer of the {service} is truncated or malformed.",
        _RETRIED,
    ),
    (
        "connection.failed",
        _TRANSIENT,
        "The connection to the {service} failed or was reset.",
        _RETRIED,
    ),
    (
        "connection.timeout",
        _TRANSIENT,
        "The {service} did not answer within the timeout of the call.",
        _RETRIED,
    ),
)


def http_rows(layer: str, *, service: str) -> tuple[Code, ...]:
    """Return the rows of one layer; the sentences name the `service`."""
    return tuple(
        Code(
            f"{layer}.{detail}",
            error_class,
            cause.format(service=service),
            recovery,
        )
        for detail, error_class, cause, recovery in _DETAILS
    )
