"""The messages that workers receive although they do not have their pipeline."""

from __future__ import annotations

import asyncio

from piecework.domain.states import JobStatus
from piecework.pipelines import Pipeline, Stage
from verification.flow.calling import Batch, ask_freely, unlimited
from verification.flow.processes import CALLING, Deployment, on_deployment

#: The queue and the pipeline of the second fleet.
QUEUE = "own"
own = Pipeline("own", payload=Batch, stages=[Stage(ask_freely)], queue=QUEUE)
#: The same pipeline in the queue that all share, for a comparison.
shared = Pipeline("shared", payload=Batch, stages=[Stage(ask_freely)])
#: The workers of both fleets, and the calls of the job of each.
WORKERS, CALLS = 4, 2_000


def unknown_received() -> float:
    """Return the messages that two fleets with a queue each returned."""
    return received_without_pipeline(own)


def received_without_pipeline(second: Pipeline[Batch]) -> float:
    """Return how many messages two fleets returned; `second`: that of the second one.

    Each worker process logs a message of a pipeline that it does not have.
    """

    async def act(deployment: Deployment) -> int:
        jobs = [
            await deployment.submit(pipeline, pipeline.name, CALLS)
            for pipeline in (unlimited, second)
        ]
        ended = await asyncio.gather(*map(deployment.ended, jobs))
        assert {JobStatus.SUCCEEDED} == set(ended), ended
        return deployment.log.read_bytes().count(b'"event": "pipeline.unknown"')

    modules = (CALLING, f"verification.flow.queues:{second.name}")
    found = on_deployment(act, WORKERS, modules, (QUEUE,), requests=10**9)
    assert isinstance(found, int)
    return found


if __name__ == "__main__":
    print(f"shared_queue_unknown_received={received_without_pipeline(shared)}")  # noqa: T201
