"""A failed stage is compensated only for what happened, or may have happened."""

from __future__ import annotations

from typing import Any

import pytest

from piecework import (
    Context,
    Dependency,
    Effect,
    Fallback,
    Happened,
    MayHaveHappened,
    NotHappened,
    PermanentError,
    Pipeline,
    PolicyError,
    RetryPolicy,
    Stage,
    TransientError,
    UsageError,
)
from piecework.domain.outcome import Cancelled, CompensationResult, DeadLettered
from piecework.saga.compensation import (
    CANCEL_CODE,
)
from piecework.testing import run_in_memory
from tests.unit.piecework.fakes import (
    Clause,
    Diary,
    Log,
    caller,
    checkpoints_of,
    context,
    envelope,
    run,
)

TWICE = RetryPolicy(attempts=2, base=0.01, cap=0.01)
keyed = Dependency("keyed", effect=Effect.PROVIDER_IDEMPOTENT, retry=TWICE)
once = Dependency("once", effect=Effect.NON_IDEMPOTENT)
pure = Dependency("pure", retry=TWICE)
spare = Dependency("spare", effect=Effect.PROVIDER_IDEMPOTENT)

NO, YES = CompensationResult.NOT_NEEDED, CompensationResult.COMPENSATED


def answer(what: str) -> str:
    match what.partition(":")[0]:
        case "declined":
            raise PermanentError("declined", code="bank.declined", http_status=402)
        case "lost":
            raise TransientError("no answer came", code="bank.lost", http_status=504)
        case "unstorable":
            return "half a character: \ud800"
    return f"receipt of {what}"


@keyed.call
async def charge(what: str, *, idempotency_key: str = "") -> str:
    del idempotency_key
    return answer(what)


@once.call
async def fax(what: str) -> str:
    return answer(what)


@pure.call
async def think(what: str) -> str:
    return answer(what)


@spare.call
async def charge_spare(what: str, *, idempotency_key: str = "") -> str:
    del idempotency_key
    return answer(what)


chained = Dependency(
    "chained",
    effect=Effect.PROVIDER_IDEMPOTENT,
    fallback=(Fallback(spare, charge_spare.function),),
)


@chained.call
async def charge_first(what: str, *, idempotency_key: str = "") -> str:
    del what, idempotency_key
    raise PolicyError("not here", code="bank.policy", http_status=403)


CALLS = {"charge": charge, "fax": fax, "think": think, "first": charge_first}


def saga(calls: str, asks: Any = None, *, undo_if_failed: bool = False) -> Any:
    """Return a pipeline whose second stage makes calls and fails; and what was done."""
    done: list[Any] = []

    async def book(_: Context[Any]) -> str:
        return "room"

    async def cancel(_: Context[Any]) -> None:
        done.append("cancel")

    async def pay(_: Context[Any]) -> str:
        for call in calls.split():
            name, _, what = call.partition("/")
            await CALLS[name](what)
        raise PermanentError("no", code="stage.no")

    async def refund(ctx: Context[Any]) -> None:
        done.append(asks(ctx) if asks else "refund")

    stages = [
        Stage(book, compensate=cancel),
        Stage(pay, compensate=refund, undo_if_failed=undo_if_failed),
    ]
    return Pipeline("saga", payload=Clause, stages=stages), done


async def dead(pipeline: Pipeline) -> DeadLettered:
    outcome = (await run_in_memory(pipeline, [Clause()])).outcomes[0]
    assert isinstance(outcome, DeadLettered)
    return outcome


@pytest.mark.parametrize(
    ("calls", "undone"),
    [
        ("", False),
        ("charge/declined", False),
        ("fax/declined", False),
        ("think/5 charge/declined", False),
        ("think/declined", False),
        ("charge/5", True),
        ("charge/5 charge/declined", True),
        ("charge/lost", True),
        ("fax/lost", True),
        ("first/5", True),
        ("first/declined", False),
    ],
)
@pytest.mark.parametrize("undo_if_failed", [False, True])
async def test_a_failed_stage_is_compensated_for_what_may_have_happened(
    calls: str,
    undone: bool,  # noqa: FBT001
    undo_if_failed: bool,  # noqa: FBT001
) -> None:
    pipeline, done = saga(calls, undo_if_failed=undo_if_failed)

    outcome = await dead(pipeline)

    both = undone or undo_if_failed
    assert (["refund"] if both else []) + ["cancel"] == done
    assert (YES, ()) == (outcome.compensation, outcome.uncompensated_stages)
    assert (() if both else ("pay",)) == outcome.stages_without_effect


async def test_where_nothing_happened_nothing_is_compensated_and_all_say_so() -> None:
    """Even if the compensation would fail, such as with a 404."""

    async def pay(_: Context[Any]) -> str:
        return await charge("declined")

    async def refund(_: Context[Any]) -> None:
        raise PermanentError("no such charge", code="bank.missing", http_status=404)

    log, stages = Log(), [Stage(pay, compensate=refund)]
    pipeline = Pipeline("saga", payload=Clause, stages=stages)

    outcome = await run(pipeline, ctx=context(pipeline, log=log))

    assert DeadLettered(outcome.failure, NO, (), ("pay",)) == outcome
    told = {name: fields for name, fields in log.said if name.startswith("comp")}
    assert {"compensation.started", "compensation.ended"} == told.keys()
    assert ["pay"] == told["compensation.started"]["no_effect"]
    assert [] == told["compensation.started"]["to_compensate"]
    ended = told["compensation.ended"]
    assert ("NOT_NEEDED", ["pay"]) == (ended["compensation"], ended["no_effect"])


