"""A deployment for each scenario, with the real submit and the real worker."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from queue import SimpleQueue
from random import Random
from typing import Any

import pytest
import structlog
from pydantic import BaseModel

from piecework.aws.endpoint import Emulator
from piecework.domain.budget import NO_CAP, Cap
from piecework.domain.chunk import Chunk
from piecework.domain.dead_letter import DeadLetterRow
from piecework.domain.job import Job
from piecework.domain.priority import Priority
from piecework.domain.refs import JobRef
from piecework.pipelines import Pipeline
from piecework.reconciler.loop import reconcile_for_ever
from piecework.runtime import EMBEDDED_ACCOUNT, Runtime, connect
from piecework.settings import Settings, load_settings
from piecework.store.completion import all_chunks
from piecework.store.dead_letters import DeadLetters
from piecework_orchestrator.dead_letters.redrive import RedriveRequest, redrive
from piecework_orchestrator.embedded.deploy import ACCESS_KEY
from piecework_orchestrator.submit.submit import Submission, submit
from piecework_simulation.aws_server.server import serve_aws
from piecework_simulation.driver.processes import read_inputs
from piecework_simulation.in_process import InProcessAws
from piecework_worker.services import open_services
from piecework_worker.worker import Worker
from tests.scenarios import command_line, mapping, pipelines
from tests.scenarios.virtual_worker import start_worker
from tests.virtual_time import VIRTUAL

ROOT = Path(__file__).parents[2]
ALL = {
    p.name: p
    for p in (
        pipelines.counting,
        pipelines.travel,
        pipelines.blocking,
        pipelines.telling,
        pipelines.trip,
        pipelines.leaning,
        pipelines.freeing,
        pipelines.sealing,
        pipelines.faxing,
        pipelines.faxing_once,
        pipelines.assembling,
        pipelines.drawing,
        pipelines.scraping,
        pipelines.revealing,
        pipelines.sleeping,
        pipelines.posting,
        pipelines.noticing,
        pipelines.booking,
        pipelines.faxing_late,
        pipelines.selling,
        pipelines.selling_past_pivot,
        mapping.leaves,
        mapping.trees,
        mapping.forests,
        mapping.needy,
        mapping.drifting,
        mapping.walking,
    )
}
#: Seconds that a scenario waits for a state, on a machine with other work, too.
PATIENCE_S = 90.0
#: The Unix time at which a virtual clock is 0.
EPOCH = 1_800_000_000.0
#: Short, so that a scenario ends in seconds. A lease outlasts the pauses of a busy
#: machine, because a worker that loses its lease begins again.
SHORT = {
    "PIECEWORK_LEASE_S": "30",
    "PIECEWORK_VISIBILITY_S": "36",
    "PIECEWORK_CLOCK_SKEW_S": "0.2",
    "PIECEWORK_RECONCILE_S": "0.3",
    "PIECEWORK_RECEIVE_WAIT_S": "1",
    "PIECEWORK_SHUTDOWN_GRACE_S": "1.5",
}


@dataclass
class Process:
    """A worker in a process of its own."""

    process: asyncio.subprocess.Process

    @property
    def name(self) -> str:
        """The name that it writes to the tables."""
        return f"{os.uname().nodename}-{self.process.pid}"

    async def kill(self) -> None:
        """Kill it as the kernel does."""
        self.process.send_signal(signal.SIGKILL)
        await self.process.wait()

    async def stop(self) -> int:
        """Send SIGTERM, as a deployment does; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)


