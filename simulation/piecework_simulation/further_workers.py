"""Run further workers of a run, each in a process of its own.

The process of the run has the models and the state file alone. It serves the models on
the loopback address, as `piecework dev` does, so the other processes write no file.
They are processes of a worker with several of them: replaced when they end, and gone
when their parent is.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import structlog

from piecework.aws.endpoint import ENDPOINT_VARIABLES
from piecework_orchestrator import embedded
from piecework_orchestrator.cli.run import LOG_LEVEL
from piecework_simulation.aws_server.server import serve_aws
from piecework_simulation.in_process import InProcessAws, RunningWorker
from piecework_worker.processes import MARGIN_S, Parent


@asynccontextmanager
async def workers_beside(
    aws: InProcessAws, running: RunningWorker, module: str, workers: int
) -> AsyncIterator[RunningWorker]:
    """Run so many workers less one beside a running one; yield what stops them all.

    `module` is the name by which they load the pipelines. Those that still run after
    the grace of the first one are killed.
    """
    settings = aws.settings
    key = embedded.new_key()
    with TemporaryDirectory(prefix="piecework-") as name:
        folder = Path(name)
        async with serve_aws(aws, key) as endpoint:
            with embedded.announce(endpoint, key, folder):
                words = ["--pipelines", module]
                words += ["--max-chunks", str(settings.max_chunks), "--no-reconcile"]
                parent = Parent(
                    words,
                    workers,
                    settings.shutdown_grace_s + MARGIN_S,
                    structlog.get_logger().bind(worker="run"),
                    health_file="",
                    settings=environment_of(aws, folder),
                    stdout=sys.stderr.fileno(),  # the results are alone in stdout
                )
                async with parent.beside():
                    stopping = StopAll(running, parent)
                    yield replace(running, end_polls=stopping.begin)
                    stopping.begin()


@dataclass(slots=True)
class StopAll:
    """Begins the end of all workers of a run, once."""

    first: RunningWorker
    parent: Parent

    def begin(self) -> None:
        """End the polls of the first worker, and pass the stop on to the others.

        Without grace each of them ends at once: the next start frees its chunks.
        """
        self.first.end_polls()
        if not self.parent.stop.is_set():
            self.parent.on_signal(signal.SIGTERM)
            if not self.first.worker.grace_s:
                self.parent.on_signal(signal.SIGTERM)


def environment_of(aws: InProcessAws, folder: Path) -> dict[str, str]:
    """Return the settings of the other processes that are not those of this one."""
    settings = aws.settings
    return {
        **dict.fromkeys(ENDPOINT_VARIABLES, ""),
        "PIECEWORK_STATE_DIR": str(folder),
        "PIECEWORK_JOURNAL_FLUSH_S": str(settings.journal_flush_s),
        "PIECEWORK_MAX_CODE_WAITS": str(settings.max_code_waits),
        "PIECEWORK_APP": settings.app,
        "PIECEWORK_ENV": settings.env,
        "PIECEWORK_TENANT": settings.tenant,
        LOG_LEVEL: os.environ.get(LOG_LEVEL, "critical"),
    }
