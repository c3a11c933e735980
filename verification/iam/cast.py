"""The actors behind the door, each with a key of its own: commands and connections."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from piecework.aws.endpoint import Emulator
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework_orchestrator.embedded.deploy import make_client
from tests.scenarios import conftest
from tests.scenarios.command_line import Done, piecework
from tests.scenarios.conftest import Scenario
from verification.iam import pipelines
from verification.iam.door import Door

APP = "piecework"


@dataclass(slots=True)
class Cast:
    """Who plays.

    Attributes:
        played: The commands that were run.
        failed: The commands that did not come to the end that was expected of them.
    """

    door: Door
    emulator: Emulator
    env: str
    folder: Path
    played: list[tuple[str, ...]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    async def command(self, actor: str, *words: str, code: int = 0) -> Done:
        """Run a command as somebody, up to an exit code."""
        with signing(actor):
            done = await piecework(*words)
        self.played.append(words)
        if code != done.exit_code:
            said = f"{done.exit_code}: {done.stderr or done.stdout}".strip()
            self.failed.append(f"{actor}: {' '.join(words)}: {said}")
        return done

    @asynccontextmanager
    async def connected(self, actor: str) -> AsyncIterator[Runtime]:
        """Connect as somebody."""
        connection = connect(load_settings())
        with signing(actor):
            rt = await connection.__aenter__()
        try:
            yield rt
        finally:
            await connection.__aexit__(None, None, None)

    @asynccontextmanager
    async def scenario(self, actor: str) -> AsyncIterator[Scenario]:
        """Play a part of a scenario as somebody."""
        async with self.connected(actor) as rt:
            yield Scenario(rt, self.folder / "ledger")

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Scenario]:
        """Run a worker without a reconciler beside it."""
        async with self.scenario("worker") as scenario, scenario.worker():
            yield scenario

    def backstage(self, service: str) -> Any:
        """Return a client that goes round the door, for what no role of ours does."""
        return make_client(service, self.emulator)

    def queue(self, name: str) -> str:
        """Return a queue's address."""
        named = f"{APP}-{self.env}-{name}"
        return str(self.backstage("sqs").get_queue_url(QueueName=named)["QueueUrl"])

    def drop(self, queue: str, body: str) -> None:
        """Put a message into a queue from nowhere."""
        url = self.queue(queue)
        self.backstage("sqs").send_message(QueueUrl=url, MessageBody=body)


@contextmanager
def signing(actor: str) -> Iterator[None]:
    """Let this process sign as somebody, for a while."""
    with patch.dict(os.environ, AWS_ACCESS_KEY_ID=actor):
        yield


@contextmanager
def stage(url: str, env: str, folder: Path) -> Iterator[None]:
    """Let this process see the door alone, and the pipelines that are played."""
    seen = {
        **conftest.SHORT,
        # Nobody dies here: a lease that a slow machine does not miss.
        "PIECEWORK_LEASE_S": "10",
        "PIECEWORK_VISIBILITY_S": "12",
        "PIECEWORK_DEAD_LETTER_ALARM": "1",
        "PIECEWORK_APP": APP,
        "PIECEWORK_ENV": env,
        "PIECEWORK_STATE_DIR": str(folder),
        "AWS_ENDPOINT_URL": url,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_SECRET_ACCESS_KEY": "test",
        "SCENARIO_LEDGER": str(folder / "ledger"),
    }
    known = {pipelines.large.name: pipelines.large}
    with patch.dict(os.environ, seen), patch.dict(conftest.ALL, known):
        yield
