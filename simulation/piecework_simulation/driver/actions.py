"""Drive one schedule: submit jobs, run workers, interfere, and inject faults.

After the faults end, every job must end within a bounded time.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, TypeAlias

from pydantic import BaseModel

from piecework.domain.budget import NO_CAP, Cap
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.domain.states import JobStatus
from piecework.pipelines import Pipeline
from piecework_simulation.driver.input_faults import draw_input_fault
from piecework_simulation.driver.limited_pipeline import metering
from piecework_simulation.driver.mapping_pipeline import (
    in_children,
    moved,
)
from piecework_simulation.driver.processes import RESTART_S, FleetDriver
from piecework_simulation.engine.faults import DEPLOYED
from piecework_simulation.engine.world import QUEUES, World
from piecework_simulation.invariants.checker import Invariants
from piecework_simulation.invariants.end_state import check_deleted, check_final_state
from piecework_simulation.provider import CALL_TOKENS, Provider

#: Seconds that the faults last, at most.
FAULTS_S = 90.0
#: Maximum seconds from the end of the faults to the end of all jobs. This covers the
#: minutes in which two poison inputs probe a breaker. For each attempt left, it covers
#: one redispatch, one lease and one visibility timeout. The delay of a redispatch
#: doubles each time. A number of a sequence waits an hour for those before it.
MAX_END_S = 7_200.0
#: Maximum seconds from the end of all jobs until the dead-letter queue is empty. Idle
#: reconcilers poll it every 20 s and hide the received messages for 30 s.
MAX_DRAIN_S = 120.0

#: Maximum seconds for which a service refuses every request.
MAX_DENIED_S = 40.0
#: Maximum seconds until people read the questions of a job again; the mean after the
#: faults.
ANSWER_S = 20.0
#: Minimum seconds of a wait that is skipped.
MIN_SKIPPED_S = 60.0
#: The share of schedules whose jobs are not deleted.
KEPT_SHARE = 0.75
#: Maximum seconds from the death of an operator to the end of its deletion. They cover
#: 30 seconds without progress, and a pass of an idle reconciler.
MAX_DELETION_S = 120.0
#: The tenant of the second job, if that is not the first job's.
SECOND_TENANT = "neighbour"

#: The arguments of a submit: the job, its pipeline, payloads, deadline, priority,
#: sample and budget.
SubmitRequest: TypeAlias = tuple[
    JobRef, Pipeline, Sequence[BaseModel], float | None, Priority, int, Cap
]
#: The share of jobs whose chunks have order keys.
ORDERED_SHARE = 0.4
#: How many of the jobs that an operator pauses are paused with their pipeline, too.
PIPELINE_SHARE = 0.4
#: The share of the schedules whose jobs have one of two queues.
QUEUES_SHARE = 0.3
#: The shares of the workers that have the second version, one after the other.
DEPLOYMENTS = ((1.0,), (0.5,), (0.5, 1.0), (1.0, 0.0), (0.5, 0.0))
#: The calls that the budget of a job pays for; 0: it has no budget.
BUDGETS = (0, 0, 0, 1, 3, 8, 30)
#: The calls by which a budget is raised at the end: no schedule makes more.
PLENTY = 1_000_000
#: The chunks of a job with another priority than normal are drawn from its backlog.
PRIORITIES = (Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW)
#: Chunks of a sample, for `FleetDriver.submit`.
SAMPLES = (0, 0, 0, 1, 2, -2)


@dataclass(frozen=True, slots=True)
class Workload:
    """The jobs that a schedule may submit.

    Attributes:
        payloads: Draws the payloads of one job.
        enlarge: Returns a payload whose stages return large values; None: there are no
            such payloads.
        also: The pipelines that its stages map.
        stubs: Maps each function that would use the network to its replacement.
        ordered_by: The order keys of some of its jobs; None: no job is ordered.
        share: The share of the schedules in which all jobs are of this workload, drawn
            apart: the other draws of a seed stay what they were. 0: an equal one.
        faults_s, end_s: Seconds that the faults of such a schedule last, at most, and
            those from their end to the end of its jobs.
    """

    pipeline: Pipeline
    payloads: Callable[[Random], Sequence[BaseModel]]
    stubs: Mapping[Callable[..., Any], Callable[..., Any]] = field(default_factory=dict)
    enlarge: Callable[[BaseModel], BaseModel] | None = None
    ordered_by: Callable[[Any], str | int | None] | None = None
    also: Sequence[Pipeline] = ()
    share: float = 0.0
    faults_s: float = FAULTS_S
    end_s: float = MAX_END_S


@dataclass(slots=True)
class ScheduleDriver:
    """The acts of one schedule."""

    world: World
    invariants: Invariants
    fleet: FleetDriver
    provider: Provider
    workloads: Sequence[Workload]
    submitted: list[SubmitRequest] = field(default_factory=list)
    #: The queues of the jobs.
    queues: Sequence[str] = ("",)
    #: The workload of all jobs; None: each job draws its own.
    of_all: Workload | None = None

    async def run(self) -> None:
        """Run all phases of the schedule."""
        rng, fleet = self.world.rng, self.fleet
        reconcile_in_workers = rng.random() < 0.7  # noqa: PLR2004 -- most deployments run it so
        # A copy of the generator: the other draws of a seed stay as they were.
        apart = Random()
        apart.setstate(rng.getstate())
        if apart.random() < QUEUES_SHARE:
            self.queues = QUEUES
        for number in range(rng.choice((1, 2, 2, 3))):
            # The first one serves all queues, and the others one or all.
            some = apart.choice((self.queues, self.queues[-1:], self.queues[:1]))
            queues = some if number else self.queues
            fleet.worker(reconcile=reconcile_in_workers, queues=queues)
        if not reconcile_in_workers:
            fleet.reconciler()
        deadline_at = self.world.loop.moment + rng.uniform(5.0, FAULTS_S)
        self.draw_work_of_all()
        if self.of_all is not None:
            seconds = apart.uniform(5.0, self.of_all.faults_s)
            deadline_at = self.world.loop.moment + seconds
        async with asyncio.TaskGroup() as acts:
            for ref in self.draw_jobs():
                acts.create_task(self.drive_job(ref, deadline_at))
            if self.world.faults.fires("service.denied"):
                acts.create_task(self.deny_service(deadline_at))
            if self.world.faults.fires("process.stop"):
                acts.create_task(self.stop_workers(deadline_at))
            if self.fleet.deployment is not None:
                self.world.faults.fired[DEPLOYED] += 1
                acts.create_task(self.deploy(self.fleet.deployment.rng, deadline_at))
        self.end_faults()
        await self.wait_until_jobs_end()
        await self.compensate_jobs()
        await self.resume_jobs()
        await self.wait_until_batches_end()
        await self.wait_until_queues_empty()
        check_final_state(self.world, self.invariants)
        await self.delete_jobs()

    @property
    def end_s(self) -> float:
        """The most seconds until all jobs end."""
        return self.of_all.end_s if self.of_all else MAX_END_S

    def draw_work_of_all(self) -> None:
        """Draw whether all jobs are of a workload with a share of its own."""
        drawn = Random(f"{self.world.rng.getstate()[1][:3]} work").random()
        usual = [each for each in self.workloads if not each.share]
        for work in self.workloads:
            if work.share and (drawn < work.share or not usual):
                self.of_all = work
        self.workloads = usual

    def draw_work(self) -> Workload:
        """Draw the workload of a job, as if none were that of all jobs."""
        drawn = self.world.rng.choice(self.workloads) if self.workloads else None
        work = self.of_all or drawn
        assert work is not None  # noqa: S101 -- there is one workload at least
        return work

    def draw_jobs(self) -> list[JobRef]:
        """Draw one or two jobs; those of two tenants have the same name."""
        tenant = self.world.settings.tenant
        if self.world.faults.fires("tenant.second"):
            return [JobRef(each, "job-0") for each in (tenant, SECOND_TENANT)]
        count = self.world.rng.choice((1, 1, 2))
        return [JobRef(tenant, f"job-{number}") for number in range(count)]

    def with_queue(self, pipeline: Pipeline, apart: Random) -> Pipeline:
        """Return a pipeline with one of the queues of the schedule."""
        if len(self.queues) == 1:
            return pipeline
        return replace(pipeline, queue=apart.choice(self.queues))

    def draw_payloads(self, ref: JobRef, work: Workload) -> list[BaseModel]:
        """Draw the payloads of a job, and the faults that belong to them."""
        payloads = list(work.payloads(self.world.rng))
        for number, payload in enumerate(payloads):
            if work.enlarge and self.world.faults.fires("value.large"):
                payloads[number] = work.enlarge(payload)
            if fault := draw_input_fault(self.world, work.pipeline):
                self.provider.input_faults[ref.tenant, ref.job, number] = fault
        return payloads

    def draw_children(
        self, ref: JobRef, pipeline: Pipeline, payloads: list[BaseModel]
    ) -> tuple[Pipeline, list[BaseModel]]:
        """Let the rows of some jobs run in children; the faults of inputs go along.

        The generator is one of its own: the other draws of a seed stay as they were.
        """
        if self.fleet.deployment is not None:
            return pipeline, payloads
        rng = Random(f"{self.world.rng.getstate()[1][:3]} {ref.job}")
        above, batches = in_children(pipeline, payloads, rng)
        faults = self.provider.input_faults
        if above is not pipeline:
            for number in range(len(payloads)):
                fault = faults.pop((ref.tenant, ref.job, number), None)
                if fault is not None and number < len(batches):
                    faults[ref.tenant, ref.job, number] = moved(fault, above)
        return above, batches

    async def drive_job(self, ref: JobRef, deadline_at: float) -> None:
        """Submit a job, then run the drawn operator commands on it."""
        rng, faults, fleet = self.world.rng, self.world.faults, self.fleet
        work = self.draw_work()
        late = faults.fires("operator.deadline")
        deadline = self.world.now() + rng.uniform(5.0, FAULTS_S) if late else None
        payloads = self.draw_payloads(ref, work)
        # A copy of the generator: the other draws of a seed stay as they were.
        apart = Random()
        apart.setstate(rng.getstate())
        priority, sample = apart.choice(PRIORITIES), 0
        pipeline, payloads = self.draw_children(ref, work.pipeline, payloads)
        draws = work.ordered_by is not None and apart.random() < ORDERED_SHARE
        if ordered := draws and pipeline is work.pipeline:
            pipeline = replace(pipeline, ordered_by=work.ordered_by)
        else:
            sample = apart.choice(SAMPLES)
        budget = draw_budget(apart)
        pipeline = self.with_queue(pipeline, apart)
        asked = (ref, pipeline, payloads, deadline, priority, sample, budget)
        await asyncio.sleep(rng.random() * 5.0)
        again = [fleet.submit(*asked, mortal=True)]
        if faults.fires("operator.submit_again"):
            again.append(fleet.submit(*asked, mortal=True))
        await asyncio.gather(*again)
        self.submitted.append(asked)
        acts: list[Callable[..., Coroutine[Any, Any, str]]] = []
        if faults.fires("operator.cancel"):
            acts.append(fleet.cancel)
        if faults.fires("operator.retry"):
            acts.append(fleet.retry)
        if faults.fires("operator.redrive"):
            acts.append(fleet.redrive)
        if faults.fires("operator.pause"):
            with_pipeline = [fleet.pause_pipeline, fleet.resume_pipeline]
            acts += [fleet.pause, fleet.resume, fleet.pause]
            acts += with_pipeline * (apart.random() < PIPELINE_SHARE)
        if faults.fires("operator.limits"):
            acts.append(fleet.set_limits)
        if ordered:
            acts += [fleet.discard] * apart.choice((0, 0, 1, 2))
        rng.shuffle(acts)
        acts += [fleet.compensate] * apart.choice((0, 0, 0, 1))
        acts += [fleet.run_again] * apart.choice((0, 0, 0, 1))
        acts += [fleet.set_budget] * (bool(budget) * apart.choice((0, 1)))
        async with asyncio.TaskGroup() as persons:
            persons.create_task(self.answer(ref, pipeline, deadline_at, apart))
            for act in acts:
                left = deadline_at - self.world.loop.moment
                await asyncio.sleep(max(0.0, rng.random() * left))
                said = await act(ref, mortal=True)
                self.world.note(None, f"operator: {said}", None)
            await asyncio.sleep(max(0.0, deadline_at - self.world.loop.moment))

    async def answer(
        self, ref: JobRef, pipeline: Pipeline, deadline_at: float, apart: Random
    ) -> None:
        """Let people read the questions of a job that asks, again and again."""
        asks = pipeline.name == metering.name
        while asks and self.world.loop.moment < deadline_at:
            await asyncio.sleep(apart.uniform(1.0, ANSWER_S))
            await self.fleet.answer(ref, mortal=True)

    async def stop_workers(self, deadline_at: float) -> None:
        """Stop workers as a deployment does."""
        while self.world.loop.moment < deadline_at:
            await asyncio.sleep(self.world.rng.uniform(1.0, FAULTS_S / 2))
            self.fleet.stop_worker()

    async def deploy(self, rng: Random, deadline_at: float) -> None:
        """Deploy the second version to some workers or all, and perhaps go back."""
        for share in rng.choice(DEPLOYMENTS):
            left = deadline_at - self.world.loop.moment
            await asyncio.sleep(max(0.0, rng.random() * left))
            self.fleet.deploy(share)

    async def deny_service(self, deadline_at: float) -> None:
        """Let a service refuse every request for a while, as a wrong policy does."""
        world, rng = self.world, self.world.rng
        service = rng.choice(("dynamodb", "sqs", "s3"))
        left = deadline_at - world.loop.moment
        await asyncio.sleep(rng.random() * left)
        world.note(None, f"{service} refuses every request", None)
        world.faults.denied.add(service)
        await asyncio.sleep(min(rng.uniform(1.0, MAX_DENIED_S), left))
        world.faults.denied.discard(service)

    def end_faults(self) -> None:
        """Stop injecting faults."""
        self.world.note(None, "the faults end", None)
        self.world.faults.on = False
        self.world.dynamodb.throughput = None
        for process in self.world.processes:
            process.fuse = 0
            self.world.loop.thaw(process)
        if (deployment := self.fleet.deployment) is not None:
            self.fleet.deploy(deployment.rng.choice((0.0, 1.0)))

    async def wait_until_jobs_end(self) -> None:
        """Wait until every job has ended.

        Jobs that do not exist yet are submitted again; paused ones are resumed. The end
        of a sample is an end: the chunks that follow have their own time.
        """
        for asked in self.submitted:
            if asked[0].pk not in self.invariants.jobs:
                await self.fleet.submit(*asked, mortal=False)
            if asked[-1]:
                await self.fleet.raise_budget(asked[0], PLENTY, mortal=False)
            await self.fleet.resume_pipeline(asked[0], mortal=False)
        loop = asyncio.get_running_loop()
        deadline_at = max(loop.time(), self.provider.waits_end_at) + self.end_s
        apart = Random()
        apart.setstate(self.world.rng.getstate())
        while unfinished := self.unfinished():
            if loop.time() > deadline_at:
                self.invariants.report_violation(f"L2: {unfinished} did not end")
                return
            for ref, *_ in self.submitted:  # the end of a sample pauses a job, too
                if self.invariants.jobs[ref.pk]["status"] == JobStatus.PAUSED:
                    await self.fleet.resume(ref, mortal=False)
                    deadline_at = max(deadline_at, loop.time() + self.end_s)
                if self.asks(ref) and apart.random() < 1 / ANSWER_S:
                    await self.fleet.answer(ref, mortal=False)
            await asyncio.sleep(1.0)
            await self.skip_wait()

    def asks(self, ref: JobRef) -> bool:
        """Return whether the stages of an unfinished job ask people."""
        job = self.invariants.jobs[ref.pk]
        is_open = not JobStatus(job["status"]).ended
        return is_open and job["pipeline"] == metering.name

    async def skip_wait(self) -> None:
        """Freeze all processes while every open chunk waits long.

        Idle processes would poll the queue thousands of times in a day.
        """
        world = self.world
        due_at = self.invariants.next_due_at()
        if due_at - world.now() < MIN_SKIPPED_S:
            return
        await asyncio.sleep(RESTART_S)
        seconds = self.invariants.next_due_at() - world.now() - MIN_SKIPPED_S / 2
        if 0 < seconds < math.inf:
            for process in world.processes:
                world.loop.freeze(process, seconds)
            await asyncio.sleep(seconds)

    def unfinished(self) -> list[str]:
        """Return the jobs that are not at their end."""
        return [
            f"{item['job']} {item['status']}"
            for item in self.invariants.jobs.values()
            if not JobStatus(item["status"]).ended
        ]

    async def wait_until_batches_end(self) -> None:
        """Wait until each batch has ended, also one of a job that was cancelled."""
        loop = asyncio.get_running_loop()
        deadline_at = max(loop.time(), self.provider.waits_end_at) + self.end_s
        while left := self.invariants.batches.open:
            if loop.time() > deadline_at:
                text = f"L2: {sorted(left)} of batches did not end"
                self.invariants.report_violation(text)
                return
            await asyncio.sleep(10.0)
            await self.skip_wait()

    async def wait_until_queues_empty(self) -> None:
        """Wait until the dead-letter queue is empty."""
        loop = asyncio.get_running_loop()
        deadline_at = loop.time() + MAX_DRAIN_S
        dead = self.world.urls[self.world.settings.dead_letter_queue]
        while self.world.sqs.next_at(dead) is not None:
            if loop.time() > deadline_at:
                self.invariants.report_violation(
                    "L5: the dead-letter queue is not empty"
                )
                return
            await asyncio.sleep(1.0)

    async def delete_jobs(self) -> None:
        """Delete the jobs of some schedules; operators that die leave it half-way."""
        apart = Random()
        apart.setstate(self.world.rng.getstate())
        if apart.random() < KEPT_SHARE:
            return
        loop = asyncio.get_running_loop()
        for ref, *_ in self.submitted:
            if not JobStatus(self.invariants.jobs[ref.pk]["status"]).ended:
                continue  # its violation is reported
            await self.fleet.delete(ref, mortal=False, dies_in_s=apart.random() / 2)
            deadline_at = loop.time() + MAX_DELETION_S
            # An operator may die before the mark of the deletion; the next one deletes.
            if JobStatus(self.invariants.jobs[ref.pk]["status"]).ended:
                await self.fleet.delete(ref, mortal=False)
            while self.invariants.jobs[ref.pk]["status"] != JobStatus.DELETED:
                if loop.time() > deadline_at:
                    self.invariants.report_violation(
                        f"L2: the deletion of {ref.job} did not end"
                    )
                    return
                await asyncio.sleep(1.0)
            check_deleted(self.world, self.invariants, ref)

    async def compensate_jobs(self) -> None:
        """Run failed compensations again; some operators die half-way."""
        for ref, *_ in self.submitted:
            left = self.invariants.letters.uncompensated(ref)
            if not left:
                continue
            apart = Random()
            apart.setstate(self.world.rng.getstate())
            act, dies_in_s = self.fleet.compensate, apart.random()
            await act(ref, mortal=False, dies_in_s=dies_in_s)
            await self.wait_until_jobs_end()
            await act(ref, mortal=False)
            await self.wait_until_jobs_end()
            if left := self.invariants.letters.uncompensated(ref):
                self.invariants.report_violation(f"L6: {left} stay uncompensated")

    async def resume_jobs(self) -> None:
        """Resume jobs that were cancelled or failed, and wait for their end."""
        if self.world.rng.random() < 0.5:  # noqa: PLR2004 -- leave some as they are
            return
        for ref, *_ in self.submitted:
            if self.invariants.jobs[ref.pk]["status"] == JobStatus.SUCCEEDED:
                continue
            await self.fleet.run_again(ref, mortal=False)
            await self.wait_until_jobs_end()
            await self.fleet.retry(ref, mortal=False)
        await self.wait_until_jobs_end()


def draw_budget(rng: Random) -> Cap:
    """Draw the budget of a job, in calls of the simulated pipelines."""
    calls = rng.choice(BUDGETS)
    return Cap(calls * CALL_TOKENS) if calls else NO_CAP
