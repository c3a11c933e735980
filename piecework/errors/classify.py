"""Classify an exception: try each known shape in turn, and the first match decides.

An exception of a stage without a match is a permanent error. If a retry can help, the
author raises TransientError or declares it in the dependency's `classify`. An exception
of a call without a match has two further tries before it counts as permanent: most are
of the network, of a library that no shape knows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

from pydantic import ValidationError

from piecework.errors import ErrorEnvelope, PieceworkError, RemoteError, StageError
from piecework.errors.causes import causes, chain
from piecework.errors.classify_aws import from_aws_client, from_aws_response
from piecework.errors.classify_exhaustion import from_exhaustion
from piecework.errors.classify_http import (
    from_decoding,
    from_http_response,
    from_operating_system,
    from_transport,
)
from piecework.errors.classify_llm import from_model_sdk
from piecework.errors.classify_services import (
    from_certificate,
    from_database,
    from_grpc,
    from_process_pool,
)
from piecework.errors.codes import ErrorClass
from piecework.errors.location import location_of, raised_text, traceback_of
from piecework.errors.sent import Sent, said_of, sent_of
from piecework.errors.verdict import Shape, Verdict

# ── attach an envelope to an error, and read it back ──────────────────────────

_ENVELOPE: Final = "_piecework_envelope"


def mark(error: BaseException, envelope: ErrorEnvelope) -> None:
    """Attach the envelope to the error, so that it is not classified again."""
    # setattr would fail on an exception that is a frozen dataclass
    BaseException.__setattr__(error, _ENVELOPE, envelope)


def noted(error: BaseException) -> ErrorEnvelope | None:
    """Return the envelope that is attached to the error; None without one."""
    found = getattr(error, _ENVELOPE, None)
    if isinstance(found, ErrorEnvelope):
        return found
    return error.envelope if isinstance(error, RemoteError) else None


def from_noted(error: BaseException, _layer: str, _now: float | None) -> Verdict | None:
    """Use the attached envelope: only the code that made the call knows its layer."""
    envelope = noted(error)
    if envelope is None:
        return None
    return Verdict(
        envelope.code,
        http_status=envelope.http_status,
        provider_code=envelope.provider_code,
        retry_after=envelope.retry_after,
        own_class=envelope.error_class,
        message=envelope.message,
        dependency=envelope.dependency,
        sent=envelope.sent,
    )


# ── our own errors ────────────────────────────────────────────────────────────


def from_piecework(
    error: BaseException,
    _layer: str,
    _now: float | None,
    *,
    message: str | None = None,
) -> Verdict | None:
    """Use the error's own code and class, and the status that a client attached."""
    if not isinstance(error, PieceworkError):
        return None
    status = error.facts.get("http_status")
    provider_code = error.facts.get("provider_code")
    return Verdict(
        error.code,
        http_status=status if isinstance(status, int) else None,
        provider_code=provider_code if isinstance(provider_code, str) else None,
        retry_after=error.retry_after,
        own_class=error.error_class,
        message=message,
        dependency=str(error.facts.get("dependency", "")),
        sent=said_of(error),
    )


def refused_answer(
    error: BaseException | None,
) -> tuple[str, list[dict[str, str]]] | None:
    """Return the answer that an error refuses, and the places that do not fit in it.

    None: it refuses no answer. Its fact `refused_answer` is the answer; the places are
    those of a validation that caused it, or of another process that has read them.
    """
    facts = getattr(error, "facts", {})
    text = facts.get("refused_answer")
    if error is None or not isinstance(text, str):
        return None
    if "refused_places" in facts:
        return text, facts["refused_places"]
    list_errors = getattr(error.__cause__, "errors", None)
    places: list[dict[str, str]] = []
    if callable(list_errors):
        found = list_errors(
            include_url=False, include_context=False, include_input=False
        )
        places = [
            {"at": ".".join(map(str, each["loc"])), "message": str(each["msg"])}
            for each in found
        ]
    return text, places


# ── classify by the `classify` function of a dependency ───────────────────────

# An error of the dependency -> its meaning; None: the function does not know it.
Translate: TypeAlias = Callable[[BaseException], StageError | None]


def translated(translate: Translate) -> Shape:
    """Return the shape of a user's function, declared as `Dependency(classify=…)`."""

    def from_translation(
        error: BaseException, layer: str, now: float | None
    ) -> Verdict | None:
        try:
            meaning: object = translate(error)
        except Exception as fault:  # noqa: BLE001  the call's own error must not be lost
            return _failed(raised_text(fault))
        if meaning is None:
            return None
        if not isinstance(meaning, StageError):
            return _failed(f"returned a {type(meaning).__name__}")
        return from_piecework(meaning, layer, now, message=meaning.message)

    return from_translation


def _failed(problem: str) -> Verdict:
    message = f"The dependency's `classify` {problem}."
    return Verdict("runtime.classifier.failed", message=message)


# ── pydantic's ValidationError ────────────────────────────────────────────────

_SHOWN: Final = 5  # the first errors: an invalid list has one for each entry


def from_validation(
    error: BaseException, layer: str, _now: float | None
) -> Verdict | None:
    """Classify as an invalid answer in a model call, else as an error of the stage."""
    if not isinstance(error, ValidationError):
        return None
    return Verdict("llm.output.invalid" if layer == "llm" else "runtime.value.invalid")


def from_answer_validation(
    error: BaseException, layer: str, now: float | None
) -> Verdict | None:
    """Classify an error of a call: the service sent what its model does not accept.

    An answer of a model repeats itself, so that only another prompt helps. An answer of
    any other service may be whole the next time.
    """
    if not isinstance(error, ValidationError) or layer == "llm":
        return from_validation(error, layer, now)
    return Verdict("tool.http.malformed_body")


