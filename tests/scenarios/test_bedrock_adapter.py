"""The Bedrock client against the wire format: the real SDK, real HTTP, on loopback."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from piecework import (
    ErrorEnvelope,
    PermanentError,
    TransientError,
)
from piecework.errors.classify import classify
from piecework.errors.codes import ErrorClass
from piecework.llm import Model
from piecework.llm.schema import read_answer
from piecework_examples.contract_review.bedrock import caller
from piecework_examples.contract_review.config import LARGE_MODEL, SMALL_MODEL
from piecework_examples.contract_review.prompts import (
    SYSTEM,
    AnalysisAnswer,
    analysis_prompt,
    placed,
    score_prompt,
)
from piecework_examples.contract_review.services.bedrock import BedrockStub
from piecework_examples.contract_review.services.faults import Fault, Faults

TEXT = "The vendor may act in its sole discretion."
PROMPT = analysis_prompt("1 Refusal", TEXT, "vagueness")


@pytest.fixture
def stub() -> BedrockStub:
    return BedrockStub(latency=0, retry_after=7, hang=5)


@pytest.fixture
async def endpoint(
    stub: BedrockStub, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    async with serving(stub.routes(), monkeypatch) as address:
        yield address


@asynccontextmanager
async def serving(
    routes: list[web.RouteDef], monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    app = web.Application()
    app.add_routes(routes)
    runner = web.AppRunner(app, shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", address)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("REVIEW_TIMEOUT_S", "5")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    yield address
    await runner.cleanup()


async def ask(model_id: str = LARGE_MODEL, prompt: str = PROMPT) -> str:
    return await Model("m", caller, model_id=model_id).ask(SYSTEM, prompt)


async def failure() -> ErrorEnvelope:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is what is asked
        await ask()
    return classify(caught.value, stage="score")


def always(fault: Fault) -> Faults:
    return Faults(rate=1, tries=99, mix={fault: 1})


@pytest.mark.usefixtures("endpoint")
async def test_an_answer_comes_through_and_can_be_read(stub: BedrockStub) -> None:
    answer = read_answer(await ask(), AnalysisAnswer, {"text": TEXT})
    (finding,) = placed(answer, TEXT, "vagueness")
    assert TEXT == finding.quote
    assert {"200": 1} == stub.stats()["by_status"]


@pytest.mark.usefixtures("endpoint")
async def test_a_throttled_call_is_made_once_and_says_when_to_come_back(
    stub: BedrockStub,
) -> None:
    stub.faults = always(Fault.THROTTLED)
    said = await failure()
    assert ("llm.http.429_rate_limited", 429) == (said.code, said.http_status)
    assert (ErrorClass.TRANSIENT, 7) == (said.error_class, said.retry_after)
    assert 1 == stub.stats()["calls"]


@pytest.mark.usefixtures("endpoint")
async def test_an_unavailable_service_is_transient(stub: BedrockStub) -> None:
    stub.faults = always(Fault.UNAVAILABLE)
    said = await failure()
    assert ("llm.http.503_unavailable", 503) == (said.code, said.http_status)
    assert (ErrorClass.TRANSIENT, 1) == (said.error_class, stub.stats()["calls"])


@pytest.mark.usefixtures("endpoint")
async def test_a_hanging_call_ends_at_its_timeout(
    stub: BedrockStub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REVIEW_TIMEOUT_S", "0.2")
    stub.faults = always(Fault.HANG)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is what is asked
        await ask()
    said = classify(caught.value, layer="llm")
    assert ("llm.connection.timeout", ErrorClass.TRANSIENT) == (
        said.code,
        said.error_class,
    )


@pytest.mark.usefixtures("endpoint")
async def test_a_body_that_is_cut_off_is_transient(stub: BedrockStub) -> None:
    stub.faults = always(Fault.MALFORMED)
    with pytest.raises(TransientError):
        await ask()
    said = await failure()
    assert "llm.http.malformed_body" == said.code


@pytest.mark.usefixtures("endpoint")
async def test_a_prompt_too_long_for_a_small_model_is_an_overflow() -> None:
    prompt = score_prompt("17 Charges", "word " * 1_000, "payment")
    with pytest.raises(PermanentError) as caught:
        await ask(SMALL_MODEL, prompt)
    assert "llm.context.overflow" == caught.value.code
    assert "REVIEW_MODEL_ID" in caught.value.next_step
    assert '"score"' in await ask(LARGE_MODEL, prompt)
