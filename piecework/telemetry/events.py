"""The catalogue of events. Add a row here before you emit a new event.

Dashboards and alarms depend on the names and fields. So `emit` refuses an event that is
not in the table, an unknown field, and a missing one. No event has a payload, and only
the hash of an idempotency key.

All rows are in one table, because operators look an event up here.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

#: Methods of a logger. `exception` logs an error with the current traceback.
Level = Literal["debug", "info", "warning", "error", "exception", "critical"]

#: Fields that every event may carry: the logger binds them once for each delivery.
BOUND: Final = frozenset(
    {"tenant", "job", "chunk", "gen", "fence", "attempt", "pipeline", "worker"}
)


class Event(NamedTuple):
    """A row of the catalogue.

    Attributes:
        when: A sentence that says when the event is emitted.
        fields: The names of its own fields.
        level: The method of the logger.
        optional: The fields that an event may lack.
    """

    when: str
    fields: frozenset[str]
    level: Level = "info"
    optional: frozenset[str] = frozenset()


def event(when: str, fields: str = "", level: Level = "info") -> Event:
    """Return a row of the catalogue.

    `fields` has the names, separated by spaces; an optional one ends with `?`.
    """
    names = frozenset(name.removesuffix("?") for name in fields.split())
    optional = frozenset(name[:-1] for name in fields.split() if name.endswith("?"))
    return Event(when, names, level, optional)


_JOB: Final = {
    "input.directory.skipped": event(
        "a directory holds files of kinds that piecework does not read",
        "directory count files",
        "warning",
    ),
    "input.pages.doubtful": event(
        "the text of some pages of a PDF is perhaps not what a reader sees",
        "file reason count pages",
        "warning",
    ),
    "input.pages.without_text": event(
        "some pages of a PDF hold no text", "file count pages", "warning"
    ),
    "job.finalizing": event("the last chunk has ended; the join begins", "chunks"),
    "job.finished": event(
        "the join has ended; the job has its certificate", "status chunks outcomes"
    ),
    "pipeline.unknown": event(
        "a worker received a chunk of a pipeline that it has not loaded, or of a job "
        "that is pinned to another code version",
        "delay_s pinned_to?",
        "warning",
    ),
}
#: The fields of every event that ends a claim.
_CLAIM_END: Final = "duration_ms calls replayed cached retried"
_CHUNK: Final = {
    "chunk.claimed": event("a worker claimed a chunk", "receive_count", "debug"),
    "code.changed": event(
        "a worker went on with a job although its pipeline has changed since the "
        "submit; once for each job and code version",
        "code_version difference",
        "warning",
    ),
    "chunk.lease_expired": event(
        "a worker released an expired lease; the chunk is suspect, and runs alone",
        "claimed_by takeovers",
        "warning",
    ),
    "chunk.claim_refused": event(
        "a worker received a message and did not claim its chunk, for the reason; the"
        " message is hidden for `delay_s`, or deleted",
        "reason delay_s? receive_count",
        "debug",
    ),
    "chunk.succeeded": event("a claim ended: the chunk has its result", _CLAIM_END),
    "chunk.retry_scheduled": event(
        "a claim ended: the chunk failed, and its next attempt comes after the delay",
        f"{_CLAIM_END} error_code delay_s raised traceback",
        "warning",
    ),
    "chunk.deferred": event(
        "a claim ended: a dependency or AWS is unavailable; no attempt is spent",
        f"{_CLAIM_END} error_code delay_s blocked_on",
        "warning",
    ),
    "chunk.released": event(
        "a claim ended: its worker stops, and another worker continues",
        _CLAIM_END,
        "warning",
    ),
    "chunk.paused": event("a claim ended: its job is paused", _CLAIM_END),
    "chunk.sleeping": event(
        "a claim ended: a stage sleeps until a moment", f"{_CLAIM_END} until"
    ),
    "chunk.batching": event(
        "a claim ended: its calls wait for batches; it has asked for so many answers",
        f"{_CLAIM_END} requests until",
    ),
    "chunk.asking": event(
        "a claim ended: a stage asks a person", f"{_CLAIM_END} question until"
    ),
    "chunk.mapping": event(
        "a claim ended: a stage waits for a child job", f"{_CLAIM_END} child"
    ),
    "chunk.cancelled": event("a claim ended: its job was cancelled", _CLAIM_END),
    "chunk.dead_lettered": event(
        "a claim ended: the chunk failed for good, and its dead letter is written",
        f"{_CLAIM_END} error_code stage attempts compensation envelope raised"
        " cause recovery",
        "error",
    ),
    "chunk.store_failed": event(
        "AWS failed during a claim: its chunk is deferred, or released",
        "error_code",
        "warning",
    ),
    "chunk.settle_failed": event(
        "AWS did not take the outcome of a claim; the worker writes it again",
        "error_code",
        "warning",
    ),
    "chunk.effects_in_doubt": event(
        "a chunk has ended, and effects of it are in doubt",
        "effects",
        "error",
    ),
    "chunk.compensated": event(
        "the stages were compensated", "stages failed", "warning"
    ),
}
# Their correlation id is that of the `stage.completed` events of the compensated
# stages.
_COMPENSATION: Final = {
    "compensation.started": event(
        "a compensation begins, or continues that of an earlier claim",
        "correlation_id error_code stage steps to_compensate no_effect",
        "warning",
    ),
    "compensation.stage_compensated": event(
        "the record says that a stage is compensated", "correlation_id stage"
    ),
    "compensation.stage_failed": event(
        "the compensation of a stage failed; the other stages are still compensated",
        "correlation_id stage error_code",
        "error",
    ),
    "compensation.ended": event(
        "a compensation has ended; an operator repairs the uncompensated stages",
        "correlation_id compensation uncompensated no_effect",
        "warning",
    ),
}
_NOTIFICATION: Final = {
    "notification.delivered": event("the notify hook returned", "about"),
    "notification.failed": event(
        "the notify hook failed; a worker calls it again later, a few times",
        "about attempts reason",
        "warning",
    ),
    "notification.abandoned": event(
        "the notify hook is not called again; `piecework jobs show` says why",
        "error_code about reason",
        "error",
    ),
}
_LADDER: Final = {
    "dead_letter.escalated": event(
        "a dead letter reached a rung of its ladder, and the hook of the rung returned",
        "rung error_code",
        "warning",
    ),
    "ladder.hook_failed": event(
        "the hook of a rung failed; a worker calls it again later, a few times",
        "rung attempts reason",
        "warning",
    ),
    "ladder.hook_abandoned": event(
        "the hook of a rung is not called again; `piecework dlq show` says why",
        "rung error_code reason",
        "error",
    ),
    "ladder.unreadable": event(
        "a dead letter whose rung is due cannot be read; it climbs no further",
        "error_code",
        "error",
    ),
}
_WEBHOOK: Final = {
    "webhook.delivered": event(
        "the receiver of a webhook accepted an event", "webhook about event_id"
    ),
    "webhook.attempt_failed": event(
        "the receiver of a webhook did not accept an event; it is sent again later",
        "webhook about event_id attempts reason delay_s",
        "warning",
    ),
    "webhook.failed": event(
        "an event is not sent to its webhook any more; `piecework webhooks show` says"
        " why",
        "error_code webhook about event_id attempts reason",
        "error",
    ),
    "webhook.delivery_interrupted": event(
        "AWS failed during a delivery; the next pass delivers again", level="exception"
    ),
}
_STAGE: Final = {
    "stage.completed": event(
        "a stage's checkpoint is written",
        "stage correlation_id",
        "debug",
    ),
    "stage.ended": event(
        "a function of a stage, or its compensation, returned, failed or was"
        " interrupted",
        "stage variant outcome duration_ms error_code",
        "debug",
    ),
    "stage.replanned": event(
        "a stage failed with a semantic error; its replan hook runs instead",
        "stage error_code to times",
        "warning",
    ),
    "stage.fallback_used": event(
        "a policy refused a stage; the next function of its chain runs instead",
        "stage error_code to times",
        "warning",
    ),
    "call.fallback_used": event(
        "a policy refused a call; a fallback of its dependency answered it",
        "dependency stage answered_by error_codes",
        "warning",
    ),
    "call.key_unstable": event(
        "a repeated stage asked for none of the stored answers of a function and "
        "called it again: the named arguments differ in each run",
        "stage dependency function arguments",
        "warning",
    ),
    "call.lane_left": event(
        "a call goes direct: its lane had no room, or no batch answered it, for as "
        "long as it may wait; or it is too large for a batch",
        "dependency waited_s",
        "info",
    ),
    "model.answer_mended": event(
        "a process read the answer of a model in spite of its form, for the first time",
        "dependency note",
        "warning",
    ),
    "batch.created": event(
        "a provider has a batch; `rows` requests are in it",
        "dependency provider batch rows",
    ),
    "batch.ended": event(
        "a batch is over, and its answers are stored; `reason` is how it ended",
        "dependency provider batch rows answered failed expired unreadable reason "
        "duration_s",
    ),
    "batch.in_doubt": event(
        "it is not known whether a provider has a batch; the collector looks for it",
        "dependency provider error_code",
        "warning",
    ),
    "batch.returned": event(
        "gathered requests go direct, because too few came or their job ends too soon",
        "dependency rows",
    ),
    "batch.failed": event(
        "the collector of a model was refused, or failed; it goes on in `delay_s`",
        "dependency provider error_code delay_s",
        "error",
    ),
    "call.attempt": event(
        "an attempt of a call was answered (debug, or as PIECEWORK_ATTEMPT_LOG says), "
        "failed or was interrupted; the next attempt begins after the delay, if the "
        "event has one",
        "error_code attempt_number delay_ms idempotency_key_hash dependency outcome "
        "duration_ms? provider? model? tokens_in? tokens_out? cached_tokens_in? "
        "cache_write_tokens_in? response_model? finish_reasons?",
        "warning",
    ),
    "breaker.opened": event(
        "the calls to a dependency fail; workers make none until a probe succeeds",
        "dependency error_code delay_s failed_probes",
        "warning",
    ),
    "breaker.closed": event("a probe of a dependency succeeded", "dependency"),
    "breaker.record_unreachable": event(
        "the shared state of the breakers could not be read or written",
        "error",
        "debug",
    ),
    "limits.record_unreachable": event(
        "the shared quota of a dependency could not be written; its calls wait",
        "dependency error",
        "warning",
    ),
    "limits.undeclared": event(
        "a dependency without a limit refused a call with 429, in this process for the"
        " first time",
        "dependency next_step",
        "warning",
    ),
    "budget.spent": event(
        "a budget is spent; the worker pauses the job", "message", "warning"
    ),
    "budget.record_unreachable": event(
        "a budget could not be written; calls beyond the worker's slice wait",
        "budget error",
        "warning",
    ),
    "traces.failed": event(
        "OpenTelemetry did not accept the spans of a claim; the work continues",
        "error",
        "warning",
    ),
    "usage.failed": event(
        "the usage function of a dependency failed; the call is metered without usage",
        "dependency error",
        "warning",
    ),
    "journal.flush_failed": event(
        "answers of calls could not be written; the next flush writes them",
        "error",
        "warning",
    ),
}
_OPERATION: Final = {
    "aws.throttled": event(
        "AWS throttled a request; the SDK or piecework sends it again",
        "service operation error_code",
        "debug",
    ),
    "cost.lost": event(
        "a process ended before it wrote the cost of its jobs; their bills are too low",
        "count",
        "warning",
    ),
    "transport.fallback_used": event(
        "requests go through the SDK; the thin transport may differ from it here",
        "service reason",
    ),
    "retry.budget_exhausted": event(
        "a failed call is not retried; the retry budget or the breaker forbids it",
        "dependency error_code",
        "debug",
    ),
    "cache.failed": event(
        "the cache could not be read or written; the call continued",
        "reason",
        "warning",
    ),
    "idempotency.replayed": event(
        "the record of an earlier call answered a call",
        "operation idempotency_key_hash",
        "debug",
    ),
    "idempotency.unrecorded": event(
        "the result of a call could not be recorded",
        "operation idempotency_key_hash status reason",
        "warning",
    ),
}
_WORKER: Final = {
    "worker.started": event(
        "the worker receives messages; on ECS the event names its task",
        "pipelines code_versions queues max_chunks pid",
    ),
    "worker.signalled": event(
        "a signal stops the worker; on ECS desired_status is STOPPED if ECS ends the "
        "task (scale-in, deployment, Spot), else RUNNING",
        "signal desired_status",
    ),
    "worker.threads_left": event(
        "the worker ends while functions in threads still run",
        "count",
        "warning",
    ),
    "health.unwritable": event(
        "the health file cannot be written; emitted once",
        "reason",
        "warning",
    ),
    "ecs.refused": event(
        "the ECS agent refused or did not answer; emitted once, and the work continues",
        "about reason",
        "warning",
    ),
    "ecs.protection": event(
        "the worker told ECS whether it may end this task in a scale-in or deployment",
        "on minutes",
        "debug",
    ),
    "pipeline.lint_warning": event(
        "a pipeline has an order of stages that costs more than another",
        "advice",
        "warning",
    ),
    "worker.memory_limit": event(
        "the worker stops because it exceeds its memory limit",
        "memory_mb limit_mb",
        "warning",
    ),
    "worker.loop_blocked": event(
        "a stage blocks the worker's event loop, so no lease is renewed; the stack "
        "shows where",
        "pipeline? stage? seconds stack",
        "error",
    ),
    "child.started": event(
        "a process for isolated stages and suspects is ready",
        "pid duration_ms",
        "debug",
    ),
    "child.ended": event(
        "the child process of a stage died or was killed",
        "pid stage reason",
        "warning",
    ),
    "worker.process_replaced": event(
        "one of several processes of the worker ended, and is started again after this "
        "time; a negative exit code is the number of the signal that killed it",
        "number exit_code delay_s",
        "warning",
    ),
    "worker.stopping": event("the worker receives no more messages", "in_progress"),
    "worker.stopped": event("the worker has ended"),
    "worker.signal_restored": event(
        "a stage had replaced the worker's handler of a signal; it is in place again",
        "signal",
        "warning",
    ),
    "worker.forks_killed": event(
        "forks that a stage had left were killed at the end of the worker",
        "count",
        "warning",
    ),
    "worker.exhausted": event(
        "the worker or a stage lacked memory, disk space, file handles, threads or "
        "processes; after five times in a row the worker ends",
        "error_code times reason",
        "error",
    ),
    "worker.cut_off": event(
        "the time of a stopping worker was over, and its process was ended: a stage "
        "blocked the event loop",
        "seconds",
        "error",
    ),
    "worker.execution_failed": event(
        "the worker could not process a message", "error_code", "exception"
    ),
    "worker.store_failed": event(
        "AWS did not answer, or refused, before a claim; the worker pauses",
        "error_code delay_s",
        "warning",
    ),
    "worker.receive_failed": event(
        "SQS refused or did not answer a receive", "error_code", "warning"
    ),
    "worker.report_failed": event(
        "the worker could not report that it lives", "error_code", "warning"
    ),
    "worker.component_failed": event(
        "a part of the worker failed while the worker stopped", "error", "error"
    ),
    "cancel_poll.failed": event(
        "the worker could not poll for cancelled jobs", "error_code", "warning"
    ),
    "acks.failed": event(
        "tallies or deletions of messages could not be written", "error", "warning"
    ),
    "lease.renewed": event(
        "the worker extended its leases and the visibility of their messages",
        "count",
        "debug",
    ),
    "lease.renew_failed": event(
        "the worker could not renew its leases; it tries again", "error", "warning"
    ),
    "lease.lost": event(
        "another worker has the lease, or it expired; the work was stopped",
        "reason",
        "warning",
    ),
    "message.deferred_newer_schema": event(
        "a message is left to newer workers, because their schema wrote its records",
        "about received delay_s?",
        "warning",
    ),
    "message.quarantined": event(
        "a message cannot be processed and was quarantined",
        "message_id error_code",
        "error",
    ),
    "dlq.alarm": event(
        "too many dead letters arrived in the window, or the oldest is too old",
        "about at_least? window_s? age_s? dead_lettered_at?",
        "error",
    ),
    "reconcile.pass": event(
        "the reconciler has checked every active job",
        "jobs actions duration_ms backlog overdue_s open_dead_letters"
        " oldest_dead_letter_s batches? batch_rows? batch_age_s?",
        "debug",
    ),
    "reconcile.action": event("the reconciler repaired a state", "action count"),
    "reconcile.failed": event(
        "the reconciler could not check a job, or a pass failed",
        "error_code?",
        "exception",
    ),
    "reconcile.message_failed": event(
        "a message of the dead-letter queue could not be handled; it comes again",
        "message_id",
        "exception",
    ),
    "reconcile.dead_letter_queue_failed": event(
        "the dead-letter queue could not be read", level="exception"
    ),
    "reconcile.alarms_failed": event(
        "the reconciler could not check the dead letters for alarms",
        level="exception",
    ),
    "reconcile.watch_failed": event(
        "the reconciler could not look for stuck jobs and open breakers",
        level="exception",
    ),
}
_PROCESS: Final = {
    "process.failed": event("an exception ended the process", "exc_info", "critical"),
    "thread.failed": event("an exception ended a thread", "exc_info", "error"),
    "cleanup.failed": event(
        "Python could not raise an exception of a cleanup", "exc_info", "error"
    ),
    "task.failed": event(
        "an asyncio task failed and no code awaited it", "reason exc_info", "error"
    ),
}

EVENTS: Final[Mapping[str, Event]] = MappingProxyType(
    {
        **_JOB,
        **_CHUNK,
        **_COMPENSATION,
        **_NOTIFICATION,
        **_LADDER,
        **_WEBHOOK,
        **_STAGE,
        **_OPERATION,
        **_WORKER,
        **_PROCESS,
    }
)
