"""The checkers in their places, in a schedule as in a sweep of crash points."""

from __future__ import annotations

from simulation.log import Log
from simulation.outside import PROVIDER, Provider
from simulation.process import PROCESS, context_of
from simulation.promises import Invariants
from simulation.world import World


def attach_checkers(world: World, invariants: Invariants, provider: Provider) -> Log:
    """Attach the checkers and the log to a world; return the log."""
    invariants.provider = provider
    world.dynamodb.on_write = invariants.check_write
    world.sqs.on_delete = invariants.check_deleted_message
    PROVIDER.set(provider)
    world.context = context_of(world.loop.world)  # a context that contains the provider
    return Log(
        lambda text: invariants.report_violation(f"unexpected: {text}"),
        lambda text: world.note(PROCESS.get(None), text, None),
    )
