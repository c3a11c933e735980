"""Send the traces of a process through OpenTelemetry, if its program configured it.

The trace of a chunk has an id that is computed from the chunk's name. So all claims of
a chunk, on whatever worker, are in one trace, and no record or message stores its id.
A claim keeps its events, and its spans are made when it ends. So a trace in which
anything failed is sent whole, and of the others a share.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

from piecework.errors.redaction import shortened
from piecework.telemetry.emit import emit, listen_always, quiet_log
from piecework.telemetry.spans import (
    RECORDED,
    SQS,
    Moment,
    Span,
    attributes,
    has_recovery,
    spans_of,
)

if TYPE_CHECKING:
    from opentelemetry import trace
    from opentelemetry.context import Context

SCOPE: Final = "piecework"
#: Characters of a field of a payload in a span.
FIELD_LIMIT: Final = 200
NANO: Final = 1_000_000_000
_VERSION: Final = "00"
#: Milliseconds that the end of a worker waits for its last spans. All its chunks are
#: released by then, so a kill in this time loses only spans.
FLUSH_MS: Final = 3_000


@dataclass(slots=True)
class ClaimTrace:
    """What one claim has recorded for its spans."""

    clock: Callable[[], float]
    claim: dict[str, Any]
    started_at: float
    payload_fields: frozenset[str]
    moments: list[Moment] = field(default_factory=list)


#: The claim that the current task works for.
CURRENT: Final[ContextVar[ClaimTrace | None]] = ContextVar("claim_trace", default=None)


def record(name: str, fields: Mapping[str, Any]) -> None:
    """Keep an event of the current claim; a listener."""
    if name in RECORDED and (trace := CURRENT.get()) is not None:
        trace.moments.append(Moment(trace.clock(), name, fields))


def note_payload(payload: object) -> None:
    """Add those fields of a payload to the trace that a setting names."""
    if (trace := CURRENT.get()) is None or not trace.payload_fields:
        return
    trace.claim["payload"] = {
        f"piecework.payload.{name}": shortened(str(value), FIELD_LIMIT)
        for name in sorted(trace.payload_fields)
        if isinstance(value := getattr(payload, name, None), str | int | float)
    }


@dataclass(frozen=True, slots=True)
class Traces:
    """Makes the traces of one worker.

    Attributes:
        ratio: The share of the chunks without a failure whose traces are sent.
        payload_fields: The fields of payloads that a trace may show.
    """

    tracer: trace.Tracer
    clock: Callable[[], float]
    worker: str
    queue: str
    ratio: float = 1.0
    payload_fields: frozenset[str] = frozenset()

    @contextmanager
    def of_claim(
        self, tenant: str, job: str, chunk: int, submitted: str, **facts: Any
    ) -> Iterator[None]:
        """Record the events of the claim that the block makes, and send its spans.

        `submitted`: the trace context of the job's submit. `facts`: further fields.
        Spans that a stage makes itself join the trace of the chunk, and each line of
        the log has its id.
        """
        import structlog
        from opentelemetry import context

        trace_id, span_id = ids_of(tenant, job, chunk)
        is_drawn = (trace_id & 0xFFFF_FFFF_FFFF_FFFF) < self.ratio * 2**64
        named = {"tenant": tenant, "job": job, "chunk": chunk, **facts}
        claim = {"worker": self.worker, "queue": self.queue, **named}
        recorded = ClaimTrace(self.clock, claim, self.clock(), self.payload_fields)
        token = CURRENT.set(recorded)
        bound = structlog.contextvars.bind_contextvars(trace_id=f"{trace_id:032x}")
        inner = context.attach(parent_of(trace_id, span_id, is_sent=is_drawn))
        try:
            yield
        finally:
            context.detach(inner)
            structlog.contextvars.reset_contextvars(**bound)
            CURRENT.reset(token)
            if is_drawn or has_recovery(recorded.moments):
                parent = parent_of(trace_id, span_id, is_sent=True)
                self._send(recorded, parent, submitted)

    def _send(self, recorded: ClaimTrace, parent: Context, submitted: str) -> None:
        """Send the spans of a claim; a program's SDK that fails must not stop it."""
        started, now = recorded.started_at, self.clock()
        try:
            found = spans_of(recorded.claim, recorded.moments, started, now)
            if found is not None:
                send(self.tracer, found, parent, links_to(submitted))
        except Exception as error:  # noqa: BLE001 -- an exporter may raise anything
            emit(quiet_log(), "traces.failed", error=type(error).__name__)


