"""The catalogue of events: a new one gets a row here first, then its call.

Dashboards and alarms count on names and fields, so what is not in the table is refused
where it is emitted. No payloads, and of idempotency keys only a hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from piecework.telemetry.event import Event, event

_JOB: Final = {
    "input.directory.skipped": event(
        "a directory held files of kinds that are not read",
        "directory count files",
        "warning",
    ),
    "input.pages.without_text": event(
        "some pages of a PDF hold no text", "file count pages", "warning"
    ),
    "job.finalizing": event("the last chunk is settled; the join begins", "chunks"),
    "job.finished": event(
        "the join has ended, and the job with its certificate", "status chunks outcomes"
    ),
    "pipeline.unknown": event(
        "a worker met a pipeline that it does not have", "delay_s error_code", "warning"
    ),
}
#: The fields of every event that ends a claim.
_CLAIM_END: Final = "duration_ms calls replayed cached retried"
_CHUNK: Final = {
    "chunk.claimed": event("a claim was won", "deliveries waited_ms", "debug"),
    "chunk.claim_lost": event("a claim was refused", "status reason delay_s", "debug"),
    "chunk.succeeded": event("a claim ended: the chunk has its result", _CLAIM_END),
    "chunk.retry_scheduled": event(
        "a claim ended: the chunk failed, and its next attempt comes after the delay",
        f"{_CLAIM_END} error_code delay_s",
        "warning",
    ),
    "chunk.deferred": event(
        "a claim ended: the chunk is blocked on a dependency; no attempt is spent",
        f"{_CLAIM_END} error_code delay_s blocked_on",
        "warning",
    ),
    "chunk.released": event(
        "a claim ended: its worker stops, and another worker continues",
        _CLAIM_END,
        "warning",
    ),
    "chunk.cancelled": event("a claim ended: its job was cancelled", _CLAIM_END),
    "chunk.dead_lettered": event(
        "a claim ended: the chunk failed for good, and its dead letter is written",
        f"{_CLAIM_END} error_code stage attempts compensation envelope",
        "error",
    ),
    "chunk.compensated": event("the stages were undone", "stages failed", "warning"),
}
# One correlation id: that of the `stage.completed` of the steps that are taken back.
_COMPENSATION: Final = {
    "compensation.begun": event(
        "a way back begins, or goes on where another worker left it",
        "correlation_id error_code stage steps to_undo",
        "warning",
    ),
    "compensation.stage_undone": event(
        "it is on record that a stage was undone", "correlation_id stage"
    ),
    "compensation.stage_failed": event(
        "it is on record that a stage could not be undone; the others still are",
        "correlation_id stage error_code",
        "error",
    ),
    "compensation.ended": event(
        "the way back is at its end; a person sees to the stages that are left",
        "correlation_id compensation left",
        "warning",
    ),
}
_NOTICE: Final = {
    "notice.told": event("the notify hook returned", "about"),
    "notice.failed": event(
        "the notify hook failed; it is told again later, a few times",
        "about tries reason",
        "warning",
    ),
    "notice.given_up": event(
        "the notify hook is not told any more; `piecework jobs show` says why",
        "error_code about reason",
        "error",
    ),
}
_STAGE: Final = {
    "stage.completed": event(
        "a stage's checkpoint is written",
        "stage duration_ms correlation_id",
        "debug",
    ),
    "stage.replanned": event(
        "a stage failed semantically; its replan hook runs in its place",
        "stage error_code to times",
        "warning",
    ),
    "stage.fallback_used": event(
        "a stage was refused by a policy; the next of its chain runs in its place",
        "stage error_code to times",
        "warning",
    ),
    "call.fallback_used": event(
        "another of its chain answered a call that was refused",
        "dependency stage answered_by error_codes",
        "warning",
    ),
    "call.attempt": event(
        "an attempt of a call has ended: answered (debug), failed or cut off; the next "
        "begins after the delay, if there is one",
        "error_code attempt_number delay_ms idempotency_key_hash dependency stage "
        "outcome duration_ms",
        "warning",
    ),
    "breaker.opened": event(
        "the calls to a dependency fail: nobody makes any until one is tried",
        "dependency error_code delay_s failed_probes",
        "warning",
    ),
    "breaker.closed": event("a call was tried, and answered", "dependency"),
}
_OPERATION: Final = {
    "aws.throttled": event(
        "AWS answered that there are too many requests; the SDK or we try again",
        "service operation error_code",
        "debug",
    ),
    "cost.unwritten": event(
        "a process ends, and so many writes of what jobs have cost were not made: "
        "their bills are too low",
        "count",
        "warning",
    ),
    "wire.fallback_used": event(
        "requests go through the SDK: the thin path is not sure to do as it does",
        "service reason",
    ),
    "retry.refused": event(
        "a call that failed is not tried again: too many do, or its breaker is open",
        "dependency error_code",
        "debug",
    ),
    "cache.failed": event(
        "the shared responses could not be read or written; the call went on without",
        "reason",
        "warning",
    ),
    "idempotency.replayed": event(
        "a call was answered by the record of an earlier one",
        "operation idempotency_key_hash",
        "debug",
    ),
    "idempotency.unrecorded": event(
        "what came of a call could not be written down",
        "operation idempotency_key_hash status reason",
        "warning",
    ),
}
_WORKER: Final = {
    "worker.started": event(
        "the worker takes messages; on ECS with its task",
        "pipelines max_chunks version pid task zone",
    ),
    "worker.signalled": event(
        "a signal stops the worker: on ECS with what becomes of the task, which "
        "is STOPPED when ECS ends it (scale-in, deployment, Spot), else RUNNING",
        "signal desired_status",
    ),
    "worker.threads_left": event(
        "the worker is done and ends, though a function in a thread goes on",
        "count",
        "warning",
    ),
    "health.unwritable": event(
        "the file for the health check cannot be written; said once",
        "reason",
        "warning",
    ),
    "ecs.refused": event(
        "the ECS agent did not answer, or refused; said once, and the work goes on",
        "about reason",
        "warning",
    ),
    "ecs.protection": event(
        "ECS was told whether it may end this task in a scale-in or a deployment",
        "on minutes",
        "debug",
    ),
    "worker.advised": event(
        "the order of the stages that the worker knows could be better",
        "advice",
        "warning",
    ),
    "worker.full": event(
        "the worker stops, for it passed its memory limit",
        "memory_mb limit_mb",
        "warning",
    ),
    "child.started": event(
        "a process for isolated stages is ready", "pid duration_ms", "debug"
    ),
    "child.ended": event(
        "the process of an isolated stage died, or was killed with its work",
        "pid stage reason",
        "warning",
    ),
    "worker.stopping": event("the worker takes no more messages", "reason in_hand"),
    "worker.stopped": event("the worker is done", "settled released duration_s"),
    "lease.renewed": event("leases and visibility were extended", "count", "debug"),
    "lease.lost": event(
        "a lease is another's or ran out; its work was stopped",
        "reason stage error_code",
        "warning",
    ),
    "message.newer": event(
        "a turn is left to a newer version: its message, job or chunk is of one",
        "about received delay_s",
        "warning",
    ),
    "message.quarantined": event(
        "a message was set aside", "message_id error_code reason", "error"
    ),
    "dlq.alarm": event(
        "too many dead letters arrived in a while, or the oldest open one is too old",
        "about more_than window_s age_s died_at",
        "error",
    ),
    "reconcile.pass": event(
        "the reconciler has looked at every active job",
        "jobs looked actions duration_ms overdue_s open_letters oldest_letter_s",
        "debug",
    ),
    "reconcile.action": event(
        "the reconciler put something right", "action count reason error_code"
    ),
}

EVENTS: Final[Mapping[str, Event]] = MappingProxyType(
    {
        **_JOB,
        **_CHUNK,
        **_COMPENSATION,
        **_NOTICE,
        **_STAGE,
        **_OPERATION,
        **_WORKER,
    }
)
