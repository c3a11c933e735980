"""Pipelines whose stages fail in each of the five classes, with and without a hook."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from piecework import (
    Context,
    Dependency,
    Fallback,
    PermanentError,
    Pipeline,
    PolicyError,
    SemanticError,
    Stage,
    StateError,
    TransientError,
)
from tests.scenarios.pipelines import QUICK, Item, fixed, note, shop

REFUSED = "llm.policy.refusal"
NONSENSE = "tool.output.nonsense"


async def ask_small(trouble: str, hint: str, *, idempotency_key: str) -> str:
    """Be the cheaper model, which answers the same questions."""
    note("small", trouble, idempotency_key)
    return f"small {hint}".strip()


def by_rules(trouble: str, hint: str) -> str:
    """Answer without a model."""
    note("rules", trouble)
    return f"rules {hint}".strip()


small = Dependency("small", retry=QUICK, layer="llm")
large = Dependency(
    "large",
    retry=QUICK,
    layer="llm",
    fallback=(Fallback(small, ask_small), Fallback(None, by_rules)),
)


async def ask_large(trouble: str, hint: str, *, idempotency_key: str) -> str:
    """Be the large model: refuse, or answer nonsense until told what was wrong."""
    note("large", trouble, hint or "-", idempotency_key)
    if trouble.startswith("refused"):
        message = "I cannot help with that."
        raise PolicyError(message, code=REFUSED)
    return "nonsense" if trouble == "nonsense" and not hint else "large"


async def let(n: int, *, idempotency_key: str) -> str:
    """Let a room at the inn, which is full until another stage has found one."""
    note("inn", n, idempotency_key)
    if not fixed():
        message = "There is no room."
        raise PolicyError(message, code="tool.policy.quota", http_status=422)
    return "inn"


async def let_elsewhere(n: int, *, idempotency_key: str) -> str:
    """Let a room at the tavern, and make one free at the inn."""
    note("tavern", n, idempotency_key)
    fix()
    return "tavern"


def fix() -> None:
    """Put the cause of the trouble right."""
    Path(os.environ["SCENARIO_LEDGER"] + ".fixed").touch()


inn = replace(shop, name="inn", fallback=(Fallback(shop, let_elsewhere),))


async def reserve(ctx: Context[Item]) -> list[int]:
    """Have something to undo, and to hand on."""
    note("reserve", ctx.chunk)
    if ctx.payload.trouble == "full":
        note("room", await ctx.call(inn, let, ctx.payload.n))
        if ctx.attempt == 1:
            raise TransientError("not now", code="tool.stock.busy")
    return [ctx.payload.n]


async def free(ctx: Context[Item]) -> None:
    """Undo it."""
    note("free", ctx.chunk)


async def extract(ctx: Context[Item]) -> str:
    """Ask the model, and fail in the way that the payload says."""
    note("extract", ctx.chunk, ctx.attempt, *ctx.result(reserve))
    answer = await ctx.call(large, ask_large, ctx.payload.trouble, "")
    match ctx.payload.trouble, ctx.attempt:
        case "transient" | "refused-transient", 1:
            raise TransientError("not now", code="tool.stock.busy")
        case "never-well", _:
            raise TransientError("not now", code="tool.stock.busy")
        case "permanent", _:
            raise PermanentError("out of stock", code="tool.stock.none")
        case "state", 1:
            ctx.result(reserve).append(99)
            ctx.payload.n = 99
            raise StateError("the session is lost", code="tool.session.lost")
        case "stage-refused", _:
            raise PolicyError("not this document", code=REFUSED)
        case ("nonsense", _) if answer == "nonsense":
            raise SemanticError("that is no clause", code=NONSENSE)
    return answer


async def extract_again(ctx: Context[Item]) -> str:
    """Ask again, with what was wrong."""
    assert ctx.failure is not None
    note("again", ctx.chunk, ctx.failure.code)
    return await ctx.call(large, ask_large, ctx.payload.trouble, ctx.failure.code)


def extract_by_rules(ctx: Context[Item]) -> str:
    """Extract what can be had without a model."""
    assert ctx.failure is not None
    note("by-rules", ctx.chunk, ctx.failure.code)
    return "by rules"


async def deliver(ctx: Context[Item]) -> str:
    """Hand the answer over."""
    return await ctx.call(shop, post, ctx.chunk, ctx.result(extract))


async def post(chunk: int, answer: str, *, idempotency_key: str) -> str:
    """Post it."""
    note("post", chunk, answer.replace(" ", "-"), idempotency_key)
    return answer


recovering = Pipeline(
    name="recovering",
    payload=Item,
    stages=[
        Stage(reserve, compensate=free),
        Stage(extract, replan=extract_again, fallback=[extract_by_rules]),
        Stage(deliver, pivot=True),
    ],
)

isolated = Pipeline(
    name="recovering-apart",
    payload=Item,
    stages=[
        Stage(reserve, compensate=free),
        Stage(extract, replan=extract_again, fallback=[extract_by_rules], isolate=True),
        Stage(deliver, pivot=True),
    ],
)

plain = Pipeline(
    name="recovering-without",
    payload=Item,
    stages=[Stage(reserve, compensate=free), Stage(extract), Stage(deliver)],
)
