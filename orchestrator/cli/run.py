"""One command's life: logs to stderr, the work, and an exit code that says how it went.

Nothing but results goes to stdout, whatever a user's own pipeline prints.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import typer

from orchestrator.cli.formats import Format

if TYPE_CHECKING:
    from orchestrator.cli.output import Output
    from piecework.errors import PieceworkError
    from piecework.runtime import Runtime

INTERRUPTED = 130
#: What a program is expected to end with when nobody reads its output any more.
PIPE_CLOSED = 141
#: What a write says to a disk that is full, or to who has used up his share of it.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
USAGE = 2
LOG_LEVEL = "PIECEWORK_LOG_LEVEL"

#: A command that needs AWS, and one that does not; each returns its exit code.
Connected: TypeAlias = Callable[["Runtime", "Output"], Awaitable[int | None]]
Local: TypeAlias = Callable[["Output"], int | None]


def run_connected(act: Connected, form: Format) -> None:
    """Run a command on the deployment that the settings name."""

    async def connected(out: Output) -> int | None:
        async with connection(out) as rt:
            return await act(rt, out)

    run_async(connected, form)


def run_async(
    act: Callable[[Output], Coroutine[Any, Any, int | None]], form: Format
) -> None:
    """Run a command on an event loop."""

    def local(out: Output) -> int | None:
        with asyncio.Runner() as runner:
            try:
                return runner.run(act(out))
            except KeyboardInterrupt:
                leave_interrupted(out)

    run_local(local, form)


def run_local(act: Local, form: Format) -> None:
    """Run a command, and end the process with its exit code."""
    from orchestrator.cli.output import Output
    from piecework import telemetry

    out = Output(form)
    try:
        telemetry.configure(os.environ.get(LOG_LEVEL, "warning"), stream=out.stderr)
        with redirect_stdout(out.stderr):
            code = act(out) or 0
    except KeyboardInterrupt:
        code = interrupted(out)
    except BrokenPipeError:
        code = pipe_closed()
    except Exception as error:  # noqa: BLE001 -- the edge: each becomes an exit code
        code = explain(error, out)
    raise typer.Exit(code)


@asynccontextmanager
async def connection(out: Output) -> AsyncIterator[Runtime]:
    """Connect, and say so once when it is to the embedded AWS."""
    from piecework import runtime
    from piecework.settings import load_settings

    async with runtime.connect(load_settings()) as rt:
        if out.table and rt.endpoint.source == "embedded":
            out.say(f"embedded AWS at {rt.endpoint.url}")
        yield rt


def explain(error: Exception, out: Output) -> int:
    """Say what went wrong and what to do; return the exit code."""
    from piecework.errors import PieceworkError

    known = error if isinstance(error, PieceworkError) else as_ours(error)
    if os.environ.get(LOG_LEVEL, "").lower() == "debug":
        traceback.print_exception(error, file=out.stderr)
    if known is not None:
        complain(known, out)
        return known.exit_code
    out.say(f"error {type(error).__name__}: {error}")
    out.say(f"next: {LOG_LEVEL}=debug shows where; this is a fault of Piecework's.")
    return 1


def complain(error: PieceworkError, out: Output) -> None:
    """Write an error of ours: its code, a sentence, the next step."""
    out.say(f"error {error.code}: {error.message}")
    if error.next_step:
        out.say(f"next: {error.next_step}")


def as_ours(error: Exception) -> PieceworkError | None:
    """Return what others raised as an error of ours; None for what nobody expects."""
    from piecework.errors import UsageError

    if isinstance(error, OSError) and error.errno in NO_SPACE:
        step = "Make room where the output goes, and in the folder for temporary files."
        return UsageError("A disk is full.", next_step=step)
    return as_aws_error(error)


def as_aws_error(error: Exception) -> PieceworkError | None:
    """Return what the SDK raised as an error of ours; None for anything else."""
    from botocore.exceptions import BotoCoreError, ClientError

    from piecework.classify import classify
    from piecework.codes import ErrorClass
    from piecework.errors import UnreachableError, UsageError

    if not isinstance(error, BotoCoreError | ClientError):
        return None
    found = classify(error)
    kind = UnreachableError if found.error_class is ErrorClass.TRANSIENT else UsageError
    said = f": {found.provider_code}" if found.provider_code else ""
    return kind(f"AWS refused the request{said}.", code=found.code)


def interrupted(out: Output) -> int:
    """Say that somebody pressed Ctrl-C."""
    out.say("interrupted")
    return INTERRUPTED


def leave_interrupted(out: Output) -> NoReturn:
    """End the process now if a thread is stuck, say in reading a terminal."""
    if threading.active_count() > 1:
        code = interrupted(out)
        out.stdout.flush()
        os._exit(code)
    raise KeyboardInterrupt


def pipe_closed() -> int:
    """Keep the interpreter from complaining of the closed pipe when it ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return PIPE_CLOSED
