"""The protocol between a rival's script and the driver; standard library only.

The ledger is a file with one line for each event:

    READY <ns> <pid>                     a worker consumes from now on
    START <task> <ns> <pid>              a task started
    DONE <task> <ns> <pid>               its work was done (not yet acknowledged)
    CALL <chunk> <call> OK|FAIL <ns>     a call was paid for, or failed
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path

VERBS = ("setup", "enqueue", "work", "teardown")


@dataclass(frozen=True)
class Config:
    """The request of the driver.

    Attributes:
        workload: W1, W2a, W2b or W3.
        n: Tasks of W1 and W3.
        concurrency: Tasks (W1, W3) or calls (W2) in progress at once, in the process.
        visibility_s: Seconds after which the tasks of a dead worker run again: the
            rival's visibility timeout, lease or heartbeat timeout.
        endpoint: The AWS endpoint. Keys are `test`, `test`, also in the environment.
        queue: A name for the queue, new in each run.
        table: A name for the table, new in each run.
        dsn: PostgreSQL, if the rival needs it.
        redis: The URL of Redis, if the rival needs it.
        address: HOST:PORT of a server of the rival's own that the driver started.
        ledger: The file of the events.
        sleep_s: Seconds of a task of W3, or of a call of W2.
        chunks: Chunks of W2.
        calls: Calls of a chunk of W2.
        in_turn: Whether a chunk makes its calls one after the other, as in W0.
        answer_bytes: Bytes of the answer of a call.
        fails: The share of calls whose first execution fails.
        run: The unique name of the run.
        options: Settings of a variant, by name.
    """

    workload: str
    n: int
    concurrency: int
    visibility_s: int
    endpoint: str
    region: str
    queue: str
    table: str
    ledger: str
    seed: int = 1
    sleep_s: float = 0.0
    chunks: int = 22
    calls: int = 116
    fails: float = 0.05
    in_turn: bool = False
    answer_bytes: int = 0
    run: str = "run"
    dsn: str = ""
    redis: str = ""
    address: str = ""
    options: dict[str, str] = field(default_factory=dict)

    @property
    def tasks(self) -> list[str]:
        """The tasks to enqueue, in order."""
        if self.workload == "W2b":
            return [str(chunk) for chunk in range(self.chunks)]
        if self.workload == "W2a":
            every = range(self.chunks * self.calls)
            return [f"{i // self.calls}.{i % self.calls}" for i in every]
        return [str(task) for task in range(self.n)]

    def calls_of(self, task: str) -> list[tuple[int, int]]:
        """Return the calls of a task of W2: chunk and number."""
        chunk, _, number = task.partition(".")
        numbers = [int(number)] if number else range(self.calls)
        return [(int(chunk), each) for each in numbers]


def main(
    setup: Callable[[Config], object],
    enqueue: Callable[[Config], object],
    work: Callable[[Config], object],
    teardown: Callable[[Config], object],
) -> None:
    """Be the script's command line; what `enqueue` returns is printed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("verb", choices=VERBS)
    parser.add_argument("--config", type=Path, required=True)
    asked = parser.parse_args()
    config = read(asked.config)
    do = dict(zip(VERBS, (setup, enqueue, work, teardown), strict=True))[asked.verb]
    answer = do(config)
    if asked.verb == "enqueue":
        sys.stdout.write(f"{answer}\n")
        sys.stdout.flush()


def read(path: Path) -> Config:
    """Read the driver's file; what this version does not know is left out."""
    found = json.loads(path.read_text(encoding="utf-8"))
    known = {each.name for each in fields(Config)}
    return Config(**{name: value for name, value in found.items() if name in known})


def submitted(tasks: int, seconds: float) -> str:
    """Return the line that `enqueue` ends with: the time of submitting alone.

    To be called when that time is over: it notes when that was.
    """
    ended = time.monotonic()
    return json.dumps({"submitted": tasks, "seconds": seconds, "ended": ended})


class CallFailedError(Exception):
    """A call failed, for this time."""


