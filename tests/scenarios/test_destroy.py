"""An environment is not taken from under its jobs."""

from __future__ import annotations

import asyncio

import boto3
import pytest

from orchestrator.infra.destroy import destroy, foresee
from orchestrator.infra.environment import Environment
from orchestrator.infra.parts import Part
from orchestrator.infra.site import visit
from piecework.errors import UsageError
from tests.scenarios import pipelines
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item


class Silent:
    """Agrees, and says nothing."""

    def say(self, text: str) -> None:
        """Say nothing."""

    def show(self, stack: str, changes: object) -> None:
        """Show nothing."""

    def agree(self, what: str) -> None:
        """Agree."""


async def test_destroy_is_refused_while_a_job_runs_and_done_after_its_end(
    scenario: Scenario,
) -> None:
    settings = scenario.rt.settings
    environment = Environment(settings.app, settings.env)
    site = await asyncio.to_thread(visit, "")
    await scenario.submit(pipelines.counting, [Item(n=1)])

    with pytest.raises(UsageError, match=r"1 job is .*: job-1") as refused:
        await asyncio.to_thread(foresee, site, environment, (), with_data=True)
    async with scenario.worker():
        await scenario.ended()
    planned = await asyncio.to_thread(foresee, site, environment, (), with_data=True)
    await asyncio.to_thread(destroy, site, planned, Silent())

    assert "infra.jobs.running" == refused.value.code
    assert site.stack(environment, Part.DATA).find() is None
    tables = boto3.client("dynamodb")
    assert settings.checkpoints_table not in tables.list_tables()["TableNames"]
    tables.close()
