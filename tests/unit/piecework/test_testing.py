from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from piecework.context import Results
from piecework.declared import pipeline as declare
from piecework.dependency import Dependency, Usage
from piecework.domain.effect import Effect
from piecework.domain.identity import named_call
from piecework.domain.outcome import (
    Cancelled,
    CompensationResult,
    DeadLettered,
    Succeeded,
)
from piecework.domain.protocols import MissingChunk
from piecework.errors import (
    PermanentError,
    PolicyError,
    SemanticError,
    TransientError,
    WaitTimeoutError,
)
from piecework.pipelines import Pipeline, Stage
from piecework.resilience.retry import RetryPolicy
from piecework.standalone import TimeWindow
from piecework.testing import killed_after, killed_in, run_in_memory
from tests.unit.piecework.fakes import Clause

MODEL = Dependency("model", retry=RetryPolicy(attempts=2, base=20.0, cap=30.0))
CLAUSES = [Clause(text=text) for text in ("a", "b", "c")]


class Report(BaseModel):
    lines: list[str]


async def upper(ctx: Any) -> str:
    return str(ctx.payload.text.upper())


async def length(ctx: Any) -> int:
    return len(ctx.result(upper))


async def report(ctx: Results) -> Report:
    lines = [f"{r.chunk} {r.label} {r.value}" async for r in ctx]
    await ctx.write("report.txt", "\n".join(lines))
    return Report(lines=lines + [f"{m.label}: {m.status}" for m in ctx.missing])


def pipeline(*stages: Stage, **facts: Any) -> Pipeline:
    given = {"payload": Clause, "label": lambda clause: f"<{clause.text}>"}
    return Pipeline(name="review", stages=list(stages), **(given | facts))


async def test_every_payload_runs_through_every_stage() -> None:
    run = await run_in_memory(pipeline(Stage(upper), Stage(length)), CLAUSES)
    assert run.results == {0: 1, 1: 1, 2: 1}
    assert run.outcomes == dict.fromkeys(range(3), Succeeded("1"))
    assert run.join_value is None


async def test_the_result_is_that_of_the_result_stage() -> None:
    stages = Stage(upper), Stage(length)
    run = await run_in_memory(pipeline(*stages, result=upper), CLAUSES)
    assert run.results == {0: "A", 1: "B", 2: "C"}


async def fails_on_b(ctx: Any) -> str:
    if ctx.payload.text == "b":
        message = "no"
        raise PermanentError(message, code="llm.content.filtered")
    return str(ctx.payload.text)


async def test_a_chunk_without_a_result_stops_its_order_key() -> None:
    @declare(ordered_by=lambda clause: clause.text[0] if clause.text > "b" else None)
    async def shout(clause: Clause) -> str:
        begun.append(clause.text)
        if clause.text == "b1":
            raise PermanentError("no", code="llm.content.filtered")
        return clause.text

    begun: list[str] = []
    texts = ["a0", "b1", "a2", "b3", "c4", "b5"]
    run = await run_in_memory(shout, [Clause(text=text) for text in texts])
    assert begun == ["a0", "b1", "a2", "c4"]
    assert run.results == {0: "a0", 2: "a2", 4: "c4"}
    assert run.outcomes[5] == Cancelled("shout")


async def test_a_join_is_given_results_and_missing_as_in_a_deployment() -> None:
    seen: list[MissingChunk] = []

    async def join(ctx: Results) -> Report:
        seen.extend(ctx.missing)
        return await report(ctx)

    run = await run_in_memory(pipeline(Stage(fails_on_b), join=join), CLAUSES)
    assert seen == [MissingChunk(1, "<b>", "DEAD", "llm.content.filtered")]
    assert run.artifacts == {"report.txt": b"0 <a> a\n2 <c> c"}
    assert run.join_value == Report(lines=["0 <a> a", "2 <c> c", "<b>: DEAD"])
    assert set(run.results) == {0, 2}


async def test_a_plain_join_runs_too() -> None:
    def join(ctx: Results) -> int:
        return len(ctx.missing)

    run = await run_in_memory(pipeline(Stage(fails_on_b), join=join), CLAUSES)  # type: ignore[arg-type]
    assert run.join_value == 1


async def test_a_join_makes_calls_with_faults_and_waits_as_a_stage_does() -> None:
    shop = Dependency("shop", usage=lambda _: Usage(tokens_in=2))

    @named_call("sell")
    async def sell() -> str:
        return "sold"

    async def join(ctx: Results) -> str:
        sold = await ctx.call(shop, sell)
        await ctx.sleep(hours=2)
        approval = await ctx.wait_for("approval", ask="?", timeout=60)
        return f"{sold} {approval.approved}"

    faults = killed_in("sell"), killed_in("sell"), killed_after("join")
    run = await run_in_memory(
        pipeline(Stage(upper), join=join),
        CLAUSES,
        faults=faults,
        answers={"approval": {"approved": True}},
    )
    assert run.join_value == "sold True"
    assert (run.calls("sell"), run.effects("sell")) == (3, 1)
    assert run.paid == [("shop", Usage(tokens_in=2))]


async def test_the_end_of_a_question_is_the_error_that_a_worker_raises() -> None:
    async def ask(ctx: Any) -> str:
        try:
            await ctx.wait_for("approval", ask="?", timeout=60)
        except WaitTimeoutError as late:
            return f"{isinstance(late, PermanentError)} {late.code}"
        return "answered"

    run = await run_in_memory(pipeline(Stage(ask)), CLAUSES[:1])
    assert run.results == {0: "True runtime.wait.timed_out"}


