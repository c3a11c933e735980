"""Send the traces of a process through OpenTelemetry, if its program configured it.

The trace of a chunk has an id that is computed from the chunk's name. So all claims of
a chunk, on whatever worker, are in one trace. No record or message stores its id. A
claim keeps its events, and its spans are made when it ends. So a trace in which
anything failed is sent whole, and a share of the others.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from contextvars import ContextVar, Token
from dataclasses import dataclass, field
from hashlib import sha256
from types import ModuleType
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
    """Records the events of one claim inside its `with`, and sends the spans after it.

    Attributes:
        claim: The fields of the claim that its events lack.
        submitted: The trace context of the job's submit; empty: it was not traced.
        is_drawn: Whether the chunk is one of the share that is always sent.
    """

    traces: Traces
    claim: dict[str, Any]
    submitted: str
    trace_id: int
    span_id: int
    is_drawn: bool
    started_at: float
    moments: list[Moment] = field(default_factory=list)
    _before: list[Token[Any]] = field(default_factory=list)

    def __enter__(self) -> None:
        """Let events of this task, and spans that a stage makes itself, join."""
        inner = self.traces.undrawn
        if self.is_drawn:
            inner = parent_of(self.trace_id, self.span_id, is_sent=True)
        self._before = [CURRENT.set(self), self.traces.context.attach(inner)]

    def __exit__(self, *_: object) -> None:
        """Send the spans, if the claim is one that is sent."""
        own, inner = self._before
        self.traces.context.detach(inner)
        CURRENT.reset(own)
        if self.is_drawn or has_recovery(self.moments):
            self._send()

    def _send(self) -> None:
        """Send the spans of the claim; an SDK that fails must not stop the work."""
        try:
            now = self.traces.clock()
            found = spans_of(self.claim, self.moments, self.started_at, now)
            if found is not None:
                parent = parent_of(self.trace_id, self.span_id, is_sent=True)
                send(self.traces.tracer, found, parent, links_to(self.submitted))
        except Exception as error:  # noqa: BLE001 -- an exporter may raise anything
            emit(quiet_log(), "traces.failed", error=type(error).__name__)


#: The claim that the current task works for.
CURRENT: Final[ContextVar[ClaimTrace | None]] = ContextVar("claim_trace", default=None)


def record(name: str, fields: Mapping[str, Any]) -> None:
    """Keep an event of the current claim; a listener."""
    if name in RECORDED and (trace := CURRENT.get()) is not None:
        trace.moments.append(Moment(trace.traces.clock(), name, fields))


def add_trace_id(
    _log: object, _method: str, event: MutableMapping[str, Any]
) -> MutableMapping[str, Any]:
    """Add the trace's id to a line of a claim; a processor of structlog."""
    if (trace := CURRENT.get()) is not None:
        event["trace_id"] = f"{trace.trace_id:032x}"
    return event


def note_payload(payload: object) -> None:
    """Add those fields of a payload to the trace that a setting names."""
    if (trace := CURRENT.get()) is None or not trace.traces.payload_fields:
        return
    trace.claim["payload"] = {
        f"piecework.payload.{name}": shortened(str(value), FIELD_LIMIT)
        for name in sorted(trace.traces.payload_fields)
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
    ratio: float = 1.0
    payload_fields: frozenset[str] = frozenset()
    #: OpenTelemetry's module. And the parent of a stage's own spans in a chunk that is
    #: not drawn: the SDK drops them.
    context: ModuleType = field(init=False)
    undrawn: Context = field(init=False)

    def __post_init__(self) -> None:
        """Load the API once: each claim would pay for an import."""
        from opentelemetry import context

        object.__setattr__(self, "context", context)
        object.__setattr__(self, "undrawn", parent_of(1, 1, is_sent=False))

    def of_claim(
        self, tenant: str, job: str, chunk: int, submitted: str, **facts: Any
    ) -> ClaimTrace:
        """Return what records the claim of a chunk; `facts` are further fields."""
        trace_id, span_id = ids_of(tenant, job, chunk)
        is_drawn = (trace_id & 0xFFFF_FFFF_FFFF_FFFF) < self.ratio * 2**64
        facts |= {"worker": self.worker, "tenant": tenant, "job": job, "chunk": chunk}
        now = self.clock()
        return ClaimTrace(self, facts, submitted, trace_id, span_id, is_drawn, now)


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
    ratio: float,
    payload_fields: str,
) -> Traces | None:
    """Return what makes the traces of a worker; None: its program sends none."""
    tracer = configured_tracer()
    if tracer is None:
        return None
    listen_always(record)
    names = frozenset(payload_fields.replace(",", " ").split())
    return Traces(tracer, clock, worker, ratio, names)


def flush_traces() -> None:
    """Send the spans that wait in the SDK; a worker may end without exit hooks."""
    if configured_tracer() is None:
        return
    from opentelemetry import trace

    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush(FLUSH_MS)
