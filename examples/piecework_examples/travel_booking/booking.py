"""The saga of a trip: first what can be given back, then the payment, then the mail.

Flight, hotel and car are easily given back, so they come first. The payment is the
pivot. If the bank refuses it, the compensation gives car, hotel and flight back, in
this order. If a booking is refused, only those before it are given back. A mail cannot
be taken back, so it comes last. A failed mail is only repeated.
"""

from __future__ import annotations

from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    Pipeline,
    Results,
    RetryPolicy,
    Stage,
)
from piecework_examples.travel_booking.services import charge, release, reserve, send


class Trip(BaseModel):
    """The payload of one chunk: a trip of one traveller."""

    trip: str
    traveller: str
    city: str
    card: str
    email: str
    cents: int = 90_000


class Itinerary(BaseModel):
    """What a traveller has in the end."""

    trip: str
    flight: str
    hotel: str
    car: str
    payment: str


QUICK = RetryPolicy(attempts=3, base=0.05, cap=0.5)


def service(name: str) -> Dependency:
    """Return a service that honours idempotency keys."""
    return Dependency(name, retry=QUICK, timeout=5.0, effect=Effect.PROVIDER_IDEMPOTENT)


airline, hotels, rental = service("airline"), service("hotels"), service("rental")
bank, mail = service("bank"), service("mail")


async def flight(ctx: Context[Trip]) -> str:
    """Book the flight."""
    trip = ctx.payload
    return await ctx.call(airline, reserve, "flight", trip.trip, trip.city)


async def cancel_flight(ctx: Context[Trip]) -> None:
    """Give the flight back."""
    await ctx.call(airline, release, "flight", ctx.payload.trip)


async def hotel(ctx: Context[Trip]) -> str:
    """Book the hotel."""
    trip = ctx.payload
    return await ctx.call(hotels, reserve, "hotel", trip.trip, trip.city)


async def cancel_hotel(ctx: Context[Trip]) -> None:
    """Give the hotel back."""
    await ctx.call(hotels, release, "hotel", ctx.payload.trip)


async def car(ctx: Context[Trip]) -> str:
    """Book the car."""
    trip = ctx.payload
    return await ctx.call(rental, reserve, "car", trip.trip, trip.city)


async def cancel_car(ctx: Context[Trip]) -> None:
    """Give the car back."""
    await ctx.call(rental, release, "car", ctx.payload.trip)


async def payment(ctx: Context[Trip]) -> str:
    """Charge the card: from here on the chunk only goes forward."""
    trip = ctx.payload
    return await ctx.call(bank, charge, trip.trip, trip.card, trip.cents)


async def confirmation(ctx: Context[Trip]) -> Itinerary:
    """Send what was booked."""
    trip = ctx.payload
    await ctx.call(mail, send, trip.trip, trip.city, trip.email)
    return Itinerary(
        trip=trip.trip,
        flight=ctx.result(flight),
        hotel=ctx.result(hotel),
        car=ctx.result(car),
        payment=ctx.result(payment),
    )


async def departures(results: Results) -> int:
    """List the booked travellers, and the others with the reason."""
    lines = [f"{item.label}: booked" async for item in results]
    count = len(lines)
    lines += [f"{missing.label}: {missing.error_code}" for missing in results.missing]
    await results.write(
        "departures.txt", "\n".join(lines) + "\n", media_type="text/plain"
    )
    return count


pipeline = Pipeline(
    name="travel-booking",
    payload=Trip,
    stages=[
        Stage(flight, compensate=cancel_flight, reversibility="easy"),
        Stage(hotel, compensate=cancel_hotel, reversibility="easy"),
        Stage(car, compensate=cancel_car, reversibility="easy"),
        Stage(payment, pivot=True, reversibility="hard"),
        Stage(confirmation, reversibility="impossible"),
    ],
    join=departures,
    label=lambda trip: f"{trip.trip} {trip.traveller} to {trip.city}",
    calls_per_chunk=5,
    owner="the travel desk",
)
