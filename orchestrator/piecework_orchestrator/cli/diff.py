"""`jobs diff`: compare the results of two jobs, chunk by chunk."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from piecework.runtime import Runtime
from piecework_orchestrator.cli.completion import complete_job
from piecework_orchestrator.cli.options import Format, JobArgument, OutputOption
from piecework_orchestrator.cli.output import Output, encode
from piecework_orchestrator.cli.run import run_connected
from piecework_orchestrator.cli.table import Column, Document
from piecework_orchestrator.reading.job_documents import require_job
from piecework_orchestrator.reading.times import count
from piecework_orchestrator.results.difference import Totals, differences

#: Rows that a person reads on one page.
TABLE_ROWS = 100


def side_cell(name: str) -> Any:
    """Return the cell of a side: its result, or how it ended without one."""

    def cell(row: Document) -> str:
        side = row[name]
        if side is None:
            return "not ended, or no such chunk"
        if side["status"] != "SUCCEEDED":
            return f"{side['status']} {side['error_code']}".strip()
        return json.dumps(side["value"], ensure_ascii=False)

    return cell


def code_cell(row: Document) -> str:
    """Return the code versions of both sides, or the one that made both."""
    found = [(row[name] or {}).get("code_version") or "?" for name in ("one", "other")]
    return found[0] if found[0] == found[1] else " / ".join(found)


def spent_text(paid: int, usd: float) -> str:
    """Return the paid calls of a job, and their cost if any of it is known."""
    cost = f"{usd:.2g} USD" if usd else "no price known"
    return count(paid, "call") + (f" ({cost})" if paid else "")


def diff_jobs(
    one: JobArgument,
    other: Annotated[
        str,
        typer.Argument(
            metavar="OTHER",
            help="The job to compare it with.",
            show_default=False,
            autocompletion=complete_job,
        ),
    ],
    output: OutputOption = Format.TABLE,
) -> None:
    """Compare two jobs: the chunks whose results differ, with code and cost.

    Chunks of one number are compared, so submit the same rows in the same order.
    """

    async def run(rt: Runtime, out: Output) -> None:
        left, right = await require_job(rt, one), await require_job(rt, other)
        totals, listed = Totals(), list[Document]()
        async for row in differences(rt, left, right, totals):
            if out.format is Format.JSONL:
                out.stdout.write(encode(row, out.format))
            elif not out.table or len(listed) < TABLE_ROWS:
                listed.append(row)
        if out.format is not Format.JSONL:
            columns = [
                Column("CHUNK", "chunk", right=True),
                Column("LABEL", "label", shrinks=True, drops=2),
                Column(one.upper()[:20], side_cell("one"), folds=True),
                Column(other.upper()[:20], side_cell("other"), folds=True),
                Column("CODE", code_cell, shrinks=True, drops=1),
            ]
            out.rows(listed, columns, "no chunk differs")
        if totals.different > len(listed) and out.table:
            out.say(f"only the first {len(listed)} are listed; -o jsonl lists all")
        spent = map(spent_text, totals.paid, totals.usd)
        out.say(
            f"{totals.different:,} differ, {totals.same:,} are the same; "
            f"paid: {' and '.join(spent)}"
        )
        if left.pipeline != right.pipeline:
            pipelines = f"{left.pipeline} and {right.pipeline}"
            out.say(f"warning: the jobs have different pipelines, {pipelines}")
        if totals.other_rows:
            chunks = count(totals.other_rows, "chunk")
            out.say(f"warning: {chunks} had another row in the other job")

    run_connected(run, output)
