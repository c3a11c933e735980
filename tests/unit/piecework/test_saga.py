from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import saga
from piecework.codes import ErrorClass
from piecework.dependency import Dependency, Effect
from piecework.errors import (
    ErrorEnvelope,
    PermanentError,
    StateError,
    StoreError,
    TransientError,
)
from piecework.outcome import Cancelled, Compensation, Completed, Dead, Parked
from piecework.pipeline import Pipeline, Stage
from piecework.ports import CancelRequestedError, ClaimLostError
from piecework.testing import MemoryCheckpoints
from tests.unit.piecework.fakes import (
    Clause,
    Killed,
    Log,
    caller,
    checkpoints_of,
    context,
    envelope,
    limits,
    names,
    run,
)
from tests.unit.virtual import run_virtually

ONCE = Dependency("fax", effect=Effect.NON_IDEMPOTENT)
BANK = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)


class Script:
    """Declares stages a, b, c, d that note what is done and fail as they are told."""

    def __init__(
        self,
        *,
        pivot: str = "",
        undoable: str = "abcd",
        fails: dict[str, Any] | None = None,
    ) -> None:
        self.did: list[str] = []
        self.fails = dict(fails or {})
        self.pipeline = Pipeline(
            name="script",
            payload=Clause,
            stages=[self.stage(name, pivot, undoable) for name in "abcd"],
        )

    def stage(self, name: str, pivot: str, undoable: str) -> Stage:
        ahead = not pivot or name < pivot
        undo = self.step(f"undo {name}") if name in undoable and ahead else None
        return Stage(
            self.step(name), compensate=undo, pivot=name == pivot, name=name
        )

    def step(self, name: str) -> Callable[[Any], Any]:
        async def step(ctx: Any) -> str:
            self.did.append(name)
            await asyncio.sleep(0)
            failure = self.fails.get(name)
            if callable(failure):
                return str(await failure(ctx))
            if failure is not None:
                raise failure
            return f"{name} done"

        return step

    def undone(self) -> list[str]:
        return [did for did in self.did if did.startswith("undo")]


def dead(outcome: Any, compensation: Compensation) -> ErrorEnvelope:
    assert isinstance(outcome, Dead)
    assert compensation is outcome.compensation
    return outcome.failure


# ── forward ──────────────────────────────────────────────────────────────────


async def test_stages_run_in_order_and_all_but_the_last_are_checkpointed() -> None:
    script = Script()
    kept = checkpoints_of(script.pipeline)
    assert await run(script.pipeline, kept) == Completed('"d done"')
    assert script.did == ["a", "b", "c", "d"]
    assert kept.completed == {n: f'"{n} done"' for n in "abc"}
    assert kept.cursor == "d"


async def test_a_stage_is_checkpointed_before_the_next_begins() -> None:
    script = Script()

    @dataclass
    class Noting(MemoryCheckpoints):
        async def complete(self, index: int, value: str, following: str) -> None:
            script.did.append(f"kept {index}, then {following}")
            await MemoryCheckpoints.complete(self, index, value, following)

    await run(script.pipeline, Noting(names(script.pipeline.stages)))
    assert script.did[:4] == ["a", "kept 0, then b", "b", "kept 1, then c"]


async def test_a_run_goes_on_where_the_last_one_stood() -> None:
    script = Script()
    kept = checkpoints_of(script.pipeline, completed={"a": '"1"', "b": '"2"'})
    ctx = context(script.pipeline)
    assert await run(script.pipeline, kept, ctx=ctx) == Completed('"d done"')
    assert script.did == ["c", "d"]
    assert ctx.values["a"] == "1"


async def test_what_came_after_a_gap_is_done_again() -> None:
    script = Script()
    kept = checkpoints_of(script.pipeline, completed={"a": '"1"', "c": '"3"'})
    await run(script.pipeline, kept)
    assert script.did == ["b", "c", "d"]


class Kept(BaseModel):
    kept: int


class More(Kept):
    lost: int


async def makes_more(_: Any) -> Kept:
    return More(kept=1, lost=2)


async def reads_it(ctx: Any) -> str:
    return repr(ctx.result(makes_more))


async def test_a_stage_reads_at_once_what_a_checkpoint_would_give_it() -> None:
    stages = [Stage(makes_more), Stage(reads_it)]
    pipeline = Pipeline(name="more", payload=Clause, stages=stages)
    assert await run(pipeline) == Completed('"Kept(kept=1)"')


