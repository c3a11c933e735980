"""Converse of Amazon Bedrock: the request's parameters, and the answer read."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piecework.errors.stop_reasons import stop_error
from piecework.llm.parts import count, part, temperature_of, text_of
from piecework.llm.request import ModelAnswer, ModelRequest, malformed_answer
from piecework.llm.schema import closed


def converse_body(request: ModelRequest) -> dict[str, Any]:
    """Return the parameters of a request."""
    return {
        "modelId": request.model,
        "messages": [
            {"role": each.role, "content": [{"text": each.text}]}
            for each in request.turns
        ],
        "inferenceConfig": {"maxTokens": request.max_tokens, **temperature_of(request)},
        **({"system": [{"text": request.system}]} if request.system else {}),
        **_format(request),
        **_metadata(request),
    }


def converse_lane(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter of a lane."""
    return {"serviceTier": {"type": request.lane}} if request.lane else {}


def converse_mark(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter that marks the end of the prefix, tools included."""
    if not request.system:
        return {}
    return {"system": [{"text": request.system}, {"cachePoint": {"type": "default"}}]}


def _format(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter for structured output."""
    if request.schema is None:
        return {}
    schema = closed(request.schema) or dict(request.schema)
    tool = {"name": request.schema_name, "inputSchema": {"json": schema}}
    choice = {"tool": {"name": request.schema_name}}
    return {"toolConfig": {"tools": [{"toolSpec": tool}], "toolChoice": choice}}


def _metadata(request: ModelRequest) -> dict[str, Any]:
    """Return the parameter with the key of the call; Bedrock allows 256 characters."""
    key = request.idempotency_key[:256]
    return {"requestMetadata": {"idempotency-key": key}} if key else {}


def read_converse(provider: str, answer: Any, tool: str = "") -> ModelAnswer:
    """Return an answer in our form. `tool`: the one that was demanded; empty: any.

    Raises:
        StageError: It has no message.
    """
    usage, notes = part(answer, "usage"), list[str]()
    read = count(usage, "cacheReadInputTokens")
    written = count(usage, "cacheWriteInputTokens")
    found = ModelAnswer(
        text="",
        stop_reason=part(answer, "stopReason") or "",
        tokens_in=count(usage, "inputTokens", notes) + read + written,
        tokens_out=count(usage, "outputTokens", notes),
        cached_tokens_in=read,
        cache_write_tokens_in=written,
        notes=tuple(notes),
        service_tier=part(part(answer, "serviceTier"), "type") or "",
    )
    # A guardrail or a filter may answer, and be paid, without a message.
    if not part(answer, "output") and stop_error(found.stop_reason):
        return found
    try:
        text = text_of(answer["output"]["message"]["content"], tool)
    except (KeyError, TypeError, AttributeError) as error:
        raise malformed_answer(provider, error, found) from error
    return replace(found, text=text)
