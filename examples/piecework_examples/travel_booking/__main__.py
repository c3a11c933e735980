"""Book trips in memory and show the services' book, or only show the book.

python -m piecework_examples.travel_booking
python -m piecework_examples.travel_booking --book out/travel_book.sqlite
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from piecework.testing import run_in_memory
from piecework_examples.travel_booking.book import VARIABLE, Book
from piecework_examples.travel_booking.booking import Trip, pipeline

TRIPS = Path(__file__).with_name("trips.jsonl")


def main(arguments: Sequence[str] | None = None) -> int:
    """Book, or look; return the exit code."""
    options = argparse.ArgumentParser(
        prog="python -m piecework_examples.travel_booking"
    )
    options.add_argument("--trips", type=Path, default=TRIPS, help="a .jsonl file")
    options.add_argument("--book", type=Path, help="book nothing: show this book")
    given = options.parse_args(arguments)
    for path in filter(None, (given.trips, given.book)):
        if not path.is_file():
            options.error(f"the file {path} does not exist")
    lines = given.trips.read_text("utf-8").splitlines()
    trips = [Trip.model_validate_json(line) for line in lines]
    if given.book:
        show(Book(given.book), trips)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "book.sqlite"
        os.environ[VARIABLE] = str(path)
        run = asyncio.run(run_in_memory(pipeline, trips))
        print(run.artifacts["departures.txt"].decode())
        show(Book(path), trips)
    return 0


def show(book: Book, trips: Sequence[Trip]) -> None:
    """Print what the services have done about each trip, in its order."""
    for trip in trips:
        done = [f"{entry.service} {entry.act}" for entry in book.entries(trip.trip)]
        print(f"{trip.trip}: {', '.join(done) or 'nothing'}")


if __name__ == "__main__":
    sys.exit(main())
