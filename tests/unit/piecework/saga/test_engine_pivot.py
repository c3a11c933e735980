from __future__ import annotations

from typing import Any

from piecework.dependency import Dependency
from piecework.domain.identity import named_call
from piecework.domain.outcome import CompensationResult
from piecework.errors import PermanentError, TransientError
from piecework.pipelines import Pipeline, Stage
from tests.unit.piecework.fakes import Clause, checkpoints_of, run
from tests.unit.piecework.provider import PURE, Provider
from tests.unit.piecework.script import BANK, ONCE, Script, dead

REFUSED = PermanentError("no", http_status=422)


def asks(*errors: Exception, by: Dependency = PURE) -> Any:
    """Return a step that makes one call, which fails with these errors first."""
    provider = Provider(*errors)

    async def step(ctx: Any) -> str:
        return str(await ctx.call(by, provider.ask))

    return step


async def test_before_the_pivot_every_stage_is_compensated() -> None:
    script = Script(pivot="c", fails={"b": PermanentError("no")})
    assert dead(await run(script.pipeline), CompensationResult.COMPENSATED)
    assert script.compensated() == ["undo b", "undo a"]


async def test_after_the_pivot_no_stage_is_compensated() -> None:
    script = Script(pivot="c", fails={"d": PermanentError("no")})
    kept = checkpoints_of(script.pipeline)
    assert dead(await run(script.pipeline, kept), CompensationResult.PAST_PIVOT)
    assert script.compensated() == []
    assert kept.failure is None


async def test_a_pivot_that_was_refused_outright_did_not_happen() -> None:
    script = Script(pivot="c", fails={"c": PermanentError("no")})
    assert dead(await run(script.pipeline), CompensationResult.COMPENSATED)
    assert script.compensated() == ["undo b", "undo a"]


async def test_a_pivot_that_timed_out_for_the_last_time_is_in_doubt() -> None:
    script = Script(pivot="c", fails={"c": TransientError("?")})
    outcome = await run(script.pipeline, attempt=3)
    assert dead(outcome, CompensationResult.PIVOT_UNKNOWN)
    assert script.compensated() == []


async def test_a_pivot_that_an_earlier_claim_had_begun_is_in_doubt() -> None:
    script = Script(pivot="c", fails={"c": PermanentError("no")})
    kept = checkpoints_of(
        script.pipeline, completed={"a": '"1"', "b": '"2"'}, reached_stage="c"
    )
    assert dead(await run(script.pipeline, kept), CompensationResult.PIVOT_UNKNOWN)
    assert script.compensated() == []


async def test_a_pivot_that_needed_retries_is_in_doubt() -> None:
    script = Script(pivot="c", fails={"c": asks(TransientError("?"), REFUSED)})
    assert dead(await run(script.pipeline), CompensationResult.PIVOT_UNKNOWN)


async def test_a_retry_before_the_pivot_does_not_put_the_pivot_in_doubt() -> None:
    earlier = asks(TransientError("?"))
    script = Script(pivot="c", fails={"b": earlier, "c": PermanentError("no")})
    assert dead(await run(script.pipeline), CompensationResult.COMPENSATED)
    assert script.compensated() == ["undo b", "undo a"]


async def test_a_pivot_that_fails_on_its_answer_is_in_doubt() -> None:
    odd = [KeyError("receipt")] * 3
    script = Script(pivot="c", fails={"c": asks(*odd, by=BANK)})
    assert dead(await run(script.pipeline), CompensationResult.PIVOT_UNKNOWN)
    assert script.compensated() == []


async def test_a_pivot_whose_effect_was_refused_did_not_happen() -> None:
    script = Script(pivot="c", fails={"c": asks(REFUSED, by=BANK)})
    assert dead(await run(script.pipeline), CompensationResult.COMPENSATED)
    assert script.compensated() == ["undo b", "undo a"]


async def test_a_pivot_whose_effect_is_in_doubt_is_in_doubt() -> None:
    @named_call("publish")
    async def publish(*, idempotency_key: str) -> None:
        del idempotency_key
        raise TimeoutError

    async def pivot(ctx: Any) -> None:
        await ctx.call(ONCE, publish)

    script = Script(pivot="c", fails={"c": pivot})
    failure = dead(await run(script.pipeline), CompensationResult.PIVOT_UNKNOWN)
    assert failure.code == "runtime.effect.unknown"
    assert script.compensated() == []


async def test_a_pivot_that_fails_after_its_effect_is_in_doubt() -> None:
    @named_call("publish")
    async def publish(*, idempotency_key: str) -> None:
        del idempotency_key

    async def pivot(ctx: Any) -> None:
        await ctx.call(BANK, publish)
        message = "too late"
        raise PermanentError(message)

    script = Script(pivot="c", fails={"c": pivot})
    assert dead(await run(script.pipeline), CompensationResult.PIVOT_UNKNOWN)
    assert script.compensated() == []


async def test_an_effect_before_the_pivot_does_not_put_the_pivot_in_doubt() -> None:
    @named_call("reserve")
    async def reserve(*, idempotency_key: str) -> str:
        return idempotency_key

    async def earlier(ctx: Any) -> str:
        return str(await ctx.call(BANK, reserve))

    script = Script(pivot="c", fails={"b": earlier, "c": PermanentError("no")})
    assert dead(await run(script.pipeline), CompensationResult.COMPENSATED)
    assert script.compensated() == ["undo b", "undo a"]


async def test_a_pivot_whose_answer_cannot_be_kept_is_in_doubt() -> None:
    async def undo(_: Any) -> None: ...
    async def first(_: Any) -> None: ...
    async def wrong(_: Any) -> int:
        return "text"  # type: ignore[return-value]

    stages = [Stage(first, compensate=undo), Stage(wrong, pivot=True)]
    pipeline = Pipeline(name="wrong", payload=Clause, stages=stages)
    outcome = await run(pipeline)
    failure = dead(outcome, CompensationResult.PIVOT_UNKNOWN)
    assert failure.code == "runtime.value.unserialisable"
