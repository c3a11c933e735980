"""Tell what the models of a pipeline cost, so that a budget in dollars is kept.

A model that only running code reaches is not found here; a worker then refuses its call
with `runtime.budget.no_price`.
"""

from __future__ import annotations

from typing import Any, Final

from piecework.dependency import Dependency
from piecework.domain.budget import Cap
from piecework.errors import UsageError
from piecework.pipelines import Pipeline
from piecework.saga.named import dependencies_of

#: Tokens whose price is asked for: longer prompts cost more at some providers.
SHORT: Final = 1_000
MILLION: Final = 1_000_000


def require_prices(pipeline: Pipeline, cap: Cap) -> None:
    """Refuse a budget in dollars if a model of the pipeline has no price.

    Raises:
        UsageError: `submit.budget.no_price`.
    """
    if cap.nano_usd is None:
        return
    found = dependencies_of(pipeline)
    missing = sorted(
        {d.name for d in found if d.layer == "llm" and d.estimate_usd is None}
    )
    if missing:
        raise UsageError(
            f"The price of a call is not known for: {', '.join(missing)}.",
            code="submit.budget.no_price",
            next_step="Declare Model(…, price=…) or Dependency(…, estimate_usd=…), or"
            " submit with --budget-tokens.",
        )


def lane_prices(pipeline: Pipeline) -> list[dict[str, Any]]:
    """Return the prices of each model with a lane, in the lane and direct.

    They are in dollars for a million tokens, in and out, of a short request; None: the
    model has no price.
    """
    found = {d.name: d for d in dependencies_of(pipeline) if d.lane.tier}
    return [
        {
            "model": name,
            "lane": each.lane.tier,
            "lane_usd": tier_price(each, each.lane.tier),
            "direct_usd": tier_price(each, ""),
        }
        for name, each in sorted(found.items())
    ]


def tier_price(model: Dependency, tier: str) -> dict[str, float] | None:
    """Return what a million tokens cost in a tier; None: the model has no price."""
    from piecework.llm import ModelAnswer  # loads pydantic

    if model.usage is None:
        return None
    short = {
        "in": ModelAnswer("", tokens_in=SHORT, service_tier=tier),
        "out": ModelAnswer("", tokens_out=SHORT, service_tier=tier),
    }
    found = {where: model.usage(answer).usd for where, answer in short.items()}
    return {
        where: round(usd * MILLION / SHORT, 6)
        for where, usd in found.items()
        if usd is not None
    } or None
