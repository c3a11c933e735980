"""The catalogue of events: a new one gets a row here first, then its call.

Dashboards and alarms count on names and fields, so what is not in the table is refused
where it is emitted. No payloads, and of idempotency keys only a hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

Level = Literal["debug", "info", "warning", "error"]


class Event(NamedTuple):
    """When an event is emitted, its fields beside the bound ones, and its level."""

    when: str
    fields: frozenset[str]
    level: Level = "info"


# Whose event it is. Bound once a delivery, so any event may carry them.
BOUND: Final = frozenset(
    {"tenant", "job", "chunk", "gen", "fence", "attempt", "pipeline", "worker"}
)


def _event(when: str, fields: str = "", level: Level = "info") -> Event:
    return Event(when, frozenset(fields.split()), level)


_JOB: Final = {
    "input.directory.skipped": _event(
        "a directory held files of kinds that are not read",
        "directory count files",
        "warning",
    ),
    "input.pages.without_text": _event(
        "some pages of a PDF hold no text", "file count pages", "warning"
    ),
    "job.finalizing": _event("the last chunk is settled; the join begins", "chunks"),
    "job.finished": _event(
        "the join has ended, and the job with its certificate", "status chunks outcomes"
    ),
    "pipeline.unknown": _event(
        "a worker met a pipeline that it does not have", "delay_s error_code", "warning"
    ),
}
_CHUNK: Final = {
    "chunk.claimed": _event("a claim was won", "deliveries waited_ms", "debug"),
    "chunk.claim_lost": _event("a claim was refused", "status reason delay_s", "debug"),
    "chunk.settled": _event(
        "the outcome is written", "status duration_ms calls replayed cached retried"
    ),
    "chunk.released": _event(
        "the chunk was put back for later", "reason error_code delay_s", "warning"
    ),
    "chunk.dead": _event(
        "the dead letter is written",
        "error_code stage attempts compensation envelope",
        "error",
    ),
    "chunk.compensated": _event("the stages were undone", "stages failed", "warning"),
}
# One correlation id: that of the `stage.completed` of the steps that are taken back.
_COMPENSATION: Final = {
    "compensation.begun": _event(
        "a way back begins, or goes on where another worker left it",
        "correlation_id error_code stage steps to_undo",
        "warning",
    ),
    "compensation.stage_undone": _event(
        "it is on record that a stage was undone", "correlation_id stage"
    ),
    "compensation.stage_failed": _event(
        "it is on record that a stage could not be undone; the others still are",
        "correlation_id stage error_code",
        "error",
    ),
    "compensation.ended": _event(
        "the way back is at its end; a person sees to the stages that are left",
        "correlation_id compensation left",
        "warning",
    ),
}
_NOTICE: Final = {
    "notice.told": _event("the notify hook returned", "about"),
    "notice.failed": _event(
        "the notify hook failed; it is told again later, a few times",
        "about tries reason",
        "warning",
    ),
}
_STAGE: Final = {
    "stage.completed": _event(
        "a stage's checkpoint is written",
        "stage duration_ms correlation_id",
        "debug",
    ),
    "stage.replanned": _event(
        "a stage failed semantically; its replan hook runs in its place",
        "stage error_code to times",
        "warning",
    ),
    "stage.fell_back": _event(
        "a stage was refused by a policy; the next of its chain runs in its place",
        "stage error_code to times",
        "warning",
    ),
    "call.fell_back": _event(
        "another of its chain answered a call that was refused",
        "dependency stage answered_by error_codes",
        "warning",
    ),
    "call.attempt": _event(
        "an attempt of a call has ended: answered (debug), failed or cut off; the next "
        "begins after the delay, if there is one",
        "error_code attempt_number delay_ms idempotency_key_hash dependency stage "
        "outcome duration_ms",
        "warning",
    ),
    "breaker.opened": _event(
        "the calls to a dependency fail: nobody makes any until one is tried",
        "dependency error_code delay_s failed_probes",
        "warning",
    ),
    "breaker.closed": _event("a call was tried, and answered", "dependency"),
}
_OPERATION: Final = {
    "aws.throttled": _event(
        "AWS answered that there are too many requests; the SDK or we try again",
        "service operation error_code",
        "debug",
    ),
    "wire.fell_back": _event(
        "requests go through the SDK: the thin path is not sure to do as it does",
        "service reason",
    ),
    "retry.refused": _event(
        "a call that failed is not tried again: too many do, or its breaker is open",
        "dependency error_code",
        "debug",
    ),
    "cache.failed": _event(
        "the shared responses could not be read or written; the call went on without",
        "reason",
        "warning",
    ),
    "idempotency.replayed": _event(
        "a call was answered by the record of an earlier one",
        "operation idempotency_key_hash",
        "debug",
    ),
    "idempotency.unrecorded": _event(
        "what came of a call could not be written down",
        "operation idempotency_key_hash status reason",
        "warning",
    ),
}
_WORKER: Final = {
    "worker.started": _event(
        "the worker takes messages; on ECS with its task",
        "pipelines concurrency version pid task zone",
    ),
    "worker.signalled": _event(
        "a signal stops the worker: on ECS with what becomes of the task, which "
        "is STOPPED when ECS ends it (scale-in, deployment, Spot), else RUNNING",
        "signal desired_status",
    ),
    "worker.threads_left": _event(
        "the worker is done and ends, though a function in a thread goes on",
        "count",
        "warning",
    ),
    "health.unwritable": _event(
        "the file for the health check cannot be written; said once",
        "reason",
        "warning",
    ),
    "ecs.refused": _event(
        "the ECS agent did not answer, or refused; said once, and the work goes on",
        "about reason",
        "warning",
    ),
    "ecs.protection": _event(
        "ECS was told whether it may end this task in a scale-in or a deployment",
        "on minutes",
        "debug",
    ),
    "worker.advised": _event(
        "the order of the stages that the worker knows could be better",
        "advice",
        "warning",
    ),
    "worker.full": _event(
        "the worker stops, for it passed its memory limit",
        "memory_mb limit_mb",
        "warning",
    ),
    "child.started": _event(
        "a process for isolated stages is ready", "pid duration_ms", "debug"
    ),
    "child.ended": _event(
        "the process of an isolated stage died, or was killed with its work",
        "pid stage reason",
        "warning",
    ),
    "worker.stopping": _event("the worker takes no more messages", "reason in_hand"),
    "worker.stopped": _event("the worker is done", "settled released duration_s"),
    "lease.renewed": _event("leases and visibility were extended", "count", "debug"),
    "lease.lost": _event(
        "a lease is another's or ran out; its work was stopped",
        "reason stage error_code",
        "warning",
    ),
    "message.newer": _event(
        "a turn is left to a newer version: its message, job or chunk is of one",
        "about received delay_s",
        "warning",
    ),
    "message.quarantined": _event(
        "a message was set aside", "message_id error_code reason", "error"
    ),
    "dlq.alarm": _event(
        "too many dead letters arrived in a while, or the oldest open one is too old",
        "about more_than window_s age_s died_at",
        "error",
    ),
    "reconcile.pass": _event(
        "the reconciler has looked at every active job",
        "jobs looked actions duration_ms overdue_s open_letters oldest_letter_s",
        "debug",
    ),
    "reconcile.action": _event(
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
