"""Guarantee: chunks wait for people and moments, and each wait ends once, on time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, field_validator

from piecework import Approval, Context, Escalate, Pipeline, Results, Stage
from piecework.domain.job import Job
from piecework.domain.keys import JOIN_CHUNK
from piecework.domain.moments import iso, moment
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.errors import UsageError
from piecework.explain.causes import find
from piecework.explain.situation import read_situation
from piecework.runtime import Runtime
from piecework.store import questions, waits
from piecework.store.questions import PersonAnswer, read_question
from piecework.store.waits import WaitIndex, entry
from piecework_orchestrator.dead_letters.redrive import redrive
from piecework_orchestrator.operate.approvals import (
    AnswerRequest,
    answer,
    chunk_question,
    linked_question,
    open_questions,
)
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.operate.webhooks import Subscription, set_webhook
from piecework_orchestrator.reading.chunk_documents import chunk_document
from piecework_orchestrator.reading.job_documents import require_job
from piecework_simulation.driver.pipelines import Item, model, score
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate

MINUTE_S = 60.0
HOUR_S = 3_600.0
DAY_S = 24 * HOUR_S


async def decide(ctx: Context[Item]) -> str:
    """Pay for a call, ask, and pay again; `trouble`: how the question ends."""
    await ctx.call(model, score, ctx.chunk)
    default = Approval(approved=False, comment="default")
    found = await ctx.wait_for(
        "approval",
        ask=f"Pay {ctx.payload.n}?",
        timeout=3 * HOUR_S,
        remind=[20 * MINUTE_S, 44 * MINUTE_S],
        escalate=Escalate(2 * HOUR_S, "leads"),
        default=default if ctx.payload.trouble == "default" else None,
    )
    await ctx.call(model, score, ctx.chunk + 1_000)
    return f"{found.approved} {found.comment}"


async def sleep(ctx: Context[Item]) -> float:
    """Sleep, and return the time."""
    await ctx.sleep(ctx.payload.seconds)
    return ctx.caller.clock()


asking = Pipeline("asking", payload=Item, stages=[Stage(decide)])
sleeping = Pipeline("sleeping", payload=Item, stages=[Stage(sleep)])
YES = {"approved": True, "comment": "yes"}


async def say(rt: Runtime, chunk: int, value: Any = None, actor: str = "ada") -> Any:
    """Answer the question of a chunk."""
    request = AnswerRequest(value or YES, actor, "the sum is right")
    return await answer(rt, REF.chunk(chunk), request)


async def refused(rt: Runtime, chunk: int, value: Any = None) -> str:
    """Answer in vain, and return code and message."""
    with pytest.raises(UsageError) as error:
        await say(rt, chunk, value, "bob")
    return f"{error.value.code}: {error.value.message} {error.value.next_step}"


async def told(here: Simulated) -> Counter[tuple[str, int]]:
    """Count the events of each chunk's question."""
    events = await here.rt.jobs.events(REF)
    return Counter((e.event, e.facts["chunk"]) for e in events if "chunk" in e.facts)


async def first_finding(rt: Runtime) -> str:
    """Return what explains the job first; the workers are not read."""
    situation = await read_situation(rt, await require_job(rt, REF.job))
    return find(replace(situation, workers=None))[0].kind.code


async def outcome(here: Simulated) -> list[str]:
    """Return the result of each chunk, or the code of its error, after the end."""
    await here.ended(MINUTE_S)
    chunks = await here.chunks()
    return [str(c.item.get("value") or c.error_code or c.status) for c in chunks]


def asked(*troubles: str) -> Sequence[Item]:
    """Return a payload for each way in which a question ends."""
    return [Item(n=n, trouble=trouble) for n, trouble in enumerate(troubles)]


