"""Call the hooks of a ladder: at least once for each rung of a dead letter.

The message of a dead chunk brings a worker here. It takes the rung for about one lease
before it calls the hook. If the worker dies, another one calls the hook again, with the
same idempotency key. If the hook fails, the delay grows with each attempt.
"""

from __future__ import annotations

import asyncio
from random import Random

from piecework import telemetry
from piecework.domain.job import Job
from piecework.domain.ladder import Ladder
from piecework.errors.classify import classify
from piecework.jobs.escalation import ladders_of, reach
from piecework.runtime import Runtime
from piecework.store.ladders import Climber, Ladders
from piecework_worker.intake import Intake
from piecework_worker.notifier import MAX_ATTEMPTS, retry_delay_s
from piecework_worker.refusals import Log, leave_to_other_workers
from piecework_worker.work_item import MessageAction, WorkItem


async def escalate(
    work_item: WorkItem, job: Job, rt: Runtime, intake: Intake, log: Log
) -> MessageAction | None:
    """Call the hook of the next rung of a dead letter, if it is due.

    Return what happens to the message if another worker has the hook.
    """
    ladders = ladders_of(rt)
    at = await ladders.read(work_item.ref, work_item.gen)
    if at is None or not at.climb.is_callable(rt.clock()):
        return None
    pipeline = intake.pipeline_of(job)
    if pipeline is None:
        return await leave_to_other_workers(work_item, job, rt, intake, log)
    await call_hook(at, pipeline.ladder, ladders, rt, log)
    return None


async def call_hook(
    at: Climber, ladder: Ladder | None, ladders: Ladders, rt: Runtime, log: Log
) -> None:
    """Call the hook once, unless another worker has taken the rung."""
    settings = rt.settings
    taken = await ladders.take(at, settings.lease_s + settings.clock_skew_s)
    if taken is None:
        return
    escalation, calls = taken.escalation, taken.climb.rungs[taken.climb.position].calls
    rung = None if ladder is None else ladder.rung(escalation.rung)
    if rung is None or rung.hook is None or calls > MAX_ATTEMPTS:
        gone = rung is None or rung.hook is None
        reason = "the hook is gone" if gone else "each call died with its worker"
        await reach(taken, ladders, log, reason)
        return
    try:
        async with asyncio.timeout(settings.lease_s):
            await rung.hook(escalation)
    except Exception as error:  # noqa: BLE001 -- whatever a hook raises
        await on_hook_failed(taken, calls, error, ladders, rt.rng, log)
    else:
        await reach(taken, ladders, log)


async def on_hook_failed(
    at: Climber,
    calls: int,
    error: Exception,
    ladders: Ladders,
    rng: Random,
    log: Log,
) -> None:
    """Call a failed hook again later, or abandon it after the last attempt."""
    failure = classify(error)
    reason = f"{failure.code}: {failure.message}"
    telemetry.emit(
        log,
        "ladder.hook_failed",
        level="warning",
        job=at.letter.ref.job,
        chunk=at.letter.chunk,
        rung=at.escalation.rung,
        attempts=calls,
        reason=reason,
    )
    if calls >= MAX_ATTEMPTS:
        await reach(at, ladders, log, reason)
        return
    delay = retry_delay_s(calls, rng)
    await ladders.schedule_retry(at, delay, reason)
