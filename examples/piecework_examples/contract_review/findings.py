"""What the review finds, as the pipeline stores it and the add-in is sent it."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class Severity(StrEnum):
    """How bad a finding is, worst first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"

    @property
    def rank(self) -> int:
        """Return 0 for the worst."""
        return list(Severity).index(self)


class Record(BaseModel):
    """A value that is written once and only read from then on."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class CategoryScore(Record):
    """How much a clause is about one category, and the words that show it."""

    category: str
    score: Annotated[float, Field(ge=0, le=1)]
    fired: tuple[str, ...] = ()


class Finding(Record):
    """A risk in a clause: its position, its signs, and what to ask for."""

    specialist: str
    rule: str
    severity: Severity
    title: str
    quote: str
    start: int
    end: int
    fired: tuple[str, ...] = ()
    recommendation: str = ""


class ClauseReview(Record):
    """One clause, reviewed: the result of a chunk."""

    number: int
    heading: str
    category: str
    words: int
    defined_terms: tuple[str, ...] = ()
    scores: tuple[CategoryScore, ...] = ()
    findings: tuple[Finding, ...] = ()

    @property
    def worst(self) -> Severity | None:
        """Return the severity of the worst finding."""
        found = [finding.severity for finding in self.findings]
        return min(found, key=lambda s: s.rank) if found else None
