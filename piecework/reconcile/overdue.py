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
    """How long the longest waiting chunk of each job has waited when it was seen.

    Since when is kept as text that sorts. What comes after the look does not count: the
    lease of a chunk in hand is renewed, and a large job is looked at rarely.
    """

    _longest: dict[JobRef, tuple[str, float]] = field(default_factory=dict)

    def forget(self, ref: JobRef) -> None:
        """Drop what was seen of a job: it is looked at anew, or has ended."""
        self._longest.pop(ref, None)

    def saw(self, job: Job, chunk: Chunk, now: float) -> None:
        """Note a chunk as it stands."""
        since = waits_since(job, chunk)
        if since and since < self._longest.get(job.ref, ("~", 0.0))[0]:
            # A time that is none is this job's trouble alone.
            self._longest[job.ref] = since, max(0.0, now - moment(since))

    def seconds(self) -> float:
        """Return the longest wait; 0 when none waits."""
        return max((waited for _, waited in self._longest.values()), default=0.0)


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
