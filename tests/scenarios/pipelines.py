"""The pipelines that the scenarios run, and a ledger outside of Piecework.

Each stage and call appends what it really did to the file that `SCENARIO_LEDGER` names.
It writes one line per event, at once, so that any kill leaves it readable.

The pipelines are in one module, because each worker process loads it by its name.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel

from piecework import (
    CircuitBreaker,
    Context,
    Dependency,
    Effect,
    Limits,
    Notification,
    PermanentError,
    Pipeline,
    Results,
    RetryPolicy,
    SequenceNumbers,
    Stage,
    TimeWindow,
    TransientError,
    Usage,
)

QUICK = RetryPolicy(attempts=2, base=0.01, cap=0.02)
USED = Usage(
    tokens_in=10, response_model="m-2", finish_reason="stop", cached_tokens_in=4
)
model = Dependency("model", retry=QUICK, usage=lambda n: USED)
# A short call timeout, so that a takeover waits briefly for effects in flight.
shop = Dependency("shop", retry=QUICK, timeout=5.0, effect=Effect.PROVIDER_IDEMPOTENT)
bank = replace(shop, name="bank", limits=Limits(requests_per_minute=2))


class Item(BaseModel):
    """A chunk: a number, and the trouble that it makes."""

    n: int
    trouble: str = ""
    calls: int = 0
    seconds: float = 0.0


def note(*words: object) -> None:
    """Write a line to the ledger."""
    line = " ".join(map(str, words)) + "\n"
    path = os.environ["SCENARIO_LEDGER"]
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, line.encode())
    os.close(descriptor)


def fixed() -> bool:
    """Return whether the cause of the trouble is removed."""
    return Path(os.environ["SCENARIO_LEDGER"] + ".fixed").exists()


async def pass_hold(point: str, number: int = 0) -> None:
    """Stay at a point for good, if the scenario holds it there."""
    if is_held(point, number):
        note("held", point)
        await asyncio.sleep(3600)


def is_held(point: str, number: int = 0) -> bool:
    """Return whether the scenario holds a point, for calls from a number on."""
    try:
        since = Path(f"{os.environ['SCENARIO_LEDGER']}.hold-{point}").read_text()
    except FileNotFoundError:
        return False
    return number >= int(since)


# ── two stages and a join ───────────────────────────────────────────────────


async def score(n: int, *, idempotency_key: str) -> int:
    """Simulate a slow, paid model call."""
    note("call", n, idempotency_key)
    await pass_hold("call", n % 1000)
    await asyncio.sleep(0.03)
    return n * 2


async def first(ctx: Context[Item]) -> int:
    """Write to the ledger and return at once."""
    note("first", ctx.chunk)
    return ctx.payload.n + 100


async def second(ctx: Context[Item]) -> list[int]:
    """Make the chunk's calls, four at a time, or its trouble."""
    note("second", ctx.chunk)
    await trouble(ctx)
    gate = asyncio.Semaphore(4)

    async def one(i: int) -> int:
        async with gate:
            return await ctx.call(model, score, ctx.chunk * 1000 + i)

    return list(await asyncio.gather(*map(one, range(ctx.payload.calls))))


async def trouble(ctx: Context[Item]) -> None:
    """Make the trouble that the payload names, until it is fixed."""
    await asyncio.sleep(ctx.payload.seconds)
    if fixed():
        return
    match ctx.payload.trouble.partition(" ")[0]:
        case "permanent":
            raise PermanentError("out of stock", code="tool.stock.none")
        case "transient":
            raise TransientError("not now", code="tool.stock.busy", retry_after=0.0)
        case "bug":
            note({"no": ctx.chunk}[ctx.payload.trouble])
        case "poison":
            os.kill(os.getpid(), signal.SIGKILL)
        case "block":
            while not fixed():
                time.sleep(0.05)  # noqa: ASYNC251 -- nothing else goes on meanwhile


async def total(ctx: Results) -> int:
    """Return the sum of the results."""
    note("join", ctx.job)
    found = 0
    async for result in ctx:
        found += 1 + len(result.value)
    await ctx.write("total.txt", f"{found} {len(ctx.missing)}")
    return found


counting = Pipeline(
    name="counting",
    payload=Item,
    stages=[Stage(first), Stage(second)],
    join=total,
    label=lambda item: f"item {item.n}",
    owner="the scenarios",
    runbook="https://runbooks.example/counting",
)


# ── a saga ──────────────────────────────────────────────────────────────────


