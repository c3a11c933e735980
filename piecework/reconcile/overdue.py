"""For how long the chunk has waited that waits longest: what "nobody works" looks like.

A chunk is overdue from when it could be worked on: its lease is dead, or its wait is
over, or it was sent. Told of the chunks that the reconciler reads anyway; how overdue a
large job is, is known as of its last look.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from piecework.model import Chunk, ChunkStatus, Job, JobRef, moment


@dataclass(slots=True)
class Overdue:
    """Since when the longest waiting chunk of each job waits, as text that sorts."""

    _since: dict[JobRef, str] = field(default_factory=dict)

    def begin(self, ref: JobRef) -> None:
        """Forget what was seen of a job: it is looked at anew, or has ended."""
        self._since.pop(ref, None)

    def saw(self, job: Job, chunk: Chunk) -> None:
        """Note a chunk as it stands."""
        since = waits_since(job, chunk)
        if since and since < self._since.get(job.ref, "~"):
            moment(since)  # a time that is none is this job's trouble alone
            self._since[job.ref] = since

    def seconds(self, now: float) -> float:
        """Return the longest wait; 0 when none waits."""
        if not self._since:
            return 0.0
        return max(0.0, now - moment(min(self._since.values())))


def waits_since(job: Job, chunk: Chunk) -> str:
    """Return from when a chunk could be worked on and nobody has it; empty: never."""
    item = chunk.item
    if chunk.status.terminal:
        return ""
    if chunk.status is ChunkStatus.RUNNING:
        return str(item.get("claim_expires_at", ""))
    if "retry_at" in item:
        return str(item["retry_at"])
    if chunk.status is ChunkStatus.WAITING and "claimed_at" in item:
        return str(item["claimed_at"])
    sent = (job.item.get(name) for name in ("reopened_at", "sent_at", "opened_at"))
    return str(next(filter(None, sent), ""))