def validation_message(error: BaseException) -> str:
    """Return the fields and their errors without the values, which are user data."""
    if not isinstance(error, ValidationError):
        return ""
    details = error.errors(
        include_url=False, include_context=False, include_input=False
    )
    shown = [
        f"{'.'.join(map(str, detail['loc'])) or 'value'} ({detail['type']})"
        for detail in details[:_SHOWN]
    ]
    more = [f"{len(details) - _SHOWN} more"] if len(details) > _SHOWN else []
    return f"{error.title} does not validate: {', '.join(shown + more)}"


# From the most specific shape to the least: a status says more than a type.
_SHAPES: Final[tuple[Shape, ...]] = (
    from_noted,
    from_piecework,
    from_validation,
    from_certificate,
    from_process_pool,
    from_database,
    from_grpc,
    from_exhaustion,
    from_aws_response,
    from_aws_client,
    from_model_sdk,
    from_http_response,
    from_transport,
    from_operating_system,
)
# Inside a call a function reads an answer; the stage's own data is not read there.
_CALL_SHAPES: Final[tuple[Shape, ...]] = (
    *(from_answer_validation if each is from_validation else each for each in _SHAPES),
    from_decoding,
)
_UNHANDLED: Final = Verdict("runtime.stage.unhandled")
_UNKNOWN_IN_CALL: Final = Verdict("runtime.call.unhandled")
#: Mistakes of the program: no answer of a service causes one.
_MISTAKES: Final = (
    ImportError,
    NameError,
    NotImplementedError,
    RecursionError,
    SyntaxError,
)

# In a group of errors the most severe decides: the order is from least to most.
_SEVERITY: Final = (
    ErrorClass.TRANSIENT,
    ErrorClass.STATE,
    ErrorClass.SEMANTIC,
    ErrorClass.POLICY,
    ErrorClass.PERMANENT,
)


def classify(  # noqa: PLR0913 -- facts of the place, each known to some callers
    error: BaseException,
    *,
    stage: str = "",
    attempt: int = 0,
    at: str = "",
    correlation_id: str = "",
    layer: str = "tool",
    now: float | None = None,
    translate: Translate | None = None,
    in_call: bool = False,
) -> ErrorEnvelope:
    """Return the envelope of an error.

    `layer` is `llm` or `tool`. `now` is the time in seconds since 1970. A Retry-After
    with a date needs it; without it the date is ignored. `translate` is the `classify`
    of the dependency, which decides before all other shapes. `in_call`: a function that
    called a service raised the error. An answer that it cannot decode may be whole the
    next time. Only such an error tells whether a request was sent.
    """
    shapes = _CALL_SHAPES if in_call else _SHAPES
    if translate is not None:
        shapes = (translated(translate), *shapes)
    layer = "llm" if layer == "llm" else "tool"
    classifier = _Classifier(layer, now, shapes, in_call=in_call)
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
        sent=_sent(error, verdict, in_call=in_call),
        **classifier.origin(error),
        **place,
    )


def _sent(error: BaseException, verdict: Verdict, *, in_call: bool) -> Sent:
    if verdict.sent is not None:
        return verdict.sent
    return sent_of(error) if in_call else Sent.UNKNOWN


def envelope_of(error: BaseException) -> ErrorEnvelope:
    """Return the envelope of an error that `ctx.call` raised.

    Any other error is classified by its structure.
    """
    return noted(error) or classify(error)


class _Classifier:
    """Classifies one error with its causes, each of them once."""

    def __init__(
        self, layer: str, now: float | None, shapes: Sequence[Shape], *, in_call: bool
    ) -> None:
        self.layer, self.now, self.shapes = layer, now, shapes
        self.in_call = in_call
        self.verdicts: dict[int, Verdict | None] = {}

    def verdict(self, error: BaseException) -> Verdict:
        """Classify by the error itself, else by its explicit causes."""
        found = (self.verdict_of_one(each) for each in causes(error))
        known = next((each for each in found if each is not None), None)
        return known or (_UNHANDLED if self.is_mistake(error) else _UNKNOWN_IN_CALL)

    def is_mistake(self, error: BaseException) -> bool:
        """Return whether no further try can help: outside a call, or by a mistake.

        A TypeError outside the user's code is one of the call's own arguments.
        """
        misfit = isinstance(error, TypeError) and not location_of(error)
        return not self.in_call or isinstance(error, _MISTAKES) or misfit

    def verdict_of_one(self, error: BaseException) -> Verdict | None:
        """Return the verdict of one error of the chain; None: no shape matches."""
        if id(error) not in self.verdicts:
            self.verdicts[id(error)] = self._try_shapes(error)
        return self.verdicts[id(error)]

    def _try_shapes(self, error: BaseException) -> Verdict | None:
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
        more = len(error.exceptions) - 1
        return self.message(self.decisive(error)) + (f" (and {more} more)" * (more > 0))

    def decisive(self, group: BaseExceptionGroup[Any]) -> BaseException:
        """Return the member of a group that decides its class."""
        verdicts = [self.verdict(each) for each in group.exceptions]
        found: BaseException = group.exceptions[verdicts.index(_most_severe(verdicts))]
        return found

    def origin(self, error: BaseException) -> dict[str, str]:
        """Return type, location and traceback, of a group those of its decisive member.

        Empty: no code of the user raised it.
        """
        while isinstance(error, BaseExceptionGroup):
            error = self.decisive(error)
        if isinstance(error, RemoteError):
            names = {"exception", "location", "traceback"}
            return error.envelope.model_dump(include=names)
        location = location_of(error)
        if not location:
            return {}
        return {
            "exception": type(error).__qualname__,
            "location": location,
            "traceback": traceback_of(error),
        }

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
