"""The checkers in their places, in a schedule as in a sweep of crash points."""

from __future__ import annotations

from simulation.log import Log
from simulation.outside import OUTSIDE, Outside
from simulation.process import PROCESS, context_of
from simulation.promises import Promises
from simulation.world import World


def wire(world: World, promises: Promises, outside: Outside) -> Log:
    """Let the checkers see all that happens in a world, its log included."""
    promises.outside = outside
    world.dynamodb.on_write = promises.written
    world.sqs.on_delete = promises.deleted
    OUTSIDE.set(outside)
    world.context = context_of(world.loop.world)  # which knows the outside from now on
    return Log(
        lambda said: promises.break_(f"unexpected: {said}"),
        lambda said: world.note(PROCESS.get(None), said, None),
    )
