"""What a task of a stage raises does not end the event loop of its process."""

from __future__ import annotations

import asyncio

import pytest

from piecework_worker.process_tuning import run_to_end


async def raising(error: type[BaseException]) -> None:
    raise error


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_the_loop_goes_on_after_a_task_that_would_end_it(
    error: type[BaseException],
) -> None:
    async def work() -> str:
        neighbour = asyncio.create_task(asyncio.sleep(0.01, "done"))
        with pytest.raises(error):
            await asyncio.create_task(raising(error))
        return await neighbour

    with asyncio.Runner() as runner:
        assert "done" == run_to_end(runner, work())


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError])
def test_what_the_work_itself_raises_ends_it(error: type[BaseException]) -> None:
    with asyncio.Runner() as runner, pytest.raises(error):
        run_to_end(runner, raising(error))
