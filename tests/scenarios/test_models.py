"""Guarantee: a redrive asks a model again for what changed, and for nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from piecework import Document, PolicyError
from piecework.llm import ModelAnswer, ModelRequest
from piecework_examples.contract_review import model, review, rules_model
from piecework_examples.contract_review.__main__ import addin_service
from piecework_examples.contract_review.clauses import split
from piecework_examples.contract_review.playbook import HERE
from tests.scenarios import conftest
from tests.scenarios.conftest import Scenario

TEXT = (HERE / "contracts" / "msa-northwind.md").read_text("utf-8")
CLAUSE = list(split(Document("msa", TEXT)))[9]


class Provider:
    """Answers by rules, with counts; it refuses one category until it is fixed."""

    def __init__(self) -> None:
        self.fixed = False
        self.scores: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> ModelAnswer:
        if "Task: score" in request.text:
            self.scores.append(request)
        if "Subject: ip\n" in request.text and not self.fixed:
            raise PolicyError("no", code="llm.policy.refusal")
        return ModelAnswer(rules_model.answer(request.text))


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    found = Provider()
    model.declared.cache_clear()
    monkeypatch.setattr(model, "caller_of", lambda _: found)
    monkeypatch.setitem(conftest.ALL, review.pipeline.name, review.pipeline)
    yield found
    model.declared.cache_clear()


@pytest.mark.parametrize(
    ("change", "asked_again"),
    [("nothing", 1), ("the prompt", 12), ("the model", 12)],
)
async def test_a_redrive_asks_again_only_if_prompt_or_model_changed(
    scenario: Scenario,
    provider: Provider,
    monkeypatch: pytest.MonkeyPatch,
    change: str,
    asked_again: int,
) -> None:
    async with addin_service() as url:
        monkeypatch.setenv("REVIEW_ADDIN_URL", url)
        await scenario.submit(review.pipeline, [CLAUSE])
        async with scenario.worker():
            await scenario.ended()
            (letter,) = await scenario.letters()
            assert letter["error_code"] == "llm.policy.refusal"
            assert (letter["owner"], letter["runbook"]) == (
                review.pipeline.owner,
                review.pipeline.runbook,
            )
            assert len(provider.scores) == 12

            provider.fixed = True
            if change == "the prompt":
                monkeypatch.setattr(review, "SYSTEM", "You review clauses with care.")
            if change == "the model":
                monkeypatch.setenv("REVIEW_MODEL_ID", "larger")
            await scenario.redrive()
            await scenario.ended()

    assert (await scenario.job()).status == "SUCCEEDED"
    assert len(provider.scores) - 12 == asked_again
