"""Check that no call leaves its cheap lane before it has waited for room long enough.

The provider tells when it refused a call for lack of room, whichever worker made it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from piecework.resilience.lanes import BATCH, Lane

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World
    from piecework_simulation.provider import OutgoingCall

#: Two clocks may be so many seconds apart, where clocks are wrong: one worker writes
#: since when a call waits, and another one reads it.
APART_S = 60.0


@dataclass(slots=True)
class LaneInvariants:
    """Since when each call has waited for room."""

    world: World
    report_violation: Callable[[str], None]
    since: dict[str, float] = field(default_factory=dict)

    def note_full(self, call: OutgoingCall) -> None:
        """Note that a call was refused for lack of room."""
        self.since.setdefault(call.identity, self.world.loop.moment)

    def check_start(self, call: OutgoingCall, taken: Lane | None) -> None:
        """Check the start of a call in a lane; None: it is made apart from a chunk."""
        declared = call.dependency.lane
        if taken is None or taken.tier or declared.tier in {"", BATCH}:
            return
        waited = self.world.loop.moment - self.since.get(
            call.identity, self.world.loop.moment
        )
        has_offsets = "clock.offset" in self.world.faults.rates
        if waited < declared.within - 1.0 - APART_S * has_offsets:
            name = call.dependency.name
            self.report_violation(f"I32: {name} went direct after {waited:.0f} s")