async def book(what: str, n: int, *, idempotency_key: str) -> str:
    """Book something in a shop that honours idempotency keys."""
    note("book", what, n, idempotency_key)
    return f"{what}-{n}"


async def book_slowly(what: str, n: int, *, idempotency_key: str) -> str:
    """Take the request at once, and book a second later even if the caller has gone."""
    note("asked", what, n)
    await asyncio.sleep(1.0)
    return await book(what, n, idempotency_key=idempotency_key)


async def refuse(what: str, n: int, *, idempotency_key: str) -> str:
    """Refuse to book for now, as a service with too many requests does."""
    del what, n, idempotency_key
    raise TransientError("not now", code="tool.stock.busy", http_status=429)


async def unbook(what: str, n: int, *, idempotency_key: str) -> None:
    """Cancel the booking if there is one."""
    note("unbook", what, n, idempotency_key)


async def decline(what: str, n: int, *, idempotency_key: str) -> str:
    """Decline for good, as a bank does with 402."""
    note("declined", what, n, idempotency_key)
    raise PermanentError("declined", code="tool.stock.declined", http_status=402)


async def flight(ctx: Context[Item]) -> str:
    """Book the flight."""
    return await ctx.call(shop, book, "flight", ctx.payload.n)


async def cancel_flight(ctx: Context[Item]) -> None:
    """Compensate the flight."""
    await ctx.call(shop, unbook, "flight", ctx.payload.n)


async def hotel(ctx: Context[Item]) -> str:
    """Book the hotel; the booking may take some time."""
    if ctx.payload.trouble == "hotel-declined" and not fixed():
        return await ctx.call(shop, decline, "hotel", ctx.payload.n)
    if ctx.payload.trouble == "slow-hotel":
        return await ctx.call(shop, book_slowly, "hotel", ctx.payload.n)
    return await ctx.call(shop, book, "hotel", ctx.payload.n)


async def cancel_hotel(ctx: Context[Item]) -> None:
    """Compensate the hotel, which takes some time, or fails."""
    await asyncio.sleep(ctx.payload.seconds)
    if "hotel-stays" in ctx.payload.trouble and not fixed():
        raise PermanentError("no refund", code="tool.stock.none")
    await pass_hold("before")
    await ctx.call(shop, unbook, "hotel", ctx.payload.n)
    await pass_hold("after")
    if "hotel-half" in ctx.payload.trouble and not fixed():
        raise PermanentError("no receipt", code="tool.stock.none")


async def car(ctx: Context[Item]) -> str:
    """Book the car, with trouble before the pivot."""
    if "slow-car" in ctx.payload.trouble and not fixed():
        note("car", ctx.payload.n)
        await asyncio.sleep(60)
    if ctx.payload.trouble.startswith("car-"):
        ctx.payload.trouble = ctx.payload.trouble.removeprefix("car-")
        await trouble(ctx)
    return await ctx.call(shop, book, "car", ctx.payload.n)


async def cancel_car(ctx: Context[Item]) -> None:
    """Compensate the car, which may never have been booked."""
    await ctx.call(shop, unbook, "car", ctx.payload.n)


async def pay(ctx: Context[Item]) -> str:
    """Pay: the pivot; it makes its trouble before or in the call with its effect."""
    n, trouble_made = ctx.payload.n, ctx.payload.trouble
    if trouble_made == "pay-slowly":
        return await ctx.call(shop, book_slowly, "payment", n)
    if trouble_made == "pay-by-quota":
        note("paying", n)
        return await ctx.call(bank, book, "payment", n)
    if trouble_made == "slow-pay":
        note("paying", n)
        await asyncio.sleep(3.0)  # longer than the shutdown grace
    if trouble_made == "pay-refused":
        note("paying", n)
        return await ctx.call(shop, refuse, "payment", n)
    return await ctx.call(shop, book, "payment", n)


async def tell(ctx: Context[Item]) -> None:
    """Notify the customer, with trouble after the pivot."""
    if ctx.payload.trouble.startswith("tell-"):
        ctx.payload.trouble = ctx.payload.trouble.removeprefix("tell-")
        await trouble(ctx)
    note("tell", ctx.payload.n)


travel = Pipeline(
    name="travel",
    payload=Item,
    stages=[
        Stage(flight, compensate=cancel_flight),
        Stage(hotel, compensate=cancel_hotel),
        # Its trouble is outside of its calls.
        Stage(car, compensate=cancel_car, undo_if_failed=True),
        Stage(pay, pivot=True),
        Stage(tell),
    ],
    result=pay,
)


