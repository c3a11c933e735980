"""The prompts, and the forms of the answers.

An answer that does not fit its form is sent back to the model once, with what is wrong.
A quote fits only if the clause has it: the validator receives the clause as context.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, ValidationInfo, field_validator

from piecework_examples.contract_review.findings import (
    Finding,
    Record,
    Severity,
)
from piecework_examples.contract_review.playbook import categories, specialists

SYSTEM: Final = (
    "You review the clauses of a contract for the party that buys or receives. "
    "Answer with one JSON object and nothing else. Quote only words of the clause."
)
_PROMPT: Final = """Task: {task}
Subject: {subject}
{hint}Question: {question}
Answer: {answer}
Clause: {heading}
<clause>
{text}
</clause>"""
_PARTS: Final = re.compile(
    r"Task: (?P<task>\w+)\nSubject: (?P<subject>[\w-]+)\n.*?"
    r"\nClause: (?P<heading>[^\n]*)\n<clause>\n(?P<text>.*)\n</clause>\Z",
    re.DOTALL,
)


class Asked(Record):
    """The parts of a prompt, for a model that is made of rules."""

    task: Literal["score", "analyse"]
    subject: str
    heading: str
    text: str


class ScoreAnswer(BaseModel):
    """What a model says when asked to score."""

    score: Annotated[float, Field(ge=0, le=1)]
    fired: tuple[str, ...] = ()


class Observation(BaseModel):
    """A finding as a model says it, without places: a model cannot count."""

    rule: str = "model"
    severity: Severity
    title: Annotated[str, Field(min_length=1, max_length=200)]
    quote: Annotated[str, Field(min_length=1)]
    fired: tuple[str, ...] = ()
    recommendation: str = ""

    @field_validator("quote")
    @classmethod
    def has_words_of_the_clause(cls, quote: str, info: ValidationInfo) -> str:
        """Refuse a quote that the clause does not have."""
        if info.context and quote not in info.context["text"]:
            message = "the clause does not have these words"
            raise ValueError(message)
        return quote


class AnalysisAnswer(BaseModel):
    """What a model says when asked to analyse."""

    findings: tuple[Observation, ...]


def score_prompt(heading: str, text: str, category_id: str) -> str:
    """Ask how much a clause is about a category."""
    return _PROMPT.format(
        task="score",
        hint="",
        subject=category_id,
        question=categories()[category_id].question,
        answer='{"score": 0 to 1, "fired": [words that say so]}',
        heading=heading,
        text=text,
    )


def analysis_prompt(
    heading: str,
    text: str,
    specialist_id: str,
    reading: int = 1,
    *,
    briefly: bool = False,
) -> str:
    """Ask what a specialist finds in a clause; each reading has its own prompt."""
    hints = [f"Reading: {reading}\n"] if reading > 1 else []
    hints += ["Length: the worst three findings only\n"] if briefly else []
    return _PROMPT.format(
        task="analyse",
        hint="".join(hints),
        subject=specialist_id,
        question=specialists()[specialist_id].question,
        answer='{"findings": [{"rule", "severity": "critical|high|medium|low", '
        '"title", "quote", "fired": [words], "recommendation"}]}',
        heading=heading,
        text=text,
    )


def asked(prompt: str) -> Asked | None:
    """Return the parts of one of our prompts; None for any other text."""
    match = _PARTS.match(prompt)
    return Asked.model_validate(match.groupdict()) if match else None


def placed(answer: AnalysisAnswer, text: str, specialist_id: str) -> list[Finding]:
    """Return what a specialist found, each at the place of its quote."""
    return [_placed(each, text, specialist_id) for each in answer.findings]


def _placed(seen: Observation, text: str, specialist_id: str) -> Finding:
    start = text.index(seen.quote)
    end = start + len(seen.quote)
    said = seen.model_dump(mode="json")
    return Finding(specialist=specialist_id, start=start, end=end, **said)
