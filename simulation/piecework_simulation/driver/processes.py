"""Start the processes of a schedule: the real code, in processes that may die.

The commands are in this file, too, because each one is a process that may die.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, cast

from pydantic import BaseModel

from piecework.context import Context
from piecework.domain.budget import NO_CAP, Cap
from piecework.domain.chunk_input import ChunkInput
from piecework.domain.keys import TENANT_LIMIT, tenant_limit
from piecework.domain.order_key import read_order_key
from piecework.domain.payload import write_payload
from piecework.domain.priority import Priority
from piecework.domain.refs import ChunkRef, JobRef
from piecework.domain.shape import Shape
from piecework.errors import PieceworkError, UsageError
from piecework.jobs.budgeting import set_budget
from piecework.jobs.pipeline_pauses import pause_pipeline, resume_pipeline
from piecework.pipelines import Pipeline, Stage
from piecework.reconciler.loop import reconcile_for_ever
from piecework.resilience.limits import Limits
from piecework.runtime import Runtime
from piecework.saga.stage import run_in_process
from piecework.store.dead_letters import Closing, DeadLetters
from piecework.store.limits import Quotas
from piecework_orchestrator.dead_letters.closing import select_open
from piecework_orchestrator.dead_letters.compensate import (
    HandOutcome,
    compensate_selected,
)
from piecework_orchestrator.dead_letters.redrive import RedriveRequest, discard, redrive
from piecework_orchestrator.operate.approvals import (
    AnswerRequest,
    answer,
    open_questions,
)
from piecework_orchestrator.operate.cancel import cancel
from piecework_orchestrator.operate.deletion import delete
from piecework_orchestrator.operate.pause import pause, resume
from piecework_orchestrator.operate.retry import RetryRequest, retry
from piecework_orchestrator.operate.run_again import RunAgain
from piecework_orchestrator.reading.selection import Filter
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.driver.deployments import Deployment
from piecework_simulation.driver.input_faults import CHILD
from piecework_simulation.driver.simulated_pipeline import instrument_dependency
from piecework_simulation.engine.process import Process
from piecework_simulation.engine.runtimes import open_runtime
from piecework_simulation.engine.sandbox import Log
from piecework_simulation.engine.world import World
from piecework_simulation.provider import CALL_TOKENS
from piecework_worker.isolation.pool import Isolation
from piecework_worker.process import serve
from piecework_worker.services import open_services
from piecework_worker.worker import Worker

#: Seconds after which a dead worker's place is taken by a new one, at most.
RESTART_S = 8.0
#: The share of the workers of another version that a deployment kills.
KILLED_SHARE = 0.3
#: The share of the operators who let acts of stages that run again happen twice.
WORD_SHARE = 0.7


#: What an operator sets: lower and higher limits than the pipelines declare, and no
#: limit. And a limit where they declare none.
LIMIT_CHANGES = (
    ("meter", Limits(requests_per_minute=8)),
    ("meter", Limits(requests_per_minute=32, concurrent=6)),
    ("meter", Limits()),
    ("scale", Limits(tokens_per_minute=200)),
    ("scale", Limits(requests_per_minute=30, requests_per_second=1)),
    ("cable", Limits(requests_per_minute=24)),
    ("mill", Limits(requests_per_minute=30)),
    (TENANT_LIMIT, Limits(concurrent=1)),
    (TENANT_LIMIT, Limits(concurrent=3)),
    (TENANT_LIMIT, Limits()),
)


@dataclass(frozen=True, slots=True)
class SimulatedChildren:
    """Runs isolated stages, and those of suspects, on the loop of their worker.

    The fault of an input harms only the simulated child.
    """

    blocked_s: float = math.inf

    async def run(
        self,
        stage: Stage,
        ctx: Context[Any],
        variant: str,
        blocked_s: float = math.inf,
    ) -> str:
        """Run a stage as a child would; a process fault of it kills the worker, too."""
        token = CHILD.set(blocked_s)
        try:
            return await run_in_process(stage, ctx, variant)
        finally:
            CHILD.reset(token)

    async def run_suspect(
        self, stage: Stage, ctx: Context[Any], variant: str, **_: object
    ) -> str:
        """Run a stage that may block its child only for a while; it waits for none."""
        return await self.run(stage, ctx, variant, self.blocked_s)


@dataclass(slots=True)
class FleetDriver:
    """Starts and replaces the processes of one simulated world."""

    world: World
    pipelines: Mapping[str, Pipeline]
    log: Log
    deployment: Deployment | None = None
    started: int = 0
    workers: dict[Process, asyncio.Event] = field(default_factory=dict)
    #: The version of the pipelines of each worker.
    versions: dict[Process, int] = field(default_factory=dict)
    reconcilers: list[Process] = field(default_factory=list)
    #: The code version of each pipeline, in the workers that start from now on.
    code_versions: Mapping[str, str] = field(default_factory=dict)
    #: The questions that a person has found open: chunk and name.
    asked: list[tuple[ChunkRef, str]] = field(default_factory=list)

    def name(self, role: str) -> str:
        """Return a process name that is unique in this world."""
        self.started += 1
        return f"{role}-{self.started}"

    # ── workers and reconcilers: dead ones are replaced ─────────────────────

    def worker(self, *, reconcile: bool, queues: Sequence[str] = ("",)) -> None:
        """Start a worker of some queues, and start a replacement when it ends."""
        process = self.world.process(self.name("worker"))
        stop = asyncio.Event()
        self.workers[process] = stop
        rt = open_runtime(self.world, process)
        children = cast("Isolation", SimulatedChildren(rt.settings.blocked_child_s))
        pipelines, code = self.pipelines, self.code_versions
        if self.deployment is not None:
            self.versions[process] = version = self.deployment.version()
            pipelines = self.deployment.pipelines(version)
            code = dict.fromkeys(pipelines, f"version {version}")
            self.world.note(process, f"has version {version}", None)
        services = open_services(
            *(rt, process.name, pipelines, self.log, children, queues),
            code_versions=code,
        )
        models = services.collector.models
        models |= {key: instrument_dependency(each) for key, each in models.items()}
        blocked = services.stages.blocked_loop.stages
        process.on_blocked = lambda pipeline, stage: blocked.add((pipeline, stage))
        worker = Worker(services, stop)
        task = self.world.start(process, serve(worker, reconcile=reconcile))

        def restart() -> None:
            self.workers.pop(process, None)
            self.versions.pop(process, None)
            self.restart_later(lambda: self.worker(reconcile=reconcile, queues=queues))

        self.on_end(process, task, restart)

    def reconciler(self) -> None:
        """Start a standalone reconciler, and start a replacement when it ends."""
        process = self.world.process(self.name("reconciler"))
        self.reconcilers.append(process)
        rt = open_runtime(self.world, process)
        task = self.world.start(process, reconcile_for_ever(rt, cast("Any", self.log)))

        def restart() -> None:
            self.reconcilers.remove(process)
            self.restart_later(self.reconciler)

        self.on_end(process, task, restart)

    def on_end(
        self, process: Process, task: asyncio.Task[Any], then: Callable[[], None]
    ) -> None:
        """Do something once a process has been killed or has ended by itself."""

        def ended(done: asyncio.Task[Any]) -> None:
            if not done.cancelled() and (error := done.exception()) is not None:
                self.log.unexpected(f"{process.name} ended: {error!r}")
            self.world.kill(process)

        process.on_death = then
        task.add_done_callback(ended, context=self.world.context)

    def restart_later(self, act: Callable[[], None]) -> None:
        """Do something after a while."""
        delay = self.world.rng.random() * RESTART_S
        self.world.loop.call_later(delay, act, context=self.world.context)

    def stop_worker(self) -> None:
        """Send SIGTERM to some worker."""
        alive = [p for p in self.workers if not p.dead]
        if alive:
            self.stop(self.world.rng.choice(alive))

    def stop(self, process: Process) -> None:
        """Send SIGTERM to a worker."""
        self.world.note(process, "SIGTERM", None)
        # The process handles a signal itself, when it runs again.
        self.world.start(process, set_stop_event(self.workers[process]))

    def deploy(self, share: float) -> None:
        """Give the second version to that share of the workers; end the others.

        Some of those that must go are killed.
        """
        if self.deployment is None:
            return
        self.deployment.share = share
        self.world.note(None, f"{share:.0%} of the workers get version 2", None)
        for process, version in [*self.versions.items()]:
            if version - 1 == share or process.dead:
                continue
            if self.deployment.rng.random() < KILLED_SHARE:
                self.world.kill(process)
            else:
                self.stop(process)

    # ── operators: each command is a process, and may die midway ────────────

    async def command(
        self,
        role: str,
        ref: JobRef,
        act: Callable[[Runtime], Awaitable[Any]],
        *,
        mortal: bool,
        dies_in_s: float = math.inf,
    ) -> str:
        """Run a command on a job in a process of its own; return its outcome.

        The outcome is `done`, `died`, an error code, or the text of an unexpected
        error.
        """
        process = self.world.process(self.name(role), mortal=mortal)
        process.tenant = ref.tenant
        tenant = ref.tenant or self.world.settings.tenant
        outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            try:
                await act(open_runtime(self.world, process, tenant=tenant))
                outcome_text = "done"
            except PieceworkError as error:
                outcome_text = error.code
            except Exception as error:  # noqa: BLE001 -- no error is expected here
                outcome_text = f"{type(error).__name__}: {error}"
                self.log.unexpected(f"{process.name}: {outcome_text}")
            if not outcome.done():
                outcome.set_result(outcome_text)

        def died() -> None:
            if not outcome.done():
                outcome.set_result("died")

        process.on_death = died
        self.world.start(process, run())
        if dies_in_s < math.inf:
            self.world.loop.call_later(
                dies_in_s, self.world.kill, process, context=self.world.context
            )
        return await outcome

    async def submit(
        self,
        ref: JobRef,
        pipeline: Pipeline,
        items: Sequence[BaseModel],
        deadline: float | None = None,
        priority: Priority = Priority.NORMAL,
        sample: int = 0,
        budget: Cap = NO_CAP,
        *,
        pin: bool = False,
        **more: Any,
    ) -> str:
        """Submit a job; some jobs tolerate the failure of a quarter of their chunks.

        A negative sample goes on without a resume.
        """
        tolerate = "0" if len(items) % 3 else "25%"
        request = Submission(
            ref,
            pipeline,
            "simulation",
            "operator",
            deadline,
            tolerate=tolerate,
            priority=priority,
            budget=budget,
            sample=abs(sample) or None,
            goes_on=sample < 0,
            pin=pin,
        )
        return await self.command(
            "submit",
            ref,
            lambda rt: submit(rt, request, read_inputs(pipeline, items)),
            **more,
        )

    async def cancel(self, ref: JobRef, **more: Any) -> str:
        """Cancel a job, and compensate it if the schedule draws so."""
        compensate = self.world.faults.fires("operator.compensate")

        async def act(rt: Runtime) -> None:
            await cancel(
                rt, ref, actor="operator", reason="enough", compensate=compensate
            )

        return await self.command("cancel", ref, act, **more)

    async def retry(self, ref: JobRef, **more: Any) -> str:
        """Retry a job."""
        request = RetryRequest(ref, "operator", "go on")
        return await self.command("retry", ref, lambda rt: retry(rt, request), **more)

    async def run_again(self, ref: JobRef, **more: Any) -> str:
        """Retry a job from one of its stages, with or without the operator's word."""
        apart = Random()  # the other draws of a seed stay as they were
        apart.setstate(self.world.rng.getstate())

        async def act(rt: Runtime) -> None:
            if (job := await rt.jobs.read(ref)) is None or not job.shape:
                return
            stage = apart.choice(Shape.read(job.shape).names)
            again = RunAgain(stage, repeats=apart.random() < WORD_SHARE)
            await retry(rt, RetryRequest(ref, "operator", "go on", again=again))

        return await self.command("run again", ref, act, **more)

    async def delete(self, ref: JobRef, **more: Any) -> str:
        """Delete a job."""
        act = functools.partial(delete, ref=ref, actor="operator", reason="enough")
        return await self.command("delete", ref, act, **more)

    async def pause(self, ref: JobRef, **more: Any) -> str:
        """Pause a job."""
        act = functools.partial(pause, ref=ref, actor="operator", reason="enough")
        return await self.command("pause", ref, act, **more)

    async def resume(self, ref: JobRef, **more: Any) -> str:
        """Resume a job."""
        act = functools.partial(resume, ref=ref, actor="operator", reason="go on")
        return await self.command("resume", ref, act, **more)

    async def pause_pipeline(self, ref: JobRef, **more: Any) -> str:
        """Pause the pipeline of a job."""

        async def act(rt: Runtime) -> None:
            if job := await rt.jobs.read(ref):
                named = rt, ref.tenant, job.pipeline
                await pause_pipeline(*named, actor="operator", reason="enough")

        return await self.command("pipeline", ref, act, **more)

    async def resume_pipeline(self, ref: JobRef, **more: Any) -> str:
        """Resume the pipeline of a job."""

        async def act(rt: Runtime) -> None:
            if job := await rt.jobs.read(ref):
                named = rt, ref.tenant, job.pipeline
                await resume_pipeline(*named, actor="operator", reason="go on")

        return await self.command("pipeline", ref, act, **more)

    async def set_budget(self, ref: JobRef, **more: Any) -> str:
        """Raise the budget of a job for some calls."""
        return await self.raise_budget(ref, self.world.rng.randrange(1, 20), **more)

    async def raise_budget(self, ref: JobRef, calls: int, **more: Any) -> str:
        """Raise the budget of a job for so many calls."""

        async def act(rt: Runtime) -> None:
            job = await rt.jobs.read(ref)
            budget = None if job is None else await rt.budgets.of_job(job)
            if job is not None and budget is not None and budget.cap.tokens:
                cap = Cap(budget.cap.tokens + calls * CALL_TOKENS)
                await set_budget(rt, job, cap, actor="operator", reason="go on")

        return await self.command("budget", ref, act, **more)

    async def set_limits(self, ref: JobRef, **more: Any) -> str:
        """Change a limit in force, or go back to the declared ones."""
        dependency, limits = self.world.rng.choice(LIMIT_CHANGES)
        if dependency == TENANT_LIMIT:
            dependency = tenant_limit(ref.tenant)

        async def act(rt: Runtime) -> None:
            quotas = Quotas(rt.table, "operator", rt.clock, rt.rng)
            await quotas.set_limits(dependency, limits)

        everyone = replace(ref, tenant="")  # a limit belongs to the deployment
        return await self.command("limits", everyone, act, **more)

    async def answer(self, ref: JobRef, **more: Any) -> str:
        """Answer questions of a job, some twice at once, some too late, some never.

        An answer is refused if another one, or the end of the question, came first.
        """
        rng = self.world.rng

        async def act(rt: Runtime) -> None:
            questions = open_questions(rt, ref.job)
            found = [(ref.chunk(q["chunk"]), q["question"]) async for q in questions]
            known = [each for each in self.asked if each[0].of == ref]
            late = [each for each in known if each not in found]
            self.asked += [each for each in found if each not in known]
            for chunk, name in found + late:
                persons = ("ada", "bob")[: rng.choice((0, 1, 1, 2))]
                await asyncio.gather(*(say(rt, chunk, name, each) for each in persons))

        async def say(rt: Runtime, chunk: ChunkRef, name: str, actor: str) -> None:
            value = {"approved": rng.random() < 0.5}  # noqa: PLR2004 -- a coin
            try:
                await answer(rt, chunk, AnswerRequest(value, actor, "it is so", name))
            except UsageError as error:
                if not error.code.startswith("approval.question."):
                    raise RuntimeError(error.code) from error

        return await self.command("answer", ref, act, **more)

    async def redrive(self, ref: JobRef, **more: Any) -> str:
        """Redrive all open dead letters of a job."""

        async def act(rt: Runtime) -> None:
            letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
            rows = [r async for r in letters.of_job(ref) if r.state == "OPEN"]
            await redrive(rt, RedriveRequest(ref, rows, "operator", "it is fixed"))

        return await self.command("redrive", ref, act, **more)

    async def compensate(self, ref: JobRef, **more: Any) -> str:
        """Run the failed compensations of a job again, or resolve them by hand."""
        apart = Random()  # the other draws of a seed stay as they were
        apart.setstate(self.world.rng.getstate())
        outcome = apart.choice((None, None, None, HandOutcome.NOT_NEEDED))

        async def act(rt: Runtime) -> None:
            found = await select_open(rt, Filter(ref.job, uncompensated=True))
            by = Closing("operator", "the shop is back")
            await compensate_selected(rt, found, by, outcome)

        return await self.command("compensate", ref, act, **more)

    async def discard(self, ref: JobRef, **more: Any) -> str:
        """Discard all open dead letters of a job: it skips chunks with order keys."""

        async def act(rt: Runtime) -> None:
            letters = DeadLetters(rt.dead_letters, rt.settings, rt.clock)
            rows = [r async for r in letters.of_job(ref) if r.state == "OPEN"]
            await discard(rt, ref, rows, Closing("operator", "it is obsolete"))

        return await self.command("discard", ref, act, **more)


async def set_stop_event(event: asyncio.Event) -> None:
    """Set an event in the process that waits for it."""
    event.set()


async def read_inputs(
    pipeline: Pipeline, items: Sequence[BaseModel]
) -> AsyncIterator[ChunkInput]:
    """Yield payloads as the intake does."""
    for item in items:
        label = pipeline.label(item) if pipeline.label else ""
        key = read_order_key(pipeline.ordered_by, item, label)
        yield ChunkInput(label, write_payload(item).encode(), key)