# ── pipelines that want to be told ──────────────────────────────────────────


async def told(notice: Notification) -> None:
    """Record a notification; fail once, or be slow, if the job's name says so."""
    note("notice", notice.event, notice.status, notice.idempotency_key)
    if notice.job.startswith("slow") and not fixed():
        await asyncio.sleep(3)
    if notice.job.startswith("flaky") and not fixed():
        raise TransientError("not now", code="tool.stock.busy")
    note("told", notice.event, notice.status, notice.cancelled_by or "nobody")


telling = replace(counting, name="telling", notify=told)
trip = replace(travel, name="trip", notify=told)


# ── a stage that blocks its thread ──────────────────────────────────────────


def grind(ctx: Context[Item]) -> int:
    """Block for longer than a lease, as CPU work does."""
    note("grind", ctx.chunk)
    time.sleep(ctx.payload.seconds)
    return ctx.payload.n


blocking = Pipeline(name="blocking", payload=Item, stages=[Stage(grind)])


# ── a stage that sleeps ─────────────────────────────────────────────────────


async def brew(ctx: Context[Item]) -> list[int]:
    """Call, sleep twice, and call again; the sleep does not depend on the run."""
    note("brew", ctx.chunk, ctx.attempt)
    before = await ctx.call(model, score, ctx.chunk)
    if ctx.payload.trouble == "die before" and not fixed():
        await asyncio.sleep(3600)  # until the worker is killed
    await ctx.sleep(ctx.payload.seconds)
    note("woke", ctx.chunk)
    await ctx.sleep(0.1, name="short")
    if ctx.payload.trouble == "die after" and not fixed():
        await asyncio.sleep(3600)
    after = await ctx.call(model, score, ctx.chunk + 1000)
    return [before, after]


sleeping = Pipeline(
    name="sleeping", payload=Item, stages=[Stage(first), Stage(brew)], join=total
)


# ── a pipeline that stores its payload in every form that there is ──────────


class Diary(BaseModel):
    """A chunk with a secret; `outcome`: what becomes of it."""

    secret: str
    outcome: str = "result"


#: Characters of a value that goes to the bucket.
LARGE = 70_000


async def read_out(secret: str, *, idempotency_key: str) -> str:
    """Return the secret, as a model repeats its prompt."""
    return f"{secret} {idempotency_key[:4]}"


async def read_at_length(secret: str, *, idempotency_key: str) -> str:
    """Return a large answer."""
    return f"{secret} {idempotency_key[:4]}" + "." * LARGE


async def copy_out(ctx: Context[Diary]) -> str:
    """Store the secret as answers of calls, small and large, and in a stage's row."""
    await ctx.call(model, read_out, ctx.payload.secret)
    await ctx.call(model, read_at_length, ctx.payload.secret)
    return ctx.payload.secret + "." * 1_000


async def lend(ctx: Context[Diary]) -> str:
    """Store the secret as effects, small and large, and as a large value."""
    await ctx.call(shop, read_out, ctx.payload.secret)
    await ctx.call(shop, read_at_length, ctx.payload.secret)
    return ctx.payload.secret + "." * LARGE


async def publish(ctx: Context[Diary]) -> str:
    """Return the secret, or fail with it."""
    if ctx.payload.outcome == "error":
        raise PermanentError(f"unfit: {ctx.payload.secret}", code="tool.stock.none")
    return ctx.payload.secret + "." * (LARGE if ctx.payload.outcome == "large" else 0)


async def collect(ctx: Results) -> str:
    """Write all secrets into a file."""
    found = [result.value[:40] async for result in ctx]
    await ctx.write("diary.txt", " ".join(found))
    return " ".join(found)


async def return_copy(ctx: Context[Diary]) -> None:
    """Undo the loan by a call that names the secret."""
    await ctx.call(shop, read_out, f"undo {ctx.payload.secret}")


revealing = Pipeline(
    name="revealing",
    payload=Diary,
    label=lambda diary: diary.secret,
    stages=[Stage(copy_out), Stage(lend, compensate=return_copy), Stage(publish)],
    join=collect,
)


# ── a supplier that is out of order until it is fixed ───────────────────────

SOON = CircuitBreaker(minimum_calls=4, window_calls=10, open_s=12.0, max_open_s=12.0)
supplier = Dependency("supplier", retry=QUICK, breaker=SOON)
depot = replace(supplier, name="depot", effect=Effect.PROVIDER_IDEMPOTENT, timeout=2.0)


