"""Guarantee: a model's answers have a type, are remembered, and are paid for once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel, Field, ValidationInfo, field_validator

from piecework import (
    Context,
    Limits,
    PermanentError,
    Pipeline,
    Stage,
    UsageError,
    pipeline,
)
from piecework.domain.outcome import DeadLettered
from piecework.errors import TransientError
from piecework.errors.codes import REGISTRY
from piecework.llm import Model, ModelAnswer, ModelRequest, Price
from piecework.llm.model import FALLBACK_CODES
from piecework.llm.schema import CLASSES_KEPT
from piecework.testing import Piecework, killed_after, killed_in, run_in_memory


class Doc(BaseModel):
    """A payload."""

    text: str


class Invoice(BaseModel):
    """An answer."""

    total: int = Field(ge=0)
    quote: str = ""

    @field_validator("quote")
    @classmethod
    def is_in_the_text(cls, quote: str, info: ValidationInfo) -> str:
        """Refuse a quote that the text does not have."""
        if info.context and quote not in info.context["text"]:
            message = "the text does not have this quote"
            raise ValueError(message)
        return quote


class Provider:
    """Answers requests in order, with counts; an error is raised."""

    provider = "fake"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> ModelAnswer | str:
        self.requests.append(request)
        found = self.answers[min(len(self.requests), len(self.answers)) - 1]
        if isinstance(found, Exception):
            raise found
        return found if isinstance(found, ModelAnswer | str) else str(found)


def answer(text: str, stop_reason: str = "stop") -> ModelAnswer:
    return ModelAnswer(text, stop_reason, tokens_in=1_000, tokens_out=100)


GOOD, BAD = answer('{"total": 3}'), answer('{"total": -1}')
DOC = Doc(text="total 3")


def asking(model: Model, **parameters: Any) -> Pipeline:
    """Return a pipeline of one stage that asks."""

    async def read(ctx: Context[Doc]) -> Invoice:
        return await model.ask("Read.", ctx.payload.text, returns=Invoice, **parameters)

    async def end(ctx: Context[Doc]) -> int:
        return ctx.result(read).total

    return Pipeline("invoices", payload=Doc, stages=[Stage(read), Stage(end)])


@pytest.mark.parametrize(
    ("said", "kind"), [({"total": 3}, "dict"), (ModelAnswer(text=3), "ModelAnswer")]
)
async def test_a_caller_that_returns_no_answer_is_named(said: Any, kind: str) -> None:
    async def caller(_: ModelRequest) -> Any:
        return said

    with pytest.raises(
        UsageError, match=f"caller of the model small returned a {kind}"
    ):
        await Model("small", caller).ask("Read.", "total 3")


@pytest.mark.parametrize(
    ("said", "usage"),
    [
        (ModelAnswer("3", tokens_in=-5, tokens_out=2), (0, 2, 2.0)),
        (ModelAnswer("3", tokens_in=9, cached_tokens_in=10), (9, 0, 9.0)),
        (ModelAnswer("3", tokens_in=9, usd=float("nan")), (9, 0, 9.0)),
        (ModelAnswer("3", tokens_in=10**30, usd=0.5), (0, 0, 0.5)),
    ],
)
async def test_a_paid_answer_is_kept_although_its_counts_are_odd(
    said: Any, usage: tuple[int, int, float]
) -> None:
    price = Price(input=1e6, output=1e6, cached_input=0)
    model = Model("small", Provider(said), price=price)

    answer = await model.complete(ModelRequest("", (), 9))
    found = model.usage_of(answer)
    assert (found.tokens_in, found.tokens_out, found.usd) == usage
    assert len(answer.notes) == 1


async def test_the_only_request_is_remembered_if_it_fits_and_has_fallbacks() -> None:
    small, large = Provider(answer("", "length")), Provider(BAD, GOOD)
    model = Model("small", small, fallback=[Model("large", large)], repairs=0)
    run = await run_in_memory(asking(model), [DOC])
    assert run.outcomes[0].failure.code == "llm.output.invalid"

    run = await run_in_memory(asking(model), [DOC], faults=[killed_after("read")])
    assert run.results == {0: 3}
    assert (len(small.requests), len(large.requests)) == (2, 2)


async def test_each_repair_but_the_last_is_remembered() -> None:
    busy = TransientError("busy", code="llm.http.529_overloaded")
    provider = Provider(BAD, BAD, *[busy] * 4, GOOD)  # the chunk fails, and goes on
    run = await run_in_memory(asking(Model("mini", provider), repairs=2), [DOC])

    assert run.results == {0: 3}
    assert [len(each.turns) for each in provider.requests] == [1, 3, *[5] * 5]


@pytest.mark.parametrize("repairs", [-1, True, 1.0, "1"])
async def test_repairs_are_a_number(repairs: Any) -> None:
    with pytest.raises(UsageError, match="not a number of requests"):
        Model("m", Provider(GOOD), repairs=repairs)
    with pytest.raises(UsageError, match="not a number of requests"):
        await Model("m", Provider(GOOD)).ask("", "", returns=Invoice, repairs=repairs)


async def test_outside_of_a_chunk_it_just_asks() -> None:
    provider = Provider('```json\n{"total": 3}\n```')
    model = Model("mini", provider, model_id="mini-1")

    assert await model.ask("Read.", "a", returns=Invoice) == Invoice(total=3)
    assert (await model.ask("", "a")).startswith("```json")
    assert [each.model for each in provider.requests] == ["mini-1"] * 2
    assert [each.schema_name for each in provider.requests] == ["Invoice", ""]


@pytest.mark.parametrize(
    ("fault", "asked"), [(killed_after("read"), 1), (killed_in("mini"), 2)]
)
async def test_only_a_kill_before_the_answer_is_stored_asks_again(
    fault: Any, asked: int
) -> None:
    provider = Provider(GOOD)
    run = await run_in_memory(asking(Model("mini", provider)), [DOC], faults=[fault])

    assert run.results == {0: 3}
    assert len(provider.requests) == asked


async def test_an_answer_that_does_not_fit_is_repaired_once_and_both_are_paid() -> None:
    provider = Provider(BAD, GOOD)
    model = Model("mini", provider, price=Price(input=1.0, output=10.0))
    run = await run_in_memory(asking(model), [DOC], faults=[killed_after("read")])

    assert run.results == {0: 3}
    first, second = provider.requests
    assert [each.role for each in second.turns] == ["user", "assistant", "user"]
    assert second.turns[1].text == '{"total": -1}'
    assert "total" in second.turns[2].text
    assert first.idempotency_key != second.idempotency_key
    assert [(name, each.tokens_in, each.usd) for name, each in run.paid] == [
        ("mini", 1_000, 0.002)
    ] * 2


async def test_a_repair_is_the_same_after_it_was_forgotten() -> None:
    model = Model("mini", Provider(BAD, GOOD))

    @pipeline
    async def read_twice(doc: Doc) -> int:
        await model.ask("Read.", doc.text, returns=Invoice)
        for number in range(CLASSES_KEPT + 1):
            model.repair_call(type(f"Made{number}", (BaseModel,), {}))
        return (await model.ask("Read.", doc.text, returns=Invoice)).total

    assert (await run_in_memory(read_twice, [DOC])).results == {0: 3}
    assert model.repair_call.cache_info().currsize == CLASSES_KEPT


async def test_a_validator_sees_the_context() -> None:
    wrong, right = '{"total": 3, "quote": "sum"}', '{"total": 3, "quote": "total"}'
    provider = Provider(wrong, right)
    pipeline = asking(Model("mini", provider), context={"text": DOC.text})

    assert (await run_in_memory(pipeline, [DOC])).results == {0: 3}
    assert len(provider.requests) == 2


@pytest.mark.parametrize(
    ("answers", "code", "requests"),
    [
        ([BAD], "llm.output.invalid", 2),
        ([answer('{"tot', "length")], "llm.output.truncated", 1),
        ([answer('{"tot', "max_tokens")], "llm.output.truncated", 1),
        ([BAD, answer("", "max_tokens")], "llm.output.truncated", 2),
        ([answer("I cannot", "refusal")], "llm.policy.refusal", 1),
        ([answer("", "content_filter")], "llm.policy.content_filtered", 1),
        ([answer("", "model_context_window_exceeded")], "llm.context.overflow", 1),
    ],
)
async def test_an_answer_without_use_is_an_error_and_is_paid_for(
    answers: Sequence[Any], code: str, requests: int
) -> None:
    provider = Provider(*answers)
    run = await run_in_memory(asking(Model("mini", provider)), [DOC])

    outcome = run.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    assert outcome.failure.code == code
    assert "tot" not in outcome.failure.message.replace("total", "")
    assert len(provider.requests) == requests
    assert [each.tokens_in for _, each in run.paid] == [1_000] * requests


BUSY = TransientError("busy", code="llm.http.529_overloaded")


@pytest.mark.parametrize(
    ("first", "asked"),
    [
        (answer("", "length"), 1),
        (answer("", "refusal"), 1),
        (answer("", "model_context_window_exceeded"), 1),
        (BUSY, 4),
    ],
)
async def test_a_fallback_is_asked_and_its_answer_is_remembered(
    first: Any, asked: int
) -> None:
    small, large = Provider(first), Provider(BAD, GOOD)
    model = Model("small", small, fallback=[Model("large", large, max_tokens=9)])
    run = await run_in_memory(asking(model), [DOC], faults=[killed_after("read")])

    assert run.results == {0: 3}
    assert {each.max_tokens for each in large.requests} == {9}
    assert (len(small.requests), len(large.requests)) == (asked, 2)
    assert large.requests[1].turns[1].text == '{"total": -1}'
    assert model.usage_of(ModelAnswer("", answered_by="large")).model == "large"


async def test_a_fallback_has_its_own_options_and_its_own_price() -> None:
    busy = TransientError("no room", code="llm.http.429_rate_limited")
    flex = replace(BAD, service_tier="flex")
    small, large = Provider(busy), Provider(flex, GOOD)
    price = Price(input=1.0, output=10.0, tiers={"flex": 0.5})
    model = Model(
        "small",
        small,
        price=Price(input=100.0, output=100.0),
        options={"service_tier": "flex", "extra_body": {"top_k": 1}},
        fallback=[Model("large", large, price=price, options={"seed": 3})],
    )
    pipeline = asking(model, options={"top_p": 0.5, "extra_body": {"a": 2}})
    run = await run_in_memory(pipeline, [DOC])

    assert run.results == {0: 3}
    extra = {"extra_body": {"top_k": 1, "a": 2}}
    assert [each.options for each in small.requests] == [
        {"service_tier": "flex", "top_p": 0.5, **extra}
    ] * 4
    # The request and its repair, which the fallback gets, too.
    assert [each.options for each in large.requests] == [{"seed": 3}] * 2
    # The tier that the answer names decides, whichever was asked for.
    assert [each.usd for _, each in run.paid] == [0.001, 0.002]


async def test_a_tier_is_no_part_of_the_key() -> None:
    async def key(**options: Any) -> str:
        provider = Provider(GOOD)
        await run_in_memory(asking(Model("mini", provider, options=options)), [DOC])
        return provider.requests[0].idempotency_key

    flex = await key(service_tier="flex")
    assert flex == await key() == await key(serviceTier={"type": "flex"})
    assert flex != await key(seed=1)


async def test_an_error_of_the_request_has_no_fallback() -> None:
    small = Provider(PermanentError("no", code="llm.http.400_bad_request"))
    large = Provider(GOOD)
    model = Model("small", small, fallback=[Model("large", large)])
    run = await run_in_memory(asking(model), [DOC])

    assert run.results == {}
    assert large.requests == []


Change = Callable[[], Model]


@pytest.mark.parametrize(
    ("names", "parameters"),
    [
        ({"model_id": "other"}, {}),
        ({"provider": "other"}, {}),
        ({"options": {"top_p": 0.5}}, {}),
        ({}, {"system": "Read well."}),
        ({}, {"prompt_version": "2"}),
        ({}, {"temperature": 0.5}),
        ({}, {"max_tokens": 9}),
        ({}, {"options": {"top_p": 0.5}}),
        ({}, {"returns": str}),
    ],
)
async def test_the_key_covers_all_that_can_change_the_answer(
    names: dict[str, Any], parameters: dict[str, Any]
) -> None:
    provider = Provider(GOOD)
    other = Provider(GOOD)
    other.provider = names.get("provider", "fake")
    first = Model("mini", provider, model_id="id")
    second = Model(
        "mini",
        other,
        model_id=names.get("model_id", "id"),
        options=names.get("options"),
    )
    usual = {"system": "Read.", "text": "a", "returns": Invoice}

    @pipeline
    async def ask_both(doc: Doc) -> int:
        await first.ask(**usual)
        await first.ask(**usual)  # an equal call
        await second.ask(**(usual | parameters))
        return len(doc.text)

    assert (await run_in_memory(ask_both, [DOC])).results == {0: 7}
    keys = {each.idempotency_key for each in (*provider.requests, *other.requests)}
    assert (len(provider.requests), len(other.requests)) == (1, 1)
    assert len(keys) == 2


async def test_a_fake_counts_and_its_answers_are_validated(
    piecework: Piecework,
) -> None:
    model = Model("mini", Provider(GOOD))
    fake = piecework.fake(model, Invoice(total=8))
    assert (await piecework.run(asking(model), [DOC, DOC])).results == {0: 8, 1: 8}
    assert fake.count == 2

    fake = piecework.fake(model, lambda request: f'{{"total": "{request.text}"}}')
    run = await piecework.run(asking(model), [DOC])
    assert run.outcomes[0].failure.code == "llm.output.invalid"
    assert [len(request.turns) for (request,), _ in fake.requests] == [1, 3]


def test_a_wrong_declaration_is_refused() -> None:
    inner = Model("b", Provider(GOOD), fallback=[Model("c", Provider(GOOD))])
    with pytest.raises(UsageError, match="has fallbacks of its own"):
        Model("a", Provider(GOOD), fallback=[inner])
    for wrong in ({"input": -1}, {"tiers": {"flex": -0.5}}):
        with pytest.raises(UsageError, match="below zero"):
            Price(**{"input": 1, "output": 1, **wrong})
    with pytest.raises(UsageError, match="cannot identify a call"):
        Model("a", Provider(GOOD), options={"http_client": object()})


async def test_only_a_pydantic_model_is_an_answer() -> None:
    with pytest.raises(UsageError, match="not a pydantic model"):
        await Model("a", Provider(GOOD)).ask("", "a", returns=int)  # type: ignore[call-overload]


async def test_a_request_is_estimated_by_its_texts_and_its_limit() -> None:
    provider = Provider(BAD, GOOD)
    model = Model("mini", provider, limits=Limits(tokens_per_minute=10_000))
    await model.ask("s" * 400, "t" * 400, returns=Invoice, max_tokens=800)

    estimate = model.dependency.estimate
    assert estimate is not None
    first, repair = (estimate(each) for each in provider.requests)
    assert 1_000 < first < repair < 1_400


def test_each_code_of_a_fallback_is_in_the_registry() -> None:
    assert FALLBACK_CODES <= REGISTRY.keys()
