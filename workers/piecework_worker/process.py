"""Run one worker process: load the settings and pipelines, handle signals, work."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from math import ceil
from typing import Any, NoReturn

import structlog

from piecework import telemetry
from piecework.domain.keys import DEFAULT_QUEUE, is_queue_name
from piecework.errors import PieceworkError, UsageError, error_lines
from piecework.loading import load_pipelines
from piecework.pipelines import Pipeline, lint_stage_order
from piecework.reconciler.loop import reconcile_for_ever
from piecework.runtime import connect
from piecework.saga.code_version import code_versions
from piecework.settings import Settings, load_settings
from piecework.telemetry.health import write_health_file
from piecework.telemetry.prometheus import publish_metrics
from piecework.telemetry.traces import flush_traces
from piecework_worker.cores import METADATA
from piecework_worker.ecs import (
    AGENT,
    TIMEOUT_S,
    Protection,
    ProtectionPolicy,
    current_task,
    draw_pause_interval,
    worker_name,
)
from piecework_worker.gauges import gauges
from piecework_worker.isolation.pool import Isolation
from piecework_worker.loop_watchdog import LoopWatchdog
from piecework_worker.process_tuning import run_to_end, tune_gc
from piecework_worker.report import report_until
from piecework_worker.services import open_services, queues_of
from piecework_worker.shutdown import (
    log_signal,
    stop_at_memory_limit,
    stop_limit_mb,
)
from piecework_worker.siblings import Line, Siblings, WholeWorker
from piecework_worker.stopping import Stop, leave, stop_on_signals
from piecework_worker.worker import SHUTDOWN_MARGIN_S, Worker

#: Threads besides those of the stages. Host names are resolved in one, and must not
#: wait for a stage to end.
SPARE = 8
#: Seconds before the end of its time at which a process that still runs is ended.
SPARE_S = 1.5
#: Exit code of a worker that an error has ended.
FAILED = 1


def run(
    pipelines: list[str],
    *,
    queue: list[str],
    max_chunks: int | None,
    memory_mb: int | None,
    reconcile: bool,
    line: Line | None = None,
) -> NoReturn:
    """Run a worker until a signal stops it; end the process with its exit code.

    `line`: to the parent of the worker's processes; None: this is the only one.
    """
    telemetry.tolerate_output()
    telemetry.configure(os.environ.get("PIECEWORK_LOG_LEVEL", "info"))
    telemetry.guard_process()
    try:
        overrides = {"max_chunks": max_chunks, "memory_mb": memory_mb}
        settings = load_settings(
            **{k: v for k, v in overrides.items() if v is not None}
        )
        siblings = line.siblings if line else Siblings()
        settings = settings_of(settings, siblings)
        pipelines_by_name = load_pipelines(pipelines)
        queues = [parse_queue(name) for name in dict.fromkeys(queue)]
        work = run_with_threads(
            *(settings, pipelines_by_name, pipelines, queues),
            reconcile=reconcile and siblings.is_first,
            line=line,
        )
        code = run_to_end(asyncio.Runner(), work)
    except PieceworkError as error:
        sys.stderr.write(error_lines(error.code, error.message, error.next_step))
        code = error.exit_code
    except SystemExit:
        raise
    except BaseException:  # noqa: BLE001 -- nothing else reports it
        sys.excepthook(*sys.exc_info())
        code = FAILED
    # The end of the runner would wait for the tasks that a stage has left.
    leave(code)


def settings_of(settings: Settings, siblings: Siblings) -> Settings:
    """Return the settings of one of a worker's processes.

    They share the memory of the worker. Each answers Prometheus at a port of its own.
    """
    port, share = settings.prometheus_port, settings.memory_mb / siblings.count
    return replace(
        settings,
        memory_mb=ceil(share),
        prometheus_port=port and port + siblings.number - 1,
    )


async def run_with_threads(
    settings: Settings,
    pipelines: dict[str, Pipeline],
    names: Sequence[str],
    queues: Sequence[str],
    *,
    reconcile: bool,
    line: Line | None = None,
) -> int:
    """Run a worker until a signal or its memory limit; return the exit code.

    `names` are the names that the pipelines were loaded by: child processes load them
    too.
    """
    loop = asyncio.get_running_loop()
    # Plain stage functions and clients run here, one thread per chunk and per call.
    # asyncio's default pool is too small for functions that block.
    most = settings.max_chunks + settings.max_calls_in_flight + SPARE
    threads = ThreadPoolExecutor(most)
    loop.set_default_executor(threads)
    telemetry.guard_loop(loop)
    try:
        return await run_services(
            settings, pipelines, names, queues, reconcile=reconcile, line=line
        )
    finally:  # the last requests to AWS may need a thread
        threads.shutdown(wait=False, cancel_futures=True)


async def run_services(
    settings: Settings,
    pipelines: dict[str, Pipeline],
    names: Sequence[str],
    queues: Sequence[str],
    *,
    reconcile: bool,
    line: Line | None = None,
) -> int:
    """Open the worker's services, run the worker, and close them."""
    siblings = line.siblings if line else Siblings()
    signals = stop_on_signals(
        structlog.get_logger(), settings.shutdown_grace_s + SHUTDOWN_MARGIN_S - SPARE_S
    )
    stop = signals.stop
    task = await current_task(os.environ.get(METADATA, ""), structlog.get_logger())
    name = worker_name(task, socket.gethostname(), os.getpid(), siblings.parent)
    log = structlog.get_logger().bind(worker=name)
    async with connect(settings, actor="worker") as rt:
        rt.cost.logged = telemetry.billed_bytes
        queues = queues or queues_of(pipelines.values())
        for queue in queues:
            await rt.work.named(queue)  # a worker without its queue says so at once
        versions = code_versions(
            pipelines.values(), settings, task.image if task else ""
        )
        task_log = log.bind(task=task.id, zone=task.zone) if task else log
        telemetry.emit(
            task_log,
            "worker.started",
            pipelines=sorted(pipelines),
            code_versions=sorted({*versions.values()}),
            queues=[queue or DEFAULT_QUEUE for queue in queues],
            max_chunks=settings.max_chunks,
            pid=os.getpid(),
        )
        warnings = lint_warnings(pipelines)
        if warnings:
            telemetry.emit(log, "pipeline.lint_warning", advice=warnings)
        isolation = Isolation(
            names, name, settings.stage_memory_mb, log, settings.blocked_child_s
        )
        services = open_services(rt, name, pipelines, log, isolation, queues, versions)
        worker = Worker(services, stop)
        tune_gc()
        task_mb = task.memory_mb if task else 0
        limit_mb = stop_limit_mb(settings.memory_mb, task_mb, share=siblings.count)
        memory_guard = stop_at_memory_limit(limit_mb, stop, log)
        also = (signals.keep_handlers(), memory_guard)
        if line is not None:
            line.is_stopping = stop.is_set
            line.worker, line.called = worker, services.calls.breakers.called
        watchdog = LoopWatchdog(
            services.stages.blocked_loop, settings.loop_blocked_s, log
        )
        read = partial(gauges, services.lease_renewer.leases, services.calls)
        async with publish_metrics(settings, rt.clock, read):
            try:
                async with (
                    run_side_tasks(worker, stop, os.environ, *also, siblings=siblings),
                    watchdog.running(),
                ):
                    await serve(worker, reconcile=reconcile)
            finally:
                await isolation.close()
            telemetry.emit(log, "worker.stopped")
        await asyncio.to_thread(flush_traces)
        return stop.code


