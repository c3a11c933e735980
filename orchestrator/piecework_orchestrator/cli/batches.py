"""`batches`: list the batches of providers, show one, cancel it, or go direct."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from piecework.explain.batches import BatchFacts
from piecework_orchestrator.cli.completion import complete_job
from piecework_orchestrator.cli.options import (
    Format,
    OutputOption,
    ReasonOption,
    YesOption,
)
from piecework_orchestrator.cli.output import Output, facts
from piecework_orchestrator.cli.run import confirm, run_client, run_reading
from piecework_orchestrator.cli.table import Column, print_table
from piecework_orchestrator.client import Client
from piecework_orchestrator.operate import batches
from piecework_orchestrator.reading.times import count, format_ago

BatchArgument = Annotated[
    str,
    typer.Argument(
        help="The provider's id of the batch, or its digest.", show_default=False
    ),
]
ModelOption = Annotated[
    str,
    typer.Option(metavar="MODEL", help="Only of this model.", show_default="all"),
]
DryRunOption = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what would be done, change nothing."),
]
#: Seconds until a worker sees what an operator wants.
SEEN_WITHIN_S = 25
#: Jobs that a row of the table names.
NAMED = 3


def list_batches(
    job: Annotated[
        str,
        typer.Option(
            metavar="JOB",
            help="Only batches with requests of this job.",
            autocompletion=complete_job,
            show_default="all",
        ),
    ] = "",
    model: ModelOption = "",
    all_: Annotated[
        bool,
        typer.Option("--all", help="Include the last 100 of each model that ended."),
    ] = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """List the batches that are open, and what is gathered for the next ones."""
    wanted = batches.Wanted(job, model, ended=all_)

    async def run(rt: Any, out: Output) -> None:
        found = await batches.list_batches(rt, wanted)
        which = "no batch is known" if all_ else "no batch is open"
        out.rows(found, columns(rt.clock()), f"{which}, and nothing is gathered")
        named = [each["batch"] or each["digest"] for each in found if each["digest"]]
        if out.table and named:
            out.say(f"next: piecework batches show {named[0]}")

    run_reading(run, output)


def show_batch(batch: BatchArgument, output: OutputOption = Format.TABLE) -> None:
    """Show a batch: its jobs and chunks, its polls, and why it waits."""

    async def run(rt: Any, out: Output) -> None:
        found = await batches.show_batch(rt, batch)
        out.document(found, lambda console: draw(console, found, rt.clock()))
        if out.table and not found["ended_at"]:
            out.say(f"next: piecework batches direct {batch} --dry-run")

    run_reading(run, output)


def cancel_batch(
    batch: BatchArgument,
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Cancel a batch: what it has answered is taken, the rest goes on.

    The rest is asked for in a next batch if half of `within` is left; else it goes
    direct. What the provider answers before it has cancelled is paid.
    """

    async def run(client: Client, out: Output) -> None:
        found = await batches.require_open(client.runtime, batch)
        rest = f"{batches.rest_text(found)} ask again or go direct"
        if dry_run:
            tell_dry(out, [found], f"cancelled; {rest}")
            return
        await confirm(f"Cancel {found.name} ({rest})", out, yes=yes)
        show_done(out, [await client.cancel_batch(batch, reason)])

    run_client(run, output)


def send_direct(
    batch: Annotated[
        str,
        typer.Argument(
            help="The provider's id of a batch, or its digest.",
            show_default="what is gathered",
        ),
    ] = "",
    model: ModelOption = "",
    reason: ReasonOption = "",
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    output: OutputOption = Format.TABLE,
) -> None:
    """Let gathered requests go direct, or the calls of a batch: at the full price.

    A batch is cancelled first, and what it has answered is taken.
    """

    async def run(client: Client, out: Output) -> None:
        found = await batches.to_send(client.runtime, batch, model)
        if not found:
            out.rows([], [], "nothing is gathered; next: piecework batches list")
            return
        rest = ", ".join(map(batches.rest_text, found))
        if dry_run:
            tell_dry(out, found, f"sent direct: {rest}, at the full price")
            return
        what = found[0].name if batch else "the gathered requests"
        await confirm(f"Let {what} go direct, at the full price ({rest})", out, yes=yes)
        done = await client.send_direct(batch, model, reason)
        show_done(out, done)

    run_client(run, output)


def tell_dry(out: Output, found: Sequence[BatchFacts], what: str) -> None:
    """Show what would be done."""
    shown = [each.document for each in found]
    out.rows(shown, columns(found[0].now), "")
    out.say(f"would be {what}; nothing was changed")


