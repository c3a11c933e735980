"""The workers and their reconciler: true processes, started and ended."""

from __future__ import annotations

import asyncio
import signal
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from piecework_orchestrator.demo import processes
from piecework_orchestrator.demo.processes import ChildProcess, DemoError
from verification.soak.site import Site

WORKER_LOGS = "w*.jsonl"
PIPELINES = "verification.soak.pipelines"
POLL_S = 0.1
#: A stop that takes longer than its grace and its releases has failed.
STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that was killed, and when."""

    worker: str
    at: float


@dataclass(slots=True)
class Fleet:
    """The processes that run.

    Attributes:
        frozen: Workers that are stopped by SIGSTOP now.
        deaths: Workers that were killed on purpose.
        stuck: Workers that SIGTERM did not stop.
        replaced: How many ended by themselves, and had to be replaced.
    """

    site: Site
    size: int
    at_work: list[ChildProcess] = field(default_factory=list)
    frozen: set[int] = field(default_factory=set)
    deaths: list[Death] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    replaced: int = 0
    started: list[ChildProcess] = field(default_factory=list)
    reconciler: ChildProcess | None = None
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def begin(self) -> None:
        """Start them all."""
        for _ in range(self.size):
            self.start_worker()
        self.start_reconciler()

    def start_worker(self) -> None:
        """Start one more worker."""
        name = WORKER_LOGS.replace("w*", f"w{len(self.started)}")
        module = ["piecework_worker", "--pipelines", PIPELINES]
        self.at_work.append(self.start(name, module))

    @property
    def ready(self) -> list[ChildProcess]:
        """The workers that take messages just now."""
        return [
            worker
            for worker in self.at_work
            # Its first line says that it has begun.
            if worker.pid not in self.frozen and worker.log.stat().st_size
        ]

    def start_reconciler(self) -> None:
        """Start a reconciler of its own."""
        name = f"reconciler{len(self.started)}.log"
        module = ["piecework_orchestrator", "reconcile", "--loop"]
        self.reconciler = self.start(name, module)

    def start(self, name: str, module: Sequence[str]) -> ChildProcess:
        """Start a process of ours."""
        log = self.site.folder / name
        self.started.append(
            processes.start_process(name, module, self.site.environment, log)
        )
        return self.started[-1]

    async def keep_up(self) -> None:
        """Replace, for ever, what ends by itself: as a service manager does."""
        while True:
            for child in [c for c in self.at_work if not c.alive]:
                self.at_work.remove(child)
                self.replaced += 1
                self.start_worker()
            if self.reconciler is not None and not self.reconciler.alive:
                self.start_reconciler()
            await asyncio.sleep(POLL_S)

    def kill(self, child: ChildProcess) -> None:
        """Kill a worker as the kernel does, and start another."""
        self.at_work.remove(child)
        child.signal(signal.SIGKILL)
        child.process.wait()
        self.deaths.append(Death(worker_name(child), time.time()))
        self.start_worker()

    def freeze(self, child: ChildProcess, seconds: float) -> None:
        """Stop a worker by SIGSTOP for a while."""
        self.frozen.add(child.pid)
        child.signal(signal.SIGSTOP)
        self._later(self._thaw(child, seconds))

    async def _thaw(self, child: ChildProcess, seconds: float) -> None:
        await asyncio.sleep(seconds)
        child.signal(signal.SIGCONT)
        self.frozen.discard(child.pid)

    def stop(self, child: ChildProcess) -> None:
        """Ask a worker to stop, as a deployment does, and start another."""
        self.at_work.remove(child)
        child.signal(signal.SIGTERM)
        self.start_worker()
        self._later(self._stopped(child))

    async def _stopped(self, child: ChildProcess) -> None:
        try:
            await child.wait_until_exited(STOP_S)
        except DemoError:
            self.stuck.append(f"{child.name} (pid {child.pid})")
            child.signal(signal.SIGKILL)

    def replace_reconciler(self) -> None:
        """Kill the reconciler in whatever it does, and start another."""
        if self.reconciler is not None:
            self.reconciler.signal(signal.SIGKILL)
            self.reconciler.process.wait()
        self.start_reconciler()

    async def end(self) -> None:
        """Stop all processes and wait for their ends; no error lets one run on."""
        try:
            await asyncio.gather(*self._tasks)
            for child in list(self.at_work):
                self.at_work.remove(child)
                child.signal(signal.SIGTERM)
                self._later(self._stopped(child))
            await asyncio.gather(*self._tasks)
        finally:
            processes.kill_all(self.started)

    def _later(self, work: object) -> None:
        task = asyncio.ensure_future(work)  # type: ignore[call-overload]
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def worker_name(child: ChildProcess) -> str:
    """Return what a worker calls itself in the tables."""
    return f"{socket.gethostname()}-{child.pid}"
