"""A pipeline and its calls as typed functions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import (
    Context,
    Dependency,
    Effect,
    Pipeline,
    PipelineFunction,
    Results,
    Stage,
    TransientError,
    UsageError,
    pipeline,
)
from piecework.domain.outcome import DeadLettered
from piecework.loading import load_pipeline
from piecework.testing import run_in_memory

asked: list[tuple[str, str]] = []
failures: list[Exception] = []
words = Dependency("word-counter", effect=Effect.PROVIDER_IDEMPOTENT)
pure = Dependency("pure")


class Text(BaseModel):
    text: str


@words.call
async def count_words(text: str, *, idempotency_key: str = "") -> int:
    """Count words."""
    asked.append((text, idempotency_key))
    if failures:
        raise failures.pop()
    return len(text.split())


@pure.call(name="double", version="2")
async def double(function: int, dependency: int = 2) -> int:
    return dependency * function


@pure.call
async def double_count(text: str) -> int:
    return await double(await count_words(text))


@pipeline
async def word_count(part: Text) -> int:
    first, second = await asyncio.gather(count_words(part.text), count_words(part.text))
    assert first == second
    return await double(function=first, dependency=2)  # words of `ctx.call`


@word_count.join
async def total(results: Results[int]) -> int:
    await results.write("missing.txt", str(len(results.missing)))
    return sum([result.value async for result in results])


@word_count.label
def first_letters(part: Text) -> str:
    return part.text[:3]


@pipeline(name="nested", owner="team-a", timeout=5)
async def nested(part: Text) -> int:
    return await double_count(part.text)


@pipeline
def plain(part: Text) -> str:
    return part.text.upper()


@pipeline
def hidden(part: Text) -> Any:
    return count_words(part.text)


@pytest.fixture(autouse=True)
def _forget() -> None:
    asked.clear()
    failures.clear()


async def test_calls_in_a_chunk_are_retried_remembered_and_have_a_key() -> None:
    failures.append(TransientError("busy"))
    run = await run_in_memory(word_count, [Text(text="a b"), Text(text="c")])
    assert (run.results, run.join_value) == ({0: 4, 1: 2}, 6)
    assert run.artifacts == {"missing.txt": b"0"}
    texts = [text for text, _ in asked]
    assert texts == ["a b", "a b", "c"]  # one retry; the equal calls were made once
    by_text = {text: {k for t, k in asked if t == text} for text in texts}
    assert [len(keys) for keys in by_text.values()] == [1, 1]
    assert by_text["a b"] != by_text["c"]
    assert "" not in by_text["c"]


async def test_outside_of_a_chunk_functions_just_run() -> None:
    assert await word_count(Text(text="a b")) == 4
    assert len(asked) == 2
    assert all(key for _, key in asked)


async def test_a_call_that_another_call_makes_is_a_part_of_it() -> None:
    run = await run_in_memory(nested, [Text(text="a b")])
    assert run.results == {0: 4}
    assert nested.declared.owner == "team-a"
    assert nested.declared.stages[0].timeout == 5


async def test_a_coroutine_that_a_plain_function_returns_calls_through_the_chunk() -> (
    None
):
    failures.append(TransientError("busy"))
    assert (await run_in_memory(hidden, [Text(text="a b")])).results == {0: 2}
    assert len(set(asked)) == 1  # both attempts of the call have one key


async def test_a_plain_function_is_a_pipeline() -> None:
    assert (await run_in_memory(plain, [Text(text="a")])).results == {0: "A"}


async def run_in_thread(part: Text) -> int:
    return await asyncio.to_thread(asyncio.run, count_words(part.text))


def run_on_own_loop(part: Text) -> int:
    return asyncio.run(count_words(part.text))


@pytest.mark.parametrize("function", [run_in_thread, run_on_own_loop])
async def test_a_call_in_a_thread_is_refused_before_it_is_sent(function: Any) -> None:
    run = await run_in_memory(pipeline(function), [Text(text="a b")])
    outcome = run.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    assert outcome.failure.code == "pipeline.call.in_thread"
    assert asked == []
    assert await asyncio.to_thread(run_on_own_loop, Text(text="a b")) == 2


def test_a_declared_pipeline_is_loaded_by_its_name_and_by_its_module() -> None:
    loaded = load_pipeline(f"{__name__}:word_count")
    assert loaded is word_count.declared
    assert (loaded.name, loaded.payload) == ("word_count", Text)
    with pytest.raises(UsageError) as refused:
        load_pipeline(__name__)
    assert f"{__name__}:nested" in str(refused.value.next_step)


def no_key() -> Any:
    @words.call(name="no-key")
    async def ask(text: str) -> int:
        return len(text)

    return ask


def nested_function() -> Any:
    @pure.call
    async def ask(text: str) -> int:
        return len(text)

    return ask


def two_joins() -> Any:
    async def again(results: Results[int]) -> None:
        del results

    return word_count.join(again)


def no_annotation() -> Any:
    @pipeline
    async def of_any(part):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
        return part

    return of_any


def two_parameters() -> Any:
    async def of_two(part: Text, other: int) -> int:
        return other

    undeclared: Any = of_two
    return pipeline(undeclared)


@pytest.mark.parametrize(
    ("declare", "code"),
    [
        (no_key, "pipeline.declaration.invalid"),
        (nested_function, "pipeline.call.indistinct"),
        (two_joins, "pipeline.declaration.invalid"),
        (no_annotation, "pipeline.declaration.invalid"),
        (two_parameters, "pipeline.declaration.invalid"),
    ],
)
def test_a_wrong_declaration_is_refused_when_it_is_made(
    declare: Any, code: str
) -> None:
    with pytest.raises(UsageError) as refused:
        declare()
    assert refused.value.code == code
    assert refused.value.next_step


async def unkeyed(text: str) -> int:
    return len(text)


@pytest.mark.parametrize("function", [count_words, unkeyed])
async def test_a_wrong_call_through_the_context_is_refused_before_it_is_sent(
    function: Any,
) -> None:
    async def stage(ctx: Context[Text]) -> int:
        found: int = await ctx.call(words, function, ctx.payload.text)
        return found

    declared = Pipeline("wrong", payload=Text, stages=[Stage(stage)])
    run = await run_in_memory(declared, [Text(text="a")])
    assert run.results == {}
    assert asked == []


def test_a_declaration_keeps_name_and_documentation() -> None:
    assert isinstance(word_count, PipelineFunction)
    assert (count_words.__name__, count_words.__doc__) == (
        "count_words",
        "Count words.",
    )
