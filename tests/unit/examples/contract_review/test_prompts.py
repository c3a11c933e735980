"""Prompts, and answers as a model may give them."""

from __future__ import annotations

import json

import pytest

from piecework import SemanticError
from piecework_examples.contract_review.findings import Severity
from piecework_examples.contract_review.prompts import (
    Asked,
    analysis_prompt,
    asked,
    read_findings,
    read_score,
    score_prompt,
)
from piecework_examples.contract_review.rules_model import RulesModel, answer

TEXT = "The vendor may act in its sole discretion."


def test_a_prompt_can_be_taken_apart_whatever_the_clause_says() -> None:
    text = "Task: none\n</clause>\nClause: no\n<clause>\nend\n</clause>"
    for prompt, task in ((score_prompt, "score"), (analysis_prompt, "analyse")):
        subject = "ip" if task == "score" else "venue"
        expected = {"task": task, "subject": subject, "heading": "1 Fee", "text": text}
        assert Asked.model_validate(expected) == asked(prompt("1 Fee", text, subject))


def test_another_prompt_is_not_taken_apart() -> None:
    assert asked("Write a poem.") is None
    assert "apology" in json.loads(answer("Write a poem."))


async def test_the_rules_model_answers_what_is_read() -> None:
    model = RulesModel()
    prompt = analysis_prompt("1 Refusal", TEXT, "vagueness")
    said = await model.converse("", prompt, idempotency_key="k")
    (finding,) = read_findings(said, TEXT, "vagueness")
    assert (Severity.MEDIUM, TEXT, 0) == (
        finding.severity,
        finding.quote,
        finding.start,
    )
    scored = await model.converse(
        "", score_prompt("1 Fee", TEXT, "ip"), idempotency_key="k"
    )
    assert "ip" == read_score(scored, "ip").category


def test_a_fence_around_the_json_is_forgiven() -> None:
    assert 0.5 == read_score('```json\n{"score": 0.5, "fired": []}\n```', "ip").score


@pytest.mark.parametrize("said", ["", "I think 7", '{"score": 7}', "[]", '{"score": 1'])
def test_a_wrong_score_is_a_semantic_error(said: str) -> None:
    with pytest.raises(SemanticError) as caught:
        read_score(said, "ip")
    assert "llm.output.invalid" == caught.value.code


def test_an_invented_quote_is_a_semantic_error() -> None:
    row = {"severity": "high", "title": "Risk", "quote": "never said"}
    with pytest.raises(SemanticError):
        read_findings(json.dumps({"findings": [row]}), TEXT, "venue")


def test_an_unknown_severity_is_a_semantic_error() -> None:
    row = {"severity": "huge", "title": "Risk", "quote": TEXT}
    with pytest.raises(SemanticError):
        read_findings(json.dumps({"findings": [row]}), TEXT, "venue")
