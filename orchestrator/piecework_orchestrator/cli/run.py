"""Run one command: logs to stderr, result to stdout, and an exit code.

Only results go to stdout, as UTF-8 in any locale. All else that a user's pipeline
prints goes to stderr: by `print`, by code in C, and by the processes that it starts.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import sys
import threading
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

import typer
from botocore.exceptions import BotoCoreError, ClientError

from piecework import telemetry
from piecework.aws.endpoint import Endpoint
from piecework.errors import PieceworkError, UnreachableError, UsageError
from piecework.errors.codes import ErrorClass
from piecework.errors.extras import missing_extra
from piecework.settings import load_settings
from piecework_orchestrator.cli.global_options import QUIET, VERBOSE, VERBOSITY
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output

if TYPE_CHECKING:
    # A command that does not need AWS does not load the runtime.
    from piecework.reading import Reading
    from piecework.runtime import Runtime
    from piecework_orchestrator.client import Client

#: Configures the logs: at once, or before the first line.
ConfigureLogs: TypeAlias = Callable[..., None]
INTERRUPTED = 130
#: The usual exit code of a program whose output pipe was closed.
PIPE_CLOSED = 141
#: The error numbers of a full disk and of an exhausted quota.
NO_SPACE = {errno.ENOSPC, errno.EDQUOT}
LOG_LEVEL = "PIECEWORK_LOG_LEVEL"
#: The descriptors of a process's own streams.
STDOUT, STDERR = 1, 2

#: Actions that need AWS, and one that does not; each returns its exit code.
Connected: TypeAlias = Callable[["Runtime", "Output"], Awaitable[int | None]]
ByClient: TypeAlias = Callable[["Client", "Output"], Awaitable[int | None]]
Reader: TypeAlias = Callable[["Reading", "Output"], Awaitable[int | None]]
Local: TypeAlias = Callable[["Output"], int | None]


def nothing() -> None:
    """Do nothing before the loop."""


def run_connected(
    run: Connected,
    form: Format,
    *,
    plain_errors: bool = False,
    before: Callable[[], object] = nothing,
) -> None:
    """Run an action on the deployment that the settings name."""

    async def connected(out: Output) -> int | None:
        async with connection(out) as rt:
            return await run(rt, out)

    run_async(connected, form, plain_errors=plain_errors, before=before)


def run_client(
    run: ByClient, form: Format, *, before: Callable[[], object] = nothing
) -> None:
    """Run an action of a program's client on the deployment that the settings name."""

    async def connected(rt: Runtime, out: Output) -> int | None:
        from piecework_orchestrator.client import Client  # see the note at the top

        async with Client(runtime=rt) as client:
            return await run(client, out)

    run_connected(connected, form, before=before)


def run_reading(
    run: Reader, form: Format, *, before: Callable[[], object] = nothing
) -> None:
    """Run an action that only reads; it starts without the SDK where that is sound."""

    async def connected(out: Output) -> int | None:
        from piecework import reading

        async with reading.connect_for_reading(load_settings()) as rt:
            report_endpoint(rt.endpoint, out)
            return await run(rt, out)

    run_async(connected, form, before=before)


def run_async(
    run: Callable[[Output], Coroutine[Any, Any, int | None]],
    form: Format,
    *,
    configure: ConfigureLogs = telemetry.configure_late,
    plain_errors: bool = False,
    before: Callable[[], object] = nothing,
    end: Callable[[int], NoReturn] | None = None,
) -> None:
    """Run an action on an event loop.

    `before`: what comes before the loop and before any connection. It checks the words
    of the operator, and loads modules: one may run a loop of its own when it is loaded.
    `end`: ends the process with the exit code, in place of Python's own end. That would
    wait for the tasks that stages have left on the loop.
    """

    def local(out: Output) -> int | None:
        before()
        collect_garbage()
        telemetry.configure_loaded()
        runner = asyncio.Runner()
        try:
            return runner.run(run(out))
        except KeyboardInterrupt:
            exit_interrupted(out)
        finally:
            if end is None:
                runner.close()

    try:
        run_local(local, form, configure=configure, plain_errors=plain_errors)
    except typer.Exit as ended:
        if end is not None:
            end(ended.exit_code)
        raise


def run_local(
    run: Local,
    form: Format,
    *,
    configure: ConfigureLogs = telemetry.configure_late,
    plain_errors: bool = False,
) -> None:
    """Run an action, and end the process with its exit code.

    In a format for programs an error is a document; `plain_errors`: the operator did
    not ask for the format, and gets the error in words.
    """
    verbosity = os.environ.get(VERBOSITY, "")
    errors = Format.TABLE if plain_errors else form
    out = Output(form, verbosity=verbosity, errors=errors)
    level = {VERBOSE: "info", QUIET: "error"}.get(verbosity, "warning")
    try:
        configure(os.environ.get(LOG_LEVEL, level), stream=out.stderr)
        with results_alone(out), redirect_stdout(out.stderr):
            code = run(out) or 0
            out.stdout.flush()
    except KeyboardInterrupt:
        code = report_interrupt(out)
    except BrokenPipeError:
        code = silence_closed_pipe(out)
    except Exception as error:  # noqa: BLE001 -- the edge: each becomes an exit code
        code = report_exception(error, out)
    raise typer.Exit(code)