async def test_a_plain_function_runs_beside_the_event_loop() -> None:
    where: list[threading.Thread] = []

    def plain(_: Any) -> int:
        where.append(threading.current_thread())
        return 5

    pipeline = Pipeline(name="plain", payload=Clause, stages=[Stage(plain)])
    assert await run(pipeline) == Completed("5")
    assert where[0] is not threading.main_thread()


def test_a_stage_that_takes_too_long_is_cut_off() -> None:
    async def main() -> None:
        async def hang(_: Any) -> None:
            await asyncio.Event().wait()

        stages = [Stage(hang, timeout=9.0)]
        pipeline = Pipeline(name="slow", payload=Clause, stages=stages)
        began = asyncio.get_running_loop().time()
        outcome = await run(pipeline)
        assert isinstance(outcome, Parked)
        assert outcome.failure.error_class is ErrorClass.TRANSIENT
        assert asyncio.get_running_loop().time() - began == pytest.approx(9.0)

    run_virtually(main())


async def test_each_stage_is_told_of_and_a_sign_of_life() -> None:
    script, log, signs = Script(), Log(), []
    ctx = context(
        script.pipeline, log=log, caller=caller(progress=lambda: signs.append(1))
    )
    await run(script.pipeline, ctx=ctx)
    assert log.names() == ["stage.completed"] * 3
    assert len(signs) == 3


# ── failure ──────────────────────────────────────────────────────────────────


async def test_a_transient_failure_parks_the_chunk_with_what_it_has() -> None:
    script = Script(fails={"c": TransientError("later", retry_after=10.0)})
    kept = checkpoints_of(script.pipeline)
    outcome = await run(script.pipeline, kept)
    assert isinstance(outcome, Parked)
    assert outcome.delay == 14.0
    assert outcome.failure.stage == "c"
    assert set(kept.completed) == {"a", "b"}
    assert kept.failure is None
    assert script.undone() == []


async def test_a_lost_state_is_tried_again_from_the_checkpoint() -> None:
    script = Script(fails={"c": StateError("lost")})
    assert isinstance(await run(script.pipeline), Parked)


async def test_the_last_attempt_is_not_parked() -> None:
    script = Script(fails={"c": TransientError("later")})
    outcome = await run(script.pipeline, attempt=3, max_attempts=3)
    assert dead(outcome, Compensation.DONE).code == "runtime.stage.transient"


async def test_the_last_attempt_but_one_is_parked() -> None:
    script = Script(fails={"c": TransientError("later")})
    outcome = await run(script.pipeline, attempt=2, max_attempts=3)
    assert isinstance(outcome, Parked)


async def test_a_failure_is_described_with_its_place_and_time() -> None:
    script = Script(fails={"b": PermanentError("no", code="llm.content.filtered")})
    ctx = context(script.pipeline, attempt=2)
    failure = dead(await run(script.pipeline, ctx=ctx), Compensation.DONE)
    assert (failure.stage, failure.attempt) == ("b", 2)
    assert failure.correlation_id == "job/7"
    assert failure.at == "2023-11-14T22:13:20.000+00:00"


async def test_what_cannot_be_read_back_is_a_failure_and_not_a_crash() -> None:
    script = Script()
    kept = checkpoints_of(
        script.pipeline, completed={"a": '"1"', "b": "not json"}, entered="c"
    )
    outcome = await run(script.pipeline, kept)
    failure = dead(outcome, Compensation.DONE)
    assert (failure.code, failure.stage) == ("runtime.value.unreadable", "b")
    assert script.did == ["undo c", "undo b", "undo a"]


async def test_what_cannot_be_read_back_does_not_stop_the_way_back() -> None:
    script = Script()
    kept = checkpoints_of(
        script.pipeline,
        completed={"a": "not json", "b": '"2"'},
        failure=envelope(stage="c"),
    )
    ctx = context(script.pipeline)
    assert dead(await run(script.pipeline, kept, ctx=ctx), Compensation.DONE)
    assert script.undone() == ["undo c", "undo b", "undo a"]
    assert ctx.values == {"b": "2"}


async def test_our_own_stores_failure_is_not_the_stages() -> None:
    script = Script(fails={"b": StoreError("the table does not answer")})
    with pytest.raises(StoreError):
        await run(script.pipeline)
    assert script.undone() == []


async def test_a_checkpoint_that_cannot_be_written_is_not_the_stages_failure() -> None:
    @dataclass
    class Broken(MemoryCheckpoints):
        async def complete(self, *_: Any) -> None:
            message = "the table does not answer"
            raise StoreError(message)

    script = Script()
    with pytest.raises(StoreError):
        await run(script.pipeline, Broken(names(script.pipeline.stages)))


