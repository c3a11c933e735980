"""Discard dead letters job by job, and report how many."""

from __future__ import annotations

from orchestrator.cli.output import Column, Output
from orchestrator.cli.selecting import Plan
from orchestrator.cli.submitting import whoami
from orchestrator.discard import discard
from piecework.runtime import Runtime
from piecework.store.dead_letters import Closing


async def discard_plan(rt: Runtime, out: Output, plan: Plan, reason: str) -> None:
    """Discard the planned dead letters; those closed meanwhile are skipped."""
    closing = Closing(whoami(), reason)
    done = [
        {"job": ref.job, "discarded": await discard(rt, ref, letters, closing)}
        for ref, letters in plan.by_job.items()
    ]
    columns = [Column("JOB", "job"), Column("DISCARDED", "discarded", right=True)]
    out.rows(done, columns, "no dead letter was discarded")
    if out.table:
        out.say(f"next: piecework dlq list --job {done[0]['job']} --all")
