"""Book a flight once although the connection breaks, without worker, queue or AWS."""

from __future__ import annotations

import asyncio

from piecework import CircuitBreaker
from piecework.standalone import MemoryIdempotency, circuit_breaker, idempotent, retry

sold: dict[str, str] = {}  # the airline's records: seats by idempotency key
lost = ["the first answer"]  # answers that never arrive

store = MemoryIdempotency()
airline = circuit_breaker(CircuitBreaker(), name="airline")  # shared by all calls to it


@idempotent(store, scope=lambda user, trip, **_: f"{user}/{trip}")
@airline
@retry()
async def book(user: str, trip: str, flight: str, idempotency_key: str = "") -> str:
    """Sell a seat as the airline would; its first answer is lost."""
    seat = f"{flight}, seat {len(sold) + 1}, for {user} ({trip})"
    sold.setdefault(idempotency_key, seat)
    if lost:
        raise ConnectionError(lost.pop())
    return sold[idempotency_key]


async def main() -> None:
    """Book three times, twice at once, as an impatient agent does."""
    print(await asyncio.gather(book("ann", "rome", "LH1"), book("ann", "rome", "LH1")))
    print(await book("ann", "rome", "LH1"))
    print(await book("bob", "rome", "LH1"))
    print(len(sold), "seats sold")


if __name__ == "__main__":
    asyncio.run(main())
