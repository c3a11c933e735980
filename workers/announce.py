"""Say in the log what came of a claim, once it is written: alarms stand on this."""

from __future__ import annotations

import structlog

from piecework import telemetry
from piecework.finish import Certificate
from piecework.outcome import Dead, Parked
from workers.set_up import Task
from workers.undertake import Released, RunResult


def announce(
    report: RunResult, seconds: float, log: structlog.stdlib.BoundLogger
) -> None:
    """Say how a claim ended, and the job with it, if it was that of its join."""
    task, outcome = report.task, report.outcome
    counts = task.ctx.caller.counts
    telemetry.emit(
        log,
        "chunk.settled",
        chunk=task.claim.ref.chunk,
        status=type(outcome).__name__.upper(),
        duration_ms=round(seconds * 1000),
        calls=counts.made,
        replayed=counts.replayed,
        cached=counts.cached,
        retried=counts.retried,
    )
    match outcome:
        case Parked(failure, delay):
            released(task, "parked", failure.code, delay, log)
        case Released():
            released(task, "handed back", None, 0.0, log)
        case Dead():
            died(task, outcome, log)
    undone = task.checkpoints.undone
    if undone and not isinstance(outcome, Parked | Released):
        failed = [stage for stage, failure in undone.items() if failure]
        telemetry.emit(log, "chunk.compensated", stages=list(undone), failed=failed)
    if task.certificate is not None:
        certified(task.certificate, log)


def released(
    task: Task,
    reason: str,
    error_code: str | None,
    delay: float,
    log: structlog.stdlib.BoundLogger,
) -> None:
    """Say that a chunk waits for its next turn."""
    telemetry.emit(
        log,
        "chunk.released",
        chunk=task.claim.ref.chunk,
        reason=reason,
        error_code=error_code,
        delay_s=round(delay, 3),
    )


def died(task: Task, dead: Dead, log: structlog.stdlib.BoundLogger) -> None:
    """Say that a chunk is a dead letter now."""
    telemetry.emit(
        log,
        "chunk.dead",
        chunk=task.claim.ref.chunk,
        error_code=dead.failure.code,
        stage=dead.failure.stage,
        attempts=task.claim.attempt,
        compensation=dead.compensation.value,
        envelope=dead.failure.model_dump(mode="json", exclude_defaults=True),
    )


def certified(certificate: Certificate, log: structlog.stdlib.BoundLogger) -> None:
    """Say what a job came to."""
    telemetry.emit(
        log,
        "job.finished",
        status=certificate.status.value,
        chunks=certificate.chunks,
        outcomes=certificate.outcomes,
    )
