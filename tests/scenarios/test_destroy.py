"""`infra destroy` is refused while jobs run."""

from __future__ import annotations

import asyncio

import boto3
import pytest

from piecework.errors import UsageError
from piecework_orchestrator.infra.destroy import destroy, plan_destroy
from piecework_orchestrator.infra.environment import Environment
from piecework_orchestrator.infra.session import open_session
from piecework_orchestrator.infra.templates import Part
from tests.scenarios import pipelines
from tests.scenarios.conftest import Scenario
from tests.scenarios.pipelines import Item


class Silent:
    """Confirms everything and prints nothing."""

    def report(self, text: str) -> None:
        """Print nothing."""

    def show_changes(self, stack: str, changes: object) -> None:
        """Show nothing."""

    def confirm(self, action: str) -> None:
        """Confirm."""


async def test_destroy_is_refused_while_a_job_runs_and_done_after_its_end(
    machine: Scenario,
) -> None:
    settings = machine.rt.settings
    environment = Environment(settings.app, settings.env)
    session = await asyncio.to_thread(open_session, "")
    await machine.submit(pipelines.counting, [Item(n=1)])

    with pytest.raises(UsageError, match=r"1 job is .*: job-1") as refused:
        await asyncio.to_thread(plan_destroy, session, environment, (), with_data=True)
    async with machine.worker():
        await machine.ended()
    planned = await asyncio.to_thread(
        plan_destroy, session, environment, (), with_data=True
    )
    await asyncio.to_thread(destroy, session, planned, Silent())

    assert "infra.jobs.running" == refused.value.code
    assert session.stack(environment, Part.DATA).find() is None
    tables = boto3.client("dynamodb")
    assert settings.checkpoints_table not in tables.list_tables()["TableNames"]
    tables.close()
