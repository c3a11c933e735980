"""Measure the web page: the first paint of a large job, and the reads of open pages.

`make page` prints the figures, and fails if one exceeds its limit. Without Chromium the
time to the whole answer stands for the paint.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import aiohttp
import uvicorn
from playwright.async_api import async_playwright

from piecework import Context, Pipeline, Stage, telemetry
from piecework.client import Client
from piecework.settings import Settings
from piecework_examples.quickstart import Paragraph
from piecework_orchestrator.ui.access import make_access
from piecework_orchestrator.ui.app import make_app
from piecework_orchestrator.ui.pacing import POLL_S, read_units
from piecework_simulation.in_process import InProcessAws, worker_beside

TOKEN: Final = "the-token-of-a-measure"
JOB: Final = "large"
#: The limits: seconds to the first paint, and read units in a second of an open page.
MAX_PAINT_S, MAX_UNITS = 1.0, 1.0
#: Seconds for which the worker runs before the measure.
WORK_S = 5.0
PAINT = """() => new Promise(resolve => {
  const seen = performance.getEntriesByName("first-contentful-paint")[0];
  if (seen) return resolve(seen.startTime);
  new PerformanceObserver(list => resolve(list.getEntries()[0].startTime))
    .observe({type: "paint", buffered: true});
})"""


async def count(ctx: Context[Paragraph]) -> int:
    """Count words."""
    return len(ctx.payload.text.split())


PIPELINE: Final = Pipeline("count", payload=Paragraph, stages=[Stage(count)])


@asynccontextmanager
async def served(client: Client) -> AsyncIterator[str]:
    """Serve the page; yield its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        access = make_access(("127.0.0.1", port), TOKEN)
        app = make_app(client, access, POLL_S)  # paced as on AWS
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = asyncio.create_task(server.serve([listening]))
        yield f"http://127.0.0.1:{port}{access.base}"
        server.should_exit = True
        await serving


async def paint_s(address: str) -> float:
    """Return the seconds to the first paint of the page of a job, unread before."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None:
        sys.stdout.write("no Chromium: the paint is the time to the whole answer\n")
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as http:
            began = time.perf_counter()
            async with http.get(f"{address}/jobs/{JOB}?token={TOKEN}") as reply:
                await reply.read()
            return time.perf_counter() - began
    async with async_playwright() as driver:
        browser = await driver.chromium.launch(
            executable_path=chromium, args=["--no-sandbox", "--disable-gpu"]
        )
        tab = await browser.new_page()
        await tab.goto(f"{address}/workers?token={TOKEN}")
        await tab.goto(f"{address}/jobs/{JOB}")
        return float(await tab.evaluate(PAINT)) / 1000


async def units_per_s(client: Client, address: str, path: str, seconds: float) -> float:
    """Return the read units of an open page in a second, after its first reads."""
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as http:
        async with http.get(f"{address}{path}?token={TOKEN}") as reply:
            await reply.read()
        before, began = read_units(client.runtime.cost), time.perf_counter()
        live = f"{address}{path.rstrip('/')}/live"
        try:
            async with asyncio.timeout(seconds), http.get(live) as stream:
                async for _ in stream.content:
                    pass
        except TimeoutError:
            pass
        took = time.perf_counter() - began
        return (read_units(client.runtime.cost) - before) / took


async def measure(chunks: int, seconds: float) -> dict[str, float]:
    """Return the figures of a job that a worker runs."""
    telemetry.configure("critical")
    aws = InProcessAws(Settings(receive_wait_s=1))
    async with Client(runtime=aws.runtime(), actor="ann") as client:
        rows = [Paragraph(text=f"one {n}") for n in range(chunks)]
        await client.submit(PIPELINE, rows, id=JOB)
        await client.submit(PIPELINE, rows[:300], id="small")
        async with worker_beside(aws, {PIPELINE.name: PIPELINE}, [__name__]):
            await asyncio.sleep(WORK_S)
        async with served(client) as address:
            painted = await paint_s(address)
            pages = {"large": f"/jobs/{JOB}", "small": "/jobs/small", "first": "/"}
            rates = {
                f"read_units_a_second_{name}": await units_per_s(
                    client, address, path, seconds
                )
                for name, path in pages.items()
            }
    return {"chunks": chunks, "first_paint_s": painted, **rates}


def main() -> None:
    """Print the figures; end with 1 if one exceeds its limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chunks", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=20.0)
    args = parser.parse_args()
    figures = asyncio.run(measure(args.chunks, args.seconds))
    for name, figure in figures.items():
        sys.stdout.write(f"{name}={figure:.3g}\n")
    rates = [figure for name, figure in figures.items() if name.startswith("read_")]
    slow = figures["first_paint_s"] > MAX_PAINT_S
    sys.exit(slow or max(rates) > MAX_UNITS)


if __name__ == "__main__":
    main()
