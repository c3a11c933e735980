"""The catalogue of events: a new one gets a row here first, then its call.

Dashboards and alarms count on names and fields, so what is not in the table is refused
where it is emitted. No payloads, and of idempotency keys only a hash.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple, Protocol

Level = Literal["debug", "info", "warning", "error"]


class Event(NamedTuple):
    """When an event is emitted, its fields beside the bound ones, and its level."""

    when: str
    fields: frozenset[str]
    level: Level = "info"


class Log(Protocol):
    """The part of a structlog logger that is used here."""

    def debug(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what only a close look needs."""
        ...

    def info(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what happened as it should."""
        ...

    def warning(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what recovery is taking care of."""
        ...

    def error(self, event: str | None = None, *args: Any, **kw: Any) -> Any:
        """Log what needs a person."""
        ...


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
        "the outcome is written", "status duration_ms calls replayed retried"
    ),
    "chunk.released": _event(
        "the chunk was put back for later", "reason error_code delay_s", "warning"
    ),
    "chunk.dead": _event(
        "the dead letter is written",
        "error_code stage attempts compensation",
        "error",
    ),
    "chunk.compensated": _event("the stages were undone", "stages failed", "warning"),
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
        "a stage's checkpoint is written", "stage duration_ms", "debug"
    ),
    "call.attempt": _event(
        "a call failed and is tried again after the delay",
        "error_code attempt_number delay_ms idempotency_key_hash dependency stage",
        "warning",
    ),
    "call.made": _event("a call was answered", "dependency duration_ms", "debug"),
}
_WORKER: Final = {
    "worker.started": _event(
        "the worker takes messages", "pipelines concurrency version pid"
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
    "message.quarantined": _event(
        "a message was set aside", "message_id error_code reason", "error"
    ),
    "reconcile.pass": _event(
        "the reconciler has looked at every active job",
        "jobs looked actions duration_ms",
        "debug",
    ),
    "reconcile.action": _event(
        "the reconciler put something right", "action count reason error_code"
    ),
}

EVENTS: Final[Mapping[str, Event]] = MappingProxyType(
    {**_JOB, **_CHUNK, **_NOTICE, **_STAGE, **_WORKER}
)


def emit(log: Log, name: str, **fields: object) -> None:
    """Log an event of the catalogue; an unknown name or field is a KeyError."""
    event = EVENTS[name]
    unknown = fields.keys() - event.fields - BOUND
    if unknown:
        raise KeyError(f"{name} has no field {', '.join(sorted(unknown))}")
    getattr(log, event.level)(name, **fields)
