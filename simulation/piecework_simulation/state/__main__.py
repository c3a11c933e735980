"""Run a command of jobs on the state file of a run: `python -m … FILE jobs list`.

The models are filled from the file and served on the loopback address, as by
`piecework dev`. What the command writes is in the file before it is answered.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from piecework.aws.endpoint import DEFAULT_REGION, ENDPOINT_VARIABLES
from piecework.errors import NotFoundError, PieceworkError
from piecework.runtime import EMBEDDED_ACCOUNT
from piecework.settings import load_settings
from piecework_orchestrator import embedded
from piecework_orchestrator.cli.app import app
from piecework_orchestrator.cli.options import Format
from piecework_orchestrator.cli.output import Output
from piecework_orchestrator.cli.plain import asked_format
from piecework_orchestrator.cli.programs import RUN_LINE, STATE_FILE
from piecework_orchestrator.cli.run import report_error
from piecework_simulation.aws_server.server import serve_aws
from piecework_simulation.in_process import InProcessAws
from piecework_simulation.state.file import StateFile, opened


def main(words: list[str]) -> None:
    """Run the command that the words say; the first one is the file."""
    path, *command = words
    try:
        with reading(Path(path)) as file:
            file.require_owner()
            os.environ[STATE_FILE] = path
            with serving(file):
                app(command, prog_name="piecework")
    except PieceworkError as error:
        form = Format(asked_format(command) or Format.TABLE)
        report_error(error, Output(form))
        sys.exit(error.exit_code)


@contextmanager
def reading(path: Path) -> Iterator[StateFile]:
    """Open the state file of a run that exists.

    Raises:
        NotFoundError: `run.state.absent`.
        UsageError: As `opened`.
    """
    if not path.is_file():
        message = f"There is no state file {path}."
        raise NotFoundError(message, code="run.state.absent")
    with opened(path) as file:
        yield file


@contextmanager
def serving(file: StateFile) -> Iterator[None]:
    """Serve the models of a state file; settings and endpoint name them meanwhile."""
    facts = file.facts
    os.environ[RUN_LINE] = run_line(facts)
    for name in ENDPOINT_VARIABLES:
        os.environ.pop(name, None)
    for name in ("app", "env", "tenant"):
        if name in facts:
            os.environ[f"PIECEWORK_{name.upper()}"] = facts[name]
    ready, stop = Future[None](), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with announced(file, run_line(facts)):
            ready.set_result(None)
            await stop.wait()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:  # noqa: BLE001 -- the other thread raises it
            if not ready.done():
                ready.set_exception(error)
        finally:
            loop.close()

    with TemporaryDirectory(prefix="piecework-") as folder:
        os.environ["PIECEWORK_STATE_DIR"] = folder
        thread = Thread(target=run, daemon=True)
        thread.start()
        try:
            ready.result()
            yield
        finally:
            if not loop.is_closed():
                loop.call_soon_threadsafe(stop.set)
            thread.join()


def run_line(facts: Mapping[str, str]) -> str:
    """Return what starts the run of a file again, from the present folder."""
    line, folder = facts.get("line", ""), facts.get("folder", "")
    if not line:  # it was typed in no shell
        return f"run pipeline {facts.get('pipeline', '')} again, as before"
    return line if folder == str(Path.cwd()) else f"cd {shlex.quote(folder)} && {line}"


@asynccontextmanager
async def announced(file: StateFile, line: str) -> AsyncIterator[None]:
    """Serve the models to the commands of this process; `line` starts the run again."""
    settings = load_settings()
    aws = InProcessAws(settings, settings.bucket(EMBEDDED_ACCOUNT, DEFAULT_REGION))
    file.attach(aws)
    key = embedded.new_key()
    async with serve_aws(aws, key) as endpoint:
        with embedded.announce(endpoint, key, run_line=line):
            yield


if __name__ == "__main__":
    main(sys.argv[1:])
