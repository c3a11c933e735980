"""Guarantee: a lane is asked for, refused and billed by the words of the provider."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import botocore.exceptions
import httpx2 as httpx
import openai
import pytest

from piecework import UsageError, envelope_of
from piecework.dependency import Dependency
from piecework.llm import (
    Lane,
    ListPrice,
    Model,
    ModelRequest,
    Price,
    anthropic_messages,
    bedrock_converse,
    openai_chat,
)
from piecework.testing import run_in_memory
from tests.unit.piecework.llm.test_adapters import BEDROCK, OPENAI, Bill, Client
from tests.unit.piecework.llm.test_model import DOC, GOOD, Provider, asking

DAY = date(2026, 1, 1)
HALF = Price(input=1.0, output=10.0, tiers={"flex": 0.5})


def flex(caller: Any, **declared: Any) -> Model:
    return Model("mini", caller, model_id="mini-1", lane=Lane.flex(), **declared)


async def test_each_provider_is_asked_for_the_tier_in_its_own_words() -> None:
    client = Client(OPENAI)
    await flex(openai_chat(client)).ask("", "a")
    assert client.bodies[0]["service_tier"] == "flex"
    assert client.bodies[0]["timeout"] == 900.0

    client = Client(BEDROCK)
    await flex(bedrock_converse(client)).ask("", "a", returns=Bill)
    assert client.bodies[0]["serviceTier"] == {"type": "flex"}

    own = Provider(GOOD)
    await flex(own).ask("", "a")
    assert (own.requests[0].lane, own.requests[0].timeout) == ("flex", 900.0)


async def test_a_request_without_a_lane_is_as_before() -> None:
    chat, converse = Client(OPENAI), Client(BEDROCK)
    await Model("mini", openai_chat(chat)).ask("", "a")
    await Model("mini", bedrock_converse(converse)).ask("", "a", returns=Bill)
    for client in (chat, converse):
        assert not {"service_tier", "serviceTier", "timeout"} & client.bodies[0].keys()


async def test_a_lane_is_no_part_of_the_key() -> None:
    keys = set()
    for lane in (Lane.direct(), Lane.flex()):
        provider = Provider(replace(GOOD, service_tier="flex"))
        await run_in_memory(asking(Model("mini", provider, lane=lane)), [DOC])
        keys.add(provider.requests[0].idempotency_key)
    assert len(keys) == 1


@pytest.mark.parametrize(
    ("tier", "usd", "line", "notes"),
    [
        ("flex", 0.001, "mini-1 flex", 0),
        ("default", 0.002, "mini-1", 1),
        ("", 0.002, "mini-1", 1),
    ],
)
async def test_the_tier_that_answered_decides_price_line_and_note(
    tier: str, usd: float, line: str, notes: int
) -> None:
    model = flex(Provider(replace(GOOD, service_tier=tier)), price=HALF)
    answer = await model.complete(ModelRequest("", (), 9))
    usage = model.usage_of(answer)
    assert (usage.usd, usage.model, len(answer.notes)) == (usd, line, notes)


@pytest.mark.parametrize(
    ("caller", "declared", "why"),
    [
        (anthropic_messages(Client({})), {}, "anthropic has none"),
        (Provider(), {"options": {"service_tier": "flex"}}, "its options have"),
        (Provider(), {"price": Price(1.0, 2.0)}, "does not say what that costs"),
        (Provider(), {"price": ListPrice("m", "aws", "", DAY)}, "does not say"),
    ],
)
def test_a_lane_that_cannot_be_billed_right_is_refused(
    caller: Any, declared: dict[str, Any], why: str
) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        flex(caller, **declared)
    assert caught.value.next_step


def test_free_calls_and_calls_without_a_price_have_lanes() -> None:
    for price in (
        None,
        Price(0, 0),
        HALF,
        ListPrice("m", "", "", None, frozenset({"flex"})),
    ):  # type: ignore[arg-type]
        assert flex(Provider(), price=price).dependency.lane.tier == "flex"


# ── refusals, as the SDKs raise them ──────────────────────────────────────────


def refused(status: int, **error: Any) -> openai.APIStatusError:
    request = httpx.Request("POST", "https://api.openai.com/v1/chat/completions")
    response = httpx.Response(status, json={"error": error}, request=request)
    return openai.OpenAI(api_key="k")._make_status_error_from_response(response)


def throttled(code: str, status: int) -> botocore.exceptions.ClientError:
    facts: Any = {
        "Error": {"Code": code, "Message": "no"},
        "ResponseMetadata": {"HTTPStatusCode": status},
    }
    return botocore.exceptions.ClientError(facts, "Converse")


FULL = refused(429, message="full", type="resource_unavailable", code=None)
RATE = refused(429, message="slow", type="requests", code="rate_limit_exceeded")
QUOTA = refused(
    429, message="pay", type="insufficient_quota", code="insufficient_quota"
)
NO_TIER = refused(400, message="no", type="invalid_request_error", param="service_tier")
NO_FIELD = refused(400, message="no", type="invalid_request_error", param="top_p")
SAYS_TIER = refused(400, message="no service_tier", type="invalid_request_error")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (FULL, "llm.lane.no_room"),
        (throttled("ThrottlingException", 429), "llm.lane.no_room"),
        (RATE, "llm.http.429_rate_limited"),
        (QUOTA, "llm.policy.quota_exceeded"),
        (NO_TIER, "llm.lane.unsupported"),
        (NO_FIELD, "llm.http.400_bad_request"),
        (SAYS_TIER, "llm.http.400_bad_request"),  # a text decides nothing
    ],
)
async def test_a_refusal_in_a_lane_has_its_code(error: Exception, code: str) -> None:
    with pytest.raises(Exception, match=r"\w") as caught:
        await flex(Provider(error)).ask("", "a")
    found = envelope_of(caught.value)
    if not code.startswith("llm.lane"):
        assert caught.value is error
        return
    assert found.code == code
    assert "mini" in found.message


async def test_a_model_without_the_lane_ends_its_chunk_with_the_next_step() -> None:
    provider = Provider(NO_TIER)
    run = await run_in_memory(asking(flex(provider)), [DOC])
    failure = run.outcomes[0].failure
    assert failure.code == "llm.lane.unsupported"
    assert failure.message.startswith("The model mini-1 of fake has no lane flex.")
    assert len(provider.requests) == 1


async def test_without_a_lane_the_same_refusals_are_as_before() -> None:
    for error in (FULL, NO_TIER):
        with pytest.raises(type(error)):
            await Model("mini", Provider(error)).ask("", "a")


async def test_a_full_lane_defers_its_chunk_and_names_the_model() -> None:
    provider = Provider(FULL)
    run = await run_in_memory(asking(flex(provider)), [DOC])
    outcome = run.outcomes[0]
    assert outcome.blocked_on == "mini"
    assert 15.0 <= outcome.delay <= 22.5


def test_a_model_declares_its_lane_for_its_dependency() -> None:
    model = flex(Provider(), timeout=40)
    found: Dependency = model.dependency
    assert (found.timeout_s, found.lane.timeout, found.longest_s) == (40, 900, 900)
