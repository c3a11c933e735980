"""Ask before changing things, where there is somebody to ask."""

from __future__ import annotations

import asyncio
import sys

from orchestrator.cli.output import Output
from piecework.errors import UsageError


async def confirm(what: str, out: Output, *, yes: bool) -> None:
    """Return if it is meant.

    Raises:
        UsageError: `cli.confirmation.needed`: there is no terminal to ask at, or the
            answer was no.
    """
    if yes:
        return
    if not (sys.stdin.isatty() and out.stderr.isatty()):
        message = f"{what}? There is no terminal to ask at."
        raise UsageError(message, code="cli.confirmation.needed")
    out.stderr.write(f"{what}? [y/N] ")
    out.stderr.flush()
    # On a thread: a Ctrl-C at the question is heard at once.
    answer = await asyncio.to_thread(sys.stdin.readline)
    if answer.strip().lower() not in {"y", "yes"}:
        message = "The answer was no; nothing was changed."
        raise UsageError(message, code="cli.confirmation.needed")
