"""Classify an exception: ask each known shape in turn, the first that fits decides.

Without a fit the exception is a fault of the stage, and permanent: whoever knows that
trying again helps says so with TransientError.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from piecework.classify.aws_client import from_aws_client
from piecework.classify.aws_response import from_aws_response
from piecework.classify.http_response import from_http_response
from piecework.classify.operating_system import from_operating_system
from piecework.classify.own import from_piecework
from piecework.classify.transport import from_transport
from piecework.classify.validation import from_validation, validation_message
from piecework.classify.verdict import Shape, Verdict
from piecework.codes import ErrorClass
from piecework.errors import ErrorEnvelope, RemoteError

# From the most telling shape to the least: a status says more than a type.
_SHAPES: Final[tuple[Shape, ...]] = (
    from_piecework,
    from_validation,
    from_aws_response,
    from_aws_client,
    from_http_response,
    from_transport,
    from_operating_system,
)
_UNHANDLED: Final = Verdict("runtime.stage.unhandled")

# Of several errors at once the one decides that forbids most.
_GRAVITY: Final = (
    ErrorClass.TRANSIENT,
    ErrorClass.STATE,
    ErrorClass.SEMANTIC,
    ErrorClass.POLICY,
    ErrorClass.PERMANENT,
)
_LAYER: Final = "_piecework_layer"
_CHAIN_LIMIT: Final = 5  # deeper causes are the libraries' own affair


def classify(
    error: BaseException,
    *,
    stage: str = "",
    attempt: int = 0,
    at: str = "",
    correlation_id: str = "",
    layer: str = "tool",
    now: float | None = None,
) -> ErrorEnvelope:
    """Return the envelope of an error.

    `layer` is `llm` or `tool`: whose call it was. `now` (seconds since the epoch) is
    needed to read a Retry-After that is a date; without it such a date is ignored.
    """
    place: dict[str, Any] = {
        "stage": stage,
        "attempt": attempt,
        "at": at,
        "correlation_id": correlation_id,
    }
    if isinstance(error, RemoteError):
        return error.envelope.model_copy(update=place)
    verdict = _judge(error, "llm" if layer == "llm" else "tool", now)
    return ErrorEnvelope(
        code=verdict.code,
        error_class=verdict.error_class,
        message=_spoken(error, layer),
        http_status=verdict.http_status,
        provider_code=verdict.provider_code,
        cause=" <- ".join(type(each).__name__ for each in _chain(error)),
        retry_after=verdict.retry_after,
        **place,
    )


def _judge(error: BaseException, layer: str, now: float | None) -> Verdict:
    """Judge by the error itself, else by what it was explicitly raised from."""
    if isinstance(error, BaseExceptionGroup):
        return _gravest([_judge(each, layer, now) for each in error.exceptions])
    layer = getattr(error, _LAYER, layer)
    for each in _causes(error):
        for shape in _SHAPES:
            verdict = shape(each, layer, now)
            if verdict is not None:
                return verdict
    return _UNHANDLED


def _gravest(verdicts: list[Verdict]) -> Verdict:
    """Choose what stands for a group; among equals the one that waits longest."""
    return max(
        verdicts,
        key=lambda each: (_GRAVITY.index(each.error_class), each.retry_after or 0.0),
    )


def _causes(error: BaseException) -> list[BaseException]:
    """Follow `raise … from …`: a wrapper without a class takes that of its cause."""
    causes = [error]
    while (cause := causes[-1].__cause__) and len(causes) < _CHAIN_LIMIT:
        causes.append(cause)
    return causes


def _chain(error: BaseException) -> list[BaseException]:
    """Follow causes and, where they are not hidden, what was being handled."""
    chain = [error]
    while len(chain) < _CHAIN_LIMIT:
        last = chain[-1]
        before = last.__cause__
        if before is None and not last.__suppress_context__:
            before = last.__context__
        if before is None:
            break
        chain.append(before)
    return chain


def _spoken(error: BaseException, layer: str) -> str:
    """Return the message; a group speaks through the member that decided on it."""
    if not isinstance(error, BaseExceptionGroup):
        return _message(error)
    members = list(error.exceptions)
    verdicts = [_judge(each, layer, None) for each in members]
    decided = members[verdicts.index(_gravest(verdicts))]
    others = f" (and {len(members) - 1} more)" if len(members) > 1 else ""
    return _spoken(decided, layer) + others


def mark(error: BaseException, layer: str) -> None:
    """Note on an error whose call it was, for whoever classifies it later."""
    with suppress(AttributeError):  # an exception with slots keeps to itself
        setattr(error, _LAYER, layer)


def _message(error: BaseException) -> str:
    """Say what happened, without the values that pydantic would quote."""
    try:
        return validation_message(error) or str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  a broken __str__ must not cost us the error
        return type(error).__name__
