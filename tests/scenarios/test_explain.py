"""Promise: `jobs explain` names the cause first, from what true workers left behind."""

from __future__ import annotations

from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting


async def test_each_cause_is_explained_while_it_lasts(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1, calls=2_000)])

    async def first_is(code: str) -> bool:
        done = await piecework("jobs", "explain", "job-1", "-o", "json")
        return done.exit_code == 0 and done.document["findings"][0]["code"] == code

    assert await first_is("workers.none")

    worker = await scenario.process()

    async def runs() -> bool:
        shown = await piecework("jobs", "show", "job-1")
        return "job.progressing: Workers run chunks of the job." in shown.stdout

    await scenario.until(runs)

    await worker.kill()
    await scenario.until(lambda: first_is("lease.expiring"))
