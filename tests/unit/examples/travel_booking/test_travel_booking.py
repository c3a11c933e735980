from __future__ import annotations

from pathlib import Path

import pytest

from piecework.domain.outcome import CompensationResult, DeadLettered
from piecework.pipelines import lint_stage_order
from piecework.testing import MemoryRun, run_in_memory
from piecework_examples.travel_booking import __main__ as command
from piecework_examples.travel_booking.book import VARIABLE, Book
from piecework_examples.travel_booking.booking import Itinerary, Trip, pipeline

BOOKED = ["flight booked", "hotel booked", "car booked"]
UNDONE = ["car released", "hotel released", "flight released"]


@pytest.fixture
def book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Book:
    path = tmp_path / "book.sqlite"
    monkeypatch.setenv(VARIABLE, str(path))
    return Book(path)


async def travel(
    city: str = "Paris", card: str = "4242", email: str = "a@example.com"
) -> MemoryRun:
    trip = Trip(trip="T", traveller="Ada", city=city, card=card, email=email)
    return await run_in_memory(pipeline, [trip])


def done(book: Book) -> list[str]:
    return [f"{entry.service} {entry.act}" for entry in book.entries("T")]


async def test_a_trip_is_booked_paid_for_and_confirmed(book: Book) -> None:
    run = await travel()

    assert [*BOOKED, "bank charged 90000", "mail sent"] == done(book)
    assert isinstance(run.results[0], Itinerary)
    assert b"T Ada to Paris: booked\n" == run.artifacts["departures.txt"]


async def test_a_refused_payment_compensates_car_hotel_and_flight_once(
    book: Book,
) -> None:
    outcome = (await travel(card="4000-0002")).outcomes[0]

    assert BOOKED + UNDONE == done(book)
    assert isinstance(outcome, DeadLettered)
    assert ("tool.http.4xx_rejected", CompensationResult.COMPENSATED) == (
        outcome.failure.code,
        outcome.compensation,
    )


async def test_what_was_never_booked_is_not_released(book: Book) -> None:
    run = await travel(city="Atlantis")

    outcome = run.outcomes[0]
    assert ["flight booked", "flight released"] == done(book)
    assert isinstance(outcome, DeadLettered)
    assert (1, ("hotel",)) == (run.calls("release"), outcome.stages_without_effect)


async def test_a_busy_service_is_asked_again(book: Book) -> None:
    await travel(city="Lisbon")

    assert [*BOOKED, "bank charged 90000", "mail sent"] == done(book)


async def test_a_failure_after_the_payment_goes_forward(book: Book) -> None:
    run = await travel(city="Oslo")

    assert [*BOOKED, "bank charged 90000", "mail sent"] == done(book)
    assert [0] == list(run.results)


async def test_a_refused_mail_compensates_nothing(book: Book) -> None:
    outcome = (await travel(email="a@example.invalid")).outcomes[0]

    assert [*BOOKED, "bank charged 90000"] == done(book)
    assert isinstance(outcome, DeadLettered)
    assert CompensationResult.PAST_PIVOT == outcome.compensation


def test_what_came_under_a_key_is_answered_once(book: Book) -> None:
    assert "first" == book.answer("key", lambda _: "first")
    assert "first" == book.answer("key", lambda _: "second")
    assert [1, 2] == [book.tried("key"), book.tried("key")]


def test_the_order_of_its_steps_needs_no_advice() -> None:
    assert [] == lint_stage_order(pipeline)


def test_its_command_books_in_memory_and_shows_the_book(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, "put back at the end")

    assert 0 == command.main([])

    shown = capsys.readouterr().out
    assert "T2 Ben to Paris: tool.http.4xx_rejected" in shown
    assert f"T2: {', '.join(BOOKED + UNDONE)}" in shown


@pytest.mark.parametrize("option", ["--book", "--trips"])
def test_what_is_not_there_is_neither_read_nor_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(SystemExit) as usage:
        command.main([option, str(missing)])
    assert 2 == usage.value.code
    assert f"the file {missing} does not exist" in capsys.readouterr().err
    assert [] == [*tmp_path.iterdir()]
