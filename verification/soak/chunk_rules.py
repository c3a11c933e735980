"""What may be written to a chunk, beyond what the simulator's invariants say of it."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.domain import keys
from piecework.domain.model import moment
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


def born_of_a_job(world: World, change: Change) -> Iterator[str]:
    """I14: there is a job, and its manifest has room for the chunk."""
    if world.old(change) is not None or change.new is None:
        return
    meta, number = world.meta(change.job), change.chunk or 0
    if not meta:
        yield "a chunk without a job"
    elif number >= meta["chunks"] or number < keys.JOIN_CHUNK:
        yield f"chunk {number} of a job of {meta['chunks']}"
    if change.new["status"] != "PENDING" or change.new["fence"] != 0:
        yield f"begins its life as {change.new['status']}"


def reopened_by_a_resume(world: World, change: Change) -> Iterator[str]:
    """I4: a new life begins with a resume of the job, and only then."""
    old, new = pair(world, change)
    reborn = old["status"] in CHUNK_ENDED and new["status"] == "PENDING"
    if reborn and change.chunk != keys.JOIN_CHUNK:
        meta = world.meta(change.job)
        if (meta.get("status"), meta.get("gen")) != ("REOPENING", new["gen"]):
            yield f"taken up while the job is {meta.get('status')}"


def claims_what_is_free(world: World, change: Change) -> Iterator[str]:
    """I2: only what nobody has, and whose wait is over."""
    old, new = pair(world, change)
    if not is_claim(old, new):
        return
    now = moment(new["claimed_at"])
    if old["status"] == "RUNNING":
        yield "taken from its owner"
    elif "retry_at" in old and moment(old["retry_at"]) > now:
        yield "taken before its time"


def beats_in_order(world: World, change: Change) -> Iterator[str]:
    """L3: a renewal comes after the one before it, and none cuts the lease of it."""
    old, new = pair(world, change)
    if is_claim(old, new) or new["status"] != "RUNNING":
        return
    beats = new.get("renewals", 0) - old.get("renewals", 0)
    renewed = new.get("claim_expires_at") != old.get("claim_expires_at")
    if beats not in {0, 1} or (renewed and not beats):
        yield f"renewed {old.get('renewals')} times, then {new.get('renewals')}"


def settled_by_its_holder(world: World, change: Change) -> Iterator[str]:
    """I3: who ends a claim names it; who ends a dead one takes its token away."""
    old, new = pair(world, change)
    if old["status"] != "RUNNING" or new["status"] == "RUNNING":
        return
    if "claim_token" not in new:
        silent = change.at - world.beats[change.job, change.chunk or 0]
        # A beat may be so long on its way that its lease is over when it arrives.
        over = change.at - moment(old["claim_expires_at"]) - world.limits.clock_skew_s
        if silent < world.limits.lease_s - SLACK_S and over < -SLACK_S:
            yield f"given back after {silent:.3f} s of silence"
    elif new["claim_token"] != old["claim_token"]:
        yield "ended by another than its holder"
    if "claimed_by" in new:
        yield "ended, and still somebody's"


def completed_once(world: World, change: Change) -> Iterator[str]:
    """I5: a chunk has one result in its life, a join one in each."""
    old, new = pair(world, change)
    if new["status"] != "SUCCEEDED" or old["status"] == "SUCCEEDED":
        return
    number = change.chunk or 0
    before = world.completions[change.job, number]
    if new["gen"] in before or (before and number != keys.JOIN_CHUNK):
        yield "completed a second time"
    if not new.get("result_sha256"):
        yield "completed without a result"


def no_claim_in_an_ended_job(world: World, change: Change) -> Iterator[str]:
    """I11: no claim in a job that has ended."""
    old, new = pair(world, change)
    meta = world.meta(change.job)
    ended = meta.get("gen") == new["gen"] and meta.get("status") in JOB_ENDED
    if is_claim(old, new) and ended:
        yield f"claimed in a job that is {meta.get('status')}"


def compensated_whole(world: World, change: Change) -> Iterator[str]:
    """I8: who says that all was undone left nothing standing before the pivot."""
    _, new = pair(world, change)
    undone = new.get("compensation") == CompensationResult.COMPENSATED
    if new["status"] not in CHUNK_ENDED or not undone:
        return
    stages, pivot = world.pipeline(change.job)
    for effect in world.rows(change, "EFFECT"):
        standing = effect["state"] not in {"COMPENSATED", "REFUSED"}
        if effect["stage"] in stages[:pivot] and standing:
            yield f"compensated, but {effect['stage']} is {effect['state']}"


def pair(world: World, change: Change) -> tuple[Item, Item]:
    """Return the chunk before and after; what is born or gone is as before."""
    new = change.new or world.old(change) or NOTHING
    return world.old(change) or new, new


CHUNK_RULES: dict[str, tuple[str, Rule]] = {
    "born-of-a-job": ("I14", born_of_a_job),
    "reopened-by-a-resume": ("I4", reopened_by_a_resume),
    "claims-what-is-free": ("I2", claims_what_is_free),
    "beats-in-order": ("L3", beats_in_order),
    "settled-by-its-holder": ("I3", settled_by_its_holder),
    "completed-once": ("I5", completed_once),
    "no-claim-in-an-ended-job": ("I11", no_claim_in_an_ended_job),
    "compensated-whole": ("I8", compensated_whole),
}
