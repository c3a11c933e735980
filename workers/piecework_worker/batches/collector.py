"""The collector: in each worker that has a model with the batch lane, one at a time.

    note      a chunk of this worker waits for batches: a collector is needed
    look      a collector is needed, and no other worker is it: one pass

It runs in workers, because only they have the clients of the models. A model has one
collector at a time for each tenant, by a lease with a fence in a row among the active
jobs. The row says when one is needed next. While no worker runs, a reconciler starts
one then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import structlog

from piecework import telemetry
from piecework.calls.batched import BatchedCalls
from piecework.calls.fleet_budgets import FleetBudgets
from piecework.cost.meter import acting_as
from piecework.dependency import Dependency
from piecework.domain.batch import CollectorRow
from piecework.domain.claim import Claim
from piecework.domain.job import Job
from piecework.domain.moments import iso
from piecework.errors import StoreError
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass
from piecework.pipelines import Pipeline
from piecework.runtime import Runtime
from piecework.saga.named import dependencies_of
from piecework.store.batch_reads import Place
from piecework.store.batches import SOON_S, Batches
from piecework_worker.batches.collecting import Collecting
from piecework_worker.batches.passes import LEASE_S

#: Seconds between two looks at the row of a model.
LOOK_S: Final = 20.0
#: Seconds until the next pass after one that failed, or that the provider refused.
FAILED_S: Final = 60.0
#: Seconds from the note of a need within which its requests are written.
WRITTEN_S: Final = 120.0
REFUSED_S: Final = 900.0


@dataclass(slots=True)
class Collector:
    """The collector in one worker.

    Attributes:
        models: The models that batches ask, by their key.
        tasks: The task that looks; none: no model is known.
    """

    rt: Runtime
    worker: str
    budgets: FleetBudgets
    log: structlog.stdlib.BoundLogger
    models: dict[str, Dependency] = field(default_factory=dict)
    #: When the next pass over each model is, as it was noted last.
    _next_at: dict[Place, float] = field(default_factory=dict)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def learn(self, pipelines: Iterable[Pipeline]) -> None:
        """Learn the models that pipelines name; calls tell the others."""
        for pipeline in pipelines:
            self._add(dependencies_of(pipeline))

    def _add(self, found: Iterable[Dependency]) -> None:
        for each in found:
            # A model that only a child has loaded has no client here.
            if each.batch is not None and each.batch.provider is not None:
                self.models.setdefault(each.batch.key, each)

    @property
    def batches(self) -> Batches:
        """The batches of the deployment."""
        return Batches(self.rt.table, self.rt.objects, self.rt.clock)

    async def note(self, claim: Claim, batched: BatchedCalls | None, job: Job) -> None:
        """Note that a collector is needed for what a chunk asks.

        That is done before its requests are written, so that a worker that dies leaves
        none without a collector, and after it: a pass may have looked between. While
        the next pass has not begun, it needs no request.
        """
        asked: Mapping[str, Dependency] = {} if batched is None else batched.models
        self._add(asked.values())
        self.start()
        now, ref = self.rt.clock(), claim.ref
        for key, model in asked.items():
            place, when = (ref.tenant, key), now + model.lane.gather
            if now + SOON_S < self._next_at.get(place, 0.0) <= when:
                continue
            nudge = {"tenant": ref.tenant, "job": ref.job, "chunk": ref.chunk}
            with suppress(StoreError):
                self._next_at[place] = await self.batches.need(
                    place,
                    when,
                    model=model.name,
                    provider=model.provider,
                    billed=model.model,
                    nudge={**nudge, "gen": claim.gen, "queue": job.queue},
                )

    def start(self) -> None:
        """Start to look if a model of the lane is known: without one nothing runs."""
        if self.models and not self.tasks:
            self.tasks.append(asyncio.create_task(self.run()))

    async def run(self) -> None:
        """Look for ever."""
        while True:
            with acting_as("reconciler"):
                await self.look()
            await asyncio.sleep(LOOK_S * self.rt.rng.uniform(0.8, 1.2))

    async def look(self) -> None:
        """Make each pass that is due, and that no other worker makes."""
        now = iso(self.rt.clock())
        try:
            found = [each async for each in self.batches.collectors()]
        except StoreError as error:
            code, log = error.code, self.log
            telemetry.emit(log, "worker.store_failed", error_code=code, delay_s=LOOK_S)
            return
        for place, row in found:
            due = "" < row.next_at <= now or row.called_at
            if place[1] in self.models and due:
                await self._pass(place, row)

    async def _pass(self, place: Place, row: CollectorRow) -> None:
        """Make a pass over a model for a tenant, unless another worker makes it."""
        try:
            fence = await self.batches.take(place, self.worker, LEASE_S)
        except StoreError as error:
            self._tell(place, error, LOOK_S)
            return
        if fence is None:
            return
        model = self.models[place[1]]
        known = self.rt, place, model, self.budgets, self.log, self.worker, fence
        collecting = Collecting(*known, row, row.durations)
        try:
            next_at = await collecting.pass_once()
        except Exception as error:  # noqa: BLE001 -- logged; the chunks wait on
            code, delay_s = self._tell(place, error, FAILED_S)
            collecting.told["error"] = code
            next_at = self.rt.clock() + delay_s
        with suppress(StoreError):
            await self._leave(place, row, collecting, next_at)

    async def _leave(
        self,
        place: Place,
        row: CollectorRow,
        collecting: Collecting,
        next_at: float | None,
    ) -> None:
        """Say when the next pass is due; None: nothing is open.

        What asked while the pass ran is gathered first.
        """
        batches, lane = self.batches, self.models[place[1]].lane
        took = [round(seconds) for seconds in collecting.took]
        mine = place, self.worker, collecting.fence
        now = self.rt.clock()
        gathered_at = now + lane.gather
        if next_at is None and row.noted_at > iso(now - WRITTEN_S):
            next_at = now + max(lane.gather, WRITTEN_S / 2)
        known, told = (took, collecting.nudge), collecting.told
        later = next_at is None or next_at > gathered_at
        notes = row.notes if later else None
        if not await batches.leave(*mine, next_at, *known, notes=notes, **told):
            await batches.leave(*mine, gathered_at, *known, **told)
        if row.called_at:
            await batches.heard(place, row)

    def _tell(
        self, place: Place, error: Exception, delay_s: float
    ) -> tuple[str, float]:
        """Tell why a pass failed; return the code, and the seconds until the next one.

        A refused key or role is refused again: only this model waits, for longer.
        """
        model = self.models[place[1]]
        failure = classify(error, layer="llm", now=self.rt.clock(), in_call=True)
        if failure.error_class in {ErrorClass.PERMANENT, ErrorClass.POLICY}:
            delay_s = max(delay_s, REFUSED_S)
        telemetry.emit(
            self.log,
            "batch.failed",
            dependency=model.name,
            provider=model.provider,
            error_code=failure.code,
            delay_s=delay_s,
        )
        return failure.code, delay_s
