"""Count the results from the tables, the certificate and the services' ledgers."""

from __future__ import annotations

from dataclasses import dataclass

from piecework.domain.job import Job
from piecework.domain.states import ChunkStatus, JobStatus
from piecework.jobs.fan_in import Certificate, StoredJobResults
from piecework.jobs.manifest import read_manifest
from piecework.runtime import Runtime
from piecework.store.completion import JobSnapshot, take_snapshot
from piecework.store.dead_letters import DeadLetters
from piecework_orchestrator.demo.watch import JobWatcher, WorkerKill

#: What every clause does at the add-in, once.
EFFECTS = ("notify", "publish", "reserve")


async def count_results(watcher: JobWatcher, kill: WorkerKill) -> Counts:
    """Count the results after all workers have stopped."""
    rt, snapshot = watcher.rt, await watcher.take_snapshot()
    job_snapshot = await take_snapshot(rt.table, watcher.ref, snapshot.job.chunks)
    listed = await read_chunk_numbers(rt, snapshot.job)
    rows = DeadLetters(rt.dead_letters, rt.settings, rt.clock).of_job(watcher.ref)
    effects = snapshot.addin.effects
    return Counts(
        status=snapshot.job.status,
        chunks=len(listed),
        succeeded=job_snapshot.by_status[ChunkStatus.SUCCEEDED],
        lost=len(listed ^ await verified_chunks(rt, snapshot.job, job_snapshot)),
        effects=sum(effects[name] for name in EFFECTS),
        effects_expected=len(EFFECTS) * len(listed),
        duplicate_effects=snapshot.addin.duplicates,
        slots_open=snapshot.addin.slots_open,
        calls_paid_twice=snapshot.model.answered_twice,
        claimed_at_kill=len(kill.claimed),
        taken_over=len(kill.takeovers),
        redriven=len([row async for row in rows if row.state == "REDRIVEN"]),
    )


async def read_chunk_numbers(rt: Runtime, job: Job) -> set[int]:
    """Return the numbers of the submitted chunks."""
    entries = read_manifest(rt.objects, job)
    return {entry.chunk async for entry in entries}


async def verified_chunks(rt: Runtime, job: Job, snapshot: JobSnapshot) -> set[int]:
    """Return the chunks whose record, certificate and stored result agree.

    Raises:
        StateError: A stored result is not the one that its chunk was settled with.
    """
    content = await rt.objects.get(job.certificate)
    certified = Certificate.model_validate_json(content).results
    job_results = StoredJobResults(rt.table, rt.objects, job.ref, snapshot)
    stored = {result.chunk async for result in job_results.results()}
    return {
        row.chunk
        for row in snapshot.rows
        if row.chunk in stored and certified.get(row.chunk) == row.result_sha256
    }


def report_counts(counts: Counts, watcher: JobWatcher, kill: WorkerKill) -> None:
    """Report the source of each figure of the summary line."""
    watcher.screen.print_line(
        "took", f"{watcher.rt.clock() - watcher.started_at:.1f} s from the submit"
    )
    replayed = sum(
        watcher.logs.replayed.get((claimed.chunk, claimed.fence + 1), 0)
        for claimed in kill.claimed
    )
    watcher.screen.print_line(
        "counted",
        f"chunks: {counts.chunks} in the manifest, {counts.succeeded} SUCCEEDED in the "
        f"table, {counts.lost} without a certified result",
    )
    watcher.screen.print_line(
        "",
        f"effects: {counts.effects} in the add-in's ledger, "
        f"{counts.duplicate_effects} duplicates, {counts.slots_open} open slots",
    )
    watcher.screen.print_line(
        "",
        f"calls: {replayed} calls of the killed worker were replayed from the journal, "
        f"{counts.calls_paid_twice} were paid twice by the model's count "
        f"({kill.paid_twice} of them before the kill). When the worker was killed, the "
        "answers of the others were on the way, or at most 250 ms old and not written",
    )
    if watcher.logs.leases_lost:
        watcher.screen.print_line(
            "",
            f"{watcher.logs.leases_lost} leases of running workers expired: this "
            "machine is busy. Their calls may be among those paid twice",
        )


# ── figures of the story, and the checks of its promises ──────────────────────


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures from the tables and from the services' ledgers, after the end.

    Attributes:
        chunks: Number of chunks in the manifest.
        succeeded: Chunks with status `SUCCEEDED`.
        lost: Chunks whose record, certificate and stored result do not agree, and
            chunks that are not in the manifest.
        effects: Effects at the add-in.
        effects_expected: Effects that should have taken place.
        calls_paid_twice: Requests that the model answered more than once.
        claimed_at_kill: Chunks that the killed worker had claimed.
        taken_over: Chunks of `claimed_at_kill` that another worker has claimed.
        redriven: Redriven dead letters.
    """

    status: JobStatus
    chunks: int
    succeeded: int
    lost: int
    effects: int
    effects_expected: int
    duplicate_effects: int
    slots_open: int
    calls_paid_twice: int
    claimed_at_kill: int
    taken_over: int
    redriven: int


def failed_checks(counts: Counts) -> list[str]:
    """Return a sentence for each promise that the counts break."""
    promises = [
        (counts.status is JobStatus.SUCCEEDED, f"the job ended {counts.status}"),
        (counts.lost == 0, f"{counts.lost} of {counts.chunks} chunks are lost"),
        (
            counts.duplicate_effects == 0,
            f"{counts.duplicate_effects} effects happened twice",
        ),
        (
            counts.effects == counts.effects_expected,
            f"{counts.effects} effects took place, not {counts.effects_expected}",
        ),
        (counts.slots_open == 0, f"{counts.slots_open} slots are still open"),
        (counts.claimed_at_kill > 0, "the killed worker had no chunk"),
        (
            counts.taken_over == counts.claimed_at_kill,
            f"{counts.taken_over} of {counts.claimed_at_kill} chunks were taken over",
        ),
        (counts.redriven > 0, "no dead letter was redriven"),
    ]
    return [message for kept, message in promises if not kept]


def summary_line(counts: Counts) -> str:
    """Return the figures as one line of less than 80 columns."""
    return " ".join(
        [
            f"lost={counts.lost}",
            f"duplicate_effects={counts.duplicate_effects}",
            f"calls_paid_twice={counts.calls_paid_twice}",
            f"chunks={counts.chunks}",
            f"redriven={counts.redriven}",
        ]
    )
