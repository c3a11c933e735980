"""The request to a model and its answer, in one form for all providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import Any, Literal, TypeAlias

from piecework.errors import StageError, TransientError
from piecework.errors.classify_llm import raise_for_stop_reason


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request to a model. Its content is part of the key of the call.

    Attributes:
        model: The provider's id of the model. Empty in keys: the name of the called
            function has provider and id.
        idempotency_key: The key of the call; the same for each of its attempts. Empty
            in keys.
        schema: The JSON schema of the answer; None: any text.
        schema_name: The name of the answer's type.
        options: Further parameters, as the provider names them.
        prompt_version: The declared version of the prompt; its text counts anyway.
        own_limit: Whether `max_tokens` is the model's own: a fallback has another.
    """

    system: str
    turns: tuple[Turn, ...]
    max_tokens: int
    temperature: float | None = None
    schema: Mapping[str, Any] | None = None
    schema_name: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    prompt_version: str = ""
    model: str = ""
    idempotency_key: str = ""
    own_limit: bool = False

    @property
    def text(self) -> str:
        """The text that the stage asked about."""
        return self.turns[0].text


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model answered; stored as the value of the call.

    Attributes:
        stop_reason: Why the model stopped, in the provider's word.
        tokens_in: All tokens of the prompt, those of a cache included.
        cached_tokens_in: The part of `tokens_in` that was read from a cache.
        cache_write_tokens_in: The part of `tokens_in` that was written to a cache.
        usd: The price, if the provider states it; None: the model's price applies.
        answered_by: The name of the `Model` that answered.
    """

    text: str
    stop_reason: str = ""
    tokens_in: int = 0
    tokens_out: int = 0
    cached_tokens_in: int = 0
    cache_write_tokens_in: int = 0
    usd: float | None = None
    answered_by: str = ""

    def misfit(self) -> str:
        """Return which count is not a number from 0, or below its part; empty: none."""
        counts: dict[str, Any] = {
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cached_tokens_in": self.cached_tokens_in,
            "cache_write_tokens_in": self.cache_write_tokens_in,
            "usd": self.usd or 0.0,
        }
        for name, count in counts.items():
            if not (isinstance(count, int | float) and 0 <= count < inf):
                return f"{name}={count!r}"
        cached = self.cached_tokens_in + self.cache_write_tokens_in
        return f"tokens_in={self.tokens_in}" if self.tokens_in < cached else ""

    def stopped_early(self) -> StageError | None:
        """Return the error of an answer that is cut off or refused; None: complete."""
        try:
            raise_for_stop_reason({"stop_reason": self.stop_reason})
        except StageError as error:
            return error
        return None


#: Sends one request to a provider, without retries. It raises what the provider's
#: client raises. A text stands for an answer without token counts.
ModelCaller: TypeAlias = Callable[[ModelRequest], Awaitable[ModelAnswer | str]]


def malformed_answer(name: str, error: Exception, found: ModelAnswer) -> TransientError:
    """Return the error of an answer without a message; `found`: its tokens."""
    message = f"The answer of {name} has no message ({type(error).__name__})."
    return TransientError(message, code="llm.http.malformed_body", answer=found)
