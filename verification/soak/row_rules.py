"""What may be written beside a chunk: values of stages, effects, compensations."""

from __future__ import annotations

from collections.abc import Iterator

from piecework.domain import keys
from verification.soak.record import Change
from verification.soak.world import NOTHING, Rule, World

EFFECT_MOVES = {
    ("", "INTENT"),
    ("INTENT", "DONE"),
    ("INTENT", "REFUSED"),
    ("INTENT", "UNKNOWN"),
    ("INTENT", "COMPENSATED"),
    ("UNKNOWN", "DONE"),
    ("UNKNOWN", "COMPENSATED"),
    ("DONE", "COMPENSATED"),
    ("REFUSED", "COMPENSATED"),
    ("REFUSED", "INTENT"),
    ("REFUSED", "DONE"),
    ("COMPENSATED", "INTENT"),
}


def values_are_kept(world: World, change: Change) -> Iterator[str]:
    """I5: a claim writes a value once, to its own row."""
    new = change.new
    if new is None or change.kind != "STAGE":
        return
    if change.sk != keys.stage_sk(change.chunk or 0, new["stage"], new["fence"]):
        yield f"a value of claim {new['fence']} at {change.sk}"
    if world.old(change) not in (None, new):
        yield f"{change.sk} was replaced"


def results_are_fenced(world: World, change: Change) -> Iterator[str]:
    """I3: only the owner of the chunk writes its result."""
    if change.new is None or change.kind != "RESULT":
        return
    chunk = world.chunk(change.job, change.chunk)
    ours = (change.new["gen"], change.new["fence"])
    if ours != (chunk.get("gen"), chunk.get("fence")):
        yield f"a value of claim {ours}, which is not the chunk's"
    elif chunk["status"] not in {"RUNNING", "SUCCEEDED"}:
        yield f"a value of a chunk that is {chunk['status']}"


def intents_are_fenced(world: World, change: Change) -> Iterator[str]:
    """I3, I11: only the owner of a chunk begins an effect, in a job that goes on."""
    if change.kind != "EFFECT" or change.new is None or not is_intent(world, change):
        return
    chunk = world.chunk(change.job, change.chunk)
    if (chunk.get("status"), chunk.get("fence")) != ("RUNNING", change.new["fence"]):
        yield f"begun by claim {change.new['fence']}, which is over"
    if world.meta(change.job).get("status") in {"CANCELLED", "SUCCEEDED"}:
        yield "begun after the end of the job"


def effects_change_as_allowed(world: World, change: Change) -> Iterator[str]:
    """I7: an effect begins as an intent, and what was done stays known."""
    if change.kind != "EFFECT":
        return
    old = (world.old(change) or NOTHING).get("state", "")
    new = (change.new or NOTHING).get("state", "nothing")
    if old != new and (old, new) not in EFFECT_MOVES:
        yield f"{old or 'nothing'} -> {new}"


def compensated_in_reverse(world: World, change: Change) -> Iterator[str]:
    """I8: each stage once a generation, the later ones first."""
    if change.kind != "COMPENSATED" or change.new is None:
        return
    stages, _ = world.pipeline(change.job)
    gen, stage = change.sk.split("#")[3:5]
    before = [sk for sk in world.work[change.job, change.chunk or 0] if is_of(sk, gen)]
    if change.sk in before:
        yield f"{stage} was undone twice"
    earlier = [s for sk in before if (s := sk.split("#")[4]) != stage]
    if any(stages.index(s) < stages.index(stage) for s in earlier):
        yield f"{stage} was undone after a stage before it"
    if world.chunk(change.job, change.chunk).get("direction") != "compensating":
        yield f"{stage} was undone in a chunk that goes on"


def no_compensation_past_the_pivot(world: World, change: Change) -> Iterator[str]:
    """I8: what the pivot decided stands."""
    if change.kind != "COMPENSATED":
        return
    stages, pivot = world.pipeline(change.job)
    beyond = set(stages[pivot:])
    for effect in world.rows(change, "EFFECT"):
        if effect["stage"] in beyond and effect["state"] in {"DONE", "UNKNOWN"}:
            yield f"undone although {effect['stage']} is {effect['state']}"


def is_intent(world: World, change: Change) -> bool:
    """Return whether a write begins an effect."""
    new, old = change.new or NOTHING, world.old(change) or NOTHING
    begun = (old.get("state"), old.get("started_at"))
    return new["state"] == "INTENT" and begun != ("INTENT", new["started_at"])


def is_of(sk: str, gen: str) -> bool:
    """Return whether a row is a compensation of that generation."""
    return sk.split("#")[2:4] == ["COMPENSATED", gen]


ROW_RULES: dict[str, tuple[str, Rule]] = {
    "values-are-kept": ("I5", values_are_kept),
    "results-are-fenced": ("I3", results_are_fenced),
    "intents-are-fenced": ("I3", intents_are_fenced),
    "effects-change-as-allowed": ("I7", effects_change_as_allowed),
    "compensated-in-reverse": ("I8", compensated_in_reverse),
    "no-compensation-past-the-pivot": ("I8", no_compensation_past_the_pivot),
}
