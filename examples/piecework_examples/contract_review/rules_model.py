"""A model made of rules: the offline analysts behind the interface of a model."""

from __future__ import annotations

import json

from piecework.llm import ModelAnswer, ModelRequest
from piecework_examples.contract_review.analysis import analyse
from piecework_examples.contract_review.findings import Finding
from piecework_examples.contract_review.prompts import asked
from piecework_examples.contract_review.scoring import score

_SAID = {"rule", "severity", "title", "quote", "fired", "recommendation"}


async def caller(request: ModelRequest) -> ModelAnswer:
    """Answer our prompts, deterministic and free."""
    return ModelAnswer(answer(request.text))


def answer(prompt: str) -> str:
    """Return the JSON that a perfectly obedient model would answer."""
    parts = asked(prompt)
    if parts is None:
        return json.dumps({"apology": "This model reads clauses only."})
    if parts.task == "score":
        scored = score(parts.heading, parts.text, parts.subject)
        return scored.model_dump_json(include={"score", "fired"})
    return said(analyse(parts.text, parts.subject))


def said(findings: list[Finding]) -> str:
    """Return findings as a model says them: quotes without places."""
    rows = [finding.model_dump(mode="json", include=_SAID) for finding in findings]
    return json.dumps({"findings": rows})