def test_one_answer_counts_and_its_stage_repeats_no_call() -> None:
    async def act(here: Simulated) -> None:
        await here.submit(asking, asked("", "default", ""))
        await asyncio.sleep(60)
        listed = [q async for q in open_questions(here.rt)]
        assert [(q["chunk"], q["ask"]) for q in listed] == [
            (n, f"Pay {n}?") for n in range(3)
        ]
        chunks = await here.chunks()
        assert {(c.status, c.attempts, c.claimed_by) for c in chunks} == {
            (ChunkStatus.WAITING, 0, "")
        }
        job = await require_job(here.rt, REF.job)
        wait = (await chunk_document(here.rt, job, 0))["wait"]
        assert wait["text"].startswith("approval ")

        assert "approval.answer.invalid" in await refused(here.rt, 0, {"approved": 3})
        dropped = await refused(here.rt, 0, {"approved": True, "coment": "no"})
        assert "approval.answer.invalid" in dropped
        assert "'coment'" in dropped
        both = await asyncio.gather(
            say(here.rt, 0), say(here.rt, 0, actor="bob"), return_exceptions=True
        )
        assert sorted(isinstance(end, UsageError) for end in both) == [False, True]
        decided = await chunk_question(here.rt, REF.chunk(0))
        by = decided["decided_by"]
        assert f"answered: Question 'approval' of a/0 has ended: {by} answered" in (
            await refused(here.rt, 0, {"approved": False})
        )
        await asyncio.sleep(5)
        assert (await here.chunks())[0].status is ChunkStatus.SUCCEEDED
        # The others get no answer, through three hours and the death of all workers.
        for process in [*here.fleet.workers]:
            here.world.kill(process)
        found = await outcome(here)
        assert found == ['"True yes"', '"False default"', "runtime.wait.timed_out"]
        assert (await here.chunks())[1].calls == 2
        late = await refused(here.rt, 1)
        assert "timed_out: Question 'approval' of a/1 has ended: its time was" in late
        assert "so its default counts" in late
        assert "redrive does not ask again" in late
        failed = await refused(here.rt, 2)
        assert "so its stage failed" in failed
        assert "piecework dlq redrive --job a --chunk 2 --reason WHY" in failed
        steps = ("reminded", "reminded", "escalated")
        assert await told(here) == Counter(
            [("answered", 0), ("defaulted", 1), ("timed out", 2)]
            + [(step, n) for step in steps for n in (1, 2)]
        )

        # A redrive asks again what ended without an answer.
        await redrive(here.rt, redrive_of(await here.letters()))
        await asyncio.sleep(60)
        await say(here.rt, 2)
        assert (await outcome(here))[2] == '"True yes"'

    simulate(act, [asking])


async def ask_briefly(ctx: Context[Item]) -> bool:
    """Ask for a minute and a half."""
    return (await ctx.wait_for("approval", ask="Pay?", timeout=90.0)).approved


def test_a_question_is_listed_and_answered_until_its_last_moment() -> None:
    brief = Pipeline("brief", payload=Item, stages=[Stage(ask_briefly)])

    async def act(here: Simulated) -> None:
        await here.submit(brief, asked("", ""))
        for second in (30, 50):  # the reconciler looks at the index in between
            await asyncio.sleep(second)
            assert [q["chunk"] async for q in open_questions(here.rt)] == [0, 1]
        await say(here.rt, 0)
        assert await outcome(here) == ["true", "runtime.wait.timed_out"]
        (letter,) = await here.letters()
        late = moment(letter.dead_lettered_at) - moment(
            (await chunk_question(here.rt, REF.chunk(1)))["until"]
        )
        assert 0 <= late <= 5

    simulate(act, [brief], reconcile_s=15.0)


def test_a_link_says_its_own_answer_although_a_later_stage_asks_by_its_name() -> None:
    async def again(ctx: Context[Item]) -> bool:
        return await ask_briefly(ctx)

    async def act(here: Simulated) -> None:
        ref = REF.chunk(0)
        await here.submit(twice, asked(""))
        await asyncio.sleep(10)
        at = (await chunk_question(here.rt, ref))["asked_at"]
        await say(here.rt, 0)
        await asyncio.sleep(10)
        was = await linked_question(here.rt, ref, "approval", at)
        assert "ada answered" in was["outcome"]
        with pytest.raises(UsageError, match="ada answered"):
            await answer(here.rt, ref, AnswerRequest(YES, "bob", "me", "approval", at))

    twice = Pipeline("twice", payload=Item, stages=[Stage(ask_briefly), Stage(again)])
    simulate(act, [twice])


class Share(BaseModel):
    """An answer that the schema accepts, and a validator may not."""

    percent: int

    @field_validator("percent")
    @classmethod
    def tens(cls, percent: int) -> int:
        """Refuse what no schema says."""
        assert percent % 10 == 0
        return percent


