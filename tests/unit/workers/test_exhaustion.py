"""A worker ends that lacks what a process needs several times in a row."""

from __future__ import annotations

import asyncio

import pytest

from piecework.errors import StoreError, WorkerExhaustedError
from piecework_worker.exhaustion import Exhaustion
from tests.unit.piecework.fakes import Log
from tests.unit.virtual import run_virtually

LACKS = WorkerExhaustedError("No thread.")


@pytest.mark.parametrize(
    ("waits", "ends"),
    [
        ([0, 1, 2, 4, 8], True),  # as chunks return that were deferred
        ([0, 0, 0, 0, 0, 0, 0], False),  # one peak
        ([0, 5, 5, 5, 31], False),  # a quiet time
        ([0, 5, 5, 5], False),
    ],
)
def test_a_worker_ends_after_five_times_in_a_row(
    waits: list[float],
    ends: bool,  # noqa: FBT001
) -> None:
    async def note() -> None:
        exhaustion = Exhaustion(Log())  # type: ignore[arg-type]
        ending = asyncio.create_task(exhaustion.end())
        for wait in waits:
            await asyncio.sleep(wait)
            exhaustion.note(LACKS)
            exhaustion.note(StoreError("Later.", code="aws.endpoint.timeout"))
        await asyncio.sleep(0.1)

        assert ends is ending.done()
        if ends:
            error = ending.exception()
            assert isinstance(error, WorkerExhaustedError)
            said = "5 times in a row: No thread."
            assert (9, said) == (error.exit_code, error.message)
        ending.cancel()

    run_virtually(note())
