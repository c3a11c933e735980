"""What a run with a strike came to, held against the run without one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import zip_longest

from piecework.model import ChunkStatus
from piecework.outcome import Compensation
from simulation.crash_points.play import Picture
from simulation.crash_points.run import Job, Run, undisturbed
from simulation.crash_points.strikes import Strike

#: The end of a chunk of which nobody can tell whether its letter was sent.
UNKNOWN = "runtime.effect.unknown"


class Kind(StrEnum):
    """How a promise was broken."""

    LOST = "lost"
    DOUBLE = "double"
    UNENDED = "unended"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of a run.

    Attributes:
        broken: The promises that it broke.
        doubtful: How many chunks ended as open questions for a person, because it was
            their effect that the strike hit: one that cannot be looked up, or a pivot.
    """

    job: Job
    strike: Strike
    broken: list[tuple[Kind, str]]
    doubtful: int


def judge(job: Job, strike: Strike, run: Run) -> Finding:
    """Hold a run against the one in which nothing happened."""
    usual = undisturbed(job)
    broken = [
        (Kind.DOUBLE if said.startswith("I6") else Kind.OTHER, said)
        for said in run.broken
    ]
    if run.unended:
        broken.append((Kind.UNENDED, "something did not come to its end"))
    before, after = (
        [point.name for point in r.points[: strike.point + 1]] for r in (usual, run)
    )
    if not run.struck or before != after:
        broken.append((Kind.OTHER, "the run was another one before it was struck"))
    doubtful: set[int] = set()
    for one, other in zip_longest(usual.pictures, run.pictures):
        if one and other:
            doubtful |= open_questions(one, other, run.at_work)
            broken += [(Kind.LOST, said) for said in lost(one, other, doubtful)]
    return Finding(job, strike, broken, len(doubtful))


def open_questions(usual: Picture, found: Picture, at_work: dict[int, str]) -> set[int]:
    """Return the chunks that the strike has rightly left for a person to decide on.

    Only such as the struck process had in hand: at the letter, or not beyond the pivot
    that refuses them. Nobody can tell a refusal from the second one of two any more if
    the pivot was entered before, or if any call of the claim was tried again.
    """
    return {
        n
        for n, stage in at_work.items()
        if (end := found.chunks.get(n)) is not None
        and end.status == ChunkStatus.DEAD
        and (
            (stage == "write" and end.code == UNKNOWN)
            or (
                stage in {"flight", "hotel", "pay"}
                and end.compensation == Compensation.PIVOT_IN_DOUBT
                and end.code == usual.chunks[n].code
            )
        )
    }


def lost(usual: Picture, found: Picture, doubtful: set[int]) -> Iterator[str]:
    """Yield what did not come to the end that it comes to."""
    if not doubtful and found.job != usual.job:
        yield f"the job is {found.job}, not {usual.job}"
    for n, end in usual.chunks.items():
        if n not in doubtful and found.chunks.get(n) != end:
            yield f"chunk {n} is {found.chunks.get(n)}, not {end}"
    theirs = {f" {n}" for n in doubtful}
    for name in sorted(set(usual.booked) ^ set(found.booked)):
        if name[name.index(" ") :] not in theirs:
            there = "stands" if name in found.booked else "does not stand"
            yield f"{name} {there}"
