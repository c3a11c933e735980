"""Take the pictures of `docs/page.md` from seeded jobs: `make screens`.

A person looks at them before they are committed, at both widths, light and dark.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Final

import uvicorn
from playwright.async_api import Browser, async_playwright

from piecework import (
    Context,
    Dependency,
    Effect,
    Limits,
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
    telemetry,
)
from piecework.client import Client
from piecework.settings import Settings
from piecework.store.breakers import Breakers
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.ui.access import make_access
from piecework_orchestrator.ui.app import make_app
from piecework_simulation.in_process import InProcessAws, worker_beside

IMAGES: Final = Path(__file__).parents[1] / "docs/images"
PORT, TOKEN = 8322, "the-token-of-a-picture"
#: Which input does what, by the remainder of its number.
DEAD, BUSY, SLOW = 41, 53, 97
#: Names as long as operators write them.
LONG: Final = "quarterly-reconciliation-of-supplier-invoices-northern-region-Q4"
PAGES: Final = {
    "jobs": "/",
    "search": "/?q=invoices&status=PARTIAL",
    "batch": "/actions/pause?selection=1&pick=archive-2025,payouts-2026-11",
    "doubt": "/jobs/payouts-2026-11",
    "doubt-chunk": "/jobs/payouts-2026-11/chunks/1",
    "find": "/jobs/invoices-2026-11/find?q=row+4",
    "job": "/jobs/invoices-2026-11",
    "long": f"/jobs/{LONG}",
    "large": "/jobs/archive-2025",
    "chunk": "/jobs/invoices-2026-11/chunks/3",
    "attempts": "/jobs/invoices-2026-11/chunks/53",
    "redrive": "/actions/redrive?job=invoices-2026-11",
    "edit": "/actions/edit?job=invoices-2026-11&chunk=3",
    "pipeline": "/actions/pause-pipeline?pipeline=invoices",
    "paused": "/jobs/refunds-2026-11",
    "questions": "/questions",
    "question": "/jobs/refunds-2026-11/chunks/0/question",
    "results": "/jobs/invoices-2026-10/results",
    "dead-letters": "/dead-letters",
    "workers": "/workers",
}
#: The pictures that the documentation shows; the others are only looked at.
SHOWN: Final = {"jobs-light", "job-light", "chunk-dark"}


cards: Final = Dependency("cards", effect=Effect.NON_IDEMPOTENT, timeout=0.05)


async def read_invoice(ctx: Context[Paragraph]) -> int:
    """Read an invoice; some fail, some are slow."""
    number = int(ctx.payload.text.split()[-1])
    if number % DEAD == DEAD // 13:
        raise PermanentError("the invoice has no total")
    if number and number % BUSY == 0:
        again = 60 if ctx.attempt > 1 else 0.3
        raise TransientError("the reader is busy", retry_after=again)
    await asyncio.sleep(600 if number % SLOW == 0 else 0.01)
    return number


async def open_invoice(ctx: Context[Paragraph]) -> str:
    """Open an invoice."""
    await asyncio.sleep(0.02)
    return ctx.payload.text


async def refuse_all(_: Context[Paragraph]) -> None:
    """Fail with a message as long as programs write them."""
    message = "the supplier's register answered with an empty document: "
    raise PermanentError(message + "https://registers.example.com/" + "a1b2c3d4" * 30)


@cards.call
async def charge(cents: int) -> str:
    """Charge a card; the answer comes too late."""
    await asyncio.sleep(5)
    return f"paid {cents}"


async def pay_out(ctx: Context[Paragraph]) -> str:
    """Pay, and leave in doubt whether that happened."""
    return await charge(len(ctx.payload.text))


async def ask_a_person(ctx: Context[Paragraph]) -> bool:
    """Ask whether to pay."""
    text = f"Pay back {ctx.payload.text} of ACME Ltd., received on 3 November?"
    return (await ctx.wait_for("approval", ask=text, timeout=86_400.0)).approved


PIPELINE: Final = Pipeline(
    "invoices",
    payload=Paragraph,
    stages=[Stage(open_invoice, name="open"), Stage(read_invoice, name="read")],
)
REFUSING: Final = Pipeline(
    "reconciliation-of-suppliers",
    payload=Paragraph,
    stages=[Stage(refuse_all, name="look-up-in-the-register")],
)
ASKING: Final = Pipeline(
    "refunds", payload=Paragraph, stages=[Stage(ask_a_person, name="approve")]
)


PAYING: Final = Pipeline(
    "payouts", payload=Paragraph, stages=[Stage(pay_out, name="pay")]
)


async def take(browser: Browser, folder: Path) -> None:
    """Take every page in both schemes and widths."""
    for scheme in ("light", "dark"):
        for width in (1400, 360):
            context = await browser.new_context(
                color_scheme=scheme,  # type: ignore[arg-type]
                viewport={"width": width, "height": 900},
            )
            tab = await context.new_page()
            await tab.goto(f"http://127.0.0.1:{PORT}/?token={TOKEN}")
            home = tab.url.rstrip("/")  # below the path of this start
            for name, path in PAGES.items():
                await tab.goto(home + path)
                await tab.wait_for_timeout(200)
                picture = f"{name}-{scheme}"
                shown = width > 1000 and picture in SHOWN
                place = IMAGES if shown else folder
                suffix = "" if shown else f"-{width}"
                file = place / f"{picture}{suffix}.png"
                await tab.screenshot(path=file, full_page=not shown)


async def break_the_fleet(client: Client) -> None:
    """Open a circuit breaker, pause a dependency, and set the limits of another."""
    rt = client.runtime
    breakers = Breakers(rt.table, "worker-7", rt.clock)
    until = rt.clock() + 45
    await breakers.open("registry", 0, until, "tool.http.503_unavailable")
    model = Limits(requests_per_minute=500, tokens_per_minute=200_000, concurrent=64)
    await client.set_limits("model", model)
    await client.pause_dependency("bank", "the contract ends on Friday")


async def submit_archive(client: Client) -> None:
    """Submit a job of 10,000 chunks, most of them to be started."""
    rows = [Paragraph(text=f"invoice {n + 1}") for n in range(10_000)]
    await client.submit(PIPELINE, rows, id="archive-2025", source="archive.jsonl")


async def main(folder: Path) -> None:
    """Seed the jobs, serve the page, and take the pictures."""
    telemetry.configure("critical")
    aws = InProcessAws(Settings(receive_wait_s=1))
    async with Client(runtime=aws.runtime(), actor="ann@example.com") as client:
        small = [Paragraph(text=f"invoice {n}") for n in range(1, 12)]
        await client.submit(
            PIPELINE, small, id="invoices-2026-10", source="invoices.jsonl"
        )
        large = [Paragraph(text=f"invoice {n}") for n in range(300)]
        await client.submit(
            PIPELINE, large, id="invoices-2026-11", source="invoices.jsonl"
        )
        few = [Paragraph(text=f"supplier {n}") for n in range(30)]
        await client.submit(REFUSING, few, id=LONG, source="s3://in/suppliers.csv")
        await client.submit(ASKING, few[:3], id="refunds-2026-11", source="a program")
        await client.submit(PAYING, few[:3], id="payouts-2026-11", source="payouts.csv")
        await break_the_fleet(client)
        access = make_access(("127.0.0.1", PORT), TOKEN)
        config = uvicorn.Config(make_app(client, access), port=PORT, log_config=None)
        server = uvicorn.Server(config)
        pipelines = {each.name: each for each in (PIPELINE, REFUSING, ASKING, PAYING)}
        async with worker_beside(aws, pipelines, [__name__]):
            serving = asyncio.create_task(server.serve())
            await asyncio.sleep(6)
            await submit_archive(client)
            await client.pause_pipeline("refunds", "the bank's file is wrong")
            await asyncio.sleep(4)
            async with async_playwright() as driver:
                chromium = shutil.which("chromium") or shutil.which("chromium-browser")
                arguments = ["--no-sandbox", "--disable-background-networking"]
                browser = await driver.chromium.launch(
                    executable_path=chromium, args=arguments
                )
                await take(browser, folder)
                await browser.close()
            server.should_exit = True
            await serving


if __name__ == "__main__":
    out = Path(sys.argv[1] if len(sys.argv) > 1 else "out/screens")
    out.mkdir(parents=True, exist_ok=True)
    asyncio.run(main(out))
    sys.stdout.write(f"pictures in {out} and docs/images; look at them\n")
