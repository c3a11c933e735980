"""What the story came to, in figures, and whether it is what was promised."""

from __future__ import annotations

from dataclasses import dataclass

from piecework.model import JobStatus


@dataclass(frozen=True, slots=True)
class Counts:
    """Figures read from the tables and from the services' books, after the end.

    Attributes:
        chunks: As many as the manifest lists.
        succeeded: Chunks on record as `SUCCEEDED`.
        lost: Chunks of the manifest without a result that record, certificate and
            stored value agree on, and chunks that no manifest lists.
        effects: What took effect at the add-in, and what should have.
        calls_paid_twice: Requests that the model answered more than once.
        in_hand: Chunks that the killed worker had claimed when it died.
        taken_over: Those of them that another worker has claimed since.
        redriven: Dead letters on record as redriven.
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
    in_hand: int
    taken_over: int
    redriven: int


def failures(counts: Counts) -> list[str]:
    """Return a sentence for each promise that was not kept."""
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
        (counts.slots_open == 0, f"{counts.slots_open} slots are left open"),
        (counts.in_hand > 0, "the killed worker had no chunk in hand"),
        (
            counts.taken_over == counts.in_hand,
            f"{counts.taken_over} of {counts.in_hand} chunks were taken over",
        ),
        (counts.redriven > 0, "no dead letter was redriven"),
    ]
    return [said for kept, said in promises if not kept]


def last_line(counts: Counts) -> str:
    """Return the figures for people and scripts alike, in less than 80 columns."""
    return " ".join(
        [
            f"lost={counts.lost}",
            f"duplicate_effects={counts.duplicate_effects}",
            f"calls_paid_twice={counts.calls_paid_twice}",
            f"chunks={counts.chunks}",
            f"redriven={counts.redriven}",
        ]
    )
