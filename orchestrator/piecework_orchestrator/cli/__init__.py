"""The command line: `piecework`, and `orchestrator`, which is the same.

    app.py        the commands and their groups
    run.py        one command's life: settings, connection, errors, exit code
    output.py     tables for people, documents for programs

Commands import what they need when they run, so that `--help` and completion are
quick.
"""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from piecework_orchestrator.cli.app import app

    app()


__all__ = ["main"]