@dataclass
class Scenario:
    """A deployment, and what a scenario does with it."""

    rt: Runtime
    ledger_path: Path
    processes: list[Any] = field(default_factory=list)
    aws: InProcessAws | None = None

    @property
    def log(self) -> Any:
        """Return a logger that writes to this stream, whatever a command configures."""
        return structlog.wrap_logger(structlog.WriteLogger(sys.stdout)).bind()

    @property
    def ledger(self) -> list[list[str]]:
        """The lines of the ledger."""
        if not self.ledger_path.exists():
            return []
        return [line.split() for line in self.ledger_path.read_text().splitlines()]

    def happened(self, *words: str) -> int:
        """Count the lines of the ledger that begin with these words."""
        return sum(line[: len(words)] == list(words) for line in self.ledger)

    def fix(self) -> None:
        """Remove the cause of the trouble."""
        Path(f"{self.ledger_path}.fixed").touch()

    def hold(self, point: str, since: int = 0) -> None:
        """Let what comes to a point stay there; of calls, those from a number on."""
        self._held(point).write_text(str(since))

    def release(self, point: str) -> None:
        """Let what comes to a point pass from now on."""
        self._held(point).unlink()

    def _held(self, point: str) -> Path:
        return Path(f"{self.ledger_path}.hold-{point}")

    async def submit(
        self,
        pipeline: Pipeline,
        items: Sequence[BaseModel],
        job: str = "job-1",
        deadline_s: float | None = None,
        tolerate: str = "0",
        priority: Priority = Priority.NORMAL,
        budget: Cap = NO_CAP,
        lane: str = "",
    ) -> tuple[Job, bool]:
        """Submit a job."""
        ref = JobRef("default", job)
        until = None if deadline_s is None else self.rt.clock() + deadline_s
        asked = Submission(
            *(ref, pipeline, "scenario", "tester", until),
            tolerate=tolerate,
            budget=budget,
            priority=priority,
            lane=lane,
        )
        return await submit(self.rt, asked, read_inputs(pipeline, items))

    @asynccontextmanager
    async def worker(
        self, name: str = "w1", *, frozen: bool = False, **parts: Any
    ) -> AsyncIterator[Worker]:
        """Run a worker in this process; a frozen one neither renews nor polls."""
        settings = parts.pop("settings", self.rt.settings)
        if frozen:
            settings = replace(settings, max_chunks=1)
        rt = replace(self.rt, settings=settings, **parts)
        services = open_services(rt, name, ALL, self.log)
        if frozen:
            never = {"lease_s": 1000.0, "visibility_s": 2000.0}
            services.lease_renewer.settings = replace(settings, **never)
        worker = Worker(services, asyncio.Event())
        running = asyncio.create_task(worker.run())
        try:
            yield worker
        finally:
            worker.stop.set()
            await asyncio.wait_for(running, PATIENCE_S)

    @asynccontextmanager
    async def reconciler(self) -> AsyncIterator[None]:
        """Run a reconciler without a worker."""
        running = asyncio.create_task(reconcile_for_ever(self.rt, self.log))
        try:
            yield
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def process(
        self, *arguments: str, pipelines: str = "tests.scenarios.pipelines"
    ) -> Any:
        """Run a worker in a process of its own; on the models, in a virtual one."""
        if self.aws is not None:
            name = f"process-{len(self.processes)}"
            words = ("--pipelines", pipelines, *arguments)
            self.processes.append(start_worker(self.aws, name, words, self.log))
            return self.processes[-1]
        started = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "piecework_worker",
            "--pipelines",
            pipelines,
            *arguments,
            cwd=ROOT,
            env={**os.environ, "PIECEWORK_LOG_LEVEL": "warning"},
        )
        self.processes.append(Process(started))
        return self.processes[-1]

    def later(self, seconds: float) -> Runtime:
        """Return a runtime whose clock is so far ahead of the services'."""
        assert self.aws is not None
        return self.aws.runtime(clock=lambda: self.rt.clock() + seconds)

    async def lose_messages(self) -> None:
        """Delete every message of the work queue, as a queue that loses them."""
        work = self.rt.work
        while found := await work.receive(10, of="", wait_s=0, hide_s=30):
            await work.default.delete([message.receipt for message in found])

    async def job(self, job: str = "job-1") -> Job:
        """Return the current job."""
        found = await self.rt.jobs.read(JobRef("default", job))
        assert found is not None
        return found

    async def chunks(self, job: str = "job-1") -> list[Chunk]:
        """Return the current chunks of a job."""
        found = await self.job(job)
        return [c async for c in all_chunks(self.rt.table, found.ref, found.chunks)]

    async def ended(self, job: str = "job-1", within: float = PATIENCE_S) -> Job:
        """Wait until a job has ended."""

        async def has_ended() -> bool:
            return (await self.job(job)).status.ended

        await self.until(has_ended, within)
        return await self.job(job)

    async def until(
        self, condition: Callable[[], object], within: float = PATIENCE_S
    ) -> None:
        """Wait until a condition holds: the only way in which a scenario waits.

        It reads the ledger often. It asks less and less often if a condition sends
        requests: many polls would delay what it waits for.
        """
        pause_s = 0.03
        async with asyncio.timeout(within):
            while True:
                answer = condition()
                asked = asyncio.iscoroutine(answer)
                if await answer if asked else answer:
                    return
                await asyncio.sleep(pause_s)
                pause_s = min(1.3 * pause_s, 0.3) if asked else pause_s

    async def letters(self, job: str = "job-1") -> list[dict[str, object]]:
        """Return the dead letters of a job."""
        return [row.facts for row in await self.letter_rows(job)]

    async def letter_rows(self, job: str = "job-1") -> list[DeadLetterRow]:
        """Return the dead letters of a job as rows."""
        store = DeadLetters(self.rt.dead_letters, self.rt.settings, self.rt.clock)
        return [row async for row in store.of_job(JobRef("default", job))]

    async def redrive(self, job: str = "job-1") -> tuple[int, int]:
        """Redrive all dead letters of a job."""
        ref = JobRef("default", job)
        letters = [row for row in await self.letter_rows(job) if row.state == "OPEN"]
        return await redrive(
            self.rt, RedriveRequest(ref, letters, "tester", "it is fixed")
        )


