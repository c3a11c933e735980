"""Classify an exception: try each known shape in turn, and the first match decides.

An exception without a match is a permanent error of the stage. If a retry can help, the
author raises TransientError or declares it in the dependency's `classify`.
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

# From the most specific shape to the least: a status says more than a type.
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

# In a group of errors the most severe decides: the order is from least to most.
_SEVERITY: Final = (
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

    `layer` is `llm` or `tool`. `now` is the time in seconds since 1970, which a
    Retry-After with a date needs; without it the date is ignored. `translate` is the
    `classify` of the dependency, which decides before all other shapes.
    """
    classifier = _Classifier("llm" if layer == "llm" else "tool", now, translate)
    place: dict[str, Any] = {
        "stage": stage,
        "attempt": attempt,
        "at": at,
        "correlation_id": correlation_id,
    }
    verdict = classifier.verdict(error)
    return ErrorEnvelope(
        code=verdict.code,
        error_class=verdict.error_class,
        message=classifier.message(error),
        http_status=verdict.http_status,
        provider_code=verdict.provider_code,
        cause=classifier.cause(error),
        retry_after=verdict.retry_after,
        dependency=verdict.dependency,
        **place,
    )


def envelope_of(error: BaseException) -> ErrorEnvelope:
    """Return the envelope of an error that `ctx.call` raised.

    Any other error is classified by its structure.
    """
    return noted(error) or classify(error)


class _Classifier:
    """Classifies one error with its causes."""

    def __init__(
        self, layer: str, now: float | None, translate: Translate | None
    ) -> None:
        self.layer, self.now = layer, now
        own = () if translate is None else (translated(translate),)
        self.shapes = (*own, *_SHAPES)

    def verdict(self, error: BaseException) -> Verdict:
        """Classify by the error itself, else by its explicit causes."""
        found = (self.verdict_of_one(each) for each in causes(error))
        return next((each for each in found if each is not None), _UNHANDLED)

    def verdict_of_one(self, error: BaseException) -> Verdict | None:
        """Classify one error of the chain; a group has its most severe member."""
        if isinstance(error, BaseExceptionGroup) and noted(error) is None:
            return _most_severe([self.verdict(each) for each in error.exceptions])
        found = (shape(error, self.layer, self.now) for shape in self.shapes)
        return next((each for each in found if each is not None), None)

    def message(self, error: BaseException) -> str:
        """Return the message; for a group, that of the member that decided."""
        verdict = self.verdict_of_one(error)
        if verdict is not None and verdict.message is not None:
            return verdict.message
        if not isinstance(error, BaseExceptionGroup):
            return _message(error)
        members = list(error.exceptions)
        verdicts = [self.verdict(each) for each in members]
        decided = members[verdicts.index(_most_severe(verdicts))]
        others = f" (and {len(members) - 1} more)" if len(members) > 1 else ""
        return self.message(decided) + others

    def cause(self, error: BaseException) -> str:
        """Return the types of the chain, each with its code if it has one."""
        links = []
        for each in chain(error):
            if isinstance(each, RemoteError):
                links.append(each.envelope.cause)  # it contains the rest of the chain
                break
            verdict, name = self.verdict_of_one(each), type(each).__name__
            links.append(name if verdict is None else f"{name} ({verdict.code})")
        return " <- ".join(links)


def _most_severe(verdicts: list[Verdict]) -> Verdict:
    """Return the most severe verdict; among equals, that with the longest delay."""
    return max(
        verdicts,
        key=lambda each: (_SEVERITY.index(each.error_class), each.retry_after or 0.0),
    )


def _message(error: BaseException) -> str:
    """Return the message, without the values that pydantic would quote."""
    try:
        return validation_message(error) or str(error) or type(error).__name__
    except Exception:  # noqa: BLE001  a broken __str__ must not hide the error
        return type(error).__name__
