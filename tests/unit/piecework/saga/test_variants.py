"""The five error classes, with and without variants, around the pivot."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pytest
from pydantic import BaseModel

from piecework.dependency import Dependency
from piecework.domain.effect import Effect
from piecework.domain.identity import named_call
from piecework.domain.outcome import CompensationResult, DeadLettered, Retry, Succeeded
from piecework.errors import (
    ErrorEnvelope,
    PermanentError,
    PolicyError,
    SemanticError,
    StateError,
    StoreError,
    TransientError,
)
from piecework.errors.codes import ErrorClass
from piecework.pipelines import Pipeline, Stage
from piecework.saga.recovery import PivotPosition
from tests.unit.piecework.fakes import Clause, Log, caller, checkpoints_of, context, run

ERRORS: dict[ErrorClass, Exception] = {
    ErrorClass.TRANSIENT: TransientError("later"),
    ErrorClass.PERMANENT: PermanentError("never"),
    ErrorClass.SEMANTIC: SemanticError("nonsense", code="tool.output.nonsense"),
    ErrorClass.POLICY: PolicyError("not that", code="llm.policy.refusal"),
    ErrorClass.STATE: StateError("forgotten"),
}
SHOP = Dependency("shop", effect=Effect.PROVIDER_IDEMPOTENT)


@dataclass
class Play:
    """A stage that fails as it is told, between one that is undone and a last one."""

    errors: list[Exception]
    others: list[Exception] = field(default_factory=list)
    replan: bool = False
    max_replans: int = 1
    fallbacks: int = 0
    pivot: PivotPosition = PivotPosition.AHEAD
    did: list[str] = field(default_factory=list)
    told: list[ErrorEnvelope | None] = field(default_factory=list)

    async def book(self, _: Any) -> list[int]:
        return [1]

    async def unbook(self, _: Any) -> None:
        self.did.append("unbook")

    async def work(self, ctx: Any) -> str:
        return self.way(ctx, "work", self.errors)

    async def again(self, ctx: Any) -> str:
        return self.way(ctx, "again", self.others)

    def way(self, ctx: Any, name: str, errors: list[Exception]) -> str:
        self.did.append(name)
        self.told.append(ctx.failure)
        if errors:
            raise errors.pop(0)
        return name

    def fallback(self, number: int) -> Any:
        async def rules(ctx: Any) -> str:
            return self.way(ctx, f"rules {number}", self.others)

        return rules

    async def end(self, ctx: Any) -> str:
        self.told.append(ctx.failure)
        return str(ctx.result(self.work))

    async def pay(self, _: Any) -> None: ...

    @property
    def pipeline(self) -> Pipeline:
        behind = (
            [Stage(self.pay, pivot=True)] if self.pivot is PivotPosition.BEHIND else []
        )
        stage = Stage(
            self.work,
            pivot=self.pivot is PivotPosition.IN_DOUBT,
            replan=self.again if self.replan else None,
            max_replans=self.max_replans,
            fallback=[self.fallback(n) for n in range(1, self.fallbacks + 1)],
        )
        undo = Stage(self.book, compensate=self.unbook)
        stages = [undo, *behind, stage, Stage(self.end)]
        return Pipeline("play", payload=Clause, stages=stages)

    async def run(self, ctx: Any = None, *, attempt: int = 1) -> Any:
        pipeline = self.pipeline
        completed = {"book": "[1]"}
        if self.pivot is PivotPosition.BEHIND:
            completed["pay"] = "null"
        # A pivot that an earlier claim had entered already is in doubt.
        entered = "work" if self.pivot is PivotPosition.IN_DOUBT else ""
        kept = checkpoints_of(pipeline, completed=completed, reached_stage=entered)
        ctx = context(pipeline, attempt=attempt) if ctx is None else ctx
        return await run(pipeline, kept, ctx=ctx)


def helps(error_class: ErrorClass, way: str) -> bool:
    return (error_class, way) in {
        (ErrorClass.SEMANTIC, "replan"),
        (ErrorClass.POLICY, "fallback"),
    }


@pytest.mark.parametrize("attempt", [1, 3])
@pytest.mark.parametrize(
    ("error_class", "way", "pivot"),
    list(product(ErrorClass, ["none", "replan", "fallback"], PivotPosition)),
)
async def test_the_whole_table(
    error_class: ErrorClass, way: str, pivot: PivotPosition, attempt: int
) -> None:
    play = Play([ERRORS[error_class]], pivot=pivot)
    play.replan, play.fallbacks = way == "replan", way == "fallback"
    outcome = await play.run(attempt=attempt)

    comes_back = error_class in {ErrorClass.TRANSIENT, ErrorClass.STATE}
    if comes_back and attempt < 3:
        assert isinstance(outcome, Retry)
        assert ["work"] == play.did
    elif helps(error_class, way) and pivot is not PivotPosition.IN_DOUBT:
        other = "again" if way == "replan" else "rules 1"
        assert Succeeded(f'"{other}"') == outcome
        assert ["work", other] == play.did
    elif pivot is PivotPosition.AHEAD:
        assert (DeadLettered, CompensationResult.COMPENSATED) == (
            type(outcome),
            outcome.compensation,
        )
        assert ["work", "unbook"] == play.did
    else:
        assert isinstance(outcome, DeadLettered)
        assert ["work"] == play.did
        assert {
            PivotPosition.IN_DOUBT: CompensationResult.PIVOT_UNKNOWN,
            PivotPosition.BEHIND: CompensationResult.PAST_PIVOT,
        }[pivot] is outcome.compensation


async def test_only_the_hook_sees_the_failure() -> None:
    play = Play([ERRORS[ErrorClass.SEMANTIC]], replan=True)
    await play.run()
    first, second, end = play.told
    assert (first, end) == (None, None)
    assert second is not None
    assert "tool.output.nonsense" == second.code
    assert ("work", ErrorClass.SEMANTIC) == (second.stage, second.error_class)


async def test_each_replan_sees_the_failure_of_the_one_before() -> None:
    play = Play([SemanticError("a")], [SemanticError("b")], replan=True, max_replans=2)
    assert Succeeded('"again"') == await play.run()
    assert [None, "a", "b", None] == [f and f.message for f in play.told]


async def test_after_the_last_replan_the_failure_is_permanent() -> None:
    errors: list[Exception] = [SemanticError("x") for _ in range(9)]
    play = Play([SemanticError("x")], errors, replan=True, max_replans=2)
    outcome = await play.run()
    assert CompensationResult.COMPENSATED is outcome.compensation
    assert ["work", "again", "again", "unbook"] == play.did


async def test_each_fallback_of_the_chain_runs_once_in_order() -> None:
    errors: list[Exception] = [PolicyError("x") for _ in range(9)]
    play = Play([PolicyError("x")], errors, fallbacks=2)
    outcome = await play.run()
    assert isinstance(outcome, DeadLettered)
    assert ["work", "rules 1", "rules 2", "unbook"] == play.did


async def test_a_fallback_may_be_replanned_and_a_replan_may_fall_back() -> None:
    play = Play([SemanticError("a")], [PolicyError("b")], replan=True, fallbacks=1)
    assert Succeeded('"rules 1"') == await play.run()
    assert ["work", "again", "rules 1"] == play.did
    play = Play([PolicyError("a")], [SemanticError("b")], replan=True, fallbacks=1)
    assert Succeeded('"again"') == await play.run()
    assert ["work", "rules 1", "again"] == play.did


async def test_the_failure_of_the_last_variant_is_the_stages_failure() -> None:
    play = Play([SemanticError("a")], [TransientError("b")], replan=True)
    outcome = await play.run()
    assert isinstance(outcome, Retry)
    assert "b" == outcome.failure.message


async def test_a_store_outage_runs_no_other_variant() -> None:
    play = Play([StoreError("no table")], replan=True, fallbacks=1)
    with pytest.raises(StoreError):
        await play.run()
    assert ["work"] == play.did


async def test_each_variant_is_emitted() -> None:
    log, signs = Log(), list[int]()
    play = Play([SemanticError("a")], [PolicyError("b")], replan=True, fallbacks=1)
    by = caller(progress=lambda: signs.append(1))
    await play.run(context(play.pipeline, log=log, caller=by))
    told = [said for said in log.said if said[0] != "stage.completed"]
    again = {"stage": "work", "error_code": "runtime.stage.semantic", "times": 1}
    rules = {"stage": "work", "error_code": "runtime.stage.policy", "times": 2}
    assert told == [
        ("stage.replanned", {**again, "to": "again"}),
        ("stage.fallback_used", {**rules, "to": "rules"}),
    ]
    assert len(signs) >= 2


class Basket(BaseModel):
    items: list[str]


async def test_a_variant_does_not_see_the_memory_of_the_one_before() -> None:
    async def first(_: Any) -> Basket:
        return Basket(items=["a"])

    async def spoils(ctx: Any) -> str:
        ctx.payload.text = "spoilt"
        ctx.result(first).items.append("spoilt")
        message = "no"
        raise SemanticError(message)

    async def reads(ctx: Any) -> str:
        return f"{ctx.payload.text} {ctx.result(first).items}"

    stages = [Stage(first), Stage(spoils, replan=reads)]
    pipeline = Pipeline("spoilt", payload=Clause, stages=stages)
    assert Succeeded("\"text ['a']\"") == await run(pipeline)


@pytest.mark.parametrize("answered", [True, False])
async def test_a_stage_whose_effect_may_have_happened_runs_no_other_variant(
    answered: bool,  # noqa: FBT001
) -> None:
    @named_call("book")
    async def book(*, idempotency_key: str) -> str:
        if not answered:
            raise ConnectionResetError
        return idempotency_key[:0]

    async def works(ctx: Any) -> str:
        try:
            await ctx.call(SHOP, book)
        finally:
            message = "the wrong room"
            raise SemanticError(message)

    async def again(_: Any) -> str:
        return "again"

    stages = [Stage(works, replan=again)]
    outcome = await run(Pipeline("booked", payload=Clause, stages=stages))
    assert isinstance(outcome, DeadLettered)
    assert "the wrong room" == outcome.failure.message


async def test_after_a_refused_effect_other_variants_may_run() -> None:
    @named_call("book")
    async def book(*, idempotency_key: str) -> str:
        del idempotency_key
        message = "full"
        raise PolicyError(message, http_status=422)

    async def works(ctx: Any) -> str:
        return str(await ctx.call(SHOP, book))

    async def again(_: Any) -> str:
        return "again"

    stages = [Stage(works, fallback=[again])]
    outcome = await run(Pipeline("refused", payload=Clause, stages=stages))
    assert Succeeded('"again"') == outcome


async def test_a_replan_that_makes_the_very_same_call_gets_the_same_answer() -> None:
    """The answer is paid for; another answer needs other arguments."""
    asked: list[str] = []
    model = Dependency("model")

    @named_call("ask")
    async def ask(prompt: str, *, idempotency_key: str) -> str:
        del idempotency_key
        asked.append(prompt)
        return f"re {prompt}"

    async def works(ctx: Any) -> str:
        await ctx.call(model, ask, "prompt")
        message = "no"
        raise SemanticError(message)

    async def again(ctx: Any) -> str:
        same = await ctx.call(model, ask, "prompt")
        other = await ctx.call(model, ask, f"not {ctx.failure.code}")
        return f"{same}, {other}"

    stages = [Stage(works, replan=again)]
    outcome = await run(Pipeline("planned", payload=Clause, stages=stages))
    assert Succeeded('"re prompt, re not runtime.stage.semantic"') == outcome
    assert ["prompt", "not runtime.stage.semantic"] == asked
