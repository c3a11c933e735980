"""Discard dead letters job by job, and say how many."""

from __future__ import annotations

from orchestrator.cli.output import Column, Output
from orchestrator.cli.selecting import Plan
from orchestrator.cli.submitting import whoami
from orchestrator.discard import discard
from piecework.runtime import Runtime
from piecework.store.dead_letters import Closing


async def carry_out(rt: Runtime, out: Output, planned: Plan, reason: str) -> None:
    """Discard what was planned; what was closed meanwhile is left alone."""
    by = Closing(whoami(), reason)
    done = [
        {"job": ref.job, "discarded": await discard(rt, ref, letters, by)}
        for ref, letters in planned.by_job.items()
    ]
    columns = [Column("JOB", "job"), Column("DISCARDED", "discarded", right=True)]
    out.rows(done, columns, "nothing was discarded")
    if out.table:
        out.say(f"next: piecework dlq list --job {done[0]['job']} --all")
