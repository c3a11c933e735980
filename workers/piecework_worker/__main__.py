"""The command line of a worker: one process, or a parent of one for each core.

It loads what it needs: the parent of several processes stays small.
"""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from argparse import (
    ArgumentParser,
    BooleanOptionalAction,
    RawDescriptionHelpFormatter,
)
from typing import Final, NoReturn

from piecework.domain.versions import version_line
from piecework.errors import error_lines
from piecework_worker.cores import METADATA, count_cores, parse_processes

#: The exit code of an error of usage.
USAGE: Final = 2
EXAMPLES = """\
Examples:
  piecework worker --pipelines app
  piecework worker --pipelines app --max-chunks 32 --no-reconcile
  piecework worker --pipelines app --processes auto
"""


class Parser(ArgumentParser):
    """A parser whose errors have a code and a next step, as all others."""

    def error(self, message: str) -> NoReturn:
        """Write an error of usage, and end with its exit code."""
        step = f"{self.prog} --help"
        self.exit(USAGE, error_lines("cli.usage.invalid", f"{message}.", step))


def make_parser() -> ArgumentParser:
    """Return the parser, of the standard library: a container may lack the CLI's."""
    parser = Parser(
        prog="piecework worker",
        description="Run the chunks of the given pipelines until a signal stops the "
        "worker.",
        allow_abbrev=False,
        epilog=EXAMPLES,
        formatter_class=RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--pipelines",
        action="append",
        required=True,
        metavar="MODULE",
        help="A module, or module:object, that contains pipelines; repeatable.",
    )
    parser.add_argument(
        "--queue",
        action="append",
        default=[],
        metavar="NAME",
        help="A queue to receive from, or `default`; repeatable. Without it: the "
        "queues of the pipelines.",
    )
    parser.add_argument(
        "--max-chunks",
        type=int,
        metavar="N",
        help="Chunks that run at once in one process.",
    )
    parser.add_argument(
        "--processes",
        type=parse_processes,
        default=1,
        metavar="N",
        help="Processes of the worker; `auto`: one for each core. Default: 1.",
    )
    parser.add_argument(
        "--memory-mb",
        type=int,
        metavar="N",
        help="Stop with exit code 8 above this many megabytes of all processes.",
    )
    parser.add_argument(
        "--reconcile",
        action=BooleanOptionalAction,
        default=True,
        help="Run the reconciler beside the worker.",
    )
    parser.add_argument(
        "--version",
        action="version",
        version=version_line(),
        help="Print the version and exit.",
    )
    return parser


def main() -> None:
    """Run the command line."""
    asked = vars(make_parser().parse_args())
    count = asked.pop("processes") or count_cores(asyncio.run(task_cpus()))
    if count > 1:
        from piecework_worker.processes import run as run_processes

        run_processes(sys.argv[1:], count)
    from piecework_worker.process import run

    run(**asked)


def run_one_of_several() -> None:
    """Run one of the processes that `piecework_worker.processes` has started."""
    from piecework_worker.process import run
    from piecework_worker.siblings import Line, Siblings

    _, _, number, count, parent, end, *words = sys.argv
    siblings = Siblings(int(number), int(count), int(parent))
    line = Line(socket.socket(fileno=int(end)), siblings)
    line.start()
    asked = vars(make_parser().parse_args(words))
    del asked["processes"]
    run(**asked, line=line)


async def task_cpus() -> float:
    """Return the vCPUs of the ECS task of this process; 0: unknown."""
    if not os.environ.get(METADATA):
        return 0.0
    import structlog

    from piecework_worker.ecs import current_task

    task = await current_task(os.environ[METADATA], structlog.get_logger())
    return task.cpus if task else 0.0


if __name__ == "__main__":
    main()
