"""Emit the event of a claim's end once it is written: alarms depend on it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import structlog

from piecework import telemetry
from piecework.finish import Certificate
from piecework.outcome import (
    Cancelled,
    DeadLettered,
    Deferred,
    Outcome,
    Released,
    Retry,
    Succeeded,
)
from workers.undertake import RunResult


def announce(
    result: RunResult, seconds: float, log: structlog.stdlib.BoundLogger
) -> None:
    """Emit the event of a claim's end, and `job.finished` for the join's claim."""
    chunk_run, outcome = result.chunk_run, result.outcome
    counts = chunk_run.ctx.caller.counts
    facts: dict[str, Any] = {
        "chunk": chunk_run.claim.ref.chunk,
        "duration_ms": round(seconds * 1000),
        "calls": counts.made,
        "replayed": counts.replayed,
        "cached": counts.cached,
        "retried": counts.retried,
    }
    emit_outcome(outcome, chunk_run.claim.attempt, facts, log)
    compensated = chunk_run.checkpoints.compensated
    if compensated and not isinstance(outcome, Retry | Deferred | Released):
        failed = [stage for stage, failure in compensated.items() if failure]
        stages = list(compensated)
        telemetry.emit(log, "chunk.compensated", stages=stages, failed=failed)
    if chunk_run.certificate is not None:
        certified(chunk_run.certificate, log)


def emit_outcome(
    outcome: Outcome,
    attempts: int,
    facts: Mapping[str, Any],
    log: structlog.stdlib.BoundLogger,
) -> None:
    """Emit the event of an outcome; `facts` are the fields that all of them have."""
    match outcome:
        case Succeeded():
            telemetry.emit(log, "chunk.succeeded", **facts)
        case Retry(failure, delay):
            telemetry.emit(
                log,
                "chunk.retry_scheduled",
                error_code=failure.code,
                delay_s=round(delay, 3),
                **facts,
            )
        case Deferred(failure, delay, blocked_on):
            telemetry.emit(
                log,
                "chunk.deferred",
                error_code=failure.code,
                delay_s=round(delay, 3),
                blocked_on=blocked_on,
                **facts,
            )
        case Released():
            telemetry.emit(log, "chunk.released", **facts)
        case Cancelled():
            telemetry.emit(log, "chunk.cancelled", **facts)
        case DeadLettered(failure, compensation):
            telemetry.emit(
                log,
                "chunk.dead_lettered",
                error_code=failure.code,
                stage=failure.stage,
                attempts=attempts,
                compensation=compensation.value,
                envelope=failure.model_dump(mode="json", exclude_defaults=True),
                **facts,
            )


def certified(certificate: Certificate, log: structlog.stdlib.BoundLogger) -> None:
    """Emit the status and the outcome counts of a finished job."""
    telemetry.emit(
        log,
        "job.finished",
        status=certificate.status.value,
        chunks=certificate.chunks,
        outcomes=certificate.outcomes,
    )
