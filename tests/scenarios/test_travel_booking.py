"""The example of a saga, run as its reader would run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from piecework_examples.travel_booking.__main__ import TRIPS
from piecework_examples.travel_booking.book import VARIABLE, Book
from tests.scenarios.command_line import end, piecework, start
from tests.scenarios.conftest import Scenario

BOOKED = ["flight booked", "hotel booked", "car booked"]
PAID = [*BOOKED, "bank charged 90000"]
WHOLE = [*PAID, "mail sent"]


async def test_each_trip_is_booked_or_compensated_once(
    machine: Scenario, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(tmp_path / "book.sqlite"))
    worker = await start("worker", "--pipelines", "piecework_examples.travel_booking")

    asked = ("submit", "piecework_examples.travel_booking:pipeline", str(TRIPS))
    done = await piecework(*asked, "--job-id", "trips", "--wait", "--timeout", "1m")
    worker.terminate()
    await end(worker)

    book = Book(tmp_path / "book.sqlite")
    assert 5 == done.exit_code, done.stderr
    assert {
        "T1": WHOLE,
        "T2": [*BOOKED, "car released", "hotel released", "flight released"],
        "T3": WHOLE,
        "T4": ["flight booked", "flight released"],
        "T5": PAID,
        "T6": WHOLE,
    } == {
        name: [f"{entry.service} {entry.act}" for entry in book.entries(name)]
        for name in ("T1", "T2", "T3", "T4", "T5", "T6")
    }
    letters = await machine.letters("trips")
    assert {
        (1, "tool.http.4xx_rejected", "COMPENSATED"),
        (3, "tool.http.422_unprocessable", "COMPENSATED"),
        (4, "tool.http.422_unprocessable", "PAST_PIVOT"),
    } == {(x["chunk"], x["error_code"], x["compensation"]) for x in letters}
