"""Which traces are sent, and that nothing in a trace can disturb the work."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from piecework.telemetry import configure
from piecework.telemetry.spans import RECORDED, SPANS
from piecework.telemetry.traces import Traces, links_to, record, trace_id_of
from tests.unit.piecework.telemetry.whole import emit_whole

CLAIMED = ("chunk.claimed", {"receive_count": 1})
SUCCEEDED = ("chunk.succeeded", {"calls": 1})
ANSWERED = ("call.attempt", {"outcome": "answered", "dependency": "model"})
FAILED = (
    "call.attempt",
    {"outcome": "failed", "dependency": "model", "error_code": "tool.http.503"},
)
RETURNED = ("stage.ended", {"stage": "one", "outcome": "returned", "duration_ms": 9})
CUT = ("stage.ended", {"stage": "one", "outcome": "interrupted", "duration_ms": 9})


def run(*events: tuple[str, dict[str, Any]], tracer: Any = None) -> list[Any]:
    """Return the spans of a claim with these events, whose chunk is not drawn."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces = Traces(tracer or provider.get_tracer("t"), lambda: 5.0, "w", 0.0)
    with traces.of_claim("acme", "j", 1, "", pipeline="p", queue="q"):
        for name, fields in events:
            record(name, fields)
    return list(exporter.get_finished_spans())


@pytest.mark.parametrize(
    ("events", "is_sent"),
    [
        ([CLAIMED, ANSWERED, RETURNED, SUCCEEDED], False),
        ([CLAIMED, FAILED, ANSWERED, RETURNED, SUCCEEDED], True),
        ([CLAIMED, CUT, SUCCEEDED], True),
        ([CLAIMED, ANSWERED, RETURNED, ("chunk.released", {})], True),
        ([CLAIMED, ANSWERED, ("lease.lost", {"reason": "expired"})], True),
        ([CLAIMED, ANSWERED], True),
        ([("chunk.succeeded", {})], False),
        ([], False),
    ],
)
def test_a_claim_that_did_not_simply_succeed_is_always_sent(
    events: list[tuple[str, dict[str, Any]]], *, is_sent: bool
) -> None:
    assert is_sent == bool(run(*events))


def test_attempts_are_inside_the_stage_that_ends_after_them() -> None:
    spans = {s.name: s for s in run(CLAIMED, FAILED, RETURNED, CUT, SUCCEEDED)}

    attempt, chunk = spans["attempt model"], spans["chunk p"]
    assert spans["process q"].context == chunk.parent
    assert attempt.parent.span_id != chunk.context.span_id
    assert attempt.status.description == "tool.http.503"


def test_an_exporter_that_fails_does_not_stop_the_work() -> None:
    with capture_logs() as said:
        assert run(CLAIMED, FAILED, tracer=object()) == []

    assert [("traces.failed", "AttributeError")] == [
        (line["event"], line["error"]) for line in said
    ]


def test_each_line_of_the_log_of_a_claim_has_the_id_of_its_trace() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)
    traces = Traces(trace.NoOpTracer(), lambda: 5.0, "w", 0.0)
    with traces.of_claim("acme", "j", 1, "", pipeline="p", queue="q"):
        emit_whole("chunk.succeeded")
    emit_whole("worker.stopped")

    inside, outside = map(json.loads, stream.getvalue().splitlines())
    assert inside["trace_id"] == trace_id_of("acme", "j", 1)
    assert "trace_id" not in outside


@pytest.mark.parametrize(
    "text",
    ["", "x", "00-0-0-01", "00-1-1", "00-zz-1-01", f"01-{1:032x}-{1:016x}-01"],
)
def test_a_context_that_is_not_one_is_no_link(text: str) -> None:
    assert links_to(text) == []


def test_a_context_of_a_submit_is_a_link() -> None:
    (link,) = links_to(f"00-{7:032x}-{8:016x}-01")

    assert (7, 8) == (link.context.trace_id, link.context.span_id)
    assert link.context.trace_flags == trace.TraceFlags.SAMPLED


def test_an_event_that_may_quote_data_is_no_part_of_a_trace() -> None:
    attributes = {name for row in SPANS.values() for name in row.attributes.values()}

    assert attributes.isdisjoint({"envelope", "raised", "traceback", "reason"})
    assert {"call.attempt", "stage.ended", "compensation.started"} <= RECORDED
