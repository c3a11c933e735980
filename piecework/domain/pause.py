"""Why a job, a pipeline or a dependency is paused."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class PauseCode(StrEnum):
    """Why a job is paused; views show the code, and programs compare it."""

    #: An operator paused it.
    OPERATOR = "operator"
    #: Its sample has ended, and the rest waits for a yes.
    SAMPLE = "sample"
    #: An operator paused its pipeline.
    PIPELINE = "pipeline"
    #: Its budget, or that of its tenant for the day, is spent.
    BUDGET = "budget"
    #: The job whose stage started it is paused.
    PARENT = "parent"


@dataclass(frozen=True, slots=True)
class Pause:
    """The pause of a job.

    Attributes:
        code: A stable code, such as `PauseCode.OPERATOR`.
        message: The reason in words.
        actor: The operator, or the process, that paused the job.
        at: When, ISO 8601; empty until the pause is stored.
        until: When a reconciler resumes the job, ISO 8601; empty: an operator does.
        unit: The unit of the spent budget: `usd` or `tokens`; empty: another pause.
    """

    code: str
    message: str
    actor: str
    at: str = ""
    until: str = ""
    unit: str = ""

    @property
    def why(self) -> str:
        """The reason in words, for a sentence."""
        return self.message or "no reason"

    def document(self) -> dict[str, str]:
        """Return the pause as views and events show it."""
        return {
            "code": self.code,
            "message": self.message,
            "actor": self.actor,
            "at": self.at,
            **({"until": self.until} if self.until else {}),
            **({"unit": self.unit} if self.unit else {}),
        }
