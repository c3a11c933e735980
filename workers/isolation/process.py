"""A child process: started clean, told apart from its death, killed with its group.

It is a new program, never a fork of the worker: a fork would take over the locks that
the worker's threads held at that moment.
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

#: Seconds for which what a dead child had said may still be on its way.
GRACE_S = 0.1
#: Seconds that a child whose line is cut has to die by itself.
DYING_S = 1.0

#: The child finds modules where the worker does, but ours before those that lie in
#: the working directory: a user may have a package of the name of one of ours.
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
        """Whether it can be given a stage."""
        return self.process.returncode is None and not self.channel.closed

    def kill(self) -> None:
        """Kill it as the kernel does; it may be dead already."""
        if self.process.returncode is None:
            kill_group(self.process.pid)

    async def end(self) -> None:
        """Kill it, and wait until it is gone: nothing of it may happen any more."""
        self.kill()
        await self.process.wait()
        self.watch.cancel()
        self.channel.close()

    async def describe_exit(self) -> str:
        """Say of what it died, once its line is cut."""
        try:
            code = await asyncio.wait_for(self.process.wait(), DYING_S)
        except TimeoutError:
            return "let go of its line and was killed"
        return describe_return_code(code)


def describe_return_code(code: int) -> str:
    """Say how a process ended that has this return code."""
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
    """Start a child; it says when it has its pipelines."""
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
            # Ctrl-C in a terminal goes to its whole group: it is the worker's to stop.
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
    """Cut the line of a dead child: a grandchild may hold its end of it."""
    await process.wait()
    kill_group(process.pid)
    await asyncio.sleep(GRACE_S)
    channel.close()


def kill_group(leader: int) -> None:
    """Kill a child with all that its stage has started and not let go of.

    No one else can have the number while one of them lives.
    """
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