def ids_of(tenant: str, job: str, chunk: int) -> tuple[int, int]:
    """Return the trace id of a chunk, and the id of the span that its claims are in."""
    digest = sha256(f"{tenant}\0{job}\0{chunk}".encode()).digest()
    # OpenTelemetry ignores ids of zeros.
    return int.from_bytes(digest[:16]) or 1, int.from_bytes(digest[16:24]) or 1


def trace_id_of(tenant: str, job: str, chunk: int) -> str:
    """Return the id of a chunk's trace, as pages of traces show it."""
    return f"{ids_of(tenant, job, chunk)[0]:032x}"


def parent_of(trace_id: int, span_id: int, *, is_sent: bool) -> Context:
    """Return the context of all spans of a chunk; its own span is never sent."""
    from opentelemetry import trace

    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if is_sent else 0)
    known = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(trace.NonRecordingSpan(known))


def send(
    tracer: trace.Tracer, span: Span, parent: Context, links: list[trace.Link]
) -> None:
    """Send a span and those inside it."""
    from opentelemetry import trace

    started = tracer.start_span(
        span.name,
        parent,
        trace.SpanKind[span.kind.upper()],
        span.attributes,
        links,
        round(span.started_at * NANO),
    )
    if span.error_code:
        started.set_status(trace.Status(trace.StatusCode.ERROR, span.error_code))
    if span.children:
        inside = trace.set_span_in_context(started, parent)
        for child in span.children:
            send(tracer, child, inside, [])
    started.end(round(span.ended_at * NANO))


# ── the trace context of a submit ─────────────────────────────────────────────


@contextmanager
def submitting(
    tenant: str, job: str, pipeline: str, queue: str
) -> Iterator[dict[str, Any]]:
    """Surround a submit by its span; yield its facts, which the block may extend.

    The fact `traceparent` is the span's context, which the job's record keeps; empty
    if the program does not send traces.
    """
    facts = {"tenant": tenant, "job": job, "pipeline": pipeline, "queue": queue}
    tracer = configured_tracer()
    if tracer is None:
        yield {"traceparent": ""}
        return
    from opentelemetry import trace

    # The SDK would add the message of an exception, which may quote a payload.
    with tracer.start_as_current_span(
        f"submit {pipeline}",
        kind=trace.SpanKind.PRODUCER,
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        facts["traceparent"] = traceparent_of(span.get_span_context())
        try:
            yield facts
        except BaseException as error:
            facts["error_code"] = getattr(error, "code", "") or type(error).__name__
            span.set_status(trace.Status(trace.StatusCode.ERROR, facts["error_code"]))
            raise
        finally:
            span.set_attributes(attributes("submit", facts))
            span.set_attributes(
                {
                    "messaging.system": SQS,
                    "messaging.operation.type": "send",
                    "messaging.operation.name": "send",
                }
            )


def traceparent_of(context: trace.SpanContext) -> str:
    """Return a context as W3C Trace Context writes it; empty if it is not sent."""
    if not context.is_valid:
        return ""
    flags = context.trace_flags
    return f"{_VERSION}-{context.trace_id:032x}-{context.span_id:016x}-{flags:02x}"


def links_to(traceparent: str) -> list[trace.Link]:
    """Return the link to a submit; empty without one, or if its text is not one."""
    from opentelemetry import trace

    version, *numbers = traceparent.split("-")
    try:
        trace_id, span_id, flags = (int(number, 16) for number in numbers)
    except ValueError:
        return []
    sampled = trace.TraceFlags(flags)
    found = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=sampled)
    return [trace.Link(found)] if version == _VERSION and found.is_valid else []


# ── whether the program sends traces ──────────────────────────────────────────


def configured_tracer() -> trace.Tracer | None:
    """Return a tracer if the program has configured OpenTelemetry, else None.

    A program that configures it has imported it, so that nothing is imported here.
    """
    if "opentelemetry.trace" not in sys.modules:
        return None
    from opentelemetry import trace

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider):
        return None
    return provider.get_tracer(SCOPE)


def open_traces(
    clock: Callable[[], float],
    worker: str,
    queue: str,
    ratio: float,
    payload_fields: str,
) -> Traces | None:
    """Return what makes the traces of a worker; None: its program sends none."""
    tracer = configured_tracer()
    if tracer is None:
        return None
    listen_always(record)
    names = frozenset(payload_fields.replace(",", " ").split())
    return Traces(tracer, clock, worker, queue, ratio, names)


def flush_traces() -> None:
    """Send the spans that wait in the SDK; a worker may end without exit hooks."""
    if configured_tracer() is None:
        return
    from opentelemetry import trace

    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush(FLUSH_MS)