async def divide(ctx: Context[Item]) -> int:
    """Ask for a share."""
    return (await ctx.wait_for("share", ask="?", timeout=DAY_S, answer=Share)).percent


def test_an_answer_from_elsewhere_is_checked_by_the_schema_then_by_the_model(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dividing = Pipeline("dividing", payload=Item, stages=[Stage(divide)])

    async def act(here: Simulated) -> list[str]:
        await here.submit(dividing, asked(""))
        await asyncio.sleep(60)
        with monkeypatch.context() as elsewhere:  # a process without the pipeline
            elsewhere.setattr(f"{__name__}.Share", None)
            assert "percent: Field req" in await refused(here.rt, 0, {"part": 3})
            await say(here.rt, 0, {"percent": 15})
        first = await outcome(here)
        await redrive(here.rt, redrive_of(await here.letters()))
        await asyncio.sleep(60)
        assert "Assertion failed" in await refused(here.rt, 0, {"percent": 15})
        await say(here.rt, 0, {"percent": 20})
        return first + await outcome(here)

    assert simulate(act, [dividing]) == ["runtime.answer.invalid", "20"]


def test_webhooks_receive_each_step_once() -> None:
    async def act(here: Simulated) -> list[tuple[str, str]]:
        hook = Subscription(
            "ops", "https://ops.example.com/", "env:PIECEWORK_WEBHOOK_OPS"
        )
        await set_webhook(here.rt, hook, "me")
        await here.submit(asking, asked("default"))
        await outcome(here)
        sent = here.rt.table.query("T#default#OUTBOX", "DELIVERY#ops#")
        rows = [row async for row in sent]
        assert not any("Pay" in str(row["body"]) for row in rows)
        return sorted((row["at"], row["kind"]) for row in rows)

    kinds = [kind for _, kind in simulate(act, [asking])]
    names = ("asked", "reminded", "reminded", "escalated", "timed_out")
    assert kinds == [*(f"question.{name}" for name in names), "job.ended"]


def test_entries_that_answers_left_delay_no_reminder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(waits, "ENTRIES_AT_ONCE", 1)

    async def act(here: Simulated) -> None:
        await here.submit(asking, asked(*[""] * 30))
        await asyncio.sleep(60)
        chunks = await here.chunks()
        last = max(chunks, key=lambda each: (each.due_at, each.ref.chunk))
        for chunk in chunks:
            if chunk is not last:
                await say(here.rt, chunk.ref.chunk)
        await asyncio.sleep(moment(last.due_at) + MINUTE_S - here.world.now())
        assert (await told(here))["reminded", last.ref.chunk]

    simulate(act, [asking])


def test_an_answer_wakes_its_chunk_though_its_process_dies() -> None:
    async def act(here: Simulated) -> float:
        await here.submit(asking, asked(""))
        await asyncio.sleep(60)
        (chunk,), rt = await here.chunks(), here.rt
        row = await read_question(rt.table, chunk.ref, "decide", "approval")
        assert row is not None
        given = PersonAnswer('{"approved":true,"comment":""}', "ada", "right")
        assert await questions.write_answer(rt.table, chunk, row, given, rt.clock())
        since = here.world.loop.time()  # and no message is sent
        assert await first_finding(rt) == "job.progressing"
        await here.ended(1.0)
        return here.world.loop.time() - since

    assert simulate(act, [asking]) <= 60.0


@pytest.mark.parametrize("odd", ["an entry is lost", "two entries", "nothing"])
def test_a_wait_ends_on_time_whatever_entries_it_has(odd: str) -> None:
    async def act(here: Simulated) -> float:
        await here.submit(sleeping, [Item(n=0, seconds=2 * HOUR_S)])
        until = here.world.now() + 2 * HOUR_S
        await asyncio.sleep(60)
        index = WaitIndex(here.rt.table, here.rt.clock)
        if odd == "an entry is lost":
            await index.drop(REF, await index.first_due(REF, "9"))
        if odd == "two entries":  # an answer leaves the entry of its question
            (chunk,) = await here.chunks()
            further = entry(here.rt.table, chunk.ref, chunk.gen, iso(until + 1))
            await here.rt.table.transact([further])
        await here.ended(MINUTE_S)
        (chunk,) = await here.chunks()
        assert await index.first_due(REF, "9") == []
        return float(chunk.item["value"]) - until

    late = simulate(act, [sleeping])
    assert 0 <= late <= (60.0 if odd == "an entry is lost" else 5.0)


def test_a_job_whose_chunks_all_wait_costs_few_requests() -> None:
    async def act(here: Simulated, chunks: int) -> int:
        items = [Item(n=n, seconds=DAY_S) for n in range(chunks)]
        await here.submit(sleeping, items)
        await asyncio.sleep(200)
        before = here.world.requests
        await asyncio.sleep(HOUR_S)
        return here.world.requests - before

    one = simulate(lambda here: act(here, 1), [sleeping])
    many = simulate(lambda here: act(here, 300), [sleeping])
    # The passes read two groups once in an hour, in pages of seven items. A large job
    # has a backlog, whose end each pass reads. It also tolerates some dead letters, and
    # each of the 120 passes reads their counters, which have rows of their own.
    assert many <= one + 300 / 7 + 130 + 120


def test_a_join_sleeps_and_asks_as_a_stage_does() -> None:
    async def join(results: Results) -> None:
        await results.sleep(hours=1)
        await results.wait_for("approval", ask="Publish?", timeout=HOUR_S)

    joining = Pipeline("joining", payload=Item, stages=[Stage(sleep)], join=join)

    async def act(here: Simulated) -> str:
        await here.submit(joining, asked(""))
        await asyncio.sleep(HOUR_S + 2 * MINUTE_S)
        assert [q["chunk"] async for q in open_questions(here.rt)] == [JOIN_CHUNK]
        assert await first_finding(here.rt) == "answer.waiting"
        await say(here.rt, JOIN_CHUNK)
        late = await refused(here.rt, JOIN_CHUNK)
        assert (await here.ended(MINUTE_S)).status is JobStatus.SUCCEEDED
        return late

    assert "Question 'approval' of a/join has ended" in simulate(act, [joining])


def test_a_pause_and_a_cancel_during_a_wait() -> None:
    async def act(here: Simulated) -> tuple[JobStatus, str]:
        rt = here.rt
        await here.submit(asking, asked("", ""))
        await asyncio.sleep(60)
        await pause(rt, REF, actor="me", reason="lunch")
        await say(rt, 0)  # people may answer
        await asyncio.sleep(HOUR_S / 2)
        assert (await told(here))["reminded", 1] == 1
        assert (await here.chunks())[0].status is ChunkStatus.WAITING
        await resume(rt, REF, actor="me", reason="go on")
        await asyncio.sleep(30)
        assert (await here.chunks())[0].status is ChunkStatus.SUCCEEDED
        await cancel(rt, REF, actor="me", reason="enough")
        said = await refused(rt, 1)
        shown = (await chunk_question(rt, REF.chunk(1)))["outcome"]
        assert "its chunk is CANCELLED, and does not wait for it" == shown
        status = (await here.ended(MINUTE_S)).status
        for process in [*here.fleet.workers]:
            here.world.kill(process)  # otherwise one may ask again before the list
        await retry(rt, RetryRequest(REF, "me", "after all"))
        listed = [[q["chunk"] async for q in open_questions(rt)]]
        await asyncio.sleep(60)  # the cancel left the entry of the first asking
        listed += [[q["chunk"] async for q in open_questions(rt)]]
        assert listed == [[], [1]]
        return status, said

    status, said = simulate(act, [asking])
    assert status is JobStatus.CANCELLED
    assert "left: Chunk a/1 (CANCELLED) does not wait for 'approval'" in said


def test_a_deadline_compensates_a_chunk_that_waits() -> None:
    undone: list[int] = []

    async def undo(ctx: Context[Item]) -> None:
        undone.append(ctx.chunk)

    pipeline = Pipeline(
        "undoing",
        payload=Item,
        stages=[Stage(decide, compensate=undo, undo_if_failed=True)],
    )

    async def act(here: Simulated) -> Job:
        until = here.world.now() + HOUR_S
        await here.fleet.submit(REF, pipeline, asked(""), until, mortal=False)
        job = await here.ended(MINUTE_S)
        assert job.finished_at < iso(until + 60)
        return job

    assert simulate(act, [pipeline]).status is JobStatus.CANCELLED
    assert undone == [0]
