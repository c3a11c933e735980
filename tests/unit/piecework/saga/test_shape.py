"""The comparison of two shapes of a pipeline, as a table of changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, Effect, Pipeline, Results, Stage
from piecework.domain.shape import (
    ChunkRows,
    Compatible,
    Same,
    Shape,
    StageShape,
    Unsafe,
    compare,
    compare_join,
)
from piecework.saga.shape import shape_of


def shape(stages: str, undo: str = "", **facts: Any) -> Shape:
    """Return a shape whose stages have letters; the result is the last one."""
    found = [StageShape(name, name in undo, "text") for name in stages]
    return Shape(tuple(found), **{"result": stages[-1], **facts})


def calls(stages: str, name: str, effect: Effect) -> Shape:
    """Return a shape in which a stage calls a dependency with such an effect."""
    return both(stages, name, effect)


def both(stages: str, names: str, effect: Effect) -> Shape:
    """Return a shape in which some stages call a dependency with such an effect."""
    found = [
        StageShape(
            each, value="text", effects={"shop": effect} if each in names else {}
        )
        for each in stages
    ]
    return Shape(tuple(found), result=stages[-1])


def makes(stages: str, **where: str) -> Shape:
    """Return a shape in which each call is made in some of the stages."""
    found = [
        StageShape(
            name,
            value="text",
            calls=tuple(call for call, those in where.items() if name in those),
        )
        for name in stages
    ]
    return Shape(tuple(found), result=stages[-1])


def rows(completed: str = "", stage: str = "", affected: str = "") -> ChunkRows:
    """Return what the rows of a chunk tell."""
    return ChunkRows({*completed}, stage, {*affected})


ABC, AT_B = shape("abc"), rows("a", "b")
PURE, ONCE = Effect.PURE, Effect.NON_IDEMPOTENT
IN_A, IN_B, IN_C = (makes("abc", pay=stage) for stage in "abc")


@pytest.mark.parametrize(
    ("old", "new", "chunk", "difference"),
    [
        (ABC, shape("bac"), AT_B, "the order is b, a, c."),
        (ABC, shape("xabc"), AT_B, "'x' is new."),
        (ABC, shape("axbc"), AT_B, "'x' is new."),
        (ABC, shape("abcz"), AT_B, "'z' is new; the result is that of 'z'."),
        (shape("abcz"), ABC, AT_B, "'z' is gone; the result is that of 'c'."),
        (ABC, shape("bc"), AT_B, "'a' is gone."),
        (ABC, shape("bac", "a"), AT_B, "the order is b, a, c; 'a' has a compensation."),
        (shape("abc", "a"), ABC, AT_B, "'a' has no compensation."),
        (shape("abc", "a"), shape("bc"), AT_B, "'a' is gone."),
        (ABC, shape("bc"), rows("a", "b", "a"), "'a' is gone."),
        # The place of the result, the types, the join.
        (ABC, shape("abc", result="a"), AT_B, "the result is that of 'a'."),
        (shape("abc", result="a"), ABC, AT_B, "the result is that of 'c'."),
        (ABC, shape("abc", payload="new"), AT_B, "the payload has another type."),
        (ABC, shape("abc", has_join=True), AT_B, "there is a join."),
        (shape("abc", has_join=True), ABC, AT_B, "there is no join."),
        # The pivot: not reached, or not passed.
        (ABC, shape("abc", pivot="c"), AT_B, "the pivot is 'c'."),
        (shape("abc", pivot="c"), ABC, AT_B, "there is no pivot."),
        (shape("abc", pivot="b"), shape("abc", pivot="a"), AT_B, "the pivot is 'a'."),
        (
            shape("abc", pivot="b"),
            shape("abxc", pivot="b"),
            rows("ab", "c", "b"),
            "'x' is new.",
        ),
        # Effects of a stage that has not begun, or that has completed.
        (
            calls("abc", "c", PURE),
            calls("abc", "c", ONCE),
            AT_B,
            "the effects of 'c' are others.",
        ),
        (
            calls("abc", "a", ONCE),
            calls("abc", "a", PURE),
            AT_B,
            "the effects of 'a' are others.",
        ),
        (
            calls("abc", "b", Effect.LOOKUP),
            calls("abc", "b", ONCE),
            AT_B,
            "the effects of 'b' are others.",
        ),
        # A call that left its stage before it was made, or that no stage repeats.
        (IN_A, IN_C, AT_B, "'a' calls other functions"),
        (IN_B, IN_C, rows("a", "b", "b"), "'b' calls"),
        (makes("abc", pay="ac"), IN_C, rows("a", "b", "a"), "'a' calls"),
        (IN_B, makes("abc", pay="bc"), AT_B, "'c' calls"),
        (IN_C, makes("abc", pay="ac"), AT_B, "'a' calls"),
        (IN_C, makes("abc"), AT_B, "'c' calls"),
        # The ledger tells what a stage has done, whatever the call is now.
        (calls("abc", "b", ONCE), calls("abc", "b", PURE), AT_B, "the effects of 'b'"),
        # A chunk that has not begun runs whatever there is.
        (shape("abc", pivot="a"), shape("xyz", pivot="z"), rows(), "'a' is gone"),
    ],
)
def test_a_chunk_goes_on_across_a_safe_change(
    old: Shape, new: Shape, chunk: ChunkRows, difference: str
) -> None:
    found = compare(old, new, chunk)

    assert isinstance(found, Compatible)
    assert found.difference.startswith(difference)


@pytest.mark.parametrize(
    ("old", "new", "chunk", "reason"),
    [
        # The pivot has happened, and the new version would compensate before it.
        (shape("abc", pivot="a"), ABC, AT_B, "'a' may have happened, and it has none"),
        (
            shape("abc", pivot="b"),
            shape("abc", pivot="c"),
            AT_B,
            "'b' may have happened, and 'c' is the pivot now",
        ),
        (
            shape("abc", pivot="a"),
            shape("bac", pivot="c"),
            AT_B,
            "'a' may have happened",
        ),
        (
            shape("abc", pivot="a"),
            shape("xabc", pivot="a"),
            AT_B,
            "'x' stands before the pivot 'a'",
        ),
        # A stage with an effect is gone, and another one may be it.
        (ABC, shape("xbc"), rows("a", "b", "a"), "'a' has acted"),
        (ABC, shape("bcx"), rows("a", "b", "a"), "'x' may be it"),
        (shape("abc", "a"), shape("xbc", "x"), AT_B, "'a' has acted"),
        (ABC, shape("ac"), rows("a", "c", "b"), "'b' has begun to act"),
        # A call has moved between a stage that has completed and one that has not.
        (
            IN_A,
            IN_C,
            rows("a", "b", "a"),
            "'pay' was in 'a', which has acted, and is in 'c' now",
        ),
        (IN_A, makes("axbc", pay="x"), rows("a", "b", "a"), "it would be made again"),
        (
            IN_C,
            IN_A,
            AT_B,
            "'pay' was in 'c', which has not completed, and is in 'a' now",
        ),
        (IN_B, makes("ac", pay="a"), rows("a", "b"), "never be made"),
        # What was sent without a record of it would be sent again.
        (calls("abc", "b", PURE), calls("abc", "b", ONCE), AT_B, "was pure and is"),
    ],
)
def test_a_chunk_stops_before_an_unsafe_change(
    old: Shape, new: Shape, chunk: ChunkRows, reason: str
) -> None:
    found = compare(old, new, chunk)

    assert isinstance(found, Unsafe)
    assert reason in found.reason
    assert isinstance(compare(old, old, chunk), Same)
    assert isinstance(compare(old, new, rows()), Compatible)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ({"has_join": True}, {}, "submitted with a join"),
        ({"has_join": True}, {"has_join": True, "result": "a"}, "result of 'c'"),
        ({}, {"has_join": True, "result": "a"}, "result of 'c'"),
        ({}, {"has_join": True}, ""),
        ({}, {"result": "a"}, ""),
        ({"has_join": True}, {"has_join": True}, ""),
    ],
)
def test_a_join_reads_what_it_was_submitted_for(
    old: dict[str, Any], new: dict[str, Any], reason: str
) -> None:
    found = compare_join(shape("abc", **old), shape("abc", **new))

    assert isinstance(found, Unsafe if reason else Same)
    assert not reason or reason in found.reason  # type: ignore[union-attr]


# ── the shape of a declared pipeline ──────────────────────────────────────────

shop = Dependency("shop", effect=Effect.NON_IDEMPOTENT)
model = Dependency("model")


class Item(BaseModel):
    n: int = 0


class Wider(Item):
    more: str = ""


async def think(ctx: Context[Item]) -> str:
    return await ctx.call(model, reserve, "think")


async def buy(ctx: Context[Item]) -> str:
    return await ctx.call(shop, reserve, "buy")


async def undo(ctx: Context[Item]) -> None: ...


async def reserve(what: str, *, idempotency_key: str) -> str:
    return what + idempotency_key


async def gather(results: Results) -> None: ...


def test_the_shape_of_a_pipeline_comes_back_from_its_text() -> None:
    pipeline = Pipeline(
        "shop",
        payload=Item,
        stages=[Stage(think), Stage(buy, compensate=undo)],
        result=think,
        join=gather,
    )

    found = shape_of(pipeline)

    assert ["think", "buy"] == found.names
    assert [{"model": "pure"}, {"shop": "non_idempotent"}] == [
        stage.effects for stage in found.stages
    ]
    assert [(), ("reserve",)] == [stage.calls for stage in found.stages]
    assert [False, True] == [stage.is_compensable for stage in found.stages]
    assert ("think", "", True) == (found.result, found.pivot, found.has_join)
    assert found == Shape.read(found.write())
    assert len(found.write()) < 200
    wider = shape_of(replace(pipeline, payload=Wider))
    assert replace(found, payload="") == replace(wider, payload="")
    assert found != wider
