"""Count what became of everything: from the tables, the certificate and the books."""

from __future__ import annotations

from orchestrator.demo.killing import Death
from orchestrator.demo.verdict import Counts
from orchestrator.demo.watch import Watch
from piecework.finish import Certificate
from piecework.harvest import TableHarvest
from piecework.manifest import read_manifest
from piecework.model import ChunkStatus, Job
from piecework.runtime import Runtime
from piecework.store.census import Census, take_census
from piecework.store.dead_letters import DeadLetters

#: What every clause does at the add-in, once.
EFFECTS = ("notify", "publish", "reserve")


async def count(watch: Watch, death: Death) -> Counts:
    """Count, when all workers are gone and nothing moves any more."""
    rt, look = watch.rt, await watch.look()
    census = await take_census(rt.table, watch.ref, look.job.chunks)
    listed = await in_manifest(rt, look.job)
    rows = DeadLetters(rt.dead_letters, rt.settings, rt.clock).of_job(watch.ref)
    effects = look.addin.effects
    return Counts(
        status=look.job.status,
        chunks=len(listed),
        succeeded=census.by_status[ChunkStatus.SUCCEEDED],
        lost=len(listed ^ await accounted_for(rt, look.job, census)),
        effects=sum(effects[name] for name in EFFECTS),
        effects_expected=len(EFFECTS) * len(listed),
        duplicate_effects=look.addin.duplicates,
        slots_open=look.addin.slots_open,
        calls_paid_twice=look.model.answered_twice,
        in_hand=len(death.held),
        taken_over=len(death.takeovers),
        redriven=len([row async for row in rows if row["state"] == "REDRIVEN"]),
    )


async def in_manifest(rt: Runtime, job: Job) -> set[int]:
    """Return the chunks that were handed in."""
    entries = read_manifest(rt.objects, job)
    return {entry.chunk async for entry in entries}


async def accounted_for(rt: Runtime, job: Job, census: Census) -> set[int]:
    """Return the chunks of whose result record, certificate and value agree.

    Raises:
        StateError: A stored value is not the one that its chunk settled with.
    """
    content = await rt.objects.get(str(job.item["certificate"]))
    certified = Certificate.model_validate_json(content).results
    harvest = TableHarvest(rt.table, rt.objects, job.ref, census)
    stored = {result.chunk async for result in harvest.results()}
    return {
        row.chunk
        for row in census.rows
        if row.chunk in stored and certified.get(row.chunk) == row.result_sha256
    }


def tell_counts(counts: Counts, watch: Watch, death: Death) -> None:
    """Say where each figure of the last line comes from."""
    watch.screen.say("took", f"{watch.rt.clock() - watch.began:.1f} s from the submit")
    remembered = sum(
        watch.logs.replayed.get((held.chunk, held.fence + 1), 0) for held in death.held
    )
    watch.screen.say(
        "counted",
        f"chunks: {counts.chunks} in the manifest, {counts.succeeded} SUCCEEDED in the "
        f"table, {counts.lost} without a certified result",
    )
    watch.screen.say(
        "",
        f"effects: {counts.effects} in the add-in's own ledger, "
        f"{counts.duplicate_effects} twice, {counts.slots_open} slots left open",
    )
    watch.screen.say(
        "",
        f"calls: beside its checkpoints {remembered} journalled calls of the killed "
        "worker were remembered, "
        f"{counts.calls_paid_twice} paid twice by the model's own count "
        f"({death.paid_twice} before the kill): their answers were on the way, or at "
        "most 250 ms old and not yet written, when it was killed",
    )
    if watch.logs.leases_lost:
        watch.screen.say(
            "",
            f"{watch.logs.leases_lost} leases ran out on living workers: this machine "
            "is busy, and their calls may be among those paid twice",
        )
