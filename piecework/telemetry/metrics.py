"""The catalogue of metrics: what each is, and of which event it is made.

A metric is a pure function of an event's fields, so that whatever is logged is counted,
at any level of the log. Dashboards and alarms stand on these names.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from piecework.keys import JOIN_CHUNK

Kind: TypeAlias = Literal["count", "gauge", "distribution"]
#: As CloudWatch spells them.
Unit: TypeAlias = Literal["Count", "Seconds"]
#: What an event adds to a metric; None: nothing.
Amount: TypeAlias = Callable[[Mapping[str, Any]], float | None]

NAMESPACE: Final = "Piecework"
#: The dimensions of every metric, and the one that some have beside them.
DIMENSIONS: Final = ("App", "Env")
DEPENDENCY: Final = "Dependency"


def each(_: Mapping[str, Any]) -> float:
    """Count the event."""
    return 1


def chunk(fields: Mapping[str, Any]) -> float | None:
    """Count a chunk's event; a join is no chunk of its job's manifest."""
    return None if fields.get("chunk") == JOIN_CHUNK else 1


def where(name: str, value: object) -> Amount:
    """Count the events of which a field says so."""
    return lambda fields: 1 if fields.get(name) == value else None


def field(name: str) -> Amount:
    """Take what a field says."""
    return lambda fields: fields.get(name)


def seconds(name: str) -> Amount:
    """Take the seconds that a field says in milliseconds."""

    def amount(fields: Mapping[str, Any]) -> float | None:
        found = fields.get(name)
        return None if found is None else found / 1000

    return amount


class Metric(NamedTuple):
    """What a metric says, in which unit, and where it comes from.

    Attributes:
        events: The events that it is made of; empty: it is read at the line.
        by_dependency: It is told of each dependency, too.
    """

    kind: Kind
    unit: Unit
    when: str
    events: tuple[str, ...] = ()
    amount: Amount = each
    by_dependency: bool = False


def _count(
    events: str | tuple[str, ...],
    when: str,
    amount: Amount = each,
    *,
    by_dependency: bool = False,
) -> Metric:
    return Metric("count", "Count", when, _names(events), amount, by_dependency)


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
_TO_WAITING: Final = ("chunk.retry_scheduled", "chunk.deferred", "chunk.released")
#: All events of a claim's end.
_CLAIM_END: Final = (
    "chunk.succeeded",
    *_TO_WAITING,
    "chunk.cancelled",
    "chunk.dead_lettered",
)


_COUNTS: Final = {
    "ChunksClaimed": _count("chunk.claimed", "a worker took a chunk in hand", chunk),
    "ChunksSucceeded": _count("chunk.succeeded", "a chunk has its result", chunk),
    "ChunksDead": _count("chunk.dead_lettered", "a chunk is a dead letter", chunk),
    "ChunksRescheduled": _count(
        _TO_WAITING, "a claim ended, and the chunk waits for the next one", chunk
    ),
    "ClaimsLost": _count(
        "chunk.claim_lost", "a claim was refused: a doubled or an early message"
    ),
    "LeasesLost": _count(
        "lease.lost", "a lease ran out under its work, which was stopped"
    ),
    "CallsAnswered": _count(
        "call.attempt", "a call was answered", where("outcome", "answered")
    ),
    "CallsFailed": _count(
        "call.attempt", "an attempt of a call failed", where("outcome", "failed")
    ),
    "CallsReplayed": _count(
        _CLAIM_END,
        "a call was answered by what an earlier claim remembered",
        field("replayed"),
    ),
    "DeadLetters": _count(
        "chunk.dead_lettered", "a dead letter was written, of a join, too"
    ),
    "CompensationsFailed": _count(
        "compensation.stage_failed", "a stage could not be undone: a person has to"
    ),
    "BreakersOpened": _count(
        "breaker.opened", "a worker gave a dependency up", by_dependency=True
    ),
    "RetriesRefused": _count(
        "retry.refused", "a call was not tried again, for the fleet's sake"
    ),
    "Throttles": _count("aws.throttled", "AWS answered: too many requests"),
    "MessagesQuarantined": _count("message.quarantined", "a message was set aside"),
    "MessagesNewer": _count(
        "message.newer", "a turn was left to workers of a newer version"
    ),
    "ReconcilerPasses": _count("reconcile.pass", "a reconciler looked at all jobs"),
    "JobsFinished": _count("job.finished", "a job ended by its join, however"),
    "JobsFailed": _count(
        "job.finished", "a job ended without a result", where("status", "FAILED")
    ),
    "WorkersStopped": _count("worker.stopped", "a worker ended in order"),
}
_GAUGES: Final = {
    "ChunksInHand": _gauge("chunks that the worker holds"),
    "CallsInFlight": _gauge("calls of the worker under way, of at most its slots"),
    "BreakersOpen": _gauge("dependencies that the worker does not call")._replace(
        by_dependency=True
    ),
    "OpenDeadLetters": _gauge(
        "dead letters that nobody has dealt with; 100 stands for more",
        event="reconcile.pass",
        name="open_letters",
    ),
    "OldestDeadLetterSeconds": _gauge(
        "age of the oldest of them", "Seconds", "reconcile.pass", "oldest_letter_s"
    ),
    "OldestOverdueChunkSeconds": _gauge(
        "longest that a chunk could be worked on and nobody has it",
        "Seconds",
        "reconcile.pass",
        "overdue_s",
    ),
    "JobsActive": _gauge(
        "jobs that have not ended", event="reconcile.pass", name="jobs"
    ),
}
_DISTRIBUTIONS: Final = {
    "ChunkSeconds": _distribution(_CLAIM_END, "a claim, from its start to its end"),
    "CallSeconds": _distribution("call.attempt", "an attempt of a call"),
    "ReconcilerPassSeconds": _distribution(
        "reconcile.pass", "a look at all jobs that were due"
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


#: The metrics of each event that has any.
OF_EVENT: Final = MappingProxyType(_by_event())
