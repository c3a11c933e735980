"""Guarantee: each request and tool of an agent is a call, and is paid for once."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Dependency, Effect, Pipeline, Stage, UsageError
from piecework.context import Context
from piecework.domain.outcome import DeadLettered
from piecework.errors import TransientError
from piecework.integrations.drawn_anew import without
from piecework.integrations.steps import (
    TOOLS,
    ModelStep,
    Step,
    call_tool,
    declared_step,
    dependency_of,
    idempotency_key,
    require_known,
    tool_step,
)
from piecework.llm import ModelAnswer, Price
from piecework.resilience.retry import RetryPolicy
from piecework.testing import failing, killed_in, run_in_memory

AIRLINE = Dependency("airline", effect=Effect.PROVIDER_IDEMPOTENT)


class Row(BaseModel):
    """A payload."""

    text: str = "go"


def counted(asked: Counter[str], name: str) -> Any:
    """Return a sender that counts, and answers with a number and its key."""

    async def send(live: Any, key: str) -> Any:
        asked[name] += 1
        assert key == idempotency_key()
        return {"said": live, "number": asked[name]}

    return send


def model(asked: Counter[str], name: str, **options: Any) -> ModelStep:
    """Return a model of a price of a dollar for each token."""
    price = Price(input=1_000_000, output=1_000_000)
    return ModelStep.of(
        Dependency(name, retry=RetryPolicy(attempts=1)),
        provider="fake",
        model=f"{name}-1",
        send=counted(asked, name),
        tokens=lambda answer: ModelAnswer("", tokens_in=2, tokens_out=1),
        price=price,
        **options,
    )


async def test_a_kill_repeats_only_the_step_in_flight() -> None:
    asked: Counter[str] = Counter()
    mini = model(asked, "mini")
    search = declared_step(TOOLS, "search", counted(asked, "search"))

    async def run(ctx: Context[Row]) -> str:
        first = await mini.call(Step.of("first", "a client of the framework"))
        found = await call_tool(search, tool_step("search", {"q": 1}, "its context"))
        second = await mini.call(Step.of(["second", found], "words"))
        return f"{first['said']}, {found['said']}, {second['number']}"

    pipeline = Pipeline(name="agents", payload=Row, stages=[Stage(run)])
    ran = await run_in_memory(pipeline, [Row()], faults=[killed_in("search")])

    assert ran.results[0].startswith("a client of the framework, its context, ")
    assert asked == {"mini": 2, "search": 2}
    assert [(name, usage.usd) for name, usage in ran.paid if usage.usd] == [
        ("mini", 3.0),
        ("mini", 3.0),
    ]


async def test_another_model_answers_for_one_that_is_overloaded() -> None:
    asked: Counter[str] = Counter()
    other = model(asked, "other")
    mini = model(asked, "mini", fallback=[other])

    async def run(ctx: Context[Row]) -> Any:
        return (await mini.call(Step.of("first", "words")))["said"]

    pipeline = Pipeline(name="agents", payload=Row, stages=[Stage(run)])
    fault = failing("mini", TransientError("busy", code="llm.http.529_overloaded"))
    ran = await run_in_memory(pipeline, [Row()], faults=[fault])

    assert (ran.results, asked) == ({0: "words"}, {"other": 1})
    assert [usage.model for _, usage in ran.paid] == ["other-1"]


@pytest.mark.parametrize(
    ("dependency", "executed"), [(TOOLS, 2), (AIRLINE, 1)], ids=["pure", "effect"]
)
async def test_an_equal_tool_is_asked_again_and_an_equal_effect_is_not(
    dependency: Dependency, executed: int
) -> None:
    asked: Counter[str] = Counter()
    tool = declared_step(dependency, "poll", counted(asked, "poll"))

    async def run(ctx: Context[Row]) -> Any:
        arguments = {"order": 7}
        for _ in range(2):
            found = await call_tool(tool, tool_step("poll", arguments, None))
        return found["number"]

    pipeline = Pipeline(name="agents", payload=Row, stages=[Stage(run)])
    ran = await run_in_memory(pipeline, [Row()])
    assert (ran.results, asked) == ({0: executed}, {"poll": executed})


async def test_a_lookup_receives_the_arguments_of_the_tool() -> None:
    looked_up: list[str] = []

    async def find(flight: str, *, idempotency_key: str = "") -> Any:
        looked_up.append(flight)
        return {"said": f"{flight} is booked", "number": 1}

    hotel = Dependency("hotel", effect=Effect.LOOKUP, lookup=find)
    found = dependency_of("book", {"book": hotel}, TOOLS)
    assert found is not None
    asked: Counter[str] = Counter()
    tool = declared_step(found, "book", counted(asked, "book"))

    async def run(ctx: Context[Row]) -> Any:
        step = tool_step("book", {"flight": "LH1"}, None)
        return (await call_tool(tool, step))["said"]

    pipeline = Pipeline(name="agents", payload=Row, stages=[Stage(run)])
    ran = await run_in_memory(pipeline, [Row()], faults=[killed_in("book")])
    assert (ran.results, asked) == ({0: "LH1 is booked"}, {"book": 1})
    assert looked_up == ["LH1"]


async def test_an_effect_inside_a_pure_tool_is_refused_before_it_is_sent() -> None:
    sold: list[str] = []

    async def sell(flight: str, idempotency_key: str = "") -> str:
        sold.append(flight)
        return flight

    declared = AIRLINE.call(name="sell")(sell)

    async def send(live: Any, key: str) -> Any:
        return await declared(live)

    tool = declared_step(TOOLS, "book", send)

    async def run(ctx: Context[Row]) -> Any:
        return await call_tool(tool, tool_step("book", {"flight": "LH1"}, "LH1"))

    pipeline = Pipeline(name="agents", payload=Row, stages=[Stage(run)])
    ran = await run_in_memory(pipeline, [Row()])
    outcome = ran.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    assert outcome.failure.code == "pipeline.declaration.invalid"
    assert "the tool 'book'" in outcome.failure.message
    assert sold == []


def test_a_tool_that_the_agent_does_not_have_is_refused() -> None:
    require_known({"book": AIRLINE}, {"book", "search"})
    with pytest.raises(UsageError, match="no tool 'bok'"):
        require_known({"bok": AIRLINE}, {"book", "search"})


def test_a_table_leaves_out_fields_by_the_kind_of_their_part() -> None:
    part = {"kind": "prompt", "at": 1.5, "text": "go", "new": None}
    answer = {"kind": "answer", "at": 2.5, "parts": [part]}
    assert without([answer], {"prompt": frozenset({"at"})}, ("kind",)) == [
        {"kind": "answer", "at": 2.5, "parts": [{"kind": "prompt", "text": "go"}]}
    ]
