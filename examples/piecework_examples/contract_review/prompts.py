"""The prompts, and the reading of the answers.

An answer that is not what was asked for is a `SemanticError`: the call succeeded, its
body was whole, only the content is wrong, and asking the same again would pay for the
same again. (A body cut off on the way is the transport's fault and transient; the
client raises that.)
"""

from __future__ import annotations

import re
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field, ValidationError

from piecework import SemanticError
from piecework_examples.contract_review.findings import (
    CategoryScore,
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
Question: {question}
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
_FENCE: Final = re.compile(r"\A\s*```(?:json)?\s*|\s*```\s*\Z")


class Asked(Record):
    """A prompt, taken apart again: for a model that is made of rules."""

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


class AnalysisAnswer(BaseModel):
    """What a model says when asked to analyse."""

    findings: tuple[Observation, ...]


def score_prompt(heading: str, text: str, category_id: str) -> str:
    """Ask how much a clause is about a category."""
    return _PROMPT.format(
        task="score",
        subject=category_id,
        question=categories()[category_id].question,
        answer='{"score": 0 to 1, "fired": [words that say so]}',
        heading=heading,
        text=text,
    )


def analysis_prompt(heading: str, text: str, specialist_id: str) -> str:
    """Ask what a specialist finds in a clause."""
    return _PROMPT.format(
        task="analyse",
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


def read_score(answer: str, category_id: str) -> CategoryScore:
    """Read a score.

    Raises:
        SemanticError: When the answer is not one.
    """
    try:
        read = ScoreAnswer.model_validate_json(_FENCE.sub("", answer))
    except ValidationError as error:
        raise _wrong(f"No score for {category_id}") from error
    return CategoryScore(category=category_id, score=read.score, fired=read.fired)


def read_findings(answer: str, text: str, specialist_id: str) -> list[Finding]:
    """Read findings, each at the place of its quote.

    Raises:
        SemanticError: The answer is missing, or its quote is not in the clause.
    """
    try:
        read = AnalysisAnswer.model_validate_json(_FENCE.sub("", answer))
    except ValidationError as error:
        raise _wrong(f"No findings of {specialist_id}") from error
    return [_placed(each, text, specialist_id) for each in read.findings]


def _placed(seen: Observation, text: str, specialist_id: str) -> Finding:
    start = text.find(seen.quote)
    if start < 0:
        raise _wrong(f"{specialist_id} quotes words that the clause does not have")
    end = start + len(seen.quote)
    said = seen.model_dump(mode="json")
    return Finding(specialist=specialist_id, start=start, end=end, **said)


def _wrong(what: str) -> SemanticError:
    return SemanticError(f"{what} in the model's answer.", code="llm.output.invalid")
