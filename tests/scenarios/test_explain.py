"""Guarantee: `jobs explain` names the cause first, from what true workers left."""

from __future__ import annotations

from tests.scenarios.command_line import piecework
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item, counting


async def test_each_cause_is_explained_while_it_lasts(scenario: Scenario) -> None:
    await scenario.submit(counting, [Item(n=1, calls=2_000)])

    async def first_is(code: str) -> bool:
        done = await piecework("jobs", "explain", "job-1", "-o", "json")
        return done.exit_code == 0 and done.document["findings"][0]["code"] == code

    async def names(*codes: str) -> bool:
        done = await piecework("jobs", "explain", "job-1", "--output", "json")
        found = {finding["code"] for finding in done.document["findings"]}
        return found >= set(codes)

    assert await first_is("workers.none")

    worker = await scenario.process()

    async def runs() -> bool:
        shown = await piecework("jobs", "show", "job-1")
        return "job.progressing: Workers run chunks of the job." in shown.stdout

    await scenario.until(runs)

    await worker.kill()
    # Its lease is not renewed, so it does not count as live.
    await scenario.until(lambda: names("workers.none", "lease.expiring"))
