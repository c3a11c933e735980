"""Newer code asks for other calls than the claims before it.

True workers on the simulated AWS. Version 1 calls until its call is in flight, answered
or in doubt. Then its workers are killed, and version 2 goes on. What the outside world
has seen decides: no act twice, and no legal program stopped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    PermanentError,
    Pipeline,
    Results,
    Stage,
    TransientError,
)
from piecework.domain.chunk import Chunk
from piecework.domain.job import Job
from piecework.domain.keys import JOIN_CHUNK
from piecework.errors import UsageError
from piecework.explain.situation import read_situation
from piecework.store.completion import read_chunk
from piecework_orchestrator.cli.views.jobs import stop_lines
from piecework_orchestrator.dead_letters.redrive import Edit, redrive
from piecework_orchestrator.operate.changes import accept_changes, preview
from piecework_orchestrator.reading.job_documents import explanation, job_document
from tests.simulation.test_new_code import deploy
from tests.unit.orchestrator.simulated import REF, Simulated, redrive_of, simulate

RETRY_S = 30.0
#: Virtual seconds within which a chunk comes to where a test waits for it.
WITHIN_S = 600.0
ONCE, KEYED, PURE = Effect.NON_IDEMPOTENT, Effect.PROVIDER_IDEMPOTENT, Effect.PURE


class Item(BaseModel):
    n: int = 0


@dataclass
class Book:
    """What the outside world has seen.

    Attributes:
        sent: The calls that arrived, in order.
        hangs: The call that gets no answer.
        declines: Whether the bank declines each charge.
    """

    sent: list[str] = field(default_factory=list)
    hangs: str = ""
    declines: bool = False


BOOK = Book()


@pytest.fixture(autouse=True)
def _new_book() -> None:
    BOOK.sent, BOOK.hangs, BOOK.declines = [], "", False


async def arrive(name: str) -> str:
    """Note a call, and answer it."""
    BOOK.sent.append(name)
    if name == BOOK.hangs:
        await asyncio.sleep(10_000)
    return name


def declined() -> PermanentError:
    """Return the answer of a bank that certainly does nothing."""
    return PermanentError("declined", code="tool.bank.declined", http_status=402)


async def charge(who: str, amount: str = "5", *, idempotency_key: str = "") -> str:
    """Charge a customer."""
    del idempotency_key
    if BOOK.declines:
        raise declined()
    return await arrive(f"charge {who} {amount}")


async def moved_charge(who: str, *, idempotency_key: str = "") -> str:
    """Charge a customer: the function has moved."""
    del idempotency_key
    return await arrive(f"charge {who} 5")


async def ask(what: str) -> str:
    """Ask a model."""
    return await arrive(f"ask {what}")


def bank(effect: Effect = KEYED, name: str = "bank") -> Dependency:
    """Return a version of the bank."""
    return Dependency(name, effect=effect, timeout=20_000)


model = Dependency("model")
Run = Callable[[Context[Item]], Awaitable[Any]]


def calls(*asked: tuple[Any, ...]) -> Run:
    """Return a stage that makes these calls, one after the other."""

    async def run(ctx: Context[Item]) -> None:
        for dependency, function, *args in asked:
            await ctx.call(dependency, function, *args)

    return run


def then_fails(run: Run) -> Run:
    """Return a stage that fails after its calls, and is tried again later."""

    async def fails(ctx: Context[Item]) -> None:
        with suppress(PermanentError):
            await run(ctx)
        message = "later"
        raise TransientError(message, code="tool.x.y", retry_after=RETRY_S)

    return fails


def pipeline(*runs: Run) -> Pipeline:
    """Return a version of the pipeline: its stages are a, b, c."""
    stages = [Stage(run, name=name) for name, run in zip("abc", runs, strict=False)]
    return Pipeline("shop", payload=Item, stages=stages)


@dataclass
class End:
    """How a chunk stands once newer code has claimed it."""

    chunk: Chunk
    why: str

    @property
    def stopped(self) -> bool:
        """Whether the chunk waits for other code."""
        waits = (self.chunk.status, self.chunk.error_code)
        return waits == ("WAITING", "runtime.code.changed")


async def when(at: Simulated, is_so: Callable[[Chunk], bool]) -> Chunk:
    """Return the chunk once it is so."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            [chunk] = await at.chunks()
            if is_so(chunk):
                return chunk
            await asyncio.sleep(0.1)


