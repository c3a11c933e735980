"""Act on the rungs of dead letters that are due; any number of processes may."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from piecework import telemetry
from piecework.aws.queue import Message
from piecework.errors import PermanentError
from piecework.runtime import Runtime
from piecework.store.ladders import Climber, Ladders
from piecework.store.outbox import RungMark

if TYPE_CHECKING:
    import structlog


def ladders_of(rt: Runtime) -> Ladders:
    """Return the climbs of a deployment's dead letters."""
    return Ladders(rt.table, rt.dead_letters, rt.clock)


async def act_on_rung(
    rt: Runtime, log: structlog.stdlib.BoundLogger, mark: RungMark
) -> str:
    """Reach a rung that is due, or send the message for its hook; return the action.

    The message is that of the dead chunk: it reaches a worker that has the pipeline.
    """
    ladders = ladders_of(rt)
    try:
        at = await ladders.read(mark.ref, mark.gen)
    except PermanentError as unreadable:
        telemetry.emit(
            log,
            "ladder.unreadable",
            job=mark.ref.job,
            chunk=mark.ref.chunk,
            error_code=unreadable.code,
        )
        at = None
    if at is None or at.climb.wake_at != mark.due_at:
        await ladders.forget(mark)
        return "rung dropped"
    if not at.climb.rungs[at.climb.position].has_hook:
        return await reach(at, ladders, log)
    if not await ladders.dispatch(at, rt.settings.redispatch_s):
        return "rung handled elsewhere"
    queue = await rt.jobs.queue_of(mark.ref.of)
    await rt.work.send([Message.about(mark.ref, mark.gen)], to=queue)
    return "rung dispatched"


async def reach(
    at: Climber, ladders: Ladders, log: structlog.stdlib.BoundLogger, error: str = ""
) -> str:
    """Record that a rung was reached, and emit it; `error`: its hook was abandoned."""
    reached = at.escalation
    if not await ladders.reach(at, error):
        return "rung handled elsewhere"
    facts: dict[str, Any] = {
        "job": reached.job,
        "chunk": reached.chunk,
        "rung": reached.rung,
    }
    telemetry.emit(log, "dead_letter.escalated", error_code=reached.error_code, **facts)
    if error:
        telemetry.emit(
            log,
            "ladder.hook_abandoned",
            error_code="job.escalation.failed",
            reason=error,
            **facts,
        )
    return "rung reached"
