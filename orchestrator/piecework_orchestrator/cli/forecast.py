"""`jobs forecast`, and the question of a submit whether the rest starts."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from piecework.domain.pause import PauseCode
from piecework_orchestrator.cli.cost import PricesOption
from piecework_orchestrator.cli.options import (
    Format,
    JobArgument,
    OutputOption,
    TimeoutOption,
)
from piecework_orchestrator.cli.output import Output, View, facts
from piecework_orchestrator.cli.progress import show_steps
from piecework_orchestrator.cli.run import run_client
from piecework_orchestrator.cli.table import Document
from piecework_orchestrator.cli.views.jobs import status_text
from piecework_orchestrator.client import Client, JobHandle
from piecework_orchestrator.reading.job_documents import pause_command
from piecework_orchestrator.reading.times import count, format_span, parse_limit
from piecework_orchestrator.reading.watch import Watcher
from piecework_orchestrator.submit.sample import require_sampled, wait_for_sample


def job_forecast(
    job: JobArgument,
    timeout: TimeoutOption = "",
    prices: PricesOption = None,
    no_wait: Annotated[
        bool,
        typer.Option(
            "--no-wait", help="Forecast from what has ended of the sample so far."
        ),
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Forecast calls, tokens, cost and time of the rest of a job with a sample.

    The command waits until the sample has ended. `jobs resume` starts the rest.
    """

    async def run(client: Client, out: Output) -> None:
        handle = client.job(job)
        limit_s = parse_limit(timeout)
        found = await await_forecast(
            handle, out, limit_s, prices=prices, wait=not no_wait
        )
        show_forecast(out, found)

    run_client(run, output)


async def await_forecast(
    handle: JobHandle[Any],
    out: Output,
    limit_s: float | None,
    *,
    prices: Path | None = None,
    wait: bool = True,
) -> Document:
    """Return the forecast of a job; show how much of its sample has ended.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`.
        UsageError: `job.sample.missing`.
    """
    if wait:
        job = await require_sampled(handle.rt, handle.id)
        hint = "no worker seems to be running; the sample waits for one"
        watcher = Watcher(lambda _: None, remark=out.say, no_worker_hint=hint)
        try:
            with show_steps(out, len(job.sample)) as progress:
                await wait_for_sample(
                    handle.rt, job.ref.job, limit_s, progress, watcher
                )
        except asyncio.CancelledError:
            out.say(f"the sample continues; next: piecework jobs forecast {handle.id}")
            raise
    return await handle.forecast(wait=False, prices=prices)


def show_forecast(
    out: Output, forecast: Document, told: Document | None = None
) -> None:
    """Write a forecast, with what a submit tells of the job."""
    out.document({**forecast, **(told or {})}, forecast_view(forecast))
    if forecast["status"] == "PAUSED":
        out.say(f"next: {pause_command(forecast)}")


def forecast_view(forecast: Document) -> View:
    """Return a view of a forecast."""

    def draw(console: Any) -> None:
        slots = forecast["slots"]
        fleet = (
            f"{count(forecast['workers'], 'worker')}, {slots} chunks at once"
            if slots
            else ""
        )
        console.print(
            facts(
                [
                    ("job", forecast["job"]),
                    ("status", status_text(forecast)),
                    ("sample", sample_text(forecast["sample"])),
                    ("rest", count(forecast["rest"], "chunk")),
                    ("calls", range_text(forecast["calls"])),
                    ("tokens in", range_text(forecast["tokens_in"])),
                    ("tokens out", range_text(forecast["tokens_out"])),
                    ("cost", cost_text(forecast)),
                    ("AWS", aws_text(forecast)),
                    ("time", time_text(forecast)),
                    ("workers", fleet),
                    ("notes", "\n".join(forecast["notes"])),
                ]
            )
        )

    return draw


def sample_text(sample: Document) -> str:
    """Return the number of ended chunks of a sample, and their cost."""
    words = [f"{sample['ended']} of {sample['chunks']} chunks have ended"]
    words += [f"{sample['failed']} failed"] if sample["failed"] else []
    words += [] if sample["usd"] is None else [f"{sample['usd']:.6f} USD"]
    return ", ".join(words)


def range_text(found: Document | None) -> str:
    """Return an amount as text; empty if nothing is used."""
    if not found or not found["p90"]:
        return ""
    return f"{found['p50']:,.0f} (P50) to {found['p90']:,.0f} (P90)"


def cost_text(forecast: Document) -> str:
    """Return the cost of the models of the rest."""
    usd = forecast["usd"]
    if usd is None:
        return "no price is known" if forecast["calls"] else ""
    text = f"{usd['p50']:.6f} USD (P50) to {usd['p90']:.6f} USD (P90)"
    if direct := forecast["direct_usd"]:
        text += f"; direct: {direct['p50']:.6f} to {direct['p90']:.6f} USD"
    return text


def aws_text(forecast: Document) -> str:
    """Return what AWS charges for the rest."""
    usd = forecast["aws_usd"]
    return "" if usd is None else f"{usd:.6f} USD, storage and deletion included"


def time_text(forecast: Document) -> str:
    """Return the time of the rest, and what limits it."""
    time = forecast["time_s"]
    if time is None:
        return "unknown"
    by = forecast["limited_by"]
    limit = "the slots of the workers" if by == "workers" else f"the limits of {by}"
    p50, p90 = format_span(time["p50"]), format_span(time["p90"])
    return f"{p50} (P50) to {p90} (P90), by {limit}"


async def goes_on(handle: JobHandle[Any], out: Output, *, yes: bool) -> bool:
    """Ask at a terminal whether the rest of a paused job starts; start it after a yes.

    Without a terminal the answer is no. `yes`: it starts without a question, also if
    an earlier submit of the job was without it.
    """
    pause = (await handle.facts()).document.get("pause", {})
    if pause.get("code") != PauseCode.SAMPLE:
        return yes
    if yes:
        await handle.resume("the submit was repeated with --yes")
        out.say("the rest is started")
        return True
    if not (out.table and sys.stdin.isatty() and out.stderr.isatty()):
        return False
    out.stderr.write("Process the rest? [y/N] ")
    out.stderr.flush()
    # In a thread, so that Ctrl-C at the prompt takes effect at once.
    answer = await asyncio.to_thread(sys.stdin.readline)
    if answer.strip().lower() not in {"y", "yes"}:
        return False
    with show_steps(out) as progress:
        await handle.resume("the forecast was confirmed", on_progress=progress)
    return True
