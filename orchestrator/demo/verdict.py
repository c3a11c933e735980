"""The figures of the story, and the checks of its promises."""

from __future__ import annotations

from dataclasses import dataclass

from piecework.model import JobStatus


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures from the tables and from the services' ledgers, after the end.

    Attributes:
        chunks: Number of chunks in the manifest.
        succeeded: Chunks with status `SUCCEEDED`.
        lost: Chunks whose record, certificate and stored result do not agree, and
            chunks that are not in the manifest.
        effects: Effects at the add-in.
        effects_expected: Effects that should have taken place.
        calls_paid_twice: Requests that the model answered more than once.
        claimed_at_kill: Chunks that the killed worker had claimed.
        taken_over: Chunks of `claimed_at_kill` that another worker has claimed.
        redriven: Redriven dead letters.
    """

    status: JobStatus
    chunks: int
    succeeded: int
    lost: int
    effects: int
    effects_expected: int
    duplicate_effects: int
    slots_open: int
    calls_paid_twice: int
    claimed_at_kill: int
    taken_over: int
    redriven: int


def failed_checks(counts: Counts) -> list[str]:
    """Return a sentence for each promise that the counts break."""
    promises = [
        (counts.status is JobStatus.SUCCEEDED, f"the job ended {counts.status}"),
        (counts.lost == 0, f"{counts.lost} of {counts.chunks} chunks are lost"),
        (
            counts.duplicate_effects == 0,
            f"{counts.duplicate_effects} effects happened twice",
        ),
        (
            counts.effects == counts.effects_expected,
            f"{counts.effects} effects took place, not {counts.effects_expected}",
        ),
        (counts.slots_open == 0, f"{counts.slots_open} slots are still open"),
        (counts.claimed_at_kill > 0, "the killed worker had no chunk"),
        (
            counts.taken_over == counts.claimed_at_kill,
            f"{counts.taken_over} of {counts.claimed_at_kill} chunks were taken over",
        ),
        (counts.redriven > 0, "no dead letter was redriven"),
    ]
    return [message for kept, message in promises if not kept]


def summary_line(counts: Counts) -> str:
    """Return the figures as one line of less than 80 columns."""
    return " ".join(
        [
            f"lost={counts.lost}",
            f"duplicate_effects={counts.duplicate_effects}",
            f"calls_paid_twice={counts.calls_paid_twice}",
            f"chunks={counts.chunks}",
            f"redriven={counts.redriven}",
        ]
    )
