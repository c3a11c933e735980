"""Read the parts of an answer, of an object of an SDK or of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from piecework.errors.stop_reasons import error_in
from piecework.llm.mending import count_of
from piecework.llm.request import ModelAnswer, ModelRequest


def temperature_of(request: ModelRequest) -> dict[str, float]:
    """Return the temperature, if the stage set one: some models refuse any."""
    if request.temperature is None:
        return {}
    return {"temperature": request.temperature}


def text_of(content: Any, tool: str = "") -> str:
    """Return the texts of an answer, or what its tool was given, as JSON.

    If the request demands a tool, a turn that asks for another one has no answer,
    whatever it says before.

    Raises:
        TypeError: The content is neither a text nor a list of parts.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        raise TypeError(type(content).__name__)
    texts = []
    for each in content:
        used = part(each, "toolUse")
        if used is None and part(each, "type") == "tool_use":
            used = each
        if used is not None:
            if tool and part(used, "name") != tool:
                return ""
            given = part(used, "input")
            return given if isinstance(given, str) else json.dumps(given)
        texts.append(each if isinstance(each, str) else part(each, "text") or "")
    return "".join(texts)


def part(whole: Any, name: str) -> Any:
    """Return a part of an answer, of an object or of a mapping; None: it has none."""
    if isinstance(whole, Mapping):
        return whole.get(name)
    return getattr(whole, name, None)


def needed(whole: Any, name: str) -> Any:
    """Return a part of an answer that each answer has.

    Raises:
        LookupError, AttributeError, TypeError: It has none.
    """
    return whole[name] if isinstance(whole, Mapping) else getattr(whole, name)


def count(usage: Any, name: str, notes: list[str] | None = None) -> int:
    """Return a number of tokens; an odd one leaves a note, and counts as 0."""
    found = count_of(part(usage, name))
    if found is None and notes is not None:
        notes.append(f"{name} is missing or odd: it counts as 0")
    return found or 0


def require_no_error(answer: Any, found: ModelAnswer) -> None:
    """Refuse an answer that states an error although its status is 200.

    Raises:
        StageError: With the code of the status that it states; `found`: its tokens.
    """
    if (error := error_in(answer)) is not None:
        error.facts["answer"] = found
        raise error