@pytest.fixture
def short_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let leases end soon, for a scenario that waits for the end of one."""
    monkeypatch.setenv("PIECEWORK_LEASE_S", "4")
    monkeypatch.setenv("PIECEWORK_VISIBILITY_S", "5")


@pytest.fixture
def settings(deployed: Emulator, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Return short settings, also for the processes that a scenario starts.

    A fixture that was asked for before may have set others.
    """
    for name, value in SHORT.items():
        if name not in os.environ:
            monkeypatch.setenv(name, value)
    return load_settings()


def pytest_asyncio_loop_factories(item: pytest.Item) -> Mapping[str, Any]:
    """Run a test that uses `scenario` in virtual time, another in real time."""
    names = getattr(item, "fixturenames", ())
    return VIRTUAL if "scenario" in names else {"real": asyncio.new_event_loop}


@pytest.fixture
async def scenario(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scenario]:
    """Return a scenario on the models of AWS, in virtual time and in this process."""
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("SCENARIO_LEDGER", str(ledger))
    for name, value in SHORT.items():
        if name not in os.environ:
            monkeypatch.setenv(name, value)
    loop = asyncio.get_running_loop()
    settings = load_settings()
    bucket = settings.bucket(EMBEDDED_ACCOUNT, "us-east-1")
    aws = InProcessAws(settings, bucket, Random(1), lambda: EPOCH + loop.time())
    with served(aws) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL", url)
        monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ACCESS_KEY)
        scenario = Scenario(aws.runtime(), ledger, aws=aws)
        yield scenario
        for worker in scenario.processes:
            await worker.bury()


@contextmanager
def served(aws: InProcessAws) -> Iterator[str]:
    """Serve the models to commands, on a thread: no virtual time passes meanwhile."""
    url: SimpleQueue[str] = SimpleQueue()
    ended = threading.Event()

    async def serve() -> None:
        async with serve_aws(aws, ACCESS_KEY) as address:
            url.put(address)
            await asyncio.to_thread(ended.wait)

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    try:
        yield url.get(timeout=PATIENCE_S)
    finally:
        ended.set()
        thread.join()


@pytest.fixture
async def machine(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scenario]:
    """Return a scenario on an embedded AWS, for processes and commands."""
    ledger = tmp_path / "ledger"
    monkeypatch.setenv("SCENARIO_LEDGER", str(ledger))
    async with connect(settings) as rt:
        scenario = Scenario(rt, ledger)
        yield scenario
        for process in scenario.processes:
            if process.process.returncode is None:
                await process.kill()
        await command_line.kill_started()
