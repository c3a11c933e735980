"""Build the objects that a claimed chunk runs with; nothing is read or written here."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import structlog
from pydantic import BaseModel

from piecework import saga
from piecework.attempts import Attempts
from piecework.calls import Caller
from piecework.claim import Claim
from piecework.context import Context, JoinContext
from piecework.finish import Certificate
from piecework.harvest import StoredJobResults
from piecework.model import Job
from piecework.pipeline import JOIN, Pipeline, Stage
from piecework.retry import RetryBudget
from piecework.spending import UsageReporter
from piecework.store.census import JobSnapshot
from piecework.store.checkpoints import ChunkCheckpoints
from piecework.store.journal import CallJournal
from piecework.store.ledger import EffectLedger
from piecework.store.responses import TableResponses
from piecework.store.table import Item
from piecework.winding_back import may_compensate
from workers.bench import WorkerStageRunner
from workers.heart import Lease
from workers.station import WorkerServices


@dataclass(slots=True)
class ChunkRun:
    """The run of a claimed chunk.

    Attributes:
        pipeline: The chunk's pipeline; for a join, a pipeline with the join as its
            stage.
        error_history: The errors that ended earlier claims.
        loaded: Whether the payload and the records of earlier claims are loaded.
        snapshot: For a loaded join, the snapshot of the job's chunks, all ended.
        certificate: The job's certificate, once this run has ended its join.
    """

    claim: Claim
    pipeline: Pipeline
    ctx: Context[Any]
    checkpoints: ChunkCheckpoints
    journal: CallJournal
    ledger: EffectLedger
    limits: saga.Limits
    error_history: list[Item] = field(default_factory=list)
    loaded: bool = False
    snapshot: JobSnapshot | None = None
    certificate: Certificate | None = None


class NoPayload(BaseModel):
    """The payload of a join."""


def build_run(
    lease: Lease,
    job: Job,
    pipeline: Pipeline,
    services: WorkerServices,
    log: structlog.stdlib.BoundLogger,
) -> ChunkRun:
    """Build the run of a claim."""
    claim, rt = lease.claim, services.rt
    stages = join_as_pipeline(pipeline) if claim.ref.is_join else pipeline
    journal = CallJournal(rt.table, rt.objects, claim, rt.settings, rt.clock, log)
    ledger = EffectLedger(rt.table, rt.objects, claim, rt.clock)
    attempts = Attempts(
        budget=RetryBudget(
            rt.settings.retry_budget_s, max_delay=rt.settings.longest_wait_s
        ),
        slots=services.call_limiter,
        rng=rt.rng,
        clock=rt.clock,
        log=log,
        progress=lease.record_progress,
        check_lease=lease.check_deadline,
        breakers=services.breakers,
        tokens=services.retry_tokens,
        pacer=services.pacer,
        usage=UsageReporter(functools.partial(rt.cost.spent, job.ref), log),
    )
    caller = Caller(
        journal=journal,
        ledger=ledger,
        gen=claim.gen,
        attempts=attempts,
        drains_effects=lambda: lease.will_compensate,
        responses=TableResponses(rt.table, claim.ref.tenant, rt.clock, log),
    )
    caller.in_flight.acquired_at = lease.acquired_at
    facts: dict[str, Any] = {
        "payload": None,
        "pipeline": pipeline,
        "tenant": claim.ref.tenant,
        "job": claim.ref.job,
        "chunk": claim.ref.chunk,
        "attempt": claim.attempt,
        "caller": caller,
        "log": log,
        "runner": WorkerStageRunner(claim.token, services),
    }
    ctx: Context[Any]
    if claim.ref.is_join:
        unread = StoredJobResults(rt.table, rt.objects, job.ref, JobSnapshot(()))
        ctx = JoinContext(**facts, job_results=unread)
    else:
        ctx = Context(**facts)
    checkpoints = ChunkCheckpoints(
        rt.table, rt.objects, claim, stages, ledger, rt.clock
    )
    chunk_run = ChunkRun(
        claim=claim,
        pipeline=stages,
        ctx=ctx,
        checkpoints=checkpoints,
        journal=journal,
        ledger=ledger,
        limits=saga.Limits(rt.settings.max_attempts, rt.clock, rt.rng),
    )
    # Before the state is loaded, a compensation has nothing to work with.
    lease.is_cancellable = lambda: (
        chunk_run.loaded
        and checkpoints.failure is None
        and may_compensate(stages, ctx.stage)
    )
    return chunk_run


def join_as_pipeline(pipeline: Pipeline) -> Pipeline:
    """Return a pipeline whose only stage is the join."""
    run = pipeline.join or default_join
    stage = Stage(run, name=JOIN)  # type: ignore[arg-type]
    return Pipeline(
        name=pipeline.name,
        stages=[stage],
        payload=NoPayload,
        owner=pipeline.owner,
        runbook=pipeline.runbook,
    )


async def default_join(ctx: Context[Any]) -> None:
    """Do nothing: the default join of a pipeline, whose job still ends by a join."""
