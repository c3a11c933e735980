"""Start a worker: read the settings, load the pipelines, trap the signals, work."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated

import structlog
import typer

from piecework import telemetry
from piecework.errors import PieceworkError
from piecework.loading import load_pipelines
from piecework.pipeline import Pipeline
from piecework.runtime import connect
from piecework.settings import Settings, load_settings
from piecework.step_order import advice
from workers.isolation import Isolation
from workers.memory import stop_when_full
from workers.serving import serve
from workers.station import open_station

app = typer.Typer(add_completion=False)


@app.command()
def run(
    pipelines: Annotated[
        list[str],
        typer.Option(help="A module, or module:object, that holds pipelines."),
    ],
    concurrency: Annotated[
        int | None, typer.Option(help="Chunks in hand at once.", min=1)
    ] = None,
    memory_mb: Annotated[
        int | None,
        typer.Option(help="Stop, with exit code 8, beyond so many megabytes.", min=0),
    ] = None,
    reconcile: Annotated[  # noqa: FBT002 -- a flag of a command
        bool, typer.Option(help="Run the reconciler's loop beside the work.")
    ] = True,
) -> None:
    """Work on the chunks of the given pipelines until told to stop."""
    telemetry.configure(os.environ.get("PIECEWORK_LOG_LEVEL", "info"))
    try:
        given = {"concurrency": concurrency, "memory_mb": memory_mb}
        settings = load_settings(**{k: v for k, v in given.items() if v is not None})
        found = load_pipelines(pipelines)
        code = asyncio.run(connected(settings, found, pipelines, reconcile=reconcile))
    except PieceworkError as error:
        sys.stderr.write(f"{error.code}: {error.message}\n{error.next_step}\n")
        raise SystemExit(error.exit_code) from error
    raise SystemExit(code)


async def connected(
    settings: Settings,
    pipelines: dict[str, Pipeline],
    names: Sequence[str],
    *,
    reconcile: bool,
) -> int:
    """Be a worker until SIGTERM or SIGINT, or until it is full; return the exit code.

    `names` are those that the pipelines were loaded by: children load them, too.
    """
    stop = stop_on_signals()
    loop = asyncio.get_running_loop()
    # Plain stage functions run here, one thread a chunk; asyncio's own default is
    # too few for work that blocks.
    loop.set_default_executor(ThreadPoolExecutor(settings.concurrency))
    worker = f"{socket.gethostname()}-{os.getpid()}"
    log = structlog.get_logger().bind(worker=worker)
    async with connect(settings) as rt:
        telemetry.emit(
            log,
            "worker.started",
            pipelines=sorted(pipelines),
            concurrency=settings.concurrency,
            pid=os.getpid(),
        )
        advised = advice_on(pipelines)
        if advised:
            telemetry.emit(log, "worker.advised", advice=advised)
        station = open_station(rt, worker, pipelines, log)
        station.isolation = Isolation(names, worker, settings.stage_memory_mb, log)
        full = asyncio.create_task(stop_when_full(settings.memory_mb, stop, log))
        try:
            await serve(station, stop, reconcile=reconcile)
        finally:
            await station.isolation.close()
        telemetry.emit(log, "worker.stopped")
        return await full


def advice_on(pipelines: Mapping[str, Pipeline]) -> list[str]:
    """Return what could be better in the order of the stages, each with whose it is."""
    return [f"{name}: {said}" for name, p in pipelines.items() for said in advice(p)]


def stop_on_signals() -> asyncio.Event:
    """Return an event that SIGTERM or SIGINT sets; a second signal ends it all at once.

    What is in hand then is taken over after its lease, as after any death.
    """
    stop = asyncio.Event()

    def signalled(number: int) -> None:
        if stop.is_set():
            os._exit(128 + number)
        stop.set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signalled, number)
    return stop


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
