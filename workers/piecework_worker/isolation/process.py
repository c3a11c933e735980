"""A child process: start it, detect its death, kill its process group.

It is a new program, not a fork of the worker. A fork would inherit locks that the
worker's threads hold at that moment.
"""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from piecework.errors import TransientError
from piecework_worker.isolation.messages import MESSAGE, Message

# ── limit the memory of this process ──────────────────────────────────────────

MEGABYTE = 1 << 20
STATM = Path("/proc/self/statm")
SIZE, RESIDENT = 0, 1


@contextmanager
def memory_limit(megabytes: int) -> Iterator[None]:
    """Allow `megabytes` beyond the current size of the process; 0: no limit.

    Linux can limit the address space. Only the soft limit is set, because it must be
    lifted
    again: the process reports the failure and continues.
    """
    if not megabytes or not STATM.exists():
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    allowed = memory_used(SIZE) + megabytes * MEGABYTE
    capped = allowed if soft == resource.RLIM_INFINITY else min(allowed, soft)
    resource.setrlimit(resource.RLIMIT_AS, (capped, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def memory_used(kind: int) -> int:
    """Return the bytes that this process uses; 0 without /proc, or without a handle."""
    try:
        words = STATM.read_text().split()
    except OSError:
        return 0
    return int(words[kind]) * resource.getpagesize()


# ── channel between a worker and its child ────────────────────────────────────

#: Bytes of the length prefix.
LENGTH = 4


@dataclass(slots=True)
class Channel:
    """One end of the channel."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @property
    def closed(self) -> bool:
        """Whether either end is closed."""
        return self.writer.is_closing() or self.reader.at_eof()

    def send(self, message: Message) -> None:
        """Send a message; on a closed channel do nothing."""
        if not self.writer.is_closing():
            content = MESSAGE.dump_json(message)
            self.writer.write(len(content).to_bytes(LENGTH, "big") + content)

    async def receive(self) -> Message | None:
        """Return the next message; None: the channel is closed."""
        try:
            length = await self.reader.readexactly(LENGTH)
            content = await self.reader.readexactly(int.from_bytes(length, "big"))
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return MESSAGE.validate_json(content)

    def close(self) -> None:
        """Close the channel."""
        self.writer.transport.abort()


async def open_channel(end: socket.socket) -> Channel:
    """Open the channel on one end of a socket pair."""
    end.setblocking(False)  # noqa: FBT003 -- the name of the socket's own method
    return Channel(*await asyncio.open_unix_connection(sock=end))


#: Seconds to read what a dead child had sent before.
GRACE_S = 0.1
#: Seconds that a child has to exit after its channel is closed.
DYING_S = 1.0

#: The child searches modules where the worker does, but our packages come before those
#: of the working directory. A user's package may have the same name as one of ours.
BOOT = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); "
    "from piecework_worker.isolation.child import main; main()"
)


@dataclass(slots=True)
class Child:
    """A process that runs one stage at a time.

    Attributes:
        runs: The stages that it has run.
    """

    process: asyncio.subprocess.Process
    channel: Channel
    watch: asyncio.Task[None]
    runs: int = 0

    @property
    def alive(self) -> bool:
        """Whether it can run a stage."""
        return self.process.returncode is None and not self.channel.closed

    def kill(self) -> None:
        """Kill the process group; it may be dead already."""
        if self.process.returncode is None:
            kill_group(self.process.pid)

    async def end(self) -> None:
        """Kill the process and wait for its exit: then it causes no further effect."""
        self.kill()
        await self.process.wait()
        self.watch.cancel()
        self.channel.close()

    async def describe_exit(self) -> str:
        """Return how it died, after its channel was closed."""
        try:
            code = await asyncio.wait_for(self.process.wait(), DYING_S)
        except TimeoutError:
            return "let go of its line and was killed"
        return describe_return_code(code)


def describe_return_code(code: int) -> str:
    """Return how a process with this return code ended."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:
        return f"was killed by signal {-code}"


def killed_error(how: str, stage: str) -> TransientError:
    """Return the error of a stage whose process died."""
    message = f"The process of stage {stage!r} {how}."
    return TransientError(message, code="runtime.stage.killed")


def blocked_error(seconds: float, stage: str) -> TransientError:
    """Return the error of a stage that blocked the event loop of its process."""
    message = (
        f"Stage {stage!r} blocked the event loop of its process for {seconds:g} s."
    )
    return TransientError(message, code="runtime.stage.blocked_loop")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process starts: its directory and its environment."""

    directory: str
    environment: Mapping[str, str]

    @classmethod
    def current(cls) -> Place:
        """Return where this process is now."""
        return cls(str(Path.cwd()), dict(os.environ))


async def start(names: Sequence[str], worker: str, place: Place) -> Child:
    """Start a child; it sends `Ready` once its pipelines are loaded."""
    ours, theirs = socket.socketpair()
    with ExitStack() as unless_started, theirs:
        unless_started.callback(ours.close)
        process = await asyncio.create_subprocess_exec(  # noqa: TID251 -- our child
            sys.executable,
            "-P",
            "-u",
            "-c",
            BOOT,
            "\n".join(sys.path),
            str(theirs.fileno()),
            str(os.getpid()),
            worker,
            *names,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            cwd=place.directory,
            env=dict(place.environment),
            # A terminal sends Ctrl-C to the whole group, but only the worker may stop a
            # child.
            start_new_session=True,
        )
        unless_started.callback(kill_group, process.pid)
        channel = await open_channel(ours)
        unless_started.pop_all()
    return Child(
        process, channel, asyncio.create_task(close_after_exit(process, channel))
    )


async def close_after_exit(
    process: asyncio.subprocess.Process, channel: Channel
) -> None:
    """Close a dead child's channel: a grandchild may still hold the other end."""
    await process.wait()
    kill_group(process.pid)
    await asyncio.sleep(GRACE_S)
    channel.close()


def kill_group(leader: int) -> None:
    """Kill a child and all processes that its stage started in its group.

    The group's number is not reused while one of them lives.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
