"""Few frames lie between a message and the user's function."""

from __future__ import annotations

import sys
from random import Random

from pydantic import BaseModel

from piecework import Context, Pipeline, Stage
from piecework_simulation.driver.actions import Workload
from piecework_simulation.driver.schedule import run_schedule

#: From the worker's task for a message to the stage function.
MAX_FRAMES = 10
PACKAGES = ("piecework.", "piecework_worker.")


class Nothing(BaseModel):
    """The payload of a chunk that needs none."""


def frames_of_piecework() -> list[str]:
    """Return the functions of Piecework that wait for the caller, outermost first."""
    found, frame = [], sys._getframe()
    while frame is not None:
        if frame.f_globals["__name__"].startswith(PACKAGES):
            found.append(frame.f_code.co_qualname)
        frame = frame.f_back  # type: ignore[assignment] # None at the outermost frame
    return found[::-1]


def test_at_most_ten_frames_lie_between_message_and_stage_function() -> None:
    seen: set[tuple[str, ...]] = set()

    async def count(_: Context[Nothing]) -> None:
        seen.add(tuple(frames_of_piecework()))

    pipeline = Pipeline("frames", payload=Nothing, stages=[Stage(count)])

    def draw(_: Random) -> list[Nothing]:
        return [Nothing()]

    for seed in range(1, 5):  # in some, the chunk is drawn from a backlog
        assert not run_schedule(seed, [Workload(pipeline, draw)]).violations

    from_messages = {frames for frames in seen if frames[0] == "Worker.handle"}
    assert {MAX_FRAMES} == {len(frames) for frames in from_messages}, seen
