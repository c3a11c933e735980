"""The example as a whole, in memory, with its add-in on loopback."""

from __future__ import annotations

import pytest

from piecework import Document
from piecework.llm import ModelAnswer, ModelRequest
from piecework.testing import MemoryRun, Piecework, run_in_memory
from piecework_examples.contract_review import model
from piecework_examples.contract_review.clauses import Clause, split
from piecework_examples.contract_review.config import LARGE_MODEL, SMALL_MODEL
from piecework_examples.contract_review.playbook import HERE
from piecework_examples.contract_review.review import pipeline
from piecework_examples.contract_review.reviewing import review
from piecework_examples.contract_review.rules_model import answer as rules_answer
from piecework_examples.contract_review.services.addin import AddinService
from piecework_examples.contract_review.services.bedrock import BedrockStub
from piecework_examples.contract_review.services.faults import ADDIN_MIX, Fault, Faults

TEXT = (HERE / "contracts" / "msa-northwind.md").read_text("utf-8")
CLAUSES = list(split(Document("msa", TEXT)))
SHORT = CLAUSES[9:12]
LONG = CLAUSES[16]


@pytest.fixture
def model_over_http(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("REVIEW_MODEL", "bedrock")
    monkeypatch.setenv("REVIEW_MODEL_ID", SMALL_MODEL)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


async def run(clauses: list[Clause]) -> MemoryRun:
    return await run_in_memory(pipeline, clauses)


async def test_a_chunk_gives_what_the_analysts_give(
    url: str, addin: AddinService
) -> None:
    done = await run(SHORT)
    assert [review(clause) for clause in SHORT] == [done.results[n] for n in range(3)]
    assert {"notify": 3, "publish": 3, "reserve": 3} == addin.ledger.shown()["effects"]
    assert 0 == addin.ledger.shown()["duplicate_effects"]


async def test_the_join_writes_both_reports(url: str) -> None:
    done = await run(SHORT)
    assert {"report.html", "report.md"} == done.artifacts.keys()
    assert b"Liability without a limit" in done.artifacts["report.md"]
    assert 3 == done.join_value.clauses


@pytest.mark.usefixtures("model_over_http")
async def test_a_clause_too_long_for_the_small_model_is_missing_with_its_code() -> None:
    done = await run([SHORT[0], LONG])
    (gap,) = done.join_value.missing
    assert (1, "llm.context.overflow") == (gap.chunk, gap.error_code)
    assert b"llm.context.overflow" in done.artifacts["report.html"]


@pytest.mark.usefixtures("model_over_http")
async def test_the_larger_model_reads_the_long_clause(
    monkeypatch: pytest.MonkeyPatch, bedrock: BedrockStub
) -> None:
    monkeypatch.setenv("REVIEW_MODEL_ID", LARGE_MODEL)
    done = await run([LONG])
    assert review(LONG) == done.results[0]
    assert 23 == bedrock.stats()["calls"]


@pytest.mark.usefixtures("model_over_http")
async def test_a_fallback_to_a_larger_model_reads_the_long_clause(
    monkeypatch: pytest.MonkeyPatch, bedrock: BedrockStub
) -> None:
    monkeypatch.setenv("REVIEW_FALLBACK_ID", LARGE_MODEL)
    done = await run([LONG])
    assert review(LONG) == done.results[0]
    assert {"200": 23, "400": 23} == bedrock.stats()["by_status"]
    assert {"bedrock-fallback"} == {name for name, _ in done.paid} - {"word-addin"}
    assert sum(usage.usd or 0.0 for _, usage in done.paid) > 0


async def test_the_model_is_called_as_often_as_asked(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVIEW_CALLS", "116")
    done = await run(SHORT[:1])
    assert review(SHORT[0]) == done.results[0]
    assert 116 == done.calls("bedrock")


@pytest.mark.parametrize("reason", ["max_tokens", "tool_use"])
async def test_an_answer_of_no_use_is_replanned_with_a_briefer_prompt(
    url: str, piecework: Piecework, reason: str
) -> None:
    def answer(request: ModelRequest) -> ModelAnswer:
        if "Task: score" in request.text or "Length:" in request.text:
            return ModelAnswer(rules_answer(request.text))
        return ModelAnswer('{"findings": [{"quote"', reason)

    fake = piecework.fake(model.current(), answer)
    done = await piecework.run(pipeline, SHORT[:1])
    assert review(SHORT[0]) == done.results[0]
    brief = ["Length:" in request.text for (request,), _ in fake.requests]
    assert 11 == sum(brief)


def test_its_dead_letters_have_an_owner_and_a_runbook() -> None:
    assert pipeline.owner
    assert (HERE.parents[2] / pipeline.runbook).is_file()


@pytest.mark.usefixtures("model_over_http")
async def test_under_faults_nothing_is_lost_done_or_paid_twice(
    bedrock: BedrockStub, addin: AddinService
) -> None:
    mix = {Fault.THROTTLED: 1, Fault.UNAVAILABLE: 1, Fault.MALFORMED: 1}
    bedrock.faults = Faults(seed=3, rate=0.3, mix=mix)
    addin.faults = Faults(seed=3, rate=0.5, mix=ADDIN_MIX)
    done = await run(SHORT)
    assert [0, 1, 2] == sorted(done.results)
    stats, ledger = bedrock.stats(), addin.ledger.shown()
    assert (69, 0) == (stats["answered"], stats["answered_twice"])
    assert stats["calls"] > 69
    assert 0 == ledger["duplicate_effects"]
    assert {"notify": 3, "publish": 3, "reserve": 3} == ledger["effects"]
