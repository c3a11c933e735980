"""A stage that would end its thread unheard, or the worker, ends only itself."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from piecework.calls.invoke import in_thread
from piecework.errors import TransientError
from piecework.saga import stage


def nothing_left(_: Any) -> Any:
    return next(iter(()))


def leaves(_: Any) -> Any:
    sys.exit(3)


async def leaves_on_the_loop(_: Any) -> Any:
    sys.exit(3)


class PanicException(BaseException):
    """As pyo3 raises it."""


def interrupts(_: Any) -> Any:
    raise KeyboardInterrupt


async def interrupts_on_the_loop(_: Any) -> Any:
    raise KeyboardInterrupt


def panics(_: Any) -> Any:
    raise PanicException("unwrap of None")


async def panics_in_a_group(_: Any) -> Any:
    raise BaseExceptionGroup("of tasks", [PanicException("unwrap of None")])


@pytest.mark.parametrize(
    "function",
    [
        nothing_left,
        leaves,
        leaves_on_the_loop,
        interrupts,
        interrupts_on_the_loop,
        panics,
        panics_in_a_group,
    ],
)
async def test_a_stage_that_ends_its_thread_or_process_ends_only_itself(
    function: Callable[[Any], Any],
) -> None:
    async def run_to_completion(work: Any) -> Any:
        return await asyncio.create_task(work)

    ctx: Any = SimpleNamespace(
        caller=SimpleNamespace(run_to_completion=run_to_completion)
    )
    async with asyncio.timeout(1.0):
        with pytest.raises(RuntimeError):
            await stage.invoke(function, ctx)


async def test_a_function_that_found_no_thread_does_not_run_later() -> None:
    called: list[str] = []
    before = threading.stack_size(1 << 46)  # more than any process can have
    try:
        with pytest.raises(TransientError) as raised:
            await in_thread(called.append, "refused")
    finally:
        threading.stack_size(before)
    await in_thread(called.append, "next")

    assert "runtime.worker.exhausted" == raised.value.code
    assert ["next"] == called
