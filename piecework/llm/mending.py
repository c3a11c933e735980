"""Read a paid answer in spite of its form: odd counts, halves of characters.

An answer is not thrown away for what does not change its content. Each part that is
read otherwise than it was sent leaves a note.
"""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import Any, Final

from piecework.llm.json_in_text import has_half
from piecework.llm.request import ModelAnswer

#: More tokens than any request has: a larger count is an error of the provider.
MOST_TOKENS: Final = 1_000_000_000
#: Halves of characters: a provider cut the text between them. No store accepts one.
_HALF: Final = re.compile("[\ud800-\udfff]")


def count_of(value: Any) -> int | None:
    """Return a count of tokens as a whole number; None: it is not one."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and 0 <= value <= MOST_TOKENS and value == int(value):
        return int(value)
    return None


def whole_text(text: str) -> str:
    """Return a text without halves of characters: pairs joined, others replaced."""
    if not _HALF.search(text):
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def mended(answer: ModelAnswer, *, typed: bool) -> ModelAnswer:
    """Return an answer that can be stored and counted, with a note of each change.

    `typed`: it is read as JSON, which may have halves of characters as escapes.
    """
    notes = [*answer.notes]
    changed: dict[str, Any] = {}
    for name in (
        "tokens_in",
        "tokens_out",
        "cached_tokens_in",
        "cache_write_tokens_in",
    ):
        found = getattr(answer, name)
        if (count := count_of(found)) is None:
            notes.append(f"{name} is odd: it counts as 0")
        changed[name] = count or 0
    parts = changed["cached_tokens_in"] + changed["cache_write_tokens_in"]
    if parts > changed["tokens_in"]:
        notes.append(
            "tokens_in is less than its cached part: no token counts as cached"
        )
        changed |= {"cached_tokens_in": 0, "cache_write_tokens_in": 0}
    usd: Any = answer.usd
    if usd is not None and not (isinstance(usd, int | float) and 0 <= usd < inf):
        notes.append("usd is odd: the price of the model counts")
        changed["usd"] = None
    for name in ("response_model", "service_tier"):
        said: Any = getattr(answer, name)
        changed[name] = whole_text(said) if isinstance(said, str) else ""
    changed["text"] = whole_text(answer.text)
    if changed["text"] != answer.text or (typed and has_half(answer.text)):
        notes.append("a half of a character is replaced")
    return replace(answer, **changed, notes=tuple(notes))
