"""A design as a trial sees it, and what has become of a job under it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from simulation.cloud.dynamodb import Change
from simulation.process import Process

JOB = "job"
SLOTS = 3


@dataclass(frozen=True, slots=True)
class Account:
    """What is on record of a job at the end.

    Attributes:
        results: Chunks that are recorded as finished and whose result is there.
        dead: Other chunks for which there is a dead letter that can be found.
        ended: The job's own record says that it is over,
        whole: and that nothing is missing.
    """

    results: frozenset[int]
    dead: frozenset[int]
    ended: bool
    whole: bool


class Side(Protocol):
    """A design with its workers and its submitter."""

    def start(self) -> None:
        """Start its workers, each of which is replaced when it dies."""

    def workers(self) -> Sequence[Process]:
        """Return the workers that are alive."""

    async def submit(self) -> str:
        """Submit the job once: `done`, `died`, or what was wrong."""

    def submitter(self) -> Process:
        """Return the process that submits."""

    def written(self, changes: Sequence[Change]) -> None:
        """Look at what one request has written to the tables."""

    def known(self) -> bool:
        """Say whether the job is on record at all."""

    def over(self) -> bool:
        """Say whether nothing is left under way that could change anything."""

    def completions(self) -> int:
        """Return how many chunks were completed more than once."""

    def account(self) -> Account:
        """Return what is on record."""

    def why_missing(self, chunk: int) -> str:
        """Return how a chunk came to be missing."""

    def troubles(self) -> Sequence[str]:
        """Return what no part of the code expects."""