def parse_queue(name: str) -> str:
    """Return a queue as pipelines name it.

    Raises:
        UsageError: `config.queue.invalid`.
    """
    if name != DEFAULT_QUEUE and not is_queue_name(name):
        message = f"{name!r} is not the name of a queue."
        raise UsageError(message, code="config.queue.invalid")
    return "" if name == DEFAULT_QUEUE else name


def lint_warnings(pipelines: Mapping[str, Pipeline]) -> list[str]:
    """Return advice about the order of the stages, each prefixed by its pipeline."""
    return [
        f"{name}: {advice}"
        for name, p in pipelines.items()
        for advice in lint_stage_order(p)
    ]


# ── run a worker's side tasks ─────────────────────────────────────────────────


@asynccontextmanager
async def run_side_tasks(
    worker: Worker,
    stop: Stop,
    environ: Mapping[str, str],
    *also: Coroutine[Any, Any, None],
    siblings: Siblings | None = None,
) -> AsyncIterator[None]:
    """Run the side tasks while the caller's block runs; their failures do not stop it.

    Without a health file and without ECS only the worker's reports are written. The
    first of a worker's processes writes them, and protects its task.
    """
    services, siblings = worker.services, siblings or Siblings()
    settings, log = services.rt.settings, services.log
    policy = ProtectionPolicy(draw_pause_interval(services.rt.rng))
    whole = WholeWorker(worker, siblings)
    protection = Protection(environ.get(AGENT, ""), whole, log, policy)
    final_tasks = [
        asyncio.create_task(log_signal(stop, environ.get(METADATA, ""), log)),
    ]
    if siblings.is_first:
        final_tasks.append(asyncio.create_task(report_until(worker, stop, siblings)))
        final_tasks.append(asyncio.create_task(protection.run(stop)))
    else:
        also = (*also, whole.follow())
    health = write_health_file(
        services.liveness, settings.health_file, settings.lease_s, log
    )
    tasks = [*final_tasks, *map(asyncio.create_task, (health, *also))]
    try:
        yield
    finally:
        stop.set()
        await asyncio.wait(final_tasks, timeout=TIMEOUT_S)
        for task in tasks:
            task.cancel()
        results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            telemetry.emit(log, "worker.component_failed", error=type(result).__name__)


# ── run one worker process ────────────────────────────────────────────────────


async def serve(worker: Worker, *, reconcile: bool) -> None:
    """Run a worker until its stop, with a reconciler beside it if `reconcile` is set.

    Raises:
        Exception: The error that ended one of the worker's loops.
    """
    services = worker.services
    side = asyncio.create_task(
        reconcile_for_ever(
            services.rt,
            services.log,
            services.message_received,
            worker.offer_chunk,
            services.liveness,
        )
        if reconcile
        else worker.stop.wait()
    )
    try:
        await worker.run()
    finally:
        side.cancel()
        await asyncio.gather(side, return_exceptions=True)
