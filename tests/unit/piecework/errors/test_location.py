"""Where the user's code raised an exception, as an operator reads it."""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel

from piecework import Context, Dependency, PermanentError, Pipeline, Stage, TimeWindow
from piecework.calls.equal_calls import operation_ref
from piecework.calls.usage import estimated_tokens, estimated_usd
from piecework.domain.order_key import read_order_key
from piecework.domain.outcome import DeadLettered
from piecework.errors import ErrorEnvelope, PieceworkError
from piecework.errors.envelope import TRACEBACK_LIMIT
from piecework.testing import run_in_memory

SECRET = "the-clients-secret-name"


class Item(BaseModel):
    """A chunk with data that no error may show."""

    name: str = SECRET


async def answer(name: str, *, idempotency_key: str) -> str:
    del idempotency_key
    return {"other": name}[name]


async def in_the_stage(ctx: Context[Item]) -> str:
    return {"other": 1}[ctx.payload.name]  # type: ignore[return-value]


def in_a_thread(ctx: Context[Item]) -> str:
    return {"other": 1}[ctx.payload.name]  # type: ignore[return-value]


async def in_a_library(ctx: Context[Item]) -> Any:
    return json.loads(ctx.payload.name)


async def in_a_call(ctx: Context[Item]) -> str:
    return await ctx.call(Dependency("shop"), answer, ctx.payload.name)


async def while_handling(ctx: Context[Item]) -> str:
    try:
        return await in_a_call(ctx)
    except KeyError:
        return {"another": ""}[ctx.payload.name]


async def in_a_group(ctx: Context[Item]) -> str:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(in_the_stage(ctx))
    return task.result()


async def too_long(ctx: Context[Item]) -> str:
    await asyncio.sleep(60)
    return ctx.payload.name


async def deep(ctx: Context[Item], left: int = 300) -> str:
    return await deep(ctx, left - 1) if left else await in_the_stage(ctx)


async def on_purpose(_: Context[Item]) -> str:
    message = "out of stock"
    raise PermanentError(message, code="tool.stock.none")


async def failure_of(run: Callable[..., Any]) -> ErrorEnvelope:
    stage = Stage(run, timeout=0.01 if run is too_long else None)
    ran = await run_in_memory(Pipeline("p", payload=Item, stages=[stage]), [Item()])
    outcome = ran.outcomes[0]
    assert isinstance(outcome, DeadLettered)
    return outcome.failure


@pytest.mark.parametrize(
    ("run", "exception", "function"),
    [
        (in_the_stage, "KeyError", "in_the_stage"),
        (in_a_thread, "KeyError", "in_a_thread"),
        (in_a_library, "JSONDecodeError", "in_a_library"),
        (in_a_call, "KeyError", "answer"),
        (while_handling, "KeyError", "while_handling"),
        (in_a_group, "KeyError", "in_the_stage"),
        (too_long, "TimeoutError", "too_long"),
        (deep, "KeyError", "in_the_stage"),
        (on_purpose, "PermanentError", "on_purpose"),
    ],
)
async def test_a_failure_names_type_file_line_and_function(
    run: Callable[..., Any], exception: str, function: str
) -> None:
    failure = await failure_of(run)

    found = re.fullmatch(r"(\w+) at (\S+):(\d+) in (\w+)", failure.raised)
    assert found is not None
    path = "tests/unit/piecework/errors/test_location.py"
    assert (exception, path, function) == (found[1], found[2], found[4])
    assert int(found[3]) > 0
    assert SECRET not in failure.model_dump_json()
    assert len(failure.traceback) <= TRACEBACK_LIMIT
    assert "piecework/saga" not in failure.traceback


def fails(*_: Any, **__: Any) -> Any:
    raise KeyError(SECRET)


ONCE: Any = {"by": TimeWindow(60.0)}
CALL = functools.partial(answer, SECRET)


@pytest.mark.parametrize(
    "use",
    [
        lambda: estimated_tokens(Dependency("m", estimate=fails), CALL),
        lambda: estimated_usd(Dependency("m", estimate_usd=fails), CALL),
        lambda: operation_ref(
            "t", Dependency("m", scope=fails, **ONCE), answer, ("",), {}
        ),
        lambda: read_order_key(fails, Item(), "row 1"),
    ],
)
def test_an_error_about_a_users_function_names_where_it_raised(
    use: Callable[[], object],
) -> None:
    place = r"tests/unit/piecework/errors/test_location\.py:\d+ in fails"
    with pytest.raises(PieceworkError, match=f" raised KeyError at {place}") as caught:
        use()
    assert isinstance(caught.value.__cause__, KeyError)
    assert SECRET not in caught.value.message


async def test_the_error_that_a_stage_handled_is_kept() -> None:
    failure = await failure_of(while_handling)

    first, inner = failure.traceback.split("during the handling of ")
    assert first.startswith("KeyError\n")
    assert "in while_handling" in first
    assert "in answer" in inner