def collect_garbage() -> None:
    """Let the collector search what is made from now on; see `main`."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


@contextmanager
def results_alone(out: Output) -> Iterator[None]:
    """Give the results a descriptor of their own, and point descriptor 1 at stderr.

    A stage may write to descriptor 1 without `sys.stdout`. A stream that is not that of
    the process, such as a test's, stays.
    """
    if sys.stdout is None or sys.stdout is not sys.__stdout__:
        yield
        return
    out.stdout.flush()
    own = os.dup(STDOUT)
    buffering = 1 if os.isatty(own) else -1
    # Half of a surrogate pair, which JSON may have, is written as its escape.
    out.stdout = open(own, "w", buffering, "utf-8", "backslashreplace", closefd=False)  # noqa: SIM115 -- an exception may follow that closes it
    os.dup2(STDERR if sys.__stderr__ else os.open(os.devnull, os.O_WRONLY), STDOUT)
    try:
        yield
    finally:
        os.dup2(own, STDOUT)


@asynccontextmanager
async def connection(out: Output) -> AsyncIterator[Runtime]:
    """Connect to AWS; write a remark if it is the embedded AWS."""
    from piecework import runtime  # see the note at the top

    async with runtime.connect(load_settings(), direct=True) as rt:
        report_endpoint(rt.endpoint, out)
        yield rt


def report_endpoint(endpoint: Endpoint, out: Output) -> None:
    """With `-v`, write a remark about where AWS is."""
    if out.verbose:
        name = "embedded AWS" if endpoint.source == "embedded" else "AWS"
        out.say(f"{name} at {endpoint.url or endpoint.region or 'its default region'}")


def report_exception(error: Exception, out: Output) -> int:
    """Write an error and the next step; return the exit code."""
    known = error if isinstance(error, PieceworkError) else to_piecework_error(error)
    if os.environ.get(LOG_LEVEL, "").lower() == "debug":
        traceback.print_exception(error, file=out.stderr)
    if known is not None:
        report_error(known, out)
        return known.exit_code
    step = f"repeat with {LOG_LEVEL}=debug and report this fault of Piecework."
    out.error(type(error).__name__, str(error), step)
    return 1


def report_error(error: PieceworkError, out: Output) -> None:
    """Write an error: its code, its message, the next step."""
    out.error(error.code, error.message, error.next_step)


def to_piecework_error(error: Exception) -> PieceworkError | None:
    """Convert an error of the system, of AWS or of an import; None for another one."""
    if isinstance(error, OSError) and error.errno in NO_SPACE:
        step = "Free disk space for the output and for temporary files."
        return UsageError("A disk is full.", next_step=step)
    return missing_extra(error) or from_aws_error(error)


def from_aws_error(error: Exception) -> PieceworkError | None:
    """Convert an error of the AWS SDK; return None for any other error."""
    if not isinstance(error, BotoCoreError | ClientError):
        return None
    from piecework.errors.classify import classify  # loads pydantic

    found = classify(error)
    kind = UnreachableError if found.error_class is ErrorClass.TRANSIENT else UsageError
    answered = isinstance(error, ClientError)
    problem = "AWS refused the request" if answered else "AWS could not be reached"
    return kind(f"{problem}: {found.message}", code=found.code)


def report_interrupt(out: Output) -> int:
    """Report the interrupt; return its exit code."""
    out.tell("interrupted")
    return INTERRUPTED


def exit_interrupted(out: Output) -> NoReturn:
    """End the process now if a thread is blocked, for example on the terminal."""
    if threading.active_count() > 1:
        code = report_interrupt(out)
        out.stdout.flush()
        os._exit(code)
    raise KeyboardInterrupt


def silence_closed_pipe(out: Output) -> int:
    """Silence the interpreter's error about a closed pipe; return the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (out.stdout, sys.stdout):
        os.dup2(nowhere, stream.fileno())
    return PIPE_CLOSED


async def confirm(what: str, out: Output, *, yes: bool) -> None:
    """Return if the operator confirms, or if `--yes` was given.

    Raises:
        UsageError: `cli.confirmation.needed`: the command has no terminal, or the
            operator did not confirm.
    """
    if yes:
        return
    prompt(f"{what}? [y/N] ", what, out)
    # In a thread, so that Ctrl-C at the prompt takes effect at once.
    require_answer(await asyncio.to_thread(sys.stdin.readline), {"y", "yes"})


def confirm_now(what: str, out: Output, *, yes: bool) -> None:
    """Confirm as `confirm` does, outside an event loop."""
    if yes:
        return
    prompt(f"{what}? [y/N] ", what, out)
    require_answer(sys.stdin.readline(), {"y", "yes"})


def confirm_word(what: str, out: Output, word: str) -> None:
    """Return if the operator types the word: used for irreversible changes."""
    prompt(f"{what}. Type {word} to confirm: ", what, out)
    require_answer(sys.stdin.readline(), {word})


def prompt(question: str, what: str, out: Output) -> None:
    """Write a prompt if there is a terminal, else raise."""
    if not (sys.stdin.isatty() and out.stderr.isatty()):
        message = f"'{what}' needs a confirmation, but the command has no terminal."
        raise UsageError(message, code="cli.confirmation.needed")
    out.stderr.write(question)
    out.stderr.flush()


def require_answer(answer: str, accepted: set[str]) -> None:
    """Raise unless the answer is one of the accepted answers."""
    if answer.strip().lower() not in accepted:
        message = "The change was not confirmed; nothing was changed."
        raise UsageError(message, code="cli.confirmation.needed")
