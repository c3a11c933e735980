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
    ask(f"{what}? [y/N] ", what, out)
    # On a thread: a Ctrl-C at the question is heard at once.
    judge(await asyncio.to_thread(sys.stdin.readline), {"y", "yes"})


def confirm_now(what: str, out: Output, *, yes: bool) -> None:
    """Return if it is meant, as `confirm` does, outside of an event loop."""
    if yes:
        return
    ask(f"{what}? [y/N] ", what, out)
    judge(sys.stdin.readline(), {"y", "yes"})


def confirm_word(what: str, out: Output, word: str) -> None:
    """Return if the word was typed: for what cannot be made good again."""
    ask(f"{what}. Type {word} if that is meant: ", what, out)
    judge(sys.stdin.readline(), {word})


def ask(question: str, what: str, out: Output) -> None:
    """Put a question, if there is a terminal."""
    if not (sys.stdin.isatty() and out.stderr.isatty()):
        message = f"{what}? There is no terminal to ask at."
        raise UsageError(message, code="cli.confirmation.needed")
    out.stderr.write(question)
    out.stderr.flush()


def judge(answer: str, meant: set[str]) -> None:
    """Raise unless the answer is one of those that mean it."""
    if answer.strip().lower() not in meant:
        message = "The answer was no; nothing was changed."
        raise UsageError(message, code="cli.confirmation.needed")
