"""Decide which findings a situation has, and their order; nothing here reads or writes.

Each cause is one function, in `job_causes.py` or `chunk_causes.py`. `CAUSES` lists
them; a new cause is one more function, and one more row in the table of findings. That
table decides their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from piecework.domain.states import JobStatus
from piecework.explain import chunk_causes, job_causes
from piecework.explain.findings import FINDINGS, Finding, Rank
from piecework.explain.finish_time import FinishTime, estimate
from piecework.explain.situation import Situation
from piecework.explain.view import View

Cause = Callable[[View], Iterator[Finding]]

#: Every cause.
CAUSES: Final[tuple[Cause, ...]] = (
    job_causes.submit_unfinished,
    job_causes.job_paused,
    job_causes.workers_missing,
    chunk_causes.newer_needed,
    chunk_causes.code_changed,
    chunk_causes.dependencies_paused,
    chunk_causes.breakers_open,
    chunk_causes.limits_reached,
    chunk_causes.lanes_full,
    chunk_causes.equal_calls,
    chunk_causes.tenant_capped,
    chunk_causes.retries_waiting,
    chunk_causes.retries_running,
    chunk_causes.people_asked,
    chunk_causes.timers_waiting,
    chunk_causes.children_waiting,
    chunk_causes.batches_waiting,
    chunk_causes.keys_stopped,
    chunk_causes.aws_unavailable,
    chunk_causes.resources_lacking,
    chunk_causes.effects_in_flight,
    chunk_causes.leases_expiring,
    chunk_causes.chunks_unclaimed,
    job_causes.join_open,
    job_causes.cancel_unfinished,
    job_causes.progressing,
    job_causes.letters_open,
    job_causes.effects_in_doubt,
    chunk_causes.keys_in_order,
    chunk_causes.limits_used,
    job_causes.parent_waits,
    job_causes.code_changed,
    job_causes.keys_unstable,
    job_causes.webhooks_failed,
    job_causes.fleet_unreadable,
    job_causes.ended,
)


def find(situation: Situation) -> list[Finding]:
    """Return the findings of a situation, the most important first; at least one."""
    view = View(situation)
    found = [finding for cause in CAUSES for finding in cause(view)]
    if situation.run_line:  # without a process, nothing passes by itself
        found = [each for each in found if each.kind.rank is not Rank.PASSES]
    if all(finding.kind.rank > Rank.PASSES for finding in found):
        found += job_causes.about_to_continue(view)
    order = list(FINDINGS)

    def key(finding: Finding) -> tuple[int, int, int]:
        rank, place = finding.kind.rank, order.index(finding.kind.code)
        by_chunks = 0 if rank is Rank.BLOCKS_JOB else -finding.chunks
        return rank, by_chunks, place

    return sorted(found, key=key)


def finish_time(situation: Situation, first: Finding) -> FinishTime | None:
    """Return the time until the chunks have ended; None: unknown.

    While something stops the job that does not pass by itself, it is unknown.
    """
    job = situation.job
    if first.kind.rank < Rank.PASSES or job.status is not JobStatus.RUNNING:
        return None
    if job.holds_rest:
        return None  # `jobs forecast` tells it after the sample
    now, open_ = situation.now, situation.open
    elapsed = [max(0.0, now - claimed) for claimed in open_.times.claimed]
    running = open_.estimate(len(elapsed))
    return estimate(situation.throughput, open_.number, elapsed, running)
