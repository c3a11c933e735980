"""A client in the form of OpenAI's SDK that answers without a network.

It stands for the provider, so that the example runs without a key. It finds a number
and a total by two patterns, and answers as Chat Completions do.
"""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from typing import Any, Final

NUMBER: Final = re.compile(r"[Ii]nvoice\s+(?:no\.?\s+)?([A-Z0-9-]+)")
TOTAL: Final = re.compile(r"(\d+)\.(\d\d)\s*(?:EUR|USD)")


class OfflineClient:
    """Has the one method that the adapter calls: `chat.completions.create`."""

    def __init__(self) -> None:
        self.chat = SimpleNamespace(completions=SimpleNamespace(create=self.create))

    async def create(self, *, messages: list[dict[str, str]], **_: Any) -> Any:
        """Answer the first text of the user."""
        asked = next(each["content"] for each in messages if each["role"] == "user")
        text = json.dumps(found_in(asked))
        return SimpleNamespace(
            choices=[
                SimpleNamespace(
                    finish_reason="stop",
                    message=SimpleNamespace(content=text, refusal=None),
                )
            ],
            usage=SimpleNamespace(
                prompt_tokens=tokens_of(asked), completion_tokens=tokens_of(text)
            ),
        )


def found_in(text: str) -> dict[str, str | int]:
    """Return the fields that are in a text."""
    found: dict[str, str | int] = {}
    if number := NUMBER.search(text):
        found["number"] = number[1]
    if total := TOTAL.search(text):
        found["total_cents"] = int(total[1] + total[2])
    return found


def tokens_of(text: str) -> int:
    """Return the tokens of a text, at four characters each."""
    return -(-len(text) // 4)
