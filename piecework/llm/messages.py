"""Messages of Anthropic: the request's parameters, and the answer read."""

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


def message_body(request: ModelRequest) -> dict[str, Any]:
    """Return the parameters of a request."""
    body = {
        "model": request.model,
        "messages": [
            {"role": each.role, "content": each.text} for each in request.turns
        ],
        "max_tokens": request.max_tokens,
        **({"system": request.system} if request.system else {}),
        **_format(request),
    }
    if extra := temperature_of(request):  # the SDK has no parameter for it any more
        body["extra_body"] = extra
    return body


def message_mark(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter that marks the end of the prefix, tools included."""
    if not request.system:
        return {}
    kept = {"type": "text", "text": request.system}
    return {"system": [{**kept, "cache_control": {"type": "ephemeral"}}]}


def _format(request: ModelRequest) -> dict[str, Any]:
    """Return the parameters for structured output."""
    if request.schema is None:
        return {}
    enforced = closed(request.schema)
    if enforced is not None:
        return {
            "output_config": {"format": {"type": "json_schema", "schema": enforced}}
        }
    tool = {"name": request.schema_name, "input_schema": dict(request.schema)}
    return {
        "tools": [tool],
        "tool_choice": {"type": "tool", "name": request.schema_name},
    }


def read_message(provider: str, answer: Any, tool: str = "") -> ModelAnswer:
    """Return an answer, as an object of the SDK or as JSON, in our form.

    `tool`: the one that the request demanded; empty: any.

    Raises:
        StageError: It states an error, or has no message.
    """
    usage, notes = part(answer, "usage"), list[str]()
    read = count(usage, "cache_read_input_tokens")
    written = count(usage, "cache_creation_input_tokens")
    found = ModelAnswer(
        text="",
        stop_reason=part(answer, "stop_reason") or "",
        tokens_in=count(usage, "input_tokens", notes) + read + written,
        tokens_out=count(usage, "output_tokens", notes),
        cached_tokens_in=read,
        cache_write_tokens_in=written,
        notes=tuple(notes),
        response_model=part(answer, "model") or "",
        service_tier=part(usage, "service_tier") or "",
    )
    require_no_error(answer, found)
    try:
        text = text_of(needed(answer, "content"), tool)
    except (AttributeError, LookupError, TypeError) as error:
        raise malformed_answer(provider, error, found) from error
    return replace(found, text=text)