async def supply(n: int, *, idempotency_key: str) -> int:
    """Deliver, unless the depot is out of order."""
    note("asked", n)
    await asyncio.sleep(0.2)
    if not fixed():
        raise TransientError("out of order", code="tool.supplier.down")
    note("supplied", n, idempotency_key)
    return n


async def order(ctx: Context[Item]) -> int:
    """Order from the supplier."""
    return await ctx.call(supplier, supply, ctx.chunk)


leaning = Pipeline(name="leaning", payload=Item, stages=[Stage(order)])


# ── a supplier that fails for one input ─────────────────────────────────────

POISON, CALLS = 16, 6
factory = replace(supplier, name="factory", retry=replace(QUICK, attempts=1))


async def produce(n: int, part: int, *, idempotency_key: str) -> int:
    """Make a part, unless the input is poison."""
    await asyncio.sleep(0.05)
    if n == POISON:
        raise TransientError("broken", code="tool.http.500_server_error")
    note("produced", n, part, idempotency_key)
    return part


async def assemble(ctx: Context[Item]) -> int:
    """Make all parts at once."""
    parts = (ctx.call(factory, produce, ctx.payload.n, part) for part in range(CALLS))
    return sum(await asyncio.gather(*parts))


assembling = Pipeline(name="assembling", payload=Item, stages=[Stage(assemble)])


async def reserve(ctx: Context[Item]) -> int:
    """Reserve in the depot, unless it is out of order."""
    return await ctx.call(depot, book, "place", ctx.payload.n)


async def free(ctx: Context[Item]) -> None:
    """Free the place: by then the depot may be out of order."""
    await ctx.call(depot, supply, ctx.payload.n)


async def fail(ctx: Context[Item]) -> None:
    """Fail permanently, so that the place must be freed."""
    raise PermanentError("out of stock", code="tool.stock.none")


freeing = Pipeline(
    name="freeing",
    payload=Item,
    stages=[Stage(reserve, compensate=free), Stage(fail)],
)


async def knock(n: int, *, idempotency_key: str) -> None:
    """Be refused permanently once the depot works again."""
    note("knock", n, idempotency_key)
    if not fixed():
        raise TransientError("out of order", code="tool.supplier.down")
    raise PermanentError("no such customer", http_status=404)


async def seal(ctx: Context[Item]) -> None:
    """Pass the pivot, if the depot permits it."""
    await ctx.call(depot, knock, ctx.payload.n)


sealing = Pipeline(
    name="sealing",
    payload=Item,
    stages=[Stage(flight, compensate=cancel_flight), Stage(seal, pivot=True)],
)


# ── an effect that can be neither repeated nor looked up ────────────────────

fax = Dependency("fax", retry=QUICK, timeout=5.0, effect=Effect.NON_IDEMPOTENT)


async def transmit(n: int, *, idempotency_key: str) -> str:
    """Send, and never learn the outcome until the trouble is fixed."""
    note("transmit", n, idempotency_key)
    if not fixed():
        raise ConnectionResetError
    return f"sent {n}"


async def send_fax(ctx: Context[Item]) -> str:
    """Send the chunk's fax, after a while."""
    note("write", ctx.payload.n)
    await asyncio.sleep(ctx.payload.seconds)
    return await ctx.call(fax, transmit, ctx.payload.n)


async def first_of(ctx: Context[Item]) -> int:
    """Return the number of the chunk."""
    return ctx.payload.n


async def fax_sum(results: Results[int]) -> str:
    """Send one fax for all chunks."""
    return await results.call(fax, transmit, sum([r.value async for r in results]))


faxing = Pipeline(name="faxing", payload=Item, stages=[Stage(send_fax)])
faxing_once = Pipeline(
    name="faxing-once", payload=Item, stages=[Stage(first_of)], join=fax_sum
)


# ── a provider with a quota ─────────────────────────────────────────────────

metered = Dependency("metered", limits=Limits(requests_per_minute=240), retry=QUICK)
scarce = Dependency("scarce", limits=Limits(requests_per_minute=60), retry=QUICK)


async def consume(n: int, *, idempotency_key: str) -> int:
    """Use the quota; the ledger has the time."""
    del idempotency_key
    note("consumed", n, asyncio.get_running_loop().time())
    await asyncio.sleep(0.2)
    return n


async def draw_metered(ctx: Context[Item]) -> int:
    """Make as many calls as the item says, at once."""
    calls = (ctx.call(metered, consume, n) for n in range(ctx.payload.calls))
    return sum(await asyncio.gather(*calls))


