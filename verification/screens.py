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
    PermanentError,
    Pipeline,
    Stage,
    TransientError,
    telemetry,
)
from piecework.client import Client
from piecework.settings import Settings
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.ui.access import make_access
from piecework_orchestrator.ui.app import make_app
from piecework_simulation.in_process import InProcessAws, worker_beside

IMAGES: Final = Path(__file__).parents[1] / "docs/images"
PORT, TOKEN = 8322, "the-token-of-a-picture"
#: Which input does what, by the remainder of its number.
DEAD, BUSY, SLOW = 41, 53, 97
PAGES: Final = {
    "jobs": "/",
    "job": "/jobs/invoices-2026-11",
    "chunk": "/jobs/invoices-2026-11/chunks/3",
    "redrive": "/actions/redrive?job=invoices-2026-11",
}
#: The pictures that the documentation shows; the others are only looked at.
SHOWN: Final = {"job-light", "chunk-dark"}


async def read_invoice(ctx: Context[Paragraph]) -> int:
    """Read an invoice; some fail, some are slow."""
    number = int(ctx.payload.text.split()[-1])
    if number % DEAD == DEAD // 13:
        raise PermanentError("the invoice has no total")
    if number % BUSY == 0:
        raise TransientError("the reader is busy", retry_after=60)
    await asyncio.sleep(600 if number % SLOW == 0 else 0.01)
    return number


PIPELINE: Final = Pipeline(
    "invoices", payload=Paragraph, stages=[Stage(read_invoice, name="read")]
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
            for name, path in PAGES.items():
                await tab.goto(f"http://127.0.0.1:{PORT}{path}")
                await tab.wait_for_timeout(300)
                picture = f"{name}-{scheme}"
                shown = width > 1000 and picture in SHOWN
                place = IMAGES if shown else folder
                suffix = "" if shown else f"-{width}"
                await tab.screenshot(path=place / f"{picture}{suffix}.png")


async def main(folder: Path) -> None:
    """Seed two jobs, serve the page, and take the pictures."""
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
        access = make_access(("127.0.0.1", PORT), TOKEN)
        config = uvicorn.Config(make_app(client, access), port=PORT, log_config=None)
        server = uvicorn.Server(config)
        async with worker_beside(aws, {"invoices": PIPELINE}, [__name__]):
            serving = asyncio.create_task(server.serve())
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