@pytest.mark.parametrize("error", [ClaimLostError(), Killed(), asyncio.CancelledError()])
async def test_what_ends_the_worker_or_the_claim_passes_through(
    error: BaseException,
) -> None:
    script = Script(fails={"b": error})
    with pytest.raises(type(error)):
        await run(script.pipeline)
    assert script.undone() == []


async def test_a_cancel_stops_the_chunk_at_the_stage_boundary() -> None:
    @dataclass
    class Asked(MemoryCheckpoints):
        async def complete(self, index: int, value: str, following: str) -> None:
            if index == 1:
                raise CancelRequestedError
            await MemoryCheckpoints.complete(self, index, value, following)

    script = Script()
    kept = Asked(names(script.pipeline.stages))
    outcome = await run(script.pipeline, kept)
    assert isinstance(outcome, Cancelled)
    assert script.did == ["a", "b"]
    assert set(kept.completed) == {"a"}


# ── the way back ─────────────────────────────────────────────────────────────


@pytest.mark.parametrize("failing", list("abcd"))
async def test_a_permanent_failure_undoes_in_reverse_exactly_what_was_begun(
    failing: str,
) -> None:
    script = Script(fails={failing: PermanentError("no")})
    assert dead(await run(script.pipeline), Compensation.DONE).stage == failing
    begun = "abcd"[: "abcd".index(failing) + 1]
    assert script.did[: len(begun)] == list(begun)
    assert script.undone() == [f"undo {name}" for name in reversed(begun)]


async def test_only_stages_with_a_compensation_are_undone() -> None:
    script = Script(undoable="ac", fails={"d": PermanentError("no")})
    await run(script.pipeline)
    assert script.undone() == ["undo c", "undo a"]


async def test_without_a_compensation_there_is_nothing_to_undo() -> None:
    script = Script(undoable="", fails={"d": PermanentError("no")})
    kept = checkpoints_of(script.pipeline)
    assert dead(await run(script.pipeline, kept), Compensation.NOTHING)
    assert kept.failure is not None


async def test_the_way_back_is_on_record_before_its_first_step() -> None:
    script = Script(fails={"b": PermanentError("no")})

    @dataclass
    class Noting(MemoryCheckpoints):
        async def turn_back(self, failure: ErrorEnvelope, stage: str) -> None:
            script.did.append(f"turn at {stage}")
            await MemoryCheckpoints.turn_back(self, failure, stage)

        async def undo(self, stage: str, failure: ErrorEnvelope | None) -> None:
            script.did.append(f"kept {stage}")
            await MemoryCheckpoints.undo(self, stage, failure)

    await run(script.pipeline, Noting(names(script.pipeline.stages)))
    back = ["turn at b", "undo b", "kept b", "undo a", "kept a"]
    assert script.did == ["a", "b", *back]


async def test_a_stage_that_an_earlier_claim_had_entered_is_undone_too() -> None:
    script = Script()
    kept = checkpoints_of(
        script.pipeline, completed={"a": '"1"'}, entered="b", failure=envelope(stage="a")
    )
    await run(script.pipeline, kept)
    assert script.undone() == ["undo b", "undo a"]


async def test_a_failed_compensation_is_recorded_and_the_others_still_run() -> None:
    script = Script(fails={"c": PermanentError("no"), "undo b": TransientError("oh")})
    kept = checkpoints_of(script.pipeline)
    outcome = await run(script.pipeline, kept)
    assert dead(outcome, Compensation.FAILED).stage == "c"
    assert outcome.stranded == ("b",)
    assert script.undone() == ["undo c", "undo b", "undo a"]
    failed = kept.undone["b"]
    assert failed is not None
    assert (failed.code, failed.stage) == ("runtime.stage.transient", "undo:b:1")
    assert (kept.undone["a"], kept.undone["c"]) == (None, None)


async def test_a_compensation_has_the_time_of_its_stage() -> None:
    async def no(_: Any) -> None:
        message = "no"
        raise PermanentError(message)

    async def hang(_: Any) -> None:
        await asyncio.Event().wait()

    stages = [Stage(no, compensate=hang, timeout=0.0)]
    pipeline = Pipeline(name="slow", payload=Clause, stages=stages)
    outcome = await run(pipeline)
    assert isinstance(outcome, Dead)
    assert outcome.stranded == ("no",)


