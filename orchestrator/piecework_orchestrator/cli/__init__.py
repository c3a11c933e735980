"""The command line: `piecework`, and `orchestrator`, which is the same.

    app.py        the table of the commands and their groups
    plain.py      commands that need no parser
    run.py        one command's life: settings, connection, errors, exit code
    output.py     tables for people, documents for programs

The module of a command is imported when the command is used, so `--help` is quick.
"""

from __future__ import annotations

import gc
import json
import sys


def main() -> None:
    """Run the command line; without its packages, name the extra that has them."""
    # Imports make no garbage, and modules stay until the process ends. The collector
    # would search them again and again, and once more at the end: a third of the CPU.
    # `run_async` switches it on for the work of the command.
    gc.disable()
    from piecework.errors import PieceworkError
    from piecework.errors.extras import missing_extra

    try:
        run_words()
    except (PieceworkError, ModuleNotFoundError) as raised:
        error = raised if isinstance(raised, PieceworkError) else missing_extra(raised)
        if error is None:
            raise
        sys.stderr.write(error_text(error.code, error.message, error.next_step))
        sys.exit(error.exit_code)
    finally:
        gc.freeze()


def error_text(code: str, message: str, next_step: str) -> str:
    """Return an error as a line and the next step; with `-o json` as a document.

    It needs no package, because one may be missing.
    """
    from piecework_orchestrator.cli.plain import asked_format

    if asked_format(sys.argv[1:]):
        error = {"code": code, "message": message, "next_step": next_step}
        return f"{json.dumps({'error': error})}\n"
    return f"error {code}: {message}\nnext: {next_step}\n"


def run_words() -> None:
    """Run the command that the words of this process name."""
    from piecework_orchestrator.cli.plain import parse_plain, run_plain

    if sys.argv[1:] == ["--version"]:
        from piecework.domain.versions import version_line

        sys.stdout.write(f"{version_line()}\n")
        return
    plain = parse_plain(sys.argv[1:])
    if plain is not None:
        sys.exit(run_plain(plain))
    from piecework_orchestrator.cli.app import app

    app()


__all__ = ["main"]
