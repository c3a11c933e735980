"""The jobs: submitted by the true command, some submits killed and asked for again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from piecework_orchestrator.demo import processes
from verification.soak.changes import Changes
from verification.soak.plan import JobPlan, Plan
from verification.soak.site import Site

PIPELINES = "verification.soak.pipelines"
#: Seconds after which a submit is killed: from the start of Python to the last message.
KILLED_WITHIN_S = (0.8, 2.2)
TRIES = 8
#: The exit code of a command that says no.
REFUSED = 2
COMMAND_S = 60.0
POLL_S = 0.1
#: How far submits may be ahead of the disruptions. Otherwise no chunk would be open for
#: the last of them.
LEAD = 0.15


@dataclass(slots=True)
class Traffic:
    """Submits the jobs of a plan.

    Attributes:
        window: Chunks that may be open at once.
        share_done: Tells which share of the disruptions has fallen.
    """

    site: Site
    plan: Plan
    changes: Changes
    window: int
    share_done: Callable[[], float] = lambda: 1.0
    submits_killed: int = 0
    commands: int = 0
    failures: list[str] = field(default_factory=list)

    async def submit_all(self) -> None:
        """Submit one job after the other, not far before the disruptions."""
        submitted = 0
        for job in self.plan.jobs():
            ahead = submitted / self.plan.chunks - LEAD
            while self.backlog() >= self.window or self.share_done() < ahead:  # noqa: ASYNC110 -- as the stream
                await asyncio.sleep(POLL_S)
            await self.submit(job)
            submitted += len(job.work)

    def backlog(self) -> int:
        """Return how many chunks are open, in jobs that are at work."""
        jobs = self.changes.jobs.items()
        running = [job for job, item in jobs if item["status"] == "RUNNING"]
        return sum(map(self.changes.open_in, running))

    async def submit(self, job: JobPlan) -> None:
        """Submit a job; where that is planned, kill the submit and see."""
        path = self.site.folder / f"{job.name}.manifest.jsonl"
        path.write_text("".join(f"{w.model_dump_json()}\n" for w in job.work))
        pipeline = f"{PIPELINES}:{job.pipeline}"
        words = ("submit", pipeline, str(path), "--job-id", job.name)
        rng = self.plan.rng(job.name)
        for _ in range(job.submits_killed):
            await self.kill_half_way(words, rng.uniform(*KILLED_WITHIN_S))
            await asyncio.sleep(1)
            if job.left_alone and job.name in self.changes.jobs:
                return
        await self.command(*words)

    async def kill_half_way(self, words: tuple[str, ...], seconds: float) -> None:
        """Start a command and kill it."""
        child = self._start(words)
        await asyncio.sleep(seconds)
        processes.kill_all([child])
        self.submits_killed += 1

    async def command(self, *words: str, may: bool = False) -> bool:
        """Run a command until it goes through; a person would ask again, too.

        `may`: the command may be refused.
        """
        for _ in range(TRIES):
            child = self._start(words)
            await child.wait_until_exited(COMMAND_S)
            if child.process.returncode == 0:
                return True
            if may and child.process.returncode == REFUSED:
                return False
            last = child.describe_exit()
        self.failures.append(f"{' '.join(words)}: {last}")
        return False

    def _start(self, words: tuple[str, ...]) -> processes.Child:
        self.commands += 1
        name = f"command{self.commands}-{'-'.join(words[:2])}.log"
        log = self.site.folder / Path(name.replace(":", "-").replace("/", "-")).name
        module = ["piecework_orchestrator", *words]
        return processes.start_process(name, module, self.site.environment, log)