async def test_an_outage_on_the_way_back_is_not_a_failed_compensation() -> None:
    script = Script(fails={"b": PermanentError("no"), "undo b": StoreError("gone")})
    kept = checkpoints_of(script.pipeline)
    with pytest.raises(StoreError):
        await run(script.pipeline, kept)
    assert kept.undone == {}


async def test_each_step_back_is_a_sign_of_life() -> None:
    signs: list[int] = []
    script = Script(fails={"c": PermanentError("no")})
    one = caller(progress=lambda: signs.append(1))
    await run(script.pipeline, ctx=context(script.pipeline, caller=one))
    assert len(signs) == 2 + 3


async def test_the_calls_of_a_compensation_are_its_own_in_each_life() -> None:
    keys: list[str] = []

    async def release(*, idempotency_key: str) -> None:
        keys.append(idempotency_key)

    async def undo(ctx: Any) -> None:
        await ctx.call(BANK, release)

    for epoch in (1, 2):
        script = Script(fails={"a": PermanentError("no"), "undo a": undo})
        ctx = context(script.pipeline, caller=caller(epoch=epoch))
        await run(script.pipeline, ctx=ctx)
    assert len(set(keys)) == 2


@dataclass
class Fragile(MemoryCheckpoints):
    """Dies before or after the n-th write, as a worker may at any await."""

    writes: int = 0
    die_at: int = -1
    after: bool = False
    log: list[str] = field(default_factory=list)

    async def turn_back(self, failure: ErrorEnvelope, stage: str) -> None:
        self.die(after=False)
        await MemoryCheckpoints.turn_back(self, failure, stage)
        self.die(after=True)

    async def undo(self, stage: str, failure: ErrorEnvelope | None) -> None:
        self.die(after=False)
        await MemoryCheckpoints.undo(self, stage, failure)
        self.log.append(stage)
        self.die(after=True)

    def die(self, *, after: bool) -> None:
        if after is self.after:
            self.writes += 1
            if self.writes == self.die_at:
                raise Killed


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("die_at", [1, 2, 3, 4])
async def test_whoever_follows_a_dead_worker_goes_on_backwards(
    die_at: int,
    after: bool,  # noqa: FBT001
) -> None:
    script = Script(fails={"c": PermanentError("no")})
    kept = Fragile(names(script.pipeline.stages), die_at=die_at, after=after)
    with pytest.raises(Killed):
        await run(script.pipeline, kept)
    on_record = kept.failure is not None
    kept.entered = kept.cursor
    script.did.append("next worker")
    outcome = await run(script.pipeline, kept, attempt=2)
    assert dead(outcome, Compensation.DONE).stage == "c"
    assert kept.log == ["c", "b", "a"]
    after_death = script.did[script.did.index("next worker") + 1 :]
    if on_record:
        assert all(did.startswith("undo") for did in after_death)


@pytest.mark.parametrize("dying", ["undo a", "undo b", "undo c"])
async def test_a_worker_that_dies_in_a_compensation_is_followed_there(
    dying: str,
) -> None:
    script = Script(fails={"c": PermanentError("no"), dying: Killed()})
    kept = checkpoints_of(script.pipeline)
    with pytest.raises(Killed):
        await run(script.pipeline, kept)
    begun = script.undone()
    del script.fails[dying]
    script.did.clear()
    assert dead(await run(script.pipeline, kept, attempt=2), Compensation.DONE)
    assert script.did[0] == dying == begun[-1]
    assert begun[:-1] + script.did == ["undo c", "undo b", "undo a"]


async def test_a_compensation_that_had_failed_is_not_tried_again_and_still_told() -> (
    None
):
    script = Script()
    kept = checkpoints_of(
        script.pipeline,
        completed={"a": '"1"', "b": '"2"'},
        undone={"b": envelope()},
        failure=envelope(stage="b"),
    )
    outcome = await run(script.pipeline, kept)
    assert script.undone() == ["undo a"]
    assert isinstance(outcome, Dead)
    assert outcome.stranded == ("b",)


# ── the pivot ────────────────────────────────────────────────────────────────


async def test_ahead_of_the_pivot_everything_is_undone() -> None:
    script = Script(pivot="c", fails={"b": PermanentError("no")})
    assert dead(await run(script.pipeline), Compensation.DONE)
    assert script.undone() == ["undo b", "undo a"]


async def test_behind_the_pivot_nothing_is_undone() -> None:
    script = Script(pivot="c", fails={"d": PermanentError("no")})
    kept = checkpoints_of(script.pipeline)
    assert dead(await run(script.pipeline, kept), Compensation.PAST_PIVOT)
    assert script.undone() == []
    assert kept.failure is None


