"""A canary redrive as it is told: each wave as it ends, then what came back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.canary import Canary, Outcome, canary
from orchestrator.cli.letters import Letter
from orchestrator.cli.output import Column, Document, Output, print_table
from orchestrator.cli.waited import CANCELLED, DEAD_LETTERS_LEFT, OK
from orchestrator.waves import Came, Verdict
from piecework.runtime import Runtime

if TYPE_CHECKING:
    from orchestrator.cli.redriving import How

COLUMNS = [
    Column("WAVE", "wave", right=True),
    Column("REDRIVEN", "redriven", right=True),
    Column("SUCCEEDED", "succeeded", right=True),
    Column("DIED AGAIN", "died", right=True),
    Column("CANCELLED", "cancelled", right=True),
]


async def in_waves(
    rt: Runtime, out: Output, letters: Sequence[Letter], how: How
) -> int:
    """Redrive in waves; return the exit code.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`.
    """
    ended: list[Document] = []

    def told(came: Came) -> None:
        ended.append(wave(len(ended) + 1, came))
        out.say(said(ended[-1]))

    asked = Canary(letters, how.redrive, how.canary, how.timeout_s)
    outcome = await canary(rt, asked, told, out.say)
    document = {
        "verdict": str(outcome.verdict),
        "waves": ended,
        "came_back": came_back(outcome, letters),
        "left_alone": outcome.left_alone,
    }

    def draw(console: Console) -> None:
        print_table(console, ended, COLUMNS)

    out.document(document, draw)
    conclude(out, document)
    return exit_code(outcome)


def wave(number: int, came: Came) -> Document:
    """Return what a wave came to."""
    return {
        "wave": number,
        "redriven": came.redriven,
        "succeeded": came.succeeded,
        "died": came.died.total(),
        "cancelled": came.cancelled,
        "fingerprints": dict(came.died),
    }


def said(one: Document) -> str:
    """Return a wave in a line."""
    return (
        f"wave {one['wave']}: {one['redriven']} redriven, {one['succeeded']} "
        f"succeeded, {one['died']} died again"
    )


def came_back(outcome: Outcome, letters: Sequence[Letter]) -> list[Document]:
    """Return the causes for which was redriven, and which came back."""
    known = {letter["fingerprint"]: letter["error_code"] for letter in letters}
    died = sum((came.died for came in outcome.came), start=Came().died)
    return [
        {"fingerprint": mark, "error_code": known[mark], "count": count}
        for mark, count in died.items()
        if mark in known
    ]


def conclude(out: Output, document: Document) -> None:
    """Say why it ended, and what was left alone."""
    for cause in document["came_back"]:
        code, mark = cause["error_code"], cause["fingerprint"]
        out.say(f"came back: {code}, {cause['count']} times (fingerprint {mark})")
        out.say(f"next: piecework dlq list --fingerprint {mark}")
    if document["verdict"] != Verdict.GO_ON:
        left = document["left_alone"]
        letters = f"{left} dead letter{'s' * (left != 1)}"
        out.say(f"stopped ({document['verdict']}); {letters} left alone")


def exit_code(outcome: Outcome) -> int:
    """Return how it ended, for scripts."""
    if outcome.verdict is Verdict.CANCELLED:
        return CANCELLED
    died = any(came.died for came in outcome.came)
    return DEAD_LETTERS_LEFT if died else OK
