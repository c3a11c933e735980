"""The catalogue of metrics: what each one measures, and from which events.

A metric is a pure function of an event's fields. An event is counted at any level of
the log, so metrics and logs agree. Dashboards and alarms depend on these names.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from piecework.domain.keys import JOIN_CHUNK
from piecework.telemetry.events import EVENTS

Kind: TypeAlias = Literal["count", "gauge", "distribution"]
#: As CloudWatch spells them.
Unit: TypeAlias = Literal["Count", "Seconds"]
#: Returns what an event adds to a metric; None: nothing.
Amount: TypeAlias = Callable[[Mapping[str, Any]], float | None]

NAMESPACE: Final = "Piecework"
#: The dimensions of every metric. And the additional dimension of some metrics, by the
#: field of their events that has its value.
DIMENSIONS: Final = ("App", "Env")
BY_FIELD: Final = MappingProxyType(
    {"dependency": "Dependency", "error_code": "ErrorCode"}
)
#: A code of this form comes from a table or from a pipeline's `classify`. Other text
#: might be data, and is counted as `other`.
_CODE: Final = re.compile(r"[a-z][a-z0-9_]*(\.[a-z0-9_]+){1,5}")
_LONGEST_CODE: Final = 100


def each(_: Mapping[str, Any]) -> float:
    """Count the event."""
    return 1


def chunk(fields: Mapping[str, Any]) -> float | None:
    """Count a chunk's event; a join is not a chunk of its job's manifest."""
    return None if fields.get("chunk") == JOIN_CHUNK else 1


def where(name: str, value: object) -> Amount:
    """Count the events whose field has this value."""
    return lambda fields: 1 if fields.get(name) == value else None


def field(name: str) -> Amount:
    """Take the value of a field."""
    return lambda fields: fields.get(name)


def has(name: str) -> Amount:
    """Count the events in which the field has a value."""
    return lambda fields: 1 if fields.get(name) else None


def part(name: str, fields: Mapping[str, Any]) -> str:
    """Return the value of an additional dimension."""
    value = str(fields.get(name))
    if name != "error_code":
        return value
    is_code = len(value) <= _LONGEST_CODE and _CODE.fullmatch(value)
    return value if is_code else "other"


def seconds(name: str) -> Amount:
    """Take the value of a field in milliseconds, in seconds."""

    def amount(fields: Mapping[str, Any]) -> float | None:
        found = fields.get(name)
        return None if found is None else found / 1000

    return amount


class Metric(NamedTuple):
    """The kind, unit, meaning and source of a metric.

    Attributes:
        events: The events that feed it; empty: it is read when the line is written.
        by: The field of `BY_FIELD` for each value of which it is written once more.
    """

    kind: Kind
    unit: Unit
    when: str
    events: tuple[str, ...] = ()
    amount: Amount = each
    by: str = ""


def _count(
    events: str | tuple[str, ...],
    when: str,
    amount: Amount = each,
    *,
    by: str = "",
) -> Metric:
    return Metric("count", "Count", when, _names(events), amount, by)


def _gauge(when: str, unit: Unit = "Count", event: str = "", name: str = "") -> Metric:
    return Metric("gauge", unit, when, _names(event), field(name))


def _distribution(events: str | tuple[str, ...], when: str) -> Metric:
    amount = seconds("duration_ms")
    return Metric("distribution", "Seconds", when, _names(events), amount)


def _names(events: str | tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(events, str):
        return (events,) if events else ()
    return events


#: The events of a claim's end after which the chunk waits for another claim.
_TO_WAITING: Final = (
    *("chunk.retry_scheduled", "chunk.deferred", "chunk.released"),
    *("chunk.paused", "chunk.sleeping", "chunk.batching", "chunk.asking"),
    "chunk.mapping",
)
#: All events of a claim's end.
_CLAIM_END: Final = (
    "chunk.succeeded",
    *_TO_WAITING,
    "chunk.cancelled",
    "chunk.dead_lettered",
)


#: The events that repeat the code of a failure, which another event counts; or of AWS.
_REPEAT: Final = frozenset(
    {
        "aws.throttled",
        "breaker.opened",
        "compensation.started",
        "dead_letter.escalated",
        "retry.budget_exhausted",
        "stage.ended",
        "stage.fallback_used",
        "stage.replanned",
    }
)
#: The events of failures.
_FAILURES: Final = tuple(
    name
    for name, event in EVENTS.items()
    if "error_code" in event.fields and name not in _REPEAT
)

_COUNTS: Final = {
    "Errors": _count(
        _FAILURES,
        "a failure, by its error code: of an attempt of a call, of a claim, or of the"
        " process",
        has("error_code"),
        by="error_code",
    ),
    "ChunksClaimed": _count("chunk.claimed", "a worker claimed a chunk", chunk),
    "ChunksSucceeded": _count("chunk.succeeded", "a chunk has its result", chunk),
    "ChunksDead": _count("chunk.dead_lettered", "a chunk is a dead letter", chunk),
    "ChunksRescheduled": _count(
        _TO_WAITING, "a claim ended, and the chunk waits for the next one", chunk
    ),
    "ClaimsRefused": _count(
        "chunk.claim_refused",
        "a worker did not claim the chunk of a message: a duplicate, early or ended",
    ),
    "LeasesLost": _count(
        "lease.lost", "a lease expired during the work, which was stopped"
    ),
    "CallsAnswered": _count(
        "call.attempt", "a call was answered", where("outcome", "answered")
    ),
    "CallsFailed": _count(
        "call.attempt", "an attempt of a call failed", where("outcome", "failed")
    ),
    "CallsReplayed": _count(
        _CLAIM_END,
        "the journal of an earlier claim answered a call",
        field("replayed"),
    ),
    "DeadLetters": _count(
        "chunk.dead_lettered", "a dead letter was written, also for a join"
    ),
    "CompensationsFailed": _count(
        "compensation.stage_failed",
        "the compensation of a stage failed; an operator repairs it",
    ),
    "EffectsInDoubt": _count(
        "chunk.effects_in_doubt",
        "a chunk has ended, and an effect of it is in doubt",
        field("effects"),
    ),
    "BreakersOpened": _count(
        "breaker.opened",
        "a worker opened the circuit breaker of a dependency",
        by="dependency",
    ),
    "RetriesRefused": _count(
        "retry.budget_exhausted", "a call was not retried, to protect the dependency"
    ),
    "Throttles": _count("aws.throttled", "AWS throttled a request"),
    # Alarms on DynamoDB's own metrics never return to OK: they ignore missing data.
    "TableThrottles": _count(
        "aws.throttled", "DynamoDB throttled a request", where("service", "dynamodb")
    ),
    "MessagesQuarantined": _count("message.quarantined", "a message was quarantined"),
    "MessagesDeferred": _count(
        "message.deferred_newer_schema",
        "a message was left to workers of a newer version",
    ),
    "ReconcilerPasses": _count("reconcile.pass", "a reconciler checked all jobs"),
    "JobsFinished": _count("job.finished", "a job ended with its join, in any status"),
    "JobsFailed": _count(
        "job.finished", "a job ended without a result", where("status", "FAILED")
    ),
    "WebhooksFailed": _count(
        "webhook.failed", "nine attempts to tell a webhook of an event failed"
    ),
    "WorkersStopped": _count("worker.stopped", "a worker shut down in order"),
}
_GAUGES: Final = {
    "ChunksInProgress": _gauge("chunks that the worker has leases on"),
    "CallsInFlight": _gauge("calls of the worker in flight"),
    "BreakersOpen": _gauge(
        "dependencies whose circuit breaker is open for the worker"
    )._replace(by="dependency"),
    "OpenDeadLetters": _gauge(
        "open dead letters; 100 means 100 or more",
        event="reconcile.pass",
        name="open_dead_letters",
    ),
    "OldestDeadLetterSeconds": _gauge(
        "age of the oldest open dead letter",
        "Seconds",
        "reconcile.pass",
        "oldest_dead_letter_s",
    ),
    "OldestOverdueChunkSeconds": _gauge(
        "longest time that a claimable chunk has waited for a worker",
        "Seconds",
        "reconcile.pass",
        "overdue_s",
    ),
    "ChunksInBacklog": _gauge(
        "chunks of large jobs that no worker has drawn yet",
        event="reconcile.pass",
        name="backlog",
    ),
    "BatchesOpen": _gauge(
        "batches of providers that are open", event="reconcile.pass", name="batches"
    ),
    "BatchRows": _gauge(
        "rows of the open batches", event="reconcile.pass", name="batch_rows"
    ),
    "BatchAge": _gauge(
        "age of the oldest open batch", "Seconds", "reconcile.pass", "batch_age_s"
    ),
    "JobsActive": _gauge(
        "jobs that have not ended", event="reconcile.pass", name="jobs"
    ),
}
_DISTRIBUTIONS: Final = {
    "ChunkSeconds": _distribution(_CLAIM_END, "a claim, from its start to its end"),
    "CallSeconds": _distribution("call.attempt", "an attempt of a call"),
    "ReconcilerPassSeconds": _distribution(
        "reconcile.pass", "a pass over all jobs that were due"
    ),
}

METRICS: Final[Mapping[str, Metric]] = MappingProxyType(
    {**_COUNTS, **_GAUGES, **_DISTRIBUTIONS}
)


def _by_event() -> Mapping[str, tuple[tuple[str, Metric], ...]]:
    found: defaultdict[str, list[tuple[str, Metric]]] = defaultdict(list)
    for name, metric in METRICS.items():
        for event in metric.events:
            found[event].append((name, metric))
    return {event: tuple(metrics) for event, metrics in found.items()}


#: The metrics that each event feeds.
METRICS_BY_EVENT: Final = MappingProxyType(_by_event())
