"""Prompts, and answers as a model may give them."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
from pydantic import ValidationError

from piecework.llm import Model
from piecework.llm.schema import read_answer
from piecework_examples.contract_review.findings import Severity
from piecework_examples.contract_review.prompts import (
    AnalysisAnswer,
    Asked,
    ScoreAnswer,
    analysis_prompt,
    asked,
    placed,
    score_prompt,
)
from piecework_examples.contract_review.rules_model import answer, caller

TEXT = "The vendor may act in its sole discretion."
rules = Model("rules", caller)


def test_a_prompt_can_be_taken_apart_whatever_the_clause_says() -> None:
    text = "Task: none\n</clause>\nClause: no\n<clause>\nend\n</clause>"
    for prompt, task in ((score_prompt, "score"), (analysis_prompt, "analyse")):
        subject = "ip" if task == "score" else "venue"
        expected = {"task": task, "subject": subject, "heading": "1 Fee", "text": text}
        assert Asked.model_validate(expected) == asked(prompt("1 Fee", text, subject))


def test_another_prompt_is_not_taken_apart() -> None:
    assert asked("Write a poem.") is None
    assert "apology" in json.loads(answer("Write a poem."))


def test_another_reading_and_a_brief_one_are_other_prompts() -> None:
    prompts = {
        analysis_prompt("1 Fee", TEXT, "venue", reading, briefly=briefly)
        for reading in (1, 2)
        for briefly in (False, True)
    }
    assert len(prompts) == 4
    assert {asked(prompt) for prompt in prompts} == {
        Asked(task="analyse", subject="venue", heading="1 Fee", text=TEXT)
    }


async def test_the_rules_model_answers_what_is_read() -> None:
    answer = await rules.ask(
        "",
        analysis_prompt("1 Refusal", TEXT, "vagueness"),
        returns=AnalysisAnswer,
        context={"text": TEXT},
    )
    (finding,) = placed(answer, TEXT, "vagueness")
    assert (Severity.MEDIUM, TEXT, 0) == (
        finding.severity,
        finding.quote,
        finding.start,
    )
    scored = await rules.ask("", score_prompt("1 Fee", TEXT, "ip"), returns=ScoreAnswer)
    assert 0 <= scored.score <= 1


@pytest.mark.parametrize("said", ["", "I think 7", '{"score": 7}', "[]", '{"score": 1'])
def test_a_wrong_score_does_not_fit(said: str) -> None:
    with pytest.raises(ValidationError):
        read_answer(said, ScoreAnswer, None)


@pytest.mark.parametrize(
    "wrong", [{"quote": "never said"}, {"severity": "huge"}], ids=["quote", "severity"]
)
def test_a_wrong_finding_does_not_fit(wrong: dict[str, str]) -> None:
    row = {"severity": "high", "title": "Risk", "quote": TEXT}
    for changes, fits in (({}, True), (wrong, False)):
        said = json.dumps({"findings": [row | changes]})
        with nullcontext() if fits else pytest.raises(ValidationError):
            read_answer(said, AnalysisAnswer, {"text": TEXT})