async def test_a_chunk_is_retried_until_its_attempts_are_exhausted() -> None:
    tried: list[int] = []

    async def fails(ctx: Any) -> None:
        tried.append(ctx.attempt)
        message = "later"
        raise TransientError(message)

    run = await run_in_memory(pipeline(Stage(fails)), CLAUSES[:1], max_attempts=4)
    assert tried == [1, 2, 3, 4]
    outcome = run.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    assert outcome.compensation is CompensationResult.NOT_NEEDED


async def test_an_attempt_continues_from_the_checkpoint_and_the_journal() -> None:
    asked: list[str] = []
    ran: list[str] = []

    @named_call("ask")
    async def ask(word: str, *, idempotency_key: str) -> str:
        asked.append(idempotency_key)
        return word

    async def first(ctx: Any) -> str:
        ran.append("first")
        return str(ctx.payload.text)

    async def second(ctx: Any) -> str:
        ran.append("second")
        word = str(await ctx.call(MODEL, ask, ctx.result(first)))
        if ctx.attempt == 1:
            message = "later"
            raise TransientError(message)
        return word

    run = await run_in_memory(pipeline(Stage(first), Stage(second)), CLAUSES[:1])
    assert run.results == {0: "a"}
    assert ran == ["first", "second", "second"]
    assert len(asked) == 1


async def test_retries_wait_for_nothing() -> None:
    failures = [TransientError("later")]

    @named_call("ask")
    async def ask(*, idempotency_key: str) -> str:
        if failures:
            raise failures.pop()
        return idempotency_key[:0]

    async def stage(ctx: Any) -> str:
        return str(await ctx.call(MODEL, ask))

    run = await run_in_memory(pipeline(Stage(stage)), CLAUSES[:1])
    assert run.results == {0: ""}


@pytest.mark.parametrize(
    ("effect", "dies"), [(Effect.NON_IDEMPOTENT, True), (Effect.PURE, False)]
)
async def test_effects_in_doubt_follow_their_kind(effect: Effect, dies: bool) -> None:  # noqa: FBT001
    asked: list[str] = []

    @named_call("ask")
    async def ask(*, idempotency_key: str) -> str:
        asked.append(idempotency_key)
        if len(asked) == 1:
            raise TimeoutError
        return "done"

    once = Dependency("fax", effect=effect, retry=RetryPolicy(attempts=1))

    async def stage(ctx: Any) -> str:
        return str(await ctx.call(once, ask))

    run = await run_in_memory(pipeline(Stage(stage)), CLAUSES[:1])
    assert isinstance(run.outcomes[0], DeadLettered) is dies
    assert len(asked) == (1 if dies else 2)


async def test_chunks_make_an_equal_call_once_as_in_a_deployment() -> None:
    shared = Dependency("shop", by=TimeWindow(60), scope="ann")

    @named_call("sell")
    async def sell(text: str) -> str:
        return text

    async def ask(ctx: Any) -> str:
        return str(await ctx.call(shared, sell, ctx.payload.text))

    run = await run_in_memory(pipeline(Stage(ask)), [Clause(text=t) for t in "abaa"])
    assert (2, 4) == (run.calls("sell"), len(run.results))


async def test_two_runs_of_one_seed_are_the_same_run() -> None:
    one = await run_in_memory(pipeline(Stage(fails_on_b)), CLAUSES, seed=3)
    two = await run_in_memory(pipeline(Stage(fails_on_b)), CLAUSES, seed=3)
    assert one == two


async def test_an_effect_in_doubt_is_not_repeated_by_a_stage_that_tries_again() -> None:
    asked: list[str] = []

    @named_call("ask")
    async def ask(*, idempotency_key: str) -> str:
        asked.append(idempotency_key)
        raise TimeoutError

    fax = Dependency("fax", effect=Effect.NON_IDEMPOTENT)

    async def stage(ctx: Any) -> None:
        for _ in range(2):
            with pytest.raises(PermanentError, match="It is unknown"):
                await ctx.call(fax, ask)

    run = await run_in_memory(pipeline(Stage(stage)), CLAUSES[:1])
    assert run.outcomes == {0: Succeeded("null")}
    assert len(asked) == 1


async def test_a_pivot_that_an_earlier_attempt_started_is_in_doubt() -> None:
    async def pivot(ctx: Any) -> None:
        if ctx.attempt == 1:
            message = "later"
            raise TransientError(message)
        message = "no"
        raise PermanentError(message)

    stages = Stage(upper), Stage(pivot, pivot=True)
    run = await run_in_memory(pipeline(*stages), CLAUSES[:1])
    outcome = run.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    assert outcome.compensation is CompensationResult.PIVOT_UNKNOWN


async def test_variants_run_in_memory_too() -> None:
    async def extract(ctx: Any) -> str:
        if ctx.payload.text == "a":
            message = "nonsense"
            raise SemanticError(message)
        message = "refused"
        raise PolicyError(message)

    async def again(ctx: Any) -> str:
        return f"not {ctx.failure.code}"

    def by_rules(ctx: Any) -> str:
        return f"rules for {ctx.failure.code}"

    stage = Stage(extract, replan=again, fallback=[by_rules])
    run = await run_in_memory(pipeline(stage), CLAUSES[:2])
    assert run.results == {
        0: "not runtime.stage.semantic",
        1: "rules for runtime.stage.policy",
    }
