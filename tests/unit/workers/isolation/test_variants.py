from __future__ import annotations

import pytest

from piecework.context import Context
from piecework.dependency import Dependency, Fallback
from piecework.domain.effect import Effect
from piecework.errors import PolicyError
from piecework.errors.codes import ErrorClass
from piecework.pipelines import Pipeline, Stage
from tests.unit.piecework.fakes import Clause, Diary, Log, caller, context, envelope
from tests.unit.workers.isolation.both_ends import Bench, bench, child_of

ASKED: list[str] = []


@pytest.fixture(autouse=True)
def nobody_asked() -> None:
    ASKED.clear()


async def ask_large(prompt: str, *, idempotency_key: str) -> str:
    del idempotency_key
    ASKED.append(f"large {prompt}")
    message = "not that"
    raise PolicyError(message, code="llm.policy.refusal", http_status=403)


async def ask_small(prompt: str, *, idempotency_key: str) -> str:
    ASKED.append(f"small {prompt}")
    if prompt == "hard":
        return await ask_large(prompt, idempotency_key=idempotency_key)
    return f"small {prompt}"


def by_rules(prompt: str) -> str:
    ASKED.append(f"rules {prompt}")
    return f"rules {prompt}"


async def search(prompt: str, *, idempotency_key: str) -> str:
    del idempotency_key
    ASKED.append(f"search {prompt}")
    return f"found {prompt}"


small = Dependency("small", layer="llm")
large = Dependency(
    "large",
    layer="llm",
    fallback=[Fallback(small, ask_small), Fallback(None, by_rules)],
)
desk = Dependency("desk", effect=Effect.LOOKUP, lookup=search)
shop = Dependency(
    "shop",
    effect=Effect.PROVIDER_IDEMPOTENT,
    fallback=[Fallback(desk, ask_small)],
)


async def asks(ctx: Context[Clause]) -> str:
    answer = await ctx.call(large, ask_large, ctx.payload.text)
    return f"{answer}: {[fell.answered_by for fell in ctx.fallbacks_used]}"


async def buys(ctx: Context[Clause]) -> str:
    return await ctx.call(shop, ask_large, ctx.payload.text)


async def plans(ctx: Context[Clause]) -> str:
    assert ctx.failure is not None
    return ctx.failure.code


@pytest.mark.parametrize("prompt", ["easy", "hard"])
async def test_a_chain_has_the_same_keys_and_answers_as_in_the_worker(
    prompt: str,
) -> None:
    here, there, log = Diary(), Diary(), Log()
    pipeline = Pipeline("review", payload=Clause, stages=[Stage(asks)])
    ctx = context(pipeline, caller=caller(here), stage="asks")
    ctx.payload.text = prompt
    value = await asks(ctx)
    asked = list(ASKED)
    ASKED.clear()

    async with bench(asks, journal=there, log=log) as b:
        ended = await b.run(payload=f'{{"text": "{prompt}"}}')

    by = "small" if prompt == "easy" else "by_rules"
    assert value.endswith(f"['{by}']")
    assert f'"{value}"' == ended.value
    assert asked == ASKED
    assert here.calls == there.calls
    assert 1 == log.names().count("call.fallback_used")


async def test_an_effect_that_was_refused_is_had_elsewhere() -> None:
    async with bench(buys, journal=(diary := Diary())) as b:
        ended = await b.run()

    assert '"small text"' == ended.value
    assert ["large text", "small text"] == ASKED
    assert ['"small text"'] == list(diary.effects.values())


async def test_what_another_may_have_done_is_looked_up_with_its_own_search() -> None:
    diary = Diary()
    async with bench(buys, journal=diary) as b:
        await b.run()
    diary.effects = dict.fromkeys(diary.effects)  # its worker died before the answer
    ASKED.clear()
    async with bench(buys, journal=diary) as b:
        ended = await b.run()

    assert ["search text"] == ASKED
    assert '"found text"' == ended.value


async def test_a_child_runs_the_requested_variant_and_receives_its_reason() -> None:
    stage = Stage(plans, replan=plans, isolate=True)
    pipeline = Pipeline("review", payload=Clause, stages=[stage])
    failure = envelope(ErrorClass.SEMANTIC, code="tool.output.nonsense")
    async with child_of(pipeline) as child:
        b = Bench(child, context(pipeline, stage="plans"), pipeline.stages[-1])
        ended = await b.run(variant="replan", failure=failure)

    assert '"tool.output.nonsense"' == ended.value
