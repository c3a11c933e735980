"""The model that the environment names, as the stages ask it."""

from __future__ import annotations

import functools
from typing import Final

from piecework.llm import Model, ModelCaller, Price
from piecework_examples.contract_review import rules_model
from piecework_examples.contract_review.config import (
    LARGE_MODEL,
    SMALL_MODEL,
    from_environment,
)

MAX_TOKENS: Final = 2_000
#: Fictional prices of fictional models, in dollars for a million tokens.
PRICES: Final = {
    SMALL_MODEL: Price(input=0.25, output=1.25),
    LARGE_MODEL: Price(input=3.0, output=15.0),
}


def current() -> Model:
    """Return the model that the environment names, with its fallback."""
    config = from_environment()
    return declared(config.model, config.model_id, config.fallback_id)


@functools.cache
def declared(kind: str, model_id: str, fallback_id: str) -> Model:
    """Return a model; its id is part of the keys, so that another one is asked again.

    The fallback answers what the model refuses, cuts off or cannot read. It also
    answers while the model is overloaded.
    """
    larger = [named("bedrock-fallback", kind, fallback_id)] if fallback_id else []
    return named("bedrock", kind, model_id, larger)


def named(
    name: str, kind: str, model_id: str, larger: list[Model] | None = None
) -> Model:
    """Return a model with its price."""
    return Model(
        name,
        caller_of(kind),
        model_id=model_id,
        price=PRICES.get(model_id) if kind == "bedrock" else None,
        fallback=larger or (),
        max_tokens=MAX_TOKENS,
    )


def caller_of(kind: str) -> ModelCaller:
    """Return what sends the requests: Bedrock, or the rules in this process."""
    if kind == "rules":
        return rules_model.caller
    # aiobotocore takes a second to import: only a process that uses it waits for it.
    from piecework_examples.contract_review.bedrock import caller

    return caller
