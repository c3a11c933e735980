"""Guarantee: every act of an operator is an event with its actor, reason and time."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from piecework import Context, Effect, PermanentError, Pipeline, Stage
from piecework.client import Client, Edit, HandOutcome, JobHandle, RedriveOptions
from piecework.dependency import Dependency
from piecework.domain.moments import iso
from piecework.errors import UsageError
from piecework.resilience.limits import Limits
from piecework.runtime import Runtime
from piecework.settings import Settings
from piecework.store.breakers import Breakers
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.operate.identity import operator_of
from piecework_orchestrator.operate.webhooks import (
    Subscription,
    remove_webhook,
    send_test,
    set_webhook,
)
from piecework_simulation.in_process import InProcessAws, worker_beside

ARN = "arn:aws:sts::1:assumed-role/ops/ann"
fax = Dependency("fax", effect=Effect.NON_IDEMPOTENT, timeout=0.1)


async def send(text: str, *, idempotency_key: str) -> str:
    """Be cut off: it is not known whether it happened."""
    del text, idempotency_key
    raise TimeoutError


async def post(ctx: Context[Paragraph]) -> str:
    """Send the text, if it is to stay in doubt."""
    if ctx.payload.text == "doubt":
        await ctx.call(fax, send, "x")
    return ctx.payload.text


async def fetch_back(ctx: Context[Paragraph]) -> None:
    """Fail to compensate."""
    raise PermanentError(f"{ctx.payload.text} is gone")


async def count(ctx: Context[Paragraph]) -> int:
    """Fail for most texts."""
    if ctx.payload.text != "good":
        raise PermanentError("this text cannot be counted")
    return 1


words = Pipeline(
    "words",
    payload=Paragraph,
    stages=[Stage(post, compensate=fetch_back), Stage(count)],
)
Act = Callable[[Client, JobHandle[Any], Runtime], Any]


async def resolve(_: Client, job: JobHandle[Any], rt: Runtime) -> Any:
    """Resolve the only effect in doubt."""
    del rt
    (effect,) = [row async for row in job.effects()]
    return await job.resolve_effect(
        effect["chunk"], effect["effect_key"], "why", happened=False
    )


async def resume_dependency(client: Client, _: JobHandle[Any], __: Runtime) -> Any:
    """Resume a paused dependency; another one is not paused."""
    with pytest.raises(UsageError) as refused:
        await client.resume_dependency("fax", "why")
    assert "job.dependency.not_paused" == refused.value.code
    await client.pause_dependency("fax", "why")
    return await client.resume_dependency("fax", "why")


HOOK = Subscription("ops", "https://example.com/hook", "env:PIECEWORK_WEBHOOK_OPS")
#: The state of the job before each act, the act, and its event.
ACTS: dict[str, tuple[str, Act, str]] = {
    "cancel": ("RUNNING", lambda _, j, __: j.cancel("why"), "cancelled"),
    "pause": ("RUNNING", lambda _, j, __: j.pause("why"), "paused"),
    "resume": ("PAUSED", lambda _, j, __: j.resume("why"), "resumed"),
    "budget": (
        "RUNNING",
        lambda _, j, __: j.set_budget(tokens=9_000, reason="why"),
        "budget set",
    ),
    "retry": ("FAILED", lambda _, j, __: j.retry("why"), "retried"),
    "redrive": ("FAILED", lambda _, j, __: j.redrive("why"), "redriven"),
    "edit": (
        "FAILED",
        lambda _, j, __: j.redrive(
            "why", RedriveOptions(edit=Edit({"text": "good"})), chunks=[0]
        ),
        "redriven",
    ),
    "discard": ("FAILED", lambda _, j, __: j.discard("why"), "discarded"),
    "compensate": (
        "FAILED",
        lambda _, j, __: j.compensate("why"),
        "compensation repeated",
    ),
    "compensate by hand": (
        "FAILED",
        lambda _, j, __: j.compensate("why", HandOutcome.NOT_NEEDED),
        "compensation resolved",
    ),
    "resolve": ("FAILED", resolve, "effect resolved"),
    "priority": (
        "BACKLOG",
        lambda _, j, __: j.set_priority("low", "why"),
        "priority",
    ),
    "unpin": ("PINNED", lambda _, j, __: j.unpin("why"), "unpinned"),
    "delete": ("CANCELLED", lambda _, j, __: j.delete("why"), "job deleted"),
    "limits": (
        "",
        lambda c, _, __: c.set_limits("fax", Limits(requests_per_minute=3), "why"),
        "limits set",
    ),
    "pause a dependency": (
        "",
        lambda c, _, __: c.pause_dependency("fax", "why"),
        "dependency paused",
    ),
    "resume a dependency": (
        "",
        resume_dependency,
        "dependency resumed",
    ),
    "pause a pipeline": (
        "",
        lambda c, _, __: c.pause_pipeline("words", "why"),
        "pipeline paused",
    ),
    "daily budget": (
        "",
        lambda c, _, rt: c.set_daily_budget(rt.settings.tenant, tokens=5, reason="why"),
        "daily budget set",
    ),
    "webhook": (
        "",
        lambda _, __, rt: set_webhook(rt, HOOK, operator_of(rt), "why"),
        "webhook set",
    ),
}


@pytest.fixture
async def deployed() -> AsyncIterator[tuple[Client, InProcessAws]]:
    """Yield a client with an identity of AWS, and its deployment."""
    known = Settings(receive_wait_s=1, cancel_poll_s=0.2, code_version="v1")
    aws = InProcessAws(known)
    rt = replace(aws.runtime(), identity=ARN)
    async with Client(runtime=rt) as client:
        yield client, aws


async def prepare(client: Client, aws: InProcessAws, state: str) -> JobHandle[Any]:
    """Make a job in a state; empty: the act needs none."""
    if not state:
        return client.job("none")
    rows = [{"text": "bad"}, {"text": "doubt"}]
    priority = "high" if state == "BACKLOG" else ""
    job = await client.submit(
        *(words, rows),
        id="job-1",
        budget_tokens=10_000,
        priority=priority,
        pin=state == "PINNED",
    )
    if state == "PAUSED":
        await job.pause("first")
    if state == "CANCELLED":
        await job.cancel("first")
    if state == "FAILED":
        async with worker_beside(aws, {"words": words}, [__name__]):
            await job.wait(timeout=60)
    return job


@pytest.mark.parametrize("name", ACTS)
async def test_each_act_is_an_event_with_the_identity_of_aws(
    deployed: tuple[Client, InProcessAws], name: str
) -> None:
    client, aws = deployed
    state, act, expected = ACTS[name]
    job = await prepare(client, aws, state)
    began = iso(client.runtime.clock())
    await act(client, job, client.runtime)
    of_a_job = state and name != "delete"
    events = await (job.events() if of_a_job else client.fleet_events())
    (event,) = [one for one in events if one["event"] == expected]
    facts = event["facts"]
    assert (facts["actor"], facts["reason"]) == (ARN, "why")
    assert began <= event["at"] <= iso(client.runtime.clock())


async def test_a_removed_webhook_and_a_test_are_events_with_their_actor(
    deployed: tuple[Client, InProcessAws],
) -> None:
    client, _ = deployed
    rt = client.runtime
    await set_webhook(rt, HOOK, "ann")
    await send_test(rt, "ops", "ben")
    await remove_webhook(rt, "ops", "cem", "why")
    found = {one["event"]: one["facts"] for one in await client.fleet_events("1h")}
    assert found["webhook tested"]["actor"] == "ben"
    assert (found["webhook removed"]["actor"], found["webhook removed"]["reason"]) == (
        "cem",
        "why",
    )


async def test_a_breaker_is_an_event_where_it_opens_and_closes(
    deployed: tuple[Client, InProcessAws],
) -> None:
    client, _ = deployed
    rt = client.runtime
    breakers = Breakers(rt.table, "w1", rt.clock)
    await breakers.open("fax", 0, rt.clock() + 9, "call.http.503")
    assert await breakers.open("fax", 0, rt.clock() + 9, "late") is not None
    await breakers.take_probe("fax", 1, "token", rt.clock() + 9)
    await breakers.close("fax", 1, "token")
    events = await client.fleet_events()
    by_worker = {"dependency": "fax", "actor": "w1"}
    assert len(events) == 2
    assert {one["event"]: one["facts"] for one in events} == {
        "breaker closed": by_worker,
        "breaker opened": {**by_worker, "code": "call.http.503"},
    }


def test_a_name_that_a_program_gives_does_not_hide_the_identity() -> None:
    rt = replace(InProcessAws(Settings()).runtime(), identity=ARN)
    assert operator_of(rt, "nightly") == f"nightly ({ARN})"
    assert operator_of(replace(rt, identity=""), "nightly") == "nightly"
