"""Classify an exception: ask each known shape in turn, the first that fits decides.

Without a fit the exception is a fault of the stage, and permanent: whoever knows that
trying again helps says so with TransientError, or in the dependency's `classify`.
"""

from __future__ import annotations

from typing import Any, Final

from piecework.classify.aws_client import from_aws_client
from piecework.classify.aws_response import from_aws_response
from piecework.classify.chain import causes, chain
from piecework.classify.http_response import from_http_response
from piecework.classify.model_sdk import from_model_sdk
from piecework.classify.noted import from_noted, noted
from piecework.classify.operating_system import from_operating_system
from piecework.classify.own import from_piecework
from piecework.classify.translated import Translate, translated
from piecework.classify.transport import from_transport
from piecework.classify.validation import from_validation, validation_message
from piecework.classify.verdict import Shape, Verdict
from piecework.codes import ErrorClass
from piecework.errors import ErrorEnvelope, RemoteError

# From the most telling shape to the least: a status says more than a type.
_SHAPES: Final[tuple[Shape, ...]] = (
    from_noted,
    from_piecework,
    from_validation,
    from_aws_response,
    from_aws_client,
    from_model_sdk,
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


def classify(
    error: BaseException,
    *,
    stage: str = "",
    attempt: int = 0,
    at: str = "",
    correlation_id: str = "",
    layer: str = "tool",
    now: float | None = None,
    translate: Translate | None = None,
) -> ErrorEnvelope:
    """Return the envelope of an error.

    `layer` is `llm` or `tool`: whose call it was. `now` (seconds since the epoch) is
    needed to read a Retry-After that is a date; without it such a date is ignored.
    `translate` is asked before all else.
    """
    judge = _Judge("llm" if layer == "llm" else "tool", now, translate)
    place: dict[str, Any] = {
        "stage": stage,
        "attempt": attempt,
        "at": at,
        "correlation_id": correlation_id,
    }
    verdict = judge.verdict(error)
    return ErrorEnvelope(
        code=verdict.code,
        error_class=verdict.error_class,
        message=judge.message(error),
        http_status=verdict.http_status,
        provider_code=verdict.provider_code,
        cause=judge.cause(error),
        retry_after=verdict.retry_after,
        dependency=verdict.dependency,
        **place,
    )


def envelope_of(error: BaseException) -> ErrorEnvelope:
    """Return what is known of an error that `ctx.call` raised: code, class, evidence.

    Of any other error it tells what its own shape does.
    """
    return noted(error) or classify(error)


class _Judge:
    """Judges one error with all that it was raised from."""

    def __init__(
        self, layer: str, now: float | None, translate: Translate | None
    ) -> None:
        self.layer, self.now = layer, now
        own = () if translate is None else (translated(translate),)
        self.shapes = (*own, *_SHAPES)

    def verdict(self, error: BaseException) -> Verdict:
        """Judge by the error itself, else by what it was explicitly raised from."""
        found = (self.alone(each) for each in causes(error))
        return next((each for each in found if each is not None), _UNHANDLED)

    def alone(self, error: BaseException) -> Verdict | None:
        """Judge one link of the chain; a group is as bad as its worst member."""
        if isinstance(error, BaseExceptionGroup) and noted(error) is None:
            return _gravest([self.verdict(each) for each in error.exceptions])
        found = (shape(error, self.layer, self.now) for shape in self.shapes)
        return next((each for each in found if each is not None), None)

    def message(self, error: BaseException) -> str:
        """Return what happened; a group speaks through the member that decided."""
        verdict = self.alone(error)
        if verdict is not None and verdict.message is not None:
            return verdict.message
        if not isinstance(error, BaseExceptionGroup):
            return _message(error)
        members = list(error.exceptions)
        verdicts = [self.verdict(each) for each in members]
        decided = members[verdicts.index(_gravest(verdicts))]
        others = f" (and {len(members) - 1} more)" if len(members) > 1 else ""
        return self.message(decided) + others

    def cause(self, error: BaseException) -> str:
        """Name the types of the chain, each with its code where it has one."""
        links = []
        for each in chain(error):
            if isinstance(each, RemoteError):
                links.append(each.envelope.cause)  # what lies behind it is there
                break
            verdict, name = self.alone(each), type(each).__name__
            links.append(name if verdict is None else f"{name} ({verdict.code})")
        return " <- ".join(links)


def _gravest(verdicts: list[Verdict]) -> Verdict:
    """Choose what stands for a group; among equals the one that waits longest."""
    return max(
        verdicts,
        key=lambda each: (_GRAVITY.index(each.error_class), each.retry_after or 0.0),
    )


def _message(error: BaseException) -> str:
    """Say what happened, without the values that pydantic would quote."""
    try:
        return validation_message(error) or str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  a broken __str__ must not cost us the error
        return type(error).__name__
