"""A child process: start it, detect its death, kill its process group.

It is a new program, not a fork of the worker: a fork would inherit locks that the
worker's threads hold at that moment.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from piecework.errors import TransientError
from workers.isolation.line import Channel, open_channel

#: Seconds to read what a dead child had sent before.
GRACE_S = 0.1
#: Seconds that a child has to exit after its channel is closed.
DYING_S = 1.0

#: The child searches modules where the worker does, but our packages before those of
#: the working directory: a user's package may have the same name as one of ours.
BOOT = (
    "import sys; sys.path[:] = sys.argv[1].split('\\n'); "
    "from workers.child import main; main()"
)


@dataclass(slots=True)
class Child:
    """A process that runs one stage at a time."""

    process: asyncio.subprocess.Process
    channel: Channel
    watch: asyncio.Task[None]

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


async def start(names: Sequence[str], worker: str) -> Child:
    """Start a child; it sends `Ready` once its pipelines are loaded."""
    ours, theirs = socket.socketpair()
    with ExitStack() as unless_started, theirs:
        unless_started.callback(ours.close)
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-u",
            "-c",
            BOOT,
            "\n".join(filter(None, sys.path)),
            str(theirs.fileno()),
            str(os.getpid()),
            worker,
            *names,
            stdin=asyncio.subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
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
