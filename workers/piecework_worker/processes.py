"""Run the processes of a worker under one parent: one stop, one health file.

    start      the first process; once it works, the others
    replace    a process that ended, until the stop
    stop       pass the signal on to each process, and wait for their ends

The parent claims nothing and loads no pipeline. Each process is a new program, not a
fork: a fork would inherit locks and connections.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NoReturn

import structlog

from piecework import telemetry
from piecework.errors import UsageError, error_lines
from piecework.settings import load_settings
from piecework_worker.siblings import EVERY_S, sum_of

#: The signals that stop a worker. A terminal that closes sends SIGHUP.
STOPS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
#: Seconds after the grace at which a process that still runs is killed: each ends
#: itself by then (`SHUTDOWN_MARGIN_S`), unless it is frozen.
MARGIN_S: Final = 9.0
#: Seconds until a process that ended is replaced; and at most. They double with each
#: one that did not live for a minute.
REPLACE_S, LONGEST_REPLACE_S, LIVED_S = 1.0, 30.0, 60.0
#: Seconds that a process has to write its health file first, and the parent has between
#: two writes of its own.
START_S, PARENT_S = 60.0, 10.0

#: A process searches modules where the parent does.
BOOT: Final = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); "
    "from piecework_worker.__main__ import run_one_of_several as run; run()"
)


def run(words: Sequence[str], count: int) -> NoReturn:
    """Run a worker of `count` processes until a signal stops it; exit with its code."""
    telemetry.tolerate_output()
    telemetry.configure(os.environ.get("PIECEWORK_LOG_LEVEL", "info"))
    try:
        settings = load_settings()
    except UsageError as error:
        sys.stderr.write(error_lines(error.code, error.message, error.next_step))
        sys.exit(error.exit_code)
    until_killed_s = settings.shutdown_grace_s + MARGIN_S
    log = structlog.get_logger().bind(pid=os.getpid())
    sys.exit(asyncio.run(Parent(words, count, until_killed_s, log).run()))


@dataclass(slots=True)
class Process:
    """A process of the worker.

    Attributes:
        said: What it said last; None: it is still starting.
    """

    number: int
    child: asyncio.subprocess.Process
    started_at: float
    said: dict[str, Any] | None = None
    writer: asyncio.StreamWriter | None = None


@dataclass(slots=True)
class Parent:
    """The parent of a worker's processes.

    Attributes:
        words: The arguments of the worker's command.
        until_killed_s: Seconds from the stop to the end of each process.
        settings: Variables of the processes that this one does not have.
        stdout: Where the processes print; None: where this one does.
        code: The exit code: the first that a stopped process ended with, except 0.
        works: Set once a process has begun to work.
    """

    words: Sequence[str]
    count: int
    until_killed_s: float
    log: telemetry.Log
    health_file: str = field(
        default_factory=lambda: os.environ.get("PIECEWORK_HEALTH_FILE", "")
    )
    settings: Mapping[str, str] = field(default_factory=dict)
    stdout: int | None = None
    code: int = 0
    processes: dict[int, Process] = field(default_factory=dict)
    stop: asyncio.Event = field(default_factory=asyncio.Event)
    works: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self) -> int:
        """Run until the stop, or until the first process cannot start."""
        loop = asyncio.get_running_loop()
        for number in STOPS:
            loop.add_signal_handler(number, self.on_signal, number)
        side = asyncio.create_task(self.tell_for_ever())
        keepers = [asyncio.create_task(self.keep(n)) for n in range(1, self.count + 1)]
        await self.stop.wait()
        await self.wait_for_ends(keepers, side)
        return self.code

    @asynccontextmanager
    async def beside(self) -> AsyncIterator[None]:
        """Run all processes but the first, whose part this program plays itself."""
        self.works.set()
        side = asyncio.create_task(self.tell_for_ever())
        keepers = [asyncio.create_task(self.keep(n)) for n in range(2, self.count + 1)]
        try:
            yield
        finally:
            if not self.stop.is_set():
                self.on_signal(signal.SIGTERM)
            await self.wait_for_ends(keepers, side)

    async def wait_for_ends(
        self, keepers: Sequence[asyncio.Task[None]], side: asyncio.Task[None]
    ) -> None:
        """Wait until all processes have ended; kill those that take too long."""
        _, late = await asyncio.wait(keepers, timeout=self.until_killed_s)
        for process in self.processes.values() if late else ():
            self.send(process, signal.SIGKILL)
        await asyncio.gather(*keepers)
        side.cancel()
        await asyncio.gather(side, return_exceptions=True)

    def on_signal(self, number: signal.Signals) -> None:
        """Pass a signal on: the second one ends each process without a release."""
        self.stop.set()
        for process in self.processes.values():
            self.send(process, number)

    def send(self, process: Process, number: signal.Signals) -> None:
        """Send a signal to a process; it may be dead already."""
        with suppress(ProcessLookupError):
            process.child.send_signal(number)

    async def keep(self, number: int) -> None:
        """Run one of the processes, and replace it until the stop.

        The others wait for the first: an error of the settings is told once, and ends
        the worker with its code.
        """
        if number > 1:
            await self.until_any(self.works.wait(), self.stop.wait())
        now, pause_s = asyncio.get_running_loop().time, REPLACE_S
        while not self.stop.is_set():
            code, lived_s = await self.run_one(number, now)
            if self.stop.is_set() or not self.works.is_set():
                self.code = self.code or (code if code >= 0 else 128 - code)
                self.stop.set()
                return
            pause_s = REPLACE_S if lived_s > LIVED_S else pause_s
            facts: dict[str, Any] = {"number": number, "exit_code": code}
            telemetry.emit(
                self.log, "worker.process_replaced", **facts, delay_s=pause_s
            )
            await self.until_any(asyncio.sleep(pause_s), self.stop.wait())
            pause_s = min(2 * pause_s, LONGEST_REPLACE_S)

    async def run_one(self, number: int, now: Callable[[], float]) -> tuple[int, float]:
        """Run a process to its end; return its exit code, and for how long it ran."""
        ours, theirs = socket.socketpair()
        with theirs:
            place = (str(number), str(self.count), str(os.getpid()))
            environment = self.environment(number)
            child = await start(place, theirs, environment, self.words, self.stdout)
        process = self.processes[number] = Process(number, child, now())
        if self.stop.is_set():  # the signal came before the process
            self.send(process, signal.SIGTERM)
        ours.setblocking(False)  # noqa: FBT003 -- the name of the socket's own method
        reader, process.writer = await asyncio.open_unix_connection(sock=ours)
        listening = asyncio.create_task(self.listen(process, reader))
        try:
            code = await child.wait()
        finally:
            listening.cancel()
            process.writer.transport.abort()
            del self.processes[number]
            self.forget_health(number)
        return code, now() - process.started_at

    async def listen(self, process: Process, reader: asyncio.StreamReader) -> None:
        """Keep what a process says last."""
        with suppress(OSError):
            while line := await reader.readline():
                process.said = json.loads(line)
                self.works.set()

    async def tell_for_ever(self) -> None:
        """Tell each process what the others do; write the health file."""
        while True:
            for process in self.processes.values():
                others = [
                    each.said
                    for each in self.processes.values()
                    if each is not process and each.said is not None
                ]
                if process.writer is not None and not is_stuck(process.writer):
                    said = json.dumps(sum_of(others)).encode()
                    process.writer.write(said + b"\n")
            if self.health_file:
                with suppress(OSError):  # each process tells that it cannot write
                    self.write_health()
            await asyncio.sleep(EVERY_S)

    @staticmethod
    async def until_any(*waits: Any) -> None:
        """Wait until one of some waits has ended."""
        tasks = [asyncio.ensure_future(each) for each in waits]
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()

    # ── one health file ───────────────────────────────────────────────────────

    def environment(self, number: int) -> dict[str, str]:
        """Return the environment of a process: its health file is its own."""
        environment = {**os.environ, **self.settings}
        if self.health_file:
            environment["PIECEWORK_HEALTH_FILE"] = self.own_file(number)
        return environment

    def own_file(self, number: int) -> str:
        """Return the health file of a process."""
        return f"{self.health_file}.process-{number}"

    def forget_health(self, number: int) -> None:
        """Remove the health file of a process that has ended."""
        if self.health_file:
            Path(self.own_file(number)).unlink(missing_ok=True)

    def write_health(self) -> None:
        """Write the times of all loops of all processes into the one file."""
        at = asyncio.get_running_loop().time()
        due = {"parent": at + PARENT_S}
        for number, process in self.processes.items():
            own = read_due(self.own_file(number))
            if own is None:
                own = {"start": process.started_at + START_S}
            due |= {f"{name} of process {number}": by for name, by in own.items()}
        fresh = Path(f"{self.health_file}.{os.getpid()}")
        fresh.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps({"pid": os.getpid(), "at": at, "due": due}))
        fresh.replace(self.health_file)


def is_stuck(writer: asyncio.StreamWriter) -> bool:
    """Return whether a process is gone, or reads nothing: it may be frozen."""
    return writer.is_closing() or writer.transport.get_write_buffer_size() > 0


def read_due(file: str) -> dict[str, float] | None:
    """Return the times in the health file of a process; None: it wrote none yet."""
    try:
        due: dict[str, float] = json.loads(Path(file).read_text("utf-8"))["due"]
    except (OSError, ValueError, KeyError):
        return None
    return due


# ── start a process ───────────────────────────────────────────────────────────


async def start(
    place: Sequence[str],
    end: socket.socket,
    environment: Mapping[str, str],
    words: Sequence[str],
    stdout: int | None = None,
) -> asyncio.subprocess.Process:
    """Start a process of the worker, with its end of the line to the parent.

    `place`: its number, the number of processes, and the id of the parent.
    """
    return await asyncio.create_subprocess_exec(  # noqa: TID251 -- our program
        *(sys.executable, *options(), "-c", BOOT, "\n".join(sys.path)),
        *(*place, str(end.fileno()), *words),
        pass_fds=[end.fileno()],
        env=dict(environment),
        stdout=stdout,
        # A terminal sends Ctrl-C to the whole group, and a second signal releases
        # nothing: only the parent may stop a process.
        start_new_session=True,
    )


def options() -> list[str]:
    """Return the options of this Python that decide where modules are searched."""
    known = sys._xoptions.items()  # noqa: SLF001 -- a documented name
    words = [name if value is True else f"{name}={value}" for name, value in known]
    return [
        *(["-P"] if sys.flags.safe_path else []),
        *(word for each in words for word in ("-X", each)),
    ]
