"""Each metric of the catalogue, from the events that make it to the line of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from piecework.settings import Settings
from piecework.telemetry import BOUND, EVENTS, emf, emit
from piecework.telemetry.emf import MAX_PARTS, WHOLE, Gauge, Meter
from piecework.telemetry.emit import listening, quiet_log
from piecework.telemetry.metrics import METRICS, METRICS_BY_EVENT
from piecework.telemetry.spans import CLAIM_ENDS
from tests.unit.piecework.telemetry.emf_schema import faults
from tests.unit.piecework.telemetry.whole import emit_whole

MODEL, CODE = ("Dependency", "model"), "llm.http.429_rate_limited"
#: An event that adds one (or says one) to each metric that an event makes.
MAKES: dict[str, tuple[str, dict[str, Any]]] = {
    "Errors": ("call.attempt", {"error_code": CODE}),
    "ChunksClaimed": ("chunk.claimed", {"chunk": 0}),
    "ChunksSucceeded": ("chunk.succeeded", {"chunk": 3}),
    "ChunksDead": ("chunk.dead_lettered", {"chunk": 3}),
    "ChunksRescheduled": ("chunk.released", {"chunk": 3}),
    "ClaimsRefused": ("chunk.claim_refused", {}),
    "LeasesLost": ("lease.lost", {}),
    "CallsAnswered": ("call.attempt", {"outcome": "answered"}),
    "CallsFailed": ("call.attempt", {"outcome": "failed"}),
    "CallsReplayed": ("chunk.retry_scheduled", {"replayed": 1}),
    "DeadLetters": ("chunk.dead_lettered", {"chunk": -1}),
    "CompensationsFailed": ("compensation.stage_failed", {}),
    "EffectsInDoubt": ("chunk.effects_in_doubt", {"effects": 1}),
    "BreakersOpened": ("breaker.opened", {"dependency": "model"}),
    "RetriesRefused": ("retry.budget_exhausted", {"dependency": "model"}),
    "Throttles": ("aws.throttled", {}),
    "TableThrottles": ("aws.throttled", {"service": "dynamodb"}),
    "MessagesQuarantined": ("message.quarantined", {}),
    "MessagesDeferred": ("message.deferred_newer_schema", {}),
    "ReconcilerPasses": ("reconcile.pass", {}),
    "JobsFinished": ("job.finished", {"status": "PARTIAL"}),
    "JobsFailed": ("job.finished", {"status": "FAILED"}),
    "WebhooksFailed": ("webhook.failed", {}),
    "WorkersStopped": ("worker.stopped", {}),
    "OpenDeadLetters": ("reconcile.pass", {"open_dead_letters": 1}),
    "OldestDeadLetterSeconds": ("reconcile.pass", {"oldest_dead_letter_s": 1}),
    "OldestOverdueChunkSeconds": ("reconcile.pass", {"overdue_s": 1}),
    "JobsActive": ("reconcile.pass", {"jobs": 1}),
    "ChunksInBacklog": ("reconcile.pass", {"backlog": 1}),
    "BatchesOpen": ("reconcile.pass", {"batches": 1}),
    "BatchRows": ("reconcile.pass", {"batch_rows": 1}),
    "BatchAge": ("reconcile.pass", {"batch_age_s": 1}),
    "ChunkSeconds": ("chunk.cancelled", {"duration_ms": 1000}),
    "CallSeconds": ("call.attempt", {"duration_ms": 1000}),
    "ReconcilerPassSeconds": ("reconcile.pass", {"duration_ms": 1000}),
}
#: Those that are read when a line is written; `tests/unit/workers/test_gauges.py`.
READ = {"ChunksInProgress", "CallsInFlight", "BreakersOpen"}


@pytest.fixture
def meter() -> Iterator[Meter]:
    meter = Meter(Random(1))
    with listening(meter.count):
        yield meter


@pytest.mark.parametrize("name", sorted(MAKES))
def test_each_metric_is_made_of_its_event(name: str, meter: Meter) -> None:
    event, fields = MAKES[name]

    emit_whole(event, **fields)

    said = meter.take()[WHOLE][name]
    assert said == ([1] if METRICS[name].kind == "distribution" else 1)


def test_no_metric_is_left_out() -> None:
    assert set(METRICS) == set(MAKES) | READ
    assert {name for name, m in METRICS.items() if not m.events} == READ


def test_a_metric_is_made_of_an_event_of_the_catalogue() -> None:
    assert set(METRICS_BY_EVENT) <= set(EVENTS)


@pytest.mark.parametrize("event", sorted(EVENTS))
def test_no_event_breaks_the_meter_whatever_its_fields_are(
    event: str, meter: Meter
) -> None:
    event_fields = dict.fromkeys(EVENTS[event].fields - EVENTS[event].optional)
    emit(quiet_log(), event, **event_fields)
    emit(quiet_log(), event, **dict.fromkeys(EVENTS[event].fields | BOUND))

    assert meter.take()


def test_each_end_of_a_claim_is_counted_as_one() -> None:
    ends = {
        name for name, e in EVENTS.items() if {"duration_ms", "replayed"} <= e.fields
    }
    assert set(METRICS["ChunkSeconds"].events) == ends
    assert ends <= set(CLAIM_ENDS)


def test_a_join_is_no_chunk(meter: Meter) -> None:
    emit_whole("chunk.claimed", chunk=-1)
    emit_whole("chunk.succeeded", chunk=-1)

    assert {"ChunksClaimed", "ChunksSucceeded"}.isdisjoint(meter.take()[WHOLE])


def test_counts_begin_anew_after_each_line_and_gauges_stay(meter: Meter) -> None:
    emit_whole("reconcile.pass", jobs=3)
    first, second = meter.take()[WHOLE], meter.take()[WHOLE]

    assert (first["ReconcilerPasses"], first["JobsActive"]) == (1, 3)
    assert ("ReconcilerPasses" in second, second["JobsActive"]) == (False, 3)


def test_a_distribution_keeps_a_fair_sample_of_a_hundred() -> None:
    meter = Meter(Random(7))
    for number in range(10_000):
        meter.count("call.attempt", {"duration_ms": number, "outcome": "answered"})

    taken = meter.take()[WHOLE]
    values = taken["CallSeconds"]
    assert isinstance(values, list)
    assert len(values) == 100
    assert 4 < sum(values) / len(values) < 6
    assert taken["CallsAnswered"] == 10_000


def test_a_metric_of_a_breaker_names_its_dependency(meter: Meter) -> None:
    emit_whole("breaker.opened", dependency="model")

    taken = meter.take([Gauge("BreakersOpen", 1), Gauge("BreakersOpen", 1, MODEL)])

    both = {"BreakersOpened": 1, "BreakersOpen": 1}
    assert taken[WHOLE] == taken[MODEL] == both


def test_however_many_dependencies_there_are_the_lines_are_few(meter: Meter) -> None:
    for number in range(2 * MAX_PARTS):
        emit_whole("breaker.opened", dependency=f"d{number}")

    assert len(meter.take()) == 1 + MAX_PARTS


# ── the lines ───────────────────────────────────────────────────────────────


def full() -> list[str]:
    """Return the lines of a process in which everything happened, and often."""
    meter = Meter(Random(1))
    for event, fields in MAKES.values():
        for _ in range(300):
            meter.count(event, fields)
    gauges = [Gauge(name, 1) for name in READ]
    return emf.lines(meter.take(gauges), "piecework", "prod", 1_700_000_000.5)


def test_every_line_is_as_the_specification_says() -> None:
    lines = full()

    assert len(lines) == 3
    assert [] == [f for line in lines for f in faults(json.loads(line), len(line))]


def test_the_first_line_holds_the_whole_catalogue_and_its_dimensions() -> None:
    document = json.loads(full()[0])
    (directive,) = document["_aws"]["CloudWatchMetrics"]

    assert document["_aws"]["Timestamp"] == 1_700_000_000_500
    assert directive["Namespace"] == "Piecework"
    assert directive["Dimensions"] == [["App", "Env"]]
    assert (document["App"], document["Env"]) == ("piecework", "prod")
    assert {m["Name"]: m["Unit"] for m in directive["Metrics"]} == {
        name: metric.unit for name, metric in METRICS.items()
    }


@pytest.mark.parametrize(
    ("line", "dimension", "value", "metric"),
    [(1, "ErrorCode", CODE, "Errors"), (2, *MODEL, "BreakersOpened")],
)
def test_only_breakers_and_errors_have_a_dimension_of_their_own(
    line: int, dimension: str, value: str, metric: str
) -> None:
    document = json.loads(full()[line])
    (directive,) = document["_aws"]["CloudWatchMetrics"]

    assert directive["Dimensions"] == [["App", "Env", dimension]]
    assert document[dimension] == value
    assert [m["Name"] for m in directive["Metrics"]] == [metric]


def test_each_failure_is_counted_by_its_code_and_odd_text_as_other(
    meter: Meter,
) -> None:
    failures = METRICS["Errors"].events
    for event in failures:
        emit_whole(event, error_code=CODE)
    for odd in ("jane@example.com", "x" * 101, "No Code", "a.b\n"):
        emit_whole("call.attempt", error_code=odd)

    taken = meter.take()
    by_code = {code: v["Errors"] for (d, code), v in taken.items() if d == "ErrorCode"}
    assert by_code == {CODE: len(failures), "other": 4}
    assert set(failures) >= {"call.attempt", "chunk.deferred", "chunk.dead_lettered"}


def test_a_line_says_nothing_but_figures_whatever_the_events_said(
    meter: Meter,
) -> None:
    for name, event in EVENTS.items():
        numbers = {"duration_ms", "replayed", "jobs", "dependency", "effects"}
        numbers |= {"overdue_s", "open_dead_letters", "oldest_dead_letter_s", "backlog"}
        numbers |= {"batches", "batch_rows", "batch_age_s"}
        words = event.fields - numbers
        told = dict.fromkeys(event.fields, 0) | dict.fromkeys(words, "jane@example.com")
        ids = {"tenant": "acme", "job": "contract-of-jane", "worker": "host-1"}
        emit(quiet_log(), name, **told, **ids)

    taken = emf.lines(meter.take(), "piecework", "prod", 0)
    known = {"_aws", "App", "Env", "Dependency", "ErrorCode", *METRICS}
    assert all(set(json.loads(line)) <= known for line in taken)
    assert not [w for w in ("jane", "acme", "host-1") if w in "".join(taken)]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"_aws": {}}, "other members"),
        ({"ChunksClaimed": "1"}, "ChunksClaimed is no number"),
        ({"ChunksClaimed": [1.0] * 101}, "too many values"),
        ({"App": 7}, "dimension 'App'"),
    ],
)
def test_the_specification_notices_what_is_wrong(
    change: dict[str, Any], fault: str
) -> None:
    found = faults(json.loads(full()[0]) | change, 1)

    assert fault in " ".join(found)


# ── whether and where they are written ──────────────────────────────────────


def test_metrics_are_off_unless_they_are_asked_for() -> None:
    assert Settings().metrics == "off"
