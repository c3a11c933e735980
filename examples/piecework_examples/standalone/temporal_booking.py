"""A Temporal workflow that books once although its activity is executed again."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.client import Client, WorkflowFailureError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError
from temporalio.worker import Worker

with workflow.unsafe.imports_passed_through():
    from piecework import CircuitBreaker, PermanentError, TransientError, envelope_of
    from piecework.errors.codes import ErrorClass
    from piecework.standalone import MemoryIdempotency, circuit_breaker, idempotent

QUEUE = "bookings"
LIMIT = timedelta(seconds=30)
RETRY = RetryPolicy(initial_interval=timedelta(milliseconds=100))
OUTAGE = 3  # requests that fail one after the other

sold: dict[str, str] = {}  # the airline's records: seats by idempotency key
asked: list[str] = []  # the requests that it received
told: list[str] = []  # the codes of the failures that Temporal received

store = MemoryIdempotency()  # with workers in several processes: a table
airline = circuit_breaker(
    CircuitBreaker(minimum_calls=OUTAGE, open_s=10), name="airline"
)


@idempotent(store, scope=lambda user, trip, **_: f"{user}/{trip}")
@airline
async def sell(user: str, trip: str, flight: str, idempotency_key: str = "") -> str:
    """Sell a seat as the airline would; it receives the key."""
    asked.append(f"{user} {trip} {flight}")
    requests = asked.count(asked[-1])
    if flight == "full":
        raise PermanentError("No seat is left.", code="runtime.stage.permanent")
    if flight == "busy" and requests == 1:
        raise TransientError("Too many requests.", retry_after=0.2)
    if flight == "down" and requests <= OUTAGE:
        raise ConnectionRefusedError
    seat = sold.setdefault(idempotency_key, f"{flight}, seat {len(sold) + 1}")
    if flight == "slow" and requests == 1:
        raise ConnectionResetError  # the seat is sold, and the answer is lost
    return seat


def failure_of(error: Exception) -> ApplicationError:
    """Return an error as Temporal understands it: whether to retry, and when."""
    known = envelope_of(error)
    after = known.retry_after
    told.append(known.code)
    return ApplicationError(
        known.message,
        type=known.code,
        non_retryable=known.error_class is not ErrorClass.TRANSIENT,
        next_retry_delay=None if after is None else timedelta(seconds=after),
    )


@activity.defn
async def book(user: str, trip: str, flight: str) -> str:
    """Book: the arguments are the same in every attempt, and so is the key."""
    try:
        return await sell(user, trip, flight)
    except Exception as error:
        raise failure_of(error) from error


@workflow.defn
class Booking:
    """Book a flight; Temporal retries the activity."""

    @workflow.run
    async def run(self, user: str, trip: str, flight: str) -> str:
        """Return the seat."""
        words = [user, trip, flight]
        seat: str = await workflow.execute_activity(
            book, args=words, start_to_close_timeout=LIMIT, retry_policy=RETRY
        )
        return seat


async def run(client: Client, flight: str, number: int = 1) -> str:
    """Run a workflow; return the seat, or the code of its failure."""
    booking, name = ["ann", "trip-1", flight], f"trip-1-{flight}-{number}"
    try:
        seat: str = await client.execute_workflow(
            Booking.run, args=booking, id=name, task_queue=QUEUE
        )
    except WorkflowFailureError as failure:
        cause = failure.cause
        if isinstance(cause, ActivityError):
            cause = cause.cause
        return str(getattr(cause, "type", cause))
    return seat


async def main(address: str = "localhost:7233") -> None:
    """Book when down; with a lost answer, twice; when busy, and when full."""
    client = await Client.connect(address)
    async with Worker(client, task_queue=QUEUE, workflows=[Booking], activities=[book]):
        for flight in ("down", "slow"):
            print(await run(client, flight))
        print(await run(client, "slow", 2))
        for flight in ("busy", "full"):
            print(await run(client, flight))
    print(len(sold), "seats sold in", len(asked), "requests")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