def across(old: Pipeline, new: Pipeline, until: Callable[[Chunk], bool]) -> End:
    """Run version 1 until its chunk is so, then version 2."""

    async def act(at: Simulated) -> End:
        await at.submit(old, [Item()])
        await when(at, until)
        await deploy(at, new)
        chunk = await when(at, has_stopped_or_ended)
        return End(chunk, await why(at, chunk))

    return simulate(act, [old], max_attempts=9)


def has_stopped(chunk: Chunk) -> bool:
    """Return whether newer code has stopped the chunk."""
    return chunk.error_code == "runtime.code.changed"


def has_stopped_or_ended(chunk: Chunk) -> bool:
    """Return whether newer code has come to an end with the chunk."""
    return has_stopped(chunk) or chunk.status in {"SUCCEEDED", "DEAD"}


async def why(at: Simulated, chunk: Chunk) -> str:
    """Return the message of the last error of a chunk."""
    rows = [row async for row in at.rt.table.query(chunk.ref.pk, "")]
    return " ".join(str(row.get("error", "")) for row in rows)


def in_flight(_: Chunk) -> bool:
    """Return whether a call has arrived that gets no answer."""
    return bool(BOOK.sent) and BOOK.sent[-1] == BOOK.hangs


def failed_once(chunk: Chunk) -> bool:
    """Return whether the chunk waits for its next attempt."""
    return chunk.status == "WAITING" and bool(BOOK.sent)


