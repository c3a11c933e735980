"""What may be written to a chunk, beyond what the simulator's invariants say of it."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.domain import keys
from piecework.domain.moments import moment
from piecework.domain.outcome import CompensationResult
from verification.soak.record import Change, Item
from verification.soak.world import (
    CHUNK_ENDED,
    JOB_ENDED,
    NOTHING,
    Rule,
    World,
    is_claim,
)

#: The clocks of the table's stream and of a reconciler are read in two processes.
SLACK_S = 0.05


def created_in_a_job(world: World, change: Change) -> Iterator[str]:
    """I14: there is a job, and its manifest has room for the chunk."""
    if world.old(change) is not None or change.new is None:
        return
    meta, number = world.meta(change.job), change.chunk or 0
    if not meta:
        yield "a chunk without a job"
    elif number >= meta["chunks"] or number < keys.JOIN_CHUNK:
        yield f"chunk {number} of a job of {meta['chunks']}"
    if change.new["status"] != "PENDING" or change.new["fence"] != 0:
        yield f"is created as {change.new['status']}"


def reopened_with_its_job(world: World, change: Change) -> Iterator[str]:
    """I4: a chunk is reopened with its job, and only then."""
    old, new = pair(world, change)
    reopened = old["status"] in CHUNK_ENDED and new["status"] == "PENDING"
    if reopened and change.chunk != keys.JOIN_CHUNK:
        meta = world.meta(change.job)
        if (meta.get("status"), meta.get("gen")) != ("REOPENING", new["gen"]):
            yield f"reopened while the job is {meta.get('status')}"


def claims_a_free_chunk(world: World, change: Change) -> Iterator[str]:
    """I2: only a chunk without an owner, whose wait is over."""
    old, new = pair(world, change)
    if not is_claim(old, new):
        return
    now = moment(new["claimed_at"])
    if old["status"] == "RUNNING":
        yield "claimed from its owner"
    elif "retry_at" in old and moment(old["retry_at"]) > now:
        yield "claimed before its time"


def renewals_in_order(world: World, change: Change) -> Iterator[str]:
    """L3: a renewal follows the one before it, and shortens no lease."""
    old, new = pair(world, change)
    if is_claim(old, new) or new["status"] != "RUNNING":
        return
    more = new.get("renewals", 0) - old.get("renewals", 0)
    renewed = new.get("claim_expires_at") != old.get("claim_expires_at")
    if more not in {0, 1} or (renewed and not more):
        yield f"renewed {old.get('renewals')} times, then {new.get('renewals')}"


def settled_by_its_owner(world: World, change: Change) -> Iterator[str]:
    """I3: its owner settles a claim; a release of an expired one removes its token."""
    old, new = pair(world, change)
    if old["status"] != "RUNNING" or new["status"] == "RUNNING":
        return
    if "claim_token" not in new:
        silent = change.at - world.renewed_at[change.job, change.chunk or 0]
        # A renewal may arrive so late that its lease has expired. The end that it wrote
        # counts after half a lease of silence, or once it is over for a clock's skew.
        limits = world.limits
        over = change.at - moment(old["claim_expires_at"]) + SLACK_S
        is_silent = silent >= limits.lease_s / (2 if over >= 0 else 1) - SLACK_S
        if not is_silent and over < limits.clock_skew_s:
            yield f"given back after {silent:.3f} s without a renewal"
    elif new["claim_token"] != old["claim_token"]:
        yield "settled by another than its owner"
    if "claimed_by" in new:
        yield "settled, and still has an owner"


def succeeded_once(world: World, change: Change) -> Iterator[str]:
    """I5: a chunk succeeds once, a join once in each generation."""
    old, new = pair(world, change)
    if new["status"] != "SUCCEEDED" or old["status"] == "SUCCEEDED":
        return
    number = change.chunk or 0
    before = world.completions[change.job, number]
    if new["gen"] in before or (before and number != keys.JOIN_CHUNK):
        yield "succeeded a second time"
    if not new.get("result_sha256"):
        yield "succeeded without a result"


def named_once_written(world: World, change: Change) -> Iterator[str]:
    """I5: a chunk names a value that was written, and never drops one."""
    old, new = pair(world, change)
    number, named = change.chunk or 0, new.get("stages", {})
    for stage, entry in named.items():
        sk = keys.stage_sk(number, stage, entry["fence"])
        if "finished_at" not in entry and sk not in world.work[change.job, number]:
            yield f"{stage} was named before its value was written"
    for stage in old.get("stages", {}).keys() - named.keys():
        yield f"{stage} is not complete any more"


def no_claim_in_an_ended_job(world: World, change: Change) -> Iterator[str]:
    """I11: no claim in a job that has ended."""
    old, new = pair(world, change)
    meta = world.meta(change.job)
    ended = meta.get("gen") == new["gen"] and meta.get("status") in JOB_ENDED
    if is_claim(old, new) and ended:
        yield f"claimed in a job that is {meta.get('status')}"


def compensated_in_full(world: World, change: Change) -> Iterator[str]:
    """I8: COMPENSATED means that no effect before the pivot remains."""
    _, new = pair(world, change)
    undone = new.get("compensation") == CompensationResult.COMPENSATED
    if new["status"] not in CHUNK_ENDED or not undone:
        return
    stages, pivot = world.pipeline(change.job)
    for effect in world.rows(change, "EFFECT"):
        remains = effect["state"] not in {"COMPENSATED", "REFUSED"}
        if effect["stage"] in stages[:pivot] and remains:
            yield f"compensated, but {effect['stage']} is {effect['state']}"


def pair(world: World, change: Change) -> tuple[Item, Item]:
    """Return the chunk before and after; a created or deleted one twice."""
    new = change.new or world.old(change) or NOTHING
    return world.old(change) or new, new


CHUNK_RULES: dict[str, tuple[str, Rule]] = {
    "created-in-a-job": ("I14", created_in_a_job),
    "reopened-with-its-job": ("I4", reopened_with_its_job),
    "claims-a-free-chunk": ("I2", claims_a_free_chunk),
    "renewals-in-order": ("L3", renewals_in_order),
    "settled-by-its-owner": ("I3", settled_by_its_owner),
    "succeeded-once": ("I5", succeeded_once),
    "named-once-written": ("I5", named_once_written),
    "no-claim-in-an-ended-job": ("I11", no_claim_in_an_ended_job),
    "compensated-in-full": ("I8", compensated_in_full),
}
