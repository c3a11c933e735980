"""What a lane means for a model: its declaration, its refusals, the tier of its answer.

A provider's word decides, never the text of a message.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol

from piecework.errors import PermanentError, StageError, TransientError, UsageError
from piecework.errors.classify import classify
from piecework.errors.classify_llm import INSTEAD_OF_STATUS
from piecework.errors.codes import ErrorClass
from piecework.resilience.breaker import RATE_LIMIT_CODES, TOO_MANY_REQUESTS
from piecework.resilience.lanes import (
    BATCH,
    NO_ROOM_CODE,
    PRICED_TIERS,
    UNSUPPORTED_CODE,
    Lane,
)

if TYPE_CHECKING:
    from piecework.llm.request import ModelAnswer

#: The parameters that choose how fast a request is served, and for how much. The answer
#: is the same, so keys leave them out.
TIER_OPTIONS: Final = frozenset({"service_tier", "serviceTier"})
_BAD_REQUEST: Final = 400


class Declared(Protocol):
    """A model, as far as its lane depends on it."""

    name: str
    model_id: str
    provider: str
    caller: Any
    options: dict[str, Any]
    price: Any


def require_lane(model: Declared, lane: Lane) -> None:
    """Require that a model can have a lane, and that its bill will be right.

    Raises:
        UsageError: `pipeline.declaration.invalid`.
    """
    for why, step in _lane_errors(model, lane) if lane.tier else ():
        raise UsageError(
            f"The model {model.name} cannot have the lane {lane.tier}: {why}.",
            code="pipeline.declaration.invalid",
            next_step=step,
        )


def _lane_errors(model: Declared, lane: Lane) -> Iterator[tuple[str, str]]:
    """Yield what is wrong, each with its next step."""
    known = getattr(model.caller, "lanes", None)
    if lane.tier == BATCH:
        known = {BATCH} if getattr(model.caller, "batches", None) else {""}
    if known is not None and lane.tier not in known:
        yield f"{model.provider} has none", "Leave `lane` out for this model."
    for name in TIER_OPTIONS & model.options.keys():
        yield f"its options have {name}, too", "Keep the lane alone."
    priced = getattr(model.price, "has_tier", None)
    if priced is not None and not priced(lane.tier):
        step = f'Write Price(…, tiers={{"{lane.tier}": 0.5}}), as your provider bills.'
        yield "its price does not say what that costs", step


def refusal(error: Exception, model: Declared, lane: Lane) -> StageError | None:
    """Return the error of a request that its lane was refused for; None: another.

    A rate limit has a word of its own. A 429 without one says that the tier has no
    room; so does a throttle of Bedrock, which has one word for both.
    """
    failure = classify(error, layer="llm")
    status = failure.http_status
    limited = status == TOO_MANY_REQUESTS or failure.code in RATE_LIMIT_CODES
    is_quota = failure.error_class is ErrorClass.POLICY
    if limited and not is_quota and failure.provider_code not in INSTEAD_OF_STATUS:
        return TransientError(
            f"The lane {lane.tier} of {model.name} has no room now.",
            code=NO_ROOM_CODE,
            retry_after=failure.retry_after,
            dependency=model.name,
        )
    if status == _BAD_REQUEST and _parameter(error) in TIER_OPTIONS:
        return PermanentError(
            f"The model {model.model_id} of {model.provider} has no lane {lane.tier}.",
            code=UNSUPPORTED_CODE,
            next_step=f"Declare Model({model.name!r}, …) without `lane`, or another "
            "model, deploy the workers, then redrive the dead letter.",
            http_status=_BAD_REQUEST,
            provider_code=failure.provider_code,
        )
    return None


def _parameter(error: Exception) -> str:
    """Return the parameter that a provider refuses; empty: it names none."""
    body: Any = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, Mapping) else None
    for holder in (vars(error), inner, body):
        found = holder.get("param") if isinstance(holder, Mapping) else None
        if isinstance(found, str):
            return found
    return ""


def tier_notes(answer: ModelAnswer, lane: Lane) -> tuple[str, ...]:
    """Return the note of an answer that another tier has served, for its price."""
    if not lane.tier or answer.service_tier == lane.tier:
        return ()
    served = "another tier" if answer.service_tier else "a tier that it does not name"
    return (f"{lane.tier} was asked for, and {served} answered: its price counts",)


def billed_name(model_id: str, answer: ModelAnswer) -> str:
    """Return the name of the line in the bill: a tier of another price has its own."""
    tier = answer.service_tier
    return f"{model_id} {tier}" if tier in PRICED_TIERS else model_id