OLD = (bank(), charge, "ann")
#: What version 2 calls in place of `OLD`, and how its message names it.
CHANGES = {
    "an argument is added": [calls((bank(), charge, "ann", "5"))],
    "a field of the payload is set": [calls((bank(), charge, "ann", "6"))],
    "the function moved": [calls((bank(), moved_charge, "ann"))],
    "the dependency is renamed": [calls((bank(name="till"), charge, "ann"))],
    "all of it is renamed": [calls((bank(name="till"), moved_charge, "Ann"))],
    "another effect is first": [
        calls((bank(name="mail"), moved_charge, "post"), OLD),
    ],
    "the call is gone": [calls()],
    "the call is in a later stage": [calls(), calls(OLD)],
    "the call is pure, with another argument": [
        calls((bank(PURE), charge, "ann", "5")),
    ],
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("state", ["INTENT", "DONE"])
def test_no_act_is_repeated_or_left_by_newer_code(change: str, state: str) -> None:
    BOOK.hangs = "charge ann 5" if state == "INTENT" else ""
    first = calls(OLD) if BOOK.hangs else then_fails(calls(OLD))
    later = [calls() for _ in CHANGES[change][1:]]
    until = in_flight if BOOK.hangs else failed_once

    end = across(pipeline(first, *later), pipeline(*CHANGES[change]), until)

    assert ["charge ann 5"] == BOOK.sent
    assert end.stopped
    assert "charge of 'bank'" in end.why
    assert state in end.why


@pytest.mark.parametrize("change", CHANGES)
def test_no_act_in_doubt_is_repeated_or_left_by_newer_code(change: str) -> None:
    """The call gets no answer, and its provider has neither keys nor a lookup."""
    short = Dependency("bank", effect=ONCE, timeout=5.0)
    BOOK.hangs = "charge ann 5"
    first = then_fails(calls((short, charge, "ann")))
    later = [calls() for _ in CHANGES[change][1:]]

    end = across(pipeline(first, *later), pipeline(*CHANGES[change]), failed_once)

    assert ["charge ann 5"] == BOOK.sent
    assert end.stopped
    assert "UNKNOWN" in end.why


@pytest.mark.parametrize(
    ("was", "now", "sent", "status"),
    [
        # The key is the same, so the answer is known, whatever the call is now.
        (PURE, KEYED, 1, "SUCCEEDED"),
        (PURE, ONCE, 1, "SUCCEEDED"),
        (KEYED, PURE, 1, "SUCCEEDED"),
        (ONCE, PURE, 1, "SUCCEEDED"),
        (KEYED, ONCE, 1, "SUCCEEDED"),
        (ONCE, KEYED, 1, "SUCCEEDED"),
    ],
)
@pytest.mark.parametrize("other", [False, True])
def test_a_corrected_kind_of_effect_repeats_no_answered_call(
    was: Effect, now: Effect, sent: int, status: str, *, other: bool
) -> None:
    """With another argument, too, the call may be the act that was answered."""
    old = then_fails(calls((bank(was), charge, "ann")))
    new = calls((bank(now), charge, "ann", *(["5"] if other else [])))

    end = across(pipeline(old), pipeline(new), failed_once)

    assert sent == len(BOOK.sent)
    assert end.stopped if other else status == end.chunk.status


@pytest.mark.parametrize("was", [KEYED, ONCE])
@pytest.mark.parametrize("now", [KEYED, ONCE, PURE])
def test_a_corrected_kind_of_effect_repeats_no_call_in_flight(
    was: Effect, now: Effect
) -> None:
    """Only a key that the provider has known all the time is sent again."""
    BOOK.hangs = "charge ann 5"
    old, new = (calls((bank(kind), charge, "ann")) for kind in (was, now))

    async def act(at: Simulated) -> tuple[str, str]:
        await at.submit(pipeline(old), [Item()])
        await when(at, in_flight)
        BOOK.hangs = ""
        await deploy(at, pipeline(new))
        await at.ended()
        [chunk] = await at.chunks()
        return str(chunk.status), str(chunk.error_code)

    end = simulate(act, [pipeline(old)], max_attempts=9)

    repeats = (was, now) == (KEYED, KEYED)
    assert (2 if repeats else 1) == len(BOOK.sent)
    doubt = "DEAD", "runtime.effect.unknown"
    assert end == (("SUCCEEDED", "") if repeats else doubt)


def test_a_call_that_was_pure_holds_an_effect_that_is_like_it() -> None:
    old = then_fails(calls((bank(PURE), charge, "ann")))
    new = calls((bank(KEYED, "till"), charge, "ann", "5"))

    end = across(pipeline(old), pipeline(new), failed_once)

    assert ["charge ann 5"] == BOOK.sent
    assert "charge of 'bank' (answered)" in end.why


@pytest.mark.parametrize("amount", [[], ["6"]])
def test_a_declined_call_is_not_made_after_another_version_has_made_it(
    amount: list[str],
) -> None:
    """The version before returns, and its key was declined: the act is done."""
    old = pipeline(then_fails(calls(OLD)))
    new = pipeline(then_fails(calls((bank(), charge, "ann", *amount))))

    async def act(at: Simulated) -> Chunk:
        BOOK.declines = True
        await at.submit(old, [Item()])
        await when(at, lambda chunk: chunk.status == "WAITING")
        BOOK.declines = False
        await deploy(at, new)
        await when(at, lambda chunk: failed_once(chunk) or has_stopped(chunk))
        await deploy(at, pipeline(calls(OLD)))
        return await when(at, has_stopped_or_ended)

    chunk = simulate(act, [old], max_attempts=9)

    assert [" ".join(["charge ann", *(amount or ["5"])])] == BOOK.sent
    assert bool(amount) == has_stopped(chunk)


# ── legal programs ────────────────────────────────────────────────────────────


def in_groups(run: Callable[[Context[Item], str], Awaitable[Any]]) -> Run:
    """Return a stage that runs something for a, b, c, d at once."""

    async def group(ctx: Context[Item]) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name in "abcd":
                tasks.create_task(run(ctx, name))

    return group


async def one(ctx: Context[Item], name: str) -> None:
    """Make an effect."""
    await ctx.call(bank(), charge, name)


def after(delays: str) -> Run:
    """Return a stage whose calls come in this order, by seconds."""

    async def run(ctx: Context[Item], name: str) -> None:
        await asyncio.sleep(delays.index(name))
        await one(ctx, name)

    return in_groups(run)


def limited(width: int) -> Run:
    """Return a stage that makes so many calls at once."""

    async def group(ctx: Context[Item]) -> None:
        turns = asyncio.Semaphore(width)

        async def run(name: str) -> None:
            async with turns:
                await one(ctx, name)

        await asyncio.gather(*map(run, "abcd"))

    return group


async def by_answer(ctx: Context[Item]) -> None:
    """Make the second effect only after the answer of the first."""
    if await ctx.call(bank(), charge, "a"):
        await ctx.call(bank(name="mail"), charge, "b")


async def in_a_loop(ctx: Context[Item]) -> None:
    """Make effects one after the other."""
    for name in "abcd":
        await one(ctx, name)


async def beside_a_clock(ctx: Context[Item]) -> None:
    """Make a pure call whose argument is a time, and then effects."""
    await ctx.call(model, ask, f"{asyncio.get_running_loop().time()}")
    await in_a_loop(ctx)


async def with_a_timeout(ctx: Context[Item]) -> None:
    """Give up a slow answer, and go on."""
    with suppress(TimeoutError):
        async with asyncio.timeout(5):
            await one(ctx, "a")
    await one(ctx, "b")


async def caught(ctx: Context[Item]) -> None:
    """Go on after a refusal: nothing of it is left."""
    with suppress(PermanentError):
        await ctx.call(bank(), refuse, "a")
    await in_a_loop(ctx)


async def refuse(who: str, *, idempotency_key: str = "") -> str:
    """Refuse a charge."""
    del idempotency_key
    BOOK.sent.append(f"refuse {who}")
    raise declined()


LEGAL = {
    "all at once": in_groups(one),
    "one after the other": in_a_loop,
    "the second by the answer of the first": by_answer,
    "a pure call with a clock": beside_a_clock,
    "two at a time": limited(2),
    "one at a time": limited(1),
    "with a refusal": caught,
    "with a timeout": with_a_timeout,
}
#: Programs that make only the first two calls.
SHORT = {"the second by the answer of the first", "with a timeout"}
CALLS = {name: "ab" if name in SHORT else "abc" for name in LEGAL}


@pytest.mark.parametrize(
    ("program", "hangs"),
    [
        (program, hangs)
        for program, calls in CALLS.items()
        for hangs in ("", *(f"charge {call} 5" for call in calls))
    ],
)
def test_a_legal_program_goes_on_across_a_deployment(program: str, hangs: str) -> None:
    BOOK.hangs, run = hangs, LEGAL[program]
    old = pipeline(run if hangs else then_fails(run))

    async def act(at: Simulated) -> str:
        await at.submit(old, [Item()])
        await asyncio.sleep(RETRY_S / 2)
        BOOK.hangs = ""
        await deploy(at, pipeline(run))
        await at.ended()
        [chunk] = await at.chunks()
        return str(chunk.status)

    assert "SUCCEEDED" == simulate(act, [old], max_attempts=9)
    acts = [sent for sent in BOOK.sent if sent.startswith("charge")]
    assert sorted({*acts, hangs} - {""}) == sorted({*acts})
    assert len(acts) - len({*acts}) == acts.count(hangs) - bool(hangs)


def test_a_refusal_stops_no_legal_program_across_two_deployments() -> None:
    """The second version is refused again, after what the first one did."""
    run = LEGAL["with a refusal"]

    first = pipeline(then_fails(run))

    async def act(at: Simulated) -> str:
        await at.submit(first, [Item()])
        await when(at, failed_once)
        await deploy(at, pipeline(then_fails(run)))
        await when(at, lambda chunk: failed_once(chunk) and chunk.attempts == 2)
        await deploy(at, pipeline(run))
        await at.ended()
        [chunk] = await at.chunks()
        return str(chunk.status)

    assert "SUCCEEDED" == simulate(act, [first], max_attempts=9)
    refused = [sent for sent in BOOK.sent if sent == "refuse a"]
    assert (3, 7) == (len(refused), len(BOOK.sent))


@pytest.mark.parametrize("new", ["abcd", "dcba", "badc", "cdab"])
def test_calls_at_once_may_come_in_another_order(new: str) -> None:
    """The effects of version 1 are a and b; version 2 may ask for them last."""
    first = after("abcd")

    async def act(at: Simulated) -> str:
        await at.submit(pipeline(first), [Item()])
        await when(at, lambda _: len(BOOK.sent) == 2)
        await deploy(at, pipeline(after(new)))
        await at.ended()
        [chunk] = await at.chunks()
        return str(chunk.status)

    assert "SUCCEEDED" == simulate(act, [pipeline(first)], max_attempts=9)
    assert [f"charge {name} 5" for name in "abcd"] == sorted(BOOK.sent)


def test_the_version_of_before_goes_on_with_a_stopped_chunk() -> None:
    old = pipeline(then_fails(calls(OLD)))
    mended = pipeline(calls(OLD))

    async def act(at: Simulated) -> Chunk:
        await at.submit(old, [Item()])
        await when(at, failed_once)
        await deploy(at, pipeline(calls((bank(), charge, "ann", "5"))))
        await when(at, has_stopped_or_ended)
        await deploy(at, mended)
        await at.ended()
        return (await at.chunks())[0]

    chunk = simulate(act, [old], max_attempts=9)

    assert ["charge ann 5"] == BOOK.sent
    assert ("SUCCEEDED", 2) == (chunk.status, chunk.attempts)


@pytest.mark.parametrize("versions", ["11", "12"])
def test_what_the_world_decides_stops_only_another_version_of_the_code(
    versions: str,
) -> None:
    async def run(ctx: Context[Item]) -> None:
        await one(ctx, "late" if BOOK.sent else "early")

    async def act(at: Simulated) -> Chunk:
        at.fleet.code_versions = {"shop": f"v{versions[0]}"}
        await deploy(at, old)
        await at.submit(old, [Item()])
        await when(at, failed_once)
        at.fleet.code_versions = {"shop": f"v{versions[1]}"}
        await deploy(at, pipeline(run))
        return await when(at, has_stopped_or_ended)

    old = pipeline(then_fails(run))
    chunk = simulate(act, [old], max_attempts=9)

    same = versions == "11"
    assert ("SUCCEEDED" if same else "WAITING") == chunk.status
    assert (2 if same else 1) == len(BOOK.sent)


@pytest.mark.parametrize("patched", [True, False])
def test_another_payload_of_an_operator_asks_for_other_calls(*, patched: bool) -> None:
    """The operator gave it on purpose; the page says that the calls are made."""

    def version(mark: str) -> Pipeline:
        async def run(ctx: Context[Item]) -> None:
            await ctx.call(bank(), charge, f"n{ctx.payload.n}{mark}")
            if not ctx.payload.n and not mark:
                message = "no"
                raise PermanentError(message, code="tool.x.no")

        return pipeline(run)

    old, new = version(""), version("" if patched else "!")

    async def act(at: Simulated) -> str:
        await at.submit(old, [Item()])
        await at.ended()
        await deploy(at, new)
        edit = Edit({"n": 1}) if patched else None
        await redrive(at.rt, replace(redrive_of(await at.letters()), edit=edit))
        redriven = await when(at, lambda c: c.gen == 2 and has_stopped_or_ended(c))
        return str(redriven.error_code or redriven.status)

    end = simulate(act, [old])

    assert end == ("SUCCEEDED" if patched else "runtime.code.changed")
    assert BOOK.sent == ["charge n0 5", "charge n1 5"][: 2 if patched else 1]


def test_an_operator_reads_both_sides_and_lets_newer_code_go_on() -> None:
    old = pipeline(then_fails(calls(OLD, (model, ask, "why"))))
    new = pipeline(calls((bank(), charge, "ann", "5"), (model, ask, "who")))

    async def act(at: Simulated) -> tuple[Any, ...]:
        await at.submit(old, [Item()])
        await when(at, failed_once)
        await deploy(at, new)
        await when(at, has_stopped_or_ended)
        job = await at.rt.jobs.read(REF)
        assert job is not None
        told = explanation(await read_situation(at.rt, job))
        before = await preview(at.rt, job)
        accepted = await accept_changes(at.rt, job, actor="ann", reason="I know")
        await at.ended()
        [chunk] = await at.chunks()
        return told, before, accepted, chunk

    told, before, accepted, chunk = simulate(act, [old], max_attempts=9)

    found = {each["code"]: each["message"] for each in told["findings"]}
    assert told["stopped"]["now"][1:-1] in found["version.safe_needed"]
    assert [("charge", "DONE")] == [
        (act["called"].rpartition(".")[2], act["state"])
        for act in told["stopped"]["before"]
    ]
    assert (1, 0, True) == (before.waiting, before.dead, before.exact)
    kinds = [(kind["state"], kind["number"]) for kind in before.kinds]
    assert [("ANSWERED", 1), ("DONE", 1)] == kinds
    assert ("ann", "I know") == (
        accepted.changes_accepted_by,
        accepted.changes_accepted_why,
    )
    assert ("SUCCEEDED", 2) == (chunk.status, chunk.attempts)
    assert ["charge ann 5", "ask why", "charge ann 5", "ask who"] == BOOK.sent


def test_an_operator_reads_both_sides_of_a_dead_letter_too() -> None:
    old = pipeline(then_fails(calls(OLD)))

    async def act(at: Simulated) -> Any:
        await at.submit(old, [Item()])
        await when(at, failed_once)
        await deploy(at, pipeline(calls((bank(), charge, "ann", "5"))))
        job = await at.ended()
        [letter] = await at.letters()
        assert letter.error_code == "runtime.code.changed"
        return explanation(await read_situation(at.rt, job))["stopped"]

    stopped = simulate(act, [old], max_attempts=9)

    assert ["DONE"] == [act["state"] for act in stopped["before"]]
    assert "is about to call" in stopped["now"]
    assert ["charge ann 5"] == BOOK.sent


def test_an_operator_accepts_while_a_worker_holds_the_chunk_again() -> None:
    async def act(at: Simulated) -> tuple[int, str]:
        await at.submit(old, [Item()])
        await when(at, failed_once)
        await deploy(at, pipeline(calls((bank(), charge, "ann", "6"))))
        await when(at, has_stopped)
        await when(at, lambda c: has_stopped(c) and c.status == "RUNNING")
        job = await at.rt.jobs.read(REF)
        assert job is not None
        before = await preview(at.rt, job)
        await accept_changes(at.rt, job, actor="ann", reason="I know")
        return before.waiting, str((await at.ended()).status)

    old = pipeline(then_fails(calls(OLD)))

    assert (1, "SUCCEEDED") == simulate(act, [old], max_attempts=9)
    assert ["charge ann 5", "charge ann 6"] == BOOK.sent


def joined(amount: str, *, fails: bool = False) -> Pipeline:
    """Return a version of the pipeline whose join charges."""

    async def total(results: Results[Any]) -> None:
        await results.call(bank(), charge, "ann", amount)
        if fails:
            message = "later"
            raise TransientError(message, code="tool.x.y", retry_after=RETRY_S)

    return replace(pipeline(calls()), join=total)


def test_a_stopped_join_is_explained_as_a_stopped_chunk() -> None:
    async def act(at: Simulated) -> tuple[Any, ...]:
        async def join_has(code: str) -> Job:
            async with asyncio.timeout(WITHIN_S):
                while True:
                    join = await read_chunk(at.rt.table, REF.chunk(JOIN_CHUNK))
                    if join is not None and join.error_code == code:
                        job = await at.rt.jobs.read(REF)
                        assert job is not None
                        return job
                    await asyncio.sleep(0.1)

        await at.submit(old, [Item()])
        await join_has("tool.x.y")
        await deploy(at, joined("6"))
        job = await join_has("runtime.code.changed")
        told = explanation(await read_situation(at.rt, job))
        return told, await preview(at.rt, job)

    old = joined("5", fails=True)
    told, before = simulate(act, [old], max_attempts=9)

    found = {each["code"]: each for each in told["findings"]}
    needed = found["version.safe_needed"]
    assert "join.waiting" not in found
    assert told["stopped"]["now"][1:-1] in needed["message"]
    assert f"piecework jobs accept-changes {REF.job} --dry-run" == needed["next"]
    assert ["DONE"] == [act["state"] for act in told["stopped"]["before"]]
    for stopped in (told["stopped"], before.first):
        assert stop_lines(stopped)[0].startswith("join, stage")
    assert ["charge ann 5"] == BOOK.sent


def test_an_acceptance_needs_a_stopped_chunk_and_a_reason() -> None:
    old = pipeline(then_fails(calls(OLD)))

    async def act(at: Simulated) -> list[str]:
        await at.submit(old, [Item()])
        await when(at, failed_once)
        job, refused = await at.rt.jobs.read(REF), []
        assert job is not None
        for reason in ("", "why"):
            with pytest.raises(UsageError) as error:
                await accept_changes(at.rt, job, actor="ann", reason=reason)
            refused.append(error.value.code)
        return refused

    refused = simulate(act, [old], max_attempts=9)

    assert ["cli.reason.missing", "job.changes.none"] == refused


def test_pure_calls_that_newer_code_makes_again_are_counted() -> None:
    asked = [(model, ask, f"{n}") for n in range(5)]
    old = pipeline(then_fails(calls(*asked)))
    new = pipeline(calls(*asked[:2], *((model, ask, f"new {n}") for n in range(4))))

    async def act(at: Simulated) -> tuple[int, int, Any]:
        await at.submit(old, [Item()])
        await when(at, failed_once)
        await deploy(at, new)
        job = await at.ended()
        [chunk] = await at.chunks()
        shown = await job_document(at.rt, job)
        again = shown["calls"]["paid_again"], shown["certificate"]["paid_again"]
        return chunk.calls, chunk.calls_paid_again, again

    # Three of the four new calls take the place of old ones.
    assert (9, 3, (3, 3)) == simulate(act, [old], max_attempts=9)
