"""A repeated stage whose calls have another key in each run is noticed, no other."""

from __future__ import annotations

import asyncio
import uuid
from itertools import count
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, Stage
from piecework.domain.argument_digests import (
    argument_digests,
    differing,
    pack_digests,
    read_digests,
)
from piecework.errors import PermanentError, TransientError, UsageError
from piecework.testing import failing, killed_after, killed_in, run_in_memory
from tests.unit.piecework.fakes import Clause

model = Dependency("model")
bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
ticks = count()


class Request(BaseModel):
    """What is sent to a model."""

    prompt: str
    at: int = 0


async def ask(prompt: str, request_id: str = "") -> str:
    """Be a model."""
    return prompt + request_id


async def send(request: Request) -> str:
    """Be another one."""
    return request.prompt


async def now() -> int:
    """Tell the time, once."""
    return next(ticks)


async def pay(amount: int, ref: str, *, idempotency_key: str) -> str:
    """Be a bank."""
    del amount, ref
    return idempotency_key


async def with_an_id(ctx: Context[Clause]) -> str:
    """Draw an id in each run."""
    return await ctx.call(model, ask, ctx.payload.text, request_id=str(uuid.uuid4()))


async def with_a_time(ctx: Context[Clause]) -> str:
    """Put the time into a field of the request."""
    return await ctx.call(model, send, Request(prompt="a", at=next(ticks)))


async def with_a_stored_time(ctx: Context[Clause]) -> str:
    """Ask for the time by a call, so that it is remembered."""
    at = await ctx.call(model, now)
    return await ctx.call(model, send, Request(prompt="a", at=at))


async def paid_anew(ctx: Context[Clause]) -> str:
    """Pay with a reference that is drawn in each run."""
    return await ctx.call(bank, pay, 3, ref=str(next(ticks)))


async def by_attempt(ctx: Context[Clause]) -> str:
    """Ask otherwise in another attempt, on purpose."""
    await ctx.call(model, ask, f"attempt {ctx.attempt}")
    return await ctx.call(model, now) and "done"


def one(stage: Any) -> Pipeline[Clause]:
    """Return a pipeline of one stage."""
    return Pipeline(name="one", payload=Clause, stages=[Stage(stage, name="work")])


@pytest.mark.parametrize(
    ("stage", "named"),
    [
        (with_an_id, "argument request_id differs"),
        (with_a_time, "argument request.at differs"),
        (paid_anew, "an argument differs"),
    ],
)
async def test_a_repeated_stage_that_draws_an_argument_fails_the_test(
    stage: Any, named: str
) -> None:
    with pytest.raises(UsageError, match=named) as raised:
        await run_in_memory(one(stage), [Clause()], faults=[killed_after("work")])
    assert "call.key.unstable" == raised.value.code


async def test_an_argument_that_a_call_has_remembered_is_stable() -> None:
    pipe, faults = one(with_a_stored_time), [killed_after("work", times=3)]
    run = await run_in_memory(pipe, [Clause()], faults=faults)
    assert (1, 1) == (run.calls("now"), run.calls("send"))


async def test_a_stage_that_is_not_repeated_may_draw_what_it_wants() -> None:
    run = await run_in_memory(one(with_an_id), [Clause()])
    assert 1 == run.calls("ask")


async def test_a_call_that_was_not_answered_proves_nothing() -> None:
    faults = [killed_in("ask")]
    run = await run_in_memory(one(with_an_id), [Clause()], faults=faults)
    assert 2 == run.calls("ask")


async def test_other_calls_of_an_attempt_are_allowed_on_request() -> None:
    pipe = one(by_attempt)
    faults = [failing("now", TransientError("busy", code="tool.http.503_unavailable"))]
    faults *= 40
    with pytest.raises(UsageError, match="argument prompt differs"):
        await run_in_memory(pipe, [Clause()], faults=faults)
    run = await run_in_memory(pipe, [Clause()], faults=faults, allow_unstable_keys=True)
    assert run.calls("ask") > 1


async def test_concurrent_calls_in_another_order_are_stable() -> None:
    """The answers of the last calls are stored, and those of the first are not."""
    refused = {"0", "1", "2"}

    async def slow(text: str) -> str:
        if text in refused:
            raise PermanentError("no", code="tool.http.400_bad_request")
        return text

    async def work(ctx: Context[Clause]) -> list[str]:
        calls = [ctx.call(model, slow_call, str(n)) for n in range(6)]
        found = await asyncio.gather(*calls, return_exceptions=True)
        refused.clear()
        return [text for text in found if isinstance(text, str)]

    from piecework import named_call

    slow_call = named_call("slow")(slow)
    run = await run_in_memory(one(work), [Clause()], faults=[killed_after("work")])
    assert {0: list("012345")} == run.results


def test_the_digests_of_a_page_name_the_argument_that_differs() -> None:
    before = argument_digests("a/b/1", send, [Request(prompt="a", at=1)], {})
    now_ = argument_digests("a/b/1", send, [Request(prompt="a", at=2)], {})
    elsewhere = argument_digests("a/b/2", send, [Request(prompt="a", at=1)], {})
    page = {"arguments": pack_digests({"0123456789abcdef": before, "f": {}})}

    assert {"01234567": before} == read_digests(page, "arguments")
    assert ["request.at"] == differing(before, now_)
    assert set(before.values()).isdisjoint(elsewhere.values())
    assert {} == read_digests({"arguments": b"damaged"}, "arguments")