def show_done(out: Output, done: Sequence[Mapping[str, Any]]) -> None:
    """Write what was asked of collectors, and when they do it."""
    shown = [
        Column("MODEL", "model"),
        Column("BATCH", batch_text),
        Column("ROWS", "rows", right=True),
        Column("WANTED", "wanted"),
    ]
    out.rows(done, shown, "nothing was gathered any more")
    if not out.table or not done:
        return
    within = f"a worker with the model does this within {SEEN_WITHIN_S} seconds"
    ends = "; the provider may take minutes to cancel" if done[0]["batch"] else ""
    out.say(f"{within}{ends}")
    if any(each["stranded"] for each in done):
        out.say("no worker with the model runs; next: piecework worker --help")
    name = done[0]["batch"] or done[0]["digest"]
    follows = f"piecework batches show {name}" if name else "piecework batches list"
    out.say(f"next: {follows}")


def columns(now: float) -> list[Column]:
    """Return the columns of a list of batches."""
    return [
        Column("MODEL", "model"),
        Column("PROVIDER", "provider", drops=3),
        Column("BATCH", batch_text, shrinks=True),
        Column("PHASE", "phase"),
        Column("ROWS", rows_text, right=True),
        Column("ANSWERED", number("answered"), right=True),
        Column("FAILED", number("failed"), right=True, drops=4),
        Column("SINCE", ago("since", now), drops=2),
        Column("EXPECTED", ago("expected_at", now)),
        Column("DIRECT FROM", direct_from(now), drops=1),
        Column("JOBS", jobs_text, shrinks=True),
    ]


def draw(console: Console, found: Mapping[str, Any], now: float) -> None:
    """Draw a batch."""
    polls = count(found["polls"], "time") if found["polls"] else "not yet"
    next_at = format_ago(found["next_at"], now)
    wanted = " ".join(filter(None, (found["wanted"], by_text(found))))
    shown = [
        ("batch", found["batch"] or "its id is not known yet"),
        ("digest", found["digest"]),
        ("model", found["model"]),
        ("provider", found["provider"]),
        ("phase", found["phase"]),
        ("why", found["why"]),
        ("rows", f"{found['rows']:,}"),
        ("answered", f"{found['answered']:,}"),
        ("failed", f"{found['failed']:,}" if found["failed"] else ""),
        ("unreadable", f"{found['unreadable']:,}" if found["unreadable"] else ""),
        ("planned", moment_text(found["since"], now)),
        ("asked", f"{polls}{f', next {next_at}' if next_at else ''}"),
        ("expected", moment_text(found["expected_at"], now)),
        ("direct from", "" if found["ended_at"] else moment_text(found["until"], now)),
        ("ended", moment_text(found["ended_at"], now)),
        ("wanted", wanted),
    ]
    console.print(facts(shown))
    jobs = [
        Column("JOB", "job"),
        Column("CHUNKS", "chunks", right=True),
        Column("ROWS", "rows", right=True),
        Column("NUMBERS", "chunk_numbers", shrinks=True),
    ]
    if found["jobs"]:
        console.print()
        print_table(console, found["jobs"], jobs[:1] if found["ended_at"] else jobs)
    if found["more_jobs"]:
        console.print(f"and {count(found['more_jobs'], 'job')} more")


def by_text(found: Mapping[str, Any]) -> str:
    """Return the operator of an act, and the reason."""
    if not found["wanted_by"]:
        return ""
    why = f": {found['wanted_why']}" if found["wanted_why"] else ""
    return f"by {found['wanted_by']}{why}"


def moment_text(at: str, now: float) -> str:
    """Return a moment, and how far it is; empty for none."""
    return f"{at}  ({format_ago(at, now)})" if at else ""


def batch_text(row: Mapping[str, Any]) -> str:
    """Return the id of a batch, or what it is called until it has one."""
    return row["batch"] or (f"{row['digest'][:12]} (digest)" if row["digest"] else "-")


def rows_text(row: Mapping[str, Any]) -> str:
    """Return the rows; of many gathered ones, at least so many."""
    return f"{row['rows']:,}{'' if row['complete'] else '+'}"


def jobs_text(row: Mapping[str, Any]) -> str:
    """Return the first jobs, and how many there are beside."""
    names = ", ".join(each["job"] for each in row["jobs"][:NAMED])
    more = len(row["jobs"]) + row["more_jobs"] - NAMED
    return f"{names} and {more} more" if more > 0 else names


def number(name: str) -> Callable[[Mapping[str, Any]], str]:
    """Return the text of a number of a batch; of what is gathered `-`."""
    return lambda row: f"{row[name]:,}" if row["digest"] else "-"


def direct_from(now: float) -> Callable[[Mapping[str, Any]], str]:
    """Return from when the calls of a batch go direct; `-` of one that has ended."""
    return lambda row: "-" if row["ended_at"] else format_ago(row["until"], now)


def ago(name: str, now: float) -> Callable[[Mapping[str, Any]], str]:
    """Return how far a moment is; `-` for none."""
    return lambda row: format_ago(row[name], now) or "-"
