from __future__ import annotations

import asyncio
import io
import json
import logging
import re
from pathlib import Path
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from piecework.errors import UsageError
from piecework.telemetry import EVENTS, configure, configure_late, emit
from piecework.telemetry.emit import quiet_log
from tests.unit.piecework.telemetry.whole import emit_whole

ROOT = Path(__file__).parents[4]
PACKAGES = ("piecework", "workers", "orchestrator")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def lines(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


@pytest.mark.parametrize("name", sorted(EVENTS))
def test_every_event_has_a_description_and_can_be_emitted_with_all_fields(
    name: str,
) -> None:
    event = EVENTS[name]
    fields = dict.fromkeys(event.fields, 1)

    with capture_logs() as captured:
        emit(structlog.get_logger(), name, **fields)

    assert event.when
    expected = {"event": name, "log_level": event.level, **fields}
    if event.level == "exception":
        expected |= {"log_level": "error", "exc_info": True}
    assert captured == [expected]


def test_every_event_is_emitted_somewhere_and_none_but_these() -> None:
    emitted = re.compile(r'emit\(\s*[\w.()]+,\s*"([a-z_.]+)"')
    sources = [p for name in PACKAGES for p in (ROOT / name).rglob("*.py")]
    found = {name for p in sources for name in emitted.findall(p.read_text("utf-8"))}

    assert set(EVENTS) == found


def test_every_field_of_an_event_is_given_where_the_event_is_emitted() -> None:
    sources = [
        path.read_text("utf-8")
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if path.name not in {"events.py", "metrics.py"}
    ]
    never = [
        (name, field)
        for name, event in EVENTS.items()
        for field in event.fields
        if not any(
            f'"{name}"' in text and re.search(rf'\b{field}=|"{field}":', text)
            for text in sources
        )
    ]

    assert [] == never


def test_the_attempt_of_a_call_has_the_fields_of_the_specification() -> None:
    specified = {"error_code", "attempt_number", "delay_ms", "idempotency_key_hash"}

    assert specified <= EVENTS["call.attempt"].fields


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("chunk.exploded", {}),
        ("chunk.claimed", {"payload": "secret"}),
        ("chunk.claimed", {"receive_count": 1, "idempotency_key": "k"}),
        ("chunk.claimed", {}),
        ("call.attempt", {"dependency": "model"}),
    ],
)
def test_an_event_whose_name_or_fields_are_not_in_the_catalogue_is_refused(
    name: str, fields: dict[str, Any]
) -> None:
    with capture_logs() as captured, pytest.raises(KeyError):
        emit(structlog.get_logger(), name, **fields)

    assert captured == []


def test_ids_may_go_with_any_event() -> None:
    with capture_logs() as captured:
        emit(structlog.get_logger(), "worker.stopped", job="j1", chunk=7)

    assert [("j1", 7)] == [(each["job"], each["chunk"]) for each in captured]


def test_a_stream_that_is_no_terminal_has_one_json_object_a_line() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)
    emit(structlog.get_logger().bind(job="j1"), "worker.stopping", in_progress=3)

    (line,) = lines(stream)
    stamp = line.pop("timestamp")

    assert line == {
        "event": "worker.stopping",
        "job": "j1",
        "level": "info",
        "in_progress": 3,
    }
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", stamp)


def test_a_late_configuration_waits_for_the_first_line() -> None:
    streams = io.StringIO(), io.StringIO()
    configure_late("info", stream=streams[0])
    assert not structlog.is_configured()
    emit(quiet_log(), "worker.stopping", in_progress=3)
    assert structlog.is_configured()

    structlog.reset_defaults()
    configure_late("info", stream=streams[1])
    logging.getLogger("a.library").warning("slow")
    logging.getLogger("a.library").warning("slower")

    assert ["worker.stopping"] == [line["event"] for line in lines(streams[0])]
    assert ["slow", "slower"] == [line["event"] for line in lines(streams[1])]


@pytest.mark.parametrize(
    ("environ", "expected"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True)],
)
def test_a_terminal_has_colours_unless_no_color_says_otherwise(
    environ: dict[str, str], *, expected: bool
) -> None:
    stream = Terminal()
    configure("info", stream=stream, environ=environ)
    emit(structlog.get_logger(), "worker.stopping", in_progress=1)

    assert "worker.stopping" in stream.getvalue()
    assert expected == ("\x1b[" in stream.getvalue())


@pytest.mark.parametrize("as_json", [True, False])
def test_the_form_can_be_chosen_whatever_the_stream(*, as_json: bool) -> None:
    stream = Terminal() if as_json else io.StringIO()
    configure("info", json=as_json, stream=stream)
    emit(structlog.get_logger(), "worker.stopping", in_progress=1)

    assert as_json == stream.getvalue().startswith("{")


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        ("debug", ["chunk.claimed", "chunk.succeeded", "chunk.dead_lettered"]),
        ("INFO", ["chunk.succeeded", "chunk.dead_lettered"]),
        ("error", ["chunk.dead_lettered"]),
    ],
)
def test_events_below_the_level_are_left_out(level: str, expected: list[str]) -> None:
    stream = io.StringIO()
    configure(level, stream=stream)
    for name in ("chunk.claimed", "chunk.succeeded", "chunk.dead_lettered"):
        emit_whole(name)

    assert expected == [line["event"] for line in lines(stream)]


def test_an_unknown_level_is_a_coded_error() -> None:
    with pytest.raises(UsageError) as caught:
        configure("loud", stream=io.StringIO())

    assert caught.value.code == "config.setting.invalid"


async def test_bound_fields_belong_to_the_events_of_one_task() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)

    async def chunk(number: int) -> None:
        structlog.contextvars.bind_contextvars(chunk=number)
        await asyncio.sleep(0)
        emit_whole("chunk.succeeded", calls=number)

    await asyncio.gather(chunk(1), chunk(2))

    assert [(1, 1), (2, 2)] == [
        (line["chunk"], line["calls"]) for line in lines(stream)
    ]


@pytest.mark.parametrize("as_json", [True, False])
def test_a_traceback_is_logged_without_secrets_and_without_locals(
    *, as_json: bool
) -> None:
    stream = io.StringIO()
    configure("info", json=as_json, stream=stream)
    payload = "the client's own words"

    def fail(_text: str) -> None:
        raise ValueError("bad key AKIAIOSFODNN7EXAMPLE")

    try:
        fail(payload)
    except ValueError:
        structlog.get_logger().exception("worker.stopped")

    assert "ValueError" in stream.getvalue()
    assert "bad key" not in stream.getvalue()
    assert payload not in stream.getvalue()


def test_warnings_of_libraries_come_in_the_same_form_and_once() -> None:
    stream = io.StringIO()
    configure("info", stream=stream)
    configure("info", stream=stream)
    logging.getLogger("asyncio").info("not shown")
    logging.getLogger("asyncio").warning("slow callback: %s", "f")

    assert [("slow callback: f", "warning")] == [
        (line["event"], line["level"]) for line in lines(stream)
    ]
