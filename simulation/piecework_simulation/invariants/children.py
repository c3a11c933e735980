"""Check that a child starts once, for a chunk that waits for it, and wakes that chunk.

The checks use the rows of chunks and jobs, as they are written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from piecework.domain.outcome import CHILD_JOB
from piecework.domain.states import ChunkStatus, JobStatus
from piecework_simulation.coverage import CHILD_TRANSITIONS, ENDED

if TYPE_CHECKING:
    from piecework_simulation.invariants.chunk_invariants import ChunkInvariants

Item = dict[str, Any]


@dataclass(slots=True)
class ChildInvariants:
    """The children of a world.

    Attributes:
        jobs, chunks: The rows, as they are now.
        started: How often each call of a stage started a child.
    """

    report_violation: Callable[[str], None]
    jobs: Mapping[str, Item]
    chunks: Mapping[str, Mapping[int, ChunkInvariants]]
    transitions: Counter[str]
    started: Counter[tuple[str, int, str]] = field(default_factory=Counter)

    def check_chunk(self, job_pk: str, old: Item | None, new: Item) -> None:
        """Check that a chunk waits for no child that has ended, and count its wakes."""
        child = new.get("child")
        began = old is None or old.get("child") != child
        waits = began and new["status"] == ChunkStatus.WAITING
        if waits and self.is_over(job_pk, new):
            self.report_violation(f"I33: {job_pk} waits for {child}, which ended")
        if old is None or old["status"] != ChunkStatus.WAITING:
            return
        woken = old.get("blocked_on") == CHILD_JOB and "blocked_on" not in new
        if woken and new["status"] == ChunkStatus.WAITING:
            self.transitions[CHILD_TRANSITIONS["woken"]] += 1

    def is_over(self, job_pk: str, chunk: Item) -> bool:
        """Return whether a chunk waits for a child that has ended."""
        child = chunk.get("child")
        item = self.jobs.get(f"{job_pk.rpartition('#J#')[0]}#J#{child}")
        return item is not None and has_ended(item)

    def check_job(self, pk: str, old: Item | None, new: Item) -> None:
        """Check that a child starts once, and for a chunk that waits for it."""
        parent = new.get("parent_job")
        if not parent:
            return
        if old is None:
            self.transitions[CHILD_TRANSITIONS["started"]] += 1
            above = f"{pk.rpartition('#J#')[0]}#J#{parent}"
            number = new["parent_chunk"]
            self.started[above, number, new["parent_stage"]] += 1
            chunk = self.chunks[above][number].item
            waits = chunk["status"] == ChunkStatus.WAITING
            if not waits or chunk.get("child") != new["job"]:
                self.report_violation(f"I33: no chunk waits for the child {new['job']}")
            return
        if old["status"] == new["status"]:
            return
        if new.get("cancelled_by") == "parent" and new["status"] == "CANCELLING":
            self.transitions[CHILD_TRANSITIONS["cancelled"]] += 1
        if new["status"] == JobStatus.PAUSED and new["pause_code"] == "parent":
            self.transitions[CHILD_TRANSITIONS["paused"]] += 1
        if old["status"] == JobStatus.PAUSED and old["pause_code"] == "parent":
            self.transitions[CHILD_TRANSITIONS["resumed"]] += 1

    def check_end(self) -> None:
        """Check that no call has started two children, and that all follow their end.

        Each stage of the built-in pipelines maps once.
        """
        for (pk, number, stage), times in self.started.items():
            if times > 1:
                self.report_violation(
                    f"I33: {stage} of {pk}/{number} started {times} children"
                )
        for pk, item in self.jobs.items():
            parent = item.get("parent_job")
            if not parent or JobStatus(item["status"]).gone:
                continue
            above = f"{pk.rpartition('#J#')[0]}#J#{parent}"
            chunk = self.chunks[above][item["parent_chunk"]].item
            if chunk["status"] in ENDED and not has_ended(item):
                self.report_violation(f"I33: {item['job']} outlives its parent")
            if chunk["status"] == ChunkStatus.SUCCEEDED:
                self.check_result(chunk, item)

    def check_result(self, chunk: Item, child: Item) -> None:
        """Check that a chunk that succeeded has waited for the end of its child."""
        if not has_ended(child) and not child.get("reopened_at"):
            name = f"{chunk['job']}/{chunk['chunk']}"
            self.report_violation(f"I33: {name} did not wait for {child['job']}")


def has_ended(job: Item) -> bool:
    """Return whether a job has ended, or is gone."""
    status = JobStatus(job["status"])
    return status.ended or status.gone
