"""Check that a paused job, and what waits for a sample, starts no call.

A paused job starts none once its workers can know of the pause.

A worker learns of a pause by its polls of the job, in normal times within two seconds.
A worker that cannot read the table may go on for as long as its lease lasts. A worker
that was frozen does not know of the pause either. Calls of a chunk that compensates are
made during a pause, too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.domain.states import JobStatus
from piecework_simulation.engine.process import PROCESS

if TYPE_CHECKING:
    from piecework_simulation.engine.world import World

Item = Mapping[str, Any]
#: Seconds of polls that fail while the lease is renewed.
UNNOTICED_S = 10.0


@dataclass(slots=True)
class PauseInvariants:
    """The moments at which paused jobs were paused, by job."""

    world: World
    report_violation: Callable[[str], None]
    paused_at: dict[str, float] = field(default_factory=dict)
    samples: dict[str, frozenset[int]] = field(default_factory=dict)

    def check_job(self, job_pk: str, new: Item) -> None:
        """Note a pause, a sample that runs, and their ends."""
        self.samples.pop(job_pk, None)
        if "rest_held" in new:
            self.samples[job_pk] = frozenset(new["sample"])
        if new["status"] != JobStatus.PAUSED:
            self.paused_at.pop(job_pk, None)
        else:
            self.paused_at.setdefault(job_pk, self.world.now())

    def check_start(self, job_pk: str, chunk: Item | None) -> None:
        """Check the start of a call of a chunk."""
        if chunk and chunk["chunk"] not in self.samples.get(job_pk, {chunk["chunk"]}):
            text = f"I19: {job_pk} started a call of chunk {chunk['chunk']}"
            self.report_violation(f"{text}, which waits for the sample")
        if job_pk not in self.paused_at or (chunk and "direction" in chunk):
            return
        seconds = self.world.now() - self.paused_at[job_pk]
        process = PROCESS.get(None)
        awake = self.world.loop.moment - process.thawed_at if process else seconds
        if min(seconds, awake) > self.world.settings.lease_s + UNNOTICED_S:
            self.report_violation(
                f"I19: {job_pk} started a call {seconds:.0f} s after its pause"
            )
