"""Both services on a loopback port, and an environment that points at them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from piecework_examples.contract_review.services.__main__ import application
from piecework_examples.contract_review.services.addin import AddinService
from piecework_examples.contract_review.services.bedrock import BedrockStub


@pytest.fixture
def bedrock() -> BedrockStub:
    return BedrockStub(latency=0, hang=5)


@pytest.fixture
def addin() -> AddinService:
    return AddinService()


@pytest.fixture
async def url(
    bedrock: BedrockStub, addin: AddinService, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[str]:
    runner = web.AppRunner(application(bedrock, addin), shutdown_timeout=0.01)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    address = f"http://127.0.0.1:{runner.addresses[0][1]}"
    monkeypatch.setenv("REVIEW_ADDIN_URL", address)
    monkeypatch.setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", address)
    yield address
    await runner.cleanup()


@pytest.fixture
async def session(url: str) -> AsyncIterator[ClientSession]:
    async with ClientSession(url) as opened:
        yield opened