async def test_a_cancel_follows_the_same_rule() -> None:
    pipeline, done = saga("")
    kept = checkpoints_of(pipeline, completed={"book": '"room"'}, reached_stage="pay")
    ctx = context(pipeline)
    kept.failure = envelope(code=CANCEL_CODE, stage="pay")

    assert Cancelled("pay", YES) == await run(pipeline, kept, ctx=ctx)
    assert ["cancel"] == done


async def test_the_claim_after_a_dead_one_compensates_for_its_intent() -> None:
    """The worker died in the call: its effect may have happened."""
    pipeline, done = saga("")
    diary = Diary()
    await diary.begin("key", "pay", Effect.PROVIDER_IDEMPOTENT, 1.0)
    kept = checkpoints_of(pipeline, completed={"book": '"room"'}, reached_stage="pay")
    kept.failure = envelope(stage="pay")

    await run(pipeline, kept, ctx=context(pipeline, caller=caller(diary)))

    assert ["refund", "cancel"] == done


# ── what a compensation can ask ───────────────────────────────────────────────


def asked(ctx: Context[Any]) -> Any:
    return ctx.happened(charge)


@pytest.mark.parametrize(
    ("calls", "asks", "told"),
    [
        ("charge/5", asked, Happened("receipt of 5")),
        ("charge/lost", asked, MayHaveHappened()),
        ("fax/5 charge/declined", asked, NotHappened()),
        ("fax/5", asked, NotHappened()),
        ("charge/5 fax/5", lambda ctx: ctx.happened(fax), Happened("receipt of 5")),
        ("fax/lost", lambda ctx: ctx.happened(fax), MayHaveHappened()),
        # The ledger has no answer of it:
        ("charge/unstorable", asked, MayHaveHappened()),
        ("fax/unstorable", lambda ctx: ctx.happened(fax), MayHaveHappened()),
        # The only one of several that was not refused:
        ("charge/4 charge/declined", asked, Happened("receipt of 4")),
        (
            "charge/4 charge/5",
            lambda c: c.happened(charge, "5"),
            Happened("receipt of 5"),
        ),
        ("charge/4 charge/5", lambda c: c.happened(charge, "6"), NotHappened()),
        ("charge/4 charge/5", lambda c: c.happened(charge, what="4"), NotHappened()),
        # The answer of a fallback is that of its call.
        ("first/5", lambda c: c.happened(charge_first), Happened("receipt of 5")),
        ("first/5", lambda c: c.happened(charge_spare, "5"), Happened("receipt of 5")),
    ],
)
async def test_a_compensation_asks_what_happened(
    calls: str, asks: Any, told: Any
) -> None:
    pipeline, done = saga(calls, asks)

    await dead(pipeline)

    assert [told, "cancel"] == done


async def test_a_completed_stage_is_asked_in_the_same_way() -> None:
    found: list[Any] = []

    async def pay(_: Context[Any]) -> str:
        return await charge("5")

    async def refund(ctx: Context[Any]) -> None:
        found.extend([ctx.happened(charge), ctx.result(pay)])

    async def pack(_: Context[Any]) -> None:
        await charge("declined")

    async def unpack(ctx: Context[Any]) -> None:
        found.append(ctx.happened(charge))

    stages = [
        Stage(pay, compensate=refund),
        Stage(pack, compensate=unpack, undo_if_failed=True),
    ]
    await dead(Pipeline("saga", payload=Clause, stages=stages))

    assert [NotHappened(), Happened("receipt of 5"), "receipt of 5"] == found


async def test_a_question_that_several_calls_could_answer_is_refused() -> None:
    pipeline, done = saga("charge/4 charge/5", asked)

    outcome = await dead(pipeline)

    assert CompensationResult.FAILED is outcome.compensation
    assert ("pay",) == outcome.uncompensated_stages
    assert ["cancel"] == done


def test_only_a_compensation_asks() -> None:
    pipeline, _ = saga("")
    with pytest.raises(UsageError) as refused:
        context(pipeline, stage="pay").happened(charge)
    assert "pipeline.happened.invalid" == refused.value.code


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ("", "It has made no call with an effect."),
        (
            "charge/5 fax/4 charge/declined",
            "Its calls with an effect: 2 happened.",
        ),
        (
            "charge/5 fax/lost",
            "Its calls with an effect: 1 happened, 1 may have happened.",
        ),
    ],
)
async def test_the_result_of_a_failed_stage_says_what_its_calls_became(
    calls: str, told: str
) -> None:
    pipeline, done = saga(calls, undo_if_failed=True, asks=lambda ctx: result(ctx))  # noqa: PLW0108 -- it is defined below

    def result(ctx: Context[Any]) -> str:
        with pytest.raises(UsageError) as missing:
            ctx.result(list(ctx.stages)[1])
        assert "pipeline.stage.not_run" == missing.value.code
        return missing.value.message

    await dead(pipeline)

    message = "Stage 'pay' did not complete, so it has no value."
    assert [f"{message} {told}", "cancel"] == done
