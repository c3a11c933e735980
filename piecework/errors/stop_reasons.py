"""Why a model stopped: for a finished answer, or for none.

An unknown reason is not the end of an answer. So the good ends are listed, and
every other reason is an error: also one that a provider adds tomorrow, and none at all.
No word means two things at two providers, so one table serves all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from piecework.errors import (
    PermanentError,
    PolicyError,
    SemanticError,
    StageError,
    StateError,
    TransientError,
)
from piecework.errors.classify_http import FAILED
from piecework.errors.classify_llm import code_of_words
from piecework.errors.codes import REGISTRY

#: The reasons of a finished answer, in small letters.
FINISHED: Final = frozenset(
    {
        *("stop", "end_turn", "stop_sequence"),  # OpenAI · Anthropic · Bedrock
        *("completed", "complete"),  # OpenAI's responses · Cohere
        *("eos", "eos_token"),  # Together · servers of open models
    }
)

_NO_TEXT: Final = "The model ended its turn without the answer"
_ENDS: Final = (
    ("refusal", "llm.policy.refusal", "The model refused"),
    (
        """
            blocklist content_filter content_filtered error_toxic guardrail_intervened
            prohibited_content recitation safety sensitive spii
        """,
        "llm.policy.content_filtered",
        "A content filter stopped the model",
    ),
    (
        "error_limit model_context_window_exceeded",
        "llm.context.overflow",
        "The model's context is full",
    ),
    (
        "length max_output_tokens max_tokens model_length",
        "llm.output.truncated",
        "The answer is cut off",
    ),
    (
        """
            abort aborted canceled cancelled error failed insufficient_system_resource
            internal_error overloaded overloaded_error server_error timeout user_cancel
        """,
        "llm.model.failed",
        "The model failed",
    ),
    # The model asks for a tool, or for a further turn.
    (
        "compaction function_call pause_turn tool_calls tool_use",
        "llm.output.invalid",
        _NO_TEXT,
    ),
    # Listed, so that a test tells them from a reason that is new.
    (
        """
            in_progress incomplete malformed_model_output malformed_tool_use
            max_messages queued steered
        """,
        "llm.output.invalid",
        _NO_TEXT,
    ),
)

#: Code and sentence of each reason that is known and no good end, in small letters.
UNFINISHED: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        reason: (code, sentence)
        for reasons, code, sentence in _ENDS
        for reason in reasons.split()
    }
)
_UNKNOWN: Final = ("llm.output.invalid", "The model stopped for an unknown reason")

_KINDS: Final = {
    each.stage_class: each
    for each in (
        TransientError,
        PermanentError,
        SemanticError,
        PolicyError,
        StateError,
    )
}
#: Characters of a provider's word that are shown.
_SHOWN: Final = 60


def stop_error(reason: object, handled: Collection[str] = ()) -> StageError | None:
    """Return the error of an answer by its stop reason; None: it is finished.

    Args:
        reason: The provider's word; empty or None: it stated none.
        handled: Further reasons that the caller takes for a good end.
    """
    word = str(getattr(reason, "value", reason) or "")
    known = word.lower()
    if known in FINISHED or known in handled:
        return None
    if not word:
        message = "The answer is cut off: it does not say why the model stopped."
        return TransientError(message, code="llm.http.malformed_body")
    code, sentence = UNFINISHED.get(known, _UNKNOWN)
    message = f"{sentence}: {word[:_SHOWN]}."
    return stage_error(message, code, provider_code=word[:_SHOWN])


def error_in(answer: object) -> StageError | None:
    """Return the error that an answer states although its status is 200; or None.

    Gateways send one when the provider behind them failed: `{"error": {"code": 502}}`.
    """
    found = _part(answer, "error")
    if not found:
        return None
    names = ("error_code", "code", "type", "status")
    said = [found] if isinstance(found, str) else [_part(found, n) for n in names]
    words = [each for each in said if isinstance(each, str)]
    numbers = (int(each) for each in said if str(each).isdecimal())
    status = next((each for each in numbers if each in FAILED), None)
    code = code_of_words(words, status) or "llm.model.failed"
    shown = str(status or next(iter(words), "no code"))[:_SHOWN]
    message = f"The provider answered with an error in place of an answer: {shown}."
    return stage_error(message, code, http_status=status, provider_code=shown)


def raise_for_stop_reason(answer: object, *, handled: Collection[str] = ()) -> None:
    """Raise an error unless a model finished its answer.

    Args:
        answer: The return value of Anthropic's, Bedrock's or OpenAI's client, an object
            or a mapping.
        handled: Further reasons that pass here, such as `{"tool_use"}` in code
            that runs the tool and asks again.

    Raises:
        PolicyError: `llm.policy.refusal` or `llm.policy.content_filtered`.
        PermanentError: `llm.context.overflow`.
        SemanticError: `llm.output.truncated`; `llm.output.invalid`: any other reason,
            also one that is unknown.
        TransientError: `llm.model.failed`; `llm.http.malformed_body`: the answer has no
            stop reason, so it is cut off or not an answer of a model.
        StageError: The answer states an error: with the code of its status.
    """
    for error in _errors(answer, handled):
        if error is not None:
            raise error


def _errors(answer: object, handled: Collection[str]) -> Iterator[StageError | None]:
    yield error_in(answer)
    if _has(answer, "choices"):  # OpenAI's chat
        choices = _list(answer, "choices")
        for choice in choices:
            yield error_in(choice)
            if _part(_part(choice, "message"), "refusal"):
                yield stop_error("refusal")
            yield stop_error(_part(choice, "finish_reason"), handled)
        if choices:
            return
    for item in _list(answer, "output"):  # OpenAI's responses
        for content in _list(item, "content"):
            if _part(content, "type") == "refusal":
                yield stop_error("refusal")
    if reason := _part(_part(answer, "incomplete_details"), "reason"):
        yield stop_error(reason, handled)
    # Anthropic · Bedrock's Converse · OpenAI's responses
    named = (_part(answer, n) for n in ("stop_reason", "stopReason", "status"))
    yield stop_error(next(filter(None, named), None), handled)


def stage_error(message: str, code: str, **facts: Any) -> StageError:
    """Return the error of a code of the registry, of the class of that code."""
    return _KINDS[REGISTRY[code].error_class](message, code=code, **facts)


def _has(whole: object, name: str) -> bool:
    return name in whole if isinstance(whole, Mapping) else hasattr(whole, name)


def _part(whole: object, name: str) -> Any:
    if isinstance(whole, Mapping):
        return whole.get(name)
    return getattr(whole, name, None)


def _list(whole: object, name: str) -> Sequence[object]:
    found = _part(whole, name)
    return found if isinstance(found, list | tuple) else ()
