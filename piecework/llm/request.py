"""The request to a model and its answer, in one form for all providers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from piecework.errors import SemanticError, StageError, TransientError
from piecework.errors.stop_reasons import stop_error


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
        options: Further parameters, as the provider names them. A caller receives those
            of its model and of `ask` together; keys have those of `ask`.
        options_for: The name of the model that the options of `ask` are for; empty:
            any. A fallback may have another provider, which would refuse them.
        prompt_version: The declared version of the prompt; its text counts anyway.
        own_limit: Whether `max_tokens` is the model's own: a fallback has another.
        may_be_empty: Whether an answer without any text is an answer.
        lane: The tier to ask the provider for, such as `flex`; empty: none, and empty
            in keys: the answer is the same.
        timeout: Seconds that the client may wait in such a lane; None: its own. None in
            keys.
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
    may_be_empty: bool = False
    options_for: str = ""
    lane: str = ""
    timeout: float | None = None

    @property
    def text(self) -> str:
        """The text that the stage asked about."""
        return self.turns[0].text


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model answered; stored as the value of the call.

    Attributes:
        stop_reason: Why the model stopped, in the provider's word; empty: the provider
            stated none, so the answer is cut off. A caller that does not set it vouches
            for a finished answer.
        tokens_in: All tokens of the prompt, those of a cache included.
        cached_tokens_in: The part of `tokens_in` that was read from a cache.
        cache_write_tokens_in: The part of `tokens_in` that was written to a cache.
        usd: The price, if the provider states it; None: the model's price applies.
        answered_by: The name of the `Model` that answered.
        response_model: The model that answered, as the provider names it; empty: it
            did not say.
        service_tier: The tier that served the request, as the provider names it: it
            decides the price. Empty: the provider did not say.
        notes: What was odd in the answer, and how it was read; no content is quoted.
    """

    text: str
    stop_reason: str = "stop"
    tokens_in: int = 0
    tokens_out: int = 0
    cached_tokens_in: int = 0
    cache_write_tokens_in: int = 0
    usd: float | None = None
    answered_by: str = ""
    notes: tuple[str, ...] = ()
    response_model: str = ""
    service_tier: str = ""

    def failure(self, request: ModelRequest) -> StageError | None:
        """Return the error of an answer that cannot be used; None: it is finished.

        An answer in the form of a tool that the request demanded ends with `tool_use`.
        An answer that must have a type may be empty here: its repair asks again.
        """
        is_typed = request.schema is not None
        handled = {"tool_use"} if is_typed and self.text else set()
        error = stop_error(self.stop_reason, handled)
        if error or self.text.strip() or is_typed or request.may_be_empty:
            return error
        message = f"The model finished without any text: {self.stop_reason}."
        step = "Change the prompt, or allow it: ask(…, may_be_empty=True)."
        return SemanticError(message, code="llm.output.invalid", next_step=step)


#: Sends one request to a provider, without retries. It raises what the provider's
#: client raises. A text stands for an answer without token counts.
ModelCaller: TypeAlias = Callable[[ModelRequest], Awaitable[ModelAnswer | str]]


def malformed_answer(name: str, error: Exception, found: ModelAnswer) -> TransientError:
    """Return the error of an answer without a message; `found`: its tokens."""
    message = f"The answer of {name} has no message ({type(error).__name__})."
    return TransientError(message, code="llm.http.malformed_body", answer=found)


def merged(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters with further ones; two objects of one name become one."""
    found = dict(body)
    for name, value in options.items():
        ours = found.get(name)
        if isinstance(ours, Mapping) and isinstance(value, Mapping):
            found[name] = {**ours, **value}
        else:
            found[name] = value
    return found
