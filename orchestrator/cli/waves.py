"""Report a canary redrive: each wave when it ends, then the causes that recurred."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console

from orchestrator.canary import CanaryRequest, CanaryResult, canary
from orchestrator.cli.letters import Letter
from orchestrator.cli.output import Column, Document, Output, print_table
from orchestrator.cli.waited import CANCELLED, DEAD_LETTERS_LEFT, OK
from orchestrator.waves import Verdict, WaveResult
from piecework.runtime import Runtime

if TYPE_CHECKING:
    from orchestrator.cli.redriving import RedriveOptions

COLUMNS = [
    Column("WAVE", "wave", right=True),
    Column("REDRIVEN", "redriven", right=True),
    Column("SUCCEEDED", "succeeded", right=True),
    Column("DIED AGAIN", "died", right=True),
    Column("CANCELLED", "cancelled", right=True),
]


async def redrive_in_waves(
    rt: Runtime, out: Output, letters: Sequence[Letter], options: RedriveOptions
) -> int:
    """Redrive in waves; return the exit code.

    Raises:
        WaitTimeoutError: `cli.wait.timeout`.
    """
    ended: list[Document] = []

    def report(result: WaveResult) -> None:
        ended.append(wave_document(len(ended) + 1, result))
        out.say(wave_line(ended[-1]))

    request = CanaryRequest(letters, options.request, options.canary, options.timeout_s)
    result = await canary(rt, request, report, out.say)
    document = {
        "verdict": str(result.verdict),
        "waves": ended,
        "recurred": recurred_causes(result, letters),
        "remaining": result.remaining,
    }

    def draw(console: Console) -> None:
        print_table(console, ended, COLUMNS)

    out.document(document, draw)
    report_verdict(out, document)
    return exit_code(result)


def wave_document(number: int, result: WaveResult) -> Document:
    """Return the result of a wave as a document."""
    return {
        "wave": number,
        "redriven": result.redriven,
        "succeeded": result.succeeded,
        "died": result.died.total(),
        "cancelled": result.cancelled,
        "fingerprints": dict(result.died),
    }


def wave_line(wave: Document) -> str:
    """Return the result of a wave as a line."""
    return (
        f"wave {wave['wave']}: {wave['redriven']} redriven, {wave['succeeded']} "
        f"succeeded, {wave['died']} died again"
    )


def recurred_causes(result: CanaryResult, letters: Sequence[Letter]) -> list[Document]:
    """Return the redriven causes that killed a chunk again."""
    known = {letter["fingerprint"]: letter["error_code"] for letter in letters}
    died = sum((wave.died for wave in result.waves), start=WaveResult().died)
    return [
        {"fingerprint": mark, "error_code": known[mark], "count": count}
        for mark, count in died.items()
        if mark in known
    ]


def report_verdict(out: Output, document: Document) -> None:
    """Write which causes recurred, why it stopped, and how many letters remain."""
    for cause in document["recurred"]:
        code, mark = cause["error_code"], cause["fingerprint"]
        out.say(f"cause recurred: {code}, {cause['count']} times (fingerprint {mark})")
        out.say(f"next: piecework dlq list --fingerprint {mark}")
    if document["verdict"] != Verdict.CONTINUE:
        left = document["remaining"]
        letters = f"{left} dead letter{'s' * (left != 1)}"
        out.say(f"stopped ({document['verdict']}); {letters} not redriven")


def exit_code(result: CanaryResult) -> int:
    """Return the exit code of a canary redrive."""
    if result.verdict is Verdict.CANCELLED:
        return CANCELLED
    died = any(wave.died for wave in result.waves)
    return DEAD_LETTERS_LEFT if died else OK