class Ledger:
    """What happened, in a file outside of everything: safe after any kill.

    The file is opened anew in a process that was forked.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._pid = 0
        self._file = -1

    def ready(self) -> None:
        """Record that this worker consumes messages."""
        self.write(f"READY {time.monotonic_ns()} {os.getpid()}\n")

    def start(self, task: str) -> None:
        """Record that a task was started."""
        self.write(f"START {task} {time.monotonic_ns()} {os.getpid()}\n")

    def done(self, task: str) -> None:
        """Record that a task was done."""
        self.write(f"DONE {task} {time.monotonic_ns()} {os.getpid()}\n")

    def call(self, chunk: int, number: int, word: str) -> None:
        """Record that a call was paid for (OK), or failed (FAIL)."""
        self.write(f"CALL {chunk} {number} {word} {time.monotonic_ns()}\n")

    def write(self, line: str) -> None:
        """Append a line in one piece."""
        if self._pid != os.getpid():
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT
            self._file, self._pid = os.open(self.path, flags, 0o600), os.getpid()
        os.write(self._file, line.encode())

    def count_attempt(self, chunk: int, number: int) -> bool:
        """Record an attempt of a call; return whether there was an earlier one."""
        marks = Path(f"{self.path}.tried")
        marks.mkdir(exist_ok=True)
        try:
            (marks / f"{chunk}.{number}").touch(exist_ok=False)
        except FileExistsError:
            return True
        return False


def fails_first(seed: int, chunk: int, number: int, share: float) -> bool:
    """Return whether the first attempt of a call fails."""
    words = hashlib.sha256(f"{seed} {chunk} {number}".encode()).digest()
    return int.from_bytes(words[:8], "big") / 2**64 < share


class Tasks:
    """Performs the tasks of a run in this process; write nothing else of your own."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.ledger = Ledger(config.ledger)
        self._threads: ThreadPoolExecutor | None = None
        self._gate: asyncio.Semaphore | None = None

    def perform(self, task: str) -> None:
        """Do a task; blocking."""
        self.ledger.start(task)
        if self.config.workload == "W2a":
            for chunk, number in self.config.calls_of(task):
                self.call(chunk, number)
        elif self.config.workload == "W2b":
            if self._threads is None:
                self._threads = ThreadPoolExecutor(self.config.concurrency)
            calls = self.config.calls_of(task)
            if self.config.in_turn:
                for call in calls:
                    self.call(*call)
                self.ledger.done(task)
                return
            running: list[Future[str]]
            running = [self._threads.submit(self.call, *call) for call in calls]
            refuse([each.exception() for each in running])
        elif self.config.sleep_s:
            time.sleep(self.config.sleep_s)
        self.ledger.done(task)

    async def aperform(self, task: str) -> None:
        """Do a task; on asyncio."""
        self.ledger.start(task)
        if self.config.workload == "W2a":
            for chunk, number in self.config.calls_of(task):
                await self.acall(chunk, number)
        elif self.config.workload == "W2b" and self.config.in_turn:
            await self.each_call(task, self._gated)
        elif self.config.workload == "W2b":
            calls = [self._gated(*call) for call in self.config.calls_of(task)]
            refuse(list(await asyncio.gather(*calls, return_exceptions=True)))
        elif self.config.sleep_s:
            await asyncio.sleep(self.config.sleep_s)
        self.ledger.done(task)

    async def each_call(
        self, task: str, call: Callable[[int, int], Awaitable[object]]
    ) -> None:
        """Make the calls of a chunk by `call`: all at once, or in turn."""
        calls = self.config.calls_of(task)
        if self.config.in_turn:
            for each in calls:
                await call(*each)
        else:
            await asyncio.gather(*(call(*each) for each in calls))

    def call(self, chunk: int, number: int) -> str:
        """Make a call that takes time and may fail; blocking. Return its answer."""
        time.sleep(self.config.sleep_s)
        return self._answer(chunk, number)

    async def acall(self, chunk: int, number: int) -> str:
        """Make a call that takes time and may fail; on asyncio. Return its answer."""
        await asyncio.sleep(self.config.sleep_s)
        return self._answer(chunk, number)

    async def _gated(self, chunk: int, number: int) -> None:
        """Make a call as soon as fewer than so many are in flight in this process."""
        if self._gate is None:
            self._gate = asyncio.Semaphore(self.config.concurrency)
        async with self._gate:
            await self.acall(chunk, number)

    def _answer(self, chunk: int, number: int) -> str:
        config = self.config
        unlucky = fails_first(config.seed, chunk, number, config.fails)
        if unlucky and not self.ledger.count_attempt(chunk, number):
            self.ledger.call(chunk, number, "FAIL")
            raise CallFailedError(f"call {number} of chunk {chunk} failed this once")
        self.ledger.call(chunk, number, "OK")
        return "x" * config.answer_bytes


def refuse(outcomes: list[BaseException | None]) -> None:
    """Fail when one of these did."""
    for outcome in outcomes:
        if outcome is not None:
            raise outcome
