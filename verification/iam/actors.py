"""Run commands and connections as actors, each with its own access key."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest.mock import patch

from pydantic import BaseModel

from piecework.aws.endpoint import Emulator
from piecework.runtime import Runtime, connect
from piecework.settings import load_settings
from piecework_orchestrator.embedded.deploy import make_client
from tests.scenarios import conftest
from tests.scenarios.command_line import COUNTING, Done, manifest, piecework
from tests.scenarios.conftest import Scenario
from verification.iam import pipelines
from verification.iam.proxy import Proxy

APP = "piecework"
SUBMIT, READ, WRITE = "orchestrator", "operator-read", "operator-write"
DELETE, DEPLOY = "operator-delete", "deploy"
WHY = ("--reason", "walkthrough")
YES = (*WHY, "--yes")
#: Maximum seconds for a job on a slow machine.
PATIENCE_S = 100.0
#: The exit code of a command that found dead chunks.
DIED = 5


@dataclass(slots=True)
class Actors:
    """The actors of a run.

    Attributes:
        played: The commands that were run.
        failed: The commands with an unexpected exit code.
    """

    proxy: Proxy
    emulator: Emulator
    env: str
    folder: Path
    commands_run: list[tuple[str, ...]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)

    async def command(self, actor: str, *words: str, code: int = 0) -> Done:
        """Run a command as an actor, and compare its exit code."""
        with signed_as(actor):
            done = await piecework(*words)
        self.commands_run.append(words)
        if code != done.exit_code:
            said = f"{done.exit_code}: {done.stderr or done.stdout}".strip()
            self.failed.append(f"{actor}: {' '.join(words)}: {said}")
        return done

    async def submit(
        self, job: str, items: Sequence[BaseModel], *more: str, pipeline: str = COUNTING
    ) -> None:
        """Submit a job from a file."""
        path = manifest(self.folder / f"{job}.jsonl", items)
        await self.command(SUBMIT, "submit", pipeline, path, "--job-id", job, *more)

    @asynccontextmanager
    async def connected(self, actor: str) -> AsyncIterator[Runtime]:
        connection = connect(load_settings())
        with signed_as(actor):
            rt = await connection.__aenter__()
        try:
            yield rt
        finally:
            await connection.__aexit__(None, None, None)

    @asynccontextmanager
    async def scenario(self, actor: str) -> AsyncIterator[Scenario]:
        """Open a scenario as an actor."""
        async with self.connected(actor) as rt:
            yield Scenario(rt, self.folder / "ledger")

    @asynccontextmanager
    async def worker(self) -> AsyncIterator[Scenario]:
        """Run a worker without a reconciler beside it."""
        async with self.scenario("worker") as scenario, scenario.worker():
            yield scenario

    def direct_client(self, service: str) -> Any:
        """Return a client past the proxy, for requests that no role of ours makes."""
        return make_client(service, self.emulator)

    def queue(self, name: str) -> str:
        """Return a queue's address."""
        named = f"{APP}-{self.env}-{name}"
        return str(self.direct_client("sqs").get_queue_url(QueueName=named)["QueueUrl"])

    def drop(self, queue: str, body: str) -> None:
        """Send a foreign message to a queue."""
        url = self.queue(queue)
        self.direct_client("sqs").send_message(QueueUrl=url, MessageBody=body)


@contextmanager
def signed_as(actor: str) -> Iterator[None]:
    """Let this process sign as an actor."""
    with patch.dict(os.environ, AWS_ACCESS_KEY_ID=actor):
        yield


@contextmanager
def actor_environment(url: str, env: str, folder: Path) -> Iterator[None]:
    """Point this process at the proxy and at the pipelines of the run."""
    seen = {
        **conftest.SHORT,
        # No process is killed: the lease fits a slow machine.
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
    known = {each.name: each for each in (pipelines.large, pipelines.asking)}
    with patch.dict(os.environ, seen), patch.dict(conftest.ALL, known):
        yield
