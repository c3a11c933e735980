"""generateContent of Gemini: the request's parameters, and the answer read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from piecework.llm.parts import count, part, temperature_of
from piecework.llm.request import ModelAnswer, ModelRequest, malformed_answer

#: Options of one request: the SDK does not send it again by itself.
ONCE: Final = {"http_options": {"retry_options": {"attempts": 1}}}
#: The roles of a conversation, in its words.
_ROLES: Final = {"user": "user", "assistant": "model"}
#: The members of the SDK's `config` beside `generationConfig` on the wire.
_BESIDE: Final = frozenset(
    {"cached_content", "safety_settings", "system_instruction", "tool_config", "tools"}
)
#: Members that say how the SDK sends a request; a row of a batch has no tier.
_OF_THE_SDK: Final = frozenset(
    {"automatic_function_calling", "http_options", "service_tier"}
)
#: Members whose content is a schema of the user: its names stay as they are.
_SCHEMAS: Final = frozenset({"response_json_schema", "response_schema"})


def gemini_body(request: ModelRequest) -> dict[str, Any]:
    """Return the parameters of a request, as the SDK names them."""
    config: dict[str, Any] = {
        "max_output_tokens": request.max_tokens,
        **temperature_of(request),
    }
    if request.system:
        config["system_instruction"] = {"parts": [{"text": request.system}]}
    if request.schema is not None:
        config["response_mime_type"] = "application/json"
        config["response_json_schema"] = dict(request.schema)
    contents = [
        {"role": _ROLES[each.role], "parts": [{"text": each.text}]}
        for each in request.turns
    ]
    return {"model": request.model, "contents": contents, "config": config}


def on_the_wire(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the request of these parameters as JSON; its model is in the address."""
    found: dict[str, Any] = {"contents": body["contents"], "generationConfig": {}}
    for name in body["config"].keys() - _OF_THE_SDK:
        value = body["config"][name]
        holder = found if name in _BESIDE else found["generationConfig"]
        holder[_camel(name)] = value if name in _SCHEMAS else _renamed(value)
    return found


def _renamed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {_camel(name): _renamed(each) for name, each in value.items()}
    return [_renamed(each) for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(each.capitalize() for each in rest)


def read_gemini(provider: str, answer: Any) -> ModelAnswer:
    """Return an answer, as an object of the SDK or as JSON, in our form.

    Thoughts are left out of its text, and are paid for.

    Raises:
        StageError: It has no message.
    """
    usage, notes = _part(answer, "usage_metadata"), list[str]()
    found = ModelAnswer(
        text="",
        stop_reason="",
        tokens_in=_count(usage, "prompt_token_count", notes),
        tokens_out=_count(usage, "candidates_token_count")
        + _count(usage, "thoughts_token_count"),
        cached_tokens_in=_count(usage, "cached_content_token_count"),
        notes=tuple(notes),
        response_model=_part(answer, "model_version") or "",
    )
    blocked = _part(_part(answer, "prompt_feedback"), "block_reason")
    if not part(answer, "candidates") and blocked:  # it read the prompt, no more
        return replace(found, stop_reason=_word(blocked))
    try:
        candidate = part(answer, "candidates")[0]
        parts = part(part(candidate, "content"), "parts") or ()
        text = "".join(
            part(each, "text") or "" for each in parts if not part(each, "thought")
        )
    except (LookupError, TypeError) as error:
        raise malformed_answer(provider, error, found) from error
    reason = _word(_part(candidate, "finish_reason"))
    return replace(found, text=text, stop_reason=reason)


def _part(whole: Any, name: str) -> Any:
    """Return a part by the name of the SDK, or by that of the wire."""
    return part(whole, _camel(name) if isinstance(whole, Mapping) else name)


def _count(usage: Any, name: str, notes: list[str] | None = None) -> int:
    wire = isinstance(usage, Mapping)
    return count(usage, _camel(name) if wire else name, notes)


def _word(reason: Any) -> str:
    return str(getattr(reason, "value", reason) or "")
