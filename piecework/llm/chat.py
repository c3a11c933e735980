"""Chat Completions of OpenAI: the request's parameters, and the answer read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piecework.llm.parts import (
    count,
    needed,
    part,
    require_no_error,
    temperature_of,
    text_of,
)
from piecework.llm.request import ModelAnswer, ModelRequest, malformed_answer
from piecework.llm.schema import closed


def chat_body(request: ModelRequest, limit: str) -> dict[str, Any]:
    """Return the parameters of a request; `limit`: that of the most tokens."""
    messages = [{"role": each.role, "content": each.text} for each in request.turns]
    if request.system:
        messages.insert(0, {"role": "system", "content": request.system})
    return {
        "model": request.model,
        "messages": messages,
        limit: request.max_tokens,
        **temperature_of(request),
        **_format(request),
    }


def chat_lane(request: ModelRequest) -> dict[str, Any]:
    """Return the parameters of a lane; the client waits for its slow answers."""
    if not request.lane:
        return {}
    return {"service_tier": request.lane, "timeout": request.timeout}


def _format(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter for structured output."""
    if request.schema is None:
        return {}
    enforced = closed(request.schema)
    schema: dict[str, Any] = {
        "name": request.schema_name,
        "schema": enforced or dict(request.schema),
        "strict": enforced is not None,
    }
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def read_chat(provider: str, answer: Any) -> ModelAnswer:
    """Return an answer, as an object of the SDK or as JSON, in our form.

    Raises:
        StageError: It states an error, or has no message.
    """
    usage, notes = part(answer, "usage"), list[str]()
    found = ModelAnswer(
        text="",
        tokens_in=count(usage, "prompt_tokens", notes),
        tokens_out=count(usage, "completion_tokens", notes),
        cached_tokens_in=count(part(usage, "prompt_tokens_details"), "cached_tokens"),
        notes=tuple(notes),
        response_model=part(answer, "model") or "",
        service_tier=part(answer, "service_tier") or "",
    )
    require_no_error(answer, found)
    try:
        choice = needed(answer, "choices")[0]
        require_no_error(choice, found)
        message = needed(choice, "message")
        refused = part(message, "refusal")
        stopped = "refusal" if refused else part(choice, "finish_reason")
        text = text_of(None if refused else needed(message, "content"))
    except (AttributeError, LookupError, TypeError) as error:
        raise malformed_answer(provider, error, found) from error
    return replace(found, text=text, stop_reason=stopped or "")