async def draw_scarce(ctx: Context[Item]) -> int:
    """Make one call."""
    return await ctx.call(scarce, consume, ctx.payload.n)


drawing = Pipeline(name="drawing", payload=Item, stages=[Stage(draw_metered)])
scraping = Pipeline(name="scraping", payload=Item, stages=[Stage(draw_scarce)])


# ── postings of accounts, in their order ────────────────────────────────────


class Posting(Item):
    """A chunk of an account; empty: of none."""

    account: str = ""


async def post(ctx: Context[Posting]) -> int:
    """Post to the account: first, on its second attempt, or with trouble."""
    item = ctx.payload
    note("begin", item.account or "-", item.n)
    if item.trouble == "once" and ctx.attempt == 1:
        raise TransientError("not now", code="tool.stock.busy", retry_after=0.1)
    await trouble(ctx)
    note("end", item.account or "-", item.n)
    return item.n


posting = Pipeline(
    name="posting",
    payload=Posting,
    stages=[Stage(post)],
    ordered_by=lambda item: item.account or None,
)


# ── calls that several chunks make once ─────────────────────────────────────

mailer = Dependency(
    "mailer",
    retry=replace(QUICK, attempts=1),
    timeout=60.0,
    effect=Effect.PROVIDER_IDEMPOTENT,
    by=TimeWindow(300),
    scope="ann",
)
account = replace(
    mailer, name="account", by=SequenceNumbers(of=lambda n: n), scope="account-1"
)


async def notify(text: str, *, idempotency_key: str) -> str:
    """Send a notice; until the trouble is fixed the answer does not come."""
    note("notified", text, idempotency_key)
    while text == "hangs" and not fixed():  # noqa: ASYNC110 -- of another process
        await asyncio.sleep(0.05)
    return f"sent {text}"


async def send_notice(ctx: Context[Item]) -> str:
    """Send the notice of the item."""
    note("sending", ctx.job)
    return await ctx.call(mailer, notify, ctx.payload.trouble)


async def book_number(n: int, *, idempotency_key: str) -> int:
    """Book one step of an account."""
    note("booked", n, idempotency_key)
    return n


async def send_number(ctx: Context[Item]) -> int:
    """Book the step of the item."""
    return await ctx.call(account, book_number, ctx.payload.n)


noticing = Pipeline(name="noticing", payload=Item, stages=[Stage(send_notice)])
booking = Pipeline(name="booking", payload=Item, stages=[Stage(send_number)])


# ── a stage that runs again, before one with an effect ──────────────────────


async def rate(n: int, *, idempotency_key: str) -> int:
    """Rate a number: a paid answer."""
    note("rated", n, idempotency_key)
    return n * 10


async def charge(cents: int, *, idempotency_key: str) -> str:
    """Charge: an act of which the bank keeps a line."""
    note("charged", cents, idempotency_key)
    return f"receipt {cents}"


async def price(ctx: Context[Item]) -> int:
    """Return a price, which is another one on each run."""
    note("priced", ctx.payload.n)
    return await ctx.call(model, rate, ctx.payload.n) + surcharge()


def surcharge() -> int:
    """Return what the scenario adds to each price."""
    added = Path(f"{os.environ['SCENARIO_LEDGER']}.price")
    return int(added.read_text()) if added.exists() else 0


async def settle_price(ctx: Context[Item]) -> str:
    """Charge the price."""
    return await ctx.call(shop, charge, ctx.result(price))


async def ship(ctx: Context[Item]) -> str:
    """Fail until the trouble is removed."""
    if not fixed():
        raise PermanentError("no carrier", code="tool.stock.none")
    return f"shipped for {ctx.result(settle_price)}"


async def pack_up(ctx: Context[Item]) -> int:
    """Have a name between the effect and the failure."""
    note("packed", ctx.payload.n)
    return ctx.payload.n


faxing_late = Pipeline(
    name="faxing-late", payload=Item, stages=[Stage(pack_up), Stage(send_fax)]
)
selling = Pipeline(
    name="selling",
    payload=Item,
    stages=[Stage(price), Stage(settle_price), Stage(pack_up), Stage(ship)],
)
selling_past_pivot = Pipeline(
    name="selling-past-pivot",
    payload=Item,
    stages=[
        Stage(price),
        Stage(settle_price, pivot=True),
        Stage(pack_up),
        Stage(ship),
    ],
)
