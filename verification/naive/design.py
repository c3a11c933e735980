"""Define a design as a trial uses it, and the final account of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from piecework_simulation.aws.dynamodb import Change
from piecework_simulation.engine.process import Process

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


class Design(Protocol):
    """A design with its workers and its submitter."""

    def start(self) -> None:
        """Start its workers, each of which is replaced when it dies."""

    def workers(self) -> Sequence[Process]:
        """Return the workers that are alive."""

    async def submit(self) -> str:
        """Submit the job once; return `done`, `died`, or the error."""

    def submitter(self) -> Process:
        """Return the process that submits."""

    def check_write(self, changes: Sequence[Change]) -> None:
        """Check the writes of one request."""

    def known(self) -> bool:
        """Return whether the job is recorded."""

    def over(self) -> bool:
        """Return whether nothing is in progress that could change the state."""

    def completions(self) -> int:
        """Return how many chunks were completed more than once."""

    def account(self) -> Account:
        """Return the account of the job."""

    def why_missing(self, chunk: int) -> str:
        """Return why a chunk is missing."""

    def errors(self) -> Sequence[str]:
        """Return unexpected errors."""
