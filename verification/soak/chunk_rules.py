"""What may be written to a chunk's item: whose it is, where it goes, how often."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.domain import keys
from piecework.domain.claim import MAX_RECOVERIES
from piecework.domain.outcome import Compensation
from verification.soak.record import Change, Item
from verification.soak.world import (
    CHUNK_ENDED,
    JOB_ENDED,
    NOTHING,
    Rule,
    World,
    is_claim,
    seconds,
)

MOVES = {
    ("PENDING", "RUNNING"),
    ("PENDING", "CANCELLED"),
    ("WAITING", "RUNNING"),
    ("WAITING", "CANCELLED"),
    ("RUNNING", "SUCCEEDED"),
    ("RUNNING", "WAITING"),
    ("RUNNING", "DEAD"),
    ("RUNNING", "CANCELLED"),
    ("DEAD", "PENDING"),
    ("CANCELLED", "PENDING"),
}
#: What an ended chunk is remembered by.
FINAL = ("gen", "fence", "claim_token", "result_sha256", "settled_at", "error_code")
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


def never_lost(world: World, change: Change) -> Iterator[str]:
    """I1: no chunk goes away."""
    if change.new is None:
        yield "the chunk is gone"


def moves_as_drawn(world: World, change: Change) -> Iterator[str]:
    """I4: every move is an arrow of docs/states.md; out of an end, a new gen."""
    old, new = pair(world, change)
    move = (old["status"], new["status"])
    join_anew = change.chunk == keys.JOIN_CHUNK and new["gen"] > old["gen"]
    if move[0] != move[1] and move not in MOVES and not join_anew:
        yield f"{move[0]} -> {move[1]}"
    if old["status"] in CHUNK_ENDED and move[0] == move[1] and not join_anew:
        changed = [name for name in FINAL if old.get(name) != new.get(name)]
        if changed:
            yield f"an ended chunk was written to: {', '.join(changed)}"


def gen_follows_job(world: World, change: Change) -> Iterator[str]:
    """I4: a new life begins with a resume of the job, and only then."""
    old, new = pair(world, change)
    reborn = old["status"] in CHUNK_ENDED and new["status"] == "PENDING"
    if reborn and new["gen"] <= old["gen"]:
        yield f"taken up again in generation {new['gen']}, after {old['gen']}"
    if not reborn and old["gen"] != new["gen"]:
        yield f"generation {old['gen']} -> {new['gen']} in mid-life"
    if reborn and change.chunk != keys.JOIN_CHUNK:
        meta = world.meta(change.job)
        if (meta.get("status"), meta.get("gen")) != ("RESUMING", new["gen"]):
            yield f"taken up while the job is {meta.get('status')}"


def fence_rises(world: World, change: Change) -> Iterator[str]:
    """I2: by one with each claim, and at no other time."""
    old, new = pair(world, change)
    if change.chunk == keys.JOIN_CHUNK and new["gen"] > old["gen"]:
        return  # the join is put anew
    expected = old["fence"] + 1 if is_claim(old, new) else old["fence"]
    if new["fence"] != expected:
        yield f"fence {old['fence']} -> {new['fence']}, not {expected}"


def one_token(world: World, change: Change) -> Iterator[str]:
    """I2: a fence of a generation has one owner."""
    old, new = pair(world, change)
    if not is_claim(old, new):
        return
    tokens = world.tokens[change.job, change.chunk or 0]
    if (new["gen"], new["fence"]) in tokens:
        yield f"a second owner of fence {new['fence']}"
    if new["claim_token"] in tokens.values():
        yield "an old token is used again"


def claims_what_is_free(world: World, change: Change) -> Iterator[str]:
    """I2: only what nobody has, whose wait is over, or whose lease is dead."""
    old, new = pair(world, change)
    if not is_claim(old, new):
        return
    now = seconds(new["claimed_at"])
    if old["status"] == "RUNNING":
        free = seconds(old["claim_expires_at"]) + world.limits.clock_skew_s
        if now <= free:
            yield f"taken {free - now:.3f} s before its lease was dead"
    elif "retry_at" in old and seconds(old["retry_at"]) > now:
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
        over = change.at - seconds(old["claim_expires_at"]) - world.limits.clock_skew_s
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


def attempts_counted(world: World, change: Change) -> Iterator[str]:
    """I10: every attempt is counted before it begins, and there are only so many."""
    old, new = pair(world, change)
    if new["gen"] != old["gen"]:
        return
    begun = new["attempts"] - old["attempts"]
    recovered = new.get("recoveries", 0) - old.get("recoveries", 0)
    released = new.get("releases", 0) - old.get("releases", 0)
    periods = ("deferrals", "outages")
    parked = sum(new.get(name, 0) - old.get(name, 0) for name in periods)
    if is_claim(old, new):
        if (begun, recovered) not in {(1, 0), (0, 1)}:
            yield f"a claim that counts as {begun} attempts, {recovered} recoveries"
    elif parked:
        if parked != 1 or (begun, recovered) not in {(-1, 0), (0, -1)}:
            yield f"parked {parked} times, for {begun} attempts, {recovered} recoveries"
    elif begun not in ({0, -1} if released else {0}) or recovered:
        yield f"{begun} attempts, {recovered} recoveries without a claim"
    if new["attempts"] > world.limits.max_attempts:
        yield f"attempt {new['attempts']}"
    if new.get("recoveries", 0) > MAX_RECOVERIES + 1:
        yield f"recovery {new['recoveries']}"
    if (
        begun == -1
        and not parked
        and (new.get("releases", 0) > world.limits.max_releases)
    ):
        yield f"release {new.get('releases')} gave its attempt back"


def cancel_is_a_barrier(world: World, change: Change) -> Iterator[str]:
    """I11: no claim of what is to be cancelled, nor in a job that has ended."""
    old, new = pair(world, change)
    if not is_claim(old, new):
        return
    if "cancel_requested_at" in old and "direction" not in old:
        yield "claimed after a cancel was asked for"
    meta = world.meta(change.job)
    if meta.get("gen") == new["gen"] and meta.get("status") in JOB_ENDED:
        yield f"claimed in a job that is {meta.get('status')}"


def compensated_whole(world: World, change: Change) -> Iterator[str]:
    """I8: who says that all was undone left nothing standing before the pivot."""
    _, new = pair(world, change)
    undone = new.get("compensation") == Compensation.COMPENSATED
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
    "never-lost": ("I1", never_lost),
    "moves-as-drawn": ("I4", moves_as_drawn),
    "gen-follows-job": ("I4", gen_follows_job),
    "fence-rises": ("I2", fence_rises),
    "one-token": ("I2", one_token),
    "claims-what-is-free": ("I2", claims_what_is_free),
    "beats-in-order": ("L3", beats_in_order),
    "settled-by-its-holder": ("I3", settled_by_its_holder),
    "completed-once": ("I5", completed_once),
    "attempts-counted": ("I10", attempts_counted),
    "cancel-is-a-barrier": ("I11", cancel_is_a_barrier),
    "compensated-whole": ("I8", compensated_whole),
}
