"""The stand-in for Bedrock: what it counts."""

from __future__ import annotations

import json
from typing import Any

from aiohttp import ClientSession

from piecework_examples.contract_review.prompts import SYSTEM, score_prompt
from piecework_examples.contract_review.services.bedrock import BedrockStub
from piecework_examples.contract_review.services.faults import Fault, Faults

PROMPT = score_prompt("1 Law", "The laws of Ontario apply.", "disputes")


def body(prompt: str, key: str = "k") -> dict[str, Any]:
    return {
        "system": [{"text": SYSTEM}],
        "messages": [{"role": "user", "content": [{"text": prompt}]}],
        "requestMetadata": {"idempotency-key": key},
    }


async def ask(
    session: ClientSession, asked: Any, model: str = "large"
) -> tuple[int, str]:
    async with session.post(f"/model/{model}/converse", json=asked) as response:
        return response.status, await response.text()


async def test_an_answer_has_bedrocks_form(session: ClientSession) -> None:
    status, text = await ask(session, body(PROMPT))
    said = json.loads(text)
    assert (200, "end_turn") == (status, said["stopReason"])
    assert "score" in said["output"]["message"]["content"][0]["text"]


async def test_a_tool_of_the_request_gets_the_answer_as_its_input(
    session: ClientSession,
) -> None:
    tool = {"toolSpec": {"name": "ScoreAnswer", "inputSchema": {"json": {}}}}
    request = body(PROMPT) | {"toolConfig": {"tools": [tool]}}
    said = json.loads((await ask(session, request))[1])
    used = said["output"]["message"]["content"][0]["toolUse"]
    assert ("tool_use", "ScoreAnswer") == (said["stopReason"], used["name"])
    assert "score" in used["input"]


async def test_a_content_answered_twice_is_counted_whatever_its_key(
    session: ClientSession, bedrock: BedrockStub
) -> None:
    await ask(session, body(PROMPT, "a"))
    await ask(session, body(PROMPT, "b"))
    await ask(session, body(PROMPT + " "))
    async with session.get("/stats") as response:
        stats = await response.json()
    assert (3, 2, 1) == (stats["calls"], stats["contents"], stats["answered_twice"])
    assert {"200": 3} == stats["by_status"]
    assert stats == BedrockStub().restored(stats).stats()


async def test_a_failed_try_is_no_answer(
    session: ClientSession, bedrock: BedrockStub
) -> None:
    bedrock.faults = Faults(rate=1, tries=2, mix={Fault.MALFORMED: 1})
    statuses = [(await ask(session, body(PROMPT)))[0] for _ in range(3)]
    assert [200, 200, 200] == statuses
    stats = bedrock.stats()
    assert {"200": 1, "malformed": 2} == stats["by_status"]
    assert 0 == stats["answered_twice"]


async def test_a_request_that_is_none_is_refused(session: ClientSession) -> None:
    assert 400 == (await ask(session, {"messages": []}))[0]