async def test_a_pivot_that_was_refused_outright_did_not_happen() -> None:
    script = Script(pivot="c", fails={"c": PermanentError("no")})
    assert dead(await run(script.pipeline), Compensation.DONE)
    assert script.undone() == ["undo b", "undo a"]


async def test_a_pivot_that_timed_out_for_the_last_time_is_in_doubt() -> None:
    script = Script(pivot="c", fails={"c": TransientError("?")})
    outcome = await run(script.pipeline, attempt=3)
    assert dead(outcome, Compensation.PIVOT_IN_DOUBT)
    assert script.undone() == []


async def test_a_pivot_that_an_earlier_claim_had_begun_is_in_doubt() -> None:
    script = Script(pivot="c", fails={"c": PermanentError("no")})
    kept = checkpoints_of(
        script.pipeline, completed={"a": '"1"', "b": '"2"'}, entered="c"
    )
    assert dead(await run(script.pipeline, kept), Compensation.PIVOT_IN_DOUBT)
    assert script.undone() == []


async def test_a_pivot_that_needed_retries_is_in_doubt() -> None:
    script = Script(pivot="c", fails={"c": PermanentError("no")})
    one = caller()
    one.counts.retried = 1
    ctx = context(script.pipeline, caller=one)
    assert dead(await run(script.pipeline, ctx=ctx), Compensation.PIVOT_IN_DOUBT)


async def test_a_pivot_whose_effect_is_in_doubt_is_in_doubt() -> None:
    async def publish(*, idempotency_key: str) -> None:
        del idempotency_key
        raise TimeoutError

    async def pivot(ctx: Any) -> None:
        await ctx.call(ONCE, publish)

    script = Script(pivot="c", fails={"c": pivot})
    failure = dead(await run(script.pipeline), Compensation.PIVOT_IN_DOUBT)
    assert failure.code == "runtime.effect.unknown"
    assert script.undone() == []


async def test_a_pivot_that_fails_after_its_effect_is_in_doubt() -> None:
    async def publish(*, idempotency_key: str) -> None:
        del idempotency_key

    async def pivot(ctx: Any) -> None:
        await ctx.call(BANK, publish)
        message = "too late"
        raise PermanentError(message)

    script = Script(pivot="c", fails={"c": pivot})
    assert dead(await run(script.pipeline), Compensation.PIVOT_IN_DOUBT)
    assert script.undone() == []


async def test_an_effect_before_the_pivot_does_not_put_the_pivot_in_doubt() -> None:
    async def reserve(*, idempotency_key: str) -> str:
        return idempotency_key

    async def earlier(ctx: Any) -> str:
        return str(await ctx.call(BANK, reserve))

    script = Script(pivot="c", fails={"b": earlier, "c": PermanentError("no")})
    assert dead(await run(script.pipeline), Compensation.DONE)
    assert script.undone() == ["undo b", "undo a"]


async def test_a_pivot_whose_answer_cannot_be_kept_is_in_doubt() -> None:
    async def undo(_: Any) -> None: ...
    async def first(_: Any) -> None: ...
    async def wrong(_: Any) -> int:
        return "text"  # type: ignore[return-value]

    stages = [Stage(first, compensate=undo), Stage(wrong, pivot=True)]
    pipeline = Pipeline(name="wrong", payload=Clause, stages=stages)
    outcome = await run(pipeline)
    failure = dead(outcome, Compensation.PIVOT_IN_DOUBT)
    assert failure.code == "runtime.value.unserialisable"


# ── small steps ──────────────────────────────────────────────────────────────


def test_stages_begun_reach_up_to_whatever_is_known() -> None:
    pipeline = Script().pipeline

    def begun(stage: str = "", **facts: Any) -> str:
        kept = checkpoints_of(pipeline, **facts)
        return "".join(names(saga.stages_begun(pipeline, envelope(stage=stage), kept)))

    assert begun() == ""
    assert begun("b") == "ab"
    assert begun("undo:b:1", completed={"a": ""}) == "a"
    assert begun(entered="c") == "abc"
    assert begun("a", entered="b", completed={"a": "", "b": "", "c": ""}) == "abc"


def test_a_run_needs_a_stage_and_one_that_is_done_does_not_run() -> None:
    pipeline = Script().pipeline
    kept = checkpoints_of(pipeline, completed=dict.fromkeys("abcd", "1"))
    assert saga.stages_done(pipeline, kept) == 4
    assert saga.stages_done(pipeline, checkpoints_of(pipeline)) == 0
    assert limits().max_attempts == 3
