from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

from piecework.errors import PermanentError, TransientError, UsageError
from piecework.resilience.retry import (
    Retries,
    RetryPolicy,
    RetryTime,
    call_with_retry,
)
from tests.unit.piecework.retrying import MODEL, TOOL, Call, Run, ending, failures


async def test_a_call_that_answers_is_made_once_and_waits_for_nothing() -> None:
    run, call = Run(), Call()

    assert await run(call, TOOL) == "answer"
    assert (1, []) == (call.made, run.slept)


@pytest.mark.parametrize("policy", [TOOL, MODEL])
async def test_transient_errors_are_retried_up_to_the_attempts(
    policy: RetryPolicy,
) -> None:
    run, call = Run(), Call(*failures(policy.attempts - 1))

    assert await run(call, policy) == "answer"
    assert policy.attempts == call.made


@pytest.mark.parametrize("policy", [TOOL, MODEL, RetryPolicy(attempts=1)])
async def test_when_attempts_are_used_the_last_error_is_raised_as_it_is(
    policy: RetryPolicy,
) -> None:
    errors = failures(policy.attempts)
    run, call = Run(), Call(*errors)

    with pytest.raises(TransientError) as caught:
        await run(call, policy)

    assert caught.value is errors[-1]
    assert policy.attempts == call.made
    assert policy.attempts - 1 == len(run.slept)
    assert run.retry_time.spent == pytest.approx(sum(run.slept))


@pytest.mark.parametrize(
    "error", [PermanentError("no"), ValueError("bug"), FileNotFoundError("gone")]
)
async def test_any_other_error_ends_the_call_at_once(error: Exception) -> None:
    run, call = Run(), Call(error)

    with pytest.raises(type(error)) as caught:
        await run(call, TOOL)

    assert caught.value is error
    assert (1, [], 0.0) == (call.made, run.slept, run.retry_time.spent)


async def test_a_permanent_error_after_transient_ones_ends_the_retries() -> None:
    run, call = Run(), Call(*failures(2), PermanentError("no"))

    with pytest.raises(PermanentError):
        await run(call, TOOL)

    assert call.made == 3


async def test_a_wait_is_announced_before_it_begins() -> None:
    order: list[str] = []

    async def sleep(_seconds: float) -> None:
        order.append("slept")

    await call_with_retry(
        ending(Call(*failures(2))),
        Retries(TOOL, RetryTime(), Random(1)),
        sleep=sleep,
        on_retry=lambda failure, _: order.append(failure.message),
    )

    assert order == ["failure 1", "slept", "failure 2", "slept"]


async def test_a_retry_reports_delay_and_error() -> None:
    run = Run()
    await run(Call(*failures(2, code="acme.till.closed")), TOOL)

    assert run.slept == [delay for _, delay in run.retries]
    assert ["acme.till.closed"] * 2 == [failure.code for failure, _ in run.retries]


async def test_a_cancellation_during_the_call_passes_through() -> None:
    run, call = Run(), Call(asyncio.CancelledError())

    with pytest.raises(asyncio.CancelledError):
        await run(call, TOOL)

    assert (1, []) == (call.made, run.slept)


async def test_a_cancellation_is_not_judged_by_its_cause() -> None:
    cancelled = asyncio.CancelledError()
    cancelled.__cause__ = TransientError("the connection went")
    run, call = Run(), Call(cancelled)

    with pytest.raises(asyncio.CancelledError):
        await run(call, TOOL)

    assert call.made == 1


async def test_a_cancellation_during_the_wait_ends_it() -> None:
    waiting = asyncio.Event()
    call = Call(*failures(1))

    async def sleep(_seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()

    retries = Retries(TOOL, RetryTime(), Random(1))
    task = asyncio.create_task(call_with_retry(ending(call), retries, sleep=sleep))
    await waiting.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert (1, 1) == (call.made, task.cancelling())


@pytest.mark.parametrize(
    "fields",
    [
        {"attempts": 0},
        {"base": 0.0},
        {"base": 2.0, "cap": 1.0},
        {"retry_time": -1.0},
        {"base": float("nan")},
    ],
)
def test_a_policy_that_cannot_hold_is_refused_where_it_is_declared(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(UsageError) as caught:
        RetryPolicy(**fields)

    assert caught.value.code == "pipeline.declaration.invalid"
