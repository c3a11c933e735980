"""Guarantee: traces show each recovery whole, across processes, and no payload."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from structlog.testing import capture_logs

from piecework.telemetry.traces import trace_id_of
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting, travel

#: A text in the payload that no trace may show.
CANARY = "car-permanent"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """Configure OpenTelemetry in this process until the end of the test."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    return exporter


def tree(spans: Sequence[ReadableSpan], parent: int | None) -> list[object]:
    """Return the names of the spans below a parent, as nested lists."""
    found: list[object] = []
    for span in sorted(spans, key=lambda s: s.start_time or 0):
        if span.parent is not None and span.parent.span_id == parent:
            found.append(span.name)
            below = tree(spans, span.context.span_id)
            found += [below] if below else []
    return found


async def test_a_trace_has_the_stages_the_attempts_and_what_undid_them(
    scenario: Scenario, sent: InMemorySpanExporter
) -> None:
    await scenario.submit(travel, [Item(n=1, trouble=CANARY)])
    async with scenario.worker():
        await scenario.ended()

    spans = sent.get_finished_spans()
    (submitted,) = [span for span in spans if span.name == "submit travel"]
    whole = [s for s in spans if format(s.context.trace_id, "032x") == of_chunk(0)]
    (message,) = [span for span in whole if span.name.startswith("process ")]
    assert message.parent is not None
    (chunk, inside) = tree(whole, message.context.span_id)
    assert chunk == "chunk travel"
    assert isinstance(inside, list)
    assert inside[:4] == ["stage flight", ["attempt shop"], "stage hotel", inside[3]]
    undone = inside[inside.index("compensation") + 1]
    assert [name for name in undone if isinstance(name, str)] == [
        "stage car",
        "stage hotel",
        "stage flight",
    ]
    assert [link.context.span_id for link in message.links] == [
        submitted.context.span_id
    ]
    facts = message.attributes or {}
    assert facts["messaging.system"] == "aws_sqs"
    assert facts["messaging.message.id"]
    (chain,) = [span for span in whole if span.name == "compensation"]
    assert list((chain.attributes or {})["piecework.steps"]) == [  # type: ignore[arg-type]
        *("flight", "hotel", "car")
    ]
    assert CANARY not in "".join(span.to_json() for span in spans)


@pytest.mark.parametrize("ratio", [0, 1])
async def test_of_chunks_without_a_failure_a_share_is_sent_and_of_others_all(
    scenario: Scenario, sent: InMemorySpanExporter, ratio: int
) -> None:
    items = [Item(n=1, calls=2), Item(n=2, trouble="permanent")]
    await scenario.submit(counting, items)
    async with scenario.worker() as worker:
        traces = worker.services.traces
        assert traces is not None
        object.__setattr__(traces, "ratio", ratio)
        object.__setattr__(traces, "payload_fields", frozenset({"n"}))
        await scenario.ended()

    spans = sent.get_finished_spans()
    traced = {format(span.context.trace_id, "032x") for span in spans}
    assert (of_chunk(0) in traced, of_chunk(1) in traced) == (bool(ratio), True)
    (dead,) = [
        span
        for span in spans
        if span.name == "chunk counting"
        and (span.attributes or {}).get("piecework.chunk") == 1
    ]
    facts = dead.attributes or {}
    assert dead.status.description == facts["piecework.error_code"] == "tool.stock.none"
    assert facts["piecework.payload.n"] == "2"
    if ratio:
        attempts = [span for span in spans if span.name == "attempt model"]
        assert len(attempts) == 2
        of_attempt = attempts[0].attributes or {}
        assert of_attempt.keys() >= {
            "piecework.attempt_number",
            "piecework.delay_ms",
            "piecework.idempotency_key_hash",
        }
        assert of_attempt["gen_ai.usage.input_tokens"] == 10
        assert of_attempt["gen_ai.response.model"] == "m-2"
        assert of_attempt["gen_ai.response.finish_reasons"] == ("stop",)
        assert of_attempt["gen_ai.usage.cache_read.input_tokens"] == 4
        assert "gen_ai.usage.cache_creation.input_tokens" not in of_attempt


def of_chunk(chunk: int) -> str:
    return trace_id_of("default", "job-1", chunk)


@pytest.mark.parametrize("level", ["debug", "info"])
async def test_an_answered_attempt_has_a_line_at_the_level_of_its_setting(
    scenario: Scenario, level: Literal["debug", "info"]
) -> None:
    settings = replace(scenario.rt.settings, attempt_log=level)
    with capture_logs() as said:
        await scenario.submit(counting, [Item(n=1, calls=1)])
        async with scenario.worker(settings=settings):
            await scenario.ended()

    (line,) = [line for line in said if line["event"] == "call.attempt"]
    assert (line["log_level"], line["outcome"]) == (level, "answered")
    assert line["tokens_in"] == 10
