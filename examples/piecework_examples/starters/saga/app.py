"""Book a trip in stages; a failure before the payment cancels what was booked."""

from piecework import (
    Code,
    Context,
    Dependency,
    Effect,
    PermanentError,
    Pipeline,
    Stage,
)
from pydantic import BaseModel


class Trip(BaseModel):
    """The payload of one chunk: a line of rows.jsonl."""

    traveller: str
    city: str
    cents: int


# A dead letter shows the cause and the next step of its code.
NO_CITY = Code(
    "hotels.city.unknown",
    cause="The hotels have no room in this city.",
    recovery="Correct the city: piecework dlq redrive --patch.",
)
DECLINED = Code(
    "bank.card.declined",
    cause="The bank declined the card; nothing was paid.",
    recovery="Ask the traveller for another card, then redrive.",
)

# Each service honours the idempotency key: a repeated request changes nothing.
hotels = Dependency("hotels", effect=Effect.PROVIDER_IDEMPOTENT)
bank = Dependency("bank", effect=Effect.PROVIDER_IDEMPOTENT)
mail = Dependency("mail", effect=Effect.PROVIDER_IDEMPOTENT)


@hotels.call
async def reserve_room(city: str, *, idempotency_key: str = "") -> str:
    """Stand for a service; send it the key, too. A refusal reserves nothing."""
    del idempotency_key
    if city == "Atlantis":
        message = f"There is no hotel in {city}."
        raise PermanentError(message, code=NO_CITY, http_status=422)
    return f"room in {city}"


@hotels.call
async def release_room(city: str, *, idempotency_key: str = "") -> None:
    """Release a room; nothing happens if it is not reserved."""
    del city, idempotency_key


@bank.call
async def charge_card(traveller: str, cents: int, *, idempotency_key: str = "") -> str:
    """Take the payment; the status of a refusal proves that nothing was paid."""
    del idempotency_key
    if cents > 100_000:
        raise PermanentError("The card was declined.", code=DECLINED, http_status=402)
    return f"{traveller} paid {cents / 100:.2f}"


@mail.call
async def send_mail(traveller: str, text: str, *, idempotency_key: str = "") -> None:
    """Send a mail; it cannot be taken back."""
    del traveller, text, idempotency_key


async def book_hotel(ctx: Context[Trip]) -> str:
    """Reserve; the value of a stage is stored when it returns."""
    return await reserve_room(ctx.payload.city)


async def cancel_hotel(ctx: Context[Trip]) -> None:
    """Compensate `book_hotel`; it does not run if the hotel refused."""
    await release_room(ctx.payload.city)


async def take_payment(ctx: Context[Trip]) -> str:
    """Pay: from here on a chunk only goes forward."""
    return await charge_card(ctx.payload.traveller, ctx.payload.cents)


async def confirm(ctx: Context[Trip]) -> str:
    """Send what was booked; the last value is the result of the chunk."""
    booked = f"{ctx.result(book_hotel)}, {ctx.result(take_payment)}"
    await send_mail(ctx.payload.traveller, booked)
    return booked


trip = Pipeline(
    "trip",
    payload=Trip,
    stages=[
        Stage(book_hotel, compensate=cancel_hotel),
        Stage(take_payment, pivot=True),
        Stage(confirm),
    ],
    label=lambda trip: trip.traveller,
    owner="your team",
    runbook="README.md",
    codes=[NO_CITY, DECLINED],
)
