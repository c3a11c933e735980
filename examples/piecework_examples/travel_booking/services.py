"""Stand-ins for the services of a travel agency; their faults follow from the trip.

- A card that ends in 0002 is declined.
- There is no hotel in Atlantis; hotels in Lisbon answer 503 the first time.
- An address at example.invalid takes no mail.
- A mail to a traveller in Oslo is answered 503 four times. One claim makes fewer tries.
"""

from __future__ import annotations

import asyncio
import sqlite3
from types import SimpleNamespace
from typing import Final

from piecework_examples.travel_booking.book import Entry, has_entry, the_book, write

DECLINED, UNPROCESSABLE, BUSY = 402, 422, 503
#: Tries of a mail to Oslo that the server answers with "later".
BUSY_MAILS: Final = 4


class AnswerError(Exception):
    """An unsuccessful answer, in the form in which HTTP clients raise it.

    The status shows whether there is an effect: a 4xx needs no compensation.
    """

    def __init__(self, status: int) -> None:
        """Keep the status where Piecework looks for it."""
        super().__init__(f"the service answered {status}")
        self.response = SimpleNamespace(status_code=status, headers={})


async def reserve(service: str, trip: str, city: str, *, idempotency_key: str) -> str:
    """Reserve something; return its number."""
    if service == "hotel" and city == "Atlantis":
        raise AnswerError(UNPROCESSABLE)
    if service == "hotel" and city == "Lisbon":
        await answer_later(1, idempotency_key)

    def act(book: sqlite3.Connection) -> str:
        write(book, idempotency_key, Entry(trip, service, "booked"))
        return f"{service}-{trip}"

    return await asyncio.to_thread(the_book().answer, idempotency_key, act)


async def release(service: str, trip: str, *, idempotency_key: str) -> str:
    """Give back a reservation; without one, nothing happens."""

    def act(book: sqlite3.Connection) -> str:
        if not has_entry(book, trip, service):
            return "nothing to release"
        write(book, idempotency_key, Entry(trip, service, "released"))
        return "released"

    return await asyncio.to_thread(the_book().answer, idempotency_key, act)


async def charge(trip: str, card: str, cents: int, *, idempotency_key: str) -> str:
    """Take the money; return the number of the payment."""
    if card.endswith("0002"):
        raise AnswerError(DECLINED)

    def act(book: sqlite3.Connection) -> str:
        write(book, idempotency_key, Entry(trip, "bank", f"charged {cents}"))
        return f"payment-{trip}"

    return await asyncio.to_thread(the_book().answer, idempotency_key, act)


async def send(trip: str, city: str, address: str, *, idempotency_key: str) -> str:
    """Send a confirmation."""
    if address.endswith("@example.invalid"):
        raise AnswerError(UNPROCESSABLE)
    if city == "Oslo":
        await answer_later(BUSY_MAILS, idempotency_key)

    def act(book: sqlite3.Connection) -> str:
        write(book, idempotency_key, Entry(trip, "mail", "sent"))
        return f"mail-{trip}"

    return await asyncio.to_thread(the_book().answer, idempotency_key, act)


async def answer_later(times: int, key: str) -> None:
    """Answer the first tries under a key with 503."""
    if await asyncio.to_thread(the_book().tried, key) <= times:
        raise AnswerError(BUSY)
