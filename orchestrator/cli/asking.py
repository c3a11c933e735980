"""Ask for a confirmation before a change, if there is a terminal."""

from __future__ import annotations

import asyncio
import sys

from orchestrator.cli.output import Output
from piecework.errors import UsageError


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
